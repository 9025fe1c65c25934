"""The online pass: lse is not known yet, so a running maximum rescales what was gathered.

A task is a block of queries of one head. It walks along the keys, skipping what its mask hides, and carries the state of
its reductions from block to block. Workers take tasks from a shared counter; a worker whose budget of tiles is used up
returns, with its state in its workspace, to be called again.
"""

from __future__ import annotations

from regard.kernels.functions import LOG2E
from regard.kernels.plan import JOB, STATE, Plan
from regard.kernels.tiles import Job, Tiles
from regard.kernels.values import (
    Function,
    Module,
    Pointer,
    Value,
    Variable,
    f32,
    i1,
    i32,
    i64,
    larger,
    ptr,
    select,
    smaller,
)

TRIM = 32  # keys: the ends of a mixed tile are cut to what a group can see in steps of this
PATIENCE = 20_000  # looks at a counter while waiting for the others, some tenths of a millisecond


def forward(plan: Plan) -> Module:
    """The module of a forward plan; its public function is `run(job, workspace)`: 0 is done, 1 asks to be called again."""
    module = Module()
    task = Pass(plan, module).task()
    prepare = Tiles(plan, module).interleave() if plan.pairs and "output" in plan.reductions else None
    run(module, [prepare, task])
    return module


class Pass:
    """One walk along the keys for a block of queries."""

    def __init__(self, plan: Plan, module: Module):
        self.plan, self.module = plan, module
        self.tiles = tiles = Tiles(plan, module)
        self.whole_values = "output" in plan.reductions
        self.score = [tiles.score(partial=False), tiles.score(partial=True)]
        self.weigh, self.pack, self.finish = tiles.weigh(), tiles.pack(), tiles.finish()
        self.value = [tiles.value(), tiles.value_guarded()] if self.whole_values else []
        self.finite = tiles.finite() if self.whole_values else None
        self.widen = tiles.widen() if plan.widened else None
        self.classify = tiles.classify() if plan.mask is not None else None
        self.fetch = [tiles.fetch(name) for name, on in (("mask", plan.mask_array), ("bias", plan.bias)) if on]

    def begin(self, f: Function, job: Job, workspace: Value, instance: Value, row: Value, groups: Value) -> None:
        """Pack the queries and set their state to what an empty row has."""
        plan, tiles = self.plan, self.tiles
        lanes = plan.lanes
        queries = tiles.part(workspace, "queries", tiles.operand)
        output, maximum, total = (tiles.part(workspace, name) for name in ("output", "maximum", "sum"))
        with f.loop(0, groups) as g:
            packed = queries + g * (plan.depth * plan.across)
            f.call(self.pack, [job.words.address, packed.address, instance, row + g * plan.across])
        start, first = f.constant(plan.number, -float("inf")), f.constant(plan.number, 0.0)
        if plan.sinks:  # a sink is a key that is always there and has no value
            sink = job.pointer("sinks", plan.number)[instance.remainder(job.heads)]
            start = sink * LOG2E
            first = select(sink.equals(-float("inf")), f.constant(plan.number, 0.0), 1.0)
        with f.loop(0, groups * plan.across, lanes) as at:
            maximum[at], total[at] = start.splat(lanes), first.splat(lanes)
        if self.whole_values:
            with f.loop(0, groups * (plan.d_v * plan.across), lanes) as at:
                output[at] = f.constant(plan.number.of(lanes), 0.0)

    def task(self) -> Function:
        """One block of queries; gives 1 if the budget ran out before its end."""
        plan, tiles = self.plan, self.tiles
        f = self.module.function("task", [("job", ptr), ("workspace", ptr), ("task", i64)], i64)
        address, workspace, task = f.arguments
        job, state = Job(address), Pointer(workspace, i64)
        n_q, n_k = job.n_q, job.n_k
        blocks = (n_q + (plan.block - 1)).quotient(plan.block)
        # Later blocks first: under a causal mask they are the longest.
        instance, block = task.quotient(blocks), blocks - 1 - task.remainder(blocks)
        row = block * plan.block
        rows = smaller(n_q - row, plan.block)
        groups = (rows + (plan.across - 1)).quotient(plan.across)
        last_row = row + rows - 1
        with f.when(state[STATE["fresh"]].differs(0)):
            self.begin(f, job, workspace, instance, row, groups)
            state[STATE["tile"]] = 0
            state[STATE["fresh"]] = 0

        count = (n_k + (plan.keys - 1)).quotient(plan.keys)
        tile, level = f.variable(state[STATE["tile"]]), f.variable(f.constant(i64, 0))
        full_until = f.variable(f.constant(i64, 0))
        budget, spent = f.variable(state[STATE["budget"]]), f.variable(f.constant(i64, 0))
        if self.classify is not None:
            level.set(self._level(f, tile.get(), count))

        with f.repeat() as leave:
            at = tile.get()
            leave(at >= count)
            enough = (budget.get() <= 0) | job.words.load_acquire(JOB["stop"]).differs(0)
            spent.set(enough.to(i64, signed=False))
            leave(enough)
            if self.classify is None:
                self._visit(f, job, workspace, instance, row, groups, at, f.constant(i1, 1))
                budget.set(budget.get() - groups)
                tile.set(at + 1)
            else:
                with f.when(at < full_until.get()) as otherwise:
                    self._visit(f, job, workspace, instance, row, groups, at, f.constant(i1, 1))
                    budget.set(budget.get() - groups)
                    tile.set(at + 1)
                    with f.when((at + 1).equals(full_until.get())):
                        level.set(self._level(f, at + 1, count))
                    otherwise()
                    self._descend(f, job, workspace, instance, row, last_row, groups, count, tile, level, full_until, budget)
        state[STATE["tile"]] = tile.get()
        state[STATE["budget"]] = budget.get()
        with f.when(spent.get().equals(0)):
            output, maximum, total = (tiles.part(workspace, name) for name in ("output", "maximum", "sum"))
            with f.loop(0, groups) as g:
                first = g * plan.across
                parts = [output + first * plan.d_v, maximum + first, total + first]
                f.call(self.finish, [address, *(x.address for x in parts), workspace, instance, row + first])
        f.give(spent.get())
        return f

    def _level(self, f: Function, tile: Value, count: Value) -> Value:
        """How far to look from a tile: the largest power of two that starts there and could still be inside."""
        aligned = f.call("llvm.cttz.i64", [tile, f.constant(i1, 0)], i64)
        whole = 63 - f.call("llvm.ctlz.i64", [count | 1, f.constant(i1, 0)], i64)
        return smaller(aligned, whole)

    def _descend(
        self,
        f: Function,
        job: Job,
        workspace: Value,
        instance: Value,
        row: Value,
        last_row: Value,
        groups: Value,
        count: Value,
        tile: Variable,
        level: Variable,
        full_until: Variable,
        budget: Variable,
    ) -> None:
        """Ask the mask of a stretch of tiles; pass over it, take it whole, halve it, or visit a mixed tile."""
        plan = self.plan
        assert self.classify is not None
        at = tile.get()
        size = f.constant(i64, 1) << level.get()
        last_key = smaller((at + size) * plan.keys, job.n_k) - 1
        answer = f.call(self.classify, [job.words.address, instance, row, last_row, at * plan.keys, last_key])
        with f.when(answer.equals(0)) as otherwise:
            tile.set(at + size)
            level.set(self._level(f, at + size, count))
            otherwise()
            with f.when(answer.equals(3)) as otherwise_mixed:
                full_until.set(smaller(at + size, count))
                otherwise_mixed()
                with f.when(level.get() > 0) as otherwise_one:
                    level.set(level.get() - 1)
                    otherwise_one()
                    self._visit(f, job, workspace, instance, row, groups, at, f.constant(i1, 0))
                    budget.set(budget.get() - groups)
                    tile.set(at + 1)
                    level.set(self._level(f, at + 1, count))

    def _visit(
        self, f: Function, job: Job, workspace: Value, instance: Value, row: Value, groups: Value, at: Value, full: Value
    ) -> None:
        """Take a block of keys into the state of all groups."""
        if not hasattr(self, "visit"):
            self.visit = self._visiting()
        f.call(self.visit, [job.words.address, workspace, instance, row, groups, at, full.to(i64, signed=False)])

    def _visiting(self) -> Function:
        plan, tiles = self.plan, self.tiles
        names = ("instance", "row", "groups", "tile", "full")
        f = self.module.function("visit", [("job", ptr), ("workspace", ptr), *((n, i64) for n in names)])
        address, workspace, instance, row, groups, tile, full = f.arguments
        job = Job(address)
        key = tile * plan.keys
        count = smaller(job.n_k - key, plan.keys)
        keys, key_stride = job.head("k", tiles.stored, instance).bytes(key * job.k_row), job.k_row
        values, value_stride = job.head("v", tiles.stored, instance).bytes(key * job.v_row), job.v_row
        if self.widen is not None:
            keys, key_stride = self._widened(f, workspace, "keys", keys, count, key_stride, plan.d)
            if self.whole_values:
                values, value_stride = self._widened(f, workspace, "values", values, count, value_stride, plan.d_v)
        partial = full.equals(0) | (count & (plan.target.rows - 1)).differs(0)
        if plan.mask_array:
            partial = f.constant(i1, 1)
        guarded = f.variable(f.constant(i1, 0))
        if self.finite is not None:
            # Only what is hidden can leak; a full tile hides nothing but by a bias or a modifier.
            hides = f.constant(i1, 1) if plan.modify is not None or plan.bias else partial
            with f.when(hides):
                guarded.set(~f.call(self.finite, [values.address, count, value_stride]))
        with f.loop(0, groups) as g:
            first = row + g * plan.across
            start, some = f.variable(f.constant(i64, 0)), f.variable(count)
            if self.classify is not None:
                with f.when(full.equals(0)):
                    self._trim(f, address, instance, first, job, key, count, start, some)
            begin, length = start.get(), some.get()
            visible = f.variable((length > 0).to(i64, signed=False))
            for fetch in self.fetch:
                arguments = [address, workspace, instance, first, key + begin, length]
                with f.when(visible.get().differs(0)):
                    visible.set(f.call(fetch, arguments).to(i64, signed=False))
            with f.when(visible.get().differs(0)):
                here = keys.bytes(begin * key_stride).address
                queries = tiles.part(workspace, "queries", tiles.operand) + g * (plan.depth * plan.across)
                arguments = [address, workspace, here, queries.address, instance, first, key + begin, length, key_stride]
                with f.when(partial) as otherwise:
                    f.call(self.score[1], arguments)
                    otherwise()
                    f.call(self.score[0], arguments)
                offset = g * plan.across
                maximum, total = (tiles.part(workspace, name) + offset for name in ("maximum", "sum"))
                f.call(self.weigh, [workspace, maximum.address, total.address, length])
                if self.whole_values:
                    output = tiles.part(workspace, "output") + offset * plan.d_v
                    with f.when(guarded.get()) as otherwise:
                        lines = values.bytes(begin * value_stride).address
                        f.call(self.value[1], [workspace, lines, output.address, length, value_stride])
                        otherwise()
                        if plan.pairs:
                            packed = job.pointer("packed", i32).bytes(job.pointer("packed_at", i64)[instance])
                            lines = (packed + (key + begin).lshr(1) * plan.d_v).address
                            stride = f.constant(i64, plan.d_v * 4)
                        else:
                            lines, stride = values.bytes(begin * value_stride).address, value_stride
                        f.call(self.value[0], [workspace, lines, output.address, length, stride])
        f.give()
        return f

    def _widened(
        self, f: Function, workspace: Value, name: str, rows: Pointer, count: Value, stride: Value, width: int
    ) -> tuple[Pointer, Value]:
        assert self.widen is not None
        put = self.tiles.part(workspace, name, f32)
        f.call(self.widen, [rows.address, put.address, count, stride, f.constant(i64, width)])
        return put, f.constant(i64, width * 4)

    def _trim(
        self,
        f: Function,
        address: Value,
        instance: Value,
        row: Value,
        job: Job,
        key: Value,
        count: Value,
        start: Variable,
        some: Variable,
    ) -> None:
        """Cut the keys of a mixed tile to those between the first and the last that this group can see."""
        assert self.classify is not None
        last_row = smaller(row + self.plan.across, job.n_q) - 1
        begin, end = f.variable(f.constant(i64, -1)), f.variable(f.constant(i64, 0))
        with f.loop(0, count, TRIM) as j:
            stop = smaller(j + TRIM, count)
            answer = f.call(self.classify, [address, instance, row, last_row, key + j, key + stop - 1])
            with f.when(answer.differs(0)):
                begin.set(select(begin.get() < 0, j, begin.get()))
                end.set(stop)
        start.set(larger(begin.get(), 0))
        some.set(end.get() - start.get())


