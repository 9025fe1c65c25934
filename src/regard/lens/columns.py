"""Questions about where weight goes: to which key, how far, of query groups on key groups, to which part of a map."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from regard.errors import ShapeError
from regard.lens.question import Array, Block, Layout, set_whole, summed, whole


class Summed:
    """A state of sums."""

    def merge(self, a: Any, b: Any) -> Any:
        return tuple(x + y for x, y in zip(a, b, strict=True))


def _choice(name: str, given: Any, allowed: tuple[Any, ...]) -> None:
    if given not in allowed:
        raise ValueError(f"{name} is {given!r}, expected {' or '.join(map(repr, allowed))}")


@dataclass(frozen=True)
class Received(Summed):
    """The weight that each key receives.

    `per`: "sum" over the queries, their "mean", or the mean over those that can see the key ("visible"). `queries`
    chooses queries (a slice, indices or booleans). `group="kv"` adds up the query heads of a key head. `pool=(kind,
    width)` smooths over neighbouring keys, "mean" or "max" of an odd width, with nothing beyond the ends, as SnapKV
    does.
    """

    queries: Any = None
    per: Literal["sum", "mean", "visible"] = "sum"
    group: Literal["kv"] | None = None
    pool: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        _choice("per", self.per, ("sum", "mean", "visible"))
        _choice("group", self.group, (None, "kv"))
        if self.pool is not None:
            if not isinstance(self.pool, (tuple, list)) or len(self.pool) != 2:
                raise ValueError(f"pool is {self.pool!r}, expected a kind and a width: pass ('mean', 5) or ('max', 5)")
            kind, given = self.pool
            _choice("the kind of pool", kind, ("mean", "max"))
            width = whole(given)
            if width is None or width < 1 or width % 2 == 0:
                raise ValueError(f"the width of pool is {given!r}, expected an odd number of keys, 1 or more")
            object.__setattr__(self, "pool", (kind, width))

    def chosen(self, n_q: int) -> np.ndarray[Any, Any] | None:
        """Which queries count, as booleans; None for all."""
        if self.queries is None:
            return None
        chosen = np.zeros(n_q, np.bool_)
        try:
            which = self.queries if isinstance(self.queries, slice) else np.asarray(self.queries)
            chosen[which if isinstance(which, slice) or which.size else []] = True
        except IndexError as error:
            raise ShapeError(f"queries cannot choose from {n_q} queries ({error}): pass a slice or indices") from None
        return chosen

    def create(self, layout: Layout) -> Any:
        return layout.zeros(layout.n_k), layout.counts(layout.n_k)

    def update(self, state: Any, block: Block) -> Any:
        xp, a, seen = block.xp, block.wide, block.seen()
        chosen = self.chosen(block.layout.n_q)
        if chosen is not None:
            which = block.layout.array(chosen[block.rows.start : block.rows.stop])[None, :, None]
            a, seen = xp.where(which, a, xp.zeros_like(a)), seen & which
        return state[0] + xp.sum(a, axis=-2), state[1] + xp.sum(xp.astype(seen, xp.int64), axis=-2)

    def finalize(self, state: Any, layout: Layout) -> Array:
        xp = layout.xp
        mass, seen = state[0], xp.astype(state[1], layout.number)
        chosen = self.chosen(layout.n_q)
        queries = layout.n_q if chosen is None else int(chosen.sum())
        if self.group == "kv":
            shape = (layout.heads // layout.group, layout.group, layout.n_k)
            mass, seen = xp.sum(xp.reshape(mass, shape), axis=1), xp.sum(xp.reshape(seen, shape), axis=1)
            queries *= layout.group
        if self.per == "mean":
            mass = mass / max(1, queries)
        elif self.per == "visible":
            mass = xp.where(seen == 0, xp.zeros_like(mass), mass / xp.where(seen == 0, xp.ones_like(seen), seen))
        if self.pool is None:
            return mass
        kind, width = self.pool
        beyond = xp.full((mass.shape[0], width // 2), 0.0 if kind == "mean" else -xp.inf, dtype=mass.dtype)
        padded = xp.concat([beyond, mass, beyond], axis=-1)
        moved = xp.stack([padded[:, i : i + layout.n_k] for i in range(width)], axis=0)
        return xp.sum(moved, axis=0) / width if kind == "mean" else xp.max(moved, axis=0)


class Distances(NamedTuple):
    """Mass by distance, position of the query less that of the key."""

    distances: Array
    mass: Array
    visible: Array


def span(layout: Layout) -> tuple[int, int]:
    """The least distance of a matrix, and how many there are up to the largest."""
    if not layout.n_q or not layout.n_k:
        return 0, 0
    xp = layout.xp
    least = int(xp.min(layout.q)) - int(xp.max(layout.k))
    return least, int(xp.max(layout.q)) - int(xp.min(layout.k)) - least + 1


@dataclass(frozen=True)
class ByDistance(Summed):
    """(distances, mass, visible cells): the mass at each distance, its sum, or by visible cell with per="visible"."""

    per: Literal["sum", "visible"] = "sum"
    shared = ("distances",)

    def __post_init__(self) -> None:
        _choice("per", self.per, ("sum", "visible"))

    def create(self, layout: Layout) -> Any:
        count = span(layout)[1]
        return layout.zeros(count), layout.counts(count)

    def update(self, state: Any, block: Block) -> Any:
        xp, layout = block.xp, block.layout
        if not layout.n_k:
            return state
        least, _ = span(layout)
        last = int(xp.max(layout.k))
        # Every row is turned, so that distance grows along it, and moved to where it begins.
        order = xp.argsort(-layout.k)
        turned = xp.take(layout.k, order)
        dense = bool(xp.all(turned[:-1] - turned[1:] == 1))
        a, s = block.wide, xp.astype(block.seen(), xp.int64)
        total, number = state
        for r, q in enumerate(block.q):
            at = int(q) - last - least
            if dense:
                mass, seen = xp.take(a[:, r, :], order, axis=-1), xp.take(s[:, r, :], order, axis=-1)
                places: Any = slice(at, at + layout.n_k)
                total = _added(xp, total, places, mass)
                number = _added(xp, number, places, seen)
            else:  # keys with gaps between them
                for j in range(layout.n_k):
                    place = int(q) - int(layout.k[j]) - least
                    total = _added(xp, total, slice(place, place + 1), a[:, r, j : j + 1])
                    number = _added(xp, number, slice(place, place + 1), s[:, r, j : j + 1])
        return total, number

    def finalize(self, state: Any, layout: Layout) -> Distances:
        xp = layout.xp
        mass, seen = state
        least, count = span(layout)
        if self.per == "visible":
            cells = xp.astype(seen, layout.number)
            mass = xp.where(seen == 0, xp.zeros_like(mass), mass / xp.where(seen == 0, xp.ones_like(cells), cells))
        return Distances(xp.arange(least, least + count, device=layout.device), mass, seen)


@dataclass(frozen=True)
class Distance(ByDistance):
    """The mean |position of the query - position of the key| of each head's weight."""

    def finalize(self, state: Any, layout: Layout) -> Array:
        xp = layout.xp
        found = super().finalize(state, layout)
        size = xp.astype(xp.abs(found.distances), layout.number)
        total = xp.sum(found.mass, axis=-1)
        far = xp.sum(found.mass * size, axis=-1)
        return xp.where(total == 0, xp.zeros_like(far), far / xp.where(total == 0, xp.ones_like(total), total))


