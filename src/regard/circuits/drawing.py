"""Path-merging as SVG: the graph and all sets, layer by layer. It fetches nothing and runs nothing.

>>> from regard.circuits.path_merging import path_merging
>>> picture = svg(path_merging([("<a>", "b"), ("b", "c")]))
>>> picture.startswith("<svg"), "&lt;a&gt;" in picture, "<a>" in picture
(True, True, False)
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.circuits.graphs import Vertex
from regard.circuits.picture import Stage, answered, cover, layout, said, stages, start_of
from regard.view.colour import DARK, LIGHT, Theme, rgb
from regard.view.png import png, uri
from regard.view.text import clean, clip, width

if TYPE_CHECKING:
    from regard.circuits.path_merging import PathMerging

Array = np.ndarray[Any, Any]

MOST = 200  # vertices of a graph that is drawn; of a larger one the sets alone are
WIDE, SIDE, GAP = 640, 150, 40  # pixels: of a graph, of a picture of sets, between them
LARGE = 300  # of a picture of sets that stands alone
STEP, LINE = 96, 34  # between columns and rows of vertices, at most
TALL = 230  # of a graph, at most
ROUND, NAMED = 11, 7.5  # radius of a vertex, at most; from where on it has its name in it
LETTER = 7.3  # pixels of a column of text of 12 pixels
CAPTION, BELOW = 30, 30  # above a stage, and under it

STYLE = """.regard-graph text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:%(ink)s}
.regard-graph .title{font:600 13px system-ui,sans-serif}.regard-graph .soft{fill:%(faint)s}
.regard-graph .sheet{fill:%(paper)s}.regard-graph .frame{fill:none;stroke:%(hatch)s}
.regard-graph .edge{fill:none;stroke:%(hatch)s;stroke-width:1}.regard-graph .tip{fill:%(hatch)s}
.regard-graph .in{stroke:%(faint)s}.regard-graph .look{fill:none;stroke:%(query)s;stroke-width:1.6}
.regard-graph .lookTip{fill:%(query)s}.regard-graph .not{fill:%(paper)s;stroke:%(hatch)s}
.regard-graph .held{fill:%(held)s;stroke:%(new)s}.regard-graph .new{fill:%(new)s;stroke:%(new)s}
.regard-graph .mark{fill:none;stroke:%(query)s;stroke-width:2}
.regard-graph .name{font-size:10px}.regard-graph text.onNew{fill:%(onNew)s}.regard-graph text.onHeld{fill:%(onHeld)s}
.regard-graph text.onNot{fill:%(faint)s}
"""


def _colours(theme: Theme) -> dict[str, str]:
    dark = theme is DARK
    mine = {"held": theme.ramp[1], "new": theme.ramp[3 if dark else 2]}
    inks = {"onNew": "#15171b" if dark else "#ffffff", "onHeld": "#ffffff" if dark else "#06142b"}
    return {**vars(theme), **mine, **inks}


def _defs() -> str:
    """Colours by day and by night, and the tips of arrows."""
    style = STYLE % _colours(LIGHT) + ".regard-graph .dark{display:none}"
    night = STYLE % _colours(DARK) + ".regard-graph .dark{display:inline}.regard-graph .day{display:none}"
    heads = "".join(
        f"<marker id='regard-{name}' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='{size}' "
        f"markerHeight='{size}' orient='auto-start-reverse' markerUnits='userSpaceOnUse'>"
        f"<path class='{name}' d='M0 .8L8 4L0 7.2z'/></marker>"
        for name, size in (("tip", 6), ("lookTip", 8))
    )
    return f"<style>{style}@media(prefers-color-scheme:dark){{{night}}}</style><defs>{heads}</defs>"


def sheet(title: str, wide: float, high: float, parts: list[str]) -> str:
    """A picture that is whole in itself, on a sheet that is light or dark as the reader's system is."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='regard-graph' width='{wide:.0f}' height='{high:.0f}' "
        f"viewBox='0 0 {wide:.0f} {high:.0f}' role='img' aria-label='{escape(title, quote=True)}'>"
        f"<rect class='sheet' width='{wide:.0f}' height='{high:.0f}'/>{_defs()}{''.join(parts)}</svg>"
    )


