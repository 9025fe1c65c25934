"""regard.attention against the float64 reference, on shapes, layouts and options drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import regard
from tests.attention.judge import DTYPES, check, compare, expected, near, normal, same_bits
from tests.attention.problems import LAYOUTS, MASKS, MODIFIERS, Case, cases, lay


def examples(count):
    """The same examples in every run."""
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )


def hold(case: Case) -> None:
    """The case agrees with the reference, says the same without lse, and the same again."""
    (q, k, v), options, like = case.make()
    z, lse = regard.attention(q, k, v, return_lse=True, **options)
    assert z.dtype == q.dtype
    assert lse.dtype == (np.float64 if case.dtype == "f64" else np.float32)
    compare(z, lse, q, k, v, **like)
    again, lse_again = regard.attention(q, k, v, return_lse=True, **options)
    same_bits(z, again, "the same call again")
    same_bits(lse, lse_again, "the same call again")


@examples(100)
@given(cases(plain=True))
def test_shapes_and_layouts(case):
    hold(case)


@examples(100)
@given(cases(layouts=("plain", "heads inside")))
def test_options(case):
    assume(case.filled)
    hold(case)


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 0), (0, 5), (5, 0)])
def test_arrays_without_elements(n_q, n_k):
    """As a user's program gives them when a sequence is empty."""
    q, k = normal((2, n_q, 8)), normal((2, n_k, 8))
    for shape in ((n_q, n_k), (2, n_q, n_k), (n_q, 1), (1, n_k), (2, 1, n_k), (2, n_q, 1), (n_k,)):
        check(q, k, k, mask=np.ones(shape, bool))
        check(q, k, k, bias=np.zeros(shape, np.float32))
    check(q, k, k, mask=regard.causal & np.ones((n_q, n_k), bool), like={"mask": regard.causal})
    if n_q <= n_k:
        check(q, k, k, mask=regard.segments(np.zeros(n_k, int)), like={"mask": None})
    check(q, k, k, mask=regard.segments(np.zeros(n_q, int), np.zeros(n_k, int)), like={"mask": None})


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_every_mask(mask, dtype):
    sizes = ((67, 67), (67, 131), (67, 17), (3, 300))
    if dtype == "bf16":  # masks are written once, for any dtype: each by one of the two kinds of kernel
        sizes = sizes[1:2] if MASKS.index(mask) % 2 else sizes[3:]
    for n_q, n_k in sizes:
        shapes = [(2, 4, n_q, 16), (2, 2, n_k, 16), (2, 2, n_k, 16)]
        hold(Case(dtype, 16, 16, n_q, n_k, (4, 2), (2,), shapes, ["plain"] * 3, 7, mask=mask))


@pytest.mark.parametrize("modify", MODIFIERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_modifier(modify, dtype):
    sizes = ((67, 67), (5, 131))
    if dtype != "f32":  # modifiers are written once, for any dtype: each by one of the two kinds of kernel
        at = (MODIFIERS.index(modify) + list(DTYPES).index(dtype)) % 2
        sizes = sizes[at : at + 1]
    for n_q, n_k in sizes:
        shapes = [(4, n_q, 16), (2, n_k, 16), (2, n_k, 16)]
        hold(Case(dtype, 16, 16, n_q, n_k, (4, 2), (), shapes, ["plain"] * 3, 3, modify=modify, mask="causal"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout(layout, dtype):
    shapes = [(2, 4, 33, 16), (2, 2, 67, 16), (2, 2, 67, 17)]
    case = Case(dtype, 16, 17, 33, 67, (4, 2), (2,), shapes, [layout] * 3, 5)
    hold(case)
    case.mask, case.mask_shape, case.mask_layout = "array", (4, 33, 67), layout
    case.bias_shape, case.bias_dtype, case.bias_layout = (2, 1, 33, 67), dtype, layout
    hold(case)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 1), (1, 7), (5, 7), (1, 1), (4, 1, 1), (4, 5, 1), (4, 1, 7),
                                   (4, 5, 7), (1, 5, 7), (2, 1, 1, 1), (2, 4, 5, 1), (2, 1, 5, 7), (2, 4, 1, 7),
                                   (3, 1, 1, 5, 7), (3, 2, 4, 1, 7), (1, 2, 4, 5, 7), (3, 2, 4, 5, 7)])  # fmt: skip
