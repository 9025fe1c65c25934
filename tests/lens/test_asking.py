"""Asking: progress, questions of one's own, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import DtypeError, LimitError, QuestionError, ShapeError
from regard.lens import (
    Cells,
    Entropy,
    Heatmap,
    Peak,
    Received,
    Top,
    Visible,
    put,
)
from tests.attention.judge import normal, same_bits
from tests.lens.asked import flat
from tests.matrix.built import close, kind


def test_progress_rises_to_one() -> None:
    q = normal((1, 30_000, 64))
    for n, asked in (
        (30_000, [Entropy(), Received(), Heatmap(16)]),
        (5000, [Cells(0.01), Visible()]),
        (5000, [Entropy(), Largest()]),
    ):
        told: list[float] = []
        A = regard.matrix(q[:, :n], q[:, :n], mask=regard.window(2000))
        A.ask(*asked, progress=told.append)  # type: ignore[arg-type]
        assert told == sorted(told), asked
        assert told[0] >= 0
        assert [share for share in told if 0.01 < share < 0.99], asked
        assert told[-1] == pytest.approx(1), asked
    A = regard.matrix(q[:, :50], q[:, :50], v=q[:, :50])
    for method in (
        A.entropy, A.effective, A.peak, A.top, A.received, A.by_distance, A.distance, A.cells, A.summary, A.output,
        lambda progress: A.heatmap(4, progress=progress), lambda progress: A.mass(regard.causal, progress=progress),
        lambda progress: A.between(np.zeros(50, int), progress=progress),
    ):  # fmt: skip
        told = []
        method(progress=told.append)
        assert told == sorted(told)
        assert all(0 <= share <= 1.001 for share in told)


def test_progress_may_stop_it() -> None:
    class Enough(Exception):
        pass

    shares: list[float] = []

    def stop(share: float) -> None:
        shares.append(share)
        if share > 0.05:
            raise Enough

    q = normal((1, 40_000, 64))
    A = regard.matrix(q, q, mask=regard.window(2000))
    with pytest.raises(Enough):
        A.ask(Entropy(), Received(), progress=stop)
    assert shares[-1] < 0.9, "it was stopped when all was done"
    again = A.ask(Entropy(), Received())
    for x, y in zip(again, regard.matrix(q, q, mask=regard.window(2000)).ask(Entropy(), Received()), strict=True):
        same_bits(x, y)


# A question of one's own.


class Largest:
    """The largest weight of each row, written by somebody who knows create, update, merge and finalize only."""

    def create(self, layout: Any) -> Any:
        return layout.zeros(layout.n_q)

    def update(self, state: Any, block: Any) -> Any:
        return put(block.xp, state, block.first_row, block.xp.max(block.weights, axis=-1))

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def finalize(self, state: Any, layout: Any) -> Any:
        return state


class Half:
    """Two of the four methods."""

    def create(self, layout: Any) -> Any:
        return 0.0

    def update(self, state: Any, block: Any) -> Any:
        return state + block.weights.sum()


class Sum(Half):
    """An answer that lost its axis of heads."""

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def finalize(self, state: Any, layout: Any) -> Any:
        return state


class Witness:
    """What it is handed: which rows, and whether hidden cells and positions are where they should be."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []

    def create(self, layout: Any) -> Any:
        return layout.zeros(layout.n_q), layout.zeros(layout.n_q, layout.n_k)

    def update(self, state: Any, block: Any) -> Any:
        self.blocks.append(block)
        xp, first = block.xp, block.first_row
        sums = xp.sum(block.wide, axis=-1)
        return put(xp, state[0], first, sums), put(xp, state[1], first, xp.astype(block.seen(), xp.float64))

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    def finalize(self, state: Any, layout: Any) -> Any:
        return state


@pytest.mark.parametrize("name", ["f32", "grouped, padding, f64", "hidden by a modifier", "bias, sinks, bf16",
                                  "leading axes and an array", "single, more queries than keys"])  # fmt: skip
def test_a_question_of_ones_own(name: str) -> None:
    built = kind(name)
    f, witness = flat(built), Witness()
    largest, entropy, (sums, seen), peak = built.A.ask(Largest(), Entropy(), witness, Peak())
    close(largest, f.a.max(-1).reshape(built.weights.shape[:-1]), f.rounding, 1e-12)
    close(largest, peak.weights, f.rounding)
    close(sums, built.weights.sum(-1), f.rounding, 1e-12)
    close(entropy, built.A.entropy(), 0)
    assert (seen == built.visible).all()
    rows: dict[int, list[int]] = {}
    for block in witness.blocks:
        heads = block.layout.heads
        assert block.weights.shape == (heads, len(block.rows), f.n_k)
        assert block.visible is None or block.visible.shape == block.weights.shape
        assert not block.weights[~block.seen()].any()
        assert (block.q == f.q[block.rows.start : block.rows.stop]).all()
        assert (block.layout.group, block.layout.each) == (f.group, f.each)
        for h in range(block.layout.first_head, block.layout.first_head + heads):
            rows.setdefault(h, []).extend(block.rows)
    assert rows == {h: list(range(f.n_q)) for h in range(f.heads)}


