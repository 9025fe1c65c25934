"""attention(): a problem becomes a plan, a kernel and a job.

>>> import numpy as np
>>> q = k = v = np.eye(3, dtype=np.float32)
>>> (3 * attention(q, k, v, scale=0.0)[0]).tolist()
[1.0, 1.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.algebra.masks import Mask
from regard.algebra.scores import Score, dot
from regard.errors import DtypeError, ShapeError
from regard.folding import folded
from regard.kernels.launch import Launch, launch
from regard.kernels.plan import SIZES
from regard.kernels.target import host
from regard.problem import DTYPES, Problem, View, problem, view
from regard.results import as_callers, empty
from regard.terms import Modify, real, terms

REMEMBERED = 256  # calls of different shapes


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    score: Score = dot,
    scale: float | None = None,
    modify: Modify = None,
    bias: Any = None,
    mask: Any = None,
    sinks: Any = None,
    return_lse: bool = False,
    out: Any = None,
) -> Any:
    """softmax(scores) · V, exactly, without ever building the matrix of weights.

    Arrays are (…, heads, n, d), or (n, d) for one head; fewer key heads than query heads are shared between them. A
    score is q·k times `scale` (1/√d if None), then through `modify`, plus `bias`; `mask` says what may be seen;
    `sinks` is a logit for each query head that takes weight and gives no value. With `return_lse` the logarithm of
    each row's sum comes too. NumPy arrays, torch tensors on the CPU, and anything with `__dlpack__` go in; the like
    comes out. `score` is `dot`, `general(W)` or `additive(w, w_q, w_k)`.

    >>> from regard import causal
    >>> x = np.arange(12, dtype=np.float32).reshape(4, 3)
    >>> z, lse = attention(x, x, x, mask=causal, return_lse=True)
    >>> z[0].tolist(), lse.shape
    ([0.0, 1.0, 2.0], (4,))
    """
    views = view("q", q), view("k", k), view("v", v)
    if score is not dot:
        return _by_score(score, (q, v), views, scale, modify, bias, mask, sinks, return_lse, out)
    prepared = _prepared_for(views, scale, modify, bias, mask, sinks, return_lse)
    of = prepared.problem
    result = empty(q, prepared.shape, of.storage) if out is None else out
    place = _fresh_view(result) if out is None else _output_view(out, prepared, views)
    lse = empty(q, of.rows, "f64" if of.storage == "f64" else "f32") if return_lse else None
    if prepared.launch is not None:
        where = 0 if lse is None else _fresh_view(lse).address
        q_at, k_at, v_at = (x.address for x in views)
        prepared.launch.run(q_at, k_at, v_at, place.address, where, (views, place, lse))
    if place.owner is not result:
        _copy_into(out, place.owner)
    given = as_callers(q, result) if out is None else out
    return (given, as_callers(q, lse)) if return_lse else given


def _by_score(
    score: Score,
    given: tuple[Any, Any],
    views: tuple[View, View, View],
    scale: Any,
    modify: Modify,
    bias: Any,
    mask: Any,
    sinks: Any,
    return_lse: bool,
    out: Any,
) -> Any:
    """A score other than the dot product: projected first, and computed in f32 or f64."""
    q, k, v, vector, usual = folded(score, *views)
    assert v is not None
    of = problem(q, k, v)
    what = terms(of, usual if scale is None else scale, modify, bias, mask, sinks, vector)
    lse = np.empty(of.rows, DTYPES[of.storage])
    z = np.empty((*of.rows, of.d_v), DTYPES[of.storage])
    if z.size or lse.size:
        made = launch(of, what, q, k, v, ("output", "lse"))
        made.run(q.address, k.address, v.address, z.ctypes.data, lse.ctypes.data, (q, k, v, z, lse))
    like = given[0]
    result = empty(like, z.shape, views[2].storage) if out is None else out
    if out is not None:
        _output_view(out, Prepared(replace(of, storage=views[2].storage), z.shape, None), views)
    _copy_into(result, z if isinstance(result, np.ndarray) else as_callers(like, z))
    shown = as_callers(like, result) if out is None else out
    return (shown, as_callers(like, lse)) if return_lse else shown


Array = np.ndarray[Any, Any]


def repeated(
    q: Array, k: Array, v: Array, out: Array, mask: Mask | None = None, lse: Array | None = None
) -> Callable[[], None]:
    """attention() as a call that can be made again whenever what the arrays hold has changed.

    Rows of `out` may stand apart, as those of the inputs may; `lse`, in float64, is of `out`'s shape but for d. Here
    nothing is checked that attention() checks of its results.

    >>> x = np.eye(3, dtype=np.float32)
    >>> z = np.empty_like(x)
    >>> attend = repeated(x, x, x, z)
    >>> attend()
    >>> np.array_equal(z, attention(x, x, x))
    True
    """
    views = view("q", q), view("k", k), view("v", v)
    place, of = view("out", out), problem(*views)
    wanted = ("output",) if lse is None else ("output", "wide lse")
    if 0 in of.rows:
        return lambda: None
    made = launch(of, terms(of, None, None, None, mask, None), *views, wanted, out=place)
    q_at, k_at, v_at, out_at = (x.address for x in (*views, place))
    lse_at = 0 if lse is None else _fresh_view(lse).address
    return lambda: made.run(q_at, k_at, v_at, out_at, lse_at, (views, place, lse))


@dataclass(frozen=True)
class Prepared:
    """A call with everything worked out but its addresses."""

    problem: Problem
    shape: tuple[int, ...]
    launch: Launch | None  # None where there is nothing to compute


_prepared: dict[Any, Prepared] = {}


def _prepared_for(
    views: tuple[View, View, View], scale: Any, modify: Any, bias: Any, mask: Any, sinks: Any, return_lse: bool
) -> Prepared:
    """What was worked out for an earlier call of the same shapes, if nothing in it belongs to the caller."""
    key: Any = None
    if bias is None and modify is None and sinks is None and (mask is None or isinstance(mask, Mask)):
        number = scale if scale is None else real(scale)
        key = (*(x[1:4] for x in views), number, None if mask is None else mask.key, return_lse, host())
        found = _prepared.get(key)
        if found is not None:
            return found
    q, k, v = views
    of = problem(q, k, v)
    what = terms(of, scale, modify, bias, mask, sinks)
    reductions = ("output", "lse") if return_lse else ("output",)
    made = None if 0 in of.rows else launch(of, what, q, k, v, reductions)
    prepared = Prepared(of, (*of.rows, of.d_v), made)
    if key is not None and (made is None or made.reusable):
        if len(_prepared) >= REMEMBERED:
            _prepared.clear()
        _prepared[key] = prepared
    return prepared


# Where results go.


def _fresh_view(array: Any) -> View:
    if isinstance(array, np.ndarray):
        return View(array.__array_interface__["data"][0], array.shape, (), "", array)
    return View(array.data_ptr(), (), (), "", array)


def _output_view(out: Any, prepared: Prepared, inputs: Sequence[View]) -> View:
    """Where to write for `out`: the array itself, or one of our own that is copied to it afterwards."""
    x = view("out", out)
    of = prepared.problem
    if x.shape != prepared.shape:
        raise ShapeError(f"out has shape {x.shape}, expected {prepared.shape}: make it so, or leave it out")
    if x.storage != of.storage:
        raise DtypeError(
            f"out has dtype {DTYPES[x.storage]}, expected {DTYPES[of.storage]}: make it so, or leave it out"
        )
    if any(n > 1 and not stride for n, stride in zip(x.shape, x.strides, strict=True)):
        raise ShapeError(
            f"out of shape {x.shape} keeps several rows in the same memory, expected one each: pass a copy"
        )
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise DtypeError("out is read-only, expected an array to write to: pass a copy")
    size = int(np.prod(x.shape)) * SIZES[x.storage]
    step, dense = SIZES[x.storage], x.owner is out
    for n, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        dense, step = dense and (n == 1 or stride == step), step * n
    apart = all(y.address + _extent(y) <= x.address or x.address + size <= y.address for y in inputs)
    if dense and apart:
        return x
    return _fresh_view(empty(out, prepared.shape, of.storage))


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
