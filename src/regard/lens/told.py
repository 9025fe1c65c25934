"""A row of A as it is told: what its query and keys are called, and what its sentences need to know of it.

>>> import regard
>>> A = regard.matrix(np.eye(3), np.eye(3), scale=0.0, tokens=["a", "b", "a"])
>>> row = Row(np.array([0.5, 0.25, 0.25]), np.ones(3, np.bool_), Names(A), 1, "", False)
>>> row.query, row.key(1), row.key(2), row.part(0), row.beside_even(0), row.shape
("'b'", 'itself', "'a' at 2", "'a' at 0 (50 %)", '1.5 times an even spread over 3 tokens', 'sharp')
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.errors import DtypeError, TokenError, within
from regard.indexing import Tokens
from regard.lens import wording
from regard.lens.wording import listed, percent, times

Array = np.ndarray[Any, Any]

SHARP = 0.5  # a key with half of the row dominates it
MOSTLY = 0.6  # what two keys have together that share a row between them, neither less than half of the other
FLAT = 0.95  # of the entropy that an even spread has: nearly that


class Names:
    """What queries and keys are called."""

    def __init__(self, matrix: Any):
        self.ours, self.theirs = matrix.tokens, matrix.key_tokens
        read = matrix.readable()
        self.n_q, self.n_k = read.n_q, read.n_k
        self.itself = self._itself(matrix, *map(np.asarray, read.positions))

    def _itself(self, matrix: Any, q: Array, k: Array) -> Array:
        """The key that each query is itself, -1 if it is none."""
        nowhere = np.full(self.n_q, -1)
        if not self.ours or not self.theirs:
            return nowhere
        late = self.n_k - self.n_q
        if not hasattr(matrix, "pooling") or not matrix.pooling().steps:
            # The same tokens, queries the last of them.
            return np.arange(self.n_q) + late if late >= 0 and self.theirs[late:] == self.ours else nowhere
        place = {int(at): j for j, at in enumerate(k)}  # a view keeps positions
        found = np.array([place.get(int(at), -1) for at in q])
        same = all(j < 0 or self.theirs[j] == token for j, token in zip(found, self.ours, strict=True))
        return found if same else nowhere

    @property
    def many(self) -> str:
        return "keys" if self.theirs is None else "tokens"

    def query(self, given: int | str) -> int:
        return _place(given, self.ours, self.n_q, "query", "tokens")

    def key(self, given: int | str) -> int:
        return _place(given, self.theirs, self.n_k, "key", "key_tokens")

    def of_query(self, i: int) -> str:
        return _name(self.ours, i, "query")

    def of_key(self, j: int, i: int | None = None) -> str:
        """A key as it is called, "itself" where it is the query that is spoken of."""
        if i is not None and j == self.itself[i]:
            return "itself"
        return _name(self.theirs, j, "key")

    def telling(self, i: int) -> Array:
        """Keys that tell something when they are looked at: no special tokens, and not the query itself."""
        found = np.ones(self.n_k, np.bool_) if self.theirs is None else ~wording.special(self.theirs)
        if self.itself[i] >= 0:
            found[self.itself[i]] = False
        return found


def _place(given: Any, tokens: Any, n: int, axis: str, argument: str) -> int:
    if isinstance(given, str):
        if tokens is None:
            raise TokenError(
                f"{given!r} was asked for, but the {axis} axis has no tokens: pass {argument}=, or a number"
            )
        return Tokens(tokens, axis).place(given)
    if isinstance(given, (bool, np.bool_)) or not hasattr(given, "__index__"):
        raise DtypeError(f"{axis} is {given!r}, expected a number or a token: explain one {axis} at a time")
    place = operator.index(given)
    if not -n <= place < n:
        raise IndexError(f"{axis} {place} is out of bounds, {within(n)}")
    return place % n


def _name(tokens: Any, place: int, axis: str) -> str:
    if tokens is None or not tokens[place]:
        return f"{axis} {place}"
    quoted = f"'{wording.shown(tokens[place])}'"
    return f"{quoted} at {place}" if tokens.count(tokens[place]) > 1 else quoted


@dataclass(frozen=True, eq=False)
class Row:
    """A row, and what its sentences need of it."""

    weights: Array
    visible: Array
    names: Names
    i: int
    place: str  # " in L1H8", or nothing
    sunk: bool  # whether there is a sink

    @cached_property
    def count(self) -> int:
        return int(self.visible.sum())

    @cached_property
    def query(self) -> str:
        return self.names.of_query(self.i)

    @cached_property
    def total(self) -> float:
        return float(self.weights[self.visible].sum())

    @cached_property
    def order(self) -> Array:
        """Visible keys by weight, the largest first, ties by lower key."""
        keys = np.flatnonzero(self.visible)
        return keys[np.argsort(-self.weights[keys], kind="stable")]

    @cached_property
    def tied(self) -> Array:
        """The keys that have the largest weight."""
        return np.flatnonzero(self.visible & (self.weights == self.weights[self.visible].max()))

    def key(self, j: int) -> str:
        return self.names.of_key(int(j), self.i)

    def part(self, j: int) -> str:
        return f"{self.key(j)} ({percent(float(self.weights[j]))})"

    def beside_even(self, j: int) -> str:
        """How far a weight is from an even spread."""
        ratio = float(self.weights[j]) * self.count
        even = f"an even spread over {self.count} {self.names.many}"
        return f"as much as {even}" if 0.95 <= ratio < 1.05 else f"{times(ratio)} times {even}"

    def others(self, but: Array) -> str:
        """What is left for the other keys."""
        rest = self.visible.copy()
        rest[but] = False
        left, share = int(rest.sum()), percent(float(self.weights[rest].sum()))
        if left == 1:
            return f"the other {self.names.many[:-1]}, {self.key(int(np.flatnonzero(rest)[0]))}, gets {share}"
        return f"the other {left} {self.names.many} share {share}" if left else ""

    @cached_property
    def effective(self) -> float:
        """exp(entropy), of the weights as they are."""
        a = self.weights[self.visible]
        return math.exp(-float(np.sum(a * np.log(np.where(a > 0, a, 1)))))

    @cached_property
    def spread(self) -> str:
        """Over how many keys the row is spread; where a sink takes part of it that number would say something else."""
        return "" if self.sunk else f" (≈ {self.effective:.1f} {self.names.many})"

    @cached_property
    def shape(self) -> str:
        """ "even", "flat", "split", "sharp" or "spread"."""
        if self.total <= 0:
            return "spread"
        order = self.order
        p = self.weights[order] / self.total
        if len(self.tied) == len(order):
            return "even"
        entropy = -float(np.sum(p * np.log(np.where(p > 0, p, 1)))) / math.log(len(p))
        if len(p) > 2 and entropy >= FLAT:
            return "flat"
        a = self.weights[order]  # a sink's part is no part of a key
        if a[1] >= a[0] / 2 and a[0] + a[1] >= MOSTLY and (len(a) < 3 or a[2] < a[1]):
            return "split"
        return "sharp" if a[0] >= SHARP else "spread"

    def several(self, keys: Array) -> str:
        """Some keys by name, or the first of them and how many more."""
        if len(keys) <= 3:
            return listed([self.key(int(j)) for j in keys])
        return f"{self.key(int(keys[0]))} and {len(keys) - 1} others"

    @property
    def largest(self) -> str:
        """The largest weight, and the key or keys that have it."""
        share = percent(float(self.weights[self.tied[0]]))
        return f"the largest weight, on {self.several(self.tied)}{' alike' * (len(self.tied) > 1)}, is {share}"
