"""Every question, asked of a matrix, against its definition on the built matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import regard
from regard.errors import LimitError, QuestionError
from regard.lens import (
    Between,
    ByDistance,
    Cells,
    Effective,
    Entropy,
    Heatmap,
    Mass,
    Peak,
    Received,
    Top,
    Total,
    Visible,
)
from tests.attention.judge import normal, same_bits, wide
from tests.attention.problems import cases
from tests.lens.asked import NAMES, agree, everything, flat, flattened, hold, parts, wanted
from tests.matrix.built import KINDS, MORE, beside, close, kind


def examples(count: int) -> Any:
    """The same examples in every run."""
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )


# All questions are asked of these; of the others, some, so that all of them are asked of something like it.
FULL = ("bias, sinks, bf16", "grouped, padding, f64", "modified", "two leading axes", "NaN", "no queries")


@pytest.mark.parametrize("name", [*KINDS, *MORE])
def test_of_every_kind_of_matrix(name: str) -> None:
    built = kind(name)
    number = [*KINDS, *MORE].index(name)
    hold(built, NAMES if name in FULL else NAMES[number % 3 :: 3], number)


@pytest.mark.parametrize("third", range(3))
def test_asked_one_by_one(third: int) -> None:
    """The same bits as when they are asked together."""
    built = kind("segments")
    f = flat(built)
    asked = {name: question for name, question in everything(f).items() if name in NAMES[third::3]}
    together = built.A.ask(*asked.values())
    for (name, question), fused in zip(asked.items(), together, strict=True):
        (alone,) = built.A.ask(question)
        answer = flattened(question, alone, built.A.readable().front)
        agree(name, question, answer, wanted(question, f), f)
        for x, y in zip(parts(alone), parts(fused), strict=True):
            same_bits(np.asarray(x), np.asarray(y), name)


@examples(16)
@given(
    cases(widths=[(8, 4)], queries=[1, 3, 17, 40], keys=[1, 5, 31, 130], layouts=("plain", "heads inside")),
    st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True),
)
def test_random_problems(case: Any, names: list[str]) -> None:
    assume(case.filled)
    assume(0 not in case.leading)  # has a test of its own
    (q, k, v), options, like = case.make()
    like.pop("bias", None), like.pop("scale", None)
    hold(beside(q, k, v=v, like=like, **options), names, case.seed)


# Positions.


POSITIONED: dict[str, tuple[dict[str, Any], int]] = {
    "nothing": ({}, 0),
    "causal": ({"mask": regard.causal}, 4),
    "window": ({"mask": regard.window(3, 1)}, 4),
    "causal from the first": ({"mask": regard.causal(align="first")}, 0),
    "window from the first": ({"mask": regard.window(3, 1, align="first")}, 0),
    "segments": ({"mask": regard.segments(np.zeros(9, int))}, 4),
    "segments of two": ({"mask": regard.segments(np.zeros(5, int), np.zeros(9, int))}, 0),
    "padding": ({"mask": regard.padding([8])}, 0),
    "an array": ({"mask": np.ones((5, 9), bool)}, 0),
    "bias": ({"bias": np.ones((5, 1), np.float32)}, 0),
    "alibi": ({"modify": regard.alibi([0.5])}, 4),
    "softcap": ({"modify": regard.softcap(2.0)}, 0),
    "alibi, causal from the first": ({"modify": regard.alibi([0.5]), "mask": regard.causal(align="first")}, 4),
}


@pytest.mark.parametrize("name", POSITIONED)
def test_distances_begin_where_the_mask_has_its_positions(name: str) -> None:
    options, offset = POSITIONED[name]
    q, k = normal((1, 5, 8)), normal((1, 9, 8), "f32", 1)
    A = regard.matrix(q, k, **options)
    ours, theirs = A.readable().positions
    assert (ours - np.arange(5)).tolist() == [offset] * 5
    assert (theirs == np.arange(9)).all()
    found = A.by_distance()
    assert found.distances.tolist() == list(range(offset - 8, offset + 5))
    whole = wide(A.build()[0])
    apart = np.arange(5)[:, None] + offset - np.arange(9)
    close(found.mass[0], [whole[apart == t].sum() for t in found.distances], 4e-6)
    close(A.distance(), [(whole * abs(apart)).sum() / whole.sum()], 4e-6)


# Ties, rows that see little, and weights that vanish.


def test_ties_go_to_the_lower_key() -> None:
    """Keys that repeat, in whole numbers, so that weights are equal to the last bit in any order of work."""
    rng = np.random.default_rng(0)
    few = rng.integers(-2, 3, (7, 8)).astype(np.float32)
    which = rng.integers(0, 7, 300)
    q, k = rng.integers(-1, 2, (1, 40, 8)).astype(np.float32), few[which][None]
    for options in ({}, {"mask": regard.causal}, {"scale": 0.0}, {"scale": 0.0, "mask": regard.window(40, 0)}):
        A = regard.matrix(q, k, **options)
        top, peak = A.ask(Top(20), Peak())
        row, key = np.arange(40)[:, None] + 260, np.arange(300)
        seen = np.ones((40, 300), bool)
        if "mask" in options:
            seen = (key <= row) & (key >= row - (40 if "scale" in options else 1000))
        s = (q[0] @ k[0].T) * options.get("scale", 1.0)
        for i in range(40):
            best = sorted(np.flatnonzero(seen[i]), key=lambda j: (-s[i, j], j))[:20]
            assert top.keys[0, i, : len(best)].tolist() == best, f"row {i} with {options}"
            assert (top.keys[0, i, len(best) :] == -1).all()
            assert peak.keys[0, i] == best[0]


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_keys_whose_weight_vanishes_are_seen_all_the_same(dtype: str) -> None:
    q, k = np.ones((1, 1, 1)), np.array([-2000.0, 0, -3000, -1500])[None, :, None]
    kind_of = normal((1,), dtype).dtype
    A = regard.matrix(q.astype(kind_of), k.astype(kind_of), mask=np.array([[True, True, True, False]]))
    top, seen, entropy = A.ask(Top(4), Visible(), Entropy())
    assert wide(top.weights)[0, 0].tolist() == [1, 0, 0, 0]
    assert top.keys[0, 0].tolist() == [1, 0, 2, -1]
    assert seen[0, 0] == 3
    assert entropy[0, 0] == 0


def test_rows_that_see_nothing() -> None:
    q = normal((2, 6, 8))
    for options in ({"mask": np.zeros((6, 6), bool)}, {"bias": np.full((6, 6), -np.inf, np.float32)},
                    {"mask": np.zeros((6, 6), bool), "sinks": [1.0, 0.0]}):  # fmt: skip
        hold(beside(q, q, **options), NAMES[::2])
        A = regard.matrix(q, q, **options)
        assert not A.effective().any()
        assert (A.top(2).keys == -1).all()
        assert np.isnan(A.heatmap(3)).all()
        assert not A.heatmap(3, of="all").any()


def test_a_sink_is_no_outcome() -> None:
    q = np.zeros((1, 3, 4), np.float32)
    A = regard.matrix(q, q, sinks=[np.log(3.0)])  # as heavy as all three keys
    assert wide(A.ask(Total())[0])[0] == pytest.approx([0.5] * 3)
    assert wide(A.entropy())[0] == pytest.approx([0.5 * np.log(6)] * 3)
    close(A.mass(regard.prefix(1)).rows[0], [1 / 3] * 3, 1e-6)


def test_rows_that_are_nan_spoil_what_reads_them_only() -> None:
    q, k = normal((1, 8, 8)), normal((1, 8, 8), "f32", 1)
    q[0, 5, 3] = np.nan
    whole = beside(q, k, mask=regard.causal)
    A = whole.A
    top, entropy, heat, received = A.ask(Top(2), Entropy(), Heatmap(8), Received())
    assert np.isnan(top.weights[0, 5]).all()
    assert (top.keys[0, 5] == -1).all()
    assert np.isnan(entropy[0]).tolist() == [i == 5 for i in range(8)]
    assert np.isnan(received[0]).tolist() == [j <= 5 for j in range(8)]
    assert np.isnan(heat[0]).tolist() == [[j > i or i == 5 for j in range(8)] for i in range(8)]
    assert np.isfinite(A.ask(Received(slice(0, 5)))[0]).all()


# Methods.


def test_methods_ask_the_same() -> None:
    built = kind("modified")
    A = built.A
    groups_q, groups_k = np.arange(13) // 4, np.arange(17) // 5
    asked = {
        "entropy": (A.entropy(), Entropy()),
        "effective": (A.effective(), Effective()),
        "peak": (A.peak(), Peak()),
        "top": (A.top(3), Top(3)),
        "received": (A.received(slice(3, None), "visible", "kv", ("max", 3)),
                     Received(slice(3, None), "visible", "kv", ("max", 3))),
        "by_distance": (A.by_distance("visible"), ByDistance("visible")),
        "between": (A.between(groups_q, groups_k, "sum"), Between(groups_q, groups_k, "sum")),
        "mass": (A.mass(regard.causal), Mass(regard.causal)),
        "cells": (A.cells(0.2), Cells(0.2)),
        "heatmap": (A.heatmap(3, 4, "max", "all", (1, 9, 2, 17)), Heatmap(3, 4, "max", "all", (1, 9, 2, 17))),
    }  # fmt: skip
    for name, (answer, question) in asked.items():
        for x, y in zip(parts(answer), parts(A.ask(question)[0]), strict=True):
            same_bits(np.asarray(x), np.asarray(y), name)
        for x, y in zip(parts(answer), parts(A.T.ask(question)[0]), strict=True):
            same_bits(np.asarray(x), np.asarray(y), f"{name} of A.T")
    assert A.top(3)._fields == ("weights", "keys")
    assert A.by_distance()._fields == ("distances", "mass", "visible")
    assert A.mass(regard.causal)._fields == ("rows", "heads")
    assert A.cells()._fields == ("head", "query", "key", "weight")


def test_summary() -> None:
    A = kind("f32").A
    summary = A.summary()
    assert list(summary) == ["entropy", "top", "received", "by_distance", "heatmap"]
    same_bits(np.asarray(summary["entropy"]), np.asarray(A.entropy()))
    assert summary["top"].keys.shape == (3, 13, 5)
    assert summary["heatmap"].shape == (3, 13, 17)


def test_asking_nothing() -> None:
    assert kind("f32").A.ask() == []


def test_the_same_question_twice() -> None:
    A = kind("f32").A
    one, two, other = A.ask(Top(2), Top(2), Top(3))
    same_bits(one.weights, two.weights)
    same_bits(one.weights, other.weights[..., :2].copy())


def test_output() -> None:
    q, k, v = normal((4, 13, 8)), normal((2, 17, 8), "f32", 1), normal((2, 17, 5), "f32", 2)
    options: dict[str, Any] = {"mask": regard.causal, "sinks": np.zeros(4)}
    z = regard.attention(q, k, v, **options)
    for A, given_v in ((regard.matrix(q, k, v=v, **options), None), (regard.matrix(q, k, **options), v)):
        same_bits(A.output(given_v), z, "output")
        assert A.T.output(given_v).shape == z.shape
    with pytest.raises(QuestionError, match="output was asked without values, expected v: pass output"):
        regard.matrix(q, k).output()


def test_tensors_are_answered_in_tensors() -> None:
    q, k = normal((2, 9, 8)), normal((2, 12, 8), "f32", 1)
    A, B = regard.matrix(*map(torch.from_numpy, (q, k))), regard.matrix(q, k)
    asked = everything(flat(beside(q, k))).values()
    for question, ours, theirs in zip(asked, A.ask(*asked), B.ask(*asked), strict=True):
        for x, y in zip(parts(ours), parts(theirs), strict=True):
            assert isinstance(x, torch.Tensor), question
            assert isinstance(y, np.ndarray), question
            same_bits(x.numpy(), y, repr(question))
    assert isinstance(A.output(torch.ones(2, 12, 3)), torch.Tensor)


# Threads, cuts and length.


def test_any_number_of_threads_gives_the_same_bits() -> None:
    q, k = normal((4, 300, 32)), normal((2, 300, 32), "f32", 1)
    asked = [Entropy(), Top(5), Received(), Received(group="kv"), ByDistance(), Heatmap(64), Heatmap(50, pool="max"),
             Total(), Visible(), Mass(regard.window(5, 0)), Cells(0.2), Between(np.arange(300) // 100)]  # fmt: skip
    for options in ({"mask": regard.causal}, {"sinks": np.zeros(4)}):
        try:
            regard.threads(1)
            first = regard.matrix(q, k, **options).ask(*asked)
            for count in (2, 3, 1):
                regard.threads(count)
                again = regard.matrix(q, k, **options).ask(*asked)
                for question, x, y in zip(asked, first, again, strict=True):
                    for one, two in zip(parts(x), parts(y), strict=True):
                        same_bits(one, two, f"{question}, {count} threads")
        finally:
            regard.threads(0)


def test_many_heads_with_long_rows() -> None:
    """More than is taken at a time: heads and rows come in several parts, and are put together again."""
    heads, n_q, n_k = 6, 16, 100_000
    q, k = normal((heads, n_q, 4)), normal((heads // 2, n_k, 4), "f32", 1)
    k[:, 5] *= 40  # a key that takes much of some rows
    A = regard.matrix(q, k)
    whole = A.build()
    peak, received, heat, cells, share = A.ask(
        Peak(), Received(group="kv"), Heatmap(4, 8, "max"), Cells(0.5), Mass(regard.prefix(30))
    )
    assert (peak.keys == whole.argmax(-1)).mean() > 0.9
    close(peak.weights, whole.max(-1), 1e-5)
    close(received, whole.reshape(3, 2, n_q, n_k).sum((1, 2), dtype=np.float64), 1e-5)
    close(heat, whole.reshape(heads, 4, 4, 8, n_k // 8).max((2, 4)), 1e-5)
    close(share.heads, whole[..., :30].sum((1, 2), dtype=np.float64) / n_q, 1e-5)
    assert list(zip(*map(list, cells[:3]), strict=True)) == list(zip(*np.nonzero(whole > 0.5), strict=True))
    count = int((whole > 1e-4).sum())
    assert {int(h) for h in np.nonzero(whole > 1e-4)[0]} == set(range(heads))
    with pytest.raises(LimitError, match=rf"^{count} cells have a weight above 0\.0001, expected at most {count - 1}:"):
        A.cells(1e-4, count - 1)
    assert len(A.cells(1e-4, count).head) == count
