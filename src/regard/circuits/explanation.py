"""Which weights an answer needs, and how the edges of the graph come together in it.

A bright cell is a candidate: it shows what a row looked at, not that the answer needs it. Only zeroing it and running
the circuit again tells. One at a time is not enough, for where two cells bring the same set either can go and neither
is missed. So cells are taken away together, from the last layer back to the first, as long as the answer stays; each of
the cells that are left changes the answer when it too is taken away. From the answer they lead back to the edges.

>>> from regard.circuits.path_merging import path_merging
>>> found = path_merging([("a", "b"), ("b", "c"), ("c", "d"), ("b", "x")], query=("a", "d"), rows="vertex").explain()
>>> found.path, len(found.kept), found.bright
(('a', 'b', 'c', 'd'), 2, 24)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.circuits.graphs import Vertex, need_networkx
from regard.circuits.layers import Array, Cell
from regard.circuits.path_merging import PathMerging
from regard.errors import QuestionError


class Fact(NamedTuple):
    """That after so many layers a row holds a vertex, or a sign, in one of its sets."""

    after: int
    row: int
    held: int  # its place in the vocabulary
    block: str  # "reach", "predecessor" or "back"; "answer" for what the last layer gives


class Step(NamedTuple):
    """A kept cell, with the vertex that the query takes over, and the facts that this needs."""

    cell: Cell
    gives: Fact
    needs: tuple[Fact, ...]


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation graph of an answer."""

    circuit: PathMerging  # with all its cells
    pruned: PathMerging  # with the kept ones, and the dim ones
    answer: Vertex
    bright: int  # how many bright cells there are
    kept: tuple[Cell, ...]  # those of them that the answer needs, when all others are gone
    alone: tuple[Cell, ...]  # those of them whose removal changes the answer even when all others are there
    steps: tuple[Step, ...]  # from the answer back
    edges: tuple[tuple[Vertex, Vertex], ...]  # the edges of the graph where they end
    by_layer: tuple[
        tuple[str, int, int], ...
    ]  # of each layer: its name, how many bright cells it has, how many were kept

    @property
    def dropped(self) -> int:
        """How many bright cells did not change the answer."""
        return self.bright - len(self.kept)

    @property
    def path(self) -> tuple[Vertex, ...]:
        """The edges in their order, as the way from the start to the goal."""
        assert self.circuit.graph.query is not None
        after = dict(self.edges)
        s, g = (self.circuit.graph.vertices[i] for i in self.circuit.graph.query)
        way = [s]
        while way[-1] != g and way[-1] in after and len(way) <= len(self.edges):
            way.append(after[way[-1]])
        return tuple(way)

    def networkx(self) -> Any:
        """The explanation graph as a networkx graph: its nodes are (layers passed, row), its edges kept cells, from the
        key that is looked at to the query that looks, as sets flow; where a row only holds, `cell` is None."""
        made = need_networkx("the explanation graph").DiGraph()
        for start, end, cell in self.links():
            made.add_edge(start, end, cell=cell)
        return made

    def links(self) -> Iterator[tuple[tuple[int, int], tuple[int, int], Cell | None]]:
        """From (layers passed, row) to (layers passed, row), by a cell, or by nothing but holding."""
        for step in self.steps:
            end = (step.cell.layer + 1, step.cell.query if not self.asked(step.cell) else len(self.circuit.names) - 1)
            yield (step.cell.layer, step.cell.key), end, step.cell
            yield (step.cell.layer, end[1]), end, None
            for fact in step.needs:
                for after in range(_origin(self.pruned, fact).after, fact.after):
                    yield (after, fact.row), (after + 1, fact.row), None

    def svg(self) -> str:
        """The explanation graph as a picture, the edges at the bottom and the answer on top."""
        from regard.circuits.ladder import svg

        return svg(self)

    _repr_html_ = svg

    def asked(self, cell: Cell) -> bool:
        """Whether a cell is of the layer that answers, whose one query is the last row."""
        return cell.layer == len(self.circuit.layers) - 1

    def said(self, step: Step) -> str:
        """A step in words."""
        names, vertex = self.circuit.names, self.circuit.graph.name
        places = [len(names) - 1 if self.asked(step.cell) else step.cell.query, step.cell.key]
        # In an edge list several rows are of one vertex, and their places tell them apart.
        query, key = (names[i] if self.circuit.form == "vertex" else f"{names[i]} (row {i})" for i in places)
        if self.asked(step.cell):
            assert self.circuit.graph.query is not None
            s, g = map(vertex, self.circuit.graph.query)
            return f"{query} looks at {key}, which follows {s} and reaches {g}"
        taken = vertex(step.gives.held) if step.gives.held < len(self.circuit.graph.vertices) else names[step.cell.key]
        return f"{query} looks at {key} and takes {taken} into its {step.gives.block}"

    def __str__(self) -> str:
        layers = self.circuit.layers
        wide = max(len(layer.name) for layer in layers)
        lines = [f"the answer is {self.answer}; of {self.bright} bright cells {len(self.kept)} were kept:"]
        for i in reversed(range(len(layers))):
            said = list(dict.fromkeys(self.said(step) for step in self.steps if step.cell.layer == i))
            for n, text in enumerate(said):
                lines.append(f"  {layers[i].name if not n else '':{wide}}  {text}")
        lines.append(f"  {'edges':{wide}}  {'  '.join(f'{u} → {v}' for u, v in self.edges)}")
        lines.append(f"{self.dropped} bright cells did not change the answer when they were zeroed together.")
        others = "" if len(self.alone) == len(self.kept) else "; the others have a way around them while all are there"
        lines.append(f"{len(self.alone)} of the {len(self.kept)} kept change it when zeroed alone too{others}.")
        return "\n".join(lines)


