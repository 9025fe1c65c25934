"""matrix(): A = softmax(scores) as an array that is never built.

It holds Q, K, what is done to a score, and one lse a row. Any cell, row, column or tile is computed when asked for.

>>> import numpy as np
>>> from regard import causal
>>> x = np.eye(3)
>>> A = matrix(x, x, mask=causal, scale=0.0, tokens=["The", "cat", "sat"])
>>> A.shape, A[2].round(3).tolist(), float(A["cat", "The"])
((3, 3), [0.333, 0.333, 0.333], 0.5)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, NoReturn

import numpy as np

from regard.algebra.scores import Score, dot
from regard.errors import DtypeError, QuestionError, ShapeError, counted, there
from regard.indexing import LIMIT, Axis, Tokens, read
from regard.lens.ask import Progress, Readable, callable_or_none
from regard.lens.explained import Explained
from regard.lens.questions import Questions
from regard.lens.wording import labels
from regard.pooling import Pooling, whole
from regard.pools import Pools, places
from regard.results import Array, as_callers
from regard.terms import Modify
from regard.view.shown import Shown
from regard.weights import Weights, weights_of


def matrix(
    q: Any,
    k: Any,
    *,
    v: Any = None,
    score: Score = dot,
    scale: float | None = None,
    modify: Modify = None,
    bias: Any = None,
    mask: Any = None,
    sinks: Any = None,
    lse: Any = None,
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
) -> AttentionMatrix:
    """A = softmax(scores), as an array that is never built; the arguments are those of `attention`.

    `lse` is what attention(…, return_lse=True) gave, if it is there already. `tokens` name the queries, and the keys
    too unless `key_tokens` do. With `v`, the weights can be seen beside the length of what they carry.

    Arrays are read when something is asked, not copied before: they must stay as they are.

    >>> x = np.eye(2, dtype=np.float32)
    >>> matrix(x, x, scale=0.0)[0].tolist()
    [0.5, 0.5]
    """
    made = weights_of(q, k, v, scale, modify, bias, mask, sinks, lse, score)
    return AttentionMatrix(made, q, v, *_tokens(tokens, key_tokens, made))


def _tokens(tokens: Any, key_tokens: Any, made: Weights) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Names of queries and keys. Tokens as many as there are keys name both: queries are the last of them."""
    n_q, n_k = made.of.n_q, made.of.n_k
    for name, given in (("tokens", tokens), ("key_tokens", key_tokens)):
        if isinstance(given, str):
            raise DtypeError(f"{name} is one string, expected a token for each place: pass {name}=text.split()")
        if given is not None and not isinstance(given, Iterable):
            raise DtypeError(f"{name} is {given!r}, expected a token for each place: pass a list of strings")
    ours = None if tokens is None else tuple(map(str, tokens))
    theirs = None if key_tokens is None else tuple(map(str, key_tokens))
    if theirs is not None and len(theirs) != n_k:
        raise ShapeError(f"key_tokens has {counted(len(theirs), 'token')}, but {there(n_k, 'key')}: give each key one")
    if ours is None or len(ours) == n_q:
        return ours, ours if theirs is None and n_q == n_k else theirs
    if theirs is None and len(ours) == n_k and n_q < n_k:
        return ours[n_k - n_q :], ours
    raise ShapeError(f"tokens has {counted(len(ours), 'token')}, but {there(n_q, 'query')}: give each query one")


UNBUILT = "a matrix that is never built, expected an array: build a part first, A[…] or A.build()"


