"""Four words, one head, designed by hand: the attention matrix in the terminal.

Each word's key is a direction of its own, and each word's query points at the key it shall look at. With values
that are the identity, the output of attention *is* the matrix of weights. Run it with scripts/look.
"""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
import textwrap

import numpy as np
import numpy.typing as npt

import regard

WORDS = ("The", "cat", "chased", "mice")
LOOKS_AT = (1, 2, 3, 2)  # determiner -> noun, subject -> verb, verb -> object, object -> verb
WEIGHT = 0.8  # how much each word gives to the word it looks at

CAVEAT = (
    "A weight says how this head mixed values here. It does not say why the model answered, "
    "nor that removing the token would change anything."
)


def weights(weight: float = WEIGHT) -> npt.NDArray[np.float32]:
    """The 4 × 4 matrix A, computed by attention itself.

    A row has one score s and n − 1 scores of 0, so its weight is w = exp(s) / (exp(s) + n − 1). Solved for s, and
    with the scaling by 1/√d undone, that gives the strength the keys need.
    """
    n = d = len(WORDS)
    strength = math.sqrt(d) * math.log(weight * (n - 1) / (1 - weight))
    identity = np.eye(n, d, dtype=np.float32)
    q = identity[list(LOOKS_AT)]  # (n, d): each query points at its target's key
    k = np.float32(strength) * identity  # (n, d): distinct directions
    v = identity  # (n, n): the output then is A
    return np.asarray(regard.attention(q, k, v))


def clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def shade(text: str, weight: float) -> str:
    """`text` on a light to dark blue, in the 256 colours of a terminal, readable on a light or a dark one."""
    ramp = ((195, 16), (153, 16), (111, 16), (68, 16), (25, 231))  # background, text
    background, foreground = ramp[min(int(weight * len(ramp)), len(ramp) - 1)]
    return f"\x1b[48;5;{background}m\x1b[38;5;{foreground}m{text}\x1b[0m"


def table(a: npt.NDArray[np.float32], width: int, colour: bool) -> list[str]:
    """Lines of at most `width` columns, as long as that is not below some twenty-five."""
    longest = max(map(len, WORDS))
    label = min(longest, max(3, width // 5)) + 1
    cell = max(5, min(10, (width - label) // len(WORDS)))  # "80 %" and a blank at least
    titles = ("query ↓ looks at", "key → is looked at")
    gap = 2
    if width >= len(titles[0]) + gap + cell * len(WORDS):  # room to set the keys' title over the keys
        label = len(titles[0]) + gap
    beside = width >= len(titles[0]) + gap + len(titles[1])
    lines = [(" " * gap if beside else "\n").join(titles)]
    lines.append(" " * label + "".join(clip(word, cell - 1).rjust(cell - 1) + " " for word in WORDS).rstrip())
    for word, row in zip(WORDS, a, strict=True):
        cells = [f"{100 * weight:.0f} %".rjust(cell - 1) + " " for weight in row]
        if colour:
            cells = [shade(text, float(weight)) for text, weight in zip(cells, row, strict=True)]
        lines.append(clip(word, label - 1).ljust(label) + "".join(cells).rstrip())
    return lines


def sentence(a: npt.NDArray[np.float32], query: int) -> str:
    """Where one query looks most, in words, beside what an even spread would give."""
    key = int(a[query].argmax())
    share, n = float(a[query, key]), a.shape[1]
    return (
        f"'{WORDS[query]}' gives {100 * share:.0f} % of its attention to '{WORDS[key]}', "
        f"{share * n:.1f} times an even spread over {n} tokens."
    )


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an arrow that cannot be shown is no reason to stop
    width = shutil.get_terminal_size().columns
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    a = weights()
    print(*table(a, width, colour), sep="\n")
    for text in (sentence(a, query=1), "Each row sums to 100 %, up to rounding. " + CAVEAT):
        filled = textwrap.fill(text.replace(" %", "\xa0%"), min(width, 100))  # a number stays beside its sign
        print("\n" + filled.replace("\xa0", " "))


if __name__ == "__main__":
    main()
