"""Matrices to draw, and what a terminal would hold after drawing one."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

import regard
from regard.view.text import END, ISOLATE, width

WORDS = ["[CLS]", "The", "cat", "chased", "mice", "[SEP]"]
LINE = "The quick brown fox jumps over the lazy dog while two old cats watch from a warm window sill".split(" ")  # noqa: SIM905
ODD = [
    "The",
    " 猫は",
    "שלום",
    "مرحبا",
    "e\u0301te\u0301",
    "👩‍👩‍👧",
    "\x1b[31mred",
    "\x9b2J",
    "\n",
    "a\tb",
    "🇩🇪",
    "\u202eevil\u2066",
    "",
    "\u0301",
    "\ud800",
    "각",
    "<b>&'\"",
    "\r\x07",
]
CODES = re.compile(r"\x1b\[[0-9;]*m")


def made(tokens: list[str] | None = None, n: int = 0, heads: tuple[int, ...] = (), seed: int = 0, **more: Any) -> Any:
    """A matrix of random queries and keys."""
    rng = np.random.default_rng(seed)
    n = n or len(tokens or ())
    q, k = rng.standard_normal((2, *heads, n, 8)).astype(np.float32)
    return regard.matrix(2 * q, k, tokens=tokens, **more)


class Terminal(io.StringIO):
    """A file that says that it is a terminal."""

    def __init__(self, encoding: str = "utf-8"):
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]  # StringIO has none
        return self._encoding

    def isatty(self) -> bool:
        return True


def draw(matrix: Any, head: Any = None, **more: Any) -> str:
    """What show writes, to no terminal if no other file is given."""
    file = more.pop("file", None) or io.StringIO()
    more.setdefault("height", 40)
    matrix.show(head, file=file, **more)
    return str(file.getvalue())


def plain(text: str) -> list[str]:
    """Lines without colours and isolates."""
    return CODES.sub("", text).replace(ISOLATE, "").replace(END, "").splitlines()


def widest(text: str) -> int:
    return max(map(width, plain(text)))