def explain(circuit: PathMerging) -> Explanation:
    """The cells without which the answer is another, and how they lead back to the edges.

    >>> from regard.circuits.path_merging import path_merging
    >>> print(explain(path_merging([(0, 1), (1, 2), (2, 3)], query=(0, 3), rows="vertex")))
    the answer is 1; of 19 bright cells 2 were kept:
      answer   P looks at 1, which follows 0 and reaches 3
      merge 1  1 looks at 2 and takes 3 into its reach
      edges    0 → 1  1 → 2  2 → 3
    17 bright cells did not change the answer when they were zeroed together.
    1 of the 2 kept change it when zeroed alone too; the others have a way around them while all are there.
    """
    answer = circuit.answer
    if answer is None:
        raise QuestionError("the circuit found no path, expected an answer to explain: ask for one that there is")
    every = [layer.cells() for layer in circuit.layers]
    removed: dict[int, Array] = {i: np.zeros((0, 3), np.int64) for i in range(len(every))}
    kept: dict[int, Array] = {}
    run = circuit
    for i in reversed(range(len(every))):
        kept[i] = _needed(run, answer, every[i], removed, i)
        run = _without(circuit, removed, i)
        # What was tried early may be missed no longer when what came after it is gone.
        kept[i] = _needed(run, answer, kept[i], removed, i)
        run = _without(circuit, removed, i)
    cells = tuple(Cell(i, *map(int, c)) for i in sorted(kept) for c in kept[i])
    alone = tuple(c for c in cells if circuit.ablate([c]).answer != answer)
    steps, edges = _Trace(run, cells).traced()
    counts = tuple((layer.name, len(every[i]), len(kept[i])) for i, layer in enumerate(circuit.layers))
    bright = sum(map(len, every))
    return Explanation(circuit, run, answer, bright, cells, alone, steps, edges, counts)


def _without(circuit: PathMerging, removed: dict[int, Array], start: int) -> PathMerging:
    named = tuple(Cell(i, *map(int, c)) for i in sorted(removed) for c in removed[i])
    return circuit.without({i: c for i, c in removed.items() if len(c)}, named, start)


