"""What is wanted of a settled pass: the plan of each reduction, its arguments, and the arrays that it fills.

>>> from regard.algebra.expression import variable
>>> Bins(variable("row") - variable("k") + 7, 15).plan.along
'diagonals'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from regard.algebra.bounds import bound
from regard.algebra.expression import Expression, mentions
from regard.algebra.program import Program, linearize
from regard.errors import LimitError
from regard.kernels import arguments
from regard.kernels.plan import Binned, Reduction, Top

Array = np.ndarray[Any, Any]


MOST = 2**28  # numbers of an answer


def enough(numbers: int) -> None:
    """Refuse an answer that would fill the memory."""
    if numbers > MOST:
        raise LimitError(
            f"the answer would hold {numbers} numbers ({8 * numbers / 2**30:.1f} GiB), expected at most {MOST}: "
            "ask for fewer bins, groups or keys, or of fewer heads"
        )


class Wanted(Protocol):
    """One reduction of a pass."""

    @property
    def plan(self) -> Reduction: ...
    @property
    def programs(self) -> Sequence[Program]: ...
    @property
    def size(self) -> int:
        """Numbers that each strip leaves."""

    def check(self, rectangle: dict[str, tuple[Any, Any]]) -> None:
        """That nothing is written beyond the arrays, for variables that stay in a rectangle."""

    def make(self, instances: int, strips: int, rows: int, keep: list[Any]) -> list[int]:
        """Make the arrays to fill; gives the words that the reduction reads."""

    def result(self) -> Any:
        """What came out, (instances, …)."""


class Bins:
    """Weights by bin, (instances, size): a cell's bin is `index`, a sum of a part of its row and a part of its key."""

    def __init__(self, index: Expression, size: int, pool: str = "sum", where: Expression | None = None):
        self.index, self.size, self.pool = index, size, pool
        row, key = separated(index)
        self._parts = [None if x is None else linearize(x) for x in (row, key, where)]
        shapes = [None if x is None else x.shape for x in self._parts]
        self.plan = Binned(pool, along(row, key), shapes[0], shapes[1], shapes[2])

    @property
    def programs(self) -> list[Program]:
        return [x for x in self._parts if x is not None]

    def check(self, rectangle: dict[str, tuple[Any, Any]]) -> None:
        low, high = bound(self.index, **rectangle)
        if not 0 <= low <= high < self.size:
            raise ValueError(f"bins go from {low} to {high}, expected them within 0 and {self.size - 1}")

    def make(self, instances: int, strips: int, rows: int, keep: list[Any]) -> list[int]:
        enough(instances * self.size)
        self._out = np.zeros((instances, strips, self.size))
        words = [self._out.ctypes.data, self.size]
        for program in self.programs:
            words += arguments.words(program, False, keep)
        return words

    def result(self) -> Array:
        """Strips are merged in their order."""
        if self._out.shape[1] == 1:
            return self._out[:, 0]
        merged: Array = self._out.max(axis=1, initial=0) if self.pool == "max" else self._out.sum(axis=1)
        return merged


class OfRows:
    """What has a place of its own for each row: nothing can be written beyond it."""

    size = 0
    programs: Sequence[Program] = ()

    def check(self, rectangle: dict[str, tuple[Any, Any]]) -> None:
        return None


class Best(OfRows):
    """The k largest weights of each row and their keys, (instances, rows, k) each."""

    def __init__(self, k: int):
        self.plan = Top(k)

    def check(self, rectangle: dict[str, tuple[Any, Any]]) -> None:
        if rectangle["k"][1] >= 2**31:  # they are 32 bits wide while they are gathered
            raise LimitError(f"the last key is {rectangle['k'][1]}, expected keys below 2^31: ask of a region")

    def make(self, instances: int, strips: int, rows: int, keep: list[Any]) -> list[int]:
        shape = (instances, rows, self.plan.k)
        enough(instances * rows * self.plan.k)
        self._weights, self._keys = np.zeros(shape), np.full(shape, -1, np.int64)
        return [self._weights.ctypes.data, self._keys.ctypes.data]

    def result(self) -> tuple[Array, Array]:
        return self._weights, self._keys


class Rows(OfRows):
    """A number for each row, (instances, rows): "entropy", Σ a·ln a, or "largest", the largest final score."""

    def __init__(self, name: str):
        self.plan = name

    def make(self, instances: int, strips: int, rows: int, keep: list[Any]) -> list[int]:
        self._out = np.zeros((instances, rows))
        return [self._out.ctypes.data]

    def result(self) -> Array:
        return self._out


# How a bin follows from row and key.


def separated(index: Expression) -> tuple[Expression | None, Expression | None]:
    """The part of a sum that depends on the row, and the rest.

    >>> from regard.algebra.expression import variable
    >>> separated(variable("q") * 3 - variable("k") + 5)
    ((q * 3), (neg(k) + 5))
    """
    parts: list[Expression | None] = [None, None]
    loose: list[Expression] = []
    for sign, term in _terms(index, 1):
        term = term if sign > 0 else -term
        rows, keys = mentions(term, "row", "q"), mentions(term, "k")
        if rows and keys:
            raise ValueError(f"a bin is {index!r}, expected a sum of a number of the row and a number of the key")
        if not rows and not keys:
            loose.append(term)
            continue
        before = parts[int(keys)]
        parts[int(keys)] = term if before is None else before + term
    for term in loose:
        at = 1 if parts[1] is not None or parts[0] is None else 0
        before = parts[at]
        parts[at] = term if before is None else before + term
    return parts[0], parts[1]


def _terms(x: Expression, sign: int) -> list[tuple[int, Expression]]:
    if x.operation == "add":
        return _terms(x.operands[0], sign) + _terms(x.operands[1], sign)
    if x.operation == "sub":
        return _terms(x.operands[0], sign) + _terms(x.operands[1], -sign)
    if x.operation == "neg":
        return _terms(x.operands[0], -sign)
    return [(sign, x)]


def along(row: Expression | None, key: Expression | None) -> str:
    """How bins lie; see `plan.Binned`."""
    of_row = None if row is None else _slope(row, ("row", "q"))
    of_key = None if key is None else _slope(key, ("k",))
    if row is None:
        return "keys" if of_key == 1 else "runs"
    if of_row != 1:
        return "runs of groups"
    return "diagonals" if of_key == -1 else "runs of rows"


def _slope(x: Expression, names: tuple[str, ...]) -> int | None:
    """By how much a sum grows when the variable grows by 1, if the tree tells."""
    total = 0
    for sign, term in _terms(x, 1):
        if term.operation == "variable" and term.payload in names:
            total += sign
        elif mentions(term, *names):
            return None
    return total
