"""The table of patterns: numbers for each head and pattern, and how they are read."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from regard.errors import QuestionError
from regard.lens.wording import number, percent, short

Array = np.ndarray[Any, Any]

SHARE, TIMES = 0.5, 3  # what names a head: half of what its rows give, and three times what an even spread would
FEW = 20  # rows below which a head is not named an induction head: by chance alone some would be
MOST = 40  # heads that are listed; of more, the named ones
SHORT = {
    "previous_token_head": "prev",
    "duplicate_token_head": "dup",
    "induction_head": "induc",
    "next_token": "next",
    "current_token": "self",
    "first_token": "first",
    "separator": "sep",
    "punctuation": "punct",
    "uniform": "unif",
    "aligned": "align",
}
SAID = {
    "previous_token_head": "previous token",
    "duplicate_token_head": "duplicate token",
    "induction_head": "induction",
}


class Column(NamedTuple):
    """What is known of one pattern, for each head."""

    mul: Array
    share: Array
    even: Array
    rows: Array


class Fixed(NamedTuple):
    """Beside a pattern of edges: the distance, among those of its edges, that each head gives most to from the same
    queries, and the share that it gives there."""

    distance: Array
    share: Array


class Named(NamedTuple):
    """A head and the pattern that tells most of it, None if there is no simple pattern."""

    head: tuple[int, ...]
    label: str
    name: str | None
    share: float
    even: float
    rows: int

    def __str__(self) -> str:
        before = f"{self.label} " if self.label else ""
        if self.name is None:
            return f"{before}no simple pattern"
        return f"{before}{SAID.get(self.name, self.name.replace('_', ' '))} {percent(self.share)}"


@dataclass(frozen=True, eq=False)
class Patterns:
    """Heads × patterns. Arrays have the axes of the heads, then one of the patterns in the order of `names`.

    `share`   mean weight inside the pattern over the rows where it exists
    `even`    what an even spread over the visible keys of these rows would give
    `mul`     weight inside the pattern / all weight: TransformerLens' measure, NaN for "uniform"
    `rows`    in how many rows the pattern exists; without any, share and even are NaN

    For "uniform", share is the mean entropy of a row divided by the logarithm of its visible keys, and even is 1.
    """

    names: tuple[str, ...]
    mul: Array
    share: Array
    even: Array
    rows: Array
    labels: tuple[str, ...]
    local: int = 4
    fixed: dict[str, Fixed] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Column:
        """The columns of one pattern."""
        if name not in self.names:
            why = self.left_out.get(name, f"expected one of {', '.join(self.names)}")
            raise QuestionError(f"{name!r} is not in the table: {why}")
        at = self.names.index(name)
        return Column(self.mul[..., at], self.share[..., at], self.even[..., at], self.rows[..., at])

    @property
    def telling(self) -> Array:
        """Where a head may be named after a pattern: a share of at least half and 3 times an even spread, for induction
        in 20 rows or more, for edges above that of the best fixed distance. An even spread is no pattern."""
        with np.errstate(invalid="ignore"):
            telling = (self.share >= SHARE) & (self.share >= TIMES * self.even)
        for at, name in enumerate(self.names):
            if name == "induction_head":
                telling[..., at] &= self.rows[..., at] >= FEW
            elif name == "uniform":
                telling[..., at] = False
            elif name in self.fixed:
                telling[..., at] &= self.share[..., at] > self.fixed[name].share
        return telling

    def named(self) -> list[Named]:
        """The strongest pattern of each head, as far as it has one.

        Strongest is what says most beside an even spread, share · ln(share / even): so a head that looks at the
        previous token is not called local, though all of that is local too. A name is of a head on this text.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            gain = np.where(self.telling, self.share * np.log(self.share / self.even), -np.inf)
        found = []
        for head, label in zip(np.ndindex(self.share.shape[:-1]), self.labels, strict=True):
            # Patterns that are the same here, as "aligned" and "current_token" on a square, differ by rounding alone.
            most = gain[head].max(initial=-np.inf)
            best = int(np.argmax(gain[head] >= most - abs(most) * 1e-4)) if len(self.names) else -1
            if best < 0 or gain[head][best] == -np.inf:
                found.append(Named(head, label, None, math.nan, math.nan, 0))
            else:
                at = (*head, best)
                share, even, rows = float(self.share[at]), float(self.even[at]), int(self.rows[at])
                found.append(Named(head, label, self.names[best], share, even, rows))
        return found

    def __str__(self) -> str:
        named = self.named()
        return self._one(named[0]) if len(named) == 1 else self._many(named)

    __repr__ = __str__

    def _one(self, named: Named) -> str:
        """The table of a single head: patterns down, columns across."""
        wide = max(map(len, [*map(self._title, self.names), ""]))
        lines = [str(named), f"{'':{wide}}   {'share':>7}  {'even':>7}  {'mul':>7}  {'rows':>6}"]
        columns = (
            x.reshape(-1, len(self.names))[0] for x in (self.share, self.even, self.mul, self.rows, self.telling)
        )
        for name, share, even, mul, rows, telling in zip(self.names, *columns, strict=True):
            mark = "*" if telling else " "
            texts = f"{number(share):>7}  {number(even):>7}  {number(mul):>7}  {int(rows):>6}"
            lines.append(f"{self._title(name):{wide}} {mark} {texts}{self._beside(name, ())}".rstrip())
        return "\n".join([*lines, LEGEND])

    def _title(self, name: str) -> str:
        return f"local, within {self.local}" if name == "local" else name

    def _beside(self, name: str, head: tuple[int, ...]) -> str:
        """What is said beside a share of edges."""
        if name not in self.fixed:
            return ""
        distance, share = (x.reshape(-1)[0] for x in self.fixed[name])
        if math.isnan(share):
            return ""
        return f"   {number(share)} at {abs(int(distance))} {'before' if distance > 0 else 'after'}"

    def _many(self, named: list[Named]) -> str:
        """The table of several heads: heads down, the share of each pattern across, as wide as the terminal."""
        width = shutil.get_terminal_size((80, 24)).columns
        share, telling = (x.reshape(-1, len(self.names)) for x in (self.share, self.telling))
        told = [i for i, x in enumerate(named) if x.name is not None]
        chosen = list(range(len(named))) if len(named) <= MOST else told[:MOST]
        first = max([len(named[i].label) for i in chosen], default=0)
        heads = [SHORT.get(name, f"±{self.local}" if name == "local" else name) for name in self.names]
        wide = [max(5, len(h)) for h in heads]
        lines: list[str] = []
        at = 0
        while chosen and at < len(heads):
            stop, used = at, first
            while stop < len(heads) and (stop == at or used + wide[stop] + 1 < width):
                used += wide[stop] + 1
                stop += 1
            part = range(at, stop)
            lines += [""] if lines else []
            lines.append((" " * first + "".join(f" {heads[p]:>{wide[p]}}" for p in part)).rstrip())
            for i in chosen:
                cells = (f"{short(float(share[i, p])):>{wide[p]}}{'*' if telling[i, p] else ' '}" for p in part)
                lines.append(f"{named[i].label:{first}} {''.join(cells)}".rstrip())
            at = stop
        if len(chosen) < len(told):
            lines.append(f"… and {len(told) - len(chosen)} more heads with a name")
        lines.append(f"{len(named) - len(told)} of {len(named)} heads: no simple pattern" if named else "no heads")
        return "\n".join([*lines, LEGEND])


LEGEND = (
    "share: mean over the rows where the pattern exists, on this text\n"
    f"* at least {SHARE} and {TIMES} times an even spread over the visible keys"
)
