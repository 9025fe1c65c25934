"""What is served in tests, and asking it without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np

import regard
from regard.view.server.app import App
from regard.view.server.holdings import Recorded
from regard.view.server.memory import Memory, MemoryText

Array = np.ndarray[Any, Any]
SECRET = "secret"
HERE = "http://127.0.0.1:8000"
HEAD = "r=0&x=0&l=0&h=0"
WORDS = ["[CLS]", "the", "cat", "##s", "chased", "a", "mouse", ",", "and", "the", "mouse", "ran", "[SEP]"]


def arrays(heads: int, n_q: int, n_k: int, d: int = 8, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((heads, n_q + n_k, d), dtype=np.float32) * 1.5
    return made[:, :n_q], made[:, n_q:]


def held(*layers: regard.AttentionMatrix, **text: Any) -> Recorded:
    """Matrices as the layers of one text."""
    text.setdefault("tokens", layers[0].key_tokens)
    return Recorded(Memory([MemoryText(layers, **text)], {"name": "a model"}), "run.regard")


def sentence(layers: int = 2, heads: int = 3) -> Recorded:
    """A few words, with values and offsets."""
    n, made, text, offsets = len(WORDS), [], "The cats chased a mouse, and the mouse ran", []
    at = 0
    for word in WORDS:
        bare = word.removeprefix("##")
        place = text.lower().find(bare, at)
        offsets.append((0, 0) if word[0] == "[" else (place, place + len(bare)))
        at = at if word[0] == "[" else place + len(bare)
    for layer in range(layers):
        q, k = arrays(heads, n, n, seed=layer)
        v = np.random.default_rng(9).standard_normal((heads, n, 4), dtype=np.float32)
        made.append(regard.matrix(q, k, v=v, tokens=WORDS))
    return held(*made, text=text, offsets=offsets)


class Answer:
    """A response, read."""

    def __init__(self, response: httpx.Response):
        self.status, self.headers, self.body = response.status_code, response.headers, response.content

    @property
    def said(self) -> Any:
        return json.loads(self.body)

    @property
    def head(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.headers["x-regard"])
        return found

    @property
    def values(self) -> Array:
        assert self.status == 200, self.body
        return np.frombuffer(self.body, "<f4")

    @property
    def tile(self) -> Array:
        return self.values.reshape(self.head["rows"], self.head["columns"])


class Client:
    """Asks an application in this process."""

    def __init__(self, app: App):
        self.app = app

    async def asked(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        transport = httpx.ASGITransport(app=self.app)  # type: ignore[arg-type]  # an application is any such callable
        async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
            return Answer(await client.request(method, path, headers=headers))

    def raw(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        return asyncio.run(self.asked(path, method, headers))

    def get(self, route: str, query: str = "") -> Answer:
        return self.raw(f"/{SECRET}/api/{route}?{query}")

    def tile(self, query: str) -> Array:
        return self.get("tile", query).tile


@contextmanager
def serving(*recordings: Recorded) -> Iterator[Client]:
    app = App(recordings, SECRET)
    try:
        yield Client(app)
    finally:
        app.close()


def until(true: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait for something that another thread does."""
    import time

    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
