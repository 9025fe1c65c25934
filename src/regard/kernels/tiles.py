"""The micro-kernels: a tile of scores, the weights of it, and what it adds to the output.

Queries lie on the lanes. A group of queries, packed once as Qᵀ (d × lanes), meets a block of keys read row by row in
the layout they have: Sᵀ = K·Qᵀ by register tiles of some keys × some vectors of queries, so that maxima and sums over
keys are lane by lane and Pᵀ lies ready for Oᵀ += Vᵀ·Pᵀ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from regard.kernels.cells import INFINITY, Cells, words_of
from regard.kernels.functions import LOG2E, Functions
from regard.kernels.job import Job
from regard.kernels.lower import bounds
from regard.kernels.plan import STORAGE, Plan
from regard.kernels.values import (
    Function,
    Module,
    Operand,
    Pointer,
    Type,
    Value,
    Variable,
    any_lane,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    larger,
    ptr,
    select,
    smaller,
    turn,
)

SPARE = {32: 24, 64: 53}  # powers of two between the least weight and the least normal number
SIDE = 2  # keys that are changed side by side
UNROLL = 4  # steps of an inner product written out


class Tiles:
    """The micro-kernels of a plan, each a function of a module."""

    def __init__(self, plan: Plan, module: Module):
        self.plan, self.module = plan, module
        self.functions = Functions(plan.target.fused, plan.target.half)
        self.number, self.lanes, self.vectors = plan.number, plan.lanes, plan.vectors
        self.stored = STORAGE[plan.storage]
        self.element_size = {"f64": 8, "f32": 4}.get(plan.storage, 2)
        # A weight that is not 0 is so far above the least normal number that its products with values are, too: many
        # machines take a hundred times as long for those below. What is left out is less than 2e-31 of the largest.
        self.spare = SPARE[self.number.bits]
        # What keys and values are read as by the products.
        self.operand = i32 if plan.pairs else self.number

    def part(self, workspace: Value, name: str, element: Type | None = None) -> Pointer:
        """A part of the workspace."""
        return Pointer(workspace, element or self.number).bytes(self.plan.workspace[name])

    def product(self, a: Value, b: Value, c: Value) -> Value:
        """c + a·b, or of bf16 pairs c + a₀·b₀ + a₁·b₁."""
        if not self.plan.pairs:
            return self.functions.fma(a, b, c)
        f = a.function
        wide = Type("bf", 16, 2 * self.lanes)
        name = {16: "512", 8: "256", 4: "128"}[self.lanes]
        return f.call(f"llvm.x86.avx512bf16.dpbf16ps.{name}", [c, a.bits(wide), b.bits(wide)], c.type)

    def zeros(self, f: Function, count: int) -> list[Variable]:
        return [f.variable(f.constant(self.number.of(self.lanes), 0.0)) for _ in range(count)]

    def positions(self, f: Function, first: Value, vector: int) -> Value:
        """Whole numbers on lanes: first + lane, of the vector of a group."""
        start = first + vector * self.lanes
        whole = i32 if self.plan.whole_bits == 32 else i64
        return start.to(whole).splat(self.lanes) + f.lanes(whole, range(self.lanes))

    # Sᵀ = K·Qᵀ

    def score(self) -> Function:
        """Products of a group with `count` keys, and their maximum; past the last key the last one is repeated."""
        plan, lanes, vectors, rows = self.plan, self.lanes, self.vectors, self.plan.target.rows
        names = ["workspace", "keys", "queries"]
        f = self.module.function("score", [*((n, ptr) for n in names), ("count", i64), ("stride", i64)])
        workspace, keys, queries, count, stride = f.arguments
        packed = Pointer(queries, self.operand)
        scores = self.part(workspace, "scores")
        best = self.lowest(f)
        last = count - 1
        with f.loop(0, count, rows) as first:
            where = [smaller(first + r, last) for r in range(rows)]
            lines = [Pointer(keys, self.operand, self.element_size).bytes(w * stride) for w in where]
            total = self.zeros(f, rows * vectors)

            def step(c: Operand, take: int, lines: list[Pointer] = lines, total: list[Variable] = total) -> None:
                for u in range(take):
                    at = f.value(i64, c) + u
                    q = [packed.load(at * plan.across + v * lanes, lanes) for v in range(vectors)]
                    for r in range(rows):
                        k = lines[r][at].splat(lanes)
                        for v in range(vectors):
                            place = total[r * vectors + v]
                            place.set(self.product(k, q[v], place.get()))

            even = plan.d // 2 if plan.pairs else plan.d
            main = even // UNROLL * UNROLL
            if main:
                with f.loop(0, main, UNROLL) as c:
                    step(c, UNROLL)
            for rest in range(main, even):
                step(rest, 1)
            if plan.pairs and plan.d % 2:
                self._odd(lines, packed, total)
            for r in range(rows):
                for v in range(vectors):
                    s = total[r * vectors + v].get()
                    scores[(first + r) * plan.across + v * lanes] = s
                    best[v].set(larger(s, best[v].get()))
        self.keep_best(workspace, best)
        f.give()
        return f

    def lowest(self, f: Function) -> list[Variable]:
        """A maximum for each vector of a group, of nothing yet."""
        return [f.variable(f.constant(self.number.of(self.lanes), -INFINITY)) for _ in range(self.vectors)]

    def keep_best(self, workspace: Value, best: list[Variable]) -> None:
        """Leave the maxima of a tile where `weigh` finds them."""
        maxima = self.part(workspace, "block_maximum")
        for v, most in enumerate(best):
            maxima[v * self.lanes] = most.get()

    def change(self, hiding: bool) -> Function:
        """Products in the workspace as final scores, and the maximum of these.

        The partial kind hides what the mask hides, and rows past the last key; both then hold -inf. In a full one all
        is visible, unless a bias or a modifier hides it.
        """
        plan, lanes, whole = self.plan, self.lanes, self.plan.step
        parameters = [("job", ptr), ("workspace", ptr), *((n, i64) for n in ("instance", "row", "key", "count"))]
        f = self.module.function("change_partial" if hiding else "change_full", parameters)
        address, workspace, instance, row, key, count = f.arguments
        job = Job(address)
        scores = self.part(workspace, "scores")
        scale = job.scale.bits(f64).to(self.number).splat(lanes) if plan.natural else None
        cells = Cells(self, f, job, workspace, instance, row, hiding)
        best = self.lowest(f)

        def final(place: Value, v: int) -> Value:
            s = scores.load(place * plan.across + v * lanes, lanes)
            return cells.final(s if scale is None else s * scale, place, v, count)

        with f.loop(0, (count + (whole - 1)) & -whole, SIDE) as first:
            places = [(u, v) for u in range(SIDE) for v in range(self.vectors)]
            rows_of = [first + u for u in range(SIDE)]
            for place in rows_of:
                cells.at(place, key + place)
            changed = f.side_by_side([partial(final, rows_of[u], v) for u, v in places])
            for (u, v), s in zip(places, changed, strict=True):
                scores[rows_of[u] * plan.across + v * lanes] = s
                best[v].set(larger(s, best[v].get()))
        self.keep_best(workspace, best)
        f.give()
        return f

    def _odd(self, lines: list[Pointer], packed: Pointer, total: list[Variable]) -> None:
        """The last element of an odd d: a pair whose second half is zero, read without touching what follows."""
        plan = self.plan
        at = plan.depth - 1
        q = [packed.load(at * plan.across + v * self.lanes, self.lanes) for v in range(self.vectors)]
        for r, line in enumerate(lines):
            k = line.cast(i16)[plan.d - 1].to(i32, signed=False).splat(self.lanes)
            for v in range(self.vectors):
                place = total[r * self.vectors + v]
                place.set(self.product(k, q[v], place.get()))

    # P = exp2((S - m) · rate)

    def rate(self, job: Job) -> Value:
        """By what a difference of scores is multiplied to be an exponent of 2. Never rounded by itself, it costs less
        error than a score would that was multiplied first."""
        f = job.words.address.function
        return f.constant(self.number, LOG2E) if self.plan.natural else (job.scale.bits(f64) * LOG2E).to(self.number)

    def weigh(self) -> Function:
        """Weights of the scores in the workspace against the new maximum, and the running sum; leaves alpha."""
        plan, lanes, vectors = self.plan, self.lanes, self.vectors
        parameters = [(n, ptr) for n in ("job", "workspace", "maximum", "sum")] + [("count", i64)]
        f = self.module.function("weigh", parameters)
        address, workspace, maxima, sums, count = f.arguments
        rate = self.rate(Job(address))
        maximum, total = Pointer(maxima, self.number), Pointer(sums, self.number)
        scores, block = self.part(workspace, "scores"), self.part(workspace, "block_maximum")
        alpha = self.part(workspace, "alpha")
        step = 2 if plan.pairs else min(4, plan.step)
        shift, added = [], self.zeros(f, vectors)
        for v in range(vectors):
            old = maximum.load(v * lanes, lanes)
            new = larger(block.load(v * lanes, lanes), old)
            maximum[v * lanes] = new
            # While nothing was seen the maximum is -inf, and -inf - -inf would not be a number.
            shift.append(select(new.equals(-INFINITY), 0.0, new))
            alpha[v * lanes] = self.functions.exp2(old - shift[v], rate, spare=self.spare)
        whole = (count + (plan.step - 1)) & -plan.step
        pairs = self.part(workspace, "pairs", i32) if plan.pairs else None
        with f.loop(0, whole, step) as j:
            for v in range(vectors):
                places = [(j + u) * plan.across + v * lanes for u in range(step)]

                def weight(at: Value, base: Value = shift[v]) -> Value:
                    return self.functions.exp2(scores.load(at, lanes) - base, rate, plan.pairs, self.spare)

                weights = f.side_by_side([partial(weight, at) for at in places])
                for at, p in zip(places, weights, strict=True):
                    added[v].set(added[v].get() + p)
                    if not plan.pairs:
                        scores[at] = p
                if pairs is not None:
                    pairs[j.lshr(1) * plan.across + v * lanes] = pair(*weights)
        for v in range(vectors):
            self.gather(total, v * lanes, alpha.load(v * lanes, lanes), added[v].get(), plan.groups * plan.across)
        f.give()
        return f

    def gather(self, total: Pointer, at: Operand, alpha: Value, more: Value, carried: int) -> None:
        """total[at] = total[at]·alpha + more.

        Over many blocks, what rounding takes away is carried along, so many elements further on, and given back with
        the next block (Kahan's sum); where a sum is infinite or NaN there is nothing to carry.
        """
        lanes = self.lanes
        if not self.plan.long:
            total[at] = self.functions.fma(total.load(at, lanes), alpha, more)
            return
        carry = total + carried
        before = total.load(at, lanes) * alpha
        more = self.functions.fma(carry.load(at, lanes), alpha, more)
        after = before + more
        total[at] = after
        carry[at] = select((after - after).equals(0.0), more - (after - before), 0.0)

    def read(self, line: Pointer, at: Operand, lanes: int) -> Value:
        """Elements of a row of q, k or v, as numbers to compute with."""
        x = line.load(at, lanes)
        return self.functions.widen(x, self.plan.storage) if line.element == i16 else x

    def seen(self, workspace: Value, j: Value, v: int) -> Value:
        """Which lanes may see a key of a partial tile."""
        bits = self.part(workspace, "visible", i16)[j * self.vectors + v]
        short = Type("i", self.lanes)
        return (bits if self.lanes == 16 else bits.to(short)).bits(i1.of(self.lanes))

    def finite(self) -> Function:
        """Whether a block of values holds only finite numbers."""
        plan, lanes = self.plan, self.lanes
        f = self.module.function("finite", [("values", ptr), ("count", i64), ("stride", i64)], i1)
        values, count, stride = f.arguments
        total = self.zeros(f, 1)[0]
        rest = f.variable(f.constant(self.number, 0.0))
        main = plan.d_v // lanes * lanes
        with f.loop(0, count) as j:
            line = Pointer(values, self.stored).bytes(j * stride)
            if main:
                with f.loop(0, main, lanes) as c:
                    x = self.read(line, c, lanes)
                    total.set(total.get() + (x - x))  # inf - inf and NaN - NaN are NaN, and stay
            for end in range(main, plan.d_v):
                x = self.read(line, end, 1)
                rest.set(rest.get() + (x - x))
        bad = any_lane(total.get().differs(0.0)) | rest.get().differs(0.0)
        f.give(~bad)
        return f

    # Turning and copying.

    def turned(
        self,
        f: Function,
        line: Callable[[Value], Pointer],
        columns: Operand,
        read: Callable[[Pointer, Operand, int], Value],
        write: Callable[[Value, Value, Value], None],
    ) -> None:
        """Rows that belong to the queries of a group, read along the row and written lane by lane.

        `line(lane)` is the row of a lane, `read(line, at, n)` gives n of its elements, and `write(column, at, vector)`
        takes a column of the group from lane `at` on.
        """
        lanes = self.lanes
        with f.loop(0, self.plan.across, lanes) as start:
            lines = [line(start + r) for r in range(lanes)]
            columns = f.value(i64, columns)
            main = columns & -lanes
            with f.loop(0, main, lanes) as c:
                for i, column in enumerate(turn([read(x, c, lanes) for x in lines])):
                    write(c + i, start, column)
            with f.loop(main, columns) as c:
                column = read(lines[0], c, 1).splat(lanes)
                for r in range(1, lanes):
                    column = column.put(r, read(lines[r], c, 1))
                write(c, start, column)

    def pack(self) -> Function:
        """The queries of a group as Qᵀ (d × lanes), or pairs of d; past the last row the last one is repeated."""
        plan = self.plan
        f = self.module.function("pack", [("job", ptr), ("packed", ptr), ("instance", i64), ("row", i64)])
        address, packed, instance, row = f.arguments
        job = Job(address)
        queries, stride, last = job.head("q", self.stored, instance), job.q_row, job.n_q - 1
        element = i32 if plan.pairs else self.stored
        put = Pointer(packed, self.operand)

        def line(lane: Value) -> Pointer:
            return Pointer(queries.bytes(smaller(row + lane, last) * stride).address, element, self.element_size)

        def write(column: Value, at: Value, vector: Value) -> None:
            put[column * plan.across + at] = vector

        def whole(x: Pointer, at: Operand, n: int) -> Value:
            return x.load(at, n)

        self.turned(f, line, plan.d // 2 if plan.pairs else plan.d, whole if plan.pairs else self.read, write)
        if plan.pairs and plan.d % 2:
            with f.loop(0, plan.across) as lane:
                odd = line(lane).cast(i16)[plan.d - 1].to(i32, signed=False)
                put[plan.d // 2 * plan.across + lane] = odd
        if plan.amx:
            with f.loop((plan.d + 1) // 2 * plan.across, plan.depth * plan.across, self.lanes) as at:
                put[at] = f.constant(i32.of(self.lanes), 0)
        f.give()
        return f

    def fetch(self, name: str) -> Function:
        """A tile of a (query, key) mask or bias, turned so that queries lie on lanes; of a mask, whether any is set."""
        plan, lanes = self.plan, self.lanes
        stored = i8 if name == "mask" else STORAGE[plan.bias]
        parameters = [("job", ptr), ("workspace", ptr), *((n, i64) for n in ("instance", "row", "key", "count"))]
        f = self.module.function(f"fetch_{name}", parameters, i1)
        address, workspace, instance, row, key, count = f.arguments
        job = Job(address)
        array, last = job.head(name, stored, instance) + key, job.n_q - 1
        stride = job.mask_row if name == "mask" else job.bias_row
        put = self.part(workspace, name, i8 if name == "mask" else self.number)
        found = f.variable(f.constant(i8.of(lanes), 0))

        def line(lane: Value) -> Pointer:
            return array.bytes(smaller(row + lane, last) * stride)

        def read(x: Pointer, at: Operand, n: int) -> Value:
            value = x.load(at, n)
            return self.functions.widen(value, plan.bias) if stored == i16 else value.to(put.element)

        def write(column: Value, at: Value, vector: Value) -> None:
            put[column * plan.across + at] = vector
            if name == "mask":
                found.set(found.get() | vector)

        self.turned(f, line, count, read, write)
        f.give(any_lane(found.get().differs(0)) if name == "mask" else f.constant(i1, 1))
        return f

    def widen(self) -> Function:
        """A block of bf16 or f16 keys as f32 rows without gaps."""
        width, lanes = self.plan.d, self.lanes
        parameters = [("rows", ptr), ("put", ptr), ("count", i64), ("stride", i64)]
        f = self.module.function("widen", parameters)
        rows, put, count, stride = f.arguments
        with f.loop(0, count) as j:
            line, to = Pointer(rows, i16).bytes(j * stride), Pointer(put, f32) + j * width
            with f.loop(0, width // lanes * lanes, lanes) as c:
                to[c] = self.read(line, c, lanes)
            with f.loop(width // lanes * lanes, width) as c:
                to[c] = self.read(line, c, 1)
        f.give()
        return f

    def classify(self) -> Function:
        """Whether a rectangle of the matrix is empty (0), mixed (1) or full (3)."""
        plan = self.plan
        assert plan.mask is not None
        names = ("instance", "row_first", "row_last", "key_first", "key_last")
        f = self.module.function("classify", [("job", ptr), *((n, i64) for n in names)], i64)
        address, instance, row_first, row_last, key_first, key_last = f.arguments
        job = Job(address)
        nodes, roots = plan.mask
        words = job.pointer("words", i64) + words_of(plan.modify)
        offset, heads = job.n_k - job.n_q, job.heads
        b, h = instance.quotient(heads), instance.remainder(heads)
        rectangle = {
            "b": (b, b),
            "h": (h, h),
            "row": (row_first, row_last),
            "q": (row_first + offset, row_last + offset),
            "k": (key_first, key_last),
        }
        must, may = bounds(nodes, roots[0], words, self.functions, rectangle)
        f.give(may.to(i64) | (must.to(i64) << 1))
        return f

    def give(self, stored: Type) -> Function:
        """Columns of a group, multiplied by a rate for each query, turned into rows: only the rows that there are."""
        plan, lanes = self.plan, self.lanes
        names = [(n, ptr) for n in ("columns", "rate", "put")] + [(n, i64) for n in ("stride", "left", "width")]
        f = self.module.function("give", names)
        columns, rates, put, stride, left, width = f.arguments
        source, rate, out = Pointer(columns, self.number), Pointer(rates, self.number), Pointer(put, stored)
        room = Pointer(f.stack(self.number, lanes * lanes), self.number)
        main = width & -lanes

        def as_stored(x: Value) -> Value:
            return self.functions.narrow(x, plan.storage) if stored == i16 else x

        with f.loop(0, left, lanes) as start:
            end = smaller(left - start, lanes)
            share = rate.load(start, lanes)
            with f.loop(0, main, lanes) as c:
                square = [source.load((c + i) * plan.across + start, lanes) * share for i in range(lanes)]
                for i, x in enumerate(turn(square)):
                    room[i * lanes] = x
                with f.loop(0, end) as r:
                    out.bytes((start + r) * stride)[c] = as_stored(room.load(r * lanes, lanes))
            with f.loop(0, end) as r:
                line = out.bytes((start + r) * stride)
                with f.loop(main, width) as c:
                    line[c] = as_stored(source[c * plan.across + start + r] * rate[start + r])
        f.give()
        return f

    def stored_as(self, x: Value) -> Value:
        """A number as q, k and v are stored."""
        return self.functions.narrow(x, self.plan.storage) if self.stored == i16 else x


def pair(low: Value, high: Value) -> Value:
    """Two f32 rounded to bf16 and laid into one word. A NaN may be lost: the row's sum keeps it."""
    whole = i32.of(low.type.lanes)
    first = (low.bits(whole) + 0x8000).lshr(16)
    second = (high.bits(whole) + 0x8000) & -65536
    return first | second
