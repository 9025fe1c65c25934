"""Layers of a circuit: what a row holds, one attention over it whose cells can be zeroed, and averages made unions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from regard.attention import attention
from regard.errors import ShapeError
from regard.matrix import AttentionMatrix, matrix

Array = np.ndarray[Any, Any]
SLAB = 256  # rows of A that are built at once where cells are zeroed


class Cell(NamedTuple):
    """One weight of a circuit: in which layer and head, which query looks at which key."""

    layer: int
    head: int
    query: int
    key: int


@dataclass(frozen=True, eq=False)
class Residual:
    """What the rows hold: [token | reach | predecessor | position], each block with an axis of rows before its own."""

    token: Array  # (T, vocabulary) which vertex or sign a row is
    reach: Array  # (T, vocabulary) the set of vertices that it reaches
    predecessor: Array  # (T, vocabulary) the sources of the edges into it
    position: Array  # (T, addresses · digits) its own address, and those that it looks up
    back: Array | None = None  # (T, vocabulary) what reaches it, where reach triples

    @property
    def width(self) -> int:
        return sum(x.shape[1] for x in self._blocks)

    @property
    def _blocks(self) -> list[Array]:
        blocks = [self.token, self.reach, self.predecessor, self.position]
        return blocks if self.back is None else [*blocks, self.back]

    def array(self) -> Array:
        """The blocks side by side, (T, width)."""
        return np.concatenate(self._blocks, axis=1)


def union(y: Array, held: Array, rows: int) -> Array:
    """The union of the matched sets, of which attention gave the average y; what a row held it holds on, for it stays
    in the residual stream: max(held, clip(2·T·y − ½, 0, 1)).

    >>> union(np.array([0.25, 0.01, 0.0]), np.array([0.0, 0.0, 1.0]), rows=4).tolist()
    [1.0, 0.0, 1.0]
    """
    made: Array = y * np.float32(2 * rows)
    made -= np.float32(0.5)
    np.clip(made, 0, 1, out=made)
    return np.maximum(made, held, out=made)


@dataclass(frozen=True, eq=False)
class Layer:
    """One attention of a circuit: softmax(strength · asks · keysᵀ) · values, with scale = 1."""

    name: str
    strength: float  # C, which the queries carry
    asks: Array  # (…, queries, d)
    keys: Array  # (…, T, d)
    values: Array  # (…, T, vocabulary)
    bright: float  # a weight above it is a match: each row's matches share what they have, and no row has more than T
    tokens: tuple[str, ...]
    modify: Any = None
    mask: Any = None
    sinks: Array | None = None
    removed: Array | None = None  # (cells, 3): head, query, key of the cells that are zeroed

    def _options(self) -> dict[str, Any]:
        return {"scale": 1.0, "modify": self.modify, "mask": self.mask, "sinks": self.sinks}

    @property
    def q(self) -> Array:
        """The queries: C · asks."""
        made: Array = self.asks * np.float32(self.strength)
        return made

    @cached_property
    def matrix(self) -> AttentionMatrix:
        """A, before any cell is zeroed."""
        named = self.tokens[-self.asks.shape[-2] :]  # one that asks last looks at all
        return matrix(self.q, self.keys, v=self.values, tokens=named, key_tokens=self.tokens, **self._options())

    @property
    def heads(self) -> int:
        return 1 if self.asks.ndim == 2 else len(self.asks)

    def output(self) -> Array:
        """A · V, (…, queries, vocabulary), without what the zeroed cells would have brought."""
        z: Array = attention(self.q, self.keys, self.values, **self._options())
        if self.removed is not None and len(self.removed):
            rows = z.reshape(self.heads, -1, z.shape[-1])  # (heads, queries, vocabulary), the same memory
            values = self.values.reshape(-1, *self.values.shape[-2:])  # (heads or 1, T, vocabulary)
            for head in range(self.heads):
                here = self.removed[self.removed[:, 0] == head]
                for row, a in self._zeroed(head, here[:, 1], here[:, 2]):
                    rows[head, row] = a @ values[head % len(values)]
        return z

    def _zeroed(self, head: int, queries: Array, keys: Array) -> Any:
        """The rows of A that have zeroed cells, some at a time: their places, and their weights with the zeros."""
        order = np.argsort(queries, kind="stable")
        queries, keys = queries[order], keys[order]
        rows = np.unique(queries)
        for at in range(0, len(rows), SLAB):
            some = rows[at : at + SLAB]
            a = np.array(self.matrix[some] if self.asks.ndim == 2 else self.matrix[head, some])  # (some, T)
            first, last = np.searchsorted(queries, some[0]), np.searchsorted(queries, some[-1], side="right")
            a[np.searchsorted(some, queries[first:last]), keys[first:last]] = 0
            yield some, a

    def cells(self) -> Array:
        """The bright cells as (cells, 3): head, query, key."""
        found = self.matrix.cells(above=self.bright, limit=self.matrix.size)
        return np.stack([found.head, found.query, found.key], axis=-1).astype(np.int64)

    def checked(self, cells: Array) -> Array:
        """Cells (head, query, key) that lie within A."""
        most = (self.heads, self.asks.shape[-2], self.keys.shape[-2])
        if ((cells < 0) | (cells >= most)).any():
            raise ShapeError(
                f"a cell of layer '{self.name}' lies outside {' × '.join(map(str, most))}, expected head, query and "
                "key within it: take cells from circuit.cells()"
            )
        return cells


def by_layer(cells: Any, count: int) -> dict[int, Array]:
    """Cells (layer, query, key) or (layer, head, query, key) as arrays (cells, 3) of head, query, key for each layer.

    >>> by_layer([(1, 4, 5)], 2)[1].tolist()
    [[0, 4, 5]]
    """
    given = np.asarray(cells if isinstance(cells, np.ndarray) else list(cells))
    if given.size == 0:
        return {}
    if given.dtype.kind not in "iu" or given.ndim != 2 or given.shape[1] not in (3, 4):
        raise ShapeError(
            f"cells have shape {given.shape} and dtype {given.dtype}, expected whole numbers (layer, query, key) or "
            "(layer, head, query, key): take them from circuit.cells()"
        )
    if given.shape[1] == 3:
        given = np.insert(given, 1, 0, axis=1)
    layers = given[:, 0]
    if layers.min() < 0 or layers.max() >= count:
        wrong = int(layers.min() if layers.min() < 0 else layers.max())
        raise ShapeError(
            f"a cell is in layer {wrong}, expected one of {count} layers, counted from 0: take cells from "
            "circuit.cells()"
        )
    return {int(i): given[layers == i][:, 1:].astype(np.int64) for i in np.unique(layers)}
