"""The works: one list, in the order of the table, of what is measured and what it has to reach.

A work is data. What Regard and its peers are asked is made from it here; the measuring is done elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from . import encoding, looking, page, reading
from .measured import Measured
from .peaks import FMA, PAIR, READ
from .peers import JAX, NUMPY, OPENVINO, ORT, TORCH, Array, Question

F32, BF16 = "f32", "bf16"
BEST = "best peer"
OWN = "own"  # against the work named by `beside`
COLD = 256 << 20  # bytes of keys and values in rotation, at least: then no cache holds them


@dataclass(frozen=True)
class Target:
    """`against` a peak: the share of it. A peer: how many times as fast. OWN: the time as a share of that work's."""

    against: str
    bound: str  # ">=" or "<="
    value: float


def at_least(value: float, *against: str) -> tuple[Target, ...]:
    return tuple(Target(name, ">=", value) for name in against)


def at_most(value: float, *against: str) -> tuple[Target, ...]:
    return tuple(Target(name, "<=", value) for name in against)


@dataclass(frozen=True)
class Problem:
    heads: int
    n_q: int
    n_k: int
    d: int
    dtype: str = F32
    key_heads: int = 0  # 0: as many as heads

    @property
    def operations(self) -> float:
        return 4.0 * self.heads * self.n_q * self.n_k * self.d

    @property
    def key_bytes(self) -> float:
        """Of K and V: what a decoding step has to read."""
        return 2.0 * (self.key_heads or self.heads) * self.n_k * self.d * (2 if self.dtype == BF16 else 4)

    def arrays(self, seed: int = 0, spread: float = 1.0) -> tuple[Array, Array, Array]:
        """q, k, v from the standard normal; `spread` is then the standard deviation of the scores."""
        rng = np.random.default_rng(seed)
        key_shape = (self.key_heads or self.heads, self.n_k, self.d)
        q = rng.standard_normal((self.heads, self.n_q, self.d), np.float32) * np.float32(spread)
        k, v = (rng.standard_normal(key_shape, np.float32) for _ in range(2))
        if self.dtype == BF16:
            return q.astype(ml_dtypes.bfloat16), k.astype(ml_dtypes.bfloat16), v.astype(ml_dtypes.bfloat16)
        return q, k, v


@dataclass(frozen=True)
class Timed:
    """Times in one process, Regard beside its peers."""

    name: str
    problem: Problem
    ask: str = "dense"  # a key of ASKS
    peers: tuple[str, ...] = ()
    peak: str = ""
    targets: tuple[Target, ...] = ()
    beside: tuple[Problem, str] | None = None  # another work of Regard's own, for the OWN target
    tensors: bool = False  # Regard is given torch tensors

    @property
    def amount(self) -> float:
        """What one call does, in the unit of the peak."""
        if self.peak == READ:
            return self.problem.key_bytes
        return self.problem.operations / (2 if self.ask == "causal" else 1)


@dataclass(frozen=True)
class Fresh:
    """Something only a new process can show; `kind` is a function of fresh.py."""

    name: str
    kind: str
    unit: str
    dtype: str = F32
    ask: str = "dense"
    cached: bool = False
    long: bool = False
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Error:
    """rms and largest error against float64, each over PyTorch's on the same data."""

    name: str
    problem: Problem
    spread: float
    long: bool = False
    rms: float = 1.1
    largest: float = 1.5


Work = Timed | Fresh | Error | reading.Reading | reading.Agreement | Measured

WINDOW, CAP, DOCUMENTS = 256, 30.0, 32


def slopes(heads: int) -> Array:
    return (2.0 ** -(8.0 / heads * np.arange(1, heads + 1))).astype(np.float32)


