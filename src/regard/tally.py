"""What attention costs, step by step: operations, bytes, parameters, steps that wait for each other, and least times.

The formulas count multiply-adds of one layer and one sequence, in these letters:

    n  queries                     d  width of the model        c  visible cells of one A
    m  keys, if not as many        a  width of all heads        h  heads
    p  keys in a cache             b  that of all key heads     w  width of a head
                                                                t  width of an additive score
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TextIO

from regard import machine
from regard.errors import TargetError
from regard.kernels.plan import SIZES

# A function in multiply-adds on vectors, as kernels/functions.py writes it. exp2 has a clamp, four to split the number,
# five of the polynomial, a shift and a product, and a maximum and a sum stand beside it. A tanh has two polynomials.
INSTRUCTIONS = {"": 0, "exp": 14, "tanh": 25}


class Step(NamedTuple):
    """One step, for all layers and sequences."""

    name: str
    formula: str  # multiply-adds, or of the softmax exponentials, of one layer and one sequence
    products: int  # multiply-adds
    functions: int  # exponentials, or tanh
    kind: str  # of these functions: "exp", "tanh" or ""
    squared: bool  # whether it grows with the cells of A, else with n
    bytes: int  # that have to be read and written, if the caches hold what one step needs twice

    @property
    def operations(self) -> int:
        """Two to a multiply-add, one to an exponential or a tanh."""
        return 2 * self.products + self.functions


class Memory(NamedTuple):
    """Bytes of A."""

    one: int  # A of one head, if it were built
    all: int  # of all heads, layers and sequences
    held: int  # what Regard holds instead for all of them: Q, K and one number a row


class Order(NamedTuple):
    """What waits for each other, beside a recurrent network (RNN) over the same tokens."""

    steps: int  # of a layer, one after the other: all tokens go at once
    path: int  # layers through which something goes between the two tokens that are farthest apart
    rnn_steps: int
    rnn_path: int


class Measured(NamedTuple):
    """What regard.attention took for the heads of one layer."""

    seconds: float
    least: float  # seconds that the peaks allow for the same
    share: float  # of the peak that bounds it
    peak: str  # which one that is


@dataclass(frozen=True, repr=False)
class Cost:
    """What attention costs: print it, `show` it in a window of some width, or `plot` it over n."""

    n: int
    n_k: int
    d_model: int
    heads: int
    key_heads: int
    d: int  # of a head
    layers: int
    batch: int
    dtype: str
    score: str
    d_a: int
    output_projection: bool
    left: float  # keys that may be seen before the query, and after it
    right: float
    cached: int  # keys that were projected before
    measured: Measured | None = None

    # Operations.

    @property
    def masked(self) -> bool:
        return min(self.left, self.right) < math.inf

    @property
    def cells(self) -> int:
        """Visible cells of one A: what is hidden is not computed."""
        offset = self.n_k - self.n if self.masked else 0  # the last query stands beside the last key
        return _clipped(self.n, offset + self.right + 1, self.n_k) - _clipped(self.n, offset - self.left, self.n_k)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps in their order."""
        times, size = self.layers * self.batch, SIZES[self.dtype]
        return tuple(
            Step(name, formula, products * times, functions * times, kind, squared,
                 (shared * self.layers + own * times) * size)
            for name, formula, products, functions, kind, squared, shared, own in self._each()
        )  # fmt: skip

    def _each(self) -> Iterator[tuple[str, str, int, int, str, bool, int, int]]:
        """The steps of one layer and sequence; last the numbers to be read or written, those of all sequences together
        (the parameters), then those of each."""
        n, m, c, h, d, w, t = self.n, self.n_k, self.cells, self.heads, self.d_model, self.d, self.d_a
        a, b, fresh = h * w, self.key_heads * w, m - self.cached
        of_a = "d" if a == d else "a"  # letters for what is as large as something simpler
        of_b = "d" if b == d else "a" if b == a else "b"
        of_m, of_fresh = ("n" if x == n else y for x, y in ((m, "m"), (fresh, "(m−p)" if self.cached else "m")))
        of_c = "c" if self.masked else f"n·{of_m}".replace("n·n", "n²")
        of_hc = of_c if h == 1 else f"h·{of_c}"

        formula = f"n·{_times('d', of_a)} + 2·{of_fresh}·{_times('d', of_b)}"
        if (of_fresh, of_a) == ("n", of_b):
            formula = f"3·n·{_times('d', of_a)}"
        count, parameters = n * d * a + 2 * fresh * d * b, d * (a + 2 * b)
        yield "Q, K, V", formula, count, 0, "", False, parameters, (n + fresh) * d + n * a + 2 * fresh * b
        wide, tanh = a, 0  # products of a cell, and how many tanh
        formula, reads = f"{of_c}·{of_a}", n * a + m * b
        if self.score == "general":
            yield "q·W", f"n·{_times(of_a, of_a if h == 1 else 'w')}", n * a * w, 0, "", False, a * w, 2 * n * a
        if self.score == "additive":
            wide, tanh, reads = h * t, h * c * t, (n * h + m * self.key_heads) * t
            first = f"n·{of_a}·t + {of_m}·{of_b}·t"
            first = f"2·n·{of_a}·t" if (of_m, of_b) == ("n", of_a) else first
            yield "W_q q, W_k k", first, n * a * t + m * b * t, 0, "", False, (a + b) * t, n * a + m * b + reads
            formula = f"{of_hc}·t"
        yield "scores", formula, c * wide, tanh, "tanh" if tanh else "", True, 0, reads
        yield "softmax", of_hc, 0, h * c, "exp", True, 0, 0
        yield "A·V", f"{of_c}·{of_a}", c * a, 0, "", True, 0, m * b + n * a
        if self.output_projection:
            yield "output", f"n·{_times('d', of_a)}", n * a * d, 0, "", False, a * d, n * (a + d)

    def letters(self) -> dict[str, int]:
        """What the letters of the formulas stand for here."""
        a, b = self.heads * self.d, self.key_heads * self.d
        known = {"n": self.n, "m": self.n_k, "p": self.cached, "d": self.d_model, "a": a, "b": b}
        known |= {"h": self.heads, "w": self.d, "t": self.d_a, "c": self.cells}
        used = {letter for step in self.steps for letter in step.formula}
        return {letter: value for letter, value in known.items() if letter in used}

    @property
    def products(self) -> int:
        """Multiply-adds of all steps."""
        return sum(step.products for step in self.steps)

    @property
    def operations(self) -> int:
        """Operations of all steps: two to a multiply-add, one to an exponential or a tanh."""
        return sum(step.operations for step in self.steps)

    @property
    def dominates(self) -> str:
        """Where most of the multiply-adds are: in the "projections" or in "scores and A·V"."""
        squared = sum(step.products for step in self.steps if step.squared)
        return "scores and A·V" if 2 * squared >= self.products else "projections"

    @property
    def crossing(self) -> float | None:
        """The n at which scores and A·V have as many multiply-adds as the projections; from there on they have more.

        3·n·d² = 2·n²·d at n = 1.5·d, and with the output projection at 2·d. None if there is no such n: because a
        window bounds the cells of a row, or because the keys do not grow with the queries.
        """
        if self.n_k != self.n:
            return None
        one = self.at(1)  # a token alone, whose A is one cell
        linear = sum(step.products for step in one.steps if not step.squared)
        cell = one.products - linear
        if (1 + self.left + self.right) * cell <= linear:
            return None

        def below(n: float) -> bool:
            return (n + _beside(n, self.left) + _beside(n, self.right)) * cell < linear * n

        low, high = 0.0, 1.0
        while below(high):
            high *= 2
        for _ in range(100):  # more halvings than a float has bits
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle) else (low, middle)
        return float(f"{high:.12g}")

    def at(self, n: int) -> Cost:
        """The same for another number of tokens, each of them query and key."""
        return replace(self, n=n, n_k=n, cached=0, measured=None)

    # Memory, parameters, order.

    @property
    def memory(self) -> Memory:
        """Bytes of A if it were built, and of what Regard holds instead."""
        size, count = SIZES[self.dtype], self.layers * self.batch
        one = self.n * self.n_k * size
        width = self.d_a if self.score == "additive" else self.d
        numbers = (self.n * self.heads + self.n_k * self.key_heads) * width
        rows = self.n * self.heads * (8 + 1)  # an lse in f64, and a byte for whether it is known yet
        return Memory(one, one * self.heads * count, (numbers * size + rows) * count)

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters of each score function in one head: none; W; w, W_q and W_k."""
        return {"dot": 0, "general": self.d**2, "additive": 2 * self.d * self.d_a + self.d_a}

    @property
    def order(self) -> Order:
        """Steps that wait for each other, and the longest path, beside those of an RNN."""
        tokens = max(self.n, self.n_k)
        reaches = [x for x in (self.left, self.right) if x > 0]
        path = math.ceil((tokens - 1) / min(reaches)) if self.masked and reaches else 1
        if math.inf in reaches or not reaches:
            path = max([1, *(math.ceil((tokens - 1) / x) for x in reaches if x < math.inf)])
        return Order(1, max(1, path), tokens, max(1, tokens - 1))

    # Time.

    @cached_property
    def seconds(self) -> tuple[float, ...] | None:
        """The least time of each step by the peaks of this machine, which are measured when they are first asked for.

        A product takes its share of the peak of products, a function that of the multiply-adds that it is written in,
        and a byte its share of the read rate; of computing and reading, the longer counts. None for a machine that
        nothing is compiled for.
        """
        plain = machine.WIDE if self.dtype == "f64" else machine.FMA  # what functions are made of
        try:
            products, vectors, read = map(machine.best, (machine.peak_of(self.dtype), plain, machine.READ))
        except TargetError:
            return None
        return tuple(
            max(2 * s.products / products + 2 * INSTRUCTIONS[s.kind] * s.functions / vectors, s.bytes / read)
            for s in self.steps
        )

    # Looking.

    def show(self, file: TextIO | None = None, *, width: int | None = None) -> None:
        """Print the table, as wide as the window or `width`."""
        from regard.view.costs import show

        show(self, file, width)

    def plot(self, ax: Any = None) -> Any:
        """Draw the multiply-adds of the steps over n, with the crossing, by matplotlib; gives the axes."""
        from regard.view.costs import plot

        return plot(self, ax)

    def __str__(self) -> str:
        from regard.view.costs import text

        return text(self)

    __repr__ = __str__


def _times(first: str, second: str) -> str:
    return f"{first}²" if first == second else f"{first}·{second}"


def _clipped(n: int, start: float, most: int) -> int:
    """The sum of start + i for i below n, each kept from 0 to `most`.

    >>> _clipped(4, -1, 9), _clipped(4, 1, 2)  # 0 + 0 + 1 + 2, 1 + 2 + 2 + 2
    (3, 7)
    """
    if math.isinf(start):
        return n * most if start > 0 else 0

    def up_to(x: int) -> int:
        """The sum of 0 … x - 1, each at most `most`."""
        return 0 if x <= 0 else x * (x - 1) // 2 if x <= most else most * (most - 1) // 2 + most * (x - most)

    return up_to(int(start) + n) - up_to(int(start))


def _beside(n: float, reach: float) -> float:
    """Cells on one side of the diagonal of A, n × n, at most `reach` from it."""
    return n * (n - 1) / 2 if n <= reach + 1 else reach * n - reach * (reach + 1) / 2
