"""Numbers, tokens and heads as they are written in sentences and tables.

>>> percent(0.8123), percent(0.004), percent(2e-5), times(4.86), number(0.81234), number(3.1e-5)
('81 %', '0.4 %', '< 0.1 %', '4.9', '0.812', '3.1e-5')
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

# Tokens that begin, end, part or fill a text, by the names that tokenizers give them.
SPECIAL = re.compile(
    r"\[(cls|sep|pad|bos|eos)\]|</?s>|<(cls|sep|pad|bos|eos|begin_of_text|end_of_text|start_of_turn|end_of_turn)>|"
    r"<\|[^|<>]+\|>|<｜[^｜<>]+｜>|\[/?inst\]|</?(bos|eos)_token>",
    re.IGNORECASE,
)
SHOWN = {" ": "·", "\n": "↵", "\r": "↵", "\t": "⇥"}
JOINERS = "\u200c\u200d"  # of letters and of emoji: they belong to what is seen


def percent(share: float) -> str:
    """A share as it stands in a sentence: never 0 %, and 100 % only if nothing is left.

    >>> percent(0.0), percent(0.9997), percent(0.996), percent(1.0)
    ('< 0.1 %', '> 99.9 %', '99.6 %', '100 %')
    """
    if share < 0.001:
        return "< 0.1 %"
    if share >= 1:
        return "100 %"
    if share > 0.999:
        return "> 99.9 %"
    if share < 0.0095 or share >= 0.995:
        return f"{100 * share:.1f} %"
    return f"{100 * share:.0f} %"


def times(ratio: float) -> str:
    """How many times."""
    if ratio < 0.1:
        return "less than 0.1"
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


def number(x: float) -> str:
    """A number as it stands in a table."""
    if math.isnan(x):
        return "–"
    if x == 0 or abs(x) >= 0.001:
        return f"{x:.3f}" if x else "0"
    return re.sub(r"e([+-])0*", lambda m: "e" + m[1].replace("+", ""), f"{x:.1e}")


def short(x: float) -> str:
    """The same in five places.

    >>> short(0.81234), short(3.1e-5)
    ('0.812', '3e-5')
    """
    return number(x) if not 0 < abs(x) < 0.001 else f"{x:.0e}".replace("e-0", "e-")


def shown(token: str) -> str:
    """A token without what would move a cursor: a space is ·, a new line is ↵, and the unseen is spelt out.

    >>> shown(" cat"), shown("\\x1b[0m")
    ('·cat', '\\\\x1b[0m')
    """

    def one(c: str) -> str:
        if c in SHOWN:
            return SHOWN[c]
        unseen = unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and c not in JOINERS
        return c.encode("unicode_escape").decode() if unseen else c

    return "".join(map(one, token))


def listed(parts: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def special(tokens: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which tokens are those that a tokenizer adds.

    >>> special(["[CLS]", "cat", "</s>", "<|endoftext|>", "[x]"]).tolist()
    [True, False, True, True, False]
    """
    return np.array([SPECIAL.fullmatch(token.strip()) is not None for token in tokens], np.bool_)


def bare(token: str) -> str:
    """A token without the marks that tokenizers put for a space before it, or for the lack of one.

    >>> bare("Ġcat"), bare("##s"), bare("▁the"), bare("end</w>"), bare("##")
    ('cat', 's', 'the', 'end', '##')
    """
    token = token.strip().lstrip("Ġ▁ĊĉČ").removesuffix("</w>")
    return token[2:] if token.startswith("##") and len(token) > 2 else token


def punctuation(tokens: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which tokens hold punctuation and nothing else.

    >>> punctuation([".", "Ġ,", "##'", "cat", "[SEP]", "a."]).tolist()
    [True, True, True, False, False, False]
    """
    added = special(tokens)
    only = {t: bool(bare(t)) and all(unicodedata.category(c)[0] == "P" for c in bare(t)) for t in set(tokens)}
    return np.array([only[t] for t in tokens], np.bool_) & ~added


def labels(matrix: Any) -> list[str]:
    """What each head is called, flat over the leading axes: L1H8 where the matrix knows, "" where there is only one."""
    front = tuple(matrix.front)
    count = math.prod(front)
    given = getattr(matrix, "labels", None)
    if given is not None:
        known = [given] if isinstance(given, str) else [str(x) for x in np.asarray(given, dtype=object).ravel()]
        if len(known) == count:
            return known
    if not front:
        return [""]
    places = [np.unravel_index(i, front) for i in range(count)]
    return [(f"item {', '.join(map(str, map(int, at[:-1])))}, " if at[:-1] else "") + f"head {at[-1]}" for at in places]
