"""Copies stand on memory of their own; and what is asked at the ends of what can be asked."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import regard
from regard import lens, reference
from regard.errors import LimitError, ShapeError
from tests.attention.judge import normal


@pytest.mark.parametrize("how", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_a_copy_has_its_own_memory(how: Any) -> None:
    q, bias = normal((3, 70, 8)).copy(), normal((70, 1))
    mask = np.tri(70, dtype=bool)
    A = regard.matrix(q, q, v=q, mask=mask, bias=bias, tokens=[f"t{i}" for i in range(70)])
    want = A.build()
    made = how(A)
    q[:], mask[:], bias[:] = 7, False, 0
    assert np.array_equal(made.build(), want)
    assert made[1, "t5", "t3"] == want[1, 5, 3]
    assert made.words([(0, 70)]).shape == (3, 1, 1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tensors_too(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 60, 8, dtype=getattr(torch, dtype))
    A = regard.matrix(x, x, v=x)
    want = A.build()
    assert A.output().dtype == x.dtype
    for made in (copy.deepcopy(A), pickle.loads(pickle.dumps(A))):
        x.fill_(0)
        assert torch.equal(made.build(), want)


def test_answers_that_would_fill_the_memory_are_refused() -> None:
    n = 131072
    x = np.zeros((n, 4), np.float32)
    A = regard.matrix(x, x, lse=np.zeros(n, np.float32))
    for ask in (lambda: A.heatmap(200_000), lambda: A.between(np.arange(n)), lambda: A.top(100_000)):
        with pytest.raises(LimitError, match=r"^the answer would hold \d+ numbers \(\d+\.\d GiB\), expected at most"):
            ask()


@pytest.mark.parametrize("n_k", [301, 600])
def test_a_score_of_minus_infinity_in_a_broken_row_is_broken_however_it_is_read(n_k: int) -> None:
    q, k = np.zeros((6, 4), np.float32), normal((n_k, 4))
    q[0, 0] = np.inf
    with np.errstate(all="ignore"):
        want = np.isnan(reference.weights(q, k))
    A = regard.matrix(q, k)
    assert want[0].all()
    assert np.array_equal(np.isnan(A.build()), want)
    assert np.isnan(A[0]).all()
    assert np.isnan(A[0, : n_k // 2]).all()
    assert np.isnan(A[[0, 0], [3, n_k - 1]]).all()


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8])
def test_no_weight_is_above_one(size: float) -> None:
    q, k = (normal((200, 64)) * size).astype(np.float32), normal((700, 64), seed=1)
    A = regard.matrix(q, k)
    rows = np.stack([A[i] for i in range(0, 200, 9)])
    for part in (A.build(), rows, A[3:40, :600], A[:, 5], A[[1, 2], [3, 4]]):
        assert part.max() <= 1
    assert A.peak().weights.max() <= 1


def test_masks_of_a_question_fit_the_sequences() -> None:
    x = normal((5, 2, 6, 4))
    A = regard.matrix(x, x)
    with pytest.raises(ShapeError, match=r"^lengths of where is for 2 sequences, but there are 5: make them agree$"):
        A.mass(regard.padding(np.array([3, 4])))
    assert A.mass(regard.padding(np.array([1, 2, 3, 4, 6]))).rows[4].tolist() == [[1] * 6] * 2


def test_long_lists_agree_with_short_ones() -> None:
    x = normal((2, 500, 8))
    A = regard.matrix(x, x)
    short, long, longest = A.ask(lens.Top(10), lens.Top(200), lens.Top(300))
    assert np.array_equal(short.keys, long.keys[..., :10])
    assert np.array_equal(long.keys, longest.keys[..., :200])
