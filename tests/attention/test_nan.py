"""NaN and inf: hidden, they change not one bit; seen, they stay what they are. And rows that see nothing."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from regard import reference
from tests.attention.judge import DTYPES, UNSIGNED, check, compare, near, normal, same_bits, spelled_out, wide

INF = np.inf
POISONS = {
    "f32": [0x7FFFFFFF, 0xFFC12345, 0x7F800001, 0x7F800000, 0xFF800000],
    "bf16": [0x7FFF, 0xFF81, 0x7F80, 0xFF80],
    "f16": [0x7FFF, 0xFC01, 0x7C00, 0xFC00],
    "f64": [0x7FFFFFFFFFFFFFFF, 0xFFF0000000000001, 0x7FF0000000000000],
}
EVERY = [(dtype, pattern) for dtype, patterns in POISONS.items() for pattern in patterns]
every_poison = pytest.mark.parametrize(("dtype", "pattern"), EVERY, ids=[f"{d}-{p:x}" for d, p in EVERY])


def poisoned(x, pattern, place):
    x = x.copy()
    x.view(UNSIGNED[x.itemsize])[place] = pattern
    return x


def same_but_for(change, arrays, **options):
    """The bits of output and lse before and after a change of what is hidden."""
    before = regard.attention(*arrays, return_lse=True, **options)
    after = regard.attention(*change(arrays), return_lse=True, **options)
    for what, a, b in zip(("output", "lse"), before, after, strict=True):
        same_bits(a, b, what)
    assert np.isfinite(wide(after[0])).all()


def hidden_ways(n_q, n_k, gone, dtype):
    """Ways to hide some keys from everybody.

    What hides and what is hidden have nothing to do with each other, so f64 and f16 meet half of the ways each.
    """
    ways = every_hidden_way(n_q, n_k, gone)
    return [way for number, way in enumerate(ways) if dtype in ("f32", "bf16") or number % 2 == (dtype == "f64")]


def every_hidden_way(n_q, n_k, gone):
    seen = np.ones((n_q, n_k), bool)
    seen[:, gone] = False
    away = np.where(seen, 0, -INF).astype(np.float32)
    first = int(np.argmax(~seen[0]))
    if gone == slice(first, None):
        yield "padding", {"mask": regard.padding([first])}
        yield "window", {"mask": regard.window(n_k, 0, align="first") & regard.prefix(first)}
    yield "array", {"mask": seen}
    yield "array of keys", {"mask": seen[:1]}
    yield "causal or nothing", {"mask": (regard.causal | regard.prefix(1)) & seen}
    yield "bias", {"bias": away + normal((n_q, n_k))}
    yield "bias of keys", {"bias": away[:1]}
    here = seen[0].astype(np.float32)
    yield "modifier", {"modify": lambda s, b, h, q, k: np.where(here[k] > 0, s, -INF)}
    yield "bias and sinks", {"bias": away, "sinks": [0.5, -0.5]}


@every_poison
def test_what_is_hidden_from_all_cannot_leak(dtype, pattern):
    failures = {}
    for n_q, n_k, gone in ((3, 12, slice(9, None)), (40, 150, slice(133, None)), (40, 150, [5, 6, 70, 149])):
        q, k, v = normal((2, n_q, 16), dtype), normal((2, n_k, 16), dtype, 1), normal((2, n_k, 17), dtype, 2)
        place = (slice(None), gone, slice(None))
        for what, options in hidden_ways(n_q, n_k, gone, dtype):
            for change in (
                lambda x, at=place: (x[0], poisoned(x[1], pattern, at), x[2]),
                lambda x, at=place: (x[0], x[1], poisoned(x[2], pattern, at)),
                lambda x, at=place: (x[0], poisoned(x[1], pattern, at), poisoned(x[2], pattern, (*at[:2], 3))),
            ):
                try:
                    same_but_for(change, (q, k, v), **options)
                except AssertionError as error:
                    failures.setdefault(what, f"hidden by {what}, {n_q} × {n_k}: {error}")
    assert not failures, "\n".join(failures.values())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_k", [1, 3, 13, 130])
def test_what_stands_after_the_last_key_cannot_leak(dtype, n_k):
    for n_q in (1, 5, 35):
        q, k, v = normal((2, n_q, 17), dtype), normal((2, n_k, 17), dtype, 1), normal((2, n_k, 17), dtype, 2)
        room = np.full(
            (3, 2, max(n_q, n_k) + 40, 17), np.nan, q.dtype
        )  # q, k and v with NaN before and after each head
        room[0, :, 20 : 20 + n_q], room[1, :, 20 : 20 + n_k], room[2, :, 20 : 20 + n_k] = q, k, v
        inside = room[0, :, 20 : 20 + n_q], room[1, :, 20 : 20 + n_k], room[2, :, 20 : 20 + n_k]
        ways = ({}, {"mask": regard.causal}, {"bias": normal((n_q, n_k))}, {"modify": regard.softcap(3.0)})
        if n_q < 35:  # each number of few queries has kernels of its own, which differ in what is done for each query
            ways = ways[n_q == 5 :: 2]
        if dtype in ("f64", "f16"):
            ways = ways[: len(ways) // 2]
        for options in ways:
            same_but_for(lambda x, inside=inside: inside, (q, k, v), **options)


@every_poison
def test_hidden_from_some_rows_of_a_tile_and_seen_by_others(dtype, pattern):
    n, at = 40, 21
    q, k, v = (normal((2, n, d), dtype, seed) * 0.5 for seed, d in enumerate((16, 16, 17)))
    q, k, v = (x.astype(DTYPES[dtype]) for x in (q, k, v))
    seen = np.random.default_rng(4).random((n, n)) < 0.6
    seen[:, 0] = True
    away = np.where(seen, 0, -INF).astype(np.float32)
    for what, options in (
        ("causal", {"mask": regard.causal}),
        ("window", {"mask": regard.window(4, 4)}),
        ("array", {"mask": seen}),
        ("bias", {"bias": away}),
        ("function", {"mask": regard.mask(lambda b, h, q, k: (q + k) % 3 != 0)}),
    ):
        like = {**options, "mask": spelled_out(options.get("mask"), n, n)}
        clean = regard.attention(q, k, v, return_lse=True, **options)
        visible = ~np.isneginf(reference.scores(wide(q), wide(k), **like))[0, :, at]
        assert visible.any()
        assert not visible.all()
        for name, arrays in (
            ("k", (q, poisoned(k, pattern, (slice(None), at, 2)), v)),
            ("v", (q, k, poisoned(v, pattern, (slice(None), at, 5)))),
            ("q", (poisoned(q, pattern, (slice(None), at, 2)), k, v)),
        ):
            z, lse = regard.attention(*arrays, return_lse=True, **options)
            compare(z, lse, *arrays, **like)
            untouched = np.arange(n) != at if name == "q" else ~visible
            same_bits(z[:, untouched], clean[0][:, untouched], f"{name} hidden by {what}")
            same_bits(lse[:, untouched], clean[1][:, untouched], f"{name} hidden by {what}")
            if name == "v":
                others = np.arange(17) != 5
                # The careful way that such a block takes may round otherwise, but no other column has a NaN.
                near("other columns", z[..., others], wide(clean[0][..., others]), 2**-6)
                same_bits(lse, clean[1], "lse does not look at values")


@pytest.mark.parametrize("dtype", DTYPES)
def test_seen_by_all(dtype):
    for n_q, n_k in ((1, 5), (1, 1500), (33, 40), (20, 200)):
        if n_q == 20 and dtype in ("f64", "f16"):
            continue  # as many queries as two vectors hold, which the code for 33 has as well
        q, k, v = normal((2, n_q, 16), dtype), normal((1, n_k, 16), dtype, 1), normal((1, n_k, 16), dtype, 2)
        for value in (np.nan, INF, -INF):
            at = n_k // 2
            for options in ({}, {"sinks": [0.0, 1.0]}, {"modify": regard.softcap(4.0)}):
                like = dict(options)
                if "modify" in options:
                    like["modify"] = lambda s, b, h, q, k: 4 * np.tanh(s / 4)
                for number in range(3):
                    arrays = [q.copy(), k.copy(), v.copy()]
                    arrays[number][0, min(at, arrays[number].shape[1] - 1), 3] = value
                    z, lse = regard.attention(*arrays, return_lse=True, **options)
                    compare(z, lse, *arrays, **like)


def test_nan_and_inf_in_a_bias():
    q, k, v = (normal((2, n, 16), seed=n) for n in (20, 35, 35))
    for dtype in DTYPES:
        x, y, z = (a.astype(DTYPES[dtype]) for a in (q, k, v))
        for kind in sorted({dtype, "f32"}):
            # How a bias lies and which dtype is attended with have nothing to do with each other.
            shapes = ((20, 35), (1, 35), (20, 1)) if kind == dtype else ((20, 35),)
            for pattern in POISONS[kind]:
                for shape in shapes:
                    bias = normal(shape, kind)
                    at = (..., min(3, shape[-2] - 1), min(4, shape[-1] - 1))
                    bias.view(UNSIGNED[bias.itemsize])[at] = pattern
                    check(x, y, z, bias=bias)
                    if dtype in ("f32", "bf16") and kind == dtype:
                        hidden = regard.mask(lambda b, h, q, k: (k != 4) & (q != 18))
                        check(x, y, z, bias=bias, mask=hidden)


def test_a_hidden_bias_cannot_leak():
    q = normal((2, 40, 16))
    for pattern in POISONS["f32"]:
        bias = normal((40, 40))
        bad = poisoned(bias, pattern, np.triu_indices(40, 1))
        a = regard.attention(q, q, q, bias=bias, mask=regard.causal, return_lse=True)
        b = regard.attention(q, q, q, bias=bad, mask=regard.causal, return_lse=True)
        same_bits(a[0], b[0], "output")
        same_bits(a[1], b[1], "lse")


def test_nan_in_sinks():
    q = normal((3, 20, 16))
    check(q, q, q, sinks=[np.nan, 0.0, INF])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_see_nothing(dtype):
    few = 1 if dtype == "bf16" else 3
    for n_q, n_k in ((few, 9), (40, 9), (40, 150), (few, 0)):
        q, k, v = normal((2, n_q, 16), dtype), normal((2, n_k, 16), dtype, 1), normal((2, n_k, 17), dtype, 2)
        nothing = np.zeros((n_q, n_k), bool)
        ways = [{"mask": regard.prefix(0)}, {"mask": ~regard.prefix(n_k)}, {"mask": regard.padding([0])}]
        if n_k:
            ways += [{"mask": nothing}, {"mask": nothing[:1]}, {"mask": nothing[:, :1]}]
            ways += [{"bias": np.full((n_q, n_k), -INF, np.float32)}, {"bias": np.full((1, n_k), -INF, np.float32)}]
            ways += [{"modify": lambda s, b, h, q, k: s * 0 - INF}]
        for number, options in enumerate(ways):
            if dtype in ("f64", "f16") and number % 2 == (dtype == "f64"):
                continue  # what hides and which dtype have nothing to do with each other: half of the ways each
            for pattern in (None, np.nan, INF):
                bad = k if pattern is None else np.full_like(k, pattern)
                worse = v if pattern is None else np.full_like(v, pattern)
                if "modify" in options and pattern is not None:
                    continue  # a NaN less inf is still a NaN
                z, lse = regard.attention(q, bad, worse, return_lse=True, **options)
                same_bits(z, np.zeros_like(z), "output of nothing")
                assert (lse == -INF).all()
                if number not in (0, 3, 6 + (dtype == "f16")):  # a program, an array, a bias
                    continue
                z, lse = regard.attention(q, bad, worse, return_lse=True, sinks=[1.5, -INF], **options)
                same_bits(z, np.zeros_like(z), "output of nothing")
                np.testing.assert_allclose(lse[0], 1.5, rtol=2 * np.finfo(lse.dtype).eps)
                np.testing.assert_array_equal(lse[1], -INF)


def test_some_rows_see_nothing():
    q = normal((2, 40, 16))
    seen = np.random.default_rng(0).random((40, 40)) < 0.1
    seen[[0, 7, 8, 39]] = False
    check(q, q, q, mask=seen)
    check(q[:, :, :8], q[:, :25, :8], q[:, :25], mask=regard.causal)  # the first queries stand before the first key
    check(q, q, q, mask=regard.causal & ~regard.window(10, 0))


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_scores_of_any_size(dtype):
    """At 1e30 a weight is 1 or 0, and nothing overflows on the way; at 1e-30 all weights are the same."""
    n = 19
    q, k, v = np.ones((n, 4)), np.zeros((n, 4)), wide(normal((n, 4), dtype))
    k[:, 0] = np.array([1e30, -1e30] * 9 + [0.0]) / np.arange(1, n + 1)
    q[::2] = -1
    arrays = [x.astype(DTYPES[dtype]) for x in (q, k, v)]
    z, lse = regard.attention(*arrays, scale=1.0, return_lse=True)
    compare(z, lse, *arrays, scale=1.0)
    assert np.isfinite(wide(z)).all()
    check(*arrays, scale=1.0, mask=regard.causal)
    for small in (1e-30, 1e-38, 1e-40, 1e-45):
        arrays[1] = (k / 1e30 * small).astype(DTYPES[dtype])
        check(*arrays)
        check(arrays[1], arrays[1], arrays[2])
    check(np.zeros_like(arrays[0]), arrays[1], arrays[2])  # all equal


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_scores_give_the_mean(dtype):
    v = normal((1, 300, 16), dtype)
    z, lse = regard.attention(np.zeros((1, 5, 8), v.dtype), np.ones((1, 300, 8), v.dtype), v, return_lse=True)
    compare(z, lse, np.zeros((1, 5, 8), v.dtype), np.ones((1, 300, 8), v.dtype), v)
    ones = regard.attention(normal((1, 5, 8), dtype), normal((1, 300, 8), dtype), np.ones_like(v))
    near("weights sum to 1", ones, np.ones((1, 5, 16)), {"f32": 1e-6, "f64": 1e-14, "bf16": 0, "f16": 0}[dtype])


def test_scores_of_inf():
    q, k, v = np.array([[1.0], [-1.0], [0.5]]), np.array([[INF], [1.0], [2.0]]), normal((3, 4))
    for dtype in DTYPES:
        arrays = [x.astype(DTYPES[dtype]) for x in (q, k, v)]
        check(*arrays)
        check(arrays[0], arrays[1][:1], arrays[2][:1])
        if dtype in ("f32", "bf16"):
            check(*arrays, mask=regard.causal)
            check(*arrays, sinks=1.0)
