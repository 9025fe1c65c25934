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
        (lambda: regard.mask(lambda b, h, q, k: (k == 0) if q > 3 else (k == 1)), r"."),
    ):
        with pytest.raises(regard.RegardError, match=message):
            wrong()
    assert issubclass(regard.RegardError, Exception)


def test_examples_in_the_docstring():
    finder = doctest.DocTestFinder(recurse=False)
    tests = finder.find(
        regard.attention, "attention", globs={"np": np, "regard": regard, "attention": regard.attention}
    )
    assert tests
    for test in tests:
        assert not doctest.DocTestRunner().run(test).failed
