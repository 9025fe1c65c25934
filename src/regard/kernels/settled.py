"""The settled pass: lse is known, so every weight is exact the moment its tile is computed.

It walks past any rows × keys of the matrix. Weights are exp(score - lse); a row whose lse is -inf, or that sees
nothing, has weights 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from regard.kernels.cells import INFINITY
from regard.kernels.job import Job
from regard.kernels.plan import Plan
from regard.kernels.reduction import Group, Tile
from regard.kernels.run import run
from regard.kernels.tiles import UNROLL
from regard.kernels.values import (
    Function,
    Module,
    Pointer,
    Value,
    Variable,
    f64,
    i32,
    i64,
    larger,
    ptr,
    select,
    smaller,
)
from regard.kernels.walk import Walk

LEAST = -1e30  # stands for the logarithm of 0
Weight = Callable[..., Value]


def settled(plan: Plan) -> Module:
    """The module of a settled plan."""
    module = Module()
    run(module, Settled(plan, module).phases(), plan.amx)
    return module


class Settled(Walk):
    """Weights against the given lse."""

    def prepared(self) -> None:
        self.weigh_all, self.weigh_visible = self._weigh(hiding=False), self._weigh(hiding=True)

    def start(self, f: Function, group: Group) -> None:
        """lse, in the units of the scores, takes the place of the maximum; lanes past the last row repeat it.

        It comes in f64. What rounding it to f32 takes away would be missing from a whole row, so the factor that gives
        it back takes the place of the sum.
        """
        plan, job, number = self.plan, group.job, self.plan.number
        lse = job.head("lse", f64, group.instance)
        shift, factor = self._settled(group)
        scale = f.constant(f64, 1.0) if plan.natural else job.scale.bits(f64)
        with f.loop(0, plan.across) as lane:
            given = lse[smaller(group.row + lane, job.n_q - 1)]
            base = select(given.equals(-INFINITY), 0.0, given / scale)
            rounded = base.to(number)
            shift[lane] = rounded
            factor[lane] = (1.0 - (base - rounded.to(f64)) * scale).to(number)

    def _settled(self, group: Group) -> tuple[Pointer, Pointer]:
        """What scores are lowered by, and what weights are multiplied by."""
        part, skip = self.tiles.part, group.index * self.plan.across
        return part(group.workspace, "maximum") + skip, part(group.workspace, "sum") + skip

    def weigh(self, f: Function, group: Group, tile: Tile) -> None:
        job, (shift, factor) = group.job, self._settled(group)
        left = job.row_first + job.row_count - group.row
        arguments = [job.words.address, group.workspace, shift.address, factor.address, tile.count, left]
        with f.when(tile.block.hides) as otherwise:
            f.call(self.weigh_visible, arguments)
            otherwise()
            f.call(self.weigh_all, arguments)

    def _weigh(self, hiding: bool) -> Function:
        """Weights of the scores in the workspace; 0 for lanes past the last row, and, in the hiding kind, for what is
        hidden, also in a row that is NaN. With "entropy" the sum of a·ln a over the tile comes too."""
        plan, tiles, lanes = self.plan, self.tiles, self.plan.lanes
        parameters = [*((n, ptr) for n in ("job", "workspace", "shift", "factor")), ("count", i64), ("left", i64)]
        f = self.module.function("weigh_visible" if hiding else "weigh_all", parameters)
        address, workspace, shifts, factors, count, left = f.arguments
        rate, scale = tiles.rate(Job(address)), Job(address).scale.bits(f64).to(plan.number)
        scores, shift = tiles.part(workspace, "scores"), Pointer(shifts, plan.number)
        moment = tiles.part(workspace, "moment")
        for v in range(plan.vectors):
            base, factor = shift.load(v * lanes, lanes), Pointer(factors, plan.number).load(v * lanes, lanes)
            there = (left.to(i32).splat(lanes)) > f.lanes(i32, range(v * lanes, (v + 1) * lanes))
            sums = tiles.zeros(f, UNROLL)

            def weight(
                key: Value,
                total: Variable,
                v: int = v,
                base: Value = base,
                factor: Value = factor,
                there: Value = there,
            ) -> Value:
                s = scores.load(key * plan.across + v * lanes, lanes)
                if "scores" in plan.reductions:  # as they enter softmax
                    return s if plan.natural else s * scale.splat(lanes)
                seen = there & tiles.seen(workspace, key, v) if hiding else there
                # lse was summed up in another order: by its rounding a score may pass it, but a weight is 1 at most.
                below = smaller(f.constant(s.type, 0.0), s - base)
                p = select(seen, tiles.functions.exp2(below, rate) * factor, 0.0)
                if "entropy" in plan.reductions:
                    # A weight of 0 adds nothing, and the logarithm of it must not make a NaN of that.
                    logarithm = select(seen, larger(f.constant(s.type, LEAST), below), 0.0)
                    total.set(tiles.functions.fma(p, logarithm, total.get()))
                return p

            def some(j: Value, count: int, v: int = v, weight: Weight = weight, sums: list[Variable] = sums) -> None:
                keys = [j + u for u in range(count)]
                made = f.side_by_side([partial(weight, key, total) for key, total in zip(keys, sums, strict=False)])
                for key, p in zip(keys, made, strict=True):
                    scores[key * plan.across + v * lanes] = p

            main = count & -UNROLL
            with f.loop(0, main, UNROLL) as j:
                some(j, UNROLL)
            with f.loop(main, count) as j:
                some(j, 1)
            if "entropy" in plan.reductions:
                total = sums[0].get()
                for more in sums[1:]:
                    total = total + more.get()
                moment[v * lanes] = total
        f.give()
        return f
