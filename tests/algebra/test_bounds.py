"""Bounds are sound, in Python and compiled: what must hold holds all over a rectangle, what cannot hold, nowhere."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from regard.algebra.bounds import bound
from regard.algebra.evaluate import evaluate
from regard.algebra.expression import Expression, maximum, minimum, where
from regard.algebra.tracing import trace
from tests.algebra.native import Native
from tests.algebra.writing import Writer, traced

INF, NAN = np.inf, np.nan


def sound(interval, values) -> bool:
    """Whether an interval covers the values; a NaN among them must have made it unbounded or NaN."""
    low, high = interval
    values = np.asarray(values)
    if values.dtype == bool:
        return not (low and not values.all()) and not (not high and values.any())
    if np.isnan(values).any() and math.isfinite(low) and math.isfinite(high):
        return False
    numbers = values[~np.isnan(values)]
    return not numbers.size or not (numbers.min() < low or numbers.max() > high)  # a NaN bounds nothing


def cells(rectangle):
    """The cells of a rectangle, an axis for each variable."""
    names = list(rectangle)
    ranges = (np.arange(low, high + 1) for low, high in rectangle.values())
    grids = np.meshgrid(*ranges, indexing="ij", sparse=True)
    return dict(zip(names, grids, strict=True))


def some_rectangle(choose):
    """Rectangles of one head, inside the tables, across their ends, beyond them; single cells among them."""
    b, h = choose.randint(0, 2), choose.randint(0, 1)
    q, k = choose.randint(-10, 640), choose.randint(0, 640)
    across, along = choose.choice([0, 1, 5, 15, 40]), choose.choice([0, 1, 5, 31, 60])
    return {"b": (b, b), "h": (h, h), "q": (q, q + across), "k": (k, k + along)}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.randoms(use_true_random=False), st.booleans(), st.booleans(), st.integers(1, 3))
def test_random_functions(choose, smooth, wild, depth):
    writer = Writer(choose, smooth=smooth, wild=wild, big=True)
    text = choose.choice([writer.condition, writer.whole, writer.real])(depth)
    expression = traced(text)
    for _ in range(6):
        rectangle = some_rectangle(choose)
        interval = bound(expression, **rectangle)
        assert sound(interval, evaluate(expression, **cells(rectangle))), (text, rectangle, interval)


@pytest.mark.parametrize("seed", range(4))
def test_random_functions_compiled(seed):
    """The same rules as machine code, for many functions in one module."""
    choose = random.Random(seed)
    writer = Writer(choose, smooth=seed > 1, wild=seed % 2 == 1, big=True)
    texts = [choose.choice([writer.condition, writer.whole, writer.real])(2 + i % 2) for i in range(25)]
    expressions = [traced(text) for text in texts]
    native = Native(expressions)
    for i, (text, expression) in enumerate(zip(texts, expressions, strict=True)):
        for _ in range(25):
            rectangle = some_rectangle(choose)
            interval = native.bound(i, **rectangle)
            assert sound(interval, evaluate(expression, **cells(rectangle))), (text, rectangle, interval)


IDS = np.sort(np.random.default_rng(1).integers(0, 7, (3, 97)), axis=1)
MASKS = {
    "causal": regard.causal,
    "causal, first": regard.causal(align="first"),
    "window": regard.window(5),
    "window, both sides": regard.window(3, 4, align="first"),
    "window of one": regard.window(0),
    "padding": regard.padding([0, 13, 97]),
    "padding, one length": regard.padding(40),
    "segments": regard.segments(IDS[0]),
    "segments of each sequence": regard.segments(IDS),
    "segments of queries and keys": regard.segments(IDS[:, 40:], IDS),
    "prefix": regard.prefix(11),
    "prefix of each sequence": regard.prefix(np.array([1, 50, 96])),
    "function": regard.mask(lambda b, h, q, k: (q - k) % 7 < 2 + h),
    "array": regard.mask(lambda b, h, q, k: k >= 0) & (np.random.default_rng(2).random((57, 97)) < 0.9),
}
MASKS |= {
    "not causal": ~MASKS["causal"],
    "causal window": MASKS["causal"] & ~MASKS["window"],
    "causal or prefix": MASKS["causal"] | MASKS["prefix"],
    "causal segments": MASKS["causal"] & MASKS["segments of each sequence"] & MASKS["padding"],
    "mixed": (MASKS["function"] | ~MASKS["padding"]) & ~(MASKS["prefix"] & MASKS["causal, first"]),
}


def mask_rectangles():
    choose, n_q, n_k = random.Random(3), 57, 97
    for _ in range(120):
        b, h = choose.randrange(3), choose.randrange(2)
        row, k = choose.randrange(n_q), choose.randrange(n_k)
        last = choose.randrange(row, min(n_q, row + choose.choice([1, 8, 57])))
        row_range, k_range = (row, last), (k, choose.randrange(k, min(n_k, k + choose.choice([1, 8, 97]))))
        offset = n_k - n_q
        yield {"b": (b, b), "h": (h, h), "row": row_range, "q": (row + offset, last + offset), "k": k_range}


def mask_cells(rectangle):
    """Cells of a rectangle in which a query's position follows its row."""
    row = np.arange(rectangle["row"][0], rectangle["row"][1] + 1)[:, None]
    k = np.arange(rectangle["k"][0], rectangle["k"][1] + 1)
    return {"b": rectangle["b"][0], "h": rectangle["h"][0], "row": row, "q": row + 97 - 57, "k": k}


