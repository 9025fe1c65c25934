"""Threads choose who computes, never what comes out."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import regard
from regard.kernels import threads
from tests.attention.judge import normal, same_bits


@pytest.fixture(autouse=True)
def as_before():
    yield
    regard.threads(0)


def problems():
    """Each large enough that helpers are called."""
    for dtype in ("f32", "bf16", "f16", "f64"):
        q, k, v = (normal((4, 333, 64), dtype, seed) for seed in range(3))
        yield f"{dtype} plain", (q, k, v), {}
        yield f"{dtype} causal", (q, k[:2], v[:2]), {"mask": regard.causal}
        yield f"{dtype} one query", (q[:, :1].copy(), *(normal((2, 9001, 64), dtype, s) for s in (4, 5))), {}
    q, k, v = (normal((2, 700, 64), seed=seed) for seed in range(3))
    seen, bias = np.random.default_rng(0).random((700, 700)) < 0.5, normal((700, 700))
    yield "mask and bias", (q, k, v), {"mask": seen, "bias": bias, "sinks": [0.0, 1.0]}
    yield "window", (q, k, v), {"mask": regard.window(50, 0), "modify": regard.softcap(5.0)}
    bad = v.copy()
    bad[0, 300] = np.nan
    yield "NaN", (q, k, bad), {"mask": regard.causal}
    q, k, v = (normal((8, n, 64), "f32", n) for n in (5, 5000, 5000))
    yield "few queries", (q, k[:1], v[:1]), {"mask": regard.padding([4321])}


ALL = list(problems())


@pytest.mark.parametrize(("what", "arrays", "options"), ALL, ids=[x[0] for x in ALL])
def test_any_number_of_threads_gives_the_same_bits(what, arrays, options):
    regard.threads(1)
    z, lse = regard.attention(*arrays, return_lse=True, **options)
    for n in (2, 3, 2, 1):
        assert regard.threads(n) == n
        for _ in range(2):
            again, lse_again = regard.attention(*arrays, return_lse=True, **options)
            same_bits(z, again, f"{what}, {n} threads")
            same_bits(lse, lse_again, f"{what}, {n} threads")
    same_bits(z, regard.attention(*arrays, **options), f"{what}, without lse")


@pytest.mark.parametrize(("what", "arrays", "options"), ALL, ids=[x[0] for x in ALL])
def test_native_calls_that_return_after_every_tile_give_the_same_bits(what, arrays, options, monkeypatch):
    """As in a problem so long that not one of its tasks ends within a stretch of native code."""
    z, lse = regard.attention(*arrays, return_lse=True, **options)
    compute, calls = threads.compute, itertools.count()

    def hurried(run, job, scratch, _, *rest):
        def counted(*arguments):
            assert next(calls) < 50_000, "no end in sight"
            return run(*arguments)

        compute(counted, job, scratch, 1, *rest)

    monkeypatch.setattr(threads, "STRETCH", 0.0)  # so that the budget never grows again
    monkeypatch.setattr(threads, "compute", hurried)
    again, lse_again = regard.attention(*arrays, return_lse=True, **options)
    same_bits(z, again, what)
    same_bits(lse, lse_again, what)


def test_calls_from_eight_threads_at_once():
    regard.threads(2)
    want = [regard.attention(*arrays, return_lse=True, **options) for _, arrays, options in ALL]

    def call(number):
        _, arrays, options = ALL[number % len(ALL)]
        return number % len(ALL), regard.attention(*arrays, return_lse=True, **options)

    with ThreadPoolExecutor(8) as pool:
        for number, (z, lse) in pool.map(call, range(6 * len(ALL))):
            same_bits(z, want[number][0], ALL[number][0])
            same_bits(lse, want[number][1], ALL[number][0])


def test_first_calls_of_one_plan_from_eight_threads():
    q = normal((2, 37, 23))  # a width that no other test compiles
    with ThreadPoolExecutor(8) as pool:
        first, *others = pool.map(lambda _: regard.attention(q, q, q), range(8))
    for z in others:
        same_bits(first, z)


def test_wrong_numbers_of_threads():
    for n in (-1, 1.5, True, "2", 1025):
        with pytest.raises(ValueError, match="expected a whole number from 0"):
            regard.threads(n)


def test_the_environment_says_how_many(monkeypatch):
    monkeypatch.setenv("REGARD_THREADS", "3")
    assert regard.threads() == 3
    assert regard.threads(2) == 2
    monkeypatch.setenv("REGARD_THREADS", "many")
    assert regard.threads() == 2
    with pytest.raises(ValueError, match="REGARD_THREADS is 'many'"):
        regard.threads(0)
    monkeypatch.delenv("REGARD_THREADS")
