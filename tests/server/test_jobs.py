"""Lanes, what is given up, what is bounded, and that it all ends."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import regard
from regard.view.server import app as apps
from regard.view.server import base, tiles
from regard.view.server.app import App
from regard.view.server.asked import Refused
from regard.view.server.base import Base, Bases, level_of
from regard.view.server.holdings import Kept
from regard.view.server.jobs import BEHIND, Abandoned, Job, Lane
from regard.view.server.pictures import Plain
from tests.server.asking import HEAD, SECRET, Client, arrays, held, serving, until

Receive = Callable[[], Awaitable[dict[str, Any]]]
TILE = f"{HEAD}&a=0&b=0&i=0&j=0"


def stays() -> Receive:
    """A client that waits."""

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    return receive


def leaves(when: asyncio.Event) -> Receive:
    """A client that goes away."""

    async def receive() -> dict[str, Any]:
        await when.wait()
        return {"type": "http.disconnect"}

    return receive


def matrix(n: int = 300, heads: int = 1) -> regard.AttentionMatrix:
    return regard.matrix(*arrays(heads, n, n), mask=regard.causal)


def test_work_is_done_and_errors_come_back() -> None:
    lane = Lane("t", 2, 4)

    async def several() -> list[Any]:
        return await asyncio.gather(*(lane.do(lambda job, i=i: i * i, stays()) for i in range(4)))  # type: ignore[misc]

    async def broken() -> None:
        await lane.do(lambda job: 1 // 0, stays())

    assert asyncio.run(several()) == [0, 1, 4, 9]
    with pytest.raises(ZeroDivisionError):
        asyncio.run(broken())
    lane.close()
    assert not any(thread.is_alive() for thread in lane.threads)


def test_no_more_than_so_many_wait() -> None:
    lane, go = Lane("t", 1, 3), threading.Event()

    async def ask() -> list[Any]:
        first = [asyncio.ensure_future(lane.do(lambda job: go.wait(10), stays())) for _ in range(3)]
        await asyncio.sleep(0)
        try:
            with pytest.raises(Refused, match="3 requests wait already") as refused:
                await lane.do(lambda job: None, stays())
            assert refused.value.status == 429
        finally:
            go.set()
        await asyncio.gather(*first)
        return [await lane.do(lambda job: "again", stays())]

    assert asyncio.run(ask()) == ["again"]
    lane.close()


def test_what_nobody_waits_for_stops() -> None:
    """A pass that looks at its job now and then counts how often it did; after the client left it does no more."""
    lane, steps, ended = Lane("t", 1, 4), [0], threading.Event()

    def work(job: Job) -> None:
        try:
            for _ in range(4000):
                job.check()
                steps[0] += 1
                time.sleep(0.001)
        finally:
            ended.set()

    async def ask() -> None:
        left = asyncio.Event()
        task = asyncio.ensure_future(lane.do(work, leaves(left)))
        while not steps[0]:
            await asyncio.sleep(0.001)
        left.set()
        with pytest.raises(Abandoned):
            await task

    asyncio.run(ask())
    assert ended.wait(2)
    done = steps[0]
    time.sleep(0.02)
    assert steps[0] == done < 2000
    lane.close()


def test_work_that_raises_stop_iteration_is_an_error() -> None:
    """A future refuses that exception, and who waits for it would wait for ever."""
    lane = Lane("t", 1, 4)

    async def ask() -> None:
        with pytest.raises(RuntimeError, match="the work raised StopIteration"):
            await asyncio.wait_for(lane.do(lambda job: next(iter(())), stays()), 10)

    asyncio.run(ask())
    assert lane.inside == 0
    lane.close()


def test_what_waits_is_not_begun_when_its_client_left() -> None:
    lane, go, begun = Lane("t", 1, 4), threading.Event(), []

    async def ask() -> None:
        left = asyncio.Event()
        first = asyncio.ensure_future(lane.do(lambda job: go.wait(10), stays()))
        second = asyncio.ensure_future(lane.do(begun.append, leaves(left)))
        await asyncio.sleep(0.01)
        left.set()
        with pytest.raises(Abandoned):
            await second
        go.set()
        await first

    asyncio.run(ask())
    lane.close()
    assert begun == []


def test_a_native_pass_is_left_when_its_client_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile that takes long is given up inside the pass, and its rows are not taken for known."""
    monkeypatch.setattr(tiles, "QUICK", 0.0)
    monkeypatch.setattr(base, "LONG", 1 << 40)  # no base: the region itself
    big = regard.matrix(*arrays(1, 20000, 20000, 64))
    app = App([held(big)], SECRET)
    sent: list[Any] = []
    inside, late = threading.Event(), threading.Event()
    answered: list[bool] = []
    shares: list[float] = []  # of the pass, when it was told that nobody waits
    check = Job.check

    async def ask() -> None:
        loop, left = asyncio.get_running_loop(), asyncio.Event()

        def told(job: Job, share: float = 0.0) -> None:
            if share and not inside.is_set():  # between the first stretches in native code the client leaves
                inside.set()
                loop.call_soon_threadsafe(left.set)
                answered.append(late.wait(20))
                return  # so one more stretch is begun
            if job.gone:
                shares.append(share)
            check(job, share)

        monkeypatch.setattr(Job, "check", told)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "path": f"/{SECRET}/api/tile",
            "raw_path": f"/{SECRET}/api/tile".encode(),
            "query_string": f"{HEAD}&a=6&b=6&i=0&j=0".encode(),
            "headers": [(b"host", b"127.0.0.1")],
        }
        await app(scope, leaves(left), send)
        late.set()
        while app.slow.inside:
            await asyncio.sleep(0.005)

    before = regard.threads()
    try:
        regard.threads(1)  # so that the pass takes many stretches
        asyncio.run(ask())
    finally:
        regard.threads(0 if before == regard.threads(0) else before)
    assert answered == [True]  # nobody waits for the pass
    assert len(shares) == 1  # it was over when it was told
    assert 0 < shares[0] < 0.5
    app.close()
    for thread in app.slow.threads:
        thread.join(20)
        assert not thread.is_alive()
    assert not big.weights.known(range(20000)).all()
    assert [m["status"] for m in sent if m["type"] == "http.response.start"] == [499]


