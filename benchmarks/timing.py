"""Times of calls that are compared: interleaved, warmed up, the best of many rounds."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

SAMPLE = 0.02  # seconds a sample lasts at least, so that a short call is timed in a loop of many
MOST_ROUNDS = 100


@dataclass(frozen=True)
class Effort:
    """At least `rounds` rounds, and more of them while `seconds` have not passed."""

    rounds: int = 7
    seconds: float = 3.0


@dataclass(frozen=True)
class Times:
    """Seconds of one call."""

    best: float
    median: float
    samples: int


def keep_memory() -> None:
    """Asks glibc to keep what is freed.

    An output of some hundred kilobytes is otherwise sometimes given back to the system after every call and mapped
    again in the next, depending on what happens to lie above it. Whom it hits is luck, and it can be much: the NumPy
    equations at 12 × 128² took 1.47 ms with some 690 page faults a call, and 0.57 ms without. Nothing is done where
    the allocator has no such switch.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, the most it takes
        mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def settle() -> None:
    """Waits until the threads that spin after a call have gone to sleep, so that nobody pays for another's."""
    for _ in range(100):
        busy = time.process_time()
        time.sleep(0.005)
        if time.process_time() - busy < 0.001:
            return


def _sample(calls: Sequence[Callable[[], object]], turns: int) -> float:
    """Seconds of one call, when `turns` of them are made one after the other."""
    cycle = list(itertools.islice(itertools.cycle(calls), turns))
    start = time.perf_counter()
    for call in cycle:
        call()
    return (time.perf_counter() - start) / turns


def _turns(calls: Sequence[Callable[[], object]]) -> int:
    """How many calls make a sample: a whole number of tours through the buffers.

    The quickest of three tries decides, for one bad moment would leave samples of a single call to a thread asleep.
    """
    turns = len(calls)
    start = time.perf_counter()
    while time.perf_counter() - start < SAMPLE:
        _sample(calls, turns)
    while (seconds := min(_sample(calls, turns) for _ in range(3)) * turns) < SAMPLE / 2:
        turns *= max(2, min(16, int(SAMPLE / max(seconds, 1e-7))))
    return turns


def interleaved(
    contestants: Mapping[str, Sequence[Callable[[], object]]], effort: Effort, yardsticks: Collection[str] = ()
) -> dict[str, Times]:
    """Every contestant once a round, in turn. One with several calls goes through them, to meet memory that is cold.

    A yardstick takes three samples a round: what the others are a share of should not have had a bad moment.
    """
    turns = {}
    for name, calls in contestants.items():
        calls[0]()
        turns[name] = _turns(calls)
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for round_ in range(max(effort.rounds, MOST_ROUNDS)):
            if round_ >= effort.rounds and time.perf_counter() - start > effort.seconds:
                break
            for name, calls in contestants.items():
                settle()
                if turns[name] > len(calls):
                    # Threads just woken may share a core for some milliseconds, which a short call would be charged.
                    _sample(calls, turns[name])
                samples[name] += [_sample(calls, turns[name]) for _ in range(3 if name in yardsticks else 1)]
    finally:
        gc.enable()
    return {name: Times(min(times), median(times), len(times)) for name, times in samples.items()}
