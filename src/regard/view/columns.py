"""Columns of text as a table that fits a window: what does not fit is left out by whole columns."""

from __future__ import annotations

from collections.abc import Sequence

from regard.view.text import clip, pad, width

APART = 2  # blanks between columns


def table(
    columns: Sequence[Sequence[str]], most: int, left: Sequence[int] = (0,), first: Sequence[int] | None = None
) -> list[str]:
    """Lines of at most `most` letters. The columns numbered in `left` begin at their left, others end at their right;
    `first` is the order in which they get their room, that of reading if None.

    >>> print(*table([["step", "scores"], ["n", "512"], ["time", "9.7 ms"]], 16, first=(0, 2, 1)), sep="\\n")
    step      time
    scores  9.7 ms
    """
    wide = [max(map(width, column)) for column in columns]
    kept: set[int] = set()
    for number in range(len(columns)) if first is None else first:
        if not kept or sum(wide[i] + APART for i in (*kept, number)) - APART <= most:
            kept.add(number)
    lines = []
    for row in zip(*columns, strict=True):
        cells = [pad(row[i], wide[i], "left" if i in left else "right") for i in sorted(kept)]
        lines.append(clip((" " * APART).join(cells).rstrip(), most))
    return lines
