"""Tokens and numbers as text that is safe to show and of a width that is known.

Terminals disagree about joiners, variation selectors, skin tones and flags, so tokens go without them; whatever could
move the cursor or turn a line around is replaced by a sign that can be seen.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from regard.lens import wording

ISOLATE, END = "\u2068", "\u2069"  # what stands between them orders its own letters and no others
SIGNS = {" ": "·", "\n": "↵", "\t": "⇥", "\x7f": "␡"}
PLAIN = {
    "·": "_",
    "↵": "\\n",
    "⇥": "\\t",
    "…": "~",
    "≈": "~",
    "×": "x",
    "−": "-",
    "↓": "v",
    "→": ">",
    "≤": "<=",
    "▸": ">",
    "◂": "<",
}
RIGHT_TO_LEFT = ("R", "AL", "AN")
MORE = "…"
KNOWN = 1 << 15  # tokens whose signs and width are remembered: a long text has the same ones over and over
_TOKEN = re.compile(r"'[^']*'")  # as sentences quote them
_TOGETHER = re.compile(r" (?=%)|(?<=[<>]) (?=\d)")  # blanks within a number: 54 %, < 0.1 %


@lru_cache(KNOWN)
def clean(token: str, unicode: bool = True) -> str:
    """A token that can be shown anywhere: spaces as ·, newlines as ↵, and nothing that steers a terminal.

    >>> clean(" cat\\n"), clean("\\x1b[31mred"), clean("a\\u202eb"), clean("")
    ('·cat↵', '␛[31mred', 'a⟨202E⟩b', '∅')
    """
    shown = "".join(_sign(c) for c in unicodedata.normalize("NFC", token)) or "∅"
    if not _columns(shown[0]):
        shown = "◌" + shown  # a mark without a letter would join what stands before it
    return shown if unicode else ascii_of(shown)


def safe(text: str, unicode: bool = True) -> str:
    """A sentence, its spaces as they are, in which tokens stand.

    >>> safe("'a\\x1b' looks at 'שלום'") == f"'a␛' looks at {ISOLATE}'שלום'{END}"
    True
    """
    shown = "".join(c if c == " " else _sign(c) for c in unicodedata.normalize("NFC", text))
    return _TOKEN.sub(lambda found: isolated(found[0]), shown) if unicode else ascii_of(shown)


def ascii_of(text: str) -> str:
    """Text for where only ASCII can be shown.

    >>> ascii_of("·naïve↵")
    '_na\\\\xefve\\\\n'
    """
    plain = "".join(PLAIN.get(c, c) for c in text)
    return plain.encode("ascii", "backslashreplace").decode("ascii")


def _sign(c: str) -> str:
    if c in SIGNS:
        return SIGNS[c]
    code, kind = ord(c), unicodedata.category(c)
    if code < 32:
        return chr(0x2400 + code)  # ␀ … ␟
    if c in "\u200c\u200d" or 0xFE00 <= code <= 0xFE0F or 0x1F3FB <= code <= 0x1F3FF:
        return ""
    if 0x1F1E6 <= code <= 0x1F1FF:
        return f"⟨{chr(code - 0x1F1E6 + ord('A'))}⟩"  # half of a flag
    if kind == "Zs":
        return "·"
    if kind in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return f"⟨{code:02X}⟩"
    return c


def clusters(text: str) -> Iterator[str]:
    """Letters with the marks that belong to them.

    >>> list(clusters("q\\u0307x"))
    ['q̇', 'x']
    """
    current = ""
    for c in text:
        if current and (_columns(c) or not _columns(current[0])):
            yield current
            current = ""
        current += c
    if current:
        yield current


def _columns(c: str) -> int:
    code = ord(c)
    if unicodedata.category(c) in ("Mn", "Me", "Cf") or 0x1160 <= code <= 0x11FF:  # the latter join a Hangul letter
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


@lru_cache(KNOWN)
def width(text: str) -> int:
    """How many columns of a terminal a text takes.

    >>> width("cat"), width("猫"), width("é"), width("e\\u0301")
    (3, 2, 1, 1)
    """
    return sum(map(_columns, text))


def clip(text: str, most: int, more: str = MORE) -> str:
    """Text cut to so many columns, the cut marked.

    >>> clip("chased", 4), clip("追いかける", 4), clip("cat", 3)
    ('cha…', '追…', 'cat')
    """
    if width(text) <= most:
        return text
    kept, used = "", 0
    for piece in clusters(text):
        used += width(piece)
        if used > most - 1:
            break
        kept += piece
    return kept + more if most > 0 else ""


def pad(text: str, columns: int, side: str = "left") -> str:
    """Text in so many columns, at their "left", "right" or "middle"; right-to-left letters keep to them."""
    blank = max(0, columns - width(text))
    left = {"left": 0, "right": blank, "middle": blank // 2}[side]
    return " " * left + isolated(text) + " " * (blank - left)


def isolated(text: str) -> str:
    """Text that orders its own letters only, where it has any from right to left."""
    turns = any(unicodedata.bidirectional(c) in RIGHT_TO_LEFT for c in text)
    return f"{ISOLATE}{text}{END}" if turns else text


def wrap(text: str, columns: int) -> list[str]:
    """Text in lines of so many columns, broken at spaces, and within words that are longer.

    >>> wrap("A weight says how this head", 12)
    ['A weight', 'says how', 'this head']
    """
    lines, line = [], ""
    for word in _TOGETHER.sub("\xa0", text).split(" "):
        while width(word) > columns:
            space = columns - width(line) - bool(line)
            head = _start(word, space if space > 1 else columns)
            if space > 1:
                lines.append(f"{line} {head}" if line else head)
            else:
                lines += [line, head]
            line, word = "", word[len(head) :]
        if line and width(line) + 1 + width(word) > columns:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [x.replace("\xa0", " ") for x in [*lines, line]]


def _start(word: str, columns: int) -> str:
    head = ""
    for piece in clusters(word):
        if head and width(head) + width(piece) > columns:
            break
        head += piece
    return head


def number(value: float) -> str:
    """A weight or a score in a table.

    >>> [number(x) for x in (0.81234, 0.000031, 0.0, -2.5, 123.456, float("nan"), float("-inf"))]
    ['0.812', '3.1e-5', '0', '-2.500', '123.5', 'NaN', 'hidden']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "hidden"
    if abs(value) >= 100:
        return f"{value:.1f}" if abs(value) < 1e5 else f"{value:.1e}".replace("e+0", "e")
    return wording.number(value)


