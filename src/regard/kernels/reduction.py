"""Reductions: what a pass makes of the tiles that it walks past.

A pass carries a list of them. Each is made once with its functions, `begin`s with the state of a group of queries
that has seen nothing, is given every visible tile by `update`, and writes its results in `finish`. The state lies in
the workspace, queries on its lanes, and in an online pass is held relative to the running maximum: it is multiplied
by alpha whenever that moves. What a reduction wants to know once for a block of keys, for all groups that meet it, it
works out in `block`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from regard.kernels.cells import INFINITY
from regard.kernels.job import Job
from regard.kernels.tiles import UNROLL, Tiles
from regard.kernels.values import Function, Operand, Pointer, Value, f32, f64, i1, i16, i32, i64, ptr, select, smaller


@dataclass(frozen=True)
class Group:
    """Queries that lie on the lanes together: group number `index` of a block, from `row` on, of one head."""

    job: Job
    workspace: Value
    instance: Value  # leading index · heads + head
    row: Value
    index: Value


@dataclass(frozen=True)
class Block:
    """A block of keys, its values as they came, and whether anything in it may be hidden."""

    key: Value
    count: Value
    values: Pointer
    value_stride: Value
    hides: Value


@dataclass(frozen=True)
class Tile:
    """The part of a block that a group can see: `count` keys from `start` on. Their weights are in the workspace."""

    block: Block
    start: Value
    count: Value


class Reduction(Protocol):
    """What every reduction can do."""

    def prepare(self) -> Function | None:
        """A phase of its own before the pass, or none."""

    def begin(self, f: Function, group: Group) -> None:
        """The state of a group that has seen nothing."""

    def block(self, f: Function, job: Job, workspace: Value, block: Block) -> None:
        """Work out what all groups of a block will need."""

    def update(self, f: Function, group: Group, tile: Tile) -> None:
        """Take a tile into the state of a group."""

    def finish(self, f: Function, group: Group) -> None:
        """Write the results of a group."""


class Output:
    """Z = A·V: Oᵀ = Oᵀ·alpha + Vᵀ·Pᵀ, divided by the sum at the end."""

    def __init__(self, tiles: Tiles):
        self.tiles, self.plan = tiles, tiles.plan
        self.value, self.value_guarded, self.finite = self._value(), self._value_guarded(), tiles.finite()
        self.lay_panels = self._lay_panels() if self.plan.panels else None
        self.give = tiles.give(tiles.stored)
        self.guarded: Value | None = None

    def state(self, group: Group) -> Pointer:
        """d_v × lanes, and as much again for what is carried."""
        size = self.plan.across * self.plan.d_v * (1 + self.plan.long)
        return self.tiles.part(group.workspace, "output") + group.index * size

    def begin(self, f: Function, group: Group) -> None:
        lanes, state = self.plan.lanes, self.state(group)
        with f.loop(0, self.plan.d_v * self.plan.across * (1 + self.plan.long), lanes) as at:
            state[at] = f.constant(self.plan.number.of(lanes), 0.0)

    def block(self, f: Function, job: Job, workspace: Value, block: Block) -> None:
        """Lay out the values; and see whether hidden ones have to be chosen away, since 0 · inf is not 0."""
        if self.lay_panels is not None:
            put = self.tiles.part(workspace, "values")
            f.call(self.lay_panels, [block.values.address, put.address, block.count, block.value_stride])
        guarded = f.variable(f.constant(i1, 0))
        with f.when(block.hides):
            guarded.set(~f.call(self.finite, [block.values.address, block.count, block.value_stride]))
        self.guarded = guarded.get()

    def update(self, f: Function, group: Group, tile: Tile) -> None:
        assert self.guarded is not None
        block, job, state = tile.block, group.job, self.state(group).address
        numbers = [tile.start, tile.count, block.value_stride]
        lines = block.values.bytes(tile.start * block.value_stride).address
        with f.when(self.guarded) as otherwise:
            f.call(self.value_guarded, [group.workspace, lines, state, tile.count, block.value_stride])
            otherwise()
            if self.plan.pairs:
                packed = job.pointer("packed", i32).bytes(job.pointer("packed_at", i64)[group.instance])
                lines = (packed + (block.key + tile.start).lshr(1) * self.plan.d_v).address
            elif self.plan.panels:
                lines = self.tiles.part(group.workspace, "values").address
            f.call(self.value, [group.workspace, lines, state, *numbers])

    def finish(self, f: Function, group: Group) -> None:
        plan, job, tiles = self.plan, group.job, self.tiles
        total = tiles.part(group.workspace, "sum") + group.index * plan.across
        share = tiles.part(group.workspace, "alpha")
        with f.loop(0, plan.across, plan.lanes) as at:
            sums = total.load(at, plan.lanes)
            share[at] = 1.0 / select(sums.equals(0.0), 1.0, sums)
        put = job.head("out", tiles.stored, group.instance).bytes(group.row * job.out_row)
        left = smaller(job.n_q - group.row, plan.across)
        width = f.constant(i64, plan.d_v)
        f.call(self.give, [self.state(group).address, share.address, put.address, job.out_row, left, width])

    def prepare(self) -> Function | None:
        """Values as pairs of keys, for the pair product; the last of an odd number stands alone."""
        tiles, plan, lanes = self.tiles, self.plan, self.plan.lanes
        if not plan.pairs:
            return None
        f = tiles.module.function("interleave", [("job", ptr), ("workspace", ptr), ("task", i64)])
        address, _, task = f.arguments
        job = Job(address)
        parts = job.parts
        head, part = task.quotient(parts), task.remainder(parts)
        n_k, stride = job.n_k, job.v_row
        values = job.pointer("v", i16).bytes(job.pointer("source_at", i64)[head])
        put = job.pointer("packed", i32) + head * ((n_k + 1).lshr(1) * plan.d_v)
        first = part * job.part_keys
        last = smaller(first + job.part_keys, n_k)
        main = plan.d_v // lanes * lanes
        with f.loop(first, last, 2) as j:
            low, high = values.bytes(j * stride), values.bytes(smaller(j + 1, n_k - 1) * stride)
            # Past the last key comes a zero, which adds nothing.
            keep = select(j + 1 < n_k, f.constant(i32, -1), 0)
            to = put + j.lshr(1) * plan.d_v

            def both(c: Value, n: int, low: Pointer = low, high: Pointer = high, keep: Value = keep) -> Value:
                upper = high.load(c, n).to(i32, signed=False) & keep.splat(n)
                return low.load(c, n).to(i32, signed=False) | (upper << 16)

            with f.loop(0, main, lanes) as c:
                to[c] = both(c, lanes)
            with f.loop(main, plan.d_v) as c:
                to[c] = both(c, 1)
        f.give()
        return f

    def _lay_panels(self) -> Function:
        """A block of values as panels, each of all its keys and as many columns as a register tile has rows.

        A panel is read from end to end by every group. Rows of V as they come lie so far apart that a few columns of
        them fall on few sets of the nearest cache, and push each other out.
        """
        tiles, plan, rows = self.tiles, self.plan, self.plan.target.rows
        f = tiles.module.function("lay_panels", [("values", ptr), ("put", ptr), ("count", i64), ("stride", i64)])
        values, put, count, stride = f.arguments
        panels = Pointer(put, plan.number)

        def lay(first: Operand, widths: list[int]) -> None:
            """Neighbouring panels, from a column on."""
            with f.loop(0, count) as j:
                line = Pointer(values, tiles.stored).bytes(j * stride)
                column = f.value(i64, first)
                for width in widths:
                    panels[column * plan.keys + j * width] = tiles.read(line, column, width)
                    column = column + width

        whole = plan.d_v // (2 * rows) * (2 * rows)
        with f.loop(0, whole, 2 * rows) as first:  # the columns of a cache line, of f32, together
            lay(first, [rows, rows])
        rest = [rows] * ((plan.d_v - whole) // rows) + [plan.d_v % rows] * (plan.d_v % rows > 0)
        if rest:
            lay(whole, rest)
        f.give()
        return f

    def _value(self) -> Function:
        """What some keys of a block add to the output of a group. The sum of a block starts at zero, is added once."""
        tiles, plan, lanes, vectors = self.tiles, self.plan, self.plan.lanes, self.plan.vectors
        pointers, numbers = ("workspace", "values", "output"), ("start", "count", "stride")
        f = tiles.module.function("value", [*((n, ptr) for n in pointers), *((n, i64) for n in numbers)])
        workspace, values, output, begin, count, stride = f.arguments
        weights = tiles.part(workspace, "pairs", i32) if plan.pairs else tiles.part(workspace, "scores")
        steps = (count + 1).lshr(1) if plan.pairs else count
        result, alpha = Pointer(output, tiles.number), tiles.part(workspace, "alpha")
        size = 4 if plan.pairs else tiles.number.size

        def columns(start: Operand, width: int) -> None:
            """So many columns of V, for all keys."""
            total = tiles.zeros(f, width * vectors)
            first, step = Pointer(values, tiles.operand, size) + start, stride
            if plan.pairs:
                step = f.constant(i64, plan.d_v * size)
            elif plan.panels:
                step = f.constant(i64, width * size)
                first = Pointer(values, tiles.operand, size) + (f.value(i64, start) * plan.keys + begin * width)

            def key(at: Value) -> None:
                p = [weights.load(at * plan.across + v * lanes, lanes) for v in range(vectors)]
                line = first.bytes(at * step)
                for c in range(width):
                    x = line[c].splat(lanes)
                    for v in range(vectors):
                        place = total[c * vectors + v]
                        place.set(tiles.product(x, p[v], place.get()))

            main = steps & -UNROLL
            with f.loop(0, main, UNROLL) as j:
                for u in range(UNROLL):
                    key(j + u)
            with f.loop(main, steps) as j:
                key(j)
            scale = [alpha.load(v * lanes, lanes) for v in range(vectors)]
            for c in range(width):
                for v in range(vectors):
                    at = (f.value(i64, start) + c) * plan.across + v * lanes
                    tiles.gather(result, at, scale[v], total[c * vectors + v].get(), plan.d_v * plan.across)

        rows = plan.target.rows
        if plan.d_v >= rows:
            with f.loop(0, plan.d_v // rows * rows, rows) as start:
                columns(start, rows)
        if plan.d_v % rows:
            columns(plan.d_v // rows * rows, plan.d_v % rows)
        f.give()
        return f

    def _value_guarded(self) -> Function:
        """The same where V holds NaN or inf: what is hidden is left out by choice, since 0 · inf is not 0."""
        tiles, plan, lanes, vectors = self.tiles, self.plan, self.plan.lanes, self.plan.vectors
        parameters = [(n, ptr) for n in ("workspace", "values", "output")] + [("count", i64), ("stride", i64)]
        f = tiles.module.function("value_guarded", parameters)
        workspace, values, output, count, stride = f.arguments
        result, alpha = Pointer(output, tiles.number), tiles.part(workspace, "alpha")
        with f.loop(0, plan.d_v) as c:
            total = tiles.zeros(f, vectors)
            with f.loop(0, count) as j:
                x = tiles.read(Pointer(values, tiles.stored).bytes(j * stride), c, 1).splat(lanes)
                for v in range(vectors):
                    if plan.pairs:
                        both = tiles.part(workspace, "pairs", i32).load(j.lshr(1) * plan.across + v * lanes, lanes)
                        p = select((j & 1).equals(0), both << 16, both & -65536).bits(f32.of(lanes))
                    else:
                        p = tiles.part(workspace, "scores").load(j * plan.across + v * lanes, lanes)
                    seen = tiles.seen(workspace, j, v)
                    more = tiles.functions.fma(x, p, total[v].get())
                    total[v].set(select(seen, more, total[v].get()))
            for v in range(vectors):
                at = c * plan.across + v * lanes
                tiles.gather(result, at, alpha.load(v * lanes, lanes), total[v].get(), plan.d_v * plan.across)
        f.give()
        return f


class LogSumExp:
    """lse = m + ln Σ, from the maximum and the sum that every online pass keeps; -inf for an empty row."""

    def __init__(self, tiles: Tiles):
        self.tiles, self.plan = tiles, tiles.plan

    def prepare(self) -> Function | None:
        return None

    def begin(self, f: Function, group: Group) -> None:
        return None

    def block(self, f: Function, job: Job, workspace: Value, block: Block) -> None:
        return None

    def update(self, f: Function, group: Group, tile: Tile) -> None:
        return None

    def finish(self, f: Function, group: Group) -> None:
        plan, tiles, job = self.plan, self.tiles, group.job
        maximum, total = (tiles.part(group.workspace, name) + group.index * plan.across for name in ("maximum", "sum"))
        room = tiles.part(group.workspace, "alpha")
        lse = job.head("lse", plan.number, group.instance) + group.row
        scale = f.constant(plan.number, 1.0) if plan.natural else job.scale.bits(f64).to(plan.number)
        with f.loop(0, plan.across, plan.lanes) as at:
            sums = total.load(at, plan.lanes)
            empty = sums.equals(0.0)
            logarithm = tiles.functions.log(select(empty, 1.0, sums))
            most = maximum.load(at, plan.lanes)
            natural = tiles.functions.fma(most, scale, logarithm)
            room[at] = select(empty, -INFINITY, natural)
        with f.loop(0, smaller(job.n_q - group.row, plan.across)) as lane:
            lse[lane] = room[lane]


class Cells:
    """The weights themselves, written where the caller wants a part of A: rows × keys, row by row."""

    def __init__(self, tiles: Tiles):
        self.tiles, self.plan = tiles, tiles.plan
        self.give = tiles.give(tiles.number)

    def prepare(self) -> Function | None:
        return None

    def begin(self, f: Function, group: Group) -> None:
        one = f.constant(self.plan.number.of(self.plan.lanes), 1.0)
        rate = self.tiles.part(group.workspace, "alpha")
        with f.loop(0, self.plan.across, self.plan.lanes) as at:
            rate[at] = one

    def block(self, f: Function, job: Job, workspace: Value, block: Block) -> None:
        return None

    def update(self, f: Function, group: Group, tile: Tile) -> None:
        plan, job, tiles = self.plan, group.job, self.tiles
        column = tile.block.key + tile.start - job.key_first
        put = job.head("out", plan.number, group.instance).bytes((group.row - job.row_first) * job.out_row) + column
        left = smaller(job.row_first + job.row_count - group.row, plan.across)
        weights, rate = tiles.part(group.workspace, "scores"), tiles.part(group.workspace, "alpha")
        f.call(self.give, [weights.address, rate.address, put.address, job.out_row, left, tile.count])

    def finish(self, f: Function, group: Group) -> None:
        return None


REDUCTIONS: dict[str, Callable[[Tiles], Reduction]] = {"output": Output, "lse": LogSumExp, "cells": Cells}
