"""What wrong input is told, word for word: what came, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import regard
from regard.errors import (
    DeviceError,
    DtypeError,
    GradientError,
    LimitError,
    QuestionError,
    RegardError,
    ShapeError,
    TokenError,
    TraceError,
)

FLOATS = "float32, float64, bfloat16 or float16"
ALIKE = "expected both with an axis of heads or both without: add one with"


def a(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


X, T = a(2, 5, 4), torch.ones(2, 5, 4)


def call(q: Any = X, k: Any = X, v: Any = X, **options: Any) -> Any:
    return regard.attention(q, k, v, **options)


def tensors(**options: Any) -> Any:
    return regard.attention(T, T, T, **options)


def read_only() -> Any:
    out = a(2, 5, 4)
    out.flags.writeable = False
    return out


def needs_grad(*shape: int) -> Any:
    return torch.ones(*shape, requires_grad=True)


class Elsewhere:
    """An array on a GPU, as DLPack describes one."""

    def __dlpack__(self) -> Any:
        raise BufferError("not here")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


Case = tuple[Callable[[], Any], type[Exception], str]

SHAPES: dict[str, Case] = {
    "d": (
        lambda: call(k=a(2, 5, 3)),
        ShapeError,
        "q has d = 4 and k has d = 3, expected the same: check their last axes",
    ),
    "n of v": (
        lambda: call(v=a(2, 6, 4)),
        ShapeError,
        "k has 5 rows and v has 6, expected the same: each key has one value",
    ),
    "heads of v": (
        lambda: call(v=a(1, 5, 4)),
        ShapeError,
        "k has 2 heads and v has 1, expected the same: each key has one value",
    ),
    "heads": (
        lambda: call(q=a(3, 5, 4)),
        ShapeError,
        "q has 3 heads and k has 2, expected a multiple: each key head serves as many query heads",
    ),
    "no key heads": (
        lambda: call(k=a(0, 5, 4), v=a(0, 5, 4)),
        ShapeError,
        "q has 2 heads and k has 0, expected a multiple: each key head serves as many query heads",
    ),
    "leading": (
        lambda: call(a(2, 2, 5, 4), a(3, 2, 5, 4), a(3, 2, 5, 4)),
        ShapeError,
        "the leading axes are q (2,), k (3,), v (3,), expected shapes that broadcast: make them equal or 1",
    ),
    "one axis": (
        lambda: call(q=a(4)),
        ShapeError,
        "q has shape (4,), expected (…, heads, n, d) or (n, d): give it both axes",
    ),
    "no axis": (
        lambda: call(k=np.array(1, np.float32)),
        ShapeError,
        "k has shape (), expected (…, heads, n, d) or (n, d): give it both axes",
    ),
    "k without heads": (
        lambda: call(k=a(5, 4), v=a(5, 4)),
        ShapeError,
        f"q has shape (2, 5, 4) and k has (5, 4), {ALIKE} k[None]",
    ),
    "q without heads": (
        lambda: call(q=a(5, 4)),
        ShapeError,
        f"q has shape (5, 4) and k has (2, 5, 4), {ALIKE} q[None]",
    ),
    "v without heads": (
        lambda: call(v=a(5, 4)),
        ShapeError,
        f"q has shape (2, 5, 4) and v has (5, 4), {ALIKE} v[None]",
    ),
    "out": (
        lambda: call(out=a(5, 4)),
        ShapeError,
        "out has shape (5, 4), expected (2, 5, 4): make it so, or leave it out",
    ),
}

KINDS: dict[str, Case] = {
    "k of another dtype": (
        lambda: call(k=a(2, 5, 4, dtype=np.float64)),
        DtypeError,
        "k has dtype float64 and q has float32, expected the same: convert one of them",
    ),
    "v of another dtype": (
        lambda: call(a(2, 5, 4, dtype=ml_dtypes.bfloat16), a(2, 5, 4, dtype=ml_dtypes.bfloat16)),
        DtypeError,
        "v has dtype float32 and q has bfloat16, expected the same: convert one of them",
    ),
    **{
        f"q of {name}": (
            lambda name=name: call(q=a(2, 5, 4).astype(name)),  # type: ignore[misc]
            DtypeError,
            f"q has dtype {shown}, expected {FLOATS}: convert it with astype",
        )
        for name, shown in (
            ("int64", "int64"),
            ("complex128", "complex128"),
            ("object", "object"),
            ("U1", "<U1"),
            ("longdouble", np.dtype(np.longdouble).name),
        )
    },
    "q of bool": (lambda: call(q=X > 0), DtypeError, f"q has dtype bool, expected {FLOATS}: convert it"),
    "v of int64": (
        lambda: call(v=X.astype(np.int64)),
        DtypeError,
        f"v has dtype int64, expected {FLOATS}: convert it with astype",
    ),
    "a list": (lambda: call(q=X.tolist()), DtypeError, "q is a list, expected an array: pass numpy.asarray(q)"),
    "a list for v": (lambda: call(v=[[1.0]]), DtypeError, "v is a list, expected an array: pass numpy.asarray(v)"),
    "integers of torch": (
        lambda: call(T.int(), T, T),
        DtypeError,
        f"q has dtype torch.int32, expected {FLOATS}: convert it with q.to(…)",
    ),
    "float8 of torch": (
        lambda: call(T.to(torch.float8_e4m3fn), T, T),
        DtypeError,
        f"q has dtype torch.float8_e4m3fn, expected {FLOATS}: convert it with q.to(…)",
    ),
    "sparse": (
        lambda: call(T.to_sparse(), T, T),
        DtypeError,
        "q has layout torch.sparse_coo, expected a dense tensor: call q.to_dense()",
    ),
    "on a GPU": (
        lambda: call(k=Elsewhere()),
        DeviceError,
        "k is not in the memory of the CPU, expected a CPU array: copy it there first",
    ),
    "out of another dtype": (
        lambda: call(out=a(2, 5, 4, dtype=np.float64)),
        DtypeError,
        "out has dtype float64, expected float32: make it so, or leave it out",
    ),
    "out read-only": (
        lambda: call(out=read_only()),
        DtypeError,
        "out is read-only, expected an array to write to: pass a copy",
    ),
    **{
        f"{name} requires grad": (
            lambda i=i: call(*(needs_grad(2, 5, 4) if i == j else T for j in range(3))),  # type: ignore[misc]
            GradientError,
            f"{name} requires grad, but gradients are not computed here yet; "
            f"call under torch.no_grad() or pass {name}.detach()",
        )
        for i, name in enumerate("qkv")
    },
    "bias requires grad": (
        lambda: tensors(bias=needs_grad(5, 5)),
        GradientError,
        "bias requires grad, but gradients are not computed here yet; call under torch.no_grad() or pass bias.detach()",
    ),
}

TERMS: dict[str, Case] = {
    "mask of another shape": (
        lambda: call(mask=np.ones((5, 6), bool)),
        ShapeError,
        "mask has shape (5, 6), expected one that broadcasts to (2, 5, 5): its last axes are queries and keys",
    ),
    "mask with heads for one head": (
        lambda: call(a(5, 4), a(5, 4), a(5, 4), mask=np.ones((2, 5, 5), bool)),
        ShapeError,
        "mask has shape (2, 5, 5), expected one that broadcasts to (5, 5): its last axes are queries and keys",
    ),
    "mask of floats": (
        lambda: call(mask=a(5, 5)),
        DtypeError,
        "mask has dtype float32, expected bool (True = may attend): pass numbers to add as bias",
    ),
    "mask a function": (
        lambda: call(mask=lambda b, h, q, k: k <= q),
        DtypeError,
        "mask is a function, expected a mask: wrap it as regard.mask(function)",
    ),
    "mask a word": (
        lambda: call(mask="causal"),
        DtypeError,
        "mask is 'causal', expected a mask such as regard.causal, or a boolean array: pass one of them",
    ),
    "mask a bool": (
        lambda: call(mask=True),
        DtypeError,
        "mask is True, expected a mask such as regard.causal, or a boolean array: pass one of them",
    ),
    "bias of another shape": (
        lambda: call(bias=a(5, 6)),
        ShapeError,
        "bias has shape (5, 6), expected one that broadcasts to (2, 5, 5): its last axes are queries and keys",
    ),
    "bias of bool": (
        lambda: call(bias=np.ones((5, 5), bool)),
        DtypeError,
        "bias has dtype bool, expected numbers to add: pass a boolean array as mask",
    ),
    "bias of float64": (
        lambda: call(bias=a(5, 5, dtype=np.float64)),
        DtypeError,
        "bias has dtype float64 and q has float32, expected the same or float32: convert it",
    ),
    "sinks of another length": (
        lambda: call(sinks=a(3)),
        ShapeError,
        "sinks has shape (3,), expected (2,): pass one logit for each query head",
    ),
    "sinks of words": (
        lambda: call(sinks=["a", "b"]),
        DtypeError,
        "sinks has dtype <U1, expected numbers: pass one logit for each query head",
    ),
    "scale a word": (
        lambda: call(scale="big"),
        DtypeError,
        "scale is 'big', expected a real number: leave it out for 1/√d",
    ),
    "scale complex": (lambda: call(scale=1j), DtypeError, "scale is 1j, expected a real number: leave it out for 1/√d"),
    "score": (
        lambda: call(score="x"),
        DtypeError,
        "score is 'x', expected regard.dot, regard.general(W) or regard.additive(w, w_q, w_k): pass one",
    ),
    "modify a word": (
        lambda: call(modify="x"),
        TraceError,
        "modify is 'x', expected a function of (score, b, h, q, k): pass one, or a list of them",
    ),
    "modify a condition": (
        lambda: call(modify=lambda s, b, h, q, k: s > 0),
        TraceError,
        "the modifier gave (0 < score), a condition, expected a score: choose with where()",
    ),
    "modify with if": (
        lambda: call(modify=lambda s, b, h, q, k: s if q > k else 0.0),
        TraceError,
        "the truth of (k < q) was asked while tracing, where it has none yet: "
        "use where(), & and | in place of if, and, or, and chained comparisons",
    ),
    "lengths": (
        lambda: call(mask=regard.padding([1, 2])),
        ShapeError,
        "lengths of the mask is for 2 sequences, but there are 1: make them agree",
    ),
    "ids": (
        lambda: call(mask=regard.segments([0] * 6)),
        ShapeError,
        "ids of the mask is for 6 keys, but there are 5: make them agree",
    ),
    "query ids": (
        lambda: call(mask=regard.segments([0] * 6, [0] * 5)),
        ShapeError,
        "query_ids of the mask is for 6 queries, but there are 5: make them agree",
    ),
    "key ids": (
        lambda: call(mask=regard.segments([0] * 5, [0] * 6)),
        ShapeError,
        "key_ids of the mask is for 6 keys, but there are 5: make them agree",
    ),
    "window left": (
        lambda: regard.window(-1),
        ValueError,
        "left is -1, expected a whole number of keys, 0 or more",
    ),
    "window right": (
        lambda: regard.window(1, -1),
        ValueError,
        "right is -1, expected a whole number of keys, 0 or more",
    ),
    "align": (lambda: regard.causal("middle"), ValueError, "align is 'middle', expected 'last' or 'first'"),  # type: ignore[arg-type]
    "softcap": (lambda: regard.softcap(0), ValueError, "limit is 0, expected a number above 0"),
    "alibi": (
        lambda: regard.alibi(a(2, 2)),
        ShapeError,
        "slopes has shape (2, 2), expected one number for each query head",
    ),
    "a mask that is a number": (
        lambda: regard.mask(lambda b, h, q, k: q - k),
        TraceError,
        "the mask function gave (q - k), expected a condition: compare it with something",
    ),
}

# Proposed words for what is refused in words that mislead, by an error that is not ours, or not at all.
OPEN: dict[str, Case] = {
    "mask of whole numbers": (
        lambda: call(mask=np.ones((5, 5), np.int64)),
        DtypeError,
        "mask has dtype int64, expected bool (True = may attend): convert it with astype(bool)",
    ),
    "bias a mask": (
        lambda: call(bias=regard.causal),
        DtypeError,
        "bias is a mask, expected numbers to add: pass it as mask",
    ),
    "on meta": (
        lambda: call(T.to("meta"), T, T),
        DeviceError,
        "q is on meta, expected a tensor on the CPU: give it memory there first",
    ),
    "sinks require grad": (
        lambda: tensors(sinks=needs_grad(2)),
        GradientError,
        "sinks requires grad, but gradients are not computed here yet; "
        "call under torch.no_grad() or pass sinks.detach()",
    ),
    "slopes for other heads": (
        lambda: call(modify=regard.alibi([1.0, 2.0, 3.0])),
        ShapeError,
        "slopes of the modifier is for 3 heads, but there are 2: make them agree",
    ),
    "scale a list": (
        lambda: call(scale=[1.0]),
        DtypeError,
        "scale is [1.0], expected a real number: leave it out for 1/√d",
    ),
    "modify a number": (
        lambda: call(modify=3),
        TraceError,
        "modify is 3, expected a function of (score, b, h, q, k): pass one, or a list of them",
    ),
    "softcap a word": (lambda: regard.softcap("x"), ValueError, "limit is 'x', expected a number above 0"),  # type: ignore[arg-type]
    "prefix of a fraction": (
        lambda: regard.prefix(1.5),
        DtypeError,
        "n has dtype float64, expected whole numbers: convert it with astype(int)",
    ),
}


def matrix(q: Any = X, k: Any = X, **options: Any) -> Any:
    return regard.matrix(q, k, **options)


PROGRESS = "progress is 1, expected a function of the share that is done: leave it out, or pass one"
COMPUTED = (
    "arithmetic or a comparison was asked of a matrix that is never built, expected an array: "
    "build a part first, A[…] or A.build()"
)

# Those of indices are in tests/matrix, those of questions in tests/lens.
MATRIX: dict[str, Case] = {
    "matrix of a list": (
        lambda: matrix(q=X.tolist()),
        DtypeError,
        "q is a list, expected an array: pass numpy.asarray(q)",
    ),
    "matrix of other widths": (
        lambda: matrix(k=a(2, 5, 3)),
        ShapeError,
        "q has d = 4 and k has d = 3, expected the same: check their last axes",
    ),
    "matrix with v of other length": (
        lambda: matrix(v=a(2, 6, 4)),
        ShapeError,
        "k has 5 rows and v has 6, expected the same: each key has one value",
    ),
    "matrix that requires grad": (
        lambda: matrix(needs_grad(2, 5, 4), T),
        GradientError,
        "q requires grad, but gradients are not computed here yet; call under torch.no_grad() or pass q.detach()",
    ),
    "matrix with a score": (
        lambda: matrix(score="x"),
        DtypeError,
        "score is 'x', expected regard.dot, regard.general(W) or regard.additive(w, w_q, w_k): pass one",
    ),
    "matrix with a mask of floats": (
        lambda: matrix(mask=a(5, 5)),
        DtypeError,
        "mask has dtype float32, expected bool (True = may attend): pass numbers to add as bias",
    ),
    "lse of another shape": (
        lambda: matrix(lse=a(2, 6)),
        ShapeError,
        "lse has shape (2, 6), expected (2, 5): one number for each query",
    ),
    "lse of bool": (
        lambda: matrix(lse=np.ones((2, 5), bool)),
        DtypeError,
        "lse has dtype bool, expected floats: pass what attention(…, return_lse=True) gave",
    ),
    "lse a list": (
        lambda: matrix(lse=[[0.0] * 5] * 2),
        DtypeError,
        "lse is a list, expected an array: pass numpy.asarray(lse)",
    ),
    "tokens a string": (
        lambda: matrix(tokens="a b c d e"),
        DtypeError,
        "tokens is one string, expected a token for each place: pass tokens=text.split()",
    ),
    "key tokens a string": (
        lambda: matrix(key_tokens="abcde"),
        DtypeError,
        "key_tokens is one string, expected a token for each place: pass key_tokens=text.split()",
    ),
    "too few tokens": (
        lambda: matrix(tokens=["a", "b"]),
        ShapeError,
        "tokens has 2 tokens, but there are 5 queries: give each query one",
    ),
    "too few key tokens": (
        lambda: matrix(key_tokens=["a", "b"]),
        ShapeError,
        "key_tokens has 2 tokens, but there are 5 keys: give each key one",
    ),
    "too many cells": (
        lambda: matrix().build(limit=49),
        LimitError,
        "this would build 50 cells (200 bytes), expected at most 49: ask for fewer rows, for heatmap(256) or top(5), "
        "or insist with build(limit=50)",
    ),
    "too many cells of a part": (
        lambda: matrix().build(29, np.s_[:, 1:4]),
        LimitError,
        "this would build 30 cells (120 bytes), expected at most 29: ask for fewer rows, for heatmap(256) or top(5), "
        "or insist with build(index=np.s_[:, 1:4], limit=30)",
    ),
    "too many cells of a list": (
        lambda: matrix().build(limit=49, index=[0, 1, 1]),
        LimitError,
        "this would build 75 cells (300 bytes), expected at most 49: ask for fewer rows, for heatmap(256) or top(5), "
        "or insist with build(index=…, limit=75)",
    ),
    "limit a word": (
        lambda: matrix().build(limit="x"),
        DtypeError,
        "limit is 'x', expected a number of cells: pass build(limit=50)",
    ),
    "one token": (
        lambda: matrix(tokens=["a"]),
        ShapeError,
        "tokens has 1 token, but there are 5 queries: give each query one",
    ),
    "one query": (
        lambda: matrix(X[:, :1], X[:, :1], tokens=["a", "b"]),
        ShapeError,
        "tokens has 2 tokens, but there is 1 query: give each query one",
    ),
    "tokens a number": (
        lambda: matrix(tokens=5),
        DtypeError,
        "tokens is 5, expected a token for each place: pass a list of strings",
    ),
    "output of another dtype": (
        lambda: matrix().output(a(2, 5, 4, dtype=np.float64)),
        DtypeError,
        "v has dtype float64 and q has float32, expected the same: convert it",
    ),
    "k of another dtype in a general score": (
        lambda: matrix(k=a(2, 5, 4, dtype=np.float64), score=regard.general(np.eye(4))),
        DtypeError,
        "k has dtype float64 and q has float32, expected the same: convert one",
    ),
    "logit_max with progress a number": (lambda: matrix().logit_max(progress=1), DtypeError, PROGRESS),
    "output with progress a number": (lambda: matrix().output(X, progress=1), DtypeError, PROGRESS),
    "a sum": (lambda: matrix() + 1, QuestionError, COMPUTED),
    "a sum from the left": (lambda: 1 + matrix(), QuestionError, COMPUTED),
    "a comparison": (lambda: matrix() > 0.5, QuestionError, COMPUTED),
    "a negative": (lambda: -matrix(), QuestionError, COMPUTED),
    "a product of scores": (lambda: matrix().scores * 2, QuestionError, COMPUTED),
    "a sum of two": (lambda: matrix() + matrix(), QuestionError, COMPUTED),
    "in": (lambda: 0.5 in matrix(), QuestionError, COMPUTED.replace("arithmetic or a comparison", "`in`")),
    "a token that is not there": (
        lambda: matrix(tokens=["a", "b", "c", "d", "e"])[0, "x"],
        TokenError,
        "'x' is none of the 5 tokens of the query axis: index by number",
    ),
    "a token that is there twice": (
        lambda: matrix(tokens=["a", "b", "a", "c", "d"])[0, 1, "a"],
        TokenError,
        "'a' is not one token but 2, at 0, 2: index by one of these numbers",
    ),
    "output without values": (
        lambda: matrix().output(),
        QuestionError,
        "output was asked without values, expected v: pass output(v) or matrix(…, v=v)",
    ),
}
CASES = SHAPES | KINDS | TERMS | OPEN | MATRIX


@pytest.mark.parametrize("case", CASES)
def test_the_words(case: str) -> None:
    wrong, kind, words = CASES[case]
    with pytest.raises(kind) as caught:
        wrong()
    assert str(caught.value) == words
    assert isinstance(caught.value, RegardError) or kind is ValueError


def test_without_grad_mode_nothing_is_refused() -> None:
    q = needs_grad(2, 5, 4)
    with torch.no_grad():
        z = regard.attention(q, q, q)
    assert torch.equal(z, T)
    assert not z.requires_grad
    assert torch.equal(regard.attention(q.detach(), T, T), T)


@pytest.mark.parametrize("scale", [2, 2.0, np.float32(2), np.float64(2), np.array(2.0), torch.tensor(2.0)])
def test_a_scale_may_be_any_real_number(scale: Any) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 5, 4)).astype(np.float32) for _ in range(3))
    assert np.array_equal(regard.attention(q, k, v, scale=scale), regard.attention(q, k, v, scale=2.0))


def test_a_scale_that_changes_is_read_again() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 5, 4)).astype(np.float32) for _ in range(3))
    scale = torch.tensor(0.5)
    regard.attention(q, k, v, scale=scale)  # type: ignore[arg-type]
    scale.fill_(3.0)
    changed = regard.attention(q, k, v, scale=scale)  # type: ignore[arg-type]
    assert np.array_equal(changed, regard.attention(q, k, v, scale=3.0))
