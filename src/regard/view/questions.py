"""The questions of the page without a server: a notebook and an exported file have the same answers.

>>> import numpy as np, regard
>>> from regard.view.server.memory import Memory, MemoryText
>>> x = np.eye(2, dtype=np.float32)
>>> asked = Questions([Recorded(Memory([MemoryText([regard.matrix(x, x, tokens=["a", "b"])])]), "run")])
>>> asked.ask("tile", r=0, x=0, l=0, h=0, a=0, b=0, i=0, j=0).values.shape
(2, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from regard.lens.levels import alone
from regard.view.server import answers, numbers, overviews, texts, tiles
from regard.view.server.answers import BASE, TILE, Answer, Floats, Route, Said, Server
from regard.view.server.asked import Refused, read, shown
from regard.view.server.base import Bases
from regard.view.server.holdings import Holdings, Recorded
from regard.view.server.jobs import Job

ROUTES: dict[str, Route] = {**answers.ROUTES, **overviews.ROUTES, **numbers.ROUTES, **texts.ROUTES}


def _tile(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    seen = answers.picture(server, asked)
    place = tiles.place_of(seen.n_q, seen.n_k, asked["a"], asked["b"], asked["i"], asked["j"])
    if tiles.needs_base(seen, place):
        base = server.bases.ask(answers.identity(asked), lambda: seen)
        values = tiles.from_base(base, place, asked["pool"])
        if values is None:
            return Said(base.report(), 202)
    else:
        values = tiles.tile(seen, place, asked["pool"], job)
    return Floats(values, {"rows": values.shape[0], "columns": values.shape[1], "exact": True})


def _base(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    found = server.bases.ask(answers.identity(asked), lambda: answers.picture(server, asked))
    return Said(found.report())


class Questions:
    """What recordings answer, in the thread that asks."""

    def __init__(self, recordings: Sequence[Recorded]):
        holdings = Holdings(recordings)
        self.server = Server(holdings, Bases(holdings.looked_at))
        self.routes = {**ROUTES, "tile": Route(_tile, TILE), "base": Route(_base, BASE)}

    @classmethod
    def of(cls, server: Server) -> Questions:
        """Those of a server that is there, with all that it keeps."""
        made = cls(())
        made.server = server
        return made

    def ask(self, path: str, job: Job | None = None, /, **params: Any) -> Answer:
        """The answer, or `Refused` with a sentence; parameters are read as strictly as those of a URL."""
        route = self.routes.get(path)
        if route is None:
            raise Refused(404, f"there is no question {shown(path)}, expected one of: {', '.join(sorted(self.routes))}")
        asked = read(route.kinds, urlencode(params).encode())
        if route.long(self.server, asked):
            return route.answer(self.server, asked, job or Job())
        with alone():
            return route.answer(self.server, asked, job or Job())

    def close(self) -> None:
        """Give up what is under way."""
        self.server.bases.close()
