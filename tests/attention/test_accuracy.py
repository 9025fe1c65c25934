"""Rounding errors beside those of PyTorch on the same data."""

import numpy as np
import pytest

import regard
from regard import reference
from tests.attention.judge import DTYPES, normal, wide

torch = pytest.importorskip("torch")


def rms(x):
    return np.sqrt(np.mean(np.square(x)))


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_errors_are_no_larger_than_torch(dtype, times):
    q, k, v = (normal((1, 8, 512, 64), dtype, seed) for seed in range(3))
    q = (q * DTYPES[dtype].type(times)).astype(q.dtype)
    exact = reference.attention(wide(q), wide(k), wide(v))
    kind = torch.float32 if dtype == "f32" else torch.bfloat16
    tensors = [torch.from_numpy(x.astype(np.float32)).to(kind) for x in (q, k, v)]
    theirs = torch.nn.functional.scaled_dot_product_attention(*tensors).double().numpy() - exact
    ours = wide(regard.attention(q, k, v)) - exact
    assert rms(ours) <= 1.1 * rms(theirs), f"{rms(ours):.3e}, {rms(ours) / rms(theirs):.3f} times torch's"
    assert abs(ours).max() <= 1.5 * abs(theirs).max(), f"{abs(ours).max() / abs(theirs).max():.3f} times torch's"
