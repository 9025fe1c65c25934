"""Work in lanes of threads: a long pass never stands before a small tile, and what nobody waits for is given up.

A lane is a queue and its threads. What runs in it is told by `Job.check` to stop when the client went away: passes call
it as their progress, between two stretches in native code.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from regard.view.server.asked import Refused

BEHIND = 5  # how nice passes are to tiles: these get three times as much of a core that both want

Receive = Callable[[], Awaitable[Mapping[str, Any]]]


class Abandoned(Exception):
    """Nobody waits for the answer any more."""


class Job:
    """One answer in the making."""

    def __init__(self) -> None:
        self.gone = False
        self.done: Callable[[Any, BaseException | None], None] = lambda answer, error: None

    def check(self, share: float = 0.0) -> None:
        """Stop here if nobody waits for it any more; it is what passes tell their progress to."""
        if self.gone:
            raise Abandoned


def step_back() -> None:
    """Let other threads go first, where the system has priorities of threads; those begun from here on do the same."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            this = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, this, os.getpriority(os.PRIO_PROCESS, this) + BEHIND)


class Lane:
    """Threads that work one queue off, and a bound on how much may wait in it."""

    def __init__(self, name: str, threads: int, most: int, after: Callable[[], object] | None = None):
        self.name, self.most, self.after = name, most, after  # after each job of a lane of passes
        self.queue: queue.SimpleQueue[tuple[Callable[[Job], Any], Job] | None] = queue.SimpleQueue()
        self.inside = 0  # jobs that wait or run; counted in the thread of the event loop alone
        self.threads = [
            threading.Thread(target=self._work, name=f"regard-{name}-{i + 1}", daemon=True) for i in range(threads)
        ]
        self.closed = False
        self.jobs: set[Job] = set()
        for thread in self.threads:
            thread.start()

    def _work(self) -> None:
        waiting = self.queue
        if self.after is not None:
            step_back()
        while (one := waiting.get()) is not None:
            work, job = one
            answer: Any = None
            error: BaseException | None = None
            try:
                job.check()
                answer = work(job)
            except BaseException as raised:  # whoever waits for it is told
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                job.done(answer, error)
            del one, work, job, answer, error  # nothing is held while waiting
            if self.after is not None:
                self.after()

    async def do(self, work: Callable[[Job], Any], receive: Receive) -> Any:
        """What the work gives. It is given up if the client goes away, or the task is cancelled."""
        if self.inside >= self.most:
            raise Refused(429, f"{self.inside} requests wait already, expected at most {self.most}: ask again later")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        job = Job()

        def settle(answer: Any, error: BaseException | None) -> None:
            self.inside -= 1
            self.jobs.discard(job)
            if future.done():
                return
            if isinstance(error, StopIteration):  # which no future takes
                error = RuntimeError("the work raised StopIteration")
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

        def left(watching: asyncio.Task[None]) -> None:
            if not watching.cancelled():
                job.gone = True
                if not future.done():
                    future.set_exception(Abandoned())

        def done(answer: Any, error: BaseException | None) -> None:
            loop.call_soon_threadsafe(settle, answer, error)

        job.done = done
        self.inside += 1
        self.jobs.add(job)
        self.queue.put((work, job))
        watch = loop.create_task(_left(receive))
        watch.add_done_callback(left)
        try:
            return await future
        except asyncio.CancelledError:
            job.gone = True
            raise
        finally:
            watch.cancel()

    def close(self, seconds: float = 1.0) -> None:
        """Give up what is under way, and let the threads go."""
        self.closed = True
        for job in list(self.jobs):
            job.gone = True
        for _ in self.threads:
            self.queue.put(None)
        for thread in self.threads:
            thread.join(seconds)


async def _left(receive: Receive) -> None:
    """Comes back when the client goes away."""
    with contextlib.suppress(Exception):
        while (await receive())["type"] != "http.disconnect":
            pass
