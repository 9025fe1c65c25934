"""All heads at once: small pictures of a layer, which heads tell something, and how many rest on sinks."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from regard.lens import levels
from regard.lens.columns import edges_of
from regard.lens.explain import explain
from regard.lens.table import SHARE
from regard.lens.telling import Telling, TellingHead, pattern, telling
from regard.lens.wording import percent
from regard.view.server.answers import LAYER, TEXT, Answer, Floats, Route, Said, Server, number, source
from regard.view.server.asked import Choice, Refused, Whole
from regard.view.server.jobs import Job
from regard.weights import Weights

Array = np.ndarray[Any, Any]

EXACT = 1024  # tokens up to which a small picture is made of all rows
SAMPLED = 256  # query rows that stand for all of a longer text
WAIT = 0.05  # seconds between two looks whether somebody still waits
SOON = 1 << 24  # cells that are looked at before anybody asks
FULL = 1 << 27  # cells of all heads up to which each is looked at for patterns; past it a sample of the queries
SAMPLE = 1 << 24  # cells that are looked at then, a second or so
PIXELS = 1 << 24  # of all pictures of a layer
CELLS = 1 << 19  # of rows that are pooled at a time


# Small pictures.


def thumbs(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """A picture of each head of a layer, (heads, rows, columns)."""
    weights = server.holdings.matrix(*source(asked)).weights
    of, size, pool = weights.of, asked["size"], asked["pool"]
    heads, shape = of.batch * of.heads, (min(size, of.n_q), min(size, of.n_k))
    if heads * shape[0] * shape[1] > PIXELS:
        raise Refused(
            413, f"{heads} pictures of {shape[0]} × {shape[1]} are asked for, expected {PIXELS} pixels in all"
        )
    whole = max(of.n_q, of.n_k) <= EXACT
    sampled = 0 if whole or of.n_q <= SAMPLED else SAMPLED
    rows = np.arange(of.n_q) if not sampled else (edges_of(of.n_q, SAMPLED)[:-1] + edges_of(of.n_q, SAMPLED)[1:]) // 2
    found = np.full((heads, *shape), -np.inf, np.float32)
    for h in range(heads):
        job.check()
        found[h] = _picture(weights.head(h), rows, shape, pool, job)
    return Floats(found, {"heads": heads, "size": size, "rows": shape[0], "columns": shape[1], "sampled": sampled})


def _picture(weights: Weights, rows: Array, shape: tuple[int, int], pool: str, job: Job) -> Array:
    """Some rows of a head, all keys, in so many bins."""
    n_k = weights.of.n_k
    total, number_of = np.zeros(shape), np.zeros(shape, np.int64)
    most = np.full(shape, -np.inf)
    if not total.size:
        return most
    across = edges_of(n_k, shape[1])[:-1]
    into = np.searchsorted(edges_of(len(rows), shape[0]), np.arange(len(rows)), side="right") - 1
    step = max(1, CELLS // n_k)
    for first in range(0, len(rows), step):
        job.check()
        some, at = rows[first : first + step], into[first : first + step]
        values = _rows(weights, some, job)
        seen = values != -np.inf
        np.maximum.at(most, at, np.maximum.reduceat(values, across, axis=1))
        if pool == "mean":
            np.add.at(total, at, np.add.reduceat(np.where(seen, values, 0), across, axis=1, dtype=np.float64))
            np.add.at(number_of, at, np.add.reduceat(seen, across, axis=1, dtype=np.int64))
    if pool == "max":
        return most
    return np.where(number_of > 0, total / np.maximum(number_of, 1), -np.inf)


def _rows(weights: Weights, rows: Array, job: Job) -> Array:
    """Rows of a head, −inf where hidden."""
    keys = range(weights.of.n_k)
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows):
        return levels.cells(weights, range(first, last + 1), keys, job.check)
    part = weights.part(rows, keys)
    return levels.cells(part, range(len(rows)), keys, job.check)


# What there is to see.


def overview(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """What each head is, and which few to look at first."""
    r, x, only = asked["r"], asked["x"], asked["l"]
    count = len(server.holdings.text(r, x))
    if only is not None:
        server.holdings.matrix(r, x, only)
    chosen = range(count) if only is None else range(only, only + 1)
    with _alone(server, (r, x, only), job):  # who asks for the same meanwhile waits for this answer
        return Said(server.holdings.some.get(("overview", r, x, only), lambda: _overview(server, r, x, chosen, job)))


@contextmanager
def _alone(server: Server, key: Hashable, job: Job) -> Iterator[None]:
    lock: Any = server.holdings.some.get(("lock", key), threading.Lock)
    while not lock.acquire(timeout=WAIT):
        job.check()
    try:
        yield
    finally:
        lock.release()


def first(server: Server, job: Job) -> None:
    """What a page asks first, before it does; of a text that takes long, nothing."""
    holdings = server.holdings
    if not holdings.recordings or not len(holdings.recordings[0].recording.texts):
        return
    layers = [holdings.matrix(0, 0, layer) for layer in range(len(holdings.text(0, 0)))]
    if sum(int(np.prod(layer.shape, dtype=object)) for layer in layers) <= SOON:
        overview(server, {"r": 0, "x": 0, "l": None}, job)


def _overview(server: Server, r: int, x: int, chosen: range, job: Job) -> dict[str, Any]:
    layers = [server.holdings.matrix(r, x, layer) for layer in chosen]
    cells = sum(int(np.prod(layer.shape, dtype=object)) for layer in layers)
    keys = sum(int(np.prod(layer.shape, dtype=object)) // max(1, layer.shape[-2]) for layer in layers)
    sample = 0 if cells <= FULL else int(min(SAMPLED, max(16, SAMPLE // max(1, keys))))
    found = telling(layers, first=chosen.start, sample=sample, progress=job.check)
    return {
        "heads": [
            {
                "l": layer,
                "h": h,
                "letter": mark.letter or None,
                "name": None if mark.name is None else pattern(mark.name),
                "share": None if math.isnan(mark.share) else mark.share,
                "sampled": found.sampled,
            }
            for layer, marks in zip(chosen, found.marks, strict=True)
            for h, mark in enumerate(marks)
        ],
        "sinks": str(found.sinks),
        "sinks_even": number(found.sinks.even),
        "telling": [_head(server, r, x, head) for head in _ordered(found)],
        "lesson": _lesson(found),
        "summary": _summary(server, r, layers),
        "sampled": found.sampled,
    }


def _ordered(found: Telling) -> list[TellingHead]:
    """The lead first. Of a sample the brightest cell is told only if it is bright: most of the others were not seen."""
    lead = found.lead
    heads = found.heads if lead is None else [lead, *(head for head in found.heads if head is not lead)]
    return [x for x in heads if not (found.sampled and x.bright) or (x.cell is not None and x.cell.weight >= SHARE)]


def _head(server: Server, r: int, x: int, head: TellingHead) -> dict[str, Any]:
    """A telling head, with the sentence of its cell."""
    cell = head.cell
    said = ""
    if cell is not None:
        matrix = server.holdings.head((r, x, head.layer), head.head)
        said = explain(matrix, cell.query, cell.key)
    return {
        "l": head.layer,
        "h": head.head,
        "name": None if head.name is None else pattern(head.name),
        "share": None if math.isnan(head.share) else head.share,
        "said": head.said,
        "sentence": said,
        "i": None if cell is None else cell.query,
        "j": None if cell is None else cell.key,
        "weight": None if cell is None else cell.weight,
    }


def _lesson(found: Telling) -> str | None:
    """That a pattern of places is one of other words too."""
    lead = found.lead
    if lead is None or not lead.by_place or lead.name is None:
        return None
    given = {"local": "to near tokens whatever they are", "current_token": "to the token itself whatever it is"}
    what = given.get(lead.name, f"to the {pattern(lead.name)} whatever it is")
    return f"This head gives {percent(lead.share)} {what}."


def _summary(server: Server, r: int, layers: list[Any]) -> str:
    """What was looked at, in a line."""
    model = getattr(server.holdings.recording(r).recording, "model", None)
    name = model.get("name") if isinstance(model, dict) else model
    said = [str(name)] if name else []
    if layers:
        most = max(math.prod(layer.front) for layer in layers)
        n_q, n_k = layers[0].shape[-2:]
        thin = "\u202f"
        size = f"{n_k:,} tokens" if n_q == n_k else f"{n_q:,} queries × {n_k:,} keys"
        said += [f"{len(layers)} × {most} heads", size.replace(",", thin), _directions(layers[0])]
    return " · ".join(part for part in said if part)


def _directions(layer: Any) -> str:
    """What a query of a layer sees, as far as its first row tells."""
    n_q, n_k = layer.shape[-2:]
    if n_q != n_k or n_k < 2:
        return ""
    seen = levels.visible(layer.weights.head(0), range(1), range(n_k))
    visible = n_k if seen is None else int(seen.sum())
    return "reads both directions" if visible == n_k else "reads from left to right" if visible == 1 else ""


ROUTES: dict[str, Route] = {
    "thumbs": Route(
        thumbs, {**LAYER, "size": Whole(256, 48, 1), "pool": Choice("max", "mean")}, lambda server, asked: True
    ),
    "overview": Route(overview, {**TEXT, "l": Whole(default=None)}, lambda server, asked: True),
}
