"""What was recorded is read back with the same bits as the matrix of the same arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import regard
from regard.algebra import where
from regard.algebra.expression import Expression
from regard.algebra.program import linearize
from regard.results import as_numpy

Array = Any
N, D = 37, 16


def arrays(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def same(A: regard.AttentionMatrix, B: regard.AttentionMatrix) -> None:
    """The same bits, NaN included."""
    assert A.shape == B.shape
    assert A.dtype == B.dtype
    for a, b in ((A.build(), B.build()), (A.lse, B.lse)):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def alike(A: regard.AttentionMatrix, B: regard.AttentionMatrix) -> None:
    """The same problem, to the bit: the same arrays, numbers and steps of trees, and so the same weights."""
    ours, theirs = A.weights, B.weights
    assert (ours.of, ours.stored, ours.number) == (theirs.of, theirs.stored, theirs.number)
    pairs = [(getattr(ours.terms, x), getattr(theirs.terms, x)) for x in ("sinks", "vector", "bias", "mask_array")]
    for a, b in [*pairs, (ours.q, theirs.q), (ours.k, theirs.k)]:
        assert (a is None) == (b is None)
        if a is not None:
            x, y = (z if isinstance(z, np.ndarray) else as_numpy(z) for z in (a, b))
            assert (x.shape, x.dtype) == (y.shape, y.dtype) or x.dtype == y.dtype == np.bool_
            assert np.broadcast_to(x, y.shape).tobytes() == y.tobytes()
    assert ours.terms.scale == theirs.terms.scale
    for name in ("modify", "mask"):
        same_tree(getattr(ours.terms, name), getattr(theirs.terms, name))


def same_tree(a: Expression | None, b: Expression | None) -> None:
    """The same steps with the same numbers and arrays."""
    assert (a is None) == (b is None)
    if a is not None and b is not None:
        x, y = linearize(a), linearize(b)
        assert x.shape == y.shape
        assert repr(x.constants) == repr(y.constants)
        assert [(z.tobytes(), z.shape, z.dtype) for z in x.arrays] == [
            (z.tobytes(), z.shape, z.dtype) for z in y.arrays
        ]


def recorded(path: Path, q: Array, k: Array, *, v: Any = None, lse: Any = False, **options: Any) -> Any:
    with regard.recording(path, sync=False, values=v is not None) as recorder:
        recorder.layer(q, k, v, lse=lse, **options)
    return regard.open(path)


def beside(path: Path, q: Array, k: Array, **options: Any) -> regard.AttentionMatrix:
    """Record, read, and compare all heads, and each."""
    rec = recorded(path, q, k, lse=None, **options)
    A, B = rec[0], regard.matrix(q, k, **options)
    alike(A, B)
    same(A, B)
    if q.ndim == 3:
        for h in range(len(q)):
            assert rec[0, h].shape == A.shape[1:]
            assert np.array_equal(rec[0, h].build(), np.asarray(B[h]), equal_nan=True)
            assert np.array_equal(rec[0, h].lse, B.lse[h], equal_nan=True)
    return A


TABLE = np.random.default_rng(3).standard_normal(N).astype(np.float32)
PAIRS = np.random.default_rng(4).random((N, N)) < 0.7
IDS = np.arange(N) // 9
SLOPES = np.array([0.5, 0.25, 0.125, 0.0625])


def by_head(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return where((q - k) % 3 == h, score * 0.5, score + TABLE[k] - TABLE[q])


TERMS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "scale 0": {"scale": 0.0},
    "scale negative": {"scale": -0.37},
    "scale whole": {"scale": 1},
    "causal": {"mask": regard.causal},
    "causal first": {"mask": regard.causal(align="first")},
    "window": {"mask": regard.window(5, 2)},
    "padding": {"mask": regard.padding([20])},
    "segments": {"mask": regard.causal & regard.segments(IDS)},
    "segments of both": {"mask": regard.segments(IDS, IDS[::-1].copy())},
    "prefix": {"mask": regard.causal | regard.prefix(7)},
    "prefix of an array": {"mask": regard.causal | regard.prefix(np.array([7]))},
    "not": {"mask": ~regard.window(3, 3)},
    "function": {"mask": regard.mask(lambda b, h, q, k: (q * h + k) % 4 != 1)},
    "array": {"mask": PAIRS},
    "array of heads": {"mask": np.stack([PAIRS, PAIRS.T, ~PAIRS, PAIRS & PAIRS.T])},
    "array of keys": {"mask": PAIRS[0]},
    "array of queries": {"mask": PAIRS[:, :1]},
    "array of heads and keys": {"mask": PAIRS[:4, None, :]},
    "array that is repeated": {"mask": np.broadcast_to(PAIRS, (4, N, N))},
    "array and mask": {"mask": regard.causal & PAIRS},
    "nothing visible": {"mask": np.zeros((N, N), np.bool_)},
    "bias": {"bias": arrays(N, N, seed=5)},
    "bias of heads": {"bias": arrays(4, N, N, seed=5)},
    "bias of keys": {"bias": np.where(PAIRS[0], 0, -np.inf).astype(np.float32)},
    "bias of queries": {"bias": arrays(4, N, 1, seed=5)},
    "bias that hides": {"bias": np.where(PAIRS, 0, -np.inf).astype(np.float32), "mask": regard.causal},
    "sinks": {"sinks": np.array([0.0, -1.0, 2.0, -np.inf])},
    "softcap": {"modify": regard.softcap(3.0)},
    "alibi": {"modify": regard.alibi(SLOPES), "mask": regard.causal},
    "two modifiers": {"modify": [regard.softcap(3.0), by_head]},
    "infinite numbers": {"modify": lambda score, b, h, q, k: where(k == 3, -np.inf, score)},
    "general": {"score": regard.general(arrays(D, D, seed=6))},
    "general of heads": {"score": regard.general(arrays(4, D, D, seed=6)), "scale": 0.2},
    "general of whole numbers": {"score": regard.general(np.arange(D * D).reshape(D, D) % 3)},
    "additive": {"score": regard.additive(arrays(8, seed=7), arrays(D, 8, seed=8), arrays(D, 8, seed=9))},
    "additive of heads": {
        "score": regard.additive(arrays(4, 8, seed=7), arrays(4, D, 8, seed=8), arrays(2, D, 8, seed=9)),
        "mask": regard.causal,
        "sinks": np.array([0.0, -1.0, 2.0, -np.inf]),
    },
    "values": {"v": arrays(2, N, 5, seed=2)},
}


DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TERMS)
def test_the_same_problem_with_every_term(name: str, dtype: Any, tmp_path: Path) -> None:
    q, k = arrays(4, N, D, dtype=dtype), arrays(2, N, D, dtype=dtype, seed=1)
    options = TERMS[name] | ({"v": TERMS[name]["v"].astype(dtype)} if "v" in TERMS[name] else {})
    A = recorded(tmp_path / "r", q, k, **options)[0]
    alike(A, regard.matrix(q, k, **options))
    if "v" in options:
        assert np.asarray(A.v).tobytes() == options["v"].tobytes()


@pytest.mark.parametrize("name", ["causal", "bias of heads", "two modifiers"])
def test_the_same_bits(name: str, tmp_path: Path) -> None:
    beside(tmp_path / "r", arrays(4, N, D), arrays(2, N, D, seed=1), **TERMS[name])


@pytest.mark.parametrize("name", ["general of heads", "additive of heads"])
def test_the_same_bits_with_projections(name: str, tmp_path: Path) -> None:
    dtype = ml_dtypes.bfloat16
    beside(tmp_path / "r", arrays(4, N, D, dtype=dtype), arrays(2, N, D, dtype=dtype, seed=1), **TERMS[name])


def test_values_too(tmp_path: Path) -> None:
    q, k, v = arrays(4, N, D), arrays(2, N, D, seed=1), arrays(2, N, 5, seed=2)
    rec, B = recorded(tmp_path / "r", q, k, v=v), regard.matrix(q, k, v=v)
    assert rec[0].output().tobytes() == B.output().tobytes()
    assert np.array_equal(rec[0, 3].output(), B.output()[3])
    assert np.array_equal(rec[0].norms().build(), B.norms().build())


@pytest.mark.parametrize(
    ("n_q", "n_k"), [(1, 37), (5, 37), (37, 5), (1, 1), (0, 5), (5, 0), (0, 0)], ids=lambda n: str(n)
)
@pytest.mark.parametrize("mask", [None, regard.causal, regard.causal(align="first")], ids=["all", "last", "first"])
def test_other_lengths(n_q: int, n_k: int, mask: Any, tmp_path: Path) -> None:
    q, k = arrays(2, n_q, 4), arrays(2, n_k, 4, seed=1)
    rec, B = recorded(tmp_path / "r", q, k, mask=mask), regard.matrix(q, k, mask=mask)
    alike(rec[0], B)
    if n_q != N:
        same(rec[0], B)


def test_one_head_without_an_axis(tmp_path: Path) -> None:
    options: dict[str, Any] = {"mask": regard.causal, "bias": arrays(N, N, seed=5), "sinks": np.float32(0.5)}
    beside(tmp_path / "r", arrays(N, D), arrays(N, D, seed=1), v=arrays(N, 3, seed=2), **options)
    rec = regard.open(tmp_path / "r")
    assert rec[0].shape == rec[0, 0].shape == (N, N)
    same(rec[0], rec[0, 0])


@pytest.mark.parametrize("view", ["fused", "reversed", "odd", "column"])
def test_arrays_that_lie_otherwise(view: str, tmp_path: Path) -> None:
    fused = arrays(N, 3, 4, D)
    q, k = (np.moveaxis(fused[:, i], 0, 1) for i in (0, 1))  # (n, 3, heads, d) -> (heads, n, d)
    if view == "reversed":
        q, k = q[::-1, ::-1], k[:, ::-2]
    elif view == "odd":  # one byte off
        raw = np.zeros(q.nbytes + 1, np.uint8)
        raw[1:] = np.ascontiguousarray(q).view(np.uint8).ravel()
        q = raw[1:].view(np.float32).reshape(q.shape)
    elif view == "column":
        q, k = q[..., ::2], k[..., ::2]
    alike(recorded(tmp_path / "r", q, k, mask=regard.causal)[0], regard.matrix(q, k, mask=regard.causal))


def test_what_came_is_copied(tmp_path: Path) -> None:
    """Afterwards the caller may do with all its arrays what it likes."""
    made: dict[str, Callable[[], Any]] = {
        "q": lambda: arrays(4, N, D),
        "k": lambda: arrays(2, N, D, seed=1),
        "v": lambda: arrays(2, N, D, seed=2),
        "bias": lambda: arrays(N, N, seed=5),
        "plane": lambda: PAIRS.copy(),
        "sinks": lambda: np.zeros(4, np.float32),
        "slopes": lambda: SLOPES.astype(np.float32),
        "weight": lambda: arrays(D, D, seed=6),
        "ids": lambda: IDS.copy(),
    }

    def options(x: dict[str, Any]) -> list[dict[str, Any]]:
        slopes = x["slopes"]
        return [
            {"bias": x["bias"], "mask": x["plane"], "sinks": x["sinks"]},
            {"modify": lambda score, b, h, q, k: score * slopes[h], "mask": regard.segments(x["ids"])},
            {"score": regard.general(x["weight"]), "bias": x["bias"][:1]},
        ]

    ours = {name: make() for name, make in made.items()}
    with regard.recording(tmp_path / "r", sync=False, values=True) as recorder:
        written = threading.Event()
        recorder.writer.later(lambda: bool(written.wait(10)) and None)  # nothing is written before all has changed
        for terms in options(ours):
            recorder.layer(ours["q"], ours["k"], ours["v"], lse=False, **terms)
        for x in ours.values():
            x[...] = 1
        written.set()
    rec = regard.open(tmp_path / "r")
    theirs = {name: make() for name, make in made.items()}
    for layer, terms in enumerate(options(theirs)):
        alike(rec[layer], regard.matrix(theirs["q"], theirs["k"], v=theirs["v"], **terms))
        assert np.array_equal(np.asarray(rec[layer].v), theirs["v"])


def test_an_lse_that_is_given_is_kept(tmp_path: Path) -> None:
    q, k, v = arrays(4, N, D), arrays(4, N, D, seed=1), arrays(4, N, D, seed=2)
    _, lse = regard.attention(q, k, v, mask=regard.causal, return_lse=True)
    with regard.recording(tmp_path / "r", sync=False) as recorder:
        recorder.layer(q, k, mask=regard.causal, lse=lse)
        recorder.layer(q, k, mask=regard.causal, lse=lse + 1e-3)
        recorder.layer(q, k, mask=regard.causal, lse=False)
    rec = regard.open(tmp_path / "r")
    alike(rec[0], regard.matrix(q, k, mask=regard.causal, lse=lse))
    assert np.array_equal(rec[0].lse, lse)
    assert np.allclose(rec[1].build().sum(-1), np.exp(-1e-3))
    assert not rec[2].weights._known.any()
    assert np.allclose(rec[2, 1][20].sum(), 1)
    with pytest.raises(regard.RegardError, match=r"lse has shape \(4, 36\), expected \(4, 37\)"):
        regard.recording(tmp_path / "s").layer(q, k, lse=lse[:, 1:])


def test_what_a_mask_hides_stays_hidden(tmp_path: Path) -> None:
    q, k = arrays(2, N, D), arrays(2, N, D, seed=1)
    k[:, 30:] = np.nan
    A = beside(tmp_path / "r", q, k, mask=regard.padding([30]))
    assert np.isfinite(A.build()).all()
    assert np.isnan(beside(tmp_path / "s", q, k).build()).all()


def test_bf16_as_a_choice(tmp_path: Path) -> None:
    q, k, v = arrays(4, N, D), arrays(2, N, D, seed=1), arrays(2, N, D, seed=2)
    _, lse = regard.attention(q, k, v, mask=regard.causal, return_lse=True)
    with regard.recording(tmp_path / "r", sync=False, dtype="bf16") as recorder:
        recorder.layer(q, k, mask=regard.causal, lse=lse)
        recorder.layer(q.astype(np.float64), k.astype(np.float64), bias=arrays(N, N, dtype=np.float64), lse=False)
    rec = regard.open(tmp_path / "r")
    assert rec.notes == ("from bf16-rounded Q, K",)
    assert rec[0].notes == rec[0, 2].T.notes == rec[0, 1].words([(0, 2)]).T.notes == rec.notes
    assert rec[0].without([1]).notes == rec[0].mean_heads().notes == rec.notes
    rounded = [x.astype(ml_dtypes.bfloat16) for x in (q, k)]
    same(rec[0], regard.matrix(*rounded, mask=regard.causal))
    assert np.allclose(rec[0].build().sum(-1), 1, atol=1e-6)
    alike(rec[1], regard.matrix(*rounded, bias=arrays(N, N, dtype=np.float64).astype(np.float32)))
    with regard.recording(tmp_path / "s", sync=False, dtype="bf16") as recorder:
        recorder.layer(*rounded, mask=regard.causal, lse=lse)
    assert regard.open(tmp_path / "s").notes == ()  # nothing was rounded
    assert np.array_equal(regard.open(tmp_path / "s")[0].lse, lse)
    with pytest.raises(regard.RegardError, match="dtype is 'fp8', expected None"):
        regard.recording(tmp_path / "t", dtype="fp8")


def test_groups_of_heads(tmp_path: Path) -> None:
    q, k = arrays(8, N, D), arrays(2, N, D, seed=1)
    bias = arrays(8, N, N, seed=2)
    options: dict[str, Any] = {"mask": regard.causal, "modify": regard.alibi(2.0 ** -np.arange(8)), "bias": bias}
    B = regard.matrix(q, k, **options)
    with regard.recording(tmp_path / "r", sync=False, values=True) as recorder:
        recorder.layer(q, k, k, **options)
    rec = regard.open(tmp_path / "r")
    for heads in (slice(4, 8), slice(1, 3), [7, 0, 0]):
        A = rec[0, heads]
        assert np.array_equal(A.build(), B[heads])
        assert np.array_equal(A.lse, B.lse[heads])
        assert np.array_equal(A.v.repeat(len(A.like) // len(A.v), axis=0), k[np.arange(8)[heads] // 4])
    assert rec[0, :] is rec[0]
    assert rec[0, [5]].shape == (1, N, N)
    assert np.shares_memory(rec[0, 3].like, rec[0].like)  # over mapped memory
    assert rec[0, -1].shape == (N, N)
    for bad in (8, -9, "0", True, 1.5, [8]):
        with pytest.raises(IndexError, match="head"):
            rec[0, bad]
    for bad in (1, -2, "q", True, 1.5, None, (0, 0, 0)):
        with pytest.raises(IndexError, match="layer"):
            rec[bad]


def test_size_is_linear(tmp_path: Path) -> None:
    """Q, K and one number a row: 12 × 12 heads at n = 512 are 38 MB, where the weights would be 151 MB."""

    def size(layers: int, heads: int, n: int, d: int) -> int:
        path = tmp_path / f"{n}"
        with regard.recording(path, sync=False) as recorder:
            for _ in range(layers):
                recorder.layer(arrays(heads, n, d), arrays(heads, n, d))
        return sum(x.stat().st_size for x in path.iterdir())

    def formula(layers: int, heads: int, n: int, d: int) -> int:
        return layers * heads * n * (2 * d * 4 + 8)

    for n in (128, 256):
        assert 0 < size(3, 4, n, 32) - formula(3, 4, n, 32) < 3 * 1200 + 400
    assert round(formula(12, 12, 512, 32) / 1e6, -1) == 20
    assert round(formula(12, 12, 512, 64) / 1e6) == 38
    assert round(12 * 12 * 512 * 512 * 4 / 1e6) == 151
