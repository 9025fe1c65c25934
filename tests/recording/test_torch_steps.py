"""Names of layers, where the next text begins, and decoding steps that grow a layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from tests.recording.torch_taken import (
    Block,
    Taken,
    close,
    weights,
)

pytestmark = pytest.mark.usefixtures("torch_alone")


def test_names_are_the_modules_and_a_second_pass_is_another_text() -> None:
    model = nn.ModuleDict({"a": Block(), "b": nn.Sequential(Block(), Block())})

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: torch.Tensor) -> Any:
            return self.parts["b"](self.parts["a"](x))

    whole = Model()
    with Taken() as taken:
        whole(torch.randn(1, 5, 16))
        whole(torch.randn(1, 6, 16))
    assert [list(x) for x in taken.texts] == [["parts.a", "parts.b.0", "parts.b.1"]] * 2


def test_a_module_used_for_several_layers_gives_several() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: torch.Tensor) -> Any:
            return self.block(self.block(self.block(x)))

    model = Shared()
    with Taken() as taken:
        model(torch.randn(1, 5, 16))
        model(torch.randn(1, 5, 16))
    assert [list(x) for x in taken.texts] == [["block", "block#2", "block#3"]] * 2


def test_modules_called_one_by_one_are_told_apart() -> None:
    blocks = [Block() for _ in range(3)]
    with Taken() as taken:
        for _ in range(2):
            x = torch.randn(1, 5, 16)
            for block in blocks:
                x = block(x)
    assert [list(x) for x in taken.texts] == [["Block", "Block:2", "Block:3"]] * 2


def test_a_text_begun_by_hand_is_not_begun_twice() -> None:
    block = Block()
    with Taken() as taken:
        block(torch.randn(1, 5, 16))
        taken.another()
        taken.forget()
        block(torch.randn(1, 5, 16))
    assert [list(x) for x in taken.texts] == [["Block"]] * 2


class Cached(nn.Module):
    """A block with a cache, as long as it is, or of a fixed length, or with a window."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind
        self.of = Block()
        self.k, self.v = (torch.zeros(1, 4, 32 if kind == "static" else 0, 4) for _ in range(2))
        self.at = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in self.of.qkv(x).chunk(3, -1))
        n = q.shape[2]
        at, self.at = self.at, self.at + n
        if self.kind == "static":
            self.k[:, :, at : at + n], self.v[:, :, at : at + n] = k, v
            k, v, start = self.k, self.v, 0
        else:
            k, v = torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)
            start = self.at - k.shape[2]
            self.k, self.v = (y[:, :, -3:] if self.kind == "window" else y for y in (k, v))
        where_q, where_k = torch.arange(at, at + n)[:, None], torch.arange(start, start + k.shape[2])
        mask = where_k <= where_q
        if self.kind == "window":
            mask = mask & (where_q - where_k < 4)
        return x + sdpa(q, k, v, mask).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("kind", ["growing", "static", "window"])
@pytest.mark.parametrize("lengths", [(6, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1, 1, 1, 1, 1), (4, 3, 3)])
def test_steps_with_a_cache_grow_a_layer(kind: str, lengths: tuple[int, ...]) -> None:
    x = torch.randn(1, 10, 16)
    with torch.no_grad():
        model = Cached(kind)
        with Taken() as taken:
            seen = torch.cat([model(part) for part in x.split(lengths, 1)], 1)
        assert len(taken.texts) == 1
        assert taken.names == ["Cached"]
        assert len(taken.texts[0]["Cached"]) == len(lengths)
        q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in model.of.qkv(x).chunk(3, -1))
        mask = torch.ones(10, 10, dtype=torch.bool).tril()
        mask = mask & mask.triu(-3) if kind == "window" else mask
        close(taken.grown("Cached"), weights(q, k, mask))
        close((x + sdpa(q, k, v, mask).transpose(1, 2).flatten(2)).numpy(), seen.numpy(), 1e-5)
        with Taken() as taken:
            model(x)  # begun before: rows for the keys that are there
            Cached("growing")(x)
        assert taken.matrix("Cached:2").shape == (1, 4, 10, 10)


def test_the_same_text_twice_is_two_texts() -> None:
    model = Cached("growing")
    x = torch.randn(1, 6, 16)
    with torch.no_grad(), Taken() as taken:
        model(x)
        model.k = model.v = torch.zeros(1, 4, 0, 4)
        model.at = 0
        model(x)
        model(x[:, :1])
    assert [[len(steps) for steps in text.values()] for text in taken.texts] == [[1], [2]]


def test_another_number_of_sequences_is_another_text() -> None:
    model = nn.ModuleList([Block(), Block()])

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.both = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.both[1](self.both[0](x)[:1])

    with Taken() as taken:
        Both()(torch.randn(3, 5, 16))
    assert [list(x) for x in taken.texts] == [["both.0"], ["both.1"]]


def test_what_is_empty_is_nothing() -> None:
    with Taken() as taken:
        sdpa(torch.randn(2, 4, 0, 8), torch.randn(2, 4, 5, 8), torch.randn(2, 4, 5, 8))
        Block()(torch.randn(0, 5, 16))
    assert taken.texts == [{}]