def test_passes_never_stand_before_tiles() -> None:
    """Eight passes at once, and still tiles come at once."""
    app = App([held(matrix())], SECRET)
    client, go = Client(app), threading.Event()

    async def ask() -> list[int]:
        slow = [asyncio.ensure_future(app.slow.do(lambda job: go.wait(10), stays())) for _ in range(8)]
        await asyncio.sleep(0.01)
        try:
            found = [(await client.asked(f"/{SECRET}/api/tile?{TILE}")).status for _ in range(5)]
            assert not any(x.done() for x in slow)
        finally:
            go.set()
        await asyncio.gather(*slow)
        return found

    assert asyncio.run(ask()) == [200] * 5
    app.close()


def test_too_many_at_once_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "FAST", 2)
    app, go = App([held(matrix())], SECRET), threading.Event()
    client = Client(app)

    async def ask() -> int:
        busy = [asyncio.ensure_future(app.fast.do(lambda job: go.wait(10), stays())) for _ in range(2)]
        await asyncio.sleep(0.01)
        try:
            return (await client.asked(f"/{SECRET}/api/tile?{TILE}")).status
        finally:
            go.set()
            await asyncio.gather(*busy)

    assert asyncio.run(ask()) == 429
    assert client.get("tile", TILE).status == 200
    app.close()


# Bases.


def test_levels_of_bases() -> None:
    assert [level_of(n) for n in (1, 2048, 2049, 4096, 4097, 131072, 10**6)] == [0, 0, 1, 1, 2, 6, 9]


