"""What this machine can do at most, on `THREADS` threads: the kernels of regard.machine.

The peaks take part in the rounds of every work, so that a share is always of the peak the machine had just then.
"""

from __future__ import annotations

from functools import cache

from regard import machine
from regard.machine import FMA, PAIR, READ, UNITS, Peak

from . import THREADS

READ_BYTES = 256 << 20  # per thread: far more than any cache holds


@cache
def peaks(name: str) -> tuple[Peak, ...]:
    """The ways of measuring a peak; none where the machine has no such instruction."""
    return machine.peaks(name, THREADS, READ_BYTES)


__all__ = ["FMA", "PAIR", "READ", "UNITS", "Peak", "peaks"]