class View:
    """Something n × n that is read like an array and never built whole."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, index: Any, limit: float) -> Array:
        """array[index], refused past so many cells."""
        raise NotImplementedError  # an abstract method

    def give(self, array: Any) -> Any:
        """An answer as an array of the caller's kind."""
        return array

    def __getitem__(self, index: Any) -> Any:
        found = self.read(index, LIMIT)
        given = self.give(np.asarray(found))
        return given[()] if isinstance(given, np.ndarray) else given  # a number, or a tensor without axes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=object))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def build(self, limit: float = LIMIT, index: Any = ()) -> Any:
        """All of it at once, or the part of an index, if it has no more cells than the limit."""
        found = self.read(index, limit)
        return self.give(found) if np.ndim(found) else found[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("A is never in memory, expected copy=None or True: it has to be computed")
        built = self.read((), LIMIT)
        return built if dtype is None else built.astype(dtype)

    def __contains__(self, item: Any) -> NoReturn:
        raise QuestionError(f"`in` was asked of {UNBUILT}")

    def _computed(self, other: Any = None) -> Any:
        if isinstance(other, (np.ndarray, np.generic)):  # NumPy builds what it computes with
            return NotImplemented
        raise QuestionError(f"arithmetic or a comparison was asked of {UNBUILT}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _computed
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _computed
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = _computed


class AttentionMatrix(View, Questions, Pools, Explained, Shown):
    """The matrix of weights: rows are queries, columns are keys. Made by `regard.matrix`."""

    labels: tuple[str, ...] | None = None  # what the heads are called, flat, where that is known

    def __init__(
        self,
        weights: Weights,
        like: Any,
        v: Any = None,
        tokens: tuple[str, ...] | None = None,
        key_tokens: tuple[str, ...] | None = None,
        turned: bool = False,
        notes: tuple[str, ...] = (),  # what is to be said wherever it is shown
    ):
        self.weights, self.like, self.v = weights, like, v
        self.tokens, self.key_tokens, self.turned, self.notes = tokens, key_tokens, turned, notes

    # The array.

    @property
    def front(self) -> tuple[int, ...]:
        """The axes before rows and keys."""
        of = self.weights.of
        return of.leading if of.single else (*of.leading, of.heads)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]  # it is worked out, not stored
        of = self.weights.of
        return (*self.front, of.n_k, of.n_q) if self.turned else (*self.front, of.n_q, of.n_k)

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]  # the same
        return self.weights.number

    @property
    def T(self) -> AttentionMatrix:
        """The same with columns as queries, for reading and looking. Questions keep their meaning."""
        made = copy(self)
        made.turned = not self.turned
        return made

    @property
    def lse(self) -> Any:
        """The logarithm of each row's sum of exponentials, the sink's included."""
        of = self.weights.of
        return self.give(self.weights.lse().reshape(of.rows).astype(self.dtype))

    @property
    def scores(self) -> Scores:
        """The final scores, before softmax: -inf where hidden."""
        return Scores(self)

    def give(self, array: Any) -> Any:
        """An answer as an array of the caller's kind."""
        return as_callers(self.like, array)

    def read(self, index: Any, limit: float = LIMIT, what: str = "cells") -> Array:
        """array[index] of the weights, or of the "scores", as a NumPy array."""
        of, shape = self.weights.of, self.shape
        names = [Tokens(x, axis) if x else None for x, axis in ((self.tokens, "query"), (self.key_tokens, "key"))]
        if self.turned:
            names.reverse()
        last = len(shape) - 1

        def outer(needed: list[Axis]) -> Array:
            *front, rows, keys = needed
            if self.turned:
                rows, keys = keys, rows
            block = self._outer(front, rows, keys, what)
            return block.swapaxes(-1, -2) if self.turned else block

        def scattered(places: tuple[Array, ...]) -> Array:
            *front, i, j = places
            if self.turned:
                i, j = j, i
            h = front.pop() if not of.single else np.zeros((), np.int64)
            b = np.ravel_multi_index(tuple(front), of.leading) if front else np.zeros((), np.int64)
            return self.weights.scattered((b, h, i, j), what)

        return read(index, shape, {last - 1: names[0], last: names[1]}, outer, scattered, self.dtype, limit)

    def _outer(self, front: list[Axis], rows: Axis, keys: Axis, what: str) -> Array:
        of = self.weights.of
        if of.batch * of.heads == 1 or all(
            isinstance(x, range) and x == range(n) for x, n in zip(front, self.front, strict=True)
        ):
            found = self.weights.chosen(rows, keys, what)  # (leading…, heads, rows, keys)
            return found.reshape(*self.front, *found.shape[-2:])
        flat = np.arange(of.batch * of.heads).reshape(self.front)[np.ix_(*(np.asarray(x) for x in front))]
        each = [self.weights.head(int(i)).chosen(rows, keys, what) for i in flat.ravel()]
        return np.concatenate(each).reshape(*flat.shape, len(rows), len(keys))

    # Questions.

    def readable(self) -> Readable:
        """The matrix as questions see it."""
        return Read(self)

    def logit_max(self, *, progress: Progress | None = None) -> Any:
        """Of each head, its largest final score: what QK-clip watches in training, as it grows before that fails."""
        return self.give(np.asarray(self.weights.logit_max(callable_or_none(progress))).reshape(self.front))

    def output(self, v: Any = None, *, progress: Progress | None = None) -> Any:
        """Z = A·V, with the values that the matrix was made with if none are given."""
        if v is None and self.v is None:
            raise QuestionError("output was asked without values, expected v: pass output(v) or matrix(…, v=v)")
        return self.give(self.weights.output(self.v if v is None else v, callable_or_none(progress)))

    def pooling(self) -> Pooling:
        """The matrix as a pooling of itself."""
        return whole(self.weights, self.tokens, self.key_tokens, labels(self))

    def without(self, keys: Any) -> AttentionMatrix:
        """The weights of a softmax that these keys have no part in: not the model's weights."""
        made = copy(self)
        made.weights = self.weights.without(places("keys", keys, self.weights.of.n_k, self.key_tokens))
        return made

    def in_layer(self, number: int) -> AttentionMatrix:
        """The same, its heads called as they are in a model: L3H0, L3H1, …"""
        made = copy(self)
        made.labels = tuple(f"L{number}H{h}" for h in range(self.readable().heads))
        return made

    def __repr__(self) -> str:
        of = self.weights.of
        many = " × ".join(map(str, (*of.leading, of.heads)))
        heads = "1 head" if of.batch * of.heads == 1 else f"{many} heads"
        return (
            f"AttentionMatrix: {heads}, {counted(of.n_q, 'query')} × {counted(of.n_k, 'key')}, d = {of.d}, {of.storage}"
        )


