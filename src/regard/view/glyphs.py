"""Signs of different weight and size: how a value looks where there is no colour, or where size shall tell it.

>>> print(*disc(1.0, 4, 2), *disc(1.0, 4, 2, hollow=True), sep="\\n")
⣴⣿⣷⡄
⠙⠿⠟⠁
⡔⠉⠑⡄
⠑⠤⠔⠁
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

HATCH, BROKEN, WIDE = "╱", "?", "□"  # hidden; NaN; a letter that is wider than its cell
PLAIN_HATCH = "/"
SHADES, NEGATIVE = " ·░▒▓█", " -~=≡▤"
PLAIN_SHADES, PLAIN_NEGATIVE = " .:+*@", " -~=%#"
# The area of each dot, of the largest's: its diameter squared in common fonts.
DOTS = ((0.03, "·"), (0.16, "•"), (0.5, "●"), (1.0, "⬤"))
RINGS = ((0.16, "◦"), (0.5, "○"), (1.0, "◯"))
PLAIN_DOTS = ((0.03, "."), (0.16, "*"), (0.5, "%"), (1.0, "@"))
PLAIN_RINGS = ((0.16, "c"), (0.5, "o"), (1.0, "O"))
_KINDS = ((PLAIN_SHADES, PLAIN_NEGATIVE), (SHADES, NEGATIVE))  # by whether there is Unicode and whether negative
_SIZES = ((PLAIN_DOTS, PLAIN_RINGS), (DOTS, RINGS))
BARS = " ▏▎▍▌▋▊▉█"
LEAST = 0.004  # of the scale: below it a sign is left out


def shade(size: float, negative: bool = False, unicode: bool = True) -> str:
    """A sign as dark as a size from 0 to 1.

    >>> [shade(x) for x in (0.0, 0.02, 0.4, 1.0)]
    [' ', '·', '▒', '█']
    """
    signs = _KINDS[unicode][negative]
    if size < LEAST:
        return signs[0]
    return signs[1] if size < 0.1 else signs[min(5, 2 + int((size - 0.1) / 0.9 * 4))]


def dot(size: float, negative: bool = False, unicode: bool = True) -> str:
    """A dot whose area is nearest to a size from 0 to 1, hollow for what is negative.

    >>> [dot(x) for x in (0.0, 0.05, 0.5, 1.0)], dot(0.5, negative=True)
    ([' ', '·', '●', '⬤'], '○')
    """
    if size < LEAST:
        return " "
    known = _SIZES[unicode][negative]
    return min(known, key=lambda one: abs(one[0] - size))[1]


# A letter of Braille has two columns of four dots; these are the bits of its code.
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


@lru_cache(maxsize=4096)
def disc(size: float, columns: int, lines: int, hollow: bool = False) -> list[str]:
    """A disc in dots of Braille, whose number is as near to the size, from 0 to 1, as a round shape can have it."""
    wide, tall = 2 * columns, 4 * lines
    room = min(wide, tall) - 1  # one dot is left between neighbours
    y, x = np.mgrid[:tall, :wide]
    far = np.hypot(y - (tall - 1) // 2, x - (wide - 1) // 2)
    # Dots of one distance come together, or the disc would have a dent.
    rings = np.unique(far[far <= room / 2])
    counts = (far[..., None] <= rings).sum((0, 1))
    filled = np.zeros(far.shape, np.bool_)
    if size >= LEAST:
        filled = far <= rings[np.abs(counts - size * counts[-1]).argmin()]
    if hollow:
        filled = _ring(filled)
    return [
        "".join(_letter(filled[4 * i : 4 * i + 4, 2 * j : 2 * j + 2]) for j in range(columns)) for i in range(lines)
    ]


def _ring(filled: Array) -> Array:
    """The dots of a disc that have a neighbour outside it."""
    wide = np.pad(filled, 1)
    inside = wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:]
    found: Array = filled & ~inside
    return found


def _letter(dots: Array) -> str:
    code = sum(bit for row, bits in zip(dots, _BITS, strict=True) for on, bit in zip(row, bits, strict=True) if on)
    return chr(0x2800 + code) if code else " "


def bar(share: float, columns: int, unicode: bool = True) -> str:
    """A bar for a share of so many columns.

    >>> bar(0.5, 5), bar(0.5, 4, unicode=False)
    ('██▌', '##')
    """
    if not unicode:
        return "#" * round(share * columns)
    eighths = round(max(0.0, min(1.0, share)) * columns * 8)
    return "█" * (eighths // 8) + (BARS[eighths % 8] if eighths % 8 else "")
