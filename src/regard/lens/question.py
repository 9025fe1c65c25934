"""What a question is: a reduction of A over blocks of rows, in terms that any array library has.

    create    the state before anything was seen
    update    a block of rows, with all their keys, taken into the state
    merge     two states of neighbouring rows, the first first
    finalize  the state as an answer

Arrays of a state and of an answer begin with an axis of heads, flat over the leading axes. A question of your own needs
no more than these four to work in `A.ask`:

    >>> import numpy as np, regard
    >>> class Largest:
    ...     def create(self, layout):
    ...         return layout.zeros(layout.n_q)
    ...     def update(self, state, block):
    ...         return put(block.xp, state, block.first_row, block.xp.max(block.weights, axis=-1))
    ...     def merge(self, a, b):
    ...         return a + b
    ...     def finalize(self, state, layout):
    ...         return state
    >>> x = np.eye(3, dtype=np.float32)
    >>> A = regard.matrix(x, x, scale=0.0)
    >>> [round(float(a), 4) for a in A.ask(Largest())[0]]
    [0.3333, 0.3333, 0.3333]
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from regard.kernels.wanted import enough

Array = Any  # of any library


@dataclass(frozen=True)
class Layout:
    """The part of a matrix that a question is asked of: some heads, all rows, all keys."""

    heads: int  # flat over the leading axes
    first_head: int
    each: int  # query heads of one leading index
    group: int  # query heads that share a key head
    n_q: int
    n_k: int
    q: Array  # (n_q,) positions of the queries on the key axis
    k: Array  # (n_k,) positions of the keys
    xp: Any = np
    device: Any = None
    sequences: int = 1  # of the whole matrix

    @property
    def number(self) -> Any:
        """What is summed up in."""
        return self.xp.float64

    def zeros(self, *shape: int) -> Array:
        """(heads, …) zeros to sum up in."""
        enough(self.heads * math.prod(shape))
        return self.xp.zeros((self.heads, *shape), dtype=self.number, device=self.device)

    def counts(self, *shape: int) -> Array:
        """(heads, …) zeros to count in."""
        enough(self.heads * math.prod(shape))
        return self.xp.zeros((self.heads, *shape), dtype=self.xp.int64, device=self.device)

    def array(self, values: Any, dtype: Any = None) -> Array:
        """Numbers as an array of the library at hand."""
        given = np.asarray(values)
        if not given.flags.writeable and self.xp is not np:
            given = given.copy()  # other libraries want memory that they may write to
        return self.xp.asarray(given, dtype=dtype, device=self.device)


@dataclass(frozen=True)
class Block:
    """Exact weights of some neighbouring rows, with all their keys."""

    weights: Array  # (heads, rows, n_k); 0 where hidden
    visible: Array | None  # the same, boolean; None if all is visible
    first_row: int
    layout: Layout

    @property
    def xp(self) -> Any:
        return self.layout.xp

    @property
    def rows(self) -> range:
        return range(self.first_row, self.first_row + int(self.weights.shape[-2]))

    @property
    def q(self) -> Array:
        """Positions of these rows."""
        return self.layout.q[self.first_row : self.first_row + int(self.weights.shape[-2])]

    @property
    def wide(self) -> Array:
        """The weights, in the numbers that are summed up in."""
        return self.xp.astype(self.weights, self.layout.number)

    def seen(self) -> Array:
        """Which cells are visible, (heads, rows, n_k)."""
        if self.visible is not None:
            return self.visible
        return self.xp.ones(self.weights.shape, dtype=self.xp.bool, device=self.layout.device)

    def seen_count(self, axis: int) -> Array:
        """How many cells are visible along an axis."""
        return self.xp.sum(self.xp.astype(self.seen(), self.xp.int64), axis=axis)


class Question(Protocol):
    """What can be asked of A."""

    def create(self, layout: Layout) -> Any: ...
    def update(self, state: Any, block: Block) -> Any: ...
    def merge(self, a: Any, b: Any) -> Any: ...
    def finalize(self, state: Any, layout: Layout) -> Any: ...


class Pair(NamedTuple):
    """Weights, and the keys that have them."""

    weights: Array
    keys: Array


def whole(given: Any) -> int | None:
    """A whole number of any library as Python has it; None if it is none."""
    if isinstance(given, (bool, np.bool_)):
        return None
    try:
        return operator.index(given)
    except TypeError:
        return None


def set_whole(question: Any, name: str, words: str) -> None:
    """A field that has to be a whole number, 1 or more, as Python has it."""
    given = getattr(question, name)
    number = whole(given)
    if number is None or number < 1:
        raise ValueError(f"{name} is {given!r}, expected a whole number of {words}, 1 or more")
    object.__setattr__(question, name, number)  # questions are frozen


def summed(xp: Any, left: Array, a: Array, right: Array) -> Array:
    """left · a · right, (…, r) (heads, r, n) (n, …), where a NaN stays where it is: 0 times it is 0 here."""
    broken = xp.isnan(a)
    total = xp.matmul(xp.matmul(left, xp.where(broken, xp.zeros_like(a), a)), right)
    if not xp.any(broken):
        return total
    count = xp.matmul(xp.matmul(left, xp.astype(broken, a.dtype)), right)
    return xp.where(count > 0, xp.full_like(total, float("nan")), total)


def put(xp: Any, state: Array, first: int, rows: Array) -> Array:
    """The state with some rows added at their place: (heads, n, …), (heads, rows, …)."""
    before = state[:, :first, ...]
    after = state[:, first + int(rows.shape[1]) :, ...]
    here = state[:, first : first + int(rows.shape[1]), ...]
    return xp.concat([before, here + xp.astype(rows, here.dtype), after], axis=1)
