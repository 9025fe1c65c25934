"""The page's server under load: tiles a second, the overview of a long head, memory, and the size of the page.

`python -m benchmarks.page KIND` is the server, in a process of its own: it prints its address and answers until its
input ends. What asks it runs in the process that measures.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np

from .measured import Figures, Measured

ROOT = Path(__file__).resolve().parent.parent
LONG, WIDE = 131072, 64  # tokens of the head that tiles are cut from, and its d
LAYER = (8, 32768, 64)  # heads, tokens and d of the layer whose memory is measured
AT_ONCE = 8
SECONDS = 2.0  # of load, in a round

WORKS = (
    Measured("page: tiles of 256², 1 × 131072², 8 at once", "page.tiles"),
    Measured("page: overview of a head of 131072²", "page.overview", long=True),
    Measured("page: memory, 8 × 32768²", "page.memory"),
    Measured("page: its own code", "page.size"),
    Measured("page: opening 72 heads, in a browser", "browser.usable"),
    Measured("page: panning over 131072², in a browser", "browser.panning", long=True),
)


# The server.


def _held(kind: str, path: str) -> list[Any]:
    """What it has open."""
    regard: Any = import_module("regard")
    holdings = import_module("regard.view.server.holdings")
    memory_ = import_module("regard.view.server.memory")
    if kind == "nothing":
        return []
    if kind == "recording":
        return [holdings.Recorded(regard.open(path), "layer")]
    q, k = arrays()
    matrix = regard.matrix(q, k, mask=regard.causal)
    if kind == "settled":
        matrix.weights.lse()
    return [holdings.Recorded(memory_.Memory([memory_.MemoryText([matrix])]), "long")]


def arrays() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((1, LONG, WIDE), np.float32), rng.standard_normal((1, LONG, WIDE), np.float32)


def main() -> None:
    kind, path = (*sys.argv[1:], "")[:2]
    serving = import_module("regard.view.server.serving").Serving(_held(kind, path))
    serving.start()
    print(serving.url, flush=True)
    sys.stdin.read()
    serving.stop()


@contextlib.contextmanager
def served(kind: str, path: str = "") -> Iterator[tuple[str, int]]:
    """The address and the number of a new server."""
    command = [sys.executable, "-m", "benchmarks.page", kind, *([path] if path else [])]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError(f"the server left with {process.wait()}")
        try:
            yield url, process.pid
        finally:
            process.stdin.close()
            process.wait(20)


class Connection:
    """A connection that is kept, and a buffer that answers are read into."""

    def __init__(self, url: str):
        parts = urlsplit(url)
        self.host, self.path = parts.netloc, parts.path
        self.socket = socket.create_connection((parts.hostname, parts.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(1 << 20)

    def get(self, what: str) -> tuple[int, memoryview]:
        self.socket.sendall(f"GET {self.path}api/{what} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        view, have, end = memoryview(self.buffer), 0, -1
        while end < 0:
            have += self._more(view[have:])
            end = self.buffer.find(b"\r\n\r\n", 0, have)
        head = bytes(view[:end]).lower()
        size = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        while have < end + 4 + size:
            have += self._more(view[have:])
        return int(head.split()[1]), view[end + 4 : end + 4 + size]

    def _more(self, into: memoryview) -> int:
        count = self.socket.recv_into(into)
        if not count:
            raise ConnectionError("the server closed the connection")
        return count


def tiles(rounds: int) -> Figures:
    """Random tiles at full resolution, each another; the best round."""
    with served("settled") as (url, _):
        connections = [Connection(url) for _ in range(AT_ONCE)]
        best, last = 0.0, float("inf")
        for number in range(rounds + 1):
            rate, slow = _load(connections, SECONDS if number else 0.3, number)
            if number:  # the first warms up
                best, last = max(best, rate), min(last, slow)
    return [("tiles a second", best, "/s", ">=", 300.0), ("99th percentile", last, "ms", "<=", 60.0)]


def _load(connections: list[Connection], seconds: float, seed: int) -> tuple[float, float]:
    """(tiles a second, milliseconds of all but one in a hundred)."""
    taken: list[list[float]] = [[] for _ in connections]
    start = time.perf_counter()

    def ask(number: int) -> None:
        rng = np.random.default_rng([seed, number])
        places = np.sort(rng.integers(0, LONG // 256, (4096, 2)), axis=1)  # below the diagonal
        for j, i in places.tolist():
            before = time.perf_counter()
            if before - start > seconds:
                return
            status, body = connections[number].get(f"tile?r=0&x=0&l=0&h=0&a=0&b=0&i={i}&j={j}")
            assert (status, len(body)) == (200, 4 * 256 * 256), (status, bytes(body[:100]))
            taken[number].append(time.perf_counter() - before)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = np.concatenate([np.array(x) for x in taken])
    return len(every) / (time.perf_counter() - start), float(np.quantile(every, 0.99)) * 1e3


def overview(rounds: int) -> Figures:
    """From the first question for a coarse tile until it comes, beside the same pass called directly; both begin
    without lse. Interleaved, the best of both."""
    regard: Any = import_module("regard")
    base = import_module("regard.view.server.base").Base
    plain = import_module("regard.view.server.pictures").Plain
    job = import_module("regard.view.server.jobs").Job
    q, k = arrays()
    through, direct = [], []
    for _ in range(min(2, rounds)):
        matrix = regard.matrix(q, k, mask=regard.causal)
        start = time.perf_counter()
        base(plain(matrix.weights.head(0))).compute(job())
        direct.append(time.perf_counter() - start)
        with served("long") as (url, _):
            start = time.perf_counter()
            while urlopen(f"{url}api/tile?r=0&x=0&l=0&h=0&a=9&b=9&i=0&j=0").status == 202:
                time.sleep(0.05)
            through.append(time.perf_counter() - start)
    return [
        ("of its one streaming pass", min(through) / min(direct), "of", "<=", 1.25),
        ("the pass", min(direct), "s", "", None),
    ]


def memory(rounds: int) -> Figures:
    """What a server takes that has looked at a layer, above one that has nothing open; mapped pages not counted."""
    regard: Any = import_module("regard")
    heads, n, d = LAYER
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "layer.regard")
        rng = np.random.default_rng(0)
        with regard.recording(path, sync=False) as recorder:
            q, k = (rng.standard_normal((heads, n, d), np.float32) for _ in range(2))
            recorder.layer(q, k, mask=regard.causal)
        files = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
        with served("nothing") as (url, number):
            urlopen(f"{url}api/about").read()
            empty = _own(number)
        with served("recording", path) as (url, number):
            _visit(url, heads)
            opened = _own(number)
    taken = opened - empty
    return [("of the mapped files", taken / files, "of", "<=", 0.5), ("", taken / 1e6, "MB", "", None)]


def _visit(url: str, heads: int) -> None:
    """What the page asks when a person looks around."""

    def get(what: str) -> int:
        with urlopen(f"{url}api/{what}") as answer:
            answer.read()
            return int(answer.status)

    get("about")
    get("tokens?r=0&x=0&l=0")
    get("overview?r=0&x=0")
    get("thumbs?r=0&x=0&l=0&size=48")
    for h in range(heads):
        head = f"r=0&x=0&l=0&h={h}"
        while get(f"tile?{head}&a=7&b=7&i=0&j=0") == 202:
            time.sleep(0.05)
        for level in (7, 6, 5, 4, 2, 0):
            get(f"tile?{head}&a={level}&b={level}&i=0&j=0")
        get(f"cell?{head}&i={9000 + h}&j=17")
        get(f"profile?{head}&axis=rows")
        get(f"distance?{head}")
    time.sleep(0.5)  # what was freed goes back when the answer is on its way


def _own(number: int) -> float:
    """Bytes of a process but for mapped files."""
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    values = {line.split(":")[0]: line.split(":")[1] for line in lines}
    return sum(float(values[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def size(rounds: int) -> Figures:
    """Kilobytes of all files of the page: as the browser loads them, and as they are written."""
    page: Any = import_module("regard.view.server.page").Page()
    found = [page.get(name) for name in page.names()]
    return [
        ("that the browser loads", sum(len(packed) for _, _, packed in found) / 1e3, "kB", "<=", 120.0),
        ("as written, comments and all", sum(len(content) for _, content, _ in found) / 1e3, "kB", "", None),
    ]


if __name__ == "__main__":
    main()
