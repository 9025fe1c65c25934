"""Which head is meant: by number, by a number for each leading axis, or by name.

>>> import numpy as np, regard
>>> x = np.zeros((2, 12, 3, 1))
>>> A = regard.matrix(x, x)  # of two layers of 12 heads
>>> place_of(A, "L1H8"), place_of(A, 20), place_of(A, (1, -4)), place_of(A, None)
((1, 8), (1, 8), (1, 8), (0, 0))
"""

from __future__ import annotations

import math
import operator
import re
from typing import Any

import numpy as np

from regard.errors import DtypeError, QuestionError, there
from regard.lens import wording

NAMED = re.compile(r"(?:L(\d+))?H?(\d+)")  # L1H8, H8 or 8


def place_of(matrix: Any, head: Any) -> tuple[int, ...]:
    """The indices of a head, from one number, flat over the leading axes, one for each of them, or its name.

    A name is L1H8 where there are two leading axes, H8 or 8 where there is one, or a label of the matrix. Without any
    it is the first.
    """
    front = tuple(matrix.front)
    heads = math.prod(front)
    if head is None:
        return (0,) * len(front)
    if isinstance(head, str):
        head = _named(matrix, head)
    if isinstance(head, (tuple, list)):
        place = tuple(map(_number, head))
        if len(place) != len(front) or not all(-n <= x < n for x, n in zip(place, front, strict=True)):
            raise IndexError(f"head is {tuple(head)}, expected an index for each of the axes {front}")
        return tuple(x % n for x, n in zip(place, front, strict=True))
    flat = _number(head)
    if not -heads <= flat < heads:
        expected = f"0 to {heads - 1}" if heads else "none"
        raise IndexError(f"head is {flat}, expected {expected}: {there(heads, 'head')}")
    return tuple(int(x) for x in np.unravel_index(flat % heads, front)) if front else ()


def _number(head: Any) -> int:
    try:
        return operator.index(head)
    except TypeError:
        raise DtypeError(
            f"head is {head!r}, expected a number, a name, or a tuple with a number for each leading axis"
        ) from None


def _named(matrix: Any, head: str) -> int:
    """The flat head of this name."""
    labels = wording.labels(matrix)
    parts = NAMED.fullmatch(head)
    spelt = (
        head
        if parts is None
        else f"item {int(parts[1])}, head {int(parts[2])}"
        if parts[1]
        else f"head {int(parts[2])}"
    )
    for name in (head, spelt):
        if name and labels.count(name) == 1:
            return labels.index(name)
    known = [re.sub(r"^(?:item (\d+), )?head (\d+)$", _short, label) for label in labels if label]
    if not known:
        raise QuestionError(
            f"head is {head!r}, but no head of this matrix has a name: choose it by number, or leave it out"
        )
    shown = ", ".join(known[:4]) + " …" * (len(known) > 4)
    raise QuestionError(f"head is {head!r}, expected one of {shown}: choose it by name or number")


def _short(label: re.Match[str]) -> str:
    return f"L{label[1]}H{label[2]}" if label[1] else f"H{label[2]}"
