"""One walk along the keys for a block of queries: what the online and the settled pass share.

A task is a strip of one head: some blocks of queries, one after the other, which share what a reduction sums up over
queries. Where nothing is carried along the keys, a task may also be a stretch of them. A block asks its mask which
tiles to visit, and carries the state of its reductions from tile to tile. When its budget of tiles is spent a task
returns, with its state in its workspace, to be called again.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.kernels import additive, amx
from regard.kernels.job import Job
from regard.kernels.plan import JOB, STATE, Plan
from regard.kernels.reduction import Block, Group, Tile
from regard.kernels.reductions import reductions
from regard.kernels.tiles import Tiles
from regard.kernels.values import Function, Module, Pointer, Value, f32, i1, i32, i64, larger, ptr, select, smaller

TRIM = 32  # keys: the ends of a mixed tile are cut to what a group can see in steps of this


@dataclass(frozen=True)
class Queries:
    """The block of queries of a task."""

    job: Job
    workspace: Value
    instance: Value
    row: Value
    last_row: Value
    groups: Value


class Walk:
    """Written once for both passes; `weigh` is what they differ in."""

    def __init__(self, plan: Plan, module: Module):
        self.plan, self.module = plan, module
        self.tiles = tiles = Tiles(plan, module)
        self.reductions = reductions(tiles)
        self.score = additive.score(tiles) if plan.additive else amx.score(tiles) if plan.amx else tiles.score()
        self.change_partial = tiles.change(hiding=True)
        self.change_full = tiles.change(hiding=False) if plan.natural else None
        self.pack = tiles.pack()
        self.widen = tiles.widen() if plan.widened else None
        self.fill_keys = amx.fill_keys(tiles) if plan.amx else None
        self.classify = tiles.classify() if plan.mask is not None else None
        self.fetch = [tiles.fetch(name) for name, on in (("mask", plan.mask_array), ("bias", plan.bias)) if on]
        self.prepared()
        self.visit = self._visit()

    def prepared(self) -> None:
        """Make the functions that this pass alone has."""
        raise NotImplementedError  # an abstract method

    def start(self, f: Function, group: Group) -> None:
        """The state of the pass itself for a group that has seen nothing."""
        raise NotImplementedError  # an abstract method

    def weigh(self, f: Function, group: Group, tile: Tile) -> None:
        """Turn the scores in the workspace into weights."""
        raise NotImplementedError  # an abstract method

    def phases(self) -> list[Function | None]:
        """What runs: the preparation of a reduction, then the walk."""
        before = [x for x in (reduction.prepare() for reduction in self.reductions) if x is not None]
        return [before[0] if before else None, self.task()]

    def task(self) -> Function:
        """One strip of queries; gives 1 if the budget ran out before its end."""
        plan = self.plan
        f = self.module.function("task", [("job", ptr), ("workspace", ptr), ("task", i64)], i64)
        address, workspace, task = f.arguments
        job, state = Job(address), Pointer(workspace, i64)
        blocks = (job.row_count + (plan.block - 1)).quotient(plan.block)
        strips = (blocks + (job.strip - 1)).quotient(job.strip)
        task, stretch = task.quotient(job.stretches), task.remainder(job.stretches)
        # Later strips first: under a causal mask they are the longest.
        instance, strip = task.quotient(strips), strips - 1 - task.remainder(strips)
        state[STATE["strip"]] = instance * strips + strip
        with f.when(state[STATE["fresh"]].differs(0)):
            state[STATE["block"]] = strip * job.strip
        stop = smaller((strip + 1) * job.strip, blocks)
        tiles = (job.key_count + (plan.keys - 1)).quotient(plan.keys)
        begin, end = stretch * job.stretch, smaller((stretch + 1) * job.stretch, tiles)
        spent = f.variable(f.constant(i64, 0))
        with f.repeat() as leave:
            leave((state[STATE["block"]] >= stop) | spent.get().differs(0))
            spent.set(self._block(f, job, workspace, instance, begin, end))
            with f.when(spent.get().equals(0)):
                state[STATE["block"]] = state[STATE["block"]] + 1
                state[STATE["fresh"]] = 1
        f.give(spent.get())
        return f

    def _block(self, f: Function, job: Job, workspace: Value, instance: Value, begin: Value, end: Value) -> Value:
        """One block of queries, from a tile to another; gives 1 if the budget ran out before its end."""
        plan, state = self.plan, Pointer(workspace, i64)
        row = job.row_first + state[STATE["block"]] * plan.block
        rows = smaller(job.row_first + job.row_count - row, plan.block)
        groups = (rows + (plan.across - 1)).quotient(plan.across)
        queries = Queries(job, workspace, instance, row, row + rows - 1, groups)
        with f.when(state[STATE["fresh"]].differs(0)):
            packed = self.tiles.part(workspace, "queries", self.tiles.operand)
            if plan.additive:
                additive.vector(self.tiles, f, job, workspace, instance)
            with f.loop(0, groups) as g:
                group = Group(job, workspace, instance, row + g * plan.across, g)
                here = packed + g * (plan.depth * plan.across)
                f.call(self.pack, [job.words.address, here.address, instance, group.row])
                self.start(f, group)
                for reduction in self.reductions:
                    reduction.begin(f, group)
            state[STATE["tile"]] = begin
            state[STATE["fresh"]] = 0
        spent = self._along(f, queries, end)
        with f.when(spent.equals(0)), f.loop(0, groups) as g:
            for reduction in self.reductions:
                reduction.finish(f, Group(job, workspace, instance, row + g * plan.across, g))
        return spent

    def _along(self, f: Function, queries: Queries, end: Value) -> Value:
        """Visit every tile before an end that is not hidden; gives 1 if the budget was spent before the last."""
        job, state = queries.job, Pointer(queries.workspace, i64)
        count = (job.key_count + (self.plan.keys - 1)).quotient(self.plan.keys)
        tile, spent = f.variable(state[STATE["tile"]]), f.variable(f.constant(i64, 0))
        level, full_until = f.variable(f.constant(i64, 0)), f.variable(f.constant(i64, 0))
        budget = f.variable(state[STATE["budget"]])
        if self.classify is not None:
            level.set(self._level(f, tile.get(), count))

        def take(full: bool) -> None:
            at = tile.get()
            whole = f.constant(i64, int(full))
            arguments = [job.words.address, queries.workspace, queries.instance, queries.row, queries.groups, at, whole]
            f.call(self.visit, arguments)
            budget.set(budget.get() - queries.groups)
            tile.set(at + 1)

        with f.repeat() as leave:
            leave(tile.get() >= end)
            enough = (budget.get() <= 0) | job.words.load_acquire(JOB["stop"]).differs(0)
            spent.set(enough.to(i64, signed=False))
            leave(enough)
            if self.classify is None:
                take(full=True)
            else:
                with f.when(tile.get() < full_until.get()) as otherwise:
                    take(full=True)
                    with f.when(tile.get().equals(full_until.get())):
                        level.set(self._level(f, tile.get(), count))
                    otherwise()
                    answer, stop = self._ask(f, queries, tile.get(), level.get(), count)
                    with f.when(answer.equals(0)) as not_empty:
                        tile.set(stop)
                        level.set(self._level(f, stop, count))
                        not_empty()
                        with f.when(answer.equals(3)) as mixed:
                            full_until.set(smaller(stop, count))
                            mixed()
                            with f.when(level.get() > 0) as single:
                                level.set(level.get() - 1)
                                single()
                                take(full=False)
                                level.set(self._level(f, tile.get(), count))
        state[STATE["tile"]] = tile.get()
        state[STATE["budget"]] = budget.get()
        return spent.get()

    def _level(self, f: Function, tile: Value, count: Value) -> Value:
        """How far to look from a tile: the largest power of two that starts there and could still be inside."""
        aligned = f.call("llvm.cttz.i64", [tile, f.constant(i1, 0)], i64)
        whole = 63 - f.call("llvm.ctlz.i64", [count | 1, f.constant(i1, 0)], i64)
        return smaller(aligned, whole)

    def _ask(self, f: Function, queries: Queries, tile: Value, level: Value, count: Value) -> tuple[Value, Value]:
        """Whether 2^level tiles are empty (0), mixed (1) or full (3), and the tile after them."""
        assert self.classify is not None
        job, stop = queries.job, tile + (f.constant(i64, 1) << level)
        first = job.key_first + tile * self.plan.keys
        last = job.key_first + smaller(stop * self.plan.keys, job.key_count) - 1
        rows = [queries.row, queries.last_row]
        return f.call(self.classify, [job.words.address, queries.instance, *rows, first, last]), stop

    def _visit(self) -> Function:
        """Take a block of keys into the state of all groups."""
        plan, tiles = self.plan, self.tiles
        names = ("instance", "row", "groups", "tile", "full")
        f = self.module.function("visit", [("job", ptr), ("workspace", ptr), *((n, i64) for n in names)])
        address, workspace, instance, row, groups, tile, full = f.arguments
        job = Job(address)
        key = job.key_first + tile * plan.keys
        count = smaller(job.key_first + job.key_count - key, plan.keys)
        keys, key_stride = job.head("k", tiles.stored, instance).bytes(key * job.k_row), job.k_row
        values, value_stride = job.head("v", tiles.stored, instance).bytes(key * job.v_row), job.v_row
        if self.widen is not None:
            put = tiles.part(workspace, "keys", f32)
            f.call(self.widen, [keys.address, put.address, count, key_stride])
            keys, key_stride = put, f.constant(i64, plan.d * 4)
        if self.fill_keys is not None:
            keys, key_stride = self._filled(f, workspace, keys, count, key_stride)
        partial = full.equals(0) | (count & (plan.step - 1)).differs(0)
        if plan.mask_array:
            partial = f.constant(i1, 1)
        hides = f.constant(i1, 1) if plan.hides else partial
        block = Block(instance, key, count, values, value_stride, hides)
        for reduction in self.reductions:
            reduction.block(f, job, workspace, block)
        with f.loop(0, groups) as g:
            group = Group(job, workspace, instance, row + g * plan.across, g)
            begin, length = self._trimmed(f, group, block, full)
            visible = f.variable((length > 0).to(i64, signed=False))
            for fetch in self.fetch:
                with f.when(visible.get().differs(0)):
                    arguments = [address, workspace, instance, group.row, key + begin, length]
                    visible.set(f.call(fetch, arguments).to(i64, signed=False))
            with f.when(visible.get().differs(0)):
                here = keys.bytes(begin * key_stride).address
                queries = tiles.part(workspace, "queries", tiles.operand) + g * (plan.depth * plan.across)
                f.call(self.score, [workspace, here, queries.address, length, key_stride])
                which = [address, workspace, instance, group.row, key + begin, length]
                with f.when(partial) as otherwise:
                    f.call(self.change_partial, which)
                    otherwise()
                    if self.change_full is not None:
                        f.call(self.change_full, which)
                tile_seen = Tile(block, begin, length)
                self.weigh(f, group, tile_seen)
                for reduction in self.reductions:
                    reduction.update(f, group, tile_seen)
        f.give()
        return f

    def _filled(
        self, f: Function, workspace: Value, keys: Pointer, count: Value, stride: Value
    ) -> tuple[Pointer, Value]:
        """Keys where they are, or, where they do not fill matrix registers, in the workspace with zeros around them."""
        assert self.fill_keys is not None
        plan, put = self.plan, self.tiles.part(workspace, "keys", i32)
        where, apart = f.variable(keys.address), f.variable(stride)
        short = (count & (plan.step - 1)).differs(0) if plan.d % 32 == 0 else f.constant(i1, 1)
        with f.when(short):
            f.call(self.fill_keys, [keys.address, put.address, count, stride])
            where.set(put.address)
            apart.set(plan.depth * 4)
        return Pointer(where.get(), keys.element), apart.get()

    def _trimmed(self, f: Function, group: Group, block: Block, full: Value) -> tuple[Value, Value]:
        """Of a mixed block, the keys between the first and the last that this group can see: where, and how many."""
        start, some = f.variable(f.constant(i64, 0)), f.variable(block.count)
        if self.classify is not None:
            job = group.job
            last_row = smaller(group.row + self.plan.across, job.row_first + job.row_count) - 1
            with f.when(full.equals(0)):
                begin, end = f.variable(f.constant(i64, -1)), f.variable(f.constant(i64, 0))
                with f.loop(0, block.count, TRIM) as j:
                    stop = smaller(j + TRIM, block.count)
                    where = [group.row, last_row, block.key + j, block.key + stop - 1]
                    answer = f.call(self.classify, [job.words.address, group.instance, *where])
                    with f.when(answer.differs(0)):
                        begin.set(select(begin.get() < 0, j, begin.get()))
                        end.set(stop)
                start.set(larger(begin.get(), 0))
                some.set(end.get() - start.get())
        return start.get(), some.get()
