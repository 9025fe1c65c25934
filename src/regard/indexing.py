"""NumPy's indexing of an array that is not there: what an index needs, and what its result looks like.

An index is answered from the smallest outer product of rows and keys that it needs, or, where that would be much more
than was asked for, cell by cell. NumPy itself applies the index to that part, so all its rules hold.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.errors import DtypeError, LimitError, TokenError, within
from regard.results import Array

LIMIT = 2**28  # cells
SLACK = 1 << 16  # cells that may be computed beyond those that were asked for

Axis = range | Array  # what is needed of an axis
Outer = Callable[[list[Axis]], Array]  # the outer product of what is needed of each axis
Scattered = Callable[[tuple[Array, ...]], Array]  # single cells, by an array for each axis


def refuse(cells: int, limit: Any, size: int, part: Any = None) -> None:
    """Say that too much was asked for; `part` is the index of it, None for all."""
    number = isinstance(limit, numbers.Real) and not isinstance(limit, bool) and limit == limit
    if number and cells <= limit:
        return
    insist = f"build({'' if part is None else f'index={_written(part)}, '}limit={cells})"
    if not number:
        raise DtypeError(f"limit is {limit!r}, expected a number of cells: pass {insist}")
    raise LimitError(
        f"this would build {cells} cells ({show_bytes(cells * size)}), expected at most {limit}: ask for "
        f"fewer rows, for heatmap(256) or top(5), or insist with {insist}"
    )


def _written(index: Any) -> str:
    """An index as it would be written, arrays left out.

    >>> import numpy as np
    >>> _written(np.s_[0, 5:, ::2]), _written(3), _written([1, 2])
    ('np.s_[0, 5:, ::2]', '3', '…')
    """

    def one(x: Any) -> str:
        if isinstance(x, slice):
            ends = ["" if e is None else repr(e) for e in (x.start, x.stop, x.step)]
            return ":".join(ends if ends[2] else ends[:2])
        return "..." if x is Ellipsis else repr(x)

    parts = index if isinstance(index, tuple) else (index,)
    if not all(x is None or x is Ellipsis or isinstance(x, (slice, int, str)) for x in parts):
        return "…"
    plain = len(parts) == 1 and not isinstance(index, (tuple, slice))
    return one(index) if plain else f"np.s_[{', '.join(map(one, parts))}{',' * (len(parts) == 1 and index is parts)}]"


def show_bytes(count: int) -> str:
    """A size that people can read.

    >>> show_bytes(1 << 30)
    '1.0 GiB'
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]  # from here on it is a fraction
    return ""


class Tokens:
    """The tokens of an axis, by which it can be indexed."""

    def __init__(self, names: Sequence[str], axis: str):
        self.names, self.axis = tuple(map(str, names)), axis

    def place(self, name: str) -> int:
        """Where a token stands."""
        places = [i for i, x in enumerate(self.names) if x == name]
        if len(places) == 1:
            return places[0]
        if not places:
            raise TokenError(
                f"{name!r} is none of the {len(self.names)} tokens of the {self.axis} axis: index by number"
            )
        shown = ", ".join(map(str, places[:12])) + (" …" if len(places) > 12 else "")
        raise TokenError(f"{name!r} is not one token but {len(places)}, at {shown}: index by one of these numbers")


def read(
    index: Any,
    shape: tuple[int, ...],
    tokens: dict[int, Tokens | None],
    outer: Outer,
    scattered: Scattered,
    dtype: np.dtype[Any],
    limit: float = LIMIT,
) -> Array:
    """array[index] of an array of this shape and dtype."""
    entries = _whole(index, shape, tokens)
    result = _shape(entries, shape)
    asked = math.prod(result)
    refuse(asked, limit, dtype.itemsize, None if asked == math.prod(shape) else index)
    if not asked:
        return np.zeros(result, dtype)
    needed: list[Axis] = []
    relative: list[Any] = []
    for entry, n in _with_lengths(entries, shape):
        if entry is None or _boolean(entry):
            relative.append(entry)
        elif isinstance(entry, slice):
            needed.append(range(n)[entry])
            relative.append(slice(None))
        elif isinstance(entry, int):
            place = entry % n
            needed.append(range(place, place + 1))
            relative.append(0)
        else:
            places = np.where(entry < 0, entry + n, entry)
            found, inverse = np.unique(places, return_inverse=True)
            whole = len(found) and found[-1] - found[0] + 1 == len(found)
            needed.append(range(int(found[0]), int(found[-1]) + 1) if whole else found)
            relative.append(inverse.reshape(entry.shape))
    if math.prod(map(len, needed)) <= 2 * asked + SLACK:
        part: Array = outer(needed)[tuple(relative)]
        return part
    # The result of the index on each axis' own numbers says which cell stands where.
    numbers = [
        np.broadcast_to(np.arange(n).reshape(n, *[1] * (len(shape) - axis - 1)), shape) for axis, n in enumerate(shape)
    ]
    places = tuple(x[tuple(entries)] for x in numbers)
    return scattered(places)


