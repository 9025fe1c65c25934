"""Path-merging held against networkx: every layer, the end, the answer, what ablation finds, and controls that fail."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest

from regard import circuits
from regard.circuits.checks import check
from regard.circuits.graphs import doublings, farthest, random_graph, read
from regard.circuits.path_merging import exact_strength, path_merging
from regard.cli import main
from regard.errors import DtypeError, MissingError, QuestionError, ShapeError, TokenError


def dag(n: int, p: float, seed: int) -> Any:
    made = nx.DiGraph([(u, v) for u, v in nx.gnp_random_graph(n, p, seed=seed, directed=True).edges if u < v])
    made.add_nodes_from(range(n))  # some without an edge
    return made


N = 24  # vertices of most graphs here: kernels are compiled for a width, and so there are few to compile

GRAPHS = {
    "path": nx.path_graph(N, create_using=nx.DiGraph),
    "tree": nx.full_rary_tree(2, N, create_using=nx.DiGraph),
    "dag": dag(N, 0.08, 3),
    "cycle": nx.cycle_graph(N, create_using=nx.DiGraph),
    "cyclic": nx.gnp_random_graph(N, 0.08, seed=4, directed=True),
    "undirected": nx.random_labeled_tree(N, seed=1),
    "one edge": nx.empty_graph(N, create_using=nx.DiGraph),
    "no edge": nx.empty_graph(N, create_using=nx.DiGraph),
}
GRAPHS["one edge"].add_edge(3, 2)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("rows", ["vertex", "edge"])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_layer_holds_its_balls(name: str, rows: Any, heads: int) -> None:
    circuit = path_merging(GRAPHS[name], rows=rows, heads=heads)
    report = check(circuit)
    assert report.passed, str(report)
    merges = doublings(farthest(circuit.graph), heads + 1)
    if rows == "edge" and circuit.graph.edges:
        assert len(circuit.layers) == 1 + 1 + merges
    elif rows == "vertex":
        assert len(circuit.layers) == merges


def test_sets_are_what_networkx_finds_by_name() -> None:
    graph = GRAPHS["dag"]
    circuit = path_merging(graph)
    for after in range(len(circuit.states)):
        near = dict(nx.all_pairs_shortest_path_length(graph, cutoff=2**after))
        assert circuit.sets(after) == {v: frozenset(near[v]) for v in graph}
    closure = nx.transitive_closure(graph, reflexive=True)
    assert circuit.sets() == {v: frozenset(closure[v]) for v in graph}


def test_a_thousand_vertices() -> None:
    graph = random_graph(1000, seed=1, cyclic=True)
    circuit = path_merging(graph, rows="vertex")
    report = check(circuit)
    assert report.passed, str(report)
    tripled = path_merging(graph, rows="vertex", heads=2)
    assert tripled.merges < circuit.merges
    assert (tripled.reach() == circuit.reach()).all()
    assert tripled.answer == circuit.answer is not None


def test_a_path_of_a_thousand_vertices_takes_ten_merges() -> None:
    circuit = path_merging([(i, i + 1) for i in range(999)], query=(0, 999), rows="vertex")
    assert len(circuit.layers) == 10 + 1
    assert circuit.answer == 1
    assert [len(circuit.sets(after)[0]) for after in range(11)] == [*(2**i + 1 for i in range(10)), 1000]


def test_an_edge_list_of_a_thousand_vertices() -> None:
    circuit = path_merging(nx.balanced_tree(9, 3, create_using=nx.DiGraph), query=(0, 800), rows="edge")
    assert (len(circuit.graph.vertices), len(circuit.names)) == (820, 3 * 819 + 4)
    report = check(circuit)
    assert report.passed, str(report)
    assert circuit.graph.edges[0][0] == 0
    assert circuit.answer in range(1, 10)


# Answers.


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("rows", ["vertex", "edge"])
@pytest.mark.parametrize("name", ["path", "tree", "dag", "cycle", "cyclic"])
def test_answers_are_all_the_next_vertices_on_a_path(name: str, rows: Any, heads: int) -> None:
    graph = GRAPHS[name]
    closure = nx.transitive_closure(graph, reflexive=True)
    busy = [v for v in graph if graph.degree(v)]
    rng = np.random.default_rng(0)
    for i in range(3):
        s, g = (busy[j] for j in rng.choice(len(busy), 2, replace=False))
        circuit = path_merging(graph, query=(s, g), rows=rows, heads=heads)
        right = {w for w in graph[s] if closure.has_edge(w, g)}
        assert set(circuit.answers) == right
        assert (circuit.answer in right) if right else circuit.answer is None
        if not i:
            assert check(circuit).passed  # the row that asks changes nothing for the others


def test_the_tokens_of_the_paper() -> None:
    text = "E 14 3 E 7 9 E 3 7 E 3 1 Q 14 9 P"
    circuit = path_merging(text)
    assert circuit.names == tuple(text.split())
    assert circuit.answer == "3"
    assert path_merging(text.split()).answer == "3"
    graph = random_graph(12, seed=3)
    shuffled = circuits.tokens(graph, seed=5)
    assert shuffled != circuits.tokens(graph)
    assert sorted(shuffled) == sorted(circuits.tokens(graph))
    assert path_merging(shuffled).answer == str(path_merging(graph, rows="edge").answer)


def test_graphs_in_other_forms() -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "c")]
    assert read(edges).edges == ((0, 1), (1, 2))  # no path takes the edge from c to itself
    assert read(np.array([[3, 1], [1, 2]])).vertices == (3, 1, 2)
    assert set(read(nx.Graph([(0, 1)])).edges) == {(0, 1), (1, 0)}
    assert path_merging(edges).form == "edge"
    assert path_merging(nx.DiGraph(edges)).form == "vertex"
    assert path_merging([]).sets() == {}
    assert "0 vertices" in str(path_merging([]))


# What the layers are made of.


def test_layers_are_what_is_said_of_them() -> None:
    circuit = path_merging("E a b E b c E c d Q a d P")
    t = 13
    x = circuit.states[1]
    assert circuit.strength == exact_strength(t) == 2 * math.log(t) + math.log(4)
    assert x.array().shape == (t, x.width) == (t, 3 * 16 + 3 * 4)  # 7 tokens, filled up; 4 digits tell 13 rows apart
    merge = circuit.layers[1]
    np.testing.assert_array_equal(merge.q, np.float32(circuit.strength) * x.reach)
    assert merge.keys is x.token
    assert merge.values is x.reach
    a = merge.matrix.build()
    np.testing.assert_allclose(a.sum(-1), 1, atol=1e-6)
    y = a @ x.reach
    np.testing.assert_array_equal(np.clip(2 * t * y - 0.5, 0, 1), circuit.states[2].reach)
    carry = circuit.layers[0]
    assert carry.heads == 2
    assert carry.matrix.shape == (2, t, t)
    assert carry.matrix.build().max(-1) == pytest.approx(1, abs=1e-3)
    assert circuit.layers[-1].matrix.shape == (1, t)


def test_bright_cells_are_the_matches() -> None:
    circuit = path_merging(GRAPHS["dag"])
    for i, layer in enumerate(circuit.layers):
        reach = circuit.reach(i)
        matches = set(zip(*np.nonzero(reach), strict=True))
        assert {(c.query, c.key) for c in circuit.cells(i)} == matches
        assert len(layer.cells()) == len(matches)


@pytest.mark.parametrize("t", [2, 3, 10, 1000])
def test_the_strength_is_hardly_more_than_is_needed(t: int) -> None:
    """One row that matches itself only, and holds nothing that all others hold."""
    needed = math.log((4 * t - 1) * (t - 1))
    assert 0 < exact_strength(t) - needed < 2 / t

    def leaks(c: float) -> bool:
        return bool(2 * t * (t - 1) / (math.exp(c) + t - 1) - 0.5 > 0)

    assert leaks(needed - 1e-6)
    assert not leaks(needed + 1e-6)
    assert not leaks(exact_strength(t))


# Controls: they must fail.


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("rows", ["vertex", "edge"])
def test_one_layer_too_few_is_too_few(rows: Any, heads: int) -> None:
    steps = {1: 16, 2: 9}[heads]
    graph = nx.path_graph(steps + 1, create_using=nx.DiGraph)
    graph.add_edges_from((0, v) for v in range(steps + 1, N))  # rows of 0 that are not of the path
    query = (0, steps)
    enough = path_merging(graph, query, rows=rows, heads=heads)
    fewer = path_merging(graph, query, rows=rows, heads=heads, merges=enough.merges - 1)
    assert check(enough).closed
    assert not check(fewer).closed
    # What follows the start is a step nearer, and one merge too few is enough for it; two are not.
    fewest = path_merging(graph, query, rows=rows, heads=heads, merges=enough.merges - 2)
    assert enough.answer == 1
    assert fewest.answer is None


@pytest.mark.parametrize("rows", ["vertex", "edge"])
@pytest.mark.parametrize("name", ["path", "tree", "cyclic"])
def test_a_strength_too_small_is_no_union(name: str, rows: Any) -> None:
    count = len(path_merging(GRAPHS[name], rows=rows).names)
    report = check(path_merging(GRAPHS[name], rows=rows, strength=math.log(count)))
    assert not report.passed
    assert any(layer.wrong for layer in report.layers)
    assert "do not hold" in str(report)


def test_without_the_clamp_two_heads_do_not_triple() -> None:
    graph = GRAPHS["cyclic"]
    with_it, without = (check(path_merging(graph, heads=2, clamp=clamp)) for clamp in (True, False))
    assert with_it.passed
    assert not without.passed
    assert without.layers[1].wrong


def test_the_check_sees_a_single_wrong_entry() -> None:
    circuit = path_merging(GRAPHS["path"])
    circuit.states[2].reach[5, 3] = 1
    report = check(circuit)
    assert report.layers[2].wrong == 1
    assert not report.passed


# Ablation.


def test_a_zeroed_cell_brings_nothing_and_leaves_the_others() -> None:
    circuit = path_merging([(0, 1), (1, 2), (2, 3), (3, 4)], query=(0, 4), rows="vertex")
    assert circuit.ablate([]) is circuit
    cut = circuits.ablate(circuit, [(0, 1, 2)])  # in the first merge 1 does not look at 2
    assert cut.sets(1)[1] == {1, 2}
    assert circuit.sets(1)[1] == {1, 2, 3}
    assert cut.sets(1)[0] == circuit.sets(1)[0]
    whole = circuit.layers[0]
    a = whole.matrix.build()
    a[1, 2] = 0
    np.testing.assert_allclose(cut.layers[0].output(), a @ whole.values, atol=1e-6)
    both = cut.ablate([(0, 0, 0, 1)])
    assert both.removed == ((0, 0, 1, 2), (0, 0, 0, 1))
    assert both.sets(1)[1] == {1, 2}


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("rows", ["vertex", "edge"])
def test_the_explanation_is_needed_and_enough(rows: Any, heads: int) -> None:
    circuit = path_merging(replace(random_graph(7, seed=2), vertices=tuple(range(N))), rows=rows, heads=heads)
    found = circuits.explain(circuit)
    bright = circuit.cells()
    assert found.bright == len(bright) == sum(n for _, n, _ in found.by_layer)
    assert set(found.kept) < set(bright)
    assert found.dropped == len(bright) - len(found.kept)
    others = sorted(set(bright) - set(found.kept))
    assert circuit.ablate(others).answer == circuit.answer
    for cell in found.kept:
        assert circuit.ablate([*others, cell]).answer != circuit.answer
    assert found.alone == tuple(c for c in found.kept if circuit.ablate([c]).answer != circuit.answer)
    # It leads from the answer, by every kept cell, back to edges that are a way from the start to the goal.
    assert {step.cell for step in found.steps} == set(found.kept)
    graph = nx.DiGraph(list(circuit.graph.edges))
    assert nx.is_path(graph, list(found.path))
    assert set(nx.utils.pairwise(found.path)) == set(found.edges)
    assert (found.path[0], found.path[-1]) == circuit.graph.query
    assert found.path[1] == circuit.answer
    drawn = found.networkx()
    end = (len(circuit.layers), len(circuit.names) - 1)
    assert nx.is_directed_acyclic_graph(drawn)
    assert set(drawn) == {end, *nx.ancestors(drawn, end)}
    assert {c for _, _, c in drawn.edges(data="cell") if c is not None} == set(found.kept)
    assert f"{found.dropped} bright cells did not change the answer" in str(found)
    ElementTree.fromstring(found.svg())


# Pictures and the command.


def test_sets_grow_in_the_picture() -> None:
    circuit = path_merging(nx.path_graph(9, create_using=nx.DiGraph))
    lines = str(circuit).splitlines()
    assert [line.count("●") + line.count("○") for line in lines[3:]] == [2, 3, 5, 9]
    assert [line.count("●") for line in lines[3:]] == [2, 1, 2, 4]
    root = ElementTree.fromstring(circuit.svg())
    new = [x for x in root.iter() if x.tag.endswith("circle") and x.get("class") == "new"]
    assert len(new) == 1 + 2 + 1 + 2 + 4  # one is in the legend
    assert "http" not in circuit.svg().replace("http://www.w3.org/2000/svg", "")
    assert "no path found" in str(path_merging([("a", "b"), ("c", "b")], query=("a", "c")))
    for name in ("no edge", "cyclic", "undirected"):
        ElementTree.fromstring(path_merging(GRAPHS[name]).svg())
    ElementTree.fromstring(path_merging(random_graph(201), rows="vertex").svg())  # sets alone


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    drawn = tmp_path / "sets.svg"
    asked = ["circuit", "path-merging", "--vertices", "32", "--seed", "1", "--check", "--svg"]
    assert main([*asked, str(drawn)]) == 0
    told = capsys.readouterr().out
    assert "merge 3" in told
    assert "end: the transitive closure" in told
    assert "from 0 to" in told
    ElementTree.fromstring(drawn.read_text())
    assert main(["circuit", "path-merging", "--tokens", "E a b E b c Q a c P", "--explain"]) == 0
    assert "the answer is b" in capsys.readouterr().out
    assert main(["circuit", "path-merging", "--tokens", "E a Q"]) == 2
    assert "expected triples 'E u v'" in capsys.readouterr().err


# Messages.


@pytest.mark.parametrize(
    ("kind", "message", "arguments"),
    [
        (DtypeError, "graph is 5, expected a networkx graph, a list of edges (u, v), or tokens", (5,)),
        (DtypeError, "expected a networkx graph, a list of edges (u, v), or tokens", ([(1, 2, 3)],)),
        (DtypeError, "expected a networkx graph, a list of edges (u, v), or tokens", (["ab", "bc"],)),
        (TokenError, "the tokens are 'E a b c', expected triples 'E u v' and then 'Q s g P'", ("E a b c",)),
        (TokenError, "the tokens are 'E a b Q a P', expected triples", ("E a b Q a P",)),
        (TokenError, "9 is not in the graph, expected one of its 2 vertices", ([(0, 1)], (0, 9))),
        (ShapeError, "query goes from 0 to itself, expected two vertices", ([(0, 1)], (0, 0))),
        (ShapeError, "query is 7, expected two vertices: pass query=(start, goal)", ([(0, 1)], 7)),
    ],
)
def test_wrong_graphs_get_one_sentence(kind: type[Exception], message: str, arguments: Any) -> None:
    with pytest.raises(kind) as found:
        path_merging(*arguments)
    assert message in str(found.value)


def test_wrong_questions_get_one_sentence() -> None:
    circuit = path_merging([(0, 1), (1, 2)])
    for call, kind, message in (
        (lambda: circuit.answer, QuestionError, "the circuit has no query, expected one to answer"),
        (lambda: circuit.explain(), QuestionError, "the circuit has no query"),
        (lambda: circuit.ablate([(9, 0, 0)]), ShapeError, "a cell is in layer 9, expected one of 3 layers"),
        (lambda: circuit.ablate([(1, 0, 77)]), ShapeError, "a cell of layer 'merge 1' lies outside 1 × 6 × 6"),
        (lambda: circuit.ablate([(0.5, 0, 0)]), ShapeError, "cells have shape (1, 3) and dtype float64"),
        (lambda: path_merging([(0, 1)], rows="cell"), ShapeError, "rows is 'cell', expected 'vertex' or 'edge'"),  # type: ignore[arg-type]  # the point of it
        (lambda: path_merging([(0, 1)], heads=3), ShapeError, "heads is 3, expected 1"),
        (lambda: path_merging([(0, 1)], merges=-1), ShapeError, "merges is -1, expected how many"),
        (lambda: path_merging([(0, 2), (1, 2)], (0, 1)).explain(), QuestionError, "the circuit found no path"),
    ):
        with pytest.raises(kind) as found:
            call()
        assert message in str(found.value)


def test_without_networkx_lists_of_edges_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    circuit = path_merging("E a b E b c Q a c P")
    assert circuit.answer == "b"
    assert circuit.explain().path == ("a", "b", "c")
    assert path_merging([(0, 1)]).sets() == {0: {0, 1}, 1: {1}}
    assert circuit.svg()
    with pytest.raises(MissingError, match=r"check needs networkx, .*: pip install 'regard\[circuits\]'"):
        check(circuit)
    with pytest.raises(MissingError, match="the explanation graph needs networkx"):
        circuit.explain().networkx()
