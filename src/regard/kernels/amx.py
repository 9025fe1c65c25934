"""Products of bf16 on matrix registers (Intel AMX): sums of pair products for 16 × 16 places in one instruction.

A register holds 16 rows of 64 bytes. `C += A·B` wants A with 32 steps of the reduced dimension in a row, and B with
pairs of them below each other. So K as it comes is A of Sᵀ = K·Qᵀ, and Qᵀ packed in pairs is B; Pᵀ as it is left in
pairs is B of Oᵀ += Vᵀ·Pᵀ, and V alone has to be turned, once for all queries. Two by two registers of sums use every
operand twice; with the operands themselves that is all eight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.kernels.values import Function, Operand, Pointer, i8, i16, i32, i64, larger, ptr, smaller

if TYPE_CHECKING:
    from regard.kernels.tiles import Tiles

SIDE = 16  # rows of a register, and words of 4 bytes in a row
ROW = 64  # bytes
PAIR = 2  # registers that stand side by side
STRIP = PAIR * SIDE  # keys
A, B = 4, 6  # where operands lie; sums lie in 0 to 3


def configure(f: Function) -> None:
    """Make matrix registers usable for this thread, all of them of full size."""
    config = Pointer(f.stack(i64, 8), i64)
    widths, heights = ROW * 0x0001000100010001, SIDE * 0x0101010101010101
    for word, content in enumerate((1, 0, widths, widths, 0, 0, heights, 0)):  # 1 is the palette
        config[word] = content
    f.call("llvm.x86.ldtilecfg", [config.address])


def release(f: Function) -> None:
    """Give them back, so that nobody has to save them."""
    f.call("llvm.x86.tilerelease", [])


class Sums:
    """Up to two by two registers of sums, rows of A by columns of B."""

    def __init__(self, f: Function, high: int, wide: int):
        self.f, self.high, self.wide = f, high, wide
        for number in range(high * wide):
            f.call("llvm.x86.tilezero", [f.constant(i8, number)])

    def add(self, a: list[Pointer], a_stride: Operand, b: list[Pointer], b_stride: Operand) -> None:
        """The products of one register of A for each row and one of B for each column."""
        f = self.f
        for first, operands, stride in ((A, a, a_stride), (B, b, b_stride)):
            for number, place in enumerate(operands):
                where = [f.constant(i8, first + number), place.address, f.value(i64, stride)]
                f.call("llvm.x86.tileloadd64", where)
        for r in range(self.high):
            for c in range(self.wide):
                numbers = (r * self.wide + c, A + r, B + c)
                f.call("llvm.x86.tdpbf16ps", [f.constant(i8, n) for n in numbers])

    def store(self, put: Pointer, across: int) -> None:
        """As rows of f32, `across` of them in each."""
        f = self.f
        for r in range(self.high):
            for c in range(self.wide):
                place = put + (r * SIDE * across + c * SIDE)
                number, stride = f.constant(i8, r * self.wide + c), f.constant(i64, across * 4)
                f.call("llvm.x86.tilestored64", [number, place.address, stride])


def _beside(count: int) -> list[tuple[int, int]]:
    """(first, how many) of so many registers, in twos and what is left."""
    return [(first, min(PAIR, count - first)) for first in range(0, count, PAIR)]


def score(tiles: Tiles) -> Function:
    """Products of a group with `count` keys, and their maximum; there are whole registers of keys, see `fill_keys`."""
    plan, lanes = tiles.plan, tiles.lanes
    names = [(n, ptr) for n in ("workspace", "keys", "queries")] + [("count", i64), ("stride", i64)]
    f = tiles.module.function("score", names)
    workspace, keys, queries, count, stride = f.arguments
    packed, scores, best = Pointer(queries, i32), tiles.part(workspace, "scores"), tiles.lowest(f)
    with f.loop(0, count, STRIP) as first:
        lines = [Pointer(keys, i8).bytes((first + r * SIDE) * stride) for r in range(PAIR)]
        for v, wide in _beside(plan.vectors):
            sums = Sums(f, PAIR, wide)
            for step in range(plan.depth // SIDE):
                a = [line + step * ROW for line in lines]
                b = [packed + (step * SIDE * plan.across + (v + c) * lanes) for c in range(wide)]
                sums.add(a, stride, b, plan.across * 4)
            sums.store(scores + (first * plan.across + v * lanes), plan.across)
        with f.loop(first, first + STRIP) as j:
            for v in range(plan.vectors):
                best[v].set(larger(scores.load(j * plan.across + v * lanes, lanes), best[v].get()))
    tiles.keep_best(workspace, best)
    f.give()
    return f


def fill_keys(tiles: Tiles) -> Function:
    """Keys with zeros after the last element and the last key, so that they fill registers."""
    plan, lanes = tiles.plan, tiles.lanes
    f = tiles.module.function("fill_keys", [("rows", ptr), ("put", ptr), ("count", i64), ("stride", i64)])
    rows, put, count, stride = f.arguments
    width, whole = plan.depth * 2, plan.d // lanes * lanes
    with f.loop(0, (count + (plan.step - 1)) & -plan.step) as j:
        to = Pointer(put, i16) + j * width
        with f.loop(0, width, lanes) as c:
            to[c] = f.constant(i16.of(lanes), 0)
        with f.when(j < count):
            line = Pointer(rows, i16).bytes(j * stride)
            with f.loop(0, whole, lanes) as c:
                to[c] = line.load(c, lanes)
            with f.loop(whole, plan.d) as c:
                to[c] = line[c]
    f.give()
    return f


def value(tiles: Tiles) -> Function:
    """What some keys of a block add to the output of a group; V lies as registers, those of the same keys together."""
    plan, lanes = tiles.plan, tiles.lanes
    pointers, numbers = ("workspace", "values", "output"), ("start", "count", "stride")
    f = tiles.module.function("value", [*((n, ptr) for n in pointers), *((n, i64) for n in numbers)])
    workspace, values, output, begin, count, _ = f.arguments
    weights, room = tiles.part(workspace, "pairs", i32), tiles.part(workspace, "sums")
    result, alpha = Pointer(output, tiles.number), tiles.part(workspace, "alpha")
    panel = plan.value_columns * ROW  # bytes of a strip
    first = Pointer(values, i8) + begin.quotient(STRIP) * panel

    def columns(at: Operand, high: int) -> None:
        """So many registers of columns of V, for all keys."""
        at = f.value(i64, at)
        for v, wide in _beside(plan.vectors):
            sums = Sums(f, high, wide)
            with f.loop(0, (count + (STRIP - 1)).quotient(STRIP)) as strip:
                a = [first + (strip * panel + (at + r * SIDE) * ROW) for r in range(high)]
                b = [weights + (strip * SIDE * plan.across + (v + c) * lanes) for c in range(wide)]
                sums.add(a, ROW, b, plan.across * 4)
            sums.store(room + v * lanes, plan.across)
        scale = [alpha.load(v * lanes, lanes) for v in range(plan.vectors)]
        with f.loop(0, smaller(plan.d_v - at, high * SIDE)) as c:
            for v in range(plan.vectors):
                here = c * plan.across + v * lanes
                more = room.load(here, lanes)
                tiles.gather(result, at * plan.across + here, scale[v], more, plan.d_v * plan.across)

    registers = plan.value_columns // SIDE
    if registers >= PAIR:
        with f.loop(0, registers // PAIR * PAIR * SIDE, PAIR * SIDE) as at:
            columns(at, PAIR)
    if registers % PAIR:
        columns((registers - 1) * SIDE, 1)
    f.give()
    return f
