"""attention(): a problem becomes a plan, a kernel and a job.

    >>> import numpy as np
    >>> q = k = v = np.eye(3, dtype=np.float32)
    >>> attention(q, k, v, scale=0.0)[0].round(3).tolist()
    [0.333, 0.333, 0.333]
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.algebra.expression import Expression, Program, as_array, gather, linearize, substitute, trace, variable
from regard.algebra.masks import Mask
from regard.algebra.scores import Modifier, Score, dot
from regard.errors import DtypeError, ShapeError, TraceError
from regard.kernels import arguments, threads
from regard.kernels.compile import Entry, kernel
from regard.kernels.forward import forward
from regard.kernels.plan import JOB, JOB_WORDS, SIZES, Plan
from regard.kernels.target import Target, host
from regard.problem import DTYPES, Problem, View, check_mask, fits, offsets, problem, torch_module, view

Words = ctypes.c_int64 * JOB_WORDS
TABLES = ("q", "k", "v", "out", "lse", "mask", "bias", "packed")


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    score: Score = dot,
    scale: float | None = None,
    modify: Modifier | Sequence[Modifier] | None = None,
    bias: Any = None,
    mask: Any = None,
    sinks: Any = None,
    return_lse: bool = False,
    out: Any = None,
) -> Any:
    """softmax(scores) · V, exactly, without ever building the matrix of weights.

    Arrays are (…, heads, n, d), or (n, d) for one head; fewer key heads than query heads are shared between them.
    A score is q·k times `scale` (1/√d if None), then through `modify`, plus `bias`; `mask` says what may be seen; `sinks`
    is a logit for each query head that takes weight and gives no value. With `return_lse` the logarithm of each row's
    sum comes too. NumPy arrays, torch tensors on the CPU, and anything with `__dlpack__` go in; the like comes out.

    >>> x = np.arange(12, dtype=np.float32).reshape(4, 3)
    >>> z, lse = attention(x, x, x, mask=regard.causal, return_lse=True)
    >>> z[0].tolist(), lse.shape
    ([0.0, 1.0, 2.0], (4,))
    """
    if score is not dot:
        raise DtypeError(f"score is {score!r}, expected regard.dot: leave it out")
    views = view("q", q), view("k", k), view("v", v)
    simple = bias is None and modify is None and sinks is None and (mask is None or isinstance(mask, Mask))
    prepared: Prepared | None = None
    key: Any = None
    if simple:
        key = (*(x[1:4] for x in views), scale, mask if mask is None else mask.key, return_lse, host(), out is None)
        prepared = _prepared.get(key)
    if prepared is None:
        prepared = prepare(*views, scale, modify, bias, mask, sinks, return_lse)
        if simple and not prepared.keep:
            if len(_prepared) >= 256:
                _prepared.clear()
            _prepared[key] = prepared
    result = _empty(q, views[0], prepared.shape, prepared.problem.storage) if out is None else out
    target = _output_view(result, prepared, views) if out is not None else _fresh_view(result)
    lse = None
    if return_lse:
        lse = _empty(q, views[0], prepared.problem.rows, "f64" if prepared.problem.storage == "f64" else "f32")
    prepared.run(views, target.address, _fresh_view(lse).address if lse is not None else 0)
    if target.owner is not result and out is not None:
        _copy_into(out, target.owner)
    given = result if out is not None else _as_callers(q, result)
    return (given, _as_callers(q, lse)) if return_lse else given


_prepared: dict[Any, Prepared] = {}


@dataclass
class Prepared:
    """A call with everything worked out but the addresses."""

    problem: Problem
    shape: tuple[int, ...]
    entry: Entry | None  # None where there is nothing to compute
    template: bytes
    scratch: int
    budget: int
    helpers: int
    packed: int  # bytes of values interleaved in pairs
    keep: list[Any]  # arrays of masks and modifiers; with any, a call is prepared anew
    tables: list[Any]

    def run(self, views: Sequence[View], out: int, lse: int) -> None:
        if self.entry is None:
            return
        job = Words.from_buffer_copy(self.template)
        job[_Q], job[_K], job[_V], job[_OUT], job[_LSE] = views[0][0], views[1][0], views[2][0], out, lse
        room = None
        if self.packed:
            room = np.empty(self.packed, np.uint8)
            job[JOB["packed"]] = room.ctypes.data
        threads.compute(self.entry, job, self.scratch, self.budget, self.helpers, (self, room, views))


_Q, _K, _V, _OUT, _LSE = (JOB[name] for name in ("q", "k", "v", "out", "lse"))


def prepare(
    q: View,
    k: View,
    v: View,
    scale: float | None,
    modify: Modifier | Sequence[Modifier] | None,
    bias: Any,
    mask: Any,
    sinks: Any,
    return_lse: bool,
) -> Prepared:
    """Work out the plan of a call and the arguments of its kernel."""
    of = problem(q, k, v)
    scale = _scale(scale, of)
    keep: list[Any] = []
    changed, bias_view = _bias(bias, of, _modified(modify))
    condition, mask_view = _mask(mask, of)
    sink = _sinks(sinks, of)
    shape = (*of.rows, of.d_v)
    if 0 in of.rows:
        return Prepared(of, shape, None, b"", 0, 0, 0, 0, keep, [])
    programs = {name: linearize(x) for name, x in (("modify", changed), ("mask", condition)) if x is not None}
    bits = arguments.whole_bits(list(programs.values()), _rectangle(of)) if programs else 32
    plan = _plan(of, host(), programs, bits, mask_view is not None, bias_view, sink is not None, return_lse)
    entry = kernel(plan, forward)

    blocks = -(-of.n_q // plan.block)
    instances = of.batch * of.heads
    fields: dict[str, int] = {
        "n_q": of.n_q,
        "n_k": of.n_k,
        "heads": of.heads,
        "total1": instances * blocks,
        "scale": struct.unpack("<q", struct.pack("<d", scale))[0],
        "q_row": q.strides[-2],
        "k_row": k.strides[-2],
        "v_row": v.strides[-2],
        "out_row": of.d_v * SIZES[of.storage],
    }
    tables = [_table(of, x.shape[:-2], x.strides[:-2]) for x in (q, k, v)]
    outer = (*of.leading, of.heads)
    tables.append(_dense(outer, of.n_q * of.d_v * SIZES[of.storage]))
    tables.append(_dense(outer, of.n_q * (8 if of.storage == "f64" else 4)))
    for name, x in (("mask", mask_view), ("bias", bias_view)):
        if x is None:
            tables.append(np.zeros(instances, np.int64))
        else:
            keep.append(x.owner)
            tables.append(_table(of, x.shape[:-2], x.strides[:-2]))
            fields |= {name: x.address, f"{name}_row": x.strides[-2] if x.shape[-2] != 1 else 0}
    if sink is not None:
        keep.append(sink)
        fields["sinks"] = sink.ctypes.data
    packed = 0
    if plan.pairs:
        # One copy of V, its keys in pairs, for each head of its own; query heads that share it share the copy.
        sources, which = np.unique(tables[2], return_inverse=True)
        size = -(-of.n_k // 2) * of.d_v * 4
        packed = len(sources) * size
        parts = max(1, min(64, -(-of.n_k // 1024)))
        part_keys = -(-of.n_k // parts) + 1 & ~1
        fields |= {"total0": len(sources) * parts, "parts": parts, "part_keys": part_keys}
        tables += [which.astype(np.int64).ravel() * size, sources]
    listed: list[int] = []
    for name in ("modify", "mask"):
        if name in programs:
            listed += arguments.words(programs[name], name == "mask", keep)
    listed_array = np.array(listed or [0], np.int64)
    fields["words"] = listed_array.ctypes.data
    for name, table in zip((*TABLES, "source"), tables, strict=False):
        fields[f"{name}_at"] = table.ctypes.data
    job = Words()
    for name, value in fields.items():
        job[JOB[name]] = value
    visits = of.n_q * of.n_k * instances / (plan.across * plan.keys)
    operations = 2.0 * of.n_q * of.n_k * instances * (of.d + of.d_v)
    helpers = 0 if operations < threads.WORTH_A_HAND else min(63, instances * blocks - 1)
    per_visit = 2.0 * plan.across * plan.keys * (of.d + of.d_v + 32)
    budget = max(1, int(threads.STRETCH * plan.target.lanes(32) * 4e9 / per_visit))
    del visits
    return Prepared(
        of, shape, entry, bytes(job), plan.workspace["size"], budget, helpers, packed, keep, [*tables, listed_array]
    )


def _plan(
    of: Problem,
    target: Target,
    programs: dict[str, Program],
    bits: int,
    mask_array: bool,
    bias: View | None,
    sinks: bool,
    lse: bool,
) -> Plan:
    """Tile and block shapes for a problem."""
    lanes = target.lanes(64 if of.storage == "f64" else 32)
    vectors = 1 if of.n_q <= lanes else 2
    across = lanes * vectors
    # Blocks of 128 queries: long enough that a block of keys is used several times, short enough to skip what is masked.
    groups = max(1, min(128 // across, -(-of.n_q // across)))
    instances = of.batch * of.heads
    while groups > 1 and instances * -(-of.n_q // (across * groups)) < 8:
        groups //= 2
    keys = 128
    while keys > 32 and keys * (of.d + of.d_v) * SIZES[of.storage] > target.fast_cache // 4:
        keys //= 2
    while groups > 1 and groups * across * (of.d + of.d_v) * 4 > target.fast_cache // 2:
        groups //= 2
    return Plan(
        "forward",
        target,
        of.storage,
        of.d,
        of.d_v,
        vectors,
        groups,
        keys,
        reductions=("output", "lse") if lse else ("output",),
        modify=programs["modify"].shape if "modify" in programs else None,
        mask=programs["mask"].shape if "mask" in programs else None,
        mask_array=mask_array,
        bias=bias.storage if bias is not None else "",
        sinks=sinks,
        whole_bits=bits,
    )


def _scale(scale: float | None, of: Problem) -> float:
    if scale is None:
        return 1 / math.sqrt(of.d) if of.d else 1.0
    try:
        return float(scale)
    except (TypeError, ValueError):
        raise DtypeError(f"scale is {scale!r}, expected a real number: leave it out for 1/√d") from None


def _rectangle(of: Problem) -> dict[str, tuple[Any, Any]]:
    """What each variable can be in the whole problem."""
    offset = of.n_k - of.n_q
    return {
        "b": (0, max(0, of.batch - 1)),
        "h": (0, max(0, of.heads - 1)),
        "row": (0, of.n_q - 1),
        "q": (offset, max(offset, of.n_k - 1)),
        "k": (0, max(0, of.n_k - 1)),
        "score": (-math.inf, math.inf),
    }


def _table(of: Problem, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    return offsets(of, shape, strides)


def _dense(outer: tuple[int, ...], size: int) -> Any:
    return np.arange(int(np.prod(outer, dtype=np.int64)), dtype=np.int64) * size


def _modified(modify: Modifier | Sequence[Modifier] | None) -> Expression | None:
    """The final score as a tree over the scaled one."""
    if modify is None:
        return None
    chain: Sequence[Callable[..., Any]] = [modify] if callable(modify) else modify
    result: Expression | None = None
    for function in chain:
        if not callable(function):
            raise TraceError(f"modify holds {function!r}, expected functions of (score, b, h, q, k): pass one or a list")
        tree = trace(function, "score b h q k")
        if tree.kind == "bool":
            raise TraceError(f"the modifier gave {tree!r}, a condition, expected a score: choose with where()")
        result = tree if result is None else substitute(tree, "score", result)
    return result


def _spread(of: Problem, shape: tuple[int, ...], array: np.ndarray[Any, Any], variable_name: str) -> Expression:
    """An array with numbers for queries alone, or keys alone, as an expression: array[its leading index and head, place]."""
    place = variable(variable_name)
    length = array.shape[-1] if variable_name == "k" else array.shape[-2]
    rows = np.ascontiguousarray(array).reshape(-1, length)  # (…, 1, n) or (…, n, 1) -> (distinct, n)
    if len(rows) == 1:
        return gather(rows[0], [place])
    counts = np.arange(len(rows)).reshape(shape[:-2])
    which = np.ascontiguousarray(np.broadcast_to(counts, (*of.leading, of.heads))).reshape(of.batch, of.heads)
    return gather(rows, [gather(which, [variable("b"), variable("h")]), place])


def _full(name: str, given: Any, of: Problem) -> tuple[View, tuple[int, ...], np.ndarray[Any, Any] | None]:
    """A mask or bias as a view, its shape with all axes, and, if it has no (query, key) plane, as a NumPy array."""
    x = view(name, given)
    shape = fits(name, x.shape, of)
    strides = (0,) * (len(shape) - len(x.strides)) + x.strides
    x = x._replace(shape=shape, strides=strides)
    if 1 not in shape[-2:]:
        return x, shape, None
    array = as_array(x.owner)
    assert array is not None
    return x, shape, array.reshape(shape)


def _mask(mask: Any, of: Problem) -> tuple[Expression | None, View | None]:
    """The mask as a condition to compute, or as an array to read."""
    if mask is None:
        return None, None
    if isinstance(mask, Mask):
        check_mask(mask, of)
        return mask.condition, None
    if callable(mask) and not hasattr(mask, "shape"):
        raise DtypeError("mask is a function, expected a mask: wrap it as regard.mask(function)")
    if isinstance(mask, (bool, int, float, str)):
        raise DtypeError(f"mask is {mask!r}, expected regard.causal or another mask, or a boolean array")
    x, shape, array = _full("mask", mask, of)
    if x.storage != "bool":
        raise DtypeError(
            f"mask has dtype {DTYPES[x.storage]}, expected bool (True = may attend): pass numbers to add as bias"
        )
    if array is None:
        return None, x
    if shape[-1] == 1:
        return _spread(of, shape, array, "row"), None
    return _spread(of, shape, array, "k"), None


def _bias(bias: Any, of: Problem, modified: Expression | None) -> tuple[Expression | None, View | None]:
    """The modified score with a bias of queries or keys alone added to it; a (query, key) bias stays an array."""
    if bias is None:
        return modified, None
    x, shape, array = _full("bias", bias, of)
    if x.storage == "bool":
        raise DtypeError("bias has dtype bool, expected numbers to add: pass a boolean array as mask")
    if x.storage not in ("f32", of.storage):
        raise DtypeError(
            f"bias has dtype {DTYPES[x.storage]} and q has {DTYPES[of.storage]}, expected the same or float32: convert it"
        )
    if array is None:
        return modified, x
    numbers = array.astype(np.float32) if array.dtype.itemsize < 4 else array
    spread = _spread(of, shape, numbers, "row" if shape[-1] == 1 else "k")
    return (variable("score") if modified is None else modified) + spread, None


def _sinks(sinks: Any, of: Problem) -> np.ndarray[Any, Any] | None:
    if sinks is None:
        return None
    known = as_array(sinks)
    array = np.asarray(sinks) if known is None else known
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise DtypeError(f"sinks has dtype {array.dtype}, expected numbers: one logit for each query head")
    if array.shape != (of.heads,) and not (of.single and array.shape == ()):
        raise ShapeError(f"sinks has shape {array.shape}, expected ({of.heads},): one logit for each query head")
    return np.ascontiguousarray(array.reshape(-1), np.float64 if of.storage == "f64" else np.float32)


# Results are of the caller's kind.


def _empty(like: Any, of: View, shape: tuple[int, ...], storage: str) -> Any:
    torch = torch_module()
    if torch is not None and isinstance(like, torch.Tensor):
        names = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
        return torch.empty(shape, dtype=names[storage])
    return np.empty(shape, DTYPES[storage])


def _fresh_view(array: Any) -> View:
    if isinstance(array, np.ndarray):
        return View(array.__array_interface__["data"][0], array.shape, (), "", array)
    return View(array.data_ptr(), (), (), "", array)


def _as_callers(like: Any, array: Any) -> Any:
    """A NumPy result as an array of the library that q came from, where that library says how."""
    if not isinstance(array, np.ndarray) or isinstance(like, np.ndarray) or not hasattr(like, "__array_namespace__"):
        return array
    return like.__array_namespace__().from_dlpack(array)


def _output_view(out: Any, prepared: Prepared, inputs: Sequence[View]) -> View:
    """Where to write for `out`: the array itself, or one of our own that is copied to it afterwards."""
    x = view("out", out)
    of = prepared.problem
    if x.shape != prepared.shape:
        raise ShapeError(f"out has shape {x.shape}, expected {prepared.shape}: make it so, or leave it out")
    if x.storage != of.storage:
        raise DtypeError(f"out has dtype {DTYPES[x.storage]}, expected {DTYPES[of.storage]}: make it so, or leave it out")
    array = as_array(out)
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise DtypeError("out is read-only, expected an array to write to: pass a copy")
    dense = x.owner is out and array is not None and array.flags.c_contiguous
    size = int(np.prod(x.shape)) * SIZES[x.storage]
    apart = all(y.address + _extent(y) <= x.address or x.address + size <= y.address for y in inputs)
    if dense and apart:
        return x
    return _fresh_view(_empty(out, x, prepared.shape, of.storage))


def _extent(x: View) -> int:
    """Bytes from an array's first element to its end, for strides that go forward; else enough to overlap."""
    if any(s < 0 for s in x.strides):
        return 1 << 62
    return sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True) if n) + SIZES.get(x.storage, 1)


def _copy_into(out: Any, result: Any) -> None:
    if isinstance(out, np.ndarray):
        out[...] = result
    else:
        out.copy_(result)
