"""Which layer a call belongs to: its name, whether it goes on from an earlier call, and where the next text begins.

Names are those of modules within the module that was called first, as `model.named_modules()` gives them. A module
that is called again with the keys it had and new ones behind them goes on; any other second call begins the next text.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from regard.models.torch_masks import Masks, Seen, after

Tensor = torch.Tensor


class Modules:
    """The modules that are being called, innermost last, and their names. Of the thread that entered it alone."""

    def __init__(self, compiled: Callable[[], None]) -> None:
        self.calls = 0  # of outermost modules
        self._compiled = compiled  # called when a module turns out to be
        self._thread = 0
        self._stack: list[torch.nn.Module] = []
        self._names: dict[int, str] = {}
        self._kept: list[torch.nn.Module] = []  # while it lives, no other object has its id
        self._taken: Counter[str] = Counter()
        self._handles: list[Any] = []

    def watch(self) -> None:
        self._thread = threading.get_ident()
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def leave(self) -> None:
        for handle in self._handles:
            handle.remove()
        for of in (self._stack, self._kept, self._names, self._taken):
            of.clear()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling() or threading.get_ident() != self._thread:
            return
        if self._stack and self._stack[0] is module:  # an interrupt came out of it, for which torch calls no hook
            self._stack.clear()
        if not self._stack:
            self.calls += 1
            if id(module) not in self._names:
                self._name(module)
        self._stack.append(module)

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        if torch.compiler.is_compiling() or threading.get_ident() != self._thread:
            return
        if any(x is module for x in self._stack):  # it may have been entered before we watched
            while self._stack.pop() is not module:
                pass

    def _name(self, root: torch.nn.Module) -> None:
        for name, module in root.named_modules():
            if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
                self._compiled()
            if id(module) not in self._names:
                self._kept.append(module)
                self._names[id(module)] = self._own(name.replace("_orig_mod.", "") or type(root).__name__)

    def _own(self, name: str) -> str:
        """The name, or the name and a number if another module has it."""
        self._taken[name] += 1
        return name if self._taken[name] == 1 else f"{name}:{self._taken[name]}"

    def innermost(self, part: str | None = None) -> tuple[torch.nn.Module | None, str | None]:
        """The module that is calling, or its part if it computes that itself, and the name."""
        if not self._stack:
            return None, None
        module = self._stack[-1]
        child = getattr(module, part, None) if part is not None else None
        for x in (child, module):
            if id(x) in self._names:
                return x, self._names[id(x)]
        for root in (self._stack[0], module):  # which may have got modules since; or made one for this call
            if id(module) not in self._names:
                self._name(root)
        return module, self._names[id(module)]


@dataclass(frozen=True)
class Kept:
    """What is remembered of a layer: enough to know its keys again."""

    like: Any  # what all steps have in common
    keys: int
    first: Tensor  # (…, key heads, d) the first key
    last: Tensor

    @classmethod
    def of(cls, seen: Seen, keys: int, first: Tensor | None = None) -> Kept:
        here = seen.k[..., 0, :].clone() if first is None else first
        return cls(_likeness(seen), keys, here, seen.k[..., -1, :].clone())


def _likeness(seen: Seen) -> Any:
    q, k = seen.q, seen.k
    return q.shape[:-2], k.shape[:-2], k.shape[-1], k.dtype, seen.scale


class Layers:
    """Calls put where they belong: to a new layer, to one that grows, or to the next text."""

    def __init__(self, record: Callable[..., Any], text: Callable[[], Any], compiled: Callable[[], None]):
        self.modules = Modules(compiled)
        self.record, self.text = record, text
        self._masks = Masks()
        self._kept: dict[str, Kept] = {}  # the layers of this text
        self._times: Counter[str] = Counter()  # calls of a module within one outermost call
        self._call = 0
        self._growing = False
        self._batch: int | None = None  # how many sequences this text is

    def forget(self) -> None:
        """Another text has begun."""
        self._kept.clear()
        self._growing, self._batch = False, None

    def _next(self) -> None:
        self.text()
        self.forget()

    def put(self, seen: Seen, part: str | None = None) -> None:
        """Record a call, under the name of the module that made it or of its part."""
        if 0 in seen.q.shape or 0 in seen.k.shape:
            return
        module, base = self.modules.innermost(part)
        seen = shared(trimmed(unpacked(seen, module)))
        batch = math.prod(seen.q.shape[:-3])
        if self._batch not in (None, batch):
            self._next()
        seen, name = (seen, None) if base is None else self._placed(seen, base)
        self._batch = batch
        self.record(seen.q, seen.k, seen.v, name=name, **self._masks.terms(seen))

    def _placed(self, seen: Seen, base: str) -> tuple[Seen, str]:
        if self._call != self.modules.calls:
            self._call = self.modules.calls
            self._times.clear()
        for name in (x for x in self._kept if x == base or x.startswith(base + "#")):
            kept = self._kept[name]
            dropped = self._continues(kept, seen)
            if dropped is None:
                continue
            self._growing = True
            new = max(kept.keys, dropped + seen.n_k)
            self._kept[name] = Kept.of(seen, new, kept.first)
            return (after(seen, dropped, seen.n_q) if dropped else seen), name
        self._times[base] += 1
        name = base if self._times[base] == 1 else f"{base}#{self._times[base]}"
        if name in self._kept:
            self._next()
        self._kept[name] = Kept.of(seen, seen.n_k)
        return seen, name

    def _continues(self, kept: Kept, seen: Seen) -> int | None:
        """How many keys the cache has dropped, if these are the keys of a layer with new ones behind; else None."""
        k = seen.k
        if _likeness(seen) != kept.like:
            return None
        before = seen.n_k - seen.n_q  # keys that were there
        dropped = kept.keys - before
        known = before > 0 and (dropped == 0 or (dropped > 0 and seen.n_q < kept.keys))
        if known and torch.equal(k[..., before - 1, :], kept.last):
            return dropped
        # The keys of another sequence: they stay while the layers that look at their own grow.
        ends = torch.equal(k[..., 0, :], kept.first) and torch.equal(k[..., -1, :], kept.last)
        return 0 if self._growing and seen.n_k == kept.keys and ends else None


def unpacked(seen: Seen, module: Any) -> Seen:
    """One query of many heads that transformers gives as the key heads with a row for each query head of theirs."""
    groups = getattr(module, "num_key_value_groups", 1)
    q, k = seen.q, seen.k
    if not isinstance(groups, int) or groups < 2 or q.ndim != 4 or q.shape[1] != k.shape[1] or q.shape[2] != groups:
        return seen
    heads = q.shape[1] * groups
    if getattr(getattr(module, "config", None), "num_attention_heads", None) != heads:
        return seen

    def rows(x: Tensor) -> Tensor:  # (batch, key heads, groups, n) -> (batch, heads, 1, n)
        return x.reshape(x.shape[0], heads, 1, x.shape[-1]) if x.ndim == 4 and x.shape[2] == groups else x

    bias = None if seen.bias is None else rows(seen.bias)
    return replace(seen, q=rows(q), visible=tuple(map(rows, seen.visible)), bias=bias)


def trimmed(seen: Seen) -> Seen:
    """Without the end of a cache that nothing has been written to yet: hidden from all queries, and zero."""
    n = seen.n_k
    masks = [x for x in seen.visible if x.shape[-1] == n]
    if seen.n_q >= n or not masks or seen.first:
        return seen
    anybody = torch.stack([x.reshape(-1, n).any(0) for x in masks]).all(0)  # (n)
    there = n - int(anybody.flip(0).to(torch.uint8).argmax())
    if there == n or not bool(anybody.any()) or bool(seen.k[..., there:, :].any()):
        return seen
    short = [x[..., :there] if x.shape[-1] == n else x for x in (*seen.visible, seen.bias) if x is not None]
    return replace(
        seen,
        k=seen.k[..., :there, :],
        v=None if seen.v is None else seen.v[..., :there, :],
        visible=tuple(short[: len(seen.visible)]),
        bias=None if seen.bias is None else short[-1],
    )


def shared(seen: Seen) -> Seen:
    """Key heads that were repeated for the query heads they serve, once each; only where they are equal for certain."""
    q, k, v = seen.q, seen.k, seen.v
    heads = k.shape[-3] if k.ndim > 2 else 1
    if heads < 2 or heads != q.shape[-3] or 0 in k.shape:
        return seen
    key = k[..., 0, :].reshape(-1, heads, k.shape[-1])  # the first key of each head
    alike = (key[:, 1:] == key[:, :-1]).all(-1).all(0).tolist()  # heads - 1: like the head before it
    sizes = [r for r in range(heads, 1, -1) if heads % r == 0 and all(alike[h - 1] for h in range(heads) if h % r)]
    for size in sizes[:1]:
        if all(x is None or _repeats(x, size) for x in (k, v)):
            return replace(seen, k=k[..., ::size, :, :], v=None if v is None else v[..., ::size, :, :])
    return seen


def _repeats(x: Tensor, size: int) -> bool:
    if x.stride(-3) == 0:
        return True
    groups = x.reshape(*x.shape[:-3], -1, size, *x.shape[-2:])  # (…, heads, n, d) -> (…, key heads, size, n, d)
    return torch.equal(groups, groups[..., :1, :, :].expand_as(groups))
