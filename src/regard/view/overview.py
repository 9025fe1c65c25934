"""All the heads of a text at a glance: layers down, heads across, each by its picture or by the letter of its pattern.

A head never changes its place. Up to 200 heads are pictures where the terminal has colours, up to 2000 are letters; of
more, each layer has a line of counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.lens import wording
from regard.lens.columns import Heatmap
from regard.lens.telling import LETTERS, SINK, Mark, Telling, pattern
from regard.view.colour import FAINT, HUES, RGB, STEPS, Scale, rgb
from regard.view.grid import bins
from regard.view.screen import Cell, Screen
from regard.view.text import count, pad, width

Array = np.ndarray[Any, Any]

PICTURES, SIGNS = 200, 2000  # heads that are shown by pictures, and by letters
LEAST, MOST = 4, 12  # columns of a picture
TALL = 40  # lines of all pictures together, as far as they can be smaller
NONE = "·"


def overview(
    screen: Screen, layers: Sequence[Any], telling: Telling, *, first: int = 0, pictures: Sequence[Array] | None = None
) -> list[str]:
    """The grid in lines, with what its letters mean under it."""
    made = Overview(screen, layers, telling, first)
    return [*made.lines(), "", *made.legend()]


class Overview:
    """The grid of heads on a screen."""

    def __init__(self, screen: Screen, layers: Sequence[Any], telling: Telling, first: int = 0):
        self.screen, self.layers, self.telling, self.first = screen, layers, telling, first
        self.heads = max(map(len, telling.marks), default=0)
        self.count = sum(map(len, telling.marks))
        self.shown = {(head.layer - first, head.head) for head in telling.heads}
        self.label = len(f"L{first + len(layers) - 1}") + 1
        self.room = screen.width - self.label
        self.side = self._side()
        each = self.room // max(1, self.heads)
        self.wide = min(max(self.side + 1, 6), each) if self.side else max(1, min(5, each))
        self.none = screen.plain(NONE)

    def _side(self) -> int:
        """Columns of a picture, 0 where there are none."""
        screen = self.screen
        if screen.paint.depth == "none" or not screen.unicode or not 0 < self.count <= PICTURES:
            return 0
        room = min(self.room // self.heads - 1, MOST, 2 * (TALL // len(self.layers) - 1))
        if room < LEAST:
            return 0
        n = max(_inside(layer)[3] - _inside(layer)[2] for layer in self.layers)
        return room // n * n if 0 < n <= room else room  # every token is as wide as the others

    # Lines.

    def lines(self) -> list[str]:
        """The grid."""
        if self.count > SIGNS:
            return self._strips()
        per = max(1, self.room // self.wide)  # heads in a line
        found: list[str] = []
        for start in range(0, self.heads, per):
            stop = min(start + per, self.heads)
            found += ([""] if start else []) + self._header(start, stop)
            for number in range(len(self.layers)):
                found += self._layer(number, start, stop)
        return found

    def _header(self, start: int, stop: int) -> list[str]:
        """The numbers of the heads, every one or as many as there is room for."""
        digits = len(f"H{stop - 1}")
        step = 1 if self.wide > digits else 1 + digits // self.wide
        line = " " * self.label
        for head in range(start, stop, step):
            line += pad(f"{'' if self.side else ' ' if self.wide == 5 else ''}H{head}", self.wide * step)
        return [self.screen.paint(line.rstrip(), FAINT)]

    def _layer(self, number: int, start: int, stop: int) -> list[str]:
        marks = self.telling.marks[number]
        name = self.screen.paint(pad(f"L{self.first + number}", self.label), FAINT)
        signs = "".join(self._sign(number, head, marks[head]) for head in range(start, min(stop, len(marks))))
        if not self.side:
            return [name + signs]
        drawn = [self._picture(x) for x in small(self.layers[number], self.side, self.telling.sampled)[start:stop]]
        gap = " " * (self.wide - self.side)
        found = [
            (name if k == 0 else " " * self.label) + gap.join(picture[k] for picture in drawn)
            for k in range(len(drawn[0]) if drawn else 0)
        ]
        return [*found, " " * self.label + signs]

    def _sign(self, number: int, head: int, mark: Mark) -> str:
        """A head as its letter and as much of its share as there is room for; those that tell something have a mark."""
        told = (number, head) in self.shown
        ink, wide = self.ink(mark), self.wide
        lead = self.screen.plain("▸") if told else " "
        if not mark.letter:
            text = self.none
        elif wide >= 4:
            share = round(100 * mark.share)
            text = mark.letter + str(share if wide >= 5 or share < 100 else 99)
        elif wide == 3:
            tenths = round(10 * mark.share)
            text = f"{mark.letter}{tenths if tenths < 10 else 'X'}"
        else:
            text = mark.letter
        if wide == 2:
            text = pad(text, 1) + (self.screen.plain("◂") if told else " ")
        elif wide >= 3:
            if self.side and not told:
                lead = ""
            text = pad(lead + text, wide)
        return self.screen.paint(text, ink, bold=told)

    def ink(self, mark: Mark) -> RGB:
        return HUES.get(mark.letter, FAINT)

    def _picture(self, values: Array) -> list[str]:
        """A head in halves of letters."""
        screen, n_k = self.screen, max(layer.readable().n_k for layer in self.layers)
        scale, table = Scale.of_weights(n_k), Scale.of_weights(n_k).table(screen.theme)
        hidden = np.isnan(values)
        colours = table[np.rint(scale.place(np.nan_to_num(values)) * (STEPS - 1)).astype(int)]
        colours = np.where(hidden[..., None], rgb(screen.theme.hidden), colours)
        rows, columns = values.shape
        found = []
        for i in range(0, rows, 2):
            cells = []
            for j in range(columns):
                upper = _rgb(colours[i, j])
                lower = _rgb(colours[i + 1, j]) if i + 1 < rows else None
                cells.append(Cell(" ", None, upper) if lower == upper else Cell("▀", upper, lower))
            found.append(screen.cells(cells) + " " * (self.side - columns))
        return found

    def _strips(self) -> list[str]:
        """A line of counts for each layer."""
        found = []
        for number, marks in enumerate(self.telling.marks):
            counts = Counter(mark.letter for mark in marks)
            parts = []
            for letter in [*LETTERS.values(), SINK, ""]:
                if counts[letter]:
                    told = any((number, h) in self.shown for h, mark in enumerate(marks) if mark.letter == letter)
                    text = f"{letter or self.none} {counts[letter]}"
                    parts.append(self.screen.paint(text, HUES.get(letter, FAINT), bold=told))
            name = self.screen.paint(pad(f"L{self.first + number}", self.label), FAINT)
            found.append(name + "  ".join(dict.fromkeys(parts)))
        return found

    # Words.

    def legend(self) -> list[str]:
        """What the letters mean, and the pictures."""
        screen, sinks = self.screen, self.telling.sinks
        there = {mark.letter for marks in self.telling.marks for mark in marks}
        parts = [(letter, pattern(name)) for name, letter in LETTERS.items() if letter in there]
        if SINK in there:
            parts.append((SINK, f"rests on {sinks.where}"))
        if "" in there:
            parts.append((self.none, "no simple pattern"))
        lines: list[str] = []
        used = 0
        for letter, said in parts:
            said = screen.plain(said)
            long = width(said) + 2
            gap = "   " if lines and used + 3 + long <= min(100, screen.width) else ""
            if not gap:
                for k, line in enumerate(screen.words(said, max(1, screen.width - 2))):
                    lines.append(screen.paint(letter, HUES.get(letter, FAINT), bold=True) + " " if k == 0 else "  ")
                    lines[-1] += line
                    used = 2 + width(line)
            else:
                lines[-1] += gap + screen.paint(letter, HUES.get(letter, FAINT), bold=True) + " " + said
                used += 3 + long
        return lines + [screen.paint(line, FAINT) for line in screen.words(self._said())]

    def _said(self) -> str:
        counted = self.count > SIGNS
        number = (
            ""
            if counted or self.wide < 3
            else "the number is its share in tenths, X for 10; "
            if self.wide == 3
            else ("the number is the share of its weight, in %; ")
        )
        said = "How many heads of each layer." if counted else f"A letter is the strongest pattern of a head, {number}"
        if not counted:
            mark = {1: "", 2: "◂"}.get(self.wide, "▸") if self.shown else ""
            said = said.rstrip("; ,") + (f"; {self.screen.plain(mark)} is shown below." if mark else ".")
        if self.side:
            first, last = _inside(self.layers[0])[2:]
            tokens, n_k = self.layers[0].key_tokens, self.layers[0].readable().n_k
            out = [] if tokens is None else [*tokens[:first], *tokens[last:]]
            left = f", without {wording.listed([wording.shown(x) for x in dict.fromkeys(out)])}" if out else ""
            said += f" A picture has queries down and keys across{left}"
            said += ", pooled by max." if last - first > self.side or n_k > self.side + len(out) else "."
        if self.telling.sampled:
            n_q = self.layers[0].readable().n_q
            said += f" Sampled {count(self.telling.sampled)} of {count(n_q)} queries."
        return said


def _rgb(colour: Any) -> RGB:
    red, green, blue = map(int, colour)
    return red, green, blue


def _inside(layer: Any) -> tuple[int, int, int, int]:
    """The queries and keys of a layer without the special ones at its ends, as (first row, last, first key, last)."""
    read = layer.readable()
    found = []
    for tokens, n in ((layer.tokens, read.n_q), (layer.key_tokens, read.n_k)):
        own = np.flatnonzero(~wording.special(tokens)) if tokens is not None else np.arange(n)
        found += [int(own[0]), int(own[-1]) + 1] if len(own) else [0, n]
    return found[0], found[1], found[2], found[3]


def small(layer: Any, side: int, sample: int = 0) -> Array:
    """(heads, rows, columns): every head in so many columns at most, the special tokens at its ends left out.

    Each token has as many columns as the others if all can be seen, and the rest is pooled by its largest weight; NaN
    is hidden. `sample` takes so many queries in place of all.
    """
    top, end, left, right = _inside(layer)
    rows, columns = end - top, right - left
    if not rows or not columns:
        return np.zeros((layer.readable().heads, 0, 0))
    if 0 < sample < rows:
        layer = layer.select(queries=np.unique(np.linspace(top, end - 1, sample).round().astype(np.int64)))
        top, rows = 0, layer.readable().n_q
        end = rows
    found = np.asarray(
        layer.ask(Heatmap(bins(rows, side), bins(columns, side), "max", region=(top, end, left, right)))[0]
    )
    found = found.reshape(-1, *found.shape[-2:]).astype(np.float64)
    times = max(1, side // max(found.shape[-2:]))
    made: Array = found.repeat(times, axis=-1).repeat(times, axis=-2)
    return made
