"""Tiles: 256 × 256 pixels at independent levels of rows and keys, exact.

Cells where a pixel is one; a native reduction over the region where pixels pool few cells; else the base of the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.lens import levels
from regard.view.server.asked import wrong
from regard.view.server.base import Base, level_of, long
from regard.view.server.jobs import Job
from regard.view.server.pictures import Picture

Array = np.ndarray[Any, Any]

SIDE = 256  # pixels of a tile
DEEPEST = 40  # levels that are asked for
QUICK = 1.5e9  # operations of a tile that a thread has in some 20 ms: such are computed in the fast lane, each alone


@dataclass(frozen=True)
class Place:
    """Where a tile lies: its cells, and its levels."""

    rows: range
    keys: range
    a: int
    b: int

    @property
    def shape(self) -> tuple[int, int]:
        return levels.len_of(self.rows, self.a), levels.len_of(self.keys, self.b)


def place_of(n_q: int, n_k: int, a: int, b: int, i: int, j: int) -> Place:
    """The place of tile (i, j) at levels (a, b) of n_q × n_k cells."""
    for name, level, n in (("a", a, n_q), ("b", b, n_k)):
        if level and (1 << level) >= 2 * max(1, n):
            raise wrong(f"{name} is {level}, expected a level at which more than one pixel could be seen of {n} cells")
    top, left = i * SIDE << a, j * SIDE << b
    for name, given, first, n in (("i", i, top, n_q), ("j", j, left, n_k)):
        if first >= max(1, n):  # of nothing there is one tile, and it is empty
            raise wrong(f"{name} is {given}, but that tile begins at {first}, expected one that begins below {n}")
    return Place(range(top, min(top + (SIDE << a), n_q)), range(left, min(left + (SIDE << b), n_k)), a, b)


def needs_base(picture: Picture, place: Place) -> bool:
    """Whether a tile is made of the base."""
    coarse = place.a >= level_of(picture.n_q) and place.b >= level_of(picture.n_k)
    return coarse and long(picture)


def quick(picture: Picture, place: Place) -> bool:
    """Whether a tile is computed by one thread before anybody could wait."""
    return picture.operations(place.rows, place.keys) <= QUICK


def tile(picture: Picture, place: Place, pool: str, job: Job) -> Array:
    """The values of a tile that is computed from its cells."""
    if not len(place.rows) or not len(place.keys):
        return np.zeros(place.shape, np.float32)
    if not place.a and not place.b:
        return picture.cells(place.rows, place.keys, job)
    signed = picture.signed
    pools = ("max",) if signed or pool == "max" else ("sum",)
    found = picture.pixels(place.rows, place.keys, place.a, place.b, pools, job)
    return _values(found, "max" if signed else pool)


def from_base(base: Base, place: Place, pool: str) -> Array | None:
    """The values of a tile that is coarser than the base; None while that is not there."""
    rows = range(place.rows.start >> base.a, levels.len_of(range(place.rows.stop), base.a))
    keys = range(place.keys.start >> base.b, levels.len_of(range(place.keys.stop), base.b))
    if not base.has(rows):
        return None
    found = base.merged(rows, keys, place.a, place.b)
    return _values(found, "max" if base.total is None else pool)


def _values(found: levels.Pixels, pool: str) -> Array:
    made = found.max() if pool == "max" else found.mean()
    return np.ascontiguousarray(made, np.float32)
