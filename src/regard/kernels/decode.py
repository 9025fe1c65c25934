"""Few queries against many keys: bound by the memory that K and V are read from.

The queries that share a key head, R of them, are taken together, so that each key is read once. Lanes run along d for
the scores, along the keys for the weights, along d_v for the output. Keys are split into parts, by shape alone; every
part leaves its maximum, sum and output, and a second phase merges them in order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from regard.kernels.cells import INFINITY, words_of
from regard.kernels.job import Job
from regard.kernels.lower import Lanes
from regard.kernels.plan import Plan
from regard.kernels.run import run
from regard.kernels.tiles import UNROLL, Tiles
from regard.kernels.values import (
    Function,
    Module,
    Pointer,
    Value,
    Variable,
    across,
    any_lane,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    larger,
    ptr,
    row_sums,
    select,
    smaller,
)

AT_ONCE = 4  # keys whose products are under way together
ASKED = 1024  # bytes of a row that are asked for, the rest follows by itself
MOST_PARTS = 64


def decode(plan: Plan) -> Module:
    """The module of a decode plan: parts, then merges."""
    module = Module()
    made = Decode(plan, module)
    run(module, [made.part(), made.merge()])
    return module


class Decode:
    """The functions of a decode plan."""

    def __init__(self, plan: Plan, module: Module):
        self.plan, self.module = plan, module
        self.tiles = Tiles(plan, module)
        self.functions = self.tiles.functions
        self.number, self.lanes = plan.number, plan.lanes
        self.classify = self.tiles.classify() if plan.mask is not None else None
        self._shapes(plan.queries, soon=plan.d_v)
        self.finite = self.tiles.finite()
        self.score_block, self.weigh_block, self.value_block = self._score(), self._weigh(), self._value()
        self.guarded_block = self._guarded()

    def _shapes(self, rows: int, soon: int) -> None:
        """How the queries that are taken together lie; `soon` is the width of what is asked for meanwhile."""
        plan = self.plan
        self.rows, self.soon = rows, soon
        # Two rows at a time: a row of V is then read from end to end. With four, whose sums fill the registers with
        # half of it, 8 key heads for 32 were read a tenth more slowly.
        self.together = next(n for n in (2, 3, 1) if self.rows % n == 0)
        self.in_d, self.in_d_v = -(-plan.d // plan.lanes), -(-plan.d_v // plan.lanes)  # vectors of a row
        self.at_once = min(AT_ONCE, plan.lanes)
        # What a part leaves behind: for each row its output by vectors, then its maximum and its sum.
        self.left_behind = self.in_d_v * self.lanes + 2

    def _each(self, f: Function, width: int, body: Callable[[Value, Value, bool], None]) -> None:
        """`body(i, column, last)` for each vector of a row; a last one that is not full comes by itself."""
        with f.loop(0, width // self.lanes) as i:
            body(i, i * self.lanes, False)
        if width % self.lanes:
            body(f.constant(i64, width // self.lanes), self._last(f, width), True)

    def _last(self, f: Function, width: int) -> Value:
        """Where the last vector begins: it overlaps its neighbour rather than pass the end of the row."""
        return f.constant(i64, max(0, width - self.lanes))

    def _row(self, line: Pointer, column: Value, width: int, last: bool, once: bool) -> Value:
        """A vector of a row, as numbers; of the last, lanes that its neighbour has too are 0 if each counts once."""
        tiles, f, lanes = self.tiles, line.address.function, self.lanes
        if width < lanes:
            x = f.constant(self.number.of(lanes), 0.0)
            for c in range(width):
                x = x.put(c, tiles.read(line, c, 1))
            return x
        x = tiles.read(line, column, lanes)
        return select(f.lanes(i32, range(lanes)) >= -width % lanes, x, 0.0) if once and last else x

    def _state(self, workspace: Value, name: str, row: Value) -> Pointer:
        """The part of the workspace that belongs to a row."""
        width = {
            "queries": self.in_d * self.lanes,
            "output": self.in_d_v * self.lanes,
            "scores": self.plan.keys,
        }
        return self.tiles.part(workspace, name) + row * width.get(name, 1)

    def _split(self, f: Function, job: Job, head: Value) -> tuple[Value, Value]:
        """A key head of the whole batch as leading index and first query head of its group, as one instance number."""
        key_heads = job.key_heads
        b, h = head.quotient(key_heads), head.remainder(key_heads)
        return b * job.heads + h * job.group, b

    def _instance(self, job: Job, first: Value, row: Value) -> tuple[Value, Value]:
        """Of a row of the group: its (leading index, query head), and its query."""
        n_q = job.n_q
        return first + row.quotient(n_q), row.remainder(n_q)

    def part(self) -> Function:
        """One part of the keys of one key head: what it leaves behind goes to its place among the partial results."""
        plan, tiles, lanes = self.plan, self.tiles, self.lanes
        f = self.module.function("part", [("job", ptr), ("workspace", ptr), ("task", i64)])
        address, workspace, task = f.arguments
        job = Job(address)
        parts = job.parts
        head, part = task.quotient(parts), task.remainder(parts)
        first, _ = self._split(f, job, head)
        start = part * job.part_keys
        stop = smaller(start + job.part_keys, job.n_k)
        zero = f.constant(self.number.of(lanes), 0.0)
        with f.loop(0, self.rows) as r:
            instance, row = self._instance(job, first, r)
            line = job.head("q", tiles.stored, instance).bytes(row * job.q_row)
            packed = self._state(workspace, "queries", r)

            def pack(i: Value, c: Value, last: bool, line: Pointer = line, packed: Pointer = packed) -> None:
                packed[i * lanes] = self._row(line, c, plan.d, last, once=True)

            self._each(f, plan.d, pack)
            output = self._state(workspace, "output", r)
            with f.loop(0, self.in_d_v) as i:
                output[i * lanes] = zero
            self._state(workspace, "maximum", r)[0] = -INFINITY
            self._state(workspace, "sum", r)[0] = 0.0
        answer = self._visible(f, job, first, start, stop - 1) if self.classify else f.constant(i1, 1)
        with f.when(answer & (start < stop)):
            keys = job.head("k", tiles.stored, first)
            values = job.head("v", tiles.stored, first)
            with f.loop(start, stop, plan.keys) as key:
                count = smaller(stop - key, plan.keys)
                look = self._visible(f, job, first, key, key + count - 1) if self.classify else f.constant(i1, 1)
                with f.when(look):
                    here, there = keys.bytes(key * job.k_row).address, values.bytes(key * job.v_row).address
                    # While keys are scored their values are asked for, and then, while these are summed, the next keys.
                    f.call(self.score_block, [workspace, here, there, count, job.k_row, job.v_row])
                    hides = f.call(self.weigh_block, [address, workspace, first, key, count])
                    guarded = f.variable(f.constant(i1, 0))
                    with f.when(hides):
                        guarded.set(~f.call(self.finite, [there, count, job.v_row]))
                    with f.when(guarded.get()) as otherwise:
                        f.call(self.guarded_block, [workspace, there, count, job.v_row])
                        otherwise()
                        following = keys.bytes((key + count) * job.k_row).address
                        f.call(self.value_block, [workspace, there, following, count, job.v_row, job.k_row])
        place = job.pointer("partial", self.number) + task * (self.rows * self.left_behind)
        with f.loop(0, self.rows) as r:
            mine, output = place + r * self.left_behind, self._state(workspace, "output", r)
            with f.loop(0, self.in_d_v) as i:
                mine[i * lanes] = output.load(i * lanes, lanes)
            mine[self.left_behind - 2] = self._state(workspace, "maximum", r)[0]
            mine[self.left_behind - 1] = self._state(workspace, "sum", r)[0]
        f.give()
        return f

    def _visible(self, f: Function, job: Job, first: Value, key_first: Value, key_last: Value) -> Value:
        """Whether any head of the group may see any of these keys."""
        assert self.classify is not None
        seen = f.variable(f.constant(i1, 0))
        last_row = job.n_q - 1
        with f.loop(0, job.group) as h:
            arguments = [job.words.address, first + h, f.constant(i64, 0), last_row, key_first, key_last]
            seen.set(seen.get() | f.call(self.classify, arguments).differs(0))
        return seen.get()

    def _score(self) -> Function:
        """q·k of all rows against a block of keys, keys on the lanes; past the last key the last one is repeated."""
        plan, tiles, lanes, together = self.plan, self.tiles, self.lanes, self.together
        names = [(n, ptr) for n in ("workspace", "keys", "soon")] + [
            (n, i64) for n in ("count", "stride", "soon_stride")
        ]
        f = self.module.function("score_block", names)
        workspace, keys, soon, count, stride, soon_stride = f.arguments
        room = Pointer(f.stack(self.number, together * lanes * lanes), self.number)
        zero = f.constant(self.number.of(lanes), 0.0)
        with f.loop(0, count, lanes) as tile, f.loop(0, self.rows, together) as r:
            queries = [self._state(workspace, "queries", r + i) for i in range(together)]
            with f.loop(0, lanes, self.at_once) as j:
                nearest = [smaller(tile + j + u, count - 1) for u in range(self.at_once)]
                lines = [Pointer(keys, tiles.stored).bytes(place * stride) for place in nearest]
                for u in range(self.at_once):
                    row = Pointer(soon, i8).bytes((tile + j + u) * soon_stride).address
                    self._ask(f, row, 0, self.soon * tiles.element_size)
                total = [f.variable(zero) for _ in range(self.at_once * together)]

                def step(
                    i: Value,
                    c: Value,
                    last: bool,
                    queries: list[Pointer] = queries,
                    lines: list[Pointer] = lines,
                    total: list[Variable] = total,
                ) -> None:
                    q = [x.load(i * lanes, lanes) for x in queries]
                    for u, line in enumerate(lines):
                        k = self._row(line, c, plan.d, last, once=True)
                        for n in range(together):
                            place = total[u * together + n]
                            place.set(self.functions.fma(k, q[n], place.get()))

                whole = plan.d // lanes
                with f.loop(0, whole // UNROLL * UNROLL, UNROLL) as i:
                    for more in range(UNROLL):
                        step(i + more, (i + more) * lanes, False)
                for rest in range(whole // UNROLL * UNROLL, whole):
                    step(f.constant(i64, rest), f.constant(i64, rest * lanes), False)
                if plan.d % lanes:
                    step(f.constant(i64, whole), self._last(f, plan.d), True)
                for u in range(self.at_once):
                    for n in range(together):
                        room[n * lanes * lanes + (j + u) * lanes] = total[u * together + n].get()
            for n in range(together):
                sums = row_sums([room.load((n * lanes + i) * lanes, lanes) for i in range(lanes)])
                self._state(workspace, "scores", r + n)[tile] = sums
        f.give()
        return f

    def _ask(self, f: Function, row: Value, begin: int | Value, size: int) -> None:
        """Ask the memory for some bytes of a row that will be wanted soon. Asking for what is not there is harmless."""
        line = Pointer(row, i8) + begin
        for c in range(0, min(size, ASKED), 64):
            read, keep, data = (f.constant(i32, n) for n in (0, 2, 1))
            f.call("llvm.prefetch.p0", [line.at(c), read, keep, data])

    def _weigh(self) -> Function:
        """The weights of a block and the running maximum and sum of each row; tells whether anything is hidden."""
        plan, tiles, lanes = self.plan, self.tiles, self.lanes
        parameters = [("job", ptr), ("workspace", ptr), *((n, i64) for n in ("first", "key", "count"))]
        f = self.module.function("weigh_block", parameters, i1)
        address, workspace, first, key, count = f.arguments
        job = Job(address)
        rate = tiles.rate(job)
        hides = f.variable(f.constant(i1.of(lanes), 0))
        zero, lowest = f.constant(self.number.of(lanes), 0.0), f.constant(self.number.of(lanes), -INFINITY)
        with f.loop(0, self.rows) as r:
            instance, row = self._instance(job, first, r)
            cells = DecodeCells(self, f, job, instance, row)
            scores, seen = self._state(workspace, "scores", r), tiles.part(workspace, "visible", i8) + r * plan.keys
            best = f.variable(lowest)
            with f.loop(0, count, lanes) as j:
                place = j.to(i32).splat(lanes) + f.lanes(i32, range(lanes))
                s, visible = cells.final(scores.load(j, lanes), key, j, count)
                visible = visible & (place < count.to(i32).splat(lanes))
                hides.set(hides.get() | ~visible)
                s = select(visible, s, -INFINITY)
                scores[j] = s
                seen[j] = visible.to(i8, signed=False)
                best.set(larger(s, best.get()))
            most = across(best.get(), larger)
            maximum, total = self._state(workspace, "maximum", r), self._state(workspace, "sum", r)
            old = maximum[0]
            new = larger(most, old)
            maximum[0] = new
            shift = select(new.equals(-INFINITY), 0.0, new)
            alpha = self.functions.exp2(old - shift, rate, spare=tiles.spare)
            self._state(workspace, "alpha", r)[0] = alpha
            added = f.variable(zero)
            with f.loop(0, count, lanes) as j:
                p = self.functions.exp2(scores.load(j, lanes) - shift.splat(lanes), rate, spare=tiles.spare)
                scores[j] = p
                added.set(added.get() + p)
            total[0] = self.functions.fma(total[0], alpha, across(added.get(), operator.add))
        f.give(any_lane(hides.get()))
        return f

    def _value(self) -> Function:
        """What a block of values adds to the output of each row."""
        plan, tiles, lanes = self.plan, self.tiles, self.lanes
        names = [(n, ptr) for n in ("workspace", "values", "soon")] + [
            (n, i64) for n in ("count", "stride", "soon_stride")
        ]
        f = self.module.function("value_block", names)
        workspace, values, soon, count, stride, soon_stride = f.arguments
        zero = f.constant(self.number.of(lanes), 0.0)
        wide = max(1, 2 * plan.target.rows // self.together)  # vectors of a row whose sums stay in registers

        def columns(begin: Value, places: list[tuple[Value, bool]]) -> None:
            """Some neighbouring vectors of V, for all rows and keys."""
            with f.loop(0, self.rows, self.together) as r:
                weights = [self._state(workspace, "scores", r + n) for n in range(self.together)]
                total = [f.variable(zero) for _ in range(len(places) * self.together)]
                with f.loop(0, count) as j:
                    line = Pointer(values, tiles.stored).bytes(j * stride)
                    size = lanes * tiles.element_size
                    row = Pointer(soon, i8).bytes(j * soon_stride).address
                    self._ask(f, row, begin * size, len(places) * size)
                    p = [x[j].splat(lanes) for x in weights]
                    for i, (c, last) in enumerate(places):
                        v = self._row(line, c, plan.d_v, last, once=False)
                        for n in range(self.together):
                            place = total[i * self.together + n]
                            place.set(self.functions.fma(v, p[n], place.get()))
                for n in range(self.together):
                    output, alpha = self._state(workspace, "output", r + n), self._state(workspace, "alpha", r + n)[0]
                    for i in range(len(places)):
                        at = (begin + i) * lanes
                        more = total[i * self.together + n].get()
                        output[at] = self.functions.fma(output.load(at, lanes), alpha.splat(lanes), more)

        whole = plan.d_v // lanes
        with f.loop(0, whole // wide * wide, wide) as begin:
            columns(begin, [((begin + i) * lanes, False) for i in range(wide)])
        rest = [(f.constant(i64, i * lanes), False) for i in range(whole // wide * wide, whole)]
        if plan.d_v % lanes:
            rest.append((self._last(f, plan.d_v), True))
        if rest:
            columns(f.constant(i64, whole // wide * wide), rest)
        f.give()
        return f

    def _guarded(self) -> Function:
        """The same where V holds NaN or inf: a hidden value is passed over."""
        plan, tiles, lanes = self.plan, self.tiles, self.lanes
        names = [("workspace", ptr), ("values", ptr), ("count", i64), ("stride", i64)]
        f = self.module.function("guarded_block", names)
        workspace, values, count, stride = f.arguments
        with f.loop(0, self.rows) as r:
            output, alpha = self._state(workspace, "output", r), self._state(workspace, "alpha", r)[0].splat(lanes)
            weights, seen = self._state(workspace, "scores", r), tiles.part(workspace, "visible", i8) + r * plan.keys
            with f.loop(0, self.in_d_v) as i:
                output[i * lanes] = output.load(i * lanes, lanes) * alpha
            with f.loop(0, count) as j, f.when(seen[j].differs(0)):
                line, p = Pointer(values, tiles.stored).bytes(j * stride), weights[j].splat(lanes)

                def add(
                    i: Value, c: Value, last: bool, line: Pointer = line, p: Value = p, output: Pointer = output
                ) -> None:
                    v = self._row(line, c, plan.d_v, last, once=False)
                    output[i * lanes] = self.functions.fma(v, p, output.load(i * lanes, lanes))

                self._each(f, plan.d_v, add)
        f.give()
        return f

    def merge(self) -> Function:
        """All parts of one key head, in their order, and the sink: output and lse of its rows. Sums are in f64."""
        plan, tiles, lanes = self.plan, self.tiles, self.lanes
        f = self.module.function("merge", [("job", ptr), ("workspace", ptr), ("head", i64)])
        address, _, head = f.arguments
        job = Job(address)
        first, _ = self._split(f, job, head)
        parts = job.parts
        place = job.pointer("partial", self.number) + head * (parts * (self.rows * self.left_behind))
        rates, rate = Pointer(f.stack(f64, MOST_PARTS), f64), tiles.rate(job)
        with f.loop(0, self.rows) as r:
            instance, row = self._instance(job, first, r)
            mine = place + r * self.left_behind
            span = self.rows * self.left_behind
            sink = f.constant(self.number, -INFINITY)
            if plan.sinks:
                sink = job.pointer("sinks", self.number)[instance.remainder(job.heads)]
            most = f.variable(sink)
            with f.loop(0, parts) as p:
                most.set(larger((mine + p * span)[self.left_behind - 2], most.get()))
            shift = select(most.get().equals(-INFINITY), 0.0, most.get())
            total = f.variable(self.functions.exp2(sink - shift, rate).to(f64))
            with f.loop(0, parts) as p:
                one = mine + p * span
                share = self.functions.exp2(one[self.left_behind - 2] - shift, rate).to(f64)
                rates[p] = share
                total.set(self.functions.fma(one[self.left_behind - 1].to(f64), share, total.get()))
            empty = total.get().equals(0.0)
            share = 1.0 / select(empty, 1.0, total.get())
            if "output" in plan.reductions:
                line = job.head("out", tiles.stored, instance).bytes(row * job.out_row)

                def give(
                    i: Value, c: Value, last: bool, mine: Pointer = mine, line: Pointer = line, share: Value = share
                ) -> None:
                    sums = f.variable(f.constant(f64.of(lanes), 0.0))
                    with f.loop(0, parts) as p:
                        x = (mine + p * span).load(i * lanes, lanes).to(f64)
                        sums.set(self.functions.fma(x, rates[p].splat(lanes), sums.get()))
                    z = tiles.stored_as((sums.get() * share.splat(lanes)).to(self.number))
                    if plan.d_v >= lanes:
                        line[c] = z
                    else:
                        for e in range(plan.d_v):
                            line[e] = z[e]

                self._each(f, plan.d_v, give)
            for kind in (x for name, x in (("lse", self.number), ("wide lse", f64)) if name in plan.reductions):
                scale = f.constant(f64, 1.0) if plan.natural else job.scale.bits(f64)
                natural = self.functions.fma(
                    most.get().to(f64), scale, self.functions.log(select(empty, 1.0, total.get()))
                )
                job.head("lse", kind, instance)[row] = select(empty, -INFINITY, natural).to(kind)
        f.give()
        return f


class DecodeCells:
    """Modifier, bias and mask of a row, keys on the lanes."""

    def __init__(self, of: Decode, f: Function, job: Job, instance: Value, row: Value):
        self.of, self.f, self.job, self.instance, self.row = of, f, job, instance, row
        plan, tiles = of.plan, of.tiles
        self.plan = plan
        self.scale = job.scale.bits(f64).to(of.number).splat(of.lanes) if plan.natural else None
        whole = i32 if plan.whole_bits == 32 else i64
        self.whole = whole
        words = job.pointer("words", i64)
        self.programs: dict[str, Lanes] = {}
        for name, shape, skip in (("modify", plan.modify, 0), ("mask", plan.mask, words_of(plan.modify))):
            if shape is not None:
                base = Lanes(shape[0], words + skip, tiles.functions, of.number, whole)
                position = row + (job.n_k - job.n_q)
                heads = job.heads
                known = {"b": instance.quotient(heads), "h": instance.remainder(heads), "row": row, "q": position}
                self.programs[name] = base.with_(**known).ready(shape[1][0])

    def final(self, s: Value, key: Value, j: Value, count: Value) -> tuple[Value, Value]:
        """Final scores of the keys from key + j on, and which of them are visible."""
        plan, f, lanes = self.plan, self.f, self.of.lanes
        k = (key + j).to(self.whole).splat(lanes) + f.lanes(self.whole, range(lanes))
        s = s if self.scale is None else s * self.scale
        visible = f.constant(i1.of(lanes), 1)
        if plan.modify is not None:
            before = s
            s = self.programs["modify"].with_(k=k, score=s).value(plan.modify[1][0], self.of.number).splat(lanes)
            if plan.hides:
                visible = ~(s.equals(-INFINITY) & before.differs(-INFINITY))
        if plan.bias:
            bias = self._along("bias", key, j, count)
            visible = visible & bias.differs(-INFINITY)
            s = s + bias
        if plan.mask is not None:
            visible = visible & self.programs["mask"].with_(k=k).value(plan.mask[1][0]).splat(lanes)
        if plan.mask_array:
            visible = visible & self._along("mask", key, j, count).differs(0)
        return s, visible

    def _along(self, name: str, key: Value, j: Value, count: Value) -> Value:
        """A stretch of this row's mask or bias; where it would pass the last key, what is past it is 0."""
        f, lanes, plan = self.f, self.of.lanes, self.plan
        stored = i8 if name == "mask" else {"f32": f32, "f64": f64}.get(plan.bias, i16)
        stride = self.job.mask_row if name == "mask" else self.job.bias_row
        line = self.job.head(name, stored, self.instance).bytes(self.row * stride) + (key + j)
        result = f.variable(f.constant(stored.of(lanes), 0))
        with f.when(j + lanes <= count) as otherwise:
            result.set(line.load(0, lanes))
            otherwise()
            with f.loop(0, count - j) as i:
                result.set(result.get().put(i, line[i]))
        value = result.get()
        if name == "mask":
            return value
        return self.of.functions.widen(value, plan.bias) if stored == i16 else value.to(self.of.number)
