"""The code for smaller machines, compiled and run here."""

from __future__ import annotations

import os
import platform

import numpy as np
import pytest
from hypothesis import given

import regard
from regard.errors import TargetError
from regard.kernels.target import NARROWED, host
from tests.attention.judge import DTYPES, UNSIGNED, bits, check, normal
from tests.attention.problems import cases
from tests.attention.test_properties import examples, hold

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="these are x86 machines")


@pytest.fixture(params=["", *NARROWED], ids=lambda name: name or "this machine")
def target(request, monkeypatch):
    monkeypatch.setenv("REGARD_TARGET", request.param)
    try:
        return host()
    except TargetError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", NARROWED)
def test_anything(name):
    @examples(20)
    @given(cases(widths=[(7, 5), (16, 17)], layouts=("plain", "heads inside")).filter(lambda case: case.filled))
    def inner(case):
        hold(case)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_TARGET", name)
        try:
            host()
        except TargetError as error:
            pytest.skip(str(error))
        inner()


# This machine meets every dtype in all other tests. The smaller ones differ by lanes and registers (any dtype), by what
# is fused (any), and by how f16 (in one instruction or several) and bf16 (in pairs or not) are read.
PARTS = {
    "": (),
    "x86-64-v2": tuple(DTYPES),
    "x86-64-v3": ("f64", "bf16"),
    "x86-64-v4": ("f32", "bf16", "f16"),
    "x86-64-v4+bf16": ("bf16",),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_part(target, dtype):
    if dtype not in PARTS[os.environ["REGARD_TARGET"]]:
        pytest.skip("another machine has such code for it")
    for n_q, n_k in ((67, 131), (1, 1000)):
        q, k, v = normal((4, n_q, 17), dtype), normal((2, n_k, 17), dtype, 1), normal((2, n_k, 9), dtype, 2)
        seen = np.random.default_rng(0).random((n_q, n_k)) < 0.5
        bias = normal((4, n_q, n_k), dtype, 3)
        bias[:, :, ::7] = -np.inf
        check(q, k, v)
        check(q, k, v, mask=seen, bias=bias, sinks=[0.0, -np.inf, 3.0, 1.0])
        bad = k.copy()
        bad[:, -3:] = np.nan
        worse = v.copy()
        worse[:, -3:] = np.inf
        check(q, bad, worse, mask=regard.padding([n_k - 3]), bias=normal((n_q, n_k)))
        check(q, k, worse)
        causal = regard.causal & regard.window(20, 0)
        check(
            q, k, v, mask=causal, modify=regard.softcap(2.0), like={"modify": lambda s, b, h, q, k: 2 * np.tanh(s / 2)}
        )


def returned(dtype, plus=0):
    """Every number of 16 bits, sent through a softmax over one key, which gives the value back."""
    patterns = np.arange(1 << 16, dtype=np.uint16).reshape(64, 1, 1024)
    v = patterns.view(DTYPES[dtype])
    q = np.zeros((64, 1 + plus, 1), v.dtype)
    return v, regard.attention(q, q[:, :1], v)[:, -1:]


@pytest.mark.parametrize("plus", [0, 40])
@pytest.mark.filterwarnings("ignore:invalid value")  # NaNs are cast and compared
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_all_numbers_of_16_bits_come_back(target, dtype, plus):
    v, z = returned(dtype, plus)
    exact = v.astype(np.float64)
    number = ~np.isnan(exact)
    wrong = number & (bits(z) != bits(v)) & ~((v == 0) & (z == 0))  # -0 added to a sum that starts at 0 is 0
    if host().pairs and dtype == "bf16" and plus:  # the pair product takes a number below 2^-126 as 0
        wrong &= abs(exact) >= 2.0**-126
    assert not wrong.any(), [f"{p:#06x}" for p in bits(v)[wrong][:8]]
    assert np.isnan(z[~number].astype(np.float64)).all()


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_outputs_are_rounded_to_the_nearest_even(target, dtype):
    """The mean of two neighbours is halfway between them; f32 holds it exactly."""
    low = np.arange(0x0400 if dtype == "f16" else 0x0100, 0x7B00, dtype=np.uint16)
    pairs = np.stack([low, low + 1])[None].view(DTYPES[dtype])  # (1, 2 keys, all numbers)
    zeros = np.zeros((1, 2, 1), pairs.dtype)
    z = regard.attention(zeros[:, :1], zeros, pairs)[0, 0]
    want = pairs[0].astype(np.float64).mean(axis=0).astype(pairs.dtype)
    assert bits(z).dtype == UNSIGNED[2]
    wrong = bits(z) != bits(want)
    assert not wrong.any(), [f"{p:#06x}" for p in low[wrong][:8]]


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_bias_of_every_half_number(target):
    """Each becomes a score; against a score of 0 its weight says what it was read as."""
    for dtype in ("f16", "bf16"):
        patterns = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[dtype])
        fits = np.abs(patterns.astype(np.float64)) < 60
        one = np.zeros((1, 1, 1), patterns.dtype)
        bias = patterns[fits].reshape(-1, 1, 1)
        heads = len(bias)
        q = np.broadcast_to(one, (heads, 1, 1))
        kv = np.zeros((1, 1, 1), patterns.dtype)
        _, lse = regard.attention(q, kv, kv, bias=np.repeat(bias, 1, axis=-1), return_lse=True)
        np.testing.assert_allclose(lse[:, 0], bias[:, 0, 0].astype(np.float64), rtol=3e-7, atol=1e-37)
        both = np.concatenate([bias, bias], axis=-1)  # (heads, 1, 2): a plane, read as an array
        kv = np.zeros((1, 2, 1), patterns.dtype)
        both = np.broadcast_to(both, (heads, 2, 2))
        _, lse = regard.attention(np.broadcast_to(one, (heads, 2, 1)), kv, kv, bias=both, return_lse=True)
        want = bias[:, 0].astype(np.float64) + np.log(2)
        np.testing.assert_allclose(
            lse, np.broadcast_to(want, lse.shape), rtol=4e-7, atol=3e-5 if dtype == "bf16" else 3e-7
        )
