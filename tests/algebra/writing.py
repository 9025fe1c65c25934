"""Random functions of (b, h, q, k), written as text, so that the same words can be traced and be computed by NumPy.

The text knows nothing of expressions: traced, its names are those of `regard.algebra`; plain, they are NumPy's, on
float64 and int64, with the two rules that Python has no say in written out here: an index is clamped, a quotient by
the whole number 0 is 0.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from regard import algebra
from regard.algebra.expression import Expression, lift
from regard.algebra.tracing import trace

B, H, N = 3, 2, 600  # sizes of the tables; positions may go beyond them
INF, NAN = np.inf, np.nan


def _tables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    wild = rng.normal(size=N)
    wild[[3, 40, 41, 300]] = NAN, INF, -INF, 1e300
    return {
        "ids": np.sort(rng.integers(0, 9, (B, N)), axis=1).astype(np.int16),
        "kinds": rng.integers(-4, 5, N).astype(np.int8),
        "counts": rng.integers(0, 2**32, 37, dtype=np.uint32),
        "flags": rng.random((H, N)) < 0.5,
        "slopes": np.array([0.5, -0.25], np.float32),
        "heights": np.round(rng.normal(size=N) * 8) / 8,
        "wild": wild,
    }


TABLES = _tables()


class Clamped:
    """A plain array whose indices are moved to its nearest end, as in traced functions."""

    def __init__(self, array: np.ndarray):
        self.array = array.astype({"b": bool, "f": np.float64}.get(array.dtype.kind, np.int64))

    def __getitem__(self, index: Any) -> Any:
        indices = index if isinstance(index, tuple) else (index,)
        places = [np.clip(np.asarray(i).astype(int), 0, n - 1) for i, n in zip(indices, self.array.shape, strict=True)]
        return self.array[tuple(places)]


def _whole(plain: Any) -> Any:
    """NumPy's // and % of whole numbers round down and give 0 by 0 already, but warn."""

    def computed(a: Any, b: Any) -> Any:
        with np.errstate(all="ignore"):
            return plain(np.asarray(a, np.int64), np.asarray(b, np.int64))

    return computed


TRACED = {
    "number": lift,
    "quotient": operator.floordiv,
    "remainder": operator.mod,
    "whole_quotient": operator.floordiv,
    "whole_remainder": operator.mod,
    "divided": operator.truediv,
    **{name: getattr(algebra, name) for name in algebra.__all__},
    **TABLES,
}
PLAIN = {
    "number": np.asarray,
    "quotient": lambda a, b: np.floor(np.true_divide(a, b)),
    "remainder": lambda a, b: a - b * np.floor(np.true_divide(a, b)),
    "whole_quotient": _whole(np.floor_divide),
    "whole_remainder": _whole(np.remainder),
    "divided": np.true_divide,
    "where": np.where,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x))),
    **{name: Clamped(array) for name, array in TABLES.items()},
}


def traced(text: str, names: str = "b h q k") -> Expression:
    """The expression of a text."""
    return trace(eval(f"lambda {', '.join(names.split())}: {text}", {"__name__": "writing", **TRACED}), names)


def plain(text: str, **variables: Any) -> Any:
    """The value of a text by NumPy alone."""
    with np.errstate(all="ignore"):
        return eval(text, dict(PLAIN), variables)


