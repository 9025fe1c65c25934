"""Telling heads: which few of many heads a person should look at first, and what each of the others is.

At most one head for each pattern, and then the head with the brightest cell between two different tokens. Heads that
rest on special tokens, or on the first one where there are none, are counted and not shown.

>>> import numpy as np, regard
>>> before = 40 * np.eye(6, k=-1, dtype=np.float32)  # each query is the key before it
>>> q, k = np.stack([before, np.zeros_like(before)]), np.eye(6, dtype=np.float32)[None].repeat(2, axis=0)
>>> found = telling([regard.matrix(q, k, scale=1.0, tokens="[CLS] the cat chased mice [SEP]".split())])
>>> print(*found.heads, found.sinks, sep="\\n")
L0H0 previous token 100 %
none of 2 heads rests mostly on [CLS] and [SEP]
>>> [mark.letter for mark in found.marks[0]], found.heads[0].cell
(['P', ''], Cell(query=2, key=1, weight=1.0))
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from regard.lens import wording
from regard.lens.ask import Progress, callable_or_none
from regard.lens.patterns import patterns
from regard.lens.rows import Top, Visible
from regard.lens.table import SAID, SHARE, Patterns
from regard.lens.wording import percent

Array = np.ndarray[Any, Any]

# Patterns that make a head worth a look, and their letters. Sinks have S: it is no pattern of these.
LETTERS = {
    "previous_token_head": "P",
    "next_token": "N",
    "current_token": "C",
    "local": "L",
    "induction_head": "I",
    "duplicate_token_head": "D",
    "punctuation": "M",
    "aligned": "A",
}
SINK = "S"
BY_PLACE = ("previous_token_head", "next_token", "current_token", "local")  # whatever the words are
TOPS = 8  # keys of each row among which the brightest cell is looked for: more than the special ones that outshine it
ABOVE = 2.0  # times an even spread over what its query sees: what a cell has at least that is called bright
APART = 0.1  # how far a cell is above its pattern's share to say something that the pattern does not


class Cell(NamedTuple):
    """A cell of A."""

    query: int
    key: int
    weight: float


class Mark(NamedTuple):
    """What one head is: the letter of its strongest pattern and its share, "" and NaN if it has none."""

    letter: str
    name: str | None
    share: float


@dataclass(frozen=True)
class TellingHead:
    """A head to look at, and the cell of it to begin with; `name` is None where it has no simple pattern."""

    layer: int
    head: int
    name: str | None
    share: float
    even: float
    cell: Cell | None
    bright: bool = False  # chosen for its brightest cell, not for its pattern

    @property
    def label(self) -> str:
        """As heads are written everywhere."""
        return f"L{self.layer}H{self.head}"

    @property
    def said(self) -> str:
        """The pattern in words."""
        if self.name is None:
            return "no simple pattern"
        return f"{pattern(self.name)} {percent(self.share)}"

    @property
    def by_place(self) -> bool:
        """Whether the pattern is one of places alone, so that other words would give it too."""
        return self.name in BY_PLACE

    def __str__(self) -> str:
        return f"{self.label} {self.said}"


@dataclass(frozen=True)
class Sinks:
    """How many heads give most of their weight to keys that say nothing."""

    heads: int
    of: int
    keys: tuple[str, ...]  # what these keys are called; none for the first key of a text without special tokens
    even: float  # what an even spread would give them

    @property
    def where(self) -> str:
        """The keys in words.

        >>> Sinks(1, 2, ("<s>", "[A]", "[B]", "[C]"), 0.5).where, Sinks(1, 2, (), 0.5).where
        ('<s>, [A] and other special tokens', 'the first token')
        """
        if not self.keys:
            return "the first token"
        shown = [wording.shown(key) for key in self.keys]
        return wording.listed(shown) if len(shown) <= 3 else f"{', '.join(shown[:2])} and other special tokens"

    def __str__(self) -> str:
        if self.of == 1:
            return f"the only head {'rests' if self.heads else 'does not rest'} mostly on {self.where}"
        some = "none" if not self.heads else str(self.heads)
        rest = "rests" if self.heads == 1 or not self.heads else "rest"
        return f"{some} of {self.of} head{'s' * (self.of != 1)} {rest} mostly on {self.where}"


@dataclass(frozen=True, eq=False)
class Telling:
    """What there is to see in all the heads of a text."""

    marks: list[list[Mark]]  # layers × heads
    sinks: Sinks
    heads: list[TellingHead]  # one for each pattern, what says most first; then the one of the brightest cell
    sampled: int = 0  # how many queries it was made of, 0 for all

    @property
    def lead(self) -> TellingHead | None:
        """The head to begin with: of those with a pattern the one whose brightest cell is furthest above what the
        pattern gives anyway; if none is by much, the one of the brightest cell."""
        best = max((head for head in self.heads if not head.bright), key=_beyond, default=None)
        other = next((head for head in self.heads if head.bright), None)
        if best is None or (_beyond(best) < APART and other is not None and other.cell and other.cell.weight >= SHARE):
            return other
        return best


def _beyond(head: TellingHead) -> float:
    return -1.0 if head.cell is None else head.cell.weight - head.share


def pattern(name: str) -> str:
    """A pattern in words.

    >>> pattern("next_token"), pattern("previous_token_head"), pattern("local")
    ('next token', 'previous token', 'near tokens')
    """
    return "near tokens" if name == "local" else SAID.get(name, name.replace("_", " "))


class _Layer(NamedTuple):
    """What is known of the heads of one layer, flat."""

    marks: list[Mark]
    even: list[float]  # of each mark's pattern
    gain: list[float]  # how much it says beside an even spread
    cells: list[Cell | None]  # the brightest between two different tokens
    peaks: list[Cell | None]  # the brightest of any, special queries apart
    sink: Array  # the share of each that rests
    keys: tuple[str, ...]
    at_rest: float


def telling(layers: Sequence[Any], *, first: int = 0, sample: int = 0, progress: Progress | None = None) -> Telling:
    """The telling heads of a text, from the matrices of its layers, each with its heads.

    `first` is the number of the first layer. `sample` takes so many queries, spread over the text and each exact, in
    place of all of them.
    """
    callable_or_none(progress)
    known: list[_Layer] = []
    rows = 0
    for number, layer in enumerate(layers):
        n_q = int(layer.readable().n_q)
        seen = layer
        if sample and sample < n_q:
            chosen = np.unique(np.linspace(0, n_q - 1, sample).round().astype(np.int64))
            seen, rows = layer.select(queries=chosen), max(rows, len(chosen))
        else:
            chosen = np.arange(n_q)
        known.append(_layer(layer, seen, chosen, _part(progress, number, len(layers))))
        if progress is not None:
            progress((number + 1) / len(layers))
    heads = list(_by_pattern(known))
    heads += _brightest(known, {(head.layer, head.head) for head in heads})
    heads = [replace(head, layer=head.layer + first) for head in heads]
    sinks = [layer.sink for layer in known]
    keys = tuple(dict.fromkeys(key for layer in known for key in layer.keys))
    even = float(np.mean([layer.at_rest for layer in known])) if known else math.nan
    resting = Sinks(sum(int((x > SHARE).sum()) for x in sinks), sum(map(len, sinks)), keys, even)
    return Telling([layer.marks for layer in known], resting, heads, rows)


def brightest(layer: Any, head: int) -> Cell | None:
    """The brightest cell of a head between two different tokens that are not special, or else of any.

    >>> import regard
    >>> words = "[CLS] the cat [SEP]".split()
    >>> A = regard.matrix(np.eye(4), np.roll(np.eye(4), 1, axis=0), scale=9.0, tokens=words)
    >>> brightest(A, 0)[:2]
    (1, 2)
    """
    tokens = layer.key_tokens
    special = wording.special(tokens) if tokens is not None else np.zeros(layer.readable().n_k, np.bool_)
    one = layer.select(heads=[head]) if len(layer.front) == 1 and layer.front[0] > 1 else layer
    cells, peaks = _cells(one, one, np.arange(layer.readable().n_q), special)
    at = head if one is layer else 0
    return cells[at] or peaks[at]


def _part(progress: Progress | None, number: int, of: int) -> Progress | None:
    return None if progress is None else lambda done: progress((number + done) / of)


def _layer(layer: Any, seen: Any, rows: Array, progress: Progress | None) -> _Layer:
    """One layer; `seen` is it, or the rows of it that are asked."""
    tokens, square = layer.key_tokens, layer.tokens == layer.key_tokens
    found = patterns(seen, progress=None if progress is None else lambda done: progress(done / 2))
    special = wording.special(tokens) if tokens is not None else np.zeros(seen.readable().n_k, np.bool_)
    rest = "separator" if special.any() else "first_token"
    flat = {name: [x.reshape(-1) for x in found[name]] for name in found.names}
    sink = np.nan_to_num(flat[rest][1])
    best = _best(found, [name for name in LETTERS if name in found.names and (name != "aligned" or not square)])
    marks, even, gain = [], [], []
    for h, (name, says) in enumerate(best):
        if name is not None:
            mark = Mark(LETTERS[name], name, float(flat[name][1][h]))
        elif sink[h] > SHARE:
            mark = Mark(SINK, rest, float(sink[h]))
        else:
            mark = Mark("", None, math.nan)
        marks.append(mark)
        even.append(float(flat[name][2][h]) if name is not None else math.nan)
        gain.append(says)
    cells, peaks = _cells(layer, seen, rows, special)
    keys = tuple(dict.fromkeys(np.array(tokens, object)[special])) if special.any() else ()
    with np.errstate(all="ignore"):
        known = flat[rest][2][~np.isnan(flat[rest][2])]
    return _Layer(marks, even, gain, cells, peaks, sink, keys, float(known.mean()) if len(known) else 0.0)


def _best(found: Patterns, names: list[str]) -> list[tuple[str | None, float]]:
    """The strongest pattern of each head that names it, and how much it says: share · ln(share / even)."""
    heads = math.prod(found.share.shape[:-1])
    at = [found.names.index(name) for name in names]
    share, even, may = (x.reshape(heads, -1)[:, at] for x in (found.share, found.even, found.telling))
    with np.errstate(invalid="ignore", divide="ignore"):
        gain = np.where(may, share * np.log(share / even), -np.inf)
    most = gain.max(-1, initial=-np.inf)
    return [(names[int(row.argmax())] if m > -np.inf else None, float(m)) for row, m in zip(gain, most, strict=True)]


def _cells(layer: Any, seen: Any, rows: Array, special: Array) -> tuple[list[Cell | None], list[Cell | None]]:
    """Of each head, the brightest cell between two different tokens that are not special, and the brightest of all."""
    read = layer.readable()
    if not read.n_k or not len(rows):
        return [None] * read.heads, [None] * read.heads
    top, count = _of_rows(layer, seen, rows).ask(Top(min(TOPS, read.n_k)), Visible())
    weight, key = (np.asarray(x) for x in top)
    count = np.asarray(count).reshape(read.heads, len(rows), 1)
    weight = weight.reshape(-1, *weight.shape[-2:]).astype(np.float64)  # (…, rows, k) -> (heads, rows, k)
    key = key.reshape(-1, *key.shape[-2:])
    there = (key >= 0) & (weight * count >= ABOVE)  # a NaN is not
    ours, theirs = layer.tokens, layer.key_tokens
    other = ~special[key] if special.any() else key != 0  # where heads rest that have nothing to look for
    if ours is None or theirs is None:
        q, k = map(np.asarray, read.positions)
        other &= q[rows][:, None] != k[key]
        speaks = np.ones(len(rows), np.bool_)
    else:
        number = {token: i for i, token in enumerate(dict.fromkeys((*ours, *theirs)))}
        mine = np.array([number[ours[i]] for i in rows])
        other &= mine[:, None] != np.array([number[x] for x in theirs])[key]
        speaks = ~wording.special([ours[i] for i in rows])
    several = [np.where(there & speaks[:, None] & may, weight, -1.0) for may in (other, np.bool_(True))]
    bright, peak = ([_brightest_of(x, key[h], rows) for h, x in enumerate(each)] for each in several)
    return bright, peak


def _of_rows(layer: Any, seen: Any, rows: Array) -> Any:
    """Rows for questions that do not ask where they stand: as a matrix of their own they are asked natively."""
    if seen is layer or not hasattr(layer, "weights"):
        return seen
    made = copy(layer)
    made.weights = layer.weights.part(rows, range(layer.weights.of.n_k))
    made.tokens, made.key_tokens = None, layer.key_tokens
    return made


def _brightest_of(weight: Array, key: Array, rows: Array) -> Cell | None:
    """The largest of (rows, k) weights; None if nothing is more than nothing."""
    at = np.unravel_index(int(weight.argmax()), weight.shape)
    return Cell(int(rows[at[0]]), int(key[at]), float(weight[at])) if weight[at] > 0 else None


def _by_pattern(known: Sequence[_Layer]) -> Iterator[TellingHead]:
    """For each pattern the head that has most of it; what says most first."""
    best: dict[str, tuple[float, int, int]] = {}
    for layer, each in enumerate(known):
        for head, (mark, gain) in enumerate(zip(each.marks, each.gain, strict=True)):
            if mark.name is None or mark.letter == SINK:
                continue
            before = best.get(mark.name)
            if before is None or mark.share > known[before[1]].marks[before[2]].share:
                best[mark.name] = gain, layer, head
    for name, (_, layer, head) in sorted(best.items(), key=lambda item: -item[1][0]):
        each = known[layer]
        cell = each.peaks[head] if name == "current_token" else each.cells[head] or each.peaks[head]
        yield TellingHead(layer, head, name, each.marks[head].share, each.even[head], cell)


def _brightest(known: Sequence[_Layer], taken: set[tuple[int, int]]) -> Iterator[TellingHead]:
    """The head of the brightest cell among those that are left."""
    found = [
        (cell.weight, -layer, -head)
        for layer, each in enumerate(known)
        for head, cell in enumerate(each.cells)
        if cell is not None and (layer, head) not in taken
    ]
    if found:
        _, at, of = max(found)
        layer, head = -at, -of
        each = known[layer]
        mark, rests = each.marks[head], each.marks[head].letter == SINK
        name, share = (None, math.nan) if rests else (mark.name, mark.share)
        yield TellingHead(layer, head, name, share, each.even[head], each.cells[head], bright=True)
