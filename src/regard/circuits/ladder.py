"""The explanation graph as SVG: rows side by side, layers upwards from the edges to the answer, a line for each cell.

>>> from regard.circuits.path_merging import path_merging
>>> svg(path_merging([(0, 1), (1, 2), (2, 3)], query=(0, 3), rows="vertex").explain()).count("class='look'")
2
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from regard.circuits.drawing import sheet
from regard.view.text import clean, clip, width

if TYPE_CHECKING:
    from regard.circuits.explanation import Explanation

STEP, RISE, LEFT, TOP = 46, 64, 92, 74  # pixels: between rows, between layers, before the first row, above the answer
ROUND = 13  # radius of a row


def svg(of: Explanation) -> str:
    """The kept cells from the answer down to the edges. Under them stand the edges themselves."""
    links = list(dict.fromkeys(of.links()))
    circuit, names = of.circuit, [clean(x) for x in of.circuit.names]
    nodes = sorted({end for a, b, _ in links for end in (a, b)})
    along = {v: i for i, v in enumerate(circuit.graph.place(v) for v in of.path)}
    at, last = circuit.at, len(names) - 1
    # In the order of the way that was found; the row that asks comes last.
    rows = sorted({row for _, row in nodes}, key=lambda r: (r == last, along.get(int(at[r]), len(along)), r))
    top = len(circuit.layers)
    x = {row: LEFT + STEP * i for i, row in enumerate(rows)}
    y = {level: TOP + ROUND + RISE * (top - level) for level in range(top + 1)}
    said = {(step.cell.layer, step.cell): of.said(step) for step in of.steps}
    title = f"The answer is {clean(str(of.answer))}: {len(of.kept)} of {of.bright} bright cells were kept"
    under = f"each line is a cell: its upper row looks at its lower one · {of.dropped} bright cells did not change it"
    parts = [
        f"<text class='title' x='16' y='24'>{escape(title)}</text>",
        f"<text class='soft' x='16' y='44'>{escape(under)}</text>",
    ]
    for level, layer in enumerate(circuit.layers):
        middle = (y[level] + y[level + 1]) / 2 + 4
        parts.append(f"<text class='soft' x='16' y='{middle:g}'>{escape(layer.name)}</text>")
    for (low, a), (high, b), cell in sorted(links, key=lambda link: link[2] is not None):
        kind = "edge" if cell is None else "look"
        tip = "" if cell is None else f"<title>{escape(said[cell.layer, cell])}</title>"
        line = f"M{x[a]:g} {y[low] - ROUND:g}L{x[b]:g} {y[high] + ROUND:g}"
        parts.append(f"<path class='{kind}' d='{line}'>{tip}</path>")
    for level, row in nodes:
        kind = "new" if level == top else "held"
        where = f"cx='{x[row]:g}' cy='{y[level]:g}'"
        tip = f"<title>{escape(names[row])}, row {row}</title>"
        parts.append(f"<circle class='{kind}' {where} r='{ROUND}'>{tip}</circle>")
        parts.append(
            f"<text class='name on{kind.capitalize()}' x='{x[row]:g}' y='{y[level] + 3.5:g}' text-anchor='middle'>"
            f"{escape(clip(names[row], 3))}</text>"
        )
    foot = y[0] + ROUND + 30
    edges = "edges: " + " · ".join(f"{clean(str(u))} → {clean(str(v))}" for u, v in of.edges)
    parts.append(f"<text x='16' y='{foot:g}'>{escape(edges)}</text>")
    wide = max(LEFT + STEP * len(rows), *(32 + 7.6 * width(line) for line in (title, under, edges)))
    return sheet(title, wide, foot + 16, parts)
