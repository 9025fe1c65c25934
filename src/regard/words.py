"""Tokens to words: which neighbouring tokens make up a word.

Tokens are read as tokenizers write them: `##` continues a word (WordPiece), `Ġ`, `▁` or a space begins one (byte-level
and SentencePiece), `Ċ` is a new line, `<0xE2>` a byte, and [CLS], </s>, <|…|> and their like stand for themselves.

>>> words_of(["[CLS]", "play", "##ing", "cats", "[SEP]"], 5).names
('[CLS]', 'playing', 'cats', '[SEP]')
>>> words_of(["Don", "'t", "Ġstop", "!"], 4, "Don't stop!").names
("Don't", 'stop', '!')
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from regard.errors import DtypeError, ShapeError, TokenError
from regard.lens.wording import special
from regard.results import Array

UNKNOWN = ("[UNK]", "<unk>")  # each stands for a word, or part of one, that the tokenizer does not know
OTHER = re.compile(r"\[UNK\]|<unk>|\[MASK\]|<mask>|[\[<]unused_?\d+[\]>]|<extra_id_\d+>")  # special within a text
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
# GPT-2 writes bytes that are no printable character of Latin-1 as the characters from 256 on, Ġ for a space among them.
BYTES = {chr(x): x for x in _PRINTED}
BYTES |= {chr(256 + i): x for i, x in enumerate(x for x in range(256) if x not in _PRINTED)}


class Words(NamedTuple):
    """Where words begin, with the end at last, and what they are called, if tokens are."""

    bounds: Array
    names: tuple[str, ...] | None


def words_of(tokens: Sequence[str] | None, n: int, given: Any = None, apart: Array | None = None) -> Words:
    """The words that n tokens make up.

    `given` is a text, a list of its words, or (start, stop) spans of tokens, outside of which each stays single;
    without it markers alone say where a word begins. Places that are `apart` from the one before begin one, too.
    """
    if given is not None and not isinstance(given, str):
        if not isinstance(given, Iterable):
            raise DtypeError(
                f"words were given as {given!r}, expected (start, stop) spans, a text, or a list of words: "
                "pass one of them"
            )
        given = list(given)
        if not any(isinstance(x, str) for x in given):
            return _spans(tokens, n, given)
        if not all(isinstance(x, str) for x in given):
            raise DtypeError("words were given as strings and other things, expected strings alone, or spans alone")
    if tokens is None:
        raise TokenError(
            "this matrix has no tokens, expected some to make words of: pass tokens, or (start, stop) spans"
        )
    if given is not None:
        return _matched(Spelling(tokens), given)
    return _marked(Spelling(tokens), np.zeros(n, np.bool_) if apart is None else apart)


class Spelling:
    """Tokens as the bytes they stand for."""

    def __init__(self, tokens: Sequence[str]):
        self.tokens = tuple(tokens)
        self.special = [a or OTHER.fullmatch(x) is not None for a, x in zip(special(tokens), tokens, strict=True)]
        ordinary = [x for x, alone in zip(tokens, self.special, strict=True) if not alone]
        self.bytes_of = _reader(ordinary)
        self.pieces = self.bytes_of is _continued
        self.starts = any(self.text(x)[:1].isspace() for x in ordinary)
        # A tokenizer that lower-cases leaves no capital behind; it takes accents away as well.
        self.lower = not any(c.isupper() for x in ordinary for c in self.text(x))

    def text(self, *tokens: str) -> str:
        """What tokens stand for together."""
        return b"".join(self.bytes_of(x) for x in tokens).decode("utf-8", "replace")

    def line(self, i: int) -> bool:
        """Whether a token is a new line."""
        text = self.text(self.tokens[i])
        return text.isspace() and "\n" in text

    def begins(self, i: int) -> bool:
        """Whether a token's own marker begins a word."""
        if self.pieces:
            return not self.tokens[i].startswith("##")
        return not self.starts or self.text(self.tokens[i])[:1].isspace()

    def name(self, first: int, stop: int) -> str:
        """What to call a word of these tokens."""
        own = self.tokens[first:stop]
        if stop == first + 1 and self.special[first]:
            return own[0]
        parts = [
            x.encode() if alone else self.bytes_of(x) for x, alone in zip(own, self.special[first:stop], strict=True)
        ]
        return b"".join(parts).decode("utf-8", "replace").strip() or "".join(own)


def _reader(ordinary: list[str]) -> Callable[[str], bytes]:
    """How tokens are written."""
    if any("▁" in x for x in ordinary):
        return _pieced
    if any("Ġ" in x or "Ċ" in x for x in ordinary):
        return _byte_level
    return _continued if any(x.startswith("##") and len(x) > 2 for x in ordinary) else _plain


