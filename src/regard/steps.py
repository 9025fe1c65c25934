"""The steps of attention one by one, forward and back, each by the equation of `reference.py`, with its value kept.

>>> x = np.eye(2)
>>> steps = forward(Given(q=x, k=x, v=x, scale=1.0))
>>> [step.name for step in steps]
['q', 'k', 'v', 'scores', 'scaled', 'weights', 'output']
>>> steps[3]
scores: S = Q·Kᵀ, shape (2, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from regard import reference
from regard.errors import ShapeError
from regard.reference import Array

Axes = tuple[str, str]  # what rows and columns stand for: "query", "key", or "" for plain numbers
Cells = Callable[[Array, Any, Any, Any, Any], Array]  # f(score, b, h, q, k) on arrays


@dataclass(frozen=True, eq=False)
class Step:
    """One step: what it is called, its equation, and its value."""

    name: str  # by which the trace gives its value
    symbol: str
    equation: str
    value: Array
    axes: Axes = ("", "")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __repr__(self) -> str:
        return f"{self.name}: {self.equation}, shape {self.shape}"


class Steps:
    """Steps in their order, whose values are attributes under their names."""

    steps: tuple[Step, ...]

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(f"there is no step {name!r}, expected one of {', '.join(step.name for step in self.steps)}")

    def __contains__(self, name: object) -> bool:
        return any(step.name == name for step in self.steps)

    def __getattr__(self, name: str) -> Array:
        for step in self.__dict__.get("steps", ()):  # not self.steps: while it is unpickled there are none yet
            if step.name == name:
                return step.value  # type: ignore[no-any-return]  # an array
        known = ", ".join(step.name for step in self.__dict__.get("steps", ()))
        raise AttributeError(f"this {type(self).__name__} has no {name!r}, expected one of its steps: {known}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(step.name for step in self.steps)]


@dataclass(frozen=True, eq=False)
class Given:
    """What a trace starts from, in float64: q, k and v as heads, and what they were projected from, if they were."""

    q: Array  # (..., heads, n, d), or (n, d)
    k: Array
    v: Array
    scale: float | None = None
    modify: Cells | None = None
    slope: Cells | None = None  # of `modify`, in the score that goes in
    bias: Array | None = None
    seen: np.ndarray[Any, Any] | None = None  # (..., heads, n, m), True = may attend
    sinks: Array | None = None
    x: Array | None = None
    context: Array | None = None
    w_q: Array | None = None
    w_k: Array | None = None
    w_v: Array | None = None
    w_o: Array | None = None
    b_q: Array | None = None
    b_k: Array | None = None
    b_v: Array | None = None
    b_o: Array | None = None

    @property
    def factor(self) -> float:
        """What scores are multiplied by."""
        return 1 / sqrt(max(1, self.q.shape[-1])) if self.scale is None else self.scale

    @property
    def single(self) -> bool:
        """Whether there is no axis of heads."""
        return self.q.ndim == 2

    @property
    def source(self) -> str:
        """What keys and values are projected from."""
        return "X" if self.context is None else "C"

    def terms(self) -> dict[str, Any]:
        """What makes a score of a product, for `reference`."""
        return {"scale": self.scale, "modify": self.modify, "bias": self.bias, "mask": self.seen}


# Forward.


def forward(g: Given) -> tuple[Step, ...]:
    """The steps from Q, K and V to the output."""
    found = [
        Step(name, symbol, _projection(g, symbol), value, (axis, ""))
        for name, symbol, value, axis in (("q", "Q", g.q, "query"), ("k", "K", g.k, "key"), ("v", "V", g.v, "key"))
    ]
    cells = ("query", "key")
    by = f"S / √{g.q.shape[-1]}" if g.scale is None else f"S · {g.scale:g}"
    terms = g.terms()
    found.append(Step("scores", "S", "S = Q·Kᵀ", reference.scores(g.q, g.k, scale=1.0), cells))
    found.append(Step("scaled", "S′", f"S′ = {by}", reference.scores(g.q, g.k, scale=g.scale), cells))
    last = "S′"
    # What was not given is left out, so that the steps are those that happen.
    for name, equation, names in (
        ("modified", "modify({})", ("modify",)),
        ("biased", "{} + bias", ("modify", "bias")),
        ("masked", "{} where visible, else −∞", ("modify", "bias", "mask")),
    ):
        if terms[names[-1]] is not None:
            symbol = last + "′"
            value = reference.scores(g.q, g.k, scale=g.scale, **{x: terms[x] for x in names})
            found.append(Step(name, symbol, f"{symbol} = {equation.format(last)}", value, cells))
            last = symbol
    beside = " with a sink" if g.sinks is not None else ""
    weights = reference.weights(g.q, g.k, **terms, sinks=g.sinks)
    found.append(Step("weights", "A", f"A = softmax({last}){beside}", weights, cells))
    z = reference.attention(g.q, g.k, g.v, **terms, sinks=g.sinks)
    found.append(Step("output", "Z", "Z = A·V", z, ("query", "")))
    if not g.single and (g.x is not None or g.w_o is not None):
        z = reference.merge_heads(z)  # (..., heads, n, e) -> (..., n, heads·e)
        found.append(Step("merged", "M", "M = concat(Z)", z, ("query", "")))
    if g.w_o is not None:
        added = "" if g.b_o is None else " + b_O"
        y = reference.project(z, g.w_o, g.b_o)
        found.append(Step("projected", "Y", f"Y = {found[-1].symbol}·W_O{added}", y, ("query", "")))
    return tuple(found)


def log_sums(g: Given) -> Array:
    """The logarithm of each row's sum of exponentials, (..., heads, n) or (n,)."""
    return reference.attention(g.q, g.k, g.v, **g.terms(), sinks=g.sinks, return_lse=True)[1]


