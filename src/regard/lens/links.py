"""Links between words as (query, key) pairs: from pairs, from spans of characters, from CoNLL-U.

>>> text = '''
... 1\\tMice\\t_\\t_\\t_\\t_\\t2\\tnsubj\\t_\\t_
... 2\\tran\\t_\\t_\\t_\\t_\\t0\\troot\\t_\\t_
... '''
>>> pairs(text, 3, 3, ("mi", "##ce", "ran")).tolist()  # both parts of the word look at the verb
[[0, 2], [1, 2]]
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import DtypeError, QuestionError, ShapeError
from regard.lens.wording import bare, special

Array = np.ndarray[Any, Any]
Span = tuple[int, int]


@dataclass(frozen=True)
class Word:
    """A word of a parsed sentence: its characters in the text, and its head by number, -1 for the root."""

    start: int
    stop: int
    head: int
    relation: str


def pairs(edges: Any, n_q: int, n_k: int, tokens: Sequence[str] | None = None, offsets: Any = None) -> Array:
    """Links as (query, key) pairs, (pairs, 2), sorted and each once.

    `edges` are pairs of numbers; pairs of (start, stop) spans of characters, with the `offsets` of each key's token; or
    CoNLL-U, whose words are found by the tokens' letters, or by offsets in its sentences joined by one space. There,
    each word looks at its head. A word of several tokens stands for all of them.
    """
    if isinstance(edges, str):
        words, texts = conllu(edges)
        linked = [((w.start, w.stop), (words[w.head].start, words[w.head].stop)) for w in words if w.head >= 0]
        if offsets is not None:
            spans = _offsets(offsets, n_k)
        elif tokens is None:
            raise QuestionError("edges are CoNLL-U, expected tokens to find its words by: pass tokens= or offsets=")
        else:
            spans, places = _by_letters(tokens, " ".join(texts))
            linked = [tuple((places[a], places[b]) for a, b in link) for link in linked]  # type: ignore[misc]  # two
        return _spread(linked, spans, n_q, n_k)
    try:
        given = np.asarray(edges)
    except ValueError:  # lists of unequal lengths
        given = np.zeros((1, 1, 1))
    if given.size == 0:
        return np.zeros((0, 2), np.int64)
    if given.dtype.kind not in "iu" or given.shape[1:] not in ((2,), (2, 2)):
        raise DtypeError(
            f"edges have shape {given.shape} and dtype {given.dtype}, expected (query, key) pairs, pairs of "
            "(start, stop) spans of characters, or CoNLL-U"
        )
    if given.ndim == 3:
        if offsets is None:
            raise QuestionError("edges are spans of characters, expected the span of each token: pass offsets=")
        linked = [((int(a), int(b)), (int(c), int(d))) for (a, b), (c, d) in given]
        return _spread(linked, _offsets(offsets, n_k), n_q, n_k)
    if not ((given >= 0) & (given < [n_q, n_k])).all():
        raise ShapeError(f"edges have a pair outside {n_q} × {n_k}, expected queries and keys within it")
    return np.unique(given.astype(np.int64), axis=0)


def _offsets(offsets: Any, n_k: int) -> Array:
    given = np.asarray(offsets)
    if given.shape != (n_k, 2) or given.dtype.kind not in "iu":
        raise ShapeError(
            f"offsets have shape {given.shape} and dtype {given.dtype}, expected (start, stop) for each of {n_k} keys"
        )
    return given


def _spread(linked: Sequence[tuple[Span, Span]], spans: Array, n_q: int, n_k: int) -> Array:
    """Links of spans as pairs of the tokens that lie in them; queries are the last of the keys."""
    if n_q > n_k:
        raise QuestionError(f"there are {n_q} queries for {n_k} keys, expected queries among the keys: pass pairs")
    starts, stops = spans[:, 0], spans[:, 1]

    def inside(span: Span) -> Array:
        found = np.flatnonzero((np.maximum(starts, span[0]) < np.minimum(stops, span[1])) & (starts < stops))
        if not len(found):
            raise ShapeError(f"no token lies within the characters {span[0]} to {span[1]}: compare edges and offsets")
        return found

    known = {span: inside(span) for link in linked for span in link}
    each = [(i - (n_k - n_q), j) for ours, theirs in linked for i in known[ours] for j in known[theirs] if i != j]
    return np.unique(np.array([(i, j) for i, j in each if i >= 0], np.int64).reshape(-1, 2), axis=0)


def _letters(text: str) -> Iterator[tuple[int, str]]:
    """The letters of a text as tokenizers may have changed them, without spaces, accents and case, and their places."""
    for place, c in enumerate(text):
        for letter in unicodedata.normalize("NFKD", c).casefold():
            if not letter.isspace() and unicodedata.category(letter) != "Mn":
                yield place, letter


def _by_letters(tokens: Sequence[str], text: str) -> tuple[Array, list[int]]:
    """The span of each token among the letters of a text, and the number of letters before each place of it."""
    added = special(tokens)
    parts = ["".join(c for _, c in _letters("" if skip else bare(t))) for t, skip in zip(tokens, added, strict=True)]
    letters = list(_letters(text))
    ours, theirs = "".join(parts), "".join(c for _, c in letters)
    if ours != theirs:
        at = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
        )
        raise QuestionError(
            f"the tokens go on with {ours[at : at + 12]!r} where the CoNLL-U has {theirs[at : at + 12]!r}, expected "
            "the same text: pass offsets=, or (query, key) pairs"
        )
    ends = np.cumsum([len(p) for p in parts])
    spans = np.stack([ends - [len(p) for p in parts], ends], -1) if len(parts) else np.zeros((0, 2), np.int64)
    before = np.searchsorted([place for place, _ in letters], np.arange(len(text) + 1))
    return spans, [int(x) for x in before]


def conllu(text: str) -> tuple[list[Word], list[str]]:
    """All words of a CoNLL-U text, and its sentences; places count in these joined by one space."""
    words: list[Word] = []
    sentences: list[str] = []
    start = 0
    for block in _blocks(text):
        sentence, found = _sentence(block, start, len(words))
        words += found
        sentences.append(sentence)
        start += len(sentence) + 1
    if not words:
        raise QuestionError(
            "edges are a text without a word of CoNLL-U, expected ten columns parted by tabs: pass pairs"
        )
    return words, sentences


def _blocks(text: str) -> Iterator[list[list[str]]]:
    """The rows of each sentence."""
    block: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if block:
                yield block
            block = []
            continue
        row = line.split("\t")
        if len(row) != 10:
            raise QuestionError(f"a line of CoNLL-U has {len(row)} columns, expected 10 parted by tabs: {line[:40]!r}")
        block.append(row)


def _sentence(block: list[list[str]], start: int, first: int) -> tuple[str, list[Word]]:
    """The text of a sentence from its forms, and its words, which begin at `start` and are numbered from `first`."""
    text, spans, words = "", {}, []
    parts: dict[str, Span] = {}  # words of what is written as one, such as "du"
    numbers = [row[0] for row in block if row[0].isdigit()]
    place = {number: first + i for i, number in enumerate(numbers)}
    for number, form, *_, head, relation, _, misc in block:
        if "." in number:  # a word that is not written
            continue
        if number not in parts:
            span = start + len(text), start + len(text) + len(form)
            text += form + ("" if "SpaceAfter=No" in misc.split("|") else " ")
            if "-" in number:
                begin, end = number.split("-")
                parts |= {str(i): span for i in range(int(begin), int(end) + 1)}
                continue
            spans[number] = span
        else:
            spans[number] = parts[number]
        if head != "0" and head not in place:
            raise QuestionError(
                f"a word of CoNLL-U, {form!r}, has the head {head!r}, expected 0 or a word of its sentence"
            )
        words.append(Word(*spans[number], -1 if head == "0" else place[head], relation))
    return text.rstrip(" "), words
