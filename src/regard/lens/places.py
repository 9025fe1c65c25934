"""Patterns as places of A: which cells belong to one, as a mask, and how many of them lie among neighbouring keys.

No mask is ever built: it is an expression of row and key, and cells are counted from sorted keys.

>>> import regard
>>> at = places_of(regard.matrix(np.eye(4), np.eye(4)))
>>> before = diagonal("previous", at, 1)
>>> before.where
mask: ((row - k) == 1)
>>> before.count(np.zeros(4, int), np.arange(1, 5)).tolist()  # each row sees the keys up to its own
[0, 1, 1, 1]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from regard.algebra.expression import Expression, gather, variable
from regard.algebra.masks import Mask, from_array

Array = np.ndarray[Any, Any]
Count = Callable[[Array, Array], Array]
Direction = Literal["back", "both"]


@dataclass(frozen=True, eq=False)
class Places:
    """Positions of queries and keys, as numbers and as expressions.

    `rows` and `columns` are what masks call the queries and keys: their numbers in the whole, if this is a view of it.
    """

    q: Array
    k: Array
    rows: Array
    columns: Array

    @cached_property
    def query(self) -> Expression:
        """The position of a query."""
        return _shifted("row", self.q, self.rows)

    @cached_property
    def key(self) -> Expression:
        """The position of a key."""
        return _shifted("k", self.k, self.columns)

    def of_query(self, values: Array) -> Expression:
        """The value that belongs to a query."""
        return _table("row", values, self.rows)

    def of_key(self, values: Array) -> Expression:
        """The value that belongs to a key."""
        return _table("k", values, self.columns)

    @cached_property
    def dense(self) -> bool:
        """Whether keys follow each other without gaps, so that places are positions."""
        return bool((np.diff(self.k) == 1).all())

    @property
    def first(self) -> int:
        """The position of the first key."""
        return int(self.k[0]) if len(self.k) else 0


def places_of(matrix: Any) -> Places:
    """The places of a matrix, or of a view that keeps the numbers of the whole."""
    q, k = map(np.asarray, matrix.readable().positions)
    if not hasattr(matrix, "pooling"):
        return Places(q, k, np.arange(len(q)), np.arange(len(k)))
    made = matrix.pooling()
    return Places(q, k, np.asarray(made.rows.numbers), np.asarray(made.keys.numbers))


def _shifted(name: str, places: Array, numbers: Array) -> Expression:
    """A position, which is further than its number by always the same."""
    x = variable(name)
    return x + int(places[0] - numbers[0]) if len(places) and places[0] != numbers[0] else x


def _table(name: str, values: Array, numbers: Array) -> Expression:
    """values[variable], which is a number of the whole."""
    if len(values) and not np.array_equal(numbers, np.arange(len(values))):
        whole = np.zeros(int(numbers.max()) + 1, values.dtype)
        whole[numbers] = values
        values = whole
    return gather(values if len(values) else np.zeros(1, values.dtype), [variable(name)])


@dataclass(frozen=True, eq=False)
class Pattern:
    """A named set of cells.

    `count(lo, hi)` is how many cells of each row lie at keys lo … hi - 1, None if only a pass over A can tell. What
    mass lies inside is known from the mass at some `distances`, from what some `keys` receive, from single cells
    (`pairs`), or else from a mask.
    """

    name: str
    where: Any
    count: Count | None = None
    distances: tuple[int, int] | None = None
    keys: Array | None = None
    pairs: Array | None = None


def _overlap(first: Array, stop: Array) -> Count:
    return lambda lo, hi: np.maximum(np.minimum(hi, stop) - np.maximum(lo, first), 0)


def nearby(name: str, at: Places, least: int, most: int) -> Pattern:
    """Keys at a distance of least … most before the query."""
    where = Mask((least <= at.query - at.key) & (at.query - at.key <= most))
    here = at.q - at.first
    return Pattern(name, where, _overlap(here - most, here - least + 1), (least, most))


def diagonal(name: str, at: Places, distance: int) -> Pattern:
    """The key at one distance before the query."""
    known = nearby(name, at, distance, distance)
    return Pattern(name, Mask(at.query - at.key == distance), known.count, known.distances)


def columns(name: str, at: Places, keys: Array) -> Pattern:
    """Some keys, whatever the query; given as a boolean for each."""
    before = np.concatenate([[0], np.cumsum(keys)])
    return Pattern(name, Mask(at.of_key(keys)), lambda lo, hi: before[hi] - before[lo], keys=keys)


def aligned(name: str, at: Places) -> Pattern:
    """Keys j whose part of their sequence, j/n_k … (j + 1)/n_k, overlaps that of the query in its own."""
    n_q, n_k = len(at.q), len(at.k)
    i = np.arange(n_q)
    first, stop = i * n_k // max(1, n_q), -(-(i + 1) * n_k // max(1, n_q))
    row, k = at.of_query(i), at.of_key(np.arange(n_k))
    return Pattern(name, Mask((row * n_k < (k + 1) * n_q) & (k * n_q < (row + 1) * n_k)), _overlap(first, stop))


def duplicates(name: str, at: Places, ours: Array, theirs: Array, direction: Direction) -> Pattern:
    """Keys that are the same token as the query, and are not the query itself."""
    back = direction == "back"
    limit = at.key < at.query if back else at.key != at.query
    return _alike(name, at, ours, theirs, limit, at.q if back else None, None if back else at.q)


def induction(name: str, at: Places, ours: Array, theirs: Array, direction: Direction) -> Pattern:
    """Keys that stand just after the same token as the query, at another place."""
    back = direction == "back"
    limit = at.key <= at.query if back else at.key != at.query + 1
    order = np.argsort(at.k, kind="stable")
    before = np.full(len(theirs), -1, np.int64)  # the token just before each key
    follows = np.diff(at.k[order]) == 1
    before[order[1:][follows]] = theirs[order[:-1][follows]]
    return _alike(name, at, ours, before, limit, at.q + 1 if back else None, None if back else at.q + 1)


def _alike(
    name: str, at: Places, ours: Array, theirs: Array, limit: Expression, stop: Array | None, but: Array | None
) -> Pattern:
    """Keys whose number, 0 or more, is that of the query, up to a position, but for one position."""
    n_k = len(theirs)
    same = at.of_query(ours) == at.of_key(theirs)
    in_order = np.sort(theirs * n_k + np.arange(n_k))  # by number, then by place

    def count(lo: Array, hi: Array) -> Array:
        end = hi if stop is None else np.clip(stop - at.first, lo, hi)
        found = np.searchsorted(in_order, ours * n_k + end) - np.searchsorted(in_order, ours * n_k + lo)
        if but is None:
            return found
        place = but - at.first
        itself = (lo <= place) & (place < end)
        return found - (itself & (theirs[np.where(itself, place, 0)] == ours) if n_k else 0)

    return Pattern(name, Mask(same & limit), count)


def pairs_of(name: str, pairs: Array, n_q: int) -> Pattern:
    """A list of (query, key) pairs, each of them once."""
    rows, keys = pairs[:, 0], pairs[:, 1]

    def count(lo: Array, hi: Array) -> Array:
        inside = (lo[rows] <= keys) & (keys < hi[rows])
        return np.bincount(rows[inside], minlength=n_q)

    return Pattern(name, pairs, count, pairs=pairs)


def own(name: str, given: Any) -> Pattern:
    """Any mask, or a boolean array (…, n_q, n_k)."""
    return Pattern(name, given if isinstance(given, Mask) else from_array(given))
