"""The files of the page, by a table of names made once: nothing that a client sends becomes a path."""

from __future__ import annotations

import gzip
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".json": b"application/json",
}
INDEX = "index.html"
# A coding that may be used has a weight above 0, or none.
CODING = re.compile(r"\s*([\w*-]+)\s*(?:;\s*q\s*=\s*([0-9.]+)\s*)?")


def takes_gzip(accepted: str) -> bool:
    """Whether a client that says this of codings can read gzip.

    >>> [takes_gzip(x) for x in ("gzip, deflate, br", "br;q=1, *", "gzip;q=0, *", "identity", "")]
    [True, True, False, False, False]
    """
    parts = (CODING.fullmatch(part) for part in accepted.lower().split(","))
    weight = {found[1]: found[2] or "1" for found in parts if found}
    return weight.get("gzip", weight.get("*", "0")).strip("0.") != ""


class Page:
    """The page and its modules; `fresh` reads them anew each time, while they are worked on."""

    def __init__(self, fresh: bool = False):
        self.fresh = fresh
        self.read: dict[str, tuple[bytes, bytes, bytes]] = {}
        self.table = self._table()

    def _table(self) -> dict[str, Traversable]:
        folder = files("regard.view") / "page"
        if not folder.is_dir():
            return {}
        return {x.name: x for x in folder.iterdir() if x.is_file() and _suffix(x.name) in KINDS}

    def get(self, name: str) -> tuple[bytes, bytes, bytes] | None:
        """(kind, content, the same compressed) of a file; that is made once."""
        if self.fresh:
            self.table = self._table()
        place = self.table.get(name)
        if place is None:
            return None
        found = None if self.fresh else self.read.get(name)
        if found is None:
            content = place.read_bytes()
            found = self.read[name] = KINDS[_suffix(name)], content, gzip.compress(content, mtime=0)
        return found

    def names(self) -> list[str]:
        """What there is."""
        return sorted(self.table)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""