class Scores(View):
    """The final scores of a matrix, read like an array."""

    def __init__(self, of: AttentionMatrix):
        self.of, self.shape, self.dtype = of, of.shape, of.dtype

    def read(self, index: Any, limit: float = LIMIT) -> Array:
        return self.of.read(index, limit, "scores")

    def give(self, array: Any) -> Any:
        return self.of.give(array)

    @property
    def T(self) -> Scores:
        """The same with columns as queries."""
        return Scores(self.of.T)

    def __repr__(self) -> str:
        return f"scores of {self.of!r}"


class Read:
    """A matrix as questions see it."""

    def __init__(self, of: AttentionMatrix):
        problem = of.weights.of
        self.weights, self.front = of.weights, of.front
        self.heads, self.each = problem.batch * problem.heads, problem.heads
        self.group = problem.heads // max(1, problem.key_heads)
        self.n_q, self.n_k = problem.n_q, problem.n_k
        self.positions = (np.arange(problem.n_q) + of.weights.offset, np.arange(problem.n_k))

    def block(self, heads: range, rows: range) -> tuple[Array, Array | None]:
        """Weights (heads, rows, n_k), and which are visible or None."""
        keys = range(self.n_k)
        if heads == range(self.heads):
            found = self.weights.region(rows, keys).reshape(self.heads, len(rows), self.n_k)
        else:
            found = np.concatenate([self.weights.head(i).region(rows, keys) for i in heads])
        seen = self.weights.visible(rows, heads)
        return found, None if seen is None else np.broadcast_to(seen, found.shape)
