"""Attention by hand: queries, keys and values whose weights go where they are told.

A key for each place, all in directions of their own, and queries that point at the keys they shall look at: a row then
has `keys` scores of s = strength/√d and n − keys scores of 0, and softmax makes of them

    w = keys·eˢ / (keys·eˢ + n − keys)

for the keys it looks at together, and 1/(keys·eˢ + n − keys) for each of the others.

>>> made = attend({0: 1, 1: 2, 2: 1, 3: 2}, strength=8)
>>> [f"{weight:.3f}" for weight in made.matrix()[0]]
['0.017', '0.948', '0.017', '0.017']
>>> round(strength_for(0.948, n=4, d=4), 1)
8.0
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from regard.attention import attention
from regard.errors import DtypeError, ShapeError
from regard.matrix import AttentionMatrix, matrix

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Targets: TypeAlias = Mapping[int, int | Sequence[int]] | Sequence[int | Sequence[int]]


class Designed(NamedTuple):
    """Queries, keys and values of one head."""

    q: Array  # (n, d)
    k: Array  # (n, d)
    v: Array  # (n, n): each place carries itself, so that the output shows what was looked at

    def matrix(self, **more: Any) -> AttentionMatrix:
        """The weights as a matrix; the arguments are those of `regard.matrix`: tokens, mask, scale …"""
        return matrix(self.q, self.k, **{"v": self.v, **more})

    def output(self, **more: Any) -> Any:
        """What the head passes on; the arguments are those of `regard.attention`."""
        return attention(self.q, self.k, self.v, **more)


def attend(targets: Targets, strength: float = 8.0, *, n: int | None = None, d: int | None = None) -> Designed:
    """Q, K and V in which each query looks at its target, or evenly at several.

    `targets` has the key, or keys, of each query: a mapping, or a list in the order of the queries. A query without
    one spreads its attention evenly. There are n places, as many as are mentioned if None, and d ≥ n directions.

    >>> attend([[1, 2], 0, 0], strength=20).output().round(2).tolist()
    [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    links = _links(targets)
    mentioned = 1 + max((max(i, *keys) for i, keys in links.items() if keys), default=-1)
    mentioned = max(mentioned, 1 + max(links, default=-1))
    places = mentioned if n is None else n
    if places < max(1, mentioned):
        raise ShapeError(f"n is {places} and targets mention place {mentioned - 1}, expected n = {mentioned} or more")
    wide = places if d is None else d
    if wide < places:
        raise ShapeError(
            f"d is {wide} and there are {places} places, expected d = {places} or more: one direction each"
        )
    if not math.isfinite(strength):
        raise ValueError(f"strength is {strength!r}, expected a finite number")
    q = np.zeros((places, wide), np.float32)
    for i, keys in links.items():
        q[i, keys] = 1
    return Designed(q, np.float32(strength) * np.eye(places, wide, dtype=np.float32), np.eye(places, dtype=np.float32))


def _links(targets: Targets) -> dict[int, list[int]]:
    """The keys of each query."""
    pairs = targets.items() if isinstance(targets, Mapping) else enumerate(targets)
    links = {}
    for query, keys in pairs:
        each = [keys] if isinstance(keys, (int, np.integer)) else list(keys)
        for x in (query, *each):
            if isinstance(x, bool) or not isinstance(x, (int, np.integer)):
                raise DtypeError(f"targets hold {x!r}, expected numbers of queries and keys, as in {{0: 1, 1: [2, 3]}}")
            if x < 0:
                raise ShapeError(f"targets hold {x}, expected numbers from 0 on: count queries and keys from the first")
        links[int(query)] = sorted({int(x) for x in each})
    return links


def weight_for(strength: float, n: int, d: int, keys: int = 1) -> float:
    """What a query gives to the `keys` it looks at, together: keys·eˢ/(keys·eˢ + n − keys) with s = strength/√d.

    >>> [round(weight_for(s, n=4, d=4), 3) for s in (0, 8, 16)]
    [0.25, 0.948, 0.999]
    """
    _counted(n, d, keys)
    s = strength / math.sqrt(d)
    even = math.exp(-abs(s))  # the smaller of the two sides beside the larger: nothing overflows
    ours, theirs = (keys, (n - keys) * even) if s >= 0 else (keys * even, n - keys)
    return ours / (ours + theirs) if theirs or ours else 1.0


def strength_for(weight: float, n: int, d: int, keys: int = 1) -> float:
    """The strength that a wanted weight needs: √d·ln(w(n − keys)/(keys·(1 − w))), the inverse of `weight_for`.

    >>> round(strength_for(0.8, n=4, d=4), 3)  # 2·ln(0.8·3/0.2)
    4.97
    """
    _counted(n, d, keys)
    if not 0 < weight < 1:
        raise ValueError(f"weight is {weight!r}, expected a share between 0 and 1: softmax gives neither of them")
    if n == keys:
        raise ShapeError(f"n is {n} and the query looks at all {keys} keys, expected more: their weight is always 1")
    return math.sqrt(d) * math.log(weight * (n - keys) / (keys * (1 - weight)))


def _counted(n: int, d: int, keys: int) -> None:
    for name, value, most in (("n", n, math.inf), ("d", d, math.inf), ("keys", keys, n)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
            above = "" if math.isinf(most) else f" to n = {n}"
            raise ShapeError(f"{name} is {value!r}, expected a whole number from 1{above or ' on'}")
