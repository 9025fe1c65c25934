"""What the rows of a graph hold before the first layer: one row for each vertex, or one for each token of its edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from regard.circuits.graphs import ASK, EDGE, END, Graph, bits
from regard.circuits.layers import Array, Residual

# A vocabulary is a whole number of these: kernels are compiled for a width, and so graphs of near sizes share them.
LANES = 16


class Embedding(NamedTuple):
    """Rows before the first layer."""

    residual: Residual
    names: tuple[str, ...]  # of the rows
    at: Array  # (T,) the place of a row's vertex, or -1
    asks: bool  # whether the last row asks
    vertices: Array  # (vocabulary,) 1 for a vertex, 0 for a sign and for what fills up the width
    places: tuple[slice, slice, slice] | None  # within the position: own address, that of the source, of the target


def addresses(count: int) -> Array:
    """So many places in binary, digits of ±1: two that differ, differ in their product with each by 2 or more.

    >>> addresses(3).tolist()
    [[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]
    """
    digits = np.arange(count)[:, None] >> np.arange(bits(count)) & 1  # (T, digits)
    return (2 * digits - 1).astype(np.float32)


def vocabulary(tokens: int) -> int:
    """The width of a block for so many tokens.

    >>> vocabulary(1), vocabulary(16), vocabulary(17)
    (16, 16, 32)
    """
    return -(-tokens // LANES) * LANES


def vertex_rows(graph: Graph, back: bool = False) -> Embedding:
    """One row for each vertex, which knows its edges, and one that asks.

    >>> vertex_rows(Graph(("a", "b"), ((0, 1),))).residual.reach[:, :2].tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    n, asks = len(graph.vertices), graph.query is not None
    token = np.eye(n + asks, vocabulary(n + asks), dtype=np.float32)  # (T, vocabulary): the sign P comes last
    reach, predecessor = token.copy(), np.zeros_like(token)
    for u, v in graph.edges:
        reach[u, v] = predecessor[v, u] = 1
    others = np.maximum(token, predecessor) if back else None
    if graph.query is not None:
        s, g = graph.query
        predecessor[n, s] = reach[n, g] = 1
    names = (*map(graph.name, range(n)), *([END] if asks else []))
    at = np.arange(n + asks)
    at[n:] = -1
    residual = Residual(token, reach, predecessor, addresses(n + asks), others)
    return Embedding(residual, names, at, asks, (np.arange(token.shape[1]) < n).astype(np.float32), None)


def edge_rows(graph: Graph, back: bool = False) -> Embedding:
    """One row for each token of `E u v E u v … Q s g P`. They know their tokens and the addresses that they look up.

    >>> edge_rows(Graph(("a", "b"), ((0, 1),), query=(0, 1))).names
    ('E', 'a', 'b', 'Q', 'a', 'b', 'P')
    """
    n = len(graph.vertices)
    signs = {EDGE: n, ASK: n + 1, END: n + 2}
    rows = [x for u, v in graph.edges for x in (signs[EDGE], u, v)]
    if graph.query is not None:
        rows += [signs[ASK], *graph.query, signs[END]]
    which = np.array(rows, np.int64)  # (T,)
    count, edges = len(rows), 3 * len(graph.edges)
    token = np.zeros((count, vocabulary(n + 3)), np.float32)
    token[np.arange(count), which] = 1
    # Whom a row looks up: the first row, a sign, stands for no source, and a row itself for no target.
    source, target = np.zeros(count, np.int64), np.arange(count)
    source[2:edges:3] = np.arange(1, edges, 3)
    target[1:edges:3] = np.arange(2, edges, 3)
    if graph.query is not None:
        source[-1], target[-1] = count - 3, count - 2
    own = addresses(count)
    digits = own.shape[1]
    position = np.concatenate([own, own[source], own[target]], axis=1)  # (T, 3 · digits)
    names = [*map(graph.name, range(n)), EDGE, ASK, END]
    residual = Residual(token, token.copy(), np.zeros_like(token), position, token.copy() if back else None)
    places = (slice(0, digits), slice(digits, 2 * digits), slice(2 * digits, 3 * digits))
    vertices = (np.arange(token.shape[1]) < n).astype(np.float32)
    at = np.where(which < n, which, -1)
    return Embedding(residual, tuple(names[i] for i in rows), at, graph.query is not None, vertices, places)
