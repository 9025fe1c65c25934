"""What an even spread over the visible keys of each row would give to a pattern.

Where the visible keys of every row lie side by side, as without a mask, under a causal one or in a window, cells are
counted. Otherwise the same question is asked of the matrix whose rows are even over the same keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from regard.algebra.expression import gather, mentions, substitute, variable
from regard.algebra.masks import Mask
from regard.errors import QuestionError
from regard.lens.ask import Progress
from regard.lens.places import Pattern, Places
from regard.lens.question import Question
from regard.lens.questions import Questions
from regard.lens.single import Mass
from regard.problem import view

Array = np.ndarray[Any, Any]


class Evenly(NamedTuple):
    """Of a pattern, for each head: in which rows it exists, and the mean over them of an even spread's share."""

    exists: Array  # (heads, n_q)
    even: Array  # (heads,)


class Bands(NamedTuple):
    """Visible keys lo … hi - 1 of each row, for each kind of head, and which kind each head is."""

    kinds: list[tuple[Array, Array]]
    which: Array


def bands(at: Places, distances: Array, seen: Array, visible: Array) -> Bands | None:
    """The visible keys, if those of every row lie side by side between the same two distances; else None.

    That is shown by two numbers: no cell is visible (`seen`) outside these distances, and each row sees as many keys
    (`visible`) as there are between them.
    """
    n_k = len(at.k)
    if not at.dense:
        return None
    known: dict[tuple[int, int], int] = {}
    kinds: list[tuple[Array, Array]] = []
    which = np.zeros(len(visible), np.int64)
    for head, (cells, count) in enumerate(zip(seen, visible, strict=True)):
        there = distances[np.flatnonzero(cells)]
        least, most = (int(there[0]), int(there[-1])) if len(there) else (1, 0)
        if (least, most) not in known:
            lo = np.clip(at.q - most - at.first, 0, n_k)
            hi = np.clip(at.q - least + 1 - at.first, lo, n_k)
            known[least, most] = len(kinds)
            kinds.append((lo, hi))
        which[head] = known[least, most]
        lo, hi = kinds[which[head]]
        if not np.array_equal(hi - lo, count):
            return None
    return Bands(kinds, which)


def evenly(
    matrix: Any, patterns: Sequence[Pattern], found: Bands | None, progress: Progress | None = None
) -> list[Evenly]:
    """What an even spread gives to each pattern, counted where that is possible."""
    answers: list[Evenly | None] = [None] * len(patterns)
    for number, pattern in enumerate(patterns):
        if found is not None and pattern.count is not None:
            answers[number] = _counted(pattern, found)
    rest = [number for number, answer in enumerate(answers) if answer is None]
    if rest:
        shares = _asked(matrix, [patterns[number] for number in rest], progress)
        for number, answer in zip(rest, shares, strict=True):
            answers[number] = answer
    return [answer for answer in answers if answer is not None]


def _counted(pattern: Pattern, found: Bands) -> Evenly:
    assert pattern.count is not None
    exists, even = [], []
    for lo, hi in found.kinds:
        inside = pattern.count(lo, hi)
        there = inside > 0
        exists.append(there)
        even.append(float(np.mean(inside[there] / (hi - lo)[there])) if there.any() else np.nan)
    return Evenly(np.stack(exists)[found.which], np.array(even)[found.which]) if exists else _none(pattern)


def _none(pattern: Pattern) -> Evenly:
    """Of a matrix without heads."""
    return Evenly(np.zeros((0, 0), np.bool_), np.zeros(0))


def _asked(matrix: Any, patterns: Sequence[Pattern], progress: Progress | None) -> list[Evenly]:
    read = matrix.readable()
    conditions = [p.where.condition for p in patterns if isinstance(p.where, Mask)]
    alone = read.heads > 0 and _one_for_all(read) and not any(mentions(c, "b", "h") for c in conditions)
    answers = even_twin(matrix, alone).ask(*(Mass(p.where) for p in patterns), progress=progress)
    results = []
    for answer in answers:
        share = np.asarray(answer.rows, np.float64).reshape(-1, read.n_q)  # (heads, or one for all, n_q)
        there = share > 0
        rows = there.sum(-1)
        even = np.where(rows > 0, share.sum(-1) / np.maximum(rows, 1), np.nan)
        results.append(Evenly(np.broadcast_to(there, (read.heads, read.n_q)), np.broadcast_to(even, read.heads)))
    return results


