"""Contrast, scale, and the examples that run."""

from __future__ import annotations

import importlib.util
import io
import sys
import types
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard import circuits, reference
from regard.circuits.scaling import jacobian
from regard.errors import ShapeError
from regard.view.text import width

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


# Contrast.


def test_small_random_weights_are_flat_and_designed_ones_are_not() -> None:
    found = circuits.contrast(scale=0.1)
    assert np.allclose(found.random, found.even, atol=0.01)
    assert np.allclose(found.structured.max(-1), 0.948, atol=1e-6)
    assert found.structured.argmax(-1).tolist() == [1, 2, 1, 2]
    assert np.allclose(found.random.sum(-1), 1)


def test_what_the_scale_does() -> None:
    found = circuits.contrast(seed=3)
    assert (np.diff(found.peak) > 0).all()
    assert (np.diff(found.entropy) < 0).all()
    assert found.peak[0] == pytest.approx(0.25, abs=0.01)
    assert found.peak[-1] > 0.9  # random, and peaked all the same
    # Both W_Q and W_K times s: scores times s².
    assert np.allclose(found.deviation / found.deviation[2], np.square(found.scales))


@pytest.mark.parametrize("columns", [20, 34, 80])
def test_both_are_shown(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for found in (circuits.contrast(), circuits.contrast([(i + 1) % 24 for i in range(24)], d=16)):
        lines = str(found).splitlines()
        assert max(map(width, lines)) <= columns
        beside = any(line.startswith("random") and line.endswith("structured") for line in lines)
        assert beside == (columns == 80)
        assert "structured" in str(found)


def test_wrong_contrasts() -> None:
    with pytest.raises(ShapeError, match=r"^targets has 1 query, expected 2 or more"):
        circuits.contrast([0])
    with pytest.raises(ShapeError, match=r"^tokens has 1 token and targets 4 queries, expected as many"):
        circuits.contrast(tokens=["a"])
    with pytest.raises(ValueError, match=r"^scale has -1, expected numbers from 0 on$"):
        circuits.contrast(scale=-1)


# Scale.


def test_why_scale() -> None:
    found = circuits.why_scale()
    d = np.array(found.d)
    assert np.allclose(found.plain.variance, d, rtol=0.05)
    assert np.allclose(found.scaled.variance, 1, rtol=0.05)
    assert (np.diff(found.plain.entropy) < 0).all()
    assert np.ptp(found.scaled.entropy) < 0.05
    assert found.plain.peak[-1] > 0.9
    assert found.scaled.peak[-1] < 0.2
    # Rows that have made up their mind let no gradient through.
    assert found.plain.gradient[-1] < 0.4 * found.scaled.gradient[-1]
    assert (np.diff(found.plain.gradient[1:]) < 0).all()
    assert np.ptp(found.scaled.gradient) < 0.01


def test_the_gradient_is_that_of_the_reference() -> None:
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((1, 8)), rng.standard_normal((5, 8))
    bias, each = np.zeros((1, 5)), []
    for j in range(5):  # with the identity for values, d_z = e_j gives a row of the Jacobian
        d_z = np.eye(5)[j : j + 1]
        each.append(reference.attention_gradients(d_z, q, k, np.eye(5), bias=bias).d_bias)
    length = np.linalg.norm(np.array(each))
    assert jacobian(reference.weights(q, k))[0] == pytest.approx(length)


@pytest.mark.parametrize("columns", [20, 34, 80])
def test_the_scale_table_fits(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = str(circuits.why_scale([4, 64], keys=8)).splitlines()
    assert max(map(width, lines)) <= columns
    assert sum("d = 64" in line for line in lines) == 2


def test_wrong_widths() -> None:
    with pytest.raises(ShapeError, match=r"^d is 0, expected a whole number, 1 or more$"):
        circuits.why_scale([0])
    with pytest.raises(ShapeError, match=r"^keys is 1, expected a whole number, 2 or more$"):
        circuits.why_scale(keys=1)


# Examples.


def test_four_words_are_designed() -> None:
    A = example("four_words").designed()
    assert A["cat", "chased"] == pytest.approx(0.8)
    assert np.asarray(A).argmax(-1).tolist() == [1, 2, 3, 2]


@pytest.mark.parametrize("task", ["learn_four_words", "learn_lookup"])
@pytest.mark.parametrize("seed", [0, 1])
def test_learning_where_to_look(task: str, seed: int) -> None:
    result: Any = getattr(example("learn_to_look"), task)(seed=seed)
    told = result[0] if isinstance(result, tuple) else result
    first, last = told[0], told[-1]
    keys = 4 if task == "learn_four_words" else 8
    assert first.weight == pytest.approx(1 / keys, abs=0.1)
    assert first.entropy > 0.9 * np.log(keys)
    assert last.weight > 0.98
    assert last.entropy < 0.1
    assert last.loss < 0.05 < first.loss
    assert last.right - last.wrong > 5 > abs(first.right - first.wrong)
    for earlier, later in pairwise(told[3:]):  # after the first few steps it only sharpens
        assert later.weight > earlier.weight
        assert later.entropy < earlier.entropy
        assert later.right > earlier.right


def test_a_step_goes_down_the_gradient() -> None:
    """The change that a small step makes is what finite differences of the loss say."""
    module = example("learn_to_look")
    rng = np.random.default_rng(0)
    words, head = module.four_words(rng), module.Head.random(8, 4, rng)
    before = head.w_q.copy(), head.w_k.copy()
    head.learn(words, 1.0)
    for which in range(2):  # W_Q, W_K
        step = before[which] - (head.w_q, head.w_k)[which]
        for place in ((0, 0), (3, 2), (7, 3)):
            losses = []
            for sign in (1, -1):
                moved = [before[0].copy(), before[1].copy()]
                moved[which][place] += sign * 1e-5
                losses.append(module.Head(*moved).seen(words, 0).loss)
            assert step[place] == pytest.approx((losses[0] - losses[1]) / 2e-5, abs=1e-6)


def test_the_examples_print() -> None:
    module = example("learn_to_look")
    out = io.StringIO()
    with redirect_stdout(out):
        module.main()
        example("four_words").designed().show(row="cat", width=60)
    text = out.getvalue()
    for part in ("Four words", "before", "after", "Lookup among 8 entries", "query ↓ looks at"):
        assert part in text
    assert max(map(width, text.splitlines())) <= 100


def test_circuits_come_when_they_are_asked_for() -> None:
    assert regard.circuits is circuits
    with pytest.raises(AttributeError, match=r"^module 'regard' has no attribute 'nothing'$"):
        _ = regard.nothing
