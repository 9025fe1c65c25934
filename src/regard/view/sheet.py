"""A sheet of worked mathematics: headings, words, tables and sums, laid out in the columns that there are.

>>> print(Sum("q·k", ("1·2", "3·(−0.5)"), "0.5").text())
q·k = 1·2 + 3·(−0.5) = 0.5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.view.colour import FAINT, KEY, QUERY, RGB, Scale, ink_on
from regard.view.figures import figure, fitted
from regard.view.reading import titles
from regard.view.screen import Screen
from regard.view.text import ascii_of, clip, pad, width

Array = np.ndarray[Any, Any]

ROWS = 10  # of a table in a terminal
NAME = 12  # columns of a token beside a table
COLUMN = 9  # columns of a token above one
GAP = "…"
INKS = {"query": QUERY, "key": KEY}
# Signs of the formulas where only ASCII can be shown. Tokens have been made plain before, so no · is theirs.
SIGNS = {
    "·": "*", "×": "x", "ᵀ": "^T", "√": "sqrt ", "‖": "|", "θ": "theta", "∞": "inf", "°": " deg", "∘": "o",
    "Σ": "sum", "′": "'", "÷": "/", "▸": ">", "⋮": ":", "–": "-", "’": "'",
}  # fmt: skip


# What stands on a sheet.


@dataclass(frozen=True)
class Heading:
    """The title of a part, the equation of it and the shape of what comes out."""

    text: str
    equation: str = ""
    shape: str = ""
    level: int = 2


@dataclass(frozen=True)
class Words:
    """A sentence or two."""

    text: str
    faint: bool = False


@dataclass(frozen=True)
class Sum:
    """A line that is worked out: left = term + term + … = right."""

    left: str
    terms: tuple[str, ...]
    right: str = ""
    sign: str = "="

    def text(self) -> str:
        """The line whole."""
        return " = ".join(filter(None, (self.left, " + ".join(self.terms)))) + self.end()

    def end(self) -> str:
        """What comes after the terms."""
        return f" {self.sign} {self.right}" if self.right else ""


@dataclass(frozen=True)
class Work:
    """Lines that belong together."""

    lines: tuple[Sum, ...]


@dataclass(frozen=True)
class Listing:
    """Rows of text under a header; all but the first column at the right if `numbers`."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: bool = False
    total: bool = False  # the last row adds up the others
    axis: str = ""  # what the first column names
    spare: tuple[int, ...] = ()  # columns to leave out where there is no room


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix with the names of its rows and columns."""

    name: str
    values: Array  # (rows, columns)
    decimals: int
    rows: Sequence[str]
    columns: Sequence[str]
    axes: tuple[str, str] = ("", "")
    mark: int | None = None  # the row that is worked out
    keep: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # rows and columns to show where not all can be
    scale: Scale | None = None  # of the colours of its cells

    def cell(self, i: int, j: int) -> str:
        """A number as it stands in the table."""
        return figure(float(self.values[i, j]), self.decimals)

    @property
    def caption(self) -> str:
        return f"{self.name}  {self.values.shape[0]} × {self.values.shape[1]}"

    def titled(self) -> bool:
        """Whether both axes are tokens, so that it has to be said which is which."""
        return self.axes == ("query", "key")


@dataclass(frozen=True)
class Beside:
    """Tables that may stand beside each other."""

    tables: tuple[Table, ...]


Block = Heading | Words | Work | Listing | Table | Beside


# Text.


def printed(blocks: Sequence[Block], screen: Screen) -> list[str]:
    """A sheet in lines of the screen's width."""
    lines: list[str] = []
    for block in blocks:
        made = _lines(block, screen)
        # What belongs together stands together: sums follow the words before them, all else has a line of air.
        lines += ([""] if lines else []) + made
    return [line.rstrip() for line in lines]


def plain(text: str, screen: Screen) -> str:
    """Formulas in letters that can be shown."""
    if screen.unicode:
        return text
    return ascii_of("".join(SIGNS.get(c, c) for c in text))


