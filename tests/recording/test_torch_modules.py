"""The modules of torch.nn keep their bits while they are recorded, on their fast paths too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.recording.torch_taken import (
    HAS_TORCH_FUNCTION,
    NESTED,
    Block,
    Taken,
    close,
    same,
    weights,
)

pytestmark = pytest.mark.usefixtures("torch_alone")


def test_gradients_flow_and_are_the_same() -> None:
    model = nn.Sequential(Block(), Block())
    x = torch.randn(2, 10, 16)
    found = []
    for recording in (False, True):
        model.zero_grad()
        torch.manual_seed(3)
        taken = Taken()
        if recording:
            with taken:
                loss = model(x).square().sum()
                loss.backward()
        else:
            loss = model(x).square().sum()
            loss.backward()
        found.append(
            (loss.detach(), torch.rand(2), *(p.grad.clone() for p in model.parameters() if p.grad is not None))
        )
    assert same(*found)
    assert len(found[0]) == 2 + 8
    assert taken.names == ["0", "1"]
    step = taken.texts[0]["1"][0]
    assert not step["q"].requires_grad
    close(taken.matrix("1").sum(-1), np.ones((2, 4, 10)))  # before dropout


def test_a_checkpoint_computed_again_is_recorded_once() -> None:
    block = Block()
    x = torch.randn(2, 10, 16, requires_grad=True)
    for reentrant in (False, True):
        with Taken() as taken:
            torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant).sum().backward()
        assert len(taken.texts) == 1
        assert [len(steps) for steps in taken.texts[0].values()] == [1]


MASKS: dict[str, Callable[[], dict[str, Any]]] = {
    "none": dict,
    "padding": lambda: {"src_key_padding_mask": torch.arange(7) >= torch.tensor([7, 4, 6])[:, None]},
    "padding on the left": lambda: {"src_key_padding_mask": torch.arange(7) < torch.tensor([0, 2, 3])[:, None]},
    "causal": lambda: {"mask": nn.Transformer.generate_square_subsequent_mask(7)},
    "causal, hinted": lambda: {"mask": nn.Transformer.generate_square_subsequent_mask(7), "is_causal": True},
    "both": lambda: {
        "mask": torch.ones(7, 7, dtype=torch.bool).triu(1),
        "src_key_padding_mask": torch.arange(7) >= torch.tensor([7, 4, 6])[:, None],
    },
}


def allowed(options: dict[str, Any]) -> torch.Tensor:
    """(batch, 1, n, n): True where torch.nn's masks let a query look."""
    seen = torch.ones(3, 1, 7, 7, dtype=torch.bool)
    mask, padding = options.get("mask"), options.get("src_key_padding_mask")
    if mask is not None:
        seen = seen & (~mask if mask.dtype == torch.bool else mask == 0)
    return seen if padding is None else seen & ~padding[:, None, None]


def heads_of(attention: nn.MultiheadAttention, x: torch.Tensor) -> list[torch.Tensor]:
    parts = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias).chunk(3, -1)
    return [y.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2) for y in parts]


@pytest.mark.filterwarnings(NESTED)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_encoders(name: str, norm_first: bool) -> None:
    options = MASKS[name]()
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first)
    x = torch.randn(3, 7, 16)
    names = ["layers.0.self_attn", "layers.1.self_attn"]
    first = model.layers[0]
    with torch.no_grad():
        q, k, _ = heads_of(first.self_attn, first.norm1(x) if norm_first else x)
        expected = weights(q, k, allowed(options))
        there = ~options.get("src_key_padding_mask", torch.zeros(3, 7, dtype=torch.bool))
    for training, grad in (
        (False, torch.no_grad),
        (False, torch.inference_mode),
        (False, torch.enable_grad),
        (True, torch.enable_grad),
    ):
        model.train(training)
        with grad():
            torch.manual_seed(5)
            plain = model(x, **options)
            torch.manual_seed(5)
            with Taken() as taken:
                seen = model(x, **options)
        assert same(plain, seen), (training, grad)
        assert taken.names == names
        for i in range(3):  # rows of padding may be anything: nested tensors do not have them
            close(taken.matrix(names[0])[i][:, there[i]], expected[i][:, there[i]])


