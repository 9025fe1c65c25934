"""Problems for property tests: shapes no one tuned for, laid out in memory in every way, with every option."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from hypothesis import strategies as st

import regard
from tests.attention.judge import DTYPES

# Each pair of widths is a kernel to compile, so there are few; 1, 0, primes and full vectors are among them.
WIDTHS = [(1, 1), (3, 5), (7, 4), (16, 17), (33, 32), (64, 64), (0, 3), (5, 0)]
QUERIES = [0, 1, 2, 3, 7, 13, 16, 17, 31, 33, 64, 67, 127, 131]
KEYS = [0, 1, 2, 5, 8, 31, 64, 97, 128, 129, 131, 257, 300]
HEADS = [None, (1, 1), (2, 2), (4, 2), (3, 1), (6, 2), (7, 1)]
LEADING = [(), (), (1,), (2,), (2, 3), (0,)]
LAYOUTS = (
    "plain", "heads inside", "last axis outside", "rows reversed", "columns reversed", "every other row",
    "part of wider rows", "heads reversed", "misaligned", "one row repeated", "read only",
)  # fmt: skip


def lay(x, layout):
    """The same numbers (but for "one row repeated"), placed in memory in some way."""
    if layout == "heads inside" and x.ndim > 2:  # (..., n, heads, d), as projections give them
        return np.ascontiguousarray(x.swapaxes(-3, -2)).swapaxes(-3, -2)
    if layout == "last axis outside":
        return np.ascontiguousarray(x.swapaxes(-2, -1)).swapaxes(-2, -1)
    if layout == "rows reversed":
        return np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :]
    if layout == "columns reversed":
        return np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    if layout == "every other row":
        room = np.full((*x.shape[:-2], 2 * x.shape[-2], x.shape[-1]), foreign(x.dtype), x.dtype)
        room[..., ::2, :] = x
        return room[..., ::2, :]
    if layout == "part of wider rows":
        room = np.full((*x.shape[:-1], x.shape[-1] + 5), foreign(x.dtype), x.dtype)
        room[..., 2:-3] = x
        return room[..., 2:-3]
    if layout == "heads reversed" and x.ndim > 2:
        return np.ascontiguousarray(x[..., ::-1, :, :])[..., ::-1, :, :]
    if layout == "misaligned":
        room = np.empty(x.nbytes + 1, np.uint8)
        room[1:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        return np.ndarray(x.shape, x.dtype, room.data, 1)
    if layout == "one row repeated" and x.shape[-2]:
        return np.broadcast_to(x[..., :1, :], x.shape)
    if layout == "read only":
        x = x.copy()
        x.flags.writeable = False
    return x


def foreign(dtype):
    """What stands between the rows of a view, and must not be read."""
    return True if dtype == np.bool_ else np.nan


# Masks and modifiers come as pairs: what Regard is given, and the same written out in NumPy for the reference.


def masks(which, rng, batch, heads, n_q, n_k, single):
    """A mask of some kind, and its meaning as f(b, h, q, k)."""
    offset = n_k - n_q
    if which == "causal":
        return regard.causal, lambda b, h, q, k: k <= q
    if which == "causal from the first":
        return regard.causal(align="first"), lambda b, h, q, k: k <= q - offset
    if which == "window":
        left, right = (int(x) for x in rng.integers(0, 40, 2))
        return regard.window(left, right), lambda b, h, q, k: (k >= q - left) & (k <= q + right)
    if which == "padding":
        lengths = rng.integers(0, n_k + 1, max(batch, 1))
        return regard.padding(lengths), lambda b, h, q, k: k < lengths[b]
    if which == "segments":
        if n_q > n_k:  # the first queries would stand before the first id
            which = "segments of two"
        else:
            ids = np.sort(rng.integers(0, 4, n_k))
            return regard.segments(ids), lambda b, h, q, k: ids[q] == ids[k]
    if which == "segments of two":
        mine, theirs = rng.integers(0, 3, (max(batch, 1), n_q)), rng.integers(0, 3, (max(batch, 1), n_k))
        return regard.segments(mine, theirs), lambda b, h, q, k: mine[b, q - offset] == theirs[b, k]
    if which == "prefix":
        n = int(rng.integers(0, n_k + 1))
        return regard.prefix(n), lambda b, h, q, k: k + 0 * q < n
    if which == "function":
        step, table = int(rng.integers(1, 5)), rng.integers(0, 3, heads)

        def chosen(b, h, q, k):
            return ((q - k) % step == 0) | (k == table[h])

        return regard.mask(chosen), chosen
    if which == "causal or prefix":
        n = int(rng.integers(0, n_k + 1))
        return regard.causal | regard.prefix(n), lambda b, h, q, k: (k <= q) | (k < n)
    if which == "not window and causal":
        return regard.causal & ~regard.window(5, 0), lambda b, h, q, k: (k <= q) & ~((k >= q - 5) & (k <= q))
    if which == "causal and array":
        array = rng.random((n_q, n_k)) < 0.7
        return regard.causal & array, lambda b, h, q, k: (k <= q) & array[q - offset, k]
    assert which == "causal and array of heads", which
    array = rng.random((1 if single else heads, 1, n_k)) < 0.7
    return regard.causal & array, lambda b, h, q, k: (k <= q) & array[h % len(array), 0, k]


MASKS = ("causal", "causal from the first", "window", "padding", "segments", "segments of two", "prefix", "function",
         "causal or prefix", "not window and causal", "causal and array", "causal and array of heads")  # fmt: skip


def modifiers(which, rng, heads):
    """A modifier of some kind, and its meaning as f(score, b, h, q, k)."""
    slopes = 2.0 ** -rng.integers(1, 6, heads)
    if which == "softcap":
        return regard.softcap(3.0), lambda s, b, h, q, k: 3 * np.tanh(s / 3)
    if which == "alibi":
        return regard.alibi(slopes), lambda s, b, h, q, k: s - slopes[h] * abs(q - k)
    if which == "softcap and alibi":
        both = [
            modifiers("softcap", rng, heads),
            (regard.alibi(slopes), lambda s, b, h, q, k: s - slopes[h] * abs(q - k)),
        ]
        return [x for x, _ in both], [x for _, x in both]
    if which == "function":

        def bent(s, b, h, q, k):
            return np.where((k + h) % 3 == 0, s * 0.5, np.minimum(s, 0.75) + 0.125)

        return bent, bent
    assert which == "hiding", which

    def hiding(s, b, h, q, k):
        return np.where((q + k) % 4 == 1, -np.inf, s)

    return hiding, hiding


MODIFIERS = ("softcap", "alibi", "softcap and alibi", "function", "hiding")


def broadcast_shape(draw, full):
    """A shape that broadcasts to `full`: some axes 1, some leading axes left out."""
    shape = [n if draw(st.booleans()) else 1 for n in full]
    return tuple(shape[draw(st.integers(0, len(full) - 2)) :])


@dataclass
class Case:
    """One call. What is drawn is printed; arrays are made from it."""

    dtype: str
    d: int
    d_v: int
    n_q: int
    n_k: int
    heads: tuple[int, int] | None
    leading: tuple[int, ...]
    shapes: list[tuple[int, ...]]
    layouts: list[str]
    seed: int
    scale: float | None = None
    mask: str = ""
    mask_shape: tuple[int, ...] | None = None
    mask_layout: str = "plain"
    modify: str = ""
    bias_shape: tuple[int, ...] | None = None
    bias_dtype: str = "f32"
    bias_layout: str = "plain"
    sinks: bool = False

    @property
    def filled(self):
        """No array of a mask or bias is without elements; these have a test of their own."""
        shapes = [shape for shape in (self.mask_shape, self.bias_shape) if shape is not None]
        if "segments" in self.mask or self.mask.startswith("causal and array"):
            shapes.append((self.n_q, self.n_k))
        return all(prod(shape) for shape in shapes)

    def make(self):
        """q, k, v; the options for Regard; and for the reference."""
        rng = np.random.default_rng(self.seed)
        q, k, v = (
            lay(rng.normal(size=shape).astype(DTYPES[self.dtype]), layout)
            for shape, layout in zip(self.shapes, self.layouts, strict=True)
        )
        query_heads = self.heads[0] if self.heads else 1
        options, like = {"scale": self.scale}, {"scale": self.scale}
        if self.mask == "array":
            mask = lay(rng.random(self.mask_shape) < 0.6, self.mask_layout)
            options["mask"] = like["mask"] = mask
        elif self.mask:
            sizes = prod(self.leading), query_heads, self.n_q, self.n_k
            options["mask"], like["mask"] = masks(self.mask, rng, *sizes, self.heads is None)
        if self.modify:
            options["modify"], like["modify"] = modifiers(self.modify, rng, query_heads)
        if self.bias_shape is not None:
            bias = rng.normal(size=self.bias_shape) * 2
            bias[rng.random(self.bias_shape) < 0.1] = -np.inf
            options["bias"] = like["bias"] = lay(bias.astype(DTYPES[self.bias_dtype]), self.bias_layout)
        if self.sinks:
            sinks = rng.normal(size=query_heads).astype(np.float32) * 2
            sinks[rng.random(query_heads) < 0.2] = -np.inf
            options["sinks"] = like["sinks"] = sinks
        return (q, k, v), options, like


@st.composite
def cases(draw, dtypes=tuple(DTYPES), widths=WIDTHS, queries=QUERIES, keys=KEYS, layouts=LAYOUTS, plain=False):
    """A call of any kind; a plain one has no mask, bias, modifier or sinks."""
    dtype, (d, d_v) = draw(st.sampled_from(dtypes)), draw(st.sampled_from(widths))
    n_q, n_k = draw(st.sampled_from(queries)), draw(st.sampled_from(keys))
    heads = draw(st.sampled_from(HEADS))
    leading = draw(st.sampled_from(LEADING)) if heads else ()
    ends = (n_q, d), (n_k, d), (n_k, d_v)
    shapes = []
    for number, end in enumerate(ends):
        if heads is None:
            shapes.append(end)
            continue
        own = leading
        if leading and number != draw(st.integers(0, 2)):  # leave out axes, or make them 1; the others broadcast it
            own = tuple(n if draw(st.booleans()) else 1 for n in leading)[draw(st.integers(0, len(leading))) :]
        shapes.append((*own, heads[0] if number == 0 else heads[1], *end))
    leading = np.broadcast_shapes(*(shape[:-3] for shape in shapes)) if heads else ()
    case = Case(
        dtype, d, d_v, n_q, n_k, heads, leading, shapes,
        [draw(st.sampled_from(layouts)) for _ in ends], draw(st.integers(0, 1 << 16)),
    )  # fmt: skip
    case.scale = draw(st.sampled_from([None, None, 0.5, -0.25, 0.0, 1]))
    if plain:
        return case
    full = (*leading, heads[0], n_q, n_k) if heads else (n_q, n_k)
    case.mask = draw(st.sampled_from(["", "array", "array", *MASKS]))
    if case.mask == "array":
        case.mask_shape, case.mask_layout = broadcast_shape(draw, full), draw(st.sampled_from(LAYOUTS))
    case.modify = draw(st.sampled_from(["", "", "", *MODIFIERS]))
    if draw(st.integers(0, 2)) == 0:
        case.bias_shape, case.bias_layout = broadcast_shape(draw, full), draw(st.sampled_from(LAYOUTS))
        case.bias_dtype = draw(st.sampled_from(["f32", dtype]))
    case.sinks = draw(st.integers(0, 3)) == 0
    return case
