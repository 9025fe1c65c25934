"""Attention rollout: where chosen tokens arrive when attention is followed down through a stack of layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from regard.errors import DtypeError, ShapeError, kind_of, within
from regard.indexing import Tokens
from regard.lens.ask import CELLS, Progress, callable_or_none

Array = np.ndarray[Any, Any]


def rollout(
    layers: Iterable[Any],
    start: Any,
    heads: Any = "mean",
    residual: float = 0.5,
    *,
    progress: Progress | None = None,
) -> Any:
    """Attention rollout (Abnar & Zuidema, 2020) for chosen tokens: the mass that each token of the first layer is
    reached with, (…, n).

        x · M_L · … · M_2 · M_1        M = residual · I + (1 - residual) · A

    for `layers` 1 … L, each a matrix (heads, n, n) or (n, n), the first first. x is 1 at the `start`, an index or a
    token, and 0 elsewhere; a list of them gives a row for each; floats (…, n) are weights over the tokens. A is the
    "mean" of the heads, or of those in a list, or one head; with "max" each row of A is the largest weight of any head,
    divided by the sum of that row. Products of a vector and a matrix need only the rows where there is mass.

    Rollout adds up how tokens were mixed; it does not say what caused an answer. It leaves out values, output
    projections and feed-forward layers, and takes the residual stream as a fixed share. What a sink takes is lost.

    >>> import regard
    >>> x = np.zeros((2, 3, 4), np.float32)
    >>> layer = regard.matrix(x, x, mask=regard.causal, tokens=["The", "cat", "sat"])
    >>> rollout([layer, layer], "cat").tolist()
    [0.4375, 0.5625, 0.0]
    >>> rollout([layer, layer], [0, 1]).tolist()
    [[1.0, 0.0, 0.0], [0.4375, 0.5625, 0.0]]
    """
    callable_or_none(progress)
    if not hasattr(layers, "readable") and not isinstance(layers, Iterable):
        raise DtypeError(f"layers is {layers!r}, expected a list of matrices: pass regard.matrix(…) of each layer")
    stack: list[Any] = [layers] if hasattr(layers, "readable") else list(layers)
    front, n = _checked(stack)
    if not 0 <= residual <= 1:
        raise ValueError(f"residual is {residual!r}, expected a share from 0 to 1")
    views = [_of_heads(layer, heads) for layer in stack]
    begin = _start(start, n, stack[-1].tokens)
    starts = int(np.prod(begin.shape[:-1], dtype=np.int64))
    x = np.broadcast_to(begin.reshape(starts, n), (*front, starts, n))  # (…, n) -> (leading…, starts, n)
    for number, view in enumerate(reversed(views)):
        x = residual * x + (1 - residual) * _step(x, view, isinstance(heads, str) and heads == "max")
        if progress is not None:
            progress((number + 1) / len(views))
    return stack[0].give(np.ascontiguousarray(x.reshape(*front, *begin.shape)))


def _checked(stack: list[Any]) -> tuple[tuple[int, ...], int]:
    """The leading axes and the tokens that all layers have."""
    if not stack:
        raise ShapeError("rollout was given no layers, expected one at least: pass a list of matrices")
    known: tuple[tuple[int, ...], int] | None = None
    for i, layer in enumerate(stack):
        if not hasattr(layer, "readable"):
            raise DtypeError(f"layer {i} is {kind_of(layer)}, expected a matrix: pass regard.matrix(…)")
        of = layer.readable()
        if of.n_q != of.n_k:
            raise ShapeError(f"layer {i} is {of.n_q} × {of.n_k}, expected as many queries as keys: pass whole layers")
        leading = tuple(of.front[:-1] if layer.pooling().headed else of.front)
        if known is None:
            known = leading, of.n_q
        elif known != (leading, of.n_q):
            raise ShapeError(
                f"layer {i} has {of.n_q} tokens and leading axes {leading}, and layer 0 has {known[1]} and {known[0]}, "
                "expected the same: pass layers of one run"
            )
    assert known is not None
    return known


def _of_heads(layer: Any, heads: Any) -> Any:
    """The heads of a layer that count: their mean, or, for "max", all of them."""
    if isinstance(heads, str):
        if heads not in ("mean", "max"):
            raise ValueError(f"heads is {heads!r}, expected 'mean', 'max', a head or a list of heads")
        alone = not layer.pooling().headed
        return layer.select() if alone or heads == "max" else layer.mean_heads()
    return layer.mean_heads(heads)


def _start(start: Any, n: int, tokens: tuple[str, ...] | None) -> Array:
    """The mass at the beginning, (…, n)."""
    known = Tokens(tokens or (), "query")
    if isinstance(start, str):
        start = known.place(start)
    elif isinstance(start, (list, tuple)) and any(isinstance(x, str) for x in start):
        start = [known.place(x) if isinstance(x, str) else x for x in start]
    given = np.asarray(start.detach().numpy() if hasattr(start, "detach") else start)
    if given.dtype.kind == "f" and given.ndim and given.shape[-1] == n:
        return given.astype(np.float64)
    if given.size == 0 and given.ndim == 1:
        given = given.astype(np.int64)
    if given.dtype == np.bool_ and given.shape == (n,):
        given = np.flatnonzero(given)
    if given.dtype.kind not in "iu":
        raise DtypeError(
            f"start has shape {given.shape} and dtype {given.dtype}, expected an index, a token, a list of them, "
            f"or weights over {n} tokens"
        )
    if given.size and (given.min() < -n or given.max() >= n):
        raise IndexError(f"start goes from {given.min()} to {given.max()}, {within(n)}")
    begin = np.zeros((*given.shape, n))
    np.put_along_axis(begin, given[..., None] % max(1, n), 1.0, axis=-1)
    return begin


def _step(x: Array, view: Any, largest: bool) -> Array:
    """x · A, from the rows of A where x is not 0."""
    n = x.shape[-1]
    pooling = view.pooling()
    leading = tuple(pooling.front[:-1] if pooling.headed else pooling.front)
    result = np.zeros(x.shape)
    rows = np.flatnonzero((x != 0).any(axis=tuple(range(x.ndim - 1))))  # a NaN is not 0
    step = max(1, CELLS // max(1, n * int(np.prod(pooling.front, dtype=np.int64))))
    count = len(pooling.members.reshape(-1, pooling.members.shape[-1]))
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        a = pooling.cells(np.arange(count), pooling.rows.pick(some), pooling.keys).astype(np.float64)
        a = a.reshape(*pooling.front, len(some), n)  # (flat heads, rows, n) -> (leading…, heads, rows, n)
        if largest:
            a = a.max(axis=-3) if pooling.headed else a
            total = a.sum(-1, keepdims=True)
            a = a / np.where(total == 0, 1, total)  # an empty row stays empty
        result += _product(x[..., some], a.reshape(*leading, len(some), n))
    return result


def _product(x: Array, a: Array) -> Array:
    """x · a, (…, starts, rows) (…, rows, n), where 0 times NaN is 0: a row without mass is not there."""
    broken = np.isnan(a)
    found: Array = x @ np.where(broken, 0, a)
    if broken.any():
        found[(x != 0).astype(np.float64) @ broken > 0] = np.nan
    return found
