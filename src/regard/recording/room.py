"""Room for copies: memory that is used again once it was written, because fresh pages cost more than a copy.

>>> room = Room()
>>> first = room.copy(np.ones((256, 256)))
>>> room.back(first)
>>> bool(np.shares_memory(room.copy(np.zeros((200, 256))), first))
True
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

LEAST = 1 << 16  # bytes; below that Python's own allocator is as quick
KEPT = 64 << 20  # bytes that may wait for the next copy

Array = np.ndarray[Any, Any]


class Room:
    """Pieces of memory: lent to copies, and free after them."""

    def __init__(self) -> None:
        self.free: list[Array] = []
        self.lent: WeakValueDictionary[int, Array] = WeakValueDictionary()
        self.lock = threading.Lock()  # one thread copies, another writes and gives back

    def copy(self, x: Array) -> Array:
        """A copy in the order of its axes."""
        if x.nbytes < LEAST:
            return np.array(x, order="C")
        made: Array = self._memory(x.nbytes)[: x.nbytes].view(x.dtype).reshape(x.shape)
        made[...] = x
        return made

    def back(self, *copies: Array | None) -> None:
        """What these took is free; nobody may use them any more."""
        with self.lock:
            for x in copies:
                memory = None if x is None else self.lent.pop(id(x.base), None)
                if memory is not None:
                    self.free.append(memory)
            while sum(x.nbytes for x in self.free) > KEPT:
                del self.free[0]

    def clear(self) -> None:
        """Nothing waits any more."""
        with self.lock:
            self.free.clear()

    def _memory(self, size: int) -> Array:
        """At least so many bytes: the least that is free and large enough, or new ones."""
        with self.lock:
            enough = [i for i, x in enumerate(self.free) if x.nbytes >= size]
            if enough:
                memory = self.free.pop(min(enough, key=lambda i: self.free[i].nbytes))
            else:
                memory = np.empty(size, np.uint8)
            self.lent[id(memory)] = memory
            return memory