def _plain(token: str) -> bytes:
    return token.encode("utf-8", "replace")


def _continued(token: str) -> bytes:
    return _plain(token[2:] if token.startswith("##") and len(token) > 2 else token)


def _pieced(token: str) -> bytes:
    byte = BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else _plain(token.replace("▁", " "))


def _byte_level(token: str) -> bytes:
    known = [BYTES.get(c) for c in token]
    return _plain(token) if None in known else bytes(x for x in known if x is not None)


# By markers, and by spans.


def _marked(of: Spelling, apart: Array) -> Words:
    """A word from each marker to the next."""
    n = len(of.tokens)
    alone = [single or of.line(i) for i, single in enumerate(of.special)]
    starts = [i for i in range(n) if not i or alone[i] or alone[i - 1] or apart[i] or of.begins(i)]
    bounds = [*starts, n]
    return Words(np.array(bounds, np.int64), tuple(of.name(a, b) for a, b in pairwise(bounds)))


def _spans(tokens: Sequence[str] | None, n: int, given: list[Any]) -> Words:
    """A word for each span, and for each token outside of them."""
    spans = np.asarray(given) if given else np.zeros((0, 2), np.int64)
    if spans.dtype.kind not in "iu" or spans.ndim != 2 or spans.shape[1] != 2:
        raise DtypeError(
            f"words were given with shape {spans.shape} and dtype {spans.dtype}, expected (start, stop) spans, "
            "a text, or a list of words"
        )
    end, starts = 0, np.ones(n, np.bool_)
    for start, stop in sorted(spans.tolist()):
        if not 0 <= start < stop <= n:
            raise ShapeError(f"the words have the span ({start}, {stop}), expected one token or more within 0 and {n}")
        if start < end:
            raise ShapeError(f"the words have spans that overlap at ({start}, {stop}), expected each token in one")
        starts[start + 1 : stop] = False
        end = stop
    bounds = np.append(np.flatnonzero(starts), n)
    if tokens is None:
        return Words(bounds, None)
    of = Spelling(tokens)
    return Words(bounds, tuple(of.name(a, b) for a, b in pairwise(bounds.tolist())))


# By the text.


def _words(text: str) -> Iterator[tuple[int, int]]:
    """Where the words of a text begin and end: at white space, and at each sign, but for an apostrophe between letters.

    >>> text = "Don't stop (now)."
    >>> [text[a:b] for a, b in _words(text)]
    ["Don't", 'stop', '(', 'now', ')', '.']
    """
    first, letters = 0, False
    for i, c in enumerate(text):
        kind = unicodedata.category(c)
        if c.isspace():
            if first < i:
                yield first, i
            first, letters = i + 1, False
        elif kind[0] == "M" or kind == "Cf":  # an accent, or part of an emoji: with what stands before it
            continue
        elif kind[0] in "PS" and not (c in "'’" and letters and text[i + 1 : i + 2].isalnum()):
            if first < i:
                yield first, i
            first, letters = i, False
        elif not letters:
            if first < i:
                yield first, i
            first, letters = i, True
    if first < len(text):
        yield first, len(text)


def _folded(text: str, lower: bool) -> str:
    """A text without what tokenizers change: white space, how accents are composed, and, if so, case and accents."""
    spread = unicodedata.normalize("NFKD", text)
    spread = spread.lower() if lower else spread
    lost = ("Cc", "Cf", "Mn") if lower else ("Cc", "Cf")
    return "".join(c for c in spread if not c.isspace() and unicodedata.category(c) not in lost)


class Given:
    """The words of a text, letter by letter."""

    def __init__(self, given: str | list[str], lower: bool):
        text = given if isinstance(given, str) else " ".join(given)
        self.fixed = not isinstance(given, str)  # words of a list are never joined
        if isinstance(given, str):
            self.spans = list(_words(text))
        else:
            ends = np.cumsum([len(x) + 1 for x in given]).tolist()
            self.spans = [(end - len(x) - 1, end - 1) for x, end in zip(given, ends, strict=True)]
        self.text = text
        self.letters: list[tuple[str, int]] = []  # folded, and the word that each is part of
        for word, (a, b) in enumerate(self.spans):
            self.letters += [(x, word) for c in text[a:b] for x in _folded(c, lower)]
        self.at = 0

    def name(self, first: int, last: int) -> str:
        return self.text[self.spans[first][0] : self.spans[last][1]].strip()

    def rest(self) -> str:
        """The word that comes next."""
        return (
            repr(self.name(self.letters[self.at][1], self.letters[self.at][1])) if self.at < len(self.letters) else ""
        )

    def unknown(self) -> int:
        """How many letters the tokenizer took as one word that it does not know."""
        count, here = 0, self.letters[self.at :]
        while count < len(here) and here[count][1] == here[0][1]:
            sign = unicodedata.category(here[count][0])[0] in "PS"
            if sign and count:
                break
            count += 1
            if sign:
                break
        return count


