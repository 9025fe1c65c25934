"""The questions as methods, the same on every matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from regard.lens.ask import Progress, Readable, answered, callable_or_none, checked, shaped
from regard.lens.columns import Between, ByDistance, Distance, Distances, Heatmap, Received
from regard.lens.compare import Comparison, compare
from regard.lens.question import Pair, Question
from regard.lens.rows import Effective, Entropy, Peak, Top
from regard.lens.single import MANY, Bright, Cells, Mass, Share


class Questions:
    """What can be asked of a matrix. Each method asks one question; `ask` answers many from one pass."""

    def readable(self) -> Readable:
        """The matrix as questions see it."""
        raise NotImplementedError  # an abstract method

    def give(self, array: Any) -> Any:
        """An answer as an array of the caller's kind."""
        return array

    def answers(self, questions: Sequence[Question], progress: Progress | None) -> list[Any]:
        """Answers with flat heads."""
        return answered(self.readable(), questions, progress)

    def ask(self, *questions: Question, progress: Progress | None = None) -> list[Any]:
        """The answers to some questions, all from one pass; `progress` is told the share that is done."""
        checked(questions)
        callable_or_none(progress)
        matrix = self.readable()
        found = self.answers(questions, progress)
        if progress is not None:
            progress(1.0)
        return [shaped(matrix, q, answer, self.give) for q, answer in zip(questions, found, strict=True)]

    def _one(self, question: Question, progress: Progress | None = None) -> Any:
        return self.ask(question, progress=progress)[0]

    def entropy(self, *, progress: Progress | None = None) -> Any:
        """Of each query, -Σ a ln a in nats: 0 where one key has all, ln n where n keys share alike."""
        return self._one(Entropy(), progress)

    def effective(self, *, progress: Progress | None = None) -> Any:
        """Of each query, over how many keys an even spread would be as uncertain: exp(entropy)."""
        return self._one(Effective(), progress)

    def peak(self, *, progress: Progress | None = None) -> Pair:
        """Of each query, its largest weight and the key that has it."""
        found: Pair = self._one(Peak(), progress)
        return found

    def top(self, k: int = 5, *, progress: Progress | None = None) -> Pair:
        """Of each query, its k largest weights and their keys; see `regard.lens.Top`."""
        found: Pair = self._one(Top(k), progress)
        return found

    def received(
        self,
        queries: Any = None,
        per: Literal["sum", "mean", "visible"] = "sum",
        group: Literal["kv"] | None = None,
        pool: tuple[str, int] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Any:
        """Of each key, the weight that it receives; see `regard.lens.Received`."""
        return self._one(Received(queries, per, group, pool), progress)

    def by_distance(self, per: Literal["sum", "visible"] = "sum", *, progress: Progress | None = None) -> Distances:
        """(distances, mass, visible cells): how far back each head looks; see `regard.lens.ByDistance`."""
        found: Distances = self._one(ByDistance(per), progress)
        return found

    def distance(self, *, progress: Progress | None = None) -> Any:
        """Of each head, the mean distance of its weight."""
        return self._one(Distance(), progress)

    def between(
        self,
        query_groups: Any,
        key_groups: Any = None,
        per: Literal["query", "sum"] = "query",
        *,
        progress: Progress | None = None,
    ) -> Any:
        """The weight of query groups on key groups; see `regard.lens.Between`."""
        return self._one(Between(query_groups, key_groups, per), progress)

    def mass(self, where: Any, *, progress: Progress | None = None) -> Share:
        """(of each row, of each head) the share of the mass inside a mask; see `regard.lens.Mass`."""
        found: Share = self._one(Mass(where), progress)
        return found

    def cells(self, above: float = 0.5, limit: int = MANY, *, progress: Progress | None = None) -> Bright:
        """The cells with weights above a threshold, sorted; see `regard.lens.Cells`."""
        found: Bright = self._one(Cells(above, limit), progress)
        return found

    def heatmap(
        self,
        rows: int,
        columns: int | None = None,
        pool: Literal["mean", "max", "sum"] = "mean",
        of: Literal["visible", "all"] = "visible",
        region: tuple[int, int, int, int] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Any:
        """The whole matrix, or a region of it, at any resolution; see `regard.lens.Heatmap`."""
        return self._one(Heatmap(rows, columns, pool, of, region), progress)

    def compare(self, other: Any, *, progress: Progress | None = None) -> Comparison:
        """How far apart this matrix and another of its shape are, by row and by head; see `regard.lens.Comparison`."""
        return compare(self, other, progress)

    def summary(self, *, progress: Progress | None = None) -> dict[str, Any]:
        """The standard questions from one pass: entropy, top 5, received, by distance and a heatmap of 64 × 64."""
        names: dict[str, Callable[[], Question]] = {
            "entropy": Entropy,
            "top": Top,
            "received": Received,
            "by_distance": ByDistance,
            "heatmap": lambda: Heatmap(64),
        }
        return dict(zip(names, self.ask(*(make() for make in names.values()), progress=progress), strict=True))
