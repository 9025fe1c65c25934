"""A trace as a sheet: each step with its table, and one row of it worked out as with a pencil."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from regard.matrix import AttentionMatrix
from regard.steps import Given, Steps
from regard.view.desk import KEYS, Desk, factor, last_scores, products, same, size
from regard.view.figures import decimals, figure, value_of
from regard.view.reading import CAUTION, sentence
from regard.view.sheet import Beside, Block, Heading, Listing, Sum, Words, Work
from regard.view.text import count

Array = np.ndarray[Any, Any]

PARTS = 3  # components of a vector that are worked out
LISTED = 10  # keys whose softmax is


def sheet(
    given: Given, steps: Steps, matrix: AttentionMatrix, row: Any = None, head: Any = None, digits: int | None = None,
    unicode: bool = True,
) -> list[Block]:  # fmt: skip
    """All that is said of a trace."""
    desk = Desk.of(given, steps, matrix, row, head, digits, unicode)
    n, m = desk.steps["weights"].value.shape[-2:]
    title = f"Attention step by step: {count(n)} quer{'y' if n == 1 else 'ies'} × {count(m)} key{'s' * (m != 1)}"
    if not given.single and prod(matrix.front) > 1:
        which = str(desk.head) if len(desk.place) == 1 else str(desk.place)
        title += f", head {which} of {' × '.join(map(str, matrix.front))}"
    blocks: list[Block] = [Heading(title, level=1), _shapes(steps)]
    if not n or not m:
        return [*blocks, Words("There is nothing to work out.")]
    others = "row=…" if prod(matrix.front) == 1 else "row=…, head=…"
    blocks.append(
        Words(
            f"Worked out: the row of {desk.queries.quoted(desk.row)}, marked ▸; show({others}) takes another. "
            "There is ≈ where the figures as printed, which are rounded, give another last digit."
        )
    )
    blocks += _projections(desk) + _scores(desk) + _scaling(desk) + _softmax(desk) + _output(desk) + _heads(desk)
    return [*blocks, Words(CAUTION, faint=True)]


def _shapes(steps: Steps) -> Listing:
    rows = tuple((step.symbol, size(step.value), step.equation) for step in steps.steps)
    return Listing(("", "shape", "equation"), rows)


def _projections(desk: Desk) -> list[Block]:
    g, row, key = desk.given, desk.row, desk.key
    q, k, v = desk.two(g.q), desk.two(g.k), desk.two(g.v)
    heads = "" if g.single or desk.heads == 1 else f" of head {desk.head}"
    made = Beside(
        (
            desk.table("Q", q, ("query", ""), mark=row),
            desk.table("K", k, ("key", ""), mark=key if g.x is not None else None),
            desk.table("V", v, ("key", ""), mark=key if g.x is not None else None),
        )
    )
    if g.x is None or g.w_q is None or g.w_k is None or g.w_v is None:
        said = "What each query looks for (Q), what each key offers (K), what it hands over (V)"
        return [Heading(f"Queries, keys and values{heads}"), Words(f"{said}."), made]
    x = desk.two(g.x, "item")
    source = x if g.context is None else desk.two(g.context, "item")
    blocks: list[Block] = [
        Heading(f"Projections{heads}", ", ".join(desk.steps[name].equation for name in ("q", "k", "v"))),
        Words(
            "Every row of X is projected three ways: to what it looks for (Q), what it offers (K) and what it hands "
            "over (V)."
            if g.context is None
            else "Queries come from X, keys and values from the context C: what is looked for (Q), offered (K) and "
            "handed over (V)."
        ),
    ]
    if heads:
        first, last = desk.slice(g.w_q, g.q)
        columns = f"columns {first} to {last - 1}" if last - first > 1 else f"column {first}"
        shared = desk.heads // max(1, g.k.shape[-3])
        also = f" Each key head serves {shared} query heads." if shared > 1 else ""
        blocks.append(Words(f"Head {desk.head} takes {columns} of X·W_Q.{also}"))
    inputs = [desk.table("X", x, ("query", ""), mark=row)]
    if g.context is not None:
        inputs.append(desk.table("C", source, ("key", ""), mark=key))
    lines = []
    for name, of, index, w, b, y in (
        ("Q", x, row, g.w_q, g.b_q, q),
        ("K", source, key, g.w_k, g.b_k, k),
        ("V", source, key, g.w_v, g.b_v, v),
    ):
        whole = {"Q": g.q, "K": g.k, "V": g.v}[name]
        first, last = desk.slice(w, whole)
        mine = w[:, first:last]
        inputs.append(desk.table(f"W_{name}", mine, ("", ""), first=first))
        if b is not None:
            inputs.append(desk.table(f"b_{name}", b[None, first:last], ("", ""), first=first))
        called = desk.queries[index] if name == "Q" else desk.keys[index]
        for c in range(min(PARTS if name == "Q" else 1, y.shape[1])):
            places = desk.places(of), desk.places(mine), desk.places(y)
            left = f"{name.lower()}[{called}, {c}]"
            added = None if b is None else float(b[first + c])
            lines.append(products(left, of[index], mine[:, c], places, float(y[index, c]), added))
    return [*blocks, Beside(tuple(inputs)), made, Work(tuple(lines))]


def _scores(desk: Desk) -> list[Block]:
    g, row = desk.given, desk.row
    q, k, step = desk.two(g.q), desk.two(g.k), desk.steps["scores"]
    s = desk.two(step.value)
    places = desk.places(q), desk.places(k), desk.places(s)
    name = desk.queries[row]
    lines = [products(f"q[{name}]·k[{desk.keys[j]}]", q[row], k[j], places, float(s[row, j])) for j in desk.top(KEYS)]
    blocks: list[Block] = [
        Heading("Step 1 of 4: scores", step.equation, size(s)),
        Words("How well each query matches each key: the products of their numbers, added up."),
        desk.cells(step),
        Work(tuple(lines)),
    ]
    return blocks + _angle(desk, q[row], k[desk.key], float(s[row, desk.key]), places[2])


def _angle(desk: Desk, q: Array, k: Array, s: float, places: int) -> list[Block]:
    """A score as ‖q‖·‖k‖·cos θ."""
    with np.errstate(all="ignore"):
        long = float(np.linalg.norm(q)), float(np.linalg.norm(k))
        cosine = s / (long[0] * long[1]) if long[0] * long[1] else np.nan
    name = f"q[{desk.queries[desk.row]}]·k[{desk.keys[desk.key]}]"
    if not np.isfinite(cosine):
        return []
    angle = float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
    places = max(2, places)
    shown = [figure(x, places) for x in long]
    said = (
        "point nearly the same way" if angle < 30 else "lean the same way" if angle < 80
        else "stand nearly at right angles" if angle <= 100 else "lean away from each other" if angle < 150
        else "point nearly opposite ways"
    )  # fmt: skip
    right = figure(s, places)
    for few in (0, 1, 2, 3):  # as few figures of the angle as give the score
        turn = figure(angle, few)
        got = value_of(shown[0]) * value_of(shown[1]) * np.cos(np.radians(value_of(turn)))
        sign = "=" if same(float(got), right, places) else "≈"
        if sign == "=":
            break
    else:
        turn = figure(angle, 1)
    # Two lines: beside the names of tokens all of it would be too wide for a narrow window.
    lines = (
        Sum(name, ("‖q‖·‖k‖·cos θ",)),
        Sum("", (f"{shown[0]}·{shown[1]}·cos {turn}°",), right, sign),
    )
    return [Words(f"The same score read as two lengths and the angle between them; here they {said}:"), Work(lines)]


def _scaling(desk: Desk) -> list[Block]:
    g, row, step = desk.given, desk.row, desk.steps["scaled"]
    before, after = desk.two(desk.steps["scores"].value), desk.two(step.value)
    d = g.q.shape[-1]
    by = figure(g.factor, decimals([g.factor], None))
    places = desk.places(before), desk.places(after)
    lines = []
    for j in desk.top(KEYS):
        left, right = figure(float(before[row, j]), places[0]), figure(float(after[row, j]), places[1])
        shown = value_of(left) * value_of(by)
        sign = "=" if same(shown, right, places[1]) else "≈"
        term = f"{left}·{factor(by)}"
        lines.append(Sum(f"S′[{desk.queries[row]}, {desk.keys[j]}]", (term,), right, sign))
    why = (
        f"Sums over d numbers grow like √d, so they are divided by √{d}: multiplied by {by}."
        if g.scale is None
        else f"Every score is multiplied by {by}."
    )
    blocks: list[Block] = [
        Heading("Step 2 of 4: scaling", step.equation, size(after)), Words(why), desk.cells(step), Work(tuple(lines))
    ]  # fmt: skip
    said = {
        "modified": ("Then: a modifier", "Every scaled score goes through a function."),
        "biased": ("Then: a bias", "A number is added to every score."),
        "masked": ("Then: the mask", "What a query may not see has the score −∞, which softmax makes a weight of 0."),
    }
    for name, (title, words) in said.items():
        if name in desk.steps:
            step = desk.steps[name]
            table = desk.cells(step)
            blocks += [Heading(title, step.equation, size(desk.two(step.value))), Words(words), table]
    return blocks


def _softmax(desk: Desk) -> list[Block]:
    step, final = desk.steps["weights"], last_scores(desk.steps)
    a, s = desk.two(step.value)[desk.row], desk.two(final.value)[desk.row]
    name = desk.queries.quoted(desk.row)
    blocks: list[Block] = [
        Heading("Step 3 of 4: softmax", step.equation, size(desk.two(step.value))),
        Words(
            "e to the power of each score, divided by the sum of its row: weights between 0 and 1 that add up to 1."
            " The largest score of the row is taken off first, so that no power is too large; the weights stay as they"
            " are."
        ),
    ]
    g = desk.given
    sink = None if g.sinks is None else float(np.broadcast_to(g.sinks, (desk.heads,))[desk.head])
    every = s if sink is None else np.append(s, sink)
    if not np.isfinite(every.max(initial=-np.inf)):
        empty = "sees no key: its weights are all 0." if (s == -np.inf).all() else "has a score that is not a number."
        return [*blocks, desk.cells(step), Words(f"{name[0].upper() + name[1:]} {empty}")]
    blocks.append(_powers(desk, a, s, sink))
    blocks.append(desk.cells(step))
    return [*blocks, Words(sentence(desk.matrix, desk.place, desk.row))]


def _powers(desk: Desk, a: Array, s: Array, sink: float | None) -> Listing:
    """The softmax of one row, key by key."""
    top = float(max(s.max(), -np.inf if sink is None else sink))
    e = np.exp(s - top)
    every = e if sink is None else np.append(e, np.exp(sink - top))
    total = float(every.sum())
    places, of_powers = desk.places(s), desk.places(every) if desk.digits else max(3, desk.places(every))
    of_weights = desk.places(a)
    large = figure(top, places)
    rows = []

    def one(called: str, score: float, power: float, weight: float) -> tuple[str, ...]:
        less = f"{figure(score, places)} − {factor(large)}" if np.isfinite(score) else "−∞"
        return called, less, figure(power, of_powers), f"/ {figure(total, of_powers)}", figure(weight, of_weights)

    shown = [j for j in desk.top(LISTED) if s[j] > -np.inf]
    rows = [one(desk.keys[j], float(s[j]), float(e[j]), float(a[j])) for j in shown]
    rest = [j for j in range(len(s)) if j not in set(shown) and s[j] > -np.inf]
    if rest:
        sums = figure(float(e[rest].sum()), of_powers), figure(float(a[rest].sum()), of_weights)
        rows.append((f"{len(rest)} others", "", sums[0], f"/ {figure(total, of_powers)}", sums[1]))
    if sink is not None:
        rows.append(one("sink", sink, float(every[-1]), float(every[-1] / total)))
    hidden = int((s == -np.inf).sum())
    if hidden:
        rows.append((f"{hidden} hidden", "−∞", figure(0.0, of_powers), "", figure(0.0, of_weights)))
    rows.append(("sum", "", figure(total, of_powers), "", figure(1.0, of_weights)))
    header = ("key", "score − largest", "e to that", "/ sum", "= weight")
    return Listing(header, tuple(rows), numbers=True, total=True, axis="key", spare=(3, 1))


def _output(desk: Desk) -> list[Block]:
    step = desk.steps["output"]
    z, a, v = desk.two(step.value), desk.two(desk.steps["weights"].value), desk.two(desk.given.v)
    row = desk.row
    places = desk.places(a), desk.places(v), desk.places(z)
    seen = np.flatnonzero(desk.two(last_scores(desk.steps).value)[row] > -np.inf).tolist()
    lines = [
        products(f"z[{desk.queries[row]}, {c}]", a[row], v[:, c], places, float(z[row, c]), over=seen)
        for c in range(min(PARTS, z.shape[1]))
    ]
    return [
        Heading("Step 4 of 4: output", step.equation, size(z)),
        Words("Each query's weights mix the rows of V."),
        Beside((desk.table("Z", z, step.axes, mark=row),)),
        Work(tuple(lines)),
    ]


def _heads(desk: Desk) -> list[Block]:
    g, row = desk.given, desk.row
    found: list[Block] = []
    before = desk.two(desk.steps["output"].value)
    if "merged" in desk.steps:
        step = desk.steps["merged"]
        merged = desk.two(step.value, "item")
        if desk.heads > 1:
            wide = merged.shape[1] // desk.heads
            keep = range(desk.head * wide, (desk.head + 1) * wide)
            found += [
                Heading("Heads side by side", step.equation, size(merged)),
                Words(
                    f"The outputs of all {desk.heads} heads, in columns beside each other: head {desk.head} has "
                    + (f"columns {keep.start} to {keep.stop - 1}." if wide > 1 else f"column {keep.start}.")
                ),
                Beside((desk.table("M", merged, step.axes, mark=row, keep=list(keep)[:2]),)),
            ]
        before = merged
    if "projected" in desk.steps and g.w_o is not None:
        step = desk.steps["projected"]
        y = desk.two(step.value, "item")
        places = desk.places(before), desk.places(g.w_o), desk.places(y)
        lines = [
            products(
                f"y[{desk.queries[row]}, {c}]", before[row], g.w_o[:, c], places, float(y[row, c]),
                None if g.b_o is None else float(g.b_o[c]),
            )
            for c in range(min(PARTS, y.shape[1]))
        ]  # fmt: skip
        tables = [desk.table("W_O", g.w_o, ("", ""))]
        if g.b_o is not None:
            tables.append(desk.table("b_O", g.b_o[None], ("", "")))
        found += [
            Heading("Output projection", step.equation, size(y)),
            Beside((*tables, desk.table("Y", y, step.axes, mark=row))),
            Work(tuple(lines)),
        ]
    return found
