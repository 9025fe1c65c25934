"""Questions about chosen cells: the mass inside a mask, and the bright cells of the whole matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from regard.algebra.evaluate import evaluate
from regard.algebra.expression import Expression
from regard.algebra.masks import Mask, from_array
from regard.errors import DtypeError, LimitError, ShapeError
from regard.lens.question import Array, Block, Layout, put, whole

MANY = 1_000_000  # bright cells: more than anybody looks at


class Share(NamedTuple):
    """The share of the mass that lies inside: of each row, and of each head."""

    rows: Array
    heads: Array


@dataclass(frozen=True)
class Mass:
    """The share of the mass that lies inside `where`, of each row and of each head; 0 where there is no mass.

    `where` is a mask such as `regard.window(8, 0)`, a boolean array (…, n_q, n_k), or a list of (query, key) pairs.
    """

    where: Any

    @cached_property
    def mask(self) -> Mask | None:
        """The place as a mask; None for a list of pairs."""
        if isinstance(self.where, Mask):
            return self.where
        if np.asarray(self.where).dtype == np.bool_:
            return from_array(np.asarray(self.where))
        return None

    def pairs(self, layout: Layout) -> np.ndarray[Any, Any]:
        """The list of pairs, (pairs, 2), each once."""
        given = np.asarray(self.where)
        given = given.reshape(0, 2).astype(np.int64) if given.size == 0 else given
        if given.dtype.kind not in "iu" or given.ndim != 2 or given.shape[1] != 2:
            raise DtypeError(
                f"where has shape {given.shape} and dtype {given.dtype}, expected a mask, "
                "booleans, or (query, key) pairs"
            )
        if given.size and not ((given >= 0) & (given < [layout.n_q, layout.n_k])).all():
            raise ShapeError(
                f"where has a pair outside {layout.n_q} × {layout.n_k}, expected queries and keys within it"
            )
        return np.unique(given.astype(np.int64), axis=0)

    def check(self, layout: Layout) -> None:
        """That the arrays of the mask are as long as the axes that they are indexed by."""
        lengths = {"b": ("sequences", layout.sequences), "h": ("heads", layout.each)}
        lengths |= {"row": ("queries", layout.n_q), "k": ("keys", layout.n_k)}
        for e in () if self.mask is None else self.mask.expectations:
            axis, length = lengths.get(e.axis, ("", e.length))
            if e.length != length and not (e.length == 1 and e.repeats):
                raise ShapeError(f"{e.what} of where is for {e.length} {axis}, but there are {length}: make them agree")

    def create(self, layout: Layout) -> Any:
        self.check(layout)
        return layout.zeros(layout.n_q), layout.zeros(layout.n_q)

    def inside(self, block: Block) -> Array:
        """Which cells of a block lie inside, (heads, rows, n_k) or less."""
        layout = block.layout
        rows = np.arange(block.rows.start, block.rows.stop)
        if self.mask is None:
            pairs = self.pairs(layout)
            pairs = pairs[(pairs[:, 0] >= block.rows.start) & (pairs[:, 0] < block.rows.stop)]
            which = np.zeros((1, len(rows), layout.n_k), np.bool_)
            which[0, pairs[:, 0] - block.rows.start, pairs[:, 1]] = True
            return layout.array(which)
        flat = np.arange(layout.first_head, layout.first_head + layout.heads)[:, None, None]
        at = {"b": flat // layout.each, "h": flat % layout.each, "row": rows[:, None], "k": np.arange(layout.n_k)}
        q = at["row"] + (layout.n_k - layout.n_q)
        shape = (layout.heads, len(rows), layout.n_k)
        return layout.array(np.broadcast_to(evaluate(self.mask.condition, q=q, **at), shape))

    def update(self, state: Any, block: Block) -> Any:
        xp, a = block.xp, block.wide
        inside = xp.sum(xp.where(self.inside(block), a, xp.zeros_like(a)), axis=-1)
        return put(xp, state[0], block.first_row, inside), put(xp, state[1], block.first_row, xp.sum(a, axis=-1))

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    def finalize(self, state: Any, layout: Layout) -> Share:
        xp = layout.xp
        inside, total = state

        def share(part: Array, whole: Array) -> Array:
            return xp.where(whole == 0, xp.zeros_like(part), part / xp.where(whole == 0, xp.ones_like(whole), whole))

        return Share(share(inside, total), share(xp.sum(inside, axis=-1), xp.sum(total, axis=-1)))

    @property
    def condition(self) -> Expression:
        """The place as an expression."""
        assert self.mask is not None
        return self.mask.condition


class Bright(NamedTuple):
    """Cells with their weights, sorted by head, query and key; a head is flat over the leading axes."""

    head: Array
    query: Array
    key: Array
    weight: Array


@dataclass(frozen=True)
class Cells:
    """The cells with weights above a threshold, sorted; refused with their count past the limit."""

    above: float = 0.5
    limit: int = MANY
    listed = True  # the answer is a list of cells, without an axis of heads

    def __post_init__(self) -> None:
        try:
            sound = 0 <= float(self.above) < float("inf")
        except (TypeError, ValueError):
            sound = False
        if not sound or isinstance(self.above, str):
            raise ValueError(f"above is {self.above!r}, expected a weight, 0 or more")
        if whole(self.limit) is None:
            raise ValueError(f"limit is {self.limit!r}, expected a whole number of cells")

    def create(self, layout: Layout) -> Any:
        return 0, ()

    def update(self, state: Any, block: Block) -> Any:
        count, found = state
        which = block.weights > self.above
        more = int(block.xp.sum(block.xp.astype(which, block.xp.int64)))
        if count + more > self.limit:  # from here on they are counted only
            return count + more, ()
        head, query, key = block.xp.nonzero(which)
        first = block.layout.first_head
        return count + more, (*found, (head + first, query + block.first_row, key, block.weights[which]))

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], (*a[1], *b[1])

    def finalize(self, state: Any, layout: Layout) -> Bright:
        count, found = state
        if count > self.limit:
            raise LimitError(
                f"{count} cells have a weight above {self.above:g}, expected at most {self.limit}: "
                "raise above, or limit"
            )
        xp = layout.xp
        if not found:
            nothing = xp.zeros((0,), dtype=xp.int64)
            return Bright(nothing, nothing, nothing, xp.zeros((0,), dtype=layout.number))
        head, query, key, weight = (xp.concat(parts) for parts in zip(*found, strict=True))
        order = xp.argsort((head * layout.n_q + query) * layout.n_k + key)
        return Bright(*(xp.take(x, order) for x in (head, query, key, xp.astype(weight, layout.number))))
