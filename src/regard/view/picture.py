"""The matrix as a picture for notebooks: one piece of HTML that fetches nothing and runs nothing.

>>> from regard import matrix
>>> page = html(matrix(np.eye(2), np.eye(2), tokens=["<b>", "cat"]))
>>> page.count("<rect class='c"), "&lt;b&gt;" in page, "<b>" in page
(4, True, False)
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from regard.lens.heads import place_of
from regard.view.colour import DARK, LIGHT, STEPS, Scale, Theme, ink_on, rgb
from regard.view.grid import SAMPLED, Drawable, Grid, grid
from regard.view.png import png, uri
from regard.view.reading import CAUTION, called, even, names, notes, sentence, size, title, titles
from regard.view.text import clip, count, number, short, ticks, width

Array = np.ndarray[Any, Any]

BINS = 256  # rows and columns of the picture of one head at most
SMALL = 96  # of one of many heads
HEADS = 16  # pictures side by side
CELLS = 1 << 26  # cells in all; with more, queries are sampled, for nobody asked for the picture and waits for it
TIPS = 32  # rows and columns up to which each cell says its number when pointed at
SIDE, LARGEST, LEGIBLE, ROOMY = 560, 44, 11, 36  # pixels: of a picture; of a cell, at most; with a name; with a number
LETTER = 7.3  # pixels of a column of text of 12 pixels
LONGEST = 18  # columns of a name
LEVELS = 64  # colours that cells have by name, so that a dark page can change them

HUES = """.regard{color:%(ink)s;background:%(paper)s}
.regard .q{fill:%(query)s!important}.regard .k{fill:%(key)s!important}.regard .faint{color:%(faint)s}
"""
STYLE = (
    HUES
    + """.regard{font:13px/1.45 system-ui,sans-serif;padding:12px 16px;border-radius:6px;
display:inline-block;max-width:100%%;box-sizing:border-box}
.regard svg{display:block;max-width:100%%;height:auto;overflow:visible}
.regard svg text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:currentColor}
.regard .faint{max-width:60em;font-size:12px;margin-top:6px}
.regard .many{display:flex;flex-wrap:wrap;gap:12px 16px;margin:8px 0}
"""
)
NIGHT = (
    HUES
    + """.regard .day{display:none}.regard .dark{display:inline}
.regard .hide{fill:%(hidden)s}.regard .hatch{stroke:%(hatch)s}.regard .nan{fill:%(nan)s}
"""
)


def html(matrix: Drawable, head: Any = None) -> str:
    """A picture of one head, or of up to 16 heads, as HTML that needs nothing else.

    >>> from regard import matrix
    >>> "http" in html(matrix(np.eye(3), np.eye(3)))
    False
    """
    heads = int(np.prod(matrix.front, dtype=np.int64))
    if 0 in matrix.shape:
        return _page(f"<div>{escape(size(matrix))}: nothing to draw.</div>", Scale.of_weights(1))
    if head is None and heads > 1:
        return _many(matrix, heads)
    place = place_of(matrix, head)
    drawn = grid(matrix, place, BINS, BINS, cells=CELLS)
    words = sentence(matrix, place, drawn.row)
    return _page(
        f"<div>{escape(title(matrix, place, True))}</div>"
        + Head(matrix, place, drawn).svg()
        + _legend(drawn, matrix.turned)
        + f"<div>{escape(words)}</div>",
        drawn.scale(),
    )


def _many(matrix: Drawable, heads: int) -> str:
    pictures = []
    shown = min(heads, HEADS)
    bins = min(SMALL, SAMPLED)
    for flat in range(shown):
        place = place_of(matrix, flat)
        drawn = grid(matrix, place, bins, bins, cells=CELLS // shown)
        name = f"head {place[0] if len(place) == 1 else place}"
        words = sentence(matrix, place, drawn.row)
        pictures.append(f"<div><div>{escape(name)}</div>{Head(matrix, place, drawn).small(f'{name}: {words}')}</div>")
    front = " × ".join(map(str, matrix.front))
    down, across = titles(matrix.turned)
    remarks = "".join(f" · {note}" for note in notes(matrix))
    more = f" and {count(heads - shown)} more: A.show(head=…) draws any of them" if heads > shown else ""
    return _page(
        f"<div>{escape(f'{front} heads · {size(matrix)}{remarks}')} · {escape(down)} · {escape(across)}</div>"
        f"<div class='many'>{''.join(pictures)}</div>"
        + (f"<div>… {escape(more.strip())}</div>" if more else "")
        + _legend(drawn, matrix.turned),
        drawn.scale(),
    )


def _page(inside: str, scale: Scale) -> str:
    """What is shown, on a sheet of its own that is light or dark as the reader's system is."""
    places = np.linspace(0, STEPS - 1, LEVELS).round().astype(int)
    night = scale.table(DARK)[places]
    rules = "".join(
        f".regard .c{k}{{fill:{_hex(colour)}}}.regard .n{k}{{fill:{_hex(ink_on(tuple(map(int, colour))))}!important}}"  # type: ignore[arg-type]  # three numbers
        for k, colour in enumerate(night)
    )
    style = STYLE % vars(LIGHT) + "@media(prefers-color-scheme:dark){" + NIGHT % vars(DARK) + rules + "}"
    caution = f"<div class='faint'>{escape(CAUTION)}</div>"
    return f"<div class='regard'><style>{style}</style>{inside}{caution}</div>"


