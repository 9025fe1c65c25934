"""Masks over many tiles, empty and full ones among them: nothing visible is skipped, and little else is visited."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import regard
from regard import reference
from regard.algebra.evaluate import evaluate
from regard.kernels import threads
from regard.kernels.plan import STATE

IDS = np.repeat(np.arange(10), 60)
WALL = np.zeros(600, bool)
WALL[200:420] = True
SHAPES = [(600, 600), (130, 577), (577, 130), (1, 600)]
HEIGHTS = np.sin(np.arange(600) / 40)


def numbers(n_q, n_k):
    rng = np.random.default_rng([n_q, n_k])
    return [rng.normal(size=(2, 2, n, 4)) for n in (n_q, n_k, n_k)]


def masks(n_q, n_k):
    """Masks that fit a shape."""
    ids, query_ids = IDS[:n_k], IDS[::-1][:n_q]
    return {
        "causal": regard.causal,
        "causal, first": regard.causal(align="first"),
        "window": regard.window(40),
        "window around": regard.window(7, 150),
        "padding": regard.padding([n_k // 3, n_k]),
        "padding, all of one": regard.padding([0, n_k]),
        "segments": regard.segments(np.stack([ids, ids[::-1]])) & regard.causal,
        "segments of both": regard.segments(query_ids, ids),
        "prefix": regard.causal | regard.prefix(170),
        "nothing": regard.mask(lambda b, h, q, k: q < -9999),
        "everything": regard.mask(lambda b, h, q, k: q > -9999),
        "documents": regard.mask(lambda b, h, q, k: q // 64 == k // 64),
        "blocks": regard.mask(lambda b, h, q, k: (q // 130 + k // 130 + h + b) % 2 == 0),
        "a wall": regard.mask(lambda b, h, q, k: WALL[k] | (k == q)),
        "heights": regard.mask(lambda b, h, q, k: abs(HEIGHTS[q] - HEIGHTS[k]) < 0.1),
        "strided": regard.mask(lambda b, h, q, k: (q - k) % 37 == 0) | regard.window(3),
        "combined": (regard.window(90) | regard.prefix(3)) & ~regard.mask(lambda b, h, q, k: (k > 300) & (k < 450)),
    }


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", masks(600, 600))
def test_masks_over_many_tiles(name, shape):
    n_q, n_k = shape
    mask = masks(n_q, n_k)[name]
    q, k, v = numbers(n_q, n_k)
    rows = np.arange(n_q)[:, None]

    def seen(b, h, q, k):
        value = evaluate(mask.condition, b=b, h=h, q=q, k=k, row=rows)
        return np.broadcast_to(value, np.broadcast_shapes(b.shape, h.shape, q.shape, k.shape))

    got = regard.attention(q, k, v, mask=mask, return_lse=True)
    expected = reference.attention(q, k, v, mask=seen, return_lse=True)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


def test_nan_behind_a_clamp_hides_its_keys():
    """Comparisons with NaN do not hold, also where bounds alone would say that they must."""
    ends = np.where(np.arange(600) < 300, np.inf, 1.0)
    mask = regard.mask(lambda b, h, q, k: np.minimum(np.maximum(ends[k] - ends[k], 0.0), 1.0) >= 0)
    q, k, v = numbers(130, 577)
    expected = reference.attention(q, k, v, mask=np.arange(577) >= 300)
    np.testing.assert_allclose(regard.attention(q, k, v, mask=mask), expected, rtol=1e-11, atol=1e-11)


def test_arrays_indexed_by_a_condition():
    table = np.array([0.0, 1.0])
    mask = regard.mask(lambda b, h, q, k: table[k <= q] > 0.5)
    q, k, v = numbers(130, 577)
    np.testing.assert_array_equal(regard.attention(q, k, v, mask=mask), regard.attention(q, k, v, mask=regard.causal))


# What is visited is counted by the budget of tiles that a call spends.


@pytest.fixture
def visits(monkeypatch):
    """How many tiles the attention of one head takes."""
    spent = []

    def compute(run, job, scratch, *_):
        room = np.zeros(scratch + 4096, np.uint8)
        address = (room.ctypes.data + 4095) & -4096  # as the threads do it
        state = (ctypes.c_int64 * len(STATE)).from_address(address)
        state[STATE["task"]], state[STATE["budget"]] = -1, 1 << 40
        assert run(job, address) == 0
        spent.append((1 << 40) - state[STATE["budget"]])

    monkeypatch.setattr(threads, "compute", compute)

    def count(mask, n):
        x = np.zeros((n, 4), np.float32)
        regard.attention(x, x, x, mask=mask)
        return spent.pop()

    return count


def test_what_is_skipped_is_not_visited(visits):
    n = 8192
    whole = visits(regard.mask(lambda b, h, q, k: q > -9999), n)
    assert visits(regard.mask(lambda b, h, q, k: q < -9999), n) == 0
    assert visits(regard.causal, n) <= 0.56 * whole
    assert visits(regard.window(256), n) <= 6 * 128 / n * whole
    # Documents of 64: a block of at most 144 queries meets at most two blocks of at most 256 keys.
    ids = np.repeat(np.arange(128), 64)
    assert visits(regard.segments(ids), n) <= 2 * 256 / n * whole
    assert visits(regard.mask(lambda b, h, q, k: q // 64 == k // 64), n) <= 2 * 256 / n * whole
    assert visits(regard.padding([n // 4]), n) <= 0.27 * whole


def test_visits_of_a_window_grow_with_the_length_alone(visits):
    short, long = (visits(regard.window(256), n) / n for n in (4096, 65536))
    assert long <= 1.1 * short
