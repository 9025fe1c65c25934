"""The values of a trace against the equations, for every kind of attention."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import regard
from regard import reference
from tests.trace.traced import DINNER, DOG, WORDS, by_reference, designed, dog, numbers, variants

VARIANTS = variants()


@pytest.mark.parametrize("name", VARIANTS)
def test_the_last_value_is_that_of_the_reference(name: str) -> None:
    t = regard.trace(**VARIANTS[name])
    want = by_reference(VARIANTS[name])
    got = t.steps[-1].value
    assert got.dtype == np.float64
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", VARIANTS)
def test_steps_follow_from_each_other(name: str) -> None:
    given = VARIANTS[name]
    t = regard.trace(**given)
    h = t.q.shape[-3] if t.q.ndim > 2 else 1
    repeated = [x if x.ndim == 2 else np.repeat(x, h // x.shape[-3], axis=-3) for x in (t.k, t.v)]
    k, v = repeated
    np.testing.assert_allclose(t.scores, t.q @ np.swapaxes(k, -1, -2), atol=1e-12)
    scale = given.get("scale", 1 / np.sqrt(t.q.shape[-1]))
    np.testing.assert_allclose(t.scaled, t.scores * scale, atol=1e-12)
    final = next(t[name].value for name in ("masked", "biased", "modified", "scaled") if name in t)
    if "sinks" not in given:
        np.testing.assert_allclose(t.weights, reference.softmax(final), atol=1e-12)
    np.testing.assert_allclose(t.output, t.weights @ v, atol=1e-12)
    if "merged" in t:
        np.testing.assert_array_equal(t.merged, reference.merge_heads(t.output))
    if "projected" in t:
        np.testing.assert_allclose(
            t.projected, reference.project(t.steps[-2].value, given["w_o"], given.get("b_o")), atol=1e-12
        )


@pytest.mark.parametrize("name", VARIANTS)
def test_the_matrix_is_that_of_the_steps(name: str) -> None:
    t = regard.trace(**VARIANTS[name])
    assert isinstance(t.matrix, regard.AttentionMatrix)
    np.testing.assert_allclose(np.asarray(t.matrix), t.weights, atol=1e-9)


def test_what_is_kept_of_each_step() -> None:
    t = dog()
    assert [(s.name, s.symbol, s.shape) for s in t.steps] == [
        ("q", "Q", (3, 2)), ("k", "K", (3, 2)), ("v", "V", (3, 2)), ("scores", "S", (3, 3)), ("scaled", "S′", (3, 3)),
        ("weights", "A", (3, 3)), ("output", "Z", (3, 2)),
    ]  # fmt: skip
    assert [s.equation for s in t.steps] == [
        "Q = X·W_Q", "K = X·W_K", "V = X·W_V", "S = Q·Kᵀ", "S′ = S / √2", "A = softmax(S′)", "Z = A·V"
    ]  # fmt: skip
    assert t["weights"].value is t.weights
    assert "merged" not in t
    assert {"q", "scores", "output", "show", "diagram"} <= set(dir(t))
    everything = regard.trace(**VARIANTS["all"])
    assert [s.name for s in everything.steps][5:] == ["modified", "biased", "masked", "weights", "output", "merged",
                                                      "projected"]  # fmt: skip
    assert [s.equation for s in regard.trace(**VARIANTS["heads"]).steps][-2:] == ["M = concat(Z)", "Y = M·W_O + b_O"]


def test_the_worked_example_of_dog_ate_dinner() -> None:
    """Printed in many places without the division by √2 that lies between scores and weights."""
    t = dog()
    np.testing.assert_allclose(t.q[0], [-0.10, 2.00])
    np.testing.assert_allclose(t.k[0], [0.90, 1.40])
    np.testing.assert_allclose(t.v[0], [1.0, 3.5])
    np.testing.assert_allclose(t.scores[0], [2.71, 1.355, 2.475])
    np.testing.assert_allclose(t.weights[0], [0.448, 0.172, 0.380], atol=5e-4)
    np.testing.assert_allclose(t.output[0], [1.275, 2.364], atol=5e-4)


def test_designed_attention_is_peaked() -> None:
    t = designed()
    np.testing.assert_allclose(t.weights.max(axis=1), 0.948, atol=5e-4)
    np.testing.assert_allclose(t.weights.min(axis=1), 0.017, atol=5e-4)
    np.testing.assert_array_equal(t.output, t.weights)  # the values are the identity
    assert t.matrix["the", "cat"] == pytest.approx(0.9479, abs=1e-4)


def test_the_future_is_hidden_by_a_causal_mask() -> None:
    x = numbers(4, 3)
    t = regard.trace(x, numbers(3, 2), numbers(3, 2, seed=1), numbers(3, 2, seed=2), mask=regard.causal, tokens=WORDS)
    assert t.weights[1, 2] == 0  # 'cat' cannot look at 'chased': it comes later
    assert t.masked[1, 2] == -np.inf
    np.testing.assert_allclose(t.weights.sum(axis=1), 1)


def test_what_is_hidden_does_not_leak() -> None:
    given = dict(VARIANTS["masked"])
    clean = regard.trace(**given)
    x = np.array(given["x"])
    x[3] = np.nan
    broken = regard.trace(**{**given, "x": x})
    np.testing.assert_array_equal(broken.output[:3], clean.output[:3])
    assert np.isfinite(broken.grad(1.0 * (np.arange(4) < 3)[:, None] * np.ones((4, 3))).d_q[:3]).all()
    assert "NaN" in str(broken)


@pytest.mark.parametrize("kind", ["lists", "float32", "torch"])
def test_any_kind_of_array_goes_in(kind: str) -> None:
    def made(x: Any) -> Any:
        if kind == "torch":
            torch = pytest.importorskip("torch")
            return torch.tensor(x, dtype=torch.float64, requires_grad=True)
        return np.array(x, np.float32) if kind == "float32" else x

    t = regard.trace(*(made(x) for x in DOG.values()), mask=[[True, True, True]] * 3 if kind == "lists" else None)
    np.testing.assert_allclose(t.output, dog().output, atol=1e-6)


def test_a_trace_keeps_its_own_numbers() -> None:
    x = np.array(DOG["x"])
    t = regard.trace(x, DOG["w_q"], DOG["w_k"], DOG["w_v"])
    before = t.scores.copy()
    x[:] = 0
    np.testing.assert_array_equal(t.scores, before)
    np.testing.assert_allclose(np.asarray(t.matrix), t.weights)


def test_names_of_queries_and_keys() -> None:
    assert dog().matrix.key_tokens == tuple(DINNER)
    cross = regard.trace(**VARIANTS["self"], context=numbers(4, 3, seed=3), tokens=WORDS)
    assert cross.tokens == tuple(WORDS)
    assert cross.key_tokens is None  # as many keys as queries, and other tokens all the same
    named = regard.trace(**VARIANTS["cross"], tokens=WORDS, key_tokens=list("abcde"))
    assert named.matrix.key_tokens == tuple("abcde")


def test_it_can_be_pickled() -> None:
    t = dog()
    step = pickle.loads(pickle.dumps(t.steps[3]))
    np.testing.assert_array_equal(step.value, t.scores)


def test_nothing_to_attend_to() -> None:
    t = regard.trace(q=np.zeros((0, 2)), k=np.zeros((3, 2)), v=np.zeros((3, 2)))
    assert t.output.shape == (0, 2)
    assert "nothing to work out" in str(t)
    assert "Nothing to draw" in str(t.diagram())
    assert "nothing to work out" in str(t.grad(np.zeros((0, 2))))
