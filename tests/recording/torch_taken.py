"""What a mode hands over, kept in memory, and the weights that torch itself makes of the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch._dynamo import eval_frame
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.nn.modules import module as hooks

from regard import Mask, reference
from regard.algebra.evaluate import evaluate
from regard.models.torch import Calls

Tensor = torch.Tensor
HAS_TORCH_FUNCTION = torch.overrides.has_torch_function
NESTED = "ignore:.*nested tensors is in prototype stage:UserWarning"


class Taken(Calls):
    """Calls kept in a list of texts, each a dictionary of layers, each a list of steps."""

    def __init__(self, **options: Any):
        self.texts: list[dict[str, list[dict[str, Any]]]] = [{}]
        super().__init__(self.take, self.another, **options)

    def another(self) -> None:
        self.texts.append({})

    def take(self, q: Tensor, k: Tensor, v: Tensor | None, *, name: str | None, **terms: Any) -> None:
        layers = self.texts[-1]
        step = {"q": q.clone(), "k": k.clone(), "v": None if v is None else v.clone(), **terms}
        layers.setdefault(str(len(layers)) if name is None else name, []).append(step)

    @property
    def names(self) -> list[str]:
        return list(self.texts[-1])

    def matrix(self, name: str | None = None) -> Any:
        """The weights of a layer of one step, as a NumPy array."""
        (step,) = self.texts[-1][self.names[-1] if name is None else name]
        return np.asarray(made(**step))

    def grown(self, name: str) -> Any:
        """The weights of a layer of several steps: rows with zeros for keys that came later."""
        rows: list[Any] = []
        keys: Tensor | None = None
        for step in self.texts[-1][name]:
            whole = keys is None or step["k"].shape[-2] >= keys.shape[-2]
            keys = step["k"] if whole or keys is None else torch.cat([keys, step["k"]], -2)
            rows.append(np.asarray(made(**{**step, "k": keys, "v": None})))
        n = rows[-1].shape[-1]
        return np.concatenate([np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - x.shape[-1])]) for x in rows], -2)


def made(q: Tensor, k: Tensor, v: Tensor | None = None, *, mask: Any = None, **terms: Any) -> Any:
    """The weights by their equations, so that no kernel need be compiled for each kind of mask."""
    shift = k.shape[-2] - q.shape[-2]
    told = mask
    if isinstance(mask, Mask):
        tree = mask.condition
        told = lambda b, h, q, k: evaluate(tree, b=b, h=h, q=q, k=k, row=q - shift)  # noqa: E731  # one of two kinds
    terms = {name: x.double().numpy() if isinstance(x, Tensor) else x for name, x in terms.items()}
    return reference.weights(q.double().numpy(), k.double().numpy(), mask=told, **terms)


def weights(q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None) -> Any:
    """softmax as its definition says, in float64, with torch's meaning of mask and causal."""
    q, k = q.double(), k.double()
    if q.ndim > 2 and k.shape[-3] != q.shape[-3]:
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    s = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).tril().logical_not(), -torch.inf)
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else s + mask.double()
    return s.softmax(-1).nan_to_num().numpy()


# What torch tests share.


def nothing_is_left() -> None:
    assert torch.overrides.has_torch_function is HAS_TORCH_FUNCTION
    assert torch.overrides._get_current_function_mode() is None
    assert eval_frame._stance.stance == "default"
    assert not hooks._global_forward_hooks
    assert not hooks._global_forward_pre_hooks
    assert not hooks._global_forward_hooks_always_called


def qkv(*shape: int, keys: int | None = None, key_heads: int | None = None, **options: Any) -> list[torch.Tensor]:
    *lead, heads, n, d = shape
    other = (*lead, key_heads or heads, keys or n, d)
    return [torch.randn(x, **options) for x in (shape, other, other)]


def same(a: Any, b: Any) -> bool:
    """The same bits, NaN among them."""
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a is b is None or torch.equal(a.nan_to_num(7e7), b.nan_to_num(7e7))


def close(a: Any, b: Any, atol: float = 2e-6) -> None:
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, atol=atol)


class Block(nn.Module):
    """Self-attention as people write it, with dropout."""

    def __init__(self, width: int = 16, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        z = sdpa(q, k, v, dropout_p=0.2 if self.training else 0.0, is_causal=True)
        return x + self.out(z.transpose(1, 2).flatten(2))
