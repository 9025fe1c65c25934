"""Plain forms on an array library that has nothing but what the standard promises."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest

import regard
from regard.lens import (
    Between,
    ByDistance,
    Cells,
    Distance,
    Effective,
    Entropy,
    Heatmap,
    Mass,
    Peak,
    Received,
    Top,
    Total,
    Visible,
    over,
)

QUESTIONS: tuple[Any, ...] = (
    *(Entropy(), Effective(), Total(), Visible(), Peak(), Top(5), Top(20)),
    *(Received(), Received(slice(0, 3), per="visible", pool=("mean", 3)), Received(per="mean", pool=("max", 5))),
    *(ByDistance(), ByDistance("visible"), Distance(), Between([(0, 4), (4, 9)], [(0, 5), (5, 11)])),
    *(Heatmap(3), Heatmap(3, 4, "max"), Heatmap(3, pool="sum"), Heatmap(3, of="all"), Heatmap(2, region=(1, 8, 2, 9))),
    *(Mass(regard.window(2, 1)), Mass([(1, 2), (3, 3)]), Cells(0.2)),
)


@pytest.mark.parametrize("question", QUESTIONS, ids=[f"{type(x).__name__} {i}" for i, x in enumerate(QUESTIONS)])
def test_the_standard_is_enough(question: Any) -> None:
    rng = np.random.default_rng(0)
    seen = rng.random((3, 9, 11)) < 0.8
    a = np.where(seen, rng.random((3, 9, 11)), 0)
    a /= a.sum(-1, keepdims=True)
    want = over(question, a, seen, offset=2)
    found = over(question, array_api_strict.asarray(a), array_api_strict.asarray(seen), offset=2, rows=4)
    pairs = zip(want, found, strict=True) if isinstance(want, tuple) else [(want, found)]
    for mine, theirs in pairs:
        assert isinstance(theirs, type(array_api_strict.asarray(0)))
        assert np.allclose(np.asarray(mine), np.asarray(theirs), equal_nan=True, atol=1e-12)