def _lines(block: Block, screen: Screen) -> list[str]:
    if isinstance(block, Heading):
        return _heading(block, screen)
    if isinstance(block, Words):
        found = screen.words(plain(block.text, screen))
        return [screen.paint(line, FAINT) for line in found] if block.faint else found
    if isinstance(block, Work):
        return _work(block, screen)
    if isinstance(block, Listing):
        return _listing(block, screen)
    if isinstance(block, Table):
        return _table(block, screen, screen.width - 2, False)[0]
    return _beside(block, screen)


def _heading(block: Heading, screen: Screen) -> list[str]:
    text = plain(block.text, screen)
    if block.level == 1:
        return [screen.paint(line, bold=True) for line in screen.words(text, screen.width)]
    tail = "   ".join(plain(x, screen) for x in (block.equation, block.shape) if x)
    whole = f"{text}   {tail}" if tail else text
    rule = "─" if screen.unicode else "-"
    if width(whole) <= screen.width:
        bar = rule * max(0, min(100, screen.width) - width(whole) - 1)
        return [f"{screen.paint(text, bold=True)}{whole[len(text) :]} {screen.paint(bar, FAINT)}"]
    return [screen.paint(line, bold=True) for line in screen.words(text, screen.width)] + [
        "  " + line for line in screen.words(tail, screen.width - 2)
    ]


