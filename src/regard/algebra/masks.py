"""Masks: which keys a query may look at. True means it may.

    >>> causal & window(2, 0)
    mask: ((k <= q) & (((k - q) <= 0) & (-2 <= (k - q))))

`q` and `k` are positions on the key axis: the last query stands beside the last key, so that decoding against a cache
works. `align="first"` starts both at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from regard.algebra.expression import Expression, combine, gather, variable
from regard.algebra.program import linearize
from regard.algebra.tracing import as_array, trace
from regard.errors import DtypeError, ShapeError, TraceError

Align = Literal["last", "first"]


@dataclass(frozen=True)
class Expectation:
    """That an axis of an array given to a mask has the length of an axis of the problem, or 1."""

    what: str
    length: int
    axis: str  # "b", "h", "row" or "k"
    repeats: bool = True  # whether an axis of 1 stands for all


@dataclass(frozen=True, eq=False)
class Mask:
    """A condition on (b, h, q, k), to be combined by & | ~."""

    condition: Expression
    expectations: tuple[Expectation, ...] = ()

    @cached_property
    def key(self) -> Any:
        """What tells this mask from others, if it holds no arrays: equal keys are equal masks. With arrays, its own."""
        program = linearize(self.condition)
        return self if program.arrays else repr((program.shape, program.constants))

    def __and__(self, other: Any) -> Mask:
        return self._joined("and", other)

    def __or__(self, other: Any) -> Mask:
        return self._joined("or", other)

    __rand__, __ror__ = __and__, __or__
    __array_ufunc__ = None  # so that array & mask comes here

    def __invert__(self) -> Mask:
        return Mask(~self.condition, self.expectations)

    def _joined(self, name: str, other: Any) -> Mask:
        if not isinstance(other, Mask):
            other = from_array(other)
        return Mask(combine(name, self.condition, other.condition), self.expectations + other.expectations)

    def __repr__(self) -> str:
        return f"mask: {self.condition!r}"


def mask(function: Callable[[Any, Any, Any, Any], Any]) -> Mask:
    """A mask from a Python function of (b, h, q, k).

    >>> mask(lambda b, h, q, k: (q - k) % 2 == 0)
    mask: (((q - k) % 2) == 0)
    """
    condition = trace(function, "b h q k")
    if condition.kind != "bool":
        raise TraceError(f"the mask function gave {condition!r}, expected a condition: compare it with something")
    return Mask(condition)


def _positions(align: Align) -> tuple[Expression, Expression]:
    if align not in ("last", "first"):
        raise ValueError(f"align is {align!r}, expected 'last' or 'first'")
    return variable("q" if align == "last" else "row"), variable("k")


class Causal(Mask):
    """Nobody looks at what comes later. Use it as it is, or call it to choose where positions start."""

    def __call__(self, align: Align = "last") -> Mask:
        q, k = _positions(align)
        return Mask(k <= q)


causal = Causal(variable("k") <= variable("q"))


def window(left: int, right: int = 0, align: Align = "last") -> Mask:
    """Keys from `left` before the query to `right` after it: -left ≤ k - q ≤ right."""
    for name, side in (("left", left), ("right", right)):
        if not isinstance(side, (int, np.integer)) or side < 0:
            raise ValueError(f"{name} is {side!r}, expected a whole number of keys, 0 or more")
    q, k = _positions(align)
    return Mask((k - q <= int(right)) & (-int(left) <= k - q))


def _whole(what: str, values: Any, dimensions: tuple[int, ...]) -> np.ndarray[Any, Any]:
    known = as_array(values)
    array = np.asarray(values if known is None else known, order="C")
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{what} has dtype {array.dtype}, expected whole numbers: convert it with astype(int)")
    if array.ndim not in dimensions:
        raise ShapeError(f"{what} has shape {array.shape}, expected {' or '.join(map(str, dimensions))} axes")
    return array


def _look_up(array: np.ndarray[Any, Any], *names: str) -> Expression:
    """An element of an array by variables; an array without elements belongs to a problem without cells."""
    if not array.size:
        array = np.zeros([max(1, n) for n in array.shape], array.dtype)
    return gather(array, [variable(name) for name in names])


def padding(lengths: Any) -> Mask:
    """Only the first lengths[b] keys of each sequence are there; b is the flat index of the leading dimensions.

    >>> padding([3, 5])
    mask: (k < array[2][b])
    """
    array = np.atleast_1d(_whole("lengths", lengths, (0, 1)))
    return Mask(variable("k") < _look_up(array, "b"), (Expectation("lengths", array.shape[0], "b"),))


def segments(ids: Any, key_ids: Any = None) -> Mask:
    """Queries look at keys of the same segment, as when several documents are packed into one sequence.

    `ids` has one number for each key position, (n_k,) or (batch, n_k); or give `segments(query_ids, key_ids)`.
    """
    same = key_ids is None
    queries = _whole("ids" if same else "query_ids", ids, (1, 2))
    keys = queries if same else _whole("key_ids", key_ids, (1, 2))

    def of(array: np.ndarray[Any, Any], place: str) -> Expression:
        return _look_up(array, *("b", place)[-array.ndim :])

    expectations = [Expectation("ids" if same else "key_ids", keys.shape[-1], "k")]
    if not same:
        expectations.append(Expectation("query_ids", queries.shape[-1], "row"))
    expectations += [Expectation("ids", a.shape[0], "b") for a in (queries, keys) if a.ndim == 2]
    return Mask(of(queries, "q" if same else "row") == of(keys, "k"), tuple(expectations))


def prefix(n: Any) -> Mask:
    """All may look at the first n keys, as in `causal | prefix(n)`; n may be an array, a number a sequence."""
    lengths = _whole("n", n, (0, 1))
    return padding(lengths) if lengths.ndim else Mask(variable("k") < int(lengths))


def from_array(array: Any) -> Mask:
    """A boolean array (…, n_q, n_k), broadcast over what it lacks, as an expression to be joined with others."""
    known = as_array(array)
    if known is None or known.dtype != np.bool_:
        shown = type(array).__name__ if known is None else f"an array of dtype {known.dtype}"
        raise DtypeError(f"{shown} was joined with a mask, expected a mask or a boolean array (True = may attend)")
    if known.ndim > 4 or known.ndim < 1:
        raise ShapeError(f"a boolean array of shape {known.shape} was joined with a mask, expected 1 to 4 axes")
    names = ("b", "h", "row", "k")[4 - known.ndim :]
    kept = [name for name, length in zip(names, known.shape, strict=True) if length != 1]
    expected = [
        Expectation("the boolean array", length, name)
        for name, length in zip(names, known.shape, strict=True)
        if length != 1
    ]
    if not kept:
        return Mask(combine("eq", bool(known.reshape(-1)[0]), True))
    squeezed = np.ascontiguousarray(known.reshape([n for n in known.shape if n != 1]))
    return Mask(_look_up(squeezed, *kept), tuple(expected))
