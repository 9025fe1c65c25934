"""attention() as a call that can be made again, on heads that lie inside rows."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from regard.attention import repeated
from regard.problem import view


def inside(n: int, d: int, batch: int = 2, heads: int = 3):
    """q, k and v as an encoder has them, all in one array, and room for z with something beside it."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(batch, n, 3, heads, d)).astype(np.float32)
    room = np.full((batch, n, heads * d + 5), 7, np.float32)
    z = room[..., : heads * d].reshape(batch, n, heads, d).transpose(0, 2, 1, 3)  # (batch, heads, n, d)
    assert z.base is not None
    return rows, rows.transpose(2, 0, 3, 1, 4), room, z


@pytest.mark.parametrize(("n", "d"), [(1, 32), (5, 7), (8, 32), (9, 7), (67, 7), (300, 32)])
def test_it_writes_what_attention_gives_and_nothing_else(n, d):
    rows, (q, k, v), room, z = inside(n, d)
    assert view("q", q).address == rows.ctypes.data  # nothing is copied
    assert np.shares_memory(z, room)
    for mask in (None, regard.padding([n, max(1, n // 2)])):
        lse = np.zeros(q.shape[:-1])
        attend = repeated(q, k, v, z, mask, lse)
        for turn in range(2):
            rows *= 1 + turn
            attend()
            want, single = regard.attention(q, k, v, mask=mask, return_lse=True)
            assert np.array_equal(z, want)
            np.testing.assert_allclose(lse, single, rtol=1e-6, atol=1e-6)
            assert (room[..., -5:] == 7).all()
        repeated(q, k, v, z, mask)()
        assert np.array_equal(z, want)


def test_nothing_to_do():
    x = np.empty((0, 4), np.float32)
    repeated(x, x, x, x)()
