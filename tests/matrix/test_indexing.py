"""A is read like the NumPy array it would be, each answer computed from no more than it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from regard import indexing
from regard.errors import DtypeError, ShapeError
from regard.lens import rollout
from tests.attention.judge import DTYPES, normal
from tests.matrix.built import KINDS, VIEWS, Built, beside, close, kind
from tests.matrix.indices import indices

# An index is answered from an outer product of rows and keys, or cell by cell; a slack of 0 prefers the latter.
SLACKS = (indexing.SLACK, 0)


def examples(count: int) -> Any:
    """The same examples in every run."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def hold(built: Built, view: str, index: Any) -> None:
    """The index gives what it gives of the built array, or is refused as it is there."""
    __tracebackhide__ = True
    of, want, small = built.like(view)
    try:
        expected = want[index]
    except IndexError:
        with pytest.raises(IndexError):
            of[index]
        return
    got = of[index]
    close(got, expected, built.rounding, small, f"{view}[{index!r}]")
    assert np.asarray(got).dtype == built.A.dtype


@pytest.mark.parametrize("name", KINDS)
def test_random_indices(name: str) -> None:
    built = kind(name)

    @examples(40)
    @given(st.data())
    def holds(data: Any) -> None:
        view = data.draw(st.sampled_from(VIEWS))
        index = data.draw(indices(built.like(view)[1].shape))
        before = indexing.SLACK
        indexing.SLACK = data.draw(st.sampled_from(SLACKS))
        try:
            hold(built, view, index)
        finally:
            indexing.SLACK = before

    holds()


SOME = np.array([[0, 2], [1, 0]])
HANDPICKED: list[Any] = [
    (), ..., None, 0, -1, slice(None), slice(None, None, -1), slice(5, 2), slice(2, 5), slice(-100, 100, 3), (0, 1),
    (0, 1, 2), (..., 1), (..., 1, 2), (1, ...), (0, ..., 3), (slice(None), 4), (..., slice(None), 4),
    (None, 0, None, 1, None), (0, slice(None, None, -2), slice(9, 0, -3)), (..., None), (None, ..., None), [0, 1],
    [1, 1, 0], [-1], [], ([0, 1],), ([0, 1], [2, 3]), ([0, 1], [2, 3], [4, 5]), ([0, 1], slice(None), [4, 5]),
    ([0, 1], 3, [4, 5]), (0, [1, 2], slice(None, None, 2)), (slice(None), [1, 2], [3]),
    (slice(1), [[1], [2]], [3, 4]), (SOME, SOME), (SOME, slice(2, 9, 2), SOME), (slice(None), SOME), (..., SOME),
    (SOME, None, SOME), (SOME, ..., 0), (0, None, [1, 2]), ([0], None, [1]), (None, [0], [1]),
    (0, [3], None, slice(None)), np.array(1), np.array([1], "i1"), (np.uint16(1), np.int8(-1)),
    (slice(None), np.arange(13) % 3 == 0), (0, np.arange(13) < 0), (..., np.arange(17) > 5), np.zeros((3, 13), bool),
    np.ones((3, 13, 17), bool), np.arange(39).reshape(3, 13) % 2 == 0, [True, False, True],
    (np.array([True, False, True]), [1, 2]), (np.array([True, False, True]), slice(None), [1, 2]),
    (0, np.eye(13, 17, dtype=bool)), (np.eye(3, 13, dtype=bool), 4), (np.eye(3, 13, dtype=bool), [4, 5, 6]), True,
    False, np.True_, np.False_, np.array(True), (True, 0), (0, True), (True, [0, 1]), (False, ..., 1), range(2),
    (0, range(5, 0, -1)), ((0, 1),), ((0, 1), (2, 3)), slice(None, 2**40), slice(-(2**40), None), 2**70, -(2**70),
    slice(np.int64(1), np.int64(3)), slice(None, None, 2**40), (0, slice(None), slice(None), None),
    torch.tensor([0, 2]), (0, torch.tensor(1), torch.tensor([3, 4])), np.zeros(0, np.int64),
    np.zeros((0, 3), np.int64), (0, []),
]  # fmt: skip
REFUSED: list[Any] = [
    3, -4, (0, 13), (0, 0, 17), (0, 0, -18), [3], [0, -4], (0, [13]), (0, 0, 0, 0), (..., ...), (0, ..., 0, ...), 1.0,
    [0.5], np.zeros(2), "x", ["x"], (0, "x"), (0, 0, "x"), np.ones(4, bool), np.ones((3, 12), bool), [True],
    ([0, 1], [1, 2, 3]), (np.array([True, True, True]), [1, 2]), np.array(5), {}, int, b"x", 1j, {0, 1}, (0, 1.5),
    slice(1.5), slice(None, None, 0), (0, slice("x", None)), np.ones((3, 13, 17, 1), bool), (0, slice(None, None, 1.5)),
]  # fmt: skip


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("index", HANDPICKED, ids=repr)
def test_handpicked_indices(index: Any, slack: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "SLACK", slack)
    for view in ("A", "scores"):
        hold(kind("f32"), view, index)


