"""The equations of attention and of its gradients, in float64 NumPy.

Nothing here is fast and nothing is clever: every array is built in full, in the order the equations are written.
It is the first file to read, and what every faster part is held against.

    S = q kᵀ · scale            a score for every (query, key) pair
    S = modify(S) + bias        and -inf where the mask hides
    A = softmax(S)              a row of weights for every query
    Z = A v                     the output: values, mixed by the weights

Arrays are (..., heads, n, d); (n, d) is one head without a heads axis. Leading dimensions broadcast. With fewer key
heads than query heads, neighbouring query heads share one: query head h reads key head h // (Hq / Hk).

In the shape comments B counts the leading dimensions as one, H the query heads, n the queries, m the keys, d the
width of queries and keys, e the width of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.int64]
Shape: TypeAlias = tuple[int, ...]
ScoreFunction: TypeAlias = Callable[[Array, Index, Index, Index, Index], ArrayLike]  # f(score, b, h, q, k)
MaskFunction: TypeAlias = Callable[[Index, Index, Index, Index], ArrayLike]  # f(b, h, q, k)
Modify: TypeAlias = ScoreFunction | Sequence[ScoreFunction] | None
Mask: TypeAlias = ArrayLike | MaskFunction | None
_T = TypeVar("_T", bound=np.generic)


# Softmax


def log_sum_exp(scores: ArrayLike) -> Array:
    """log(sum(exp(scores))) over the last axis. A row that is all -inf, or has no entries, gives -inf.

    >>> log_sum_exp([1000.0, 1000.0]).round(4).item()  # exp(1000) alone would overflow
    1000.6931
    """
    s = np.asarray(scores, np.float64)
    top = _largest(s)
    with np.errstate(divide="ignore", invalid="ignore"):  # log(0) is the empty row; inf - inf is NaN, and is meant
        lse: Array = np.log(np.exp(s - top).sum(axis=-1)) + top[..., 0]
    return lse


def softmax(scores: ArrayLike) -> Array:
    """Weights over the last axis: positive, adding up to 1. A row that is all -inf gives zeros; a NaN stays a NaN.

    >>> softmax([[0.0, 0.0], [8.0, 0.0], [-np.inf, -np.inf]]).round(4).tolist()
    [[0.5, 0.5], [0.9997, 0.0003], [0.0, 0.0]]
    """
    s = np.asarray(scores, np.float64)
    with np.errstate(invalid="ignore"):
        e = np.exp(s - _largest(s))  # at most exp(0), so nothing overflows; the shift cancels in the division
    total = e.sum(axis=-1, keepdims=True)
    a: Array = e / np.where(total == 0, 1, total)  # only a row that is all -inf has total 0: the largest entry gives 1
    return a


def _largest(s: Array) -> Array:
    """The largest entry of each row, (..., n, 1), or 0 for a row that is all -inf, where -inf - -inf would be NaN."""
    top = s.max(axis=-1, keepdims=True, initial=-np.inf)
    return np.where(top == -np.inf, 0, top)


# Scores


def positions(n_q: int, n_k: int) -> tuple[Index, Index]:
    """Where queries and keys stand on the key axis: the last query stands at the last key, as when decoding.

    >>> [p.tolist() for p in positions(2, 5)]
    [[3, 4], [0, 1, 2, 3, 4]]
    """
    return np.arange(n_q, dtype=np.int64) + (n_k - n_q), np.arange(n_k, dtype=np.int64)


def scores(q: ArrayLike, k: ArrayLike, *, scale: float | None = None, modify: Modify = None,
           bias: ArrayLike | None = None, mask: Mask = None) -> Array:  # fmt: skip
    """The final scores, (..., heads, n, m): q·k · scale, then `modify`, then + `bias`, then -inf where `mask` hides.

    scale   a number; 1/sqrt(d) if not given, which keeps the spread of the scores from growing with d
    modify  f(score, b, h, q, k) or several in order: b the flat index of the leading dimensions, h the query head,
            q and k positions, all integer arrays that broadcast against a (B, H, n, m) score
    bias    an array that broadcasts against the scores
    mask    a boolean array that broadcasts against the scores, True = may attend; or f(b, h, q, k) that gives one

    >>> q, k = [[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]]
    >>> scores(q, k, scale=1).tolist()
    [[1.0, 0.0], [1.0, 2.0]]
    >>> scores(q, k, scale=1, mask=lambda b, h, q, k: k <= q).tolist()
    [[1.0, -inf], [1.0, 2.0]]
    """
    layout = _layout(q, k)
    return _score(layout, q, k, scale, modify, bias, mask).final.reshape(*layout.front, layout.n, layout.m)


class _Scores(NamedTuple):
    dot: Array  # (B, H, n, m) q·k · scale, before `modify`
    final: Array  # (B, H, n, m)
    hidden: NDArray[np.bool_]  # (B, H, n, m) cells that contribute nothing, whatever k and v hold there


def _score(layout: _Layout, q: ArrayLike, k: ArrayLike, scale: float | None, modify: Modify,
           bias: ArrayLike | None, mask: Mask) -> _Scores:  # fmt: skip
    q4, k4 = layout.spread(q), layout.spread(k)  # (B, H, n, d), (B, H, m, d)
    scale = _scale(scale, q4)
    hidden = np.zeros(layout.cells, np.bool_)
    with np.errstate(all="ignore"):  # a hidden cell may hold anything, and 0·inf there is nobody's concern
        dot = q4 @ _turn(k4) * scale  # (B, H, n, d), (B, H, d, m) -> (B, H, n, m)
        s = dot
        for f in [modify] if callable(modify) else modify or ():
            before = s
            s = np.broadcast_to(np.asarray(f(before, *layout.indices()), np.float64), layout.cells)
            # A modifier hides by giving -inf. A score that was -inf already came out of the data: nobody hid it.
            hidden = (s == -np.inf) & (hidden | (before != -np.inf))
        if bias is not None:
            added = layout.over_cells(np.asarray(bias, np.float64), "bias")
            s = s + added
            hidden = hidden | (added == -np.inf)
    if mask is not None:
        seen = np.asarray(mask(*layout.indices()) if callable(mask) else mask)
        if seen.dtype != np.bool_:
            raise TypeError(f"a mask is boolean, True = may attend, but this one is {seen.dtype}; numbers go in bias=")
        seen = np.broadcast_to(seen, layout.cells) if callable(mask) else layout.over_cells(seen, "mask")
        hidden = hidden | ~seen
    return _Scores(dot, np.where(hidden, -np.inf, s), hidden)  # where, not +: NaN + -inf would be NaN


def _scale(scale: float | None, q4: Array) -> float:
    return 1 / sqrt(max(q4.shape[-1], 1)) if scale is None else scale


# Attention


def weights(q: ArrayLike, k: ArrayLike, *, scale: float | None = None, modify: Modify = None,
            bias: ArrayLike | None = None, mask: Mask = None, sinks: ArrayLike | None = None) -> Array:  # fmt: skip
    """A, (..., heads, n, m): how much each query looks at each key. Arguments as in `scores` and `attention`.

    >>> weights([[0.0], [1.0]], [[0.0], [1.0]], mask=[[True, False], [True, True]]).round(3).tolist()
    [[1.0, 0.0], [0.269, 0.731]]
    """
    layout = _layout(q, k)
    rows = _rows(layout, _score(layout, q, k, scale, modify, bias, mask), sinks)
    return rows.outcomes[..., : layout.m].reshape(*layout.front, layout.n, layout.m)


@overload
def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, scale: float | None = ..., modify: Modify = ...,
              bias: ArrayLike | None = ..., mask: Mask = ..., sinks: ArrayLike | None = ...,
              return_lse: Literal[False] = ...) -> Array: ...  # fmt: skip
@overload
def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, scale: float | None = ..., modify: Modify = ...,
              bias: ArrayLike | None = ..., mask: Mask = ..., sinks: ArrayLike | None = ...,
              return_lse: Literal[True]) -> tuple[Array, Array]: ...  # fmt: skip
def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, scale: float | None = None, modify: Modify = None,
              bias: ArrayLike | None = None, mask: Mask = None, sinks: ArrayLike | None = None,
              return_lse: bool = False) -> Array | tuple[Array, Array]:  # fmt: skip
    """Z = A v, (..., heads, n, e), and with `return_lse` the log of each row's sum of exponentials, (..., heads, n).

    sinks is one logit per query head: an outcome beside the keys that takes weight and gives no value.

    - A hidden cell contributes exactly nothing, even if its key or value is NaN or inf. Cells are hidden by the mask,
      by a bias of -inf, and by a modifier that makes -inf of a score.
    - A score that is -inf out of the data has weight 0, and 0 times a value of inf is NaN, as in any sum.
    - A row whose scores are all -inf is empty: weights 0, output 0, lse -inf, or its sink.
    - A NaN or +inf among the scores of a row makes all of it NaN: every weight that is not hidden, output and lse.

    >>> cat_chased_mice = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    >>> attention([[3.0, 0.0]], cat_chased_mice, cat_chased_mice, scale=1).round(3).tolist()
    [[0.909, 0.045]]
    >>> attention([[3.0, 0.0]], cat_chased_mice, cat_chased_mice, scale=1, sinks=[3.0]).round(3).tolist()
    [[0.476, 0.024]]
    """
    layout = _layout(q, k, v)
    rows = _rows(layout, _score(layout, q, k, scale, modify, bias, mask), sinks)
    v4 = layout.spread(v)  # (B, H, m, e)
    z4 = _sum_seen(rows.outcomes[..., : layout.m], v4, rows.hidden)  # (B, H, n, m), (B, H, m, e) -> (B, H, n, e)
    z = z4.reshape(*layout.front, layout.n, v4.shape[-1])
    return (z, rows.lse.reshape(*layout.front, layout.n)) if return_lse else z


class _Rows(NamedTuple):
    outcomes: Array  # (B, H, n, m) the weights; (B, H, n, m + 1) with a sink, whose weight comes last
    lse: Array  # (B, H, n)
    hidden: NDArray[np.bool_]  # (B, H, n, m) as in _Scores, and every cell of an empty row


def _rows(layout: _Layout, score: _Scores, sinks: ArrayLike | None) -> _Rows:
    hidden = score.hidden | (score.final == -np.inf).all(axis=-1, keepdims=True)
    logits = score.final
    if sinks is not None:
        logits = np.concatenate([logits, layout.sink_column(sinks)], axis=-1)  # (B, H, n, m + 1)
    outcomes = softmax(logits)
    outcomes[..., : layout.m][hidden] = 0  # it is 0 already, except in a row that is NaN
    return _Rows(outcomes, log_sum_exp(logits), hidden)


def _sum_seen(a: Array, x: Array, hidden: NDArray[np.bool_]) -> Array:
    """sum_j a[i, j] x[j] over the cells (i, j) that are not hidden: (B, H, n, m), (B, H, m, e) -> (B, H, n, e)."""
    finite = np.isfinite(x)
    with np.errstate(invalid="ignore"):
        total: Array = np.where(hidden, 0, a) @ np.where(finite, x, 0)
        # A NaN or inf is added one key at a time, so that rows it is hidden from can step over it: 0 · NaN is not 0.
        for j in np.flatnonzero(~finite.all(axis=(0, 1, 3))):
            skip = hidden[:, :, :, j, None] | finite[:, :, None, j, :]  # (B, H, n, 1) | (B, H, 1, e)
            total += np.where(skip, 0, a[:, :, :, j, None] * x[:, :, None, j, :])
    return total


# Multi-head attention


def project(x: ArrayLike, w: ArrayLike, b: ArrayLike | None = None) -> Array:
    """x w + b: (..., n, inputs), (inputs, outputs) -> (..., n, outputs).

    >>> project([[1.0, 2.0]], [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], b=[10.0, 0.0, 0.0]).tolist()
    [[11.0, 2.0, 3.0]]
    """
    y: Array = np.asarray(x, np.float64) @ np.asarray(w, np.float64)
    return y if b is None else y + np.asarray(b, np.float64)


def split_heads(x: ArrayLike, heads: int) -> Array:
    """(..., n, heads·d) -> (..., heads, n, d): head h takes the columns h·d up to (h + 1)·d.

    >>> split_heads([[1, 2, 3, 4], [5, 6, 7, 8]], heads=2).tolist()
    [[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]]
    """
    x = np.asarray(x, np.float64)
    if heads < 1 or x.shape[-1] % heads:
        raise ValueError(f"{x.shape[-1]} columns do not divide into {heads} heads")
    x = x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)  # (..., n, heads, d)
    return np.swapaxes(x, -3, -2)  # (..., heads, n, d)


def merge_heads(x: ArrayLike) -> Array:
    """(..., heads, n, d) -> (..., n, heads·d), the inverse of `split_heads`.

    >>> merge_heads([[[1, 2], [5, 6]], [[3, 4], [7, 8]]]).tolist()
    [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    """
    x = np.swapaxes(np.asarray(x, np.float64), -3, -2)  # (..., n, heads, d)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def multi_head(x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike, w_o: ArrayLike, heads: int,
               context: ArrayLike | None = None, mask: Mask = None, *, b_q: ArrayLike | None = None,
               b_k: ArrayLike | None = None, b_v: ArrayLike | None = None, b_o: ArrayLike | None = None,
               scale: float | None = None, modify: Modify = None, bias: ArrayLike | None = None,
               sinks: ArrayLike | None = None) -> Array:  # fmt: skip
    """Project, attend in every head apart, put the heads side by side, project: (..., n, inputs) -> (..., n, outputs).

    Queries come from x; keys and values from `context`, which is x itself if not given. The number of key heads
    follows from the widths of w_q and w_k.

    >>> multi_head(np.eye(2), np.eye(2), np.eye(2), np.eye(2), np.eye(2), heads=2, scale=0).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    source = x if context is None else context
    q, k, v = _heads_of(project(x, w_q, b_q), project(source, w_k, b_k), project(source, w_v, b_v), heads)
    z = attention(q, k, v, scale=scale, modify=modify, bias=bias, mask=mask, sinks=sinks)
    return project(merge_heads(z), w_o, b_o)


def _heads_of(q: Array, k: Array, v: Array, heads: int) -> tuple[Array, Array, Array]:
    q = split_heads(q, heads)
    key_heads, rest = divmod(k.shape[-1], q.shape[-1])  # a key is as wide as a query, so the widths give their number
    if rest:
        raise ValueError(f"w_k gives {k.shape[-1]} columns, which are no whole number of heads {q.shape[-1]} wide")
    return q, split_heads(k, key_heads), split_heads(v, key_heads)


# Gradients
#
# d_x is the derivative of some loss with respect to x, and has the shape of x.


class AttentionGradients(NamedTuple):
    d_q: Array
    d_k: Array
    d_v: Array
    d_bias: Array | None
    d_sinks: Array | None


def attention_gradients(d_z: ArrayLike, q: ArrayLike, k: ArrayLike, v: ArrayLike, *, scale: float | None = None,
                        bias: ArrayLike | None = None, mask: Mask = None, sinks: ArrayLike | None = None,
                        modify: Modify = None, slope: ScoreFunction | None = None,
                        d_lse: ArrayLike | None = None) -> AttentionGradients:  # fmt: skip
    """What a change of the output, d_z, says about each of its causes, each in the shape that it came in.

    slope(score, b, h, q, k) is the derivative of `modify` (of all of it, if there are several) at the score q·k · scale
    that goes in. d_lse is for losses that read lse as well.

    >>> attention_gradients([[1.0]], q=[[1.0]], k=[[0.0], [1.0]], v=[[0.0], [4.0]], scale=1).d_q.round(4).tolist()
    [[0.7864]]
    """
    if (modify is None) != (slope is None):
        raise ValueError("modify= and slope=, its derivative with respect to the score, go together: give both or none")
    layout = _layout(q, k, v)
    score = _score(layout, q, k, scale, modify, bias, mask)
    p, lse, hidden = _rows(layout, score, sinks)  # p = A, and the weight of the sink beside it
    q4, k4, v4 = layout.spread(q), layout.spread(k), layout.spread(v)  # (B, H, n, d), (B, H, m, d), (B, H, m, e)
    dz = np.broadcast_to(np.asarray(d_z, np.float64), (*layout.front, layout.n, v4.shape[-1]))
    dz = dz.reshape(*layout.cells[:-1], v4.shape[-1])  # (B, H, n, e)

    with np.errstate(all="ignore"):
        # Z = A V
        d_v4 = _sum_seen(_turn(p[..., : layout.m]), dz, _turn(hidden))  # dV = Aᵀ dZ  (B, H, m, e)
        d_p = np.zeros_like(p)  # the sink gives no value, so its dA stays 0
        d_p[..., : layout.m] = np.where(hidden, 0, dz @ _turn(v4))  # dA = dZ Vᵀ  (B, H, n, m)

        # A = softmax(S): moving one score moves every weight of its row, which is what the row's sum takes off
        d_s = p * (d_p - (p * d_p).sum(axis=-1, keepdims=True))  # dS = A ∘ (dA - rowsum(A ∘ dA))
        if d_lse is not None:
            # d lse / dS is A
            d_s += p * np.broadcast_to(np.asarray(d_lse, np.float64), (*layout.front, layout.n)).reshape(*lse.shape, 1)
        d_s, d_sink = d_s[..., : layout.m], d_s[..., layout.m :]  # (B, H, n, m), (B, H, n, 1 or 0)
        d_s = np.where(hidden, 0, d_s)

        # S = modify(q·k · scale) + bias
        d_dot = d_s
        if slope is not None:
            d_dot = np.where(hidden, 0, d_s * np.asarray(slope(score.dot, *layout.indices()), np.float64))
        d_dot = d_dot * _scale(scale, q4)
        d_q4 = _sum_seen(d_dot, k4, hidden)  # dQ = dS K · scale   (B, H, n, d)
        d_k4 = _sum_seen(_turn(d_dot), q4, _turn(hidden))  # dK = dSᵀ Q · scale  (B, H, m, d)

    return AttentionGradients(
        layout.gather(d_q4, np.shape(q)),
        layout.gather(d_k4, np.shape(k)),
        layout.gather(d_v4, np.shape(v)),
        None if bias is None else _sum_to(d_s.reshape(*layout.front, layout.n, layout.m), np.shape(bias)),
        None if sinks is None else _sum_to(d_sink.sum(axis=(0, 2, 3)), np.shape(sinks)),  # (B, H, n, 1) -> (H,)
    )


class MultiHeadGradients(NamedTuple):
    d_x: Array
    d_context: Array | None  # None if there was none: then the keys' and values' share is in d_x
    d_w_q: Array
    d_w_k: Array
    d_w_v: Array
    d_w_o: Array
    d_b_q: Array  # given with or without a b_q: the gradient at b_q = 0 is as well defined
    d_b_k: Array
    d_b_v: Array
    d_b_o: Array
    d_bias: Array | None
    d_sinks: Array | None


def multi_head_gradients(d_y: ArrayLike, x: ArrayLike, w_q: ArrayLike, w_k: ArrayLike, w_v: ArrayLike, w_o: ArrayLike,
                         heads: int, context: ArrayLike | None = None, mask: Mask = None, *,
                         b_q: ArrayLike | None = None, b_k: ArrayLike | None = None, b_v: ArrayLike | None = None,
                         scale: float | None = None, modify: Modify = None, slope: ScoreFunction | None = None,
                         bias: ArrayLike | None = None, sinks: ArrayLike | None = None
                         ) -> MultiHeadGradients:  # fmt: skip
    """The gradients of `multi_head`. No b_o: a number that is only added leaves no trace in any gradient.

    >>> one = np.eye(1)
    >>> multi_head_gradients([[1.0]], [[3.0]], one, one, one, one, heads=1).d_w_v.tolist()
    [[3.0]]
    """
    source = x if context is None else context
    q, k, v = _heads_of(project(x, w_q, b_q), project(source, w_k, b_k), project(source, w_v, b_v), heads)
    z = merge_heads(attention(q, k, v, scale=scale, modify=modify, bias=bias, mask=mask, sinks=sinks))
    d_z, d_w_o, d_b_o = _project_gradients(d_y, z, w_o)
    inner = attention_gradients(split_heads(d_z, heads), q, k, v, scale=scale, bias=bias, mask=mask, sinks=sinks,
                                modify=modify, slope=slope)  # fmt: skip
    d_x, d_w_q, d_b_q = _project_gradients(merge_heads(inner.d_q), x, w_q)
    from_k, d_w_k, d_b_k = _project_gradients(merge_heads(inner.d_k), source, w_k)
    from_v, d_w_v, d_b_v = _project_gradients(merge_heads(inner.d_v), source, w_v)
    d_source = from_k + from_v
    return MultiHeadGradients(
        d_x + d_source if context is None else d_x, None if context is None else d_source,
        d_w_q, d_w_k, d_w_v, d_w_o, d_b_q, d_b_k, d_b_v, d_b_o, inner.d_bias, inner.d_sinks,
    )  # fmt: skip


def _project_gradients(d_y: ArrayLike, x: ArrayLike, w: ArrayLike) -> tuple[Array, Array, Array]:
    """dx = dy wᵀ, dw = xᵀ dy and db = sum(dy) of y = x w + b."""
    d_y, x, w = np.asarray(d_y, np.float64), np.asarray(x, np.float64), np.asarray(w, np.float64)
    rows = tuple(range(x.ndim - 1))  # every axis but the last
    d_w: Array = np.tensordot(x, d_y, axes=(rows, rows))  # (..., n, inputs), (..., n, outputs) -> (inputs, outputs)
    return d_y @ w.T, d_w, d_y.sum(axis=rows)


# Shapes: everything above works on (B, H, n, d), and this is the way there and back


class _Layout(NamedTuple):
    """The sizes of one problem."""

    lead: Shape  # the leading dimensions of all arrays, broadcast
    heads: int  # query heads
    n: int  # queries
    m: int  # keys
    has_heads: bool  # False if every array is one head without a heads axis

    @property
    def front(self) -> Shape:
        """What stands before (n, m) in the caller's shapes."""
        return (*self.lead, self.heads) if self.has_heads else ()

    @property
    def cells(self) -> tuple[int, int, int, int]:
        return prod(self.lead), self.heads, self.n, self.m

    def indices(self) -> tuple[Index, Index, Index, Index]:
        """b, h, q and k of every cell, each along its own axis of (B, H, n, m)."""
        q, k = positions(self.n, self.m)
        b, h = np.arange(self.cells[0], dtype=np.int64), np.arange(self.heads, dtype=np.int64)
        return b[:, None, None, None], h[:, None, None], q[:, None], k

    def spread(self, x: ArrayLike) -> Array:
        """(..., Hk, n, d) or (n, d) -> (B, H, n, d), every key head repeated for the query heads that share it."""
        x = np.asarray(x, np.float64)
        x = x[None] if x.ndim == 2 else x  # (n, d) -> (1, n, d)
        x = np.repeat(x, self.heads // max(x.shape[-3], 1), axis=-3)  # (..., H, n, d)
        return np.broadcast_to(x, self.lead + x.shape[-3:]).reshape(self.cells[0], *x.shape[-3:])

    def gather(self, d_x: Array, shape: Shape) -> Array:
        """The gradient of `spread`: what was repeated is summed, (B, H, n, d) -> `shape`."""
        own = (1, *shape) if len(shape) == 2 else shape  # (..., Hk, n, d)
        shared = self.heads // max(own[-3], 1)
        d_x = d_x.reshape(*self.lead, own[-3], shared, *own[-2:])  # (..., Hk, shared, n, d)
        return _sum_to(d_x.sum(axis=-3), own).reshape(shape)

    def over_cells(self, x: NDArray[_T], name: str) -> NDArray[_T]:
        """A mask or bias, over every cell: (B, H, n, m)."""
        target = (*self.front, self.n, self.m)
        try:
            return np.broadcast_to(x, target).reshape(self.cells)
        except ValueError:
            raise ValueError(f"{name} of shape {x.shape} does not broadcast to the scores, {target}") from None

    def sink_column(self, sinks: ArrayLike) -> Array:
        """One logit per query head, as one more column of scores: (H,) -> (B, H, n, 1)."""
        per_head = np.broadcast_to(np.asarray(sinks, np.float64), (self.heads,))
        return np.broadcast_to(per_head[:, None, None], (*self.cells[:-1], 1))


def _layout(q: ArrayLike, k: ArrayLike, v: ArrayLike | None = None) -> _Layout:
    shapes = [np.shape(x) for x in (q, k, v) if x is not None]
    if any(len(shape) < 2 for shape in shapes):
        raise ValueError(f"expected arrays (..., heads, n, d) or (n, d), got {shapes}")
    if shapes[0][-1] != shapes[1][-1]:
        raise ValueError(f"queries and keys must be equally wide, got {shapes[0][-1]} and {shapes[1][-1]} columns")
    if len({shape[-2] for shape in shapes[1:]}) > 1:
        raise ValueError(f"every key needs one value, got {shapes[1][-2]} keys and {shapes[2][-2]} values")
    heads, *others = (shape[-3] if len(shape) > 2 else 1 for shape in shapes)
    if any(heads % other if other else heads for other in others):
        raise ValueError(f"{heads} query heads cannot share {others[0]} key heads and {others[-1]} value heads evenly")
    lead = np.broadcast_shapes(*(shape[:-3] for shape in shapes))
    return _Layout(lead, heads, shapes[0][-2], shapes[1][-2], any(len(shape) > 2 for shape in shapes))


def _sum_to(x: Array, shape: Shape) -> Array:
    """The gradient of broadcasting: sum x over the axes along which `shape` was repeated."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))  # axes that `shape` does not have
    total: Array = x.sum(axis=tuple(i for i, size in enumerate(shape) if size == 1), keepdims=True)
    return total


def _turn(x: NDArray[_T]) -> NDArray[_T]:
    return np.swapaxes(x, -1, -2)
