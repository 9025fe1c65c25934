"""What is too much is refused, and of a matrix that is too long, parts are computed from no more than they need."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import regard
from regard import reference, weights
from regard.errors import DtypeError, LimitError
from tests.attention.judge import normal, same_bits, wide
from tests.matrix.built import beside, close, kind


def long(n: int = 20_000, heads: int = 1, **options: Any) -> regard.AttentionMatrix:
    return regard.matrix(normal((heads, n, 4)), normal((heads, n, 4), "f32", 1), **options)


def test_too_much_is_refused_with_its_size() -> None:
    A = long()
    assert A.size == 400_000_000
    words = (
        "this would build 400000000 cells (1.5 GiB), expected at most 268435456: ask for fewer rows, for heatmap(256) "
        "or top(5), or insist with build(limit=400000000)"
    )
    for wrong in (
        lambda: A[:], lambda: A[0], lambda: A[...], lambda: A[0, :, :], lambda: A[0, ::-1], lambda: np.asarray(A),
        lambda: A.build(), lambda: A.T[:], lambda: A.scores[:], lambda: A.scores.build(), lambda: A[None],
        lambda: np.asarray(A.scores),
    ):  # fmt: skip
        with pytest.raises(LimitError) as caught:
            wrong()
        assert str(caught.value) == words
        assert isinstance(caught.value, ValueError)
    with pytest.raises(LimitError, match=r"this would build 800000000 cells \(3\.0 GiB\), expected at most"):
        A[[0, 0]]


def test_a_part_is_insisted_on_as_the_message_says() -> None:
    A = kind("f32").A  # 3 × 13 × 17
    for index in (np.s_[0], np.s_[1, 2:9, ::-2], np.s_[..., 3], np.s_[0:2], np.s_[None, 1], np.s_[0, 1, 2], [2, 0]):
        for view in (A, A.T, A.scores, A.select()):
            part = np.asarray(view[index])
            with pytest.raises(LimitError) as caught:
                view.build(limit=part.size - 1, index=index)
            words = str(caught.value).partition("or insist with ")[2]
            assert words.endswith(f", limit={part.size})")
            if isinstance(index, list):
                words = words.replace("…", "index")
            same_bits(np.asarray(eval(f"view.{words}")), part)
    with pytest.raises(LimitError, match=r"or insist with build\(index=np\.s_\[0, :15000\], limit=300000000\)$"):
        long()[0, :15_000]
    assert A.build(1e9).shape == A.build(limit=np.int64(663)).shape == A.shape
    for wrong in ("x", None, True, float("nan")):
        with pytest.raises(DtypeError, match=r"^limit is .*, expected a number of cells: pass build\(limit=663\)$"):
            A.build(limit=wrong)  # type: ignore[arg-type]


def test_a_limit_of_ones_own() -> None:
    A = kind("f32").A  # 3 × 13 × 17
    assert A.build(limit=663).shape == A.shape
    with pytest.raises(LimitError, match=r"this would build 663 cells \(2\.6 KiB\), expected at most 662"):
        A.build(limit=662)
    with pytest.raises(LimitError, match=r"this would build 663 cells \(2\.6 KiB\), expected at most 10"):
        A.scores.T.build(limit=10)
    assert kind("no keys").A.build(limit=0).size == 0


def test_the_limit_is_on_what_is_asked_not_on_what_is_there() -> None:
    A = long(mask=regard.window(3, 0))
    assert A[0, 5].shape == (20_000,)
    assert A[0, 5:9:2, ::1000].shape == (2, 20)
    assert A[0, [1, 19_999], [0, 19_998]].shape == (2,)
    # One cell of every row, and the other way around: an outer product would be the whole.
    every = np.arange(20_000)
    close(A[0, every, every], np.exp(wide(A.scores[0, every, every]) - wide(A.lse[0])), 1e-5)
    assert A[0, every[:, None], every[None, :3]].shape == (20_000, 3)


# At length nothing is built that was not asked for.


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_parts_of_a_long_matrix(dtype: str) -> None:
    n = 131_072
    q, k = normal((n, 16), dtype), normal((n, 16), dtype, 1)
    # An lse as though each row summed up to about 1; rows are checked against it and not against all keys.
    lse = np.full(n, np.log(n), np.float32)
    A = regard.matrix(q, k, lse=lse, mask=regard.causal)
    qs, ks = wide(q), wide(k)

    def want(rows: Any, keys: Any) -> Any:
        i, j = np.arange(n)[rows].reshape(-1, 1), np.arange(n)[keys].reshape(1, -1)
        return np.where(j <= i, np.exp(qs[i[:, 0]] @ ks[j[0]].T / 4 - np.log(n)), 0)

    some = [7, 131_000, 64]
    A[0], A[0, 0]  # compiled
    tracemalloc.start()
    try:
        close(A[100_000], want(100_000, slice(None))[0], 1e-5, 1e-10, "a row")
        close(A[:, 31_000], want(slice(None), 31_000)[:, 0], 1e-5, 1e-10, "a column")
        close(A[-1, -1], want(-1, -1)[0, 0], 1e-5, 1e-10, "a cell")
        tile = slice(130_000, 130_256), slice(70_000, 70_256)
        close(A[tile], want(*tile), 1e-5, 1e-10, "a tile")
        close(A.T[tile[::-1]], want(*tile).T, 1e-5, 1e-10, "a turned tile")
        close(A[some], want(some, slice(None)), 1e-5, 1e-10, "rows")
        close(A[1::30_000, ::-10_000], want(slice(1, None, 30_000), slice(None, None, -10_000)), 1e-5, 1e-10, "a grid")
        close(A[some, some], np.diag(want(some, some)), 1e-5, 1e-10, "cells")
        close(A.scores[5, :6], qs[5] @ ks[:6].T / 4, 1e-5, 1e-5, "scores")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 150e6, "the reference's own row in float64 is some 30 MB"


def test_a_row_of_a_long_matrix_needs_the_lse_of_that_row_only() -> None:
    n = 131_072
    q, k = normal((1, n, 16)), normal((1, n, 16), "f32", 1)
    A = regard.matrix(q, k)
    row = reference.weights(wide(q[0, 77:78]), wide(k[0]))[0]
    close(A[0, 77], row, 1e-5, 1e-10)
    assert A[0, 77, :].sum() == pytest.approx(1, abs=1e-5)
    far = A[0, [1, 77, 131_000], [5, 6, 7]]  # rows between them are nobody's concern: 131 000 of them take long
    close(far[1], row[6], 1e-5)
    close(A[0, ::50_000].sum(-1), np.ones(3), 1e-5)


def test_the_lse_of_a_head_is_known_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    A = regard.matrix(normal((2, 3, 50, 8)), normal((2, 3, 40, 8), "f32", 1), mask=regard.window(20, 20))
    first = A[1, 2, :, 5]
    launched: list[Any] = []
    launch = weights.launch
    monkeypatch.setattr(weights, "launch", lambda *x, **y: launched.append(x) or launch(*x, **y))
    same_bits(A[1, 2, :, 5], first)
    A[1, 2, 7], A[1, 2, 3:9], A[1, 2].sum()
    assert not launched
    A[0, 2, 7]
    assert len(launched) == 1
    whole = beside(normal((2, 3, 50, 8)), normal((2, 3, 40, 8), "f32", 1), mask=regard.window(20, 20))
    close(A[...], whole.weights, whole.rounding, 1e-12)