def _matched(of: Spelling, given: str | list[str]) -> Words:
    """The words of a text, by reading it along with the tokens."""
    text = Given(given, of.lower)
    n = len(of.tokens)
    part: list[tuple[int, int] | None] = [None] * n  # the first and last word that a token is part of
    i = 0
    while i < n:
        if of.special[i]:
            literal = _folded(of.tokens[i], of.lower)
            here = "".join(c for c, _ in text.letters[text.at : text.at + len(literal)])
            count = len(literal) if here == literal else text.unknown() if of.tokens[i] in UNKNOWN else 0
            if count:
                part[i] = text.letters[text.at][1], text.letters[text.at + count - 1][1]
                text.at += count
            i += 1
            continue
        stop = next((j for j in range(i, n) if of.special[j]), n)
        for j, (a, b) in enumerate(_run(of, i, stop, text), i):
            part[j] = (text.letters[a][1], text.letters[b - 1][1]) if a < b else None
        i = stop
    if text.at < len(text.letters):
        raise TokenError(
            f"the words go on with {text.rest()} after the last token, expected those of the tokens: {WHAT}"
        )
    return _joined(of, text, part)


WHAT = "pass the text that was tokenized, or spans"


def _run(of: Spelling, first: int, stop: int, text: Given) -> list[tuple[int, int]]:
    """Tokens without special ones between them, matched with the text: the letters that each has a part of."""
    raw = [of.bytes_of(x) for x in of.tokens[first:stop]]
    ends = np.cumsum([0, *map(len, raw)]).tolist()
    count, byte = 0, 0
    before: list[int] = []  # letters before each byte, or, inside a character, before the character
    after: list[int] = []  # letters up to the end of each byte's character
    letters: list[tuple[str, int]] = []  # with the byte where their character begins
    for c in b"".join(raw).decode("utf-8", "surrogateescape"):
        width = len(c.encode("utf-8", "surrogateescape"))
        folded = "".join(_folded(c, of.lower))
        letters += [(x, byte) for x in folded]
        before += [count] * width
        count += len(folded)
        after += [count] * width
        byte += width
    for at, (c, where) in enumerate(letters, text.at):
        if at >= len(text.letters) or text.letters[at][0] != c:
            token = first + int(np.searchsorted(ends, where, "right")) - 1
            text.at = at
            have = text.rest() or "their end"
            raise TokenError(
                f"token {token} is {of.tokens[token]!r} where the words have {have}, expected the same: {WHAT}"
            )
    spans = [(text.at + before[a], text.at + after[b - 1]) if a < b else (0, 0) for a, b in pairwise(ends)]
    text.at += count
    return spans


def _joined(of: Spelling, text: Given, part: list[tuple[int, int] | None]) -> Words:
    """Neighbouring tokens of a word as one; a token of several words makes one of these."""
    n = len(part)
    joined = np.arange(len(text.spans))  # the first of the words that each was joined to
    for i, words in enumerate(part):
        if words is not None and words[0] < words[1]:
            first, last = words
            if text.fixed and not of.special[i]:
                names = [repr(text.name(x, x)) for x in words]
                raise TokenError(
                    f"token {i}, {of.tokens[i]!r}, is part of {names[0]} and of {names[1]}, expected no token in two "
                    "words: join these, or pass the text as one string"
                )
            joined[first : last + 1] = joined[first]
    groups: list[int | None] = [None if words is None else int(joined[words[0]]) for words in part]
    for i in reversed(range(n)):
        text_of = of.text(of.tokens[i])
        if groups[i] is None and not of.special[i] and text_of.isspace() and not of.line(i):
            # White space alone is part of the word that it begins.
            follows = i + 1 < n and not of.special[i + 1] and not of.text(of.tokens[i + 1])[:1].isspace()
            groups[i] = groups[i + 1] if follows else None
    for i in range(1, n):
        if groups[i] is None and not of.special[i] and not of.text(of.tokens[i])[:1].isspace():
            groups[i] = groups[i - 1]  # an accent, say: nothing by itself
    starts = [i for i in range(n) if not i or groups[i] is None or groups[i] != groups[i - 1]]
    bounds, names = [*starts, n], []
    for a, b in pairwise(bounds):
        known = [x for x in part[a:b] if x is not None]
        names.append(text.name(known[0][0], known[-1][1]) if known else of.name(a, b))
    return Words(np.array(bounds, np.int64), tuple(names))
