"""The online pass: lse is not known yet, so a running maximum rescales what was gathered.

Each group keeps a maximum, in the units its scores are held in, and the sum of its weights relative to it; a block of
keys that raises the maximum makes alpha = 2^((old - new) · rate), by which everything gathered so far is multiplied.
"""

from __future__ import annotations

from regard.kernels.cells import INFINITY
from regard.kernels.plan import Plan
from regard.kernels.reduction import Group, Tile
from regard.kernels.run import run
from regard.kernels.values import Function, Module, select
from regard.kernels.walk import Walk


def forward(plan: Plan) -> Module:
    """The module of a forward plan."""
    module = Module()
    run(module, Online(plan, module).phases(), plan.amx)
    return module


class Online(Walk):
    """Weights against the running maximum."""

    def prepared(self) -> None:
        self.weigh_online = self.tiles.weigh()

    def start(self, f: Function, group: Group) -> None:
        plan, job = self.plan, group.job
        first, total = f.constant(plan.number, -INFINITY), f.constant(plan.number, 0.0)
        if plan.sinks:  # a sink is a key that is always there and has no value
            sink = job.pointer("sinks", plan.number)[group.instance.remainder(job.heads)]
            first = sink
            total = select(sink.equals(-INFINITY), total, 1.0)
        maximum, sums = (self.tiles.part(group.workspace, x) + group.index * plan.across for x in ("maximum", "sum"))
        with f.loop(0, plan.across, plan.lanes) as at:
            maximum[at], sums[at] = first.splat(plan.lanes), total.splat(plan.lanes)
            if plan.long:
                (sums + plan.groups * plan.across)[at] = f.constant(plan.number.of(plan.lanes), 0.0)

    def weigh(self, f: Function, group: Group, tile: Tile) -> None:
        maximum, sums = (
            self.tiles.part(group.workspace, x) + group.index * self.plan.across for x in ("maximum", "sum")
        )
        job = group.job.words.address
        f.call(self.weigh_online, [job, group.workspace, maximum.address, sums.address, tile.count])
