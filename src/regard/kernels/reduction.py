"""Reductions: what a pass makes of the tiles that it walks past.

A pass carries a list of them. Each is made once with its functions, `begin`s with the state of a group of queries
that has seen nothing, is given every visible tile by `update`, and writes its results in `finish`. The state lies in
the workspace, queries on its lanes, and in an online pass is held relative to the running maximum: it is multiplied
by alpha whenever that moves. What a reduction wants to know once for a block of keys, for all groups that meet it, it
works out in `block`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from regard.kernels.cells import INFINITY
from regard.kernels.job import Job
from regard.kernels.tiles import Tiles
from regard.kernels.values import Function, Pointer, Type, Value, f64, i64, larger, ptr, select, smaller
from regard.kernels.weighted import Lines, Values


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
    """A block of keys of a head, its values as they came, and whether anything in it may be hidden."""

    instance: Value
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
        self.values, self.give = Values(tiles), tiles.give(tiles.stored)
        self.lines: Lines | None = None

    def state(self, group: Group) -> Pointer:
        """d_v × lanes, and as much again for what is carried."""
        size = self.plan.across * self.plan.d_v * (1 + self.plan.long)
        return self.tiles.part(group.workspace, "output") + group.index * size

    def begin(self, f: Function, group: Group) -> None:
        lanes, state = self.plan.lanes, self.state(group)
        with f.loop(0, self.plan.d_v * self.plan.across * (1 + self.plan.long), lanes) as at:
            state[at] = f.constant(self.plan.number.of(lanes), 0.0)

    def block(self, f: Function, job: Job, workspace: Value, block: Block) -> None:
        self.lines = self.values.lie(f, job, workspace, block)

    def update(self, f: Function, group: Group, tile: Tile) -> None:
        assert self.lines is not None
        lines, block, state = self.lines, tile.block, self.state(group).address
        f.call(self.values.value, [group.workspace, lines.values, state, tile.start, tile.count, lines.stride])
        with f.when(lines.cleaned):
            seen = block.values.bytes(tile.start * block.value_stride).address
            f.call(self.values.beyond, [group.workspace, seen, state, tile.count, block.value_stride])

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
        return self.values.prepare()


class LogSumExp:
    """lse = m + ln Σ, from the maximum and the sum that every online pass keeps; -inf for an empty row.

    The wide kind is f64: weights are made from it, and a rounding of it would be one of a whole row.
    """

    def __init__(self, tiles: Tiles, wide: bool = False):
        self.tiles, self.plan, self.wide = tiles, tiles.plan, wide

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
        kind = f64 if self.wide else plan.number
        room = Pointer(f.stack(kind, plan.lanes), kind)
        lse = job.head("lse", kind, group.instance) + group.row
        scale = f.constant(kind, 1.0) if plan.natural else job.scale.bits(f64).to(kind)
        with f.loop(0, plan.across, plan.lanes) as at:
            sums, most = total.load(at, plan.lanes).to(kind), maximum.load(at, plan.lanes).to(kind)
            empty = sums.equals(0.0)
            logarithm = tiles.functions.log(select(empty, 1.0, sums))
            natural = tiles.functions.fma(most, scale, logarithm)
            room[0] = select(empty, -INFINITY, natural)
            with f.loop(0, smaller(lanes_left(group, plan.across) - at, plan.lanes)) as lane:
                lse[at + lane] = room[lane]


class Cells:
    """The weights themselves, or the scores that the pass has left in their place, written where the caller wants a
    part of A: rows × keys, row by row."""

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


def lanes_left(group: Group, across: int) -> Value:
    """How many lanes of a group have a row."""
    return smaller(group.job.row_first + group.job.row_count - group.row, across)


class RowState:
    """A number for each row, kept in a part of the workspace and written as f64, rows of a region from its first on."""

    part: str
    element: Type

    def __init__(self, tiles: Tiles, at: int):
        self.tiles, self.plan, self.at = tiles, tiles.plan, at

    def prepare(self) -> Function | None:
        return None

    def first(self, f: Function) -> Value:
        """The state of a row that has seen nothing."""
        raise NotImplementedError  # an abstract method

    def state(self, group: Group) -> Pointer:
        return self.tiles.part(group.workspace, self.part, self.element) + group.index * self.plan.across

    def begin(self, f: Function, group: Group) -> None:
        state = self.state(group)
        with f.loop(0, self.plan.across, self.plan.lanes) as at:
            state[at] = self.first(f).splat(self.plan.lanes)

    def block(self, f: Function, job: Job, workspace: Value, block: Block) -> None:
        return None

    def finish(self, f: Function, group: Group) -> None:
        job, state = group.job, self.state(group)
        place = group.instance * job.row_count + (group.row - job.row_first)
        put = Pointer(job.pointer("words", i64)[self.at].to(ptr), f64) + place
        scale = f.constant(f64, 1.0) if self.plan.natural else job.scale.bits(f64)
        with f.loop(0, lanes_left(group, self.plan.across)) as lane:
            put[lane] = state[lane].to(f64) * scale


class Moment(RowState):
    """Σ a·ln a of each row, which the pass has summed up over the tile while it knew the logarithms."""

    part, element = "entropy", f64

    def first(self, f: Function) -> Value:
        return f.constant(f64, 0.0)

    def update(self, f: Function, group: Group, tile: Tile) -> None:
        state, moment, lanes = self.state(group), self.tiles.part(group.workspace, "moment"), self.plan.lanes
        with f.loop(0, self.plan.across, lanes) as at:
            state[at] = state.load(at, lanes) + moment.load(at, lanes).to(f64)


class Largest(RowState):
    """The largest final score of each row."""

    part = "largest"

    @property
    def element(self) -> Type:  # type: ignore[override]  # it depends on the plan
        return self.plan.number

    def first(self, f: Function) -> Value:
        return f.constant(self.plan.number, -INFINITY)

    def update(self, f: Function, group: Group, tile: Tile) -> None:
        state, lanes = self.state(group), self.plan.lanes
        best = self.tiles.part(group.workspace, "block_maximum")
        with f.loop(0, self.plan.across, lanes) as at:
            state[at] = larger(best.load(at, lanes), state.load(at, lanes))
