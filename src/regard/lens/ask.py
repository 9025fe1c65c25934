"""Asking: many questions answered from one pass.

Native reductions answer what they can from a single settled pass; for the rest, blocks of exact weights are computed
and handed to the plain forms, row block by row block.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from regard.errors import DtypeError, QuestionError, counted, kind_of
from regard.lens.native import Passes, lower
from regard.lens.question import Block, Layout, Question

METHODS = ("create", "update", "merge", "finalize")
CELLS = 1 << 23  # weights in a block that is handed to plain forms


class Readable(Protocol):
    """A matrix as questions see it: flat heads, blocks of rows."""

    front: tuple[int, ...]  # the axes before rows and keys, as its owner sees them
    heads: int  # flat
    each: int  # query heads of one leading index
    group: int
    n_q: int
    n_k: int
    positions: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]  # of queries, of keys

    def block(self, heads: range, rows: range) -> tuple[Any, Any]:
        """Weights (heads, rows, n_k), and which are visible or None."""


Progress = Callable[[float], object]


def callable_or_none(progress: Any) -> Progress | None:
    """Progress that can be told."""
    if progress is not None and not callable(progress):
        raise DtypeError(
            f"progress is {progress!r}, expected a function of the share that is done: leave it out, or pass one"
        )
    return progress  # type: ignore[no-any-return]  # None or a function


def checked(questions: Sequence[Any]) -> None:
    """That each is an instance with the four methods of a question."""
    for question in questions:
        missing = [name for name in METHODS if not callable(getattr(question, name, None))]
        if isinstance(question, type):
            name = question.__name__
            do = f"write {name}()" if not missing else "make a question of it with the methods " + ", ".join(METHODS)
            raise QuestionError(f"a question came as the class {name}, expected an instance: {do}")
        if isinstance(question, (list, tuple)):
            raise QuestionError(f"a question came as {kind_of(question)}, expected one by one: write ask(*questions)")
        if len(missing) == len(METHODS):
            raise QuestionError(
                f"a question came as {question!r}, expected an instance such as Entropy(): see regard.lens for all"
            )
        if missing:
            raise QuestionError(
                f"a question came as {kind_of(question)} without {', '.join(missing)}, expected the methods "
                f"{', '.join(METHODS)}: write them all"
            )


def layout_of(matrix: Readable, heads: range) -> Layout:
    q, k = matrix.positions
    import array_api_compat.numpy as xp

    sequences = matrix.heads // max(1, matrix.each)
    return Layout(len(heads), heads.start, matrix.each, matrix.group, matrix.n_q, matrix.n_k, q, k, xp, None, sequences)


def chunks(matrix: Readable) -> Iterator[range]:
    """Heads that are taken together: whole groups, and few if rows are long."""
    most = max(1, CELLS // max(1, matrix.n_k * min(16, max(1, matrix.n_q)))) // matrix.group * matrix.group
    step = max(matrix.group, most)
    for first in range(0, matrix.heads, step):
        yield range(first, min(first + step, matrix.heads))
    if not matrix.heads:
        yield range(0)


def answered(matrix: Readable, questions: Sequence[Question], progress: Progress | None = None) -> list[Any]:
    """Answers with flat heads: natively what can be, the rest by the plain forms."""
    weights = getattr(matrix, "weights", None)  # only what is softmax(Q·Kᵀ) itself has native passes
    layout = layout_of(matrix, range(matrix.heads))
    lowered = [None if weights is None else lower(question, layout) for question in questions]
    native = [x for x in lowered if x is not None]
    rest = [question for question, x in zip(questions, lowered, strict=True) if x is None]
    share = len(native) / max(1, len(questions))

    def part(first: float, size: float) -> Progress | None:
        return None if progress is None else lambda done: progress(first + size * done)

    states = iter(Passes(weights, native).run(part(0, share)) if weights is not None and native else [])
    plain = iter(plainly(matrix, rest, part(share, 1 - share)) if rest else [])
    return [
        next(plain) if x is None else question.finalize(next(states), layout)
        for question, x in zip(questions, lowered, strict=True)
    ]


def plainly(matrix: Readable, questions: Sequence[Question], progress: Progress | None = None) -> list[Any]:
    """Answers by the plain forms."""
    parts: list[list[Any]] = [[] for _ in questions]
    heads_of = list(chunks(matrix))
    for number, heads in enumerate(heads_of):
        layout = layout_of(matrix, heads)
        states = [question.create(layout) for question in questions]
        rows = max(1, CELLS // max(1, len(heads) * matrix.n_k))
        for first in range(0, matrix.n_q if len(heads) else 0, rows):
            stop = min(first + rows, matrix.n_q)
            weights, visible = matrix.block(heads, range(first, stop))
            block = Block(weights, visible, first, layout)
            states = [question.update(state, block) for question, state in zip(questions, states, strict=True)]
            if progress is not None:
                progress((number + stop / matrix.n_q) / len(heads_of))
        for part, question, state in zip(parts, questions, states, strict=True):
            part.append(state if _listed(question) else _by_head(question, question.finalize(state, layout), layout))
    return [joined(question, part, layout) for question, part in zip(questions, parts, strict=True)]


def _by_head(question: Question, answer: Any, layout: Layout) -> Any:
    """An answer, if its arrays begin with an axis of heads, or of key heads."""
    shared = getattr(question, "shared", ())
    each = answer if isinstance(answer, tuple) else (answer,)
    names = getattr(answer, "_fields", (None,) * len(each))
    for name, x in zip(names, each, strict=True):
        shape = np.shape(x)
        if name not in shared and shape[:1] not in ((layout.heads,), (layout.heads // layout.group,)):
            raise QuestionError(
                f"{type(question).__name__} gave an answer of shape {shape} for {counted(layout.heads, 'head')}, "
                "expected a first axis of heads: keep it in finalize"
            )
    return answer


def _listed(question: Question) -> bool:
    """Whether the answer is one list for all heads: then their states are merged before it is made."""
    return bool(getattr(question, "listed", False))


def joined(question: Question, parts: list[Any], layout: Layout) -> Any:
    """The answers, or states, of several chunks of heads as one."""
    if _listed(question):
        return question.finalize(functools.reduce(question.merge, parts), layout)
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if not isinstance(first, tuple):
        return np.concatenate(parts)
    shared = getattr(question, "shared", ())
    named = getattr(first, "_fields", (None,) * len(first))
    columns = [
        column[0] if name in shared else np.concatenate(column)
        for name, column in zip(named, zip(*parts, strict=True), strict=True)
    ]
    return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)


def shaped(matrix: Readable, question: Question, answer: Any, give: Callable[[Any], Any]) -> Any:
    """An answer with the axes of the matrix in place of the flat heads, as arrays of the caller's kind."""
    shared, listed = getattr(question, "shared", ()), _listed(question)

    def one(x: Any, name: str | None) -> Any:
        x = np.asarray(x)
        if listed or name in shared:
            return give(x)
        front = matrix.front
        if x.shape[0] != matrix.heads and front:  # of key heads
            front = (*front[:-1], x.shape[0] * front[-1] // max(1, matrix.heads))
        return give(x.reshape((*front, *x.shape[1:])))

    if not isinstance(answer, tuple):
        return one(answer, None)
    if hasattr(answer, "_fields"):
        return type(answer)(*(one(x, name) for name, x in zip(answer._fields, answer, strict=True)))
    return tuple(one(x, None) for x in answer)


def over(question: Question, weights: Any, visible: Any = None, *, offset: int = 0, rows: int = 0) -> Any:
    """The plain form of a question over weights that are there already: (heads, n_q, n_k), of any array library.

    Queries stand at row + offset; `rows` is how many are taken at a time, all of them if 0.

    >>> import numpy as np
    >>> from regard.lens import Peak
    >>> over(Peak(), np.array([[[0.25, 0.75], [1.0, 0.0]]])).keys.tolist()
    [[1, 0]]
    """
    import array_api_compat

    checked([question])
    xp = array_api_compat.array_namespace(weights)
    device = array_api_compat.device(weights)
    heads, n_q, n_k = (int(n) for n in weights.shape)
    positions = (xp.arange(n_q, device=device) + offset, xp.arange(n_k, device=device))
    layout = Layout(heads, 0, heads, 1, n_q, n_k, *positions, xp, device)
    state: Any = None
    step = rows or max(1, n_q)
    for first in range(0, max(1, n_q), step):
        stop = min(first + step, n_q)
        seen = None if visible is None else visible[:, first:stop, :]
        block = Block(weights[:, first:stop, :], seen, first, layout)
        part = question.update(question.create(layout), block)
        state = part if state is None else question.merge(state, part)
    return question.finalize(state, layout)
