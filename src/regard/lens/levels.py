"""A at levels: a pixel of levels (a, b) is 2^a queries × 2^b keys, at multiples of these, and an exact pool of them.

>>> import regard
>>> x = np.zeros((1, 5, 4), np.float32)
>>> head = regard.matrix(x, x, mask=regard.causal).weights.head(0)
>>> cells(head, range(1, 3), range(3)).round(3).tolist()[0]
[0.5, 0.5, -inf]
>>> pooled = pixels(head, range(5), range(5), 1, 1)
>>> pooled.number.tolist(), pooled.mean().round(3).tolist()[0]
([[3, 0, 0], [4, 3, 0], [2, 2, 1]], [0.667, -inf, -inf])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.algebra.bounds import bound
from regard.algebra.evaluate import evaluate
from regard.algebra.expression import Expression, variable
from regard.kernels.launch import Progress, reduce
from regard.kernels.threads import alone
from regard.kernels.wanted import Bins
from regard.weights import Weights

Array = np.ndarray[Any, Any]

LEAF = 1 << 16  # cells of a rectangle that is not cut further, but looked at cell by cell
MIXED = 1 << 26  # cells that are looked at so, before a pass in native code is faster
BESIDE = 64  # operations of a cell beside those of its product: its weight, what hides it, and its bin


@dataclass(frozen=True)
class Pixels:
    """A rectangle of pixels: sums and maxima of the visible weights, and how many these are."""

    total: Array | None  # (rows, columns) in f64, as the others
    largest: Array | None
    number: Array

    def mean(self) -> Array:
        """The mean of the visible weights; -inf where nothing is visible."""
        assert self.total is not None
        found: Array = np.where(self.number > 0, self.total / np.maximum(self.number, 1), -np.inf)
        return found

    def max(self) -> Array:
        """The largest visible weight; -inf where nothing is visible."""
        assert self.largest is not None
        found: Array = np.where(self.number > 0, self.largest, -np.inf)
        return found


def sizes(n: range, level: int) -> Array:
    """How many places of a range each pixel has: the last may have fewer.

    >>> sizes(range(4, 11), 2).tolist()
    [4, 3]
    """
    edges = np.minimum(np.arange(len_of(n, level) + 1, dtype=np.int64) << level, len(n))
    found: Array = np.diff(edges)
    return found


def len_of(n: range, level: int) -> int:
    """How many pixels a range has."""
    return -(-len(n) >> level)


def operations(weights: Weights, rows: range, keys: range) -> float:
    """What a rectangle takes, hidden or not, and the lse of rows where it is not known."""
    of = weights.of
    each = 2.0 * of.d + BESIDE
    unknown = len(rows) - int(np.count_nonzero(weights.known(rows)))
    return each * (len(rows) * len(keys) + unknown * of.n_k)


def cells(weights: Weights, rows: range, keys: range, progress: Progress | None = None) -> Array:
    """The weights (rows, keys) of one head, -inf where hidden."""
    weights.lse(rows, progress)
    found: Array = weights.region(rows, keys)[0]
    seen = visible(weights, rows, keys)
    if seen is not None:
        found[~seen] = -np.inf
    return found


def visible(weights: Weights, rows: range, keys: range) -> Array | None:
    """Which cells of a rectangle of one head are visible; None if all are."""
    what, of = weights.terms, weights.of
    if _by_mask(weights):
        if what.mask is None:
            return None
        must, may = _bound(what.mask, rows, keys, of.n_k - of.n_q)
        if must or not may:
            return None if must else np.zeros((len(rows), len(keys)), np.bool_)
    part = weights.part(rows, keys, settled=False)
    seen = part.visible(range(len(rows)))
    return None if seen is None else np.broadcast_to(seen, (1, len(rows), len(keys)))[0]


def pixels(
    weights: Weights,
    rows: range,
    keys: range,
    a: int,
    b: int,
    pools: tuple[str, ...] = ("sum", "max"),
    progress: Progress | None = None,
) -> Pixels:
    """A rectangle of one head in pixels; the first row and key are where pixels begin."""
    weights.lse(rows, progress)
    here, there = (rows.start, len(rows)), (keys.start, len(keys))
    index, shape = _index(rows, keys, a, b)
    wanted = [Bins(index, shape[0] * shape[1], pool) for pool in pools]
    if wanted and shape[0] * shape[1]:
        reduce(weights.of, weights.terms, weights.q, weights.k, weights.lse_address, wanted, here, there, progress)
        found = {pool: x.result()[0].reshape(shape) for pool, x in zip(pools, wanted, strict=True)}
    else:
        found = {pool: np.zeros(shape) for pool in pools}
    number = counts(weights, rows, keys, a, b)
    return Pixels(found.get("sum"), found.get("max"), number)


def counts(weights: Weights, rows: range, keys: range, a: int, b: int) -> Array:
    """How many cells of each pixel are visible."""
    what, of = weights.terms, weights.of
    area = sizes(rows, a)[:, None] * sizes(keys, b)[None]
    if not area.size:
        return area
    if _by_mask(weights):
        if what.mask is None:
            return area
        found = _quartered(what.mask, rows, keys, a, b, of.n_k - of.n_q, area)
        if found is not None:
            return found
    part = weights.part(rows, keys, settled=False)
    indicator = part.indicator()
    if indicator is None:
        return area
    index, shape = _index(range(len(rows)), range(len(keys)), a, b)
    ones = indicator
    (made,) = reduce(ones.of, ones.terms, ones.q, ones.k, ones.lse_address, [Bins(index, area.size)])
    whole: Array = np.rint(made[0]).astype(np.int64).reshape(shape)
    return whole


def _by_mask(weights: Weights) -> bool:
    """Whether a mask of positions alone hides, if anything does."""
    what = weights.terms
    return what.mask_array is None and what.bias is None and not weights.hides_by_score


def _index(rows: range, keys: range, a: int, b: int) -> tuple[Expression, tuple[int, int]]:
    """The pixel of a cell, and how many there are."""
    shape = len_of(rows, a), len_of(keys, b)
    down, across = (variable("row") - rows.start) // (1 << a), (variable("k") - keys.start) // (1 << b)
    return down * shape[1] + across, shape


def _bound(mask: Expression, rows: range, keys: range, shift: int) -> tuple[bool, bool]:
    """Whether all cells of a rectangle must be visible, and whether one may be."""
    first, last = rows.start, rows.stop - 1
    must, may = bound(
        mask, row=(first, last), q=(first + shift, last + shift), k=(keys.start, keys.stop - 1), b=(0, 0), h=(0, 0)
    )
    return bool(must), bool(may)


def _quartered(mask: Expression, rows: range, keys: range, a: int, b: int, shift: int, area: Array) -> Array | None:
    """Visible cells by halving the rectangle until it is decided or small; None if too much of it is small."""
    found = np.zeros(area.shape, np.int64)
    left, stack = MIXED, [(0, area.shape[0], 0, area.shape[1])]
    while stack:
        r0, r1, c0, c1 = stack.pop()
        here = rows[r0 << a : r1 << a]
        there = keys[c0 << b : c1 << b]
        must, may = _bound(mask, here, there, shift)
        if must:
            found[r0:r1, c0:c1] = area[r0:r1, c0:c1]
        elif not may:
            continue
        elif len(here) * len(there) <= LEAF or (r1 - r0 == 1 and c1 - c0 == 1):
            left -= len(here) * len(there)
            if left < 0:
                return None
            row, k = np.arange(here.start, here.stop)[:, None], np.arange(there.start, there.stop)[None]
            seen = np.asarray(evaluate(mask, row=row, q=row + shift, k=k, b=0, h=0))
            seen = np.broadcast_to(seen, (len(here), len(there)))
            by_key = np.add.reduceat(seen, np.arange(0, len(there), 1 << b), axis=1, dtype=np.int64)
            found[r0:r1, c0:c1] = np.add.reduceat(by_key, np.arange(0, len(here), 1 << a), axis=0)
        elif (r1 - r0 > 1) and (len(here) >= len(there) or c1 - c0 == 1):
            half = (r0 + r1) // 2
            stack += [(r0, half, c0, c1), (half, r1, c0, c1)]
        else:
            half = (c0 + c1) // 2
            stack += [(r0, r1, c0, half), (r0, r1, half, c1)]
    return found


__all__ = ["Pixels", "alone", "cells", "counts", "len_of", "operations", "pixels", "sizes", "visible"]
