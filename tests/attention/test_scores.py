"""General and additive scores: in attention, in the matrix and its questions, with all that a dot product has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import lens, reference
from regard.errors import DtypeError, ShapeError
from regard.kernels.target import NARROWED, host
from tests.attention.guarded import guarded
from tests.attention.judge import DTYPES, normal

H, K = 4, 2  # query heads, key heads
TOLERANCE = {"f32": 3e-6, "f64": 1e-13, "bf16": 3e-6, "f16": 3e-6}  # of weights
ROUNDED = {"f32": 1e-5, "f64": 1e-12, "bf16": 2e-2, "f16": 2e-3}  # of outputs, stored in their dtype

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": -0.5},
    "causal": {"mask": regard.causal},
    "window": {"mask": regard.window(9, 2)},
    "heads": {"mask": regard.mask(lambda b, h, q, k: (q + h) % 3 != k % 2)},
    "softcap": {"modify": regard.softcap(1.5)},
    "sinks": {"sinks": np.linspace(-1, 2, H)},
}


def score_of(kind: str, heads: bool, d_q: int, d_k: int, width: int) -> tuple[Any, Any]:
    """A score, and its equation over float64 (heads, n, d) arrays."""

    def made(*shape: int, per: int) -> Any:
        return normal((per, *shape) if heads else shape, "f64", seed=3)

    if kind == "general":
        weight = made(d_q, d_k, per=H)
        return regard.general(weight), lambda q, k: (q @ weight) @ np.swapaxes(k, -1, -2)
    w, w_q, w_k = made(width, per=H), made(d_q, width, per=H), made(d_k, width, per=K)
    w_k_each = np.repeat(w_k, H // K, 0) if heads else w_k
    w_each = w[:, None, None, :] if heads else w

    def equation(q: Any, k: Any) -> Any:
        inside = (q @ w_q)[..., :, None, :] + (k @ w_k_each)[..., None, :, :]  # (…, heads, n, m, d_a)
        return (np.tanh(inside) * w_each).sum(-1)

    return regard.additive(w, w_q, w_k), equation


def problem(kind: str, heads: bool, dtype: str, n_q: int, n_k: int, leading: tuple[int, ...] = ()) -> tuple[Any, ...]:
    q, k = normal((*leading, H, n_q, 6), dtype), normal((*leading, K, n_k, 5), dtype, 1)
    v = normal((*leading, K, n_k, 7), dtype, 2)
    score, equation = score_of(kind, heads, 6, 5, 9)
    wide_q, wide_k = q.astype(np.float64), np.repeat(k.astype(np.float64), H // K, -3)
    return q, k, v, score, equation(wide_q, wide_k)


def expected(scores: Any, v: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Z, lse and A of scores that are there: a dot product with the identity leaves them as they are."""
    options = {"scale": 1.0, **options}
    if isinstance(options.get("mask"), regard.Mask):
        condition = options["mask"].condition
        offset = scores.shape[-1] - scores.shape[-2]
        options["mask"] = lambda b, h, q, k: regard.algebra.evaluate.evaluate(
            condition, b=b, h=h, q=q, k=k, row=q - offset
        )
    keys = np.broadcast_to(np.eye(scores.shape[-1]), (*scores.shape[:-2], scores.shape[-1], scores.shape[-1]))
    values = np.repeat(v.astype(np.float64), H // K, -3)
    z, lse = reference.attention(scores, keys, values, **options, return_lse=True)
    return z, lse, reference.weights(scores, keys, **options)


# A general score is a dot product of what was projected before, so it meets what knows of heads; an additive one has
# kernels of its own, and meets everything.
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("heads", [False, True], ids=["shared", "each head"])
@pytest.mark.parametrize("kind", ["general", "additive"])
def test_with_everything(kind: str, heads: bool, option: str) -> None:
    if kind == "general" and option not in ("plain", "scale", "heads", "sinks"):
        pytest.skip("the same kernels as those of a dot product")
    q, k, v, score, scores = problem(kind, heads, "f32", 37, 53, (2,))
    options = OPTIONS[option]
    z, lse, a = expected(scores, v, options)
    got, got_lse = regard.attention(q, k, v, score=score, return_lse=True, **options)
    assert np.abs(got - z).max() < 1e-5
    assert np.abs(got_lse - lse).max() < 1e-5
    A = regard.matrix(q, k, score=score, **options)
    assert np.abs(A.build() - a).max() < TOLERANCE["f32"]
    assert np.abs(A[1, 2, [5, 8], [1, 3]] - a[1, 2, [5, 8], [1, 3]]).max() < TOLERANCE["f32"]
    assert np.abs(A[1, 3, ::5, 4:] - a[1, 3, ::5, 4:]).max() < TOLERANCE["f32"]
    received, (distances, mass, _), entropy = A.ask(lens.Received(), lens.ByDistance(), lens.Entropy())
    assert np.abs(received - a.sum(-2)).max() < 1e-4
    assert np.abs(mass.sum(-1) - a.sum((-1, -2))).max() < 1e-4
    assert len(distances) == 37 + 53 - 1
    assert np.abs(entropy + (a * np.log(np.where(a > 0, a, 1))).sum(-1)).max() < 1e-4


# Any two of these meet in all four ways.
TOGETHER: list[tuple[str, bool, bool, bool, bool, str]] = [  # kind, a matrix a head, bias, softcap, sinks, mask
    ("additive", True, True, True, True, ""),
    ("additive", False, True, False, False, "causal"),
    ("additive", False, False, True, False, "array"),
    ("general", True, False, True, False, ""),
    ("general", True, False, False, True, "causal"),
    ("general", False, True, False, True, "array"),
]


@pytest.mark.parametrize("number", range(len(TOGETHER)))
def test_anything_together(number: int) -> None:
    """All options and sizes against the equations, in attention, in the matrix and by all its questions."""
    kind, heads, bias, modify, sinks, mask = TOGETHER[number]
    few = ((), (1, 65, (2,)), (7, 13, ()), (), (1, 65, (2,)), (1, 1, ()))[number]  # have kernels of their own
    one = (40, 1, ()) if number in (0, 4) else ()
    for n_q, n_k, leading in filter(None, (few, one, (40, 13, (2,)), (40, 65, ()))):
        q, k, v, score, scores = problem(kind, heads, "f32", n_q, n_k, leading)
        options: dict[str, Any] = {}
        if bias:
            options["bias"] = normal((H, n_q, n_k), seed=5)
            options["bias"][options["bias"] > 1.5] = -np.inf
        if modify:
            options["modify"] = regard.softcap(2.0)
        if sinks:
            options["sinks"] = np.linspace(-1, 1, H)
        options["mask"] = {"": None, "causal": regard.causal, "array": normal((n_q, n_k), seed=6) < 1}[mask]
        agrees(q, k, v, score, scores, options)


def agrees(q: Any, k: Any, v: Any, score: Any, scores: Any, options: dict[str, Any]) -> None:
    n_q, n_k = scores.shape[-2:]
    z, _, a = expected(scores, v, options)
    assert np.abs(regard.attention(q, k, v, score=score, **options) - z).max() < 1e-5
    A = regard.matrix(q, k, score=score, **options)
    assert np.abs(A.build() - a).max() < TOLERANCE["f32"]
    native = A.ask(*QUESTIONS)
    for question, found in zip(QUESTIONS, native, strict=True):
        want = lens.over(question, a.reshape(-1, n_q, n_k), _seen(A, a), offset=A.readable().positions[0][0])
        for mine, theirs in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, want)), strict=True):
            assert np.allclose(np.asarray(mine).ravel(), np.asarray(theirs).ravel(), atol=2e-5, equal_nan=True)