class Writer:
    """Writes random texts; `random` needs only `choice` and `randint`.

    Sizes stay small: a product has a small number or lone variables, so that no whole number leaves 64 bits.
    """

    def __init__(self, random: Any, smooth: bool = False, wild: bool = False, score: bool = False, big: bool = False):
        self.random, self.smooth, self.wild, self.score, self.big = random, smooth, wild, score, big

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def number(self) -> str:
        # Marked, so that two numbers meet as traced values and not as Python's own, which may not be divided by 0.
        return f"number({self.pick(-7, -3, -2, -1, 0, 1, 2, 3, 5, 16, 64, 100)})"

    def variable(self) -> str:
        return self.pick("q", "k", "q", "k", "b", "h")

    def whole(self, depth: int) -> str:
        """A whole number."""
        if depth <= 0:
            leaves = ["variable", "variable", "number", "ids", "kinds"] + ["counts", "big"] * self.big
            kind = self.pick(*leaves)
            if kind == "ids":
                return f"ids[b, {self.pick('q', 'k')}]"
            if kind in ("kinds", "counts"):
                return f"{kind}[{self.pick('q', 'k', 'q - k', 'k + 3', 'h')}]"
            if kind == "big":
                return f"({self.variable()} * {self.pick(3_000_000_000, -5_000_000_011)})"
            return self.variable() if kind == "variable" else self.number()
        a, b = self.whole(depth - 1), self.whole(depth - self.pick(1, 2))
        return self.pick(
            lambda: f"({a} + {b})",
            lambda: f"({a} - {b})",
            lambda: f"({a} * {self.pick(-2, -1, 0, 2, 3)})",
            lambda: f"({self.variable()} * {self.variable()} - {a})",
            lambda: f"whole_quotient({a}, {self.pick(b, self.number())})",
            lambda: f"whole_remainder({a}, {self.pick(b, self.number())})",
            lambda: f"abs({a} + 0)",
            lambda: f"(-({a} + 0))",
            lambda: f"minimum({a}, {b})",
            lambda: f"maximum({a}, {b})",
            lambda: f"where({self.condition(depth - 1)}, {a}, {b})",
            lambda: f"(({self.condition(depth - 1)}) * 1 + {b})",
            lambda: f"kinds[{a}]",
            lambda: f"ids[{a}, {b}]",
        )()

    def real(self, depth: int) -> str:
        """A number with a fraction."""
        if depth <= 0:
            place = self.pick("q", "k", "q - k")
            number = self.pick(0.5, -1.25, 3.0, 0.0)
            leaves = [f"heights[{place}]", "slopes[h]", f"number({number})", "(k * 0.5)", "divided(q, 4)"]
            leaves += [f"wild[{place}]"] * 3 * self.wild + ["score"] * 3 * self.score
            return self.pick(*leaves)
        a, b = self.real(depth - 1), self.pick(self.real, self.whole)(depth - 1)
        options = [
            lambda: f"({a} + {b})",
            lambda: f"({b} - {a})",
            lambda: f"({a} * {b})",
            lambda: f"divided({a}, {self.pick(b, 2, 0.75)})",
            lambda: f"quotient({a}, {self.pick(b, 2, 0.75)})",
            lambda: f"remainder({a}, {self.pick(b, 2.0, -0.75)})",
            lambda: f"abs({a} + 0.0)",
            lambda: f"(-({a} + 0.0))",
            lambda: f"minimum({a}, {b})",
            lambda: f"maximum({b}, {a})",
            lambda: f"where({self.condition(depth - 1)}, {a}, {b})",
        ]
        if self.smooth:
            # Shrunk first, so that what comes out is a number as often as infinity.
            options += 2 * [lambda: f"{self.pick('exp', 'log', 'tanh', 'sigmoid')}({a} * {self.pick(0.01, -0.125, 1)})"]
        return self.pick(*options)()

    def condition(self, depth: int) -> str:
        """Something that holds or does not."""
        if depth > 1 and self.pick(True, False):
            a, b = self.condition(depth - 1), self.condition(depth - 2)
            return self.pick(
                lambda: f"({a} & {b})",
                lambda: f"({a} | {b})",
                lambda: f"(~({a} & (k >= k)))",
                lambda: f"where({self.condition(depth - 2)}, {a}, {b})",
            )()
        if self.pick(*[False] * 7, True):
            return f"flags[h, {self.pick('q', 'k')}]"
        make = self.pick(self.whole, self.whole, self.real)
        return f"({make(depth - 1)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {make(depth - self.pick(1, 2))})"
