"""A few rows or columns of a long matrix, which have a kernel of their own: against the tiles and the equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import reference
from regard.kernels import choose
from regard.kernels.target import NARROWED, host
from regard.weights import weights_of
from tests.attention.guarded import guarded
from tests.attention.judge import normal

N_Q, N_K = 701, 1033
TOLERANCE = {"f32": 2e-6, "f64": 1e-14, "bf16": 3e-6, "f16": 3e-6}
RNG = np.random.default_rng(3)
BIAS = RNG.standard_normal((4, N_Q, N_K)).astype(np.float32)
BIAS[BIAS > 1.5] = -np.inf
IDS = RNG.integers(0, 5, N_K)


def thirds(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return regard.algebra.expression.where((q + k + h) % 3 == 0, -np.inf, score * 0.5)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": -0.3},
    "causal": {"mask": regard.causal},
    "causal from the first": {"mask": regard.causal(align="first")},
    "segments": {"mask": regard.segments(IDS)},
    "array": {"mask": RNG.random((N_Q, N_K)) < 0.5},
    "bias": {"bias": BIAS},
    "modifier that hides": {"modify": thirds},
    "softcap, mask and sinks": {"modify": regard.softcap(2.0), "mask": regard.window(300, 20), "sinks": np.ones(4)},
}
ROWS = [(range(1), range(N_K)), (range(700, 701), range(N_K)), (range(5, 9), range(17, 1030))]
COLUMNS = [(range(N_Q), range(1)), (range(N_Q), range(1032, 1033)), (range(3, 700), range(400, 403))]


def both(dtype: str, given: dict[str, Any]) -> Any:
    q, k = normal((2, 4, N_Q, 20), dtype), normal((2, 2, N_K, 20), dtype, 1)
    return weights_of(q, k, None, **given)


# Scores are cells before their softmax: of what is done to them, one of each kind.
CELLS_AND_SCORES = [(what, option) for what in ("cells", "scores") for option in OPTIONS
                    if what == "cells" or option in ("plain", "causal", "bias", "modifier that hides")]  # fmt: skip


@pytest.mark.parametrize(("what", "option"), CELLS_AND_SCORES)
def test_as_the_tiles_have_it(what: str, option: str) -> None:
    w = both("f32", OPTIONS[option])
    whole = w.region(range(N_Q), range(N_K), what)
    for rows, keys in ROWS + COLUMNS:
        part = w.region(rows, keys, what)
        want = whole[..., rows.start : rows.stop, keys.start : keys.stop]
        assert np.array_equal(part == -np.inf, want == -np.inf)
        seen = want > -np.inf
        assert np.abs(part[seen] - want[seen]).max(initial=0) < (1e-5 if what == "scores" else TOLERANCE["f32"])
        if what == "cells":
            assert np.array_equal(part == 0, want == 0)


# The machines differ by lanes and registers (for any dtype), and by how f16 and bf16 are read.
NARROW = {
    "x86-64-v2": ("f32", "f16"),
    "x86-64-v3": ("f64", "bf16"),
    "x86-64-v4": ("f32", "f16"),
    "x86-64-v4+bf16": ("bf16",),
}


@pytest.mark.parametrize("target", ["", *NARROWED])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_dtypes_and_targets(dtype: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_TARGET", target)
    try:
        host()
    except regard.RegardError as error:
        pytest.skip(str(error))
    if target and dtype not in NARROW[target]:
        pytest.skip("another machine has such code for it")
    w = both(dtype, {})
    q, k = normal((2, 4, N_Q, 20), dtype), normal((2, 2, N_K, 20), dtype, 1)
    a = reference.weights(q.astype(np.float64), k.astype(np.float64))
    for rows, keys in ROWS + COLUMNS:
        want = a[..., rows.start : rows.stop, keys.start : keys.stop]
        assert np.abs(w.region(rows, keys) - want).max() < TOLERANCE[dtype]


@pytest.mark.parametrize("width", [0, 1, 16, 17, 130])
def test_any_width(width: int) -> None:
    q, k = normal((1, 600, width)), normal((1, 520, width), seed=1)
    w = weights_of(q, k, None)
    a = reference.weights(q.astype(np.float64), k.astype(np.float64))
    assert np.abs(w.region(range(9, 10), range(520)) - a[:, 9:10]).max() < 2e-6
    assert np.abs(w.region(range(600), range(7, 8)) - a[:, :, 7:8]).max() < 2e-6


def test_rows_that_are_nan_or_empty() -> None:
    q, k = normal((1, 600, 8)).copy(), normal((1, 600, 8), seed=1)
    q[0, 3] = np.nan
    seen = np.tri(600, dtype=bool)
    seen[5] = False
    w = weights_of(q, k, None, mask=seen)
    broken = w.region(range(3, 4), range(600))[0, 0]
    assert np.isnan(broken[:4]).all()
    assert not broken[4:].any()
    assert not w.region(range(5, 6), range(600)).any()
    column = w.region(range(600), range(2, 3))[0, :, 0]
    assert np.flatnonzero(np.isnan(column)).tolist() == [3]
    assert column[5] == 0


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_nothing_outside_is_touched(dtype: str, end: bool) -> None:
    q, k = guarded(normal((2, 523, 19), dtype), end, gap=3), guarded(normal((2, 517, 19), dtype, 1), end, gap=3)
    mask, bias = guarded(RNG.random((523, 517)) < 0.5, end), guarded(normal((523, 517)), end)
    w = weights_of(q, k, None, mask=mask, bias=bias)
    for rows, keys in [(range(522, 523), range(517)), (range(523), range(514, 517)), (range(2), range(517))]:
        assert np.isfinite(w.region(rows, keys)).all()


def test_it_is_this_kernel_that_was_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = []

    def spy(*arguments: Any) -> Any:
        made = choose.choose(*arguments)
        kinds.append(made.kind)
        return made

    monkeypatch.setattr("regard.kernels.launch.choose", spy)
    w = both("f32", {})
    w.lse()
    for rows, keys in (*ROWS, *COLUMNS):
        w.region(rows, keys)
    assert kinds[1:] == ["thin rows"] * 3 + ["thin columns"] * 3