def run(module: Module, phases: list[Function | None]) -> None:
    """The function that workers call: the tasks of each phase, and between phases a wait for all of the one before."""
    f = module.function("run", [("job", ptr), ("workspace", ptr)], i64, public=True)
    address, workspace = f.arguments
    shared, state = Pointer(address, i64), Pointer(workspace, i64)
    result = f.variable(f.constant(i64, 0))
    for number, phase in enumerate(phases):
        if phase is None:
            continue
        next_task, done, total = JOB[f"next{number}"], JOB[f"done{number}"], shared[JOB[f"total{number}"]]
        resumable = phase.result == i64
        with f.repeat() as leave:
            leave(result.get().differs(0) | shared.load_acquire(JOB["stop"]).differs(0))
            task = f.variable(state[STATE["task"]])
            with f.when(task.get() < 0):
                task.set(shared.fetch_add(next_task, 1))
                state[STATE["fresh"]] = 1
            leave(task.get() >= total)
            if resumable:
                result.set(f.call(phase, [address, workspace, task.get()]))
                state[STATE["task"]] = select(result.get().equals(0), f.constant(i64, -1), task.get())
            else:
                f.call(phase, [address, task.get()])
            with f.when(result.get().equals(0)):
                shared.fetch_add(done, 1)
        tries = f.variable(f.constant(i64, 0))
        with f.when(result.get().equals(0)):
            with f.repeat() as leave:
                leave((shared.load_acquire(done) >= total) | shared.load_acquire(JOB["stop"]).differs(0))
                result.set((tries.get() >= PATIENCE).to(i64, signed=False))
                leave(result.get().differs(0))
                tries.set(tries.get() + 1)
    f.give(result.get())