def _hex(colour: Any) -> str:
    return "#" + "".join(f"{int(c):02x}" for c in colour)


def _hatch() -> str:
    """What is hidden, as a pattern; all pictures have the same, so that it does not matter which one is found."""
    return (
        "<defs><pattern id='regard-hatch' width='6' height='6' patternUnits='userSpaceOnUse'>"
        f"<rect width='6' height='6' class='hide' fill='{LIGHT.hidden}'/>"
        f"<path d='M-1 7L7-1M-1 1L1-1M5 7L7 5' class='hatch' stroke='{LIGHT.hatch}'/></pattern></defs>"
    )


def _images(places: Array, clear: int | None, tables: tuple[Array, Array], box: str) -> str:
    """A picture twice, for light pages and for dark ones."""
    return "".join(
        f"<image {box} preserveAspectRatio='none' style='image-rendering:pixelated' {how} "
        f"href='{uri(png(places, table, clear))}'/>"
        for how, table in zip(("class='day'", "class='dark' display='none'"), tables, strict=True)
    )


class Head:
    """One head as SVG."""

    def __init__(self, matrix: Drawable, place: tuple[int, ...], drawn: Grid):
        self.matrix, self.place, self.drawn, self.scale = matrix, place, drawn, drawn.scale()
        self.values, self.hidden = drawn.values, drawn.hidden
        axes = [(matrix.tokens, drawn.n_q, "q"), (matrix.key_tokens, drawn.n_k, "k")]
        if matrix.turned:
            self.values, self.hidden = self.values.T, self.hidden.T
            axes.reverse()
        self.down, self.across = axes
        self.rows, self.columns = self.values.shape

    def image(self, box: str) -> str:
        """The cells as a PNG; what is hidden is clear, and the hatch behind it is seen."""
        places = self.scale.index(self.values) * (STEPS - 3) // (STEPS - 1) + 2
        places = np.where(self.hidden, 0, np.where(np.isnan(self.values), 1, places)).astype(np.uint8)
        spread = np.arange(STEPS - 2) * (STEPS - 1) // (STEPS - 3)

        def table(theme: Theme) -> Array:
            return np.concatenate([[rgb(theme.hidden)], [rgb(theme.nan)], self.scale.table(theme)[spread]])

        return _images(places, 0, (table(LIGHT), table(DARK)), box)

    def _back(self, x: float, y: float, w: float, h: float) -> str:
        """Hatch where something is hidden."""
        return f"<rect x='{x:g}' y='{y:g}' width='{w:g}' height='{h:g}' fill='url(#regard-hatch)'/>"

    def small(self, tip: str, side: float = 150) -> str:
        """A picture without names."""
        cell = side / max(self.rows, self.columns)
        w, h = max(4.0, cell * self.columns), max(4.0, cell * self.rows)
        return (
            f"<svg width='{w:g}' height='{h:g}' viewBox='0 0 {w:g} {h:g}' role='img'>{_hatch()}"
            f"<title>{escape(tip)}</title>{self._back(0, 0, w, h)}"
            + self.image(f"width='{w:g}' height='{h:g}'")
            + f"<rect width='{w:g}' height='{h:g}' fill='none' stroke='{LIGHT.hatch}'/></svg>"
        )

    def svg(self) -> str:
        """A picture with the names of both axes."""
        cell = min(LARGEST, SIDE / max(self.rows, self.columns))
        wide, tall = max(cell, 4 / self.columns), max(cell, 4 / self.rows)
        named = not self.drawn.pooled and cell >= LEGIBLE and not self.drawn.sampled
        down, across = (
            [clip(x, LONGEST) for x in names(axis[0], axis[1])] if named else [] for axis in (self.down, self.across)
        )
        long = max(map(width, across), default=0) * LETTER
        left = max(16 * LETTER, max(map(width, down), default=0) * LETTER) + 14
        slanted = named and long > wide - 4
        top = 22 + (long * 0.71 + 12 if slanted else 18)
        w, h = self.columns * wide, self.rows * tall
        right = max(8.0, long * 0.71 - wide / 2 + 12 if slanted else 0.0, 18 * LETTER - w)
        titles_of = titles(self.matrix.turned)
        box = f"x='{left:g}' y='{top:g}' width='{w:g}' height='{h:g}'"
        parts = [
            _hatch(),
            f"<text class='{self.across[2]}' x='{left:g}' y='12'>{escape(titles_of[1])}</text>",
            f"<text class='{self.down[2]}' x='{left - 8:g}' y='{top - 6:g}' text-anchor='end'>"
            f"{escape(titles_of[0])}</text>",
        ]
        parts += self._names(down, across, left, top, wide, tall, slanted) if named else self._numbers(left, top, w, h)
        parts.append(self._back(left, top, w, h))
        small = max(self.rows, self.columns) <= TIPS and named
        parts += self._cells(left, top, wide, tall) if small else [self.image(box)]
        parts.append(f"<rect {box} fill='none' stroke='{LIGHT.hatch}'/>")
        all_wide, all_tall = left + w + right, top + h + 4
        label = escape(title(self.matrix, self.place, True), quote=True)
        return (
            f"<svg width='{all_wide:.0f}' height='{all_tall:.0f}' viewBox='0 0 {all_wide:.0f} {all_tall:.0f}' "
            f"role='img' aria-label='{label}'>{''.join(parts)}</svg>"
        )

    def _names(
        self, down: list[str], across: list[str], left: float, top: float, wide: float, tall: float, slanted: bool
    ) -> list[str]:
        found = [
            f"<text class='{self.down[2]}' x='{left - 8:g}' y='{top + (i + 0.5) * tall + 4:g}' text-anchor='end'>"
            f"{escape(name)}</text>"
            for i, name in enumerate(down)
        ]
        for j, name in enumerate(across):
            x, y = left + (j + 0.5) * wide, top - 6
            way = f"transform='translate({x + 4:g} {y:g}) rotate(-45)'"
            at = way if slanted else f"x='{x:g}' y='{y:g}' text-anchor='middle'"
            found.append(f"<text class='{self.across[2]}' {at}>{escape(name)}</text>")
        return found

    def _numbers(self, left: float, top: float, w: float, h: float) -> list[str]:
        """Numbers of places along axes that have no room for names."""
        found = []
        for at, text in ticks(self.down[1], max(1, round(h)), 40):
            found.append(
                f"<text class='{self.down[2]}' x='{left - 8:g}' y='{top + at + (10 if at else 11):g}' "
                f"text-anchor='end'>{text}</text>"
            )
        for at, text in ticks(self.across[1], max(1, round(w)), 60):
            found.append(f"<text class='{self.across[2]}' x='{left + at:g}' y='{top - 6:g}'>{text}</text>")
        return found

    def _cells(self, left: float, top: float, wide: float, tall: float) -> list[str]:
        """Each cell as a rectangle that says its number, with the number in it where there is room."""
        found = []
        levels, table = np.rint(self.scale.place(np.nan_to_num(self.values)) * (LEVELS - 1)), self.scale.table(LIGHT)
        queries = called(self.matrix.tokens, self.drawn.n_q, "query")
        keys = called(self.matrix.key_tokens, self.drawn.n_k, "key")
        for (i, j), value in np.ndenumerate(self.values):
            names_of = (queries[j], keys[i]) if self.matrix.turned else (queries[i], keys[j])
            said = "hidden" if self.hidden[i, j] else number(float(value))
            tip = f"<title>{escape(f'{names_of[0]} looks at {names_of[1]}: {said}')}</title>"
            at = f"x='{left + j * wide:g}' y='{top + i * tall:g}' width='{wide:g}' height='{tall:g}'"
            if self.hidden[i, j]:
                found.append(f"<rect {at} fill='transparent'>{tip}</rect>")
                continue
            if np.isnan(value):
                found.append(f"<rect class='nan' {at} fill='{LIGHT.nan}'>{tip}</rect>")
                continue
            level = int(levels[i, j])
            colour = table[round(level * (STEPS - 1) / (LEVELS - 1))]
            found.append(f"<rect class='c{level}' {at} fill='{_hex(colour)}'>{tip}</rect>")
            if wide >= ROOMY:
                ink = _hex(ink_on(tuple(map(int, colour))))  # type: ignore[arg-type]  # three numbers
                found.append(
                    f"<text class='n{level}' x='{left + (j + 0.5) * wide:g}' y='{top + (i + 0.5) * tall + 4:g}' "
                    f"style='fill:{ink};font-size:11px;pointer-events:none' text-anchor='middle'>{said}</text>"
                )
        return found


