"""Two matrices beside each other, against their built arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import DtypeError, ShapeError
from tests.attention.judge import normal
from tests.matrix.built import Built, beside, close

Array = Any


def pair(shape: tuple[int, ...] = (2, 3, 11, 5), n_k: int = 14, **options: Any) -> tuple[Built, Built]:
    """Two matrices of one shape."""
    keys = (*shape[:-2], n_k, shape[-1])
    return tuple(beside(normal(shape, "f64", i), normal(keys, "f64", i + 1), **options) for i in (0, 2))  # type: ignore[return-value]  # two


def divergence(a: Array, b: Array) -> Array:
    """Of two rows; 0 ln 0 is 0."""
    total = np.zeros(a.shape[:-1])
    for x in (a, b):
        with np.errstate(all="ignore"):
            total += np.where(x == 0, 0, x * np.log(x / ((a + b) / 2))).sum(-1) / 2
    return total


ROUNDING = 4e-8  # the root of what is lost where nearly equal rows are subtracted in the formula as it stands


def distances(a: Array, b: Array) -> tuple[Array, Array]:
    rows = np.sqrt(np.maximum(divergence(a, b), 0))
    there = (a.sum(-1) != 0) | (b.sum(-1) != 0)
    return rows, np.where(there, rows, 0).sum(-1) / np.maximum(there.sum(-1), 1)


def heatmap(a: Array, b: Array, seen: Array, rows: int, columns: int) -> Array:
    n, m = a.shape[-2:]
    rows, columns = min(rows, n), min(columns, m)
    result = np.full((*a.shape[:-2], rows, columns), np.nan)
    for place in np.ndindex(result.shape):
        r, c = place[-2:]
        here = (*place[:-2], slice(r * n // rows, (r + 1) * n // rows), slice(c * m // columns, (c + 1) * m // columns))
        part = (a - b)[here].ravel()
        if seen[here].any():
            most, least = part.max(), part.min()
            # In a row of two keys the differences are as large as each other, but for rounding.
            tied = abs(most + least) < 1e-14
            result[place] = np.inf if tied else most if most > -least else least
    return result


def same_map(got: Array, want: Array) -> None:
    __tracebackhide__ = True
    assert got.shape == want.shape
    close(np.where(np.isinf(want), np.inf, got), want, 1e-12, 1e-14)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"mask": regard.causal(align="first")},
    "window": {"mask": regard.window(3, 1)},
    "sinks": {"sinks": np.array([0.0, 2.0, -1.0])},
    "empty rows": {"mask": np.arange(11)[:, None] % 3 > 0},
    "sequences": {"mask": regard.padding([14, 0])},
}


@pytest.mark.parametrize("cells", [1 << 23, 100])
@pytest.mark.parametrize("name", OPTIONS)
def test_distances(name: str, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.lens.ask.CELLS", cells)
    monkeypatch.setattr("regard.lens.compare.CELLS", cells)
    a, b = pair(**OPTIONS[name])
    found = a.A.compare(b.A)
    rows, heads = distances(a.weights, b.weights)
    assert found.rows.shape == (2, 3, 11)
    close(found.rows, rows, 1e-9, ROUNDING)
    close(found.heads, heads, 1e-9, ROUNDING)
    assert (found.rows <= np.sqrt(np.log(2)) + 1e-12).all()
    close(b.A.compare(a.A).rows, found.rows, 0, 1e-15)
    close(a.A.T.compare(b.A).rows, found.rows, 0)
    for size in ((1, 1), (3, 5), (11, 14), (40, 40)):
        want = heatmap(a.weights, b.weights, a.visible | b.visible, *size)
        same_map(found.heatmap(*size), want)
    same_map(found.heatmap(3), heatmap(a.weights, b.weights, a.visible | b.visible, 3, 3))
    part = np.s_[..., 2:9, 1:13]
    want = heatmap(a.weights[part], b.weights[part], (a.visible | b.visible)[part], 3, 4)
    same_map(found.heatmap(3, 4, (2, 9, 1, 13)), want)


def test_what_the_distance_is() -> None:
    x = np.eye(4)
    sharp, same = regard.matrix(x, x, scale=1000.0), regard.matrix(x, x, scale=1000.0)
    other = regard.matrix(x, x[[1, 0, 3, 2]], scale=1000.0)
    close(sharp.compare(same).rows, np.zeros(4), 0)
    close(sharp.compare(other).rows, np.full(4, np.sqrt(np.log(2))), 1e-12)
    close(sharp.compare(other).heads, np.sqrt(np.log(2)) * np.ones(()), 1e-12)
    # Beside an empty row there is only half of it; two empty rows are as one, and no part of the mean.
    hidden = regard.matrix(x, x, scale=1000.0, mask=np.array([[True], [True], [False], [False]]))
    both = regard.matrix(x, x, scale=1000.0, mask=np.array([[True], [False], [True], [False]]))
    found = hidden.compare(both)
    half = np.sqrt(np.log(2) / 2)
    close(found.rows, np.array([0, half, half, 0]), 1e-12)
    close(found.heads, np.array(2 * half / 3), 1e-12)
    nothing = regard.matrix(x, x, mask=np.zeros((4, 4), bool))
    assert float(nothing.compare(nothing).heads) == 0
    assert np.isnan(nothing.compare(nothing).heatmap(2)).all()


def test_nearly_equal_rows() -> None:
    x = np.zeros((1, 2))
    for step in (1e-3, 1e-7, 1e-12):
        # Weights (1 ± step) / 2 beside ½ and ½: the divergence is step² / 8, but for higher powers.
        score = np.log((1 + step) / (1 - step))
        other = regard.matrix(np.array([[1.0, 0]]), np.array([[score, 0], [0, 0]]), scale=1.0)
        found = other.compare(regard.matrix(x, np.zeros((2, 2))))
        close(found.rows, np.full(1, step / np.sqrt(8)), 2e-3)


def test_a_sink_is_no_outcome() -> None:
    x = np.zeros((1, 2, 1))
    found = regard.matrix(x, x).compare(regard.matrix(x, x, sinks=[np.log(2.0)]))  # ½, ½ and ¼, ¼
    want = (np.log(4 / 3) + 0.5 * np.log(2 / 3)) / 2
    close(found.rows, np.full((1, 2), np.sqrt(want)), 1e-12)


def test_the_larger_side_of_a_tie_is_positive() -> None:
    x = np.eye(2)
    found = regard.matrix(x, x, scale=1000.0).compare(regard.matrix(x, x[::-1], scale=1000.0))
    close(found.heatmap(1), np.ones((1, 1)), 1e-12)
    close(found.heatmap(2), np.array([[1.0, -1], [-1, 1]]), 1e-12)


def test_a_nan_stays_one() -> None:
    x = normal((4, 3), "f64")
    y = x.copy()
    y[2] = np.nan
    mask = regard.causal
    found = regard.matrix(x, x, mask=mask).compare(regard.matrix(y, x, mask=mask))
    assert np.isnan(found.rows).tolist() == [False, False, True, False]
    assert np.isnan(found.heads)
    assert np.isnan(found.heatmap(4)[2, :3]).all()
    assert np.isfinite(found.heatmap(4)[:2, :1]).all()


@pytest.mark.parametrize(("n_q", "n_k", "heads"), [(0, 3, 2), (3, 0, 2), (0, 0, 2), (3, 3, 0)])
def test_nothing(n_q: int, n_k: int, heads: int) -> None:
    A = regard.matrix(np.zeros((2, n_q, 4)), np.zeros((2, n_k, 4))).select(heads=slice(heads))
    found = A.compare(A)
    assert found.rows.shape == (heads, n_q)
    assert (found.rows == 0).all()
    assert found.heads.tolist() == [0.0] * heads
    assert found.heatmap(2).shape == (heads, min(2, n_q), min(2, n_k))


def test_views() -> None:
    a, b = pair()
    for view in (
        lambda A: A.mean_heads(),
        lambda A: A.select(heads=1, keys=[3, 0]),
        lambda A: A.words([(0, 4)], [(1, 3)]),
    ):
        rows, heads = distances(np.asarray(view(a.A)), np.asarray(view(b.A)))
        found = view(a.A).compare(view(b.A))
        close(found.rows, rows, 1e-9, 1e-9)
        close(found.heads, heads, 1e-9, 1e-9)
    close(a.A.mean_heads().compare(b.A.select(heads=0)).rows,
          distances(a.weights.mean(1), b.weights[:, 0])[0], 1e-9, 1e-9)  # fmt: skip


def test_answers_are_of_the_callers_kind() -> None:
    x, y = torch.randn(2, 2, 5, 3, generator=torch.Generator().manual_seed(0))
    found = regard.matrix(x, x).compare(regard.matrix(y, y))
    assert all(isinstance(part, torch.Tensor) for part in (found.rows, found.heads, found.heatmap(2)))
    told: list[float] = []
    regard.matrix(x, x).compare(regard.matrix(y, y), progress=told.append).heatmap(2, progress=told.append)
    assert told == [1.0, 1.0]


def test_a_line() -> None:
    A = regard.matrix(np.zeros((2, 3, 4)), np.zeros((2, 5, 4)))
    assert repr(A.compare(A)) == (
        "Comparison: 2 heads, 3 queries × 5 keys, mean Jensen–Shannon distance 0.0000, largest 0.0000"
    )
    one = regard.matrix(np.zeros((1, 4)), np.zeros((1, 4)))
    assert repr(one.compare(one)).startswith("Comparison: 1 head, 1 query × 1 key, mean")
    assert repr(one) == "AttentionMatrix: 1 head, 1 query × 1 key, d = 4, f64"


def test_messages() -> None:
    A = regard.matrix(np.zeros((2, 3, 4)), np.zeros((2, 5, 4)))
    with pytest.raises(ShapeError) as shape:
        A.compare(A.mean_heads())
    assert str(shape.value) == (
        "compare was given (2, 3, 5) and (3, 5), expected two matrices of the same shape: select the same of both"
    )
    with pytest.raises(DtypeError) as kind:
        A.compare(np.zeros((2, 3, 5)))
    assert str(kind.value) == "compare was given ndarray, expected a matrix: pass regard.matrix(…)"
    with pytest.raises(ValueError, match=r"^rows is 0, expected a whole number of bins, 1 or more$"):
        A.compare(A).heatmap(0)
    with pytest.raises(
        ShapeError, match=r"^region is \(0, 4, 0, 5\), expected \(first row, end, first key, end\) with"
    ):
        A.compare(A).heatmap(2, region=(0, 4, 0, 5))


def test_length() -> None:
    # Two passes over 4000² cells, with no more memory than blocks need.
    x, y = normal((4000, 4)), normal((4000, 4), "f32", 1)
    found = regard.matrix(x, x, mask=regard.causal).compare(regard.matrix(y, y, mask=regard.causal))
    a, b = (np.asarray(regard.matrix(z, z, mask=regard.causal)[3990:], float) for z in (x, y))
    close(found.rows[3990:], distances(a, b)[0], 1e-5)
