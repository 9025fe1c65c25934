"""Two matrices of the same shape beside each other: how far apart their rows are, and where.

>>> import numpy as np, regard
>>> x, y = np.eye(3, dtype=np.float32), np.zeros((3, 3), np.float32)
>>> found = regard.matrix(x, x, scale=50.0).compare(regard.matrix(y, y))
>>> found.rows.round(4).tolist(), float(found.heads.round(4))
([0.5641, 0.5641, 0.5641], 0.5641)
>>> found.heatmap(3)[0].round(4).tolist()
[0.6667, -0.3333, -0.3333]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import DtypeError, ShapeError, counted
from regard.lens.ask import CELLS, Progress, Readable, callable_or_none, chunks, layout_of
from regard.lens.columns import Heatmap, edges_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Comparison:
    """How far apart the rows of two matrices are.

    `rows` is the Jensen–Shannon distance of the two rows of each query, √(½ Σ a ln(a/m) + ½ Σ b ln(b/m)) over the keys
    with m = (a + b)/2: 0 where they are the same, √ln 2 where they share no key. Weights are taken as they are: what
    a sink takes is no outcome and has no part in it. A row that is empty has distance 0 to another such.

    `heads` is the mean of each head, over the rows that are not empty in both; 0 if there are none.
    """

    rows: Any  # (…, n_q)
    heads: Any  # (…)
    both: tuple[Readable, Readable]
    give: Callable[[Any], Any]

    def heatmap(
        self,
        rows: int,
        columns: int | None = None,
        region: tuple[int, int, int, int] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Any:
        """The map of A - B: of each bin the difference of largest magnitude, with its sign (+ if both are as large);
        NaN where nothing is visible in either. Bins and regions are those of `regard.lens.Heatmap`."""
        a = self.both[0]
        (top, height, down), (left, width, across) = Heatmap(rows, columns, "max", "visible", region).bins(
            layout_of(a, range(a.heads))
        )
        starts, ends = edges_of(height, down) + top, edges_of(width, across) + left
        most = np.full((a.heads, down, across), -np.inf)
        least, seen = -most, np.zeros(most.shape, np.bool_)
        for heads, first, (wa, va), (wb, vb), done in _blocks(
            self.both, range(top, top + height) if across else range(0)
        ):
            stop = first + wa.shape[1]
            # The bins that these rows are part of, and where the rows of each begin here.
            r = range(int(np.searchsorted(starts, first, "right")) - 1, int(np.searchsorted(starts, stop, "left")))
            cuts = np.maximum(starts[r.start : r.stop], first) - first
            into = np.s_[heads.start : heads.stop, r.start : r.stop]

            def pooled(by: np.ufunc, x: Array, cuts: Array = cuts) -> Array:
                part = x[:, :, : int(ends[-1])]
                return by.reduceat(by.reduceat(part, cuts, axis=1), ends[:-1], axis=2)

            difference = wa - wb
            most[into] = np.maximum(most[into], pooled(np.maximum, difference))
            least[into] = np.minimum(least[into], pooled(np.minimum, difference))
            seen[into] |= True if va is None or vb is None else pooled(np.logical_or, va | vb)
            if progress is not None:
                progress(done)
        found = np.where(seen, np.where(-least > most, least, most), np.nan)
        return self.give(found.reshape(*a.front, down, across))  # (heads, …) -> (…, heads, …)

    def __repr__(self) -> str:
        a = self.both[0]
        heads = np.asarray(self.heads)
        mean = f"{heads.mean():.4f}, largest {heads.max():.4f}" if heads.size else "–"
        size = f"{counted(a.heads, 'head')}, {counted(a.n_q, 'query')} × {counted(a.n_k, 'key')}"
        return f"Comparison: {size}, mean Jensen–Shannon distance {mean}"


def compare(a: Any, b: Any, progress: Progress | None = None) -> Comparison:
    """How far apart two matrices are; see `Comparison`. One pass over the rows of both at once."""
    if not hasattr(b, "readable"):
        raise DtypeError(f"compare was given {type(b).__name__}, expected a matrix: pass regard.matrix(…)")
    callable_or_none(progress)
    both: tuple[Readable, Readable] = a.readable(), b.readable()
    shapes = [(*x.front, x.n_q, x.n_k) for x in both]
    if shapes[0] != shapes[1]:
        raise ShapeError(
            f"compare was given {shapes[0]} and {shapes[1]}, expected two matrices of the same shape: "
            "select the same of both"
        )
    of = both[0]
    rows = np.zeros((of.heads, of.n_q))
    counts = np.zeros((of.heads, of.n_q), np.bool_)  # rows that are not empty in both
    for heads, first, (wa, _), (wb, _), done in _blocks(both, range(of.n_q)):
        into = np.s_[heads.start : heads.stop, first : first + wa.shape[1]]
        rows[into] = _distance(wa, wb)
        counts[into] = (wa != 0).any(-1) | (wb != 0).any(-1)  # a NaN is not 0
        if progress is not None:
            progress(done)
    number = counts.sum(-1)
    mean = np.where(counts, rows, 0).sum(-1) / np.maximum(number, 1)
    give = a.give
    return Comparison(give(rows.reshape(*of.front, of.n_q)), give(mean.reshape(of.front)), both, give)


def _distance(a: Array, b: Array) -> Array:
    """The Jensen–Shannon distance along the last axis."""
    middle = (a + b) / 2
    with np.errstate(all="ignore"):
        # With t = (a - b) / (a + b), a ln(a/m) + b ln(b/m) = m ((1 + t) ln(1 + t) + (1 - t) ln(1 - t)), and that is
        # m (ln(1 - t²) + 2 t artanh t), as exact near 0 as elsewhere: the root would show what rounding leaves.
        t = (a - b) / 2 / middle
        each = np.log1p(-t * t) + 2 * t * np.arctanh(t)
        each = np.where(np.abs(t) == 1, 2 * np.log(2), each)  # a key of one of them alone
        found: Array = np.sqrt(np.where(middle == 0, 0, middle * each).sum(-1) / 2)
    return found


Part = tuple[Array, "Array | None"]  # weights in float64, and which are visible


def _blocks(both: tuple[Readable, Readable], rows: range) -> Iterator[tuple[range, int, Part, Part, float]]:
    """(heads, the first row, a block of each matrix, the share that is done), block by block."""
    a = both[0]
    if not a.heads or not a.n_k:
        return
    heads_of = list(chunks(a))
    for number, heads in enumerate(heads_of):
        step = max(1, CELLS // (2 * len(heads) * a.n_k))
        for first in rows[::step]:
            stop = min(first + step, rows.stop)
            (wa, va), (wb, vb) = (x.block(heads, range(first, stop)) for x in both)
            done = (number + (stop - rows.start) / len(rows)) / len(heads_of)
            yield heads, first, (np.asarray(wa, np.float64), va), (np.asarray(wb, np.float64), vb), done


__all__ = ["Comparison", "compare"]