@pytest.mark.parametrize("index", REFUSED, ids=repr)
def test_refused_indices(index: Any) -> None:
    """What NumPy refuses is refused, by an error of the same kind or, for tokens, a LookupError."""
    built = kind("f32")
    with pytest.raises((IndexError, TypeError, ValueError)) as theirs:
        built.weights[index]
    with pytest.raises((LookupError, theirs.type)):
        built.A[index]


def test_out_of_range_says_what_is_there() -> None:
    A = kind("f32").A
    for index, message in (
        (3, "index 3 of axis 0 is out of bounds, expected -3 to 2"),
        ((0, -14), "index -14 of axis 1 is out of bounds, expected -13 to 12"),
        ((0, 0, [1, 17]), "an index of axis 2 goes from 1 to 17, expected -17 to 16"),
        ((0, 0, 0, 0), "the index has 4 parts, but A has 3 axes: leave some out"),
        ((..., ...), "the index has more than one ellipsis, expected one at most: leave some out"),
        (np.ones(4, bool), "a boolean index has shape (4,), expected (3,), as the axes have"),
        (1.5, "an index is 1.5, expected numbers, slices, tokens, or arrays of whole numbers or booleans"),
    ):
        with pytest.raises(IndexError) as caught:
            A[index]
        assert str(caught.value) == message


def test_an_empty_axis_has_no_places() -> None:
    A = kind("no keys").A
    for index in ((0, 0, 0), (0, 0, [0]), (0, 0, -1)):
        with pytest.raises(IndexError):
            A[index]
    assert A[0].shape == (5, 0)
    assert A.T[..., 1].shape == (2, 0)


# A cell is equal to rounding however it is read.


