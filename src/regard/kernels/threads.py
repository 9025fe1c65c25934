"""The worker pool: who computes which task, never what comes out.

The calling thread works too, and begins at once; helpers join when they wake. All take tasks from counters in the job.
A native call returns after some 50 ms with its state in its workspace and is entered again, so that signals are seen.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from regard.kernels.compile import Entry
from regard.kernels.plan import JOB, STATE

STRETCH = 0.05  # seconds in native code at a time
WORTH_A_HAND = 4e6  # operations: less is done before a helper would have woken
PARTING = 1.0  # seconds that a helper has, at the end of the process, to come back from what it does
KEPT = 16 << 20  # bytes of workspace that a thread keeps between calls

PAGE = 4096
_State = ctypes.c_int64 * len(STATE)
_TASK, _BUDGET, _STOP = STATE["task"], STATE["budget"], JOB["stop"]
_DONE, _TOTAL = JOB["done1"], JOB["total1"]

_chosen = 0  # by threads(n); 0 is not chosen


def available() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def threads(n: int | None = None) -> int:
    """Set how many threads compute, or ask with no argument; 0 goes back to REGARD_THREADS, or all available cores.

    >>> before = threads()
    >>> threads(2)
    2
    >>> threads(0) == before
    True
    """
    global _chosen
    if n is not None:
        if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= 1024:
            raise ValueError(f"threads came as {n!r}, expected a whole number from 0 (automatic) to 1024")
        _chosen = n
    return _chosen or _default()


def _default() -> int:
    asked = os.environ.get("REGARD_THREADS", "")
    if not asked:
        return available()
    if not (asked.isascii() and asked.isdecimal()) or not 1 <= int(asked) <= 1024:
        raise ValueError(f"REGARD_THREADS is {asked!r}, expected a whole number from 1 to 1024: set one, or unset it")
    return int(asked)


class Workspace(threading.local):
    """Scratch memory of one thread, kept between calls. A call inside a call, from a signal handler, gets its own."""

    def __init__(self) -> None:
        self.size, self.address = 0, 0
        self.buffer: Any = None
        self.taken = False

    @contextmanager
    def of(self, size: int) -> Iterator[int]:
        """The address of so many bytes, aligned to a page, so that tasks always see the same layout."""
        if self.taken or size > KEPT:
            buffer = (ctypes.c_char * (size + PAGE))()
            yield (ctypes.addressof(buffer) + PAGE - 1) & -PAGE
            return
        self.taken = True
        try:
            if size > self.size:
                self.buffer = (ctypes.c_char * (size + PAGE))()
                self.size, self.address = size, (ctypes.addressof(self.buffer) + PAGE - 1) & -PAGE
            yield self.address
        finally:
            self.taken = False


_workspace = Workspace()


class Company(threading.local):
    """Whether the calls of a thread take helpers along."""

    wanted = True


_company = Company()


@contextmanager
def alone() -> Iterator[None]:
    """What this thread computes inside it computes by itself: of many small problems each is done soonest so."""
    before, _company.wanted = _company.wanted, False
    try:
        yield
    finally:
        _company.wanted = before


class Work:
    """One job in the hands of several threads. It keeps alive what the job points at until the last has left."""

    def __init__(self, run: Entry, job: Any, scratch: int, budget: int, keep: Any):
        self.run, self.job, self.scratch, self.budget, self.keep = run, job, scratch, budget, keep
        self.lock = threading.Lock()
        self.inside, self.closed = 0, False

    def join(self) -> None:
        """A helper's part."""
        with self.lock:
            if self.closed:
                return
            self.inside += 1
        try:
            self.compute()
        finally:
            with self.lock:
                self.inside -= 1

    def compute(self, progress: Callable[[float], object] | None = None) -> None:
        """Call the kernel until nothing is left to do; between two calls, tell how far it is."""
        run, job, budget = self.run, self.job, self.budget
        with _workspace.of(self.scratch) as address:
            state = _State.from_address(address)
            state[_TASK], state[_BUDGET] = -1, budget
            if not run(job, address):
                return
            start = time.perf_counter()
            while not job[_STOP]:
                if progress is not None:
                    progress(job[_DONE] / max(1, job[_TOTAL]))
                state[_BUDGET] = budget
                if not run(job, address):
                    return
                now = time.perf_counter()
                pace = STRETCH / max(now - start, 1e-6)
                start = now
                if state[_BUDGET] <= 0:  # it ran until its budget was spent
                    budget = max(1, int(budget * min(2.0, max(0.25, pace))))

    def stop(self) -> None:
        """Make everybody leave, and wait until they have, whatever else comes: they write to what may be gone then."""
        self.job[_STOP] = 1
        self.closed = True
        interrupted: BaseException | None = None
        while self.inside:
            try:
                time.sleep(0.001)
            except BaseException as error:  # a second Ctrl-C is raised when it is safe
                interrupted = error
        if interrupted is not None:
            raise interrupted


class Pool:
    """Helper threads, made when first needed. They wait on one queue until the process ends."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()

    @property
    def helpers(self) -> int:
        return len(self.threads)

    def want(self, helpers: int) -> None:
        with self.lock:
            while self.helpers < helpers:
                thread = threading.Thread(target=self._help, name=f"regard-{self.helpers + 1}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads are to be had: those that are there do the work
                    return
                self.threads.append(thread)

    def _help(self) -> None:
        waiting = self.queue
        while (work := waiting.get()) is not None:
            work.join()

    def close(self) -> None:
        """Let the helpers go. One that came back from native code while the interpreter is taken down would be ended
        in the middle of it, which some libraries answer by ending the process with an error."""
        for _ in self.threads:
            self.queue.put(None)
        for thread in self.threads:
            thread.join(PARTING)


_pool = Pool()
atexit.register(lambda: _pool.close())


def _after_fork() -> None:
    """The child has none of its parent's threads, and nobody to release their locks."""
    global _pool, _workspace
    _pool, _workspace = Pool(), Workspace()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def compute(
    run: Entry,
    job: Any,
    scratch: int,
    budget: int,
    helpers: int,
    keep: Any,
    progress: Callable[[float], object] | None = None,
) -> None:
    """Run a job to its end, with up to so many helpers beside this thread."""
    work = Work(run, job, scratch, budget, keep)
    helpers = min(helpers, threads() - 1) if helpers and _company.wanted else 0
    try:
        if helpers > 0:
            if _pool.helpers < helpers:
                _pool.want(helpers)
            for _ in range(helpers):
                _pool.queue.put(work)
        work.compute(progress)
    except BaseException:
        work.stop()
        raise
    work.closed = True