def _projection(g: Given, symbol: str) -> str:
    if g.x is None:
        return f"{symbol} is given"
    bias = {"Q": g.b_q, "K": g.b_k, "V": g.b_v}[symbol]
    made = f"{'X' if symbol == 'Q' else g.source}·W_{symbol}" + ("" if bias is None else f" + b_{symbol}")
    return f"{symbol} = {made}" if g.single else f"{symbol} = split({made})"


# Back.


def backward(g: Given, steps: Sequence[Step], d_output: Array) -> tuple[Step, ...]:
    """The steps from the gradient of the last value back to those of everything that was given.

    dX is the derivative of some loss with respect to X, and has the shape of X.
    """
    value = {step.name: step.value for step in steps}
    found: list[Step] = []

    def step(name: str, symbol: str, equation: str, of: Array, axes: Axes = ("", "")) -> Array:
        found.append(Step(name, symbol, f"{symbol} = {equation}", of, axes))
        return of

    rows: Axes = ("query", "")
    d_z = d_output
    if g.w_o is not None:
        before = "M" if "merged" in value else "Z"
        found.append(Step("d_projected", "dY", "dY is given", d_z, rows))
        made = value.get("merged", value["output"])
        step("d_w_o", "dW_O", f"{before}ᵀ·dY", _weights_of(made, d_z))
        if g.b_o is not None:
            step("d_b_o", "db_O", "Σ rows of dY", _bias_of(d_z))
        d_z = step("d_merged" if before == "M" else "d_output", f"d{before}", "dY·W_Oᵀ", d_z @ g.w_o.T, rows)
    elif "merged" in value:
        found.append(Step("d_merged", "dM", "dM is given", d_z, rows))
    else:
        found.append(Step("d_output", "dZ", "dZ is given", d_z, rows))
    if "merged" in value:
        d_z = step("d_output", "dZ", "split(dM)", reference.split_heads(d_z, g.q.shape[-3]), rows)

    inner = reference.attention_gradients(
        d_z, g.q, g.k, g.v, **{**g.terms(), "scale": g.factor}, sinks=g.sinks, slope=g.slope
    )
    step("d_v", "dV", "Aᵀ·dZ", inner.d_v, ("key", ""))
    cells: Axes = ("query", "key")
    a = value["weights"]
    final = next(value[name] for name in ("masked", "biased", "modified", "scaled") if name in value)
    with np.errstate(all="ignore"):  # behind a mask there may be anything
        # (..., H, n, e), (..., H, e, m) -> (..., H, n, m)
        d_a = np.where(final == -np.inf, 0, d_z @ np.swapaxes(_shared(g.v, g.q), -1, -2))
        step("d_weights", "dA", "dZ·Vᵀ", d_a, cells)
        # Moving one score moves every weight of its row, which is what the row's sum takes off.
        d_s = np.where(a == 0, 0, a * (d_a - (a * d_a).sum(axis=-1, keepdims=True)))
        inside = "A ∘ (dA − Σ A ∘ dA), the sum over each row"
        if g.sinks is not None:
            assert inner.d_sinks is not None
            step("d_sinks", "dsinks", "−Σ rows of sink's weight · Σ A ∘ dA", inner.d_sinks)
        if g.slope is not None:
            step("d_modified", "dS′′", inside, d_s, cells)
            slope = np.broadcast_to(g.slope(value["scaled"], *_indices(g, a)), a.shape)
            d_s = step("d_scaled", "dS′", "dS′′ ∘ slope of modify", np.where(d_s == 0, 0, d_s * slope), cells)
        else:
            step("d_scaled", "dS′", inside, d_s, cells)
        if g.bias is not None and inner.d_bias is not None:
            step("d_bias", "dbias", "the gradient of the biased scores, summed to its shape", inner.d_bias)
        by = f"dS′ / √{g.q.shape[-1]}" if g.scale is None else f"dS′ · {g.scale:g}"
        step("d_scores", "dS", by, d_s * g.factor, cells)
    step("d_q", "dQ", "dS·K", inner.d_q, rows)
    step("d_k", "dK", "dSᵀ·Q", inner.d_k, ("key", ""))
    if g.x is not None:
        _back_to_inputs(g, inner, step)
    return tuple(found)


