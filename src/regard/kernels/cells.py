"""What is done to each score after the product: modifier, bias and mask, queries on the lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.kernels.job import Job
from regard.kernels.lower import Lanes, Layout
from regard.kernels.plan import Shape
from regard.kernels.values import Function, Type, Value, i1, i8, i16, i32, i64, select

if TYPE_CHECKING:
    from regard.kernels.tiles import Tiles

INFINITY = float("inf")


def words_of(shape: Shape | None) -> int:
    """How many words the arguments of a program take."""
    if shape is None:
        return 0
    layout = Layout.of(shape[0])
    return layout.array(len(layout.dimensions))


class Cells:
    """What is done to each score after the product: modifier, bias, mask."""

    def __init__(
        self, tiles: Tiles, f: Function, job: Job, workspace: Value, instance: Value, row: Value, partial: bool
    ):
        self.tiles, self.f, self.job, self.workspace, self.partial = tiles, f, job, workspace, partial
        plan = tiles.plan
        self.plan = plan
        self.tracked = partial or plan.hides
        self.words = job.pointer("words", i64)
        self.bases: dict[str, Lanes] = {}
        self.roots: dict[str, int] = {}
        self.programs: dict[str, list[Lanes]] = {}
        whole = i32 if plan.whole_bits == 32 else i64
        offset = job.n_k - job.n_q
        for name, shape in (("modify", plan.modify), ("mask", plan.mask)):
            if shape is None or (name == "mask" and not partial):
                continue
            nodes, roots = shape
            words = self.words if name == "modify" else self.words + words_of(plan.modify)
            heads = job.heads
            base = Lanes(nodes, words, tiles.functions, tiles.number, whole)
            base = base.with_(b=instance.quotient(heads), h=instance.remainder(heads)).ready(roots[0])
            self.bases[name], self.roots[name] = base, roots[0]
            self.programs[name] = [
                base.with_(row=tiles.positions(f, row, v), q=tiles.positions(f, row + offset, v)).ready(roots[0])
                for v in range(tiles.vectors)
            ]
        self.rows: dict[tuple[str, str], list[Lanes]] = {}  # "modify" and "mask", each with a key's place in the tile

    def at(self, place: Value, key: Value) -> None:
        """Go to a key: what depends on it alone is computed here, once for all vectors."""
        for name, lanes in self.programs.items():
            alone = self.bases[name].with_(k=key).ready(self.roots[name])
            self.rows[name, place.text] = [one.with_(alone) for one in lanes]

    def final(self, s: Value, place: Value, v: int, count: Value) -> Value:
        """The final score, -inf where hidden."""
        plan, tiles, f = self.plan, self.tiles, self.f
        at = place * plan.across + v * tiles.lanes
        hidden: Value | None = None
        if plan.modify is not None:
            before = s
            s = (
                self.rows["modify", place.text][v]
                .with_(score=s)
                .value(plan.modify[1][0], tiles.number)
                .splat(tiles.lanes)
            )
            if plan.hides:
                hidden = s.equals(-INFINITY) & before.differs(-INFINITY)
        if plan.bias:
            bias = tiles.part(self.workspace, "bias").load(at, tiles.lanes)
            gone = bias.equals(-INFINITY)
            hidden = gone if hidden is None else hidden | gone
            s = s + bias
        if not self.tracked:
            return s
        visible = ~hidden if hidden is not None else f.constant(i1.of(tiles.lanes), 1)
        if self.partial:
            visible = visible & (place < count).splat(tiles.lanes)
            if plan.mask is not None:
                visible = visible & self.rows["mask", place.text][v].value(plan.mask[1][0]).splat(tiles.lanes)
            if plan.mask_array:
                visible = visible & tiles.part(self.workspace, "mask", i8).load(at, tiles.lanes).differs(0)
        bits = visible.bits(Type("i", tiles.lanes))
        kept = bits if tiles.lanes == 16 else bits.to(i16, signed=False)
        tiles.part(self.workspace, "visible", i16)[place * tiles.vectors + v] = kept
        return select(visible, s, -INFINITY)