def _work(block: Work, screen: Screen) -> list[str]:
    """Sums under each other, their first = in one column; terms that do not fit go on under the first."""
    found = []
    long = max((width(plain(line.left, screen)) for line in block.lines), default=0)
    long = min(long, screen.width // 2)
    for line in block.lines:
        left = plain(line.left, screen)
        indent = " " * (4 + long + 3)
        current = "    " + pad(left, long) + (" = " if line.terms else "")
        if width(left) > long:
            found.append("    " + left)
            current = "    " + " " * long + " = "
        empty = True
        for k, term in enumerate(line.terms):
            piece = ("" if k == 0 else "+ ") + plain(term, screen)
            if not empty and width(current) + 1 + width(piece) > screen.width:
                found.append(current)
                current, empty = indent, True
            current += piece if empty else " " + piece
            empty = False
        end = plain(line.end(), screen)
        if width(current) + width(end) > screen.width and not empty:
            found.append(current)
            current, end = indent[:-2], end.strip()
        found.append(current + end)
    return found


def _listing(block: Listing, screen: Screen) -> list[str]:
    rows = [[plain(x, screen) for x in row] for row in (block.header, *block.rows)]
    columns = list(range(len(block.header)))
    wide = [max(width(row[j]) for row in rows) for j in columns]
    for j in block.spare:
        if sum(wide[k] + 2 for k in columns) > screen.width:
            columns.remove(j)
    # The first column is cut where it must be, and so is the last of words, but never a number.
    for j in (columns[0], *([] if block.numbers else [columns[-1]])):
        wide[j] = min(wide[j], max(4, screen.width - sum(wide[k] + 2 for k in columns if k != j) - 2))
    found = []
    more = GAP if screen.unicode else "~"
    rule = "─" if screen.unicode else "-"
    for i, row in enumerate(rows):
        last = i == len(rows) - 1
        if block.total and last:
            found.append("  " + screen.paint(rule * (sum(wide[j] + 2 for j in columns) - 2), FAINT))
        cells = [pad(clip(row[j], wide[j], more), wide[j], "right" if block.numbers and j else "left") for j in columns]
        cells[-1] = cells[-1].rstrip()
        if i == 0:
            cells = [screen.paint(cell, FAINT) for cell in cells]
        elif block.axis and not (block.total and last):
            cells[0] = screen.paint(cells[0], INKS[block.axis])
        found.append("  " + "  ".join(cells))
    return found


def _beside(block: Beside, screen: Screen) -> list[str]:
    """As many tables in a line as there is room for."""
    found: list[str] = []
    current: list[str] = []
    used = 0
    for table in block.tables:
        lines, wide = _table(table, screen, screen.width - 2, True)
        if current and used + 4 + wide <= screen.width:
            tall = max(len(current), len(lines))
            lines = lines + [""] * (tall - len(lines))
            current += [""] * (tall - len(current))
            current = [
                line + " " * (used - _bare(line)) + "  " + more for line, more in zip(current, lines, strict=True)
            ]
            used += 2 + wide
        else:
            found += (["", *current] if found else current) if current else []
            current, used = lines, wide
    return [*found, *([""] if found else []), *current]


def _bare(line: str) -> int:
    """The columns of a line without its colours."""
    text, at = "", 0
    while at < len(line):
        if line[at] == "\x1b":
            at = line.index("m", at) + 1
        else:
            text, at = text + line[at], at + 1
    return width(text)


def _table(table: Table, screen: Screen, room: int, named: bool) -> tuple[list[str], int]:
    """A table in lines, and how many columns they take."""
    more = GAP if screen.unicode else "~"
    names = [clip(plain(x, screen), NAME, more) for x in table.rows]
    heads = [clip(plain(x, screen), COLUMN, more) for x in table.columns]
    rows = fitted(len(names), ROWS, [*([] if table.mark is None else [table.mark]), *table.keep[0]])
    shown = [i for i in rows if i is not None]
    down, across = (plain(x, screen) for x in titles(False))
    label = max((width(names[i]) for i in shown), default=1)
    # No more than these can be shown, and looking at no more keeps a wide matrix from taking long.
    sample = [*range(min(len(heads), 64)), *table.keep[1]]
    cells = max((width(plain(table.cell(i, j), screen)) for i in shown for j in sample), default=1)
    wide = max([cells, *(width(heads[j]) for j in sample)], default=cells)
    full = max(label, width(down))
    apart = table.titled() and full + 3 + len(heads) * (wide + 2) > room  # the titles get a line of their own
    if table.titled() and not apart:
        label = full
    if room - label - 3 < 2 * (wide + 2):
        wide = cells
    most = max(1, (room - label - 3) // (wide + 2))
    columns = fitted(len(heads), most, table.keep[1])
    sizes = [1 if j is None else wide for j in columns]

    def line(name: str, texts: list[str], marked: bool = False) -> str:
        sign = plain("▸", screen) if marked else " "
        return f"  {name}{sign}" + "".join(texts)

    found = []
    if named:
        caption = plain(table.caption, screen)
        cut = len(plain(table.name, screen))
        found.append("  " + screen.paint(caption[:cut], bold=True) + caption[cut:])
    ink = INKS.get(table.axes[1], FAINT)
    texts = (more if j is None else heads[j] for j in columns)
    first = [
        f" {screen.paint(pad(clip(x, size, more), size, 'right'), ink)} " for x, size in zip(texts, sizes, strict=True)
    ]
    if apart:
        between = ", " if not screen.unicode or width(down + across) + 5 <= room else "\n  "
        found += f"  {screen.paint(down, QUERY)}{between}{screen.paint(across, KEY)}".split("\n")
    elif table.titled():
        found.append(" " * (label + 4) + screen.paint(across, KEY))
    found.append(line(screen.paint(pad(down if table.titled() and not apart else "", label), QUERY), first))
    for i in rows:
        if i is None:
            found.append(line(pad(plain("⋮", screen), label, "right"), []))
            continue
        entries = [f" {more} " if j is None else _entry(table, i, j, wide, screen) for j in columns]
        name = screen.paint(pad(names[i], label, "right"), INKS.get(table.axes[0], FAINT))
        found.append(line(name, entries, i == table.mark))
    return found, 3 + label + sum(size + 2 for size in sizes)


def _entry(table: Table, i: int, j: int, wide: int, screen: Screen) -> str:
    """A cell with a blank on both sides, which its colour fills too."""
    text = f" {pad(plain(table.cell(i, j), screen), wide, 'right')} "
    if table.scale is None or screen.paint.depth == "none":
        return text
    paper = shade(table, i, j, table.scale.table(screen.theme))
    return text if paper is None else screen.paint(text, ink_on(paper), paper)


def shade(table: Table, i: int, j: int, colours: Array) -> RGB | None:
    """The colour of a cell; None for one that is hidden or NaN."""
    value = float(table.values[i, j])
    if table.scale is None or not np.isfinite(value):
        return None
    red, green, blue = map(int, colours[int(table.scale.index(value))])
    return red, green, blue
