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

Modifier = Callable[[Any, Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class Modifying:
    """A modifier that knows how long the axes must be that its arrays are indexed by."""

    function: Modifier
    expectations: tuple[Expectation, ...]

    def __call__(self, score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return self.function(score, b, h, q, k)


@dataclass(frozen=True)
class Score:
    """A way to score a query against a key."""

    name: str

    def __repr__(self) -> str:
        return f"regard.{self.name}"


dot = Score("dot")


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
