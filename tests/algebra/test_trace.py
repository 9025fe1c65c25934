"""Python functions become trees, and what cannot be traced is refused in one sentence."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import pytest
import torch

import regard
from regard.algebra import exp, log, maximum, minimum, sigmoid, tanh, where
from regard.algebra.evaluate import evaluate
from regard.algebra.tracing import trace
from regard.errors import TraceError

SLOPES = np.array([0.5, 0.25, 0.125])
Q, K = np.arange(-6, 7)[:, None], np.arange(9)


def of_mask(function):
    return trace(function, "b h q k")


def of_score(function):
    return trace(function, "score b h q k")


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda b, h, q, k: q + 1, "(q + 1)"),
        (lambda b, h, q, k: 1 + q, "(1 + q)"),
        (lambda b, h, q, k: q - k, "(q - k)"),
        (lambda b, h, q, k: 2 - q, "(2 - q)"),
        (lambda b, h, q, k: 3 * q * k, "((3 * q) * k)"),
        (lambda b, h, q, k: q / 2, "(q / 2)"),
        (lambda b, h, q, k: 2 / q, "(2 / q)"),
        (lambda b, h, q, k: q // 2, "(q // 2)"),
        (lambda b, h, q, k: 100 // k, "(100 // k)"),
        (lambda b, h, q, k: q % 2, "(q % 2)"),
        (lambda b, h, q, k: 100 % k, "(100 % k)"),
        (lambda b, h, q, k: q**3, "((q * q) * q)"),
        (lambda b, h, q, k: -q, "neg(q)"),
        (lambda b, h, q, k: +q, "q"),
        (lambda b, h, q, k: abs(q), "abs(q)"),
        (lambda b, h, q, k: q < k, "(q < k)"),
        (lambda b, h, q, k: q <= 3, "(q <= 3)"),
        (lambda b, h, q, k: q > k, "(k < q)"),
        (lambda b, h, q, k: q - 3 >= 0, "(0 <= (q - 3))"),
        (lambda b, h, q, k: q == k, "(q == k)"),
        (lambda b, h, q, k: q != 0, "(q != 0)"),
        (lambda b, h, q, k: (q < k) & (h == 0), "((q < k) & (h == 0))"),
        (lambda b, h, q, k: True & (q < k), "(True & (q < k))"),
        (lambda b, h, q, k: (q < k) | False, "((q < k) | False)"),
        (lambda b, h, q, k: ~(q < k), "not((q < k))"),
        (lambda b, h, q, k: where(q < k, 1, 0.5), "where((q < k), 1, 0.5)"),
        (lambda b, h, q, k: minimum(q, maximum(k, 0)), "minimum(q, maximum(k, 0))"),
        (lambda b, h, q, k: exp(log(tanh(sigmoid(q)))), "exp(log(tanh(sigmoid(q))))"),
    ],
)
def test_operators(function, shown):
    assert repr(of_mask(function)) == shown


def test_kinds_follow_from_the_operands():
    assert of_mask(lambda b, h, q, k: q // 2).kind == "int"
    assert of_mask(lambda b, h, q, k: q // 2.0).kind == "float"
    assert of_mask(lambda b, h, q, k: q / 2).kind == "float"
    assert of_mask(lambda b, h, q, k: (q < k) + (k < 2)).kind == "int"
    assert of_mask(lambda b, h, q, k: where(q < k, 1, 0.5)).kind == "float"
    assert of_mask(lambda b, h, q, k: where(q < k, h == 0, h == 1)).kind == "bool"
    assert of_score(lambda score, b, h, q, k: score * (q < k)).kind == "float"


@pytest.mark.parametrize("divisor", [-3, -1, 1, 3, 7])
def test_whole_division_rounds_down_as_in_python(divisor):
    quotient = evaluate(of_mask(lambda b, h, q, k: q // divisor), q=Q)
    left = evaluate(of_mask(lambda b, h, q, k: q % divisor), q=Q)
    assert quotient.ravel().tolist() == [x // divisor for x in Q.ravel().tolist()]
    assert left.ravel().tolist() == [x % divisor for x in Q.ravel().tolist()]


def test_whole_division_by_zero_is_zero():
    assert not evaluate(of_mask(lambda b, h, q, k: q // 0), q=Q).any()
    assert not evaluate(of_mask(lambda b, h, q, k: q % 0), q=Q).any()
    np.testing.assert_array_equal(evaluate(of_mask(lambda b, h, q, k: q % (k - 4)), q=Q, k=np.array([4])), 0 * Q)


def test_floats_divide_by_zero_as_ieee_says():
    by_zero = evaluate(of_score(lambda score, b, h, q, k: score // 0.0), score=np.array([-1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(by_zero, [-np.inf, np.nan, np.inf])
    assert np.isnan(evaluate(of_score(lambda score, b, h, q, k: score % 0.0), score=np.array([1.0]))).all()


# Arrays.


def slope(h):
    return SLOPES[h]


def test_arrays_of_closures_modules_defaults_and_helpers():
    table = np.arange(12).reshape(3, 4)
    shift = 3

    def twice(x):
        return 2 * table[x, shift]

    def with_defaults(b, h, q, k, own=table, *, other=SLOPES):
        return own[h, k] * other[h]

    shown = "array[3, 4][h, 3]"
    assert repr(of_mask(lambda b, h, q, k: twice(h) < q)) == f"((2 * {shown}) < q)"
    assert repr(of_mask(lambda b, h, q, k: slope(h) * SLOPES[b])) == "(array[3][h] * array[3][b])"
    assert repr(of_mask(with_defaults)) == "(array[3, 4][h, k] * array[3][h])"
    assert repr(of_mask(lambda b, h, q, k: table[1][k] + table[:, 2][h])) == "(array[4][k] + array[3][h])"
    assert repr(of_mask(lambda b, h, q, k: (table + 1)[b, k])) == "array[3, 4][b, k]"


def test_a_helper_that_calls_itself():
    def power(x, n):
        return SLOPES[0] if n == 0 else x * power(x, n - 1)

    assert repr(of_mask(lambda b, h, q, k: power(q, 2))) == "(q * (q * 0.5))"


def test_the_function_itself_is_left_alone():
    table = np.arange(5)

    def function(b, h, q, k):
        return table[k] < q

    of_mask(function)
    assert type(table) is np.ndarray
    assert function(0, 0, 3, 2)
    assert type(SLOPES) is np.ndarray


class Holder:
    def __init__(self):
        self.slopes = SLOPES

    def of_module(self, b, h, q, k):
        return SLOPES[h] * q

    def of_self(self, b, h, q, k):
        return self.slopes[h] * q

    def __call__(self, b, h, q, k):
        return SLOPES[h] * q


def test_methods_see_arrays_of_their_module():
    assert repr(of_mask(Holder().of_module)) == "(array[3][h] * q)"


def test_callable_objects_see_arrays_of_their_module():
    assert repr(of_mask(Holder())) == "(array[3][h] * q)"


def test_partial_functions_see_arrays_of_their_module():
    def function(factor, b, h, q, k):
        return SLOPES[h] * factor

    assert repr(of_mask(functools.partial(function, 3))) == "(array[3][h] * 3)"


@pytest.mark.parametrize("module", [None, "torch_tables", "numpy_like"])
def test_helpers_of_modules_with_other_names(module):
    scope = {"table": SLOPES, "__name__": module}
    exec("def helper(h): return table[h]", scope)
    helper = scope["helper"]
    assert repr(of_mask(lambda b, h, q, k: helper(h))) == "array[3][h]"


def test_torch_tensors():
    table, number = torch.arange(6.0).reshape(2, 3), torch.tensor(2.5)
    x = of_score(lambda score, b, h, q, k: number * score + table[h, k] - score * number)
    assert repr(x) == "(((2.5 * score) + array[2, 3][h, k]) - (score * 2.5))"
    half = torch.arange(3).to(torch.bfloat16)
    assert evaluate(of_mask(lambda b, h, q, k: half[k]), k=K[:3]).tolist() == [0, 1, 2]


def test_functions_of_numpy_and_torch():
    def numpy_form(score, b, h, q, k):
        x = np.where(np.logical_and(np.greater_equal(q, k), np.not_equal(k, 3)), score, -np.inf)
        x = np.minimum(np.maximum(x, -5.0), 5) + np.exp(score) + np.log(score) + np.tanh(score)
        return x + np.abs(np.subtract(q, k)) + np.float64(2) * np.floor_divide(q, 2) + np.remainder(q, np.int64(3))

    def torch_form(score, b, h, q, k):
        x = torch.where(torch.logical_and(torch.ge(q, k), torch.ne(k, 3)), score, -float("inf"))
        x = torch.minimum(torch.maximum(x, torch.tensor(-5.0)), torch.tensor(5)) + torch.exp(score)
        x = x + torch.log(score) + torch.tanh(score)
        return x + torch.abs(torch.sub(q, k)) + 2.0 * torch.floor_divide(q, 2) + torch.remainder(q, 3)

    def our_form(score, b, h, q, k):
        x = where((q >= k) & (k != 3), score, -np.inf)
        x = minimum(maximum(x, -5.0), 5) + exp(score) + log(score) + tanh(score)
        return x + abs(q - k) + 2.0 * (q // 2) + q % 3

    assert repr(of_score(numpy_form)) == repr(of_score(our_form)) == repr(of_score(torch_form))
    assert repr(of_score(lambda score, b, h, q, k: torch.sigmoid(score))) == "sigmoid(score)"


def test_an_index_outside_its_array_is_moved_to_the_nearest_end():
    one, two = np.array([10, 11, 12]), np.arange(6).reshape(2, 3)
    q = np.array([-9, -1, 0, 2, 3, 99])
    assert evaluate(of_mask(lambda b, h, q, k: one[q]), q=q).tolist() == [10, 10, 10, 12, 12, 12]
    assert evaluate(of_mask(lambda b, h, q, k: two[q, q - 1]), q=q).tolist() == [0, 0, 0, 4, 5, 5]


# What cannot be traced.

TRUTH = (
    "the truth of {} was asked while tracing, where it has none yet: "
    "use where(), & and | in place of if, and, or, and chained comparisons"
)
NUMBER = (
    "the number behind {} was asked while tracing, where it has none yet: use the functions of "
    "regard.algebra, and index arrays that the function itself closes over"
)
TRACEABLE = "abs, minimum, maximum, where, exp, log, tanh, sigmoid, arithmetic, comparisons, and & | ~"
EMPTY, COMPLEX = np.zeros(0), np.zeros(3, complex)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda b, h, q, k: k if q > k else q, TRUTH.format("(k < q)")),
        (lambda b, h, q, k: 0 <= q - k < 5, TRUTH.format("(0 <= (q - k))")),
        (lambda b, h, q, k: q > k and k > 2, TRUTH.format("(k < q)")),
        (lambda b, h, q, k: not q, TRUTH.format("q")),
        (lambda b, h, q, k: min(q, k), TRUTH.format("(k < q)")),
        (lambda b, h, q, k: int(q) < 3, NUMBER.format("q")),
        (lambda b, h, q, k: float(q - k) < 3, NUMBER.format("(q - k)")),
        (lambda b, h, q, k: [1, 2, 3][h] < q, NUMBER.format("h")),
        (lambda b, h, q, k: sum(range(q)) < k, NUMBER.format("q")),
        (lambda b, h, q, k: np.array([q, k]), NUMBER.format("q")),
        (lambda b, h, q, k: np.sin(q), f"numpy.sin cannot be traced: the functions that can are {TRACEABLE}"),
        (lambda b, h, q, k: np.clip(q, 0, 3), f"numpy.clip cannot be traced: the functions that can are {TRACEABLE}"),
        (lambda b, h, q, k: torch.relu(q), f"torch.relu cannot be traced: the functions that can are {TRACEABLE}"),
        (lambda b, h, q, k: SLOPES[h, q], "an array of shape (3,) was indexed with 2 indices, expected 1"),
        (
            lambda b, h, q, k: SLOPES[q / 2],
            "an array of shape (3,) was indexed with a float: index it with //, or with b, h, q, k",
        ),
        (
            lambda b, h, q, k: q < SLOPES,
            "an array of shape (3,) came where a number was expected: index it with b, h, q or k",
        ),
        (
            lambda b, h, q, k: SLOPES[None][:, h],
            "a slice came where a number or a traced value was expected: index arrays with b, h, q or k",
        ),
        (lambda b, h, q, k: EMPTY[h], "an array of shape (0,) has no elements to gather: give it at least one"),
        (
            lambda b, h, q, k: COMPLEX[h],
            "an array of dtype complex128 cannot be gathered from: convert it to a number or a boolean",
        ),
        (lambda b, h, q, k: q & 1, "& came with a number, expected conditions: compare first, as in (q - k < 8)"),
        (lambda b, h, q, k: ~q, "~ came with a number, expected conditions: compare first, as in (q - k < 8)"),
        (
            lambda b, h, q, k: where(q, 1, 2),
            "where() was given q, expected a condition first: compare it with something",
        ),
        (lambda b, h, q, k: q < 2**63, f"the number {2**63} does not fit 64 bits: use a smaller one, or a float"),
        (
            lambda b, h, q, k: q**0.5,
            "the power is 0.5, expected a whole number from 1 to 8: write it with exp and log",
        ),
        (
            lambda b, h, q, k: None,
            "a NoneType came where a number or a traced value was expected: index arrays with b, h, q or k",
        ),
    ],
)
def test_what_cannot_be_traced_gets_one_sentence(function, message):
    with pytest.raises(TraceError) as caught:
        of_mask(function)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "function",
    [
        lambda b, h, q, k: round(q) < 3,
        lambda b, h, q, k: divmod(q, 3)[0] < k,
        lambda b, h, q, k: 2**q < k,
        lambda b, h, q, k: q << 1 < k,
        lambda b, h, q, k: (q < k) ^ (k < 3),
    ],
    ids=["round", "divmod", "power", "shift", "xor"],
)
def test_other_operators_are_refused_as_a_trace_error_or_traced(function):
    with contextlib.suppress(TraceError):
        of_mask(function)


def test_masks_must_be_conditions_and_modifiers_numbers():
    with pytest.raises(TraceError) as caught:
        regard.mask(lambda b, h, q, k: q - k)
    assert str(caught.value) == "the mask function gave (q - k), expected a condition: compare it with something"
    x = np.zeros((3, 2))
    with pytest.raises(TraceError) as caught:
        regard.attention(x, x, x, modify=lambda score, b, h, q, k: q < k)
    assert str(caught.value) == "the modifier gave (q < k), a condition, expected a score: choose with where()"


def test_a_whole_number_that_can_leave_64_bits_is_refused():
    x = np.zeros((3, 2))
    with pytest.raises(TraceError, match="expected at most 64 bits: use smaller numbers or floats"):
        regard.attention(x, x, x, mask=regard.mask(lambda b, h, q, k: q * 2**62 < k * 2**62 * 4))
