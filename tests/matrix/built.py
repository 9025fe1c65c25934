"""A matrix of Regard's beside the same matrix built in float64, from the equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import regard
from regard import reference
from tests.attention.judge import DTYPES, NAMES, normal, spelled_out, wide
from tests.attention.problems import lay

Array = Any
ROUNDING = {"f32": 1e-6, "f64": 1e-14, "bf16": 1e-6, "f16": 1e-6}  # relative, for scores up to 1


@dataclass
class Built:
    """What is under test, and what it should be: (…, n_q, n_k)."""

    A: regard.AttentionMatrix
    weights: Array
    scores: Array
    visible: Array
    rounding: float  # what a weight may be off, of itself; a score, of the largest of them
    height: float  # the largest score there is

    def like(self, view: str) -> tuple[Any, Array, float]:
        """One of the four ways to read it, what it should be, and the error that is allowed beside the relative one."""
        of, what = (self.A, self.weights) if "scores" not in view else (self.A.scores, self.scores)
        small = 1e-12 if "scores" not in view else self.rounding * self.height
        return (of.T, what.swapaxes(-1, -2), small) if view.endswith("T") else (of, what, small)


VIEWS = ("A", "A.T", "scores", "scores.T")


def beside(q: Array, k: Array, *, like: dict[str, Any] | None = None, v: Array = None, **options: Any) -> Built:
    """The matrix of a call beside the one of the reference. `like` has the reference's own form of mask and modify."""
    A = regard.matrix(q, k, v=v, **options)
    theirs = {name: options.get(name) for name in ("scale", "modify", "bias", "mask")} | (like or {})
    theirs["mask"] = spelled_out(theirs["mask"], q.shape[-2], k.shape[-2])
    theirs["bias"] = None if theirs["bias"] is None else wide(theirs["bias"])
    leading = () if v is None else v.shape[:-3]
    if q.ndim > 2:
        q = np.broadcast_to(q, (*np.broadcast_shapes(q.shape[:-3], k.shape[:-3], leading), *q.shape[-3:]))
    sinks = (like or {}).get("sinks", options.get("sinks"))
    theirs.pop("sinks", None)
    with np.errstate(all="ignore"):
        a = reference.weights(wide(q), wide(k), sinks=sinks, **theirs)
        s = reference.scores(wide(q), wide(k), **theirs)
        plain = reference.scores(abs(wide(q)), abs(wide(k)), scale=None if A.weights.terms.scale is None else
                                 abs(A.weights.terms.scale))  # fmt: skip
    sizes = [abs(x[np.isfinite(x)]).max(initial=1) for x in (s, plain)]
    height = float(max(sizes))
    return Built(A, a, s, s != -np.inf, ROUNDING[NAMES[np.asarray(q).dtype]] * height, height)


def close(got: Array, want: Array, relative: float, small: float = 0.0, what: str = "") -> None:
    """Equal to rounding; NaN and inf exactly where they are wanted."""
    __tracebackhide__ = True
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    got, want = wide(got), wide(want)
    with np.errstate(invalid="ignore"):
        good = (got == want) | (np.isnan(got) & np.isnan(want)) | (abs(got - want) <= small + relative * abs(want))
    if not good.all():
        at = tuple(int(i) for i in np.argwhere(~good)[0])
        raise AssertionError(
            f"{what}: {(~good).sum()} of {good.size} are wrong, first at {at}: {got[at]!r}, expected {want[at]!r}"
        )


# Matrices of every kind, named by what is particular about them.


def _plain(dtype: str) -> Built:
    return beside(normal((3, 13, 7), dtype), normal((3, 17, 7), dtype, 1))


def _masked(mask: Any, n_q: int = 13, n_k: int = 17) -> Built:
    return beside(normal((2, n_q, 8)), normal((2, n_k, 8), "f32", 1), mask=mask)


def _single() -> Built:
    return beside(normal((19, 8)), normal((11, 8), "f32", 1), mask=regard.causal)


def _leading() -> Built:
    q, k = normal((2, 1, 4, 5, 8)), normal((3, 2, 9, 8), "f32", 1)
    return beside(q, k, mask=np.random.default_rng(2).random((2, 1, 1, 5, 9)) < 0.7)


def _grouped() -> Built:
    seen = regard.padding([5, 12])
    return beside(lay(normal((2, 6, 10, 8), "f64"), "heads inside"), normal((2, 2, 12, 8), "f64", 1), mask=seen)


