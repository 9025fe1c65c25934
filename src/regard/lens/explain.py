"""What a cell of A, or a row of it, says, in sentences that a person would write.

>>> import numpy as np, regard
>>> words = "The cat chased mice".split()
>>> s = np.log(np.float32([[1, 1, 1, 1], [1, 1, 17, 2], [1, 4, 4, 1], [1, 2, 3, 4]]))
>>> A = regard.matrix(s, np.eye(4, dtype=np.float32), scale=1.0, tokens=words)
>>> explain(A, "cat", "chased")
"'cat' gives 81 % of its attention to 'chased', 3.2 times an even spread over 4 tokens. The other 3 tokens share 19 %."
>>> explain(A, "chased")
"'chased' divides its attention mostly between 'cat' (40 %) and itself (40 %). They tie exactly, each 1.6 times an \
even spread over 4 tokens. The other 2 tokens share 20 %."
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.errors import QuestionError
from regard.lens import wording
from regard.lens.heads import place_of
from regard.lens.told import Names, Row
from regard.lens.wording import percent
from regard.problem import view
from regard.results import as_numpy

Array = np.ndarray[Any, Any]

SHORT = 2 / 3  # of the length that its weight alone would add: a short value vector; the inverse is long


def explain(matrix: Any, query: int | str, key: int | str | None = None, head: Any = None) -> str:
    """Sentences about the cell of a query and a key, or about the row of a query, numbered or named by its token.

    `head` is a number, one for each axis before the rows, or a name such as L1H8 or H8. Of several heads, if none is
    given, the one that says it most strongly speaks: the largest weight on the key, or, for a row, the largest on any
    other key that is no special token.
    """
    names = Names(matrix)
    i, j = names.query(query), None if key is None else names.key(key)
    chosen, rows = _heads(matrix, head), matrix.readable()
    if len(chosen) == 1:
        return _said(matrix, names, chosen[0], i, j, *_row(rows, chosen[0], i))
    if not chosen:
        raise QuestionError("explain was asked of a matrix without heads, expected one at least: choose another")
    block, seen = rows.block(range(rows.heads), range(i, i + 1))
    weights = np.asarray(block, np.float64)[:, 0]
    visible = np.ones(weights.shape, np.bool_) if seen is None else np.asarray(seen)[:, 0]
    every = f" in any of {len(chosen)} heads"
    if not visible.any():
        return _sentences([f"{names.of_query(i)} sees no {names.many[:-1]}{every}: its row is empty"])
    if j is not None and not visible[:, j].any():
        return _sentences([f"{names.of_query(i)} cannot see {names.of_key(j, i)}{every}: it is masked"])
    strength = _strength(np.where(visible, weights, -1.0), names.telling(i), j)
    best = int(np.argmax(strength))
    lead = _most(wording.labels(matrix), strength, best)
    return f"{lead} {_said(matrix, names, best, i, j, weights[best], visible[best])}".strip()


def _strength(says: Array, telling: Array, j: int | None) -> Array:
    """How strongly each head says it: -1 where it cannot."""
    if j is None:
        with np.errstate(invalid="ignore"):
            some = telling.any() and (says[:, telling] > 0).any()
        strength = (says[:, telling] if some else says).max(-1)
    else:
        strength = says[:, j]
    return np.where(np.isnan(strength), -1.0, strength)


def _most(labels: list[str], strength: Array, best: int) -> str:
    """Which head speaks, and how many say it alike."""
    alike = int((strength == strength[best]).sum()) - 1
    if strength[best] < 0:  # there is nothing to compare
        return ""
    if alike == len(labels) - 1:
        return f"All {len(labels)} heads say it just as strongly."
    others = "" if not alike else f", {alike} other{'s' * (alike > 1)} just as strongly"
    return f"Of {len(labels)} heads, {labels[best]} says it most strongly{others}."


def _heads(matrix: Any, head: Any) -> list[int]:
    """The heads that may speak, flat."""
    front = tuple(matrix.front)
    count = math.prod(front)
    if head is None:
        return list(range(count))
    place = place_of(matrix, head)
    return [int(np.ravel_multi_index(place, front)) if place else 0]


def _row(rows: Any, head: int, i: int) -> tuple[Array, Array]:
    """A row of one head, and which of its cells are visible."""
    block, seen = rows.block(range(head, head + 1), range(i, i + 1))
    weights = np.asarray(block, np.float64)[0, 0]
    return weights, np.ones(weights.shape, np.bool_) if seen is None else np.asarray(seen)[0, 0]


def _said(matrix: Any, names: Names, head: int, i: int, j: int | None, weights: Array, visible: Array) -> str:
    """The sentences about one head."""
    label = wording.labels(matrix)[head]
    terms = getattr(getattr(matrix, "weights", None), "terms", None)
    row = Row(weights, visible, names, i, f" in {label}" if label else "", getattr(terms, "sinks", None) is not None)
    if not row.count:
        sees = f"{row.query} sees no {names.many[:-1]}{row.place}: its row is empty"
        return _sentences([sees, "all of its attention goes to the sink" if row.sunk else ""])
    if np.isnan(weights[visible]).any():
        return _sentences(
            [f"the row of {row.query}{row.place} is NaN: there is a NaN among the numbers that it comes from"]
        )
    if row.total > 1.001:
        raise QuestionError("explain was asked of rows that sum to more than 1, expected weights: ask before norms()")
    if j is not None and not visible[j]:
        hidden = f"{row.query} cannot see {row.key(j)}{row.place}: it is masked"
        return _sentences([hidden, *_about_row(row), _rest(row)])
    if row.count == 1:
        return _sentences([_alone(row), _rest(row)])
    about = _about_row(row) if j is None else _about_cell(row, j)
    if j is not None or row.shape == "sharp":
        about.insert(1, _weighted(matrix, row, head, int(row.order[0]) if j is None else j))
    return _sentences([*about, _rest(row)])


def _sentences(parts: list[str]) -> str:
    return " ".join(p[0].upper() + p[1:] + "." for p in parts if p)


def _alone(row: Row) -> str:
    """A row with one visible key."""
    only = row.key(int(row.order[0]))
    if row.sunk or row.total < 0.999:
        return f"{row.query} sees only {only}{row.place} and gives it {percent(row.total)} of its attention"
    return f"{row.query} sees only {only}, so 100 % says nothing"


def _rest(row: Row) -> str:
    """What goes to no key."""
    left = 1 - row.total
    if row.sunk:
        return f"the sink takes {percent(left)}"
    return f"{percent(left)} goes to keys that are left out here" if left > 0.001 else ""


def _about_cell(row: Row, j: int) -> list[str]:
    share, others = percent(float(row.weights[j])), row.others(np.array([j]))
    gives = f"{row.query} gives {share} of its attention{row.place} to {row.key(j)}, {row.beside_even(j)}"
    tied, shape, top = row.tied, row.shape, int(row.order[0])
    if shape == "even":
        return [gives, f"all {row.count} {row.names.many} tie exactly"]
    split = f"the row is split, mostly between {row.part(top)} and {row.part(row.order[1])}"
    if j in tied:
        if len(tied) > 1:
            return [gives, f"it ties exactly with {row.several(tied[tied != j])}", others]
        if shape == "flat":
            return [gives, f"no {row.names.many[:-1]} gets more, though the row is nearly flat{row.spread}", others]
        return [gives, split if shape == "split" else "", others]
    if shape == "split":
        return [gives, split]
    if shape == "sharp":
        return [gives, others + (f", most of it on {row.part(top)}" if row.count > 2 else "")]
    return [gives, f"the row is {'nearly flat' if shape == 'flat' else 'spread'}{row.spread}: {row.largest}"]


def _about_row(row: Row) -> list[str]:
    if row.count == 1:
        return [_alone(row)]
    order, shape, many = row.order, row.shape, row.names.many
    first, second = int(order[0]), int(order[1])
    share, beside = percent(float(row.weights[first])), row.beside_even(first)
    spreads = f"{row.query} spreads its attention{row.place}"
    if shape == "even":
        return [f"{spreads} evenly over {row.count} {many}, {share} each"]
    if shape == "flat":
        return [f"{spreads} almost evenly over {row.count} {many}{row.spread}", f"{row.largest}, {beside}"]
    if shape == "split":
        tie = row.weights[first] == row.weights[second]
        return [
            f"{row.query} divides its attention{row.place} mostly between {row.part(first)} and {row.part(second)}",
            f"they tie exactly, each {beside}" if tie else f"the first is {beside}",
            row.others(order[:2]),
        ]
    if shape == "sharp":
        gives = f"{row.query} gives {share} of its attention{row.place} to {row.key(first)}, {beside}"
        return [gives, row.others(order[:1])]
    if len(row.tied) > 1:
        lead = f"{row.several(row.tied)} tie exactly at {share}, each {beside}"
        return [f"{spreads} over several {many}{row.spread}", lead, row.others(row.tied)]
    lead = f"the largest part, {share}, goes to {row.key(first)}, {beside}"
    return [f"{spreads} over several {many}{row.spread}", lead, row.others(order[:1])]


def _weighted(matrix: Any, row: Row, head: int, j: int) -> str:
    """The weighted length that a key adds, if the matrix has values and the row is its own."""
    if getattr(matrix, "v", None) is None or getattr(matrix, "weights", None) is None:
        return ""
    lengths = np.where(row.weights > 0, _lengths(matrix, head), 0)
    each = row.weights * lengths
    total = float(each.sum())
    if not np.isfinite(total) or total <= 0:
        return ""
    share, weight = float(each[j]) / total, float(row.weights[j]) / row.total
    if share < SHORT * weight:
        return f"its value vector is short, so it adds {percent(share)} of the weighted length"
    if share * SHORT > weight:
        return f"its value vector is long, so it adds {percent(share)} of the weighted length"
    return f"its value vector adds {percent(share)} of the weighted length"


def _lengths(matrix: Any, head: int) -> Array:
    """The length of each value vector of a head."""
    values = as_numpy(view("v", matrix.v))
    if values.ndim > 2:
        front = matrix.front
        *lead, h = np.unravel_index(head, front)
        values = np.broadcast_to(values, (*front[:-1], *values.shape[-3:]))[tuple(lead)]
        values = values[int(h) * values.shape[0] // front[-1]]
    if values.dtype.kind != "f":  # bfloat16
        values = values.astype(np.float32)
    with np.errstate(all="ignore"):
        lengths: Array = np.sqrt(np.einsum("nd,nd->n", values, values, dtype=np.float64))
    return lengths
