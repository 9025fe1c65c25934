"""What can be said of a matrix in words: patterns and sentences, as methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from regard.lens.ask import Progress
    from regard.lens.table import Patterns


class Explained:
    """Patterns of the heads, and sentences about single cells and rows."""

    def patterns(
        self,
        ids: Any = None,
        *,
        special: Any = None,
        local: int = 4,
        edges: Any = None,
        offsets: Any = None,
        direction: Literal["back", "both"] = "back",
        where: Mapping[str, Any] | None = None,
        exclude_bos: bool = False,
        exclude_current_token: bool = False,
        progress: Progress | None = None,
    ) -> Patterns:
        """A table of heads × patterns such as the previous token or induction; see `regard.lens.patterns`."""
        from regard.lens.patterns import patterns

        return patterns(
            self,
            ids,
            special=special,
            local=local,
            edges=edges,
            offsets=offsets,
            direction=direction,
            where=where,
            exclude_bos=exclude_bos,
            exclude_current_token=exclude_current_token,
            progress=progress,
        )

    def explain(self, query: int | str, key: int | str | None = None, head: Any = None) -> str:
        """What a cell of A says, or a whole row, in sentences; see `regard.lens.explain`."""
        from regard.lens.explain import explain

        return explain(self, query, key, head)
