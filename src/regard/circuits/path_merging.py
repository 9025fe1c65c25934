"""A transformer built by hand that searches a graph: every row holds the set of vertices that its vertex reaches, and
one attention in a layer merges into it the sets of vertices that it already reaches: reach doubles with each layer.
The mechanism is the one that Saparov et al., 'Transformers Struggle to Learn to Search', found in trained models.

The residual stream of a row is [token | reach | predecessor | position]; there is no layer norm.

**A merge.** Q = C · reach, K = token, V = reach, scale = 1. A row's score for another is C if it reaches that row's
vertex, else 0, so of T rows the m that match get the same weight, and the output y is the average of their sets but for
what leaks from the others. The feed-forward part makes a union of it: clip(2·T·y − ½, 0, 1).

**Why C ≥ 2 ln T + ln 4 makes it an exact union.** 1 ≤ m ≤ T, for a row matches itself. With Σ = m·eᶜ + (T − m):

- A vertex in one matched set or more has y ≥ eᶜ/Σ = 1/(m + (T − m)·e⁻ᶜ). For e⁻ᶜ ≤ 1 the denominator is at most T, so
  y ≥ 1/T and 2·T·y − ½ ≥ 3/2: cut to 1. (y ≥ 3/(4T) would do: a quarter is left for rounding.)
- A vertex in no matched set has at most what all others bring, y ≤ (T − m)/Σ, which is largest for m = 1:
  y ≤ (T − 1)/(eᶜ + T − 1). Cut to 0 it is if y ≤ 1/(4T), that is if eᶜ ≥ (4T − 1)·(T − 1). As the right side is less
  than 4T² = exp(2 ln T + ln 4), such a C suffices. It is hardly more than is needed: with ln((4T − 1)(T − 1)) or less a
  vertex that all other rows hold may leak.

**Layer 0 of an edge list.** A row is a token of `E u v E u v … Q s g P`. Positions are addresses in ⌈log₂ T⌉ digits of
±1: the product of two addresses is ⌈log₂ T⌉ if they agree and less by 2 or more if not, and C times a gap of 2 is more
than the bound above asks for. A row holds three of them: its own, that of its source and that of its target. Two heads
look these up: one takes u into the predecessor of v, the other takes v into the reach of u. (The paper's models have
one head a layer, and so need a layer for each.) A row without a source is pointed at row 0, which is no vertex, and one
without a target at itself.

**How many layers.** Let ball(r) be what a vertex reaches in r edges, and D the largest distance. With one row for each
vertex, its own edges given in its reach, sets go from ball(1) to ball(2ᵐ) in m merges: ⌈log₂ D⌉ of them are enough. In
an edge list a row knows one edge only, and the first merge unites it with its siblings: what a row (u, v) then holds is
ball(1) of u and of v, so that after m merges ball(2ᵐ⁻¹) ⊆ S ⊆ ball(2ᵐ), and 1 + 1 + ⌈log₂ D⌉ layers are enough. The
layer that answers comes after them.

Rows do a little better: along any path, that row of u whose edge begins it doubles at once, to 2ᵐ steps, and every
other row of u gets as far as itself and such a row together, rₘ₊₁ = rₘ + 2ᵐ from r₀ = 0. So ball(2ᵐ − 1) ⊆ S, and
⌈log₂(D + 1)⌉ merges would do: as many where D is a power of two, one less elsewhere.

**With two heads** that keep R, what a row reaches, and B, what reaches it, the scores C·min(R_u·B_v, 1) match u with
every v for which there is an x with u → x → v: R_u takes over all R_v, as B_v does all B_u, and ball(r) becomes
ball(3r). Without the minimum the score counts the vertices x, and the rows with most of them take all the weight.

**The answer.** The row P holds s in its predecessor and g in its reach, and a mask keeps it to itself in merges. In the
last layer it looks at rows with its predecessor that reach its goal: Q = 2·C·[predecessor | reach], K = the same
blocks, V = token. Both match at 4·C, one at 2·C, and a sink of 3·C takes the weight where no row has both: then nothing
is answered, by the same bounds. What it finds follows s by an edge and reaches g. In a graph with cycles the way on
from there may lead back through s; sets do not tell.

>>> circuit = path_merging([("a", "b"), ("b", "c"), ("c", "d"), ("b", "x")], query=("a", "d"))
>>> circuit.answer, [layer.name for layer in circuit.layers]
('b', ['carry', 'merge 1', 'merge 2', 'merge 3', 'answer'])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard.algebra.masks import mask
from regard.circuits.embedding import Embedding, edge_rows, vertex_rows
from regard.circuits.graphs import Graph, Vertex, doublings, farthest, is_networkx, read
from regard.circuits.layers import Array, Cell, Layer, Residual, by_layer, union
from regard.errors import QuestionError, ShapeError

if TYPE_CHECKING:
    from regard.circuits.explanation import Explanation

Rows = Literal["vertex", "edge"]


def exact_strength(rows: int) -> float:
    """The C with which averages over so many rows become exact unions: 2 ln T + ln 4; see above.

    >>> round(exact_strength(1000), 2)
    15.2
    """
    return 2 * math.log(max(1, rows)) + math.log(4)


def path_merging(
    graph: Any,
    query: tuple[Vertex, Vertex] | None = None,
    *,
    rows: Rows | None = None,
    heads: int = 1,
    merges: int | None = None,
    strength: float | None = None,
    clamp: bool = True,
) -> PathMerging:
    """Search a graph: a networkx graph, a list of edges (u, v), or tokens such as "E 3 5 E 5 7 Q 3 7 P".

    `query` asks for the next vertex on a path from its first vertex to its second. `rows` is one "vertex" each, the
    default for networkx, or one for each token of the "edge" list. `heads=2` triples reach instead of doubling it.
    `merges` and `strength`, the number of merges and C, are as large as they have to be if they are not given; `clamp`
    off leaves the minimum out of the score of two heads.

    >>> circuit = path_merging([(0, 1), (1, 2), (2, 3), (3, 4)], rows="vertex")
    >>> [sorted(circuit.sets(after)[0]) for after in (0, 1, 2)]
    [[0, 1], [0, 1, 2], [0, 1, 2, 3, 4]]
    """
    if rows not in (None, "vertex", "edge"):
        raise ShapeError(f"rows is {rows!r}, expected 'vertex' or 'edge': leave it out for what the graph suggests")
    if heads not in (1, 2):
        raise ShapeError(f"heads is {heads!r}, expected 1, which doubles reach, or 2, which triple it")
    made = read(graph, query)
    form: Rows = rows or ("vertex" if is_networkx(graph) else "edge")
    embedded = (vertex_rows if form == "vertex" else edge_rows)(made, back=heads == 2)
    count = len(embedded.names)
    if merges is None:
        merges = doublings(farthest(made), heads + 1) + (form == "edge" and bool(made.edges))
    elif isinstance(merges, bool) or not isinstance(merges, int) or merges < 0:
        raise ShapeError(f"merges is {merges!r}, expected how many there are, from 0 up")
    c = exact_strength(count) if strength is None else float(strength)
    return PathMerging(made, form, heads, merges, c, clamp, embedded, *_run(embedded, heads, merges, c, clamp, {}))


def _run(
    embedded: Embedding,
    heads: int,
    merges: int,
    c: float,
    clamp: bool,
    removed: dict[int, Array],
    before: tuple[tuple[Layer, ...], tuple[Residual, ...]] = ((), ()),
) -> tuple[tuple[Layer, ...], tuple[Residual, ...], Array | None]:
    """All layers, the states before, between and after them, and the output of the last: tokens that answer. Layers
    that have run `before` the first that differs are taken as they are."""
    layers, states = list(before[0]), list(before[1]) or [embedded.residual]
    count = len(embedded.names)
    if not count:
        return (), tuple(states), None
    alone = count - 1 if embedded.asks else None
    kinds: list[Callable[[Residual], Layer]] = []
    base = partial(Layer, strength=c, tokens=embedded.names, bright=1 / (2 * count))
    if embedded.places is not None:
        kinds.append(partial(_carry, base, embedded.places))
    kinds += [partial(_merge, base, f"merge {i + 1}", heads, clamp, c, alone) for i in range(merges)]
    if embedded.asks:
        kinds.append(partial(_answer, base, c))
    for i, kind in enumerate(kinds[len(layers) :], len(layers)):
        x = states[-1]
        layer = kind(x)
        if i in removed:
            layer = replace(layer, removed=layer.checked(removed[i]))
        layers.append(layer)
        y = layer.output()
        if layer.name == "answer":
            return tuple(layers), tuple(states), y[0]
        if layer.name == "carry":
            source, target = y
            back = None if x.back is None else union(source * embedded.vertices, x.back, count)
            x = replace(
                x, predecessor=union(source, x.predecessor, count), reach=union(target, x.reach, count), back=back
            )
        elif x.back is None:
            x = replace(x, reach=union(y, x.reach, count))
        else:
            x = replace(x, reach=union(y[0], x.reach, count), back=union(y[1], x.back, count))
        states.append(x)
    return tuple(layers), tuple(states), None


def _carry(base: Callable[..., Layer], places: tuple[slice, slice, slice], x: Residual) -> Layer:
    """Two heads of positions: a row takes the token of its source, and that of its target."""
    here, *looked_up = (x.position[:, place] for place in places)
    return base("carry", asks=np.stack(looked_up), keys=here[None], values=x.token[None])


def _merge(
    base: Callable[..., Layer], name: str, heads: int, clamp: bool, c: float, alone: int | None, x: Residual
) -> Layer:
    """Rows take over the sets of the rows whose vertices they reach; the row that asks keeps to itself."""
    hidden = None if alone is None else mask(lambda b, h, q, k: (q == alone) == (k == alone))
    if x.back is None:
        return base(name, asks=x.reach, keys=x.token, values=x.reach, mask=hidden)
    there, back = np.stack([x.reach, x.back]), np.stack([x.back, x.reach])  # (2, T, vocabulary)

    def met(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return c * (np.minimum(score, 1.0) if clamp else score)

    return base(name, strength=1.0, asks=there, keys=back, values=there, modify=met, mask=hidden)


def _answer(base: Callable[..., Layer], c: float, x: Residual) -> Layer:
    """The last row looks at rows that follow the start and reach the goal, and at none if there is none."""
    known = np.concatenate([x.predecessor, x.reach], axis=1)  # (T, 2 · vocabulary)
    others = mask(lambda b, h, q, k: q != k)
    asked = known[-1:]
    sink = np.array([3 * c], np.float32)
    return base("answer", strength=2 * c, asks=asked, keys=known, values=x.token, mask=others, sinks=sink)


@dataclass(frozen=True, eq=False)
class PathMerging:
    """A circuit that has run: its layers, whose matrices can be read, and what every row held between them."""

    graph: Graph
    form: Rows
    heads: int
    merges: int
    strength: float
    clamp: bool
    embedded: Embedding
    layers: tuple[Layer, ...]
    states: tuple[Residual, ...]  # before the first layer, and after each but the one that answers
    output: Array | None  # (vocabulary,) the average of the tokens that answer
    removed: tuple[Cell, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The rows as tokens."""
        return self.embedded.names

    @property
    def matrices(self) -> list[Any]:
        """A of each layer."""
        return [layer.matrix for layer in self.layers]

    @property
    def at(self) -> Array:
        """Of each row, the place of its vertex among the vertices, or -1."""
        return self.embedded.at

    @property
    def first(self) -> int:
        """The state in which all edges are in the rows: after how many layers."""
        return int(self.form == "edge")

    def reach(self, after: int = -1) -> Array:
        """Which vertices each row reaches after so many layers, (T, vertices) booleans."""
        found: Array = self.states[after].reach[:, : len(self.graph.vertices)] > 0.5
        return found

    @property
    def exact(self) -> bool:
        """Whether all sets are sets: every entry of them 0 or 1."""
        return all(bool(((x.reach == 0) | (x.reach == 1)).all()) for x in self.states)

    def together(self, after: int = -1) -> Array:
        """Which vertices each vertex reaches, (vertices, vertices) booleans: all of its rows together, and itself."""
        found = np.eye(len(self.graph.vertices), dtype=np.bool_)
        there = np.flatnonzero(self.at >= 0)
        np.logical_or.at(found, self.at[there], self.reach(after)[there])
        return found

    def sets(self, after: int = -1) -> dict[Vertex, frozenset[Vertex]]:
        """What each vertex reaches after so many layers, by name."""
        vertices, found = self.graph.vertices, self.together(after)
        return {v: frozenset(vertices[j] for j in np.flatnonzero(row)) for v, row in zip(vertices, found, strict=True)}

    @property
    def stages(self) -> tuple[str, ...]:
        """What each state is called: the start, and then the layers that led to them."""
        return ("start", *(layer.name for layer in self.layers[: len(self.states) - 1]))

    @cached_property
    def answers(self) -> dict[Vertex, float]:
        """The vertices that follow the start and reach the goal, each with its share of the rows that say so."""
        if self.output is None:
            raise QuestionError("the circuit has no query, expected one to answer: pass query=(start, goal)")
        y = self.output[: len(self.graph.vertices)]
        told = union(y, np.zeros_like(y), len(self.names)) > 0.5
        return {self.graph.vertices[j]: float(y[j]) for j in np.flatnonzero(told)}

    @property
    def answer(self) -> Vertex | None:
        """The next vertex on a path from the start to the goal; of several the one in most rows, then the first. None
        if the circuit finds no path."""
        found = self.answers
        return max(found, key=lambda v: round(found[v] * len(self.names), 3)) if found else None

    def cells(self, layer: int | None = None) -> list[Cell]:
        """The bright cells of a layer, or of all: candidate path-merges, rows that look at themselves among them."""
        which = range(len(self.layers)) if layer is None else [range(len(self.layers))[layer]]
        return [Cell(i, *map(int, cell)) for i in which for cell in self.layers[i].cells()]

    def ablate(self, cells: Any) -> PathMerging:
        """The circuit run again with these cells zeroed, beside those that were before; see `ablate`."""
        given = [Cell(i, *map(int, c)) for i, found in by_layer(cells, len(self.layers)).items() for c in found]
        removed = tuple(dict.fromkeys((*self.removed, *given)))
        return self.without(by_layer(removed, len(self.layers)), removed, min((c.layer for c in given), default=None))

    def without(self, removed: dict[int, Array], named: tuple[Cell, ...], start: int | None) -> PathMerging:
        """The circuit run again from layer `start` on, without the cells of each layer."""
        if start is None:
            return self
        before = self.layers[:start], self.states[: start + 1]
        ran = _run(self.embedded, self.heads, self.merges, self.strength, self.clamp, removed, before)
        return replace(self, layers=ran[0], states=ran[1], output=ran[2], removed=named)

    def explain(self) -> Explanation:
        """The cells without which the answer is another; see `regard.circuits.explain`."""
        from regard.circuits.explanation import explain

        return explain(self)

    def svg(self, start: Vertex | None = None) -> str:
        """A picture of the sets growing, layer by layer; see `regard.circuits.drawing`."""
        from regard.circuits.drawing import svg

        return svg(self, start)

    def _repr_html_(self) -> str:
        return self.svg()

    def text(self, start: Vertex | None = None, width: int = 80) -> str:
        """The same in letters; see `regard.circuits.picture`."""
        from regard.circuits.picture import text

        return text(self, start, width)

    __str__ = text

    def __repr__(self) -> str:
        rows = f"one row per {'vertex' if self.form == 'vertex' else 'token of the edge list'}"
        return (
            f"PathMerging: {len(self.graph.vertices)} vertices, {len(self.graph.edges)} edges, {rows}, "
            f"{len(self.layers)} layers, C = {self.strength:.3g}"
        )


def ablate(circuit: PathMerging, cells: Any) -> PathMerging:
    """The circuit run again with these cells zeroed: (layer, query, key) or (layer, head, query, key). A zeroed weight
    is gone; the other weights of its row stay as they were.

    >>> circuit = path_merging("E a b E b c Q a c P")
    >>> circuit.answer, ablate(circuit, circuit.cells(-1)).answer
    ('b', None)
    """
    return circuit.ablate(cells)
