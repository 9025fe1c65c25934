"""The value of a traced function is what NumPy computes from the same words."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.algebra.evaluate import evaluate
from tests.algebra.writing import Writer, plain, traced

CELLS = {
    "b": np.arange(3)[:, None, None, None],
    "h": np.arange(2)[:, None, None],
    "q": np.arange(-5, 44)[:, None],
    "k": np.arange(47),
}


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.randoms(use_true_random=False), st.booleans(), st.booleans(), st.integers(0, 3))
def test_random_functions_mean_what_numpy_says(random, smooth, wild, depth):
    writer = Writer(random, smooth=smooth, wild=wild, big=True)
    text = random.choice([writer.condition, writer.whole, writer.real])(depth)
    expression = traced(text)
    value, expected = np.asarray(evaluate(expression, **CELLS)), np.asarray(plain(text, **CELLS))
    assert value.dtype == {"bool": bool, "int": np.int64, "float": np.float64}[expression.kind], text
    np.testing.assert_array_equal(value, np.broadcast_to(expected, value.shape), err_msg=text)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_random_modifiers_mean_what_numpy_says(random, depth):
    text = Writer(random, smooth=True, wild=True, score=True).real(depth)
    score = np.random.default_rng(0).normal(size=(3, 2, 49, 47))
    value = np.asarray(evaluate(traced(text, "score b h q k"), score=score, **CELLS))
    expected = np.asarray(plain(text, score=score, **CELLS))
    np.testing.assert_array_equal(value, np.broadcast_to(expected, value.shape), err_msg=text)


def test_whole_numbers_are_computed_in_64_bits():
    x = traced("q * 3_000_000_000 % 7 == k")
    q, k = np.arange(-6, 20)[:, None], np.arange(7)
    expected = [[i * 3_000_000_000 % 7 == j for j in range(7)] for i in range(-6, 20)]
    assert evaluate(x, q=q, k=k).tolist() == expected


def test_nan_passes_through_minimum_and_maximum():
    x = traced("minimum(maximum(wild[k], 0.0), 1.0)")
    assert np.isnan(evaluate(x, k=np.array([3])))


def test_values_are_given_their_shape_by_broadcasting():
    assert evaluate(traced("q - k"), q=np.arange(3)[:, None], k=np.arange(5)).shape == (3, 5)
    assert evaluate(traced("number(4) + 3")) == 7
