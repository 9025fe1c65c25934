"""The application: behind the guard, tiles by the shortest way and everything else by Starlette's routes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.routing import Router

from regard.errors import RegardError
from regard.lens.levels import alone
from regard.view import export
from regard.view.questions import ROUTES
from regard.view.server import answers, overviews, tiles
from regard.view.server.answers import BASE, TILE, File, Floats, Route, Said, Server
from regard.view.server.asked import Refused, read, shown
from regard.view.server.base import Bases
from regard.view.server.guard import HEADERS, Guard, Receive, Scope, Send, send_body, send_refusal
from regard.view.server.holdings import Holdings, Recorded
from regard.view.server.jobs import Abandoned, Job, Lane, step_back
from regard.view.server.page import INDEX, Page, takes_gzip
from regard.view.server.trim import give_back

FLOATS = b"application/octet-stream"
FAST, SLOW = 256, 64  # requests that may wait or run in a lane
PASSES = 2  # threads of the slow lane
FAILED = "the server failed to answer, expected it not to: its terminal says more"

log = logging.getLogger("regard.view")


class App:
    """The server's application, guard and all; `close` lets its threads go."""

    def __init__(
        self,
        recordings: Sequence[Recorded],
        secret: str,
        host: str = "127.0.0.1",
        page: Page | None = None,
        version: str = "",
    ):
        holdings = Holdings(recordings)
        self.server = Server(holdings, Bases(holdings.looked_at, step_back), version)
        self.page = Page() if page is None else page
        self.fast = Lane("tiles", max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2), FAST)
        self.early = Job()
        self.slow = Lane("questions", PASSES, SLOW, give_back)
        self.routes: dict[str, Route] = {**ROUTES, **export.ROUTES}
        self.router = Router(
            routes=[
                Path("/", self._index),
                Path("/page/{name}", self._module),
                *(Path(f"/api/{name}", partial(self._answer, route)) for name, route in self.routes.items()),
            ],
            default=_not_there,
            redirect_slashes=False,
        )
        self.guard = Guard(self._inside, secret, host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.guard(scope, receive, send)

    def begin(self) -> None:
        """Compute what the page will ask first, while the browser opens."""

        def work() -> None:
            with contextlib.suppress(Exception):  # who asks is told
                overviews.first(self.server, self.early)

        threading.Thread(target=work, name="regard-first", daemon=True).start()

    def close(self) -> None:
        """Give up what is under way."""
        self.early.gone = True
        self.server.bases.close()
        self.fast.close()
        self.slow.close()

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What the guard has let through."""
        if scope["type"] == "lifespan":
            return await _lifespan(receive, send)
        path = scope["regard.path"]
        begun = False

        async def told(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            if path == "api/tile":
                await self._tile(scope["query_string"], receive, told)
            elif path == "api/base":
                await self._base(scope["query_string"], receive, told)
            elif path is None:  # the token without a slash behind it
                place = b"/" + self.guard.secret + b"/"
                await send_body(told, 307, b"text/plain", b"", ((b"location", place),))
            else:
                inner = dict(scope, path="/" + path, raw_path=("/" + path).encode("latin-1"), root_path="")
                await self.router(inner, receive, _headed(told))
        except Abandoned:
            if not begun:  # nobody hears it; the connection is let go
                await send_refusal(told, Refused(499, "the request was abandoned"))
        except Exception as error:
            refused = _refusal(error)
            if not begun:
                await send_refusal(told, refused)
        return None

    # Tiles.

    async def _tile(self, query: bytes, receive: Receive, send: Send) -> None:
        asked = read(TILE, query)
        begun = time.perf_counter()
        server = self.server
        seen = answers.picture(server, asked)
        place = tiles.place_of(seen.n_q, seen.n_k, asked["a"], asked["b"], asked["i"], asked["j"])
        pool = asked["pool"]
        if tiles.needs_base(seen, place):
            base = server.bases.ask(answers.identity(asked), lambda: seen)
            values = await self.fast.do(lambda job: tiles.from_base(base, place, pool), receive)
            if values is None:
                return await send_body(send, 202, b"application/json", json.dumps(base.report()).encode())
        elif tiles.quick(seen, place):

            def small(job: Job) -> Any:
                with alone():
                    return tiles.tile(seen, place, pool, job)

            values = await self.fast.do(small, receive)
        else:
            values = await self.slow.do(lambda job: tiles.tile(seen, place, pool, job), receive)
        rows, columns = values.shape
        said = b'{"rows": %d, "columns": %d, "exact": true, "ms": %.3f}' % (
            rows,
            columns,
            1000 * (time.perf_counter() - begun),
        )
        return await send_body(send, 200, FLOATS, _bytes(values), ((b"x-regard", said),))

    async def _base(self, query: bytes, receive: Receive, send: Send) -> None:
        asked = read(BASE, query)
        base = self.server.bases.ask(answers.identity(asked), lambda: answers.picture(self.server, asked))
        await send_body(send, 200, b"application/json", json.dumps(base.report()).encode())

    # The others.

    async def _index(self, request: Request) -> Response:
        return self._file(INDEX, request)

    async def _module(self, request: Request) -> Response:
        return self._file(request.path_params["name"], request)

    def _file(self, name: str, request: Request) -> Response:
        found = self.page.get(name)
        if found is None:
            raise Refused(404, f"the page has no {shown(name)}, expected one of its modules")
        kind, content, packed = found
        headers = {"content-type": kind.decode(), "vary": "accept-encoding"}
        if takes_gzip(request.headers.get("accept-encoding", "")):
            content, headers["content-encoding"] = packed, "gzip"
        return Response(content, media_type=None, headers=headers)

    async def _answer(self, route: Route, request: Request) -> Response:
        asked = read(route.kinds, request.scope["query_string"])
        server = self.server
        lane = self.slow if route.long(server, asked) else self.fast

        def work(job: Job) -> Any:
            if lane is self.slow:
                return route.answer(server, asked, job)
            with alone():
                return route.answer(server, asked, job)

        found = await lane.do(work, request.receive)
        if isinstance(found, Said):
            return Response(
                json.dumps(found.value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode(),
                status_code=found.status,
                media_type="application/json",
            )
        if isinstance(found, File):
            headers = {"content-type": found.kind, "content-disposition": f'attachment; filename="{found.name}"'}
            return Response(found.body, headers=headers)
        assert isinstance(found, Floats)
        headers = {"content-type": FLOATS.decode(), "x-regard": json.dumps(found.head)}
        return Response(bytes(_bytes(found.values)), status_code=found.status, headers=headers)


def _bytes(values: Any) -> memoryview:
    """Little-endian float32 as they lie in memory."""
    found: Any = np.ascontiguousarray(values, "<f4").reshape(-1)
    return memoryview(found).cast("B") if found.size else memoryview(b"")


def _refusal(error: Exception) -> Refused:
    """A failure as it is told."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, RegardError):
        return Refused(400, str(error))
    log.error("a request failed", exc_info=error)
    return Refused(500, FAILED)


async def _not_there(scope: Scope, receive: Receive, send: Send) -> None:
    raise Refused(404, f"there is nothing at {shown(scope['path'])}, expected /, /page/… or /api/…")


def _headed(send: Send) -> Send:
    """The headers of every answer, put to those of Starlette's."""

    async def more(message: Any) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *HEADERS]
        await send(message)

    return more


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
