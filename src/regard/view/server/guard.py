"""Who may ask: Host checked against rebinding, the token, the method, the length; and the headers of every answer."""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from regard.view.server.asked import QUERY, Refused, shown

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = 256  # bytes
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),  # the address holds the token
    (b"x-frame-options", b"DENY"),
)


def token() -> str:
    """A new one, of 128 random bits."""
    return secrets.token_urlsafe(16)


def local_names(host: str) -> frozenset[str]:
    """The names that a server on this host may be called by, beside any address in numbers: a page that rebinds a
    name of its own to our address comes with that name."""
    names = {"localhost", host.strip("[]").lower()}
    if not loopback(host):
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset(names)


def loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_of(given: str) -> str:
    """The host of a Host header, without its port.

    >>> host_of("127.0.0.1:8000"), host_of("[::1]:80"), host_of("LocalHost")
    ('127.0.0.1', '::1', 'localhost')
    """
    if given.startswith("["):
        return given[1:].partition("]")[0].lower()
    return given.rpartition(":")[0].lower() if given.count(":") == 1 else given.lower()


class Guard:
    """Lets a request through to the application if it may come in, under the token's path."""

    def __init__(self, inner: Application, secret: str, host: str = "127.0.0.1"):
        self.inner, self.secret = inner, secret.encode()
        self.names, self.numbers = local_names(host), not loopback(host)
        self.hosts: dict[bytes, bool] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.inner(scope, receive, send)
        if scope["type"] != "http":  # a WebSocket: refused before it is one
            return await send({"type": "websocket.close", "code": 1008})
        try:
            self.check(scope)
        except Refused as refused:
            return await send_refusal(send, refused)
        await self.inner(scope, receive, send)
        return None

    def check(self, scope: Scope) -> None:
        """That it may come in. The path becomes what stands behind the token."""
        if scope["method"] != "GET":
            raise Refused(405, f"the method is {shown(scope['method'])}, expected GET")
        named = [value for name, value in scope["headers"] if name == b"host"]
        if len(named) != 1 or not self._known(named[0]):
            raise Refused(421, "the Host of the request is not this server's, expected the address that it printed")
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        if len(path) > PATH:
            raise Refused(414, f"the path has {len(path)} bytes, expected at most {PATH}")
        if len(scope["query_string"]) > QUERY:
            raise Refused(414, f"the query has {len(scope['query_string'])} bytes, expected at most {QUERY}")
        _, _, rest = path.partition(b"/")
        given, slash, rest = rest.partition(b"/")
        if not hmac.compare_digest(given, self.secret):
            raise Refused(403, "the token is missing or wrong, expected the address that the server printed")
        scope["regard.path"] = rest.decode("latin-1") if slash else None

    def _known(self, given: bytes) -> bool:
        found = self.hosts.get(given)
        if found is None:
            found = self._look(host_of(given.decode("latin-1")))
            if len(self.hosts) < 64:
                self.hosts[given] = found
        return found

    def _look(self, host: str) -> bool:
        if host in self.names:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback or self.numbers


async def send_refusal(send: Send, refused: Refused, status: int | None = None) -> None:
    """A refusal as JSON."""
    more = ((b"allow", b"GET"),) if refused.status == 405 else ()
    await send_body(
        send, status or refused.status, b"application/json", json.dumps({"error": refused.sentence}).encode(), more
    )


async def send_body(send: Send, status: int, kind: bytes, body: Any, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """A whole answer."""
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *HEADERS, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
