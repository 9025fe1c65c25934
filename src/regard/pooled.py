"""Views of A that are not softmax(Q·Kᵀ) of anything: some heads, rows and keys of it, means over heads, words, norms.

One mechanism for all of them, L·A·R, with a sparse L over queries and a sparse R over keys; it is read like an array,
answers every question row block by row block, and is never built.

>>> import regard
>>> x = np.eye(4, dtype=np.float32)[None].repeat(2, axis=0)
>>> A = regard.matrix(x, x, scale=0.0, mask=regard.causal, tokens=["un", "##seen", "cat", "##s"])
>>> A.mean_heads().words()
PooledMatrix: 1 head, 2 queries × 2 keys (words of mean_heads of 2 heads, 4 queries × 4 keys, d = 4, f32)
>>> A.mean_heads().words().entropy().round(4).tolist()
[0.0, 0.6792]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from regard.algebra.expression import Expression, constant, gather, mentions, substitute, variable
from regard.algebra.masks import Mask
from regard.errors import QuestionError, ShapeError, counted
from regard.indexing import LIMIT, Axis, Tokens, read
from regard.lens.ask import Progress, Readable, plainly
from regard.lens.columns import Received
from regard.lens.explained import Explained
from regard.lens.question import Question
from regard.lens.questions import Questions
from regard.lens.single import Mass
from regard.matrix import View
from regard.pooling import Pooling
from regard.pools import Pools
from regard.results import Array, as_callers
from regard.view.shown import Shown


class PooledMatrix(View, Questions, Pools, Explained, Shown):
    """A pooled view of a matrix. Made by `select`, `mean_heads`, `words` and `norms`."""

    def __init__(self, pooling: Pooling, like: Any, v: Any = None, turned: bool = False, notes: tuple[str, ...] = ()):
        self._pooling, self.like, self.v, self.turned, self.notes = pooling, like, v, turned, notes

    def pooling(self) -> Pooling:
        return self._pooling

    # The array.

    @property
    def tokens(self) -> tuple[str, ...] | None:
        """What the queries are called."""
        return self._pooling.rows.tokens

    @property
    def key_tokens(self) -> tuple[str, ...] | None:
        """What the keys are called."""
        return self._pooling.keys.tokens

    @property
    def labels(self) -> list[str] | None:
        """What each head is called, flat over the leading axes."""
        return self._pooling.labels

    @property
    def front(self) -> tuple[int, ...]:
        """The axes before rows and keys."""
        return self._pooling.front

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]  # it is worked out, not stored
        n_q, n_k = len(self._pooling.rows), len(self._pooling.keys)
        return (*self.front, n_k, n_q) if self.turned else (*self.front, n_q, n_k)

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]  # the same
        return self._pooling.weights.number

    @property
    def T(self) -> PooledMatrix:
        """The same with columns as queries, for reading and looking. Questions keep their meaning."""
        return PooledMatrix(self._pooling, self.like, self.v, not self.turned, self.notes)

    @property
    def lse(self) -> NoReturn:
        """Refused: a pooled row is no softmax."""
        self._refuse("lse")

    @property
    def scores(self) -> NoReturn:
        """Refused: a pooled weight has no score."""
        raise QuestionError(
            f"scores were asked of {self._what}, which is no softmax of scores: ask the matrix it was made of"
        )

    def without(self, keys: Any) -> NoReturn:
        """Refused: a pooled row is no softmax."""
        self._refuse("without")

    def output(self, v: Any = None, *, progress: Progress | None = None) -> NoReturn:
        """Refused: a pooled weight is no share of a value."""
        self._refuse("output")

    def logit_max(self, *, progress: Progress | None = None) -> NoReturn:
        """Refused: a pooled weight has no score."""
        self._refuse("logit_max")

    def _refuse(self, name: str) -> NoReturn:
        raise QuestionError(
            f"{name} was asked of {self._what}, which is no softmax of scores: ask the matrix it was made of"
        )

    @property
    def _what(self) -> str:
        return f"a pooled view ({' of '.join(reversed(self._pooling.steps))})"

    def give(self, array: Any) -> Any:
        """An answer as an array of the caller's kind."""
        return as_callers(self.like, array)

    def read(self, index: Any, limit: float = LIMIT) -> Array:
        """array[index] as a NumPy array."""
        made, shape = self._pooling, self.shape
        names = [Tokens(x, axis) if x else None for x, axis in ((self.tokens, "query"), (self.key_tokens, "key"))]
        if self.turned:
            names.reverse()
        last = len(shape) - 1
        flat = np.arange(int(np.prod(self.front, dtype=np.int64))).reshape(self.front)

        def outer(needed: list[Axis]) -> Array:
            *front, rows, keys = needed
            if self.turned:
                rows, keys = keys, rows
            which = flat[np.ix_(*(np.asarray(x) for x in front))]
            found = made.cells(which.reshape(-1), made.rows.pick(rows), made.keys.pick(keys))
            found = found.reshape(*which.shape, len(rows), len(keys))  # (heads, rows, keys) -> (…, rows, keys)
            return found.swapaxes(-1, -2) if self.turned else found

        def scattered(places: tuple[Array, ...]) -> Array:
            *front, i, j = np.broadcast_arrays(*places)
            if self.turned:
                i, j = j, i
            heads = flat[tuple(front)] if front else np.zeros(i.shape, np.int64)
            return made.scattered(heads.ravel(), i.ravel(), j.ravel()).reshape(i.shape)

        return read(index, shape, {last - 1: names[0], last: names[1]}, outer, scattered, self.dtype, limit)

    # Questions.

    def readable(self) -> Readable:
        """The view as questions see it."""
        return Read(self._pooling)

    def answers(self, questions: Sequence[Question], progress: Progress | None) -> list[Any]:
        """Answers with flat heads, by the plain forms."""
        return plainly(self.readable(), [_asked(x, self._pooling) for x in questions], progress)

    def __repr__(self) -> str:
        made, of = self._pooling, self._pooling.weights.of
        heads = _heads(self.front)
        steps = " of ".join((*reversed(made.steps), _heads((*of.leading, of.heads))))
        whole = f"{steps}, {counted(of.n_q, 'query')} × {counted(of.n_k, 'key')}, d = {of.d}, {of.storage}"
        size = f"{counted(len(made.rows), 'query')} × {counted(len(made.keys), 'key')}"
        return f"PooledMatrix: {heads}, {size} ({whole})"