@pytest.mark.filterwarnings(NESTED)
def test_a_fast_path_is_taken_while_recording_as_without() -> None:
    """That the test above tests something: the fast path has other bits, and a mode that only passes on loses it."""

    class Passing(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    x = torch.randn(3, 7, 16)
    with torch.no_grad():
        plain = model(x, **MASKS["padding"]())
        with Taken():
            assert same(model(x, **MASKS["padding"]()), plain)
        with Passing():
            slow = model(x, **MASKS["padding"]())
            with Taken() as taken:
                assert same(model(x, **MASKS["padding"]()), slow)  # somebody else's mode counts as ever
        assert not same(plain, slow)
        assert taken.names == ["layers.0.self_attn", "layers.1.self_attn"]
    assert torch.overrides.has_torch_function is HAS_TORCH_FUNCTION


def test_a_bias_in_the_fast_path_hides_as_torch_reads_it() -> None:
    """torch turns any mask into booleans there: what is not 0 hides."""
    model = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    x = torch.randn(1, 7, 16)
    bias = torch.zeros(7, 7)
    bias[2, 3], bias[5, 1] = 0.5, -2.0
    with torch.no_grad(), Taken() as taken:
        model(x, bias)
    q, k, _ = heads_of(model.self_attn, x)
    close(taken.matrix(), weights(q.detach(), k.detach(), bias == 0))


ATTENTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "odd heads": {"num_heads": 1},
    "bias_kv": {"add_bias_kv": True},
    "zero": {"add_zero_attn": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True},
    "other widths": {"kdim": 6, "vdim": 5},
    "no bias": {"bias": False},
    "sequence first": {"batch_first": False},
    "dropout": {"dropout": 0.3},
}


@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
@pytest.mark.parametrize("need", [True, False])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_multi_head_attention(name: str, need: bool) -> None:
    options = {"embed_dim": 16, "num_heads": 4, "batch_first": True, **ATTENTIONS[name]}
    model = nn.MultiheadAttention(**options)
    x = torch.randn(3, 7, 16)
    other = x if "kdim" not in options else None
    key, value = (x, x) if other is not None else (torch.randn(3, 7, 6), torch.randn(3, 7, 5))
    if not options["batch_first"]:
        # As views, so that query, key and value stay one tensor where they were.
        x, key, value = (y.transpose(0, 1) for y in (x, key, value)) if other is None else [x.transpose(0, 1)] * 3
    masks: list[dict[str, Any]] = [
        {},
        {"key_padding_mask": torch.arange(7) >= torch.tensor([7, 4, 6])[:, None]},
        {"attn_mask": torch.ones(7, 7, dtype=torch.bool).triu(1)},
        {"attn_mask": torch.ones(7, 7, dtype=torch.bool).triu(1), "is_causal": True},
        {"attn_mask": torch.randn(7, 7)},
        {"attn_mask": torch.rand(3 * options["num_heads"], 7, 7) > 0.7},
        {"attn_mask": torch.randn(7, 7), "key_padding_mask": torch.arange(7) >= torch.tensor([7, 4, 6])[:, None]},
    ]
    for training in (False, True):
        model.train(training)
        for mask in masks:
            for grad in (torch.no_grad, torch.enable_grad):
                with grad():
                    torch.manual_seed(5)
                    plain = model(x, key, value, need_weights=need, average_attn_weights=False, **mask)
                    torch.manual_seed(5)
                    with Taken() as taken:
                        seen = model(x, key, value, need_weights=need, average_attn_weights=False, **mask)
                assert same(plain, seen)
                assert taken.names == ["MultiheadAttention"]
                if need and not (training and model.dropout):
                    close(taken.matrix(), plain[1].detach().nan_to_num().numpy())
                elif not need:
                    with torch.no_grad():
                        model.eval()
                        told = {**mask, "is_causal": False}
                        expected = model(x, key, value, need_weights=True, average_attn_weights=False, **told)[1]
                        model.train(training)
                    found = expected.nan_to_num().numpy()
                    if mask.get(
                        "is_causal"
                    ):  # torch lets the hint replace the mask, which hides keys of the module's own
                        found[..., 7:] = 0
                        found /= found.sum(-1, keepdims=True)
                    close(taken.matrix(), found)


def test_multi_head_attention_without_a_batch() -> None:
    model = nn.MultiheadAttention(16, 4)
    x, memory = torch.randn(5, 16), torch.randn(9, 16)
    masks: list[dict[str, Any]] = [
        {},
        {"key_padding_mask": torch.arange(9) > 6},
        {"attn_mask": torch.rand(4, 5, 9) > 0.5, "key_padding_mask": torch.arange(9) > 6},
    ]
    for mask in masks:
        plain = model(x, memory, memory, average_attn_weights=False, **mask)
        with Taken() as taken:
            assert same(plain, model(x, memory, memory, average_attn_weights=False, **mask))
        close(taken.matrix(), plain[1].detach().nan_to_num().numpy())


def test_a_decoder_has_two_attentions_a_layer() -> None:
    model = nn.Transformer(16, 4, 1, 2, 32, batch_first=True).eval()
    x, y = torch.randn(2, 9, 16), torch.randn(2, 5, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        plain = model(x, y, tgt_mask=mask, tgt_is_causal=True)
        with Taken() as taken:
            assert same(plain, model(x, y, tgt_mask=mask, tgt_is_causal=True))
    assert taken.names == [
        "encoder.layers.0.self_attn",
        *(f"decoder.layers.{i}.{which}" for i in range(2) for which in ("self_attn", "multihead_attn")),
    ]
    assert taken.matrix("decoder.layers.1.multihead_attn").shape == (2, 4, 5, 9)
    assert not np.triu(taken.matrix("decoder.layers.0.self_attn"), 1).any()
