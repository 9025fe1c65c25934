"""Problem -> plan: which kernel, and the shapes of its tiles and blocks."""

from __future__ import annotations

from regard.algebra.program import Program
from regard.kernels.plan import SIZES, Plan, Reduction
from regard.kernels.target import Target
from regard.problem import Problem
from regard.terms import Terms

FEW = 8  # queries: up to here keys are read for their memory's sake, beyond it they are multiplied
THIN, MANY = 4, 512  # so few rows are read for their memory's sake too, where there are so many keys; and the reverse
QUERIES = 288  # in a block, at most: long enough to use loaded keys several times
MASKED = 144  # in a block, where something may be skipped: short enough for that
KEYS = 256  # in a block, at most: each block's sum is added to the output once, so fewer blocks mean less rounding
STEP = 32  # keys: blocks are whole numbers of these
TASKS = 8  # at least, if the problem allows, so that two or four threads end together
LONG = 16384  # keys: from here on the sum of blocks is kept with what rounding has taken from it
TAME = (1e-30, 1e30)  # scales that products may be held without: above 0, and far from the ends of f32
# What a vector of queries costs in a register tile of one, two or three of them: each key that is spread over the
# lanes serves them all.
COST = {1: 1.5, 2: 1.08, 3: 1.0}


def choose(
    of: Problem,
    terms: Terms,
    programs: dict[str, Program],
    target: Target,
    reductions: tuple[Reduction, ...],
    whole_bits: int,
    hides: bool,
    rows: int,
    columns: int,
) -> Plan:
    """The plan of a problem, or of so many of its rows and keys: an online pass, but for settled weights."""
    lanes = target.lanes(64 if of.storage == "f64" else 32)
    size = 8 if of.storage == "f64" else 4
    together = of.n_q * (of.heads // of.key_heads)
    kind = "forward" if {"output", "lse", "wide lse"} & set(reductions) else "settled"
    d_v = of.d_v if "output" in reductions else 0  # values that nobody reads are no reason for another kernel
    single = set(reductions) <= {"cells", "scores"} and terms.vector is None
    thin = single and min(rows, columns) <= THIN < MANY <= max(rows, columns)
    few = of.n_q <= FEW and together <= 8 * FEW and terms.vector is None
    if kind == "forward" and "output" in reductions and few:
        kind, vectors, groups, keys = "decode", 1, 1, KEYS // 4
    elif thin:
        kind, vectors, groups, keys = "thin rows" if rows <= columns else "thin columns", 1, 1, KEYS // 4
    else:
        amx = of.storage == "bf16" and target.amx
        vectors = min(range(1, 3 if amx else target.columns + 1), key=lambda v: -(-rows // (lanes * v)) * v * COST[v])
        across = lanes * vectors
        most = QUERIES if terms.mask is None else MASKED
        groups = max(1, min(most // across, -(-rows // across)))
        if terms.vector is not None:  # a tanh costs so much that nothing is won by using loaded keys again
            groups = 1
        while groups > 1 and of.batch * of.heads * -(-rows // (across * groups)) < TASKS:
            groups -= 1
        # A block of keys and values, and one of queries and outputs, share the second cache.
        while groups > 1 and groups * across * (of.d + d_v) * size > target.fast_cache // 2:
            groups -= 1
        keys = KEYS
        while keys > STEP and keys * (of.d + d_v) * SIZES[of.storage] > target.fast_cache // 4:
            keys -= STEP
        # The weights of a tile, and the columns of V that they meet, stay in the nearest.
        beside = across * 2 if amx else target.rows * size  # of a key, beside its weights: these in pairs, or values
        while keys > STEP and keys * (across * size + beside) > target.near_cache * 7 // 8:
            keys -= STEP
    return Plan(
        kind,
        target,
        of.storage,
        of.d,
        d_v,
        vectors,
        groups,
        keys,
        reductions,
        modify=programs["modify"].shape if "modify" in programs else None,
        mask=programs["mask"].shape if "mask" in programs else None,
        mask_array=terms.mask_array is not None,
        bias=terms.bias.storage if terms.bias is not None else "",
        sinks=terms.sinks is not None,
        additive=terms.vector is not None,
        natural=bool(
            terms.modify is not None
            or terms.bias is not None
            or terms.sinks is not None
            or not TAME[0] <= terms.scale <= TAME[1]
        ),
        hides=hides,
        long=of.storage in ("f32", "f64") and of.n_k > LONG,
        whole_bits=whole_bits,
        queries=together if kind == "decode" else min(rows, columns) if thin else 0,
    )
