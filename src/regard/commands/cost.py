"""The command line of costs: `regard cost --n 512 --d-model 768 --heads 12`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from regard.errors import MissingError, ShapeError


def add(subparsers: Any) -> None:
    """regard cost"""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "cost",
        help="operations, bytes and least time of attention",
        description="What attention costs: operations of each step, bytes, parameters, and the least time here.",
    )
    parser.add_argument("model", nargs="?", type=Path, help="a config.json, or a folder with one, to take sizes from")
    for name, what in (
        ("n", "tokens"),
        ("d-model", "width of the model"),
        ("heads", "heads of a layer"),
        ("layers", "layers; 1 if not given"),
        ("n-k", "keys, if other than the tokens"),
        ("key-heads", "key heads, if fewer than heads"),
        ("d", "width of a head; d-model / heads if not given"),
        ("cached", "keys that were projected before"),
        ("d-a", "width of an additive score"),
    ):
        parser.add_argument(f"--{name}", type=int, metavar="N", help=what)
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="sequences")
    parser.add_argument("--causal", action=argparse.BooleanOptionalAction, help="nobody looks at what comes later")
    parser.add_argument("--window", type=int, nargs="+", metavar="N", help="keys before the query, and after it")
    parser.add_argument("--dtype", help="f32, f64, bf16 or f16")
    parser.add_argument("--score", default="dot", help="dot, general or additive")
    parser.add_argument("--output-projection", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--measure", action="store_true", help="also time regard.attention on one layer")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the steps over n into a file, .png or .svg")
    parser.add_argument("--width", type=int, metavar="N", help="columns; those of the terminal if not given")
    parser.set_defaults(run=_cost)


def _cost(given: argparse.Namespace) -> None:
    from regard.cost import cost

    names = "n d_model heads layers n_k key_heads d cached d_a batch causal dtype score output_projection measure"
    arguments = {name: getattr(given, name) for name in names.split()}
    sides = given.window
    window = None if sides is None else sides[0] if len(sides) == 1 else tuple(sides)
    of = cost(None if given.model is None else _config(given.model), window=window, **arguments)
    of.show(width=given.width)
    if given.plot is not None:
        if "matplotlib.pyplot" not in sys.modules:
            _without_window()
        of.plot().figure.savefig(given.plot)


def _config(place: Path) -> Any:
    place = place / "config.json" if place.is_dir() else place
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ShapeError(f"{place} is no JSON ({error}), expected the configuration of a model") from None
    if not isinstance(found, dict):
        raise ShapeError(f"{place} holds a {type(found).__name__}, expected the configuration of a model")
    return found


def _without_window() -> None:
    """Let matplotlib draw into files only, as there may be no screen."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingError(
            f"--plot needs matplotlib, which cannot be imported ({error}): pip install 'regard[plot]'"
        ) from None
    matplotlib.use("Agg")