# What is refused.

Q = normal((2, 5, 8))
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "top 0": (lambda A: Top(0), ValueError, "k is 0, expected a whole number of keys, 1 or more"),
    "top True": (lambda A: Top(True), ValueError, "k is True, expected a whole number of keys, 1 or more"),
    "top of a fraction": (lambda A: A.top(2.5), ValueError, "k is 2.5, expected a whole number of keys, 1 or more"),
    "per": (lambda A: A.received(per="key"), ValueError, "per is 'key', expected 'sum' or 'mean' or 'visible'"),
    "group": (lambda A: A.received(group="q"), ValueError, "group is 'q', expected None or 'kv'"),
    "kind of pool": (
        lambda A: A.received(pool=("sum", 3)),
        ValueError,
        "the kind of pool is 'sum', expected 'mean' or 'max'",
    ),
    "width of pool": (
        lambda A: A.received(pool=("mean", 4)),
        ValueError,
        "the width of pool is 4, expected an odd number of keys, 1 or more",
    ),
    "by distance per": (lambda A: A.by_distance("mean"), ValueError, "per is 'mean', expected 'sum' or 'visible'"),
    "between per": (lambda A: A.between([0] * 5, per="key"), ValueError, "per is 'key', expected 'query' or 'sum'"),
    "groups": (
        lambda A: A.between([0] * 4),
        ShapeError,
        "query_groups has shape (4,) and dtype int64, expected 5 whole numbers, or (start, stop) spans",
    ),
    "groups of keys": (
        lambda A: A.between([0] * 5, [0.5] * 5),
        ShapeError,
        "key_groups has shape (5,) and dtype float64, expected 5 whole numbers, or (start, stop) spans",
    ),
    "spans beyond": (
        lambda A: A.between([(0, 3), (3, 6)]),
        ShapeError,
        "query_groups has the span (3, 6), expected one within 0 and 5",
    ),
    "spans that overlap": (
        lambda A: A.between([(0, 3), (2, 5)]),
        ShapeError,
        "query_groups has spans that overlap at (2, 5), expected each place in one",
    ),
    "heatmap 0": (lambda A: A.heatmap(0), ValueError, "rows is 0, expected a whole number of bins, 1 or more"),
    "heatmap columns": (
        lambda A: A.heatmap(3, 1.5),
        ValueError,
        "columns is 1.5, expected a whole number of bins, 1 or more",
    ),
    "heatmap pool": (
        lambda A: A.heatmap(3, pool="median"),
        ValueError,
        "pool is 'median', expected 'mean' or 'max' or 'sum'",
    ),
    "heatmap of": (lambda A: A.heatmap(3, of="seen"), ValueError, "of is 'seen', expected 'visible' or 'all'"),
    "region": (
        lambda A: A.heatmap(3, region=(0, 6, 0, 5)),
        ShapeError,
        "region is (0, 6, 0, 5), expected (first row, end, first key, end) within 5 × 5",
    ),
    "region backwards": (
        lambda A: A.heatmap(3, region=(3, 2, 0, 5)),
        ShapeError,
        "region is (3, 2, 0, 5), expected (first row, end, first key, end) within 5 × 5",
    ),
    "where of floats": (
        lambda A: A.mass(np.ones((5, 5))),
        DtypeError,
        "where has shape (5, 5) and dtype float64, expected a mask, booleans, or (query, key) pairs",
    ),
    "a pair outside": (
        lambda A: A.mass([(0, 1), (5, 0)]),
        ShapeError,
        "where has a pair outside 5 × 5, expected queries and keys within it",
    ),
    "a pair below": (
        lambda A: A.mass([(0, -1)]),
        ShapeError,
        "where has a pair outside 5 × 5, expected queries and keys within it",
    ),
    "where of another shape": (
        lambda A: A.mass(np.ones((5, 6), bool)),
        ShapeError,
        "the boolean array of where is for 6 keys, but there are 5: make them agree",
    ),
    "where for other heads": (
        lambda A: A.mass(np.ones((3, 5, 5), bool)),
        ShapeError,
        "the boolean array of where is for 3 heads, but there are 2: make them agree",
    ),
    "where of other ids": (
        lambda A: A.mass(regard.segments([0] * 6)),
        ShapeError,
        "ids of where is for 6 keys, but there are 5: make them agree",
    ),
    "above": (lambda A: A.cells(-0.5), ValueError, "above is -0.5, expected a weight, 0 or more"),
    "above NaN": (lambda A: A.cells(float("nan")), ValueError, "above is nan, expected a weight, 0 or more"),
    "above a word": (lambda A: A.cells("x"), ValueError, "above is 'x', expected a weight, 0 or more"),
    "cells limit": (lambda A: A.cells(limit="x"), ValueError, "limit is 'x', expected a whole number of cells"),
    "k a bool": (lambda A: A.top(True), ValueError, "k is True, expected a whole number of keys, 1 or more"),
    "pool a word": (
        lambda A: A.received(pool="mean"),
        ValueError,
        "pool is 'mean', expected a kind and a width: pass ('mean', 5) or ('max', 5)",
    ),
    "pool a number": (
        lambda A: A.received(pool=3),
        ValueError,
        "pool is 3, expected a kind and a width: pass ('mean', 5) or ('max', 5)",
    ),
    "width a bool": (
        lambda A: A.received(pool=("mean", True)),
        ValueError,
        "the width of pool is True, expected an odd number of keys, 1 or more",
    ),
    **{
        f"region {region!r}": (
            lambda A, region=region: A.heatmap(3, region=region),
            ShapeError,
            f"region is {region!r}, expected four whole numbers: pass (first row, end, first key, end)",
        )
        for region in ((0, 3), 5, (0, 3, 0, "x"), (0, 3.5, 0, 2))
    },
    "a class": (
        lambda A: A.ask(Entropy),
        QuestionError,
        "a question came as the class Entropy, expected an instance: write Entropy()",
    ),
    "a word": (
        lambda A: A.ask("entropy"),
        QuestionError,
        "a question came as 'entropy', expected an instance such as Entropy(): see regard.lens for all",
    ),
    "a list": (
        lambda A: A.ask([Entropy()]),
        QuestionError,
        "a question came as a list, expected one by one: write ask(*questions)",
    ),
    "half a question": (
        lambda A: A.ask(Half()),
        QuestionError,
        "a question came as a Half without merge, finalize, expected the methods create, update, merge, finalize: "
        "write them all",
    ),
    "without heads": (
        lambda A: A.ask(Sum()),
        QuestionError,
        "Sum gave an answer of shape () for 2 heads, expected a first axis of heads: keep it in finalize",
    ),
    "without heads, of a view": (
        lambda A: A.mean_heads().ask(Sum()),
        QuestionError,
        "Sum gave an answer of shape () for 1 head, expected a first axis of heads: keep it in finalize",
    ),
    "progress": (
        lambda A: A.entropy(progress=1),
        DtypeError,
        "progress is 1, expected a function of the share that is done: leave it out, or pass one",
    ),
    "progress of compare": (
        lambda A: A.compare(A, progress=1),
        DtypeError,
        "progress is 1, expected a function of the share that is done: leave it out, or pass one",
    ),
    "too many cells": (
        lambda A: A.cells(0.0, limit=49),
        LimitError,
        "50 cells have a weight above 0, expected at most 49: raise above, or limit",
    ),
}


def test_numbers_of_numpy() -> None:
    A = regard.matrix(Q, Q)
    for one, other in (
        (A.top(np.int64(2)), A.top(2)),
        (A.top(np.uint8(2)).keys, A.top(2).keys),
        (A.heatmap(np.int64(3), np.int32(2)), A.heatmap(3, 2)),
        (A.heatmap(2, region=np.array([0, 4, 1, 5])), A.heatmap(2, region=(0, 4, 1, 5))),
        (A.received(pool=("mean", np.int64(3))), A.received(pool=("mean", 3))),
        (A.compare(A).heatmap(np.int64(2)), A.compare(A).heatmap(2)),
    ):
        assert np.array_equal(one, other)
    assert Top(np.int64(3)) == Top(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    wrong, error, words = REFUSED[name]
    with pytest.raises(error) as caught:
        wrong(regard.matrix(Q, Q))
    assert str(caught.value) == words


def test_queries_that_are_not_there() -> None:
    A = regard.matrix(Q, Q)
    for queries in ([5], [-6], np.ones(4, bool), [0.5], slice(None, None, 0)):
        with pytest.raises((ShapeError, ValueError)):
            A.received(queries)
    assert not A.received([]).any()
