"""Calls of scaled_dot_product_attention seen: masks, groups, dtypes, and what is kept of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from tests.recording.torch_taken import (
    Taken,
    close,
    qkv,
    same,
    weights,
)

pytestmark = pytest.mark.usefixtures("torch_alone")


# One call.


CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "scale": ({}, {"scale": 0.3}),
    "causal": ({}, {"is_causal": True}),
    "causal, fewer queries": ({"keys": 19}, {"is_causal": True}),
    "causal, more queries": ({"keys": 5}, {"is_causal": True}),
    "groups": ({"key_heads": 2}, {"enable_gqa": True, "is_causal": True}),
    "bias": ({}, {"attn_mask": lambda: torch.randn(11, 11)}),
    "bias of heads": ({}, {"attn_mask": lambda: torch.randn(1, 4, 11, 11)}),
    "bias of keys": ({}, {"attn_mask": lambda: torch.randn(2, 1, 1, 11)}),
    "mask": ({}, {"attn_mask": lambda: torch.rand(2, 4, 11, 11) > 0.3}),
    "mask of keys": ({}, {"attn_mask": lambda: torch.rand(2, 1, 1, 11) > 0.3}),
    "mask of rows": ({}, {"attn_mask": lambda: torch.rand(2, 1, 11, 1) > 0.3}),
    "mask of one number": ({}, {"attn_mask": lambda: torch.ones(1, 1, dtype=torch.bool)}),
    "mask and groups": (
        {"key_heads": 1},
        {"enable_gqa": True, "attn_mask": lambda: torch.rand(2, 4, 11, 11) > 0.3},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_call(name: str) -> None:
    shape, given = CALLS[name]
    options = {x: made() if callable(made) else made for x, made in given.items()}
    q, k, v = qkv(2, 4, 11, 8, **shape)
    plain = sdpa(q, k, v, **options)
    with Taken() as taken:
        seen = sdpa(q, k, v, **options)
    assert same(plain, seen)
    assert taken.names == ["0"]
    expected = weights(q, k, options.get("attn_mask"), options.get("is_causal", False), options.get("scale"))
    close(taken.matrix(), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes_are_kept(dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in qkv(2, 4, 11, 8))
    plain = sdpa(q, k, v, torch.ones(11, 11, dtype=torch.bool).tril())
    with Taken() as taken:
        assert same(plain, sdpa(q, k, v, torch.ones(11, 11, dtype=torch.bool).tril()))
    assert taken.texts[0]["0"][0]["q"].dtype == dtype
    close(taken.matrix(), weights(q, k, causal=True))


@pytest.mark.parametrize("shape", [(11, 8), (4, 11, 8), (2, 3, 4, 11, 8)])
def test_other_numbers_of_axes(shape: tuple[int, ...]) -> None:
    q, k, v = (torch.randn(shape) for _ in range(3))
    for mask in (None, torch.rand((*shape[:-2], 11, 11)) > 0.3):
        with Taken() as taken:
            seen = sdpa(q, k, v, mask)
        assert same(seen, sdpa(q, k, v, mask))
        expected = weights(q, k, mask)
        close(taken.matrix(), expected.reshape(-1, *expected.shape[-3:]) if len(shape) > 4 else expected)


def test_axes_that_torch_broadcasts() -> None:
    for q, k, mask in (
        (torch.randn(1, 4, 5, 8), torch.randn(3, 4, 7, 8), None),
        (torch.randn(3, 4, 5, 8), torch.randn(3, 1, 7, 8), None),
        (torch.randn(2, 1, 5, 8), torch.randn(2, 4, 7, 8), None),
    ):
        v = torch.randn_like(k)
        with Taken() as taken:
            seen = sdpa(q, k, v, mask)
        assert same(seen, sdpa(q, k, v, mask))
        expected = torch.from_numpy(weights(q, k.expand(*k.shape[:-3], max(q.shape[-3], k.shape[-3]), 7, 8), mask))
        found = torch.from_numpy(taken.matrix()).float()
        close((found @ v).numpy(), seen.numpy(), 1e-5)
        assert found.shape[-2:] == expected.shape[-2:]


def test_values_with_heads_of_their_own_number() -> None:
    q, k, _ = qkv(2, 4, 6, 8, key_heads=2)
    v = torch.randn(2, 4, 6, 8)
    with Taken() as taken:
        seen = sdpa(q, k, v, enable_gqa=True)
    assert same(seen, sdpa(q, k, v, enable_gqa=True))
    close(taken.matrix(), weights(q, k))
    step = taken.texts[0]["0"][0]
    assert step["k"].shape == step["v"].shape == v.shape


def test_arguments_by_name_and_by_place() -> None:
    q, k, v = qkv(2, 4, 6, 8)
    with Taken() as taken:
        sdpa(query=q, key=k, value=v, is_causal=True)
        sdpa(q, k, v, None, 0.0, True, scale=0.5)
    close(taken.matrix("0"), weights(q, k, causal=True))
    close(taken.matrix("1"), weights(q, k, causal=True, scale=0.5))


def test_under_autocast_the_record_is_of_what_was_computed() -> None:
    q, k, v = qkv(2, 4, 11, 8)
    bias = torch.randn(11, 11)
    with torch.autocast("cpu", torch.bfloat16):
        plain = sdpa(q, k, v, bias)
        with Taken() as taken:
            seen = sdpa(q, k, v, bias)
    assert plain.dtype == torch.bfloat16
    assert same(plain, seen)
    assert taken.texts[0]["0"][0]["q"].dtype == torch.bfloat16


# Masks and keys, small.


def given(*args: Any, **options: Any) -> dict[str, Any]:
    with Taken() as taken:
        sdpa(*args, **options)
    return taken.texts[0]["0"][0]


def test_simple_masks_need_no_plane() -> None:
    q, k, v = qkv(2, 4, 12, 8)
    below = torch.ones(12, 12, dtype=torch.bool).tril()
    there = torch.arange(12) < torch.tensor([12, 7])[:, None]  # (2, 12)
    left = there.flip(1)
    for mask, shown in (
        (below, "(k <= q)"),
        ((below & there[:, None])[:, None], "and"),
        ((below & left[:, None])[:, None].expand(2, 4, 12, 12), "and"),
        (below & below.triu(-4), "window"),
        ((below & below.triu(-4))[None, None].expand(2, 1, 12, 12), "window"),
    ):
        found = given(q, k, v, mask)["mask"]
        assert not hasattr(found, "shape"), shown
        with Taken() as taken:
            sdpa(q, k, v, mask)
        close(taken.matrix(), weights(q, k, mask))
    rows = there[:, None, None].expand(2, 4, 12, 12)
    assert tuple(given(q, k, v, rows)["mask"].shape) == (2, 1, 1, 12)
    assert tuple(given(q, k, v, rows.contiguous())["mask"].shape) == (2, 1, 1, 12)
    assert "mask" not in given(q, k, v, torch.ones(2, 1, 12, 12, dtype=torch.bool))


def test_a_mask_that_is_nearly_causal_stays_as_it_is() -> None:
    q, k, v = qkv(2, 4, 12, 8)
    mask = torch.ones(12, 12, dtype=torch.bool).tril()
    mask[3, 9] = True
    assert torch.equal(given(q, k, v, mask)["mask"], mask)


def test_a_mask_that_changes_between_calls_is_read_anew() -> None:
    q, k, v = qkv(2, 4, 12, 8)
    mask = torch.ones(12, 12, dtype=torch.bool).tril()
    for grad in (torch.no_grad, torch.inference_mode):
        with grad(), Taken() as taken:
            ours = mask.clone()
            sdpa(q, k, v, ours)
            ours[5:, 2] = False
            sdpa(q, k, v, ours)
        close(taken.matrix("0"), weights(q, k, mask))
        close(taken.matrix("1"), weights(q, k, ours))


def test_a_bias_is_kept_as_it_is() -> None:
    q, k, v = qkv(2, 4, 12, 8)
    lowest = torch.finfo(torch.float32).min
    bias = torch.zeros(2, 1, 12, 12).masked_fill(torch.rand(2, 1, 12, 12) > 0.6, lowest)
    assert torch.equal(given(q, k, v, bias)["bias"], bias)
    wide = bias[:, :, :1].expand(2, 4, 12, 12)
    assert tuple(given(q, k, v, wide)["bias"].shape) == (2, 1, 1, 12)
    with Taken() as taken:
        sdpa(q, k, v, wide)
    close(taken.matrix(), weights(q, k, wide))


def test_repeated_heads_are_kept_once() -> None:
    q, k, v = qkv(2, 6, 9, 8, key_heads=2)
    every = [x.repeat_interleave(3, 1) for x in (k, v)]
    found = given(q, *every)
    assert torch.equal(found["k"], k)
    assert torch.equal(found["v"], v)
    one = [x[:, :1].expand(2, 6, 9, 8) for x in (k, v)]
    assert found["k"].shape[1] == 2
    assert given(q, *one)["k"].shape[1] == 1


@pytest.mark.parametrize("place", [(0, 1, 0, 0), (1, 5, 8, 7)])
def test_heads_that_differ_in_one_number_are_not_one(place: tuple[int, ...]) -> None:
    q, k, v = qkv(2, 6, 9, 8, key_heads=2)
    k, v = (x.repeat_interleave(3, 1) for x in (k, v))
    other = k.clone()
    other[place] += 1e-3
    assert given(q, other, v)["k"].shape[1] == 6
    other = v.clone()
    other[place] += 1e-3
    assert given(q, k, other)["k"].shape[1] == 6
    with Taken(values=False) as taken:  # values that are not kept need not be alike
        sdpa(q, k, other)
    assert taken.texts[0]["0"][0]["k"].shape[1] == 2
