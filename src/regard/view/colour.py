"""Colours, the same in the terminal, in notebooks and in plots: ramps even in lightness, and the scales along them.

>>> Scale.of_weights(6).place(np.array([0.0, 0.5, 1.0])).tolist()
[0.0, 0.5, 1.0]
>>> Scale.of_weights(1000).place(np.array([0.0, 0.0001, 0.01, 1.0])).tolist()
[0.0, 0.0, 0.5, 1.0]
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from regard.view.text import short

Array = np.ndarray[Any, Any]
RGB = tuple[int, int, int]
Depth = Literal["none", "256", "full"]

STEPS = 256  # of a ramp
REACH = 0.8  # of a ramp that stands for one sign: further on both are nearly black, or nearly white
LINEAR_UP_TO = 64  # tokens; with more, an even weight is too small to be seen on a linear scale


@dataclass(frozen=True)
class Theme:
    """The colours of a light or a dark page."""

    ramp: tuple[str, ...]  # of weights, from 0 to 1, and of scores from 0 up
    negative: tuple[str, ...]  # of scores from 0 down
    hidden: str
    hatch: str
    nan: str
    query: str
    key: str
    paper: str
    ink: str
    faint: str


LIGHT = Theme(
    ramp=("#ffffff", "#a4e0d8", "#1f9c9e", "#0a5580", "#06142b"),
    negative=("#ffffff", "#ffd3a1", "#d67a1f", "#8f3d07", "#351402"),
    hidden="#d7d7d7",
    hatch="#a8a8a8",
    nan="#e6007e",
    query="#b04a00",
    key="#1559b7",
    paper="#ffffff",
    ink="#1b2027",
    faint="#69707a",
)
DARK = Theme(
    ramp=("#0d0b14", "#46288c", "#8a5fd0", "#d9a9d6", "#fff6dc"),
    negative=("#0d0b14", "#5e2c07", "#b0601a", "#e8a75e", "#ffe9c9"),
    hidden="#3a3a3a",
    hatch="#626262",
    nan="#ff4f9a",
    query="#ff9a4d",
    key="#75b0ff",
    paper="#15171b",
    ink="#e7e9ec",
    faint="#98a0aa",
)


def rgb(colour: str) -> RGB:
    """A colour's red, green and blue.

    >>> rgb("#ff8000")
    (255, 128, 0)
    """
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


# OKLab (Ottosson 2020): a space in which equal steps look equal. Rows take linear light to the cones, and their cube
# roots to lightness and two axes of hue.
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def oklab(colours: Any) -> Array:
    """Lightness and two axes of hue of (…, 3) colours from 0 to 255.

    >>> oklab([[255, 255, 255], [0, 0, 0]])[:, 0].round(3).tolist()
    [1.0, 0.0]
    """
    c = np.asarray(colours, float) / 255
    light = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)  # sRGB undone
    found: Array = np.cbrt(light @ _CONES.T) @ _LAB.T
    return found


def _colours(lab: Array) -> Array:
    light = np.clip((lab @ np.linalg.inv(_LAB).T) ** 3 @ np.linalg.inv(_CONES).T, 0, 1)
    c = np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)
    made: Array = np.rint(c * 255).astype(np.uint8)
    return made


@lru_cache
def ramp(stops: tuple[str, ...], steps: int = STEPS) -> Array:
    """(steps, 3) colours through the stops, their lightness in even steps.

    >>> ramp(LIGHT.ramp)[[0, -1]].tolist() == [list(rgb(LIGHT.ramp[0])), list(rgb(LIGHT.ramp[-1]))]
    True
    """
    lab = oklab([rgb(stop) for stop in stops])
    far = np.abs(lab[:, 0] - lab[0, 0])
    along = np.linspace(0, far[-1], steps)
    made: Array = _colours(np.stack([np.interp(along, far, lab[:, axis]) for axis in range(3)], axis=-1))
    made.flags.writeable = False  # it is kept for all who ask
    return made


@dataclass(frozen=True)
class Scale:
    """Which value has which colour: from `low` to `high`, evenly or by order of magnitude, or both ways from 0."""

    kind: Literal["linear", "logarithmic", "diverging"]
    low: float
    high: float

    @classmethod
    def of_weights(cls, n_k: int, largest: float = 1.0) -> Scale:
        """The scale of weights over so many keys, the same for every head; sums and weighted lengths may pass 1."""
        high = largest if largest > 1.001 else 1.0  # a weight may by rounding
        if n_k <= LINEAR_UP_TO:
            return cls("linear", 0.0, high)
        return cls("logarithmic", 1 / (10 * n_k), high)

    @classmethod
    def of_scores(cls, largest: float) -> Scale:
        """A scale about 0 to the largest size of a score."""
        size = largest if math.isfinite(largest) and largest > 0 else 1.0
        return cls("diverging", -size, size)

    def place(self, values: Any) -> Array:
        """Where values lie on the scale, from 0 to 1; NaN stays NaN."""
        x = np.asarray(values, float)
        if self.kind == "logarithmic":
            found = np.log(np.maximum(x, self.low) / self.low) / math.log(self.high / self.low)
        else:
            found = (x - self.low) / (self.high - self.low)
        clipped: Array = np.clip(found, 0, 1)
        return clipped

    def value(self, place: float) -> float:
        """The value at a place of the scale."""
        if self.kind == "logarithmic":
            return float(self.low * (self.high / self.low) ** place)
        return self.low + place * (self.high - self.low)

    def ticks(self) -> list[float]:
        """Values to write beside the scale.

        >>> Scale.of_weights(1000).ticks()
        [0.0001, 0.001, 0.01, 0.1, 1.0]
        """
        if self.kind == "logarithmic":
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            return [float(f"1e{power}") for power in powers]
        return [self.low, (self.low + self.high) / 2, self.high]

    def ends(self) -> tuple[str, str]:
        """The ends in words; what is below a logarithmic scale has the colour of its low end."""
        low = f"≤ {short(self.low)}" if self.kind == "logarithmic" else short(self.low)
        return low.replace("-", "−", self.kind == "diverging"), short(self.high)

    def table(self, theme: Theme) -> Array:
        """(256, 3): the colours along it."""
        if self.kind != "diverging":
            return ramp(theme.ramp)
        half = STEPS // 2
        signs = [ramp(stops, round(half / REACH))[:half] for stops in (theme.negative, theme.ramp)]
        return np.concatenate([signs[0][::-1], signs[1]])

    def index(self, values: Any) -> Array:
        """The place of values in that table; NaN is at 0 and has to be marked apart."""
        found: Array = np.rint(np.nan_to_num(self.place(values)) * (STEPS - 1)).astype(np.int64)
        return found


# Terminals.

# Queries are orange and keys blue everywhere; these can be read on a dark background and on a light one.
QUERY, KEY, FAINT = rgb("#cf6a1d"), rgb("#3d86d8"), rgb("#868686")
# Patterns by their letters, after Okabe and Ito: told apart by who cannot tell red from green, and each has its letter.
HUES = {
    "P": rgb("#2b8cbe"), "N": rgb("#d55e00"), "C": rgb("#009e73"), "S": rgb("#868686"), "L": rgb("#c0679b"),
    "I": rgb("#b8860b"), "D": rgb("#7b68c8"), "M": rgb("#5f8a8b"), "A": rgb("#5f8a8b"),
}  # fmt: skip


def depth(tty: bool, given: bool | str | int | None = None) -> Depth:
    """How many colours to use: as given, or as the terminal and the usual variables say."""
    names: dict[Any, Depth] = {False: "none", "none": "none", 256: "256", "256": "256", "full": "full", "24bit": "full"}
    if given is not None and given is not True:
        if given not in names:
            raise ValueError(f"colour is {given!r}, expected True, False, 256 or 'full'")
        return names[given]
    term = os.environ.get("TERM", "")
    if given is None and (not tty or os.environ.get("NO_COLOR") or term == "dumb"):
        return "none"
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return "full"
    return "256"


def theme_of_terminal() -> Theme:
    """The dark theme where the terminal says that its background is dark, else the light one."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return DARK if background.isdigit() and (int(background) < 7 or int(background) == 8) else LIGHT


