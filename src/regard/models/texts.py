"""A text as the tokens of a model: whole, a part, or windows; nothing is cut that was not asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.errors import LimitError, TokenError, counted

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens of a text, with those that the model puts around it."""

    ids: Array  # (n,) int64
    names: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]  # (start, end) in the text; (0, 0) for what is not of the text
    special: tuple[bool, ...]  # put there by the model

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """What a tokenizer of the tokenizers library gives, as Tokens; it is loaded when first needed."""

    def __init__(self, load: Callable[[], Any], positions: int):
        self.load, self.positions = load, positions

    @cached_property
    def _library(self) -> Any:
        return self.load()

    @cached_property
    def _around(self) -> tuple[int, int]:
        """How many special tokens the model puts before a text and after it."""
        special = self._library.encode("a").special_tokens_mask
        before = special.index(0) if 0 in special else 0
        return before, len(special) - before - special.count(0)

    def tokens(self, text: str, start: int = 0, count: int | None = None) -> Tokens:
        """The tokens from the text's `start`-th on; at most `count`, special ones among them, if that is given."""
        whole = self._whole(text)
        before, after = self._around
        last = len(whole) - after
        room = last if count is None else max(0, count - before - after)
        if not 0 <= start <= max(0, last - before - 1):
            raise TokenError(
                f"start is {start} and the text has {counted(last - before, 'token')} without special ones, "
                f"expected 0 to {max(0, last - before - 1)}: begin earlier"
            )
        return self._part(whole, before + start, min(last, before + start + room))

    def windows(self, text: str) -> list[Tokens]:
        """As many windows as are needed, one after the other; a word is only parted if it fills half of one."""
        words = self._library.encode(text).word_ids
        whole = self._whole(text)
        before, after = self._around
        room = self.positions - before - after
        if room < 1:
            raise LimitError(
                f"the model has {counted(self.positions, 'position')}, expected more than its own tokens take: "
                "use another"
            )
        first, last = before, len(whole) - after
        windows: list[Tokens] = []
        while first < last or not windows:
            end = furthest = min(last, first + room)
            while end < last and words[end] == words[end - 1] is not None and end - first > room // 2:
                end -= 1
            if end - first <= room // 2:
                end = furthest
            windows.append(self._part(whole, first, end))
            first = end
        return windows

    def _whole(self, text: str) -> Tokens:
        """The tokens of a text, all of them."""
        found, (before, after) = self._library.encode(text), self._around
        ids = np.array(found.ids, np.int64)
        special = tuple(not before <= i < len(ids) - after for i in range(len(ids)))
        return Tokens(ids, tuple(found.tokens), tuple(found.offsets), special)

    def _part(self, whole: Tokens, first: int, last: int) -> Tokens:
        """Tokens first … last - 1 between what is put around a text."""
        (before, after), n = self._around, len(whole)
        around = (slice(0, before), slice(first, last), slice(n - after, n))
        return Tokens(
            np.concatenate([whole.ids[part] for part in around]),
            tuple(x for part in around for x in whole.names[part]),
            tuple(x for part in around for x in whole.offsets[part]),
            tuple(x for part in around for x in whole.special[part]),
        )
