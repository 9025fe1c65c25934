"""A trace as a picture: X → W_Q, W_K, W_V → scores → A → Z, with the numbers of one head in it, as SVG.

>>> from regard.steps import forward
>>> from regard.matrix import matrix
>>> x = np.eye(2)
>>> t = Steps()
>>> t.steps = forward(Given(q=x, k=x, v=x, scale=0.0))
>>> svg = str(Diagram(Given(q=x, k=x, v=x, scale=0.0), t, matrix(x, x, v=x, scale=0.0)))
>>> svg.startswith("<svg"), svg.count(">0.5</text>")
(True, 8)
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from regard.matrix import AttentionMatrix
from regard.steps import Given, Step, Steps
from regard.view.colour import DARK, LIGHT, STEPS, Scale, Theme, ink_on
from regard.view.desk import Desk, last_scores
from regard.view.figures import decimals, figure
from regard.view.panel import GAP, NAME, TALL, Panel
from regard.view.reading import CAUTION
from regard.view.text import short, width, wrap

Array = np.ndarray[Any, Any]

APART, BELOW = 46.0, 34.0  # pixels between matrices, across and down
LEVELS = 64  # colours by name, so that a dark page can change them
FAINTER = 0.4  # how strong the colours are of what is neither scores nor weights
SMALLEST = 0.7  # of its size; a page that is narrower lets it be scrolled
NIGHT = (  # what a dark page changes, beside the colours of cells
    *(("sheet", "fill:{paper}"), ("p", "fill:{ink}"), ("b", "fill:{ink}"), ("f", "fill:{faint}")),
    *(("q", "fill:{query}"), ("k", "fill:{key}"), ("nan", "fill:{nan}"), ("line", "stroke:{faint}")),
    *(("head", "fill:{faint}"), ("edge", "stroke:{hatch}"), ("hatch", "stroke:{hatch}"), ("hide", "fill:{hidden}")),
    ("mark", "stroke:{query}"),
)
THEMES = {"auto": LIGHT, "light": LIGHT, "dark": DARK}


class Diagram:
    """The picture of a trace: `str` is its SVG, notebooks show it, and `save` writes it."""

    def __init__(
        self, given: Given, steps: Steps, matrix: AttentionMatrix, row: Any = None, head: Any = None,
        digits: int | None = None, theme: str = "auto",
    ):  # fmt: skip
        if theme not in THEMES:
            raise ValueError(f"theme is {theme!r}, expected 'auto', 'light' or 'dark'")
        self.desk = Desk.of(given, steps, matrix, row, head, digits, True)
        self.theme = theme

    def save(self, path: str | Path) -> None:
        """Write it as a file that browsers and drawing programs open."""
        if Path(path).suffix.lower() != ".svg":
            raise ValueError(f"path is {str(path)!r}, expected a name that ends in .svg: the diagram is SVG")
        Path(path).write_text(str(self) + "\n", encoding="utf-8")

    def svg(self, caution: bool = True) -> str:
        """The SVG; without the caution where one stands beside it already."""
        return Drawing(self.desk, self.theme).svg(caution)

    def __str__(self) -> str:
        return self.svg()

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        n, m = self.desk.steps["weights"].value.shape[-2:]
        return f"Diagram: {n} × {m} weights, SVG; save('attention.svg') writes it"


class Drawing:
    """A diagram while it is drawn."""

    def __init__(self, desk: Desk, theme: str):
        self.desk, self.auto, self.theme = desk, theme == "auto", THEMES[theme]
        self.used: dict[str, tuple[Scale, int]] = {}  # classes of colours, and what they stand for
        self.parts: list[str] = []
        self.hatch = f"regard-hatch-{theme}"
        self.panels: list[Panel] = []

    # What is drawn.

    def _panel(self, name: str, equation: str, value: Array, axes: tuple[str, str], *, mark: int | None = None,
               step: Step | None = None, keep: Sequence[int] = ()) -> Panel:  # fmt: skip
        desk = self.desk
        called = {"query": (desk.queries.names, "q"), "key": (desk.keys.names, "k"), "": ((), "")}
        finite = value[np.isfinite(value)]
        weights = step is not None and step.name == "weights"
        about = Scale.of_scores(float(np.abs(finite).max(initial=0)))
        scale = Scale.of_weights(value.shape[1]) if weights else about
        rows, columns = called[axes[0]], called[axes[1]]
        # The diagram is read at a glance: three figures do.
        places = min(3, decimals(value, desk.digits))
        made = Panel(name, equation, value, places, scale, 1.0 if step is not None else FAINTER, rows[0], columns[0],
                     (rows[1], columns[1]), mark, ((desk.key,) if axes[0] == "key" else (), keep))  # fmt: skip
        self.panels.append(made)
        return made

    def _lay_out(self) -> tuple[float, float]:
        """Make the panels and set them down; the size of the whole."""
        desk, g = self.desk, self.desk.given
        row, key = desk.row, desk.key
        at = 12.0
        three = [
            self._panel("Q", desk.steps["q"].equation, desk.two(g.q), ("query", ""), mark=row),
            self._panel("K", desk.steps["k"].equation, desk.two(g.k), ("key", "")),
            self._panel("V", desk.steps["v"].equation, desk.two(g.v), ("key", "")),
        ]
        inputs, projections = self._inputs()
        lanes = [
            max(p.outer[1] for p in pair)
            for pair in (zip(three, projections, strict=True) if projections else [(p,) for p in three])
        ]
        middles, y = [], 12.0
        for pair_tall, panel, other in zip(lanes, three, projections or three, strict=True):
            top = max(panel.top, other.top)
            tall = max(panel.inner[1], other.inner[1])
            middles.append(y + top + tall / 2)
            y += max(pair_tall, top + tall) + BELOW
        bottom = y
        if inputs:
            # X alone stands in the middle of the lanes; beside a context, it stands at the queries' lane.
            heights = [middles[1]] if len(inputs) == 1 else [middles[0], (middles[1] + middles[2]) / 2]
            for panel, middle in zip(inputs, heights, strict=True):
                panel.put(at, max(middle, 12 + panel.top + panel.inner[1] / 2))
            at += max(p.outer[0] for p in inputs) + APART
            for panel, middle in zip(projections, middles, strict=True):
                panel.put(at, middle)
            at += max(p.outer[0] for p in projections) + APART
            self._arrows_in(inputs, projections, three)
        for panel, middle in zip(three, middles, strict=True):
            panel.put(at, middle)
        at += max(p.outer[0] for p in three) + APART
        for w, panel in zip(projections, three, strict=True) if projections else ():
            self._arrow(w.port("right"), panel.port("left"))
        middle = (middles[0] + middles[1]) / 2
        return self._follow(three, at, middle, bottom, key)

    def _inputs(self) -> tuple[list[Panel], list[Panel]]:
        desk, g = self.desk, self.desk.given
        if g.x is None:
            return [], []
        inputs = [self._panel("X", "X", desk.two(g.x, "item"), ("query", ""), mark=desk.row)]
        if g.context is not None:
            inputs.append(self._panel("C", "C, the context", desk.two(g.context, "item"), ("key", "")))
        made = []
        for letter, w, whole in (("Q", g.w_q, g.q), ("K", g.w_k, g.k), ("V", g.w_v, g.v)):
            assert w is not None
            first, last = desk.slice(w, whole)
            of = f", head {desk.head}" if desk.heads > 1 else ""
            made.append(self._panel(f"W_{letter}", f"W_{letter}{of}", w[:, first:last], ("", "")))
        return inputs, made

    def _arrows_in(self, inputs: list[Panel], projections: list[Panel], three: list[Panel]) -> None:
        x, source = inputs[0], inputs[-1]
        for panel, of in zip(projections, (x, source, source), strict=True):
            self._arrow(of.port("right"), panel.port("left"))

    def _follow(self, three: list[Panel], at: float, middle: float, bottom: float, key: int) -> tuple[float, float]:
        """Scores, weights, output and what comes after."""
        desk, g = self.desk, self.desk.given
        q, k, v = three
        final, weights, output = last_scores(desk.steps), desk.steps["weights"], desk.steps["output"]
        by = "" if final.name == "scaled" else ", " + ", ".join(
            {"modified": "modified", "biased": "with bias", "masked": "masked"}[s.name]
            for s in desk.steps.steps if s.name in ("modified", "biased", "masked")
        )  # fmt: skip
        scaled = f" / √{g.q.shape[-1]}" if g.scale is None else "" if g.scale == 1 else f" · {g.scale:g}"
        top = desk.top(5)
        sink = ", sink" if g.sinks is not None else ""
        values = desk.two(final.value), desk.two(weights.value)
        equations = f"{final.symbol} = Q·Kᵀ{scaled}{by}", f"A = softmax({final.symbol}){sink}"
        s, a = (
            self._panel(step.symbol, equation, value, step.axes, mark=desk.row, step=step, keep=top)
            for step, equation, value in zip((final, weights), equations, values, strict=True)
        )
        z = self._panel("Z", "Z = A·V", desk.two(output.value), output.axes, mark=desk.row)
        line = [s, a, z]
        if "merged" in desk.steps and desk.heads > 1:
            merged = desk.two(desk.steps["merged"].value, "item")
            wide = merged.shape[1] // desk.heads
            own = range(desk.head * wide, (desk.head + 1) * wide)
            line.append(self._panel("M", f"M = {desk.heads} heads, concat", merged, ("query", ""), mark=desk.row,
                                    keep=list(own)[:3]))  # fmt: skip
        if "projected" in desk.steps:
            step = desk.steps["projected"]
            line.append(self._panel("Y", step.equation, desk.two(step.value, "item"), step.axes, mark=desk.row))
        middle = max(middle, max(12 + p.top + p.inner[1] / 2 for p in line))
        before: Panel | None = None
        for panel in line:
            panel.put(at, middle)
            at += panel.outer[0] + APART
            if before is None:
                self._arrow(q.port("right"), panel.port("left"))
                self._arrow(k.port("right"), panel.port("left"))
            else:
                self._arrow(before.port("right"), panel.port("left"))
            before = panel
        bottom = max(bottom, max(p.y + p.inner[1] for p in line) + BELOW)
        self._elbow(v.port("right"), z.port("bottom"))
        return at - APART + 12, bottom

    # Drawing.

    def _arrow(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        (x0, y0), (x1, y1) = start, end
        bend = (x1 - x0) / 2
        self.parts.append(
            f"<path class='line' d='M{x0:.1f} {y0:.1f}C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {y1:.1f} "
            f"{x1 - 5:.1f} {y1:.1f}' fill='none' stroke='{self.theme.faint}' stroke-width='1.4'/>"
            f"<path class='head' d='M{x1:.1f} {y1:.1f}l-8 -4v8z' fill='{self.theme.faint}'/>"
        )

    def _elbow(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        (x0, y0), (x1, y1) = start, end
        self.parts.append(
            f"<path class='line' d='M{x0:.1f} {y0:.1f}H{x1 - 12:.1f}Q{x1:.1f} {y0:.1f} {x1:.1f} {y0 - 12:.1f}"
            f"V{y1 + 6:.1f}' fill='none' stroke='{self.theme.faint}' stroke-width='1.4'/>"
            f"<path class='head' d='M{x1:.1f} {y1:.1f}l-4 8h8z' fill='{self.theme.faint}'/>"
        )

    def _text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start", way: str = "") -> None:
        inks = {"q": self.theme.query, "k": self.theme.key, "f": self.theme.faint, "b": self.theme.ink}
        weight = " font-weight='700'" if kind == "b" else ""
        at = way or f"x='{x:.1f}' y='{y:.1f}'"
        ink = inks.get(kind, self.theme.ink)
        self.parts.append(
            f"<text class='{kind or 'p'}' {at} fill='{ink}' text-anchor='{anchor}'{weight}>{escape(text)}</text>"
        )

    def _draw(self, panel: Panel) -> None:
        w, h = panel.inner
        self._text(panel.x, panel.y - panel.top + 16, panel.equation.removesuffix(" is given"), "b")
        self._text(panel.x, panel.y - panel.top + 31, panel.shape, "f")
        y = panel.y
        x = panel.x
        for j, head in zip(panel.columns, panel.heads, strict=True):
            wide = GAP if j is None else panel.wide
            if head and panel.slanted:
                way = f"transform='translate({x + wide / 2:.1f} {panel.y - 6:.1f}) rotate(-45)'"
                self._text(0, 0, head, panel.inks[1], way=way)
            elif head:
                self._text(x + wide / 2, panel.y - 6, head, panel.inks[1], "middle")
            x += wide
        for i, name in zip(panel.rows, panel.names, strict=True):
            tall = GAP if i is None else TALL
            if name:
                self._text(panel.x - 6, y + tall / 2 + 4, name, panel.inks[0], "end")
            x = panel.x
            for j in panel.columns:
                wide = GAP if j is None else panel.wide
                if i is not None and j is not None:
                    self._cell(panel, i, j, x, y)
                else:
                    sign = "⋱" if i is None and j is None else "⋮" if i is None else "…"
                    self._text(x + wide / 2, y + tall / 2 + 4, sign, "f", "middle")
                x += wide
            if i is not None and i == panel.mark:
                self.parts.append(
                    f"<rect class='mark' x='{panel.x - 2:.1f}' y='{y - 1:.1f}' width='{w + 4:.1f}' "
                    f"height='{TALL + 2:.1f}' rx='3' fill='none' stroke='{self.theme.query}' stroke-width='2'/>"
                )
            y += tall
        self.parts.append(
            f"<rect class='edge' x='{panel.x:.1f}' y='{panel.y:.1f}' width='{w:.1f}' height='{h:.1f}' fill='none' "
            f"stroke='{self.theme.hatch}'/>"
        )

    def _cell(self, panel: Panel, i: int, j: int, x: float, y: float) -> None:
        value = float(panel.values[i, j])
        text = panel.text(i, j)
        tip = f"{panel.name}[{self._called(panel, 0, i)}, {self._called(panel, 1, j)}] = {text}"
        box = f"x='{x:.1f}' y='{y:.1f}' width='{panel.wide:.1f}' height='{TALL:.1f}'"
        ink = f"fill='{self.theme.ink}' class='p'"
        if np.isfinite(value):
            weights = panel.scale.kind != "diverging"
            place = float(panel.scale.place(value))
            place = place if weights else 0.5 + (place - 0.5) * panel.strength
            name = self._level(panel.scale, place)
            paper = self._paper(self.theme, *self.used[name])
            fill = f"class='{name}' fill='{_hex(paper)}'"
            ink = f"class='{name}i' fill='{_hex(ink_on(paper))}'"
        elif value == -np.inf:
            fill = f"fill='url(#{self.hatch})'"
        else:
            fill = f"class='nan' fill='{self.theme.nan}'"
        self.parts.append(
            f"<rect {box} {fill}><title>{escape(tip)}</title></rect>"
            f"<text x='{x + panel.wide / 2:.1f}' y='{y + TALL / 2 + 4:.1f}' {ink} text-anchor='middle' "
            f"style='font-size:11px;pointer-events:none'>{text}</text>"
        )

    def _called(self, panel: Panel, axis: int, place: int) -> str:
        names = (panel.down, panel.across)[axis]
        return names[place] if names else str(place)

    def _level(self, scale: Scale, place: float) -> str:
        """The class of a colour."""
        level = round(place * (LEVELS - 1))
        name = f"{'d' if scale.kind == 'diverging' else 'w'}{level}"
        self.used[name] = scale, level
        return name

    @staticmethod
    def _paper(theme: Theme, scale: Scale, level: int) -> tuple[int, int, int]:
        red, green, blue = map(int, scale.table(theme)[round(level * (STEPS - 1) / (LEVELS - 1))])
        return red, green, blue

    def _legend(self, y: float) -> float:
        """The two scales, and what is hidden; how far they reach across."""
        x = 12.0
        final = last_scores(self.desk.steps).symbol
        s, a = (next(p for p in self.panels if p.name == name) for name in (final, "A"))
        for panel, title in ((s, "scores, about 0:"), (a, "weights:")):
            self._text(x, y + 10, title, "f")
            x += width(title) * NAME + 8
            low, high = (t.replace("-", "−") for t in (short(panel.scale.low), short(panel.scale.high)))
            self._text(x, y + 10, low, "f")
            x += width(low) * NAME + 5
            for k in range(24):
                name = self._level(panel.scale, k / 23)
                paper = _hex(self._paper(self.theme, *self.used[name]))
                self.parts.append(
                    f"<rect class='{name}' x='{x:.1f}' y='{y:.1f}' width='5.5' height='12' fill='{paper}'/>"
                )
                x += 5
            self._text(x + 6, y + 10, high, "f")
            x += width(high) * NAME + 30
        if (s.values == -np.inf).any():
            self.parts.append(f"<rect x='{x:.1f}' y='{y:.1f}' width='16' height='12' fill='url(#{self.hatch})'/>")
            self._text(x + 22, y + 10, "hidden", "f")
            x += 22 + 6 * NAME + 30
        return x - 18

    def _blend(self) -> str:
        """The marked row of Z as a mixture of rows of V."""
        desk = self.desk
        a = next(p for p in self.panels if p.name == "A")
        line = a.values[desk.row]
        shown = [j for j in desk.top(4) if line[j]]
        terms = [f"{figure(float(line[j]), a.decimals)}·V[{desk.keys[j]}]" for j in shown]
        more = " + …" if np.count_nonzero(line) > len(shown) else ""
        return f"Z[{desk.queries[desk.row]}] = {' + '.join(terms) or '0'}{more}"

    def svg(self, caution: bool) -> str:
        """All of it."""
        n, m = self.desk.steps["weights"].value.shape[-2:]
        if not n or not m:
            return self._whole(320, 40, ["<text x='12' y='24'>Nothing to draw.</text>"])
        across, y = self._lay_out()
        for panel in self.panels:
            self._draw(panel)
        self._text(12, y + 4, self._blend(), "q")
        across = max(across, 24 + width(self._blend()) * NAME, self._legend(y + 18) + 12)
        y += 48
        for line in wrap(CAUTION, int((across - 24) / NAME)) if caution else ():
            self._text(12, y, line, "f")
            y += 16
        return self._whole(across, y, self.parts)

    def _whole(self, w: float, h: float, parts: list[str]) -> str:
        theme = self.theme
        night = ""
        if self.auto:
            rules = [(kind, rule.format(**vars(DARK))) for kind, rule in NIGHT]
            for name, of in sorted(self.used.items()):
                paper = self._paper(DARK, *of)
                rules += [(name, f"fill:{_hex(paper)}"), (f"{name}i", f"fill:{_hex(ink_on(paper))}")]
            plain = "".join(f".regard-diagram .{kind}{{{rule}}}" for kind, rule in rules)
            night = f"@media(prefers-color-scheme:dark){{{plain}}}"
        style = (
            ".regard-diagram{max-width:100%;height:auto}"
            ".regard-diagram text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
            ".regard-diagram .b{font-weight:700}" + night
        )
        hatch = (
            f"<defs><pattern id='{self.hatch}' width='6' height='6' patternUnits='userSpaceOnUse'>"
            f"<rect class='hide' width='6' height='6' fill='{theme.hidden}'/>"
            f"<path class='hatch' d='M-1 7L7-1M-1 1L1-1M5 7L7 5' stroke='{theme.hatch}'/></pattern></defs>"
        )
        label = "Attention as a diagram: inputs, projections, scores, weights and output, with their numbers"
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' class='regard-diagram' width='{w:.0f}' height='{h:.0f}' "
            f"style='min-width:{w * SMALLEST:.0f}px' "
            f"viewBox='0 0 {w:.0f} {h:.0f}' role='img' aria-label='{label}'><style>{style}</style>{hatch}"
            f"<rect class='sheet' width='100%' height='100%' fill='{theme.paper}'/>{''.join(parts)}</svg>"
        )


def _hex(colour: tuple[int, int, int]) -> str:
    return "#" + "".join(f"{c:02x}" for c in colour)
