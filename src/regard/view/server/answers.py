"""What the page asks for beside tiles: what there is, tokens, a cell and its sentence, rows, columns, profiles.

Each answer is a function of what is open, what was asked, and the job that it is a part of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.errors import QuestionError
from regard.lens import levels, wording
from regard.lens.explain import explain
from regard.view.server.asked import Another, Choice, Kind, Numbers, Refused, Whole, wrong
from regard.view.server.base import Bases
from regard.view.server.holdings import Holdings, special
from regard.view.server.jobs import Job
from regard.view.server.pictures import Picture
from regard.view.server.tiles import DEEPEST

Array = np.ndarray[Any, Any]

TOKENS = 1 << 16  # of one answer
BINS = 1 << 16  # of a row or a profile
TOP = 5
COLUMN = 1e10  # operations of a column that is not waited for: a tenth of a second or so
CAUTION = (
    "A weight says how this head mixed values here. It does not say why the model answered, nor that removing the "
    "token would change anything."
)


@dataclass(frozen=True)
class Floats:
    """Numbers in f32, and what is said of them."""

    values: Array
    head: dict[str, Any]
    status: int = 200


@dataclass(frozen=True)
class Said:
    """JSON."""

    value: Any
    status: int = 200


@dataclass(frozen=True)
class File:
    """Something to be saved."""

    body: bytes
    kind: str
    name: str


Answer = Floats | Said | File


@dataclass(frozen=True)
class Server:
    """What answers are made from."""

    holdings: Holdings
    bases: Bases
    version: str = ""


@dataclass(frozen=True)
class Route:
    """A question: what it may be asked with, and what answers it."""

    answer: Callable[[Server, dict[str, Any], Job], Answer]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    long: Callable[[Server, dict[str, Any]], bool] = lambda server, asked: False  # whether it is a pass


TEXT: dict[str, Kind] = {"r": Whole(), "x": Whole()}
LAYER: dict[str, Kind] = {**TEXT, "l": Whole()}
HEAD: dict[str, Kind] = {**LAYER, "h": Whole()}
SEEN: dict[str, Kind] = {"of": Choice("weight", "length"), "unit": Choice("tokens", "words"), "without": Numbers()}
LESS: dict[str, Kind] = {"minus": Another()}
BASE: dict[str, Kind] = {**HEAD, **SEEN, **LESS}
TILE: dict[str, Kind] = {
    **BASE,
    "a": Whole(DEEPEST),
    "b": Whole(DEEPEST),
    "i": Whole(),
    "j": Whole(),
    "pool": Choice("max", "mean"),
}


def source(asked: dict[str, Any]) -> tuple[int, int, int]:
    return asked["r"], asked["x"], asked["l"]


def picture(server: Server, asked: dict[str, Any]) -> Picture:
    """The head that is asked for."""
    key = tuple(sorted(asked.items(), key=lambda item: item[0]))
    chosen = tuple((k, v) for k, v in key if k in ("r", "x", "l", "h", "of", "unit", "without", "minus"))
    kept = server.holdings.few if asked["without"] else server.holdings.some
    found: Picture = kept.get(("picture", chosen), lambda: server.holdings.picture(source(asked), asked["h"], asked))
    return found


def identity(asked: dict[str, Any]) -> tuple[Any, ...]:
    """What a base is known by."""
    return tuple(asked[name] for name in ("r", "x", "l", "h", "of", "unit", "without", "minus"))


def within(name: str, given: int, n: int) -> int:
    """A place of an axis."""
    if given >= n:
        raise wrong(f"{name} is {given}, expected {f'0 to {n - 1}' if n else 'none: there is nothing'}")
    return given


def number(x: Any) -> float | None:
    """A number as JSON has it: none for what is not finite."""
    found = float(x)
    return found if math.isfinite(found) else None


# What there is.


def about(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    return Said(server.holdings.about(server.version))


def tokens(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """Some tokens of a text, as the keys of a layer; the queries' where they are others."""
    text, matrix = server.holdings.text(asked["r"], asked["x"]), server.holdings.matrix(*source(asked))
    ours, theirs = matrix.tokens, matrix.key_tokens
    first, stop = asked["from"], asked["from"] + asked["count"]
    if asked["unit"] == "words":
        made = server.holdings.view(source(asked), 0, {"unit": "words", "without": ()})
        ours, theirs = made.tokens, made.key_tokens
    n_q, n_k = (len(x) if x is not None else n for x, n in ((ours, matrix.shape[-2]), (theirs, matrix.shape[-1])))
    total = max(n_q, n_k)
    if first > total:
        raise wrong(f"from is {first}, expected 0 to {total}")
    stop = min(stop, total)

    def part(names: Any, n: int) -> list[str]:
        return [str(i) for i in range(first, min(stop, n))] if names is None else list(names[first:stop])

    same = ours == theirs
    keys = text.tokens == theirs and asked["unit"] == "tokens"  # offsets are those of the text's tokens
    marked = special(part(theirs, n_k)) if theirs is not None else []
    offsets = text.offsets[first:stop] if keys and text.offsets is not None else None
    piece = None
    if offsets is not None and text.text is not None and len(offsets):
        pairs = np.asarray(offsets, np.int64).reshape(-1, 2)
        low, high = int(pairs.min()), int(pairs.max())
        piece = text.text[low:high]
        offsets = (pairs - low).tolist()
    words = None
    if asked["unit"] == "tokens" and theirs is not None and n_k <= 1 << 17:
        try:
            across = server.holdings.words(source(asked))[1][:-1]
            words = across[(across >= first) & (across < stop)].tolist()
        except (Refused, ValueError, LookupError, TypeError):
            words = None
    return Said(
        {
            "from": first,
            "total": total,
            "tokens": part(theirs if same else ours, n_k if same else n_q),
            "key_tokens": None if same else part(theirs, n_k),
            "special": [first + i for i in marked],
            "named": theirs is not None,
            "offsets": offsets,
            "text": piece,
            "words": words,
        }
    )


