"""What can be seen in tiles: the weights of a head, those times the length of values, words, a difference of two heads.

A cell is the number itself, −inf where hidden; a pixel is an exact pool of cells.

>>> import regard
>>> x = np.zeros((1, 4, 4), np.float32)
>>> one = Plain(regard.matrix(x, x, mask=regard.causal).weights.head(0))
>>> Less(one, one).cells(range(2), range(2), Job()).tolist()
[[0.0, -inf], [0.0, 0.0]]
>>> Merged(one, np.array([0, 2, 4]), np.array([0, 2, 4])).cells(range(2), range(2), Job()).tolist()
[[1.0, -inf], [0.5833333730697632, 0.4166666865348816]]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from regard.lens import levels
from regard.lens.levels import Pixels
from regard.view.server.jobs import Job
from regard.weights import Weights

Array = np.ndarray[Any, Any]

CHUNK = 1 << 20  # cells that are pooled at a time where no reduction does it
SLOWER = 16.0  # operations of a cell that NumPy pools, in those of a native pass


class Picture(Protocol):
    """What tiles are cut from."""

    @property
    def n_q(self) -> int: ...
    @property
    def n_k(self) -> int: ...
    @property
    def signed(self) -> bool:
        """Whether numbers are differences: a pixel then has the one of largest magnitude."""

    def operations(self, rows: range, keys: range) -> float:
        """About how much it is to compute a rectangle."""

    def cells(self, rows: range, keys: range, job: Job) -> Array:
        """(rows, keys) in f32, −inf where hidden."""

    def pixels(self, rows: range, keys: range, a: int, b: int, pools: tuple[str, ...], job: Job) -> Pixels:
        """A rectangle that begins where pixels do."""


@dataclass(frozen=True, eq=False)
class Plain:
    """The weights of a head."""

    weights: Weights
    signed: bool = False

    @property
    def n_q(self) -> int:
        return self.weights.of.n_q

    @property
    def n_k(self) -> int:
        return self.weights.of.n_k

    def operations(self, rows: range, keys: range) -> float:
        return levels.operations(self.weights, rows, keys)

    def cells(self, rows: range, keys: range, job: Job) -> Array:
        return levels.cells(self.weights, rows, keys, job.check).astype(np.float32, copy=False)

    def pixels(self, rows: range, keys: range, a: int, b: int, pools: tuple[str, ...], job: Job) -> Pixels:
        return levels.pixels(self.weights, rows, keys, a, b, pools, job.check)


class OfCells:
    """A picture whose pixels are pooled from its cells, some at a time."""

    signed = False

    def cells(self, rows: range, keys: range, job: Job) -> Array:
        raise NotImplementedError  # an abstract method

    def pixels(self, rows: range, keys: range, a: int, b: int, pools: tuple[str, ...], job: Job) -> Pixels:
        shape = levels.len_of(rows, a), levels.len_of(keys, b)
        total, number = np.zeros(shape), np.zeros(shape, np.int64)
        most, least = np.full(shape, -np.inf), np.full(shape, np.inf)
        for here, there in _chunks(rows, keys):
            job.check()
            found = self.cells(here, there, job).astype(np.float64)
            seen = found != -np.inf
            # Bins of keys first, then of rows; a pixel may be in several chunks.
            down, across = _cuts(here, rows, a), _cuts(there, keys, b)
            into = np.ix_(down[1], across[1])

            def pooled(by: np.ufunc, x: Array, down: Any = down, across: Any = across, dtype: Any = None) -> Any:
                # A ufunc that has no dtype of its own for the sum takes that of x.
                part = by.reduceat(x, across[0], axis=1, dtype=dtype)
                return by.reduceat(part, down[0], axis=0, dtype=dtype)

            total[into] += pooled(np.add, np.where(seen, found, 0))
            number[into] += pooled(np.add, seen, dtype=np.int64)
            most[into] = np.maximum(most[into], pooled(np.maximum, found))
            if self.signed:
                least[into] = np.minimum(least[into], pooled(np.minimum, np.where(seen, found, np.inf)))
        if self.signed:
            most = np.where(-least > most, least, most)
        return Pixels(total, most, number)


def _chunks(rows: range, keys: range) -> Iterator[tuple[range, range]]:
    """Rectangles of at most CHUNK cells, as wide as they may be."""
    wide = min(len(keys), CHUNK >> 6)
    for left in range(keys.start, keys.stop, max(1, wide)):
        there = range(left, min(left + wide, keys.stop))
        step = max(1, CHUNK // len(there))
        for top in range(rows.start, rows.stop, step):
            yield range(top, min(top + step, rows.stop)), there


def _cuts(part: range, whole: range, level: int) -> tuple[Array, Array]:
    """Where the pixels of a part begin in it, and which of the whole they are."""
    first, last = (part.start - whole.start) >> level, (part.stop - 1 - whole.start) >> level
    which = np.arange(first, last + 1)
    return np.maximum((which << level) + whole.start - part.start, 0), which


@dataclass(frozen=True, eq=False)
class Over(OfCells):
    """Made of a picture cell by cell."""

    inner: Picture

    @property
    def n_q(self) -> int:
        return self.inner.n_q

    @property
    def n_k(self) -> int:
        return self.inner.n_k


@dataclass(frozen=True, eq=False)
class Long(Over):
    """Weight · length of the value."""

    lengths: Array  # (n_k,)

    def operations(self, rows: range, keys: range) -> float:
        return self.inner.operations(rows, keys) + SLOWER * len(rows) * len(keys)

    def cells(self, rows: range, keys: range, job: Job) -> Array:
        found = self.inner.cells(rows, keys, job)
        with np.errstate(all="ignore"):
            product = found * self.lengths[keys.start : keys.stop]
        # A weight of 0 carries nothing of any value, and what is hidden stays so.
        return np.where((found == 0) | (found == -np.inf), found, product).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Merged(OfCells):
    """Words: the mean over the queries of each, the sum over its keys; `down` and `across` are where they begin, with
    the end at last."""

    inner: Picture
    down: Array
    across: Array

    @property
    def n_q(self) -> int:
        return len(self.down) - 1

    @property
    def n_k(self) -> int:
        return len(self.across) - 1

    def _tokens(self, rows: range, keys: range) -> tuple[range, range]:
        down, across = self.down, self.across
        return (
            range(int(down[rows.start]), int(down[rows.stop])),
            range(int(across[keys.start]), int(across[keys.stop])),
        )

    def operations(self, rows: range, keys: range) -> float:
        here, there = self._tokens(rows, keys)
        return self.inner.operations(here, there) + SLOWER * len(here) * len(there)

    def cells(self, rows: range, keys: range, job: Job) -> Array:
        if not len(rows) or not len(keys):
            return np.zeros((len(rows), len(keys)), np.float32)
        here, there = self._tokens(rows, keys)
        found = self.inner.cells(here, there, job)
        seen = found != -np.inf
        at, beside = self.down[rows.start : rows.stop] - here.start, self.across[keys.start : keys.stop] - there.start
        sums = np.add.reduceat(np.where(seen, found, 0).astype(np.float64), beside, axis=1)
        mean = np.add.reduceat(sums, at, axis=0) / np.diff(self.down[rows.start : rows.stop + 1])[:, None]
        some = np.logical_or.reduceat(np.logical_or.reduceat(seen, beside, axis=1), at, axis=0)
        return np.where(some, mean, -np.inf).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Less(Over):
    """One picture less another; what only one of them hides is 0 there."""

    other: Picture
    signed = True

    def operations(self, rows: range, keys: range) -> float:
        both = self.inner.operations(rows, keys) + self.other.operations(rows, keys)
        return both + SLOWER * len(rows) * len(keys)

    def cells(self, rows: range, keys: range, job: Job) -> Array:
        a, b = self.inner.cells(rows, keys, job), self.other.cells(rows, keys, job)
        hidden, beside = a == -np.inf, b == -np.inf
        difference = np.where(hidden, 0, a) - np.where(beside, 0, b)
        return np.where(hidden & beside, -np.inf, difference).astype(np.float32)
