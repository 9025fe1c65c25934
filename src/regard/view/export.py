"""One text and the page in one HTML file that works offline: its modules, and the numbers that they show.

Short texts are held whole: every weight of every head, as far as there is room for them. Of longer ones the file holds
the heads that are seen or tell something: their whole maps as coarse as fits, and all weights around the place that is
looked at; what was left out is said when it is asked for.
"""

from __future__ import annotations

import base64
import json
import math
import re
import time
from importlib.resources import files
from typing import Any

import numpy as np

from regard.view.questions import Questions
from regard.view.server.answers import CAUTION, HEAD, Answer, File, Floats, Route, Said, Server, sentence
from regard.view.server.asked import Refused, Words
from regard.view.server.jobs import Job
from regard.view.server.texts import DESIGNED

Array = np.ndarray[Any, Any]

WHOLE = 512  # tokens up to which heads are held whole
ROOM = 8 << 20  # bytes of heads
SENTENCES = 1 << 13  # of cells of these: of all, or of the strongest of each row of the first
SIDE = 256  # pixels of a tile
FINER = 3  # levels of tiles of the head that is seen, the coarsest among them
TELLING = 3  # heads of longer texts, beside the one that is seen
ORDER = re.compile(r'"\./([a-z]+\.js)"')
LEFT = "This file does not hold that: open the recording with `regard view` to see it."
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src blob: data:; "
    "base-uri 'none'; form-action 'none'"
)
# Modules become blobs whose imports name each other's; what is imported stands before what imports it.
LOADER = """
const modules = {};
for (const [name, code] of JSON.parse(document.getElementById("modules").textContent)) {
  const linked = code.replace(/"\\.\\/([a-z]+\\.js)"/g, (_, other) => JSON.stringify(modules[other]));
  modules[name] = URL.createObjectURL(new Blob([linked], { type: "text/javascript" }));
}
const loaded = Promise.all([import(modules["app.js"]), import(modules["sources.js"])]);
"""
BEGIN = """
const data = JSON.parse(document.getElementById("data").textContent);
if (!location.hash) history.replaceState(null, "", "#" + data.state);
const [{ start }, { EmbeddedSource }] = await loaded;
start(document.getElementById("regard"), new EmbeddedSource(data));
"""


# The page.


def modules() -> list[tuple[str, str]]:
    """Names and texts of the modules, each after those that it imports."""
    folders = [files("regard.view") / name for name in ("page", "offline")]
    there = [x for folder in folders for x in folder.iterdir() if x.name.endswith(".js") and x.name != "main.js"]
    found = {x.name: x.read_text("utf-8") for x in there}
    ordered: list[tuple[str, str]] = []
    begun: set[str] = set()

    def put(name: str) -> None:
        if name not in begun:
            begun.add(name)
            for other in ORDER.findall(found[name]):
                put(other)
            ordered.append((name, found[name]))

    for name in sorted(found):
        put(name)
    return ordered


def styles() -> str:
    """All styles."""
    folder = files("regard.view") / "page"
    return "\n".join((folder / name).read_text("utf-8") for name in ("style.css", "views.css"))


def page(begin: str, title: str = "Regard", data: Any = None) -> str:
    """A whole page: its modules inside, begun by a script, with what it shows."""
    held = "" if data is None else f'<script type="application/json" id="data">{_inside(data)}</script>\n'
    name = title.replace("&", "&amp;").replace("<", "&lt;")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{name}</title>\n'
        f'<style>\n{styles()}</style>\n</head>\n<body>\n<div id="regard" class="regard"></div>\n{held}'
        f'<script type="application/json" id="modules">{_inside(modules())}</script>\n'
        f'<script type="module">{LOADER}{begin}</script>\n</body>\n</html>\n'
    )


def _inside(data: Any) -> str:
    """JSON that can stand in a script element."""
    made = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return made.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# What it shows.