def _with_lengths(entries: list[Any], shape: tuple[int, ...]) -> list[tuple[Any, int]]:
    """Each entry with the length of its axis; a new axis, and a boolean of no axes, have none."""
    lengths = iter(shape)
    return [(entry, 0 if entry is None or _boolean(entry) else next(lengths)) for entry in entries]


def _whole(index: Any, shape: tuple[int, ...], tokens: dict[int, Tokens | None]) -> list[Any]:
    """An entry for each axis and new axis: None, a number, a slice or an array of whole numbers; or a boolean of no
    axes."""
    given = list(index) if isinstance(index, tuple) else [index]
    given = [_array(x) for x in given]
    used = sum(0 if x is None or x is Ellipsis else x.ndim if _boolean(x) else 1 for x in given)
    if used > len(shape):
        raise IndexError(f"the index has {used} parts, but A has {len(shape)} axes: leave some out")
    dots = [i for i, x in enumerate(given) if x is Ellipsis]
    if len(dots) > 1:
        raise IndexError("the index has more than one ellipsis, expected one at most: leave some out")
    rest = [slice(None)] * (len(shape) - used)
    at = dots[0] if dots else len(given)
    given[at : at + len(dots)] = rest
    entries: list[Any] = []
    axis = 0
    for x in given:
        if x is None:
            entries.append(None)
            continue
        if _boolean(x):
            wanted = shape[axis : axis + x.ndim]
            if x.shape != wanted:
                raise IndexError(f"a boolean index has shape {x.shape}, expected {wanted}, as the axes have")
            entries += x.nonzero() if x.ndim else [x]
            axis += x.ndim
            continue
        entries.append(_entry(x, axis, shape[axis], tokens.get(axis)))
        axis += 1
    return entries


def _boolean(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == np.bool_


def _array(x: Any) -> Any:
    """Lists, tensors and other arrays as NumPy arrays; all else as it is."""
    whole = isinstance(x, (int, np.integer)) and not isinstance(x, bool)
    if whole or x is None or x is Ellipsis or isinstance(x, (slice, str)):
        return x
    array = np.asarray(x.numpy() if hasattr(x, "numpy") else x)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iubU":
        raise IndexError(f"an index is {x!r}, expected numbers, slices, tokens, or arrays of whole numbers or booleans")
    return array.item() if array.ndim == 0 and array.dtype.kind in "iu" else array


def _entry(x: Any, axis: int, n: int, tokens: Tokens | None) -> Any:
    if isinstance(x, str) or (isinstance(x, np.ndarray) and x.dtype.kind == "U"):
        if tokens is None:
            raise TokenError(
                f"{x!r} indexes axis {axis}, which has no tokens: give the leading indices first, or pass tokens="
            )
        if isinstance(x, str):
            return tokens.place(x)
        return np.array([tokens.place(str(name)) for name in x.ravel()], np.int64).reshape(x.shape)
    if isinstance(x, slice):
        if isinstance(x.start, str) or isinstance(x.stop, str):
            if tokens is None:
                raise TokenError(f"{x!r} indexes axis {axis}, which has no tokens: pass tokens=, or use numbers")
            ends = [tokens.place(e) if isinstance(e, str) else e for e in (x.start, x.stop)]
            return slice(ends[0], ends[1], x.step)
        return x
    if isinstance(x, np.ndarray):
        if x.size and (x.min() < -n or x.max() >= n):
            raise IndexError(f"an index of axis {axis} goes from {x.min()} to {x.max()}, {within(n)}")
        return x.astype(np.int64)
    place = operator.index(x)
    if not -n <= place < n:
        raise IndexError(f"index {place} of axis {axis} is out of bounds, {within(n)}")
    return place


def _shape(entries: list[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the result, as NumPy gives it, without an array of that size.

    Axes that are sliced are tried with lengths 1 and 2, which tells where in the result they go.
    """
    sliced = [len(range(n)[x]) for x, n in _with_lengths(entries, shape) if isinstance(x, slice)]
    trial = tuple(slice(None) if isinstance(x, slice) else x for x in entries)

    def with_length(length: int) -> tuple[int, ...]:
        lengths = tuple(
            length if isinstance(x, slice) else n
            for x, n in _with_lengths(entries, shape)
            if x is not None and not _boolean(x)
        )
        return np.broadcast_to(np.zeros((), np.int8), lengths)[trial].shape

    waiting = iter(sliced)
    return tuple(a if a == b else next(waiting) for a, b in zip(with_length(1), with_length(2), strict=True))
