"""What a call is given, checked and copied: afterwards the caller may do with its arrays what it likes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from regard.algebra.expression import Expression
from regard.algebra.scores import Additive, General, Score, dot
from regard.errors import DtypeError, ShapeError
from regard.folding import folded
from regard.problem import Problem, View, problem, view
from regard.recording.format import NAMES
from regard.recording.piece import Piece, bare_scale
from regard.recording.room import Room
from regard.recording.trees import gathered_anew
from regard.results import as_numpy
from regard.terms import Terms, terms
from regard.weights import Weights

Array = np.ndarray[Any, Any]


class Call:
    """The arguments of one call, as views of the caller's memory."""

    def __init__(self, q: Any, k: Any, v: Any, score: Any, scale: Any):
        self.q, self.k = view("q", q), view("k", k)
        self.v = None if v is None else view("v", v)
        self.score: Score = score
        self.of: Problem = problem(self.q, self.k, self.v)  # of the keys that came
        ours, theirs = (_beginning(x) for x in (self.q, self.k))
        self.vector = folded(score, ours, theirs, None).vector  # checks the score, by one row
        self.scale = bare_scale(score, self.of.d) if scale is None else scale

    def terms(self, keys: int, modify: Any, bias: Any, mask: Any, sinks: Any) -> Terms:
        """The terms over all keys that there are."""
        of = replace(self.of, n_k=keys)
        return terms(of, self.scale, modify, bias, mask, sinks, self.vector)

    def key_row(self, at: int) -> bytes:
        """The bytes of one key of every text and head."""
        return np.ascontiguousarray(as_numpy(self.k)[..., at, :]).tobytes()

    def settle(self, what: Terms) -> Array:
        """The lse of a step, computed from the caller's own keys: all that it sees."""
        of = self.of
        views = folded(self.score, self.q, self.k, None)
        made = Weights(problem(views.q, views.k, None), views.q, views.k, what)
        return made.lse().reshape(of.batch, of.heads, of.n_q)

    def piece(self, what: Terms, lse: Array | None, values: bool, row: int, key: int, new: int, room: Room) -> Piece:
        """A copy: from this row and this key on, of which the last `new` came with the call."""
        of = self.of
        keys = key + new
        last = slice(of.n_k - new, of.n_k)
        return Piece(
            q=_copied(np.broadcast_to(_full(self.q, of), (*of.leading, of.heads, of.n_q, of.d)), of, room),
            k=_copied(_full(self.k, of)[..., last, :], of, room),
            v=_copied(_full(self.v, of)[..., last, :], of, room) if self.v is not None and values else None,
            lse=lse,
            scale=what.scale,
            modify=_owned(what.modify),
            mask=_owned(what.mask),
            plane=_plane(what.mask_array, of, room),
            bias=_plane(what.bias, of, room),
            sinks=None if what.sinks is None else what.sinks.copy(),
            score=_score(self.score),
            single=of.single,
            row=row,
            key=key,
            steps=((of.n_q, keys),),
        )

    def lse(self, given: Any) -> Array:
        """A given lse, copied: (batch, heads, n_q) in float64."""
        x = view("lse", given)
        of = self.of
        if x.shape != of.rows:
            raise ShapeError(f"lse has shape {x.shape}, expected {of.rows}: one number for each query")
        if x.storage == "bool":
            raise DtypeError("lse has dtype bool, expected floats: pass what attention(…, return_lse=True) gave")
        return np.array(as_numpy(x), np.float64).reshape(of.batch, of.heads, of.n_q)


def _beginning(x: View) -> View:
    """The first row of each head."""
    return view("a row", as_numpy(x)[..., :1, :])


def _full(x: View, of: Problem) -> Array:
    """(…, heads, n, d), with an axis of heads."""
    array = as_numpy(x)
    return array[None] if of.single else array


def _copied(x: Array, of: Problem, room: Room) -> Array:
    """A copy with leading axes as one, (B|1, heads, n, d); row after row in memory where that is how it lies.

    A projection leaves all heads of a row beside each other; to take them apart would cost several times the copy.
    """
    flat = _flat(x, of)
    if flat.strides[1] < flat.strides[2]:
        return room.copy(flat.swapaxes(1, 2)).swapaxes(1, 2)  # (B|1, n, heads, d) -> (B|1, heads, n, d)
    return room.copy(flat)


def _flat(x: Array, of: Problem) -> Array:
    """Leading axes as one: of all texts, or 1 where it is the same for all."""
    inner = x.shape[-3:]
    lead = (1,) * (len(of.leading) - x.ndim + 3) + x.shape[:-3]
    if math.prod(lead) == 1:
        return x.reshape(1, *inner)
    return np.broadcast_to(x, (*of.leading, *inner)).reshape(of.batch, *inner)


def _plane(x: View | None, of: Problem, room: Room) -> Array | None:
    """A copy of a (query, key) array; what is repeated over texts and heads is kept once."""
    if x is None:
        return None
    array = as_numpy(x)
    once: list[Any] = [slice(0, 1) if stride == 0 else slice(None) for stride in array.strides[:-2]]
    return _copied(array[tuple(once)], of, room)


def _owned(x: Expression | None) -> Expression | None:
    """A tree with copies of its arrays: those it was traced with are the caller's."""
    return None if x is None else gathered_anew(x, lambda array: array.copy())


def _score(score: Score) -> Score:
    """A score with copies of its weights, in a dtype that files have."""

    def own(x: Array | None) -> Array | None:
        if x is None:
            return None
        plain = x.dtype.newbyteorder("=")
        return np.array(x, plain if plain in NAMES else np.float64, order="C")

    if isinstance(score, General):
        return replace(score, weight=own(score.weight))
    if isinstance(score, Additive):
        return replace(score, w=own(score.w), w_q=own(score.w_q), w_k=own(score.w_k))
    return dot
