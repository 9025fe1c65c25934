"""Additive scores, w · tanh(q + k), for queries and keys that are projected already: n × n × d of tanh, none kept.

The tile is that of the products, keys × lanes, but each step is an addition and a tanh; several keys go side by side,
so that while one tanh waits others go on.
"""

from __future__ import annotations

from functools import partial

from regard.kernels.job import Job
from regard.kernels.tiles import Tiles
from regard.kernels.values import Function, Pointer, Value, i64, larger, ptr, smaller

SIDE = 8  # keys side by side


def vector(tiles: Tiles, f: Function, job: Job, workspace: Value, instance: Value) -> None:
    """Bring w of a head to where `score` finds it."""
    given = job.pointer("vector", tiles.number) + instance.remainder(job.heads) * tiles.plan.d
    put = tiles.part(workspace, "vector")
    with f.loop(0, tiles.plan.d) as c:
        put[c] = given[c]


def score(tiles: Tiles) -> Function:
    """Scores of a group with `count` keys, and their maximum; past the last key the last one is repeated."""
    plan, lanes, vectors = tiles.plan, tiles.lanes, tiles.vectors
    names = ["workspace", "keys", "queries"]
    f = tiles.module.function("score", [*((n, ptr) for n in names), ("count", i64), ("stride", i64)])
    workspace, keys, queries, count, stride = f.arguments
    packed, scores, w = Pointer(queries, tiles.number), tiles.part(workspace, "scores"), tiles.part(workspace, "vector")
    best = tiles.lowest(f)
    whole = (count + (plan.step - 1)) & -plan.step
    with f.loop(0, whole, SIDE) as first:
        lines = [Pointer(keys, tiles.number).bytes(smaller(first + r, count - 1) * stride) for r in range(SIDE)]
        for v in range(vectors):
            total = tiles.zeros(f, SIDE)
            with f.loop(0, plan.d) as c:
                q, weight = packed.load(c * plan.across + v * lanes, lanes), w[c].splat(lanes)

                def one(r: int, c: Value = c, q: Value = q) -> Value:
                    return tiles.functions.tanh(q + lines[r][c].splat(lanes))

                for place, t in zip(total, f.side_by_side([partial(one, r) for r in range(SIDE)]), strict=True):
                    place.set(tiles.functions.fma(t, weight, place.get()))
            for r in range(SIDE):
                s = total[r].get()
                scores[(first + r) * plan.across + v * lanes] = s
                best[v].set(larger(s, best[v].get()))
    tiles.keep_best(workspace, best)
    f.give()
    return f