def fitting(value: float, room: int) -> str:
    """A number in at most so many columns, with fewer digits if need be: never a part of it.

    >>> fitting(2.9e-10, 7), fitting(2.9e-10, 6), fitting(-1234.56, 6), fitting(-1e-300, 6)
    ('2.9e-10', '3e-10', '-1235', '~0')
    """
    coarse = f"{value:.0e}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    whole = (f"{value:.0f}",) if abs(value) >= 1 else ()
    return next((text for text in (number(value), *whole, coarse) if len(text) <= room), "~0")


def short(value: float) -> str:
    """A number as few digits as tell it, for the ends of a scale.

    >>> short(1.0), short(1 / 30000), short(0.25), short(12.34), short(1e-4)
    ('1', '3.3e-5', '0.25', '12.3', '1e-4')
    """
    return number(value).replace(".0e", "e") if 0 < abs(value) < 0.001 else f"{value:.3g}"


def count(n: int) -> str:
    """A large number in groups of three.

    >>> count(131072), count(3000)
    ('131 072', '3000')
    """
    return f"{n:,}".replace(",", " ") if n >= 10000 else str(n)


def ticks(n: int, cells: int, apart: int) -> list[tuple[int, str]]:
    """(cell, number of the place) for round numbers at least so many cells apart.

    >>> ticks(3000, 60, 15)
    [(0, '0'), (20, '1000'), (40, '2000')]
    """
    least = n * apart / cells
    step = next(m * 10**power for power in range(20) for m in (1, 2, 5) if m * 10**power >= least)
    return [(place * cells // n, str(place)) for place in range(0, n, step)]
