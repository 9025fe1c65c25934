"""The settled pass: exact weights of any part of A, from the lse of the online pass."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import regard
from regard import reference
from regard.algebra.evaluate import evaluate
from regard.kernels.launch import cells
from regard.problem import problem, view
from regard.terms import terms

TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "bfloat16": 3e-6, "float16": 3e-6}


def shown(mask: regard.Mask, leading: int, heads: int, n_q: int, n_k: int) -> Any:
    """A mask as a boolean array."""
    b, h = np.arange(leading)[:, None, None, None], np.arange(heads)[:, None, None]
    row, k = np.arange(n_q)[:, None], np.arange(n_k)
    cells = evaluate(mask.condition, b=b, h=h, row=row, q=row + n_k - n_q, k=k)
    return np.broadcast_to(cells, (leading, heads, n_q, n_k))


def part(q: Any, k: Any, rows: tuple[int, int], keys: tuple[int, int], **given: Any) -> Any:
    """A region of A for every head, by the settled pass."""
    of = problem(view("q", q), view("k", k), None)
    asked = {name: given.get(name) for name in ("scale", "modify", "bias", "mask", "sinks")}
    _, lse = regard.attention(q, k, k, return_lse=True, **given)
    lse = lse.astype(np.float64)
    return cells(of, terms(of, **asked), view("q", q), view("k", k), lse.ctypes.data, rows, keys)


MASKS = [None, regard.causal, regard.window(70, 3), ~regard.causal]  # what is skipped does not depend on the dtype


@pytest.mark.parametrize(
    ("dtype", "mask"),
    [
        *((np.float32, mask) for mask in MASKS),
        *((dtype, mask) for dtype in (np.float64, ml_dtypes.bfloat16, np.float16) for mask in MASKS[1:3]),
    ],
)
def test_any_region(dtype: Any, mask: Any) -> None:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2, 4, 301, 40)).astype(dtype)
    k = rng.standard_normal((2, 2, 333, 40)).astype(dtype)
    seen = None if mask is None else shown(mask, 2, 4, 301, 333)
    a = reference.weights(q.astype(float), k.astype(float), mask=seen)
    for rows, keys in [((0, 301), (0, 333)), ((7, 1), (0, 333)), ((0, 301), (331, 1)), ((129, 77), (100, 190))]:
        got = part(q, k, rows, keys, mask=mask)
        want = a[..., rows[0] : sum(rows), keys[0] : sum(keys)]
        assert got.shape == want.shape
        assert np.abs(got - want).max() < TOLERANCE[np.dtype(dtype).name]


def test_all_terms_together() -> None:
    rng = np.random.default_rng(1)
    q, k = (rng.standard_normal((1, 4, 130, 16)).astype(np.float32) for _ in range(2))
    bias, sinks = rng.standard_normal((4, 130, 130)).astype(np.float32), rng.standard_normal(4).astype(np.float32)
    seen = rng.random((130, 130)) < 0.5
    given = {"modify": regard.softcap(3.0), "bias": bias, "mask": seen, "sinks": sinks}
    got = part(q, k, (3, 120), (5, 101), **given)
    want = reference.weights(q.astype(float), k.astype(float), **given)[..., 3:123, 5:106]
    assert np.abs(got - want).max() < 2e-6
    assert np.array_equal(got == 0, ~np.broadcast_to(seen[3:123, 5:106], got.shape))


def test_rows_that_see_nothing_have_no_weights() -> None:
    q = np.ones((1, 40, 8), np.float32)
    nothing = np.zeros((40, 40), bool)
    assert not part(q, q, (0, 40), (0, 40), mask=nothing).any()


def test_weights_of_a_row_sum_to_one_at_length() -> None:
    rng = np.random.default_rng(2)
    q, k = rng.standard_normal((1, 20, 64)).astype(np.float32), rng.standard_normal((1, 20_000, 64)).astype(np.float32)
    assert np.abs(part(q, k, (0, 20), (0, 20_000)).sum(-1) - 1).max() < 1e-5
