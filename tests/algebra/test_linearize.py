"""A tree as a list of steps: equal steps once, numbers and arrays apart, the same text in every process."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import regard
from regard.algebra.evaluate import evaluate
from regard.algebra.expression import gather, substitute, variable
from regard.algebra.program import linearize
from regard.algebra.tracing import trace


def program(function, names="b h q k"):
    return linearize(trace(function, names))


def operations(of):
    return [node.operation for node in of.nodes]


def test_equal_subtrees_are_one_step():
    made = program(lambda b, h, q, k: ((q - k) % 7 < 3) & ((q - k) % 7 > 1))
    assert operations(made).count("sub") == 1
    # Two numbers are two arguments, though they are equal here: another time they may not be.
    assert operations(made).count("mod") == 2
    assert made.constants == (7, 3, 1, 7)


def test_equal_gathers_are_one_step():
    table, half = np.arange(5.0), np.arange(5, dtype=np.float16)
    made = program(lambda b, h, q, k: table[h] * table[h] + table[k] < 1)
    assert operations(made).count("gather") == 2
    assert len(made.arrays) == 1
    assert len(program(lambda b, h, q, k: half[q] < half[k]).arrays) == 1
    same = linearize(gather(table, [variable("h")]) + gather(table, [variable("h")]))
    assert len(same.arrays) == 1


def test_one_array_of_ids_is_one_argument():
    assert len(linearize(regard.segments(np.arange(9)).condition).arrays) == 1
    assert len(linearize(regard.segments(np.arange(9), np.arange(9)).condition).arrays) == 2


def test_different_steps_stay_apart():
    one, two = np.arange(5), np.arange(5)
    assert len(program(lambda b, h, q, k: one[h] < two[h]).arrays) == 2
    assert operations(program(lambda b, h, q, k: (q - k) * (k - q))).count("sub") == 2
    zeros = program(lambda b, h, q, k: 1 / (q * 0.0) < 1 / (q * -0.0))
    assert list(map(str, zeros.constants)) == ["1", "0.0", "1", "-0.0"]
    kinds = program(lambda b, h, q, k: (q + 1 < k + 1.0) & (q == True))  # noqa: E712  # a constant condition is meant
    assert list(map(str, kinds.constants)) == ["1", "1.0", "True"]


def test_operands_come_before_their_users():
    made = program(lambda b, h, q, k: ((q - k) % 7 < 3) | (abs(q) == k))
    assert all(operand < i for i, node in enumerate(made.nodes) for operand in node.operands)
    assert made.roots == (len(made.nodes) - 1,)


def test_steps_know_the_variables_below_them():
    made = program(lambda score, b, h, q, k: score * (q - k) + h, "score b h q k")
    assert made.nodes[made.roots[0]].depends == {"score", "q", "k", "h"}
    assert {n.operation: n.depends for n in made.nodes}["sub"] == {"q", "k"}


def test_several_roots_share_their_steps():
    x = trace(lambda b, h, q, k: q - k, "b h q k")
    made = linearize(x * 2, x < 3)
    assert len(made.roots) == 2
    assert operations(made).count("sub") == 1


def shape(number, other, table):
    return program(lambda b, h, q, k: (q - k) % number + table[k] < other).shape


def test_the_shape_does_not_know_numbers_and_arrays():
    table = np.arange(5)
    first = shape(7, 3, table)
    assert hash(first) == hash(shape(9, 2, np.arange(77)))
    assert first == shape(9, 2, np.arange(77))
    assert first != shape(9, 2.5, table)
    assert first != shape(9, 2, table.astype(np.int32))


def test_the_shape_does_not_know_which_numbers_are_equal():
    table = np.arange(5)
    assert shape(7, 3, table) == shape(3, 3, table)
    shapes = {linearize(regard.window(left, right).condition).shape for left, right in ((2, 1), (0, 0), (5, 5))}
    assert len(shapes) == 1


def test_substitution_keeps_the_rest():
    outer = trace(lambda score, b, h, q, k: score * score + q, "score b h q k")
    inner = trace(lambda score, b, h, q, k: score - k, "score b h q k")
    assert repr(substitute(outer, score=inner)) == "(((score - k) * (score - k)) + q)"
    assert substitute(outer, h=inner) is outer
    value = evaluate(substitute(outer, score=inner), score=5.0, q=2, k=3)
    assert value == 6


WRITE = """
import numpy as np, regard
from regard.algebra.program import linearize
from regard.algebra.tracing import trace
table = np.arange(6).reshape(2, 3)
mask = regard.causal & regard.segments(np.arange(9)) & regard.mask(lambda b, h, q, k: table[h, q - k] * b % 5 < k)
modify = trace(lambda score, b, h, q, k: score * (q - k) + table[h, k], "score b h q k")
print(repr(linearize(mask.condition).shape), repr(linearize(modify).shape), regard.window(3).key)
"""


def test_the_text_of_a_shape_is_the_same_in_every_process():
    """The cache on disk is keyed by it."""
    texts = set()
    for seed in ("0", "1", "12345"):
        run = subprocess.run(
            [sys.executable, "-c", WRITE], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        texts.add(run.stdout)
    assert len(texts) == 1
    assert " object at 0x" not in texts.pop()