def _documents(problem: Problem) -> Array:
    return np.repeat(np.arange(DOCUMENTS), problem.n_k // DOCUMENTS)


def _random(problem: Problem) -> Array:
    return np.random.default_rng(1).random((problem.n_q, problem.n_k), np.float32) < 0.5


def _distance(problem: Problem) -> Array:
    """k - q: both are positions on the key axis."""
    return np.arange(problem.n_k) - np.arange(problem.n_k - problem.n_q, problem.n_k)[:, None]


def _same_document(ids: Array) -> Callable[..., Any]:
    return lambda b, h, q, k: ids[q] == ids[k]


@dataclass(frozen=True)
class Ask:
    """What Regard is given beside q, k, v, and how a peer is asked the same."""

    arguments: Callable[[Any, Problem], dict[str, Any]]
    question: Callable[[Question, Problem], Question]


ASKS: dict[str, Ask] = {
    "dense": Ask(lambda regard, p: {}, lambda ask, p: ask),
    "causal": Ask(lambda regard, p: {"mask": regard.causal}, lambda ask, p: replace(ask, causal=True)),
    "window": Ask(
        lambda regard, p: {"mask": regard.window(WINDOW, 0)},
        lambda ask, p: replace(ask, mask=(_distance(p) <= 0) & (_distance(p) >= -WINDOW)),
    ),
    "documents": Ask(
        lambda regard, p: {"mask": regard.mask(_same_document(_documents(p)))},
        lambda ask, p: replace(ask, mask=_documents(p)[:, None] == _documents(p)),
    ),
    "random": Ask(lambda regard, p: {"mask": _random(p)}, lambda ask, p: replace(ask, mask=_random(p))),
    "softcap": Ask(lambda regard, p: {"modify": regard.softcap(CAP)}, lambda ask, p: replace(ask, softcap=CAP)),
    "alibi": Ask(
        lambda regard, p: {"modify": regard.alibi(slopes(p.heads))},
        lambda ask, p: replace(ask, bias=slopes(p.heads)[:, None, None] * -np.abs(_distance(p)).astype(np.float32)),
    ),
}


def question(ask: str, problem: Problem, q: Array, k: Array, v: Array) -> Question:
    return ASKS[ask].question(Question(q, k, v), problem)


def regard_call(regard: Any, ask: str, problem: Problem, q: Any, k: Any, v: Any) -> Callable[[], Any]:
    return partial(regard.attention, q, k, v, **ASKS[ask].arguments(regard, problem))


def copies(work: Timed) -> int:
    """How many sets of arrays a work goes through: one, or as many as make the memory be read again each time."""
    return max(2, math.ceil(COLD / work.problem.key_bytes)) if work.peak == READ else 1


def _square(heads: int, n: int, d: int, dtype: str = F32, key_heads: int = 0) -> Problem:
    return Problem(heads, n, n, d, dtype, key_heads)


def _decode(key_heads: int, dtype: str) -> Problem:
    return Problem(32, 1, 8192, 128, dtype, key_heads)


_64, _128 = _square(8, 4096, 64), _square(8, 4096, 128)
_64B, _128B = _square(8, 4096, 64, BF16), _square(8, 4096, 128, BF16)
_PACKED, _LONG = _square(8, 2048, 64), _square(1, 131072, 64)

ALL32 = (TORCH, ORT, OPENVINO, NUMPY, JAX)
ALL16 = (TORCH, OPENVINO, JAX)

_DENSE32 = at_least(0.85, FMA) + at_least(2.2, TORCH) + at_least(1.08, ORT, OPENVINO)
_DENSE16 = at_least(3.7, TORCH)
_CAUSAL32 = at_most(0.56, OWN) + at_least(2.2, TORCH) + at_least(2.1, OPENVINO)
_CAUSAL16 = at_most(0.56, OWN) + at_least(3.7, TORCH) + at_least(2.1, OPENVINO)
_DECODE32 = at_least(0.75, READ) + at_least(1.05, TORCH)
_DECODE16 = at_least(0.75, READ) + at_least(4.0, TORCH)


def _errors(dtype: str) -> tuple[Error, ...]:
    """At n = 131072 some rows stand for all: the reference would take hours otherwise."""
    shapes = (
        ("512", _square(4, 512, 64, dtype)),
        ("4096", _square(2, 4096, 64, dtype)),
        ("131072", Problem(1, 512, 131072, 64, dtype)),
    )
    return tuple(
        Error(f"error at n = {n}, {dtype}, scores of deviation {spread}", problem, float(spread), long=n == "131072")
        for n, problem in shapes
        for spread in (1, 4)
    )


WORKS: tuple[Work, ...] = (
    Timed("dense 8 × 4096², d 64, f32", _64, peers=ALL32, peak=FMA, targets=_DENSE32),
    Timed("dense 8 × 4096², d 128, f32", _128, peers=ALL32, peak=FMA, targets=_DENSE32),
    Timed(
        "dense 8 × 4096², d 64, bf16",
        _64B,
        peers=ALL16,
        peak=PAIR,
        targets=at_least(0.68, PAIR) + _DENSE16 + at_least(1.2, OPENVINO),
    ),
    Timed(
        "dense 8 × 4096², d 128, bf16",
        _128B,
        peers=ALL16,
        peak=PAIR,
        targets=at_least(0.75, PAIR) + _DENSE16 + at_least(1.35, OPENVINO),
    ),
    Timed("causal 8 × 4096², d 64, f32", _64, "causal", ALL32, FMA, _CAUSAL32, (_64, "dense")),
    Timed("causal 8 × 4096², d 128, f32", _128, "causal", ALL32, FMA, _CAUSAL32, (_128, "dense")),
    Timed("causal 8 × 4096², d 64, bf16", _64B, "causal", ALL16, PAIR, _CAUSAL16, (_64B, "dense")),
    Timed("causal 8 × 4096², d 128, bf16", _128B, "causal", ALL16, PAIR, _CAUSAL16, (_128B, "dense")),
    Timed("window(256, 0) 8 × 4096², d 64, f32", _64, "window", (TORCH,), "", at_most(0.12, OWN), (_64, "dense")),
    Timed("window(256, 0) 1 × 131072², per query", _LONG, "window", (), "", at_most(1.2, OWN), (_64, "window")),
    Timed("documents 32 × 64, user's mask", _PACKED, "documents", (TORCH,), "", at_most(0.2, OWN), (_PACKED, "dense")),
    Timed("random boolean array, 8 × 4096²", _64, "random", (TORCH,), FMA, at_least(2.0, TORCH)),
    Timed("softcap 8 × 4096², d 64, f32", _64, "softcap", (TORCH,), FMA, at_most(1.35, OWN), (_64, "dense")),
    Timed("ALiBi 8 × 4096², d 64, f32", _64, "alibi", (TORCH,), FMA, at_most(1.35, OWN), (_64, "dense")),
    Timed("small 12 × 512², d 64, f32", _square(12, 512, 64), "dense", ALL32, FMA, at_least(1.1, ORT, OPENVINO)),
    Timed("small 12 × 128², d 64, f32", _square(12, 128, 64), "dense", ALL32, FMA, at_least(1.0, BEST)),
    Timed("small 12 × 128², d 64, bf16", _square(12, 128, 64, BF16), "dense", ALL16, PAIR, at_least(1.0, BEST)),
    Timed("tiny 12 × 16², d 64, arrays", _square(12, 16, 64), "dense", (TORCH,), "", at_least(1.0, TORCH)),
    Timed(
        "tiny 12 × 16², d 64, tensors",
        _square(12, 16, 64),
        peers=(TORCH,),
        targets=at_least(1.0, TORCH),
        tensors=True,
    ),
    Timed(
        "grouped 32/8, n 2048, d 128, causal, f32",
        _square(32, 2048, 128, F32, 8),
        "causal",
        (TORCH, JAX),
        FMA,
        at_least(2.2, TORCH),
    ),
    Timed("decode 1 × 8192, heads 32, f32", _decode(32, F32), "dense", (TORCH, OPENVINO), READ, _DECODE32),
    Timed("decode 1 × 8192, heads 32/8, f32", _decode(8, F32), "dense", (TORCH,), READ, _DECODE32),
    Timed("decode 1 × 8192, heads 32, bf16", _decode(32, BF16), "dense", (TORCH, OPENVINO), READ, _DECODE16),
    Timed("decode 1 × 8192, heads 32/8, bf16", _decode(8, BF16), "dense", (TORCH,), READ, _DECODE16),
    Fresh("first call, nothing cached, f32", "first", "s", targets=at_most(0.5, "")),
    Fresh("first call, nothing cached, bf16, causal", "first", "s", BF16, "causal", targets=at_most(0.5, "")),
    Fresh("first call, from disk, f32", "first", "s", cached=True, targets=at_most(0.05, "")),
    Fresh("first call, from disk, bf16, causal", "first", "s", BF16, "causal", True, targets=at_most(0.05, "")),
    Fresh("import, over numpy and llvmlite", "load", "s", targets=at_most(0.1, "")),
    Fresh("memory at n = 131072, d 64, f32", "memory", "MB", long=True, targets=at_most(64, "")),
    Fresh(
        "memory at n = 131072, d 64, f32, from disk", "memory", "MB", cached=True, long=True, targets=at_most(64, "")
    ),
    Fresh("memory at n = 131072, d 64, bf16", "memory", "MB", BF16, long=True, targets=at_most(64, "")),
    *_errors(F32),
    *_errors(BF16),
    *reading.WORKS,
    *encoding.WORKS,
    *looking.WORKS,
    *page.WORKS,
    Fresh("memory of additive scores, n 16384, d_a 64", "additive", "MB", long=True, targets=at_most(64, "")),
    Fresh("memory of 5 questions, 8 × 4096²", "asking", "MB", ask="8 4096", targets=at_most(96, "")),
    Fresh(
        "memory of 5 questions, 1 × 131072², in all",
        "asking",
        "MB",
        ask="1 131072",
        long=True,
        targets=at_most(1000, ""),
    ),
)


def chosen(words: list[str]) -> list[Work]:
    """The works that have one of the words in their name; all of them without words."""
    return [work for work in WORKS if not words or any(word.lower() in work.name.lower() for word in words)]