def _added(xp: Any, state: Array, at: slice, more: Array) -> Array:
    if isinstance(state, np.ndarray):  # others may not be written to
        state[:, at] += more
        return state
    return xp.concat([state[:, : at.start], state[:, at] + more, state[:, at.stop :]], axis=1)


def groups_of(name: str, given: Any, n: int) -> tuple[np.ndarray[Any, Any], int]:
    """A group for each of n places, -1 for none, and how many groups there are: from numbers, or from (start, stop)
    spans."""
    array = np.asarray(given)
    if array.ndim == 2 and array.shape[-1] == 2:
        numbers = np.full(n, -1, np.int64)
        for group, (start, stop) in enumerate(array.tolist()):
            if not 0 <= start <= stop <= n:
                raise ShapeError(f"{name} has the span ({start}, {stop}), expected one within 0 and {n}")
            if (numbers[start:stop] >= 0).any():
                raise ShapeError(f"{name} has spans that overlap at ({start}, {stop}), expected each place in one")
            numbers[start:stop] = group
        return numbers, len(array)
    if array.dtype.kind not in "iu" or array.shape != (n,):
        raise ShapeError(
            f"{name} has shape {array.shape} and dtype {array.dtype}, expected {n} whole numbers, "
            "or (start, stop) spans"
        )
    numbers = np.maximum(array.astype(np.int64), -1)
    return numbers, int(numbers.max(initial=-1)) + 1


@dataclass(frozen=True)
class Between(Summed):
    """Group to group: the mean over a group's queries of the weight on a group's keys, so that rows sum to 1.

    Groups are a number for each place, negative for none, or (start, stop) spans. `per="sum"` adds queries up.
    """

    query_groups: Any
    key_groups: Any = None
    per: Literal["query", "sum"] = "query"

    def __post_init__(self) -> None:
        _choice("per", self.per, ("query", "sum"))

    def groups(self, layout: Layout) -> tuple[tuple[Any, int], tuple[Any, int]]:
        """(group of each query, how many), (group of each key, how many)."""
        keys = self.query_groups if self.key_groups is None else self.key_groups
        return groups_of("query_groups", self.query_groups, layout.n_q), groups_of("key_groups", keys, layout.n_k)

    def create(self, layout: Layout) -> Any:
        (_, rows), (_, columns) = self.groups(layout)
        return (layout.zeros(rows, columns),)

    def update(self, state: Any, block: Block) -> Any:
        xp, layout = block.xp, block.layout
        (ours, rows), (theirs, columns) = self.groups(layout)
        left = layout.array(ours[None, block.rows.start : block.rows.stop] == np.arange(rows)[:, None], layout.number)
        right = layout.array(theirs[:, None] == np.arange(columns), layout.number)
        return (state[0] + summed(xp, left, block.wide, right),)  # (rows, r) · (heads, r, n_k) · (n_k, columns)

    def finalize(self, state: Any, layout: Layout) -> Array:
        (ours, rows), _ = self.groups(layout)
        if self.per == "sum":
            return state[0]
        sizes = np.bincount(ours[ours >= 0], minlength=rows)[:rows]
        return state[0] / layout.array(np.maximum(sizes, 1), layout.number)[None, :, None]


