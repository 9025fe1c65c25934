"""The matrix in a terminal: tokens on both axes, a picture that fits the window, and the numbers of one row.

>>> import numpy as np
>>> from regard import matrix
>>> A = matrix(np.eye(3), np.eye(3), scale=2.0, tokens=["The", "cat", "sat"])
>>> show(A, width=48, colour=False)  # doctest: +ELLIPSIS
3 queries × 3 keys
                 key → is looked at
query ↓ looks at     The    cat    sat
             The▸  0.787  0.107  0.107
             cat   0.107  0.787  0.107
             sat   0.107  0.107  0.787
...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TextIO

import numpy as np

from regard.lens.ask import Progress
from regard.lens.heads import place_of
from regard.view.colour import FAINT, KEY, QUERY, RGB, STEPS, Scale, ink_on, rgb
from regard.view.glyphs import (
    BROKEN,
    HATCH,
    PLAIN_HATCH,
    WIDE,
    disc,
    dot,
    shade,
)
from regard.view.grid import Drawable, Grid, Pool, grid, row_of, upright
from regard.view.reading import CAUTION, names, title, titles
from regard.view.screen import Cell, Screen
from regard.view.text import clip, clusters, fitting, pad, ticks, width
from regard.view.under import legend, numbers

Array = np.ndarray[Any, Any]
Layout = Literal["shade", "dots"]

DISCS = ((6, 3), (4, 2))  # columns and lines of a cell that has room for a disc
TALLEST = 10  # letters of a token that is written downwards


def show(
    matrix: Drawable,
    head: Any = None,
    *,
    file: TextIO | None = None,
    width: int | None = None,
    height: int | None = None,
    colour: bool | str | int | None = None,
    layout: Layout = "shade",
    row: int | str | None = None,
    scores: bool = False,
    pool: Pool = "max",
) -> None:
    """Draw one head of a matrix, with its tokens on both axes and the numbers of one row under it.

    `head` is a number, a tuple with one for each leading axis, or a name, L1H8 or H8. The picture fits the
    window, or `width` columns and `height` lines; what does not fit is pooled. `colour` is True, False, 256 or "full",
    else what the terminal says. `layout="dots"` draws sizes instead of shades, hollow for what is negative. `row` is
    the query whose numbers are printed, by number or token; without it, that of the largest weight between two
    different tokens. `scores` draws what comes before softmax.

    >>> from regard import matrix
    >>> show(matrix(np.zeros((2, 1)), np.zeros((2, 1))), width=40, colour=False)  # doctest: +ELLIPSIS
    2 queries × 2 keys
                     key → is looked at
    query ↓ looks at       0      1
                   0▸  0.500  0.500
                   1   0.500  0.500
    ...
    """
    if layout not in ("shade", "dots"):
        raise ValueError(f"layout is {layout!r}, expected 'shade' or 'dots'")
    screen = Screen.of(file, width, height, colour)
    place = place_of(matrix, head)
    chosen = None if row is None else row_of(matrix, row)
    lines = screen.words(title(matrix, place, head is not None, scores))
    if 0 in matrix.shape:
        lines.append("Nothing to draw.")
    else:
        picture = Picture(screen, matrix, place, layout, scores, pool, chosen)
        lines += picture.lines() + legend(picture) + [""] + numbers(picture) + [""]
        lines += [screen.paint(line, FAINT) for line in screen.words(CAUTION)]
    print(*(line.rstrip(" ") for line in lines), sep="\n", file=file)


@dataclass(frozen=True)
class Plan:
    """How large the parts of a picture are."""

    label: int  # columns of the names of the axis that goes down
    wide: int  # columns of a cell
    tall: int  # lines of a cell
    fits: bool  # every token has a cell and its name beside it


class Picture:
    """One head on a screen."""

    def __init__(
        self,
        screen: Screen,
        matrix: Drawable,
        place: tuple[int, ...],
        layout: Layout,
        scores: bool,
        pool: Pool,
        row: int | None,
        *,
        cells: int | None = None,  # past so many, a sample of the queries is drawn
        progress: Progress | None = None,
    ):
        self.screen, self.matrix, self.place, self.layout, self.scores = screen, matrix, place, layout, scores
        self.n_q, self.n_k = upright(matrix).shape[-2:]
        self.turned = matrix.turned
        axes = [names(matrix.tokens, self.n_q, screen.unicode), names(matrix.key_tokens, self.n_k, screen.unicode)]
        inks = [QUERY, KEY]
        if self.turned:
            axes.reverse()
            inks.reverse()
        self.down, self.across = axes
        self.inks = inks
        self.titles = [screen.plain(text) for text in titles(self.turned)]
        self.hatch = HATCH if screen.unicode else PLAIN_HATCH
        self.plan = self._plan()
        rows, columns = self._bins()
        if self.turned:
            rows, columns = columns, rows
        self.grid: Grid = grid(matrix, place, rows, columns, scores=scores, pool=pool, cells=cells, progress=progress)
        self.row = self.grid.row if row is None else row
        self.scale: Scale = self.grid.scale()
        self.values, self.hidden = self.grid.values, self.grid.hidden
        if self.turned:
            self.values, self.hidden = self.values.T, self.hidden.T
        self.where = self.scale.place(self.values)
        self.written = self._written()

    # Sizes.

    @property
    def half(self) -> bool:
        """Whether a letter can be two cells, one above the other."""
        return self.screen.unicode and self.screen.paint.depth != "none" and self.layout == "shade"

    def _plan(self) -> Plan:
        """The largest cells that let every token have its own, or else bins."""
        room, lines = self.screen.width, self.screen.height - 3
        longest = max(map(width, self.down))
        most = max(4, room // 4)
        label = min(longest, most)
        sizes = [(7, 1), (2, 1), (1, 1)] if self.layout == "shade" else [*DISCS, (2, 1), (1, 1)]
        if not self.screen.unicode:
            sizes = [size for size in sizes if size not in DISCS]
        for wide, tall in sizes:
            names_tall = 1 if max(map(width, self.across)) < wide else min(self._tallest(), self._letters())
            cells_wide, cells_tall = wide * len(self.across), tall * len(self.down) + names_tall
            if cells_tall > lines:
                continue
            if label + 1 + cells_wide <= room:
                if wide >= 7:  # longer names may have more room
                    longer = max(map(width, self.across)) + 2
                    wide = max(wide, min(12, longer, (room - label - 1) // len(self.across)))
                return Plan(label, wide, tall, True)
            if wide < 7 and 4 + 1 + cells_wide <= room:
                return Plan(min(longest, room - 1 - cells_wide), wide, tall, True)
        return Plan(len(str(len(self.down) - 1)), 1 if self.layout == "shade" else 2, 1, False)

    def _tallest(self) -> int:
        return max(3, min(TALLEST, self.screen.height // 4))

    def _letters(self) -> int:
        return max(sum(1 for _ in clusters(name)) for name in set(self.across))

    def _bins(self) -> tuple[int, int]:
        """How many rows and columns the picture has, as drawn."""
        plan, down, across = self.plan, len(self.down), len(self.across)
        if plan.fits:
            return down, across
        lines, room = max(4, self.screen.height - 4), self.screen.width - plan.label - 1
        rows, columns = min(down, lines * (2 if self.half else 1)), min(across, max(1, room // plan.wide))
        if 1 / 4 <= down / across <= 4:  # a square matrix is drawn as a square
            stretch = 1 if self.half or plan.wide == 2 else 2  # a letter is as tall as two are wide
            keys = max(across / columns, down / rows / stretch)
            rows, columns = min(rows, round(down / keys / stretch)), min(columns, round(across / keys))
        return max(1, rows), max(1, columns)

    # Cells.

    def _written(self) -> bool:
        """Whether there are numbers in the cells."""
        return self.layout == "shade" and self.plan.fits and self.plan.wide >= 7

    def _colour(self, i: int, j: int) -> RGB:
        theme = self.screen.theme
        if self.hidden[i, j]:
            return rgb(theme.hidden)
        if np.isnan(self.values[i, j]):
            return rgb(theme.nan)
        return self.colour_at(float(self.where[i, j]))

    def colour_at(self, place: float) -> RGB:
        red, green, blue = self.scale.table(self.screen.theme)[round(place * (STEPS - 1))]
        return int(red), int(green), int(blue)

    def ink(self, negative: bool = False) -> RGB:
        theme = self.screen.theme
        return rgb((theme.negative if negative else theme.ramp)[2])

    def size(self, place: float) -> tuple[float, bool]:
        """How far a place of the scale is from nothing, and whether on the negative side."""
        return (abs(2 * place - 1), place < 0.5) if self.scale.kind == "diverging" else (place, False)

    def sign(self, place: float) -> str:
        size, negative = self.size(place)
        return (dot if self.layout == "dots" else shade)(size, negative, self.screen.unicode)

    def _block(self, i: int, j: int) -> list[list[Cell]]:
        """A cell of the picture as lines of letters."""
        wide, tall = self.plan.wide, self.plan.tall
        colour = self.screen.paint.depth != "none"
        hidden, broken = bool(self.hidden[i, j]), bool(np.isnan(self.values[i, j]))
        if self.written:
            text = self.screen.plain(self.hatch * 3 if hidden else fitting(float(self.values[i, j]), wide - 1))
            text = text.rjust(wide - 1) + " "
            if not colour:
                return [[Cell(c) for c in " " + text[:-1]]]
            paper = self._colour(i, j)
            return [[Cell(c, rgb(self.screen.theme.hatch) if hidden else ink_on(paper), paper) for c in text]]
        if self.layout == "dots":
            size, negative = self.size(float(self.where[i, j])) if not broken else (0.0, False)
            ink = rgb(self.screen.theme.nan) if broken else self.ink(negative)
            if tall > 1 and not hidden and not broken:
                return [[Cell(c, ink) for c in line] for line in disc(size, wide, tall, negative)]
            sign = self.hatch if hidden else BROKEN if broken else dot(size, negative, self.screen.unicode)
            block = [[Cell(" ")] * wide for _ in range(tall)]
            block[(tall - 1) // 2][(wide - 1) // 2] = Cell(sign, FAINT if hidden else ink)
            return block
        if colour:
            paper = self._colour(i, j)
            sign = self.hatch if hidden else BROKEN if broken else " "
            ink = rgb(self.screen.theme.hatch) if hidden else ink_on(paper)
            return [[Cell(sign if hidden or c == 0 else " ", ink, paper) for c in range(wide)]]
        if hidden or broken:
            return [[Cell(self.hatch if hidden else BROKEN)] * wide]
        return [[Cell(self.sign(float(self.where[i, j])))] * wide]

    def _halves(self, i: int) -> list[Cell]:
        """A line of cells, each of which is two: rows i and i + 1."""
        theme, rows = self.screen.theme, len(self.values)
        made = []
        for j in range(self.values.shape[1]):
            upper = self._colour(i, j)
            lower = self._colour(i + 1, j) if i + 1 < rows else None
            hidden = bool(self.hidden[i, j]) and (lower is None or bool(self.hidden[i + 1, j]))
            if hidden and lower is not None:
                made.append(Cell(self.hatch, rgb(theme.hatch), upper))
            else:
                made.append(Cell(" ", None, upper) if lower == upper else Cell("▀", upper, lower))
        return made

    # Lines.

    def lines(self) -> list[str]:
        """Titles, names and cells."""
        plan, columns = self.plan, self.values.shape[1]
        top = self._names_above() if plan.fits else [self._ticks_above(columns)]
        down, across = self.titles
        label, rest = plan.label, columns * plan.wide
        if label < width(down) <= self.screen.width - rest - 1:
            label = width(down)  # room to set the title of the keys over the keys
        beside = label >= width(down)
        found = []
        paint = self.screen.paint
        if beside and label + 1 + width(across) <= self.screen.width:
            found.append(" " * (label + 1) + paint(across, self.inks[1]))
        elif not beside and width(down) + 3 + width(across) <= self.screen.width:
            found.append(paint(down, self.inks[0]) + "   " + paint(across, self.inks[1]))
        else:
            found += [] if beside else [paint(down, self.inks[0])]
            found.append(paint(across, self.inks[1]))
        for k, line in enumerate(top):
            corner = paint(pad(down, label), self.inks[0]) if beside and k == len(top) - 1 else " " * label
            found.append(f"{corner} {line}")
        return found + (self._named(label) if plan.fits else self._binned(label))

    def _names_above(self) -> list[str]:
        """The names of the columns, along the line or letter under letter."""
        wide = self.plan.wide
        bold = self.row if self.turned else -1
        if wide >= 7 or max(map(width, self.across)) < wide:
            shown = [
                pad(clip(name, wide - 1, self.more), wide - 1, "right" if wide >= 7 else "middle")
                for name in self.across
            ]
            blank = " " if self.screen.paint.depth != "none" or wide < 7 else ""
            lead = "" if blank else " "
            return ["".join(self._name(lead + name + blank, 1, j == bold) for j, name in enumerate(shown))]
        letters = [list(clusters(name)) for name in self.across]
        tall = min(max(map(len, letters)), self._tallest())
        cut = [x if len(x) <= tall else [*x[: tall - 1], "⋮" if self.screen.unicode else "~"] for x in letters]
        found = []
        for k in range(tall):
            line = ""
            for j, x in enumerate(cut):
                at = k - (tall - len(x))
                letter = x[at] if at >= 0 else ""
                if width(letter) > wide:
                    letter = WIDE
                side = "left" if wide < 4 else "middle"
                line += self._name(pad(letter, wide, side), 1, j == bold) if letter else " " * wide
            found.append(line)
        return found

    @property
    def more(self) -> str:
        return self.screen.plain("…")

    def _name(self, text: str, axis: int, bold: bool = False) -> str:
        return self.screen.paint(text, self.inks[axis], bold=bold)

    def _named(self, label: int) -> list[str]:
        """Lines of cells beside the names of their rows."""
        found = []
        mark = "▸" if self.screen.unicode else ">"
        for i, name in enumerate(self.down):
            ours = i == self.row and not self.turned
            middle = (self.plan.tall - 1) // 2
            blocks = [self._block(i, j) for j in range(len(self.across))]
            for k in range(self.plan.tall):
                text = (
                    pad(clip(name, min(label, self.plan.label), self.more), label, "right")
                    if k == middle
                    else " " * label
                )
                left = self._name(text + (mark if ours and k == middle else " "), 0, ours)
                found.append(left + self.screen.cells([cell for block in blocks for cell in block[k]]))
        return found

    def _binned(self, label: int) -> list[str]:
        """Lines of bins, with the numbers of some of their rows."""
        rows = len(self.values)
        step = 2 if self.half else 1
        marks = {place // step: text for place, text in ticks(len(self.down), rows, 4 * step)}
        mark = "▸" if self.screen.unicode else ">"
        found = []
        for k in range((rows + step - 1) // step):
            i = k * step
            ours = not self.turned and self.row * rows // len(self.down) in range(i, i + step)
            cells = (
                self._halves(i) if self.half else [c for j in range(self.values.shape[1]) for c in self._block(i, j)[0]]
            )
            left = self._name(marks.get(k, "").rjust(label) + (mark if ours else " "), 0)
            found.append(left + self.screen.cells(cells))
        return found

    def _ticks_above(self, columns: int) -> str:
        wide = self.plan.wide
        far = len(str(len(self.across))) + 3
        line = ""
        for place, text in ticks(len(self.across), columns, max(1, far // wide)):
            if place * wide + len(text) <= columns * wide or not line:
                line = line.ljust(place * wide) + text
        return self._name(line, 1)
