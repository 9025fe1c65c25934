"""Products, GELU and layer norm against their formulas in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from regard.errors import RegardError, ShapeError, TargetError
from regard.kernels import compile
from regard.kernels.chain import Chain, Norm, Product, Weights
from regard.kernels.rows import Rows
from regard.kernels.target import NARROWED, host
from tests.models.making import gelu, gelu_tanh, norm

SHAPES = [(1, 1, 1), (3, 5, 7), (8, 16, 48), (9, 47, 49), (13, 384, 31), (67, 3, 130), (131, 97, 16)]
PLAIN = {"": lambda x: x, "erf": gelu, "tanh": gelu_tanh}


@pytest.fixture(params=["", *NARROWED], ids=lambda name: name or "this machine")
def target(request, monkeypatch):
    monkeypatch.setenv("REGARD_TARGET", request.param)
    try:
        return host()
    except TargetError as error:
        pytest.skip(str(error))


def through(x, weights):
    y = weights.room(len(x))
    Chain([Product("x", weights, "y")])(x=x, y=y)
    return y[:, : weights.columns]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", PLAIN)
def test_products(target, kind):
    for n, depth, columns in SHAPES:
        x, w, b = normal(n, depth), normal(columns, depth, seed=1), normal(columns, seed=2)
        want = x.astype(np.float64) @ w.T.astype(np.float64) + b
        allowed = 3e-7 * (np.abs(x) @ np.abs(w.T) + np.abs(b)) * np.sqrt(depth)
        found = through(x, Weights(w, b, kind))
        assert (np.abs(found - PLAIN[kind](want)) <= allowed + 3e-7).all(), (n, depth, columns)


@pytest.mark.parametrize("plus", [False, True])
def test_layer_norm(target, plus):
    for n, _, d in [*SHAPES, (2, 1, 384), (5, 1, 1000)]:
        x, p, w, b = normal(n, d), normal(n, d, seed=1), normal(d, seed=2), normal(d, seed=3)
        x += 10
        y = np.empty_like(x)
        Chain([Norm("x", w, b, 1e-5, "y", "p" if plus else "")])(x=x, p=p, y=y)
        given = x + p if plus else x
        # 10 is held to a millionth, and a row of few numbers that happen to lie together is spread far apart.
        spread = np.maximum(given.astype(np.float64).std(-1, keepdims=True), 1e-3)
        assert (np.abs(y - norm(given, w, b, 1e-5)) <= 1e-5 * (1 + 1 / spread)).all()


def identity(x, kind):
    return through(x[:, None], Weights(np.ones((1, 1), np.float32), np.zeros(1, np.float32), kind))[:, 0]


def test_gelu_is_right_to_its_last_digits(target):
    """From where it is nothing to where it is x; the error is of the value, not of 1."""
    x = np.linspace(-11.5, 20, 40001).astype(np.float32)
    want = gelu(x)
    # Of e^(-x²/2) the exponent is rounded: where it is large that is all the error there is.
    allowed = (6e-7 + 6e-8 * np.minimum(x, 0) ** 2) * np.abs(want)
    assert (np.abs(identity(x, "erf") - want) <= allowed).all()
    wrong = np.abs(identity(x, "tanh") - gelu_tanh(x))
    assert (wrong <= 4e-7 * np.maximum(np.abs(x), 0.1)).all()


@pytest.mark.parametrize("kind", ["erf", "tanh"])
def test_gelu_at_the_ends(target, kind):
    x = np.array([0, -np.inf, np.inf, np.nan, -3e38, 3e38, -1e-38, 1e-38], np.float32)
    found = identity(x, kind)
    np.testing.assert_allclose(found, [0, 0, np.inf, np.nan, 0, 3e38, 0, 0], rtol=1e-6, atol=1e-38)


def test_what_is_not_a_number_stays_in_its_row():
    x = normal(20, 33)
    x[11, 5] = np.nan
    weights, y = Weights(normal(50, 33, seed=1), normal(50, seed=2), "erf"), np.empty((20, 50), np.float32)
    steps = [Product("x", weights, "t"), Norm("t", np.ones(50), np.zeros(50), 1e-5, "y")]
    Chain(steps)(x=x, y=y)
    assert np.isnan(y[11]).all()
    assert np.isfinite(np.delete(y, 11, 0)).all()


def test_rows_do_not_depend_on_their_neighbours():
    x, weights = normal(300, 40), Weights(normal(70, 40, seed=1), normal(70, seed=2), "erf")
    whole = through(x, weights)
    for some in (slice(0, 1), slice(7, 20), slice(150, 300)):
        assert np.array_equal(through(x[some], weights), whole[some])


def test_strided_rows():
    x = normal(30, 3, 40)
    weights = Weights(normal(70, 40, seed=1), normal(70, seed=2))
    assert np.array_equal(through(x[:, 1], weights), through(x[:, 1].copy(), weights))


def test_what_is_refused():
    weights = Weights(normal(7, 5), normal(7))
    chain = Chain([Product("x", weights, "y")])
    good = weights.room(3)
    for x, y, words in [
        (normal(3, 4), good, "x has 4 columns, expected 5"),
        (normal(3, 5), normal(3, 7), "y has 7 columns, expected"),
        (normal(3, 5), weights.room(4), "y came as float32 of shape (4,"),
        (normal(3, 5).astype(np.float64), good, "x came as float64"),
        (normal(5, 3).T, good, "rows lie in one piece"),
    ]:
        with pytest.raises(ShapeError) as caught:
            chain(x=x, y=y)
        assert words in str(caught.value)
    with pytest.raises(ShapeError, match="read before anything is written"):
        Chain([Product("t", weights, "y")])(x=normal(3, 5), y=good)
    with pytest.raises(ShapeError, match="reads x and writes it"):
        Chain([Norm("x", np.ones(3), np.ones(3), 1e-5, "x")])


def test_weights_belong_to_a_target(monkeypatch):
    first = Weights(normal(7, 5), normal(7))
    monkeypatch.setenv("REGARD_TARGET", "x86-64-v2")
    try:
        second = Weights(normal(7, 7), normal(7))
    except RegardError as error:
        pytest.skip(str(error))
    with pytest.raises(TargetError, match="several targets"):
        Chain([Product("x", first, "t"), Product("t", second, "y")])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="memory is guarded with mprotect")
@pytest.mark.parametrize("target", ["", "x86-64-v3"], ids=["this machine", "v3"])
def test_arrays_between_forbidden_pages(target):
    environment = {**os.environ, "REGARD_TARGET": target}
    command = [sys.executable, "-m", "tests.models.guarded_rows"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=110)
    if "TargetError" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    last = done.stdout.strip().rpartition("\n")[2]
    assert done.returncode == 0, f"ended with {done.returncode} at: {last}\n{done.stderr[-2000:]}"
    assert last.endswith("chains stayed inside")


def test_the_kernel_explains_itself(monkeypatch, capsys):
    monkeypatch.setenv("REGARD_EXPLAIN", "plan")
    plan = Rows(host())
    compile._kernels.pop(plan, None)
    compile.kernel(plan)
    assert capsys.readouterr().err.startswith("plan: Rows(target=Target(")
