"""Costs against counted operations, against the sizes of real arrays, and against the numbers that are known."""

from __future__ import annotations

import importlib
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import regard
from regard import machine
from regard.errors import DtypeError, LimitError, ShapeError
from tests.cost.counted import Counted

MODULE = importlib.import_module("regard.cost")  # which the function hides
SMALL: dict[str, Any] = {"n": 5, "d_model": 6, "heads": 2}
CASES: list[dict[str, Any]] = [
    {},
    {"output_projection": False},
    {"heads": 1},
    {"heads": 6, "key_heads": 2},
    {"d": 4},
    {"d": 4, "key_heads": 1},
    {"n": 1},
    {"causal": True},
    {"window": 2},
    {"window": (1, 2)},
    {"window": (3, 1), "causal": True},
    {"window": 0},
    {"n_k": 8},
    {"n_k": 3},
    {"n_k": 8, "causal": True},
    {"n_k": 8, "causal": True, "cached": 0},
    {"n": 1, "n_k": 9, "window": 4},
    {"n_k": 8, "cached": 8},
    {"score": "general"},
    {"score": "general", "heads": 1},
    {"score": "additive"},
    {"score": "additive", "d_a": 7, "n_k": 4},
    {"score": "additive", "d_a": 2, "causal": True, "key_heads": 1},
]


def value(formula: str, letters: dict[str, int]) -> int:
    """What a formula comes to."""
    text = formula.replace("²", "**2").replace("·", "*").replace("−", "-")
    return int(eval(text, {"__builtins__": {}}, letters))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operations_are_those_that_are_counted(case: dict[str, Any]) -> None:
    of = regard.cost(**{**SMALL, **case})
    counted = Counted()
    names = ("n", "n_k", "d_model", "heads", "key_heads", "d", "cached", "score", "d_a", "left", "right")
    counted.layer(**{name: getattr(of, name) for name in names}, output_projection=of.output_projection)
    for step in of.steps:
        assert step.products == counted.count[step.name, "products"], step
        assert step.functions == counted.count[step.name, step.kind or "exp"], step
        assert step.operations == 2 * step.products + step.functions
        assert value(step.formula, of.letters()) == (step.products or step.functions), step
    assert {step.name for step in of.steps} == {name for name, _ in counted.count}
    assert of.products == sum(step.products for step in of.steps)
    assert of.cells * of.heads == sum(step.functions for step in of.steps if step.kind == "exp")


def test_layers_and_sequences_multiply() -> None:
    one, many = regard.cost(**SMALL), regard.cost(**SMALL, layers=3, batch=4)
    assert many.products == 12 * one.products
    assert many.operations == 12 * one.operations
    assert many.memory.all == 12 * one.memory.all
    assert many.memory.one == one.memory.one
    assert many.crossing == one.crossing


def test_the_formulas_of_the_textbook() -> None:
    of = regard.cost(n=100, d_model=64, heads=1, output_projection=False)
    steps = {step.name: (step.formula, step.products, step.functions) for step in of.steps}
    assert steps == {
        "Q, K, V": ("3·n·d²", 3 * 100 * 64**2, 0),
        "scores": ("n²·d", 100**2 * 64, 0),
        "softmax": ("n²", 0, 100**2),
        "A·V": ("n²·d", 100**2 * 64, 0),
    }


@pytest.mark.parametrize(("output", "times"), [(False, 1.5), (True, 2.0)])
@pytest.mark.parametrize("d", [4, 64, 768])
def test_where_they_cross(output: bool, times: float, d: int) -> None:
    of = regard.cost(n=1, d_model=d, heads=4, output_projection=output)
    assert of.crossing == times * d
    at = int(times * d)
    assert of.at(at - 1).dominates == "projections"
    assert of.at(at).dominates == of.at(at + 1).dominates == "scores and A·V"


@pytest.mark.parametrize(
    "case", [{"causal": True}, {"window": 60}, {"window": (20, 60)}, {"key_heads": 1}, {"score": "additive"}], ids=str
)
def test_where_others_cross(case: dict[str, Any]) -> None:
    of = regard.cost(n=7, d_model=24, heads=4, **case)
    assert of.crossing is not None
    below, above = of.at(math.ceil(of.crossing) - 1), of.at(math.floor(of.crossing) + 1)
    assert (below.dominates, above.dominates) == ("projections", "scores and A·V")