def _half() -> Built:
    bias = normal((4, 10, 12)) * 2
    bias[np.random.default_rng(1).random(bias.shape) < 0.2] = -np.inf
    bias[:, 3] = -np.inf  # a row that sees nothing
    sinks = np.array([0.0, 2.0, -1.0, -np.inf])
    return beside(normal((4, 10, 8), "bf16"), normal((2, 12, 8), "bf16", 1), bias=bias, sinks=sinks)


def _of_keys() -> Built:
    bias = np.where(np.arange(17) % 5 == 2, -np.inf, normal((17,))).astype(np.float16)
    return beside(normal((2, 13, 8), "f16"), normal((2, 17, 8), "f16", 1), bias=bias)


def _modified() -> Built:
    slopes = np.array([0.5, 0.25])
    return beside(
        normal((2, 13, 8)),
        normal((2, 17, 8), "f32", 1),
        modify=[regard.softcap(2.0), regard.alibi(slopes)],
        like={"modify": [lambda s, b, h, q, k: 2 * np.tanh(s / 2), lambda s, b, h, q, k: s - slopes[h] * abs(q - k)]},
        mask=regard.window(8, 2),
        scale=-0.75,
    )


def _hiding() -> Built:
    def hiding(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return np.where(((q + k) % 4 == 1) | (s > 1.5), -np.inf, s)

    # Products that float32 and float64 agree about, so that the modifier decides alike.
    q, k = (np.round(normal((2, n, 8), "f32", n) * 8) / 8 for n in (13, 17))
    return beside(q, k, modify=hiding, sinks=[0.5, -0.5], scale=0.5)


def _broken() -> Built:
    q, k = normal((2, 13, 8)), normal((2, 17, 8), "f32", 1)
    q[0, 3, 2] = np.nan
    k[1, 6, 0] = np.nan
    return beside(q, k, mask=regard.causal)


def _flat() -> Built:
    return beside(normal((2, 13, 8)), normal((2, 17, 8), "f32", 1), scale=0.0, mask=regard.causal)


def _no_keys() -> Built:
    return beside(normal((2, 5, 8)), normal((2, 0, 8)))


KINDS: dict[str, Callable[[], Built]] = {
    "f32": lambda: _plain("f32"),
    "f64": lambda: _plain("f64"),
    "bf16": lambda: _plain("bf16"),
    "f16": lambda: _plain("f16"),
    "single, more queries than keys": _single,
    "leading axes and an array": _leading,
    "grouped, padding, f64": _grouped,
    "bias, sinks, bf16": _half,
    "bias of keys, f16": _of_keys,
    "modified": _modified,
    "hidden by a modifier": _hiding,
    "causal from the first": lambda: _masked(regard.causal(align="first")),
    "segments": lambda: _masked(regard.segments(np.arange(17) // 6)),
    "window and array": lambda: _masked(regard.window(9, 1) & (np.random.default_rng(3).random((13, 17)) < 0.8)),
    "NaN": _broken,
    "scale 0": _flat,
    "no keys": _no_keys,
}


# Shapes at the ends of what there can be.


def _long() -> Built:
    slopes = np.array([0.1, 0.02])
    return beside(
        normal((2, 77, 16)),
        normal((1, 333, 16), "f32", 1),
        mask=regard.causal & regard.window(200, 0),
        modify=regard.alibi(slopes),
        like={"modify": lambda s, b, h, q, k: s - slopes[h] * abs(q - k)},
    )


def _tall() -> Built:
    return beside(normal((2, 300, 8), "f64"), normal((2, 17, 8), "f64", 1), mask=regard.causal, sinks=[0.0, 1.0])


def _two_leading() -> Built:
    q, k = normal((2, 3, 2, 5, 8)), normal((3, 1, 7, 8), "f32", 1)
    return beside(q, k, mask=regard.padding([7, 6, 5, 4, 1, 0]))


def _empty(n_q: int, n_k: int, *front: int) -> Built:
    return beside(normal((*front, n_q, 8)), normal((*front, n_k, 8)), mask=regard.causal)


MORE: dict[str, Callable[[], Built]] = {
    "long": _long,
    "tall": _tall,
    "two leading axes": _two_leading,
    "no queries": lambda: _empty(0, 7, 2),
    "no keys but a mask": lambda: _empty(5, 0, 2),
    "nothing": lambda: _empty(0, 0, 2),
    "no leading index": lambda: _empty(5, 7, 0, 2),
    "one cell": lambda: _empty(1, 1),
}


@cache
def kind(name: str) -> Built:
    """One of them, made once."""
    return (KINDS | MORE)[name]()


__all__ = ["DTYPES", "KINDS", "MORE", "VIEWS", "Built", "beside", "close", "kind"]