def document(asked: Questions, r: int, x: int, layer: int, h: int, state: str = "", job: Job | None = None) -> str:
    """The file of a text, beginning with a head and the state of the view as the URL has it."""
    asked.server.holdings.head((r, x, layer), h)  # refuses what is not there
    about = _json(asked.ask("about"))
    recording = about["recordings"][r]
    text = next((t for t in recording["texts"] if t["x"] == x), None)
    if text is None:
        raise Refused(400, f"text {x} is past those that are listed, expected one of {len(recording['texts'])}")
    text = {**text, "n_words": None}  # words are merged from tokens by what this file does not hold
    about = {**about, "recordings": [{**recording, "texts": [text], "count": 1}]}
    made = _Made(asked, {"r": r, "x": x}, job or Job())
    overview = made.ask("overview")
    telling = [(head["l"], head["h"]) for head in overview["json"]["telling"]]
    every = [(one["l"], k) for one in text["layers"] for k in range(one["heads"])]
    first = list(dict.fromkeys([(layer, h), *telling, *every]))
    shapes = {one["l"]: (one["n_q"], one["n_k"], one["values"]) for one in text["layers"]}
    whole: list[tuple[int, int]] = []
    room = ROOM
    for head in first:
        n_q, n_k, _ = shapes[head[0]]
        if max(n_q, n_k) <= WHOLE and 4 * n_q * n_k <= room:
            room -= 4 * n_q * n_k
            whole.append(head)
    answers = {"about": {"json": about}, "overview": overview, "tokens": {"json": made.tokens(text["n"])}}
    for one in text["layers"]:
        answers[f"thumbs.{one['l']}"] = made.ask("thumbs", l=one["l"], size=48, pool="max")
    for name in DESIGNED:
        answers[f"designed.{name}"] = {"json": _json(asked.ask("designed", name=name, n=6, strength=1))}
    some = whole if len(every) * max(s[0] for s in shapes.values()) <= 1 << 12 else whole[: 1 + TELLING]
    for head in some or first[: 1 + TELLING]:
        made.put(answers, *head)
    if not whole:
        made.put_lines(answers, *first[0], state)
    heads, left = {}, SENTENCES
    for a, b in whole:
        n_q, n_k, values = shapes[a]
        told = min(n_k, left // max(1, n_q))
        left -= n_q * told
        heads[a, b] = made.head(a, b, n_q, n_k, values, told, _cell(state) if (a, b) == whole[0] else None)
    data = {
        "state": _state(state, f"minus={r}.{x}."),
        "answers": answers,
        "heads": {f"{a}.{b}": heads[a, b] for a, b in sorted(whole)},
        "tiles": {} if whole else made.tiles(first[: 1 + TELLING], shapes, state),
        "caution": CAUTION,
        "left": LEFT,
    }
    return page(BEGIN, f"{text['title']} · Regard", data)


def _state(state: str, same: str) -> str:
    """The view to begin with, without what the file does not hold: words, other texts, weights without some keys."""
    parts = [x for x in state.split("&") if not x.startswith("unit=") and x != "sinks=without"]
    return "&".join(x for x in parts if not x.startswith("minus=") or x.startswith(same))


def _json(answer: Answer) -> Any:
    assert isinstance(answer, Said)
    return answer.value


def _floats(values: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


class _Made:
    """Answers about one text, as a file keeps them."""

    def __init__(self, asked: Questions, text: dict[str, int], job: Job):
        self.asked, self.text, self.job = asked, text, job

    def ask(self, path: str, **params: Any) -> dict[str, Any]:
        found = self.asked.ask(path, self.job, **self.text, **params)
        if isinstance(found, Floats):
            return {"head": found.head, "values": _floats(found.values)}
        return {"json": _json(found)}

    def tokens(self, n: int) -> dict[str, Any]:
        """All tokens, as one answer."""
        whole: dict[str, Any] = {}
        for first in range(0, max(n, 1), 1 << 14):
            part: dict[str, Any] = self.ask("tokens", l=0, **{"from": first, "count": 1 << 14})["json"]
            if not whole:
                whole = part
                continue
            for name in ("tokens", "key_tokens", "special"):
                whole[name] = None if part[name] is None else [*(whole[name] or []), *part[name]]
            whole["offsets"] = whole["words"] = None
        return whole

    def head(
        self, layer: int, h: int, n_q: int, n_k: int, values: bool, told: int, cell: tuple[int, int] | None
    ) -> dict[str, Any]:
        """All weights of a head, the lengths of its values, and the sentences of so many cells of each row."""
        asked = self.asked
        weights = np.empty((n_q, n_k), np.float32)
        for i in range(-(-n_q // SIDE)):
            for j in range(-(-n_k // SIDE)):
                tile = asked.ask("tile", self.job, **self.text, l=layer, h=h, a=0, b=0, i=i, j=j)
                assert isinstance(tile, Floats)
                weights[i * SIDE : (i + 1) * SIDE, j * SIDE : (j + 1) * SIDE] = tile.values
        found: dict[str, Any] = {"values": _floats(weights)}
        places = {(i, int(j)) for i, row in enumerate(np.argsort(-weights)[:, :told]) for j in row}
        if cell is not None and cell[0] < n_q and cell[1] < n_k:
            places.add(cell)
        chosen = {**self.text, "l": layer, "h": h, "unit": "tokens", "without": ()}
        found["said"] = {}
        for i, j in sorted(places):
            self.job.check()
            found["said"][f"{i}.{j}"] = sentence(asked.server, chosen, i, j)
        if values:
            one = asked.server.holdings.head((self.text["r"], self.text["x"], layer), h)
            lengths = one.norms().pooling().lengths
            assert lengths is not None
            found["lengths"] = _floats(np.asarray(lengths[0]))
        return found

    def put(self, answers: dict[str, Any], layer: int, h: int) -> None:
        """What is not computed from the weights."""
        for name, path, more in (
            ("distance", "distance", {"columns": 96}),
            ("shares", "distance", {"columns": 96, "rows": 1, "pool": "sum"}),
            ("steps", "steps", {}),
        ):
            try:
                answers[f"{name}.{layer}.{h}"] = self.ask(path, l=layer, h=h, **more)
            except Refused:  # a text that is too long for it
                continue

    def put_lines(self, answers: dict[str, Any], layer: int, h: int, state: str) -> None:
        """Of a head that is not held whole: its profiles, and the cell that is looked at with its row and column."""
        head = {"l": layer, "h": h}
        for axis in ("rows", "keys"):
            answers[f"profile.{layer}.{h}.{axis}"] = self.waited("profile", **head, axis=axis)
        answers[f"skyline.{layer}.{h}"] = self.ask("skyline", **head)
        if (cell := _cell(state)) is None:
            return
        i, j = cell
        for path, key, more in (
            ("cell", f"{i}.{j}", {"i": i, "j": j}),
            ("arcs", f"{i}", {"i": i}),
            ("row", f"{i}", {"i": i}),
            ("column", f"{j}", {"j": j}),
        ):
            try:
                answers[f"{path}.{layer}.{h}.{key}"] = self.ask(path, **head, **more)
            except Refused:  # a cell that is not there
                continue

    def waited(self, path: str, **params: Any) -> dict[str, Any]:
        """An answer that may need the first pass over a head."""
        found = self.asked.ask(path, self.job, **self.text, **params)
        while isinstance(found, Said) and found.status == 202:
            self.job.check()
            time.sleep(0.05)
            self.asked.ask("base", self.job, **self.text, l=params["l"], h=params["h"])
            found = self.asked.ask(path, self.job, **self.text, **params)
        assert isinstance(found, Floats)
        return {"head": found.head, "values": _floats(found.values)}

    def tiles(
        self, heads: list[tuple[int, int]], shapes: dict[int, tuple[int, int, bool]], state: str
    ) -> dict[str, dict[str, Any]]:
        """Of long texts: the coarsest tiles of some heads, and of the first the exact ones around what is looked at."""
        found: dict[str, dict[str, Any]] = {}
        for head in heads:
            n_q, n_k, _ = shapes[head[0]]
            top = [max(0, math.ceil(math.log2(n / SIDE))) for n in (n_q, n_k)]
            places = set()
            for down in range(FINER if head == heads[0] else 1):
                a, b = (max(0, level - down) for level in top)
                places |= {(a, b, i, j) for i in range(-(-n_q // (SIDE << a))) for j in range(-(-n_k // (SIDE << b)))}
            if head == heads[0] and (cell := _cell(state)) is not None:
                places.add((0, 0, min(cell[0], n_q - 1) // SIDE, min(cell[1], n_k - 1) // SIDE))
            for place in sorted(places):
                params = dict(zip("lhabij", (*head, *place), strict=True))
                found[".".join(map(str, params.values()))] = self.waited("tile", **params)
        return found


def _cell(state: str) -> tuple[int, int] | None:
    """The cell that is looked at."""
    said = dict(part.partition("=")[::2] for part in state.split("&"))
    if not all(re.fullmatch(r"[0-9]{1,12}", said.get(name, "")) for name in "ij"):
        return None
    return int(said["i"]), int(said["j"])


# The route of the server.


def export(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """The file, to be saved."""
    made = document(Questions.of(server), asked["r"], asked["x"], asked["l"], asked["h"], asked["state"], job)
    return File(made.encode(), "text/html; charset=utf-8", f"regard-L{asked['l']}H{asked['h']}.html")


ROUTES = {"export": Route(export, {**HEAD, "state": Words(2048, "")}, lambda server, asked: True)}