def _legend(drawn: Grid, turned: bool) -> str:
    """The scale with its ticks, one of them at the even spread."""
    scale, w = drawn.scale(), 260
    places = np.arange(STEPS, dtype=np.uint8)[None]
    box = f"x='1' y='16' width='{w}' height='10'"
    parts = [
        _hatch(),
        _images(places, None, (scale.table(LIGHT), scale.table(DARK)), box),
        f"<rect {box} fill='none' stroke='{LIGHT.hatch}'/>",
    ]
    for tick in scale.ticks():
        x = 1 + float(scale.place(tick)) * w
        anchor = "start" if x < 12 else "end" if x > w - 12 else "middle"
        parts.append(f"<text x='{x:g}' y='40' text-anchor='{anchor}'>{short(tick)}</text>")
    share = even(drawn)
    x = 1 + float(scale.place(share)) * w
    parts.append(f"<path d='M{x:g} 15l-4-6h8z' fill='currentColor'/>")
    parts.append(f"<text x='{x + 8:g}' y='12'>even spread {short(share)}</text>")
    at = w + 20
    for there, fill, name in (
        (drawn.hidden.any(), "fill='url(#regard-hatch)'", "hidden"),
        (np.isnan(drawn.values).any(), f"class='nan' fill='{LIGHT.nan}'", "NaN"),
    ):
        if there:
            parts.append(
                f"<rect x='{at}' y='15' width='12' height='12' {fill}/><text x='{at + 18}' y='25'>{name}</text>"
            )
            at += 80
    said = " · ".join(drawn.said(turned))
    return (
        f"<svg width='{at + 20}' height='46' viewBox='0 0 {at + 20} 46'>{''.join(parts)}</svg>"
        f"<div class='faint'>{escape(said)}</div>"
    )
