"""What each question means, written out over a whole matrix in float64, with loops and without shortcuts.

A is (heads, n_q, n_k) with 0 where hidden; `visible` is boolean; `q` and `k` are positions. A NaN that a question reads
makes its answer NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def quiet(function: Any) -> Any:
    """NaN and inf are meant."""

    def quietly(*arguments: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments, **options)

    return quietly


@quiet
def entropy(a: Array) -> Array:
    logs = np.log(a, out=np.zeros_like(a), where=a != 0)  # 0 ln 0 is 0
    return -(a * logs).sum(-1)


@quiet
def effective(a: Array) -> Array:
    return np.where(a.sum(-1) == 0, 0, np.exp(entropy(a)))


def total(a: Array) -> Array:
    return a.sum(-1)


def top(a: Array, visible: Array, k: int) -> tuple[Array, Array]:
    heads, n_q, _ = a.shape
    weights, keys = np.zeros((heads, n_q, k)), np.full((heads, n_q, k), -1)
    for h in range(heads):
        for i in range(n_q):
            if np.isnan(a[h, i]).any():
                weights[h, i] = np.nan
                continue
            best = sorted(np.flatnonzero(visible[h, i]), key=lambda j: (-a[h, i, j], j))[:k]
            weights[h, i, : len(best)] = a[h, i, best]
            keys[h, i, : len(best)] = best
    return weights, keys


@quiet
def received(
    a: Array, visible: Array, queries: Any = None, per: str = "sum", group: int = 0, pool: tuple[str, int] | None = None
) -> Array:
    """`queries` are numbers; `group` is how many query heads share a key head, if they are to be added up."""
    _, n_q, n_k = a.shape
    rows = range(n_q) if queries is None else sorted(set(queries))
    mass = np.array([[head[i] for i in rows] for head in a]).reshape(len(a), len(rows), n_k).sum(1)
    seen = np.array([[head[i] for i in rows] for head in visible]).reshape(len(a), len(rows), n_k).sum(1)
    count = len(rows)
    if group:
        mass, seen = (x.reshape(len(a) // group, group, n_k).sum(1) for x in (mass, seen))
        count *= group
    if per == "mean":
        mass = mass / max(count, 1)
    if per == "visible":
        mass = np.where(seen == 0, 0, mass / seen)
    if pool is None:
        return mass
    kind, width = pool
    smooth = np.empty_like(mass)
    for j in range(n_k):
        near = mass[:, max(0, j - width // 2) : j + width // 2 + 1]
        smooth[:, j] = near.sum(1) / width if kind == "mean" else near.max(1)
    return smooth


@quiet
def by_distance(a: Array, visible: Array, q: Array, k: Array, per: str = "sum") -> tuple[Array, Array, Array]:
    apart = q[:, None] - k  # (n_q, n_k)
    if not apart.size:
        return np.zeros(0, int), np.zeros((len(a), 0)), np.zeros((len(a), 0), int)
    distances = np.arange(apart.min(), apart.max() + 1)
    mass = np.stack([np.array([head[apart == t].sum() for t in distances]) for head in a] or [np.zeros(0)])
    cells = np.stack([np.array([head[apart == t].sum() for t in distances]) for head in visible] or [np.zeros(0, int)])
    if not len(a):
        mass, cells = np.zeros((0, len(distances))), np.zeros((0, len(distances)), int)
    if per == "visible":
        mass = np.where(cells == 0, 0, mass / cells)
    return distances, mass, cells


@quiet
def distance(a: Array, q: Array, k: Array) -> Array:
    whole = a.sum((1, 2))
    return np.where(whole == 0, 0, (a * abs(q[:, None] - k)).sum((1, 2)) / whole)


def between(a: Array, rows: Array, columns: Array, many: tuple[int, int], per: str = "query") -> Array:
    """`rows` and `columns` are the groups of queries and keys, -1 for none; `many`, how many of each there are."""
    result = np.zeros((len(a), *many))
    for r in range(many[0]):
        for c in range(many[1]):
            part = a[:, rows == r][:, :, columns == c].sum((1, 2))
            result[:, r, c] = part / max(1, (rows == r).sum()) if per == "query" else part
    return result


@quiet
def heatmap(
    a: Array, visible: Array, rows: int, columns: int, pool: str, of: str, region: tuple[int, int, int, int] | None
) -> Array:
    if region is not None:
        top, bottom, left, right = region
        a, visible = a[:, top:bottom, left:right], visible[:, top:bottom, left:right]
    n, m = a.shape[1:]
    rows, columns = min(rows, n), min(columns, m)
    result = np.empty((len(a), rows, columns))
    for r in range(rows):
        for c in range(columns):
            here = np.s_[:, r * n // rows : (r + 1) * n // rows, c * m // columns : (c + 1) * m // columns]
            part, seen = a[here], visible[here].sum((1, 2))
            if pool == "max":
                result[:, r, c] = part.max((1, 2))
            else:
                result[:, r, c] = part.sum((1, 2))
            if pool == "mean":
                result[:, r, c] /= seen if of == "visible" else part[0].size if len(a) else 1
            if pool != "sum" and of == "visible":
                result[seen == 0, r, c] = np.nan
    return result


@quiet
def mass(a: Array, inside: Array) -> tuple[Array, Array]:
    part, whole = np.where(inside, a, 0).sum(-1), a.sum(-1)
    heads, all_of = part.sum(-1), whole.sum(-1)
    return np.where(whole == 0, 0, part / whole), np.where(all_of == 0, 0, heads / all_of)
