"""The command line of circuits: `regard circuit path-merging --vertices 32 --seed 1`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add(subparsers: Any) -> None:
    """regard circuit"""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "circuit", help="attention designed by hand", description="Attention designed by hand, run and read."
    )
    kinds = parser.add_subparsers(metavar="kind", required=True)
    _add_path_merging(kinds)


def _add_path_merging(kinds: Any) -> None:
    parser: argparse.ArgumentParser = kinds.add_parser(
        "path-merging",
        help="search a graph in logarithmic depth",
        description="A transformer built by hand that searches a graph: what each vertex reaches doubles with each "
        "layer. Without --tokens the graph is a random one.",
    )
    parser.add_argument("--vertices", type=int, default=32, metavar="N", help="of a random graph; 32 if not given")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of a random graph, and of its order")
    parser.add_argument("--cyclic", action="store_true", help="let some edges of it lead back")
    parser.add_argument("--tokens", metavar="TEXT", help="a graph instead, as 'E u v E u v … Q s g P'")
    parser.add_argument("--rows", choices=("vertex", "edge"), help="a row for each vertex, or each token of the edges")
    parser.add_argument(
        "--heads", type=int, choices=(1, 2), default=1, help="2 triple the reach instead of doubling it"
    )
    parser.add_argument("--merges", type=int, metavar="N", help="how many; as many as are needed if not given")
    parser.add_argument("--strength", type=float, metavar="C", help="2 ln T + ln 4 if not given")
    parser.add_argument("--explain", action="store_true", help="which cells the answer needs; zeroes them to find out")
    parser.add_argument("--check", action="store_true", help="hold every layer against networkx")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw it into a file")
    parser.add_argument("--width", type=int, metavar="N", help="columns; those of the terminal if not given")
    parser.set_defaults(run=_path_merging)


def _path_merging(given: argparse.Namespace) -> None:
    from regard.circuits.graphs import random_graph
    from regard.circuits.path_merging import path_merging
    from regard.view.screen import Screen

    graph = random_graph(given.vertices, given.seed, given.cyclic) if given.tokens is None else given.tokens
    rows: Any = given.rows or ("vertex" if given.tokens is None else "edge")
    circuit = path_merging(graph, rows=rows, heads=given.heads, merges=given.merges, strength=given.strength)
    screen = Screen.of(sys.stdout, given.width, None, None)
    wide = screen.width
    parts = [circuit.text(width=wide), _bright(circuit)]
    if given.check:
        from regard.circuits.checks import check

        parts.append(str(check(circuit)))
    if given.explain:
        parts.append(str(circuit.explain()))
    print(_plain("\n\n".join(parts), screen.unicode))
    if given.svg is not None:
        given.svg.write_text(circuit.svg(), encoding="utf-8")


def _bright(circuit: Any) -> str:
    """How many cells of each layer are bright."""
    lines = ["bright cells, each a candidate for a merge; --explain tells which of them the answer needs"]
    wide = max((len(layer.name) for layer in circuit.layers), default=0)
    for layer in circuit.layers:
        found = layer.cells()
        own = int((found[:, 1] == found[:, 2]).sum()) if layer.name != "answer" else 0
        of = " × ".join(map(str, layer.matrix.shape))
        lines.append(f"{layer.name:{wide}}  {len(found)} of {of}" + (f", {own} of rows at themselves" if own else ""))
    return "\n".join(lines)


def _plain(text: str, unicode: bool) -> str:
    """The same in letters that the terminal has."""
    from regard.view.text import ascii_of

    if unicode:
        return text
    signs = str.maketrans({"●": "#", "○": "o", "·": "."})
    return "\n".join(ascii_of(line.translate(signs)) for line in text.split("\n"))
