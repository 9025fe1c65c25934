"""why_scale(): what becomes of scores, rows and gradients as queries and keys grow wider, with and without 1/√d."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from regard import reference
from regard.circuits.contrast import entropy
from regard.errors import ShapeError
from regard.lens.wording import number
from regard.view import text as texts
from regard.view.columns import table

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

WIDTHS = (4, 16, 64, 256, 1024)
ROWS = 512  # queries of each width, a row each


@dataclass(frozen=True)
class Rows:
    """What is found at each width, (widths,)."""

    variance: Array  # of the scores
    entropy: Array  # mean of a row, in nats
    peak: Array  # mean of the largest weight of a row
    gradient: Array  # mean length of ∂A/∂S of a row: how much of a gradient gets through to the scores


@dataclass(frozen=True, repr=False)
class WhyScale:
    """The same queries and keys, scored as q·k and as q·k/√d; print it for a table."""

    d: tuple[int, ...]
    keys: int
    plain: Rows
    scaled: Rows

    def __str__(self) -> str:
        width = max(20, shutil.get_terminal_size((80, 24)).columns)
        return "\n".join(line.rstrip() for line in self._lines(width))

    __repr__ = __str__

    def _lines(self, width: int) -> Iterator[str]:
        for title, rows in (("q·k", self.plain), ("q·k/√d", self.scaled)):
            columns = [
                [title, *(f"d = {d}" for d in self.d)],
                ["variance", *(f"{x:.3g}" if x < 100 else f"{x:.0f}" for x in rows.variance)],
                ["entropy", *(number(float(x)) for x in rows.entropy)],
                ["largest", *(number(float(x)) for x in rows.peak)],
                ["gradient", *(number(float(x)) for x in rows.gradient)],
            ]
            yield from table(columns, width, left=(), first=(0, 1, 2, 4, 3))
            yield ""
        even = number(float(np.log(self.keys)))
        yield from texts.wrap(
            f"Queries and keys of independent numbers of variance 1, {self.keys} keys to a row. Their product has "
            f"variance d, and 1/√d makes that 1 again. Entropy is in nats, {even} for an even "
            "spread; the gradient is the length of ∂A/∂S of a row, which nears 0 as all of the weight goes to one key.",
            width,
        )


def why_scale(d: Sequence[int] = WIDTHS, *, keys: int = 64, seed: int = 0) -> WhyScale:
    """Variance of the scores, entropy of the rows and size of the gradients against d, with and without 1/√d.

    >>> found = why_scale([16, 1024])
    >>> found.plain.variance.round(-1).tolist(), found.scaled.variance.round(1).tolist()
    ([20.0, 1020.0], [1.0, 1.0])
    """
    widths = tuple(d)
    for name, value, least in (*(("d", x, 1) for x in widths), ("keys", keys, 2)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ShapeError(f"{name} is {value!r}, expected a whole number, {least} or more")
    rng = np.random.default_rng(seed)
    found: list[tuple[Rows, Rows]] = []
    for wide in widths:
        q = rng.standard_normal((ROWS, 1, wide))  # (rows, 1, d): each row has keys of its own
        k = rng.standard_normal((ROWS, keys, wide))
        s = (q @ k.swapaxes(-1, -2))[:, 0]  # (rows, keys)
        found.append((_rows(s), _rows(s / np.sqrt(wide))))
    plain, scaled = (
        Rows(*(np.array([getattr(each[i], name) for each in found]) for name in Rows.__dataclass_fields__))
        for i in range(2)
    )
    return WhyScale(tuple(map(int, widths)), keys, plain, scaled)


def _rows(s: Array) -> Rows:
    """Of the scores of one width, (rows, keys)."""
    a = reference.softmax(s)
    mean = (x.mean() for x in (entropy(a), a.max(-1), jacobian(a)))
    return Rows(s.var(), *mean)


def jacobian(a: Array) -> Array:
    """The length (Frobenius norm) of ∂a/∂s = diag(a) − a aᵀ for each row of weights.

    Its squares add up to Σ aᵢ²(1 − aᵢ)² on the diagonal and Σ aᵢ²aⱼ² beside it, which together is
    Σ aᵢ² − 2·Σ aᵢ³ + (Σ aᵢ²)².

    >>> jacobian(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [0.5, 0.0]
    """
    squares = (a**2).sum(-1)
    found: Array = np.sqrt(np.maximum(0, squares - 2 * (a**3).sum(-1) + squares**2))
    return found