def test_causal_crosses_later() -> None:
    # n(n + 1)/2 cells: 3·n·d² = n·(n + 1)·d at n = 3·d − 1.
    assert regard.cost(n=1, d_model=64, heads=4, output_projection=False, causal=True).crossing == 191


def test_where_nothing_crosses() -> None:
    assert regard.cost(n=9, d_model=64, heads=4, window=10).crossing is None  # 11 cells a row, and 128 were needed
    assert regard.cost(n=1, n_k=99, d_model=64, heads=4).crossing is None


def test_bytes_that_are_known() -> None:
    of = regard.cost(n=512, d_model=768, heads=12, layers=12)
    assert of.memory.one == 1 << 20
    assert of.memory.all == 144 << 20
    assert regard.cost(n=512, d_model=768, heads=12, dtype="f64").memory.one == 2 << 20
    assert regard.cost(n=512, d_model=768, heads=12, dtype=np.float16).memory.one == 1 << 19


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("key_heads", [1, 4])
def test_bytes_that_a_matrix_holds(dtype: Any, key_heads: int) -> None:
    of = regard.cost(n=30, n_k=50, d_model=32, heads=4, key_heads=key_heads, dtype=dtype)
    q, k = np.ones((4, 30, 8), dtype), np.ones((key_heads, 50, 8), dtype)
    weights = regard.matrix(q, k).weights
    assert of.memory.held == q.nbytes + k.nbytes + weights._lse.nbytes + weights._known.nbytes
    assert of.memory.one * 4 == np.asarray(regard.matrix(q, k)).nbytes


def test_memory_grows_with_n_and_not_with_its_square() -> None:
    one, two = (regard.cost(n=n, d_model=64, heads=4).memory for n in (1000, 2000))
    assert two.all == 4 * one.all
    assert two.held == 2 * one.held


def test_parameters_of_the_scores() -> None:
    of = regard.cost(n=5, d_model=12, heads=3, d_a=7)
    assert of.parameters == {"dot": 0, "general": 16, "additive": 4 * 7 + 4 * 7 + 7}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({}, (1, 1, 1000, 999)),
        ({"causal": True}, (1, 1, 1000, 999)),
        ({"window": 100}, (1, 10, 1000, 999)),
        ({"window": (100, 300)}, (1, 10, 1000, 999)),
        ({"n": 1}, (1, 1, 1, 1)),
    ],
)
def test_order_beside_an_rnn(case: dict[str, Any], expected: tuple[int, ...]) -> None:
    assert regard.cost(**{"n": 1000, "d_model": 64, "heads": 4, **case}).order == expected


# Time.


def test_least_times_follow_the_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {machine.FMA: 1e9, machine.WIDE: 5e8, machine.PAIR: 4e9, machine.READ: 1e9}
    monkeypatch.setattr(machine, "best", rates.get)
    of = regard.cost(n=512, d_model=64, heads=1)
    assert of.seconds is not None
    times = dict(zip((step.name for step in of.steps), of.seconds, strict=True))
    assert times["scores"] == pytest.approx(2 * 512**2 * 64 / 1e9)
    assert times["softmax"] == pytest.approx(2 * 14 * 512**2 / 1e9)
    few = regard.cost(n=1, n_k=4096, d_model=64, heads=1, causal=True)  # reads K once, and multiplies each number once
    monkeypatch.setattr(machine, "best", {**rates, machine.FMA: 1e12}.get)
    assert few.seconds is not None
    assert few.seconds[1] == pytest.approx((4096 + 1) * 64 * 4 / 1e9)


@pytest.mark.parametrize("name", [machine.FMA, machine.WIDE, machine.PAIR, machine.READ])
def test_the_peaks_of_this_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ROUNDS", 10_000)
    for peak in machine.peaks(name, 2, 1 << 20):
        assert (peak.name, peak.amount > 0) == (name, True)
        assert 0 < machine.seconds(peak.run) < 10
    assert name in machine.UNITS


def test_reading_stays_within_its_buffer() -> None:
    ways = machine.peaks(machine.READ, 3, (1 << 20) + 4096 + 12)
    assert {peak.amount for peak in ways} == {3.0 * (1 << 20)}  # whole rounds of every way


@pytest.mark.parametrize("case", [{}, {"causal": True, "key_heads": 2}, {"n_k": 100}, {"dtype": "bf16"}], ids=str)
def test_measuring(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "ENOUGH", 0.0)
    of = regard.cost(n=64, d_model=64, heads=4, measure=True, **case)
    found = of.measured
    assert found is not None
    assert found.seconds > 0
    assert 0 < found.share < 2  # 1 at most, but for what disturbs a machine
    assert found.peak in machine.UNITS
    assert "Measured: regard.attention" in str(of)


