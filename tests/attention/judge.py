"""Is an answer as close to the equations as the working precision allows?

The reference computes in float64 from the very numbers that the kernel got. What may differ is rounding, and how much
of it is worked out cell by cell: a score is a sum of d products, a weight carries the error of its score, an output
is a sum over keys. A wrong index, a key too many or too few, is far outside.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import regard
from regard import reference
from regard.algebra.evaluate import evaluate

DTYPES = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
}
WORKING = {"f32": 2.0**-24, "f64": 2.0**-53, "bf16": 2.0**-24, "f16": 2.0**-24}  # what sums are rounded to
STORED = {"f32": 2.0**-24, "f64": 2.0**-53, "bf16": 2.0**-9, "f16": 2.0**-11}  # what an output is rounded to
# bf16 weights are rounded to 2^-9 each, so exp2 need not be better than this; lse inherits it.
WEIGHT = {"f32": 0, "f64": 0, "bf16": 2.0**-14, "f16": 0}
SMALLEST = {"f32": 1e-37, "f64": 1e-300, "bf16": 1e-37, "f16": 2.0**-24}  # steps below which numbers are not kept
NAMES = {dtype: name for name, dtype in DTYPES.items()}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def normal(shape, dtype="f32", seed=0):
    """Numbers that are the same for the same shape and seed."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(DTYPES.get(dtype, dtype))


def wide(x):
    return np.asarray(x).astype(np.float64)


def bits(x):
    """The bits of an array, so that NaN equals itself and 0 is not -0."""
    x = np.ascontiguousarray(x)
    return x.view(UNSIGNED[x.dtype.itemsize])


def same_bits(a, b, what=""):
    __tracebackhide__ = True
    assert a.shape == b.shape, f"{what}: {a.shape} and {b.shape}"
    assert a.dtype == b.dtype, f"{what}: {a.dtype} and {b.dtype}"
    different = bits(a) != bits(b)
    if different.any():
        at = tuple(int(i) for i in np.argwhere(different)[0])
        raise AssertionError(f"{what}: {different.sum()} of {a.size} differ, first at {at}: {a[at]} and {b[at]}")


def for_query_heads(x, heads):
    """(..., key heads, n, d) -> (..., query heads, n, d), without reference.py's help."""
    return x if x.ndim == 2 else np.repeat(x, heads // x.shape[-3], axis=-3)


def spelled_out(mask, n_q, n_k):
    """A mask of Regard's as f(b, h, q, k) for the reference, by its meaning on NumPy arrays."""
    if not isinstance(mask, regard.Mask):
        return mask
    return lambda b, h, q, k: evaluate(mask.condition, b=b, h=h, q=q, k=k, row=q - (n_k - n_q))


def expected(q, k, v, *, scale=None, modify=None, bias=None, mask=None, sinks=None):
    """Output and lse of the reference, and how far an answer in q's dtype may be from each."""
    name = NAMES[np.asarray(q).dtype]
    eps = WORKING[name]
    # The kernel keeps its scale and its sinks in the working precision; the bound below covers that.
    q, k, v = wide(q), wide(k), wide(v)
    bias = None if bias is None else wide(bias)
    mask = spelled_out(mask, q.shape[-2], k.shape[-2])
    common = {"scale": scale, "bias": bias, "mask": mask}
    z, lse = reference.attention(q, k, v, modify=modify, sinks=sinks, return_lse=True, **common)
    with np.errstate(all="ignore"):
        finite = {n: np.where(np.isfinite(x), x, 0) for n, x in (("q", q), ("k", k), ("v", v))}
        a = np.nan_to_num(reference.weights(q, k, modify=modify, sinks=sinks, **common))  # (..., n, m)
        final = reference.scores(q, k, modify=modify, **common)
        d, m = q.shape[-1], k.shape[-2]
        # Sums of d products, each rounded: the errors of single steps are independent, so they grow with the root.
        products = reference.scores(abs(finite["q"]), abs(finite["k"]), scale=None if scale is None else abs(scale))
        height = np.where(np.isfinite(final), abs(final), 0)
        top = np.where(a > 0, height, 0).max(axis=-1, keepdims=True, initial=0)
        if sinks is not None:
            sink = np.nan_to_num(np.asarray(sinks, np.float64), neginf=0)
            top = np.maximum(top, abs(sink).reshape(-1, 1, 1) if q.ndim > 2 else abs(sink).reshape(-1)[0])
        added = 0 if bias is None else np.where(np.isfinite(bias), abs(bias), 0)
        distance = 0 if modify is None else abs(np.arange(q.shape[-2])[:, None] + m - q.shape[-2] - np.arange(m))
        score_error = eps * ((8 + 2 * np.sqrt(d)) * products + 8 * height + 4 * top + 8 * added + 4 * distance + 8)

        values = for_query_heads(abs(finite["v"]), q.shape[-3] if q.ndim > 2 else 1)
        sum_error = eps * (16 + 2 * np.sqrt(m)) + WEIGHT[name]
        mean = a @ values
        # A row's error also moves its sum of weights, and with that all of the row's output.
        row_error = (a * score_error).sum(axis=-1, keepdims=True)
        z_error = (a * score_error) @ values + (row_error + sum_error) * mean
        z_error += 2 * STORED[name] * abs(np.nan_to_num(z, posinf=0, neginf=0)) + SMALLEST[name] * (1 + mean)
        if name == "bf16":  # weights may be rounded to bf16 before the second product, each by itself
            z_error += 6 * STORED[name] * np.sqrt(a**2 @ values**2)
            z_error += 2 * STORED[name] * abs(np.nan_to_num(z, posinf=0, neginf=0))
        lse_error = row_error[..., 0] + sum_error + 8 * eps * abs(np.nan_to_num(lse, posinf=0, neginf=0))
        lse_error += 8 * eps * top[..., 0] + SMALLEST["f32" if name != "f64" else "f64"]
    return z, lse, z_error, lse_error


def near(what, got, want, error):
    """Within the error; NaN and inf exactly where they are wanted."""
    __tracebackhide__ = True
    assert got.shape == want.shape, f"{what} has shape {got.shape}, expected {want.shape}"
    got = wide(got)
    with np.errstate(invalid="ignore"):
        good = (got == want) | (np.isnan(got) & np.isnan(want)) | (abs(got - want) <= error)
    if not good.all():
        at = tuple(int(i) for i in np.argwhere(~good)[0])
        raise AssertionError(
            f"{what}: {(~good).sum()} of {good.size} are wrong, first at {at}: {got[at]!r}, "
            f"expected {want[at]!r} ± {np.broadcast_to(error, want.shape)[at]:.1e}"
        )


def check(q, k, v, *, mask=None, modify=None, like=None, **options):
    """Regard against the reference. `like` has the reference's own form of mask and modify, where it differs."""
    __tracebackhide__ = True
    z, lse = regard.attention(q, k, v, mask=mask, modify=modify, return_lse=True, **options)
    assert z.dtype == q.dtype
    assert lse.dtype == (np.float64 if q.dtype == np.float64 else np.float32)
    options.pop("out", None)
    compare(z, lse, q, k, v, **{"mask": mask, "modify": modify} | (like or {}), **options)
    return z, lse


def compare(z, lse, q, k, v, **options):
    __tracebackhide__ = True
    want_z, want_lse, z_error, lse_error = expected(q, k, v, **options)
    near("output", z, want_z, z_error)
    if lse is not None:
        near("lse", lse, want_lse, lse_error)
