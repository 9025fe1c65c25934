"""Recordings with planted structure: random Q and K in which it is known what there is to find, at any length.

    layers 0, 2, …  causal     heads 0, 2, …  look at the token before     1, 3, …  rest on the first token
    layers 1, 3, …  no mask    heads 0, 2, …  stay within their block      1, 3, …  are even, but for one bright cell

Everything is made by the choice of features, so that scores follow from dot products alone, as in a real model. What is
planted, and where, stands in the header.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from regard.errors import DtypeError, ShapeError

Array = np.ndarray[Any, Any]
Progress = Callable[[float], object]

D = 64  # features of a query and of a key
ROWS = 8192  # that are made at a time, each such block from random numbers of its own
WAVES = 24  # frequencies of the positions: 24 cosines agree at one distance only, among 131 072 too
SPREAD = 0.6  # of the scores of noise, in its standard deviation
RESTS = 0.7  # share of every row that a sink gets
INSIDE = 0.95  # share of a row that stays in its block
BRIGHT = 0.99  # the weight of the bright cell
BLOCKS = 12
LEAST = 32  # tokens: with fewer there is no room for blocks
VERSION = 1  # of what is planted: another is another recording
DTYPES = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16)}
WORDS = """the river ran past a grey mill and its wheel turned slowly while two herons stood in the shallows watching
for fish an old man counted boats by day she wrote letters to people who had moved away nobody knew what became of
them"""


class Planted(NamedTuple):
    """What a head holds."""

    layer: int
    head: int
    kind: str  # previous, sink, blocks, cell
    where: list[int]  # of blocks where each begins; of a cell its query and its key


def plan(tokens: int, seed: int = 0, layers: int = 2, heads: int = 2) -> list[Planted]:
    """What is planted in each head.

    >>> [x.kind for x in plan(1000)]
    ['previous', 'sink', 'blocks', 'cell']
    """
    least_of = {"tokens": LEAST, "layers": 1, "heads": 1, "seed": 0}
    for (name, least), value in zip(least_of.items(), (tokens, layers, heads, seed), strict=True):
        if value < least:
            raise ShapeError(f"{name} is {value}, expected {least} or more")
    found = []
    for layer in range(layers):
        for head in range(heads):
            rng = _random(seed, layer, head)
            kind = (("previous", "sink"), ("blocks", "cell"))[layer % 2][head % 2]
            where: list[int] = []
            if kind == "blocks":
                least = tokens // (2 * BLOCKS)  # so that every block can be seen
                cuts = np.sort(rng.integers(0, tokens - BLOCKS * least + 1, BLOCKS - 1)) + least * np.arange(1, BLOCKS)
                where = [0, *cuts.tolist()]
            elif kind == "cell":  # query and key in different quarters, so that it lies apart from the diagonal
                quarter = tokens // 4
                where = [int(3 * quarter + rng.integers(quarter)), int(quarter + rng.integers(quarter))]
            found.append(Planted(layer, head, kind, where))
    return found


def header(tokens: int, seed: int = 0, layers: int = 2, heads: int = 2, dtype: str = "f32") -> dict[str, Any]:
    """What a recording says of itself: enough to see whether it is this one.

    >>> header(1000)["planted"][1]
    {'layer': 0, 'head': 1, 'kind': 'sink', 'where': []}
    """
    planted = [x._asdict() for x in plan(tokens, seed, layers, heads)]
    if dtype not in DTYPES:
        raise DtypeError(f"dtype is {dtype!r}, expected one of {', '.join(DTYPES)}")
    told = {"tokens": tokens, "seed": seed, "layers": layers, "heads": heads, "dtype": dtype, "version": VERSION}
    return {"name": "synthetic", **told, "planted": planted}


def plant(
    path: str | os.PathLike[str],
    tokens: int = 131_072,
    *,
    seed: int = 0,
    layers: int = 2,
    heads: int = 2,
    dtype: str = "f32",
    sync: bool = True,
    progress: Progress | None = None,
) -> None:
    """Write a recording with planted structure; the same arguments give the same bytes.

    It computes no lse: rows get theirs when they are read. Two layers are in memory at most; `progress` is told of each
    block in the thread that writes.

    >>> import tempfile, regard
    >>> path = tempfile.mkdtemp()
    >>> plant(path, 64)
    >>> rec = regard.open(path)
    >>> rec.notes, float(rec[0, 0][40, 39].round(1))
    (('synthetic',), 1.0)
    """
    from regard.algebra.masks import causal
    from regard.recording import recording
    from regard.recording.piece import Piece

    told = header(tokens, seed, layers, heads, dtype)
    planted = plan(tokens, seed, layers, heads)
    with (
        recording(path, tokens=names(tokens, seed), model=told, notes=["synthetic"], sync=sync) as recorder,
        ThreadPoolExecutor(os.cpu_count()) as workers,
    ):
        # One layer is made while the one before it is written, (q and k, 1, heads, tokens, d) each.
        room = [np.empty((2, 1, heads, tokens, D), DTYPES[dtype]) for _ in range(min(2, layers))]
        jobs: list[Future[None]] = []

        def begin(layer: int) -> None:
            for x in planted:
                if x.layer == layer:
                    q, k = room[layer % 2][:, 0, x.head]
                    jobs.extend(workers.submit(_fill, q, k, x, seed, rows) for rows in _blocks(tokens))

        def made(layer: int) -> Piece:
            count = len(jobs)
            for number, job in enumerate(jobs):
                job.result()
                if progress is not None:
                    progress((layer + (number + 1) / count) / layers)
            jobs.clear()
            begin(layer + 1)
            q, k = room[layer % 2]
            mask = causal.condition if layer % 2 == 0 else None
            return Piece(q, k, None, None, 1 / math.sqrt(D), mask=mask, steps=((tokens, tokens),))

        begin(0)
        for layer in range(layers):
            recorder.made(tokens, partial(made, layer), room[0].nbytes)
        recorder.close()  # while there are workers


def names(tokens: int, seed: int = 0) -> list[str]:
    """Words for tokens, in no order.

    >>> names(2)
    ['away', 'day']
    """
    words = WORDS.split()
    return [words[i] for i in np.random.default_rng(seed).integers(0, len(words), tokens).tolist()]


def _random(*keys: int) -> np.random.Generator:
    """Random numbers of their own for every head and block, in whatever order they are made."""
    return np.random.default_rng(np.random.SeedSequence(keys))


def _blocks(tokens: int) -> Iterator[range]:
    for first in range(0, tokens, ROWS):
        yield range(first, min(first + ROWS, tokens))


def _fill(q: Array, k: Array, what: Planted, seed: int, rows: range) -> None:
    """Rows of a head's Q and K, (n, d) each: noise, and the features of what is planted."""
    rng = _random(seed, what.layer, what.head, 1 + rows.start // ROWS)
    places = [x[rows.start : rows.stop] for x in (q, k)]
    made = places if q.dtype == np.float32 else [np.empty(x.shape, np.float32) for x in places]
    for x in made:
        _noise(rng, x)
    PLANT[what.kind](made[0], made[1], rows, len(q), what.where, _random(seed, what.layer, what.head, 0))
    for place, x in zip(places, made, strict=True):
        if place is not x:
            place[...] = x


def _noise(rng: np.random.Generator, out: Array) -> None:
    """Fill (rows, d) with even noise, from random bytes: eight at a time, as fast as they can be written."""
    # Scores are q·k/√d: with d products of two numbers of this size each, their deviation is SPREAD.
    step = np.float32(math.sqrt(SPREAD) / 73.9)  # bytes from -128 to 127 deviate by 73.9
    drawn = rng.integers(0, 1 << 64, out.size // 8, np.uint64).astype("<u8", copy=False)
    np.multiply(drawn.view(np.int8).reshape(out.shape), step, out, dtype=np.float32)


# How much noise adds to a sum of exponentials: its mean, for scores that deviate by SPREAD.
HUM = math.exp(SPREAD**2 / 2)


def _root(score: float) -> float:
    """The size of a feature of q and of k whose product adds this to a score."""
    return math.sqrt(score * math.sqrt(D))


def _previous(q: Array, k: Array, rows: range, n: int, where: list[int], rng: np.random.Generator) -> None:
    """Positions as waves: q is at the place before its own, where the cosines of all waves agree."""
    waves = rng.uniform(0.05, math.pi, WAVES)
    size = _root((math.log(n) + 12) / WAVES)
    turning = _turning(waves.tobytes())[: len(rows)]
    for x, first in ((q, rows.start - 1), (k, rows.start)):
        turned = turning * (size * np.exp(1j * (waves * first % (2 * math.pi)))).astype(np.complex64)
        x[:, :WAVES], x[:, WAVES : 2 * WAVES] = turned.real, turned.imag


@lru_cache(maxsize=2)
def _turning(waves: bytes) -> Array:
    """(rows, waves) on the unit circle, for places from 0; any block is this, turned by where it begins."""
    turned: Array = np.exp(1j * (np.arange(ROWS)[:, None] * np.frombuffer(waves) % (2 * math.pi)))
    return turned.astype(np.complex64)


def _sink(q: Array, k: Array, rows: range, n: int, where: list[int], rng: np.random.Generator) -> None:
    """A feature that only the first key has, and that queries want more, the more keys they see."""
    seen = np.maximum(np.arange(rows.start, rows.stop), 1)
    k[:, 0] = 0
    q[:, 0] = np.log(seen * HUM * RESTS / (1 - RESTS))
    if rows.start == 0:
        k[0] = 0
        k[0, 0] = math.sqrt(D)


def _within(q: Array, k: Array, rows: range, n: int, where: list[int], rng: np.random.Generator) -> None:
    """Each block has a code, and no two codes have anything in common."""
    codes = np.linalg.qr(rng.standard_normal((BLOCKS, BLOCKS)))[0]  # (block, feature)
    block = np.searchsorted(where, np.arange(rows.start, rows.stop), side="right") - 1
    sizes = np.diff([*where, n])
    wanted = np.log(INSIDE / (1 - INSIDE) * (n - sizes) / sizes) * math.sqrt(D)  # of a row of each block
    q[:, :BLOCKS] = (codes * wanted[:, None])[block]
    k[:, :BLOCKS] = codes[block]


def _cell(q: Array, k: Array, rows: range, n: int, where: list[int], rng: np.random.Generator) -> None:
    """A feature that one query and one key have, and nobody else."""
    query, key = where
    q[:, 0] = k[:, 0] = 0
    size = _root(math.log(n * HUM * BRIGHT / (1 - BRIGHT)))
    for x, at in ((q, query), (k, key)):
        if at in rows:
            x[at - rows.start] = 0  # nothing but this, so that the weight is what it is meant to be
            x[at - rows.start, 0] = size


PLANT: dict[str, Callable[[Array, Array, range, int, list[int], np.random.Generator], None]] = {
    "previous": _previous,
    "sink": _sink,
    "blocks": _within,
    "cell": _cell,
}