def test_masks_and_biases_broadcast_in_every_way(shape):
    q, k, v = normal((3, 2, 4, 5, 8)), normal((3, 1, 2, 7, 8)), normal((2, 2, 7, 8))
    seen = np.random.default_rng(1).random(shape) < 0.7
    check(q, k, v, mask=np.asarray(seen))
    check(q, k, v, bias=np.where(seen, normal(shape, "f32", 2), np.float32(-np.inf)).astype(np.float32))
    check(q, k, v, mask=np.asarray(seen), bias=normal(shape, "f32", 3))


@pytest.mark.parametrize(("d", "d_v"), [(128, 128), (256, 97), (521, 64), (16, 1031), (2048, 2048)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_wide_heads(d, d_v, dtype):
    if dtype in ("f64", "f16") and d_v != 2048:
        pytest.skip("the widest is enough for these")
    q, k, v = normal((2, 37, d), dtype), normal((1, 131, d), dtype), normal((1, 131, d_v), dtype)
    check(q, k, v)
    check(q[:, :3], k, v, mask=regard.causal)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [(1, 1), (4, 2), (8, 2), (8, 1), (7, 1)])
def test_few_queries_against_many_keys(dtype, heads):
    met = {"bf16": ((4, 2), (8, 2), (7, 1)), "f64": ((8, 2),), "f16": ((7, 1),)}
    if heads not in met.get(dtype, (heads,)):
        pytest.skip("how queries share keys does not depend on the dtype")
    rng = np.random.default_rng(heads[0])
    several = int(rng.integers(3, 21))
    for n_k in (1, 7, 1000, 8192, 9001) if heads in ((8, 2), (7, 1)) else (1, 7, 1000):
        k, v = (normal((heads[1], n_k, 32), dtype, seed) for seed in (1, 2))
        # The reference builds whole matrices, so the longest are met by few queries.
        for n_q in (1, several) if n_k <= 1000 else (1,) if n_k == 8192 else (2,):
            q = normal((heads[0], n_q, 32), dtype)
            check(q * q.dtype.type(3), k, v, mask=regard.causal & regard.window(5000, 0))
        check(q, k, v)
        if n_k == 1000:
            check(q, k, v, sinks=np.linspace(-2, 9, heads[0]), mask=rng.random((n_q, n_k)) < 0.5)
            check(q, k, v, bias=normal((heads[0], n_q, n_k)), modify=regard.softcap(2.0),
                  like={"modify": lambda s, b, h, q, k: 2 * np.tanh(s / 2)})  # fmt: skip


def test_twenty_queries_against_the_most_keys():
    for dtype in ("f32", "bf16"):
        for n_q in (16, 17, 20):
            check(normal((2, n_q, 32), dtype), normal((1, 9001, 32), dtype, 1), normal((1, 9001, 32), dtype, 2))


@pytest.mark.parametrize("n_q", range(1, 21))
def test_every_small_number_of_queries(n_q):
    for dtype in ("f32", "bf16") if n_q in (1, 2, 7, 8, 9, 16, 17) else ("f32",):
        q, k, v = (normal((2, n, 32), dtype, n) for n in (n_q, 1000, 1000))
        check(q, k, v, mask=regard.causal)


def test_a_cache_that_is_longer_than_what_it_holds():
    """Decoding against a cache of fixed size: each sequence has its own length, and what is behind it is old."""
    for dtype in DTYPES:
        k, v = normal((3, 2, 4099, 32), dtype, 1), normal((3, 2, 4099, 32), dtype, 2)
        lengths = np.array([1, 4099, 2050])
        for b, n in enumerate(lengths):
            k[b, :, n:] = v[b, :, n:] = np.nan
        check(normal((3, 8, 1, 32), dtype), k, v, mask=regard.padding(lengths))


def test_more_than_one_strip_of_everything():
    """Longer than any block, with masks that leave blocks out."""
    q, k, v = normal((2, 613, 16)), normal((1, 901, 16), seed=1), normal((1, 901, 16), seed=2)
    for mask in (None, regard.causal, regard.window(100, 0), regard.window(3, 300), regard.causal(align="first")):
        check(q, k, v, mask=mask)
    ids = np.arange(901) // 64
    check(q, k, v, mask=regard.segments(ids))
    check(q, k, v, mask=~regard.segments(ids))


def test_equal_masks_and_scales_are_told_apart_from_others():
    """What a call has prepared is kept for the next; a length or a scale that changed must not be taken for the old."""
    q = normal((2, 40, 16))
    for left in (3, 4, 5, 3):
        check(q, q, q, mask=regard.window(left, 0))
    for lengths in ([3], [30], [40]):
        check(q, q, q, mask=regard.padding(lengths))
    for scale in (None, 1, 0.5, -1.0, 0, True):
        check(q, q, q, scale=scale)
    for limit in (1.0, 2.0):
        check(q, q, q, modify=regard.softcap(limit), like={"modify": lambda s, b, h, q, k, c=limit: c * np.tanh(s / c)})


def test_an_array_that_is_changed_between_calls():
    q, seen, lengths = normal((2, 20, 16)), np.ones((20, 20), bool), np.array([20])
    padding = regard.padding(lengths)
    check(q, q, q, mask=seen)
    seen[:, 7] = False
    check(q, q, q, mask=seen)
    check(q, q, q, mask=padding)
    q[0, 0] = 3
    check(q, q, q, mask=padding)


def test_sinks_in_every_form():
    q = normal((4, 20, 16))
    for sinks in ([0.0, 1.0, -1.0, 2.0], np.array([1, 2, 3, 40]), normal((4,), "bf16"), np.full(4, -np.inf)):
        check(q, q, q, sinks=sinks)
        check(q, q, q, sinks=sinks, mask=regard.causal & ~regard.window(3, 0))
    check(q[0], q[0], q[0], sinks=1.5)
    check(q[0], q[0], q[0], sinks=[1.5])
    z, lse = regard.attention(q, q, q, return_lse=True)
    z_sink, lse_sink = regard.attention(q, q, q, sinks=np.full(4, -np.inf), return_lse=True)
    same_bits(z, z_sink, "a sink of -inf is no sink")
    same_bits(lse, lse_sink, "a sink of -inf is no sink")


def test_modifiers_that_read_arrays():
    n_q, n_k, heads = 33, 67, 3
    q, k, v = normal((2, heads, n_q, 16)), normal((2, heads, n_k, 16)), normal((2, heads, n_k, 16))
    table, slopes = normal((2 * n_k,), "f32", 4), normal((2, heads), "f32", 5)

    def added(score, b, h, q, k):
        return score * slopes[b, h] + table[q - k + n_k - 1]

    check(q, k, v, modify=added)
    check(q, k, v, modify=added, mask=regard.causal)


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_have_the_shape_of_q(dtype):
    q, k = normal((5, 4), dtype), normal((7, 4), dtype)
    for x, y in ((q, k), (q[None], k[None]), (q[None, None], k[None])):
        z, lse = regard.attention(x, y, y, return_lse=True)
        assert z.shape == x.shape
        assert lse.shape == x.shape[:-1]
        assert type(z) is np.ndarray


def test_the_judge_sees_one_wrong_key():
    """Of a thousand keys, one too few, one moved by one place, or a mask off by one: each is found."""
    for dtype, n in (("f32", 1000), ("f64", 1000), ("f16", 300), ("bf16", 300)):
        q, k, v = (normal((2, n, 16), dtype, seed) for seed in range(3))
        z, lse, z_error, lse_error = expected(q, k, v, mask=regard.causal)
        for wrong in (
            regard.attention(q, k, v, mask=regard.causal & ~regard.prefix(1), return_lse=True),
            regard.attention(q, k, v, mask=regard.mask(lambda b, h, q, k: k <= q + 1), return_lse=True),
            regard.attention(q, k, np.roll(v, 1, axis=-2), mask=regard.causal, return_lse=True),
            regard.attention(q, lay(k, "plain") * k.dtype.type(1.05), v, mask=regard.causal, return_lse=True),
        ):
            with pytest.raises(AssertionError, match="wrong, first at"):
                near("output", wrong[0], z, z_error)
        with pytest.raises(AssertionError, match="wrong, first at"):
            near("lse", regard.attention(q, k[:, 1:], v[:, 1:], return_lse=True)[1], lse, lse_error)
