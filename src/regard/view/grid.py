"""What is drawn: one head of a matrix, all of its cells or as many bins as there is room for, and one of its rows."""

from __future__ import annotations

import operator
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from regard.errors import QuestionError, there
from regard.indexing import Tokens
from regard.lens.ask import Progress
from regard.lens.columns import Heatmap, edges_of
from regard.lens.rows import Top
from regard.view.colour import Scale
from regard.view.text import count

Array = np.ndarray[Any, Any]
Pool = Literal["max", "mean", "sum"]

BLOCK = 1 << 22  # cells that are read at a time where there is no reduction for what is drawn
SAMPLED = 256  # query rows that stand for all of them where all would take too long


class Drawable(Protocol):
    """What is asked of a matrix that is drawn."""

    tokens: Any
    key_tokens: Any
    turned: bool

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def front(self) -> tuple[int, ...]: ...
    @property
    def T(self) -> Any: ...
    @property
    def scores(self) -> Any: ...
    def ask(self, *questions: Any, progress: Progress | None = None) -> list[Any]: ...
    def __getitem__(self, index: Any) -> Any: ...


@dataclass(frozen=True)
class Grid:
    """One head as it is drawn: queries down and keys across, turned or not by who draws it."""

    values: Array  # (rows, columns) of cells or bins; 0 where hidden, NaN where a visible cell is NaN
    hidden: Array  # (rows, columns): nothing in it is visible
    n_q: int
    n_k: int
    pool: str  # "max", "mean", "sum", or "largest" size with its sign
    scores: bool
    row: int  # the query whose numbers are worth a look
    sampled: int = 0  # how many queries it was made of, 0 for all

    @property
    def cell(self) -> tuple[float, float]:
        """How many queries and keys a cell of the picture stands for."""
        rows, columns = self.values.shape
        return (self.n_q / rows if rows else 1.0), (self.n_k / columns if columns else 1.0)

    @property
    def pooled(self) -> bool:
        """Whether a cell of the picture is more than one of the matrix."""
        return bool(self.values.shape != (self.n_q, self.n_k))

    def scale(self) -> Scale:
        """The scale of its colours."""
        with np.errstate(all="ignore"):
            finite = self.values[np.isfinite(self.values)]
        if self.scores:
            return Scale.of_scores(float(np.abs(finite).max(initial=0)))
        return Scale.of_weights(self.n_k, float(finite.max(initial=0)))

    def said(self, turned: bool = False) -> list[str]:
        """The scale and the pooling in words."""
        scale = self.scale()
        found = [{"diverging": "scores, about 0"}.get(scale.kind, scale.kind)]
        if self.pooled:
            sizes = self.cell[::-1] if turned else self.cell
            exact = all(float(size).is_integer() for size in sizes)
            across = " × ".join(f"{size:.0f}" if size >= 10 or exact else f"{size:.1f}" for size in sizes)
            pool = "largest size" if self.pool == "largest" else self.pool
            found.append(f"1 cell {'=' if exact else '≈'} {across}, {pool}")
        if self.sampled:
            found.append(f"sampled {count(self.sampled)} of {count(self.n_q)} queries")
        return found


def upright(matrix: Drawable) -> Drawable:
    """The matrix with queries as rows."""
    turned: Drawable = matrix.T if matrix.turned else matrix
    return turned


def row_of(matrix: Drawable, row: Any) -> int:
    """A query, by number or by token."""
    n_q = upright(matrix).shape[-2]
    if isinstance(row, str):
        return Tokens(matrix.tokens or (), "query").place(row)
    try:
        place = operator.index(row)
    except TypeError:
        raise TypeError(f"row is {row!r}, expected the number of a query, or its token") from None
    if not -n_q <= place < n_q:
        raise IndexError(f"row is {place}, expected {f'0 to {n_q - 1}' if n_q else 'none'}: {there(n_q, 'query')}")
    return place % n_q


def alone(matrix: Drawable, place: tuple[int, ...]) -> tuple[Drawable, tuple[int, ...]]:
    """A matrix that has this head, and where: of one head if it can be had, so that the others are not computed."""
    from regard.matrix import AttentionMatrix

    if type(matrix) is not AttentionMatrix or int(np.prod(matrix.front, dtype=np.int64)) == 1:
        return matrix, place
    single = copy(matrix)
    single.weights = matrix.weights.head(int(np.ravel_multi_index(place, matrix.front)))
    return single, (0,) * len(single.front)


