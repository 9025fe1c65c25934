"""What a call is given, checked and copied: afterwards the caller may do with its arrays what it likes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from regard.algebra.evaluate import evaluate
from regard.algebra.expression import Expression
from regard.algebra.scores import Additive, General, Score, dot
from regard.errors import DtypeError, RecordingError, ShapeError
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
ROUGH = 0.02  # how far an lse of half precision may be from one of q and k, for a largest score of 1


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
        found = terms(of, self.scale, modify, bias, mask, sinks, self.vector)
        if not math.isfinite(found.scale):
            raise RecordingError(f"scale is {found.scale}, expected a finite number: what it gives is no attention")
        return found

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

    def compare(self, lse: Array, what: Terms) -> None:
        """That the first and the last row of the first head have the lse that is given, as far as rounding goes.

        It is to cost nearly nothing; so it passes over what would take more than two products with the keys.
        """
        of = self.of
        if what.modify is not None or what.sinks is not None or self.score is not dot or not lse.size or not of.n_k:
            return
        rows = [0, of.n_q - 1]
        q, k = (_full(x, of) for x in (self.q, self.k))
        q, k = q[(0,) * (q.ndim - 2)][rows], k[(0,) * (k.ndim - 2)]  # (2, d), (keys, d)
        if self.q.storage in ("f16", "bf16"):
            q, k = q.astype(np.float32), k.astype(np.float32)
        with np.errstate(all="ignore"):
            s = (q @ k.T) * what.scale  # (2, keys)
            if what.bias is not None:
                s = s + _plane_rows(what.bias, rows)
            if what.mask_array is not None:
                s[~_plane_rows(what.mask_array, rows)] = -np.inf
            if what.mask is not None:
                row: Array = np.array(rows)[:, None]
                shift = of.n_k - of.n_q
                seen = evaluate(what.mask, b=0, h=0, row=row, q=row + shift, k=np.arange(of.n_k))
                s[~np.broadcast_to(seen, s.shape)] = -np.inf
            top = s.max(-1)
            expected = top + np.log(np.exp(s - top[:, None]).sum(-1))
        for number, there, mine, high in zip(rows, lse[0, 0, rows], expected, top, strict=True):
            if not np.isfinite(mine):  # a row that sees nothing, or has numbers that are none
                continue
            if not abs(there - mine) <= ROUGH * (1 + abs(high)):
                raise RecordingError(
                    f"lse of query {number} of the first head is {there:.6g}, but q, k and the terms give {mine:.6g}: "
                    "pass what attention(…, return_lse=True) gave for the same arguments, or leave it out"
                )


def _plane_rows(x: View, rows: list[int]) -> Array:
    """Rows of the first (query, key) plane."""
    array = as_numpy(x)
    found: Array = array[(0,) * (array.ndim - 2)][rows]  # (…, n_q, n_k) -> (rows, n_k)
    return found


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
