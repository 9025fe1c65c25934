"""The gradients of a trace as a sheet: each step back with its table, and one row of it worked out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.matrix import AttentionMatrix
from regard.steps import Given, Steps
from regard.view.colour import Scale
from regard.view.desk import KEYS, Desk, factor, last_scores, products, size
from regard.view.figures import decimals, figure
from regard.view.sheet import Beside, Block, Heading, Listing, Sum, Table, Words, Work
from regard.view.text import count
from regard.view.walk import LISTED, PARTS

Array = np.ndarray[Any, Any]


def sheet(
    given: Given, steps: Steps, back: Steps, matrix: AttentionMatrix, row: Any = None, head: Any = None,
    digits: int | None = None, unicode: bool = True,
) -> list[Block]:  # fmt: skip
    """All that is said of the way back."""
    desk = Desk.of(given, steps, matrix, row, head, digits, unicode)
    shapes = tuple((step.symbol, size(step.value), step.equation) for step in back.steps)
    blocks: list[Block] = [Heading("The way back: gradients", level=1), Listing(("", "shape", "equation"), shapes)]
    if not len(desk.queries) or not len(desk.keys):
        return [*blocks, Words("There is nothing to work out.")]
    head_said = f" of head {desk.head}" if desk.heads > 1 else ""
    blocks.append(
        Words(
            "dX is the derivative of a loss with respect to X, and has the shape of X: how the loss answers a small "
            f"change of each number. Worked out: the row of {desk.queries.quoted(desk.row)}{head_said}, marked ▸."
        )
    )
    walk = Back(desk, back)
    return [*blocks, *walk.output(), *walk.weighted_sum(), *walk.softmax(), *walk.scale(), *walk.products(),
            *walk.projections()]  # fmt: skip


class Back:
    """The parts of that sheet."""

    def __init__(self, desk: Desk, back: Steps):
        self.desk, self.back, self.given = desk, back, desk.given
        self.row, self.key = desk.row, desk.key
        self.query, self.other = desk.queries[desk.row], desk.keys[desk.key]
        # A sum over several sequences, or over heads that share keys, is more than one table can show.
        lead = desk.given.q.shape[:-2] if desk.given.single else desk.given.q.shape[:-3]
        self.alone = not lead or max(lead) == 1
        k = desk.given.k
        self.own = desk.given.single or k.shape[-3] == desk.given.q.shape[-3]

    def value(self, name: str, per: str = "") -> Array:
        """This head's part of a gradient."""
        return self.desk.two(self.back[name].value, per)

    def forth(self, name: str, per: str = "") -> Array:
        """This head's part of a step of the way there."""
        return self.desk.two(self.desk.steps[name].value, per)

    def heading(self, text: str, *names: str) -> Heading:
        return Heading(text, ", ".join(self.back[name].equation for name in names))

    def plain(self, name: str, value: Array, mark: bool = True) -> Table:
        """A gradient as a table without colours."""
        step = self.back[name]
        at = {"query": self.row, "key": self.key}.get(step.axes[0]) if mark else None
        return self.desk.table(step.symbol, value, step.axes, mark=at)

    def cells(self, name: str) -> Table:
        """A gradient of queries and keys in colours about 0."""
        value = self.value(name)
        finite = value[np.isfinite(value)]
        scale = Scale.of_scores(float(np.abs(finite).max(initial=0)))
        step = self.back[name]
        return self.desk.table(step.symbol, value, step.axes, mark=self.row, scale=scale, keep=self.desk.top(KEYS))

    def sums(
        self, left: str, a: Array, b: Array, result: Array, places: Sequence[Array], over: Array | None = None
    ) -> Sum:
        """a·b written out, with the figures of the tables that they stand in; over these terms, or all."""
        first, second, third = (self.desk.places(x) for x in places)
        some = None if over is None else np.flatnonzero(over).tolist()
        return products(left, a, b, (first, second, third), float(result), over=some)

    # The parts, from the output back.

    def output(self) -> list[Block]:
        """What is given, and the output projection."""
        first = self.back.steps[0].name
        per = "" if first == "d_output" else "item"
        d = self.value(first, per)
        blocks: list[Block] = [Heading("Given", shape=size(d)), Beside((self.plain(first, d),))]
        if first == "d_projected":
            assert self.given.w_o is not None
            before = "d_merged" if "d_merged" in self.back else "d_output"
            made = self.value(before, "item" if before == "d_merged" else "")
            letter = "m" if before == "d_merged" else "z"
            tables = [self.plain("d_w_o", self.back["d_w_o"].value, False), self.plain(before, made)]
            if "d_b_o" in self.back:
                tables.insert(1, self.desk.table("db_O", self.back["d_b_o"].value[None], ("", "")))
            w = self.given.w_o
            lines = [
                self.sums(f"d{letter}[{self.query}, {c}]", d[self.row], w[c], made[self.row, c], (d, w, made))
                for c in range(min(PARTS, made.shape[1]))
            ]
            blocks += [self.heading("Output projection", "d_w_o", before), Beside(tuple(tables)), Work(tuple(lines))]
        if "d_merged" in self.back and self.desk.heads > 1:
            z = self.value("d_output")
            said = f"Each head gets the columns of dM that were its own: dZ of head {self.desk.head}."
            blocks += [Heading("Heads apart", self.back["d_output"].equation, size(z)), Words(said),
                       Beside((self.plain("d_output", z),))]  # fmt: skip
        return blocks

    def weighted_sum(self) -> list[Block]:
        """Through Z = A·V."""
        a, v, dz = self.forth("weights"), self.desk.two(self.given.v), self.value("d_output")
        d_a, d_v, hidden = self.value("d_weights"), self.value("d_v"), self.hidden()
        lines = [
            self.sums(f"dA[{self.query}, {self.desk.keys[j]}]", dz[self.row], v[j], d_a[self.row, j], (dz, v, d_a))
            for j in self.desk.top(KEYS)
            if not hidden[self.row, j]
        ]
        column = hidden[:, self.key]
        if self.alone and self.own:
            lines += [
                self.sums(f"dv[{self.other}, {c}]", a[:, self.key], dz[:, c], d_v[self.key, c], (a, dz, d_v), ~column)
                for c in range(min(PARTS, d_v.shape[1]))
            ]
        return [
            self.heading("Back through the weighted sum", "d_weights", "d_v"),
            Words("A weight matters as much as the value behind it points along dZ; a value by the weights it had."),
            self.cells("d_weights"),
            Beside((self.plain("d_v", d_v),)),
            Work(tuple(lines)),
        ]

    def hidden(self) -> Array:
        """Which cells are not seen, (queries, keys)."""
        found: Array = self.desk.two(last_scores(self.desk.steps).value) == -np.inf
        return found

    def softmax(self) -> list[Block]:
        """Through A = softmax(S)."""
        name = "d_modified" if "d_modified" in self.back else "d_scaled"
        a, d_a, d_s = self.forth("weights")[self.row], self.value("d_weights")[self.row], self.value(name)[self.row]
        mean = float((a * d_a).sum())
        less = d_a - mean
        figures = [max(3, self.desk.places(x)) if self.desk.digits is None else self.desk.places(x)
                   for x in (self.forth("weights"), self.value("d_weights"), less, self.value(name))]  # fmt: skip
        shown = [j for j in self.desk.top(LISTED) if not self.hidden()[self.row, j]]
        taken = figure(mean, figures[1])
        rows = [
            (
                self.desk.keys[j],
                f"{figure(float(d_a[j]), figures[1])} − {factor(taken)}",
                figure(float(less[j]), figures[2]),
                f"· {figure(float(a[j]), figures[0])}",
                figure(float(d_s[j]), figures[3]),
            )
            for j in shown
        ]
        rest = [j for j in range(len(a)) if j not in set(shown) and a[j]]
        if rest:
            rows.append((f"{count(len(rest))} others", "", "", "", figure(float(d_s[rest].sum()), figures[3])))
        rows.append(("sum", "", "", "", figure(float(np.round(d_s.sum(), 12)), figures[3])))
        symbol = self.back[name].symbol
        seen = np.flatnonzero(a).tolist()
        work = products(
            f"Σ A ∘ dA, {self.query}", a, d_a, (figures[0], figures[1], figures[1]), mean, over=seen
        )  # fmt: skip
        blocks: list[Block] = [
            self.heading("Back through softmax", name),
            Words(
                "Raising one score raises its weight and lowers all others of the row: so the row's mean of dA, by "
                "its weights, is taken off first. The row then adds up to 0"
                + (", but for the share of the sink." if self.given.sinks is not None else ".")
            ),
            Work((work,)),
            Listing(("key", "dA − mean", "", "· A", f"= {symbol}"), tuple(rows), True, True, "key", (1, 2)),
            self.cells(name),
        ]
        if name == "d_modified":
            blocks += [self.heading("Back through the modifier", "d_scaled"), self.cells("d_scaled")]
        if "d_bias" in self.back or "d_sinks" in self.back:
            names = [n for n in ("d_bias", "d_sinks") if n in self.back]
            said = "; ".join(f"{self.back[n].symbol} has shape {size(self.back[n].value)}" for n in names)
            blocks.append(Words(f"What was added has gradients too: {said}."))
        return blocks

    def scale(self) -> list[Block]:
        """Through the scale."""
        before, after = self.value("d_scaled"), self.value("d_scores")
        places = self.desk.places(before), self.desk.places(after)
        by = figure(self.given.factor, decimals([self.given.factor], None))
        j = self.key
        line = products(
            f"dS[{self.query}, {self.other}]", before[self.row, j : j + 1], np.array([self.given.factor]),
            (places[0], decimals([self.given.factor], None), places[1]), float(after[self.row, j]),
        )  # fmt: skip
        said = f"Every score was multiplied by {by}, and so is its gradient."
        return [self.heading("Back through the scale", "d_scores"), Words(said), self.cells("d_scores"), Work((line,))]

    def products(self) -> list[Block]:
        """Through S = Q·Kᵀ."""
        q, k, d_s = self.desk.two(self.given.q), self.desk.two(self.given.k), self.value("d_scores")
        d_q, d_k, hidden = self.value("d_q"), self.value("d_k"), self.hidden()
        column = hidden[:, self.key]
        lines = [
            self.sums(
                f"dq[{self.query}, {c}]", d_s[self.row], k[:, c], d_q[self.row, c], (d_s, k, d_q), ~hidden[self.row]
            )
            for c in range(min(PARTS, d_q.shape[1]))
        ]
        said = "A query moves along the keys whose scores should grow, a key along the queries."
        if self.alone and self.own:
            lines += [
                self.sums(f"dk[{self.other}, {c}]", d_s[:, self.key], q[:, c], d_k[self.key, c], (d_s, q, d_k), ~column)
                for c in range(min(PARTS, d_k.shape[1]))
            ]
        elif not self.own:
            said += " A key head that several query heads share adds up what each of them says."
        tables = Beside((self.plain("d_q", d_q), self.plain("d_k", d_k)))
        return [self.heading("Back through the scores", "d_q", "d_k"), Words(said), tables, Work(tuple(lines))]

    def projections(self) -> list[Block]:
        """Through the projections."""
        g, desk = self.given, self.desk
        if g.x is None:
            return []
        tables, lines, names = [], [], []
        x = desk.two(g.x, "item")
        for letter, whole in (("q", g.q), ("k", g.k), ("v", g.v)):
            step = self.back[f"d_w_{letter}"]
            names.append(step.name)
            first, last = desk.slice(step.value, whole)
            tables.append(desk.table(step.symbol, step.value[:, first:last], ("", ""), first=first))
            if f"d_b_{letter}" in self.back:
                bias = self.back[f"d_b_{letter}"]
                tables.append(desk.table(bias.symbol, bias.value[None, first:last], ("", ""), first=first))
            if letter == "q" and self.alone:
                d_q, w = self.value("d_q"), step.value[:, first:last]
                lines += [self.sums(f"dW_Q[0, {first + c}]", x[:, 0], d_q[:, c], w[0, c], (x, d_q, w))
                          for c in range(min(2, w.shape[1]))]  # fmt: skip
        inputs = [self.plain("d_x", self.value("d_x", "item"))]
        if "d_context" in self.back:
            inputs.append(self.plain("d_context", self.value("d_context", "item")))
        said = "A projection's gradient adds up over all tokens" + ("." if self.alone else " of all sequences.")
        if desk.heads > 1:
            said += f" Shown are the columns of head {desk.head}; dX adds up over the heads."
        blocks: list[Block] = [
            self.heading("Back through the projections", *names), Words(said), Beside(tuple(tables))
        ]  # fmt: skip
        if lines:
            blocks.append(Work(tuple(lines)))
        last_names = ["d_x", *(["d_context"] if "d_context" in self.back else [])]
        return [*blocks, self.heading("The inputs", *last_names), Beside(tuple(inputs))]
