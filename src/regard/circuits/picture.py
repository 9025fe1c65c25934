"""Path-merging in letters: the set of one vertex, layer by layer, and the layout that the drawing uses too.

>>> from regard.circuits.path_merging import path_merging
>>> print(text(path_merging([(i, i + 1) for i in range(8)], rows="vertex")))
PathMerging: 9 vertices, 8 edges, one row per vertex, 3 layers, C = 5.78
what 0 reaches: ● new, ○ held, · not yet; vertices in the order of their distance
         0 1 2 3 4 5 6 7 8
start    ● ● · · · · · · ·  2 vertices, 1 step away
merge 1  ○ ○ ● · · · · · ·  3 vertices, up to 2 steps away
merge 2  ○ ○ ○ ● ● · · · ·  5 vertices, up to 4 steps away
merge 3  ○ ○ ○ ○ ○ ● ● ● ●  9 vertices, up to 8 steps away
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard.circuits.graphs import Graph, Vertex, distances
from regard.view.text import clean, clip, pad, width

if TYPE_CHECKING:
    from regard.circuits.path_merging import PathMerging

Array = np.ndarray[Any, Any]
NEW, HELD, NOT = "●", "○", "·"
SWEEPS = 8  # over the columns of a layout; more move nothing in graphs of a size that is drawn


def start_of(circuit: PathMerging, start: Vertex | None) -> int:
    """The place of the vertex whose set is shown: the one given, the query's start, or the one that reaches most."""
    if start is not None:
        return circuit.graph.place(start)
    if circuit.graph.query is not None:
        return circuit.graph.query[0]
    return int(circuit.together().sum(axis=1).argmax()) if circuit.graph.vertices else 0


class Stage(NamedTuple):
    """One state of the circuit, as one vertex sees it."""

    name: str
    reached: Array  # (vertices,) booleans
    new: Array  # (vertices,) those that were not reached a stage before
    steps: int  # how far away the farthest of them is


def stages(circuit: PathMerging, start: int) -> list[Stage]:
    """All of them, from what the rows hold before the first layer."""
    away = distances(circuit.graph, start)
    far = np.array([away.get(v, 0) for v in range(len(circuit.graph.vertices))])
    found: list[Stage] = []
    before = np.zeros(len(far), np.bool_)
    for after, name in enumerate(circuit.stages):
        reached = circuit.together(after)[start]
        found.append(Stage(name, reached, reached & ~before, int(far[reached].max(initial=0))))
        before = reached
    return found


def said(stage: Stage) -> str:
    """A stage in numbers."""
    count = int(stage.reached.sum())
    steps = "itself" if not stage.steps else "1 step away" if stage.steps == 1 else f"up to {stage.steps} steps away"
    return f"{count} {'vertex' if count == 1 else 'vertices'}, {steps}"


def text(circuit: PathMerging, start: Vertex | None = None, wide: int = 80) -> str:
    """The set of one vertex as it grows, a line for each layer, and the answer. What has no room is only counted."""
    lines = [repr(circuit)]
    if not circuit.graph.vertices:
        return lines[0]
    at = start_of(circuit, start)
    seen = stages(circuit, at)
    away = distances(circuit.graph, at)
    order = sorted(range(len(circuit.graph.vertices)), key=lambda v: (away.get(v, len(away) + 1), v))
    names = [clean(circuit.graph.name(v)) for v in order]
    left = max(len(stage.name) for stage in seen)
    right = max(len(said(stage)) for stage in seen)
    cell = max(map(width, names), default=1) + 1
    room = wide - left - right - 4
    named = cell * len(order) <= room and cell <= 4
    cell = cell if named else 1
    shown = order if cell * len(order) <= room else []
    signs = f": {NEW} new, {HELD} held, {NOT} not yet; vertices in the order of their distance" if shown else ""
    lines.append(f"what {clean(circuit.graph.name(at))} reaches{signs}")
    if named and shown:
        head = " ".join(pad(clip(name, cell - 1), cell - 1) for name in names)
        lines.append(f"{'':{left}}  {head}".rstrip())
    for stage in seen:
        row = "".join(pad(NEW if stage.new[v] else HELD if stage.reached[v] else NOT, cell) for v in shown)
        if row:
            row += " " * (1 if named else 2)
        lines.append(f"{stage.name:{left}}  {row}{said(stage)}")
    if circuit.graph.query is not None:
        lines.append(answered(circuit))
    return "\n".join(lines)


def answered(circuit: PathMerging) -> str:
    """The answer in a sentence."""
    assert circuit.graph.query is not None
    s, g = (clean(circuit.graph.name(v)) for v in circuit.graph.query)
    if circuit.answer is None:
        return f"from {s} to {g}: no path found"
    rest = [clean(str(v)) for v in circuit.answers if v != circuit.answer]
    more = f", or by {' or '.join(rest)}" if rest else ""
    return f"from {s} to {g}: by {clean(str(circuit.answer))}{more}"


def layout(graph: Graph, start: int) -> tuple[Array, Array]:
    """Where vertices stand: columns by their distance from the start, rows so that edges cross less. What the start
    does not reach stands by what it is next to.

    >>> [x.tolist() for x in layout(Graph((0, 1, 2), ((0, 1), (0, 2))), 0)]
    [[0, 1, 1], [0.0, -0.5, 0.5]]
    """
    n = len(graph.vertices)
    column: dict[int, int] = dict(distances(graph, start))
    near: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for u, v in graph.edges:
        near[u].append((v, 1))
        near[v].append((u, -1))
    waiting = list(column)
    for first in range(n):
        if first not in column and not waiting:
            column[first] = 0
            waiting = [first]
        while waiting:
            u = waiting.pop(0)
            for v, step in near[u]:
                if v not in column:
                    column[v] = column[u] + step
                    waiting.append(v)
    columns = np.array([column.get(v, 0) for v in range(n)], np.int64)
    columns -= columns.min(initial=0)
    row = np.zeros(n)
    members = [np.flatnonzero(columns == c) for c in range(int(columns.max(initial=0)) + 1)]
    for vertices in members:
        row[vertices] = np.arange(len(vertices)) - (len(vertices) - 1) / 2
    for sweep in range(SWEEPS):
        for vertices in members if sweep % 2 == 0 else members[::-1]:
            middle = [np.mean([row[v] for v, _ in near[u] if columns[v] != columns[u]] or [row[u]]) for u in vertices]
            order = vertices[np.argsort(middle, kind="stable")]
            row[order] = np.arange(len(order)) - (len(order) - 1) / 2
    return columns, row


def cover(circuit: PathMerging, after: int, start: int) -> list[int]:
    """Vertices that the start looks at in the layer after this state whose sets together bring all that is new: few of
    those that it looks at, each the one that brings most of what is missing."""
    before, then = circuit.together(after), circuit.together(after + 1)
    missing = then[start] & ~before[start]
    looked = before[start] if circuit.heads == 1 else before[before[start]].any(axis=0)
    found: list[int] = []
    while missing.any():
        gain = (before & missing).sum(axis=1) * looked
        best = int(gain.argmax())
        if not gain[best]:
            break
        found.append(best)
        missing &= ~before[best]
    return found