def svg(circuit: PathMerging, start: Vertex | None = None) -> str:
    """The graph with the set of one vertex, and beside it the sets of all, a row for each state of the circuit. Arcs go
    to a few vertices that it looks at in that layer whose sets bring all that is new."""
    at = start_of(circuit, start)
    drawn = _Drawing(circuit, at)
    return drawn.svg()


class _Drawing:
    def __init__(self, circuit: PathMerging, at: int):
        self.circuit, self.at, self.graph = circuit, at, circuit.graph
        self.n = len(self.graph.vertices)
        self.seen = stages(circuit, at) if self.n else []
        self.with_graph = 0 < self.n <= MOST
        self.side = SIDE if self.with_graph else LARGE
        columns, rows = layout(self.graph, at) if self.with_graph else (np.zeros(self.n), np.zeros(self.n))
        # Sets in the order of the columns, so that what is near stands near the diagonal.
        self.order = np.lexsort((rows, columns))
        across, down = int(columns.max(initial=0)), float(np.ptp(rows)) if self.n else 0.0
        self.dx, self.dy = min(STEP, (WIDE - 40) / max(1, across)), min(LINE, TALL / max(1.0, down))
        near = min(self.dx, self.dy if down else STEP)
        self.radius = max(1.2, min(ROUND, 0.4 * near))
        self.arc = 40.0 if down < 2 else 12.0  # room above the graph for arcs
        graph = down * self.dy + 2 * ROUND + self.arc
        self.tall = max(float(self.side), graph) if self.with_graph else float(self.side)
        top = (self.tall + self.arc) / 2
        self.x, self.y = 20 + columns * self.dx, top + (rows - (rows.min(initial=0) + down / 2)) * self.dy
        self.graph_wide = max(240.0, 40 + across * self.dx) if self.with_graph else 0.0
        self.names = [clean(self.graph.name(v)) for v in range(self.n)]

    def svg(self) -> str:
        left = self.graph_wide + (GAP if self.with_graph else 16)
        title = self._title()
        wide = max(left + self.side + 24, 16 + 7.6 * width(title), 810 if self.with_graph else 560)
        head, each = 66, CAPTION + self.tall + BELOW
        parts = [f"<text class='title' x='16' y='24'>{escape(title)}</text>"]
        parts.append(self._legend(46))
        for i, stage in enumerate(self.seen):
            y = head + i * each
            parts.append(f"<g transform='translate(16 {y:g})'>")
            parts.append(
                f"<text x='0' y='14'><tspan class='title'>{escape(stage.name)}</tspan>"
                f"<tspan class='soft' dx='10'>{escape(self._caption(i, stage))}</tspan></text></g>"
            )
            parts.append(f"<g transform='translate(16 {y + CAPTION:g})'>")
            if self.with_graph:
                parts += self._graph(i, stage)
            parts.append(self._sets(i, left - 16))
            parts.append("</g>")
        high = head + each * len(self.seen)
        if self.graph.query is not None:
            parts.append(f"<text class='title' x='16' y='{high + 10:g}'>{escape(answered(self.circuit))}</text>")
            high += 26
        return sheet(title, wide, high, parts)

    def _title(self) -> str:
        of = self.circuit
        rows = "a row for each vertex" if of.form == "vertex" else "a row for each token of the edge list"
        return f"Path-merging: {self.n} vertices, {len(self.graph.edges)} edges, {rows}, C = {of.strength:.3g}"

    def _caption(self, i: int, stage: Stage) -> str:
        looked = self._looked(i)
        told = f"{self.names[self.at]} reaches {said(stage)}"
        if looked:
            some = ", ".join(self.names[v] for v in looked[:4]) + (", …" if len(looked) > 4 else "")
            told += f"; it looked at {some}" if self.with_graph else ""
        return told

    def _looked(self, i: int) -> list[int]:
        """Whom the start looked at to get here; in layers that merge."""
        return cover(self.circuit, i - 1, self.at) if i > self.circuit.first else []

    def _legend(self, y: float) -> str:
        parts, x = [], 22.0
        for kind, what in (("new", "new"), ("held", "held"), ("not", "not yet")):
            parts.append(f"<circle class='{kind}' cx='{x:g}' cy='{y - 4:g}' r='5'/>")
            parts.append(f"<text class='soft' x='{x + 10:g}' y='{y:g}'>{what}</text>")
            x += 28 + LETTER * len(what)
        if self.with_graph:
            parts.append(f"<path class='look' marker-end='url(#regard-lookTip)' d='M{x:g} {y - 1:g}q12 -10 24 -2'/>")
            what = "looks at, and takes over its set"
            parts.append(f"<text class='soft' x='{x + 32:g}' y='{y:g}'>{what}</text>")
            x += 50 + LETTER * len(what)
        parts.append(f"<text class='soft' x='{x:g}' y='{y:g}'>square: row reaches column, all vertices</text>")
        return "".join(parts)

    def _curve(self, u: int, v: int, bend: float) -> str:
        """From the rim of one vertex to that of another, bent to the left by a share of its length."""
        a, b = np.array([self.x[u], self.y[u]]), np.array([self.x[v], self.y[v]])
        along = b - a
        middle = (a + b) / 2 + np.array([along[1], -along[0]]) * bend
        if abs(bend) > 0.2:  # an arc over the graph stays on the sheet
            middle[1] = max(middle[1], -self.arc)
        ends = []
        for point in (a, b):
            way = middle - point
            ends.append(point + way / max(1e-9, float(np.hypot(*way))) * (self.radius + 1.5))
        (x1, y1), (x2, y2) = ends
        return f"M{x1:.1f} {y1:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {x2:.1f} {y2:.1f}"

    def _graph(self, i: int, stage: Stage) -> list[str]:
        parts = []
        for u, v in dict.fromkeys(self.graph.edges):
            flat = abs(self.x[u] - self.x[v]) < 1 or abs(self.x[u] - self.x[v]) > 1.5 * self.dx
            inside = " in" if stage.reached[u] and stage.reached[v] else ""
            bend = 0.18 if flat else 0.0
            parts.append(f"<path class='edge{inside}' marker-end='url(#regard-tip)' d='{self._curve(u, v, bend)}'/>")
        for v in self._looked(i):
            bend = 0.28 if self.x[v] >= self.x[self.at] else -0.28
            parts.append(f"<path class='look' marker-end='url(#regard-lookTip)' d='{self._curve(self.at, v, bend)}'/>")
        for v in range(self.n):
            kind = "new" if stage.new[v] else "held" if stage.reached[v] else "not"
            at = f"cx='{self.x[v]:.1f}' cy='{self.y[v]:.1f}'"
            tip = f"<title>{escape(self.names[v])}: {'not yet' if kind == 'not' else kind}</title>"
            parts.append(f"<circle class='{kind}' {at} r='{self.radius:.1f}'>{tip}</circle>")
            if v == self.at:
                parts.append(f"<circle class='mark' {at} r='{self.radius + 3:.1f}'/>")
            if self.radius >= NAMED and width(self.names[v]) <= 3:
                parts.append(
                    f"<text class='name on{kind.capitalize()}' x='{self.x[v]:.1f}' y='{self.y[v] + 3.5:.1f}' "
                    f"text-anchor='middle'>{escape(clip(self.names[v], 3))}</text>"
                )
        return parts

    def _sets(self, i: int, left: float) -> str:
        """All sets as a square: a row for each vertex, a column for each that it may reach."""
        now = self.circuit.together(i)[np.ix_(self.order, self.order)]
        before = self.circuit.together(i - 1)[np.ix_(self.order, self.order)] if i else np.zeros_like(now)
        places = np.where(now & ~before, 2, np.where(now, 1, 0)).astype(np.uint8)
        top = (self.tall - self.side) / 2
        box = f"x='{left:g}' y='{top:g}' width='{self.side}' height='{self.side}'"
        parts = []
        for theme, which in ((LIGHT, "day"), (DARK, "dark")):
            colours = _colours(theme)
            table = np.array([rgb(colours[name]) for name in ("paper", "held", "new")], np.uint8)
            parts.append(
                f"<image class='{which}' {box} preserveAspectRatio='none' style='image-rendering:pixelated' "
                f"href='{uri(png(places, table))}'/>"
            )
        parts.append(f"<rect class='frame' {box}/>")
        share = f"{int(now.sum())} pairs"
        parts.append(f"<text class='soft' x='{left:g}' y='{top + self.side + 15:g}'>{share}</text>")
        return "".join(parts)
