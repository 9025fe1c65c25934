"""What a walk through a trace is about: one head, one query, the names of tokens, and sums written out.

>>> named = Names(["The", "The"], 2, True)
>>> named[1], named.quoted(1)
('The (1)', "'The (1)'")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.lens.heads import place_of
from regard.matrix import AttentionMatrix
from regard.steps import Given, Step, Steps
from regard.view.colour import Scale
from regard.view.figures import decimals, figure, value_of
from regard.view.grid import row_of
from regard.view.sheet import Sum, Table
from regard.view.text import clean, clip, count

Array = np.ndarray[Any, Any]

TERMS = 8  # of a sum; of longer ones the largest are shown
KEYS = 5  # keys whose scores are worked out
LABEL = 14  # columns of a token in a formula


class Names(Sequence[str]):
    """What the places of an axis are called in formulas: their tokens, with the place where several share one."""

    def __init__(self, tokens: Sequence[str] | None, n: int, unicode: bool):
        if tokens is None:
            self.names = [str(i) for i in range(n)]
        else:
            number = Counter(tokens)
            more = "…" if unicode else "~"
            self.names = [
                clip(clean(x, unicode), LABEL, more) + (f" ({i})" if number[x] > 1 else "")
                for i, x in enumerate(tokens)
            ]
        self.tokens = tokens

    def __getitem__(self, i: Any) -> Any:
        return self.names[i]

    def __len__(self) -> int:
        return len(self.names)

    def quoted(self, i: int) -> str:
        """A place in a sentence."""
        return f"query {i}" if self.tokens is None else f"'{self.names[i]}'"


@dataclass(frozen=True, eq=False)
class Desk:
    """What a walk is about: one head of a trace, one query, and the key that it looks at most."""

    given: Given
    steps: Steps
    matrix: AttentionMatrix
    place: tuple[int, ...]
    row: int
    key: int
    queries: Names
    keys: Names
    digits: int | None

    @classmethod
    def of(
        cls, given: Given, steps: Steps, matrix: AttentionMatrix, row: Any, head: Any, digits: int | None, unicode: bool
    ) -> Desk:
        decimals([], digits)  # says so if it makes no sense
        place = place_of(matrix, head)
        a = steps["weights"].value[place]
        n, m = a.shape
        chosen = telling(a) if row is None else row_of(matrix, row)
        key = int(np.nan_to_num(a[chosen]).argmax()) if n and m else 0
        names = Names(matrix.tokens, n, unicode), Names(matrix.key_tokens, m, unicode)
        return cls(given, steps, matrix, place, chosen, key, *names, digits)

    @property
    def head(self) -> int:
        return self.place[-1] if self.place else 0

    @property
    def heads(self) -> int:
        return 1 if self.given.single else int(self.given.q.shape[-3])

    def two(self, value: Array, per: str = "") -> Array:
        """The part of a value that is this head's, (rows, columns); `per` is "item" for what has no axis of heads."""
        if self.given.single:
            return value
        lead = self.place[:-1]
        if per == "item":
            lead = lead[len(lead) - (value.ndim - 2) :] if value.ndim > 2 else ()
            return value[tuple(min(i, n - 1) for i, n in zip(lead, value.shape[:-2], strict=True))]  # type: ignore[no-any-return]  # an array
        own = value.shape[-3]
        lead = lead[len(lead) - (value.ndim - 3) :] if value.ndim > 3 else ()
        at = tuple(min(i, n - 1) for i, n in zip(lead, value.shape[:-3], strict=True))
        return value[(*at, self.head * own // max(1, self.heads))]  # type: ignore[no-any-return]  # an array

    def slice(self, w: Array, per: Array) -> tuple[int, int]:
        """Which columns of a projection are this head's."""
        width = per.shape[-1]
        own = 1 if self.given.single else per.shape[-3]
        first = (self.head * own // max(1, self.heads)) * width
        return first, first + width

    def places(self, *values: Any) -> int:
        """Figures after the point that suit all these numbers."""
        return max((decimals(value, self.digits) for value in values), default=0)

    def table(
        self, name: str, value: Array, axes: tuple[str, str], *, mark: int | None = None, first: int = 0,
        scale: Scale | None = None, keep: Sequence[int] = (),
    ) -> Table:  # fmt: skip
        """A matrix as a table, its rows and columns called by what they stand for."""
        called = {"query": self.queries, "key": self.keys}
        down = called.get(axes[0]) or [str(i) for i in range(value.shape[0])]
        across = called.get(axes[1]) or [str(i + first) for i in range(value.shape[1])]
        rows = (self.key,) if axes[0] == "key" else ()
        return Table(name, value, self.places(value), down, across, axes, mark, (rows, tuple(keep)), scale)

    def top(self, most: int) -> list[int]:
        """The keys that this query looks at most, in their order."""
        a = np.nan_to_num(self.steps["weights"].value[self.place][self.row])
        return sorted(int(j) for j in np.argsort(-a, kind="stable")[:most])

    def cells(self, step: Step, name: str = "") -> Table:
        """A table of queries and keys in colours: weights along their scale, all else about 0."""
        value = self.two(step.value)
        if step.name == "weights":
            scale = Scale.of_weights(value.shape[1])
        else:
            finite = value[np.isfinite(value)]
            scale = Scale.of_scores(float(np.abs(finite).max(initial=0)))
        return self.table(name or step.symbol, value, step.axes, mark=self.row, scale=scale, keep=self.top(KEYS))


def telling(a: Array) -> int:
    """The query of the largest weight between two different places: that says more than a look at itself.

    >>> telling(np.array([[1.0, 0.0], [0.7, 0.3]]))
    1
    """
    n, m = a.shape
    if not n or not m:
        return 0
    apart = np.nan_to_num(a).copy()
    itself = np.arange(n) + m - n
    inside = (itself >= 0) & (itself < m)
    apart[np.flatnonzero(inside), itself[inside]] = 0
    return int(apart.max(axis=1).argmax())


# Sums.


def factor(text: str) -> str:
    """A number after a sign of multiplication."""
    return f"({text})" if text.startswith("−") else text


def products(
    left: str, a: Array, b: Array, places: tuple[int, int, int], result: float, added: float | None = None,
    over: Sequence[int] | None = None,
) -> Sum:  # fmt: skip
    """a·b written out; of a long one its largest products, and the rest as one number.

    >>> products("z", np.array([0.5, 0.5]), np.array([1.0, -2.0]), (1, 0, 1), -0.5).text()
    'z = 0.5·1 + 0.5·(−2) = −0.5'
    """
    with np.errstate(all="ignore"):
        each = a * b
    chosen = list(range(len(a))) if over is None else list(over)
    rest = 0.0
    left_out = 0
    if len(chosen) > TERMS:
        size = -np.nan_to_num(np.abs(each[chosen]), nan=np.inf)
        order = [chosen[int(i)] for i in np.argsort(size, kind="stable")[: TERMS - 2]]
        kept = sorted(i for i in order if each[i] != 0) or order[:1]
        out = sorted(set(chosen) - set(kept))
        rest, left_out = float(each[out].sum()), len(out)
        chosen = kept
    texts = [(figure(float(a[i]), places[0]), figure(float(b[i]), places[1])) for i in chosen]
    terms = [f"{x if k == 0 or not x.startswith('−') else f'({x})'}·{factor(y)}" for k, (x, y) in enumerate(texts)]
    shown = sum(value_of(x) * value_of(y) for x, y in texts)
    if left_out:
        text = figure(rest, places[2])
        terms.append(f"{factor(text)} of {count(left_out)} others")
        shown += value_of(text)
    if added is not None:
        text = figure(added, places[2])
        terms.append(factor(text))
        shown += value_of(text)
    right = figure(result, places[2])
    return Sum(left, tuple(terms) or ("0",), right, "=" if same(shown, right, places[2]) else "≈")


def same(shown: float, right: str, places: int) -> bool:
    """Whether what was written adds up to what is written beside it, to its last digit.

    >>> same(0.1234, "0.12", 2), same(0.1284, "0.12", 2), same(4.2e-5, "4e−5", 3), same(6e-5, "4e−5", 3)
    (True, False, True, False)
    """
    if not np.isfinite(shown):
        return True
    number, _, power = right.replace("−", "-").partition("e")
    if power:
        places = len(number.partition(".")[2]) - int(power)
    return bool(abs(shown - value_of(right)) <= 0.5000001 * 10.0**-places)


def size(value: Array) -> str:
    """A shape as it is written on paper."""
    return " × ".join(map(str, value.shape)) or "1"


def last_scores(steps: Steps) -> Step:
    """The scores that softmax sees."""
    return next(steps[name] for name in ("masked", "biased", "modified", "scaled") if name in steps)
