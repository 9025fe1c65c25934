"""Compiled code computes exactly what an expression means, on lanes of 64 and 32 bits, alone and within attention."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest

import regard
from regard import reference
from regard.algebra.evaluate import evaluate
from regard.algebra.expression import substitute, variable
from regard.algebra.program import linearize
from regard.algebra.tracing import trace
from regard.kernels import compile as compiler
from regard.kernels.arguments import whole_bits
from tests.algebra.native import Native, narrow, wide
from tests.algebra.writing import TRACED, Writer, plain, traced

CELLS = {
    "b": np.arange(3)[:, None, None, None],
    "h": np.arange(2)[:, None, None],
    "q": np.arange(-5, 44)[:, None],
    "k": np.arange(47),
}


def numbers(n_q=13, n_k=29, d=4, heads=2, batch=2):
    """q, k and v."""
    rng = np.random.default_rng([n_q, n_k])
    return [rng.normal(size=(batch, heads, n, d)) for n in (n_q, n_k, n_k)]


def check(mask=None, modify=None, n_q=13, n_k=29, tolerance=1e-12):
    """Attention against the reference, whose mask and modifier are the evaluated trees."""
    q, k, v = numbers(n_q, n_k)
    seen = changed = None
    if mask is not None:
        rows = np.arange(n_q)[:, None]

        def seen(b, h, q, k):
            value = evaluate(mask.condition, b=b, h=h, q=q, k=k, row=rows)
            return np.broadcast_to(value, np.broadcast_shapes(b.shape, h.shape, q.shape, k.shape))

    if modify is not None:
        tree = variable("score")
        for function in [modify] if callable(modify) else modify:
            tree = substitute(trace(function, "score b h q k"), score=tree)

        def changed(score, b, h, q, k):
            return evaluate(tree, score=score, b=b, h=h, q=q, k=k)

    got = regard.attention(q, k, v, mask=mask, modify=modify, return_lse=True)
    expected = reference.attention(q, k, v, mask=seen, modify=changed, return_lse=True)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seed", range(4))
def test_random_functions_on_lanes(seed):
    choose = random.Random(seed)
    writer = Writer(choose, wild=seed % 2 == 1, big=True)
    texts = [choose.choice([writer.condition, writer.whole, writer.real])(2 + i % 2) for i in range(30)]
    native = Native([traced(text) for text in texts], wide)
    for i, text in enumerate(texts):
        value, expected = native.exact(i, **CELLS), np.asarray(plain(text, **CELLS))
        np.testing.assert_array_equal(value, np.broadcast_to(expected, value.shape), err_msg=text)


def test_random_functions_on_narrow_lanes():
    choose, chosen = random.Random(9), []
    writer = Writer(choose)
    rectangle = {name: (int(x.min()), int(x.max())) for name, x in CELLS.items()}
    while len(chosen) < 40:
        text = choose.choice([writer.condition, writer.whole])(3)
        expression = traced(text)
        if whole_bits([linearize(expression)], rectangle) == 32:
            chosen.append((text, expression))
    native = Native([expression for _, expression in chosen], narrow)
    for i, (text, _) in enumerate(chosen):
        value, expected = native.exact(i, **CELLS), np.asarray(plain(text, **CELLS))
        np.testing.assert_array_equal(value, np.broadcast_to(expected, value.shape), err_msg=text)


def test_smooth_functions_on_lanes():
    choose = random.Random(5)
    writer = Writer(choose, wild=True)
    names = ("exp", "log", "tanh", "sigmoid")
    texts = [f"{names[i % 4]}({writer.real(2)} * {choose.choice([0.01, 1, 0.2])})" for i in range(40)]
    native = Native([traced(text) for text in texts])
    for i, text in enumerate(texts):
        value, expected = native.exact(i, **CELLS), np.asarray(plain(text, **CELLS))
        np.testing.assert_allclose(value, np.broadcast_to(expected, value.shape), rtol=4e-15, atol=1e-300, err_msg=text)


@pytest.mark.parametrize("seed", range(12))
def test_random_masks_in_attention(seed):
    choose = random.Random(100 + seed)
    text = Writer(choose, wild=seed % 3 == 0, big=seed % 2 == 0).condition(3)
    function = eval(f"lambda b, h, q, k: {text}", {"__name__": "writing", **TRACED})
    check(mask=regard.mask(function))


@pytest.mark.parametrize("seed", range(8))
def test_random_modifiers_in_attention(seed):
    choose = random.Random(200 + seed)
    text = f"tanh({Writer(choose, smooth=seed % 2 == 0, score=True).real(2)} * 0.1) * 3.0 + score"
    function = eval(f"lambda score, b, h, q, k: {text}", {"__name__": "writing", **TRACED})
    check(modify=function, mask=regard.window(20) if seed % 2 else None, tolerance=1e-11)


# Lanes.


def last_plan():
    return list(compiler._kernels)[-1]


@pytest.mark.parametrize(
    ("function", "bits"),
    [
        (lambda b, h, q, k: (q * 3 + k) % 7 < 3, 32),
        (lambda b, h, q, k: q * 3_000_000_000 % 7 < 3, 64),
        (lambda b, h, q, k: (q * 70_000 * 70_000 + k) // -11 % 5 != 0, 64),
        (lambda b, h, q, k: (q - k) * (q + k) // (k - 5) > -2, 32),
        (lambda b, h, q, k: q + 2**31 - 40 < 2**31 - 20 + k - 10, 64),
    ],
)
def test_lanes_are_as_wide_as_the_problem_needs(function, bits):
    check(mask=regard.mask(function))
    assert last_plan().whole_bits == bits


def test_whole_division_at_the_ends_of_32_bits():
    top = 2**31 - 1
    expressions = [traced(f"whole_quotient(k * {top} + {c}, q)") for c in (0, -1, 1)]
    expressions += [traced(f"whole_remainder(k * {top} + {c}, q)") for c in (0, -1, 1)]
    native = Native(expressions, narrow)
    q = np.array([-top, -65537, -7, -2, -1, 0, 1, 2, 3, 46341, top])[:, None]
    # k * top + c has to stay inside 32 bits itself.
    for i, expression in enumerate(expressions):
        c = (0, -1, 1)[i % 3]
        k = np.array([k for k in (-1, 0, 1) if -top <= k * top + c <= top])
        np.testing.assert_array_equal(native.exact(i, q=q, k=k), evaluate(expression, q=q, k=k))


def test_whole_division_at_the_ends_of_64_bits():
    table = np.array([-(2**63) + 1, -(2**62), -(2**53) - 1, -1, 0, 1, 2**53 + 1, 2**62 - 1, 2**63 - 1])
    quotient = trace(lambda b, h, q, k: table[k] // table[q], "b h q k")
    left = trace(lambda b, h, q, k: table[k] % table[q], "b h q k")
    native = Native([quotient, left])
    q, k = np.arange(9)[:, None], np.arange(9)
    for i, function in enumerate((lambda x, y: x // y, lambda x, y: x % y)):
        expected = [[function(x, y) if y else 0 for x in table.tolist()] for y in table.tolist()]
        assert native.exact(i, q=q, k=k).tolist() == expected


# Arrays of every dtype.

WHOLE = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES = [*WHOLE, "bool", "float16", "float32", "float64"]


def values_of(dtype, size):
    rng = np.random.default_rng(3)
    if dtype == "bool":
        return rng.random(size) < 0.5
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -(2**62)), min(info.max, 2**62), size, dtype=dtype, endpoint=True)
    return (rng.normal(size=size) * 10).astype(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_arrays_of_every_dtype(dtype):
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    one, two = values_of(dtype, 37), values_of(dtype, (3, 31))
    middle = float(np.median(one.astype(float)))
    functions = [
        lambda b, h, q, k: one[k],
        lambda b, h, q, k: two[h, q - k],
        lambda b, h, q, k: where_below(one[q], middle) == (two[b, k] == two[b, q]),
    ]
    expressions = [trace(f, "b h q k") for f in functions]
    native = Native(expressions)
    for i, x in enumerate(expressions):
        np.testing.assert_array_equal(native.exact(i, **CELLS), np.broadcast_to(evaluate(x, **CELLS), (3, 2, 49, 47)))
    kind = np.float64 if np.dtype(dtype).kind not in "iub" else np.int64
    expected = one.astype(kind)[np.clip(CELLS["k"], 0, 36)]
    np.testing.assert_array_equal(evaluate(expressions[0], **CELLS).astype(kind), expected)


def where_below(x, limit):
    return x * 1.0 < limit


@pytest.mark.parametrize("dtype", ["int8", "uint32", "bool", "float16", "float32"])
def test_arrays_in_attention(dtype):
    table = values_of(dtype, (2, 29))
    middle = float(np.median(table.astype(float)))
    check(
        mask=regard.mask(lambda b, h, q, k: table[b, k] * 1.0 <= middle),
        modify=lambda score, b, h, q, k: score + table[h, k] * 1e-9,
    )


def test_big_unsigned_numbers_are_kept_or_refused():
    """2⁶³ and more do not fit the lanes: never silently another number."""
    table = np.array([2**64 - 1, 1], np.uint64)
    try:
        x = trace(lambda b, h, q, k: table[k] > 5, "b h q k")
    except regard.RegardError:
        return
    assert evaluate(x, k=np.arange(2)).tolist() == [True, False]


# Numbers, tables and lengths are arguments.


@pytest.fixture
def compiled_once():
    """How many kernels a function adds, after its first call."""

    def added(function, *cases):
        function(*cases[0])
        before = len(compiler._kernels)
        for case in cases[1:]:
            function(*case)
        return len(compiler._kernels) - before

    return added


def test_a_new_number_is_no_new_kernel(compiled_once):
    def run(left, right):
        check(mask=regard.window(left, right))

    assert compiled_once(run, (2, 1), (3, 4), (9, 2), (100, 30)) == 0


def test_numbers_that_happen_to_be_equal_are_no_new_kernel(compiled_once):
    def windows(left, right):
        check(mask=regard.window(left, right))

    def periods(period, first):
        check(mask=regard.mask(lambda b, h, q, k: (q - k) % period != first))

    assert compiled_once(windows, (2, 1), (0, 0)) == 0
    assert compiled_once(periods, (7, 3), (3, 3), (0, 0)) == 0


def test_a_new_table_is_no_new_kernel(compiled_once):
    def run(ids):
        check(mask=regard.segments(ids))

    rng = np.random.default_rng(0)
    assert compiled_once(run, *((np.sort(rng.integers(0, n, 29)),) for n in (3, 5, 29))) == 0

    def documents(ids):
        check(mask=regard.mask(lambda b, h, q, k: ids[q] == ids[k]))

    assert compiled_once(documents, *((rng.integers(0, n, size),) for n, size in ((3, 29), (5, 29), (2, 40)))) == 0


def test_a_new_slope_or_cap_is_no_new_kernel(compiled_once):
    def run(cap, slopes):
        check(modify=[regard.softcap(cap), regard.alibi(slopes)])

    assert compiled_once(run, (3.0, [0.5, 0.25]), (1.0, [0.5, 0.5]), (0.5, [0.0, 2.0])) == 0


def test_a_new_length_is_no_new_kernel(compiled_once):
    def run(n_q, n_k):
        check(mask=regard.causal & regard.padding([n_k, n_k // 2]), n_q=n_q, n_k=n_k)

    assert compiled_once(run, (13, 29), (12, 29), (13, 31), (16, 64)) == 0
