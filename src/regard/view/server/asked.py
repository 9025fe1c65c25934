"""What is asked: the parameters of a route, read strictly.

>>> read({"n": Whole(10), "pool": Choice("max", "mean")}, b"n=7")
{'n': 7, 'pool': 'max'}
>>> read({"n": Whole(10)}, b"n=11")
Traceback (most recent call last):
regard.view.server.asked.Refused: n is 11, expected a whole number from 0 to 10
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

DIGITS = 12  # of a number
QUERY = 4096  # bytes of a query string
LIST = 256  # numbers of a list


class Refused(Exception):
    """A request that is answered by a number of the 400s and a sentence."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def wrong(sentence: str) -> Refused:
    """A parameter that is not what was expected."""
    return Refused(400, sentence)


def shown(given: str) -> str:
    """What came, as a message shows it: printable and short."""
    short = given if len(given) <= 24 else given[:24] + "…"
    return ascii(short)[1:-1] if not short.isprintable() else short


def whole(name: str, given: str) -> int:
    """A whole decimal of at most 12 digits."""
    if not (given.isascii() and given.isdecimal()) or len(given) > DIGITS:
        raise wrong(f"{name} is {shown(given) or 'empty'}, expected a whole number of at most {DIGITS} digits")
    return int(given)


class Kind(Protocol):
    """What a parameter may be."""

    @property
    def default(self) -> Any: ...

    def read(self, name: str, given: str) -> Any: ...


class Needed:
    """Stands for a default where there is none."""


NEEDED = Needed()


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`."""

    most: int = 10**DIGITS - 1
    default: Any = NEEDED
    least: int = 0

    def read(self, name: str, given: str) -> int:
        number = whole(name, given)
        if not self.least <= number <= self.most:
            raise wrong(f"{name} is {number}, expected a whole number from {self.least} to {self.most}")
        return number


class Choice:
    """One of some words; the first if none is given."""

    def __init__(self, *words: str):
        self.words, self.default = words, words[0]

    def read(self, name: str, given: str) -> str:
        if given not in self.words:
            raise wrong(f"{name} is {shown(given) or 'empty'}, expected {' or '.join(self.words)}")
        return given


@dataclass(frozen=True)
class Words:
    """Text of at most so many characters."""

    most: int
    default: Any = NEEDED

    def read(self, name: str, given: str) -> str:
        if len(given) > self.most:
            raise Refused(413, f"{name} has {len(given)} characters, expected at most {self.most}")
        return given


@dataclass(frozen=True)
class Numbers:
    """Whole numbers with commas between, sorted, each once."""

    default: Any = ()

    def read(self, name: str, given: str) -> tuple[int, ...]:
        parts = given.split(",")
        if len(parts) > LIST:
            raise Refused(413, f"{name} has {len(parts)} numbers, expected at most {LIST}")
        return tuple(sorted({whole(name, part) for part in parts}))


@dataclass(frozen=True)
class Another:
    """Another head, r.x.l.h."""

    default: Any = None

    def read(self, name: str, given: str) -> tuple[int, ...]:
        parts = given.split(".")
        if len(parts) != 4:
            raise wrong(f"{name} is {shown(given) or 'empty'}, expected a head as recording.text.layer.head")
        return tuple(whole(name, part) for part in parts)


def read(kinds: Mapping[str, Kind], query: bytes) -> dict[str, Any]:
    """The parameters of a query string, each of its kind; those that are not given have their default."""
    if len(query) > QUERY:
        raise Refused(413, f"the query has {len(query)} bytes, expected at most {QUERY}")
    found: dict[str, Any] = {}
    for part in query.split(b"&") if query else ():
        key, equals, value = part.partition(b"=")
        name = _decoded("a name", key)
        kind = kinds.get(name)
        if kind is None or not equals:
            known = ", ".join(kinds) or "none"
            raise wrong(f"the parameter {shown(name) or 'without a name'} is not known, expected some of: {known}")
        if name in found:
            raise wrong(f"{name} is given twice, expected it once")
        found[name] = kind.read(name, _decoded(name, value))
    for name, kind in kinds.items():
        if name not in found:
            if kind.default is NEEDED:
                raise wrong(f"{name} is missing, expected it among: {', '.join(kinds)}")
            found[name] = kind.default
    return found


def _decoded(name: str, given: bytes) -> str:
    if b"%" in given or b"+" in given:
        given = unquote_to_bytes(given.replace(b"+", b" "))
    try:
        return given.decode()
    except UnicodeDecodeError:
        raise wrong(f"{name} is no UTF-8, expected text in that encoding") from None