def _one_for_all(read: Any) -> bool:
    """Whether all heads see the same cells, as far as that can be told without looking at any."""
    weights = getattr(read, "weights", None)
    if weights is None or weights.hides_by_score:
        return False
    terms = weights.terms
    arrays = [x for x in (terms.mask_array, terms.bias) if x is not None]
    return not mentions(terms.mask, "b", "h") and all(n == 1 for x in arrays for n in x.shape[:-2])


def even_twin(matrix: Any, alone: bool = False) -> Questions:
    """The matrix with an even spread over the visible keys of each row; `alone` keeps only the first head.

    >>> import regard
    >>> x = np.random.default_rng(0).standard_normal((3, 4))
    >>> even_twin(regard.matrix(x, x, mask=regard.causal)).received().round(3).tolist()
    [1.833, 0.833, 0.333]
    """
    weights = getattr(matrix, "weights", None)
    if weights is None or weights.terms.bias is not None or weights.hides_by_score:
        return Spread(matrix, alone)
    # Products of zeros: the same mask makes them even over what it lets through.
    of, terms = weights.of, weights.terms
    front = () if of.single else (1,) * (len(of.leading) + 1) if alone else (*of.leading, of.heads)
    problem = replace(of, leading=front[:-1], heads=1 if of.single else front[-1], key_heads=1, d=1, d_v=0)
    problem = replace(problem, key_heads=problem.heads, storage="f32")

    q, k = (view("zeros", np.zeros((*front, n, 1), np.float32)) for n in (of.n_q, of.n_k))
    even = replace(terms, scale=1.0, modify=None, sinks=None)
    made = type(weights)(problem, q, k, even)
    twin: Questions = type(matrix)(made, q.owner)
    return twin


class Spread(Questions):
    """The same in its plain form: whatever the matrix is, only which cells are visible is read of it."""

    def __init__(self, matrix: Any, alone: bool = False):
        self.read, self.alone = matrix.readable(), alone
        self.numbers = matrix.pooling() if hasattr(matrix, "pooling") else None

    def readable(self) -> SpreadRead:
        return SpreadRead(self.read, self.alone)

    def answers(self, questions: Sequence[Question], progress: Progress | None) -> list[Any]:
        return super().answers([self._here(x) for x in questions], progress)

    def _here(self, question: Question) -> Question:
        """A question whose mask is about rows and keys of the whole, as one about those of the view."""
        made = self.numbers
        if made is None or not (len(made.rows) and len(made.keys)):
            return question
        if not isinstance(question, Mass) or not isinstance(question.where, Mask):
            return question
        rows, keys = (gather(x.numbers, [variable(n)]) for x, n in ((made.rows, "row"), (made.keys, "k")))
        if mentions(question.where.condition, "h") and made.steps:
            raise QuestionError(
                "a pattern that differs by head was asked of a pooled view, expected one for all heads: "
                "ask the matrix itself"
            )
        where = substitute(question.where.condition, row=rows, k=keys, q=rows + made.shift)
        return Mass(Mask(where))


class SpreadRead:
    """An even spread as questions see it."""

    def __init__(self, read: Any, alone: bool):
        self.read, self.alone = read, alone
        self.heads: int = 1 if alone else read.heads
        self.each: int = 1 if alone else read.each
        self.front = (1,) if alone else read.front
        self.group = 1
        self.n_q, self.n_k, self.positions = read.n_q, read.n_k, read.positions

    def block(self, heads: range, rows: range) -> tuple[Any, Any]:
        """1 / (visible keys of the row) at each of them."""
        weights = getattr(self.read, "weights", None)
        seen = self.read.block(heads, rows)[1] if weights is None else weights.visible(rows, heads)
        shape = (len(heads), len(rows), self.n_k)
        if seen is None:
            return np.full(shape, 1 / max(1, self.n_k)), None
        seen = np.broadcast_to(seen, shape)
        return seen / np.maximum(seen.sum(-1, keepdims=True), 1), seen
