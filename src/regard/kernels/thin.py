"""A few rows of A, or a few columns: bound by the memory that K, or Q, is read from, as a decode is.

The many rows of K (for a row of A) or of Q (for a column) are read once, lanes along d, and lie on the lanes from then
on: modifier, bias, mask and weight are those of a whole vector of cells.
"""

from __future__ import annotations

from regard.kernels.cells import INFINITY, words_of
from regard.kernels.decode import Decode
from regard.kernels.functions import LOG2E
from regard.kernels.job import Job
from regard.kernels.lower import Lanes
from regard.kernels.plan import STORAGE, Plan
from regard.kernels.run import run
from regard.kernels.tiles import Tiles
from regard.kernels.values import Function, Module, Pointer, Type, Value, f64, i1, i8, i32, i64, ptr, select, smaller


def thin(plan: Plan) -> Module:
    """The module of a thin plan."""
    module = Module()
    run(module, [None, Thin(plan, module).task()])
    return module


class Thin(Decode):
    """What many of one side and a few of the other make; `across` says whether keys are many, or queries."""

    def __init__(self, plan: Plan, module: Module):
        self.plan, self.module = plan, module
        self.tiles = Tiles(plan, module)
        self.functions = self.tiles.functions
        self.number, self.lanes = plan.number, plan.lanes
        self.many_keys = plan.kind == "thin rows"
        self._shapes(plan.queries, soon=plan.d)
        self.score_block = self._score()
        self.cells = self._cells()

    def task(self) -> Function:
        """One part of the many, for one head."""
        plan, tiles, lanes = self.plan, self.tiles, self.lanes
        f = self.module.function("task", [("job", ptr), ("workspace", ptr), ("task", i64)])
        address, workspace, task = f.arguments
        job = Job(address)
        instance, part = task.quotient(job.stretches), task.remainder(job.stretches)
        few_first, first, count = job.row_first, job.key_first, job.key_count
        few, many = ("q", "k") if self.many_keys else ("k", "q")
        if not self.many_keys:
            few_first, first, count = job.key_first, job.row_first, job.row_count
        start = part * job.stretch
        stop = smaller(start + job.stretch, count)
        with f.loop(0, self.rows) as r:
            strides = {"q": job.q_row, "k": job.k_row}
            line = job.head(few, tiles.stored, instance).bytes((few_first + r) * strides[few])
            packed = self._state(workspace, "queries", r)

            def pack(i: Value, c: Value, last: bool, line: Pointer = line, packed: Pointer = packed) -> None:
                packed[i * lanes] = self._row(line, c, plan.d, last, once=True)

            self._each(f, plan.d, pack)
        stride = job.k_row if self.many_keys else job.q_row
        lines = job.head(many, tiles.stored, instance).bytes(first * stride)
        with f.loop(start, stop, plan.keys) as at:
            some = smaller(stop - at, plan.keys)
            here, soon = lines.bytes(at * stride).address, lines.bytes((at + plan.keys) * stride).address
            f.call(self.score_block, [workspace, here, soon, some, stride, stride])
            f.call(self.cells, [address, workspace, instance, at, some])
        f.give()
        return f

    def _cells(self) -> Function:
        """What becomes of a block of products, written where the caller wants it."""
        plan, lanes, number = self.plan, self.lanes, self.number
        parameters = [("job", ptr), ("workspace", ptr), *((n, i64) for n in ("instance", "at", "count"))]
        f = self.module.function("cells", parameters)
        address, workspace, instance, at, count = f.arguments
        job = Job(address)
        scale = job.scale.bits(f64).to(number)
        out = job.head("out", number, instance)
        lse = job.head("lse", f64, instance)
        with f.loop(0, self.rows) as r:
            products = self._state(workspace, "scores", r)
            row, key = (
                (job.row_first + r, job.key_first + at) if self.many_keys else (job.row_first + at, job.key_first + r)
            )
            programs = self._programs(job, instance, row, key)
            with f.loop(0, count, lanes) as j:
                left = smaller(count - j, lanes)
                there = f.lanes(i32, range(lanes)) < left.to(i32).splat(lanes)
                s = products.load(j, lanes) * scale
                s, seen = self._final(f, job, programs, instance, row, key, j, s, left)
                seen = seen & there
                if "scores" in plan.reductions:
                    value = select(seen, s, -INFINITY)
                else:
                    value = select(seen, self._weight(f, lse, row, j, s, left), 0.0)
                if self.many_keys:
                    self._put_row(f, out.bytes((row - job.row_first) * job.out_row) + (at + j), value, left)
                else:
                    with f.loop(0, left) as lane:
                        out.bytes((at + j + lane) * job.out_row)[r] = value[lane]
        f.give()
        return f

    def _put_row(self, f: Function, line: Pointer, value: Value, left: Value) -> None:
        with f.when(left >= self.lanes) as otherwise:
            line[0] = value
            otherwise()
            with f.loop(0, left) as lane:
                line[lane] = value[lane]

    def _weight(self, f: Function, lse: Pointer, row: Value, j: Value, s: Value, left: Value) -> Value:
        """exp(s - lse), with what rounding lse to f32 takes away given back as a factor."""
        given = lse[row].splat(self.lanes) if self.many_keys else self._load(f, lse + (row + j), f64, left)
        base = select(given.equals(-INFINITY), 0.0, given)
        rounded = base.to(self.number)
        factor = (1.0 - (base - rounded.to(f64))).to(self.number)
        rate = f.constant(self.number, LOG2E)
        # Products are summed up in another order here than for lse, but a weight is 1 at most.
        return self.functions.exp2(smaller(f.constant(s.type, 0.0), s - rounded), rate) * factor

    def _load(self, f: Function, line: Pointer, kind: Type, left: Value) -> Value:
        """A vector, of which only so many elements are there; the others are 0."""
        result = f.variable(f.constant(kind.of(self.lanes), 0))
        with f.when(left >= self.lanes) as otherwise:
            result.set(line.load(0, self.lanes))
            otherwise()
            with f.loop(0, left) as i:
                result.set(result.get().put(i, line[i]))
        return result.get()

    def _programs(self, job: Job, instance: Value, row: Value, key: Value) -> dict[str, Lanes]:
        """Modifier and mask, knowing all but the side that lies on the lanes."""
        plan = self.plan
        whole = i32 if plan.whole_bits == 32 else i64
        heads, offset = job.heads, job.n_k - job.n_q
        known = {"b": instance.quotient(heads), "h": instance.remainder(heads)}
        known |= {"row": row, "q": row + offset} if self.many_keys else {"k": key}
        words, made = job.pointer("words", i64), {}
        for name, shape, skip in (("modify", plan.modify, 0), ("mask", plan.mask, words_of(plan.modify))):
            if shape is not None:
                base = Lanes(shape[0], words + skip, self.functions, self.number, whole)
                made[name] = base.with_(**known).ready(shape[1][0])
        return made

    def _final(
        self,
        f: Function,
        job: Job,
        programs: dict[str, Lanes],
        instance: Value,
        row: Value,
        key: Value,
        j: Value,
        s: Value,
        left: Value,
    ) -> tuple[Value, Value]:
        """Final scores of a vector of cells, and which of them are visible."""
        plan, lanes = self.plan, self.lanes
        whole = i32 if plan.whole_bits == 32 else i64
        place = ((key if self.many_keys else row) + j).to(whole).splat(lanes) + f.lanes(whole, range(lanes))
        offset = (job.n_k - job.n_q).to(whole)
        moving = {"k": place} if self.many_keys else {"row": place, "q": place + offset}
        visible = f.constant(i1.of(lanes), 1)
        if plan.modify is not None:
            before = s
            s = programs["modify"].with_(score=s, **moving).value(plan.modify[1][0], self.number).splat(lanes)
            if plan.hides:
                visible = ~(s.equals(-INFINITY) & before.differs(-INFINITY))
        if plan.bias:
            bias = self._array(f, job, "bias", STORAGE[plan.bias], instance, row, key, j, left)
            bias = self.functions.widen(bias, plan.bias) if bias.type.bits == 16 else bias.to(self.number)
            visible = visible & bias.differs(-INFINITY)
            s = s + bias
        if plan.mask is not None:
            visible = visible & programs["mask"].with_(**moving).value(plan.mask[1][0]).splat(lanes)
        if plan.mask_array:
            visible = visible & self._array(f, job, "mask", i8, instance, row, key, j, left).differs(0)
        return s, visible

    def _array(
        self,
        f: Function,
        job: Job,
        name: str,
        kind: Type,
        instance: Value,
        row: Value,
        key: Value,
        j: Value,
        left: Value,
    ) -> Value:
        """A stretch of a row, or of a column, of a (query, key) array."""
        stride = job.mask_row if name == "mask" else job.bias_row
        head = job.head(name, kind, instance)
        if self.many_keys:
            return self._load(f, head.bytes(row * stride) + (key + j), kind, left)
        result = f.variable(f.constant(kind.of(self.lanes), 0))
        with f.loop(0, left) as i:
            result.set(result.get().put(i, head.bytes((row + j + i) * stride)[key]))
        return result.get()
