"""A cost as a table that fits its window, and as a figure over n.

>>> count(1812000000), count(999), bytes_of(1 << 20), duration(0.00123)
('1.81 G', '999', '1 MiB', '1.23 ms')
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from regard.errors import MissingError
from regard.lens.wording import percent
from regard.view import text as texts
from regard.view.colour import KEY, QUERY
from regard.view.columns import table
from regard.view.screen import Screen

if TYPE_CHECKING:
    from regard.tally import Cost

POINTS = 100  # of a curve
# Before the general rules of text: there a dot is the sign of a space.
PLAIN = {" · ": ", ", "·": "*", "²": "^2", "–": "-", "µ": "u"}
# Blanks within a number, before its unit and around a sign: lines are not broken there.
TOGETHER = re.compile(r"(?<=\d) (?=\d\d\d|[kMGTPE]\b|[KMGTP]?i?B\b|[nµm]?s\b|min\b|h\b|G[BF]/s)|(?<=\w) (?==)|(?<==) ")


def show(cost: Cost, file: TextIO | None, width: int | None) -> None:
    """Print the table."""
    screen = Screen.of(file, width, None, False)
    print(*_lines(cost, screen.width, screen.unicode), sep="\n", file=file)


def text(cost: Cost) -> str:
    """The table, as wide as the terminal."""
    return "\n".join(_lines(cost, max(8, shutil.get_terminal_size((80, 24)).columns), True))


def _lines(cost: Cost, width: int, unicode: bool) -> Iterator[str]:
    for line in _written(cost, width):
        yield (line if unicode else _plain(line)).rstrip()


def _plain(line: str) -> str:
    for sign, instead in PLAIN.items():
        line = line.replace(sign, instead)
    return texts.ascii_of(line)


def _written(cost: Cost, width: int) -> Iterator[str]:
    yield from texts.wrap(_title(cost), width)
    yield ""
    yield from _table(cost, width)
    for paragraph in _paragraphs(cost):
        yield ""
        yield from texts.wrap(TOGETHER.sub("\xa0", paragraph), min(width, 100))


def _title(cost: Cost) -> str:
    heads = f"{cost.heads} head{'s' * (cost.heads > 1)} of {cost.d}"
    if cost.key_heads != cost.heads:
        heads += f" on {cost.key_heads} key head{'s' * (cost.key_heads > 1)}"
    said = [f"{_many(cost.n, 'query' if cost.n_k != cost.n else 'token')}"]
    if cost.n_k != cost.n:
        said.append(_many(cost.n_k, "key") + (f", {texts.count(cost.cached)} in a cache" if cost.cached else ""))
    said += [f"d_model = {cost.d_model}", heads, _many(cost.layers, "layer")]
    said += [_many(cost.batch, "sequence")] if cost.batch > 1 else []
    said.append(cost.dtype)
    said += [f"{cost.score} score"] if cost.score != "dot" else []
    if cost.masked:
        both = _side(cost.left), _side(cost.right)
        said.append("causal" if both == ("all", "0") else f"window of {both[0]} before, {both[1]} after")
    return " · ".join(said)


def _many(n: int, what: str) -> str:
    plural = f"{what[:-1]}ies" if what.endswith("y") and what != "key" else f"{what}s"
    return f"{texts.count(n)} {what if n == 1 else plural}"


def _side(reach: float) -> str:
    return "all" if math.isinf(reach) else texts.count(int(reach))


# The table.


def _table(cost: Cost, width: int) -> list[str]:
    """The steps; in a narrow window without formulas, then without times."""
    steps, seconds = cost.steps, cost.seconds
    columns = [
        ["step", *(s.name for s in steps), "all"],
        ["a layer's", *(s.formula for s in steps), ""],
        ["multiply-adds", *(count(s.products) if s.products else "–" for s in steps), count(cost.products)],
        ["share", *(percent(s.products / cost.products) if s.products else "–" for s in steps), ""],
        ["operations", *(count(s.operations) for s in steps), count(cost.operations)],
    ]
    if seconds is not None:
        columns.append(["at least", *map(duration, seconds), duration(sum(seconds))])
    return table(columns, width, left=(0, 1), first=(0, 2, *([5] if seconds is not None else []), 1, 3, 4))


# What is said under it.


def _paragraphs(cost: Cost) -> Iterator[str]:
    letters = " · ".join(f"{name} = {texts.count(value)}" for name, value in cost.letters().items())
    yield (
        f"{letters}. Two operations to a multiply-add, one to an exponential"
        f"{' or a tanh' if cost.score == 'additive' else ''}; the softmax has {count(_softmax(cost))} exponentials."
    )
    yield _crossing(cost)
    memory, all_heads = cost.memory, cost.heads * cost.layers * cost.batch
    most = f", all {texts.count(all_heads)} of them {bytes_of(memory.all)}" if all_heads > 1 else ""
    ratio = memory.all / memory.held
    less = f", {texts.short(ratio)} times less" if ratio >= 1.5 else ""
    yield (
        f"A built: one head {bytes_of(memory.one)}{most}. Regard holds Q, K and one number a row instead: "
        f"{bytes_of(memory.held)}{less}."
    )
    has = " · ".join(f"{name} {texts.count(value)}" for name, value in cost.parameters.items())
    yield f"Parameters of a score function, a head: {has}, with d_a = {cost.d_a}."
    order = cost.order
    far = "1 layer" if order.path == 1 else f"{texts.count(order.path)} layers"
    yield (
        f"One after the other: {_many(order.steps, 'step')} a layer, where an RNN has {texts.count(order.rnn_steps)}. "
        f"From one end to the other: {far}, where an RNN goes through {_many(order.rnn_path, 'step')}."
    )
    yield from _time(cost)


def _softmax(cost: Cost) -> int:
    return sum(step.functions for step in cost.steps if step.kind == "exp")


def _crossing(cost: Cost) -> str:
    squared = sum(step.products for step in cost.steps if step.squared)
    share = max(squared, cost.products - squared) / cost.products
    which = "scores and A·V" if cost.dominates == "scores and A·V" else "the projections"
    told = f"Most of the multiply-adds, {percent(share)}, are those of {which}."
    at = cost.crossing
    if at is None:
        why = "a window bounds what a token sees" if cost.n == cost.n_k else "the keys do not grow with the queries"
        return f"{told} They do not cross over n: {why}."
    ratio = at / cost.d_model
    beside = f" = {ratio:g}·d" if math.isclose(ratio, round(ratio, 2)) else ""
    return f"{told} Scores and A·V have as many as the projections at n = {_float(at)}{beside}, and more beyond."


def _float(x: float) -> str:
    return texts.count(int(x)) if x == int(x) else f"{x:.1f}"


def _time(cost: Cost) -> Iterator[str]:
    from regard import machine

    if cost.seconds is None:
        return
    peak = machine.peak_of(cost.dtype)
    yield (
        f"At least {duration(sum(cost.seconds))} on this machine, by its measured peaks: {_rate(peak)} for products "
        f"({peak}) and {_rate(machine.READ)} for what is read and written."
    )
    if cost.measured is not None:
        found = cost.measured
        yield (
            f"Measured: regard.attention on the heads of one layer takes {duration(found.seconds)}, "
            f"{percent(found.share)} of the {found.peak}; the peaks allow {duration(found.least)}, "
            "exponentials included."
        )


def _rate(name: str) -> str:
    from regard import machine

    rate = machine.best(name) / 1e9
    return f"{rate:.0f} {machine.UNITS[name]}" if rate >= 100 else f"{rate:.3g} {machine.UNITS[name]}"


def count(n: float) -> str:
    """A number of operations in three digits."""
    return _scaled(n, 1000, ("", " k", " M", " G", " T", " P", " E"))


def bytes_of(n: float) -> str:
    """Bytes, in powers of 1024."""
    return _scaled(n, 1024, (" B", " KiB", " MiB", " GiB", " TiB", " PiB"))


def duration(seconds: float) -> str:
    """A time in three digits."""
    if seconds >= 120:
        return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
    return _scaled(seconds * 1e9, 1000, (" ns", " µs", " ms", " s"))


def _scaled(x: float, step: int, units: Sequence[str]) -> str:
    at = 0
    while at + 1 < len(units) and x >= step * 0.9995:  # what would round up to the next unit is in it already
        x, at = x / step, at + 1
    return f"{round(x)}{units[at]}" if x >= 100 else f"{x:.3g}{units[at]}"


# The figure.


def plot(cost: Cost, ax: Any) -> Any:
    """Multiply-adds over n, both axes logarithmic, with this n and the crossing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingError(
            f"plot needs matplotlib, which cannot be imported ({error}): pip install 'regard[plot]', or use show()"
        ) from None
    if ax is None:
        figure, ax = plt.subplots(figsize=(7, 4.5))
        figure.set_layout_engine("constrained")
    at = cost.crossing
    far = 10 * max(cost.n, at or 0)
    over = sorted({max(1, round(x)) for x in np.geomspace(max(1, min(cost.n, at or cost.n) / 100), far, POINTS)})
    found = [cost.at(n).steps for n in over]
    groups = (
        ("projections", QUERY, lambda s: 0 if s.squared else s.products),
        ("scores and A·V", KEY, lambda s: s.products if s.squared else 0),
        ("exponentials", (134, 134, 134), lambda s: s.functions if s.kind == "exp" else 0),
    )
    for name, colour, of in groups:
        ink = tuple(c / 255 for c in colour)
        line = "--" if name == "exponentials" else "-"
        ax.plot(over, [sum(map(of, steps)) for steps in found], line, color=ink, label=name)
    ax.set(xscale="log", yscale="log", xlabel="n, tokens", ylabel="multiply-adds, or exponentials")
    ax.axvline(cost.n, color="#868686", linewidth=0.8)
    ax.annotate(f" n = {cost.n}", (cost.n, 0.02), xycoords=ax.get_xaxis_transform(), fontsize="small")
    if at is not None:
        steps = cost.at(max(1, round(at))).steps
        height = sum(s.products for s in steps if s.squared)
        ax.plot([at], [height], "o", color="#868686")
        ax.annotate(
            f"as many at n = {_float(at)}",
            (at, height),
            (-6, 8),
            ha="right",
            textcoords="offset points",
            fontsize="small",
        )
    ax.set_title(
        f"d_model = {cost.d_model}, {_many(cost.heads, 'head')}, {_many(cost.layers, 'layer')}", fontsize="medium"
    )
    ax.legend(frameon=False, fontsize="small")
    return ax
