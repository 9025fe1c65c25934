"""Attention rollout, against products of built matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import DtypeError, ShapeError, TokenError
from regard.lens import rollout
from tests.attention.judge import normal
from tests.matrix.built import close

Array = Any


def stack(front: tuple[int, ...] = (4,), n: int = 9, layers: int = 3, **options: Any) -> list[regard.AttentionMatrix]:
    shape, keys = (*front, n, 5), (*front[:-1], max(1, front[-1] // 2), n, 5) if front else (n, 5)
    options = {"mask": regard.causal, **options}
    return [
        regard.matrix(normal(shape, "f64", 2 * i), normal(keys, "f64", 2 * i + 1), **options) for i in range(layers)
    ]


def dense(layers: Any, heads: Any = "mean", residual: float = 0.5) -> Array:
    """M_L · … · M_1, (…, n, n)."""
    product: Array = None
    for layer in layers:
        a = np.asarray(layer, np.float64)
        if len(layer.front) - layer.pooling().headed == len(layer.front):  # one head
            a = a[..., None, :, :]
        if heads == "max":
            a = a.max(-3)
            total = a.sum(-1, keepdims=True)
            a = np.divide(a, total, out=np.zeros_like(a), where=total != 0)
        else:
            a = (a if heads == "mean" else a[..., np.atleast_1d(heads), :, :]).mean(-3)
        m = residual * np.eye(a.shape[-1]) + (1 - residual) * a
        product = m if product is None else m @ product
    return product


@pytest.mark.parametrize("cells", [1 << 23, 50])
@pytest.mark.parametrize("heads", ["mean", "max", 2, -1, [0, 3], [1]])
@pytest.mark.parametrize("options", [{}, {"mask": None}, {"sinks": np.arange(4.0)}, {"mask": regard.window(2, 2)}])
def test_against_products(options: Any, heads: Any, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rollout.__globals__, "CELLS", cells)
    layers = stack(**options)
    for residual in (0.5, 0.0, 0.25, 1.0):
        want = dense(layers, heads, residual)
        for start in (0, 8, -2):
            close(rollout(layers, start, heads, residual), want[start], 1e-12, 1e-15)
        close(rollout(layers, range(9), heads, residual), want, 1e-12, 1e-15)
        close(rollout(layers, [4, 4, 0], heads, residual), want[[4, 4, 0]], 1e-12, 1e-15)


def test_one_head_and_leading_axes() -> None:
    single = stack(())
    for heads in ("mean", "max"):
        close(rollout(single, [3, 1], heads), dense(single, heads)[[3, 1]], 1e-12)
        many = stack((2, 3, 4))
        close(rollout(many, 5, heads), dense(many, heads)[..., 5, :], 1e-12)
        close(rollout(many, [[5, 1]], heads), dense(many, heads)[..., [[5, 1]], :], 1e-12)
    close(rollout(stack(layers=1), 5, 1), dense(stack(layers=1), 1)[5], 1e-12)
    close(rollout(stack()[0], 5), dense(stack(layers=1))[5], 1e-12)
    mixed = [stack()[0], stack()[1].mean_heads(), stack()[2].select(heads=[0, 1])]
    close(rollout(mixed, 5), dense(mixed)[5], 1e-12)


def test_starts() -> None:
    names = ["a", "b", "c", "b"]
    layers = stack(n=4, tokens=names)
    want = dense(layers)
    close(rollout(layers, "c"), want[2], 1e-12)
    close(rollout(layers, ["c", "a", 3]), want[[2, 0, 3]], 1e-12)
    weights = np.array([[0.5, 0, 0.25, 0.25], [0, 0, 0, 2]])
    close(rollout(layers, weights), weights @ want, 1e-12)
    close(rollout(layers, weights[0].astype(np.float32)), weights[0] @ want, 1e-12)
    close(rollout(layers, torch.tensor(weights[0], requires_grad=True)), weights[0] @ want, 1e-12)
    close(rollout(layers, np.array([True, False, True, False])), want[[0, 2]], 1e-12)
    close(rollout(layers, []), np.zeros((0, 4)), 0)
    close(rollout(layers, [0.0, 0.0, 1.0, 0.0]), want[2], 1e-12)
    with pytest.raises(TokenError, match=r"^'b' is not one token but 2, at 1, 3: index by one of these numbers$"):
        rollout(layers, "b")


def test_mass_is_kept_where_rows_sum_to_1() -> None:
    for heads in ("mean", "max", 0):
        close(rollout(stack(), range(9), heads).sum(-1), np.ones(9), 1e-12)
    # What a sink takes is lost.
    assert (rollout(stack(sinks=np.ones(4)), range(9)).sum(-1) < 1).all()
    close(rollout(stack(mask=np.zeros((9, 9), bool), layers=2), 3, "max"), np.eye(9)[3] / 4, 1e-12)


def test_only_rows_with_mass_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    n, rows = 20000, []
    layers = [regard.matrix(x, x, mask=regard.causal & regard.window(3)) for x in normal((3, 1, n, 8))]
    cells = regard.pooling.Pooling.cells

    def noted(self: Any, heads: Any, which: Any, keys: Any) -> Any:
        rows.append(len(which))
        return cells(self, heads, which, keys)

    monkeypatch.setattr(regard.pooling.Pooling, "cells", noted)
    found = rollout(layers, n - 1)
    assert rows == [1, 4, 7]
    assert np.flatnonzero(found).tolist() == list(range(n - 10, n))
    small = [np.asarray(A[0, n - 10 :, n - 10 :], float) for A in layers]
    want = np.eye(10)[9]
    for a in reversed(small):
        want = want @ (np.eye(10) + a) / 2
    close(found[n - 10 :], want, 1e-6, 1e-9)


def test_a_nan_stays_where_it_goes() -> None:
    q = normal((5, 3), "f64")
    q[3] = np.nan
    A = regard.matrix(q, normal((5, 3), "f64", 1), mask=regard.causal)
    found = rollout([A], [2, 3, 4])
    assert np.isnan(found).any(-1).tolist() == [False, True, False]
    assert np.isnan(found[1, :4]).all()


def test_words_and_kinds() -> None:
    layers = [A.words([(0, 4), (4, 9)]) for A in stack()]
    close(rollout(layers, [0, 1]), dense(layers), 1e-12)
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    told: list[float] = []
    assert isinstance(rollout([regard.matrix(x, x)] * 2, 0, progress=told.append), torch.Tensor)
    assert told == [0.5, 1.0]


def test_nothing() -> None:
    empty = regard.matrix(np.zeros((2, 0, 3)), np.zeros((2, 0, 3)))
    close(rollout([empty], np.zeros(0, int)), np.zeros((0, 0)), 0)


def layer(*shape: int, n_k: int = 0) -> Any:
    return regard.matrix(np.zeros(shape), np.zeros((*shape[:-2], n_k or shape[-2], shape[-1])))


@pytest.mark.parametrize(
    ("layers", "options", "error", "message"),
    [
        ([], {}, ShapeError, "rollout was given no layers, expected one at least: pass a list of matrices"),
        ([np.eye(3)], {}, DtypeError, "layer 0 is a ndarray, expected a matrix: pass regard.matrix(…)"),
        (
            [layer(2, 3, 4, n_k=5)],
            {},
            ShapeError,
            "layer 0 is 3 × 5, expected as many queries as keys: pass whole layers",
        ),
        (
            [layer(2, 3, 4), layer(2, 4, 4)],
            {},
            ShapeError,
            "layer 1 has 4 tokens and leading axes (), and layer 0 has 3 and (), expected the same: "
            "pass layers of one run",
        ),
        ([layer(2, 3, 4)], {"residual": 1.5}, ValueError, "residual is 1.5, expected a share from 0 to 1"),
        (
            [layer(2, 3, 4)],
            {"heads": "median"},
            ValueError,
            "heads is 'median', expected 'mean', 'max', a head or a list of heads",
        ),
        ([layer(2, 3, 4)], {"heads": 2}, IndexError, "heads goes from 2 to 2, expected -2 to 1"),
        (
            [layer(3, 4)],
            {"heads": 0},
            ShapeError,
            "heads were chosen of a matrix without an axis of heads, expected one: leave heads out",
        ),
        (5, {}, DtypeError, "layers is 5, expected a list of matrices: pass regard.matrix(…) of each layer"),
        ([5], {}, DtypeError, "layer 0 is an int, expected a matrix: pass regard.matrix(…)"),
        (
            [layer(2, 3, 4)],
            {"progress": 1},
            DtypeError,
            "progress is 1, expected a function of the share that is done: leave it out, or pass one",
        ),
        ([layer(2, 3, 4)], {"start": 3}, IndexError, "start goes from 3 to 3, expected -3 to 2"),
        (
            [layer(2, 3, 4)],
            {"start": [0.5, 0.5]},
            DtypeError,
            "start has shape (2,) and dtype float64, expected an index, a token, a list of them, "
            "or weights over 3 tokens",
        ),
        (
            [layer(2, 3, 4)],
            {"start": "cat"},
            TokenError,
            "'cat' is none of the 0 tokens of the query axis: index by number",
        ),
    ],
)
def test_messages(layers: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        rollout(layers, **{"start": 0, **options})
    assert str(caught.value) == message
