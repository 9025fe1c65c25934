"""A plan: all that machine code depends on, and nothing else. Lengths, strides, numbers and tables are arguments.

`JOB` and `Workspace` say where a kernel finds its arguments and its scratch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from regard.algebra.program import Node
from regard.kernels.target import Target
from regard.kernels.values import Type, f32, f64, i16

Shape = tuple[tuple[Node, ...], tuple[int, ...]]

STORAGE = {"f32": f32, "f64": f64, "bf16": i16, "f16": i16}
SIZES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2}

# The words of a job. Counters that threads share lie a cache line apart; addresses of heads come from tables of byte
# offsets, one for each (leading index, query head).
SHARED = {"next0": 0, "done0": 8, "next1": 16, "done1": 24, "stop": 32, "total0": 33, "total1": 34, "task_cost": 35}
FIELDS = [
    *("q", "k", "v", "out", "lse", "sinks", "words", "mask", "bias", "packed", "partial", "vector"),  # addresses
    *("q_at", "k_at", "v_at", "out_at", "lse_at", "mask_at", "bias_at", "packed_at", "source_at"),  # tables of offsets
    *("q_row", "k_row", "v_row", "out_row", "mask_row", "bias_row"),  # bytes from row to row
    *("n_q", "n_k", "heads", "key_heads", "group", "scale"),
    *("row_first", "row_count", "key_first", "key_count"),  # the part of the matrix to walk past
    *("parts", "part_keys"),  # how the work is cut
    *("strip", "stretches", "stretch"),  # blocks of queries in a task, and pieces, of so many tiles, of their keys
]
JOB = SHARED | {name: 40 + i for i, name in enumerate(FIELDS)}
JOB_WORDS = 40 + len(FIELDS)

# The first words of a workspace: what a call that was interrupted goes on with.
STATE = {"task": 0, "tile": 1, "fresh": 2, "budget": 3, "block": 4, "strip": 5}


@dataclass(frozen=True)
class Top:
    """The k largest weights of each row."""

    k: int


@dataclass(frozen=True)
class Binned:
    """Weights added up, or their largest, by bin: the sum of a number of the row and a number of the key.

    `along` says how bins lie: "keys", one for each key from the first on; "diagonals", one for each difference of row
    and key; else by runs of keys with the same number, where rows have the same number ("runs"), numbers that follow
    each other ("runs of rows") or any numbers ("runs of groups").
    """

    pool: str  # sum, max
    along: str
    row: Shape | None
    key: Shape | None
    where: Shape | None  # only cells where this holds

    @property
    def programs(self) -> tuple[Shape, ...]:
        return tuple(x for x in (self.row, self.key, self.where) if x is not None)


Reduction = str | Top | Binned  # output, lse, wide lse, cells, scores, entropy, largest


@dataclass(frozen=True)
class Plan:
    """One kernel. Everything in it is hashable and printable, so that it can be a key."""

    kind: str  # forward, decode, settled, thin rows, thin columns
    target: Target
    storage: str  # of q, k and v: f32, f64, bf16, f16
    d: int
    d_v: int
    vectors: int  # of queries in a group
    groups: int  # of queries in a block
    keys: int  # in a block
    reductions: tuple[Reduction, ...] = ("output",)
    modify: Shape | None = None
    mask: Shape | None = None
    mask_array: bool = False
    bias: str = ""  # the storage of a (query, key) bias
    sinks: bool = False
    additive: bool = False  # scores are w · tanh(q + k)
    natural: bool = False  # scores are held as they enter softmax, not as bare products q·k
    hides: bool = False  # a modifier or a bias may make a score -inf
    long: bool = False  # so many blocks of keys that the rounding of their sum counts
    whole_bits: int = 32  # of whole numbers on lanes
    queries: int = 0  # rows that share each key, when decoding

    @property
    def number(self) -> Type:
        """What is computed in."""
        return f64 if self.storage == "f64" else f32

    @property
    def streams(self) -> bool:
        """Whether rows are read once, lanes along them, rather than multiplied tile by tile."""
        return self.kind in ("decode", "thin rows", "thin columns")

    @property
    def pairs(self) -> bool:
        """Whether products are of bf16 pairs."""
        return self.storage == "bf16" and self.target.pairs

    @property
    def amx(self) -> bool:
        """Whether these products are made on matrix registers."""
        return self.pairs and self.target.amx and not self.streams

    @property
    def widened(self) -> bool:
        """Whether blocks of K and V are turned into f32 before they are multiplied; a decode widens as it reads."""
        return self.storage in ("bf16", "f16") and not self.pairs and not self.streams

    @property
    def panels(self) -> bool:
        """Whether blocks of V are laid out in panels, some columns wide, before they are multiplied."""
        return not self.pairs and "output" in self.reductions and (self.groups > 1 or self.widened)

    @property
    def lanes(self) -> int:
        return self.target.lanes(self.number.bits)

    @property
    def across(self) -> int:
        """Queries in a group: lanes times vectors."""
        return self.lanes * self.vectors

    @property
    def block(self) -> int:
        """Queries in a block."""
        return self.across * self.groups

    @property
    def step(self) -> int:
        """Keys that a tile of scores is a whole number of."""
        return 32 if self.amx else self.target.rows

    @property
    def depth(self) -> int:
        """Steps of the first product: d, or pairs of it, which fill matrix registers with zeros."""
        if self.amx:
            return -(-self.d // 32) * 16
        return (self.d + 1) // 2 if self.pairs else self.d

    @property
    def value_columns(self) -> int:
        """Columns of V as they are laid out for the second product."""
        return -(-self.d_v // 16) * 16 if self.amx else self.d_v

    @cached_property
    def workspace(self) -> dict[str, int]:
        """Byte offsets of the parts of a workspace, and its size."""
        parts = self._decode_parts() if self.streams else self._block_parts()
        offsets, at = {}, 0
        for name, length in parts.items():
            offsets[name] = at
            # An odd number of cache lines between parts keeps their rows from falling on the same sets.
            at += (length + 63) // 64 * 64 + 64
        return offsets | {"size": at}

    def _decode_parts(self) -> dict[str, int]:
        """The state of the rows that share a key head."""
        size, lanes, rows = self.number.size, self.lanes, self.queries
        return {
            "state": 512,
            "queries": rows * -(-self.d // lanes) * lanes * size,
            "output": rows * -(-self.d_v // lanes) * lanes * size,
            "maximum": rows * size,
            "sum": rows * size,
            "alpha": rows * size,
            "scores": rows * self.keys * size,
            "visible": rows * self.keys,
        }

    def _block_parts(self) -> dict[str, int]:
        """The state of a block of queries, and one tile of scores."""
        size = self.number.size
        return {
            "state": 512,
            "queries": self.groups * self.depth * self.across * size,
            "output": self.groups * self.d_v * self.across * size * (1 + self.long),
            "maximum": self.groups * self.across * size,
            "sum": self.groups * self.across * size * (1 + self.long),
            "alpha": self.across * size,
            "block_maximum": self.across * size,
            "scores": self.keys * self.across * size,
            "pairs": self.keys // 2 * self.across * 4 * self.pairs,
            "visible": self.keys * self.vectors * 2,
            "mask": self.keys * self.across * self.mask_array,
            "bias": self.keys * self.across * size * bool(self.bias),
            "keys": self.keys * (self.depth if self.amx else self.d) * 4 * (self.widened or self.amx),
            "values": self.keys * self.value_columns * size * ("output" in self.reductions),
            "vector": self.d * size * self.additive,
            "sums": 32 * self.across * size * self.amx,
            "moment": self.across * size * ("entropy" in self.reductions),
            "entropy": self.groups * self.across * 8 * ("entropy" in self.reductions),
            "largest": self.groups * self.across * size * ("largest" in self.reductions),
            "top": self.groups * self.across * self.top * size,
            "top_keys": self.groups * self.across * self.top * 4,
        }

    @property
    def top(self) -> int:
        """How many largest weights of each row are wanted."""
        return max((x.k for x in self.reductions if isinstance(x, Top)), default=0)

    @cached_property
    def key(self) -> str:
        """The text that the plan is known by on disk."""
        return repr(self)
