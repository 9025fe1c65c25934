"""Graphs to search: from networkx, from a list of edges, or from the tokens of Saparov et al., 'Transformers Struggle
to Learn to Search': shuffled triples `E u v`, one for each edge, and then `Q s g P`, which asks for a path from s to g.

>>> read([("a", "b"), ("b", "c")])
Graph(vertices=('a', 'b', 'c'), edges=((0, 1), (1, 2)), query=None)
>>> read("E 5 7 E 3 5 Q 3 7 P")
Graph(vertices=('5', '7', '3'), edges=((0, 1), (2, 0)), query=(2, 1))
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.errors import DtypeError, MissingError, ShapeError, TokenError

Vertex = Hashable
EDGE, ASK, END = "E", "Q", "P"  # the tokens that are no vertices


@dataclass(frozen=True)
class Graph:
    """Vertices by name, and edges and the query as pairs of their places."""

    vertices: tuple[Vertex, ...]
    edges: tuple[tuple[int, int], ...]
    query: tuple[int, int] | None = None

    def name(self, place: int) -> str:
        """A vertex as a token."""
        return str(self.vertices[place])

    def place(self, vertex: Vertex) -> int:
        """Where a vertex stands."""
        try:
            return self.vertices.index(vertex)
        except ValueError:
            raise TokenError(
                f"{vertex!r} is not in the graph, expected one of its {len(self.vertices)} vertices"
            ) from None

    def asking(self, query: Any) -> Graph:
        """The graph with a query (s, g)."""
        if not isinstance(query, (tuple, list)) or len(query) != 2:
            raise ShapeError(f"query is {query!r}, expected two vertices: pass query=(start, goal)")
        s, g = map(self.place, query)
        if s == g:
            raise ShapeError(f"query goes from {query[0]!r} to itself, expected two vertices: pass different ones")
        return replace(self, query=(s, g))


def read(graph: Any, query: Any = None) -> Graph:
    """A graph in any of its forms. What is undirected goes both ways. An edge from a vertex to itself is left out, for
    no path takes one; an edge that is given twice stays twice."""
    if isinstance(graph, Graph):
        made = graph
    elif is_networkx(graph):
        both = () if graph.is_directed() else ((v, u) for u, v in graph.edges())
        made = _made(graph.nodes(), (*graph.edges(), *both))
    elif is_tokens(graph):
        made = _from_tokens(graph.split() if isinstance(graph, str) else list(graph))
    else:
        pairs = _pairs(graph)
        made = _made((v for pair in pairs for v in pair), pairs)
    if query is not None:
        made = made.asking(query)
    return made


def is_networkx(graph: Any) -> bool:
    """Whether it is a graph of networkx, or behaves like one."""
    return all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed"))


def is_tokens(graph: Any) -> bool:
    """Whether it is written in tokens: a string, or a list that begins with E or Q."""
    if isinstance(graph, str):
        return True
    first = graph[0] if isinstance(graph, (list, tuple)) and graph else None
    return isinstance(first, str) and first in (EDGE, ASK)


def _made(vertices: Iterable[Any], edges: Iterable[tuple[Any, Any]]) -> Graph:
    places = {v: i for i, v in enumerate(dict.fromkeys(vertices))}
    return Graph(tuple(places), tuple((places[u], places[v]) for u, v in edges if u != v))


def _pairs(graph: Any) -> list[tuple[Any, Any]]:
    given = graph.tolist() if isinstance(graph, np.ndarray) else graph
    try:
        found = [tuple(pair) for pair in given if not isinstance(pair, str)]
    except TypeError:
        found = [()]
    if len(found) != len(given if hasattr(given, "__len__") else found) or any(len(pair) != 2 for pair in found):
        raise DtypeError(
            f"graph is {graph!r:.60}, expected a networkx graph, a list of edges (u, v), or tokens such as "
            "'E 3 5 E 5 7 Q 3 7 P': pass one of them"
        )
    return [(pair[0], pair[1]) for pair in found]


def _from_tokens(tokens: list[Any]) -> Graph:
    asked = tokens.index(ASK) if ASK in tokens else len(tokens)
    triples, rest = tokens[:asked], tokens[asked:]
    names = {EDGE, ASK, END}
    heads, sources, targets = triples[0::3], triples[1::3], triples[2::3]
    good = len(heads) == len(targets) and all(x == EDGE for x in heads)
    good = good and not names & {*sources, *targets} and (not rest or (len(rest) == 4 and rest[3] == END))
    if not good:
        text = " ".join(map(str, tokens))
        raise TokenError(f"the tokens are '{text:.60}', expected triples 'E u v' and then 'Q s g P': write them so")
    pairs = list(zip(sources, targets, strict=True))
    made = _made((v for pair in (*pairs, rest[1:3]) for v in pair), pairs)
    return made.asking(tuple(rest[1:3])) if rest else made


def tokens(graph: Any, query: Any = None, seed: int | None = None) -> list[str]:
    """A graph in the tokens of the paper, its edges shuffled if there is a seed.

    >>> " ".join(tokens([(3, 5), (5, 7)], query=(3, 7)))
    'E 3 5 E 5 7 Q 3 7 P'
    """
    made = read(graph, query)
    names = [made.name(v) for v in range(len(made.vertices))]
    if len({EDGE, ASK, END, *names}) < len(names) + 3:
        raise TokenError(
            f"vertices are named {names!r:.60}, expected names that differ and are not E, Q, P: rename them"
        )
    order = np.arange(len(made.edges)) if seed is None else np.random.default_rng(seed).permutation(len(made.edges))
    found = [t for i in order for t in (EDGE, made.name(made.edges[i][0]), made.name(made.edges[i][1]))]
    if made.query is not None:
        found += [ASK, *map(made.name, made.query), END]
    return found


def distances(graph: Graph, start: int, back: bool = False) -> dict[int, int]:
    """How many edges away each vertex is that `start` reaches; with `back`, that reaches `start`.

    >>> distances(read([(0, 1), (1, 2), (0, 2)]), 0)
    {0: 0, 1: 1, 2: 1}
    """
    ways: dict[int, list[int]] = {}
    for u, v in graph.edges:
        ways.setdefault(v if back else u, []).append(u if back else v)
    found, edge = {start: 0}, [start]
    while edge:
        further = []
        for u in edge:
            for v in ways.get(u, ()):
                if v not in found:
                    found[v] = found[u] + 1
                    further.append(v)
        edge = further
    return found


def farthest(graph: Graph) -> int:
    """D: the largest distance between two vertices of which the first reaches the second.

    >>> farthest(read([(0, 1), (1, 2), (2, 3)]))
    3
    """
    # Sets as the bits of a number: each round lets every vertex take over the sets of those that follow it.
    balls = [1 << v for v in range(len(graph.vertices))]
    rounds, edges = 0, set(graph.edges)
    while True:
        further = list(balls)
        for u, v in edges:
            further[u] |= balls[v]
        if further == balls:
            return rounds
        balls, rounds = further, rounds + 1


def random_graph(vertices: int, seed: int = 0, cyclic: bool = False) -> Graph:
    """A random graph with long paths and a query about the longest of them: each vertex follows one of the two before
    it, and one in three follows another as well. With `cyclic`, one in eight leads back.

    >>> random_graph(8, seed=1) == random_graph(8, seed=1)
    True
    """
    if isinstance(vertices, bool) or not isinstance(vertices, int) or vertices < 2:
        raise DtypeError(f"vertices is {vertices!r}, expected a whole number from 2 up")
    rng = np.random.default_rng(seed)
    pairs = {(int(rng.integers(max(0, v - 2), v)), v) for v in range(1, vertices)}
    for v in range(1, vertices):
        if rng.random() < 1 / 3:
            pairs.add((int(rng.integers(0, v)), v))
        if cyclic and rng.random() < 1 / 8:
            pairs.add((v, int(rng.integers(0, v))))
    edges = sorted(pairs)
    edges = [edges[i] for i in rng.permutation(len(edges))]
    made = Graph(tuple(range(vertices)), tuple(edges))
    reached = distances(made, 0)
    return replace(made, query=(0, max(reached, key=lambda v: (reached[v], -v))))


def networkx_of(graph: Graph) -> Any:
    """The same as a graph of networkx, where that is installed; vertices are numbered by their places."""
    networkx = need_networkx("a networkx graph")
    made = networkx.DiGraph()
    made.add_nodes_from(range(len(graph.vertices)))
    made.add_edges_from(graph.edges)
    return made


def need_networkx(what: str) -> Any:
    """networkx, or how to get it."""
    try:
        import networkx
    except ImportError as error:
        raise MissingError(
            f"{what} needs networkx, which cannot be imported ({error}): pip install 'regard[circuits]'"
        ) from error
    return networkx


def doublings(steps: int, base: int = 2) -> int:
    """How often 1 has to be multiplied by `base` to be `steps` or more: the logarithm, rounded up, in whole numbers.

    >>> [doublings(n) for n in (0, 1, 2, 3, 8, 9)], doublings(27, 3)
    ([0, 0, 1, 2, 3, 4], 3)
    """
    count, reached = 0, 1
    while reached < steps:
        count, reached = count + 1, reached * base
    return count


def bits(count: int) -> int:
    """How many binary digits tell so many places apart, at least one.

    >>> bits(1), bits(2), bits(3), bits(1024), bits(1025)
    (1, 1, 2, 10, 11)
    """
    return max(1, (count - 1).bit_length())
