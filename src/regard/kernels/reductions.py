"""The reductions of a plan, and the words that each of them reads its arguments from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from regard.kernels.binned import Bins
from regard.kernels.cells import words_of
from regard.kernels.plan import Binned, Plan, Top
from regard.kernels.reduction import Cells, Largest, LogSumExp, Moment, Output, Reduction
from regard.kernels.tiles import Tiles
from regard.kernels.top import TopK

# What needs no words of its own, and what reads the address of its result.
PLAIN: dict[str, Callable[[Tiles], Reduction]] = {
    "output": Output,
    "lse": LogSumExp,
    "wide lse": partial(LogSumExp, wide=True),
    "cells": Cells,
    "scores": Cells,
}
ROWS: dict[str, Callable[[Tiles, int], Reduction]] = {"entropy": Moment, "largest": Largest}


def reductions(tiles: Tiles) -> list[Reduction]:
    """The reductions of a plan, in its order."""
    return [_made(tiles, wanted, at) for wanted, at in zip(tiles.plan.reductions, places(tiles.plan), strict=True)]


def _made(tiles: Tiles, wanted: str | Top | Binned, at: int) -> Reduction:
    if isinstance(wanted, Binned):
        return Bins(tiles, wanted, at)
    if isinstance(wanted, Top):
        return TopK(tiles, wanted, at)
    return ROWS[wanted](tiles, at) if wanted in ROWS else PLAIN[wanted](tiles)


def places(plan: Plan) -> list[int]:
    """The first word of each reduction; they follow those of modifier and mask."""
    at, out = words_of(plan.modify) + words_of(plan.mask), []
    for wanted in plan.reductions:
        out.append(at)
        at += words_taken(wanted)
    return out


def words_taken(wanted: str | Top | Binned) -> int:
    """How many words a reduction reads: addresses and sizes, then the arguments of its programs."""
    if isinstance(wanted, Binned):
        return 2 + sum(map(words_of, wanted.programs))
    return 2 if isinstance(wanted, Top) else int(wanted in ROWS)
