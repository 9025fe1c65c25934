"""Weighted sums of values, Oᵀ += Vᵀ·Pᵀ, and how V has to lie for them.

Numbers are read by rows or, where several groups of queries meet a block, from panels; bf16 pair products want the
keys of V in pairs, which is done once before the pass; matrix registers want these pairs turned as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.kernels import amx
from regard.kernels.job import Job
from regard.kernels.tiles import UNROLL, Tiles
from regard.kernels.values import (
    Function,
    Operand,
    Pointer,
    Value,
    f32,
    i1,
    i16,
    i32,
    i64,
    ptr,
    select,
    smaller,
    turn,
)

if TYPE_CHECKING:
    from regard.kernels.reduction import Block

REGISTER = 32  # keys of V that lie together for matrix registers


def value(tiles: Tiles) -> Function:
    """What some keys of a block add to the output of a group. The sum of a block starts at zero, is added once."""
    plan, lanes, vectors = tiles.plan, tiles.lanes, tiles.vectors
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
            first = first.bytes(begin.lshr(1) * step)
        elif plan.panels:
            step = f.constant(i64, width * size)
            first = Pointer(values, tiles.operand, size) + (f.value(i64, start) * plan.keys + begin * width)
        else:
            first = first.bytes(begin * step)

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


def value_beyond(tiles: Tiles) -> Function:
    """What the values that are not finite add to the rows that see them; `value` was given zeros in their places."""
    plan, lanes = tiles.plan, tiles.lanes
    parameters = [(n, ptr) for n in ("workspace", "values", "output")] + [("count", i64), ("stride", i64)]
    f = tiles.module.function("value_beyond", parameters)
    workspace, values, output, count, stride = f.arguments
    result = Pointer(output, tiles.number)
    with f.loop(0, count) as j, f.loop(0, plan.d_v) as c:
        x = tiles.read(Pointer(values, tiles.stored).bytes(j * stride), c, 1)
        with f.when((x - x).differs(0.0)):
            for v in range(tiles.vectors):
                if plan.pairs:
                    both = tiles.part(workspace, "pairs", i32).load(j.lshr(1) * plan.across + v * lanes, lanes)
                    p = select((j & 1).equals(0), both << 16, both & -65536).bits(f32.of(lanes))
                else:
                    p = tiles.part(workspace, "scores").load(j * plan.across + v * lanes, lanes)
                at = c * plan.across + v * lanes
                before = result.load(at, lanes)
                more = tiles.functions.fma(x.splat(lanes), p, before)
                result[at] = select(tiles.seen(workspace, j, v), more, before)
    f.give()
    return f


def if_finite(x: Value) -> Value:
    """x, or 0 for an infinity or NaN; bf16 comes as its bits."""
    gone = (x & 0x7F80).equals(0x7F80) if x.type.kind == "i" else (x - x).differs(0.0)
    return select(gone, 0, x)


def clean(tiles: Tiles) -> Function:
    """Rows of values as they lie for `value`, copied without gaps, and 0 in the place of all that is not finite."""
    plan, lanes = tiles.plan, tiles.lanes
    names = [("values", ptr), ("put", ptr), *((n, i64) for n in ("rows", "stride", "width"))]
    f = tiles.module.function("clean", names)
    values, put, rows, stride, width = f.arguments
    element = i16 if plan.pairs else tiles.number
    with f.loop(0, rows) as r:
        line, to = Pointer(values, element).bytes(r * stride), Pointer(put, element) + r * width
        main = width & -lanes
        with f.loop(0, main, lanes) as c:
            to[c] = if_finite(line.load(c, lanes))
        with f.loop(main, width) as c:
            to[c] = if_finite(line[c])
    f.give()
    return f


def lay_panels(tiles: Tiles, cleaned: bool) -> Function:
    """A block of values as panels, each of all its keys and as many columns as a register tile has rows.

    The cleaned kind has 0 in the place of all that is not finite.

    A panel is read from end to end by every group. Rows of V as they come lie so far apart that a few columns of
    them fall on few sets of the nearest cache, and push each other out.
    """
    plan, rows = tiles.plan, tiles.plan.target.rows
    name = "lay_panels_cleaned" if cleaned else "lay_panels"
    f = tiles.module.function(name, [("values", ptr), ("put", ptr), ("count", i64), ("stride", i64)])
    values, put, count, stride = f.arguments
    panels = Pointer(put, plan.number)

    def lay(first: Operand, widths: list[int]) -> None:
        """Neighbouring panels, from a column on."""
        with f.loop(0, count) as j:
            line = Pointer(values, tiles.stored).bytes(j * stride)
            column = f.value(i64, first)
            for width in widths:
                x = tiles.read(line, column, width)
                panels[column * plan.keys + j * width] = if_finite(x) if cleaned else x
                column = column + width

    whole = plan.d_v // (2 * rows) * (2 * rows)
    with f.loop(0, whole, 2 * rows) as first:  # the columns of a cache line, of f32, together
        lay(first, [rows, rows])
    rest = [rows] * ((plan.d_v - whole) // rows) + [plan.d_v % rows] * (plan.d_v % rows > 0)
    if rest:
        lay(whole, rest)
    f.give()
    return f


def in_pairs(tiles: Tiles) -> Function:
    """Before the pass: a part of the keys of a head of V, in pairs. The last of an odd number stands alone.

    For matrix registers 32 keys of 16 columns make one, a row for each column; they stand side by side, those of the
    same keys together.
    """
    plan, lanes = tiles.plan, tiles.lanes
    f = tiles.module.function("in_pairs", [("job", ptr), ("workspace", ptr), ("task", i64)])
    address, _, task = f.arguments
    job = Job(address)
    parts, n_k, stride = job.parts, job.n_k, job.v_row
    head, part = task.quotient(parts), task.remainder(parts)
    values = job.pointer("v", i16).bytes(job.pointer("source_at", i64)[head])
    first = part * job.part_keys
    last = smaller(first + job.part_keys, n_k)
    main = plan.d_v // lanes * lanes

    def pairs_of(j: Value) -> Callable[[Operand, int], Value]:
        """Elements of two neighbouring keys, from a column on; past the last key comes a zero, which adds nothing."""
        low, high = (values.bytes(smaller(key, n_k - 1) * stride) for key in (j, j + 1))
        masks = [select(key < n_k, f.constant(i32, -1), 0) for key in (j, j + 1)]

        def both(c: Operand, n: int) -> Value:
            one, other = (
                line.load(c, n).to(i32, signed=False) & mask.splat(n)
                for line, mask in zip((low, high), masks, strict=True)
            )
            return one | (other << 16)

        return both

    if plan.amx:
        put = job.pointer("packed", i32) + head * ((n_k + 31).lshr(5) * (plan.value_columns * lanes))
        with f.loop(first, last, REGISTER) as j:
            to = put + j.lshr(5) * (plan.value_columns * lanes)
            rows = [pairs_of(j + 2 * r) for r in range(lanes)]
            with f.loop(0, main, lanes) as c:
                for i, column in enumerate(turn([row(c, lanes) for row in rows])):
                    to[(c + i) * lanes] = column
            with f.loop(main, plan.d_v) as c:
                for r, row in enumerate(rows):
                    to[c * lanes + r] = row(c, 1)
            with f.loop(plan.d_v, plan.value_columns) as c:
                to[c * lanes] = f.constant(i32.of(lanes), 0)
    else:
        put = job.pointer("packed", i32) + head * ((n_k + 1).lshr(1) * plan.d_v)
        with f.loop(first, last, 2) as j:
            to, both = put + j.lshr(1) * plan.d_v, pairs_of(j)
            with f.loop(0, main, lanes) as c:
                to[c] = both(c, lanes)
            with f.loop(main, plan.d_v) as c:
                to[c] = both(c, 1)
    f.give()
    return f


@dataclass(frozen=True)
class Lines:
    """Where the values of a block lie for `value`, and whether zeros stand for some that are not finite."""

    values: Value
    stride: Value
    cleaned: Value


class Values:
    """The functions of a plan that have to do with V."""

    def __init__(self, tiles: Tiles):
        self.tiles, self.plan = tiles, tiles.plan
        plan = tiles.plan
        self.value = amx.value(tiles) if plan.amx else value(tiles)
        self.beyond, self.finite = value_beyond(tiles), tiles.finite()
        self.clean = None if plan.panels else clean(tiles)
        self.panels = {kind: lay_panels(tiles, kind) for kind in (False, True)} if plan.panels else {}

    def prepare(self) -> Function | None:
        return in_pairs(self.tiles) if self.plan.pairs else None

    def lie(self, f: Function, job: Job, workspace: Value, block: Block) -> Lines:
        """Lay out the values of a block. Where some may be hidden they must be finite, since 0 · inf is not 0."""
        plan, count = self.plan, block.count
        put = self.tiles.part(workspace, "values")
        cleaned = f.variable(f.constant(i1, 0))
        with f.when(block.hides):
            cleaned.set(~f.call(self.finite, [block.values.address, count, block.value_stride]))
        if self.clean is None:
            arguments = [block.values.address, put.address, count, block.value_stride]
            with f.when(cleaned.get()) as otherwise:
                f.call(self.panels[True], arguments)
                otherwise()
                f.call(self.panels[False], arguments)
            return Lines(put.address, block.value_stride, cleaned.get())
        lines, rows, width, stride = block.values, count, plan.d_v, block.value_stride
        if plan.pairs:
            together = REGISTER if plan.amx else 2  # keys in a row of what was prepared
            width, rows = plan.value_columns * together, (count + (together - 1)).quotient(together)
            stride = f.constant(i64, width * 2)
            packed = job.pointer("packed", i16).bytes(job.pointer("packed_at", i64)[block.instance])
            lines = packed.bytes(block.key.quotient(together) * stride)
        where, apart = f.variable(lines.address), f.variable(stride)
        with f.when(cleaned.get()):
            f.call(self.clean, [lines.address, put.address, rows, stride, f.constant(i64, width)])
            where.set(put.address)
            apart.set(width * (2 if plan.pairs else plan.number.size))
        return Lines(where.get(), apart.get(), cleaned.get())