def _heads(axes: tuple[int, ...]) -> str:
    return "1 head" if np.prod(axes, dtype=np.int64) == 1 else f"{' × '.join(map(str, axes))} heads"


class Read:
    """A pooled view as questions see it."""

    def __init__(self, of: Pooling):
        self.of, self.front, self.each = of, of.front, of.each
        self.heads = int(np.prod(of.front, dtype=np.int64))
        problem = of.weights.of
        self.group = problem.heads // max(1, problem.key_heads) if of.whole_groups else 1
        self.n_q, self.n_k = len(of.rows), len(of.keys)
        self.positions = (of.rows.numbers + of.offset, of.keys.numbers)

    def block(self, heads: range, rows: range) -> tuple[Array, Array | None]:
        """Weights (heads, rows, n_k), and which are visible or None."""
        which, some = np.asarray(heads), self.of.rows.pick(rows)
        return self.of.cells(which, some, self.of.keys), self.of.visible(which, some)


def _asked(question: Question, made: Pooling) -> Question:
    """A question in terms of the view: masks are about places of the whole, whose numbers rows and keys keep."""
    if isinstance(question, Received) and question.group == "kv" and not made.whole_groups:
        raise QuestionError(
            "group='kv' was asked of some heads or their mean, expected all query heads of each key head: "
            "select whole groups, or ask the matrix itself"
        )
    if not isinstance(question, Mass) or not isinstance(question.where, Mask):
        return question
    condition, of = question.where.condition, made.weights.of
    lengths = {"h": ("heads", of.heads), "row": ("queries", made.rows.whole), "k": ("keys", made.keys.whole)}
    for e in question.where.expectations:
        axis, length = lengths.get(e.axis, ("", e.length))
        if e.length != length and not (e.length == 1 and e.repeats):
            raise ShapeError(
                f"{e.what} of where is for {e.length} {axis}, but the view is of {length}: make it for all of them, "
                "or pass booleans of the view's shape alone"
            )
    by = {"row": _table(made.rows.numbers, "row"), "k": _table(made.keys.numbers, "k")}
    by["q"] = by["row"] + made.shift
    if mentions(condition, "h"):
        if made.members.shape[-1] != 1:
            raise QuestionError(
                "mass was asked of a mean over heads inside a mask that differs by head, expected one for all: "
                "ask before mean_heads"
            )
        heads = made.members.reshape(-1, made.each)[:1].ravel() % max(1, of.heads)  # (…, heads, 1) -> (heads,)
        by["h"] = _table(heads, "h") if made.headed else constant(int(heads[0]) if len(heads) else 0)
    return replace(question, where=Mask(substitute(condition, **by)))


def _table(numbers: Array, name: str) -> Expression:
    """numbers[variable]."""
    x = variable(name)
    if (numbers == np.arange(len(numbers))).all():
        return x
    return gather(np.ascontiguousarray(numbers, np.int64), [x])


__all__ = ["PooledMatrix"]