@pytest.mark.parametrize("name", ["f32", "bf16", "grouped, padding, f64", "bias, sinks, bf16", "modified", "NaN"])
def test_a_cell_is_equal_however_it_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = kind(name)
    A, n_q, n_k = built.A, *built.weights.shape[-2:]
    front = tuple(n - 1 for n in built.weights.shape[:-2])
    for i, j in ((0, 0), (3, 2), (n_q - 1, n_k - 1), (6, 6)):
        ways = {
            "cell": A[(*front, i, j)],
            "negative cell": A[(*front, i - n_q, j - n_k)],
            "row": A[(*front, i)][j],
            "column": A[(*front, slice(None), j)][i],
            "tile": A[(*front, slice(i, i + 1), slice(max(0, j - 1), j + 2))][0, min(j, 1)],
            "all": A.build()[(*front, i, j)],
            "strided": A[(*front, slice(i % 3, None, 3), slice(j % 2, None, 2))][i // 3, j // 2],
            "reversed": A[(*front, slice(None, None, -1), slice(None, None, -1))][n_q - 1 - i, n_k - 1 - j],
            "fancy row": A[(*front, [i])][0, j],
            "fancy column": A[(..., [j])][(*front, i, 0)],
            "turned": A.T[(*front, j, i)],
            "iterated": list(A[front[:-1]] if len(front) > 1 else A)[-1][i, j],
        }
        monkeypatch.setattr(indexing, "SLACK", 0)
        ways["scattered"] = A[(*(np.full(3, p) for p in front), np.array([0, i, n_q - 1]), np.array([n_k - 1, j, 0]))][
            1
        ]
        monkeypatch.undo()
        for way, value in ways.items():
            close(value, built.weights[(*front, i, j)], built.rounding, 1e-12, f"{way} of ({i}, {j})")


# The array's own face.


@pytest.mark.parametrize("name", KINDS)
def test_shape_and_size(name: str) -> None:
    built = kind(name)
    for view in VIEWS:
        of, want, small = built.like(view)
        assert (of.shape, of.ndim, of.size) == (want.shape, want.ndim, want.size)
        assert type(of.size) is int
        assert of.dtype == (np.float64 if "f64" in name else np.float32)
        assert len(of) == len(want)
        close(np.asarray(of), want, built.rounding, small, view)
        assert np.asarray(of).dtype == of.dtype
        close(of.build(), want, built.rounding, small, view)
        assert of.T.T.shape == of.shape
        for got, expected in zip(of, want, strict=True):
            close(got, expected, built.rounding, small, view)


def test_as_an_array() -> None:
    built = kind("f32")
    A = built.A
    assert np.array(A).dtype == np.float32
    assert np.asarray(A, np.float64).dtype == np.float64
    assert np.array(A, dtype=np.float16, copy=True).dtype == np.float16
    with pytest.raises(ValueError, match="A is never in memory, expected copy=None or True: it has to be computed"):
        np.array(A, copy=False)
    close(np.sum(A, axis=-1), np.ones((3, 13)), 1e-6)
    first = A[0, 0]
    first[:] = 7  # an answer is the caller's own
    close(A[0, 0], built.weights[0, 0], built.rounding)
    with pytest.raises(TypeError):
        A[0, 0] = 1


def test_numpy_computes_with_it() -> None:
    built = kind("f32")
    A, whole = built.A, np.asarray(built.A)
    for found, want in (
        (A + whole, whole + whole), (whole - A, whole - whole), (np.float64(2) * A, 2 * whole), (whole < A, whole > 1),
        (np.maximum(A, 0.5), np.maximum(whole, 0.5)), (A * np.float32(2), 2 * whole),
    ):  # fmt: skip
        assert np.array_equal(found, want)


def test_no_queries() -> None:
    A = regard.matrix(normal((2, 0, 4)), normal((2, 5, 4)), tokens=list("abcde"))
    empty = "expected none: the axis is empty"
    for wrong, words in (
        (lambda: A.explain(0), f"query 0 is out of bounds, {empty}"),
        (lambda: A[:, 0], f"index 0 of axis 1 is out of bounds, {empty}"),
        (lambda: A[:, [0]], f"an index of axis 1 goes from 0 to 0, {empty}"),
        (lambda: A.select(queries=0), f"queries goes from 0 to 0, {empty}"),
        (lambda: A.select(heads=[]).select(heads=0), f"head 0 is out of bounds, {empty}"),
        (lambda: rollout([regard.matrix(np.zeros((0, 4)), np.zeros((0, 4)))], 0), f"start goes from 0 to 0, {empty}"),
        (lambda: A.show(row=0), "row is 0, expected none: there are 0 queries"),
    ):  # fmt: skip
        with pytest.raises(IndexError) as caught:
            wrong()
        assert str(caught.value) == words


def test_lse() -> None:
    for name in KINDS:
        built = kind(name)
        with np.errstate(invalid="ignore"):
            rows = built.weights.sum(-1)
        lse = built.A.lse
        assert lse.shape == built.A.shape[:-1]
        assert built.A.T.lse.shape == lse.shape
        seen = built.visible.any(-1)
        empty = ~seen & (rows == 0)
        assert np.isfinite(lse[seen & ~np.isnan(rows)]).all()
        assert np.isnan(lse[np.isnan(rows)]).all()
        if name not in ("bias, sinks, bf16", "hidden by a modifier"):  # an empty row has its sink
            assert (lse[empty] == -np.inf).all()


def test_an_lse_that_is_given_is_used() -> None:
    q, k = normal((4, 13, 8)), normal((2, 17, 8), "f32", 1)
    options: dict[str, Any] = {"mask": regard.causal, "sinks": np.array([0.5, 1.0, -1.0, 0.0])}
    _, lse = regard.attention(q, k, k, return_lse=True, **options)
    want = beside(q, k, **options)
    close(regard.matrix(q, k, lse=lse, **options)[:], want.weights, want.rounding, 1e-12)
    # One that is larger by ln 2 halves every weight: it is believed.
    close(regard.matrix(q, k, lse=lse + np.log(2), **options)[:, 3:9], want.weights[:, 3:9] / 2, want.rounding, 1e-12)
    given = torch.from_numpy(lse)
    close(regard.matrix(q, k, lse=given, **options)[1, 2], want.weights[1, 2], want.rounding, 1e-12)
    for wrong in (lse[:, :5], lse[0], lse[..., None], lse[None]):
        with pytest.raises(ShapeError) as caught:
            regard.matrix(q, k, lse=wrong, **options)
        assert str(caught.value) == f"lse has shape {wrong.shape}, expected (4, 13): one number for each query"
    with pytest.raises(DtypeError, match="lse has dtype bool, expected floats"):
        regard.matrix(q, k, lse=lse > 0, **options)
    assert regard.matrix(q[0], k[0], lse=lse[0]).shape == (13, 17)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_known_one_by_one(dtype: str) -> None:
    """lse is computed for the rows that are asked, in any order, and never taken for that of others."""
    q, k = normal((2, 40, 8), dtype), normal((2, 33, 8), dtype, 1)
    want = beside(q, k, mask=regard.window(20, 5))
    for order in ([20], [39, 0], [5, 6, 7, 30], list(range(40))):
        A = regard.matrix(q, k, mask=regard.window(20, 5))
        for i in order:
            close(A[:, i], want.weights[:, i], want.rounding, 1e-12, f"row {i} of {order}")
        close(A[1, 3:38:7], want.weights[1, 3:38:7], want.rounding, 1e-12)
        close(A[:], want.weights, want.rounding, 1e-12)


# Tensors.


def test_tensors_give_tensors() -> None:
    built = kind("f32")
    q, k = torch.from_numpy(normal((3, 13, 7))), torch.from_numpy(normal((3, 17, 7), "f32", 1))
    A = regard.matrix(q, k, tokens=[f"q{i}" for i in range(13)], key_tokens=[f"k{j}" for j in range(17)])
    for index in (
        (),
        0,
        (0, 1),
        (..., 2),
        ([0, 1], [2, 3]),
        (0, slice(None, None, -1)),
        (1, "q3"),
        (2, "q1", ["k2", "k3"]),
    ):
        assert isinstance(A[index], torch.Tensor), index
        assert A[index].dtype == torch.float32
    for other in (A.T[0], A.scores[0], A.scores.T[0], A.build(), A.scores.build(), A.lse):
        assert isinstance(other, torch.Tensor)
    close(A[1, :, torch.tensor([3, 4])].numpy(), built.weights[1, :, [3, 4]], built.rounding)
    assert float(A[0, 0, 0]) == pytest.approx(built.weights[0, 0, 0], rel=1e-5)
    assert isinstance(np.asarray(A), np.ndarray)
    half = regard.matrix(q.bfloat16(), k.bfloat16())[0]
    assert isinstance(half, torch.Tensor)
    assert half.dtype == torch.float32  # weights and readings are f32 or f64
    assert regard.matrix(q.double(), k.double())[0].dtype == torch.float64


def test_rows_far_from_each_other_are_settled_together() -> None:
    """And what they leave is known to the matrix: the other rows are not."""
    n, rows = 1500, np.arange(0, 1500, 97)
    q, k = (normal((2, n, 8), seed=seed) for seed in (1, 2))
    bias = normal((2, n, n))
    slopes = np.float32([0.5, 0.1])
    mask = regard.causal & regard.segments(np.arange(n) // 400)
    whole = regard.matrix(q, k, mask=mask, bias=bias, modify=regard.alibi(slopes), sinks=np.zeros(2, np.float32))
    some = regard.matrix(q, k, mask=mask, bias=bias, modify=regard.alibi(slopes), sinks=np.zeros(2, np.float32))
    want = whole.weights.lse()[..., rows]
    np.testing.assert_allclose(some.weights.lse(rows), want, rtol=1e-6)
    assert some.weights.known(range(97, 98)).all()
    assert not some.weights.known(range(98, 194)).any()
    np.testing.assert_allclose(some[:, rows], whole[:, rows], rtol=1e-5, atol=1e-9)
