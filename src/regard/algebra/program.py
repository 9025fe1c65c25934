"""A tree becomes a program: one list of steps, with numbers and arrays apart from their shape.

Only the shape is compiled, so that a new length, window or table never is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.algebra.expression import Expression


@dataclass(frozen=True)
class Node:
    """One step of a program: what compiled code depends on, and nothing else."""

    operation: str
    operands: tuple[int, ...]
    kind: str
    slot: int = -1  # which constant or which array
    detail: str = ""  # a variable's name, an array's dtype
    depends: frozenset[str] = field(default=frozenset(), repr=False)  # the variables below it


@dataclass(frozen=True)
class Program:
    """Trees written as one list of steps, equal steps once: `nodes` and `roots` are the shape, the rest arguments."""

    nodes: tuple[Node, ...]
    roots: tuple[int, ...]
    constants: tuple[Any, ...]
    arrays: tuple[np.ndarray[Any, Any], ...]

    @property
    def shape(self) -> tuple[tuple[Node, ...], tuple[int, ...]]:
        return self.nodes, self.roots


def memory(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """What two views of the same memory have in common."""
    return array.__array_interface__["data"][0], array.shape, array.dtype.str


def linearize(*roots: Expression) -> Program:
    """The steps that compute these trees, operands before their users."""
    nodes: list[Node] = []
    places: dict[Any, int] = {}
    done: dict[int, int] = {}
    constants: list[Any] = []
    arrays: list[np.ndarray[Any, Any]] = []

    def place(x: Expression) -> int:
        if id(x) in done:
            return done[id(x)]
        operands = tuple(map(place, x.operands))
        slot, detail, key = -1, "", (x.operation, operands, x.kind)
        depends = frozenset().union(*(nodes[i].depends for i in operands))
        if x.operation == "variable":
            detail, depends = x.payload, frozenset([x.payload])
            identity: Any = (key, detail)
        elif x.operation == "constant":
            # Each has a slot of its own: that two happen to be equal is no part of the shape.
            identity = (key, len(constants))
        elif x.operation == "gather":
            identity = (key, memory(x.payload))
        else:
            identity = key
        if identity not in places:
            if x.operation == "constant":
                slot = len(constants)
                constants.append(x.payload)
            elif x.operation == "gather":
                slot = next((i for i, a in enumerate(arrays) if memory(a) == memory(x.payload)), len(arrays))
                if slot == len(arrays):
                    arrays.append(x.payload)
                detail = x.payload.dtype.name
            places[identity] = len(nodes)
            nodes.append(Node(x.operation, operands, x.kind, slot, detail, depends))
        done[id(x)] = places[identity]
        return places[identity]

    ends = tuple(map(place, roots))
    return Program(tuple(nodes), ends, tuple(constants), tuple(arrays))
