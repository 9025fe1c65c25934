"""What is said of wrong input: what came, what was expected, what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import DtypeError, LimitError, ShapeError, TokenError
from tests.trace.traced import dog, numbers, projections

X, ONE, TWO = numbers(4, 3), projections((2, 2, 3)), projections((4, 4, 6))
E = np.eye(2)
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "nothing": ({}, DtypeError, "trace got no x and no w_q and no w_k and no w_v, expected x, w_q, w_k and w_v: "
                "pass them, or start from projections with trace(q=…, k=…, v=…)"),
    "no w_k": ({"x": X, "w_q": ONE["w_q"], "w_v": ONE["w_v"]}, DtypeError,
               "trace got no w_k, expected x, w_q, w_k and w_v: pass them, or start from projections with "
               "trace(q=…, k=…, v=…)"),
    "both": ({"x": X, **ONE, "q": E}, DtypeError, "trace got x, w_q, w_k, w_v beside q, expected one start: pass x, "
             "w_q, w_k and w_v, or q, k and v"),
    "no v": ({"q": E, "k": E}, DtypeError, "trace got no v, expected q, k and v: pass all three"),
    "words": ({"x": ["cat"], **ONE}, DtypeError, "x has dtype <U3, expected numbers: convert it to float64"),
    "ragged": ({"x": [[1.0], [1.0, 2.0]], **ONE}, DtypeError, None),
    "flat": ({"x": X[0], **ONE}, ShapeError,
             "x has shape (3,), expected (…, n, d_model): one row for each token"),
    "w_q": ({"x": X[:, :2], **ONE}, ShapeError,
            "w_q has shape (3, 2), expected (2, columns): a row for each column of x"),
    "context": ({"x": X, "context": X[:, :2], **ONE}, ShapeError,
                "w_k has shape (3, 2), expected (2, columns): a row for each column of context"),
    "b_v": ({"x": X, **ONE, "b_v": [1.0]}, ShapeError,
            "b_v has shape (1,), expected (3,): a number for each column of w_v"),
    "heads": ({"x": X, **ONE, "heads": 3}, ShapeError,
              "w_q has 2 columns, expected a multiple of heads = 3: each head takes as many"),
    "no heads": ({"x": X, **ONE, "heads": 0}, ShapeError,
                 "heads is 0, expected a whole number from 1: leave it out for one head"),
    "width": ({"x": X, **projections((2, 3, 3))}, ShapeError,
              "w_k has 3 columns, expected a multiple of d = 2, the width of a query: keys are as wide as queries"),
    "shared": ({"x": X, **projections((6, 4, 4)), "heads": 3}, ShapeError,
               "w_k makes 2 key heads of width 2, expected a number that divides heads = 3: each key head serves as "
               "many query heads"),
    "values": ({"x": X, **projections((4, 4, 3)), "heads": 2}, ShapeError,
               "w_v has 3 columns, expected a multiple of 2, the number of key heads: each key head has one value "
               "head"),
    "w_o": ({"x": X, **TWO, "heads": 2, "w_o": E}, ShapeError,
            "w_o has shape (2, 2), expected (6, columns): a row for each column of the merged heads"),
    "b_o": ({"x": X, **ONE, "b_o": [1.0]}, ShapeError,
            "b_o came without w_o, expected both: pass the output projection that it belongs to"),
    "heads of q": ({"q": E, "k": E, "v": E, "heads": 2}, ShapeError,
                   "heads is 2, but q has shape (2, 2), expected (…, heads, n, d): leave heads out, for q, k and v "
                   "have their axis of heads"),
    "k": ({"q": E, "k": np.eye(3), "v": np.eye(3)}, ShapeError,
          "q has d = 2 and k has d = 3, expected the same: check their last axes"),
    "mask": ({"x": X, **ONE, "mask": np.eye(4)}, DtypeError,
             "mask has dtype float64, expected bool (True = may attend): pass numbers to add as bias"),
    "mask of a function": ({"x": X, **ONE, "mask": lambda b, h, q, k: k <= q}, DtypeError,
                           "mask is a function, expected a mask: wrap it as regard.mask(function)"),
    "bias": ({"x": X, **ONE, "bias": np.eye(4) > 0}, DtypeError,
             "bias has dtype bool, expected numbers: pass a boolean array as mask"),
    "tokens": ({"x": X, **ONE, "tokens": ["cat"]}, ShapeError,
               "tokens has 1 token, but there are 4 queries: give each query one"),
    "scale": ({"x": X, **ONE, "scale": "1"}, DtypeError,
              "scale is '1', expected a real number: leave it out for 1/√d"),
    "huge": ({"q": np.zeros((4096, 1)), "k": np.zeros((4096, 1)), "v": np.zeros((4096, 1))}, LimitError,
             "this trace would keep 16777216 weights at every step, expected at most 4194304: use regard.matrix(q, k), "
             "which builds none of them"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_one_sentence(name: str) -> None:
    given, kind, words = WRONG[name]
    with pytest.raises(kind) as found:
        regard.trace(**given)
    assert isinstance(found.value, regard.RegardError)
    assert words is None or str(found.value) == words
    assert "\n" not in str(found.value)


def test_of_gradients() -> None:
    with pytest.raises(ShapeError) as found:
        dog().grad([1.0, 2.0])
    assert str(found.value) == (
        "d_output has shape (2,), expected (3, 2), that of trace.output: "
        "pass the gradient of a loss with respect to it"
    )  # fmt: skip


def test_of_showing() -> None:
    with pytest.raises(ValueError, match=r"^digits is 7, expected 2, 3 or 4: leave it out for as many as are needed$"):
        dog().show(digits=7)
    with pytest.raises(ValueError, match=r"^theme is 'pink', expected 'auto', 'light' or 'dark'$"):
        dog().diagram(theme="pink")
    with pytest.raises(IndexError, match=r"^row is 3, expected 0 to 2: there are 3 queries$"):
        dog().to_markdown(row=3)
    with pytest.raises(IndexError, match=r"^head is 1, expected 0 to 0: there is 1 head$"):
        dog().diagram(head=1)
    with pytest.raises(TokenError):
        dog().show(row="mouse")


def test_of_steps_that_are_not_there() -> None:
    known = "q, k, v, scores, scaled, weights, output"
    with pytest.raises(AttributeError, match=f"^this Trace has no 'merged', expected one of its steps: {known}$"):
        _ = dog().merged
    with pytest.raises(KeyError, match=f"there is no step 'merged', expected one of {known}"):
        _ = dog()["merged"]
