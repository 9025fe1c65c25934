"""The arguments of a program: its numbers, its arrays, and for masks the tables that bound a stretch of an array.

A table has, for blocks of an array, the least and the greatest element of every run of 2ᵏ blocks, so that any stretch
is bounded by two look-ups. Making it costs one pass over the array.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from regard.algebra.bounds import Interval, intervals
from regard.algebra.program import Program
from regard.errors import TraceError

BLOCK = 16  # elements; more where the array is so long that the table would weigh something
BLOCKS = 1 << 13
LARGEST = 3.4e38  # of f32, or nearly
WHOLE = {"int8", "uint8", "int16", "uint16", "int32"}  # fit 32 bits whatever they hold


def words(program: Program, bounded: bool, keep: list[Any]) -> list[int]:
    """A program's arguments as 64-bit words, laid out as `lower.Layout` says; what they point at goes to `keep`."""
    out = [_word(x) for x in program.constants]
    for array in program.arrays:
        keep.append(array)
        address, shift, width = 0, 0, 0
        if bounded:
            table, shift, width = bounds_table(array)
            keep.append(table)
            address = table.ctypes.data
        out += [array.ctypes.data, address, shift, width, *array.shape]
    return out


def _word(x: Any) -> int:
    if isinstance(x, float):
        return int(struct.unpack("<q", struct.pack("<d", x))[0])
    return int(x)


def bounds_table(array: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int, int]:
    """The table of an array, flattened; the shift from an element's index to its block's; and the number of blocks."""
    kind = np.float64 if array.dtype.kind == "f" else np.int64
    flat = array.reshape(-1)
    shift = max(BLOCK, -(-flat.size // BLOCKS) - 1).bit_length() - (1 if -(-flat.size // BLOCKS) <= BLOCK else 0)
    starts = np.arange(0, flat.size, 1 << shift)
    width = len(starts)
    levels = width.bit_length()
    table = np.zeros((2, levels, width), kind)  # (least | greatest, power of two, first block)
    for side, extreme in enumerate((np.minimum, np.maximum)):
        row = extreme.reduceat(flat, starts).astype(kind)
        table[side, 0] = row
        for level in range(1, levels):
            step = 1 << (level - 1)
            row = extreme(row[:-step], row[step:])
            table[side, level, : len(row)] = row
    return table, shift, width


def whole_bits(programs: list[Program], rectangle: dict[str, tuple[int, int]]) -> int:
    """32 if no whole number on the way can leave 32 bits anywhere in the problem, else 64."""
    bits = 32
    for program in programs:
        known: list[Interval] = intervals(program.nodes, program.constants, program.arrays, dict(rectangle))
        for node, interval in zip(program.nodes, known, strict=True):
            if node.kind != "int" or interval[0] != interval[0]:
                continue
            low, high = interval
            if low < -(2**63) or high >= 2**63:
                raise TraceError(
                    f"a whole number of the expression can reach {low if low < -(2**63) else high}, expected at most "
                    "64 bits: use smaller numbers or floats"
                )
            if low < -(2**31) + 1 or high >= 2**31:
                bits = 64
        if any(array.size >= 2**31 for array in program.arrays):
            bits = 64
    return bits


def hides(modify: Program, rectangle: dict[str, tuple[Any, Any]]) -> bool:
    """Whether a modifier may make a score -inf that was not; sums that pass the end of f32 are not meant."""
    known = intervals(modify.nodes, modify.constants, modify.arrays, rectangle | {"score": (-LARGEST, LARGEST)})
    return not known[modify.roots[0]][0] > -math.inf
