"""Attention as mixing paint: a query, labelled cans, and the blend as a real colour. Writes docs/worked/paint.svg.

The label of a can is its key, the paint in it its value. The query says how much of each word on the labels is wanted;
softmax makes shares of the scores, and the output is the blend.

    .venv/bin/python examples/paint_mixing.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

import regard

Array: TypeAlias = npt.NDArray[np.float64]

PICTURE = Path(__file__).parent.parent / "docs" / "worked" / "paint.svg"
ASKED = "yellow with a touch of dark orange"
WORDS = ("yellow", "orange", "dark", "red", "blue", "white")  # a direction each
WANTED = {"yellow": 10.0, "dark": 2.5, "orange": 2.5}  # the query: how much of each word
CANS = {  # the label: what is in the can, as screens write colours
    "yellow": "#ffdd00",
    "dark orange": "#c85a00",
    "red": "#c81e1e",
    "blue": "#1e50c8",
    "white": "#ffffff",
}


def query() -> Array:
    """(1, words): what is looked for."""
    return np.array([[WANTED.get(word, 0.0) for word in WORDS]])


def keys() -> Array:
    """(cans, words): 1 for every word on the label."""
    return np.array([[float(word in label.split()) for word in WORDS] for label in CANS])


def values() -> Array:
    """(cans, 3): red, green and blue light, from 0 to 1."""
    return np.array([light(colour) for colour in CANS.values()])


def light(colour: str) -> list[float]:
    """How much light a colour of a screen gives: the curve of sRGB undone, so that sums of it are sums of light."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]


def colour_of(amounts: Array) -> str:
    """The colour of a screen for so much red, green and blue light: the inverse of `light`."""
    parts = [12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055 for x in map(float, amounts)]
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, x))):02x}" for x in parts)


def shares() -> regard.AttentionMatrix:
    """(1, cans): how much of each can goes into the blend."""
    return regard.matrix(query(), keys(), v=values(), tokens=[ASKED], key_tokens=list(CANS))


def blend() -> str:
    """The blend as a colour."""
    return colour_of(np.asarray(regard.attention(query(), keys(), values()))[0])


# The picture.

WIDE, TALL = 720, 470
CAN, DEEP, TOP = 104, 96, 92  # width and height of a can, and where it begins
INK, FAINT, PAPER, TIN = "#22262b", "#5b636e", "#f6f7f8", "#d8dce1"


def svg() -> str:
    """Query, cans and blend as a picture. A stream is as wide as its weight."""
    a = shares()
    weights = np.asarray(a[0], np.float64)
    scores = np.asarray(a.scores[0], np.float64)
    mixed = blend()
    step = WIDE / len(CANS)
    bowl, rim = WIDE / 2, 378
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {TALL}" width="{WIDE}" height="{TALL}" '
        'role="img" font-family="system-ui, sans-serif" text-anchor="middle">',
        f"<title>A query, five labelled cans, and the blend {mixed}</title>",
        f'<rect width="{WIDE}" height="{TALL}" rx="10" fill="{PAPER}"/>',
        text(bowl, 34, f"query: “{ASKED}”", 17, bold=True),
        text(bowl, 58, "It looks at the labels (keys). Each can gives its share (weight) of paint (value).", 13, FAINT),
    ]
    total = 52.0  # the width of all streams together, where they reach the blend
    at = bowl - total / 2
    pours = []
    for i, ((label, colour), weight, score) in enumerate(zip(CANS.items(), weights, scores, strict=True)):
        x, below = step * (i + 0.5), TOP + DEEP + 46
        wide = total * float(weight)
        start, end, half = x, at + wide / 2, (below + rim) / 2
        at += wide
        pours.append(
            f'<path d="M {start:.1f} {below} C {start:.1f} {half:.1f}, {end:.1f} {half:.1f}, {end:.1f} {rim}" '
            f'fill="none" stroke="{INK}" stroke-opacity="0.35" stroke-width="{wide + 1:.2f}"/>'
            f'<path d="M {start:.1f} {below} C {start:.1f} {half:.1f}, {end:.1f} {half:.1f}, {end:.1f} {rim}" '
            f'fill="none" stroke="{colour}" stroke-width="{wide:.2f}"/>'
        )
        parts += can(x, label, colour)
        parts.append(text(x, TOP + DEEP + 20, f"score {score:.2f}", 12, FAINT))
        parts.append(text(x, TOP + DEEP + 38, f"{100 * float(weight):.1f} %", 15, bold=True))
    parts += pours
    parts += [
        f'<path d="M {bowl - 110} {rim} h 220 a 110 62 0 0 1 -220 0 z" fill="{mixed}" stroke="{INK}"/>',
        f'<ellipse cx="{bowl}" cy="{rim}" rx="110" ry="13" fill="{mixed}" stroke="{INK}"/>',
        text(bowl, rim + 40, mixed, 15, bold=True),
        text(bowl, TALL - 12, "the blend (output)", 13, FAINT),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def can(x: float, label: str, colour: str) -> list[str]:
    """A tin with its label; the paint is seen from above."""
    left, middle = x - CAN / 2, TOP + DEEP / 2
    return [
        f'<path d="M {left:.1f} {TOP} v {DEEP - 12} a {CAN / 2:.0f} 11 0 0 0 {CAN} 0 v -{DEEP - 12} z" '
        f'fill="{TIN}" stroke="{INK}"/>',
        f'<ellipse cx="{x:.1f}" cy="{TOP}" rx="{CAN / 2:.0f}" ry="11" fill="{colour}" stroke="{INK}"/>',
        f'<rect x="{left + 5:.1f}" y="{middle - 12:.1f}" width="{CAN - 10}" height="27" rx="3" fill="white"/>',
        text(x, middle + 6, label, 13, bold=True),
    ]


def text(x: float, y: float, words: str, size: int, ink: str = INK, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{ink}"{weight}>{words}</text>'


def main() -> None:
    PICTURE.write_text(svg(), encoding="utf-8")
    a = shares()
    for label, weight in zip(CANS, a[0], strict=True):
        print(f"{label:12}{100 * float(weight):5.1f} %")
    print(f"{'the blend':12}{blend()}")


if __name__ == "__main__":
    main()
