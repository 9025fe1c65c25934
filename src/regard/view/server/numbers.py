"""Numbers along an axis: profiles of rows and keys, weights by distance, the skyline of a text, two heads compared.

Heads of few cells are read whole. Of long ones what a base tells is exact; for the rest some rows, spread over the text
and each exact, stand for all, and the answer says how many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from regard.lens.columns import edges_of
from regard.lens.compare import compare as compared
from regard.view.server.answers import (
    BINS,
    HEAD,
    LESS,
    SEEN,
    Answer,
    Floats,
    Route,
    Said,
    Server,
    best,
    binned,
    identity,
    labels,
    line,
    number,
    picture,
    quickly,
    source,
    within,
)
from regard.view.server.asked import NEEDED, Another, Choice, Whole, wrong
from regard.view.server.base import Base, long
from regard.view.server.jobs import Job
from regard.view.server.pictures import Picture, Plain

Array = np.ndarray[Any, Any]

SAMPLED = 256  # query rows that stand for all
CELLS = 1 << 19  # that are read at a time


def blocks(seen: Picture, rows: Array, job: Job) -> Iterator[tuple[Array, Array]]:
    """(rows, their cells, −inf where hidden), some at a time."""
    step = max(1, CELLS // max(1, seen.n_k))
    for first in range(0, len(rows), step):
        job.check()
        some = rows[first : first + step]
        if int(some[-1] - some[0]) + 1 == len(some):
            yield some, seen.cells(range(int(some[0]), int(some[-1]) + 1), range(seen.n_k), job)
            continue
        each = [seen.cells(range(int(i), int(i) + 1), range(seen.n_k), job) for i in some]
        yield some, np.concatenate(each)


def chosen(seen: Picture) -> tuple[Array, int]:
    """The rows that are read, and how many these are if they stand for all, else 0."""
    if not long(seen) or seen.n_q <= SAMPLED:
        return np.arange(seen.n_q), 0
    edges = edges_of(seen.n_q, SAMPLED)
    return (edges[:-1] + edges[1:]) // 2, SAMPLED


def entropy(cells: Array) -> Array:
    """Of rows, −Σ a ln a over what is visible."""
    with np.errstate(all="ignore"):
        a = np.where(cells > 0, cells, 1).astype(np.float64)
        found: Array = -np.sum(a * np.log(a), axis=1)
    return np.where(np.isnan(cells).any(1), np.nan, found)


# Profiles.


def profile(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """Rows: the largest weight of each, and its entropy. Keys: the mean weight that each receives from the queries that
    see it, and the largest. (2, bins): the largest of a bin, and the mean of entropies and of means."""
    seen = picture(server, asked)
    if not long(seen):
        one, two = _whole(seen, asked["axis"], job)
        size = _size(len(one), asked["bins"])
        return _profile(asked["axis"], _most(one, size), two, size, len(one), 0)
    base = server.bases.ask(identity(asked), lambda: seen)
    if base.state != "done":
        return Said(base.report(), 202)
    return _from_base(base, seen, asked, job)


def _profile(axis: str, one: Array, two: Array, size: int, n: int, sampled: int) -> Answer:
    first, second = ("peak", "entropy") if axis == "rows" else ("largest", "received")
    values = np.stack([one, _mean(two, size) if len(two) != len(one) else two])
    head = {"axis": axis, "names": [first, second], "bins": len(one), "size": size, "n": n, "sampled": [0, sampled]}
    if axis == "keys":  # what each receives stands first
        values, head["names"] = values[::-1], [second, first]
    return Floats(values, head)


def _size(n: int, bins: int) -> int:
    return max(1, -(-n // bins))


def _most(values: Array, size: int) -> Array:
    return binned(values, max(1, -(-len(values) // size)))[0]


def _mean(values: Array, size: int) -> Array:
    """The mean of each bin, of what is there."""
    if not len(values):
        return values
    at = np.arange(0, len(values), size)
    there = np.isfinite(values) | np.isnan(values)
    count = np.add.reduceat(there, at, dtype=np.int64)
    total = np.add.reduceat(np.where(there, values, 0), at, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), -np.inf)


def _whole(seen: Picture, axis: str, job: Job) -> tuple[Array, Array]:
    """(largest, entropy) of rows, or (largest, mean over those that see it) of keys."""
    if axis == "rows":
        made = [(x.max(1, initial=-np.inf), entropy(x)) for _, x in blocks(seen, np.arange(seen.n_q), job)]
        return tuple(np.concatenate(x) for x in zip(*made, strict=True)) if made else (np.zeros(0), np.zeros(0))  # type: ignore[return-value]  # two of them
    most, total, count = np.full(seen.n_k, -np.inf), np.zeros(seen.n_k), np.zeros(seen.n_k, np.int64)
    for _, x in blocks(seen, np.arange(seen.n_q), job):
        there = x != -np.inf
        most = np.maximum(most, x.max(0, initial=-np.inf))
        total += np.where(there, x, 0).sum(0, dtype=np.float64)
        count += there.sum(0)
    return most, np.where(count > 0, total / np.maximum(count, 1), -np.inf)


def _from_base(base: Base, seen: Picture, asked: dict[str, Any], job: Job) -> Answer:
    """The same from a base: a bin is one or several of its pixels. Entropies are those of some rows."""
    rows = asked["axis"] == "rows"
    n, level, pixels = (seen.n_q, base.a, base.shape[0]) if rows else (seen.n_k, base.b, base.shape[1])
    number_of = base.number
    there = number_of > 0
    values = np.where(there, base.largest, -np.inf)
    if base.total is None:
        values = np.abs(np.where(there, base.largest, 0))
    largest = values.max(1 if rows else 0)
    together = _size(pixels, asked["bins"])
    size = together << level
    one = _most(largest, together)
    if rows:
        some, sampled = chosen(seen)
        found = np.concatenate([entropy(x) for _, x in blocks(seen, some, job)])
        # Each bin has the entropy of the rows in it, or of the nearest before it.
        at = np.clip(np.searchsorted(some, (np.arange(len(one)) + 0.5) * size, side="right") - 1, 0, len(some) - 1)
        return _profile("rows", one, found[at], size, n, sampled)
    count = number_of.sum(0, dtype=np.int64)
    mass = base.largest.sum(0, dtype=np.float64) if base.total is None else base.total.sum(0, dtype=np.float64)
    at = np.arange(0, pixels, together)
    count, mass = np.add.reduceat(count, at), np.add.reduceat(mass, at)
    return _profile("keys", one, np.where(count > 0, mass / np.maximum(count, 1), -np.inf), size, n, 0)


# By distance.


def distance(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """Rows of queries × columns of distances, which grow on a logarithmic axis: column c has those from edges[c] up to
    below edges[c + 1]."""
    seen = picture(server, asked)
    some, sampled = chosen(seen)
    positions = server.holdings.view(source(asked), asked["h"], asked).readable().positions[0]
    late = int(positions[0]) if len(positions) else 0  # where the first query stands
    least = late - (seen.n_k - 1)  # the first query and the last key
    first, last = seen.cells(range(min(1, seen.n_q)), range(seen.n_k), job), late + seen.n_q - 1
    ahead = bool((first[:, max(0, late) + 1 :] != -np.inf).any()) if first.size else False
    edges = _edges(least if ahead else 0, last, asked["columns"])
    down = min(asked["rows"], len(some))
    shape = down, max(0, len(edges) - 1)
    pool = asked["pool"]
    found = np.full(shape, -np.inf)
    number_of = np.zeros(shape, np.int64)
    into = np.searchsorted(edges_of(len(some), down), np.arange(len(some)), side="right") - 1
    for rows, values in blocks(seen, some, job):
        for i, x in zip(rows, values, strict=True):
            r = into[int(np.searchsorted(some, i))]
            # Keys of distance e to f − 1 are those from at − f + 1 to at − e.
            bounds = np.clip(int(i) + late - edges[::-1] + 1, 0, seen.n_k)
            cut, there = x[bounds[0] : bounds[-1]], np.flatnonzero(np.diff(bounds))
            if not len(there):
                continue
            at = bounds[:-1][there] - bounds[0]
            seen_here = np.add.reduceat(cut != -np.inf, at, dtype=np.int64)
            c = shape[1] - 1 - there
            if pool == "max":
                found[r, c] = np.maximum(found[r, c], np.maximum.reduceat(cut, at))
            else:
                mass = np.add.reduceat(np.where(cut == -np.inf, 0, cut), at, dtype=np.float64)
                found[r, c] = np.where(
                    seen_here > 0, np.where(found[r, c] == -np.inf, 0, found[r, c]) + mass, found[r, c]
                )
            number_of[r, c] += seen_here
    if pool == "mean":
        found = np.where(number_of > 0, found / np.maximum(number_of, 1), -np.inf)
    elif pool == "sum":  # of a row: the mean over the rows of a bin
        many = np.bincount(into, minlength=down)[:, None]
        found = found / np.maximum(many, 1)
    head = {"edges": edges.tolist(), "rows": shape[0], "columns": shape[1], "sampled": sampled, "pool": pool}
    return Floats(found, head)


def _edges(least: int, most: int, columns: int) -> Array:
    """Whole numbers from least to most + 1, each side of 0 on a logarithmic axis.

    >>> _edges(0, 100, 6).tolist(), _edges(-3, 3, 99).tolist()
    ([0, 1, 3, 6, 16, 40, 101], [-3, -2, -1, 0, 1, 2, 3, 4])
    """
    ahead = columns // 2 if least < 0 else 0
    past = _steps(max(1, most + 1), max(1, columns - ahead))
    if least >= 0:
        return past
    return np.concatenate([-_steps(-least, max(1, ahead))[:0:-1], past])


def _steps(end: int, columns: int) -> Array:
    """0 … end in at most so many steps: the first of 1, each longer than the one before by the same factor or so."""
    if end <= columns:
        return np.arange(end + 1)
    # As many steps of 1 as leave the rest on one even curve.
    many = columns
    while True:
        points = np.unique(np.rint(np.geomspace(1, end, many)).astype(np.int64))
        if len(points) >= columns or many > 64 * columns:
            break
        many += max(1, columns - len(points))
    return (
        np.concatenate([[0], points[: columns - 1], [end]]) if len(points) >= columns else np.concatenate([[0], points])
    )


# The text.


def skyline(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """In bins over the keys, the largest weight that a query gives, or that any gives."""
    seen = picture(server, asked)
    if asked["i"] is not None:
        values, size = binned(line(server, asked, "row", asked["i"], job), asked["bins"])
        return Floats(values, {"n": seen.n_k, "bins": len(values), "size": size, "sampled": 0})
    if not long(seen):
        values, size = binned(_whole(seen, "keys", job)[0], asked["bins"])
        return Floats(values, {"n": seen.n_k, "bins": len(values), "size": size, "sampled": 0})
    base = server.bases.look(identity(asked))
    if base is not None and base.state == "done":
        largest = np.where(base.number > 0, base.largest, -np.inf).max(0)
        values, together = binned(largest, asked["bins"])
        return Floats(values, {"n": seen.n_k, "bins": len(values), "size": together << base.b, "sampled": 0})
    some, sampled = chosen(seen)
    most = np.full(seen.n_k, -np.inf)
    for _, x in blocks(seen, some, job):
        most = np.maximum(most, x.max(0))
    values, size = binned(most, asked["bins"])
    return Floats(values, {"n": seen.n_k, "bins": len(values), "size": size, "sampled": sampled})


def arcs(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """What a token looks at most, and who looks at it most."""
    seen = picture(server, asked)
    i = within("i", asked["i"], seen.n_q)
    ours, theirs = labels(server, asked)
    late = max(0, seen.n_k - seen.n_q)
    j = i + late  # the same token among the keys
    looks = best(line(server, asked, "row", i, job), theirs, asked["top"])
    known = j >= seen.n_k or quickly(seen, j)
    looked = best(line(server, asked, "column", j, job), ours, asked["top"]) if known and j < seen.n_k else []
    return Said({"i": i, "j": j, "looks_at": looks, "looked_at_by": looked, "column_known": known})


# Two heads.


def compare(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """How far two heads are apart: the Jensen–Shannon distance of their rows."""
    r, x, layer, h = asked["minus"]
    one, other = server.holdings.head(source(asked), asked["h"]), server.holdings.head((r, x, layer), h)
    if one.shape != other.shape:
        theirs, ours = (f"{m.shape[-2]} × {m.shape[-1]}" for m in (other, one))
        raise wrong(f"minus is a head of {theirs}, but this one is {ours}, expected the same shape")
    some, sampled = chosen(Plain(one.weights))
    a, b = (x if not sampled else x.select(queries=some) for x in (one, other))
    found = compared(a, b, job.check)
    rows = np.asarray(found.rows, np.float64).reshape(-1)
    values = _mean(rows, _size(len(rows), asked["bins"]))
    same = one.tokens == other.tokens and one.key_tokens == other.key_tokens
    return Said(
        {
            "distance": number(np.asarray(found.heads).reshape(-1)[0]),
            "rows": [number(v) for v in values],
            "same_tokens": same,
            "sampled": sampled,
        }
    )


def _pass(server: Server, asked: dict[str, Any]) -> bool:
    return True


ROUTES: dict[str, Route] = {
    "profile": Route(
        profile,
        {**HEAD, "axis": Choice("rows", "keys"), "bins": Whole(BINS, 1024, 1), **SEEN, **LESS},
        _pass,
    ),
    "distance": Route(
        distance,
        {
            **HEAD,
            "rows": Whole(1024, 256, 1),
            "columns": Whole(1024, 128, 1),
            "pool": Choice("max", "mean", "sum"),
            **SEEN,
            **LESS,
        },
        _pass,
    ),
    "skyline": Route(skyline, {**HEAD, "bins": Whole(BINS, 1024, 1), "i": Whole(default=None), **SEEN, **LESS}, _pass),
    "arcs": Route(arcs, {**HEAD, "i": Whole(), "top": Whole(256, 12, 1), **SEEN, **LESS}, _pass),
    "compare": Route(compare, {**HEAD, "minus": Another(NEEDED), "bins": Whole(BINS, 256, 1)}, _pass),
}