QUESTIONS = (lens.Entropy(), lens.Received(), lens.ByDistance(), lens.Heatmap(3), lens.Total(), lens.Visible())


def _seen(A: Any, a: Any) -> Any:
    return np.broadcast_to(A.scores.build() > -np.inf, a.shape).reshape(-1, *a.shape[-2:])


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize(("n_q", "n_k"), [(33, 257), (50, 3)])
def test_nothing_outside_is_touched(n_q: int, n_k: int, end: bool) -> None:
    q, k, v = (guarded(normal((2, n, 19), "f32", seed), end) for seed, n in enumerate((n_q, n_k, n_k)))
    w, eye = guarded(normal((19,)), end), np.eye(19, dtype=np.float32)
    score = regard.additive(w, eye, eye)
    assert np.isfinite(regard.attention(q, k, v, score=score)).all()
    assert np.isfinite(regard.matrix(q, k, score=score).received()).all()


@pytest.mark.parametrize("target", NARROWED)
def test_smaller_machines(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_TARGET", target)
    try:
        host()
    except regard.RegardError as error:
        pytest.skip(str(error))
    for kind in ("general", "additive"):
        q, k, v, score, scores = problem(kind, True, "f32", 45, 70)
        z, _, a = expected(scores, v, {})
        assert np.abs(regard.attention(q, k, v, score=score) - z).max() < 1e-5
        assert np.abs(regard.matrix(q, k, score=score).build() - a).max() < TOLERANCE["f32"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["general", "additive"])
def test_dtypes(kind: str, dtype: str) -> None:
    q, k, v, score, scores = problem(kind, False, dtype, 33, 20)
    z, _, a = expected(scores, v, {})
    got = regard.attention(q, k, v, score=score)
    assert got.dtype == DTYPES[dtype]
    assert np.abs(got.astype(np.float64) - z).max() < ROUNDED[dtype]
    A = regard.matrix(q, k, score=score)
    assert np.abs(A.build() - a).max() < TOLERANCE[dtype]
    assert np.abs(A.output(v).astype(np.float64) - z).max() < ROUNDED[dtype]


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 3), (3, 0), (1, 1), (1, 300), (257, 2)])
@pytest.mark.parametrize("kind", ["general", "additive"])
def test_shapes(kind: str, n_q: int, n_k: int) -> None:
    q, k, v, score, scores = problem(kind, True, "f32", n_q, n_k)
    z, _, a = expected(scores, v, {})
    assert np.abs(regard.attention(q, k, v, score=score) - z).max(initial=0) < 1e-5
    assert np.abs(regard.matrix(q, k, score=score).build() - a).max(initial=0) < TOLERANCE["f32"]


