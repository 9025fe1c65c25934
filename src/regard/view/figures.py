"""Numbers as they are written in tables and sums, and which places of a long axis are shown.

>>> figure(2.5, 2), fitted(9, 5, keep=[6])
('2.50', [0, 1, None, 6, None])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def decimals(values: Any, digits: int | None) -> int:
    """How many figures after the point: as few as tell all values exactly, else `digits`, or 3 or 4.

    >>> decimals([1.0, 8.0], None), decimals([0.5, 2.71], None), decimals([1 / 3], None), decimals([1 / 3], 2)
    (0, 2, 3, 2)
    """
    if digits is not None and (isinstance(digits, bool) or not isinstance(digits, int) or not 2 <= digits <= 4):
        raise ValueError(f"digits is {digits!r}, expected 2, 3 or 4: leave it out for as many as are needed")
    x = np.asarray(values, float)
    x = x[np.isfinite(x)]
    size = float(np.abs(x).max(initial=0))
    most = 4 if digits is None else digits
    for few in range(most + 1):
        if np.all(np.abs(x - np.round(x, few)) <= 1e-9 * max(1.0, size)):
            return few
    usual = digits or (3 if size >= 0.1 else 4)
    return usual if size < 100 else max(0, usual - (1 if size < 1000 else 2))


def figure(value: float, places: int) -> str:
    """A number with so many figures after the point; one that would round to nothing says its size.

    >>> figure(-0.5, 2), figure(1e-5, 3), figure(0.0, 3), figure(float("-inf"), 2), figure(2.5e7, 1)
    ('−0.50', '1e−5', '0', '−∞', '2.5e7')
    """
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    text = f"{value:.{places}f}"
    if abs(value) >= 1e6:
        text = f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    elif abs(value) < 1e-15:
        text = f"{0:.{places}f}"  # what rounding left of a zero
    elif float(text) == 0:
        text = f"{value:.0e}".replace("e-0", "e-")
    return text.replace("-", "−")


def value_of(text: str) -> float:
    """The number that a figure says.

    >>> value_of("−1e−5")
    -1e-05
    """
    return float(text.replace("−", "-").replace("∞", "inf"))


def fitted(n: int, most: int, keep: Iterable[int] = ()) -> list[int | None]:
    """Which of n places to show where there is room for `most`: those to keep, then from the first; None is a gap."""
    if n <= most:
        return list(range(n))
    chosen: list[int] = []
    shown: list[int | None] = [None]
    for place in [*keep, *range(n)]:
        trial = sorted({*chosen, place})
        gaps = _with_gaps(trial, n)
        if len(gaps) <= max(2, most):
            chosen, shown = trial, gaps
        if len(chosen) >= most:
            break
    return shown


def _with_gaps(chosen: list[int], n: int) -> list[int | None]:
    found: list[int | None] = []
    before = -1
    for place in chosen:
        if place > before + 1:
            found.append(None)
        found.append(place)
        before = place
    return found if before == n - 1 else [*found, None]
