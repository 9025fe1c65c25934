"""The native reductions: each against NumPy on the weights of the same pass, on every target, and inside its arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.algebra.expression import constant, gather, variable
from regard.kernels.launch import reduce
from regard.kernels.target import NARROWED, host
from regard.kernels.wanted import Best, Bins, Rows, along, separated
from regard.weights import weights_of
from tests.attention.judge import normal

PAD = 64  # f64 before and after a guarded array
ROW, KEY = variable("row"), variable("k")
SHAPES = [(37, 41, None), (301, 333, regard.causal), (500, 350, regard.window(50, 20)), (1, 300, None), (77, 1, None)]


class Guarded(Bins):
    """Bins between numbers that any addition would change: -0 + 0 is not -0."""

    def make(self, instances: int, strips: int, rows: int, keep: list[Any]) -> list[int]:
        words = super().make(instances, strips, rows, keep)
        self.around = np.full(self._out.size + 2 * PAD, -0.0)
        inside = self.around[PAD:-PAD].reshape(self._out.shape)
        inside[...] = 0
        self._out = inside
        return [inside.ctypes.data, *words[1:]]

    def untouched(self) -> bool:
        return bool(np.signbit(self.around[:PAD]).all() and np.signbit(self.around[-PAD:]).all())


def everything(n_q: int, n_k: int) -> list[tuple[Any, Any, int, str, Any]]:
    """(expression of a bin, the same of arrays i and j, how many bins, pool, which cells count)."""
    rng = np.random.default_rng(7)
    ours, theirs = rng.integers(0, 3, n_q), rng.integers(0, 4, n_k)
    rows, columns = min(8, n_q), min(5, n_k)

    def place(i: Any, j: Any) -> Any:
        return ((i + 1) * rows - 1) // n_q * columns + ((j + 1) * columns - 1) // n_k

    return [
        (KEY, lambda i, j: j, n_k, "sum", None),
        (KEY, lambda i, j: j, n_k, "max", None),
        (KEY, lambda i, j: j, n_k, "sum", lambda i, j: i < n_q // 2),
        (ROW - KEY + (n_k - 1), lambda i, j: i - j + n_k - 1, n_q + n_k - 1, "sum", None),
        (ROW - KEY + (n_k - 1), lambda i, j: i - j + n_k - 1, n_q + n_k - 1, "max", None),
        (ROW, lambda i, j: i, n_q, "sum", None),
        (ROW, lambda i, j: i, n_q, "sum", lambda i, j: j % 3 == i % 3),
        (ROW * 1 + constant(0), lambda i, j: i, n_q, "sum", None),
        (gather(ours * 4, [ROW]) + gather(theirs, [KEY]), lambda i, j: ours[i] * 4 + theirs[j], 12, "sum", None),
        (gather(theirs, [KEY]), lambda i, j: theirs[j], 4, "sum", None),
        (place(ROW, KEY), place, rows * columns, "sum", None),
        (place(ROW, KEY), place, rows * columns, "max", None),
    ]


def binned(a: Any, index: Any, size: int, pool: str, counts: Any) -> Any:
    """(heads, n_q, n_k) -> (heads, size)."""
    i, j = np.arange(a.shape[1])[:, None], np.arange(a.shape[2])[None]
    where = np.broadcast_to(index(i, j), a.shape[1:]).ravel()
    out = np.zeros((len(a), size))
    for head, cells in zip(out, a.astype(np.float64), strict=True):
        given = cells if counts is None else np.where(counts(i, j), cells, 0)
        (np.add if pool == "sum" else np.maximum).at(head, where, given.ravel())
    return out


NARROW = {
    "x86-64-v2": ("f32", "f64"),
    "x86-64-v3": ("f32", "bf16"),
    "x86-64-v4": ("f32", "f64"),
    "x86-64-v4+bf16": ("bf16",),
}


@pytest.mark.parametrize("target", ["", *NARROWED])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_every_reduction(dtype: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_TARGET", target)
    try:
        host()
    except regard.RegardError as error:
        pytest.skip(str(error))
    if target and dtype not in NARROW[target]:
        pytest.skip("another machine has such code for it")
    # Weights are reduced as f32 or f64, whatever they were made from: every shape in one, on wide lanes and narrow.
    for n_q, n_k, mask in SHAPES if dtype == "f32" and target in ("", "x86-64-v2") else SHAPES[1:2]:
        q, k = normal((4, n_q, 16), dtype), normal((2, n_k, 16), dtype, 1)
        w = weights_of(q, k, None, mask=mask)
        a, s = (w.region(range(n_q), range(n_k), what) for what in ("cells", "scores"))
        cases = everything(n_q, n_k)
        bins = [
            Guarded(x, size, pool, None if counts is None else counts(ROW, KEY)) for x, _, size, pool, counts in cases
        ]
        wanted = [Rows("entropy"), Rows("largest"), Best(5), *bins]
        entropy, largest, (best, keys), *found = reduce(w.of, w.terms, w.q, w.k, w.lse_address, wanted)
        off = 1e-12 if dtype == "f64" else 2e-5
        wide = a.astype(np.float64)
        assert np.abs(entropy - (wide * np.log(np.where(wide > 0, wide, 1))).sum(-1)).max() < off
        assert np.array_equal(largest, s.max(-1).astype(np.float64))
        ranked = np.where(s > -np.inf, a, -1)
        order = np.argsort(-ranked, axis=-1, kind="stable")[..., :5]
        want = np.take_along_axis(ranked, order, -1)
        short = ((0, 0), (0, 0), (0, 5 - order.shape[-1]))
        assert np.array_equal(keys, np.pad(np.where(want < 0, -1, order), short, constant_values=-1))
        assert np.array_equal(best, np.pad(np.maximum(want, 0), short))
        for one, mine, (expression, index, size, pool, counts) in zip(bins, found, cases, strict=True):
            want = binned(a, index, size, pool, counts)
            assert np.abs(mine - want).max() <= (0 if pool == "max" else off * max(1, want.max())), (expression, pool)
            assert one.untouched(), (expression, pool)


def test_a_region_has_rows_and_keys_of_its_own() -> None:
    q, k = normal((3, 200, 8)), normal((3, 300, 8), seed=1)
    w = weights_of(q, k, None)
    a = w.region(range(200), range(300)).astype(np.float64)
    made = [Bins(ROW - 17, 100), Bins(KEY - 33, 100), Best(3)]
    rows, keys, (best, places) = reduce(w.of, w.terms, w.q, w.k, w.lse_address, made, (17, 100), (33, 100))
    part = a[:, 17:117, 33:133]
    assert np.abs(rows - part.sum(-1)).max() < 1e-6
    assert np.abs(keys - part.sum(-2)).max() < 1e-6
    assert np.array_equal(places[..., 0] - 33, part.argmax(-1))
    assert np.array_equal(best[..., 0], part.max(-1))


def test_bins_beyond_the_array_are_refused() -> None:
    x = normal((1, 20, 8))
    w = weights_of(x, x, None)
    w.lse()
    for index in (KEY + 1, KEY - 1, ROW + KEY):
        with pytest.raises(ValueError, match=r"^bins go from -?\d+ to \d+, expected them within 0 and 19$"):
            reduce(w.of, w.terms, w.q, w.k, w.lse_address, [Bins(index, 20)])


def test_bits_do_not_depend_on_threads() -> None:
    x = normal((3, 700, 16))
    w = weights_of(x, x, None, mask=regard.causal)
    w.lse()
    found = []
    try:
        for n in (1, 2, 3):
            regard.threads(n)
            made = [Bins(x, size, pool) for x, _, size, pool, counts in everything(700, 700) if counts is None]
            found.append(reduce(w.of, w.terms, w.q, w.k, w.lse_address, made))
    finally:
        regard.threads(0)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize(
    ("index", "kind"),
    [
        (KEY + 3, "keys"),
        (KEY * 2, "runs"),
        (ROW, "runs of rows"),
        (variable("q") - 2 + KEY // 3, "runs of rows"),
        (3 - KEY + ROW, "diagonals"),
        (ROW // 2, "runs of groups"),
        (ROW + ROW - KEY, "runs of groups"),
    ],
)
def test_how_bins_lie(index: Any, kind: str) -> None:
    assert along(*separated(index)) == kind


def test_a_bin_of_row_times_key_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a sum of a number of the row and a number of the key$"):
        Bins(ROW * KEY, 10)
