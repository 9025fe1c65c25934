"""Slopes in the score against central finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from regard.algebra import exp, log, maximum, minimum, sigmoid, tanh, where
from regard.algebra.derivative import derivative
from regard.algebra.evaluate import evaluate
from regard.algebra.expression import substitute
from regard.algebra.tracing import trace
from tests.algebra.writing import Writer, traced

TABLE = np.array([0.7, -1.3, 2.1])
# No whole numbers or halves, so that no corner of the functions below lies at a point that is tested.
SCORES = np.random.default_rng(0).uniform(-3, 3, 40) + 0.0131
PLACES = {"b": 0, "h": np.arange(2)[:, None, None], "q": np.arange(4)[:, None, None, None], "k": np.arange(40)}


def slopes(tree, scores=SCORES, step=1e-6):
    """The derivative, and finite differences of the same."""
    value = evaluate(derivative(tree), score=scores, **PLACES)
    ahead, behind = (evaluate(tree, score=scores + s, **PLACES) for s in (step, -step))
    return np.broadcast_arrays(value, (ahead - behind) / (2 * step))


FUNCTIONS = {
    "itself": lambda score, b, h, q, k: score,
    "constant": lambda score, b, h, q, k: q - k,
    "softcap": regard.softcap(1.7),
    "alibi": regard.alibi([0.5, 0.25]),
    "where on positions": lambda score, b, h, q, k: where(q >= k, 3 * score, -score),
    "where on the score": lambda score, b, h, q, k: where(score > 0.4, score * score, 0.5 * score),
    "where with a constant": lambda score, b, h, q, k: where(q >= k, score, 0.0),
    "minimum": lambda score, b, h, q, k: minimum(score * 2, 1.1),
    "maximum": lambda score, b, h, q, k: maximum(score * score, 0.3 * score),
    "abs": lambda score, b, h, q, k: abs(score) * TABLE[h],
    "abs of a product": lambda score, b, h, q, k: abs(score * (score - 1.23)),
    "exp": lambda score, b, h, q, k: exp(-score * score),
    "log": lambda score, b, h, q, k: log(score * score + 1),
    "tanh": lambda score, b, h, q, k: tanh(score) * score,
    "sigmoid": lambda score, b, h, q, k: score * sigmoid(1.5 * score),
    "product": lambda score, b, h, q, k: score * score * score - TABLE[k] * score,
    "power": lambda score, b, h, q, k: (score + 1) ** 4,
    "quotient": lambda score, b, h, q, k: (score + q) / (score * score + 1),
    "quotient by itself": lambda score, b, h, q, k: 2 / (score * score + 0.5),
    "remainder": lambda score, b, h, q, k: (score * 1.7) % 2.3,
    "remainder by itself": lambda score, b, h, q, k: 7.7 % (score * score + 3.1),
    "rounded down": lambda score, b, h, q, k: score // 0.37 + score,
    "a condition counted": lambda score, b, h, q, k: score * (q > k) - score,
    "negative": lambda score, b, h, q, k: -(-score - 1),
    "difference": lambda score, b, h, q, k: q - score,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_slopes(name):
    value, expected = slopes(trace(FUNCTIONS[name], "score b h q k"))
    np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("first", ["softcap", "where on the score", "exp", "sigmoid", "abs"])
@pytest.mark.parametrize("second", ["alibi", "minimum", "tanh", "quotient", "softcap"])
def test_slopes_of_one_function_after_another(first, second):
    inner, outer = (trace(FUNCTIONS[name], "score b h q k") for name in (first, second))
    tree = substitute(outer, score=inner)
    np.testing.assert_allclose(*slopes(tree), rtol=1e-6, atol=1e-7)
    places = {"score": SCORES, **PLACES}
    outside = evaluate(derivative(outer), **{**places, "score": evaluate(inner, **places)})
    expected = outside * evaluate(derivative(inner), **places)
    np.testing.assert_allclose(*np.broadcast_arrays(evaluate(derivative(tree), **places), expected), rtol=1e-12)


def test_the_slope_at_a_corner():
    corner = trace(lambda score, b, h, q, k: abs(score), "score b h q k")
    assert evaluate(derivative(corner), score=np.array([-2.0, 0.0, 2.0])).tolist() == [-1, 0, 1]


def test_what_does_not_move_has_no_slope():
    for function in (lambda score, b, h, q, k: TABLE[h] * q, lambda score, b, h, q, k: where(score > 0, 1, 2)):
        assert not np.any(evaluate(derivative(trace(function, "score b h q k")), score=SCORES, **PLACES))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.randoms(use_true_random=False), st.integers(1, 2))
def test_random_modifiers(random, depth):
    """Where differences of two widths agree, there is no corner near, and they tell the slope."""
    tree = traced(Writer(random, smooth=True, score=True).real(depth), "score b h q k")
    if tree.kind != "float":
        return
    with np.errstate(all="ignore"):
        value, near = slopes(tree, step=1e-6)
        far = slopes(tree, step=2e-6)[1]
        size = np.abs(np.broadcast_to(evaluate(tree, score=SCORES, **PLACES), value.shape))
        # A remainder of large numbers is as rough as their rounding.
        calm = np.isfinite(near) & (np.abs(near - far) <= 1e-6 * (1 + np.abs(near))) & (size < 1e3)
    np.testing.assert_allclose(value[calm], near[calm], rtol=1e-3, atol=1e-3)
