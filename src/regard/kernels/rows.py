"""Work that each row is done with for itself: products with weights, GELU, layer norm, one after the other.

A task takes a block of rows through all the steps of a chain, so that what is between two steps never leaves the
second cache. Weights lie in panels, as many columns wide as a register tile; a tile is some rows × some vectors of
columns, and rows are read by scalar broadcast in the layout they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from regard.kernels.functions import LOG2E, Functions
from regard.kernels.job import Job
from regard.kernels.plan import SHARED
from regard.kernels.run import run
from regard.kernels.target import Target
from regard.kernels.values import (
    Function,
    Module,
    Pointer,
    Value,
    Variable,
    across,
    f32,
    f64,
    i32,
    i64,
    larger,
    ptr,
    select,
    smaller,
    unary,
)

# The words of a job, and those of a step in its table.
FIELDS = ("steps", "count", "rows", "block")
CHAIN = SHARED | {name: 40 + i for i, name in enumerate(FIELDS)}
CHAIN_WORDS = 40 + len(FIELDS)
NEAR = 512  # bytes of a workspace that come before the rows in it
# Where rows lie: an address and bytes from row to row; or, near, an offset into the workspace.
STEP = {
    name: i
    for i, name in enumerate(
        (
            *("operation", "depth", "panels", "gelu", "epsilon", "weights", "bias"),
            *("source", "source_row", "source_near"),
            *("plus", "plus_row", "plus_near"),
            *("target", "target_row", "target_near"),
        )
    )
}
STEP_WORDS = len(STEP)
PRODUCT, NORM = 0, 1  # operations
NONE, ERF, TANH = 0, 1, 2  # of GELU: with the error function, or near it with tanh

UNROLL = 4  # steps of a product written out
AHEAD = 96  # steps that weights are asked for before they are used: read from memory, as for short texts, they are late
SPARE = 24  # see tiles.py
# Φ(-t) = e^(-t²/2) · y·(c0 + c1·y + …) with y = 1/(1 + P·t), to a relative error of 1.5e-7 from 0 to 14: least squares
# with weights moved to where the error is, until it is even.
P = 0.30
TAIL = (
    *(0.11962929740121335, 0.12075397734628862, 0.09991336262815052, 0.12856204368792665),
    *(-0.05368441727946949, 0.20635433445282617, -0.1572035592457221, 0.03567488813708511),
)
FAR = 14.0  # Φ(-14) is below the least number of f32
ROOT_2_PI, CUBE = 0.7978845608028654, 0.044715  # √(2/π); of x³ in the tanh form


@dataclass(frozen=True)
class Rows:
    """The kernel of chains: one for every machine, whatever the sizes."""

    target: Target
    kind: str = "rows"

    @cached_property
    def key(self) -> str:
        return repr(self)

    @property
    def lanes(self) -> int:
        return self.target.lanes(32)

    @property
    def across(self) -> int:
        """Columns of a panel."""
        return self.lanes * self.target.columns


def rows(plan: Rows) -> Module:
    """The module of chains."""
    module = Module()
    run(module, [None, Writer(plan, module).task()])
    return module


class Writer:
    """Writes the steps, each a function of a module."""

    def __init__(self, plan: Rows, module: Module):
        self.plan, self.module = plan, module
        self.functions = Functions(plan.target.fused, plan.target.half)
        self.lanes, self.vectors, self.rows = plan.lanes, plan.target.columns, plan.target.rows

    def task(self) -> Function:
        """A block of rows through all steps."""
        product, norm = self.product(), self.norm()
        f = self.module.function("task", [("job", ptr), ("workspace", ptr), ("number", i64)])
        address, workspace, number = f.arguments
        job = Job(address, CHAIN)
        first = number * job.block
        count = smaller(job.block, job.rows - first)
        with f.loop(0, job.count) as index:
            step = Job(job.pointer("steps", i64).at(index * STEP_WORDS), STEP)

            def place(name: str, step: Job = step) -> list[Value]:
                at, row, near = (getattr(step, name + part) for part in ("", "_row", "_near"))
                far = at + first * row
                return [select(near.differs(0), workspace.to(i64) + at, far).to(ptr), row]

            source, target = place("source"), place("target")
            shared = [step.pointer(x, f32).address for x in ("weights", "bias")]
            with f.when(step.operation.equals(PRODUCT)) as otherwise:
                f.call(product, [*source, *shared, *target, count, step.depth, step.panels, step.gelu])
                otherwise()
                plus = place("plus")
                plus[0] = select(
                    step.plus.equals(0) & step.plus_near.equals(0), f.constant(i64, 0), plus[0].to(i64)
                ).to(ptr)
                f.call(norm, [*source, *plus, *shared, *target, count, step.depth, step.epsilon])
        f.give()
        return f

    # y = x·W + b

    def product(self) -> Function:
        """Rows by panels; past the last row the last one is computed again."""
        tile = self.tile()
        gelus = {ERF: self.over_tile("gelu", self.gelu), TANH: self.over_tile("gelu_tanh", self.gelu_tanh)}
        parameters = [("x", ptr), ("x_row", i64), ("w", ptr), ("bias", ptr), ("y", ptr), ("y_row", i64)]
        f = self.module.function("product", [*parameters, *((n, i64) for n in ("count", "depth", "panels", "gelu"))])
        x, x_row, w, bias, y, y_row, count, depth, panels, gelu = f.arguments
        wide = self.plan.across
        with f.loop(0, panels) as panel:
            weights, offsets = Pointer(w, f32) + panel * depth * wide, Pointer(bias, f32) + panel * wide
            put = Pointer(y, f32) + panel * wide
            with f.loop(0, count, self.rows) as first:
                last = count - 1 - first
                source, target = Pointer(x, f32).bytes(first * x_row), put.bytes(first * y_row)
                f.call(
                    tile, [source.address, x_row, weights.address, offsets.address, target.address, y_row, last, depth]
                )
                for kind, function in gelus.items():
                    with f.when(gelu.equals(kind)):
                        f.call(function, [target.address, y_row, smaller(last + 1, f.constant(i64, self.rows))])
        f.give()
        return f

    def tile(self) -> Function:
        """A register tile: some rows × a panel."""
        lanes, vectors, rows, wide = self.lanes, self.vectors, self.rows, self.plan.across
        names = [("x", ptr), ("x_row", i64), ("w", ptr), ("bias", ptr), ("y", ptr), ("y_row", i64)]
        f = self.module.function("tile", [*names, ("last", i64), ("depth", i64)])
        x, x_row, w, bias, y, y_row, last, depth = f.arguments
        where = [smaller(f.constant(i64, r), last) for r in range(rows)]
        lines = [Pointer(x, f32).bytes(r * x_row) for r in where]
        weights, offsets = Pointer(w, f32), Pointer(bias, f32)
        total = [f.variable(f.constant(f32.of(lanes), 0.0)) for _ in range(rows * vectors)]

        def step(c: Value, take: int) -> None:
            for u in range(take):
                at = c + u
                if take > 1:
                    self.ask(weights, (at + AHEAD) * wide)
                columns = [weights.load(at * wide + v * lanes, lanes) for v in range(vectors)]
                for r in range(rows):
                    element = lines[r][at].splat(lanes)
                    for v in range(vectors):
                        sum_ = total[r * vectors + v]
                        sum_.set(self.functions.fma(element, columns[v], sum_.get()))

        main = depth & -UNROLL
        with f.loop(0, main, UNROLL) as c:
            step(c, UNROLL)
        with f.loop(main, depth) as c:
            step(c, 1)
        for r in range(rows):
            put = Pointer(y, f32).bytes(where[r] * y_row)
            for v in range(vectors):
                put[v * lanes] = total[r * vectors + v].get() + offsets.load(v * lanes, lanes)
        f.give()
        return f

    def ask(self, weights: Pointer, at: Value) -> None:
        """Begin to read a row of a panel. It may lie past the last: what is only asked for is never an error."""
        f = at.function
        how = [f.constant(i32, x) for x in (0, 3, 1)]  # to read, keep near, data
        for v in range(self.vectors):
            f.call("llvm.prefetch.p0", [weights.at(at + v * self.lanes), *how])

    # GELU

    def over_tile(self, name: str, function: Callable[[Value], Value]) -> Function:
        """A function of each number of a tile, in its place."""
        f = self.module.function(name, [("y", ptr), ("y_row", i64), ("count", i64)])
        y, y_row, count = f.arguments
        with f.loop(0, count) as r:
            line = Pointer(y, f32).bytes(r * y_row)
            places = [v * self.lanes for v in range(self.vectors)]
            read = [line.load(at, self.lanes) for at in places]
            for at, value in zip(places, f.side_by_side([partial(function, x) for x in read]), strict=True):
                line[at] = value
        f.give()
        return f

    def _parted(self, x: Value) -> tuple[Value, Value]:
        """max(x, 0), and |x| as far as it counts; both keep NaN."""
        f = x.function
        zero, far = f.constant(x.type, 0.0), f.constant(x.type, FAR)
        return larger(zero, x), smaller(far, unary("fabs", x))

    def gelu(self, x: Value) -> Value:
        """x·Φ(x) = max(x, 0) - |x|·Φ(-|x|), which loses nothing on either side."""
        f = x.function
        above, t = self._parted(x)
        y = 1.0 / self.functions.fma(t, f.constant(x.type, P), f.constant(x.type, 1.0))
        bell = self.functions.exp2(-(t * t), f.constant(f32, LOG2E / 2), spare=SPARE)
        tail = self.functions.polynomial(y, TAIL) * y * bell
        return self.functions.fma(-t, tail, above)

    def gelu_tanh(self, x: Value) -> Value:
        """x/2·(1 + tanh u) with u = √(2/π)·(x + 0.044715·x³): x/(1 + e^(-2u)), and as above from that of -|x|."""
        f = x.function
        above, t = self._parted(x)
        u = t * self.functions.fma(t * t, f.constant(x.type, CUBE), f.constant(x.type, 1.0))
        e = self.functions.exp2(-u, f.constant(f32, 2 * ROOT_2_PI * LOG2E), spare=SPARE)
        return self.functions.fma(-t, e / (e + 1.0), above)

    # y = (x + plus - mean)/√(variance + ε)·w + b

    def norm(self) -> Function:
        """Layer norm of rows, to which others are added first, unless there are none."""
        lanes = self.lanes
        names = [("x", ptr), ("x_row", i64), ("plus", ptr), ("plus_row", i64), ("w", ptr), ("bias", ptr), ("y", ptr)]
        f = self.module.function("norm", [*names, ("y_row", i64), ("count", i64), ("depth", i64), ("epsilon", i64)])
        x, x_row, plus, plus_row, w, bias, y, y_row, count, depth, epsilon = f.arguments
        main, size = depth & -lanes, depth.to(f32)
        weights, offsets = Pointer(w, f32), Pointer(bias, f32)
        with f.loop(0, count) as r:
            source, beside, put = (
                Pointer(at, f32).bytes(r * row) for at, row in ((x, x_row), (plus, plus_row), (y, y_row))
            )
            totals = self.totals(f)
            with f.when(plus.to(i64).differs(0)) as otherwise:
                for total, at, n in self.along(f, main, depth, totals):
                    put[at] = source.load(at, n) + beside.load(at, n)
                    total.set(total.get() + put.load(at, n))
                otherwise()
                for total, at, n in self.along(f, main, depth, totals):
                    put[at] = source.load(at, n)
                    total.set(total.get() + put.load(at, n))
            mean = self.joined(totals) / size
            totals = self.totals(f)
            for total, at, n in self.along(f, main, depth, totals):
                away = put.load(at, n) - mean.splat(n)
                put[at] = away
                total.set(self.functions.fma(away, away, total.get()))
            rate = 1.0 / unary("sqrt", self.joined(totals) / size + epsilon.bits(f64).to(f32))
            for _, at, n in self.along(f, main, depth, totals):
                scaled = put.load(at, n) * rate.splat(n)
                put[at] = self.functions.fma(scaled, weights.load(at, n), offsets.load(at, n))
        f.give()
        return f

    def totals(self, f: Function) -> list[Variable]:
        """Sums of nothing yet: on lanes, and of what is left of a row beside whole vectors."""
        return [f.variable(f.constant(f32.of(n), 0.0)) for n in (self.lanes, 1)]

    def joined(self, totals: Sequence[Variable]) -> Value:
        return across(totals[0].get(), lambda a, b: a + b) + totals[1].get()

    def along(
        self, f: Function, main: Value, depth: Value, totals: list[Variable]
    ) -> Iterator[tuple[Variable, Value, int]]:
        """A row, first by vectors and then one by one: the sum that it goes to, where, and how many."""
        for total, start, stop, n in ((totals[0], 0, main, self.lanes), (totals[1], main, depth, 1)):
            with f.loop(start, stop, n) as at:
                yield total, at, n
