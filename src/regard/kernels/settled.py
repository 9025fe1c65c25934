"""The settled pass: lse is known, so every weight is exact the moment its tile is computed.

It walks past any rows × keys of the matrix. Weights are exp(score - lse); a row whose lse is -inf, or that sees
nothing, has weights 0.
"""

from __future__ import annotations

from regard.kernels.cells import INFINITY
from regard.kernels.job import Job
from regard.kernels.plan import Plan
from regard.kernels.reduction import Group
from regard.kernels.run import run
from regard.kernels.values import Function, Module, Pointer, Value, f64, i64, ptr, select, smaller
from regard.kernels.walk import Walk


def settled(plan: Plan) -> Module:
    """The module of a settled plan."""
    module = Module()
    run(module, Settled(plan, module).phases(), plan.amx)
    return module


class Settled(Walk):
    """Weights against the given lse."""

    def prepared(self) -> None:
        self.weigh_settled = self._weigh()

    def start(self, f: Function, group: Group) -> None:
        """lse, in the units of the scores, takes the place of the maximum; lanes past the last row repeat it."""
        plan, job = self.plan, group.job
        lse = job.head("lse", plan.number, group.instance)
        shift = self.tiles.part(group.workspace, "maximum") + group.index * plan.across
        scale = None if plan.natural else job.scale.bits(f64).to(plan.number)
        with f.loop(0, plan.across) as lane:
            given = lse[smaller(group.row + lane, job.n_q - 1)]
            shift[lane] = select(given.equals(-INFINITY), 0.0, given if scale is None else given / scale)

    def weigh(self, f: Function, group: Group, count: Value) -> None:
        shift = self.tiles.part(group.workspace, "maximum") + group.index * self.plan.across
        f.call(self.weigh_settled, [group.job.words.address, group.workspace, shift.address, count])

    def _weigh(self) -> Function:
        plan, tiles, lanes = self.plan, self.tiles, self.plan.lanes
        parameters = [("job", ptr), ("workspace", ptr), ("shift", ptr), ("count", i64)]
        f = self.module.function("weigh", parameters)
        address, workspace, shifts, count = f.arguments
        rate, scale = tiles.rate(Job(address)), Job(address).scale.bits(f64).to(plan.number)
        scores, shift = tiles.part(workspace, "scores"), Pointer(shifts, plan.number)
        for v in range(plan.vectors):
            base = shift.load(v * lanes, lanes)
            with f.loop(0, count) as j:
                at = j * plan.across + v * lanes
                s = scores.load(at, lanes)
                if "scores" in plan.reductions:  # as they enter softmax
                    scores[at] = s if plan.natural else s * scale.splat(lanes)
                else:
                    scores[at] = tiles.functions.exp2(s - base, rate)
        f.give()
        return f