def _back_to_inputs(g: Given, inner: reference.AttentionGradients, step: Callable[..., Array]) -> None:
    """Through the projections."""
    assert g.x is not None
    source = g.x if g.context is None else g.context
    shares = []
    for symbol, x, of, d, w, b in (
        ("Q", "X", g.x, inner.d_q, g.w_q, g.b_q),
        ("K", g.source, source, inner.d_k, g.w_k, g.b_k),
        ("V", g.source, source, inner.d_v, g.w_v, g.b_v),
    ):
        assert w is not None
        flat = d if g.single else reference.merge_heads(d)  # (..., heads, n, d) -> (..., n, heads·d)
        name = symbol.lower()
        step(f"d_w_{name}", f"dW_{symbol}", f"{x}ᵀ·d{symbol}", _weights_of(of, flat))
        if b is not None:
            step(f"d_b_{name}", f"db_{symbol}", f"Σ rows of d{symbol}", _bias_of(flat))
        shares.append(flat @ w.T)
    if g.context is None:
        step("d_x", "dX", "dQ·W_Qᵀ + dK·W_Kᵀ + dV·W_Vᵀ", shares[0] + shares[1] + shares[2], ("query", ""))
    else:
        step("d_x", "dX", "dQ·W_Qᵀ", shares[0], ("query", ""))
        step("d_context", "dC", "dK·W_Kᵀ + dV·W_Vᵀ", shares[1] + shares[2], ("key", ""))


def _weights_of(x: Array, d_y: Array) -> Array:
    """dW = Xᵀ dY, summed over all leading axes: (..., n, inputs), (..., n, outputs) -> (inputs, outputs)."""
    over = tuple(range(x.ndim - 1))
    made: Array = np.tensordot(x, d_y, axes=(over, over))
    return made


def _bias_of(d_y: Array) -> Array:
    made: Array = d_y.sum(axis=tuple(range(d_y.ndim - 1)))
    return made


def _shared(x: Array, q: Array) -> Array:
    """Keys or values with every head repeated for the query heads that read it: (..., Hk, m, e) -> (..., H, m, e)."""
    return x if x.ndim == 2 else np.repeat(x, q.shape[-3] // max(1, x.shape[-3]), axis=-3)


def _indices(g: Given, a: Array) -> tuple[Any, Any, Any, Any]:
    """b, h, q and k of every cell of (..., H, n, m), each along its own axes."""
    n, m = a.shape[-2:]
    q, k = reference.positions(n, m)
    if g.single:
        return np.int64(0), np.int64(0), q[:, None], k
    lead = a.shape[:-3]
    b = np.arange(int(np.prod(lead, dtype=np.int64))).reshape(*lead, 1, 1, 1)  # flat -> (..., 1, 1, 1)
    return b, np.arange(a.shape[-3])[:, None, None], q[:, None], k


def gradient_shape(given: Any, of: Step) -> Array:
    """The gradient of the last step, checked to have its shape; one number stands for all."""
    d = np.asarray(given, np.float64)
    if d.shape != of.shape and d.ndim:
        raise ShapeError(
            f"d_output has shape {d.shape}, expected {of.shape}, that of trace.{of.name}: "
            "pass the gradient of a loss with respect to it"
        )
    return np.broadcast_to(d, of.shape).copy()
