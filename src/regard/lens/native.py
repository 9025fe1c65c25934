"""Questions as native reductions: which ones a question needs, and its state from what they give.

One settled pass answers all questions of a region together. What is the same for two questions is computed once. How
many cells are visible is found by the same pass over a matrix that is 1 where a cell is visible and 0 elsewhere; where
nothing is hidden it is known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from regard.algebra.expression import Expression, constant, gather, variable
from regard.kernels.launch import Progress, reduce
from regard.kernels.wanted import Best, Bins, Rows, Wanted
from regard.lens.columns import Between, ByDistance, Distance, Heatmap, Received, edges_of, span
from regard.lens.question import Layout, Question
from regard.lens.rows import Effective, Entropy, Peak, Top, Total, Visible
from regard.lens.single import Bright, Cells, Mass
from regard.weights import Weights

LONGEST = 256  # of lists of largest weights: longer ones are sorted by NumPy
FEW = 0.05  # a row has not many weights above this

Array = np.ndarray[Any, Any]
Found = dict[str, Any]
Makers = Mapping[str, Callable[[], Wanted]]
Counted = Mapping[str, tuple[Callable[[], Wanted], Callable[[], Array]]]
Region = tuple[int, int, int, int]  # first row, end, first key, end


@dataclass(frozen=True)
class Lowered:
    """What a question needs of a pass."""

    state: Callable[[Found], Any]
    wanted: Makers = field(default_factory=dict)  # by name: equal names are equal reductions
    # What is summed up of a matrix of ones where cells are visible, and what that is where all are.
    counted: Counted = field(default_factory=dict)
    top: int = 0  # how many largest weights
    region: Region | None = None


def _entropy(question: Entropy, layout: Layout) -> Lowered:
    return Lowered(lambda found: 0.0 - found["entropy"], {"entropy": lambda: Rows("entropy")})


def _totals(layout: Layout) -> Makers:
    return {"total": lambda: Bins(variable("row"), layout.n_q)}


def _effective(question: Effective, layout: Layout) -> Lowered:
    wanted = {"entropy": lambda: Rows("entropy"), **_totals(layout)}
    return Lowered(lambda found: (0.0 - found["entropy"], found["total"]), wanted)


def _total(question: Total, layout: Layout) -> Lowered:
    return Lowered(lambda found: found["total"], _totals(layout))


def _visible(question: Visible, layout: Layout) -> Lowered:
    def all_of_them() -> Array:
        return np.full(layout.n_q, layout.n_k)

    counted = {"visible": (lambda: Bins(variable("row"), layout.n_q), all_of_them)}
    return Lowered(lambda found: found["visible"], counted=counted)


def _top(question: Top, layout: Layout) -> Lowered | None:
    def state(found: Found) -> Any:
        weights, keys = found["top"]
        broken = np.isnan(found["lse"])[..., None]  # a row that is NaN
        weights, keys = weights[..., : question.k], keys[..., : question.k]
        return np.where(broken, np.nan, weights), np.where(broken, -1, keys)

    return Lowered(state, top=question.k) if question.k <= LONGEST else None


def _received(question: Received, layout: Layout) -> Lowered:
    chosen = question.chosen(layout.n_q)
    where = None if chosen is None else gather(chosen, [variable("row")]) == constant(True)
    if not layout.n_q:
        where = None
    name = "received" if chosen is None else f"received {chosen.tobytes().hex()}"

    def make() -> Wanted:
        return Bins(variable("k"), layout.n_k, where=where)

    def all_of_them() -> Array:
        return np.full(layout.n_k, layout.n_q if chosen is None else int(chosen.sum()))

    if question.per == "visible":
        counted = {name + " visible": (make, all_of_them)}
        return Lowered(lambda found: (found[name], found[name + " visible"]), {name: make}, counted)
    return Lowered(lambda found: (found[name], np.zeros(found[name].shape, np.int64)), {name: make})


def _by_distance(question: ByDistance, layout: Layout) -> Lowered:
    _, count = span(layout)

    def make() -> Wanted:
        return Bins(variable("row") - variable("k") + (layout.n_k - 1), max(1, count))

    def all_of_them() -> Array:
        t = np.arange(count)
        return np.minimum(np.minimum(t + 1, count - t), min(layout.n_q, layout.n_k))

    counted = {"distances visible": (make, all_of_them)}
    return Lowered(
        lambda found: (found["distances"][:, :count], found["distances visible"][:, :count]),
        {"distances": make},
        counted,
    )


def _between(question: Between, layout: Layout) -> Lowered:
    (ours, rows), (theirs, columns) = question.groups(layout)
    # Places in no group have one of their own, which is dropped.
    ours, theirs = np.where(ours < 0, rows, ours), np.where(theirs < 0, columns, theirs)
    wide = columns + 1
    name = f"between {id(question)}"

    def make() -> Wanted:
        return Bins(gather(ours * wide, [variable("row")]) + gather(theirs, [variable("k")]), (rows + 1) * wide)

    def state(found: Found) -> Any:
        return (found[name].reshape(-1, rows + 1, wide)[:, :rows, :columns],)

    return Lowered(state, {name: make})


def _bin(name: str, first: int, count: int, size: int) -> Expression:
    """Bin r holds the places from ⌊r·count/size⌋ on, so place i is in bin ⌊((i + 1)·size - 1)/count⌋."""
    return ((variable(name) + (1 - first)) * size - 1) // count


def _heatmap(question: Heatmap, layout: Layout) -> Lowered | None:
    (top, height, rows), (left, width, columns) = question.bins(layout)
    if not rows or not columns:
        return None
    region = None if question.region is None else (top, top + height, left, left + width)
    name = f"heatmap {rows} × {columns}"

    def make(pool: str = "sum") -> Wanted:
        index = _bin("row", top, height, rows) * columns + _bin("k", left, width, columns)
        return Bins(index, rows * columns, pool)

    def all_of_them() -> Array:
        return (np.diff(edges_of(height, rows))[:, None] * np.diff(edges_of(width, columns))).ravel()

    kind = "max" if question.pool == "max" else "sum"
    wanted = {f"{name} {kind}": lambda: make(kind)}
    shape = (-1, rows, columns)
    if question.of == "all" or question.pool == "sum":
        return Lowered(
            lambda found: (found[f"{name} {kind}"].reshape(shape), np.ones((1, rows, columns))), wanted, region=region
        )
    counted = {f"{name} visible": (make, all_of_them)}
    return Lowered(
        lambda found: (found[f"{name} {kind}"].reshape(shape), found[f"{name} visible"].reshape(shape)),
        wanted,
        counted,
        region=region,
    )


def _mass(question: Mass, layout: Layout) -> Lowered | None:
    question.check(layout)
    if question.mask is None:
        return None
    name = f"mass {id(question)}"
    wanted = {name: lambda: Bins(variable("row"), layout.n_q, where=question.condition), **_totals(layout)}
    return Lowered(lambda found: (found[name], found["total"]), wanted)


def _cells(question: Cells, layout: Layout) -> Lowered | None:
    """Few weights of a row can be above a threshold, as they add up to 1: they are among its largest."""
    if question.above < FEW:
        return None
    most = int(1 / question.above * (1 + 1e-5))

    def state(found: Found) -> Any:
        weights, keys = found["top"]
        weights, keys = weights[..., : max(1, most)], keys[..., : max(1, most)]
        head, query, place = np.nonzero((weights > question.above) & (keys >= 0))
        if len(head) > question.limit:
            return len(head), ()
        bright = Bright(head, query, keys[head, query, place], weights[head, query, place])
        return len(head), (tuple(bright),)

    return Lowered(state, top=max(1, most))


LOWERED: dict[type, Callable[[Any, Layout], Lowered | None]] = {
    Entropy: _entropy,
    Effective: _effective,
    Total: _total,
    Visible: _visible,
    Top: _top,
    Peak: _top,
    Received: _received,
    ByDistance: _by_distance,
    Distance: _by_distance,
    Between: _between,
    Heatmap: _heatmap,
    Mass: _mass,
    Cells: _cells,
}


def lower(question: Question, layout: Layout) -> Lowered | None:
    """What a question needs of a pass, or None where it is answered by its plain form."""
    make = LOWERED.get(type(question))
    return None if make is None or not layout.n_q or not layout.n_k or not layout.heads else make(question, layout)


class Passes:
    """The passes that some lowered questions need."""

    def __init__(self, weights: Weights, lowered: Sequence[Lowered]):
        self.weights, self.lowered = weights, lowered

    def run(self, progress: Progress | None) -> list[Any]:
        """The states of the questions."""
        of = self.weights.of
        found: dict[Region | None, Found] = {x.region: {} for x in self.lowered}
        stages: list[Callable[[Progress | None], None]] = []
        for region, names in found.items():
            mine = [x for x in self.lowered if x.region == region]
            wanted = {name: make for x in mine for name, make in x.wanted.items()}
            top = max(x.top for x in mine)
            if top:
                wanted["top"] = partial(Best, top)
            counted = {name: one for x in mine for name, one in x.counted.items()}
            if wanted:
                stages += [partial(self._lse, region), partial(self._settled, names, wanted, region)]
            if counted:
                stages.append(partial(self._counts, names, counted, region))
        for number, stage in enumerate(stages):
            stage(_part(progress, number / len(stages), 1 / len(stages)))
        lse = self.weights.lse().reshape(of.batch * of.heads, of.n_q) if any(x.top for x in self.lowered) else None
        return [x.state(found[x.region] | {"lse": lse}) for x in self.lowered]

    def _lse(self, region: Region | None, progress: Progress | None) -> None:
        self.weights.lse(None if region is None else range(region[0], region[1]), progress)

    def _settled(self, found: Found, wanted: Makers, region: Region | None, progress: Progress | None) -> None:
        found.update(_reduced(self.weights, wanted, region, progress))

    def _counts(self, found: Found, counted: Counted, region: Region | None, progress: Progress | None) -> None:
        """Visible cells by bin, (heads, …)."""
        heads = self.weights.of.batch * self.weights.of.heads
        indicator = self.weights.indicator()
        if indicator is None:
            each = {name: closed()[None] for name, (_, closed) in counted.items()}
        else:
            each = _reduced(indicator, {name: make for name, (make, _) in counted.items()}, region, progress)
        for name, x in each.items():
            whole = np.rint(x).astype(np.int64)
            found[name] = np.broadcast_to(whole, (heads, *whole.shape[1:]))


def _part(progress: Progress | None, first: float, size: float) -> Progress | None:
    """A part of the way, told as such."""
    return None if progress is None else lambda share: progress(first + size * share)


def _reduced(weights: Weights, wanted: Makers, region: Region | None, progress: Progress | None) -> Found:
    rows = keys = None
    if region is not None:
        rows, keys = (region[0], region[1] - region[0]), (region[2], region[3] - region[2])
    made = [make() for make in wanted.values()]
    results = reduce(weights.of, weights.terms, weights.q, weights.k, weights.lse_address, made, rows, keys, progress)
    return dict(zip(wanted, results, strict=True))
