"""Scores: how well a query matches a key, and what is done to the match before softmax.

>>> float(softcap(30.0)(15.0, 0, 0, 0, 0).round(3))
13.864
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.algebra.masks import Expectation
from regard.algebra.tracing import Table, as_array
from regard.errors import DtypeError, ShapeError

# Multiply-adds that BLAS does on one thread. For more it wakes others, which go on spinning for some 20 ms, on
# cores that a pass then needs: where pieces are not too short, products are made in such pieces.
ALONE, FEWEST = 1 << 17, 16

Modifier = Callable[[Any, Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class Modifying:
    """A modifier that knows how long the axes must be that its arrays are indexed by."""

    function: Modifier
    expectations: tuple[Expectation, ...]

    def __call__(self, score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return self.function(score, b, h, q, k)


Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Score:
    """A way to score a query against a key: `fold` brings both to where a dot product, or w · tanh(q + k), is left."""

    name: str
    scaled: bool = False  # whether the scale is 1/√d unless given; else it is 1

    def fold(self, q: Array, k: Array, heads: int, key_heads: int) -> tuple[Array, Array, Array | None]:
        """Queries and keys as the kernels take them, and w, (heads, d), of an additive score."""
        return q, k, None

    def __repr__(self) -> str:
        return f"regard.{self.name}"


@dataclass(frozen=True, eq=False, repr=False)
class General(Score):
    """q W k, folded into the queries."""

    weight: Array | None = None

    def fold(self, q: Array, k: Array, heads: int, key_heads: int) -> tuple[Array, Array, Array | None]:
        assert self.weight is not None
        return _projected("W", q, self.weight, heads, k.shape[-1]), k, None


@dataclass(frozen=True, eq=False, repr=False)
class Additive(Score):
    """w · tanh(W_q q + W_k k), with both projections made before the pass."""

    w: Array | None = None
    w_q: Array | None = None
    w_k: Array | None = None

    def fold(self, q: Array, k: Array, heads: int, key_heads: int) -> tuple[Array, Array, Array | None]:
        assert self.w is not None
        assert self.w_q is not None
        assert self.w_k is not None
        width = self.w.shape[-1]
        if self.w.ndim == 2 and len(self.w) != heads:
            raise ShapeError(f"w has {len(self.w)} heads and q has {heads}, expected as many: pass one row for each")
        vector = np.ascontiguousarray(np.broadcast_to(self.w, (heads, width)), q.dtype)
        ours = _projected("w_q", q, self.w_q, heads, width)
        return ours, _projected("w_k", k, self.w_k, key_heads, width), vector


dot = Score("dot", scaled=True)


def general(weight: Any) -> Score:
    """The general score q W k (Luong), for `score=`: `weight` is (d_q, d_k), or one such matrix for each query head.

    The scale is 1 unless given.

    >>> general(np.eye(3))
    regard.general(W)
    """
    return General("general(W)", weight=_matrix("weight", weight, (2, 3)))


def additive(w: Any, w_q: Any, w_k: Any) -> Score:
    """The additive score w · tanh(W_q q + W_k k) (Bahdanau), for `score=`.

    `w` is (d_a,), `w_q` (d_q, d_a) and `w_k` (d_k, d_a); each may have one for every head before these axes, `w_k` one
    for every key head. The scale is 1 unless given. Nothing of n × n × d_a is ever held.

    >>> additive(np.ones(4), np.ones((3, 4)), np.ones((3, 4)))
    regard.additive(w, w_q, w_k)
    """
    score = Additive(
        "additive(w, w_q, w_k)",
        w=_matrix("w", w, (1, 2)),
        w_q=_matrix("w_q", w_q, (2, 3)),
        w_k=_matrix("w_k", w_k, (2, 3)),
    )
    widths = {
        name: x.shape[-1] for name, x in (("w", score.w), ("w_q", score.w_q), ("w_k", score.w_k)) if x is not None
    }
    if len(set(widths.values())) > 1:
        shown = ", ".join(f"{name} {width}" for name, width in widths.items())
        raise ShapeError(f"the last axes are {shown}, expected the same d_a: check the three of them")
    return score


def _matrix(name: str, given: Any, axes: tuple[int, ...]) -> Array:
    known = as_array(given)
    array = np.asarray(given) if known is None else known
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise DtypeError(f"{name} has dtype {array.dtype}, expected numbers: convert it")
    if array.ndim not in axes:
        raise ShapeError(f"{name} has shape {array.shape}, expected {' or '.join(map(str, axes))} axes: reshape it")
    return array


def _projected(name: str, x: Array, weight: Array, heads: int, width: int) -> Array:
    """x · weight, (…, heads, n, d) (d, width) or (heads, d, width) -> (…, heads, n, width)."""
    if weight.shape[-2:] != (x.shape[-1], width):
        raise ShapeError(
            f"{name} is {weight.shape[-2]} × {weight.shape[-1]}, expected {x.shape[-1]} × {width}: "
            "its axes are those of what it is multiplied with"
        )
    if weight.ndim == 3 and len(weight) != heads:
        raise ShapeError(f"{name} has {len(weight)} heads, expected {heads}: pass one matrix for each, or one for all")
    if weight.ndim == 3 and x.ndim == 2:
        weight = weight[0]
    made = weight.astype(x.dtype)
    product = np.empty((*np.broadcast_shapes(x.shape[:-2], made.shape[:-2]), x.shape[-2], width), x.dtype)
    rows = max(ALONE // max(1, x.shape[-1] * width), 1)
    rows = rows if rows >= FEWEST else max(1, x.shape[-2])
    with np.errstate(all="ignore"):  # what a mask hides may hold anything
        for first in range(0, x.shape[-2], rows):
            np.matmul(x[..., first : first + rows, :], made, out=product[..., first : first + rows, :])
    return product


def softcap(limit: float) -> Modifier:
    """Scores pressed smoothly into ±limit: limit · tanh(score / limit)."""
    if not isinstance(limit, (int, float, np.number)) or not limit > 0:
        raise ValueError(f"limit is {limit!r}, expected a number above 0")
    limit, inverse = float(limit), 1 / float(limit)

    def capped(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return limit * np.tanh(score * inverse)

    return capped


def alibi(slopes: Any) -> Modifier:
    """Scores lowered in proportion to distance: score - slopes[h] · |q - k|, a slope for each query head."""
    known = as_array(slopes)
    array = np.atleast_1d(np.asarray(slopes) if known is None else known)
    if array.dtype.kind not in "iuf":
        raise DtypeError(f"slopes has dtype {array.dtype}, expected numbers")
    if array.ndim != 1:
        raise ShapeError(f"slopes has shape {array.shape}, expected one number for each query head")
    table = np.ascontiguousarray(array, np.float32).view(Table)

    def lowered(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score - table[h] * abs(q - k)

    return Modifying(lowered, (Expectation("slopes", len(table), "h", repeats=False),))
