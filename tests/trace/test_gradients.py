"""The way back against the reference's gradients and against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import reference
from tests.trace.traced import DIFFERENTIATED, numbers, variants

VARIANTS = variants()
STEP = 1e-5


def loss_weights(t: Any) -> Any:
    return numbers(*t.steps[-1].shape, seed=11)


def differences(given: dict[str, Any], name: str, d: Any) -> Any:
    """The gradient of sum(d · last value) with respect to one argument, number by number."""
    x = np.array(given[name], float)
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        sides = []
        for sign in (1, -1):
            moved = x.copy()
            moved[place] += sign * STEP
            sides.append((d * regard.trace(**{**given, name: moved}).steps[-1].value).sum())
        found[place] = (sides[0] - sides[1]) / (2 * STEP)
    return found


@pytest.mark.parametrize("name", VARIANTS)
def test_against_finite_differences(name: str) -> None:
    given = VARIANTS[name]
    t = regard.trace(**given)
    d = loss_weights(t)
    g = t.grad(d)
    for argument in DIFFERENTIATED:
        if given.get(argument) is not None:
            np.testing.assert_allclose(
                getattr(g, f"d_{argument}"), differences(given, argument, d), rtol=1e-5, atol=1e-7, err_msg=argument
            )


@pytest.mark.parametrize("name", ["self", "masked", "heads", "grouped", "cross", "projected"])
def test_against_the_gradients_of_the_reference(name: str) -> None:
    given = dict(VARIANTS[name])
    t = regard.trace(**given)
    d = loss_weights(t)
    g = t.grad(d)
    given.pop("b_o", None)
    heads, w_o, x = given.pop("heads", 1), given.pop("w_o", None), given.pop("x")
    if given.get("mask") is not None:
        given["mask"] = lambda b, h, q, k: k <= q
    weights = [given.pop(n) for n in ("w_q", "w_k", "w_v")]
    want = reference.multi_head_gradients(d, x, *weights, np.eye(3) if w_o is None else w_o, heads, **given)
    for n in ("d_x", "d_context", "d_w_q", "d_w_k", "d_w_v", "d_w_o", "d_b_q", "d_b_k", "d_b_v", "d_b_o"):
        if n in g:
            np.testing.assert_allclose(getattr(g, n), getattr(want, n), rtol=1e-12, atol=1e-13, err_msg=n)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_steps_between_follow_from_each_other(name: str) -> None:
    given = VARIANTS[name]
    t = regard.trace(**given)
    g = t.grad(loss_weights(t))
    h = t.q.shape[-3] if t.q.ndim > 2 else 1
    k, v = (x if x.ndim == 2 else np.repeat(x, h // x.shape[-3], axis=-3) for x in (t.k, t.v))
    seen = t.masked > -np.inf if "masked" in t else np.ones(t.weights.shape, bool)
    np.testing.assert_allclose(g.d_weights, np.where(seen, g.d_output @ np.swapaxes(v, -1, -2), 0), atol=1e-12)
    first = g.d_modified if "d_modified" in g else g.d_scaled
    mean = (t.weights * g.d_weights).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(first, t.weights * (g.d_weights - mean), atol=1e-12)
    if "sinks" not in given:
        np.testing.assert_allclose(first.sum(axis=-1), 0, atol=1e-12)
    scale = given.get("scale", 1 / np.sqrt(t.q.shape[-1]))
    np.testing.assert_allclose(g.d_scores, g.d_scaled * scale, atol=1e-12)
    np.testing.assert_allclose(g.d_q, g.d_scores @ k, atol=1e-12)
    if t.k.shape[:-2] == t.q.shape[:-2]:
        np.testing.assert_allclose(g.d_k, np.swapaxes(g.d_scores, -1, -2) @ t.q, atol=1e-12)
        np.testing.assert_allclose(g.d_v, np.swapaxes(t.weights, -1, -2) @ g.d_output, atol=1e-12)


def test_each_gradient_has_the_shape_of_what_it_is_of() -> None:
    t = regard.trace(**VARIANTS["all"])
    g = t.grad(1.0)
    for step in g.steps:
        of = step.name.removeprefix("d_")
        want = np.shape(VARIANTS["all"][of]) if of in VARIANTS["all"] else t[of].shape
        assert step.shape == want, step


def test_what_is_kept_of_each_step_back() -> None:
    t = regard.trace(**VARIANTS["self"])
    assert [f"{s.name}: {s.equation}" for s in t.grad(1.0).steps] == [
        "d_output: dZ is given",
        "d_v: dV = Aᵀ·dZ",
        "d_weights: dA = dZ·Vᵀ",
        "d_scaled: dS′ = A ∘ (dA − Σ A ∘ dA), the sum over each row",
        "d_scores: dS = dS′ / √2",
        "d_q: dQ = dS·K",
        "d_k: dK = dSᵀ·Q",
        "d_w_q: dW_Q = Xᵀ·dQ",
        "d_w_k: dW_K = Xᵀ·dK",
        "d_w_v: dW_V = Xᵀ·dV",
        "d_x: dX = dQ·W_Qᵀ + dK·W_Kᵀ + dV·W_Vᵀ",
    ]
