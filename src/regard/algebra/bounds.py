"""What an expression can be over a rectangle of the attention matrix, by interval arithmetic.

Masks are skipped by it: asked of a rectangle, a condition must hold, may hold, or cannot. The answer is always sound
and not always tight: nothing is called empty where something is visible, nothing full where something is hidden. The
rules are written once and run on Python numbers here, and on emitted machine code in `kernels.lower`.

    >>> from regard.algebra.tracing import trace
    >>> causal = trace(lambda b, h, q, k: k <= q, "b h q k")
    >>> bound(causal, q=(0, 7), k=(8, 15)), bound(causal, q=(8, 15), k=(0, 7)), bound(causal, q=(0, 7), k=(0, 7))
    ((False, False), (True, True), (False, True))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from regard.algebra.expression import COMPARISONS, LOGIC, SMOOTH, Expression
from regard.algebra.program import Node, linearize

ARITHMETIC = ("add", "sub", "mul")
DIVISIONS = ("div", "floordiv", "mod")
Interval = tuple[Any, Any]  # of a number: least, greatest; of a condition: must hold, may hold
Rule = Callable[..., Interval]


class Arithmetic(Protocol):
    """What the rules need beside + - * and comparisons: Python numbers and emitted values both have it."""

    def least(self, *values: Any) -> Any: ...  # NaN where any is NaN
    def greatest(self, *values: Any) -> Any: ...
    def select(self, condition: Any, yes: Any, no: Any) -> Any: ...
    def negate(self, condition: Any) -> Any: ...
    def both(self, a: Any, b: Any) -> Any: ...
    def either(self, a: Any, b: Any) -> Any: ...
    def ordered(self, *values: Any) -> Any: ...  # all are finite numbers
    def floor_divide(self, a: Any, b: Any) -> Any: ...  # b is not 0
    def floor(self, a: Any) -> Any: ...
    def smooth(self, name: str, x: Any, up: bool) -> Any: ...  # the function, moved outwards past its rounding
    def number(self, x: Any, like: Any) -> Any: ...
    def gathered(self, node: Node, indices: list[Interval]) -> Interval: ...
    def cast(self, x: Any, kind: str) -> Any: ...  # int, or float; from a condition too


class Rules:
    """The rule of each operation, over some arithmetic."""

    def __init__(self, arithmetic: Arithmetic):
        self.of = arithmetic

    def step(self, node: Node, operands: list[Interval], kinds: list[str]) -> Interval:
        """The interval of a step from those of its operands, whose kinds are given."""
        if node.operation == "gather":
            places = [self.numeric(x, kind, "int") for x, kind in zip(operands, kinds, strict=True)]
            return self.of.gathered(node, places)
        if node.operation in LOGIC:
            return self.logic(node.operation, *operands)
        if node.operation == "where" and node.kind == "bool":
            return self.choose(*operands)
        numbers = operands if node.operation != "where" else operands[1:]
        named = kinds if node.operation != "where" else kinds[1:]
        common = "float" if "float" in named or node.kind == "float" else "int"
        numbers = [self.numeric(x, kind, common) for x, kind in zip(numbers, named, strict=True)]
        if node.operation == "where":
            return self.where(operands[0], *numbers)
        if node.operation in COMPARISONS:
            return self.compare(node.operation, common, *numbers)
        if node.operation in SMOOTH:
            return self.smooth(node.operation, *numbers)
        rule: Rule = getattr(self, node.operation)
        if node.operation in DIVISIONS:
            return self.known(common, rule(common, *numbers))
        return self.known(common, rule(*numbers)) if node.operation in ARITHMETIC else rule(*numbers)

    def known(self, common: str, x: Interval) -> Interval:
        """Where a result of floats has no end, there may be a NaN among its values, and nothing is known of it."""
        if common == "int":
            return x
        fine, nan = self.of.ordered(*x), self.of.number(math.nan, x[0])
        return self.of.select(fine, x[0], nan), self.of.select(fine, x[1], nan)

    def numeric(self, x: Interval, kind: str, common: str) -> Interval:
        return x if kind == common else (self.of.cast(x[0], common), self.of.cast(x[1], common))

    # Conditions.
    def logic(self, name: str, a: Interval, b: Interval | None = None) -> Interval:
        o = self.of
        if b is None:
            return o.negate(a[1]), o.negate(a[0])
        join = o.both if name == "and" else o.either
        return join(a[0], b[0]), join(a[1], b[1])

    def compare(self, name: str, common: str, a: Interval, b: Interval) -> Interval:
        o = self.of
        if name in ("lt", "le"):
            must = a[1] < b[0] if name == "lt" else a[1] <= b[0]
            never = a[0] >= b[1] if name == "lt" else a[0] > b[1]
        else:
            must = o.both(self.same(a[0], b[1]), self.same(a[1], b[0]))
            never = o.either(a[1] < b[0], b[1] < a[0])
        if common == "float":  # somewhere inside infinite bounds there may be a NaN, for which nothing holds
            known = o.ordered(*a, *b)
            must, never = o.both(must, known), o.both(never, known)
        return (never, o.negate(must)) if name == "ne" else (must, o.negate(never))

    def same(self, a: Any, b: Any) -> Any:
        return self.of.both(a <= b, a >= b)

    def choose(self, c: Interval, yes: Interval, no: Interval) -> Interval:
        o = self.of
        must = o.either(o.both(yes[0], no[0]), o.either(o.both(c[0], yes[0]), o.both(o.negate(c[1]), no[0])))
        return must, o.either(o.both(c[1], yes[1]), o.both(o.negate(c[0]), no[1]))

    # Numbers.
    def where(self, c: Interval, yes: Interval, no: Interval) -> Interval:
        o = self.of
        low, high = o.least(yes[0], no[0]), o.greatest(yes[1], no[1])
        low, high = o.select(c[0], yes[0], low), o.select(c[0], yes[1], high)
        return o.select(c[1], low, no[0]), o.select(c[1], high, no[1])

    def add(self, a: Interval, b: Interval) -> Interval:
        return a[0] + b[0], a[1] + b[1]

    def sub(self, a: Interval, b: Interval) -> Interval:
        return a[0] - b[1], a[1] - b[0]

    def neg(self, a: Interval) -> Interval:
        return -a[1], -a[0]

    def mul(self, a: Interval, b: Interval) -> Interval:
        corners = [x * y for x in a for y in b]
        return self.of.least(*corners), self.of.greatest(*corners)

    def abs(self, a: Interval) -> Interval:
        o = self.of
        low = o.greatest(o.number(0, a[0]), a[0], -a[1])
        return low, o.greatest(-a[0], a[1])

    def minimum(self, a: Interval, b: Interval) -> Interval:
        return self.of.least(a[0], b[0]), self.of.least(a[1], b[1])

    def maximum(self, a: Interval, b: Interval) -> Interval:
        return self.of.greatest(a[0], b[0]), self.of.greatest(a[1], b[1])

    def _without_zero(self, b: Interval) -> tuple[Any, Interval]:
        """Whether b keeps away from 0, and b itself then, else a harmless 1."""
        o = self.of
        clear = o.either(b[0] > 0, b[1] < 0)
        return clear, (o.select(clear, b[0], o.number(1, b[0])), o.select(clear, b[1], o.number(1, b[1])))

    def div(self, common: str, a: Interval, b: Interval) -> Interval:
        o = self.of
        clear, safe = self._without_zero(b)
        corners = [x / y for x in a for y in safe]
        nan = o.number(math.nan, a[0])
        return o.select(clear, o.least(*corners), nan), o.select(clear, o.greatest(*corners), nan)

    def floordiv(self, common: str, a: Interval, b: Interval) -> Interval:
        o = self.of
        if common == "float":
            low, high = self.div(common, a, b)
            return o.floor(low), o.floor(high)
        clear, safe = self._without_zero(b)
        corners = [o.floor_divide(x, y) for x in a for y in safe]
        # By any whole divisor the quotient is no longer than what was divided; by 0 it is 0.
        size = o.greatest(-a[0], a[1], o.number(0, a[0]))
        return o.select(clear, o.least(*corners), -size), o.select(clear, o.greatest(*corners), size)

    def mod(self, common: str, a: Interval, b: Interval) -> Interval:
        o = self.of
        zero = o.number(0, b[0])
        edge = o.number(1 if common == "int" else 0, b[0])
        low, high = o.least(b[0] + edge, zero), o.greatest(b[1] - edge, zero)
        if common == "float":
            nan = o.number(math.nan, b[0])
            # A quotient beyond all floats leaves a remainder that is as far beyond.
            fine = o.ordered(*a, *b, *self.div(common, a, b))
            # The remainder of a rounded quotient can pass its ends by a rounding of the quotient times the divisor.
            slack = o.greatest(-a[0], a[1], -b[0], b[1]) * o.number(1e-12, b[0])
            return o.select(fine, low - slack, nan), o.select(fine, high + slack, nan)
        # Where all of a lies in one period of a single divisor, the remainder is a shifted.
        clear, safe = self._without_zero(b)
        first, last = o.floor_divide(a[0], safe[0]), o.floor_divide(a[1], safe[0])
        one = o.both(o.both(clear, self.same(b[0], b[1])), self.same(first, last))
        start = first * safe[0]
        return o.select(one, a[0] - start, low), o.select(one, a[1] - start, high)

    def smooth(self, name: str, a: Interval) -> Interval:
        """exp, log, tanh and sigmoid grow with their argument."""
        o = self.of
        known, nan = o.ordered(*a), o.number(math.nan, a[0])
        low, high = o.smooth(name, a[0], up=False), o.smooth(name, a[1], up=True)
        return o.select(known, low, nan), o.select(known, high, nan)


# How far a computed exp, log, tanh or sigmoid may lie from the true one, generously.
SLACK = 1e-6


class Numbers:
    """The arithmetic of the rules on Python numbers; whole numbers of any size."""

    def __init__(self, arrays: tuple[np.ndarray[Any, Any], ...]):
        self.arrays = arrays

    def least(self, *values: Any) -> Any:
        return math.nan if any(x != x for x in values) else min(values)

    def greatest(self, *values: Any) -> Any:
        return math.nan if any(x != x for x in values) else max(values)

    def select(self, condition: Any, yes: Any, no: Any) -> Any:
        return yes if condition else no

    def negate(self, condition: Any) -> Any:
        return not condition

    def both(self, a: Any, b: Any) -> Any:
        return bool(a and b)

    def either(self, a: Any, b: Any) -> Any:
        return bool(a or b)

    def ordered(self, *values: Any) -> Any:
        return all(math.isfinite(x) for x in values)

    def floor_divide(self, a: Any, b: Any) -> Any:
        return a // b

    def floor(self, a: Any) -> Any:
        return float(math.floor(a)) if math.isfinite(a) else a

    def number(self, x: Any, like: Any) -> Any:
        return type(like)(x) if not isinstance(x, float) else x

    def cast(self, x: Any, kind: str) -> Any:
        try:
            return float(x) if kind == "float" else int(x)
        except OverflowError:
            return math.inf if x > 0 else -math.inf

    def smooth(self, name: str, x: Any, up: bool) -> Any:
        functions: dict[str, Callable[[Any], Any]] = {
            "exp": np.exp,
            "log": np.log,
            "tanh": np.tanh,
            "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        }
        with np.errstate(all="ignore"):
            value = float(functions[name](np.float64(x)))
        return value + (abs(value) + 1e-30) * (SLACK if up else -SLACK)

    def gathered(self, node: Node, indices: list[Interval]) -> Interval:
        array = self.arrays[node.slot]
        part = array[
            tuple(
                slice(min(max(low, 0), n - 1), min(max(high, 0), n - 1) + 1)
                for (low, high), n in zip(indices, array.shape, strict=True)
            )
        ]
        low, high = part.min(), part.max()
        return self.cast_kind(low, node.kind), self.cast_kind(high, node.kind)

    def cast_kind(self, x: Any, kind: str) -> Any:
        return bool(x) if kind == "bool" else self.cast(x, kind)


def bound(x: Expression, **rectangle: tuple[float, float]) -> Interval:
    """The interval of an expression, each variable given by its least and greatest value."""
    program = linearize(x)
    return intervals(program.nodes, program.constants, program.arrays, rectangle)[program.roots[0]]


def intervals(
    nodes: tuple[Node, ...],
    constants: tuple[Any, ...],
    arrays: tuple[np.ndarray[Any, Any], ...],
    rectangle: dict[str, tuple[float, float]],
) -> list[Interval]:
    """The interval of every step of a program."""
    rules, known = Rules(Numbers(arrays)), list[Interval]()
    for node in nodes:
        if node.operation == "variable":
            known.append(rectangle[node.detail])
        elif node.operation == "constant":
            value = constants[node.slot]
            known.append((value, value))
        else:
            operands = [known[i] for i in node.operands]
            known.append(rules.step(node, operands, [nodes[i].kind for i in node.operands]))
    return known
