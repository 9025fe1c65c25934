"""Masks and biases of torch models in the words of `regard.attention`, small where they are simple.

A boolean tensor (…, n_q, n_k) that is exactly causal, a window, or the same for every query is said so; with which keys
are there at all it takes n numbers instead of n × n. Whatever is none of these is kept as it is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

import torch

from regard.algebra.masks import Mask, causal, from_array, window

REMEMBERED = 4  # masks: a model gives the same one to each of its layers


@dataclass(frozen=True)
class Seen:
    """One call of an attention function: tensors (…, heads, n, d), and what is done to their scores."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor | None
    scale: float | None = None
    first: bool = False  # causal, with row 0 beside key 0
    visible: tuple[torch.Tensor, ...] = ()  # boolean, True = may attend: all of them have to agree
    bias: torch.Tensor | None = None
    mask: Mask | None = None  # what is there beside `visible`

    @property
    def n_q(self) -> int:
        return int(self.q.shape[-2])

    @property
    def n_k(self) -> int:
        return int(self.k.shape[-2])


def hiding(mask: torch.Tensor) -> torch.Tensor | None:
    """A mask of torch.nn modules, True or -inf where hidden, as True where seen; None if it adds other numbers."""
    if mask.dtype == torch.bool:
        return ~mask
    seen = mask == 0
    return seen if bool((seen | (mask == -torch.inf)).all()) else None


def narrow(x: torch.Tensor) -> torch.Tensor:
    """Without the copies that `expand` made, and without leading axes of 1."""
    for axis, stride in enumerate(x.stride()):
        if stride == 0 and x.shape[axis] > 1:
            x = x.narrow(axis, 0, 1)
    while x.ndim > 2 and x.shape[0] == 1:
        x = x[0]
    return x


def same(x: torch.Tensor, axis: int) -> torch.Tensor:
    """With an axis of 1 where all that lies along it is equal."""
    if x.shape[axis] < 2:
        return x
    first = x.narrow(axis, 0, 1)
    return first if torch.equal(x, first.expand_as(x)) else x


@dataclass(frozen=True)
class Parts:
    """A boolean tensor taken apart: what may be seen is where both allow it."""

    mask: Mask | None
    array: torch.Tensor | None


class Masks:
    """Boolean tensors taken apart, the last few of them remembered."""

    def __init__(self) -> None:
        self._known: deque[tuple[Any, torch.Tensor, Parts]] = deque(maxlen=REMEMBERED)

    def parts(self, x: torch.Tensor, n_q: int, n_k: int) -> Parts:
        if x.is_inference():  # it does not count its changes, so nobody can tell that it is still the same
            return apart(x, n_q, n_k)
        key = (x.data_ptr(), x.shape, x.stride(), x._version, n_q, n_k)
        for known, _, found in self._known:
            if known == key:
                return found
        found = apart(x, n_q, n_k)
        self._known.append((key, x, found))  # holding the tensor, no other can come to lie where it does
        return found

    def terms(self, seen: Seen) -> dict[str, Any]:
        """The keyword arguments of `regard.attention` that say the same as a call of torch."""
        given: dict[str, Any] = {"scale": seen.scale}
        masks = [] if seen.mask is None else [seen.mask]
        if seen.first:
            masks.append(causal if seen.n_q == seen.n_k else causal("first"))
        arrays = []
        for x in seen.visible:
            found = self.parts(x, seen.n_q, seen.n_k)
            masks += [] if found.mask is None else [found.mask]
            arrays += [] if found.array is None else [found.array]
        if len(arrays) == 1 and not masks:
            given["mask"] = arrays[0]
        elif arrays or masks:
            given["mask"] = reduce(and_, [*masks, *(from_array(x.numpy()) for x in arrays)])
        if seen.bias is not None:
            given["bias"] = narrow(seen.bias)
        return given


def apart(x: torch.Tensor, n_q: int, n_k: int) -> Parts:
    """A boolean tensor as a mask that needs no array, and an array of what is left to say."""
    x = narrow(x).cpu()
    for axis in range(x.ndim - 2):
        x = same(x, axis)
    x = narrow(same(x, -2)) if x.ndim > 1 else x
    if x.ndim > 1 and x.shape[-2] > 1 and x.shape[-1] == n_k:
        keys = x.any(-2, keepdim=True)  # keys that somebody sees
        for mask, band in _bands(x, n_q, n_k):
            if torch.equal(x, (band & keys).expand_as(x)):
                return Parts(mask, None if bool(keys.all()) else keys.clone())
    return Parts(None, None if bool(x.all()) else x.clone())


def _bands(x: torch.Tensor, n_q: int, n_k: int) -> list[tuple[Mask, torch.Tensor]]:
    """What a mask may be: causal, or a causal window as wide as the last row sees."""
    shift = n_k - n_q
    below = torch.ones(n_q, n_k, dtype=torch.bool).tril_(shift)
    found: list[tuple[Mask, torch.Tensor]] = [(causal, below)]
    row = x.reshape(-1, n_q, n_k)[:, -1].any(0)  # (…, n_q, n_k) -> (n_k)
    left = n_k - 1 - int(row.to(torch.uint8).argmax())
    if 0 < left < n_k - 1:
        found.append((window(left), below & torch.ones_like(below).triu_(shift - left)))
    return found


def after(seen: Seen, dropped: int, fresh: int) -> Seen:
    """A call whose cache has dropped its first keys, said of all keys so far, of which the last `fresh` are new."""
    total = dropped + seen.n_k

    def whole(x: torch.Tensor, filling: bool | float) -> torch.Tensor:
        return torch.nn.functional.pad(x, (dropped, 0), value=float(filling)) if x.shape[-1] == seen.n_k else x

    there = (torch.arange(total) >= dropped)[None]  # (1, total)
    return replace(
        seen,
        k=seen.k[..., -fresh:, :],
        v=None if seen.v is None else seen.v[..., -fresh:, :],
        visible=(*(whole(x.to(torch.uint8), 0).bool() for x in seen.visible), there),
        bias=None if seen.bias is None else whole(seen.bias, 0.0),
    )
