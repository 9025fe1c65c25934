"""A pooling of the weights: L·A·R with a sparse L over queries, a sparse R over keys, and means over heads.

Nothing of A is computed but the rows and keys that are pooled, a few rows at a time.

>>> rng = np.random.default_rng(0)
>>> q, k = rng.standard_normal((2, 1, 5, 4))
>>> made = whole(weights_of(q, k, None))
>>> made = replace(made, rows=made.rows.merged(np.array([0, 2, 5]), mean=True))
>>> made.cells(np.array([0]), made.rows, made.keys).sum(-1).round(6).tolist()
[[1.0, 1.0]]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from regard.algebra.expression import mentions
from regard.indexing import Axis
from regard.results import Array
from regard.weights import Weights, weights_of

CELLS = 1 << 22  # weights that are computed at a time
FEW = 16  # members, at most, of a pooled place where there are few
SINGLE = 1 << 19  # the same where they are computed one by one, which takes many numbers for each


@dataclass(frozen=True, eq=False)
class Side:
    """A pooling of one axis: the places of the axis that each pooled place is made of, one at least, and their
    shares in it."""

    members: Array  # places of the axis, those of the first pooled place first
    starts: Array  # (pooled places + 1,) where the members of each begin
    shares: Array  # of each member
    numbers: Array  # (pooled places,) where each stands among the rows or keys of the whole
    whole: int  # how many rows or keys there were before some were selected
    tokens: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def sizes(self) -> Array:
        """How many members each pooled place has."""
        sizes: Array = np.diff(self.starts)
        return sizes

    def pick(self, which: Axis) -> Side:
        """Some of the pooled places, in any order."""
        if isinstance(which, range) and which == range(len(self)):
            return self
        places = np.asarray(which, np.int64)
        sizes = self.sizes[places]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # The place of each member: where those of its pooled place begin, and how many of them stand before it.
        at = np.repeat(self.starts[places] - starts[:-1], sizes) + np.arange(starts[-1])
        tokens = None if self.tokens is None else tuple(self.tokens[i] for i in places)
        return Side(self.members[at], starts, self.shares[at], self.numbers[places], self.whole, tokens)

    def merged(self, bounds: Array, mean: bool) -> Side:
        """Neighbours as one, from each bound to the next: their mean, or their sum."""
        shares = self.shares
        if mean:
            each = np.repeat(1 / np.diff(bounds), np.diff(bounds))  # of each pooled place that was
            shares = shares * np.repeat(each, self.sizes)
        count = len(bounds) - 1
        return Side(self.members, self.starts[bounds], shares, np.arange(count), count)

    @cached_property
    def distinct(self) -> tuple[Axis, Array | None]:
        """The places of the axis that have a part, each once and in order, and where each member stands among them;
        None if just so."""
        found, at = np.unique(self.members, return_inverse=True)
        neighbours = len(found) > 0 and int(found[-1] - found[0]) + 1 == len(found)
        which = range(int(found[0]), int(found[-1]) + 1) if neighbours else found
        just_so = len(found) == len(self.members) and bool((at == np.arange(len(at))).all())
        return which, None if just_so else at

    @cached_property
    def plain(self) -> bool:
        """Whether all members count whole."""
        return bool((self.shares == 1).all())

    @cached_property
    def alike(self) -> bool:
        """Whether the members of each pooled place count alike."""
        return self.plain or bool((self.shares == np.repeat(self.shares[self.starts[:-1]], self.sizes)).all())

    def pieces(self, most: int) -> Iterator[tuple[Side, range]]:
        """Parts of at most so many members, and the pooled places that each is a part of."""
        for first in range(0, len(self.members), most):
            stop = min(first + most, len(self.members))
            into = range(
                int(np.searchsorted(self.starts, first, "right")) - 1, int(np.searchsorted(self.starts, stop, "left"))
            )
            starts = np.clip(self.starts[into.start : into.stop + 1], first, stop) - first
            numbers = self.numbers[into.start : into.stop]
            yield Side(self.members[first:stop], starts, self.shares[first:stop], numbers, self.whole), into

    def sums(self, x: Array, at: Array | None, axis: int) -> Array:
        """Pooled sums, in float64, of what there is for each distinct place along an axis."""
        if not len(self):
            return np.zeros((*x.shape[:axis], 0, *x.shape[axis + 1 :]))
        x = x if at is None else x.take(at, axis)
        along = (-1, *[1] * (x.ndim - axis - 1))
        if not self.alike:
            x = x * self.shares.reshape(along)
        if len(self) == len(self.members):
            pooled = x.astype(np.float64, copy=False)
        elif (most := int(self.sizes.max())) > FEW:
            pooled = np.add.reduceat(x, self.starts[:-1], axis, np.float64)
        else:  # the first members of all, the second of those that have one, …: several times as fast
            pooled = x.take(self.starts[:-1], axis).astype(np.float64)
            for i in range(1, most):
                which = np.flatnonzero(self.sizes > i)
                part = x.take(self.starts[which] + i, axis)
                if len(which) == len(self):
                    pooled += part
                else:
                    pooled[(slice(None),) * axis + (which,)] += part
        if self.alike and not self.plain:
            pooled = pooled * self.shares[self.starts[:-1]].reshape(along)
        return pooled

    def any(self, x: Array, at: Array | None, axis: int) -> Array:
        """Whether anything of a pooled place is true."""
        if not len(self):
            return np.zeros((*x.shape[:axis], 0, *x.shape[axis + 1 :]), np.bool_)
        x = x if at is None else x.take(at, axis)
        pooled: Array = x if len(self) == len(self.members) else np.logical_or.reduceat(x, self.starts[:-1], axis)
        return pooled


def every(n: int, tokens: tuple[str, ...] | None = None) -> Side:
    """Each place of an axis for itself."""
    return Side(np.arange(n), np.arange(n + 1), np.ones(n), np.arange(n), n, tokens)


@dataclass(frozen=True, eq=False)
class Pooling:
    """What a pooled view is computed from."""

    weights: Weights
    members: Array  # (…, heads, m) or (…, m): the flat heads of the whole that each pooled head is the mean of
    headed: bool  # whether there is an axis of heads
    rows: Side
    keys: Side
    offset: int  # position of a query less its number
    shift: int  # the same for masks, whose last query always stands beside the last key
    lengths: Array | None = None  # (flat heads of the whole, keys of the whole), or 1: what weights are multiplied with
    steps: tuple[str, ...] = ()  # what was asked for, the first first
    names: tuple[str, ...] = ()  # of the flat heads of the whole

    @property
    def front(self) -> tuple[int, ...]:
        """The axes before rows and keys."""
        front: tuple[int, ...] = self.members.shape[:-1]
        return front

    @property
    def each(self) -> int:
        """Pooled heads of one leading index."""
        return self.front[-1] if self.headed else 1

    @property
    def labels(self) -> list[str] | None:
        """What each flat pooled head is called; None for the mean over heads."""
        if self.members.shape[-1] == 1:
            return [self.names[i] for i in self.members.ravel()]
        return [f"item {', '.join(map(str, at))}" for at in np.ndindex(self.front)] if self.front else None

    @property
    def whole_groups(self) -> bool:
        """Whether the heads are all the query heads of some key heads."""
        of = self.weights.of
        group = of.heads // max(1, of.key_heads)
        if self.members.shape[-1] != 1:
            return False
        if group == 1 or not self.members.size:
            return True
        first = self.members.reshape(-1, self.each)[0] % of.heads  # (…, heads, 1) -> those of one leading index
        if not self.headed or len(first) % group:
            return False
        wanted = first[::group, None] // group * group + np.arange(group)
        return bool((first.reshape(-1, group) == wanted).all())

    # Weights.

    def cells(self, heads: Array, rows: Side, keys: Side) -> Array:
        """The pooled weights (heads, rows, keys) of some flat pooled heads, some rows and some keys."""
        found = np.zeros((len(heads), len(rows), len(keys)))
        members = self.members.reshape(-1, self.members.shape[-1])[heads]  # (…, m) -> (heads, m)
        needed, at = keys.distinct
        if found.size:
            for piece, into in rows.pieces(max(1, CELLS // max(1, len(needed)))):
                here, place = piece.distinct
                for h, flat in np.ndenumerate(members):
                    part = piece.sums(self._weighted(int(flat), here, needed), place, 0)  # (rows, keys of the whole)
                    found[h[0], into.start : into.stop] += keys.sums(part, at, 1)
        found /= members.shape[1]
        return found.astype(self.weights.number)

    def _weighted(self, flat: int, rows: Axis, keys: Axis) -> Array:
        """Weights of one head of the whole, times the lengths."""
        found: Array = self.weights.head(flat).chosen(rows, keys)[0]
        if self.lengths is None:
            return found
        return _times(found, self.lengths[flat, np.asarray(keys)])

    def scattered(self, heads: Array, rows: Array, keys: Array) -> Array:
        """Single pooled cells, by flat arrays of pooled head, row and key."""
        found = np.zeros(len(heads))
        counts = self.rows.sizes[rows] * self.keys.sizes[keys]
        large = counts > SINGLE
        for i in np.flatnonzero(large):
            one = [np.array([x[i]]) for x in (heads, rows, keys)]
            found[i] = self.cells(one[0], self.rows.pick(one[1]), self.keys.pick(one[2]))[0, 0, 0]
        small = np.flatnonzero(~large)
        ends = np.cumsum(counts[small])
        # As many cells at a time as have some SINGLE members together.
        for part in np.split(small, np.flatnonzero(np.diff(ends // SINGLE)) + 1):
            if len(part):
                found[part] = self._few(heads[part], rows[part], keys[part], counts[part])
        return found.astype(self.weights.number)

    def _few(self, heads: Array, rows: Array, keys: Array, counts: Array) -> Array:
        """Cells whose members fit into memory together, counted without those of heads."""
        starts = np.cumsum(counts) - counts
        owner = np.repeat(np.arange(len(counts)), counts)  # the cell that each member is part of
        number = np.arange(len(owner)) - starts[owner]
        wide = self.keys.sizes[keys][owner]
        i = self.rows.starts[rows][owner] + number // wide
        j = self.keys.starts[keys][owner] + number % wide
        share = self.rows.shares[i] * self.keys.shares[j]
        i, j = self.rows.members[i], self.keys.members[j]
        members = self.members.reshape(-1, self.members.shape[-1])[heads]  # (…, m) -> (cells, m)
        total = np.zeros(len(counts))
        for m in range(members.shape[1]):
            flat = members[owner, m]
            each = np.empty(len(owner))
            for h in np.unique(flat):
                mine = flat == h
                none = np.zeros((), np.int64)
                each[mine] = self.weights.head(int(h)).scattered((none, none, i[mine], j[mine]))
            if self.lengths is not None:
                each = _times(each, self.lengths[flat, j])
            total += np.add.reduceat(each * share, starts)
        total /= members.shape[1]
        return total

    # What is visible.

    def visible(self, heads: Array, rows: Side) -> Array | None:
        """Which pooled cells have a visible member, (heads, rows, keys); None if nothing can be hidden."""
        members = self.members.reshape(-1, self.members.shape[-1])[heads]  # (…, m) -> (heads, m)
        found = np.zeros((len(heads), len(rows), len(self.keys)), np.bool_)
        if not found.size:
            return None
        needed, at = self.keys.distinct
        alike = not _by_head(self.weights)
        for piece, into in rows.pieces(max(1, CELLS // max(1, len(needed)))):
            here, place = piece.distinct
            for h, flat in np.ndenumerate(members):
                if not alike or h == (0, 0):
                    part = self.weights.head(int(flat)).part(here, needed, settled=False)
                    seen = part.visible(range(part.of.n_q))
                    if seen is None:
                        return None
                    seen = np.broadcast_to(seen, (1, part.of.n_q, part.of.n_k))[0]
                    pooled = self.keys.any(piece.any(seen, place, 0), at, 1)
                found[h[0], into.start : into.stop] |= pooled
        return found


def whole(
    weights: Weights,
    tokens: tuple[str, ...] | None = None,
    key_tokens: tuple[str, ...] | None = None,
    names: Sequence[str] | None = None,
) -> Pooling:
    """All weights, each for itself."""
    of = weights.of
    flat = np.arange(of.batch * of.heads)
    members = flat.reshape((*of.leading, 1) if of.single else (*of.leading, of.heads, 1))
    rows, keys = every(of.n_q, tokens), every(of.n_k, key_tokens)
    called = tuple(map(str, flat) if names is None else names)
    return Pooling(weights, members, not of.single, rows, keys, weights.offset, of.n_k - of.n_q, names=called)


def _times(weights: Array, lengths: Array) -> Array:
    """Weight · length, in float64; a weight of 0, such as that of a hidden key, carries nothing of any value."""
    with np.errstate(all="ignore"):
        product: Array = weights * lengths
    return product if np.isfinite(lengths).all() else np.where(weights == 0, 0.0, product)


def _by_head(weights: Weights) -> bool:
    """Whether heads differ in what they hide."""
    what = weights.terms
    planes = [x for x in (what.mask_array, what.bias) if x is not None]
    return weights.hides_by_score or mentions(what.mask, "b", "h") or any(n != 1 for x in planes for n in x.shape[:-2])


__all__ = ["Pooling", "Side", "every", "replace", "weights_of", "whole"]
