"""Matrices in memory with the shape of a recording, so that they can be looked at without one.

>>> import numpy as np, regard
>>> held = Memory([MemoryText([regard.matrix(np.eye(2), np.eye(2))], tokens=["a", "b"])])
>>> len(held.texts[0]), held.texts[0].matrix(0).shape
(1, (2, 2))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.matrix import AttentionMatrix


@dataclass(frozen=True)
class MemoryText:
    """A text and its layers, each a matrix with its heads."""

    matrices: Sequence[AttentionMatrix]
    text: str | None = None
    tokens: Sequence[str] | None = None
    offsets: Any = None
    special: Any = None
    names: Sequence[str] | None = None

    @property
    def layers(self) -> tuple[str, ...]:
        """What the layers are called."""
        return tuple(self.names or map(str, range(len(self.matrices))))

    def __len__(self) -> int:
        return len(self.matrices)

    def matrix(self, layer: int) -> AttentionMatrix:
        """A layer."""
        return self.matrices[layer]


@dataclass(frozen=True)
class Memory:
    """Texts that are looked at together."""

    texts: Sequence[MemoryText]
    model: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
