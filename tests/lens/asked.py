"""Questions of every kind, what their answers should be, and whether an answer agrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import regard
from regard.algebra.evaluate import evaluate
from regard.lens import (
    Between,
    Block,
    ByDistance,
    Cells,
    Distance,
    Effective,
    Entropy,
    Heatmap,
    Layout,
    Mass,
    Peak,
    Received,
    Top,
    Total,
    Visible,
)
from tests.lens import dense
from tests.matrix.built import Built, close

Array = Any
FACTOR = 4  # by how much an answer may be off more than the weights that it is made of


@dataclass
class Flat:
    """A built matrix with one axis of heads: what questions are asked of."""

    a: Array  # (heads, n_q, n_k) float64
    visible: Array
    q: Array
    k: Array
    each: int
    group: int
    rounding: float

    @property
    def heads(self) -> int:
        return len(self.a)

    @property
    def n_q(self) -> int:
        return int(self.a.shape[1])

    @property
    def n_k(self) -> int:
        return int(self.a.shape[2])

    def layout(self, xp: Any = np, **changed: Any) -> Layout:
        """The layout of all of it, for plain forms."""
        q, k = (xp.asarray(x) for x in (self.q, self.k))
        fields = {"heads": self.heads, "first_head": 0, "each": self.each, "group": self.group}
        return Layout(**{**fields, "n_q": self.n_q, "n_k": self.n_k, "q": q, "k": k, "xp": xp, **changed})


def flat(built: Built) -> Flat:
    """(…, n_q, n_k) -> (heads, n_q, n_k)"""
    of = built.A.weights.of
    heads, shape = of.batch * of.heads, built.weights.shape[-2:]
    q, k = built.A.readable().positions
    a, visible = (x.reshape(heads, *shape) for x in (built.weights, built.visible))
    return Flat(a, visible, np.asarray(q), np.asarray(k), of.heads, of.heads // of.key_heads, built.rounding)


def everything(f: Flat, seed: int = 0) -> dict[str, Any]:
    """Questions with every option, for a matrix of this shape."""
    rng, n_q, n_k = np.random.default_rng(seed), f.n_q, f.n_k
    some_q, some_k = rng.integers(-1, 4, n_q), rng.integers(0, 3, n_k)
    cut_q, cut_k = n_q // 3, n_k // 2
    spans_q = [(0, cut_q), (cut_q, n_q)]
    spans_k = np.array([(cut_k, n_k), (0, cut_k // 2), (cut_k // 2, cut_k // 2)])
    pairs = [(int(rng.integers(n_q)), int(rng.integers(n_k))) for _ in range(9)] if n_q and n_k else []
    inside = rng.random((n_q, n_k)) < 0.3
    each = rng.random((f.each, n_q, n_k)) < 0.5
    region = (n_q // 4, n_q - n_q // 5, n_k // 3, n_k)
    return {
        "entropy": Entropy(),
        "effective": Effective(),
        "total": Total(),
        "visible": Visible(),
        "peak": Peak(),
        "top 1": Top(1),
        "top 3": Top(3),
        "top 5": Top(),
        "top of more than there are": Top(n_k + 2),
        "received": Received(),
        "received mean": Received(per="mean"),
        "received visible": Received(per="visible"),
        "received kv": Received(group="kv"),
        "received kv mean": Received(per="mean", group="kv"),
        "received kv visible max": Received(per="visible", group="kv", pool=("max", 5)),
        "received of a slice": Received(slice(n_q // 2, None)),
        "received of a slice, mean": Received(slice(None, None, -2), "mean"),
        "received of numbers": Received([0, -1, 0][: 3 * bool(n_q)] + [0] * 0, "visible"),
        "received of nobody": Received(np.zeros(0, np.int64), "mean"),
        "received of booleans": Received(rng.random(n_q) < 0.5, pool=("mean", 3)),
        "received pool mean": Received(pool=("mean", 7)),
        "received pool 1": Received(pool=("max", 1)),
        "by distance": ByDistance(),
        "by distance visible": ByDistance("visible"),
        "distance": Distance(),
        "between": Between(some_q, some_k),
        "between sum": Between(some_q, some_k, "sum"),
        "between spans": Between(spans_q, spans_k),
        "between spans and numbers": Between(spans_q, some_k.astype(np.uint8), "sum"),
        "heatmap 4": Heatmap(4),
        "heatmap max": Heatmap(3, 5, "max"),
        "heatmap sum": Heatmap(5, 2, "sum"),
        "heatmap all": Heatmap(4, 7, of="all"),
        "heatmap max all": Heatmap(2, 3, "max", "all"),
        "heatmap sum all": Heatmap(2, 3, "sum", "all"),
        "heatmap of a region": Heatmap(3, region=region),
        "heatmap max of a region": Heatmap(2, 4, "max", region=region),
        "heatmap sum of a region": Heatmap(2, 4, "sum", region=region),
        "heatmap of nothing": Heatmap(2, region=(n_q // 2, n_q // 2, 0, n_k)),
        "heatmap of more than there are": Heatmap(n_q + 3, n_k + 3),
        "heatmap max of one": Heatmap(1, pool="max"),
        "mass causal": Mass(regard.causal),
        "mass window": Mass(regard.window(2, 1, align="first")),
        "mass function": Mass(regard.mask(lambda b, h, q, k: ((q + k + h) % 3 == 0) | (b > k))),
        "mass causal and array": Mass(regard.causal & inside),
        "mass array": Mass(inside),
        "mass array of heads": Mass(each),
        "mass array of keys": Mass(inside[:1] if n_q else np.zeros((1, n_k), bool)),
        "mass pairs": Mass(pairs),
        "mass of nothing": Mass(np.zeros((0, 2), np.int64)),
        "cells": Cells(0.2),
        "cells above 0": Cells(0.0),
        "cells above 1": Cells(1.5),
    }


NAMES = tuple(everything(Flat(*(np.zeros((1, 2, 2)),) * 2, np.arange(2), np.arange(2), 1, 1, 1.0)))
EXACT = ("visible", "peak", "top", "heatmap max", "cells")  # the same numbers however rows are cut


def numbers_of(groups: Any, n: int) -> tuple[Array, int]:
    """The group of each place, from numbers or spans."""
    groups = np.asarray(groups)
    if groups.ndim == 1:
        return groups.astype(np.int64), max([-1, *groups.tolist()]) + 1
    result = np.full(n, -1)
    for number, (start, stop) in enumerate(groups):
        result[start:stop] = number
    return result, len(groups)


def inside_of(where: Any, f: Flat) -> Array:
    """The cells of a mask, of booleans or of pairs, (heads, n_q, n_k)."""
    full = (f.heads // max(1, f.each), f.each, f.n_q, f.n_k)
    if isinstance(where, regard.Mask):
        b, h = np.arange(full[0])[:, None, None, None], np.arange(f.each)[:, None, None]
        row, k = np.arange(f.n_q)[:, None], np.arange(f.n_k)
        seen = evaluate(where.condition, b=b, h=h, row=row, q=row + (f.n_k - f.n_q), k=k)
    elif np.asarray(where).dtype == np.bool_:
        seen = np.asarray(where)
    else:
        seen = np.zeros((f.n_q, f.n_k), bool)
        for i, j in where:
            seen[i, j] = True
    return np.broadcast_to(seen, full).reshape(f.a.shape)


def wanted(question: Any, f: Flat) -> Any:
    """What it should be, by the dense definition."""
    a, visible = f.a, f.visible
    if isinstance(question, Peak):
        return tuple(x[..., 0] for x in dense.top(a, visible, 1))
    if isinstance(question, Top):
        return dense.top(a, visible, question.k)
    if isinstance(question, Effective):
        return dense.effective(a)
    if isinstance(question, Entropy):
        return dense.entropy(a)
    if isinstance(question, Total):
        return dense.total(a)
    if isinstance(question, Visible):
        return visible.sum(-1)
    if isinstance(question, Received):
        queries = question.queries
        if queries is not None:
            queries = np.arange(f.n_q)[queries].tolist()
        return dense.received(a, visible, queries, question.per, f.group if question.group else 0, question.pool)
    if isinstance(question, Distance):
        return dense.distance(a, f.q, f.k)
    if isinstance(question, ByDistance):
        return dense.by_distance(a, visible, f.q, f.k, question.per)
    if isinstance(question, Between):
        keys = question.query_groups if question.key_groups is None else question.key_groups
        (rows, many_q), (columns, many_k) = numbers_of(question.query_groups, f.n_q), numbers_of(keys, f.n_k)
        return dense.between(a, rows, columns, (many_q, many_k), question.per)
    if isinstance(question, Heatmap):
        columns = question.rows if question.columns is None else question.columns
        return dense.heatmap(a, visible, question.rows, columns, question.pool, question.of, question.region)
    if isinstance(question, Mass):
        return dense.mass(a, inside_of(question.where, f))
    assert isinstance(question, Cells), question
    with np.errstate(invalid="ignore"):
        places = np.nonzero(a > question.above)
    return (*places, a[places])


def agree(name: str, question: Any, got: Any, want: Any, f: Flat, factor: float = FACTOR) -> None:
    """The answer, with flat heads, is what is wanted, to rounding."""
    __tracebackhide__ = True
    relative, small = factor * f.rounding, 1e-11
    if isinstance(question, Top):
        same_best(name, got, want, f, relative)
    elif isinstance(question, Cells):
        same_cells(name, question.above, got, want, f, relative)
    elif isinstance(question, ByDistance) and not isinstance(question, Distance):
        for part, x, y in zip(("distances", "mass", "visible"), got, want, strict=True):
            close(x, y, relative if part == "mass" else 0, small if part == "mass" else 0, f"{name}, {part}")
    elif isinstance(question, Mass):
        for part, x, y in zip(("rows", "heads"), got, want, strict=True):
            close(x, y, relative, small, f"{name}, {part}")
    elif isinstance(question, Entropy):  # a change of the weights moves it by the logarithms of them
        close(got, want, relative * (1 + np.log1p(f.n_k)), relative, name)
    else:
        close(got, want, relative, small, name)


def parts(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def hold(built: Built, names: Any = NAMES, seed: int = 0) -> None:
    """These questions, asked together, have the answers that they should."""
    __tracebackhide__ = True
    f = flat(built)
    asked = {name: question for name, question in everything(f, seed).items() if name in names}
    for (name, question), answer in zip(asked.items(), built.A.ask(*asked.values()), strict=True):
        front = built.A.readable().front
        agree(name, question, flattened(question, answer, front), wanted(question, f), f)


def same_best(name: str, got: Any, want: Any, f: Flat, relative: float) -> None:
    """The largest weights, and keys that have them: the wanted ones, but for ties to rounding."""
    __tracebackhide__ = True
    weights, keys = (np.asarray(x) for x in got)
    close(weights, want[0], relative, 1e-12, f"{name}, weights")
    assert keys.dtype.kind == "i", keys.dtype
    assert keys.shape == want[1].shape, f"{name}, keys: {keys.shape}"
    assert ((keys == -1) == (want[1] == -1)).all(), f"{name}: other keys are left out"
    if not keys.size or not f.n_k:
        return
    shape = (f.heads, f.n_q, -1)
    ours, theirs = keys.reshape(shape), want[1].reshape(shape)
    there = ours >= 0
    placed = np.sort(np.where(there, ours, -1 - np.arange(ours.shape[-1])), axis=-1)
    assert (np.diff(placed, axis=-1) > 0).all(), f"{name}: a key is named twice"
    value, other = (np.take_along_axis(f.a, np.maximum(x, 0), axis=-1) for x in (ours, theirs))
    with np.errstate(invalid="ignore"):
        tied = abs(value - other) <= 2 * relative * other + 1e-12
    wrong = there & (ours != theirs) & ~tied
    assert not wrong.any(), f"{name}: wrong keys at {np.argwhere(wrong)[:3].tolist()}"
    assert np.take_along_axis(f.visible, np.maximum(ours, 0), axis=-1)[there].all(), f"{name}: a hidden key is named"


def same_cells(name: str, above: float, got: Any, want: Any, f: Flat, relative: float) -> None:
    """The cells above a threshold, sorted; those within rounding of it may be either way."""
    __tracebackhide__ = True
    *places, weights = (np.asarray(x) for x in got)
    found = list(zip(*(x.tolist() for x in places), strict=True))
    assert found == sorted(set(found)), f"{name}: not sorted"
    assert all(x.dtype.kind == "i" for x in places)
    with np.errstate(invalid="ignore"):
        doubtful = abs(f.a - above) <= relative * above + 1e-30
    known = set(zip(*(x.tolist() for x in want[:3]), strict=True))
    assert not [cell for cell in known ^ set(found) if not doubtful[cell]], f"{name}: other cells"
    close(weights, f.a[tuple(places)], relative, 1e-12, f"{name}, weights")


def flattened(question: Any, answer: Any, front: tuple[int, ...]) -> Any:
    """An answer with the axes of a matrix, its heads flat. `front` are the axes before queries and keys."""
    shared, listed = getattr(question, "shared", ()), getattr(question, "listed", False)

    def one(x: Any, name: str | None) -> Any:
        x = np.asarray(x)
        if listed or name in shared:
            return x
        if front and not getattr(question, "group", None):
            assert x.shape[: len(front)] == front, f"{question}: {x.shape}, expected {front} first"
        heads = int(np.prod(x.shape[: len(front)]))
        return x.reshape((heads, *x.shape[len(front) :]))

    if not isinstance(answer, tuple):
        return one(answer, None)
    names = getattr(answer, "_fields", (None,) * len(answer))
    return tuple(one(x, name) for name, x in zip(names, answer, strict=True))


def in_cuts(question: Any, f: Flat, cuts: Sequence[int], xp: Any = np, leftwards: bool = False) -> Any:
    """The plain form over blocks that begin at these rows, merged from the left or from the right."""
    layout = f.layout(xp)
    a, visible = xp.asarray(f.a), xp.asarray(f.visible)
    states = []
    for first, stop in zip([0, *cuts], [*cuts, f.n_q], strict=True):
        block = Block(a[:, first:stop, :], visible[:, first:stop, :], first, layout)
        states.append(question.update(question.create(layout), block))
    state = states.pop(-1 if leftwards else 0)
    while states:
        state = question.merge(states.pop(), state) if leftwards else question.merge(state, states.pop(0))
    return question.finalize(state, layout)
