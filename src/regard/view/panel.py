"""One matrix of a diagram: its cells, what is written around them, and where it stands.

>>> made = Panel("X", "X", np.eye(2), 0, Scale.of_scores(1.0))
>>> made.put(10.0, 60.0)
>>> made.shape, made.inner, made.port("left")
('2 × 2', (56.0, 48.0), (5.0, 60.0))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.view.colour import Scale
from regard.view.desk import size
from regard.view.figures import figure, fitted
from regard.view.text import clip, width

Array = np.ndarray[Any, Any]

ROWS, COLUMNS, NUMBERS = 8, 8, 6  # rows, keys, and columns of plain numbers that are drawn
TALL, LETTER, NAME = 24.0, 6.7, 7.0  # pixels: a cell's height, a digit, a letter of a name
BOLD = 7.4  # pixels of a letter of a title
LONGEST = 10  # columns of a name
UPRIGHT = 58.0  # up to which a name makes its column wider; a longer one is slanted
GAP = 18.0  # pixels of the mark for what is left out


@dataclass(eq=False)
class Panel:
    """One matrix of the picture."""

    name: str
    equation: str
    values: Array
    decimals: int
    scale: Scale
    strength: float = 1.0
    down: Sequence[str] = ()
    across: Sequence[str] = ()
    inks: tuple[str, str] = ("", "")  # classes of the names: "q", "k" or ""
    mark: int | None = None
    keep: tuple[Sequence[int], Sequence[int]] = ((), ())
    x: float = 0.0  # of the corner of the first cell
    y: float = 0.0

    def __post_init__(self) -> None:
        marked = [] if self.mark is None else [self.mark]
        self.rows = fitted(self.values.shape[0], ROWS, [*marked, *self.keep[0]])
        self.columns = fitted(self.values.shape[1], COLUMNS if self.across else NUMBERS, self.keep[1])
        texts = [self.text(i, j) for i in self.rows for j in self.columns if i is not None and j is not None]
        self.names = [clip(self.down[i], LONGEST) if self.down and i is not None else "" for i in self.rows]
        self.heads = [clip(self.across[j], LONGEST) if self.across and j is not None else "" for j in self.columns]
        named = [width(head) * NAME + 8 for head in self.heads]
        self.wide = max([28.0, *(len(text) * LETTER + 8 for text in texts), *(x for x in named if x <= UPRIGHT)])
        self.slanted = any(width(head) * NAME > self.wide - 4 for head in self.heads)

    def text(self, i: int, j: int) -> str:
        return figure(float(self.values[i, j]), self.decimals)

    @property
    def shape(self) -> str:
        return size(self.values)

    @property
    def left(self) -> float:
        """Room for the names of rows."""
        return max((width(name) * NAME + 8 for name in self.names if name), default=0.0)

    @property
    def top(self) -> float:
        """Room for the title and the names of columns."""
        long = max((width(head) * NAME for head in self.heads if head), default=0.0)
        return 38.0 + (0.0 if not long else long * 0.71 + 8 if self.slanted else 16.0)

    @property
    def inner(self) -> tuple[float, float]:
        """The size of the cells together."""
        across = sum(GAP if j is None else self.wide for j in self.columns)
        return across, sum(GAP if i is None else TALL for i in self.rows)

    @property
    def title(self) -> float:
        """How wide the title is."""
        return max(len(self.equation) * BOLD, len(self.shape) * NAME)

    @property
    def outer(self) -> tuple[float, float]:
        """The size with all that is written around it."""
        slant = max((width(h) * NAME * 0.71 for h in self.heads), default=0.0) - self.wide / 2 if self.slanted else 0.0
        return self.left + max(self.inner[0] + max(0.0, slant), self.title), self.top + self.inner[1]

    def put(self, x: float, middle: float) -> None:
        """Set it down with its left edge here and its cells about this height."""
        self.x, self.y = x + self.left, middle - self.inner[1] / 2

    def port(self, side: str) -> tuple[float, float]:
        """Where arrows come in or leave."""
        w, h = self.inner
        return {
            "left": (self.x - self.left - 5, self.y + h / 2),
            "right": (self.x + w + 5, self.y + h / 2),
            "bottom": (self.x + w / 2, self.y + h + 6),
        }[side]
