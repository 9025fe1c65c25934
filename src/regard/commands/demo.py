"""regard demo --tokens 131072: a recording in which it is known what there is to find, made and looked at."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.commands import look
from regard.commands.shared import Bar, positive, program, quoted
from regard.errors import LimitError, RecordingError

AROUND = 4  # tokens on each side of the bright cell that are shown with it
EXACT = 1 << 28  # cells up to which `regard look` has drawn all of them
TALL = 26  # lines of a picture, at most
USUAL = {"seed": 0, "layers": 2, "heads": 2, "dtype": "f32"}
SAYS = {
    "previous": "looks at the token before",
    "sink": "rests on the first token",
    "blocks": "stays within its block, of {count}",
    "cell": "is even, but for one bright cell: query {query}, key {key}",
}


def add(subparsers: Any) -> None:
    """regard demo"""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "demo",
        help="make and look at a synthetic recording of any length",
        description="Make a recording of random Q and K in which structure is planted: a diagonal, a sink, blocks and "
        "one single bright cell. Then look at it. It is marked `synthetic` wherever it is shown.",
        epilog="The same numbers give the same recording; if it is there already, it is only looked at.",
    )
    parser.add_argument("--tokens", type=int, default=131_072, metavar="N", help="how long; 131072 if not given")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where; demo-N.regard if not given")
    parser.add_argument("--seed", type=int, default=USUAL["seed"], metavar="N", help="other random numbers")
    parser.add_argument(
        "--layers", type=int, default=USUAL["layers"], metavar="N", help="layers; every other one is causal"
    )
    parser.add_argument("--heads", type=int, default=USUAL["heads"], metavar="N", help="heads of a layer")
    parser.add_argument("--dtype", default=USUAL["dtype"], help="f32 or bf16, of Q and K")
    parser.add_argument("--map", action="store_true", help="draw all cells of the bright cell's head, at any length")
    parser.add_argument("--width", type=positive, metavar="N", help="columns; those of the terminal if not given")
    parser.set_defaults(run=_demo)


def _demo(given: argparse.Namespace) -> None:
    from regard.recording import open as open_recording

    place = Path(f"demo-{given.tokens}.regard" if given.output is None else given.output)
    _made(given, place)
    with open_recording(place) as recording:
        _say(recording, place)
        _look(place, given.width)
        found = [x for x in recording.model["planted"] if x["kind"] == "cell"]
        if found:
            _bright(recording, found[0], place, given)


def _made(given: argparse.Namespace, place: Path) -> None:
    """The recording is at its place: it was there, or is written now."""
    from regard.recording import open as open_recording
    from regard.recording.planted import header, plant

    there_before = place.exists()
    if not (place.is_dir() and any(place.iterdir())):
        _room(given, place)
    wanted = {"seed": given.seed, "layers": given.layers, "heads": given.heads, "dtype": given.dtype}
    told = header(given.tokens, **wanted)
    if place.is_dir() and any(place.iterdir()):
        with open_recording(place) as there:
            if there.model != told:
                raise RecordingError(f"{place} is there already and is another recording: choose another place with -o")
            if not there.finished:
                raise RecordingError(f"{place} is there already but was not written to its end: remove it")
        return
    try:
        with Bar("writing") as bar:
            plant(place, given.tokens, progress=bar, **wanted)
    except MemoryError:
        if not there_before:
            shutil.rmtree(place, ignore_errors=True)
        raise


def _room(given: argparse.Namespace, place: Path) -> None:
    """The disk and the memory have room for it, or nothing is begun."""
    from regard.indexing import show_bytes
    from regard.recording.planted import DTYPES, D

    if min(given.tokens, given.layers, given.heads) < 1 or given.dtype not in DTYPES:
        return  # that is said in other words
    each = 2 * given.heads * given.tokens * D * DTYPES[given.dtype].itemsize  # Q and K of a layer
    above = next((x for x in place.absolute().parents if x.is_dir()), Path("/"))
    free = shutil.disk_usage(above).free
    if each * given.layers > free:
        raise LimitError(
            f"the recording would have {show_bytes(each * given.layers)} and the disk has {show_bytes(free)} free, "
            "expected it to fit: choose fewer --tokens, --heads or --layers, or another disk with -o"
        )
    needed = each * min(2, given.layers)
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return
    if needed > memory:
        raise LimitError(
            f"two layers of it would take {show_bytes(needed)} of memory and this machine has {show_bytes(memory)}, "
            f"with {show_bytes(free)} free on the disk, expected them to fit: choose fewer --tokens or --heads"
        )


def _say(recording: Any, place: Path) -> None:
    """What there is to find, and where."""
    from regard.indexing import show_bytes
    from regard.view.text import count

    told = recording.model
    size = sum(file.stat().st_size for file in place.iterdir())
    print(f"{place}: {count(told['tokens'])} tokens, {show_bytes(size)}, synthetic. Planted is:")
    for x in told["planted"]:
        where = x["where"]
        said = SAYS[x["kind"]].format(count=len(where), query=where and where[0], key=where and where[-1])
        print(f"  L{x['layer']}H{x['head']} {said}")
    print(flush=True)


def _look(place: Path, width: int | None) -> None:
    """What `regard look` shows of any recording."""
    parser = argparse.ArgumentParser()
    look.add(parser.add_subparsers())
    given = parser.parse_args(["look", str(place), *([] if width is None else ["--width", str(width)])])
    given.run(given)


def _bright(recording: Any, planted: Any, place: Path, given: argparse.Namespace) -> None:
    """The bright cell with its neighbours, and, if that is wanted, the map in which it can be seen too."""
    from regard.view.text import count

    layer, head, (query, key) = planted["layer"], planted["head"], planted["where"]
    A = recording[layer, head]
    n = len(A)
    print(f"\nThe bright cell of L{layer}H{head}, {float(A[query, key]):.3f}, among its neighbours:\n")
    near = [list(range(max(0, at - AROUND), min(n, at + AROUND + 1))) for at in (query, key)]
    _near(A, near, (query, key), given.width)
    if given.map:
        print(f"\nThe same cell in the map of all {count(n)} × {count(n)}, each place showing its largest weight:\n")
        _draw(A, given.width)
    elif n * n > EXACT:
        again = f"{program()} demo --tokens {given.tokens} --map"
        for name, usual in USUAL.items():  # it is another recording without them
            if getattr(given, name) != usual:
                again += f" --{name} {getattr(given, name)}"
        if given.output is not None:
            again += f" -o {quoted(given.output)}"
        print(f"\nthe map of all {count(n)} × {count(n)} cells, which takes a while:\n  {again}")


def _near(A: Any, near: list[list[int]], cell: tuple[int, int], width: int | None) -> None:
    """Some cells at their places in the text; the sentence and the numbers are those of the whole row."""
    from regard.lens.explain import explain
    from regard.view.colour import FAINT
    from regard.view.reading import CAUTION, title
    from regard.view.screen import Screen
    from regard.view.terminal import Picture
    from regard.view.text import safe
    from regard.view.under import largest

    screen = Screen.of(sys.stdout, width, None, None)
    placed = copy(A)
    placed.tokens = tuple(f"{i} {token}" for i, token in enumerate(A.tokens))
    placed.key_tokens = tuple(map(str, range(len(A.tokens))))  # words are too wide for most windows, and stand below
    some = placed.select(queries=near[0], keys=near[1])
    small = replace(screen, height=min(screen.height, TALL))
    picture = Picture(small, some, (), "shade", False, "max", cell[0] - near[0][0])
    lines = [
        *screen.words(title(some, (), False)),
        *picture.lines(),
        "",
        *screen.words(safe(explain(A, *cell), screen.unicode)),
    ]
    picture.matrix, picture.row = A, cell[0]
    lines += [*largest(picture, 5), "", *(screen.paint(line, FAINT) for line in screen.words(CAUTION))]
    print(*(line.rstrip(" ") for line in lines), sep="\n", flush=True)


def _draw(A: Any, width: int | None) -> None:
    """All cells of a head, pooled by their maxima."""
    from regard.view.screen import Screen
    from regard.view.terminal import Picture
    from regard.view.under import legend

    screen = Screen.of(sys.stdout, width, None, None)
    with Bar("drawing") as bar:
        small = replace(screen, height=min(screen.height, TALL))
        picture = Picture(small, A, (), "shade", False, "max", None, progress=bar)
    print(*(line.rstrip(" ") for line in [*picture.lines(), *legend(picture)]), sep="\n", flush=True)