# A cell, a row, a column.


def line(server: Server, asked: dict[str, Any], axis: str, at: int, job: Job) -> Array:
    """A row or a column, −inf where hidden."""
    seen = picture(server, asked)
    if axis == "row":
        i = within("i", at, seen.n_q)
        found: Array = seen.cells(range(i, i + 1), range(seen.n_k), job)[0]
        return found
    j = within("j", at, seen.n_k)
    return np.concatenate(
        [
            seen.cells(range(top, min(top + (1 << 14), seen.n_q)), range(j, j + 1), job)[:, 0]
            for top in range(0, seen.n_q, 1 << 14)
        ]
        or [np.zeros(0, np.float32)]
    )


def quickly(seen: Picture, j: int) -> bool:
    """Whether a column can be had without a pass: of a long head that needs the lse of every row."""
    return seen.operations(range(seen.n_q), range(j, min(j + 1, seen.n_k))) <= COLUMN


def binned(values: Array, bins: int) -> tuple[Array, int]:
    """At most so many, each the largest of `size` neighbours."""
    size = max(1, -(-len(values) // max(1, bins)))
    if size == 1 or not len(values):
        return values, size
    return np.maximum.reduceat(values, np.arange(0, len(values), size)), size


def row(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    values, size = binned(line(server, asked, "row", asked["i"], job), asked["bins"])
    return Floats(values, {"n": len(values), "size": size, "pool": "max", "exact": True})


def column(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    values, size = binned(line(server, asked, "column", asked["j"], job), asked["bins"])
    return Floats(values, {"n": len(values), "size": size, "pool": "max", "exact": True})


def row_csv(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """A row as a table: the number of each key, its token, its weight; empty where hidden."""
    values = line(server, asked, "row", asked["i"], job)
    names = labels(server, asked)[1]
    lines = ["key,token,weight"]
    for j, x in enumerate(values):
        token = "" if names is None else names[j]
        quoted = '"' + token.replace('"', '""') + '"'
        lines.append(f"{j},{quoted},{'' if x == -np.inf else format(float(x), '.9g')}")
    return File(
        "\n".join([*lines, ""]).encode(), "text/csv; charset=utf-8", f"L{asked['l']}H{asked['h']}-{asked['i']}.csv"
    )


def labels(server: Server, asked: dict[str, Any]) -> tuple[Any, Any]:
    """What queries and keys are called."""
    seen = server.holdings.view(source(asked), asked["h"], asked)
    return seen.tokens, seen.key_tokens


def best(values: Array, names: Any, most: int) -> list[list[Any]]:
    """The largest of a line: number, token, value."""
    known = np.where(np.isnan(values), -np.inf, values)
    most = min(most, len(known))
    some = np.argpartition(-known, most - 1)[:most] if 0 < most < len(known) else np.arange(len(known))
    some = some[np.argsort(-known[some], kind="stable")]
    return [[int(j), "" if names is None else names[j], float(values[j])] for j in some if known[j] > -np.inf]


def cell(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """One cell: its sentence, and what stands around it."""
    seen = picture(server, asked)
    i, j = within("i", asked["i"], seen.n_q), within("j", asked["j"], seen.n_k)
    along = line(server, asked, "row", i, job)
    known = quickly(seen, j)
    down = line(server, asked, "column", j, job) if known else np.zeros(0, np.float32)
    ours, theirs = labels(server, asked)
    visible = along[along != -np.inf]
    weight = float(along[j])
    hidden = weight == -np.inf
    even = 1 / len(visible) if len(visible) else None
    with np.errstate(all="ignore"):
        a = visible[visible > 0].astype(np.float64)
        effective = float(np.exp(-np.sum(a * np.log(a)))) if asked["of"] == "weight" and len(a) else None
    heads = []
    if asked["unit"] == "tokens" and not asked["without"] and asked["of"] == "weight":
        heads = everywhere(server, asked, i, j, job)
    return Said(
        {
            "sentence": sentence(server, asked, i, j),
            "weight": None if hidden else number(weight),
            "nan": math.isnan(weight),
            "even": even,
            "times": number(weight / even) if even and not hidden and asked["of"] == "weight" else None,
            "effective": None if effective is None else number(effective),
            "visible": len(visible),
            "hidden": hidden,
            "row_top": best(along, theirs, TOP),
            "column_top": best(down, ours, TOP),
            "column_known": known,  # else a pass has to be done first, and is not begun for this
            "heads": heads,
            "caution": CAUTION,
        }
    )


def sentence(server: Server, asked: dict[str, Any], i: int, j: int) -> str:
    """What `explain` says of a cell; of weights without some keys, that they are not the model's."""
    seen = server.holdings.view(source(asked), asked["h"], asked)
    try:
        said = explain(seen, i, j)
    except QuestionError as error:
        return str(error)
    if not asked["without"]:
        return said
    names = server.holdings.matrix(*source(asked)).key_tokens
    keys = [f"key {k}" if names is None else wording.shown(names[k]) for k in asked["without"][:3]]
    left = wording.listed(keys if len(asked["without"]) <= 3 else [*keys[:2], f"{len(asked['without']) - 2} others"])
    return f"{said} This is without {left}; not the model's weights."


def everywhere(server: Server, asked: dict[str, Any], i: int, j: int, job: Job) -> list[list[Any]]:
    """This cell in every head of every layer that is as large."""
    found: list[list[Any]] = []
    r, x, layer = source(asked)
    shape = server.holdings.matrix(r, x, layer).shape[-2:]
    for other in range(len(server.holdings.text(r, x))):
        job.check()
        matrix = server.holdings.matrix(r, x, other)
        if matrix.shape[-2:] != shape:
            continue
        matrix.weights.lse(range(i, i + 1), job.check)
        values = matrix.weights.region(range(i, i + 1), range(j, j + 1)).reshape(-1)
        hidden = levels.visible(matrix.weights.head(0), range(i, i + 1), range(j, j + 1))
        gone = hidden is not None and not hidden[0, 0]
        found += [[other, h, None if gone else number(w)] for h, w in enumerate(values)]
    return found


def heavy(server: Server, asked: dict[str, Any]) -> bool:
    """Whether the rows of a layer are long enough to keep others waiting."""
    matrix = server.holdings.matrix(*source(asked))
    of = matrix.weights.of
    return of.n_k * of.d * of.heads * of.batch > 1 << 26


ROUTES: dict[str, Route] = {
    "about": Route(about),
    "tokens": Route(
        tokens, {**LAYER, "from": Whole(default=0), "count": Whole(TOKENS, 4096), "unit": Choice("tokens", "words")}
    ),
    "cell": Route(cell, {**HEAD, "i": Whole(), "j": Whole(), **SEEN, **LESS}, heavy),
    "row": Route(row, {**HEAD, "i": Whole(), "bins": Whole(BINS, BINS, 1), **SEEN, **LESS}),
    "column": Route(column, {**HEAD, "j": Whole(), "bins": Whole(BINS, BINS, 1), **SEEN, **LESS}, heavy),
    "row.csv": Route(row_csv, {**HEAD, "i": Whole(), **SEEN}),
}
