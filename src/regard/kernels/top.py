"""The largest weights of each row, with their keys: for every lane a short list, best first.

A weight enters at the end of its lane's list and moves up past smaller ones; equal ones stay behind, so that among
equals the lower key comes first. Most tiles have nothing that enters: one comparison a vector is then all they cost.
"""

from __future__ import annotations

from regard.kernels.job import Job
from regard.kernels.plan import Top
from regard.kernels.reduction import Block, Group, Tile, lanes_left
from regard.kernels.tiles import Tiles
from regard.kernels.values import (
    Function,
    Pointer,
    Value,
    any_lane,
    f64,
    i1,
    i32,
    i64,
    larger,
    ptr,
    select,
)

AT_ONCE = 4  # keys that are compared before anything is decided
NOTHING = -1.0  # less than any weight


class TopK:
    """The k largest weights of each row."""

    def __init__(self, tiles: Tiles, wanted: Top, at: int):
        self.tiles, self.plan, self.k, self.at = tiles, tiles.plan, wanted.k, at
        self.insert = self._insert()
        self.look_all, self.look_visible = self._look(hiding=False), self._look(hiding=True)

    def prepare(self) -> Function | None:
        return None

    def state(self, group: Group) -> tuple[Pointer, Pointer]:
        """Weights (k × lanes) and keys of a group."""
        skip = group.index * (self.plan.across * self.k)
        part = self.tiles.part
        return part(group.workspace, "top") + skip, part(group.workspace, "top_keys", i32) + skip

    def begin(self, f: Function, group: Group) -> None:
        weights, keys = self.state(group)
        lanes = self.plan.lanes
        with f.loop(0, self.k * self.plan.across, lanes) as at:
            weights[at] = f.constant(self.plan.number.of(lanes), NOTHING)
            keys[at] = f.constant(i32.of(lanes), -1)

    def block(self, f: Function, job: Job, workspace: Value, block: Block) -> None:
        return None

    def update(self, f: Function, group: Group, tile: Tile) -> None:
        weights, keys = self.state(group)
        first = tile.block.key + tile.start
        arguments = [group.workspace, weights.address, keys.address, first, tile.count]
        with f.when(tile.block.hides) as otherwise:
            f.call(self.look_visible, arguments)
            otherwise()
            f.call(self.look_all, arguments)

    def _look(self, hiding: bool) -> Function:
        """Take a tile of weights into the lists of a group."""
        plan, tiles, lanes = self.plan, self.tiles, self.plan.lanes
        name = "top_visible" if hiding else "top_all"
        parameters = [(n, ptr) for n in ("workspace", "best", "keys")] + [("first", i64), ("count", i64)]
        f = tiles.module.function(name, parameters)
        workspace, best, keys, first, count = f.arguments
        scores = tiles.part(workspace, "scores")
        for v in range(plan.vectors):
            weights, places = Pointer(best, plan.number) + v * lanes, Pointer(keys, i32) + v * lanes
            least = f.variable(weights.load((self.k - 1) * plan.across, lanes))

            def take(j: Value, p: Value, v: int = v, weights: Pointer = weights, places: Pointer = places) -> None:
                enters = p > least.get()  # noqa: B023  # called before the next vector
                if hiding:
                    enters = enters & tiles.seen(workspace, j, v)
                with f.when(any_lane(enters)):
                    key = (first + j).to(i32)
                    f.call(self.insert, [weights.address, places.address, p, enters, key])
                    least.set(weights.load((self.k - 1) * plan.across, lanes))  # noqa: B023  # the same

            def load(j: Value, v: int = v) -> Value:
                return scores.load(j * plan.across + v * lanes, lanes)

            # While no weight of a tile beats the list's last nothing is looked at one by one.
            main = count & -AT_ONCE
            with f.loop(0, main, AT_ONCE) as j:
                several = [load(j + u) for u in range(AT_ONCE)]
                any_enters = several[0] > least.get()
                for p in several[1:]:
                    any_enters = any_enters | (p > least.get())
                with f.when(any_lane(any_enters)):
                    for u, p in enumerate(several):
                        take(j + u, p)
            with f.loop(main, count) as j:
                take(j, load(j))
        f.give()
        return f

    def _insert(self) -> Function:
        """A weight of each lane that enters, at its place in that lane's list."""
        plan, lanes = self.plan, self.plan.lanes
        kinds = [("weights", ptr), ("keys", ptr), ("p", plan.number.of(lanes)), ("enters", i1.of(lanes)), ("key", i32)]
        f = self.tiles.module.function("top_insert", kinds)
        best, keys, p, enters, key = f.arguments
        weights, places = Pointer(best, plan.number), Pointer(keys, i32)
        end = (self.k - 1) * plan.across
        weights[end] = select(enters, p, weights.load(end, lanes))
        places[end] = select(enters, key.splat(lanes), places.load(end, lanes))
        at = f.variable(f.constant(i64, end))
        with f.repeat() as leave:
            leave(at.get() <= 0)
            low, high = at.get(), at.get() - plan.across
            below, above = weights.load(low, lanes), weights.load(high, lanes)
            rises = below > above
            leave(~any_lane(rises))
            weights[high], weights[low] = select(rises, below, above), select(rises, above, below)
            under, over = places.load(low, lanes), places.load(high, lanes)
            places[high], places[low] = select(rises, under, over), select(rises, over, under)
            at.set(high)
        f.give()
        return f

    def finish(self, f: Function, group: Group) -> None:
        """(rows, k) weights as f64 and keys as i64; what was not found is 0 and -1."""
        job, (weights, keys) = group.job, self.state(group)
        words = job.pointer("words", i64) + self.at
        place = (group.instance * job.row_count + (group.row - job.row_first)) * self.k
        put, put_keys = Pointer(words[0].to(ptr), f64) + place, Pointer(words[1].to(ptr), i64) + place
        with f.loop(0, lanes_left(group, self.plan.across)) as lane, f.loop(0, self.k) as i:
            at = i * self.plan.across + lane
            put[lane * self.k + i] = larger(weights[at], 0.0).to(f64)
            put_keys[lane * self.k + i] = keys[at].to(i64)
