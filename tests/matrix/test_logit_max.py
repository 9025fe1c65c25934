"""The largest final score of each head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import reference
from tests.attention.judge import normal


@pytest.mark.parametrize(
    "given", [{}, {"scale": -2.0}, {"bias": np.tri(40, 50, dtype=np.float32)}, {"sinks": np.full(4, 99.0)}]
)
def test_it_is_the_largest_score(given: dict[str, Any]) -> None:
    q, k = normal((2, 4, 40, 8)), normal((2, 2, 50, 8), seed=1)
    known = {name: x for name, x in given.items() if name != "sinks"}  # a sink is no score
    want = reference.scores(q.astype(np.float64), k.astype(np.float64), **known).max((-1, -2))
    found = regard.matrix(q, k, **given).logit_max()
    assert found.shape == (2, 4)
    assert np.abs(found - want).max() < 1e-5


def test_hidden_scores_do_not_count() -> None:
    q = k = np.eye(6, dtype=np.float32) * np.arange(1, 7, dtype=np.float32)[:, None]
    A = regard.matrix(q, k, scale=1.0, mask=regard.window(3, 0) & regard.mask(lambda b, h, q, k: q != k))
    assert A.logit_max().shape == ()
    assert A.logit_max() == 0
    assert regard.matrix(q, k, mask=np.zeros((6, 6), bool)).logit_max() == -np.inf


def test_a_nan_shows() -> None:
    q, k = normal((3, 9, 4)).copy(), normal((3, 9, 4), seed=1)
    q[1, 2] = np.nan
    assert np.isnan(regard.matrix(q, k).logit_max()).tolist() == [False, True, False]
    assert regard.matrix(q[:, :0], k).logit_max().tolist() == [-np.inf] * 3


def test_progress_is_told() -> None:
    x, seen = normal((2, 3000, 64)), []
    regard.matrix(x, x).logit_max(progress=seen.append)
    assert seen == sorted(seen)
    assert all(0 <= share <= 1 for share in seen)
