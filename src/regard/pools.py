"""Views that are pooled from a matrix: some heads, queries and keys of it, means over heads, words, weighted lengths.

>>> import numpy as np, regard
>>> x = np.eye(3)
>>> A = regard.matrix(x, x, scale=0.0, tokens=["play", "##ing", "cats"])
>>> A.words().tokens, A.words()["playing"].round(4).tolist()
(('playing', 'cats'), [0.6667, 0.3333])
>>> A.select(queries=["cats"], keys=slice(1, None)).words().shape
(1, 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import QuestionError, ShapeError, counted, there, within
from regard.indexing import Tokens
from regard.pooling import Pooling
from regard.problem import Problem, view
from regard.results import Array, as_numpy

if TYPE_CHECKING:
    from regard.pooled import PooledMatrix


class Pools:
    """What can be pooled from a matrix. The views that come of it can be pooled on."""

    like: Any
    v: Any
    turned: bool
    notes: tuple[str, ...]

    def pooling(self) -> Pooling:
        """The matrix as a pooling of softmax(Q·Kᵀ)."""
        raise NotImplementedError  # an abstract method

    def _pooled(self, pooling: Pooling, step: str) -> PooledMatrix:
        from regard.pooled import PooledMatrix

        made = replace(pooling, steps=(*pooling.steps, step))
        return PooledMatrix(made, self.like, self.v, self.turned, self.notes)

    def select(self, heads: Any = None, queries: Any = None, keys: Any = None) -> PooledMatrix:
        """Some heads, queries and keys, with the weights that they have: rows of fewer keys no longer sum to 1.

        Each is chosen by a slice, indices, booleans, or, but for heads, tokens. A single head, as a number, is left
        without an axis of heads. Positions stay what they are, and so do distances.

        >>> import regard
        >>> x = np.eye(4, dtype=np.float32)
        >>> A = regard.matrix(x, x, scale=0.0, mask=regard.causal)
        >>> A.select(queries=[3], keys=[0, 3]).by_distance().distances.tolist()
        [0, 1, 2, 3]
        """
        made = _some_heads(self.pooling(), heads)
        rows = (
            made.rows
            if queries is None
            else made.rows.pick(places("queries", queries, len(made.rows), made.rows.tokens))
        )
        columns = made.keys if keys is None else made.keys.pick(places("keys", keys, len(made.keys), made.keys.tokens))
        return self._pooled(replace(made, rows=rows, keys=columns), "select")

    def mean_heads(self, heads: Any = None) -> PooledMatrix:
        """The mean of the weights over heads, all of them or some; a cell is visible if any head sees it.

        >>> import regard
        >>> x = np.eye(2, dtype=np.float32)[None].repeat(3, axis=0)
        >>> regard.matrix(x, x).mean_heads().shape
        (2, 2)
        """
        made = _some_heads(self.pooling(), [heads] if isinstance(heads, (int, np.integer)) else heads)
        if not made.headed:
            raise ShapeError("mean_heads was asked of a matrix without an axis of heads, expected one: leave it out")
        *leading, count, m = made.members.shape
        if not count:
            raise ShapeError("mean_heads was asked of no heads, expected one at least: choose some")
        members = made.members.reshape(*leading, count * m)  # (…, heads, m) -> (…, heads · m)
        return self._pooled(replace(made, members=members, headed=False), "mean_heads")

    def words(self, spans: Any = None, key_spans: Any = None) -> PooledMatrix:
        """Words in place of their tokens: the mean over the queries of a word, the sum over its keys.

        `spans` says what the words are: the text, a list of its words, or (start, stop) spans of tokens. Without it the
        markers of the tokens do (`##`, `Ġ`, `▁`), and these alone. A text is split at white space and signs, and
        read along with the tokens, without regard to case and accents where the tokens have none; where a token is
        part of two words, these are one. Special tokens stay single. Distances are then counted in words.

        The words are those of the keys, and of the queries as far as they are the same tokens, as in a cache; where
        they are others, `key_spans` are the words of the keys.

        >>> import regard
        >>> x = np.eye(4, dtype=np.float32)
        >>> A = regard.matrix(x, x, tokens=["The", "Ġcat", "Ġpur", "rs"])
        >>> A.words().tokens
        ('The', 'cat', 'purrs')
        >>> A.words([(0, 2), (2, 4)]).tokens
        ('The cat', 'purrs')
        """
        made = self.pooling()
        at = _keys_of_rows(made) if key_spans is None else None
        theirs = spans if key_spans is None else key_spans
        if at is None and key_spans is None and spans is not None and len(made.rows) != len(made.keys):
            raise ShapeError(
                f"words was given those of {counted(len(made.rows), 'query')}, but {there(len(made.keys), 'key')} of "
                "other tokens: pass words(spans, key_spans)"
            )
        from regard.words import words_of  # loaded when words are asked for

        bounds, names = words_of(made.keys.tokens, len(made.keys), theirs, _apart(made.keys.numbers))
        keys = replace(made.keys.merged(bounds, mean=False), tokens=names)
        if at is None:
            starts, ours = words_of(made.rows.tokens, len(made.rows), spans, _apart(made.rows.numbers))
            rows = replace(made.rows.merged(starts, mean=True), tokens=ours)
            first = len(keys) - len(rows)
        else:
            word = np.repeat(np.arange(len(keys)), np.diff(bounds))[at]  # of each row
            new = np.flatnonzero(_other(word[1:], word[:-1])) + 1
            starts = np.concatenate([[0], new, [len(word)]]) if len(word) else np.zeros(1, np.int64)
            word = word[starts[:-1]]
            first = int(word.min(initial=len(keys)))
            rows = replace(made.rows.merged(starts.astype(np.int64), mean=True), numbers=word - first)
            if names is not None:
                rows = replace(rows, tokens=tuple(names[i] for i in word))
        # Rows stand beside the last keys, or both begin at 0, as before.
        offset = first if made.offset == made.shift else 0
        return self._pooled(replace(made, rows=rows, keys=keys, offset=offset, shift=first), "words")

    def norms(self, v: Any = None, w_o: Any = None) -> PooledMatrix:
        """Weight · length: how long the part is that a key adds, since a weight on a short value moves little.

        The length is that of the key's value vector, or, with the output projection `w_o` of (heads · d_v, d_model) or
        (heads, d_v, d_model), as in z @ w_o, that of the value times the head's part of it. Rows do not sum to 1.
        `v` is the one the matrix was made with, if none is given; of a pooled view, too, it is that of all heads and
        keys, and what is pooled are their weighted lengths.

        >>> import regard
        >>> x = np.eye(2, dtype=np.float32)
        >>> regard.matrix(x, x, scale=0.0).norms(np.float32([[3, 4], [0, 0]]))[0].tolist()
        [2.5, 0.0]
        """
        made = self.pooling()
        if v is None and self.v is None:
            raise QuestionError("norms was asked without values, expected v: pass norms(v) or matrix(…, v=v)")
        if made.lengths is not None:
            raise QuestionError("norms was asked of weighted lengths, expected weights: ask it once")
        return self._pooled(replace(made, lengths=_lengths(self.v if v is None else v, w_o, made.weights.of)), "norms")


def _some_heads(made: Pooling, heads: Any) -> Pooling:
    """A pooling of some heads alone."""
    if heads is None:
        return made
    if not made.headed:
        raise ShapeError("heads were chosen of a matrix without an axis of heads, expected one: leave heads out")
    n = made.members.shape[-2]
    if isinstance(heads, (int, np.integer)) and not isinstance(heads, bool):
        if not -n <= heads < n:
            raise IndexError(f"head {heads} is out of bounds, {within(n)}")
        return replace(made, members=made.members[..., int(heads), :], headed=False)
    return replace(made, members=made.members[..., _indices("heads", heads, n), :])


def places(name: str, given: Any, n: int, tokens: tuple[str, ...] | None) -> Array:
    """The places that are chosen of the n of an axis, by slice, indices, booleans or tokens."""
    known = Tokens(tokens or (), {"queries": "query"}.get(name, "key"))

    def place(x: Any) -> Any:
        return known.place(x) if isinstance(x, str) else x

    if isinstance(given, slice):
        given = slice(place(given.start), place(given.stop), given.step)
    elif isinstance(given, (str, int, np.integer)) and not isinstance(given, bool):
        given = [place(given)]
    elif isinstance(given, Iterable) and (not hasattr(given, "dtype") or np.asarray(given).dtype.kind == "U"):
        given = [place(x) for x in given]
    return _indices(name, given, n)


def _indices(name: str, given: Any, n: int) -> Array:
    """A slice, indices or booleans as the numbers that they choose of n."""
    if isinstance(given, slice):
        return np.arange(n)[given]
    array = np.asarray(given)
    if array.dtype == np.bool_ and array.shape == (n,):
        return np.flatnonzero(array)
    if not array.size and array.ndim == 1:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise IndexError(
            f"{name} has shape {array.shape} and dtype {array.dtype}, expected a slice, indices, or {n} booleans: "
            "pass one of them"
        )
    if array.min() < -n or array.max() >= n:
        raise IndexError(f"{name} goes from {array.min()} to {array.max()}, {within(n)}")
    return np.where(array < 0, array + n, array).astype(np.int64)


def _other(a: Array, b: Array) -> Array:
    """Whether numbers differ."""
    differ: Array = a != b
    return differ


def _apart(numbers: Array) -> Array:
    """Whether something was left out before a place."""
    return _other(numbers, np.roll(numbers, 1) + 1)


def _keys_of_rows(made: Pooling) -> Array | None:
    """The key that is the same token as each query; None if queries are other tokens."""
    numbers, rows, keys = made.keys.numbers, made.rows, made.keys
    if len(np.unique(numbers)) < len(numbers) or (rows.tokens is None) != (keys.tokens is None):
        return None
    order = np.argsort(numbers)
    for offset in (made.offset, made.shift):
        at = np.searchsorted(numbers[order], rows.numbers + offset)
        if (at == len(numbers)).any():
            continue
        at = order[at]
        alike = rows.tokens is None or rows.tokens == tuple((keys.tokens or ())[i] for i in at)
        if alike and (numbers[at] == rows.numbers + offset).all():
            return at
    return None


def _lengths(v: Any, w_o: Any, of: Problem) -> Array:
    """The lengths of values, (flat heads or 1, keys) in float64, or of what the output projection makes of them."""
    x = view("v", v)
    heads = () if of.single else (of.key_heads,)
    if len(x.shape) < len(heads) + 2 or x.shape[-2 - len(heads) : -1] != (*heads, of.n_k) or x.storage == "bool":
        wanted = ", ".join(map(str, (*(() if of.single else ("…", of.key_heads)), of.n_k, "d_v")))
        raise ShapeError(f"v has shape {x.shape}, expected ({wanted}): give each key of the matrix one value")
    values = as_numpy(x)
    values = values.reshape(*x.shape[:-2], 1, *x.shape[-2:])  # (…, key heads, group, n_k, d_v)
    group = of.heads // of.key_heads
    if w_o is None:
        found = _length(values)
    else:
        turned = _triangles(w_o, of, int(x.shape[-1]))  # (heads, d_v, d or less)
        parts = turned.reshape(*heads, group, *turned.shape[-2:])  # (heads, …) -> (key heads, group, …)
        found = _length(values, parts)
    shape = (*of.leading, *heads, group, of.n_k)
    try:
        full = np.broadcast_to(found, shape)
    except ValueError:
        raise ShapeError(
            f"v has leading axes {x.shape[: -2 - len(heads)]}, expected some that broadcast to {of.leading}: "
            "give each sequence its values"
        ) from None
    return full.reshape(of.batch * of.heads, of.n_k)  # (…, key heads, group, n_k) -> (flat heads, n_k)


def _length(values: Array, by: Array | None = None) -> Array:
    """Lengths of vectors (…, n, d), multiplied by something or not, some vectors at a time."""
    n = values.shape[-2]
    step = max(
        1, (1 << 20) // max(1, values[..., :1, :].size if by is None else values[..., :1, :].size * by.shape[-1])
    )
    parts = []
    with np.errstate(all="ignore"):
        for first in range(0, max(1, n), step):
            part = values[..., first : first + step, :].astype(np.float64)
            parts.append(np.linalg.norm(part if by is None else part @ by, axis=-1))
    return np.concatenate(parts, axis=-1)


def _triangles(w_o: Any, of: Problem, d_v: int) -> Array:
    """The output projection of each head, (heads, d_v, d or less), but for a rotation: it keeps lengths."""
    x = view("w_o", w_o)
    if x.storage == "bool" or len(x.shape) not in (2, 3) or x.shape[:-1] not in ((of.heads * d_v,), (of.heads, d_v)):
        raise ShapeError(
            f"w_o has shape {x.shape}, expected ({of.heads} · {d_v}, d_model) or ({of.heads}, {d_v}, d_model): "
            "pass the matrix that z is multiplied with, z @ w_o"
        )
    w = as_numpy(x).astype(np.float64).reshape(of.heads, d_v, x.shape[-1])  # (heads · d_v, d) -> (heads, d_v, d)
    if x.shape[-1] <= d_v or not w.size or not np.isfinite(w).all():
        return w
    # w = (q·r)ᵀ = rᵀ·qᵀ, and the columns of q stand at right angles: v·w is as long as v·rᵀ, of d_v numbers.
    r: Array = np.asarray(np.linalg.qr(w.swapaxes(-1, -2), mode="r"))
    return r.swapaxes(-1, -2)
