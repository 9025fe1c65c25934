"""Memory that was freed, given back to the system.

Passes need tens of megabytes for a moment, each in a thread of its own; the C library keeps what was freed for the next
time, once for every thread, and a server that idles would hold several times what it uses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

MMAP_THRESHOLD, ARENA_MAX = -3, -8  # names of mallopt in malloc.h
LARGE = 384 << 10  # bytes; a tile is smaller, and its memory is used again
HEAPS = 2


@lru_cache(1)
def _trim() -> Callable[[int], object] | None:
    """malloc_trim, where the C library has it: glibc alone does."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found


def sparing() -> None:
    """From here on large arrays are mapped for themselves, and gone when they are freed; threads share their heaps."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(MMAP_THRESHOLD, LARGE)
    mallopt(ARENA_MAX, HEAPS)


def give_back() -> None:
    """Give back what is free."""
    trim = _trim()
    if trim is not None:
        trim(0)
