"""Many expressions compiled into one module, each as lanes and as intervals, called without a pass around them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from regard.algebra.expression import Expression
from regard.algebra.program import linearize
from regard.kernels import arguments, lower
from regard.kernels.compile import compiled
from regard.kernels.functions import Functions
from regard.kernels.target import host
from regard.kernels.values import Function, Module, Pointer, Type, Value, f64, i32, i64, ptr

NAMES = ("b", "h", "q", "k", "row")


class Native:
    """The compiled form of expressions."""

    def __init__(self, expressions: Sequence[Expression], whole: Type = i64):
        self.programs = [linearize(x) for x in expressions]
        self.whole = whole
        self.lanes = host().lanes(64)
        self.functions = Functions(host().fused, host().half)
        module = Module()
        for number in range(len(expressions)):
            self._write_exact(module, number)
            self._write_bounds(module, number)
        code = compiled(str(module), host())
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host().machine())
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self.engine.finalize_object()
        self.keep: list[Any] = []
        self.words = [np.array(arguments.words(p, True, self.keep) or [0], np.int64) for p in self.programs]

    def _kind(self, number: int) -> str:
        program = self.programs[number]
        return program.nodes[program.roots[0]].kind

    def _store(self, out: Value, at: Any, value: Value, kind: str) -> None:
        if kind == "float":
            Pointer(out, f64)[at] = value
        else:
            Pointer(out, i64)[at] = value.to(i64)

    def _write_exact(self, module: Module, number: int) -> None:
        """exact(words, variables, out, count): a row of cells for each variable, so many that whole vectors fit."""
        program, lanes = self.programs[number], self.lanes
        f: Function = module.function(
            f"exact{number}", [("words", ptr), ("variables", ptr), ("out", ptr), ("count", i64)], public=True
        )
        words, variables, out, count = f.arguments
        with f.loop(0, count, lanes) as at:
            known = {}
            for i, name in enumerate(NAMES):
                known[name] = Pointer(variables, i64).load(count * i + at, lanes).to(self.whole)
            given = lower.Lanes(program.nodes, Pointer(words, i64), self.functions, f64, self.whole, **known)
            value = given.value(program.roots[0])
            for lane in range(lanes):
                self._store(out, at + lane, value[lane] if value.type.lanes > 1 else value, self._kind(number))
        f.give()

    def _write_bounds(self, module: Module, number: int) -> None:
        """bounds(words, rectangle, out): least and greatest of each variable in, of the expression out."""
        program = self.programs[number]
        f: Function = module.function(
            f"bounds{number}", [("words", ptr), ("rectangle", ptr), ("out", ptr), ("unused", i64)], public=True
        )
        words, rectangle, out, _ = f.arguments
        ends = Pointer(rectangle, i64)
        known = {name: (ends[2 * i], ends[2 * i + 1]) for i, name in enumerate(NAMES)}
        result = lower.bounds(program.nodes, program.roots[0], Pointer(words, i64), self.functions, known)
        for side in (0, 1):
            self._store(out, side, result[side], self._kind(number))
        f.give()

    def _call(self, name: str, number: int, given: np.ndarray, out: np.ndarray, count: int) -> None:
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
        words = self.words[number].ctypes.data
        address = self.engine.get_function_address(f"{name}{number}")
        kind(address)(words, given.ctypes.data, out.ctypes.data, count)

    def _out(self, number: int, count: int) -> np.ndarray:
        return np.zeros(count, np.float64 if self._kind(number) == "float" else np.int64)

    def exact(self, number: int, **variables: Any) -> np.ndarray:
        """The values of an expression for arrays of variables."""
        arrays = np.broadcast_arrays(*(variables.get(name, 0) for name in NAMES))
        size = arrays[0].size
        count = -(-size // self.lanes) * self.lanes
        given = np.zeros((len(NAMES), count), np.int64)
        given[:, :size] = [a.ravel() for a in arrays]
        out = self._out(number, count)
        self._call("exact", number, given, out, count)
        out = out[:size].reshape(arrays[0].shape)
        return out.astype(bool) if self._kind(number) == "bool" else out

    def bound(self, number: int, **rectangle: tuple[int, int]) -> tuple[Any, Any]:
        """The interval of an expression over a rectangle."""
        given = np.array([rectangle.get(name, (0, 0)) for name in NAMES], np.int64)
        out = self._out(number, 2)
        self._call("bounds", number, given, out, 0)
        kind = {"bool": bool, "int": int, "float": float}[self._kind(number)]
        return kind(out[0]), kind(out[1])


narrow, wide = i32, i64
