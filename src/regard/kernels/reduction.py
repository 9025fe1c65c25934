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
from regard.kernels.tiles import Tiles
from regard.kernels.values import Function, Pointer, Value, f64, i64, select, smaller
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
        with f.loop(0, smaller(job.row_first + job.row_count - group.row, plan.across)) as lane:
            lse[lane] = room[lane]


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


REDUCTIONS: dict[str, Callable[[Tiles], Reduction]] = {
    "output": Output,
    "lse": LogSumExp,
    "cells": Cells,
    "scores": Cells,
}
