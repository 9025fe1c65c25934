"""A piece of a layer: some of its rows, the keys that came with them, and all that their scores need."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from regard.algebra.expression import Expression, constant, gather, mentions, substitute, variable
from regard.algebra.scores import Additive, General, Score, dot
from regard.folding import folded
from regard.problem import NUMPY, problem, view
from regard.terms import Terms
from regard.weights import Weights

Array = np.ndarray[Any, Any]
BF16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True, eq=False)
class Piece:
    """Arrays have an axis for every text of a batch, and one for heads; B|1 is an axis that may be 1 for all."""

    q: Array  # (B, heads, rows, d)
    k: Array  # (B|1, key heads, new keys, d)
    v: Array | None
    lse: Array | None  # (B, heads, rows) in float64
    scale: float
    modify: Expression | None = None
    mask: Expression | None = None
    plane: Array | None = None  # a boolean mask, (B|1, heads|1, rows, keys)
    bias: Array | None = None  # the same, of numbers
    sinks: Array | None = None  # (heads,)
    score: Score = dot
    single: bool = False  # q came as (n, d), without an axis of heads
    row: int = 0  # the first of its rows, in the layer
    key: int = 0  # the first of its keys
    steps: tuple[tuple[int, int], ...] = ()  # (rows, the keys that there were then) of each step
    rounded: bool = False  # whether Q and K were rounded to bfloat16

    @property
    def rows(self) -> int:
        return int(self.q.shape[-2])

    @property
    def keys(self) -> int:
        """How many keys there are with those of this piece."""
        return self.key + int(self.k.shape[-2])

    @property
    def size(self) -> int:
        """Bytes of its large arrays."""
        return sum(x.nbytes for x in (self.q, self.k, self.v, self.lse, self.plane, self.bias) if x is not None)

    def in_bf16(self) -> Piece:
        """The same with Q and K rounded, where they are not bfloat16 already; lse is then to be computed anew."""
        if self.q.dtype == BF16:
            return self
        planes = {
            name: x.astype(np.float32)
            for name, x in (("bias", self.bias), ("sinks", self.sinks))
            if x is not None and x.dtype not in (np.dtype(np.float32), BF16)
        }
        values = None if self.v is None else self.v.astype(BF16)
        q, k = self.q.astype(BF16), self.k.astype(BF16)
        return replace(self, q=q, k=k, v=values, lse=None, rounded=True, **planes)  # type: ignore[arg-type]  # both are arrays

    # Parts, each the same numbers as in the whole.

    def of_text(self, b: int) -> Piece:
        """The piece of one text of a batch."""
        if len(self.q) == 1:
            return self

        def only(x: Array | None) -> Array | None:
            return None if x is None else x[b if len(x) > 1 else 0][None]  # (B|1, …) -> (1, …)

        q, k = only(self.q), only(self.k)
        assert q is not None
        assert k is not None
        part = replace(self, q=q, k=k, v=only(self.v), lse=only(self.lse), plane=only(self.plane), bias=only(self.bias))
        return part.substituted({"b": constant(b)})

    def first(self, rows: int, keys: int) -> Piece:
        """Its first rows and keys, of a piece that has all of its keys."""
        part = replace(
            self,
            q=self.q[..., :rows, :],
            k=self.k[..., :keys, :],
            v=None if self.v is None else self.v[..., :keys, :],
            lse=None if self.lse is None else self.lse[..., :rows],
            plane=None if self.plane is None else self.plane[..., :rows, :keys],
            bias=None if self.bias is None else self.bias[..., :rows, :keys],
            steps=((rows, keys),),
        )
        if self.keys - self.rows == keys - rows:
            return part
        return part.substituted({"q": variable("row") + (self.keys - self.rows)})  # positions are those of the whole

    def of_heads(self, which: int | Array) -> Piece:
        """The piece of one head, then without an axis of heads, or of some."""
        heads, key_heads = self.q.shape[-3], self.k.shape[-3]
        group = heads // key_heads
        chosen = np.atleast_1d(np.asarray(which, np.int64))
        # Whole groups of neighbours keep sharing their keys; others get keys of their own.
        first, count = int(chosen[0]) if len(chosen) else 0, len(chosen)
        near = bool((chosen == first + np.arange(count)).all())
        ours: Any = slice(first, first + count) if near else chosen
        theirs: Any = chosen // group
        if count == 1:
            theirs = slice(first // group, first // group + 1)
        elif near and first % group == 0 and count % group == 0:
            theirs = slice(first // group, (first + count) // group)

        def only(x: Array | None) -> Array | None:
            return None if x is None else x if x.shape[-3] == 1 else x[:, ours]

        lse, sinks = self.lse, self.sinks
        h = constant(first) if count == 1 else variable("h") + first if near else gather(chosen, [variable("h")])
        part = replace(
            self,
            q=self.q[:, ours],
            k=self.k[:, theirs],
            v=None if self.v is None else self.v[:, theirs],
            lse=None if lse is None else lse[:, ours],
            plane=only(self.plane),
            bias=only(self.bias),
            sinks=None if sinks is None else sinks[ours],
            score=_of_heads(self.score, ours, theirs),
            single=self.single or isinstance(which, int),
        )
        return part if near and first == 0 and count == heads else part.substituted({"h": h})

    def substituted(self, by: dict[str, Expression]) -> Piece:
        """The same with variables of its trees replaced."""

        def tree(x: Expression | None) -> Expression | None:
            return substitute(x, **by) if mentions(x, *by) and x is not None else x

        return replace(self, modify=tree(self.modify), mask=tree(self.mask))

    # What it is for.

    def weights(self) -> Weights:
        """The weights of a piece that has all of its keys."""
        b, heads, n_q, _ = self.q.shape
        alone = self.single and b == 1

        def inner(x: Array) -> Array:
            return x[0, 0] if alone else x[0] if b == 1 else x

        given = folded(self.score, view("q", inner(self.q)), view("k", inner(self.k)), None)
        of = replace(problem(given.q, given.k, None), d_v=0 if self.v is None else self.v.shape[-1])

        def plane(name: str, x: Array | None) -> Any:
            if x is None:
                return None
            seen = view(name, x)
            lost = 4 - (len(of.leading) + 3)  # an axis of one text is no axis of the problem
            return seen._replace(shape=seen.shape[lost:], strides=seen.strides[lost:])

        sinks = self.sinks
        if sinks is not None:
            sinks = np.ascontiguousarray(sinks, np.float64 if of.storage == "f64" else np.float32)
        masked, bias = plane("mask", self.plane), plane("bias", self.bias)
        made = Weights(
            of,
            given.q,
            given.k,
            Terms(self.scale, self.modify, self.mask, masked, bias, sinks, given.vector),
        )
        made.stored = NUMPY[self.q.dtype]
        if self.lse is not None:
            made.adopt_lse(np.ascontiguousarray(self.lse).reshape(*of.leading, heads, n_q))
        return made


def _of_heads(score: Score, ours: Any, theirs: Any) -> Score:
    """A score's weights for some heads."""
    if isinstance(score, General) and score.weight is not None and score.weight.ndim == 3:
        return replace(score, weight=score.weight[ours])
    if isinstance(score, Additive) and score.w is not None and score.w_q is not None and score.w_k is not None:
        w, w_q, w_k = score.w, score.w_q, score.w_k
        return replace(
            score,
            w=w[ours] if w.ndim == 2 else w,
            w_q=w_q[ours] if w_q.ndim == 3 else w_q,
            w_k=w_k[theirs] if w_k.ndim == 3 else w_k,
        )
    return score


def bare_scale(score: Score, d: int) -> float:
    """The scale that is meant where none is given."""
    return (1 / math.sqrt(d) if d else 1.0) if score.scaled else 1.0
