"""cost(): what attention costs in operations, bytes, parameters and steps, and in time on this machine.

>>> of = cost(n=512, d_model=768, heads=12, layers=12)
>>> [(step.name, step.formula) for step in of.steps]  # multiply-adds of one layer; of the softmax, exponentials
[('Q, K, V', '3·n·d²'), ('scores', 'n²·d'), ('softmax', 'h·n²'), ('A·V', 'n²·d'), ('output', 'n·d²')]
>>> of.memory.one / 2**20, of.memory.all / 2**20  # MiB of A, if it were built
(1.0, 144.0)
>>> of.dominates, of.crossing  # from 2·d on, scores and A·V have more multiply-adds than the projections
('projections', 1536.0)
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.algebra.masks import Mask, window
from regard.algebra.scores import Score, additive, dot, general
from regard.attention import attention
from regard.errors import DtypeError, LimitError, ShapeError
from regard.kernels.plan import SIZES
from regard.problem import DTYPES

if TYPE_CHECKING:  # loaded when something is asked of them: `import regard` is in everybody's way
    from regard.tally import Cost, Measured

SCORES = ("dot", "general", "additive")
PATIENCE = 60.0  # seconds that a single call may take at best, to be measured
ROOM = 4 << 30  # bytes of arrays to measure with
REPEATS, ENOUGH = 3, 0.5  # rounds at least, and seconds after which it is enough
STRETCH = 0.02  # seconds of calls in a round, at least; then comes the peak

# The names that models give to their sizes, the commonest first.
NAMES = {
    "n": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "block_size"),
    "d_model": ("hidden_size", "n_embd", "d_model", "embed_dim", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "heads"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "layers"),
    "key_heads": ("num_key_value_heads", "n_kv_heads", "num_kv_heads", "key_heads"),
    "d": ("head_dim", "d_kv", "d_head"),
    "dtype": ("dtype", "torch_dtype"),
}
STORAGE = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"} | {x: x for x in SIZES}


def cost(
    model: Any = None,
    *,
    n: int | None = None,
    d_model: int | None = None,
    heads: int | None = None,
    layers: int | None = None,
    n_k: int | None = None,
    batch: int = 1,
    key_heads: int | None = None,
    d: int | None = None,
    causal: bool | None = None,
    window: int | tuple[int, int] | None = None,
    cached: int | None = None,
    dtype: Any = None,
    score: str = "dot",
    d_a: int | None = None,
    output_projection: bool = True,
    measure: bool = False,
) -> Cost:
    """What attention over n tokens costs: print the result for a table, or ask it for single numbers.

    `model` is a model or a configuration in the manner of Hugging Face, an object or a dict, whose sizes hold where
    none are given. `d` is the width of a head, d_model / heads if None; `key_heads` as many as heads.

    `window` is what `regard.window` takes: keys before the query, or (before, after). With `n_k` there are other keys
    than the n tokens: under `causal` those before the n tokens are `cached`, else all of them are projected, as in
    cross-attention. `score` is "dot", "general" or "additive", and `d_a` the width of an additive one, d if None.

    `measure` also times regard.attention on the heads of one layer.

    >>> cost(n=1000, d_model=64, heads=4, output_projection=False).crossing
    96.0
    >>> small = {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "max_position_embeddings": 512}
    >>> cost(small).memory.all >> 20
    144
    """
    found = described(model) if model is not None else {}
    sizes = {"n": n, "d_model": d_model, "heads": heads, "layers": layers, "key_heads": key_heads, "d": d}
    given = {**found, **{name: value for name, value in sizes.items() if value is not None}}
    for name in ("n", "d_model", "heads"):
        if name not in given:
            where = " and the model does not say it" if model is not None else ""
            raise ShapeError(f"{name} was not given{where}, expected a whole number: pass {name}=")
    given |= {"n_k": n_k, "d_a": d_a, "batch": batch, "cached": cached}
    whole = {name: _whole(name, value) for name, value in given.items() if name in _SIZES and value is not None}
    tokens, wide, h = whole["n"], whole["d_model"], whole["heads"]
    if "d" not in whole and wide % h:
        raise ShapeError(f"d_model is {wide} and heads is {h}, expected a multiple: pass d=, the width of a head")
    if h % (k := whole.get("key_heads", h)):
        raise ShapeError(f"heads is {h} and key_heads is {k}, expected a multiple: each key head serves as many heads")
    each = whole.get("d", wide // h)
    if score not in SCORES:
        raise ValueError(f"score is {score!r}, expected one of {', '.join(SCORES)}")
    left, right = _sides(found.get("window") if window is None else window)
    if found.get("causal", False) if causal is None else causal:
        right = 0
    keys = whole.get("n_k", tokens)
    before = whole.get("cached", max(0, keys - tokens) if right == 0 else 0)
    if before > keys:
        raise ShapeError(f"cached is {before} and there are {keys} keys, expected no more: pass n_k=, all of the keys")
    from regard.tally import Cost

    made = Cost(
        n=tokens, n_k=keys, d_model=wide, heads=h, key_heads=k, d=each, layers=whole.get("layers", 1),
        batch=whole["batch"], dtype=_storage(found.get("dtype", "f32") if dtype is None else dtype), score=score,
        d_a=whole.get("d_a", each), output_projection=bool(output_projection), left=left, right=right, cached=before,
    )  # fmt: skip
    return replace(made, measured=measured(made)) if measure else made


_SIZES = ("n", "d_model", "heads", "layers", "key_heads", "d", "n_k", "d_a", "batch", "cached")


def _whole(name: str, value: Any) -> int:
    least = 0 if name == "cached" else 1
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ShapeError(f"{name} is {value!r}, expected a whole number, {least} or more")
    return int(value)


def _sides(given: Any) -> tuple[float, float]:
    """How far may be looked before the query and after it."""
    if given is None:
        return math.inf, math.inf
    sides = tuple(given) if isinstance(given, (tuple, list)) else (given, 0)
    if len(sides) != 2 or not all(isinstance(x, (int, np.integer)) and x >= 0 and x is not True for x in sides):
        raise ValueError(f"window is {given!r}, expected a number of keys before the query, or (before, after)")
    return float(sides[0]), float(sides[1])


def _storage(given: Any) -> str:
    """A dtype by our name, by NumPy's or by torch's."""
    name = str(given if isinstance(given, str) else getattr(given, "__name__", given)).removeprefix("torch.")
    if name not in STORAGE:
        raise DtypeError(f"dtype is {given!r}, expected one of {', '.join(SIZES)}")
    return STORAGE[name]


# Models.


def described(model: Any) -> dict[str, Any]:
    """The sizes of a model, or of its configuration, by our names."""
    config = getattr(model, "config", model)
    for inner in ("text_config", "language_config"):  # the part of a model of pictures and text that reads text
        config = _field(config, inner) or config
    found: dict[str, Any] = {}
    layers = _field(config, "layers")  # torch's encoders hold their layers, and these their attention
    if hasattr(layers, "__len__") and len(layers):
        found["layers"], config = len(layers), layers[0]
    config = _field(config, "self_attn") or config
    for name, theirs in NAMES.items():
        for one in theirs:
            value = _field(config, one)
            if value is not None and name not in found:
                found[name] = value
                break
    if "d_model" not in found and "heads" not in found:
        raise ShapeError(
            f"the model is a {type(model).__name__} that says no hidden_size and no num_attention_heads, expected an "
            "object or a dict with these: pass d_model=, heads= and n="
        )
    if _field(config, "is_decoder") or any("LM" in str(x) for x in _field(config, "architectures") or ()):
        found["causal"] = not any("MaskedLM" in str(x) for x in _field(config, "architectures") or ())
    slide = _field(config, "sliding_window")
    if slide and _field(config, "use_sliding_window") is not False:
        found["window"] = int(slide) - 1  # theirs counts the query itself
    return found


def _field(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


# Measuring.


def measured(of: Cost) -> Measured:
    """The time that regard.attention takes for the heads of one layer, and the share of what the machine can do."""
    one = replace(of, layers=1)
    inner = [(step, least) for step, least in zip(one.steps, one.seconds or (), strict=False) if step.squared]
    least = sum(seconds for _, seconds in inner)
    size = SIZES[of.dtype] * of.batch * of.d * 2 * (of.n * of.heads + of.n_k * of.key_heads)
    if size > ROOM or least > PATIENCE:
        raise LimitError(
            f"measure=True would take {size / 2**30:.1f} GiB of arrays and {least:.0f} s or more for a call, expected "
            f"at most {ROOM >> 30} GiB and {PATIENCE:.0f} s: leave it out, or measure a smaller n"
        )
    rng = np.random.default_rng(0)

    def array(heads: int, rows: int) -> Any:
        return rng.standard_normal((of.batch, heads, rows, of.d), np.float32).astype(DTYPES[of.dtype])

    q, k, v = array(of.heads, of.n), array(of.key_heads, of.n_k), array(of.key_heads, of.n_k)
    from regard import machine
    from regard.tally import Measured

    score, mask = _score(of, rng), _mask(of)
    name = machine.peak_of(of.dtype)
    peaks = machine.peaks(name)

    def call() -> object:
        return attention(q, k, v, mask=mask, score=score)

    call()  # which compiles it
    best, rate, rounds, start = math.inf, machine.best(name), 0, time.perf_counter()
    while rounds < REPEATS or time.perf_counter() - start < ENOUGH:
        spent = 0.0
        while spent < STRETCH:
            seconds = machine.seconds(call)
            best, spent = min(best, seconds), spent + seconds
        rounds += 1
        # The peak that the machine has just now: other work on it slows both.
        rate = max(rate, *(peak.amount / machine.seconds(peak.run) for peak in peaks))
    computing = 2 * sum(step.products for step, _ in inner) / rate
    reading = sum(step.bytes for step, _ in inner) / machine.best(machine.READ)
    longest = max(computing, reading)
    return Measured(best, least, longest / best, name if computing >= reading else machine.READ)


def _mask(of: Cost) -> Mask | None:
    if not of.masked:
        return None
    far = of.n + of.n_k  # as good as no bound
    return window(int(min(of.left, far)), int(min(of.right, far)))


def _score(of: Cost, rng: np.random.Generator) -> Score:
    """A score function of this kind with random parameters, one set for each head."""

    def some(heads: int, *shape: int) -> Any:
        return rng.standard_normal((heads, *shape), np.float32) / math.sqrt(of.d)

    if of.score == "general":
        return general(some(of.heads, of.d, of.d))
    if of.score == "additive":
        projections = some(of.heads, of.d, of.d_a), some(of.key_heads, of.d, of.d_a)
        return additive(some(of.heads, of.d_a), *projections)
    return dot
