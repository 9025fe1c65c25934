"""Calls whose arrays end, or begin, exactly where memory that may not be touched does; a stray read ends the process.

    python -m tests.attention.guarded f32

prints each case before it runs, so that after a crash the last line says which it was.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import sys
from contextlib import contextmanager

import numpy as np

import regard
from tests.attention.judge import DTYPES, compare, same_bits

PAGE = mmap.PAGESIZE
library = ctypes.CDLL(None, use_errno=True)
kept = []  # memory stays guarded until the process ends


def forbid(address):
    if library.mprotect(ctypes.c_void_p(address), PAGE, 0):  # 0 is PROT_NONE
        raise OSError(ctypes.get_errno(), "mprotect failed")


def room(count, dtype, end):
    """An array of `count` elements whose end (or beginning) lies at a forbidden page; the other side has one too."""
    dtype = np.dtype(dtype)
    size = count * dtype.itemsize
    pages = max(1, -(-size // PAGE))
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    forbid(start)
    forbid(start + (pages + 1) * PAGE)
    kept.append(memory)
    offset = PAGE + (pages * PAGE - size if end else 0)
    return np.frombuffer(memory, np.uint8, size, offset).view(dtype)


def guarded(x, end, gap=0):
    """A copy of x in guarded memory; with a gap, its rows stand apart and the last still ends at the page."""
    if not x.size:
        return room(0, x.dtype, end).reshape(x.shape)
    if gap and x.ndim >= 2:
        width = x.shape[-1]
        rows = x.size // width
        flat = room(rows * (width + gap) - gap, x.dtype, end)
        step = (width + gap) * x.itemsize
        strides = [step] * (x.ndim - 1) + [x.itemsize]
        for axis in range(x.ndim - 3, -1, -1):
            strides[axis] = strides[axis + 1] * x.shape[axis + 1]
        y = np.lib.stride_tricks.as_strided(flat, x.shape, strides)
    else:
        y = room(x.size, x.dtype, end).reshape(x.shape)
    y[...] = x
    return y


@contextmanager
def results_guarded(end):
    """What a call allocates for its results and for itself is guarded too."""
    plain = np.empty

    def empty(shape, dtype=float, *rest, **options):
        if not sys._getframe(1).f_globals["__name__"].startswith("regard"):
            return plain(shape, dtype, *rest, **options)
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        return room(int(np.prod(shape)), dtype, end).reshape(shape)

    np.empty = empty
    try:
        yield
    finally:
        np.empty = plain


SHAPES = [  # query heads, key heads, n_q, n_k, d, d_v
    (1, 1, 1, 1, 1, 1), (1, 1, 1, 3, 17, 5), (2, 1, 2, 129, 16, 33), (4, 2, 3, 67, 17, 5), (1, 1, 5, 8, 16, 33),
    (2, 1, 17, 31, 17, 5), (2, 2, 33, 131, 16, 33), (3, 1, 131, 127, 17, 5), (1, 1, 40, 256, 16, 33),
    (7, 1, 1, 1009, 16, 33), (8, 8, 1, 515, 1, 1), (8, 1, 1, 2049, 17, 5),
]  # fmt: skip


def cases(dtype, end):
    """Every shape as it is; masks, biases and what else is read, spread over the shapes.

    f64 and f16 meet each of them in fewer shapes: what reads them is written once, for any dtype.
    """
    rng = np.random.default_rng(0)
    other = dtype in ("f64", "f16")
    for number, (heads, key_heads, n_q, n_k, d, d_v) in enumerate(SHAPES):
        gap = (0, 3)[number % 2]

        def put(x, kind=dtype, gap=gap):
            return guarded(np.asarray(x).astype(DTYPES.get(kind, kind)), end, gap)

        q, k, v = (
            put(rng.normal(size=shape)) for shape in ((heads, n_q, d), (key_heads, n_k, d), (key_heads, n_k, d_v))
        )
        shape = f"{dtype}, ends at a page: {end}, heads {heads}/{key_heads}, {n_q} × {n_k}, d {d}, d_v {d_v}"
        yield shape, q, k, v, {}, {}
        turn = number % 3  # beside the gap, which goes by twos, so that each meets both
        if turn == 2 or (turn == 0 and not other):
            seen = rng.random((n_q, n_k)) < 0.7
            yield f"{shape}, mask", q, k, v, {"mask": put(seen, np.bool_)}, {"mask": seen}
            seen = rng.random((heads, 1, n_k)) < 0.7
            yield f"{shape}, mask of keys", q, k, v, {"mask": put(seen, np.bool_)}, {"mask": seen}
        if turn == 1 or (turn == 2 and not other):
            bias = rng.normal(size=(heads, n_q, n_k))
            for kind in sorted({dtype, "f32"}) if number in (4, 7) else (dtype,):  # few queries, and many
                x = put(bias, kind)
                yield f"{shape}, bias {kind}", q, k, v, {"bias": x}, {"bias": x}
        if number % 4 != 3 or (other and number == 3):  # few queries, many, and one: kernels of their own
            continue
        yield f"{shape}, causal", q, k, v, {"mask": regard.causal}, {"mask": regard.causal}
        mine, theirs = put(rng.integers(0, 2, n_q), np.int32), put(rng.integers(0, 2, n_k), np.int64)
        ids = regard.segments(mine, theirs)
        yield f"{shape}, segments", q, k, v, {"mask": ids}, {"mask": ids}
        lengths = regard.padding(put([n_k // 2], np.int64))
        yield f"{shape}, padding", q, k, v, {"mask": lengths}, {"mask": lengths}
        both = regard.causal & put(rng.random((n_q, n_k)) < 0.7, np.bool_)
        yield f"{shape}, causal and array", q, k, v, {"mask": both}, {"mask": both}
        table = put(rng.normal(size=n_q + n_k), np.float32)

        def added(score, b, h, q, k, table=table, last=n_q + n_k - 1):
            return score + table[np.minimum(abs(q - k), last)]

        slopes = put(rng.normal(size=heads) * 0.1, np.float32)
        yield (
            f"{shape}, table",
            q,
            k,
            v,
            {"modify": [added, regard.alibi(slopes)]},
            {"modify": [added, lambda s, b, h, q, k, slopes=slopes: s - slopes[h] * abs(q - k)]},
        )
        yield f"{shape}, sinks", q, k, v, {"sinks": put(np.ones(heads), np.float32)}, {"sinks": np.ones(heads)}
        # An array with keys reversed, so that strides go back from its last row to its first.
        yield f"{shape}, reversed", q, k[:, ::-1], v[:, ::-1], {}, {}
        yield f"{shape}, part of the rows", q[:, : n_q // 2 + 1], k, v, {}, {}


def main(dtype):
    faulthandler.enable()
    count = 0
    for end in (True, False):
        for what, q, k, v, options, like in cases(dtype, end):
            print(what, flush=True)
            out = guarded(np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype), end)
            with results_guarded(end):
                _, lse = regard.attention(q, k, v, return_lse=True, out=out, **options)
                z = regard.attention(q, k, v, return_lse=True, **options)[0]
            compare(out, lse, q, k, v, **like)
            same_bits(z, out, what)
            count += 1
    print(f"{count} calls stayed inside")


if __name__ == "__main__":
    if sys.argv[1] == "crash":  # so that a test can see that the guard holds
        room(3, np.float32, True)
        x = room(3, np.float32, True)
        print(ctypes.c_float.from_address(x.ctypes.data + 12).value)
    else:
        main(sys.argv[1])