@lru_cache(maxsize=4096)
def nearest(colour: RGB) -> int:
    """The colour of a terminal's 256 that looks nearest; the first 16 are the person's own and are left alone.

    >>> nearest((255, 255, 255)), nearest((0, 95, 135))
    (231, 24)
    """
    wanted = oklab(colour)
    # Tints are given tints: a pale teal that became a grey would look like what is hidden. Black and white may stay.
    light, *hue = _palette().T
    grey = (np.hypot(*hue) < 1e-6) & (light > 0.25) & (light < 0.98)
    tint = np.hypot(wanted[1], wanted[2]) > 0.006
    return 16 + int((((_palette() - wanted) ** 2).sum(-1) + (grey & tint)).argmin())


@lru_cache
def _palette() -> Array:
    levels = (0, 95, 135, 175, 215, 255)
    cube = [(r, g, b) for r in levels for g in levels for b in levels]
    greys = [(8 + 10 * i,) * 3 for i in range(24)]
    return oklab(np.array(cube + greys))


@dataclass(frozen=True)
class Paint:
    """Text in colours, at a depth."""

    depth: Depth

    def __call__(self, text: str, ink: RGB | None = None, paper: RGB | None = None, bold: bool = False) -> str:
        if self.depth == "none" or not text:
            return text
        codes = ["1"] if bold else []
        for colour, kind in ((ink, 38), (paper, 48)):
            if colour is not None:
                full = self.depth == "full"
                codes.append(f"{kind};2;{';'.join(map(str, colour))}" if full else f"{kind};5;{nearest(colour)}")
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text


def ink_on(colour: RGB) -> RGB:
    """Black or white, whichever reads better on a colour."""
    return (0, 0, 0) if oklab(colour)[0] > 0.6 else (255, 255, 255)