def bins(n: int, most: int) -> int:
    """How many bins n places are drawn in: as many as there may be, or somewhat fewer, so that they are of one size.

    >>> bins(3000, 256), bins(19, 17), bins(5, 256)
    (250, 17, 5)
    """
    if n <= most:
        return n
    size = -(-n // most)
    return -(-n // size) if size >= 4 or most >= 64 else most


def grid(
    matrix: Drawable,
    place: tuple[int, ...],
    rows: int,
    columns: int,
    *,
    scores: bool = False,
    pool: Pool = "max",
    cells: int | None = None,
    progress: Progress | None = None,
) -> Grid:
    """A head in at most so many rows and columns; past so many `cells` of it, from a sample of the queries."""
    if pool not in ("max", "mean", "sum"):
        raise ValueError(f"pool is {pool!r}, expected 'max', 'mean' or 'sum'")
    matrix = upright(matrix)
    n_q, n_k = matrix.shape[-2:]
    rows, columns = bins(n_q, rows), bins(n_k, columns)
    if not n_q or not n_k:
        return Grid(np.zeros((n_q, n_k)), np.zeros((n_q, n_k), np.bool_), n_q, n_k, pool, scores, 0)
    if scores:
        return _scores(matrix, place, rows, columns, pool)
    if (rows, columns) == (n_q, n_k):
        values = np.asarray(matrix[place], np.float64)
        weight, key = _best_two(values, hidden := _hidden(matrix, place, values))
        row = _telling(matrix, weight, key)
        return Grid(np.where(hidden, 0, values), hidden, n_q, n_k, pool, False, row)
    if cells is not None and n_q * n_k > cells:
        return _sample(matrix, place, rows, columns, pool)
    one, inside = alone(matrix, place)
    values, top = one.ask(Heatmap(rows, columns, pool), Top(2), progress=progress)
    values, (weight, key) = np.asarray(values[inside], np.float64), (np.asarray(x[inside]) for x in top)
    hidden = np.isnan(values)
    if pool == "sum":  # it has no NaN where nothing is visible
        hidden = np.isnan(np.asarray(one.ask(Heatmap(rows, columns, "max"))[0][inside]))
    if np.isnan(weight).any():  # NaN in the map then says either that nothing is visible, or that something is NaN
        hidden &= ~np.isnan(np.asarray(one.ask(Heatmap(rows, columns, "max", "all"))[0][inside]))
    row = _telling(matrix, weight, key)
    return Grid(np.where(hidden, 0, values), hidden, n_q, n_k, pool, False, row)


def _hidden(matrix: Drawable, place: tuple[int, ...], values: Array) -> Array:
    """Which of the cells a query cannot see; values are all of the head's."""
    try:
        return np.asarray(matrix.scores[place]) == -np.inf  # type: ignore[no-any-return]  # an array
    except QuestionError:  # a matrix that was pooled has no scores
        seen = np.asarray(matrix.ask(Heatmap(values.shape[0], values.shape[1], "max"))[0][place])
        return np.isnan(seen) & ~np.isnan(values)  # type: ignore[no-any-return]  # an array


def _best_two(values: Array, hidden: Array) -> tuple[Array, Array]:
    """The two largest of each row and their keys, -inf and -1 where there are not so many."""
    known = np.where(hidden | np.isnan(values), -np.inf, values)
    best, keys = np.full((len(known), 2), -np.inf), np.full((len(known), 2), -1)
    for turn in range(min(2, known.shape[-1])):
        key = known.argmax(-1)
        best[:, turn] = np.take_along_axis(known, key[:, None], axis=-1)[:, 0]
        keys[:, turn] = np.where(best[:, turn] == -np.inf, -1, key)
        np.put_along_axis(known, key[:, None], -np.inf, axis=-1)
    return best, keys


def _telling(matrix: Drawable, weight: Array, key: Array, rows: Array | None = None) -> int:
    """The query with the largest weight on a token other than its own; weight and key are the best two of each."""
    n_q, n_k = matrix.shape[-2:]
    rows = np.arange(n_q) if rows is None else rows
    own = rows + (n_k - n_q)
    ours, theirs = matrix.tokens, matrix.key_tokens
    if ours is not None and theirs is not None:
        inside = (own >= 0) & (own < n_k)
        same = [bool(i) and ours[r] == theirs[o] for r, o, i in zip(rows, own, inside, strict=True)]
        own = np.where(same, own, -2)
    elif n_q > n_k:
        own = np.full_like(own, -2)  # other tokens than the keys
    other = np.where((key == own[:, None]) | (key < 0) | np.isnan(weight), -np.inf, weight).max(-1)
    return int(rows[other.argmax()]) if len(rows) else 0


def _scores(matrix: Drawable, place: tuple[int, ...], rows: int, columns: int, pool: Pool) -> Grid:
    """Final scores, block of rows by block of rows; of a bin the one of largest size, or the mean of the visible."""
    n_q, n_k = matrix.shape[-2:]
    starts, across = edges_of(n_q, rows)[:-1], edges_of(n_k, columns)[:-1]
    high, low = np.full((rows, columns), -np.inf), np.full((rows, columns), np.inf)
    total, number = np.zeros((rows, columns)), np.zeros((rows, columns), np.int64)
    best, keys = np.zeros((n_q, 2)), np.zeros((n_q, 2), np.int64)
    step = max(1, BLOCK // n_k)
    for first in range(0, n_q, step):
        here = slice(first, min(first + step, n_q))
        block = np.asarray(matrix.scores[(*place, here)], np.float64)
        seen = block != -np.inf
        best[here], keys[here] = _best_two(block, ~seen)
        # Bins of keys first; then each row joins the bin of queries that it is in.
        bins = np.searchsorted(starts, np.arange(here.start, here.stop), side="right") - 1
        np.maximum.at(high, bins, np.maximum.reduceat(block, across, axis=1))
        np.minimum.at(low, bins, np.minimum.reduceat(np.where(seen, block, np.inf), across, axis=1))
        np.add.at(total, bins, np.add.reduceat(np.where(seen, block, 0), across, axis=1))
        np.add.at(number, bins, np.add.reduceat(seen, across, axis=1, dtype=np.int64))
    hidden = number == 0
    if pool == "max":
        values = np.where(np.abs(low) > np.abs(high), low, high)
    else:
        values = total / (1 if pool == "sum" else np.maximum(number, 1))
    values = np.where(hidden, 0, values)
    name = "largest" if pool == "max" else pool
    return Grid(values, hidden, n_q, n_k, name, True, _telling(matrix, best, keys))


def _sample(matrix: Drawable, place: tuple[int, ...], rows: int, columns: int, pool: Pool) -> Grid:
    """As many queries as there are rows in the picture, spread over the text and each exact."""
    n_q, n_k = matrix.shape[-2:]
    rows = min(rows, SAMPLED)
    edges, across = edges_of(n_q, rows), edges_of(n_k, columns)[:-1]
    chosen = (edges[:-1] + edges[1:]) // 2  # the middle of each bin
    values, hidden = np.zeros((rows, columns)), np.zeros((rows, columns), np.bool_)
    weight, key = np.zeros((rows, 2)), np.zeros((rows, 2), np.int64)
    for r, i in enumerate(chosen):
        line = np.asarray(matrix[(*place, int(i))], np.float64)
        seen = visible(matrix, place, int(i), line)
        number = np.add.reduceat(seen, across, dtype=np.int64)
        hidden[r] = number == 0
        if pool == "max":
            values[r] = np.maximum.reduceat(line, across)
        else:
            values[r] = np.add.reduceat(line, across) / (np.maximum(number, 1) if pool == "mean" else 1)
        (weight[r],), (key[r],) = _best_two(line[None], ~seen[None])
    row = _telling(matrix, weight, key, chosen)
    return Grid(np.where(hidden, 0, values), hidden, n_q, n_k, pool, False, row, sampled=rows)


def visible(matrix: Drawable, place: tuple[int, ...], row: int, line: Array) -> Array:
    """Which keys a query can see, as booleans; `line` is its row of weights."""
    try:
        return np.asarray(matrix.scores[(*place, row)]) != -np.inf  # type: ignore[no-any-return]  # an array
    except QuestionError:
        n_k = len(line)
        seen = np.asarray(matrix.ask(Heatmap(1, n_k, "max", region=(row, row + 1, 0, n_k)))[0][place])
        return ~np.isnan(seen[0]) | np.isnan(line)  # type: ignore[no-any-return]  # an array
