"""Works that give their figures themselves, not times of calls beside those of peers."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

Figures = list[tuple[str, float | None, str, str, float | None]]  # what, value, unit, bound, target


@dataclass(frozen=True)
class Measured:
    """A measurement; `by` is the function that makes it, as module.function of this folder."""

    name: str
    by: str
    long: bool = False

    def figures(self, rounds: int) -> Figures:
        module, function = self.by.split(".")
        found: Figures = getattr(import_module(f"benchmarks.{module}"), function)(rounds)
        return found
