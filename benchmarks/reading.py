"""Reading the matrix: what questions, rows, columns and tiles of A cost, beside building all of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from . import THREADS
from .peaks import READ, peaks
from .peers import NUMPY, TORCH, Array, tensor
from .timing import Effort, Times, interleaved

REGARD, FORWARD = "Regard", "forward"
BINS, BEST, TILE = 256, 5, 256
LONG, SHORT = 131072, 8192

Calls = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True)
class Ratio:
    """The time of Regard over that of another, times a factor; or the other way round with `faster`."""

    what: str
    over: str
    bound: str
    target: float
    factor: float = 1.0
    faster: bool = False


@dataclass(frozen=True)
class Reading:
    """Calls that are compared."""

    name: str
    calls: Callable[[Any], Calls]
    ratios: tuple[Ratio, ...]
    once: bool = False  # too long to be called many times

    @property
    def long(self) -> bool:
        return self.once


@dataclass(frozen=True)
class Agreement:
    """Answers beside those of float64, over how far the same questions lie off on a matrix built in float32."""

    name: str
    n: int
    spread: float
    target: float = 4.0


def arrays(heads: int, n: int, spread: float = 1.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((heads, n, 64), np.float32) * np.float32(spread)
    return q, rng.standard_normal((heads, n, 64), np.float32)


def questions() -> tuple[Any, ...]:
    lens = import_module("regard.lens")
    return lens.Entropy(), lens.Top(BEST), lens.Received(), lens.ByDistance(), lens.Heatmap(BINS)


def built_in_torch(q: Array, k: Array) -> tuple[Any, ...]:
    """The usual way: all of A, then the questions, each in the fastest form that torch offers."""
    torch = import_module("torch")
    torch.set_num_threads(THREADS)
    n = q.shape[1]
    a = torch.softmax(tensor(q) @ tensor(k).transpose(1, 2) / math.sqrt(q.shape[2]), -1)
    entropy = torch.special.entr(a).sum(-1)
    top = a.topk(BEST, -1)
    received = a.sum(1)
    pooled = torch.nn.functional.avg_pool2d(a[None], n // BINS)[0]
    # Rows moved apart by one each: a column is then a diagonal.
    skewed = torch.nn.functional.pad(a, (0, n)).flatten(1)[:, :-n].view(len(q), n, 2 * n - 1)
    return entropy, top, received, skewed.sum(1), pooled


def asked(regard: Any, q: Array, k: Array) -> Any:
    """A new matrix each time: its lse is part of the question."""
    return regard.matrix(q, k).ask(*questions())


def whole(heads: int, n: int, regard: Any) -> Calls:
    q, k = arrays(heads, n)
    return {
        REGARD: partial(asked, regard, q, k),
        FORWARD: partial(regard.attention, q, k, k),
        TORCH: partial(built_in_torch, q, k),
    }


def received(regard: Any) -> Calls:
    q, k = arrays(8, 4096)
    known = regard.matrix(q, k)
    _ = known.lse
    return {REGARD: known.received, FORWARD: partial(regard.attention, q, k, k)}


def lengths(regard: Any) -> Calls:
    long, short = arrays(1, LONG), arrays(1, SHORT)
    return {REGARD: partial(asked, regard, *long), f"n = {SHORT}": partial(asked, regard, *short)}


def parts(regard: Any, of: str) -> Calls:
    """A tile, a row and a column of a long matrix whose lse is known."""
    q, k = (x[0] for x in arrays(1, LONG))
    lse = np.random.default_rng(1).uniform(11, 13, LONG).astype(np.float32)  # of this size; which does not matter
    matrix = regard.matrix(q, k, lse=lse)
    rows, keys = slice(70000, 70000 + TILE), slice(30000, 30000 + TILE)
    if of == "tile":
        scale = np.float32(1 / math.sqrt(q.shape[1]))
        return {
            REGARD: lambda: matrix[rows, keys],
            NUMPY: lambda: np.exp(q[rows] @ k[keys].T * scale - lse[rows, None]),
        }
    read = {f"{READ}, {peak.way}": peak.run for peak in peaks(READ)}
    return {REGARD: (lambda: matrix[70000]) if of == "row" else (lambda: matrix[:, 70000]), **read}


def additive(regard: Any) -> Calls:
    """Additive scores of queries and keys that need no projection, beside the arithmetic of Keras' AdditiveAttention,
    which holds n × n × d_a."""
    n, d = 2048, 64
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, d), np.float32) for _ in range(3))
    w, eye = rng.standard_normal(d).astype(np.float32), np.eye(d, dtype=np.float32)
    torch = import_module("torch")
    torch.set_num_threads(THREADS)
    tensors = [tensor(x) for x in (q, k, v, w)]

    def in_torch() -> Any:
        q, k, v, w = tensors
        return torch.softmax((w * torch.tanh(q[:, None] + k[None])).sum(-1), -1) @ v

    def in_numpy() -> Any:
        s = (w * np.tanh(q[:, None] + k[None])).sum(-1)
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    score = regard.additive(w, eye, eye)
    return {REGARD: lambda: regard.attention(q, k, v, score=score), TORCH: in_torch, NUMPY: in_numpy}


K_BYTES = LONG * 64 * 4.0
WORKS: tuple[Reading | Agreement, ...] = (
    Reading(
        "ask 5 questions, 8 × 4096², lse unknown",
        partial(whole, 8, 4096),
        (Ratio("of its own forward", FORWARD, "<=", 1.6), Ratio("× PyTorch, A built", TORCH, ">=", 6.0, faster=True)),
    ),
    Reading(
        "ask 5 questions, 8 × 8192², lse unknown",
        partial(whole, 8, 8192),
        (Ratio("× PyTorch, A built", TORCH, ">=", 8.0, faster=True),),
        once=True,
    ),
    Reading("received, 8 × 4096², lse known", received, (Ratio("of its own forward", FORWARD, "<=", 0.65),)),
    Reading(
        "ask 5 questions, 1 × 131072², by n²",
        lengths,
        (Ratio("of n² times that at 8192", f"n = {SHORT}", "<=", 1.25, (SHORT / LONG) ** 2),),
        once=True,
    ),
    Reading(
        "tile 256² of 131072², lse known", partial(parts, of="tile"), (Ratio("of NumPy's time", NUMPY, "<=", 3.0),)
    ),
    Reading(
        "row of 131072², lse known",
        partial(parts, of="row"),
        (Ratio("of reading K once", READ, "<=", 2.0, K_BYTES),),
    ),
    Reading(
        "column of 131072², lse known",
        partial(parts, of="column"),
        (Ratio("of reading Q and lse once", READ, "<=", 2.0, K_BYTES + LONG * 4.0),),
    ),
    Reading(
        "additive scores, n 2048, d_a 64",
        additive,
        (
            Ratio("× PyTorch, n × n × d_a built", TORCH, ">=", 8.0, faster=True),
            Ratio("× NumPy, n × n × d_a built", NUMPY, ">=", 8.0, faster=True),
        ),
    ),
    Agreement("answers at n = 2048, scores of deviation 1", 2048, 1.0),
    Agreement("answers at n = 2048, scores of deviation 4", 2048, 4.0),
)


def timed(regard: Any, work: Reading, effort: Effort) -> tuple[dict[str, Times], list[tuple[str, float, str, float]]]:
    """Times, and (what, value, bound, target) of each ratio."""
    calls = work.calls(regard)
    if work.once:
        times = {name: _few(call, 2 if len(calls) > 2 else 1) for name, call in calls.items()}
    else:
        yardsticks = {name for name in calls if name.startswith(READ)}
        times = interleaved({name: [call] for name, call in calls.items()}, effort, yardsticks)
    figures = []
    for ratio in work.ratios:
        own = times[REGARD].best
        if ratio.over == READ:
            rate = max(peak.amount / times[f"{READ}, {peak.way}"].best for peak in peaks(READ))
            value = own / (ratio.factor / rate)
        else:
            other = times[ratio.over].best
            value = other / own if ratio.faster else own / other * ratio.factor
        figures.append((ratio.what, value, ratio.bound, ratio.target))
    return times, figures


def _few(call: Callable[[], Any], count: int) -> Times:
    call_times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        call_times.append(time.perf_counter() - start)
    return Times(min(call_times), float(np.median(call_times)), count)


def errors(regard: Any, work: Agreement) -> Iterator[tuple[str, float, float]]:
    """(question, largest error of Regard, and of A built in float32), against float64; or what is allowed instead."""
    q, k = arrays(2, work.n, work.spread)
    lens = import_module("regard.lens")
    matrix = regard.matrix(q, k)
    every = (lens.Entropy(), lens.Peak(), lens.Received(), lens.ByDistance(), lens.Heatmap(BINS), lens.Total())
    names = ("entropy", "peak", "received", "by distance", "heatmap")
    exact, single = (_built(q.astype(kind), k.astype(kind)) for kind in (np.float64, np.float32))
    ours = [_numbers(x) for x in matrix.ask(*every)]
    most = float(np.abs(np.einsum("hid,hjd->hij", q, k)).max()) / math.sqrt(q.shape[-1])
    yield "row sums, of 1e-6 · max(1, |score|)", float(np.abs(ours[-1] - 1).max()), 1e-6 * max(1.0, most)
    keys = matrix.top(BEST).keys
    exact64 = _built(q.astype(np.float64), k.astype(np.float64))
    found = np.take_along_axis(exact64, keys, -1)
    best = -np.sort(-exact64, axis=-1)[..., :BEST]
    # A key that is not the one of float64 has a weight that differs from it by rounding only.
    yield "top 5 by float64, of 1e-6 · weight", float((np.abs(found - best) / best).max()), 1e-6 * max(1.0, most)
    for name, question, mine in zip(names, every, ours, strict=False):  # row sums were judged by themselves
        want, other = (_numbers(_on_built(question, a)) for a in (exact, single))
        yield name, float(np.abs(mine - want).max()), float(np.abs(other - want).max())


def _built(q: Array, k: Array) -> Array:
    s = q @ k.transpose(0, 2, 1) / q.dtype.type(math.sqrt(q.shape[-1]))
    e = np.exp(s - s.max(-1, keepdims=True))
    a: Array = e / e.sum(-1, keepdims=True)
    return a


def _on_built(question: Any, a: Array) -> Any:
    """What NumPy makes of A in the precision that it was built in."""
    name, n = type(question).__name__, a.shape[-1]
    if name == "Entropy":
        return -(a * np.log(a, where=a > 0, out=np.zeros_like(a))).sum(-1)
    if name == "Peak":
        return a.max(-1)
    if name == "Received":
        return a.sum(1)
    if name == "Total":
        return a.sum(-1)
    if name == "Heatmap":
        return a.reshape(len(a), BINS, n // BINS, BINS, n // BINS).mean((2, 4))
    padded = np.concatenate([a[:, :, ::-1], np.zeros_like(a)], 2).reshape(len(a), -1)[:, :-n]
    return padded.reshape(len(a), n, 2 * n - 1).sum(1)


def _numbers(answer: Any) -> Array:
    """The numbers of an answer that errors are of."""
    found = getattr(answer, "mass", getattr(answer, "weights", answer))
    return np.asarray(found, np.float64)