def edges_of(n: int, size: int) -> np.ndarray[Any, Any]:
    """Where the bins of n places begin: bin r is ⌊r·n/size⌋ … ⌊(r + 1)·n/size⌋ - 1."""
    return np.arange(size + 1, dtype=np.int64) * n // max(1, size)


@dataclass(frozen=True)
class Heatmap(Summed):
    """The whole matrix, or a region (first row, last row + 1, first key, last key + 1), at any resolution.

    `pool`: the "mean" of the cells of a bin, over the `of="visible"` ones (NaN where there is none) or over "all"; the
    "max" of them; or their "sum", which keeps the mass. More bins than cells are cut to the cells.
    """

    rows: int
    columns: int | None = None
    pool: Literal["mean", "max", "sum"] = "mean"
    of: Literal["visible", "all"] = "visible"
    region: tuple[int, int, int, int] | None = None

    def __post_init__(self) -> None:
        set_whole(self, "rows", "bins")
        if self.columns is not None:
            set_whole(self, "columns", "bins")
        if self.region is not None:
            ends = tuple(map(whole, self.region)) if isinstance(self.region, Iterable) else ()
            if len(ends) != 4 or None in ends:
                raise ShapeError(
                    f"region is {self.region!r}, expected four whole numbers: pass (first row, end, first key, end)"
                )
            object.__setattr__(self, "region", ends)
        _choice("pool", self.pool, ("mean", "max", "sum"))
        _choice("of", self.of, ("visible", "all"))

    def bins(self, layout: Layout) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """(first, how many, in how many bins) of rows and of keys."""
        top, bottom, left, right = self.region or (0, layout.n_q, 0, layout.n_k)
        if not (0 <= top <= bottom <= layout.n_q and 0 <= left <= right <= layout.n_k):
            raise ShapeError(
                f"region is {self.region}, expected (first row, end, first key, end) within {layout.n_q} × {layout.n_k}"
            )
        columns = self.rows if self.columns is None else self.columns
        return (top, bottom - top, min(self.rows, bottom - top)), (left, right - left, min(columns, right - left))

    def create(self, layout: Layout) -> Any:
        (_, _, rows), (_, _, columns) = self.bins(layout)
        return layout.zeros(rows, columns), layout.zeros(rows, columns)

    def merge(self, a: Any, b: Any) -> Any:
        if self.pool != "max":
            return super().merge(a, b)
        return _largest(a[0], b[0]), a[1] + b[1]

    def update(self, state: Any, block: Block) -> Any:
        xp, layout = block.xp, block.layout
        (top, height, rows), (left, width, columns) = self.bins(layout)
        if not rows or not columns:
            return state
        starts, ends = edges_of(height, rows) + top, edges_of(width, columns) + left
        here = np.arange(block.rows.start, block.rows.stop)
        mine = np.asarray((here[None] >= starts[:-1, None]) & (here[None] < starts[1:, None]))  # (rows, r)
        theirs = np.arange(layout.n_k)
        other = (theirs[:, None] >= ends[:-1]) & (theirs[:, None] < ends[1:])  # (n_k, columns)
        left_of, right_of = layout.array(mine, layout.number), layout.array(other, layout.number)
        seen = xp.matmul(xp.matmul(left_of, xp.astype(block.seen(), layout.number)), right_of)
        if self.pool != "max":
            return state[0] + summed(xp, left_of, block.wide, right_of), state[1] + seen
        best = [layout.zeros(columns)] * rows
        for r in np.flatnonzero(mine.any(1)):
            which = np.flatnonzero(mine[r])
            part = block.wide[:, int(which[0]) : int(which[-1]) + 1, :]
            best[r] = xp.stack([xp.max(part[:, :, a:b], axis=(1, 2)) for a, b in pairwise(ends.tolist())], axis=-1)
        return _largest(state[0], xp.stack(best, axis=1)), state[1] + seen

    def finalize(self, state: Any, layout: Layout) -> Array:
        xp = layout.xp
        value, seen = state
        if self.pool == "sum":
            return value
        if self.pool == "mean":
            cells = seen
            if self.of == "all":
                (_, height, rows), (_, width, columns) = self.bins(layout)
                area = np.diff(edges_of(height, rows))[:, None] * np.diff(edges_of(width, columns))[None]
                return value / layout.array(area[None], layout.number)
            value = value / xp.where(cells == 0, xp.ones_like(cells), cells)
        if self.of == "all":
            return value
        return xp.where(seen == 0, xp.full_like(value, float("nan")), value)


def _largest(a: Array, b: Array) -> Array:
    """The larger of both, NaN where either is."""
    import array_api_compat

    xp = array_api_compat.array_namespace(a, b)
    return xp.maximum(a, b)
