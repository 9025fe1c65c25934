"""Errors against float64, of Regard and of PyTorch on the same data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .peers import Array, from_tensor, tensor
from .works import Error

ROWS = 64  # of the float64 matrix at a time: 64 MB at 131072 keys


def exact(q: Array, k: Array, v: Array) -> Array:
    """The equations in float64, some rows at a time."""
    out = np.empty((*q.shape[:-1], v.shape[-1]), np.float64)
    for head in range(len(q)):
        keys, values = k[head].astype(np.float64), v[head].astype(np.float64)
        for start in range(0, q.shape[1], ROWS):
            rows = slice(start, start + ROWS)
            scores = (q[head, rows].astype(np.float64) / math.sqrt(q.shape[-1])) @ keys.T
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[head, rows] = (weights @ values) / weights.sum(-1, keepdims=True)
    return out


def errors(result: Array, truth: Array) -> dict[str, float]:
    difference = np.abs(result.astype(np.float64) - truth)
    return {"rms": float(np.sqrt(np.mean(difference**2))), "max": float(difference.max())}


def measure(regard: Any, work: Error) -> dict[str, dict[str, float]]:
    import torch

    q, k, v = work.problem.arrays(seed=2, spread=work.spread)
    truth = exact(q, k, v)
    peer = torch.nn.functional.scaled_dot_product_attention(*(tensor(x)[None] for x in (q, k, v)))
    return {"Regard": errors(regard.attention(q, k, v), truth), "PyTorch": errors(from_tensor(peer), truth)}
