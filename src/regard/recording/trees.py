"""Expression trees as JSON: a list of nodes, operands before their users, the root at the end; arrays stand apart.

>>> from regard import causal
>>> arrays = {}
>>> nodes = written(causal.condition, arrays)
>>> nodes
[['variable', 'k'], ['variable', 'q'], ['le', 0, 1]]
>>> read(nodes, arrays, "a mask")
(k <= q)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np

from regard.algebra.expression import COMPARISONS, SMOOTH, VARIABLES, Expression, combine, constant, gather, variable
from regard.algebra.program import memory
from regard.errors import RecordingError, RegardError

ARITY = dict.fromkeys(("add", "sub", "mul", "div", "floordiv", "mod", "minimum", "maximum", *COMPARISONS), 2)
ARITY |= {"and": 2, "or": 2, "not": 1, "neg": 1, "abs": 1, "where": 3} | dict.fromkeys(SMOOTH, 1)

MOST = 1 << 14  # nodes of a tree
DEEPEST = 400  # of a tree: what walks it calls itself

Array = np.ndarray[Any, Any]


def written(x: Expression, arrays: MutableMapping[str, Array]) -> list[list[Any]]:
    """The nodes of a tree; the arrays that it gathers from are put beside those that are there, under numbers."""
    nodes: list[list[Any]] = []
    places: dict[int, int] = {}
    depth: list[int] = []
    stack = [(x, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in places:
            continue
        if not ready:
            stack.append((node, True))
            stack += [(operand, False) for operand in reversed(node.operands)]
            continue
        below = [places[id(operand)] for operand in node.operands]
        places[id(node)] = len(nodes)
        depth.append(1 + max((depth[i] for i in below), default=0))
        if node.operation == "variable":
            nodes.append(["variable", node.payload])
        elif node.operation == "constant":
            number = node.payload
            nodes.append(["constant", number.hex() if isinstance(number, float) else number])
        elif node.operation == "gather":
            nodes.append(["gather", _named(node.payload, arrays), *below])
        else:
            nodes.append([node.operation, *below])
    if len(nodes) > MOST or depth[-1] > DEEPEST:
        raise RecordingError(
            f"an expression has {len(nodes)} steps, {depth[-1]} deep, expected at most {MOST}, {DEEPEST} deep: "
            "put numbers into an array and index it"
        )
    return nodes


def _named(array: Array, arrays: MutableMapping[str, Array]) -> str:
    """The name of an array: the one that it has, if it is there already."""
    for name, known in arrays.items():
        if name.isdecimal() and memory(known) == memory(array):
            return name
    name = str(sum(x.isdecimal() for x in arrays))
    arrays[name] = array
    return name


def read(nodes: Any, arrays: Mapping[str, Array], where: str) -> Expression:
    """The tree of some nodes; whatever they are, what comes out is a tree or one sentence."""
    if not isinstance(nodes, list) or not 0 < len(nodes) <= MOST:
        raise RecordingError(f"{where} has no nodes that this format knows, expected a list of 1 to {MOST}")
    made: list[Expression] = []
    depth: list[int] = []
    for number, node in enumerate(nodes):
        below = _operands(node, number)
        found: Expression | None = None
        if below is not None:
            try:
                found = _node(node, [made[i] for i in below], arrays)
            except RegardError:
                found = None
        if found is None or below is None:
            shown = repr(node)
            shown = shown if len(shown) < 60 else shown[:60] + "…"
            raise RecordingError(f"node {number} of {where} is {shown}, expected an operation over nodes before it")
        made.append(found)
        depth.append(1 + max((depth[i] for i in below), default=0))
        if depth[-1] > DEEPEST:
            raise RecordingError(f"{where} is more than {DEEPEST} nodes deep, expected at most so many")
    return made[-1]


def _operands(node: Any, number: int) -> list[int] | None:
    """The places of a node's operands, all before its own."""
    match node:
        case [("variable" | "constant"), _]:
            return []
        case ["gather", str(), _, *_]:
            below = node[2:]
        case [str(operation), *operands] if len(operands) == ARITY.get(operation, -1):
            below = operands
        case _:
            return None
    fine = all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < number for i in below)
    return below if fine else None


def _node(node: list[Any], below: list[Expression], arrays: Mapping[str, Array]) -> Expression | None:
    operation, payload = node[0], node[1]
    if operation == "variable":
        return variable(payload) if isinstance(payload, str) and payload in VARIABLES else None
    if operation == "constant":
        if isinstance(payload, str):
            return constant(real(payload))
        return constant(payload) if isinstance(payload, int) else None
    if operation == "gather":
        array = arrays.get(payload)
        return gather(array, below) if array is not None and payload.isdecimal() else None
    return combine(operation, *below)


def real(text: Any) -> float:
    """A number as `float.hex` writes it."""
    try:
        if isinstance(text, str) and len(text) < 40:
            number = float.fromhex(text)
            if number.hex() == text or math.isnan(number):
                return number
    except (ValueError, OverflowError):
        pass
    raise RecordingError(f"a number is {str(text)[:40]!r}, expected one as float.hex writes it")


def gathered_anew(x: Expression, change: Callable[[Array], Array]) -> Expression:
    """The tree with other arrays in place of those that it gathers from; each is changed once."""
    arrays: dict[str, Array] = {}
    nodes = written(x, arrays)
    return read(nodes, {name: change(array) for name, array in arrays.items()}, "a tree") if arrays else x
