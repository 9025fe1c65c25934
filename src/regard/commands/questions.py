"""The questions of `regard read`: for each its columns, and its rows from one layer of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.errors import QuestionError

Rows = Iterator[list[Any]]
BINS = 1024  # of a side of a heatmap, a million rows for each head


class Part(NamedTuple):
    """A layer of the text: its matrix, and which of its heads are asked."""

    number: int
    matrix: Any  # (heads, n_q, n_k), or (n_q, n_k)
    heads: Sequence[int]
    bar: Any

    def flat(self, answer: Any) -> Any:
        """An answer with its axes of heads as one."""
        x = np.asarray(answer)
        front = len(self.matrix.front)
        return x.reshape(-1, *x.shape[front:])

    def query(self, i: Any) -> list[Any]:
        """A query, and its token where it has one."""
        tokens = self.matrix.tokens
        return [int(i), "" if tokens is None else tokens[int(i)]]

    def key(self, j: Any) -> list[Any]:
        tokens = self.matrix.key_tokens
        return [int(j), "" if tokens is None or j < 0 else tokens[int(j)]]


class Asked(NamedTuple):
    """A question: the names of its columns, and its rows from one layer."""

    columns: tuple[str, ...]
    rows: Callable[[Part, list[str]], Rows]
    arguments: str  # as the help shows them
    says: str


def _entropy(part: Part, given: list[str]) -> Rows:
    yield from _each_row(part, part.matrix.entropy(progress=part.bar))


def _effective(part: Part, given: list[str]) -> Rows:
    yield from _each_row(part, part.matrix.effective(progress=part.bar))


def _each_row(part: Part, answer: Any) -> Rows:
    values = part.flat(answer)
    for h in part.heads:
        for i, x in enumerate(values[h]):
            yield [part.number, h, *part.query(i), float(x)]


def _peak(part: Part, given: list[str]) -> Rows:
    weights, keys = map(part.flat, part.matrix.peak(progress=part.bar))
    for h in part.heads:
        for i, (w, k) in enumerate(zip(weights[h], keys[h], strict=True)):
            yield [part.number, h, *part.query(i), *part.key(k), float(w)]


def _top(part: Part, given: list[str]) -> Rows:
    weights, keys = map(part.flat, part.matrix.top(_number(given, 0, 5, "K of top"), progress=part.bar))
    for h in part.heads:
        for i, (line, at) in enumerate(zip(weights[h], keys[h], strict=True)):
            for rank, (w, k) in enumerate(zip(line, at, strict=True)):
                if k >= 0:
                    yield [part.number, h, *part.query(i), rank, *part.key(k), float(w)]


def _received(part: Part, given: list[str]) -> Rows:
    values = part.flat(part.matrix.received(progress=part.bar))
    for h in part.heads:
        for j, x in enumerate(values[h]):
            yield [part.number, h, *part.key(j), float(x)]


def _by_distance(part: Part, given: list[str]) -> Rows:
    found = part.matrix.by_distance(progress=part.bar)
    distances = np.asarray(found.distances)
    mass, seen = part.flat(found.mass), np.broadcast_to(part.flat(found.visible), part.flat(found.mass).shape)
    for h in part.heads:
        for d, m, n in zip(distances, mass[h], seen[h], strict=True):
            yield [part.number, h, int(d), float(m), int(n)]


def _distance(part: Part, given: list[str]) -> Rows:
    values = part.flat(part.matrix.distance(progress=part.bar))
    for h in part.heads:
        yield [part.number, h, float(values[h])]


def _between(part: Part, given: list[str]) -> Rows:
    groups = [_span(x) for x in given]
    if not groups:
        raise QuestionError("between came without groups, expected spans of tokens such as 0:4 4:9: name some")
    values = part.flat(part.matrix.between(groups, progress=part.bar))
    for h in part.heads:
        for i, row in enumerate(values[h]):
            for j, x in enumerate(row):
                yield [part.number, h, given[i], given[j], float(x)]


def _mass(part: Part, given: list[str]) -> Rows:
    values = part.flat(part.matrix.mass(_mask(given), progress=part.bar).heads)
    for h in part.heads:
        yield [part.number, h, float(values[h])]


def _mask(given: list[str]) -> Any:
    from regard.algebra.masks import causal, window

    if given[:1] == ["causal"]:
        return causal
    if given[:1] == ["window"] and len(given) == 3:
        return window(_number(given, 1, 0, "L of mass window"), _number(given, 2, 0, "R of mass window"))
    raise QuestionError(f"mass came with {' '.join(given)!r}, expected 'causal' or 'window 8 0': name a mask")


def _cells(part: Part, given: list[str]) -> Rows:
    found = part.matrix.cells(_share(given, 0.5), progress=part.bar)
    for h, i, j, w in zip(*map(np.asarray, found), strict=True):
        if h in part.heads:
            yield [part.number, int(h), *part.query(i), *part.key(j), float(w)]


def _heatmap(part: Part, given: list[str]) -> Rows:
    pool: Any = given[1] if len(given) > 1 else "mean"
    if pool not in ("mean", "max", "sum"):
        raise QuestionError(f"heatmap came with {pool!r}, expected mean, max or sum")
    bins = _number(given, 0, 16, "N of heatmap")
    if not 1 <= bins <= BINS:
        raise QuestionError(f"N of heatmap is {bins}, expected 1 to {BINS}: ask for fewer bins, or for rows")
    values = part.flat(part.matrix.heatmap(bins, pool=pool, progress=part.bar))
    for h in part.heads:
        for i, row in enumerate(values[h]):
            for j, x in enumerate(row):
                yield [part.number, h, i, j, float(x)]


def _row(part: Part, given: list[str]) -> Rows:
    i = _place(part, given, 0, "query")
    some = _plain(part).select(queries=[i])
    for h in part.heads:
        seen = _seen(some, h).ravel()
        for j, x in enumerate(np.asarray(_plain(part)[(*_at(part, h), i)])):
            yield [part.number, h, *part.query(i), *part.key(j), float(x) if seen[j] else None]


def _column(part: Part, given: list[str]) -> Rows:
    j = _place(part, given, 0, "key")
    some = _plain(part).select(keys=[j])
    for h in part.heads:
        seen = _seen(some, h).ravel()
        for i, x in enumerate(np.asarray(_plain(part)[(*_at(part, h), slice(None), j)])):
            yield [part.number, h, *part.query(i), *part.key(j), float(x) if seen[i] else None]


def _cell(part: Part, given: list[str]) -> Rows:
    i, j = _place(part, given, 0, "query"), _place(part, given, 1, "key")
    some = _plain(part).select(queries=[i], keys=[j])
    for h in part.heads:
        x = float(_plain(part)[(*_at(part, h), i, j)]) if _seen(some, h).all() else None
        yield [part.number, h, *part.query(i), *part.key(j), x]


def _explain(part: Part, given: list[str]) -> Rows:
    from regard.lens.explain import explain

    i = _place(part, given, 0, "query")
    j = _place(part, given, 1, "key") if len(given) > 1 else None
    for h in part.heads:
        yield [part.number, h, explain(part.matrix, i, j, head=h if part.matrix.front else None)]


def _patterns(part: Part, given: list[str]) -> Rows:
    found = part.matrix.patterns(progress=part.bar)
    count = len(found.names)
    columns = [np.asarray(x).reshape(-1, count) for x in (found.share, found.even, found.mul, found.rows)]
    for h in part.heads:
        for at, name in enumerate(found.names):
            share, even, mul, rows = (x[h, at] for x in columns)
            yield [part.number, h, name, float(share), float(even), float(mul), int(rows)]


QUERY, KEY = ("query", "token"), ("key", "key_token")
HEADS = ("layer", "head")
QUESTIONS = {
    "entropy": Asked((*HEADS, *QUERY, "entropy"), _entropy, "", "how spread each row is, in nats"),
    "effective": Asked((*HEADS, *QUERY, "effective"), _effective, "", "exp(entropy): over how many keys"),
    "peak": Asked((*HEADS, *QUERY, *KEY, "weight"), _peak, "", "the largest weight of each row"),
    "top": Asked((*HEADS, *QUERY, "rank", *KEY, "weight"), _top, "[K]", "the K largest of each row, 5 if not given"),
    "received": Asked((*HEADS, *KEY, "received"), _received, "", "what each key receives"),
    "by-distance": Asked((*HEADS, "distance", "mass", "visible"), _by_distance, "", "how far back each head looks"),
    "distance": Asked((*HEADS, "distance"), _distance, "", "the mean distance of each head"),
    "between": Asked((*HEADS, "queries", "keys", "weight"), _between, "0:4 4:9 …", "between groups of tokens"),
    "mass": Asked((*HEADS, "share"), _mass, "causal | window L R", "the share inside a mask"),
    "patterns": Asked((*HEADS, "pattern", "share", "even", "mul", "rows"), _patterns, "", "patterns of each head"),
    "heatmap": Asked((*HEADS, "row", "column", "weight"), _heatmap, "[N] [mean|max|sum]", "the matrix in N × N bins"),
    "cells": Asked((*HEADS, *QUERY, *KEY, "weight"), _cells, "[ABOVE]", "cells above a weight, 0.5 if not given"),
    "row": Asked((*HEADS, *QUERY, *KEY, "weight"), _row, "QUERY", "where a query looks"),
    "column": Asked((*HEADS, *QUERY, *KEY, "weight"), _column, "KEY", "who looks at a key"),
    "cell": Asked((*HEADS, *QUERY, *KEY, "weight"), _cell, "QUERY KEY", "one weight"),
    "explain": Asked((*HEADS, "sentence"), _explain, "QUERY [KEY]", "a row or a cell in words"),
}


# Arguments.


def _plain(part: Part) -> Any:
    return part.matrix.T if part.matrix.turned else part.matrix


def _seen(matrix: Any, head: int) -> Any:
    """(n_q, n_k): which cells of a head its queries see."""
    read = matrix.readable()
    block, seen = read.block(range(head, head + 1), range(read.n_q))
    return np.ones(np.shape(block)[-2:], np.bool_) if seen is None else np.asarray(seen)[0]


def _at(part: Part, head: int) -> tuple[int, ...]:
    return tuple(int(x) for x in np.unravel_index(head, part.matrix.front)) if part.matrix.front else ()


def _place(part: Part, given: list[str], at: int, axis: str) -> int:
    """A query or key by number or token."""
    from regard.lens.told import Names

    if at >= len(given):
        raise QuestionError(f"the {axis} is missing, expected its number or its token: write it behind the question")
    names = Names(part.matrix)
    word: int | str = given[at]
    if str(word).lstrip("-").isdigit():
        word = int(word)
    return names.query(word) if axis == "query" else names.key(word)


def _number(given: list[str], at: int, otherwise: int, name: str) -> int:
    if at >= len(given):
        return otherwise
    try:
        return int(given[at])
    except ValueError:
        raise QuestionError(f"{name} is {given[at]!r}, expected a whole number: write one") from None


def _share(given: list[str], otherwise: float) -> float:
    try:
        return float(given[0]) if given else otherwise
    except ValueError:
        raise QuestionError(f"{given[0]!r} came where a weight was expected: write a number from 0 to 1") from None


def _span(text: str) -> tuple[int, int]:
    first, colon, stop = text.partition(":")
    if not colon or not first.isdigit() or not stop.isdigit():
        raise QuestionError(f"{text!r} is no span of tokens, expected one such as 0:4: first, and one past the last")
    return int(first), int(stop)
