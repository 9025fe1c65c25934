"""Weights by bin: what each key receives, mass by distance, from group to group, a map of the whole matrix.

A cell's bin is the sum of a number of its row and a number of its key. How these vary over the lanes decides the code:
neighbouring keys or diagonals fill neighbouring bins; else keys with the same number are added up first, in registers,
and only then brought to the bins of their rows. A tile is summed up as the weights are, the bins of a strip in f64.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from regard.kernels.cells import words_of
from regard.kernels.job import Job
from regard.kernels.lower import Lanes
from regard.kernels.plan import STATE, Binned, Shape
from regard.kernels.reduction import Block, Group, Tile
from regard.kernels.tiles import Tiles
from regard.kernels.values import (
    Function,
    Pointer,
    Value,
    Variable,
    across,
    any_lane,
    f64,
    i32,
    i64,
    larger,
    ptr,
    row_sums,
    select,
    smaller,
)


def largest(a: Value, b: Value) -> Value:
    """The larger of both, NaN where either is."""
    return select(a.differs(a), a, select(a > b, a, b))


class Bins:
    """One binned reduction; its function takes a tile of weights to the bins of the strip."""

    def __init__(self, tiles: Tiles, wanted: Binned, at: int):
        self.tiles, self.plan, self.wanted, self.at = tiles, tiles.plan, wanted, at
        self.join: Callable[[Value, Value], Value] = largest if wanted.pool == "max" else operator.add
        self.run = self._run(f"bins{at}")

    def prepare(self) -> Function | None:
        return None

    def begin(self, f: Function, group: Group) -> None:
        return None

    def block(self, f: Function, job: Job, workspace: Value, block: Block) -> None:
        return None

    def update(self, f: Function, group: Group, tile: Tile) -> None:
        first = tile.block.key + tile.start
        arguments = [group.job.words.address, group.workspace, group.instance, group.row, first, tile.count]
        f.call(self.run, arguments)

    def finish(self, f: Function, group: Group) -> None:
        return None

    # The function.

    def _run(self, name: str) -> Function:
        parameters = [("job", ptr), ("workspace", ptr), *((n, i64) for n in ("instance", "row", "key", "count"))]
        f = self.tiles.module.function(name, parameters)
        tile = Weighted(self, f)
        {"keys": tile.by_key, "diagonals": tile.by_diagonal}.get(self.wanted.along, tile.by_run)()
        f.give()
        return f


class Weighted:
    """A tile of weights on its way to the bins."""

    def __init__(self, of: Bins, f: Function):
        self.of, self.f, self.wanted, self.tiles, self.plan = of, f, of.wanted, of.tiles, of.plan
        self.lanes, self.number, self.join = of.plan.lanes, of.plan.number, of.join
        address, workspace, self.instance, self.row, self.key, self.count = f.arguments
        self.job = Job(address)
        words = self.job.pointer("words", i64) + of.at
        self.size = words[1]
        strip = Pointer(workspace, i64)[STATE["strip"]]
        self.bins = Pointer(words[0].to(ptr), f64) + strip * self.size
        self.scores = self.tiles.part(workspace, "scores")
        self.left = self.job.row_first + self.job.row_count - self.row
        self.words = words + 2
        self.row_part = self._program(self.wanted.row, 0)
        self.key_part = self._program(self.wanted.key, words_of(self.wanted.row))
        where = self._program(self.wanted.where, words_of(self.wanted.row) + words_of(self.wanted.key))
        self.condition = where and [self._on_lanes(where, self.wanted.where, v) for v in range(self.plan.vectors)]

    def _program(self, shape: Shape | None, skip: int) -> Lanes | None:
        if shape is None:
            return None
        whole = i32 if self.plan.whole_bits == 32 else i64
        made = Lanes(shape[0], self.words + skip, self.tiles.functions, self.number, whole)
        heads = self.job.heads
        known = {"b": self.instance.quotient(heads), "h": self.instance.remainder(heads)}
        return made.with_(**known).ready(shape[1][0])

    def _on_lanes(self, program: Lanes, shape: Shape | None, v: int) -> Lanes:
        """A program that knows the rows of a vector."""
        assert shape is not None
        positions = self.tiles.positions
        offset = self.job.n_k - self.job.n_q
        rows = {"row": positions(self.f, self.row, v), "q": positions(self.f, self.row + offset, v)}
        return program.with_(**rows).ready(shape[1][0])

    def _of_row(self) -> Value:
        """The number of the tile's first row."""
        if self.row_part is None:
            return self.f.constant(i64, 0)
        offset = self.job.n_k - self.job.n_q
        assert self.wanted.row is not None
        return self.row_part.with_(row=self.row, q=self.row + offset).value(self.wanted.row[1][0]).to(i64)

    def _of_key(self, key: Value) -> Value:
        """The number of a key."""
        if self.key_part is None:
            return self.f.constant(i64, 0)
        assert self.wanted.key is not None
        return self.key_part.with_(k=key).value(self.wanted.key[1][0]).to(i64)

    def _weights(self, j: Value) -> list[Value]:
        """A key's weights, by vectors; 0 where the condition does not hold."""
        p = [self.scores.load(j * self.plan.across + v * self.lanes, self.lanes) for v in range(self.plan.vectors)]
        if not self.condition:
            return p
        assert self.wanted.where is not None
        root, key = self.wanted.where[1][0], self.key + j
        holds = [one.with_(k=key).value(root).splat(self.lanes) for one in self.condition]
        return [select(c, x, 0.0) for c, x in zip(holds, p, strict=True)]

    def _joined(self, several: list[Value]) -> Value:
        total = several[0]
        for x in several[1:]:
            total = self.join(total, x)
        return total

    def _bring(self, at: Value, more: Value) -> None:
        """Numbers to a bin and those after it."""
        n = more.type.lanes
        self.bins[at] = self.join(self.bins.load(at, n), more.to(f64))

    # Neighbouring keys fill neighbouring bins.

    def by_key(self) -> None:
        f, lanes = self.f, self.lanes
        first = self._of_row() + self._of_key(self.key)
        main = self.count & -lanes if self.wanted.pool == "sum" else f.constant(i64, 0)
        with f.loop(0, main, lanes) as j:
            self._bring(first + j, row_sums([self._joined(self._weights(j + i)) for i in range(lanes)]))
        with f.loop(main, self.count) as j:
            self._bring(first + j, across(self._joined(self._weights(j)), self.join))

    # Diagonals fill neighbouring bins.

    def by_diagonal(self) -> None:
        """Vectors of one diagonal are added up on the way down it; those whose keys are a whole vector apart follow
        each other, so that none waits for the bins of the one before."""
        f, lanes, vectors, count = self.f, self.lanes, self.plan.vectors, self.count
        zero = f.constant(self.number.of(lanes), 0.0)
        length = count + (self.plan.across - 1)  # bins that the tile can reach
        room = Pointer(f.stack(self.number, self.plan.keys + self.plan.across + lanes), self.number)
        with f.loop(0, length, lanes) as x:
            room[x] = zero
        with f.loop(0, lanes) as u:
            steps = (count - u + (lanes - 1)).quotient(lanes)
            chain = [f.variable(zero) for _ in range(vectors - 1)]

            def put(v: int, j: Value, total: Value) -> None:
                place = count - 1 - j + v * lanes
                room[place] = self.join(room.load(place, lanes), total)

            with f.when(steps > 0):
                with f.loop(0, steps) as m:
                    j = u + m * lanes
                    p = self._weights(j)
                    whole = [p[0]] + [self.join(c.get(), x) for c, x in zip(chain, p[1:], strict=True)]
                    put(vectors - 1, j, whole[-1])
                    for c, x in zip(chain, whole, strict=False):
                        c.set(x)
                last = u + (steps - 1) * lanes
                for v, c in enumerate(chain):
                    put(v, last, c.get())
        start = self._of_row() + self._of_key(self.key + count - 1)
        # Lanes past the last row have weights of 0 and bins that may not be there.
        first, stop = larger(-start, 0), smaller(length, self.size - start)
        main = first + ((stop - first) & -lanes)
        with f.loop(first, main, lanes) as x:
            self._bring(start + x, room.load(x, lanes))
        with f.loop(main, stop) as x:
            self._bring(start + x, room[x])

    # Keys with the same number are added up first.

    def by_run(self) -> None:
        f, lanes, vectors = self.f, self.lanes, self.plan.vectors
        totals = [f.variable(f.constant(self.number.of(lanes), 0.0)) for _ in range(vectors)]
        flush = self._flush(totals)
        if self.key_part is None:
            with f.loop(0, self.count) as j:
                self._take(totals, j)
            flush(f.constant(i64, 0))
            return
        current = f.variable(self._of_key(self.key))
        with f.loop(0, self.count) as j:
            here = self._of_key(self.key + j)
            with f.when(here.differs(current.get())):
                flush(current.get())
                current.set(here)
            self._take(totals, j)
        flush(current.get())

    def _take(self, totals: list[Variable], j: Value) -> None:
        for total, p in zip(totals, self._weights(j), strict=True):
            total.set(self.join(total.get(), p))

    def _flush(self, totals: list[Variable]) -> Callable[[Value], None]:
        """Brings a run's totals to their bins and begins the next."""
        f, lanes = self.f, self.lanes
        zero = f.constant(self.number.of(lanes), 0.0)
        room = Pointer(f.stack(self.number, lanes), self.number)
        if self.wanted.along == "runs of groups":
            rows, alike = self._groups_of_rows()

        def lane_by_lane(v: int, place: Callable[[Value], Value]) -> None:
            room[0] = totals[v].get()
            with f.loop(0, smaller(self.left - v * lanes, lanes)) as lane:
                self._bring(place(lane), room[lane])

        def to_rows(v: int, of_key: Value) -> None:
            first = self._of_row() + of_key + v * lanes
            with f.when(self.left >= (v + 1) * lanes) as otherwise:
                self._bring(first, totals[v].get())
                otherwise()
                lane_by_lane(v, lambda lane: first + lane)

        def to_groups(v: int, of_key: Value) -> None:
            with f.when(alike[v]) as otherwise:
                self._bring(rows[v * lanes] + of_key, across(totals[v].get(), self.join))
                otherwise()
                lane_by_lane(v, lambda lane: rows[v * lanes + lane] + of_key)

        def flush(of_key: Value) -> None:
            if self.wanted.along == "runs":
                self._bring(self._of_row() + of_key, across(self._joined([t.get() for t in totals]), self.join))
            else:
                for v in range(self.plan.vectors):
                    (to_rows if self.wanted.along == "runs of rows" else to_groups)(v, of_key)
            for total in totals:
                total.set(zero)

        return flush

    def _groups_of_rows(self) -> tuple[Pointer, list[Value]]:
        """The number of each row, and for each vector whether all its rows have the same; where none is there, not."""
        assert self.row_part is not None
        assert self.wanted.row is not None
        rows = Pointer(self.f.stack(i64, self.plan.across), i64)
        alike = []
        for v in range(self.plan.vectors):
            known = self._on_lanes(self.row_part, self.wanted.row, v)
            numbers = known.value(self.wanted.row[1][0]).to(i64).splat(self.lanes)
            rows[v * self.lanes] = numbers
            same = ~any_lane(numbers.differs(numbers[0].splat(self.lanes)))
            alike.append(same & (self.left > v * self.lanes))
        return rows, alike
