"""Plan -> job: the arguments of a kernel in memory, ready to run as often as its arrays stay what they are."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.algebra.program import linearize
from regard.kernels import arguments, threads
from regard.kernels.choose import MANY, choose
from regard.kernels.compile import Entry, kernel
from regard.kernels.plan import JOB, JOB_WORDS, SIZES, Plan, Reduction
from regard.kernels.target import host
from regard.kernels.wanted import Wanted
from regard.problem import Problem, View, offsets
from regard.terms import Terms

Progress = Callable[[float], object]
Words = ctypes.c_int64 * JOB_WORDS
_Q, _K, _V, _OUT, _LSE = (JOB[name] for name in ("q", "k", "v", "out", "lse"))

# Operations a second and lane that any machine does; by it the first stretch in native code is measured out.
PACE = 4e9

STRIPS = 64  # of all heads, where each has sums of its own
FEWEST = 8  # tasks, if the problem allows
ROOM = 20 << 20  # bytes for the sums of all strips

TANH = 25  # of a tanh, in multiply-adds

PARTS = 32  # of a decode: enough for the threads of most machines, and few enough to be long


@dataclass(frozen=True)
class Launch:
    """A kernel with all its arguments but the addresses of q, k, v, out and lse."""

    entry: Entry
    template: bytes
    scratch: int
    budget: int
    helpers: int
    room: tuple[int, int]  # the word and the size of scratch memory that all threads share
    keep: tuple[Any, ...]  # what the template points at
    reusable: bool  # it points at nothing of the caller's

    def run(
        self, q: int, k: int, v: int, out: int, lse: int, alive: Sequence[Any], progress: Progress | None = None
    ) -> None:
        """Run to the end; what is `alive` stays so until the last thread has left. `progress` is told, now and then,
        what share of the tasks is done."""
        job = Words.from_buffer_copy(self.template)
        job[_Q], job[_K], job[_V], job[_OUT], job[_LSE] = q, k, v, out, lse
        room = None
        if self.room[1]:
            room = np.empty(self.room[1], np.uint8)
            job[self.room[0]] = room.ctypes.data
        threads.compute(self.entry, job, self.scratch, self.budget, self.helpers, (self, room, alive), progress)


def launch(
    of: Problem,
    terms: Terms,
    q: View,
    k: View,
    v: View | None,
    reductions: tuple[Reduction, ...],
    rows: tuple[int, int] | None = None,
    keys: tuple[int, int] | None = None,
    wanted: Sequence[Wanted] = (),
    out: View | None = None,
) -> Launch:
    """The plan of a problem and the arguments of its kernel; `rows` and `keys` are (first, count) of a region.

    `wanted` are the reductions instead, where each has arguments and results of its own. `out` says how rows of the
    output lie, where they do not follow each other.
    """
    trees = {"modify": terms.modify, "mask": terms.mask}
    programs = {name: linearize(x) for name, x in trees.items() if x is not None}
    reductions = reductions or tuple(x.plan for x in wanted)
    every = [*programs.values(), *(x for one in wanted for x in one.programs)]
    whole_bits = arguments.whole_bits(every, _rectangle(of)) if every else 32
    hides = terms.bias is not None or modifier_hides(of, terms)
    rows, keys = rows or (0, of.n_q), keys or (0, of.n_k)
    plan = choose(of, terms, programs, host(), reductions, whole_bits, hides, rows[1], keys[1])
    entry = kernel(plan)

    instances = of.batch * of.heads
    online = plan.kind in ("forward", "decode")
    width = of.d_v * SIZES[of.storage] if online else keys[1] * plan.number.size
    fields: dict[str, int] = {
        "n_q": of.n_q,
        "n_k": of.n_k,
        "heads": of.heads,
        "key_heads": of.key_heads,
        "group": of.heads // of.key_heads,
        "scale": struct.unpack("<q", struct.pack("<d", terms.scale))[0],
        "out_row": width,
        "row_first": rows[0],
        "row_count": rows[1],
        "key_first": keys[0],
        "key_count": keys[1],
        "task_cost": 1,
    }
    strips = _in_strips(plan, fields, instances, sum(x.size for x in wanted))
    wide = not online or "wide lse" in reductions
    each = np.arange(instances, dtype=np.int64)
    tables = {"out": each * (rows[1] * width), "lse": each * (of.n_q * (8 if wide else plan.number.size))}
    keep: list[Any] = []
    named = [("q", q), ("k", k), ("v", v), ("mask", terms.mask_array), ("bias", terms.bias)]
    named += [("out", out)] * (out is not None)
    for name, x in named:
        if x is None:
            tables[name] = each * 0
            continue
        tables[name] = offsets(of, x.shape[:-2], x.strides[:-2])
        fields[f"{name}_row"] = x.strides[-2]
        if name in ("mask", "bias"):
            fields[name] = x.address
            keep.append(x.owner)
    if terms.sinks is not None:
        fields["sinks"] = terms.sinks.ctypes.data
        keep.append(terms.sinks)
    if terms.vector is not None:
        fields["vector"] = terms.vector.ctypes.data
        keep.append(terms.vector)
    words = [w for name, x in programs.items() for w in arguments.words(x, name == "mask", keep)]
    for one in wanted:
        one.check(_rectangle(of) | _region(of, rows, keys))
        words += one.make(instances, strips, rows[1], keep)
    listed = np.array(words or [0], np.int64)
    fields["words"] = listed.ctypes.data

    room = (0, 0)
    tasks = fields["total1"]
    if plan.kind == "decode":
        room, tasks = _in_parts(of, plan, fields)
    elif plan.pairs and "output" in reductions:
        room = _in_pairs(of, plan, tables, fields)
    fields |= {f"{name}_at": table.ctypes.data for name, table in tables.items()}
    job = Words()
    for name, number in fields.items():
        job[JOB[name]] = number
    depth = of.d * (TANH if plan.additive else 1) + of.d_v  # multiply-adds of a cell
    operations = 2.0 * rows[1] * keys[1] * instances * max(16, depth)
    visit = 2.0 * plan.across * plan.keys * (depth + 32)
    return Launch(
        entry,
        bytes(job),
        plan.workspace["size"],
        budget=max(1, int(threads.STRETCH * plan.target.lanes(32) * PACE / visit)),
        helpers=0 if operations < threads.WORTH_A_HAND else tasks - 1,
        room=room,
        keep=(*keep, listed, *tables.values()),
        reusable=not keep,
    )


def _in_strips(plan: Plan, fields: dict[str, int], instances: int, numbers: int) -> int:
    """Cut the work by shape alone: into strips of blocks of queries, each of which leaves so many numbers, or where
    nothing is carried from key to key into stretches of keys too. Gives the strips of a head."""
    if plan.kind.startswith("thin"):
        many = max(fields["row_count"], fields["key_count"])
        stretches = max(1, min(-(-FEWEST // max(1, instances)), many // MANY))
        stretch = -(-many // stretches // plan.keys) * plan.keys
        stretches = -(-many // stretch)
        fields |= {"strip": 1, "stretches": stretches, "stretch": stretch, "total1": instances * stretches}
        fields["task_cost"] = 1 + stretch // plan.keys
        return 1
    blocks, tiles = -(-fields["row_count"] // plan.block), -(-fields["key_count"] // plan.keys)
    strips, stretches = blocks, 1
    if numbers:
        strips = min(strips, max(1, STRIPS // max(1, instances)))
        each = 8 * numbers * max(1, instances)  # bytes
        some = -(-FEWEST // max(1, instances))  # enough for a few threads, if that does not take much more
        strips = min(strips, max(1, ROOM // each, some if some * each <= 8 * ROOM else 1))
    elif set(plan.reductions) <= {"cells", "scores"} and blocks * instances < FEWEST:
        stretches = max(1, min(tiles, -(-FEWEST // max(1, blocks * instances))))
    strip, stretch = max(1, -(-blocks // max(1, strips))), max(1, -(-tiles // stretches))
    strips, stretches = -(-blocks // strip), max(1, -(-tiles // stretch))
    fields |= {"strip": strip, "stretches": stretches, "stretch": stretch}
    fields["total1"] = instances * strips * stretches
    return strips


def _in_parts(of: Problem, plan: Plan, fields: dict[str, int]) -> tuple[tuple[int, int], int]:
    """Cut the keys into parts by shape alone, some 32 tasks and none of them short; the room for what they leave."""
    shared = of.batch * of.key_heads
    parts = max(1, min(-(-PARTS // shared), of.n_k // 256))
    part_keys = -(-of.n_k // parts)
    left_behind = -(-of.d_v // plan.lanes) * plan.lanes + 2
    visits = part_keys * plan.queries / (plan.across * plan.keys)
    fields |= {"total0": shared * parts, "total1": shared, "parts": parts, "part_keys": part_keys}
    fields["task_cost"] = 1 + int(visits)
    return (JOB["partial"], shared * parts * plan.queries * left_behind * plan.number.size), shared * parts


def _in_pairs(of: Problem, plan: Plan, tables: dict[str, Any], fields: dict[str, int]) -> tuple[int, int]:
    """One copy of V with its keys in pairs for each head that has values of its own, which query heads then share."""
    sources, which = np.unique(tables["v"], return_inverse=True)
    together = 32 if plan.amx else 2  # keys
    size = -(-of.n_k // together) * together * plan.value_columns * 2
    parts = max(1, min(64, -(-of.n_k // 1024)))
    part_keys = -(-of.n_k // parts // 32) * 32  # whole registers, where they are used
    fields |= {"total0": len(sources) * parts, "parts": parts, "part_keys": part_keys}
    tables |= {"packed": which.astype(np.int64).ravel() * size, "source": sources}
    return JOB["packed"], len(sources) * size


def modifier_hides(of: Problem, terms: Terms) -> bool:
    """Whether a modifier may make a score -inf that was not."""
    return terms.modify is not None and arguments.hides(linearize(terms.modify), _rectangle(of))


def _region(of: Problem, rows: tuple[int, int], keys: tuple[int, int]) -> dict[str, tuple[int, int]]:
    """What positions can be in a region."""
    first, last, offset = rows[0], rows[0] + max(1, rows[1]) - 1, of.n_k - of.n_q
    return {"row": (first, last), "q": (first + offset, last + offset), "k": (keys[0], keys[0] + max(1, keys[1]) - 1)}


def _rectangle(of: Problem) -> dict[str, tuple[Any, Any]]:
    """What each variable can be in the whole problem."""
    offset = of.n_k - of.n_q
    return {
        "b": (0, max(0, of.batch - 1)),
        "h": (0, max(0, of.heads - 1)),
        "row": (0, of.n_q - 1),
        "q": (offset, of.n_k - 1),
        "k": (0, max(0, of.n_k - 1)),
        "score": (-math.inf, math.inf),
    }


def cells(
    of: Problem,
    terms: Terms,
    q: View,
    k: View,
    lse: int,
    rows: tuple[int, int],
    keys: tuple[int, int],
    what: str = "cells",
) -> np.ndarray[Any, Any]:
    """A region of A for every leading index and head, from the lse (f64) at an address; or of its "scores"."""
    number = np.float64 if of.storage == "f64" else np.float32
    # What is hidden is never visited.
    out = np.full((*of.leading, of.heads, rows[1], keys[1]), -np.inf if what == "scores" else 0, number)
    if out.size:
        made = launch(of, terms, q, k, None, (what,), rows, keys)
        made.run(q.address, k.address, 0, out.ctypes.data, lse, (q, k, out))
    return out


def reduce(
    of: Problem,
    terms: Terms,
    q: View,
    k: View,
    lse: int,
    wanted: Sequence[Wanted],
    rows: tuple[int, int] | None = None,
    keys: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> list[Any]:
    """What one settled pass over a region makes of the weights, from the lse (f64) at an address; results are
    (instances, …), rows from the first on."""
    made = launch(of, terms, q, k, None, (), rows, keys, wanted)
    made.run(q.address, k.address, 0, 0, lse, (q, k, wanted), progress)
    return [one.result() for one in wanted]
