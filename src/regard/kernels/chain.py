"""Chains: what is done with each row for itself, as the arguments of one kernel.

>>> identity, shift = np.eye(3, dtype=np.float32), np.ones(3, np.float32)
>>> chain = Chain([Product("x", Weights(identity, shift), "y")])
>>> x, y = np.arange(6, dtype=np.float32).reshape(2, 3), Weights(identity, shift).room(2)
>>> chain(x=x, y=y)
>>> y[:, :3].tolist()
[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import ShapeError, TargetError
from regard.kernels import threads
from regard.kernels.compile import kernel
from regard.kernels.rows import CHAIN, CHAIN_WORDS, ERF, NEAR, NONE, NORM, PRODUCT, STEP, STEP_WORDS, TANH, Rows
from regard.kernels.target import host

Array = np.ndarray[Any, Any]
Words = ctypes.c_int64 * CHAIN_WORDS

REMEMBERED = 64  # layouts of arrays that a chain was run with
BLOCK = 64  # rows in a task, at most: with what is between the steps they share the second cache with a panel
SHORT = 32  # rows in a task, at least, where each thread has as many
SHARES = 4  # tasks for each thread, if they are not short
LINE = 16  # numbers in a cache line
PACE = 4e9  # operations a second and lane; see launch.py
GELUS = {"": NONE, "erf": ERF, "tanh": TANH}


class Weights:
    """W and b of x·W + b, from (columns, depth) and (columns,), laid out in panels; and GELU of it, if that follows."""

    def __init__(self, weight: Array, bias: Array, gelu: str = ""):
        self.columns, self.depth = (int(n) for n in weight.shape)
        self.plan = Rows(host())
        self.wide = self.plan.across
        self.panels = -(-self.columns // self.wide)
        self.gelu = GELUS[gelu]
        whole = self.columns // self.wide
        self.packed = _aligned(self.panels, self.depth, self.wide)
        self.bias = _aligned(self.panels * self.wide)
        self.bias[: self.columns] = bias
        # (panels · wide, depth) -> (panels, depth, wide)
        self.packed[:whole] = weight[: whole * self.wide].reshape(whole, self.wide, self.depth).transpose(0, 2, 1)
        if whole < self.panels:
            self.packed[whole, :, : self.columns - whole * self.wide] = weight[whole * self.wide :].T

    @property
    def width(self) -> int:
        """Columns as they are written: whole panels."""
        return self.panels * self.wide

    def room(self, rows: int) -> Array:
        """An array for what comes out; its columns from the last on mean nothing."""
        return np.empty((rows, self.width), np.float32)


def _aligned(*shape: int) -> Array:
    """Zeros that begin with a cache line, so that no vector of them lies in two."""
    size = int(np.prod(shape))
    room = np.zeros(size + LINE, np.float32)
    start = -room.ctypes.data % (4 * LINE) // 4
    return room[start : start + size].reshape(shape)


@dataclass(frozen=True)
class Product:
    """target = source·W + b"""

    source: str
    weights: Weights
    target: str

    @property
    def depth(self) -> int:
        return self.weights.depth

    @property
    def width(self) -> int:
        return self.weights.width

    def words(self) -> dict[str, int]:
        w = self.weights
        found = {"operation": PRODUCT, "depth": w.depth, "panels": w.panels, "gelu": w.gelu}
        return found | {"weights": w.packed.ctypes.data, "bias": w.bias.ctypes.data}


@dataclass(frozen=True)
class Norm:
    """target = norm(source + plus)·weight + bias"""

    source: str
    weight: Array
    bias: Array
    epsilon: float
    target: str
    plus: str = ""

    def __post_init__(self) -> None:
        for name in ("weight", "bias"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.float32))

    @property
    def depth(self) -> int:
        return len(self.weight)

    width = depth

    def words(self) -> dict[str, int]:
        epsilon: int = struct.unpack("<q", struct.pack("<d", self.epsilon))[0]
        found = {"operation": NORM, "depth": self.depth, "epsilon": epsilon}
        return found | {"weights": self.weight.ctypes.data, "bias": self.bias.ctypes.data}


class Chain:
    """Steps that each row goes through by itself.

    They name what they read and write. Called with arrays (n, width) by some of these names; what is named otherwise
    only lives while a block of rows is under way.
    """

    def __init__(self, steps: Sequence[Product | Norm]):
        self.steps = list(steps)
        plans = {x.weights.plan for x in steps if isinstance(x, Product)}
        if len(plans) > 1:
            raise TargetError(
                "weights were laid out for several targets, expected one: make them with one REGARD_TARGET"
            )
        self.plan = plans.pop() if plans else Rows(host())
        self.operations = sum(2.0 * x.weights.depth * x.weights.width for x in steps if isinstance(x, Product))
        for x in steps:
            if x.target in (x.source, getattr(x, "plus", None)):
                raise ShapeError(f"a step reads {x.target} and writes it, expected two names: give it another target")
        self._layouts: dict[Any, Layout] = {}

    def __call__(self, **arrays: Array) -> None:
        """Run the chain over all rows of the arrays."""
        n = len(next(iter(arrays.values())))
        if not n:
            return
        plan, workers = self.plan, threads.threads()
        block = _block(n, workers, plan.target.rows)
        key = (block, *((name, x.shape, x.strides, x.dtype) for name, x in arrays.items()))
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= REMEMBERED:
                self._layouts.clear()
            layout = self._layouts[key] = Layout(self.steps, arrays, n, block)
        table = layout.table.copy()
        for place, name in layout.addresses:
            table[place] += arrays[name].ctypes.data
        job = Words.from_buffer_copy(layout.job)
        job[CHAIN["steps"]] = table.ctypes.data
        tasks = -(-n // block)
        helpers = tasks - 1 if n * self.operations >= threads.WORTH_A_HAND else 0
        visit = block * max(1.0, self.operations)
        budget = max(1, int(threads.STRETCH * plan.lanes * PACE / visit))
        threads.compute(kernel(plan), job, layout.size, budget, helpers, (self, table, arrays))


def _block(n: int, workers: int, tile: int) -> int:
    """Rows of a task: whole register tiles, long enough to use loaded weights again, but something for everybody."""
    rows = min(BLOCK, max(-(-n // (SHARES * workers)), min(SHORT, -(-n // workers))))
    return -(-rows // tile) * tile


class Layout:
    """The table of steps for arrays of one layout: complete but for the addresses of the arrays."""

    def __init__(self, steps: Sequence[Product | Norm], arrays: Mapping[str, Array], n: int, block: int):
        self.addresses: list[tuple[int, str]] = []  # places in the table, and of which array
        self.table = np.zeros(len(steps) * STEP_WORDS, np.int64)
        self.size = NEAR
        # Where names are found: row by row so many bytes apart, so many columns; near, from an offset on.
        self._far = {name: (x.strides[0], x.shape[1]) for name, x in arrays.items()}
        self._near: dict[str, tuple[int, int, int]] = {}
        for name, x in arrays.items():
            if x.dtype != np.float32 or x.ndim != 2 or len(x) != n or (x.shape[1] > 1 and x.strides[1] != x.itemsize):
                raise ShapeError(
                    f"{name} came as {x.dtype} of shape {x.shape} and strides {x.strides}, expected float32 of "
                    f"({n}, width) whose rows lie in one piece: make it so"
                )
        widths: dict[str, int] = {}
        for step in steps:
            widths[step.target] = max(step.width, widths.get(step.target, 0))
        for number, step in enumerate(steps):
            base = number * STEP_WORDS
            for name, word in step.words().items():
                self.table[base + STEP[name]] = word
            self._read(base, "source", step.source, step.depth)
            if isinstance(step, Norm) and step.plus:
                self._read(base, "plus", step.plus, step.depth)
            if step.target not in self._far and step.target not in self._near:
                lines = -(-widths[step.target] // LINE) | 1  # odd, which keeps rows from falling on the same sets
                self._near[step.target] = self.size, 4 * LINE * lines, widths[step.target]
                self.size += 4 * LINE * lines * block
            self._read(base, "target", step.target, step.width)
        job = Words()
        for name, word in (("count", len(steps)), ("rows", n), ("block", block)):
            job[CHAIN[name]] = word
        job[CHAIN["total1"]], job[CHAIN["task_cost"]] = -(-n // block), 1
        self.job = bytes(job)

    def _read(self, base: int, part: str, name: str, width: int) -> None:
        """Say where a step finds rows that it reads or writes."""
        if name in self._far:
            row, have = self._far[name]
            self.addresses.append((base + STEP[part], name))
        elif name in self._near:
            self.table[base + STEP[part]], row, have = self._near[name]
            self.table[base + STEP[f"{part}_near"]] = 1
        else:
            raise ShapeError(f"{name} is read before anything is written there: pass an array, or write it first")
        if have < width:
            raise ShapeError(f"{name} has {have} columns, expected {width} at least: give it as many")
        self.table[base + STEP[f"{part}_row"]] = row