@pytest.mark.parametrize("kind", ["general", "additive"])
def test_what_is_hidden_cannot_leak(kind: str) -> None:
    q, k, v, score, scores = problem(kind, False, "f32", 40, 40)
    k, v = k.copy(), v.copy()
    k[:, 39], v[:, 39] = np.nan, np.inf
    seen = np.ones((40, 40), bool)
    seen[:, 39] = False
    z, _, a = expected(scores[..., :39], v[:, :39], {})
    assert np.abs(regard.attention(q, k, v, score=score, mask=seen) - z).max() < 1e-5
    assert np.abs(regard.matrix(q, k, score=score, mask=seen)[..., :39] - a).max() < TOLERANCE["f32"]
    assert np.isnan(regard.attention(q, k, v, score=score)).all()


@pytest.mark.parametrize("kind", ["general", "additive"])
def test_one_head_tensors_and_out(kind: str) -> None:
    torch = pytest.importorskip("torch")
    q, k, v, _, _ = problem(kind, False, "f32", 9, 12)
    score, equation = score_of(kind, False, 6, 5, 9)
    want = reference.softmax(equation(q[0].astype(float), k[0].astype(float))) @ v[0]
    for dtype, off in ((torch.float32, 1e-5), (torch.bfloat16, 5e-2)):
        tensors = [torch.from_numpy(x[0]).to(dtype) for x in (q, k, v)]
        z = regard.attention(*tensors, score=score)
        assert z.dtype == dtype
        assert np.abs(z.float().numpy() - want).max() < off
        out = torch.empty_like(z)
        assert regard.attention(*tensors, score=score, out=out) is out
        assert torch.equal(out, z)


def test_bits_do_not_depend_on_threads() -> None:
    q, k, v, score, _ = problem("additive", False, "f32", 300, 700)
    before = regard.threads()
    try:
        found = [regard.threads(n) and regard.attention(q, k, v, score=score) for n in (1, 2, 3)]
    finally:
        regard.threads(0 if before == regard.threads(0) else before)
    assert all(np.array_equal(found[0], x) for x in found[1:])


def test_a_general_score_of_the_identity_is_the_dot_product() -> None:
    q, k, v = (normal((H, 50, 8), "f32", seed) for seed in range(3))
    z = regard.attention(q, k, v, score=regard.general(np.eye(8)))
    assert np.abs(z - regard.attention(q, k, v, scale=1.0)).max() < 1e-6


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: regard.additive(np.ones(3), np.ones((6, 4)), np.ones((5, 4))), ShapeError,
         "the last axes are w 3, w_q 4, w_k 4, expected the same d_a: check the three of them"),
        (lambda: regard.general(np.ones(3)), ShapeError, "weight has shape (3,), expected 2 or 3 axes: reshape it"),
        (lambda: regard.general(np.array([["a"]])), DtypeError, "weight has dtype <U1, expected numbers: convert it"),
        (lambda: regard.attention(*_three(), score=regard.general(np.ones((5, 6)))), ShapeError,
         "W is 5 × 6, expected 6 × 5: its axes are those of what it is multiplied with"),
        (lambda: regard.attention(*_three(), score=regard.general(np.ones((3, 6, 5)))), ShapeError,
         "W has 3 heads, expected 4: pass one matrix for each, or one for all"),
        (lambda: regard.attention(*_three(), score="dot"), DtypeError,
         "score is 'dot', expected regard.dot, regard.general(W) or regard.additive(w, w_q, w_k): pass one"),
    ],
)  # fmt: skip
def test_messages(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == message


def _three() -> tuple[Any, Any, Any]:
    return normal((H, 4, 6)), normal((K, 4, 5)), normal((K, 4, 7))