@pytest.mark.parametrize("name", MASKS)
def test_every_mask(name):
    condition = MASKS[name].condition
    for rectangle in mask_rectangles():
        interval = bound(condition, **rectangle)
        assert sound(interval, evaluate(condition, **mask_cells(rectangle))), (rectangle, interval)


def test_every_mask_compiled():
    native = Native([mask.condition for mask in MASKS.values()])
    for i, (name, mask) in enumerate(MASKS.items()):
        for rectangle in mask_rectangles():
            interval = native.bound(i, **rectangle)
            assert sound(interval, evaluate(mask.condition, **mask_cells(rectangle))), (name, rectangle, interval)


def test_simple_masks_are_decided_where_they_can_be():
    """Sound is not enough: what makes skipping pay is that plain rectangles get a plain answer."""
    empty, full, mixed = (False, False), (True, True), (False, True)
    below, above, across = ({"q": q, "k": k} for q, k in (((64, 95), (0, 31)), ((0, 31), (64, 95)), ((0, 31), (0, 31))))
    expected = {"causal": (full, empty, mixed), "window": (empty, empty, mixed), "not causal": (empty, full, mixed)}
    for name, answers in expected.items():
        assert tuple(bound(MASKS[name].condition, **x) for x in (below, above, across)) == answers
    documents = trace(lambda b, h, q, k: q // 64 == k // 64, "b h q k")
    assert bound(documents, q=(64, 127), k=(64, 127)) == full
    assert bound(documents, q=(64, 127), k=(128, 191)) == empty
    assert bound(documents, q=(64, 127), k=(100, 191)) == mixed


# Corners where NaN, infinity or the length of a number could slip through.


def of(function) -> Expression:
    return trace(function, "b h q k")


ENDS = np.array([INF, -INF, 1.0, 2.0])
HUGE = np.array([1e300, 1e299])
TABLE = np.array([0.0, 1.0, NAN, 3.0])
CORNERS = {
    "NaN of inf - inf behind a clamp": of(lambda b, h, q, k: minimum(maximum(ENDS[k] - ENDS[k], 0.0), 1.0) >= 0),
    "NaN of a sum behind a clamp": of(lambda b, h, q, k: maximum(minimum(ENDS[k] + ENDS[3 - k - 2], 1.0), 0.0) <= 1),
    "NaN of an array behind a clamp": of(lambda b, h, q, k: minimum(maximum(TABLE[k], 0.0), 1.0) <= 1),
    "NaN compared": of(lambda b, h, q, k: ~(TABLE[k] < 99)),
    "NaN unequal": of(lambda b, h, q, k: TABLE[k] != TABLE[k]),
    "NaN chosen": of(lambda b, h, q, k: where(TABLE[k] < 2, 1, 0) == 1),
    "remainder of an infinite quotient": of(lambda b, h, q, k: HUGE[k] % 1e-300 >= -1e299),
    "a product of rounded huge numbers": of(lambda b, h, q, k: (HUGE[k] // 1) * (HUGE[k] // 1) > 3),
    "zero times infinity": of(lambda b, h, q, k: (ENDS[k] * (q - q)) * 0.0 <= 0),
    "infinity over infinity": of(lambda b, h, q, k: ENDS[k] / ENDS[k] > 0),
    "division across zero": of(lambda b, h, q, k: 1 / (k - 2) < 0.6),
    "an array of conditions by a condition": of(lambda b, h, q, k: TABLE[q < k] < 0.5),
    "a condition in arithmetic": of(lambda b, h, q, k: (q < k) + (k < 2) * 3 - (q == k) <= 1),
    "conditions compared": of(lambda b, h, q, k: (q < k) == (k < 2)),
    "quotients of whole numbers by what passes 0": of(lambda b, h, q, k: (q * 5 + 3) // (k - 2) >= -3),
    "remainders by what passes 0": of(lambda b, h, q, k: (q * 5 + 3) % (k - 2) >= 0),
    "remainders by what is below 0": of(lambda b, h, q, k: (q * 5 + 3) % (k - 9) <= 0),
    "remainders within a period": of(lambda b, h, q, k: (q + 20) % 24 >= 20),
}


def corner_rectangles():
    for k in ((0, 3), (0, 1), (2, 3), (3, 3), (1, 2)):
        for q in ((0, 3), (2, 2), (-4, 1)):
            yield {"b": (0, 0), "h": (0, 0), "q": q, "k": k}


@pytest.mark.parametrize("name", CORNERS)
@pytest.mark.parametrize("form", ["python", "compiled"])
def test_corners(name, form):
    expression = CORNERS[name]
    native = Native([expression]) if form == "compiled" else None
    for rectangle in corner_rectangles():
        interval = native.bound(0, **rectangle) if native else bound(expression, **rectangle)
        assert sound(interval, evaluate(expression, **cells(rectangle))), (rectangle, interval)
