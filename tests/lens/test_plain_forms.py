"""The plain form of every question: in any cuts, on any array library, and beside what a matrix answers."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy
import array_api_compat.torch
import numpy as np
import pytest
import torch

from regard.lens import (
    over,
)
from tests.lens.asked import EXACT, NAMES, Flat, agree, everything, flat, flattened, in_cuts, parts, wanted
from tests.matrix.built import close, kind

XP: Any = array_api_compat.numpy


def small(name: str = "mixed") -> Flat:
    """Weights to cut up: 4 query heads in 2 groups, some cells hidden, a row that is empty, one that is NaN, ties."""
    rng = np.random.default_rng(5)
    visible = rng.random((4, 19, 13)) < 0.7
    visible[1, 4] = False
    a = np.where(visible, rng.integers(0, 6, visible.shape), 0).astype(np.float64)
    total = a.sum(-1, keepdims=True)
    a = a / np.where(total == 0, 1, total)
    if name == "with NaN":
        a[2, 7, visible[2, 7]] = np.nan
    return Flat(a, visible, np.arange(19) - 6, np.arange(13), 2, 2, 1e-15)


@pytest.mark.parametrize("kind_of", ["mixed", "with NaN"])
@pytest.mark.parametrize("name", NAMES)
def test_plain_forms_in_other_cuts(name: str, kind_of: str) -> None:
    f = small(kind_of)
    question = everything(f)[name]
    whole = in_cuts(question, f, [], XP)
    agree(name, question, whole, wanted(question, f), f, 50)
    exact = name.startswith(EXACT)
    for cuts in ([10], [1, 2, 3], [18], list(range(1, 19)), [4, 5, 12]):
        for leftwards in (False, True):
            again = in_cuts(question, f, cuts, XP, leftwards)
            for x, y in zip(parts(again), parts(whole), strict=True):
                close(x, y, 0 if exact else 1e-13, 0 if exact else 1e-15, f"{name} in {cuts}")


@pytest.mark.parametrize("kind_of", ["mixed", "with NaN"])
@pytest.mark.parametrize("name", NAMES)
def test_plain_forms_on_tensors(name: str, kind_of: str) -> None:
    f = small(kind_of)
    question = everything(f)[name]
    for cuts in ([], [3, 11]):
        got = in_cuts(question, f, cuts, array_api_compat.torch)
        assert all(isinstance(x, torch.Tensor) for x in parts(got))
        agree(name, question, tuple(x.numpy() for x in got) if isinstance(got, tuple) else got.numpy(),
              wanted(question, f), f, 50)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_over_an_array_that_is_there(dtype: str) -> None:
    f = small()
    f.each, f.group = 4, 1  # it knows no groups
    f.rounding = 1e-6 if dtype == "float32" else 1e-14
    weights = f.a.astype(dtype)
    for name, question in everything(f).items():
        for rows in (0, 1, 5, 100):
            got = over(question, weights, f.visible, offset=-6, rows=rows)
            agree(name, question, got, wanted(question, f), f)
        got = over(question, torch.from_numpy(weights), torch.from_numpy(f.visible), offset=-6, rows=7)
        agree(name, question, tuple(map(np.asarray, parts(got))) if isinstance(got, tuple) else np.asarray(got),
              wanted(question, f), f)  # fmt: skip
    f.visible = np.ones_like(f.visible)
    for name, question in everything(f).items():  # all is visible
        agree(name, question, over(question, weights, offset=-6, rows=4), wanted(question, f), f)


@pytest.mark.parametrize("name", ["f32", "modified", "bias of keys, f16", "single, more queries than keys", "long"])
def test_the_matrix_answers_as_its_plain_forms_do(name: str) -> None:
    built = kind(name)
    f = flat(built)
    asked = everything(f)
    offset = int(f.q[0])
    f.group = 1  # plain forms over an array know none
    names = [n for n in NAMES[1::3] if "kv" not in n]
    answers = built.A.ask(*(asked[n] for n in names))
    weights = np.asarray(built.A).reshape(f.a.shape)
    for n, answer in zip(names, answers, strict=True):
        plain = over(asked[n], weights, f.visible, offset=offset)
        want = tuple(map(np.asarray, plain)) if isinstance(plain, tuple) else plain
        agree(n, asked[n], flattened(asked[n], answer, built.A.readable().front), want, f)
