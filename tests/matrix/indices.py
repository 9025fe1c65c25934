"""Index expressions of every kind, for an array of a given shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

FANCY = [(3,), (3,), (1,), (0,), (2, 3), (4, 1), (2, 1, 2)]
WHOLE = [np.int64, np.int64, np.int32, np.uint8, np.intp]


@st.composite
def slices(draw: Any, n: int) -> slice:
    """Any slice: some are reversed, some empty, some reach over the ends."""
    ends = st.one_of(st.none(), st.integers(-n - 2, n + 2))
    return slice(draw(ends), draw(ends), draw(st.sampled_from([None, None, 1, 2, 3, -1, -2, 5])))


@st.composite
def fancy(draw: Any, n: int, shape: tuple[int, ...]) -> Any:
    """Whole numbers in an array, a list or a 0-d array that broadcasts to the shape."""
    own = tuple(draw(st.sampled_from([m, m, 1])) for m in shape)[draw(st.integers(0, len(shape) - 1)) :]
    dtype = draw(st.sampled_from(WHOLE))
    numbers = st.integers(0 if dtype == np.uint8 else -n, n - 1)
    size = int(np.prod(own))
    if size and not n:
        own, size = (0,), 0
    array = np.array([draw(numbers) for _ in range(size)], dtype).reshape(own)
    return draw(st.sampled_from([array, array, array.tolist()]))


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> Any:
    """An index expression. Most are valid; what NumPy refuses must be refused too."""
    common = draw(st.sampled_from(FANCY))
    entries: list[Any] = []
    axis, dots = 0, False
    last = draw(st.sampled_from([len(shape), len(shape), len(shape) - 1, 1, 0]))
    kinds = ["whole", "slice", "slice", "slice", "fancy", "fancy", "new", "dots", "mask", "scalar"]
    while axis < last:
        what, n = draw(st.sampled_from(kinds)), shape[axis]
        if what == "new":
            entries.append(None)
            continue
        if what == "dots":
            if not dots:
                skipped = draw(st.integers(0, last - axis))
                entries.append(Ellipsis)
                axis, dots = axis + skipped, True
            continue
        if what == "mask":
            axes = draw(st.integers(1, min(3, last - axis)))
            seen = np.random.default_rng(draw(st.integers(0, 9))).random(shape[axis : axis + axes]) < 0.4
            entries.append(draw(st.sampled_from([seen, seen.tolist()])))
            axis += axes
            common = draw(st.sampled_from([(1,), (1, 1), (max(1, int(seen.sum())),)]))
            continue
        if what == "slice" or not n:
            entries.append(draw(slices(n)))
        elif what == "fancy":
            entries.append(draw(fancy(n, common)))
        else:
            place = draw(st.integers(-n, n - 1))
            entries.append(place if what == "whole" else draw(st.sampled_from([np.int64, np.int32, np.array]))(place))
        axis += 1
    if len(entries) == 1 and draw(st.booleans()):
        return entries[0]
    return tuple(entries)
