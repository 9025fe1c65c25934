"""What is done to each score after the product: modifiers, bias, mask, sinks, as trees to compile and arrays to read.

    score · scale  →  modify  →  + bias  →  mask  →  sinks

What depends on the query alone, or on the key alone, becomes part of a tree, so that the mask of it can be bounded;
only arrays with a number for every (query, key) are read tile by tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.algebra.expression import Expression, gather, substitute, variable, where
from regard.algebra.masks import Mask
from regard.algebra.scores import Modifier, Modifying
from regard.algebra.tracing import as_array, trace
from regard.errors import DtypeError, ShapeError, TraceError
from regard.problem import DTYPES, Problem, View, check_expectations, fits, refuse_gradients, view

Modify = Modifier | Sequence[Modifier] | None
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Terms:
    """The terms of a call."""

    scale: float
    modify: Expression | None = None
    mask: Expression | None = None
    mask_array: View | None = None
    bias: View | None = None
    sinks: Array | None = None
    vector: Array | None = None  # (heads, d): w of additive scores, w · tanh(q + k)


def terms(
    of: Problem, scale: Any, modify: Modify, bias: Any, mask: Any, sinks: Any, vector: Array | None = None
) -> Terms:
    """The terms of a call, checked against its shapes."""
    changed, bias_array = _bias(bias, of, _modified(modify, of))
    condition, mask_array = _mask(mask, of)
    return Terms(_scale(scale, of), changed, condition, mask_array, bias_array, _sinks(sinks, of), vector)


def _scale(scale: Any, of: Problem) -> float:
    if scale is None:
        return 1 / math.sqrt(of.d) if of.d else 1.0  # of a dot product; other scores come with theirs
    return real(scale)


def real(scale: Any) -> float:
    """A given scale as a float."""
    refuse_gradients("scale", scale)
    try:
        if isinstance(scale, str):
            raise TypeError
        return float(scale)
    except (TypeError, ValueError):
        raise DtypeError(f"scale is {scale!r}, expected a real number: leave it out for 1/√d") from None


def _modified(modify: Modify, of: Problem) -> Expression | None:
    """The final score as a tree over the scaled one."""
    if modify is None:
        return None
    if not callable(modify) and not isinstance(modify, (list, tuple)):
        raise TraceError(
            f"modify is {modify!r}, expected a function of (score, b, h, q, k): pass one, or a list of them"
        )
    chain: Sequence[Callable[..., Any]] = [modify] if callable(modify) else modify
    result: Expression | None = None
    for function in chain:
        if not callable(function):
            raise TraceError(
                f"modify holds {function!r}, expected functions of (score, b, h, q, k): pass one, or a list"
            )
        if isinstance(function, Modifying):
            check_expectations("modifier", function.expectations, of)
        tree = trace(function, "score b h q k")
        if tree.kind == "bool":
            raise TraceError(f"the modifier gave {tree!r}, a condition, expected a score: choose with where()")
        result = tree if result is None else substitute(tree, score=result)
    return result


def _spread(of: Problem, array: Array, name: str) -> Expression:
    """An array (…, n, 1) or (…, 1, n) as a tree: array[its leading index and head, the row or key]."""
    length = array.shape[-1] if name == "k" else array.shape[-2]
    rows = np.ascontiguousarray(array).reshape(-1, length)  # (…, 1, n) or (…, n, 1) -> (distinct, n)
    if len(rows) == 1 or not of.batch * of.heads:  # without heads there are no cells, and any row will do
        return gather(rows[0], [variable(name)])
    counts = np.arange(len(rows)).reshape(array.shape[:-2])
    which = np.broadcast_to(counts, (*of.leading, of.heads)).reshape(of.batch, of.heads)  # (…, heads) -> (b, h)
    return gather(rows, [gather(which, [variable("b"), variable("h")]), variable(name)])


def _full(name: str, given: Any, of: Problem) -> tuple[View, Array | None]:
    """A mask or bias with all axes, and, if it has no (query, key) plane, as a NumPy array."""
    x = view(name, given)
    shape = fits(name, x.shape, of)
    x = x._replace(shape=shape, strides=(0,) * (len(shape) - len(x.strides)) + x.strides)
    if 1 not in shape[-2:]:
        return x, None
    array = as_array(x.owner)
    assert array is not None
    return x, array.reshape(shape)


def _mask(mask: Any, of: Problem) -> tuple[Expression | None, View | None]:
    """The mask as a condition to compute, or as an array to read."""
    if mask is None:
        return None, None
    if isinstance(mask, Mask):
        check_expectations("mask", mask.expectations, of)
        return (mask.condition if of.n_k else None), None
    if callable(mask) and not hasattr(mask, "shape"):
        raise DtypeError("mask is a function, expected a mask: wrap it as regard.mask(function)")
    if isinstance(mask, (bool, int, float, str)):
        raise DtypeError(
            f"mask is {mask!r}, expected a mask such as regard.causal, or a boolean array: pass one of them"
        )
    dtype = np.dtype(getattr(mask, "dtype", np.bool_)) if isinstance(mask, np.ndarray) else np.dtype(np.bool_)
    if dtype.kind in "iu":
        raise DtypeError(f"mask has dtype {dtype}, expected bool (True = may attend): convert it with astype(bool)")
    x, array = _full("mask", mask, of)
    if x.storage != "bool":
        raise DtypeError(
            f"mask has dtype {DTYPES[x.storage]}, expected bool (True = may attend): pass numbers to add as bias"
        )
    if array is None or not array.size:
        return None, x if array is None and of.n_k and of.n_q else None
    return _spread(of, array, "row" if x.shape[-1] == 1 else "k"), None


def _bias(bias: Any, of: Problem, modified: Expression | None) -> tuple[Expression | None, View | None]:
    """The modified score with a bias of queries or keys alone added to it; a (query, key) bias stays an array."""
    if bias is None:
        return modified, None
    if isinstance(bias, Mask):
        raise DtypeError("bias is a mask, expected numbers to add: pass it as mask")
    x, array = _full("bias", bias, of)
    if x.storage == "bool":
        raise DtypeError("bias has dtype bool, expected numbers to add: pass a boolean array as mask")
    if x.storage not in ("f32", of.storage):
        raise DtypeError(
            f"bias has dtype {DTYPES[x.storage]} and q has {DTYPES[of.storage]}, expected the same or float32: "
            "convert it"
        )
    if array is None or not array.size:
        return modified, x if array is None and of.n_k and of.n_q else None
    spread = _spread(of, array, "row" if x.shape[-1] == 1 else "k")
    score = variable("score") if modified is None else modified
    # A bias of -inf hides, and what is hidden cannot leak: a NaN plus -inf would still be one.
    return where(spread == -math.inf, -math.inf, score + spread), None


def _sinks(sinks: Any, of: Problem) -> Array | None:
    if sinks is None:
        return None
    refuse_gradients("sinks", sinks)
    known = as_array(sinks)
    array = np.asarray(sinks) if known is None else known
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise DtypeError(f"sinks has dtype {array.dtype}, expected numbers: pass one logit for each query head")
    if array.shape != (of.heads,) and not (of.single and array.shape == ()):
        raise ShapeError(f"sinks has shape {array.shape}, expected ({of.heads},): pass one logit for each query head")
    return np.ascontiguousarray(array.reshape(-1), np.float64 if of.storage == "f64" else np.float32)
