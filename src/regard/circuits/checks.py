"""A path-merging circuit held against networkx: what each row reaches after each layer, and in the end.

>>> from regard.circuits.path_merging import path_merging
>>> try:
...     print(check(path_merging([(0, 1), (1, 2), (2, 3), (3, 4)], rows="vertex")))
... except MissingError:
...     print("\\n".join(["start: all 5 rows hold ball(1)", "merge 1: all 5 rows hold ball(2)", "merge 2: all 5 rows "
...         "hold ball(4)", "end: the transitive closure"]))
start: all 5 rows hold ball(1)
merge 1: all 5 rows hold ball(2)
merge 2: all 5 rows hold ball(4)
end: the transitive closure
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from regard.circuits.graphs import need_networkx, networkx_of
from regard.circuits.path_merging import PathMerging
from regard.errors import MissingError  # noqa: F401  # the example reads it

Array = np.ndarray[Any, Any]


class Checked(NamedTuple):
    """After a layer: every row should hold all within `least` edges of its vertex, and nothing farther than `most`."""

    name: str
    least: int
    most: int
    rows: int
    wrong: int  # rows of which that is not so

    def __str__(self) -> str:
        balls = f"ball({self.most})"
        if self.least != self.most:
            balls = f"ball({self.least}) or more, and {balls} at most"
        if not self.wrong:
            return f"{self.name}: all {self.rows} rows hold {balls}"
        return f"{self.name}: {self.wrong} of {self.rows} rows do not hold {balls}"


@dataclass(frozen=True)
class Report:
    """What the check found."""

    layers: tuple[Checked, ...]
    closed: bool  # whether in the end the rows hold the transitive closure
    exact: bool  # whether every entry of every set is 0 or 1

    @property
    def passed(self) -> bool:
        return self.closed and self.exact and not any(layer.wrong for layer in self.layers)

    def __str__(self) -> str:
        lines = [str(layer) for layer in self.layers]
        lines.append(f"end: {'' if self.closed else 'not '}the transitive closure")
        if not self.exact:
            lines.append("some entries of the sets are neither 0 nor 1")
        return "\n".join(lines)


def check(circuit: PathMerging) -> Report:
    """Hold a circuit against networkx, which has to be installed: after each layer what every row reaches lies between
    two balls of `all_pairs_shortest_path_length`, which are the same with one row for each vertex; in the end it is
    `transitive_closure(reflexive=True)`. After m merges of an edge list the balls are those of 2ᵐ − 1 and 2ᵐ, with two
    heads of 3ᵐ⁻¹ and 3ᵐ."""
    networkx = need_networkx("check")
    graph = networkx_of(circuit.graph)
    there = np.flatnonzero(circuit.at >= 0)
    vertices, base = circuit.at[there], circuit.heads + 1
    found = []
    most = base ** max(0, len(circuit.states) - 1)
    away = np.full((len(circuit.graph.vertices),) * 2, most + 1, np.int64)
    for u, lengths in networkx.all_pairs_shortest_path_length(graph, cutoff=most):
        away[u, list(lengths)] = list(lengths.values())
    for after in range(len(circuit.states)):
        if circuit.form == "vertex":
            least = most = base**after
            name = "start" if not after else f"merge {after}"
        else:
            least = 0 if after < 2 else base ** (after - 2)
            if base == 2 and after:
                least = 2 ** (after - 1) - 1  # no less than half of `most` from the first merge on
            most = 0 if not after else base ** (after - 1)
            name = ("start", "carry")[after] if after < 2 else f"merge {after - 1}"
        reach, near = circuit.reach(after)[there], away[vertices]
        wrong = (reach < (near <= least)) | (reach > (near <= most))
        found.append(Checked(name, least, most, len(there), int(wrong.any(axis=1).sum())))
    closure = np.zeros_like(away, np.bool_)
    u, v = np.array(networkx.transitive_closure(graph, reflexive=True).edges, np.int64).reshape(-1, 2).T
    closure[u, v] = True
    closed = bool((circuit.reach()[there] == closure[vertices]).all())
    return Report(tuple(found), closed, circuit.exact)
