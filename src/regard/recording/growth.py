"""Growth: the pieces that the steps of a decoding left, as one piece; what each row could see stays what it was.

In a piece of several steps, `row` is the row in the layer, `q` the position that it had in its own step, and a row sees
no key that came after its step. `whole` turns that into what a matrix is made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.algebra.expression import Expression, combine, constant, gather, mentions, substitute, variable, where
from regard.recording.piece import Piece

Array = np.ndarray[Any, Any]
Span = tuple[int, int]  # the first row and how many

CAUSAL = variable("k") <= variable("q")
NUMBERS = {"bool": np.bool_, "int": np.int64, "float": np.float64}


def joined(pieces: Sequence[Piece]) -> Piece:
    """Pieces that follow each other as one."""
    if len(pieces) == 1:
        return pieces[0]
    first = pieces[0]
    spans = [(x.row, x.rows) for x in pieces]
    trees = [_of_layer(x) for x in pieces]
    keys = [x.keys for x in pieces]
    masks: list[Expression | None] = [mask for mask, _ in trees]
    if any(x is not None for x in masks):
        masks = [_open(x) if mask is None else mask for x, mask in zip(pieces, masks, strict=True)]
    modifiers: list[Expression | None] = [modify for _, modify in trees]
    if any(x is not None for x in modifiers):
        modifiers = [variable("score") if x is None else x for x in modifiers]
    values = [x.v for x in pieces]
    known = [x.lse for x in pieces]
    return replace(
        first,
        q=_along([x.q for x in pieces]),
        k=_along([x.k for x in pieces]),
        v=None if any(x is None for x in values) else _along([x for x in values if x is not None]),
        lse=None if any(x is None for x in known) else np.concatenate([x for x in known if x is not None], -1),
        mask=_one(masks, spans, keys),
        modify=_one(modifiers, spans, keys),
        plane=None,
        bias=None,
        steps=tuple(step for x in pieces for step in x.steps),
        rounded=any(x.rounded for x in pieces),
    )


def whole(piece: Piece) -> Piece:
    """A layer as the steps left it, from its first row and key on, as one problem."""
    if len(piece.steps) == 1:
        return piece
    n_q, n_k = piece.rows, piece.keys
    counts = np.array([n for n, _ in piece.steps], np.int64)
    limits = np.repeat(np.array([n for _, n in piece.steps], np.int64), counts)  # of each row: the keys of its step
    ends = np.repeat(np.cumsum(counts), counts)
    positions = np.arange(n_q) - ends + limits
    mask = piece.mask
    if (limits < n_k).any() and not (mask is not None and _causal(mask)):
        alone = (positions == limits - 1).all()
        seen = CAUSAL if alone else variable("k") < _table(limits, 0)
        mask = seen if mask is None else mask & seen
    piece = replace(piece, mask=mask, steps=((n_q, n_k),))
    if (positions == np.arange(n_q) + (n_k - n_q)).all():
        return piece
    return piece.substituted({"q": _table(positions, 0)})


def _along(arrays: Sequence[Array]) -> Array:
    """Rows after rows; what is the same for all texts of a batch in some pieces alone is repeated."""
    texts = max(len(x) for x in arrays)
    return np.concatenate([np.broadcast_to(x, (texts, *x.shape[1:])) for x in arrays], axis=-2)


def _of_layer(piece: Piece) -> tuple[Expression | None, Expression | None]:
    """The mask and the modifier over the rows of the layer, arrays read tile by tile among them."""
    mask, modify = piece.mask, piece.modify
    if len(piece.steps) > 1:
        return mask, modify
    if piece.plane is not None:
        seen = _plane(piece.plane)
        mask = seen if mask is None else mask & seen
    if piece.bias is not None:
        spread = _plane(piece.bias)
        score = variable("score") if modify is None else modify
        modify = where(spread == -np.inf, -np.inf, score + spread)  # as one of queries or keys alone is added
    # A single row needs no number; its arrays are then those of its keys, which the next step goes on with.
    row = constant(0) if piece.rows == 1 else variable("row") - piece.row if piece.row else variable("row")
    moved = [x if x is None or not mentions(x, "row") else substitute(x, row=row) for x in (mask, modify)]
    return moved[0], moved[1]


def _plane(x: Array) -> Expression:
    """A (query, key) array as a tree."""
    names = [name for name, n in zip(("b", "h"), x.shape, strict=False) if n > 1]
    inner = x.reshape([n for n in x.shape[:2] if n > 1] + list(x.shape[2:]))  # (B|1, heads|1, rows, keys) -> (…)
    return gather(inner, [*map(variable, names), variable("row"), variable("k")])


def _open(piece: Piece) -> Expression:
    """The mask of a piece that came without one."""
    if all(n == 1 for n, _ in piece.steps):
        return CAUSAL  # the same: the last row of a step stands beside its last key
    return combine("eq", True, True)


def _causal(mask: Expression) -> bool:
    """Whether a mask hides what is later than the query, for every row."""
    if mask.operation == "where":
        return all(map(_causal, mask.operands[1:]))
    if mask.operation == "and":
        return any(map(_causal, mask.operands))
    return mask.operation == "le" and [x.payload for x in mask.operands if x.operation == "variable"] == ["k", "q"]


# Many trees as one.


def _one(trees: Sequence[Expression | None], spans: Sequence[Span], keys: Sequence[int]) -> Expression | None:
    """A tree that is, in each span of rows, that of the span."""
    given = [x for x in trees if x is not None]
    if not given:
        return None
    runs: list[tuple[int, Expression]] = []
    at = 0
    while at < len(given):
        # As many at a time as go together: usually all.
        count = len(given) - at
        while (found := Alike(spans[at : at + count], keys[at : at + count]).tree(given[at : at + count])) is None:
            count = -(-count // 2) if count > 2 else 1
        runs.append((spans[at][0], found))
        at += count
    return _chosen(runs)


def _chosen(runs: Sequence[tuple[int, Expression]]) -> Expression:
    """The run that a row is in, by halves: a chain of many would be too deep."""
    if len(runs) == 1:
        return runs[0][1]
    half = len(runs) // 2
    return where(variable("row") < runs[half][0], _chosen(runs[:half]), _chosen(runs[half:]))


def _table(numbers: Array, first: int) -> Expression:
    """A number for each row, from the first on."""
    row = variable("row")
    return gather(numbers, [row - first if first else row])


class Alike:
    """Trees of the same shape as one: numbers that differ become a table over rows, arrays that go on their longest."""

    def __init__(self, spans: Sequence[Span], keys: Sequence[int]):
        self.spans, self.keys = spans, keys
        self.done: dict[tuple[int, ...], Expression | None] = {}

    def tree(self, nodes: Sequence[Expression]) -> Expression | None:
        """The tree that is each of these in its span; None if there is none."""
        first = nodes[0]
        if all(x is first for x in nodes):
            return first
        key = tuple(map(id, nodes))
        if key not in self.done:
            self.done[key] = self._tree(nodes)
        return self.done[key]

    def _tree(self, nodes: Sequence[Expression]) -> Expression | None:
        first = nodes[0]
        if any(x.kind != first.kind for x in nodes):
            return None
        numbers = self._numbers(nodes)
        if numbers is not None:
            return numbers
        if any(x.operation != first.operation or len(x.operands) != len(first.operands) for x in nodes):
            return None
        if first.operation == "variable":
            return first if all(x.payload == first.payload for x in nodes) else None
        below: list[Expression] = []
        for operands in zip(*(x.operands for x in nodes), strict=True):
            found = self.tree(operands)
            if found is None:
                return None
            below.append(found)
        if first.operation != "gather":
            return combine(first.operation, *below)
        array = self._array([x.payload for x in nodes], below)
        return None if array is None else gather(array, below)

    def _numbers(self, nodes: Sequence[Expression]) -> Expression | None:
        """Constants and tables over rows as one of these."""
        first = nodes[0]
        if all(x.operation == "constant" for x in nodes) and len({repr(x.payload) for x in nodes}) == 1:
            return first
        columns = [_column(x, span) for x, span in zip(nodes, self.spans, strict=True)]
        if any(x is None for x in columns):
            return None
        numbers: Array = np.concatenate([x for x in columns if x is not None]).astype(NUMBERS[first.kind])
        return _table(numbers, self.spans[0][0]) if len(numbers) else first

    def _array(self, arrays: Sequence[Array], indices: Sequence[Expression]) -> Array | None:
        """An array that all of these are the beginning of, along keys."""
        first = arrays[0]
        if any(x.dtype != first.dtype or x.ndim != first.ndim for x in arrays):
            return None
        along = [i for i, x in enumerate(indices) if x.operation == "variable" and x.payload == "k"]
        longest = max(arrays, key=lambda x: x.size)
        for array, keys in zip(arrays, self.keys, strict=True):
            if array is longest:
                continue
            if array.shape != longest.shape:
                same = all(
                    a == b or (axis in along and keys <= a < b)
                    for axis, (a, b) in enumerate(zip(array.shape, longest.shape, strict=True))
                )
                if not same:
                    return None
            part = longest[tuple(map(slice, array.shape))]
            if array.tobytes() != part.tobytes():
                return None
        return longest


def _column(x: Expression, span: Span) -> Array | None:
    """The numbers of a constant, or of a table over rows, in a span; None if it is neither."""
    first, count = span
    if x.operation == "constant":
        return np.full(count, x.payload)
    if x.operation != "gather" or len(x.operands) != 1:
        return None
    place, start = x.operands[0], 0
    if place.operation == "sub" and place.operands[1].operation == "constant":
        start, place = place.operands[1].payload, place.operands[0]
    if place.operation != "variable" or place.payload != "row":
        return None
    table: Array = x.payload
    return table[np.clip(np.arange(first, first + count) - start, 0, len(table) - 1)]