def test_a_pass_that_nobody_asks_for_any_more_stops_and_can_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BAND", 1)
    monkeypatch.setattr(base, "MOST", 64)
    picture = Plain(matrix(600).weights.head(0))
    bases = Bases()
    began = threading.Event()
    plain = Plain.pixels

    def slow(self: Plain, *arguments: Any) -> Any:
        began.set()
        time.sleep(0.005)
        return plain(self, *arguments)

    monkeypatch.setattr(Plain, "pixels", slow)
    first = bases.ask("a", lambda: picture)
    assert began.wait(5)
    monkeypatch.setattr(base, "PATIENCE", 0.0)
    until(lambda: bases.current is None)
    done = int(first.bands.sum())
    assert first.state == "none"
    assert 0 < done < len(first.bands)
    work = bases.work
    time.sleep(0.02)
    assert bases.work == work  # nothing goes on
    monkeypatch.setattr(base, "PATIENCE", 60.0)
    monkeypatch.setattr(Plain, "pixels", plain)
    again = bases.ask("a", lambda: picture)
    assert again is first  # taken up where it was left
    until(lambda: first.state == "done")
    bases.close()


def test_bases_take_no_more_than_a_share_of_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LEAST", 0)
    picture = Plain(matrix(300).weights.head(0))
    one = Base(picture).size
    bases = Bases(lambda: 8 * (3 * one + one // 2))  # three, with the counts that a pass adds to each
    for name in "abcde":
        bases.ask(name, lambda: picture)
    until(lambda: bases.kept["e"].state == "done")
    assert list(bases.kept) == ["c", "d", "e"]
    bases.close()


def test_a_pass_that_fails_is_told_to_who_asks() -> None:
    class Broken(Plain):
        def pixels(self, *arguments: Any) -> Any:
            raise regard.errors.QuestionError("this cannot be answered")

    picture = Broken(matrix(300).weights.head(0))
    bases = Bases()
    bases.ask("a", lambda: picture)
    until(lambda: bases.kept["a"].failed is not None)
    with pytest.raises(regard.RegardError, match="cannot be answered"):
        bases.ask("a", lambda: picture)
    bases.close()


def test_what_is_kept_is_bounded() -> None:
    kept = Kept(3)
    for i in range(10):
        assert kept.get(i % 5, lambda i=i: i % 5) == i % 5  # type: ignore[misc]
    assert len(kept.made) == 3
    by_size = Kept(100, lambda x: x)
    assert [by_size.get(i, lambda: 60) for i in range(3)] == [60] * 3
    assert len(by_size.made) == 1


def test_closing_gives_up_what_is_under_way() -> None:
    big = regard.matrix(*arrays(1, 30000, 30000, 64))
    app = App([held(big)], SECRET)
    app.server.bases.ask(
        "a",
        lambda: app.server.holdings.picture(
            (0, 0, 0), 0, dict.fromkeys(("minus",)) | {"of": "weight", "unit": "tokens", "without": ()}
        ),
    )
    until(lambda: app.server.bases.current is not None)
    app.close()
    thread = app.server.bases.thread
    assert thread is not None
    thread.join(20)
    assert not thread.is_alive()
    assert not big.weights.known(range(30000)).all()


def test_one_thread_computes_a_small_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tiles are many at once: each stays with its thread, and wakes no helper."""
    from regard.kernels import threads

    asked: list[Any] = []
    q, k = arrays(1, 4000, 4000, 64)
    big = regard.matrix(q, k, lse=np.zeros((1, 4000)))
    with serving(held(big)) as client:
        client.get("tile", TILE)  # compiled by now
        monkeypatch.setattr(threads, "threads", lambda: 4)
        monkeypatch.setattr(threads._pool, "want", lambda helpers: asked.append(helpers))
        client.get("tile", f"{HEAD}&a=0&b=0&i=2&j=3")
    assert asked == []


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads are Linux's")
def test_passes_stand_behind_tiles() -> None:
    """Where both want a core, tiles get most of it."""
    app = App([held(matrix())], SECRET)

    def nice(job: Job) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def ask() -> list[int]:
        return [await lane.do(nice, stays()) for lane in (app.fast, app.slow)]

    tiles_, passes = asyncio.run(ask())
    assert passes - tiles_ == BEHIND
    app.close()
