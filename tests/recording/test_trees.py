"""Expression trees as JSON: the same tree comes back, and whatever else comes is refused with one sentence."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from regard.algebra.expression import COMPARISONS, SMOOTH, Expression, combine, constant, gather, variable
from regard.errors import RecordingError
from regard.recording.trees import DEEPEST, MOST, gathered_anew, read, written
from tests.recording.test_round_trip import same_tree

TABLES = [np.arange(5), np.arange(6.0).reshape(2, 3), np.array([True, False]), np.arange(3, dtype=np.uint8)]
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans()).map(constant)
LEAVES = st.one_of(st.sampled_from(["score", "b", "h", "q", "k", "row"]).map(variable), NUMBERS)
INTEGERS = st.sampled_from(["b", "h", "q", "k", "row"]).map(variable)


def larger(below: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def condition(x: Expression) -> Expression:
        return x if x.kind == "bool" else x < 1

    binary = ("add", "sub", "mul", "div", "floordiv", "mod", "minimum", "maximum", *COMPARISONS)
    return st.one_of(
        st.builds(combine, st.sampled_from(binary), below, below),
        st.builds(combine, st.sampled_from(("neg", "abs", *SMOOTH)), below),
        st.builds(lambda a, b: condition(a) & ~condition(b) | condition(b), below, below),
        st.builds(lambda a, b, c: regard.algebra.where(condition(a), b, c), below, below, below),
        st.builds(lambda t, i, j: gather(t, [i, j][: t.ndim]), st.sampled_from(TABLES), INTEGERS, INTEGERS),
        st.builds(lambda x: x + x * x, below),  # a part that is used more than once
    )


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.recursive(LEAVES, larger, max_leaves=20))
def test_the_same_tree_comes_back(tree: Expression) -> None:
    arrays: dict[str, Any] = {}
    nodes = json.loads(json.dumps(written(tree, arrays), allow_nan=False))
    again = read(nodes, arrays, "a tree")
    assert again.kind == tree.kind
    same_tree(again, tree)
    same_tree(gathered_anew(tree, np.copy), tree)


def test_arrays_are_kept_once() -> None:
    table = np.arange(9.0)
    arrays: dict[str, Any] = {}
    tree = gather(table, [variable("q")]) - gather(table[:], [variable("k")]) + gather(table + 1, [variable("k")])
    written(tree, arrays)
    assert list(arrays) == ["0", "1"]
    written(tree, arrays)
    assert list(arrays) == ["0", "1"]


ARRAYS = {"0": np.arange(3), "1": np.zeros((2, 0)), "2": np.zeros((2, 2)), "q": np.arange(3)}
LONG = 10**400


@pytest.mark.parametrize(
    "nodes",
    [
        None, {}, [], "variable", [[]], [None], [5], [["variable"]], [["variable", "x"]], [["variable", 5]],
        [["variable", "q", 0]], [["variable", ["q"]]], [["constant"]], [["constant", None]], [["constant", [1]]],
        [["constant", LONG]], [["constant", 1.5]], [["constant", "1.5"]], [["constant", "0x1p99999"]],
        [["constant", "abc"]], [["add", 0, 1]], [["variable", "q"], ["add", 0]], [["variable", "q"], ["add", 0, 0, 0]],
        [["variable", "q"], ["add", 0, 1]], [["variable", "q"], ["add", 0, 2]], [["variable", "q"], ["add", -1, 0]],
        [["variable", "q"], ["add", True, 0]], [["variable", "q"], ["add", 0.0, 0]], [["variable", "q"], ["and", 0, 0]],
        [["variable", "q"], ["pow", 0, 0]], [["variable", "q"], ["__class__", 0, 0]], [["variable", "q"], ["not", 0]],
        [["variable", "q"], ["where", 0, 0, 0]], [["variable", "q"], ["gather", "0"]],
        [["variable", "q"], ["gather", "9", 0]], [["variable", "q"], ["gather", "q", 0]],
        [["variable", "q"], ["gather", "0", 0, 0]], [["variable", "q"], ["gather", "1", 0, 0]],
        [["variable", "score"], ["gather", "0", 0]], [["variable", "q"], ["gather", 0, 0]],
        [["variable", "q"], ["gather", "../x", 0]], [["variable", "q"], ["gather", "0", LONG]],
        [["variable", "q"], [["add"], 0, 0]],
    ],
    ids=lambda x: repr(x)[:40],
)  # fmt: skip
def test_what_is_no_tree_is_refused(nodes: Any) -> None:
    with pytest.raises(RecordingError):
        read(nodes, ARRAYS, "a tree")


def test_deep_and_long_trees() -> None:
    deep = [["variable", "q"], *(["neg", i] for i in range(DEEPEST - 1))]
    assert read(deep, {}, "a tree").kind == "int"
    with pytest.raises(RecordingError, match="nodes deep"):
        read([*deep, ["neg", len(deep) - 1]], {}, "a tree")
    with pytest.raises(RecordingError, match="expected a list"):
        read([["variable", "q"]] * (MOST + 1), {}, "a tree")
    tree = variable("q")
    for _ in range(DEEPEST + 5):
        tree = tree + 1
    with pytest.raises(RecordingError, match=f"expected at most {MOST}, {DEEPEST} deep: put numbers into an array"):
        written(tree, {})
    doubled = variable("q")
    for _ in range(300):  # 2^300 paths, 301 nodes
        doubled = doubled + doubled
    same_tree(read(written(doubled, {}), {}, "a tree"), doubled)


def test_numbers_keep_their_bits() -> None:
    for x in (0.1, -0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308):
        again = read(json.loads(json.dumps(written(constant(x), {}))), {}, "a number")
        assert again.payload.hex() == x.hex()
    assert math.isnan(read(written(constant(math.nan), {}), {}, "a number").payload)
