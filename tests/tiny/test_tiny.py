"""The whole public face once, in a few seconds, compilation included."""

import doctest

import numpy as np
import pytest

import regard
from regard import reference

n, d = 12, 8
q, k, v = (np.random.default_rng(seed).normal(size=(2, n, d)).astype(np.float32) for seed in range(3))
ids, lengths = np.arange(n) // 4, np.array([7])
array = np.random.default_rng(3).random((n, n)) < 0.5


def close(z, **options):
    np.testing.assert_allclose(z, reference.attention(q, k, v, **options), rtol=1e-5, atol=1e-5)


def test_attention():
    z, lse = regard.attention(q, k, v, return_lse=True)
    want, want_lse = reference.attention(q, k, v, return_lse=True)
    np.testing.assert_allclose(z, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-5)
    out = np.empty_like(q)
    assert regard.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out, z)
    np.testing.assert_array_equal(regard.attention(q, k, v, score=regard.dot), z)
    assert regard.attention(q[0], k[0], v[0]).shape == (n, d)
    close(regard.attention(q, k, v, scale=0.5), scale=0.5)


@pytest.mark.parametrize(
    ("mask", "meaning"),
    [
        (regard.causal, lambda b, h, q, k: k <= q),
        (regard.causal(align="first"), lambda b, h, q, k: k <= q),
        (regard.window(3, 1), lambda b, h, q, k: (q - 3 <= k) & (k <= q + 1)),
        (regard.padding(lengths), lambda b, h, q, k: (k < 7) & (q >= 0)),
        (regard.segments(ids), lambda b, h, q, k: q // 4 == k // 4),
        (regard.causal | regard.prefix(5), lambda b, h, q, k: (k <= q) | (k < 5)),
        (
            ~regard.causal & regard.mask(lambda b, h, q, k: (q + k) % 2 == h),
            lambda b, h, q, k: (k > q) & ((q + k) % 2 == h),
        ),
        (array, array),
    ],
    ids=["causal", "causal first", "window", "padding", "segments", "prefix", "function", "array"],
)
def test_masks(mask, meaning):
    close(regard.attention(q, k, v, mask=mask), mask=meaning)


def test_scores():
    bias, slopes = q @ k.swapaxes(-1, -2), np.array([0.5, 0.25])
    z = regard.attention(q, k, v, modify=[regard.softcap(2.0), regard.alibi(slopes)], bias=bias, sinks=[0.0, 1.0])
    meaning = [lambda s, b, h, q, k: 2 * np.tanh(s / 2), lambda s, b, h, q, k: s - slopes[h] * abs(q - k)]
    close(z, modify=meaning, bias=bias, sinks=[0.0, 1.0])


def test_matrix():
    words = [f"w{i}" for i in range(n)]
    _, lse = regard.attention(q, k, v, mask=regard.causal, return_lse=True)
    a = reference.weights(q, k, mask=lambda b, h, q, k: k <= q)
    A = regard.matrix(q, k, v=v, mask=regard.causal, tokens=words)
    assert isinstance(A, regard.AttentionMatrix)
    assert (A.shape, A.ndim, len(A), A.dtype) == (a.shape, 3, 2, np.float32)
    for index in (0, (1, 2), (..., 3), (0, slice(None, None, -2)), a > 0.3):
        np.testing.assert_allclose(A[index], a[index], atol=1e-6)
    np.testing.assert_allclose(A[1, "w5", "w2"], a[1, 5, 2], atol=1e-6)
    np.testing.assert_allclose(A.T[0], a[0].T, atol=1e-6)
    np.testing.assert_allclose(np.asarray(A), a, atol=1e-6)
    np.testing.assert_allclose(A.lse, lse, atol=1e-5)
    np.testing.assert_allclose(regard.matrix(q, k, mask=regard.causal, lse=lse)[0], a[0], atol=1e-6)
    np.testing.assert_allclose(A.output(), a @ v, atol=1e-5)
    np.testing.assert_allclose(A.without(0)[:, 1:, 0], 0)
    assert np.isneginf(A.scores[0, 0, 1:]).all()


def test_questions():
    A = regard.matrix(q, k, mask=regard.causal)
    a = reference.weights(q, k, mask=lambda b, h, q, k: k <= q)
    entropy, top, received, (distances, mass, seen), heat = A.ask(
        regard.lens.Entropy(), regard.lens.Top(3), regard.lens.Received(), regard.lens.ByDistance(),
        regard.lens.Heatmap(4, pool="sum"),
    )  # fmt: skip
    np.testing.assert_allclose(entropy, -(a * np.log(np.where(a > 0, a, 1))).sum(-1), atol=1e-5)
    np.testing.assert_allclose(top.weights[:, 2:], -np.sort(-a, axis=-1)[:, 2:, :3], atol=1e-5)
    np.testing.assert_allclose(received, a.sum(-2), rtol=1e-5)
    assert (distances.tolist(), seen[0, n - 1 :].tolist()) == (list(range(1 - n, n)), list(range(n, 0, -1)))
    np.testing.assert_allclose(mass[0, n], np.trace(a[0], -1), rtol=1e-5)
    np.testing.assert_allclose(heat, a.reshape(2, 4, 3, 4, 3).sum((2, 4)), atol=1e-5)
    np.testing.assert_allclose(A.between(ids).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(A.mass(regard.window(0)).rows[:, 0], 1)
    assert (A.cells(0.5).weight > 0.5).all()
    assert A.peak().keys[0, 0] == 0


def test_other_dtypes():
    for dtype in ("float64", "float16", "bfloat16"):
        import ml_dtypes

        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        z = regard.attention(q.astype(kind), k.astype(kind), v.astype(kind))
        assert z.dtype == kind
        np.testing.assert_allclose(z.astype(float), reference.attention(q, k, v), atol=0.05)


def test_threads():
    before = regard.threads()
    assert regard.threads(2) == 2
    np.testing.assert_array_equal(regard.attention(q, k, v), regard.attention(q, k, v))
    assert regard.threads(0) == before


def test_torch():
    torch = pytest.importorskip("torch")
    z = regard.attention(*map(torch.from_numpy, (q, k, v)))
    assert isinstance(z, torch.Tensor)
    np.testing.assert_array_equal(z.numpy(), regard.attention(q, k, v))


def test_errors():
    for wrong, message in (
        (lambda: regard.attention(q, k[:, :, :4], v), r"q has d = 8 and k has d = 4, expected the same"),
        (lambda: regard.attention(q, k, v[:, :5]), r"k has 12 rows and v has 5, expected the same"),
        (lambda: regard.attention(q.astype(int), k, v), r"q has dtype int64, expected float32, float64, bfloat16 or"),
        (lambda: regard.attention(q, k, v, mask=np.ones((3, 3), bool)), r"mask has shape \(3, 3\), expected one that"),
        (lambda: regard.attention(q, k, v, mask=array.astype(int)), r"mask has dtype int64"),
        (lambda: regard.matrix(q, k).build(limit=9), r"this would build 288 cells \(1\.1 KiB\), expected at most 9"),
        (lambda: regard.matrix(q, k, tokens=["x"] * n)[0, "x"], r"'x' is not one token but 12, at 0, 1"),
        (lambda: regard.mask(lambda b, h, q, k: (k == 0) if q > 3 else (k == 1)), r"."),
    ):
        with pytest.raises(regard.RegardError, match=message):
            wrong()
    assert issubclass(regard.RegardError, Exception)


def test_examples_in_the_docstrings():
    finder = doctest.DocTestFinder(recurse=False)
    for name in ("attention", "matrix", "trace"):
        function = getattr(regard, name)
        tests = finder.find(function, name, globs={"np": np, "regard": regard, name: function})
        assert tests
        for test in tests:
            assert not doctest.DocTestRunner().run(test).failed
