"""contrast(): random weights beside structured ones, in one glance, and what the scale of random weights does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from regard import reference
from regard.circuits.by_hand import attend, strength_for
from regard.errors import ShapeError, counted
from regard.lens.wording import number, percent
from regard.view import text as texts
from regard.view.columns import table
from regard.view.glyphs import shade

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

SCALES = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
DRAWS = 100  # of random weights for each scale
GAP = 3  # columns between two pictures


@dataclass(frozen=True, repr=False)
class Contrast:
    """Rows of random and of structured weights; print it to see them."""

    tokens: tuple[str, ...]
    scale: float  # of the random weights that are shown
    random: Array  # (n, n) one draw at this scale
    structured: Array  # (n, n)
    scales: tuple[float, ...]
    deviation: Array  # (scales,) of the scores, over all draws
    peak: Array  # (scales,) the mean of the largest weight of a row
    entropy: Array  # (scales,) the mean entropy of a row, in nats

    @property
    def even(self) -> float:
        """What each key gets of an even spread."""
        return 1 / len(self.tokens)

    def __str__(self) -> str:
        width = max(20, shutil.get_terminal_size((80, 24)).columns)
        return "\n".join(line.rstrip() for line in self._lines(width))

    __repr__ = __str__

    def _lines(self, width: int) -> Iterator[str]:
        pictures = [
            _picture(f"random, scale {self.scale:g}", self.tokens, self.random, width),
            _picture("structured", self.tokens, self.structured, width),
        ]
        wide = max(map(texts.width, pictures[0]))
        if wide + GAP + max(map(texts.width, pictures[1])) <= width:
            for left, right in zip(*pictures, strict=True):
                yield texts.pad(left, wide + GAP) + right
        else:
            yield from [*pictures[0], "", *pictures[1]]
        yield ""
        shown = [percent(float(a.max(-1).mean())) for a in (self.random, self.structured)]
        yield from texts.wrap(
            f"Rows are queries, columns the keys they look at. A row's largest weight is {shown[0]} on average at "
            f"random, {shown[1]} by design; an even spread gives {percent(self.even)} to each key.",
            width,
        )
        yield ""
        yield from texts.wrap(f"What the scale of random weights does, over {DRAWS} draws:", width)
        columns = [
            ["scale", *(f"{x:g}" for x in self.scales)],
            ["scores ±", *(texts.short(float(x)) for x in self.deviation)],
            ["largest", *(number(float(x)) for x in self.peak)],
            ["entropy", *(number(float(x)) for x in self.entropy)],
            ["tokens", *(f"{np.exp(x):.2f}" for x in self.entropy)],
        ]
        yield from table(columns, width, left=(), first=(0, 2, 3, 1, 4))
        yield ""
        yield from texts.wrap(
            "Flat rows come of small weights, not of chance: large random ones peak too, on keys that nobody chose.",
            width,
        )


def contrast(
    targets: Sequence[int] = (1, 2, 1, 2),
    *,
    tokens: Sequence[str] | None = None,
    scale: float = 1.0,
    weight: float = 0.948,
    d_model: int | None = None,
    d: int | None = None,
    scales: Sequence[float] = SCALES,
    seed: int = 0,
) -> Contrast:
    """Attention of random weights beside attention that is told where to look, and what scale does to the random one.

    Embeddings are uniform from -1 to 1, (n, d_model), and so are W_Q and W_K, (d_model, d), times `scale`; d_model is n
    and d one less if None. The structured rows give `weight` to their targets. 0.948 is what a strength of 8 makes of
    four tokens.

    >>> found = contrast()
    >>> found.structured.max(-1).round(3).tolist(), [float(x.round(2)) for x in found.peak[[0, 2, 5]]]
    ([0.948, 0.948, 0.948, 0.948], [0.25, 0.35, 0.95])
    """
    n = len(targets)
    if n < 2:
        raise ShapeError(
            f"targets has {counted(n, 'query')}, expected 2 or more: with one key there is nothing to contrast"
        )
    names = tuple(map(str, tokens)) if tokens is not None else ("the", "cat", "sat", "down") if n == 4 else None
    names = tuple(map(str, range(n))) if names is None else names
    if len(names) != n:
        raise ShapeError(
            f"tokens has {counted(len(names), 'token')} and targets {counted(n, 'query')}, expected as many: "
            "give each a token"
        )
    wide = n if d_model is None else d_model
    narrow = max(1, wide - 1) if d is None else d
    for name, value in (("scale", scale), *(("scales", x) for x in scales)):
        if not (value >= 0 and np.isfinite(value)):
            raise ValueError(f"{name} has {value!r}, expected numbers from 0 on")
    made = attend(list(targets), strength_for(weight, n, n), n=n)
    rng = np.random.default_rng(seed)
    x, w_q, w_k = (rng.uniform(-1, 1, (DRAWS, *shape)) for shape in ((n, wide), (wide, narrow), (wide, narrow)))
    plain = (x @ w_q) @ (x @ w_k).swapaxes(-1, -2) / np.sqrt(narrow)  # (draws, n, n): both weights times s make it s²
    every = np.stack([s**2 * plain for s in scales])  # (scales, draws, n, n)
    a = reference.softmax(every)
    return Contrast(
        names,
        float(scale),
        reference.softmax(scale**2 * plain[0]),
        reference.weights(made.q, made.k),
        tuple(map(float, scales)),
        every.std(axis=(1, 2, 3)),
        a.max(-1).mean((1, 2)),
        entropy(a).mean((1, 2)),
    )


def entropy(a: Array) -> Array:
    """−Σ a ln a of each row, in nats.

    >>> float(entropy(np.full(4, 0.25)).round(4))
    1.3863
    """
    found: Array = -(a * np.log(np.where(a > 0, a, 1))).sum(-1)
    return found


def _picture(title: str, tokens: Sequence[str], a: Array, width: int) -> list[str]:
    """A matrix with its numbers, or shades where they do not fit."""
    names = [texts.clip(texts.clean(token), 8) for token in tokens]
    label = max(map(texts.width, names))
    cell = max(5, *(texts.width(name) + 1 for name in names))
    lines = []
    if label + cell * len(names) <= width:
        lines = [" " * label + "".join(texts.pad(name, cell, "right") for name in names)]
        lines += [
            texts.pad(name, label) + "".join(f"{weight:>{cell}.2f}" for weight in row)
            for name, row in zip(names, a, strict=True)
        ]
    else:
        label = min(label, max(0, width - len(names) - 1))
        lines = [
            (texts.pad(texts.clip(name, label), label) + " " + "".join(shade(float(weight)) for weight in row))[:width]
            for name, row in zip(names, a, strict=True)
        ]
    return [texts.clip(title, width), *lines]
