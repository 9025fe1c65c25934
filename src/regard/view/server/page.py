"""The files of the page, by a table of names made once: nothing that a client sends becomes a path."""

from __future__ import annotations

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


class Page:
    """The page and its modules; `fresh` reads them anew each time, while they are worked on."""

    def __init__(self, fresh: bool = False):
        self.fresh, self.read = fresh, {}  # type: bool, dict[str, tuple[bytes, bytes]]
        self.table = self._table()

    def _table(self) -> dict[str, Traversable]:
        folder = files("regard.view") / "page"
        if not folder.is_dir():
            return {}
        return {x.name: x for x in folder.iterdir() if x.is_file() and _suffix(x.name) in KINDS}

    def get(self, name: str) -> tuple[bytes, bytes] | None:
        """(kind, content) of a file."""
        if self.fresh:
            self.table = self._table()
        place = self.table.get(name)
        if place is None:
            return None
        found = None if self.fresh else self.read.get(name)
        if found is None:
            found = self.read[name] = KINDS[_suffix(name)], place.read_bytes()
        return found

    def names(self) -> list[str]:
        """What there is."""
        return sorted(self.table)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""
