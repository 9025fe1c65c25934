"""Scores other than the dot product, brought to what the passes compute: projections made before, in f32 or f64.

>>> import numpy as np
>>> from regard.algebra.scores import general
>>> from regard.problem import view
>>> x = np.eye(2, dtype=np.float32)
>>> as_numpy(folded(general(2 * x), view("q", x), view("k", x), None).q).tolist()
[[2.0, 0.0], [0.0, 2.0]]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from regard.algebra.scores import Score, dot
from regard.errors import DtypeError
from regard.problem import DTYPES, View, view
from regard.results import Array, as_numpy


class Folded(NamedTuple):
    """What the passes are given."""

    q: View
    k: View
    v: View | None
    vector: Array | None  # (heads, d): w of an additive score
    scale: float | None  # the scale that is meant where none is given; None is 1/√d


def folded(score: Any, q: View, k: View, v: View | None) -> Folded:
    """Queries, keys and values as the passes compute with them; all as they are for a dot product."""
    if score is dot:
        return Folded(q, k, v, None, None)
    if not isinstance(score, Score):
        raise DtypeError(
            f"score is {score!r}, expected regard.dot, regard.general(W) or regard.additive(w, w_q, w_k): pass one"
        )
    number = np.float64 if q.storage == "f64" else np.float32
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x is not None and x.storage == "bool":
            raise DtypeError(f"{name} has dtype bool, expected numbers: convert it")
        if x is not None and x.storage != q.storage:
            raise DtypeError(
                f"{name} has dtype {DTYPES[x.storage]} and q has {DTYPES[q.storage]}, expected the same: convert one"
            )
    # Half-precision projections would be rounded once more: from here on they are f32.
    ours, theirs = (np.asarray(as_numpy(x), number) for x in (q, k))
    heads, key_heads = (x.shape[-3] if x.ndim > 2 else 1 for x in (ours, theirs))
    new_q, new_k, vector = score.fold(ours, theirs, heads, key_heads)
    values = None if v is None else view("v", np.asarray(as_numpy(v), number))
    return Folded(view("q", new_q), view("k", new_k), values, vector, None if score.scaled else 1.0)
