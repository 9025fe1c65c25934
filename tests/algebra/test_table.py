"""The table of an array bounds every stretch of it by two look-ups."""

from __future__ import annotations

import random

import numpy as np
import pytest

from regard.algebra.expression import gather, variable
from regard.algebra.tracing import trace
from regard.kernels.arguments import BLOCK, BLOCKS, bounds_table
from tests.algebra.native import Native


def stretch(table, shift, first, last):
    """The least and greatest that the table gives for elements first … last."""
    first, last = first >> shift, last >> shift
    level = (last - first + 1).bit_length() - 1
    second = last - (1 << level) + 1
    low = table[0, level, [first, second]]
    high = table[1, level, [first, second]]
    return low.min(), high.max()


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.uint32, np.bool_, np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 31, 32, 33, 1000, 131_072, 131_073, 200_000, 270_000])
def test_any_stretch_is_bounded(size, dtype):
    rng, choose = np.random.default_rng(size), random.Random(size)
    array = rng.normal(size=size) * 100
    array = (abs(array) % 256 if np.dtype(dtype).kind == "u" else array).astype(dtype)
    table, shift, width = bounds_table(array)
    assert 1 << shift >= BLOCK
    assert width <= BLOCKS
    assert width == -(-size // (1 << shift))
    for _ in range(60):
        first = choose.randrange(size)
        last = choose.randrange(first, min(size, first + choose.choice([1, 20, 5000, size])))
        low, high = stretch(table, shift, first, last)
        part = array[first : last + 1]
        assert low <= part.min()
        assert high >= part.max()


def test_a_stretch_of_whole_blocks_is_bounded_tightly():
    array = np.random.default_rng(0).integers(0, 10_000, 1000)
    table, shift, _ = bounds_table(array)
    low, high = stretch(table, shift, 16, 16 * 7 - 1)
    assert (low, high) == (array[16:112].min(), array[16:112].max())


def test_axes_are_flattened():
    array = np.random.default_rng(0).integers(0, 99, (7, 31))
    np.testing.assert_array_equal(bounds_table(array)[0], bounds_table(array.ravel())[0])


@pytest.mark.parametrize("place", [0, 16, 399, 999])
def test_nan_reaches_every_stretch_that_holds_it(place):
    array = np.random.default_rng(0).normal(size=1000)
    array[place] = np.nan
    table, shift, _ = bounds_table(array)
    for first, last in ((place, place), (0, 999), (max(0, place - 40), min(999, place + 40))):
        low, high = stretch(table, shift, first, last)
        assert np.isnan(low)
        assert np.isnan(high)
    apart = (place + 500) % 1000
    assert not np.isnan(stretch(table, shift, apart, apart)).any()


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000, 200_000])
def test_compiled_code_reads_the_table(size):
    rng, choose = np.random.default_rng(size), random.Random(size)
    whole, real = rng.integers(-99, 99, size), rng.normal(size=size).astype(np.float32)
    plane = np.resize(whole, (2, size))[:, ::-1]
    k = variable("k")
    native = Native([gather(whole, [k]), gather(real, [k]), trace(lambda b, h, q, k: plane[h, k], "b h q k")])
    for _ in range(60):
        first = choose.randrange(-3, size + 3)
        last = choose.randrange(first, first + choose.choice([1, 20, 5000]))
        h = choose.randrange(2)
        places = np.clip(np.arange(first, last + 1), 0, size - 1)
        for i, part in enumerate((whole[places], real[places], plane[h][places])):
            low, high = native.bound(i, h=(h, h), k=(first, last))
            assert low <= part.min()
            assert high >= part.max()
