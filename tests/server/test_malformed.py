"""Thousands of malformed requests to a real server on the loopback: it refuses them, still answers, and closes."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from regard.view.server.serving import Serving
from tests.server.asking import HEAD, sentence

REQUESTS = 2000
ROUTES = ["about", "tokens", "tile", "overview", "thumbs", "cell", "row", "column", "row.csv", "profile", "distance"]
ROUTES += ["skyline", "arcs", "search", "steps", "designed", "compare", "export"]
NAMES = [
    *"rxlhabij",
    "pool",
    "of",
    "unit",
    "without",
    "minus",
    "bins",
    "size",
    "axis",
    "q",
    "from",
    "count",
    "top",
    "name",
]
VALUES = [
    "0",
    "1",
    "2",
    "-1",
    "1e9",
    "999999999999",
    "9" * 40,
    "",
    "max",
    "mean",
    "words",
    "0.0.0.1",
    "1,2",
    "%00",
    "%ff",
]
VALUES += ["../../etc/passwd", "<script>", "é", "null", "NaN", "0x10", "' OR 1=1", "%", "%zz", "a" * 300, "∞", "١"]


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    made = Serving([sentence()])
    thread = made.start()
    yield made
    made.stop()
    thread.join(10)
    assert not thread.is_alive()  # it closed, whatever it was sent


def connect(server: Serving) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), 5)
    made.settimeout(5)
    return made


def answered(sock: socket.socket) -> bytes:
    """All that comes until the server closes the connection, or says no more."""
    found = b""
    try:
        while part := sock.recv(1 << 16):
            found += part
            if b"\r\n\r\n" in found and b"connection: close" not in found.lower():
                size = int(found.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                if len(found.partition(b"\r\n\r\n")[2]) >= size:
                    break
    except (OSError, ValueError):
        pass
    return found


def still_answers(server: Serving) -> None:
    with urlopen(f"{server.url}api/tile?{HEAD}&a=0&b=0&i=0&j=0", timeout=5) as answer:
        assert answer.status == 200
        assert len(answer.read()) == 4 * 13 * 13


def query(rng: random.Random) -> str:
    """Parameters that are mostly wrong."""
    if rng.random() < 0.3:
        parts = HEAD.split("&") + [f"{rng.choice(NAMES)}={rng.choice(VALUES)}" for _ in range(rng.randrange(4))]
    else:
        parts = [f"{rng.choice(NAMES)}={rng.choice(VALUES)}" for _ in range(rng.randrange(8))]
    return rng.choice(["&", "&", "&", ";", "&&"]).join(parts)


def path(server: Serving, rng: random.Random) -> str:
    secret = rng.choice([server.secret] * 8 + ["", "wrong", server.secret[:-1], "%2e%2e"])
    where = rng.choice(
        [f"api/{rng.choice(ROUTES)}"] * 6 + ["", "page/app.js", "page/../x", "api", "api/base", "%2f%2f"]
    )
    return f"/{secret}/{where}?{query(rng)}"


def test_thousands_of_malformed_questions(server: Serving) -> None:
    rng = random.Random(6)
    sock = connect(server)
    seen: dict[int, int] = {}
    for _ in range(REQUESTS):
        host = rng.choice([f"127.0.0.1:{server.port}"] * 9 + ["evil.example"])
        method = rng.choice(["GET"] * 12 + ["POST", "get", "FOO"])
        target = path(server, rng).encode("utf-8")
        target = target.replace(b" ", b"+") if rng.random() < 0.98 else target
        sock.sendall(method.encode() + b" " + target + b" HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n")
        found = answered(sock)
        status = int(found.split(b" ", 2)[1]) if found.startswith(b"HTTP/1.1 ") else 0
        seen[status] = seen.get(status, 0) + 1
        assert status < 500, (target, found[:300])
        if status >= 400 and b"application/json" in found:
            assert b'{"error": "' in found
        if not found or b"connection: close" in found.lower():
            sock.close()
            sock = connect(server)
    sock.close()
    assert {200, 400, 403, 404, 405, 421} <= set(seen), seen
    still_answers(server)


def test_bytes_that_are_no_http(server: Serving) -> None:
    rng = random.Random(7)
    for number in range(150):
        with connect(server) as sock:
            kind = number % 5
            if kind == 0:
                sent = rng.randbytes(rng.randrange(1, 2000))
            elif kind == 1:
                sent = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * rng.randrange(20000, 60000) + b"\r\n\r\n"
            elif kind == 2:  # half a request
                sent = b"GET /" + server.secret.encode() + b"/api/about HTTP/1.1\r\nHos"
            elif kind == 3:
                sent = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\nabc"
            else:
                sent = b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n" + rng.randbytes(50)
            try:
                sock.sendall(sent)
                if kind in (1, 4):
                    assert b" 200 " not in answered(sock)[:15]
            except OSError:  # it closed on us
                pass
    still_answers(server)


def test_clients_that_do_not_read_or_leave_at_once(server: Serving) -> None:
    request = f"GET /{server.secret}/api/cell?{HEAD}&i=1&j=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    for _ in range(100):
        with connect(server) as sock:
            sock.sendall(request * 3)  # three in a row, and gone
    waiting = [connect(server) for _ in range(50)]
    for sock in waiting:
        sock.sendall(request[: len(request) // 2])
    still_answers(server)
    for sock in waiting:
        sock.close()
    still_answers(server)


def test_many_at_once(server: Serving) -> None:
    """Eight clients, all answered rightly, among others that send nonsense."""
    wrong: list[int] = []
    stop = threading.Event()

    def nonsense() -> None:
        rng = random.Random(8)
        while not stop.is_set():
            with connect(server) as sock:
                sock.sendall(rng.randbytes(100) + b"\r\n\r\n")
                answered(sock)

    def ask() -> None:
        for k in range(25):
            with urlopen(f"{server.url}api/row?{HEAD}&i={k % 13}", timeout=10) as answer:
                if len(answer.read()) != 4 * 13:
                    wrong.append(k)

    others = threading.Thread(target=nonsense)
    others.start()
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    others.join()
    assert wrong == []


def test_it_closes_with_connections_open() -> None:
    made = Serving([sentence()])
    thread = made.start()
    still_answers(made)
    host, port = urlsplit(made.url).hostname, made.port
    open_ones = [socket.create_connection((host, port)) for _ in range(5)]
    open_ones[0].sendall(b"GET /half")
    before = time.monotonic()
    made.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert time.monotonic() - before < 5
    for sock in open_ones:
        sock.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1).close()
