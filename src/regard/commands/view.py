"""regard view run.regard: the page, in the browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from regard.commands.shared import opened

PORT = 65535  # the last


def add(subparsers: Any) -> None:
    """regard view"""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "view",
        help="a recording in the browser",
        description="Look at recordings in the browser, from 100 000 tokens to one cell. Ctrl-C ends it.",
    )
    parser.add_argument("recordings", nargs="+", type=Path, metavar="run.regard", help="a recording, or several")
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="0, the default, takes one that is free")
    parser.add_argument("--host", default="127.0.0.1", help="where it listens; only this machine if not given")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open nothing")
    parser.set_defaults(run=_view)


def _port(given: str) -> int:
    if not (given.isascii() and given.isdecimal()) or int(given) > PORT:
        raise argparse.ArgumentTypeError(f"{given!r} is no port, expected a whole number from 0 to {PORT}")
    return int(given)


def _view(given: argparse.Namespace) -> None:
    from regard.view.server.holdings import Recorded

    held = [Recorded(opened(str(path)), path.name or str(path)) for path in given.recordings]
    serve(held, given.host, given.port, not given.no_browser)


def serve(held: Any, host: str = "127.0.0.1", port: int = 0, browser: bool = True, chosen: str = "") -> None:
    """Serve what is held until Ctrl-C; `chosen` is what the page begins with, as the part of its address behind #."""
    from regard.view.server.serving import Serving, open_browser

    serving = Serving(held, host, port)
    if serving.warning:
        print(f"regard: {serving.warning}", file=sys.stderr)
    address = f"{serving.url}#{chosen}" if chosen else serving.url
    print(address, flush=True)
    if browser:
        open_browser(address)
    serving.run()
