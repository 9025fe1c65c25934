"""What a terminal can show, and lines of coloured cells for it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TextIO

from regard.view.colour import RGB, Paint, Theme, depth, theme_of_terminal
from regard.view.text import ascii_of, wrap

NEEDED = "query ↓ → · ↵ … × ≤ ▸ ░▒▓█▀ ╱ ●○◯⬤ ▏ ⣿"  # signs that a terminal is asked for
NO_WINDOW = (80, 50)  # columns and lines where the picture goes into a file


class Cell(NamedTuple):
    """One letter in its colours."""

    sign: str
    ink: RGB | None = None
    paper: RGB | None = None


@dataclass(frozen=True)
class Screen:
    """A window: its size, its colours and its letters."""

    width: int
    height: int
    paint: Paint
    theme: Theme
    unicode: bool

    @classmethod
    def of(cls, file: TextIO | None, width: int | None, height: int | None, colour: Any) -> Screen:
        """What is given, and for the rest what the file says of itself."""
        stream: Any = sys.stdout if file is None else file
        tty = bool(getattr(stream, "isatty", lambda: False)())
        for name, given in (("width", width), ("height", height)):
            if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
                raise ValueError(
                    f"{name} is {given!r}, expected a number of {'columns' if name == 'width' else 'lines'}"
                )
        columns, lines = _window(stream) if tty else _asked()
        return cls(
            width=max(8, columns if width is None else width),
            height=max(8, lines if height is None else height),
            paint=Paint(depth(tty, colour)),
            theme=theme_of_terminal(),
            unicode=_can(getattr(stream, "encoding", None)),
        )

    def words(self, text: str, columns: int | None = None) -> list[str]:
        """A sentence in lines."""
        return wrap(self.plain(text), min(100, self.width) if columns is None else columns)

    def plain(self, text: str) -> str:
        """Text of ours in letters that can be shown."""
        return text if self.unicode else ascii_of(text)

    def cells(self, cells: Sequence[Cell]) -> str:
        """Cells as a line; neighbours of one colour share the codes for it."""
        return "".join(
            self.paint("".join(cell.sign for cell in run), ink, paper)
            for (ink, paper), run in groupby(cells, key=lambda cell: (cell.ink, cell.paper))
        )


def _window(stream: Any) -> tuple[int, int]:
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError, AttributeError):  # it says that it is a terminal and has no size
        return shutil.get_terminal_size()
    size = shutil.get_terminal_size()  # COLUMNS and LINES come before what the terminal says
    given = "COLUMNS" in os.environ, "LINES" in os.environ
    return size.columns if given[0] or not found.columns else found.columns, (
        size.lines if given[1] or not found.lines else found.lines
    )


def _asked() -> tuple[int, int]:
    """The size for a file: COLUMNS and LINES if they are set."""
    found = []
    for name, otherwise in zip(("COLUMNS", "LINES"), NO_WINDOW, strict=True):
        given = os.environ.get(name, "")
        found.append(int(given) if given.isdigit() and int(given) else otherwise)
    return found[0], found[1]


def _can(encoding: str | None) -> bool:
    try:
        NEEDED.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
