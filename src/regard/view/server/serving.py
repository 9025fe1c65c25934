"""Starting the server, and closing it."""

from __future__ import annotations

import logging
import socket
import threading
import webbrowser
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from regard.errors import MissingError
from regard.view.server.guard import loopback, token
from regard.view.server.holdings import Recorded
from regard.view.server.trim import sparing

INSTALL = "pip install 'regard[view]'"
PARTING = 2  # seconds that open connections have when the server closes
CONNECTIONS = 512  # at once
HEAD = 16 << 10  # bytes of a request's head
BACKLOG = 128  # connections that wait to be taken
IDLE = 75  # seconds that a connection is kept without a request


class Serving:
    """A server that listens, but does not answer yet: `run` does until it is stopped."""

    def __init__(self, recordings: Sequence[Recorded], host: str = "127.0.0.1", port: int = 0, **more: Any):
        try:
            import uvicorn

            from regard.view.server.app import App
        except ImportError as error:
            raise MissingError(
                f"the page needs Starlette and uvicorn, which cannot be imported ({error}): {INSTALL}"
            ) from None
        sparing()
        self.secret = token()
        self.host = host
        self.app = App(recordings, self.secret, host, version=_version(), **more)
        self.socket = _listen(host, port)
        self.port = int(self.socket.getsockname()[1])
        self.server = uvicorn.Server(
            uvicorn.Config(
                self.app,
                log_level="error",
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,
                limit_concurrency=CONNECTIONS,
                timeout_graceful_shutdown=PARTING,
                timeout_keep_alive=IDLE,
                h11_max_incomplete_event_size=HEAD,
                backlog=BACKLOG,
            )
        )

    @property
    def url(self) -> str:
        """Where the page is."""
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/{self.secret}/"

    @property
    def warning(self) -> str | None:
        """What is to be said if others can reach it."""
        if loopback(self.host):
            return None
        return (
            f"listening on {self.host}: whoever can reach this machine and knows the address with its token can read "
            "the recording, over a connection that is not encrypted"
        )

    def run(self) -> None:
        """Answer until the server is stopped. It leaves by KeyboardInterrupt when Ctrl-C was pressed."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # malformed requests by the thousand say nothing
        self.app.begin()
        try:
            self.server.run(sockets=[self.socket])
        finally:
            self.app.close()
            self.socket.close()

    def stop(self) -> None:
        """Let it come to its end, from any thread."""
        self.server.should_exit = True

    def start(self) -> threading.Thread:
        """Answer in a thread of its own."""
        thread = threading.Thread(target=self.run, name="regard-server", daemon=True)
        thread.start()
        return thread


def _version() -> str:
    try:
        return metadata.version("regard")
    except metadata.PackageNotFoundError:  # a tree that was never installed
        return ""


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends each part of an answer at once, and waits for no acknowledgement.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(BACKLOG)  # from here on who asks waits, and is not turned away
    except OSError as error:
        made.close()
        raise OSError(
            f"cannot listen on {host} port {port} ({error.strerror}): choose another --port or --host"
        ) from None
    return made


def open_browser(url: str) -> None:
    """Open the page, if there is a browser; it may take its time."""
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
