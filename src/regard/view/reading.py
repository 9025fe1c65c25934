"""The words that stand beside every picture of a matrix: titles, the sentence about one row, the caution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.errors import QuestionError
from regard.lens.explain import explain
from regard.lens.wording import labels
from regard.view.grid import Drawable, Grid, upright, visible
from regard.view.text import clean, count, number, safe

Array = np.ndarray[Any, Any]

CAUTION = (
    "A weight says how this head mixed values here. It does not say why the model answered, "
    "nor that removing the token would change anything."
)


def titles(turned: bool) -> tuple[str, str]:
    """The titles of the axis that goes down and of the one that goes across.

    >>> titles(False)
    ('query ↓ looks at', 'key → is looked at')
    >>> titles(True)
    ('key ↓ is looked at', 'query → looks at')
    """
    return ("key ↓ is looked at", "query → looks at") if turned else ("query ↓ looks at", "key → is looked at")


def names(tokens: Sequence[str] | None, n: int, unicode: bool = True) -> list[str]:
    """What the places of an axis are called: their tokens, or their numbers."""
    return [str(i) for i in range(n)] if tokens is None else [clean(token, unicode) for token in tokens]


def size(matrix: Drawable) -> str:
    """How large a head is.

    >>> from regard import matrix
    >>> size(matrix(np.ones((1, 4)), np.ones((6, 4))))
    '1 query × 6 keys'
    """
    n_q, n_k = upright(matrix).shape[-2:]
    return f"{count(n_q)} {'query' if n_q == 1 else 'queries'} × {count(n_k)} {'key' if n_k == 1 else 'keys'}"


def title(matrix: Drawable, place: tuple[int, ...], chosen: bool, scores: bool = False) -> str:
    """Which head this is, of how many, and how large."""
    front = matrix.front
    what = "scores of " if scores else ""
    remarks = "".join(f" · {note}" for note in notes(matrix))
    if int(np.prod(front, dtype=np.int64)) == 1:
        return f"{what}{size(matrix)}{remarks}"
    many = " × ".join(map(str, front))
    which = f"head {place[0] if len(place) == 1 else place}"
    label = labels(matrix)[int(np.ravel_multi_index(place, front))]
    which = label if label.startswith("L") else which  # of a layer that knows its number
    other = "" if chosen else ", head= shows another"
    return f"{what}{which} of {many}{other} · {size(matrix)}{remarks}"


def notes(matrix: Drawable) -> tuple[str, ...]:
    """What has to be said of a matrix wherever it is shown, such as that it is synthetic."""
    return tuple(safe(str(note)) for note in getattr(matrix, "notes", ()))


def line_of(matrix: Drawable, place: tuple[int, ...], row: int, scores: bool = False) -> tuple[Array, Array]:
    """(the weights or scores of a row, which of its keys are visible)."""
    matrix = upright(matrix)
    if scores:
        line = np.asarray(matrix.scores[(*place, row)], np.float64)
        return line, line != -np.inf
    line = np.asarray(matrix[(*place, row)], np.float64)
    return line, visible(matrix, place, row, line)


def called(tokens: Sequence[str] | None, n: int, axis: str) -> list[str]:
    """The tokens of an axis in sentences, with their places where there are several of a name."""
    if tokens is None:
        return [f"{axis} {i}" for i in range(n)]
    number_of = Counter(tokens)
    return [f"'{clean(x)}'" + (f" ({i})" if number_of[x] > 1 else "") for i, x in enumerate(tokens)]


def sentence(matrix: Drawable, place: tuple[int, ...], row: int, scores: bool = False, unicode: bool = True) -> str:
    """What one row says.

    >>> from regard import matrix
    >>> A = matrix(np.eye(2), np.eye(2), scale=2.0, tokens=["The", "cat"])
    >>> sentence(A, (), 1).partition(". ")[0]
    "'cat' gives 88 % of its attention to itself, 1.8 times an even spread over 2 tokens"
    """
    if not scores:
        try:
            return safe(explain(matrix, row, head=place or None), unicode)
        except QuestionError:  # lengths of weighted values are no shares of anything
            pass
    line, seen = line_of(matrix, place, row, scores)
    keys = strongest(line, seen, 1)
    query = called(matrix.tokens, len(matrix.tokens or ()) or row + 1, "query")[row]
    what = "score" if scores else "number"
    if not len(keys):
        return safe(f"{query} has no {what}: it sees no key.", unicode)
    key = int(keys[0])
    other = called(matrix.key_tokens, len(line), "key")[key]
    return safe(f"{query} has its largest {what}, {number(float(line[key]))}, with {other}.", unicode)


def strongest(line: Array, seen: Array, most: int) -> Array:
    """The keys of a row to name: those of the largest numbers, by number, ties by the lower key."""
    known = np.where(seen & ~np.isnan(line), line, -np.inf)
    order = np.argsort(-known, kind="stable")[:most]
    found: Array = order[known[order] > -np.inf]
    return found


def even(grid: Grid) -> float:
    """The weight that an even spread over all keys gives to each."""
    return 1 / max(1, grid.n_k)
