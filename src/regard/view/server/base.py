"""The base of a head: its whole map at 2048² or less, means and maxima, from one streaming pass in the background.

Coarser levels merge it exactly. It is computed band by band of query rows, so that it can be given up between two of
them and taken up again, and tiles of the bands that are there need not wait for the rest.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Literal

import numpy as np

from regard.lens.levels import Pixels, len_of, sizes
from regard.view.server.jobs import Abandoned, Job
from regard.view.server.pictures import Picture
from regard.view.server.trim import give_back

Array = np.ndarray[Any, Any]

MOST = 2048  # pixels of a side
BAND = 16  # rows of pixels that are computed together
PATIENCE = 10.0  # seconds that a pass goes on when nobody has asked for it since
LEAST = 36 << 20  # bytes that bases may take in any case: one of 2048²
SHARE = 8  # of the bytes of the arrays that are looked at, what bases may take
LONG = 1 << 24  # cells of a head that is looked at by a base; a smaller one is pooled when it is asked for


def long(picture: Picture) -> bool:
    """Whether the whole of a picture is looked at by its base."""
    return picture.n_q * picture.n_k > LONG


def level_of(n: int) -> int:
    """The least level at which n places are at most MOST pixels.

    >>> level_of(2048), level_of(2049), level_of(131072)
    (0, 1, 6)
    """
    level = 0
    while -(-n >> level) > MOST:
        level += 1
    return level


class Counts:
    """How many cells of each pixel are visible: mostly all or none, for which a bit is enough."""

    def __init__(self, down: Array, across: Array):
        self.down, self.across = down, across  # cells of a pixel
        self.dtype = np.uint16 if int(down.max(initial=0)) * int(across.max(initial=0)) < 1 << 16 else np.uint32
        self.bands: dict[int, tuple[Array, Array, Array] | Array] = {}

    def put(self, band: int, number: Array) -> None:
        """The counts of a band of rows."""
        some = np.flatnonzero((number > 0) & (number < self._area(band)))
        if some.size * 4 > number.size:
            self.bands[band] = number.astype(self.dtype)
            return
        full = np.packbits(number == self._area(band), axis=1)
        self.bands[band] = full, some.astype(np.uint32), number.ravel()[some].astype(self.dtype)

    def get(self, rows: range) -> Array:
        """The counts of some rows; 0 where they are not known yet."""
        bands = range(rows.start // BAND, -(-rows.stop // BAND))
        found = [self._band(band) for band in bands] or [np.zeros((0, len(self.across)), self.dtype)]
        first = rows.start - bands.start * BAND
        return np.concatenate(found)[first : first + len(rows)]

    def _band(self, band: int) -> Array:
        held = self.bands.get(band)
        if held is None:
            return np.zeros((len(self._rows(band)), len(self.across)), self.dtype)
        if isinstance(held, np.ndarray):
            return held
        full, some, number = held
        seen = np.unpackbits(full, axis=1, count=len(self.across))
        found: Array = (seen * self._area(band)).astype(self.dtype)
        found.ravel()[some] = number
        return found

    def _rows(self, band: int) -> Array:
        found: Array = self.down[band * BAND : (band + 1) * BAND]
        return found

    def _area(self, band: int) -> Array:
        found: Array = self._rows(band)[:, None] * self.across
        return found

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(
            held.nbytes if isinstance(held, np.ndarray) else sum(x.nbytes for x in held)
            for held in list(self.bands.values())
        )


class Base:
    """What is known of the whole of a picture."""

    def __init__(self, picture: Picture):
        self.picture = picture
        self.a, self.b = level_of(picture.n_q), level_of(picture.n_k)
        self.shape = len_of(range(picture.n_q), self.a), len_of(range(picture.n_k), self.b)
        self.total = None if picture.signed else np.zeros(self.shape, np.float32)
        self.largest = np.zeros(self.shape, np.float32)
        self.counts = Counts(sizes(range(picture.n_q), self.a), sizes(range(picture.n_k), self.b))
        self.bands = np.zeros(-(-self.shape[0] // BAND), np.bool_)
        self.state: Literal["none", "running", "done"] = "none"
        self.share = self.seconds = 0.0
        self.asked = time.monotonic()
        self.failed: Exception | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.largest.nbytes + (0 if self.total is None else self.total.nbytes) + self.counts.size

    @property
    def number(self) -> Array:
        """How many cells of each pixel are visible."""
        return self.counts.get(range(self.shape[0]))

    def report(self) -> dict[str, Any]:
        """How far it is."""
        return {"state": self.state, "share": round(self.share, 4), "seconds": round(self.seconds, 3)}

    def compute(self, job: Job) -> None:
        """Compute the bands that are not there yet."""
        begun, n_q = time.monotonic(), self.picture.n_q
        before = self.seconds
        pools = ("max",) if self.total is None else ("sum", "max")
        for band in np.flatnonzero(~self.bands):
            job.check()
            top, bottom = int(band) * BAND, min((int(band) + 1) * BAND, self.shape[0])
            rows = range(top << self.a, min(bottom << self.a, n_q))
            found = self.picture.pixels(rows, range(self.picture.n_k), self.a, self.b, pools, job)
            if self.total is not None:
                self.total[top:bottom] = found.total
            self.largest[top:bottom] = found.largest
            self.counts.put(int(band), found.number)
            self.bands[band] = True
            self.share = float(np.count_nonzero(self.bands)) / len(self.bands)
            self.seconds = before + time.monotonic() - begun

    def has(self, rows: range) -> bool:
        """Whether the bands of some rows of pixels are there."""
        return bool(self.bands[rows.start // BAND : (rows.stop - 1) // BAND + 1].all()) if len(rows) else True

    def merged(self, rows: range, keys: range, a: int, b: int) -> Pixels:
        """Pixels of coarser levels, (rows, keys) being pixels of the base."""
        part = np.s_[rows.start : rows.stop, keys.start : keys.stop]
        down = np.arange(0, len(rows), 1 << (a - self.a))
        across = np.arange(0, len(keys), 1 << (b - self.b))

        def pooled(by: np.ufunc, x: Array, dtype: Any) -> Array:
            first: Array = by.reduceat(x, across, axis=1, dtype=dtype)
            found: Array = by.reduceat(first, down, axis=0, dtype=dtype)
            return found

        each = self.counts.get(rows)[:, keys.start : keys.stop]
        number, largest = pooled(np.add, each, np.int64), self.largest[part]
        if self.total is None:  # of differences the largest in magnitude, with its sign
            most = pooled(np.maximum, np.where(each > 0, largest, -np.inf), np.float32)
            least = pooled(np.minimum, np.where(each > 0, largest, np.inf), np.float32)
            return Pixels(None, np.where(-least > most, least, most), number)
        return Pixels(pooled(np.add, self.total[part], np.float64), pooled(np.maximum, largest, np.float32), number)


class Bases:
    """The bases of the last heads that were asked for, and the thread that computes them, the last asked for first."""

    def __init__(self, bytes_looked_at: Callable[[], int] = lambda: 0, begin: Callable[[], object] = lambda: None):
        self.looked_at, self.begin = bytes_looked_at, begin  # what their thread begins with
        self.kept: OrderedDict[Hashable, Base] = OrderedDict()
        self.lock = threading.Condition()
        self.wanted: list[Base] = []  # the last asked for is the last
        self.current: tuple[Base, Job] | None = None
        self.closed = False
        self.thread: threading.Thread | None = None
        self.work = 0  # bands that were computed, of all heads: tests see by it that nobody goes on in vain

    def look(self, key: Hashable) -> Base | None:
        """A base that is there, finished or not."""
        with self.lock:
            return self.kept.get(key)

    def ask(self, key: Hashable, picture: Callable[[], Picture]) -> Base:
        """A base, begun if it is not there yet."""
        with self.lock:
            base = self.kept.get(key)
            if base is None:
                base = self.kept[key] = Base(picture())
                self._forget(base)
            self.kept.move_to_end(key)
            base.asked = time.monotonic()
            if base.failed is not None:
                error, base.failed = base.failed, None
                raise error
            if base.state == "none" and not self.closed:
                if base in self.wanted:
                    self.wanted.remove(base)
                self.wanted.append(base)
                if self.thread is None:
                    self.thread = threading.Thread(target=self._work, name="regard-passes", daemon=True)
                    self.thread.start()
                self.lock.notify()
            return base

    def _forget(self, new: Base) -> None:
        """Let those go that were not asked for longest, until the rest is small enough."""
        most = max(LEAST, self.looked_at() // SHARE)
        for key, base in list(self.kept.items()):
            if sum(x.size for x in self.kept.values()) <= most:
                return
            if base is not new:
                del self.kept[key]
                if base in self.wanted:
                    self.wanted.remove(base)

    def _work(self) -> None:
        self.begin()
        while True:
            with self.lock:
                while not self.wanted and not self.closed:
                    self.lock.wait()
                if self.closed:
                    return
                base = self.wanted.pop()
                if time.monotonic() - base.asked > PATIENCE:
                    continue
                job = Passing(base, self)
                self.current = base, job
                base.state = "running"
            try:
                base.compute(job)
                base.state = "done"
            except Abandoned:
                base.state = "none"
            except Exception as error:  # told to whoever asks next
                base.state, base.failed = "none", error
            del base, job  # nothing is held while waiting
            give_back()
            with self.lock:
                self.current = None

    def close(self, seconds: float = 2.0) -> None:
        """Give up what is under way."""
        with self.lock:
            self.closed = True
            if self.current is not None:
                self.current[1].gone = True
            self.lock.notify_all()
        if self.thread is not None:
            self.thread.join(seconds)


class Passing(Job):
    """A pass in the background: it goes on as long as somebody asks how far it is, and is kept."""

    def __init__(self, base: Base, of: Bases):
        super().__init__()
        self.base, self.of = base, of

    def check(self, share: float = 0.0) -> None:
        self.of.work += 1
        dropped = all(self.base is not x for x in list(self.of.kept.values()))
        if self.gone or dropped or time.monotonic() - self.base.asked > PATIENCE:
            raise Abandoned
