"""The first look at a text: the text, all heads, those that rest, and the few that tell something, with a sentence.

>>> import numpy as np, regard
>>> before = 40 * np.eye(6, k=-1, dtype=np.float32)
>>> q, k = np.stack([before, np.zeros_like(before)]), np.eye(6, dtype=np.float32)[None].repeat(2, axis=0)
>>> A = regard.matrix(q, k, scale=1.0, tokens="[CLS] the cat chased mice [SEP]".split())
>>> Look([A], text="The cat chased mice", model="by hand").show(width=60)  # doctest: +ELLIPSIS
The cat chased mice
by hand · 1 × 2 heads · 6 tokens · reads both directions
<BLANKLINE>
    H0   H1
L0 ▸P100 ·
...
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TextIO

import numpy as np

from regard.errors import QuestionError
from regard.lens.ask import Progress
from regard.lens.explain import explain
from regard.lens.rows import Top
from regard.lens.telling import Telling, TellingHead, brightest, pattern, telling
from regard.lens.wording import percent
from regard.view.colour import FAINT, HUES, KEY, QUERY
from regard.view.overview import overview
from regard.view.reading import CAUTION, names, notes, size
from regard.view.screen import Screen
from regard.view.terminal import Picture
from regard.view.text import clip, count, number, pad, safe, width, wrap
from regard.view.under import largest, legend

Array = np.ndarray[Any, Any]

FULL = 1 << 29  # cells of all heads up to which each is looked at; past it some queries stand for all
SAMPLE = 1 << 25  # cells that are looked at then
FEWEST, MANY = 16, 256  # queries that stand for all
ONE = 1 << 28  # cells of one head up to which each of them is in its picture
WHOLE = 3  # heads with a pattern that are drawn; the others are named
BESIDE = 58  # columns of a head, from which several stand beside each other
TALL = 26  # lines of the picture of a telling head, at most
LINES = 3  # of the text
ROWS = 40  # of the table of strongest keys
GAP = "   "
CODES = re.compile(r"\x1b\[[0-9;]*m|[\u2068\u2069]")


@dataclass
class Look:
    """A text and its layers, each a matrix with its heads; `first` is the number of the first layer."""

    layers: Sequence[Any]
    text: str | None = None
    model: str | None = None
    first: int = 0
    whole: int = 0  # layers that there are, if more than are shown
    top: int = 0  # strongest keys to write of each row, 0 for no table
    other: str | None = None  # the same words in another order, to hold against a head of places
    onward: Sequence[tuple[str, str]] = ()  # commands to go on with, and what each does
    progress: Progress | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.layers = [layer.in_layer(self.first + i) for i, layer in enumerate(self.layers)]

    @cached_property
    def telling(self) -> Telling:
        """The heads that tell something, of all queries or of a sample."""
        cells = sum(int(np.prod(layer.shape, dtype=object)) for layer in self.layers)
        keys = cells // max(1, max((layer.readable().n_q for layer in self.layers), default=1))
        sample = 0 if cells <= FULL else int(min(MANY, max(FEWEST, SAMPLE // keys)))
        return telling(self.layers, first=self.first, sample=sample, progress=self.progress)

    # What is shown, part by part, so that each can be printed as soon as it is known.

    def show(self, *, file: TextIO | None = None, width: int | None = None, colour: Any = None) -> None:
        """Print it all, the text at once and each part as soon as it is known."""
        screen = Screen.of(file, width, None, colour)
        stream = sys.stdout if file is None else file
        for part in self.parts(screen):
            print(*(line.rstrip(" ") for line in part), sep="\n", file=stream, flush=True)

    def parts(self, screen: Screen) -> Iterable[list[str]]:
        """The parts in order, an empty line before each but the first."""
        yield self.heading(screen)
        yield ["", *overview(screen, self.layers, self.telling, first=self.first)]
        yield ["", *self.sinks(screen)]
        yield from (["", *part] for part in self.heads(screen))
        yield from (["", *part] for part in self.end(screen))

    def brief(self, screen: Screen) -> list[str]:
        """The same in a few lines: the text, the heads that rest and those that tell something, without pictures."""
        found = [*self.heading(screen, 1), *self.sinks(screen)]
        for head in self._ordered():
            found += [self.title(screen, head), *self.sentence(screen, head)]
        return found

    def heading(self, screen: Screen, most: int = LINES) -> list[str]:
        """The text as it was typed, and what looked at it."""
        wide = min(100, screen.width)
        found = []
        if self.text is not None:
            text = safe(" ".join(self.text[: wide * (most + 1)].split()), screen.unicode)
            lines = wrap(text, wide)
            if len(lines) > most:
                more = screen.plain("…")
                lines = [*lines[: most - 1], clip(lines[most - 1], wide - 1, more).removesuffix(more) + more]
            found = [screen.paint(line, bold=True) for line in lines]
        first = self.layers[0] if self.layers else None
        said = [] if self.model is None else [safe(self.model, True)]
        if first is not None:
            read = first.readable()
            n = read.n_k
            tokens = f"{count(n)} token{'s' * (n != 1)}"
            ways = {_directions(layer) for layer in self.layers}
            said += [self._many(), tokens if read.n_q == n else size(first), ways.pop() if len(ways) == 1 else ""]
            said += [note for note in notes(first) if note not in said]
        line = " · ".join(part for part in said if part)
        return found + [screen.paint(x, FAINT) for x in screen.words(line, wide)]

    def sinks(self, screen: Screen) -> list[str]:
        """How many heads rest."""
        sinks = self.telling.sinks
        said = f"{sinks} (an even spread: {percent(sinks.even)})."
        return screen.words(safe(said[0].upper() + said[1:], screen.unicode))

    # The heads.

    def _ordered(self) -> list[TellingHead]:
        """The lead first."""
        found, lead = list(self.telling.heads), self.telling.lead
        return [lead, *(head for head in found if head is not lead)] if lead is not None else []

    def heads(self, screen: Screen) -> Iterable[list[str]]:
        """The telling heads, each with its picture; several beside each other where there is room."""
        found = self._ordered()
        named = [head for head in found if not head.bright]
        if not named:
            yield screen.words(
                "No simple pattern: no head gives half of its weight to one, and 3 times an even spread."
            )
        drawn = [head for head in found if head.bright or head in named[:WHOLE]]
        rest = [head for head in found if head not in drawn]
        across = max(1, min(len(drawn), (screen.width + len(GAP)) // (BESIDE + len(GAP))))
        wide = (screen.width - (across - 1) * len(GAP)) // across
        for start in range(0, len(drawn), across):
            blocks = [
                self.head(replace(screen, width=wide), head, start + i == 0)
                for i, head in enumerate(drawn[start : start + across])
            ]
            yield beside(blocks, wide)
        if rest:
            yield screen.words("Also " + ", ".join(map(str, rest)) + ".")

    def head(self, screen: Screen, head: TellingHead, lead: bool) -> list[str]:
        """One head: its name, its picture, and its sentence."""
        matrix = self.layers[head.layer - self.first]
        place = (head.head,) if matrix.front else ()
        row = None if head.cell is None else head.cell.query
        small = replace(screen, height=min(screen.height, TALL))
        picture = Picture(small, matrix, place, "shade", False, "max", row, cells=ONE)
        found = [self.title(screen, head), *picture.lines()]
        found += legend(picture) if lead else []
        found += self.sentence(screen, head)
        found += largest(picture, 3) if lead else []
        found += self.lesson(screen, head, lead)
        return found + (self.table(screen, head.layer, head.head) if self.top else [])

    def title(self, screen: Screen, head: TellingHead) -> str:
        """The name of a head and its pattern."""
        mark = self.telling.marks[head.layer - self.first][head.head]
        said = f"{head.said}, brightest cell" if head.bright else head.said
        ink = HUES.get(mark.letter, FAINT) if head.name is not None else FAINT
        room = max(4, screen.width - width(head.label) - 1)
        return f"{screen.paint(head.label, bold=True)} {screen.paint(clip(screen.plain(said), room), ink)}"

    def sentence(self, screen: Screen, head: TellingHead) -> list[str]:
        """The cell to begin with, in words."""
        if head.cell is None:
            return []
        try:
            said = explain(self.layers[head.layer - self.first], head.cell.query, head.cell.key, head=head.head)
        except QuestionError:  # rows that are no shares of anything
            return []
        return screen.words(safe(said, screen.unicode))

    def lesson(self, screen: Screen, head: TellingHead, lead: bool) -> list[str]:
        """That a pattern of places is one of other words too."""
        if head.name is None or head.bright or not head.by_place:
            return []
        said = f"This head gives {percent(head.share)} to the {pattern(head.name)} whatever it is"
        if head.name == "local":
            said = f"This head gives {percent(head.share)} to near tokens whatever they are"
        elif head.name == "current_token":
            said = f"This head gives {percent(head.share)} to the token itself whatever it is"
        if lead and self.other:
            said += f", so try '{self.other}'"
        return [screen.paint(line, FAINT) for line in screen.words(safe(said + ".", screen.unicode))]

    def one(self, screen: Screen, layer: int, head: int) -> Iterable[list[str]]:
        """One head whole."""
        matrix = self.layers[layer - self.first]
        place = (head,) if matrix.front else ()
        yield self.heading(screen)
        cell = brightest(matrix, head) if matrix.shape[-1] * matrix.shape[-2] <= FULL else None
        row = None if cell is None else cell.query
        picture = Picture(screen, matrix, place, "shade", False, "max", row, progress=self.progress)
        found = [screen.paint(f"L{layer}H{head}", bold=True) + f" of {self._many()}"]
        yield ["", *found, *picture.lines(), *legend(picture)]
        said = explain(matrix, picture.row, head=head)
        yield ["", *screen.words(safe(said, screen.unicode)), *largest(picture, self.top or 5)]
        if self.top:
            yield self.table(screen, layer, head)
        yield from (["", *part] for part in self.end(screen))

    def _many(self) -> str:
        heads = max(layer.readable().heads for layer in self.layers)
        return f"{max(self.whole, len(self.layers))} × {heads} heads"

    def table(self, screen: Screen, layer: int, head: int) -> list[str]:
        """The strongest keys of each row."""
        matrix = self.layers[layer - self.first]
        read = matrix.readable()
        shown = min(read.n_q, ROWS)
        rows = np.unique(np.linspace(0, read.n_q - 1, shown).round().astype(np.int64))
        some = matrix if shown == read.n_q else matrix.select(queries=rows)
        top = some.ask(Top(min(self.top, read.n_k)))[0]
        weights, keys = (np.asarray(x).reshape(-1, *np.shape(x)[-2:])[head] for x in top)
        down, across = (
            names(x, n, screen.unicode) for x, n in ((matrix.tokens, read.n_q), (matrix.key_tokens, read.n_k))
        )
        more = screen.plain("…")
        label = min(max(width(down[int(i)]) for i in rows), max(4, screen.width // 5))
        cell = min(max(width(x) for x in across), 12, max(3, screen.width - label - 9))
        fits = max(1, (screen.width - label - 1) // (cell + 8))
        found = ["", screen.plain(f"The strongest {min(self.top, fits, read.n_k)} keys of each row")]
        for i, row in enumerate(rows):
            line = screen.paint(pad(clip(down[int(row)], label, more), label, "right"), QUERY)
            for w, k in list(zip(weights[i], keys[i], strict=True))[:fits]:
                if k >= 0:
                    name = screen.paint(pad(clip(across[int(k)], cell, more), cell), KEY)
                    line += f"  {name} {number(float(w)):<5}"
            found.append(line)
        if shown < read.n_q:
            found += screen.words(f"{count(shown)} of {count(read.n_q)} rows, spread over the text.")
        return [line if i else "" for i, line in enumerate(found)]

    def end(self, screen: Screen) -> Iterable[list[str]]:
        """The caution, and how to go on."""
        yield [screen.paint(line, FAINT) for line in screen.words(CAUTION)]
        if self.onward:
            yield onward(screen, self.onward)


def onward(screen: Screen, commands: Sequence[tuple[str, str]]) -> list[str]:
    """Commands to copy, and what each does, beside it or above it. A long one is left in one piece: what a terminal
    wraps by itself is copied as one line."""
    long = max((width(command) for command, _ in commands), default=0)
    commands = [(safe(command, screen.unicode), screen.plain(what)) for command, what in commands]
    if long + 2 + max((width(what) for _, what in commands), default=0) <= screen.width:
        return [f"{pad(command, long)}  {screen.paint(what, FAINT)}" for command, what in commands]
    found = []
    for command, what in commands:
        found += [screen.paint(line, FAINT) for line in screen.words(what + ":")]
        found.append("  " + command)
    return found


def beside(blocks: Sequence[list[str]], wide: int) -> list[str]:
    """Blocks of lines beside each other, each in so many columns."""
    tall = max(map(len, blocks))
    found = []
    for k in range(tall):
        line = ""
        for i, block in enumerate(blocks):
            text = block[k].rstrip(" ") if k < len(block) else ""
            last = i == len(blocks) - 1
            line += text if last else text + " " * (wide - width(CODES.sub("", text))) + GAP
        found.append(line)
    return found


def _directions(layer: Any) -> str:
    """What a query of a layer sees, as far as its first row tells."""
    read = layer.readable()
    if read.n_q != read.n_k or read.n_k < 2:
        return ""
    _, seen = read.block(range(1), range(1))
    visible = read.n_k if seen is None else int(np.asarray(seen).sum())
    return "reads both directions" if visible == read.n_k else "reads from left to right" if visible == 1 else ""