@pytest.mark.parametrize("score", ["general", "additive"])
def test_measuring_other_scores(score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "ENOUGH", 0.0)
    found = regard.cost(n=32, d_model=32, heads=2, key_heads=1, score=score, d_a=5, measure=True).measured
    assert found is not None
    assert found.seconds > 0


def test_what_would_take_too_long_is_not_measured() -> None:
    with pytest.raises(
        LimitError, match=r"^measure=True would take .* GiB of arrays and .* leave it out, or measure a"
    ):
        regard.cost(n=50_000_000, d_model=64, heads=4, measure=True)


# Models.

GPT2 = {"n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "architectures": ["GPT2LMHeadModel"]}
MISTRAL = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "torch_dtype": "bfloat16",
    "architectures": ["MistralForCausalLM"],
}


def test_a_configuration_as_a_dict_or_an_object() -> None:
    for given in (GPT2, SimpleNamespace(**GPT2), SimpleNamespace(config=SimpleNamespace(**GPT2))):
        of = regard.cost(given)
        assert (of.n, of.d_model, of.heads, of.layers, of.key_heads) == (1024, 768, 12, 12, 12)
        assert (of.left, of.right, of.dtype) == (math.inf, 0, "f32")


def test_groups_windows_and_dtypes_of_a_model() -> None:
    of = regard.cost(MISTRAL)
    assert (of.key_heads, of.d, of.dtype, of.left, of.right) == (8, 128, "bf16", 4095, 0)
    assert regard.cost({**MISTRAL, "use_sliding_window": False}).left == math.inf
    assert regard.cost({"text_config": MISTRAL}).heads == 32
    assert regard.cost({**MISTRAL, "head_dim": 64}).d == 64


def test_a_model_that_looks_both_ways() -> None:
    bert = {**GPT2, "architectures": ["BertForMaskedLM"]}
    assert regard.cost(bert).right == math.inf
    assert regard.cost(bert, causal=True).right == 0
    assert regard.cost(GPT2, causal=False).right == math.inf


def test_what_is_given_comes_before_what_a_model_says() -> None:
    of = regard.cost(MISTRAL, n=99, layers=1, window=(7, 0), dtype="f32", key_heads=4)
    assert (of.n, of.layers, of.left, of.dtype, of.key_heads) == (99, 1, 7, "f32", 4)


# Messages.

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"n": None}, ShapeError, "n was not given, expected a whole number: pass n="),
    ({"model": {"hidden_size": 6}, "d_model": None, "heads": None}, ShapeError,
     "heads was not given and the model does not say it, expected a whole number: pass heads="),
    ({"model": object()}, ShapeError,
     "the model is a object that says no hidden_size and no num_attention_heads, expected an object or a dict with "
     "these: pass d_model=, heads= and n="),
    ({"n": 0}, ShapeError, "n is 0, expected a whole number, 1 or more"),
    ({"n": True}, ShapeError, "n is True, expected a whole number, 1 or more"),
    ({"layers": 1.5}, ShapeError, "layers is 1.5, expected a whole number, 1 or more"),
    ({"cached": -1}, ShapeError, "cached is -1, expected a whole number, 0 or more"),
    ({"cached": 6}, ShapeError, "cached is 6 and there are 5 keys, expected no more: pass n_k=, all of the keys"),
    ({"heads": 4}, ShapeError, "d_model is 6 and heads is 4, expected a multiple: pass d=, the width of a head"),
    ({"heads": 3, "key_heads": 2}, ShapeError,
     "heads is 3 and key_heads is 2, expected a multiple: each key head serves as many heads"),
    ({"score": "cosine"}, ValueError, "score is 'cosine', expected one of dot, general, additive"),
    ({"dtype": "int8"}, DtypeError, "dtype is 'int8', expected one of f32, f64, bf16, f16"),
    ({"window": -1}, ValueError, "window is -1, expected a number of keys before the query, or (before, after)"),
    ({"window": (1, 2, 3)}, ValueError,
     "window is (1, 2, 3), expected a number of keys before the query, or (before, after)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "kind", "sentence"), WRONG, ids=[" ".join(case) + f" {at}" for at, (case, *_) in enumerate(WRONG)]
)
def test_wrong_input_gets_a_sentence(case: dict[str, Any], kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind) as caught:
        regard.cost(**{**SMALL, **case})
    assert str(caught.value) == sentence
