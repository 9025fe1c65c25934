"""What stands under a picture in the terminal: the scale, and one row in a sentence and in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regard.view.colour import FAINT, KEY, ink_on, rgb
from regard.view.glyphs import BROKEN, bar
from regard.view.reading import even, line_of, names, sentence, strongest
from regard.view.screen import Cell
from regard.view.text import clip, count, number, pad, short, width

if TYPE_CHECKING:
    from regard.view.terminal import Picture


def legend(picture: Picture) -> list[str]:
    """The scale with a tick at the even spread, and what else there is to know of the picture."""
    screen = picture.screen
    low, high = (screen.plain(text) for text in picture.scale.ends())
    long = max(4, min(32, screen.width - width(low) - width(high) - 2))
    tick = "┃" if screen.unicode else "|"
    share = even(picture.grid)
    at = round(float(picture.scale.place(share)) * (long - 1))
    marked = not picture.scores and picture.grid.pool != "sum"
    cells = []
    for k in range(long):
        place = k / (long - 1)
        colour = picture.colour_at(place) if picture.layout == "shade" and screen.paint.depth != "none" else None
        if marked and k == at:
            cells.append(Cell(tick, None if colour is None else ink_on(colour), colour))
        elif colour is not None:
            cells.append(Cell(" ", None, colour))
        else:
            cells.append(
                Cell(picture.sign(place), picture.ink(picture.size(place)[1]) if picture.layout == "dots" else None)
            )
    said = picture.grid.said(picture.turned)
    if marked:
        said.append(f"{tick} even spread {short(share)}")
    if picture.layout == "dots":
        said.append("area shows size" + (", hollow is negative" if picture.scores else ""))
    if picture.hidden.any():
        said.append(f"{picture.hatch} hidden")
    if np.isnan(picture.values).any():
        said.append(f"{BROKEN} NaN")
    # Remarks stand side by side, as many in a line as there is room for; the scale is the first.
    lines, used = [f"{low} {screen.cells(cells)} {high}"], width(low) + long + width(high) + 2
    gap, most = (" · " if screen.unicode else ", "), min(100, screen.width)
    for remark in said:
        for part in screen.words(remark):
            between = gap if used + width(gap + part) <= most else "\n"
            lines.append(between + part)
            used = width(part) + (used + width(gap) if between == gap else 0)
    text = "".join(lines)
    if picture.layout == "shade":
        for sign, name, paper in (
            (picture.hatch, "hidden", screen.theme.hidden),
            (BROKEN, "NaN", screen.theme.nan),
        ):
            ink = rgb(screen.theme.hatch) if name == "hidden" else ink_on(rgb(paper))
            text = text.replace(f"{sign} {name}", f"{screen.paint(sign, ink, rgb(paper))} {name}")
    return text.split("\n")


def numbers(picture: Picture) -> list[str]:
    """One row in a sentence, and its largest numbers."""
    screen = picture.screen
    found = screen.words(sentence(picture.matrix, picture.place, picture.row, picture.scores, screen.unicode))
    return found + largest(picture, 3 if screen.height < 20 else 5)


def largest(picture: Picture, most: int) -> list[str]:
    """The largest numbers of a row, and what the others have."""
    screen = picture.screen
    found: list[str] = []
    line, seen = line_of(picture.matrix, picture.place, picture.row, picture.scores)
    keys = strongest(line, seen, most)
    if not len(keys):
        return found
    tokens = picture.matrix.key_tokens
    called = names([tokens[k] for k in keys], len(keys), screen.unicode) if tokens is not None else [""] * len(keys)
    texts = [number(float(line[k])) for k in keys]
    index, digits = max(len(str(k)) for k in keys), max(map(len, texts))
    name = min(max(map(width, called)), max(3, screen.width - index - digits - 4 - min(10, screen.width // 4)))
    long = min(32, screen.width - index - name - digits - 5)
    for key, label, text in zip(keys, called, texts, strict=True):
        row = f"{screen.paint(str(key).rjust(index + 1), FAINT)} "
        row += (
            screen.paint(pad(clip(label, name, picture.more), name), KEY) + (" " if name else "") + text.rjust(digits)
        )
        if long > 2 and not picture.scores:
            row += " " + screen.paint(
                bar(float(line[key]) / max(1.0, picture.scale.high), long, screen.unicode), picture.ink()
            )
        found.append(row)
    rest = seen.copy()
    rest[keys] = False
    if rest.any():
        left = int(rest.sum())
        what = "lower" if picture.scores else f"{number(float(line[rest].sum()))} together"
        found += screen.words(f" {count(left)} other{'s' if left > 1 else ''}: {what}")
    return found
