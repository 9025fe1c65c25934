"""An expression's value on NumPy arrays: what it means, and the oracle of what is compiled from it.

>>> from regard.algebra.tracing import trace
>>> near = trace(lambda b, h, q, k: abs(q - k) <= 1, "b h q k")
>>> evaluate(near, q=np.arange(3)[:, None], k=np.arange(3)).astype(int)
array([[1, 1, 0],
       [1, 1, 1],
       [0, 1, 1]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.algebra.expression import Expression

Array = Any


def floor_divide(a: Array, b: Array) -> Array:
    """The quotient rounded down; by the whole number 0 it is 0."""
    if np.result_type(a, b).kind == "f":
        return np.floor(np.true_divide(a, b))
    safe = np.where(b == 0, 1, b)
    return np.where(b == 0, 0, np.floor_divide(a, safe))


def modulo(a: Array, b: Array) -> Array:
    """What the rounded-down quotient leaves, with the sign of the divisor; by the whole number 0 it is 0."""
    if np.result_type(a, b).kind == "f":
        return a - b * np.floor(np.true_divide(a, b))
    safe = np.where(b == 0, 1, b)
    return np.where(b == 0, 0, np.remainder(a, safe))


MEANING: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floordiv": floor_divide,
    "mod": modulo,
    "neg": np.negative,
    "abs": np.abs,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "where": np.where,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x))),
}
NUMBERS = {"bool": np.bool_, "int": np.int64, "float": np.float64}


def evaluate(x: Expression, **variables: Any) -> Array:
    """The value of an expression, its variables given as arrays that broadcast: int64, and float64."""
    done: dict[int, Array] = {}

    def number(node: Expression, kind: str) -> Array:
        """A condition counts as 0 or 1 in arithmetic, a whole number as a float beside floats."""
        value = visit(node)
        return value if node.kind == kind else np.asarray(value).astype(NUMBERS[kind])

    def visit(node: Expression) -> Array:
        if id(node) in done:
            return done[id(node)]
        value: Array
        if node.operation == "variable":
            value = np.asarray(variables[node.payload], NUMBERS[node.kind])
        elif node.operation == "constant":
            value = np.asarray(node.payload, NUMBERS[node.kind])
        elif node.operation == "gather":
            places = [
                np.clip(number(i, "int"), 0, n - 1) for i, n in zip(node.operands, node.payload.shape, strict=True)
            ]
            value = node.payload[tuple(places)].astype(NUMBERS[node.kind])
        elif node.operation == "where":
            condition, yes, no = node.operands
            value = np.where(visit(condition), number(yes, node.kind), number(no, node.kind))
        else:
            kinds = {i.kind for i in node.operands}
            common = "float" if "float" in kinds or node.kind == "float" else "int" if kinds != {"bool"} else "bool"
            if node.kind == "int":
                common = "int"
            value = MEANING[node.operation](*(number(i, common) for i in node.operands))
        done[id(node)] = value
        return value

    with np.errstate(all="ignore"):
        return visit(x)
