"""Questions about each row: how spread it is, where it looks most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.lens.question import Array, Block, Layout, Pair, put, set_whole


class EachRow:
    """A number, or a few, for each row: the state is (heads, n_q, …), and every row is seen once."""

    def merge(self, a: Any, b: Any) -> Any:
        return tuple(x + y for x, y in zip(a, b, strict=True)) if isinstance(a, tuple) else a + b


@dataclass(frozen=True)
class Entropy(EachRow):
    """-Σ a ln a over the keys of each row, in nats. A sink is no outcome, and has no part in it."""

    def create(self, layout: Layout) -> Array:
        return layout.zeros(layout.n_q)

    def update(self, state: Array, block: Block) -> Array:
        xp, a = block.xp, block.wide
        # 0 ln 0 is 0; a NaN stays one.
        each = a * xp.log(xp.where(a == 0, xp.ones_like(a), a))
        return put(xp, state, block.first_row, -xp.sum(each, axis=-1))

    def finalize(self, state: Array, layout: Layout) -> Array:
        return state


@dataclass(frozen=True)
class Effective(Entropy):
    """exp(entropy): over how many keys an even spread would have the same entropy. An empty row has 0."""

    def create(self, layout: Layout) -> Any:
        return layout.zeros(layout.n_q), layout.zeros(layout.n_q)

    def update(self, state: Any, block: Block) -> Any:
        total = put(block.xp, state[1], block.first_row, block.xp.sum(block.wide, axis=-1))
        return super().update(state[0], block), total

    def finalize(self, state: Any, layout: Layout) -> Array:
        entropy, total = state
        return layout.xp.where(total == 0, layout.xp.zeros_like(entropy), layout.xp.exp(entropy))


@dataclass(frozen=True)
class Total(EachRow):
    """The sum of each row: 1, less what a sink takes; 0 for an empty row."""

    def create(self, layout: Layout) -> Array:
        return layout.zeros(layout.n_q)

    def update(self, state: Array, block: Block) -> Array:
        return put(block.xp, state, block.first_row, block.xp.sum(block.wide, axis=-1))

    def finalize(self, state: Array, layout: Layout) -> Array:
        return state


@dataclass(frozen=True)
class Visible(EachRow):
    """How many keys each row can see."""

    def create(self, layout: Layout) -> Array:
        return layout.counts(layout.n_q)

    def update(self, state: Array, block: Block) -> Array:
        return put(block.xp, state, block.first_row, block.seen_count(-1))

    def finalize(self, state: Array, layout: Layout) -> Array:
        return state


@dataclass(frozen=True)
class Top(EachRow):
    """The k largest weights of each row and their keys, by weight, ties by the lower key.

    Rows that see fewer keys are filled up with weight 0 and key -1; a row that is NaN has weights NaN and keys -1.
    """

    k: int = 5

    def __post_init__(self) -> None:
        set_whole(self, "k", "keys")

    def create(self, layout: Layout) -> Any:
        return layout.zeros(layout.n_q, self.k), layout.counts(layout.n_q, self.k)

    def update(self, state: Any, block: Block) -> Any:
        xp, a = block.xp, block.weights
        n = int(a.shape[-1])
        most = min(self.k, n)
        known = xp.where(block.seen(), a, xp.full_like(a, -1.0))  # a hidden key comes after every visible one
        order = xp.argsort(known, axis=-1, descending=True, stable=True)[..., :most]
        best = xp.take_along_axis(known, order, axis=-1)
        keys = xp.where(best < 0, xp.full_like(order, -1), order)
        best = xp.where(best < 0, xp.zeros_like(best), best)
        broken = xp.any(xp.isnan(a), axis=-1, keepdims=True)
        keys = xp.where(broken, xp.full_like(keys, -1), keys)
        best = xp.where(broken, xp.full_like(best, float("nan")), best)
        if most < self.k:
            front = tuple(int(x) for x in a.shape[:-1])
            more = xp.zeros((*front, self.k - most), dtype=best.dtype, device=block.layout.device)
            best = xp.concat([best, xp.where(broken, xp.full_like(more, float("nan")), more)], axis=-1)
            rest = xp.full((*front, self.k - most), -1, dtype=keys.dtype, device=block.layout.device)
            keys = xp.concat([keys, rest], axis=-1)
        first = block.first_row
        return put(xp, state[0], first, best), put(xp, state[1], first, keys)

    def finalize(self, state: Any, layout: Layout) -> Pair:
        return Pair(*state)


@dataclass(frozen=True)
class Peak(Top):
    """The largest weight of each row and its key."""

    k: int = 1

    def finalize(self, state: Any, layout: Layout) -> Pair:
        return Pair(state[0][..., 0], state[1][..., 0])
