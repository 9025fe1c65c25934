"""Problem -> plan: which kernel, and the shapes of its tiles and blocks."""

from __future__ import annotations

from regard.algebra.program import Program
from regard.kernels.plan import SIZES, Plan
from regard.kernels.target import Target
from regard.problem import Problem
from regard.terms import Terms

FEW = 8  # queries: up to here keys are read for their memory's sake, beyond it they are multiplied
QUERIES = 128  # in a block: long enough to use loaded keys several times, short enough to skip what is hidden
KEYS = 256  # in a block: each block's sum is added to the output once, so fewer blocks also mean less rounding
TASKS = 8  # at least, if the problem allows, so that two or four threads end together


def choose(
    of: Problem,
    terms: Terms,
    programs: dict[str, Program],
    target: Target,
    reductions: tuple[str, ...],
    whole_bits: int,
) -> Plan:
    """The plan of a problem: an online pass, but for reductions of settled weights."""
    lanes = target.lanes(64 if of.storage == "f64" else 32)
    together = of.n_q * (of.heads // of.key_heads)
    kind = "settled" if "cells" in reductions else "forward"
    if kind == "forward" and "output" in reductions and of.n_q <= FEW and together <= 8 * FEW:
        kind, vectors, groups, keys = "decode", 1, 1, KEYS // 4
    else:
        vectors = 1 if of.n_q <= lanes else 2
        across = lanes * vectors
        groups = max(1, min(QUERIES // across, -(-of.n_q // across)))
        while groups > 1 and of.batch * of.heads * -(-of.n_q // (across * groups)) < TASKS:
            groups //= 2
        # A block of keys and values, and one of queries and outputs, share the second cache.
        while groups > 1 and groups * across * (of.d + of.d_v) * 4 > target.fast_cache // 2:
            groups //= 2
        keys = KEYS
        while keys > 32 and keys * (of.d + of.d_v) * SIZES[of.storage] > target.fast_cache // 4:
            keys //= 2
    return Plan(
        kind,
        target,
        of.storage,
        of.d,
        of.d_v,
        vectors,
        groups,
        keys,
        reductions,
        modify=programs["modify"].shape if "modify" in programs else None,
        mask=programs["mask"].shape if "mask" in programs else None,
        mask_array=terms.mask_array is not None,
        bias=terms.bias.storage if terms.bias is not None else "",
        sinks=terms.sinks is not None,
        whole_bits=whole_bits,
        queries=together if kind == "decode" else 0,
    )
