"""Attention of every kind, small enough to be traced, differentiated number by number, and printed."""

from __future__ import annotations

from typing import Any

import numpy as np

import regard
from regard import reference

WORDS = ["The", "cat", "chased", "mice"]

# 'The dog ate his dinner', as in many an introduction.
DOG = {
    "x": [[1.0, 2.0, 3.0], [0.5, 1.0, 1.5], [2.0, 1.0, 0.5]],
    "w_q": [[0.6, -0.2], [0.1, 0.5], [-0.3, 0.4]],
    "w_k": [[0.2, 0.3], [-0.4, 0.7], [0.5, -0.1]],
    "w_v": [[0.9, 0.1], [0.2, 0.8], [-0.1, 0.6]],
}
DINNER = ["dog", "ate", "dinner"]


def dog(**more: Any) -> Any:
    return regard.trace(**DOG, tokens=DINNER, **more)


def designed(**more: Any) -> Any:
    """The -> cat, cat -> sat, sat -> cat, down -> sat, each by a key of strength 8."""
    q = np.zeros((4, 4))
    q[range(4), [1, 2, 1, 2]] = 1
    return regard.trace(q=q, k=8 * np.eye(4), v=np.eye(4), tokens=["the", "cat", "sat", "down"], **more)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def projections(columns: tuple[int, int, int], d_model: int = 3) -> dict[str, Any]:
    return {
        name: numbers(d_model, n, seed=i)
        for i, (name, n) in enumerate(zip(("w_q", "w_k", "w_v"), columns, strict=True))
    }


def biases(columns: tuple[int, int, int, int]) -> dict[str, Any]:
    return {
        name: numbers(n, seed=i + 9)
        for i, (name, n) in enumerate(zip(("b_q", "b_k", "b_v", "b_o"), columns, strict=True))
    }


def variants() -> dict[str, dict[str, Any]]:
    """Arguments of trace by what is special about them."""
    x, c, b = numbers(4, 3), numbers(5, 3, seed=1), numbers(2, 4, 3, seed=2)
    one, two = projections((2, 2, 3)), projections((4, 4, 6))
    shared = projections((8, 4, 6))
    head = numbers(3, 4, 2, seed=5), numbers(3, 5, 2, seed=6), numbers(3, 5, 2, seed=7)
    return {
        "self": {"x": x, **one},
        "scale": {"x": x, **one, "scale": -0.7},
        "cross": {"x": x, "context": c, **one},
        "masked": {"x": x, **one, "mask": regard.causal},
        "array mask": {"x": x, **one, "mask": np.tril(np.ones((4, 4), bool), 1)},
        "empty row": {"x": x, **one, "mask": np.arange(4)[:, None] > np.arange(4)},
        "padded": {"x": b, **one, "mask": regard.padding(LENGTHS[4])},
        "projected": {"x": x, **one, "w_o": numbers(3, 2, seed=3), **biases((2, 2, 3, 2))},
        "heads": {"x": x, **two, "heads": 2, "w_o": numbers(6, 3, seed=3), **biases((4, 4, 6, 3))},
        "merged": {"x": x, **two, "heads": 2, "mask": regard.causal},
        "grouped": {"x": x, "context": c, **shared, "heads": 4, "w_o": numbers(12, 2, seed=4)},
        "all": {"x": b, "context": numbers(2, 5, 3, seed=8), **shared, "heads": 4, "w_o": numbers(12, 2, seed=4),
                "mask": regard.padding(LENGTHS[5]), "modify": regard.softcap(2.0), "sinks": numbers(4),
                "bias": numbers(4, 1, 5, seed=3)},
        "alibi": {"x": x, **two, "heads": 2, "modify": [regard.alibi([0.5, 0.25]), lambda s, b, h, q, k: s * s]},
        "given": {"q": head[0], "k": head[1], "v": head[2], "mask": regard.causal},
        "given, one": {"q": head[0][0], "k": head[1][0], "v": head[2][0], "bias": numbers(4, 5, seed=9)},
        "given, projected": {"q": head[0], "k": head[1], "v": head[2], "w_o": numbers(6, 2, seed=3)},
    }  # fmt: skip


DIFFERENTIATED = (
    "x",
    "context",
    "w_q",
    "w_k",
    "w_v",
    "w_o",
    "b_q",
    "b_k",
    "b_v",
    "b_o",
    "q",
    "k",
    "v",
    "bias",
    "sinks",
)


LENGTHS = {4: (2, 4), 5: (3, 5)}  # of the padded sequences, by the number of keys


def meaning(mask: Any, n_k: int) -> Any:
    """A mask of the variants as the reference takes it."""
    if mask is None or isinstance(mask, np.ndarray):
        return mask
    if mask is regard.causal:
        return lambda b, h, q, k: k <= q
    return lambda b, h, q, k: k < np.array(LENGTHS[n_k])[b]


def by_reference(given: dict[str, Any]) -> Any:
    """The last value, by `regard.reference` alone."""
    g = dict(given)
    g["mask"] = meaning(g.get("mask"), np.shape(g.get("context", g.get("x", g.get("k"))))[-2])
    modify = g.get("modify")
    if isinstance(modify, list):  # the slopes are a table, which the reference indexes as they are
        g["modify"] = [lambda s, b, h, q, k: s - np.array([0.5, 0.25])[h] * abs(q - k), modify[1]]
    if "x" in g:
        heads = g.pop("heads", 1)
        w_o = g.pop("w_o", None)
        if w_o is None:
            w_o = np.eye(g["w_v"].shape[1] * heads // (g["w_k"].shape[1] * heads // g["w_q"].shape[1]))
        return reference.multi_head(g.pop("x"), g.pop("w_q"), g.pop("w_k"), g.pop("w_v"), w_o, heads, **g)
    w_o = g.pop("w_o", None)
    z = reference.attention(g.pop("q"), g.pop("k"), g.pop("v"), **g)
    return z if w_o is None else reference.project(reference.merge_heads(z), w_o)