def _needed(run: PathMerging, answer: Vertex, cells: Array, removed: dict[int, Array], layer: int) -> Array:
    """Which cells of a layer the answer needs; the others are put to those removed. Halves of what cannot go at once
    are tried apart, so that few of many are found in few runs."""
    found = []

    def tried(some: Array) -> None:
        if not len(some):
            return
        more = np.concatenate([removed[layer], some])
        taken = {i: c for i, c in removed.items() if len(c)} | {layer: more}
        if run.without(taken, (), layer).answer == answer:
            removed[layer] = more
        elif len(some) == 1:
            found.append(some)
        else:
            tried(some[: len(some) // 2])
            tried(some[len(some) // 2 :])

    tried(cells)
    return np.concatenate(found) if found else np.zeros((0, 3), np.int64)


def _holds(run: PathMerging, fact: Fact) -> bool:
    return bool(getattr(run.states[fact.after], fact.block)[fact.row, fact.held] > 0.5)


def _origin(run: PathMerging, fact: Fact) -> Fact:
    """The same as early as it held."""
    while fact.after and _holds(run, fact._replace(after=fact.after - 1)):
        fact = fact._replace(after=fact.after - 1)
    return fact


class _Trace:
    """Facts of a pruned circuit, followed from its answer to its edges."""

    def __init__(self, run: PathMerging, cells: tuple[Cell, ...]):
        self.run, self.cells = run, cells
        self.done: dict[Fact, None] = {}
        self.steps: list[Step] = []
        self.edges: dict[tuple[int, int], None] = {}
        self.which = run.states[0].token.argmax(axis=1)  # (T,) each row's place in the vocabulary

    def traced(self) -> tuple[tuple[Step, ...], tuple[tuple[Vertex, Vertex], ...]]:
        run = self.run
        assert run.graph.query is not None
        s, g = run.graph.query
        last = len(run.layers) - 1
        asks = len(run.names) - 1
        for cell in self.cells:
            if cell.layer == last:
                needs = [Fact(last, cell.key, s, "predecessor"), Fact(last, cell.key, g, "reach")]
                needs += [Fact(last, asks, s, "predecessor"), Fact(last, asks, g, "reach")]
                self._put(Step(cell, Fact(last + 1, asks, int(self.which[cell.key]), "answer"), tuple(needs)))
        self.steps.sort(key=lambda step: -step.cell.layer)
        vertices = run.graph.vertices
        ordered = sorted(self.edges, key=self._along)
        return tuple(self.steps), tuple((vertices[u], vertices[v]) for u, v in ordered)

    def _along(self, edge: tuple[int, int]) -> int:
        """How far along the way from the start an edge is."""
        assert self.run.graph.query is not None
        at, after, count = self.run.graph.query[0], dict(self.edges.keys()), 0
        while at != edge[0] and at in after and count <= len(after):
            at, count = after[at], count + 1
        return count

    def _put(self, step: Step) -> None:
        self.steps.append(step)
        for fact in step.needs:
            self._follow(fact)

    def _follow(self, fact: Fact) -> None:
        """Where a fact comes from."""
        fact = _origin(self.run, fact)
        if fact in self.done:
            return
        self.done[fact] = None
        asks = self.run.embedded.asks and fact.row == len(self.run.names) - 1
        mine = int(self.which[fact.row])
        if fact.after == 0 or fact.after <= self.run.first:
            ends = (mine, fact.held) if fact.block == "reach" else (fact.held, mine)
            if ends[0] != ends[1] and not asks:
                self.edges[ends] = None
            if fact.after == 0:
                return
        before = fact.after - 1
        for cell in self.cells:
            if cell.layer != before or cell.query != fact.row:
                continue
            if before < self.run.first:  # the layer that carries: head 0 sources, head 1 targets
                if cell.head == int(fact.block == "reach") and self.which[cell.key] == fact.held:
                    self.steps.append(Step(cell, fact, ()))
                    return
                continue
            needs = self._brought(fact, cell)
            if needs is not None:
                self._put(Step(cell, fact, needs))
                return

    def _brought(self, fact: Fact, cell: Cell) -> tuple[Fact, ...] | None:
        """What has to hold for a cell to bring a fact; None if it does not."""
        x, before = self.run.states[cell.layer], cell.layer
        back = None if x.back is None else fact.block == "back"
        if (back is None) != (cell.head == 0 and x.back is None) or (back is not None and cell.head != int(back)):
            return None
        if not _holds(self.run, Fact(before, cell.key, fact.held, fact.block)):
            return None
        theirs = Fact(before, cell.key, fact.held, fact.block)
        if x.back is None:
            match = Fact(before, cell.query, int(self.which[cell.key]), "reach")
            return (match, theirs) if _holds(self.run, match) else None
        ours, other = ("back", "reach") if back else ("reach", "back")
        met = np.flatnonzero((getattr(x, ours)[cell.query] > 0.5) & (getattr(x, other)[cell.key] > 0.5))
        if not len(met):
            return None
        at = int(met[0])
        return Fact(before, cell.query, at, ours), Fact(before, cell.key, at, other), theirs
