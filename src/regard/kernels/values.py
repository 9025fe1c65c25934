"""Values whose Python operators emit LLVM, so that a kernel reads like its mathematics.

A `Function` collects lines of LLVM text. Its arguments, and all that is computed from them, are `Value`s: `a * b + c`
emits two instructions. A `Pointer` knows what it points at: `p[i]` loads, `p[i] = x` stores, `p + i` moves. Loops and
branches are context managers; a `Variable` is a place that they may change, which LLVM turns into a register.

    >>> module = Module()
    >>> f = module.function("axpy", [("a", f32), ("x", ptr), ("y", ptr), ("n", i64)])
    >>> a, x, y, n = f.arguments
    >>> x, y = Pointer(x, f32), Pointer(y, f32)
    >>> with f.loop(0, n) as i:
    ...     y[i] = a * x[i] + y[i]
    >>> f.give()
    >>> "fmul float" in str(module)
    True
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeVar, Union


@dataclass(frozen=True)
class Type:
    """A scalar or, with more than one lane, a vector: kind is "f" (float), "i" (integer), "p" (pointer), "v" (void)."""

    kind: str
    bits: int
    lanes: int = 1

    def __str__(self) -> str:
        scalar = {"f": {16: "half", 32: "float", 64: "double"}.get(self.bits, ""), "i": f"i{self.bits}"}
        text = scalar.get(self.kind) or {"p": "ptr", "v": "void", "bf": "bfloat"}[self.kind]
        return text if self.lanes == 1 else f"<{self.lanes} x {text}>"

    def of(self, lanes: int) -> Type:
        """The same scalar on so many lanes."""
        return Type(self.kind, self.bits, lanes)

    @property
    def scalar(self) -> Type:
        return self.of(1)

    @property
    def size(self) -> int:
        """Bytes in memory of one lane."""
        return 8 if self.kind == "p" else max(1, self.bits // 8)

    @property
    def code(self) -> str:
        """The suffix that LLVM gives an overloaded intrinsic: v16f32."""
        return ("" if self.lanes == 1 else f"v{self.lanes}") + f"{self.kind}{self.bits}"


f16, f32, f64 = Type("f", 16), Type("f", 32), Type("f", 64)
i1, i8, i16, i32, i64 = (Type("i", n) for n in (1, 8, 16, 32, 64))
ptr, void = Type("p", 64), Type("v", 0)

Number = int | float
T = TypeVar("T")
Operand = Union["Value", int, float]


def constant(kind: Type, number: Number) -> str:
    """The text of a constant of this type, the same in every lane."""
    if kind.kind == "f":
        # LLVM writes every float as the bits of the double that equals it.
        narrow = {16: "e", 32: "f", 64: "d"}[kind.bits]
        try:
            number = struct.unpack(narrow, struct.pack(narrow, number))[0]
        except OverflowError:
            number = float("inf") if number > 0 else float("-inf")
        text = "0x" + struct.pack(">d", number).hex().upper()
        if kind.bits == 16:
            text = "0xH" + struct.pack(">e", number).hex().upper()
    elif kind == i1 or kind.scalar == i1:
        text = "true" if number else "false"
    else:
        text = str(int(number))
    if kind.lanes == 1:
        return text
    return "<" + ", ".join([f"{kind.scalar} {text}"] * kind.lanes) + ">"


@dataclass(frozen=True, eq=False)
class Value:
    """Something that a function has computed: an SSA name, or a constant, with its type."""

    function: Function
    type: Type
    text: str

    def _with(self, other: Operand) -> tuple[Value, Value]:
        """Both operands on the same lanes; a Python number takes the type of its partner."""
        if not isinstance(other, Value):
            return self, self.function.constant(self.type, other)
        if self.type.lanes == other.type.lanes:
            return self, other
        if self.type.lanes == 1:
            return self.splat(other.type.lanes), other
        return self, other.splat(self.type.lanes)

    def _binary(self, other: Operand, on_float: str, on_integer: str, swap: bool = False) -> Value:
        a, b = self._with(other)
        if swap:
            a, b = b, a
        name = on_float if a.type.kind == "f" else on_integer
        if a.type.scalar != b.type.scalar or not name:
            raise TypeError(f"no {name or 'such operation'} between {a.type} and {b.type}")
        return self.function.emit(a.type, f"{name} {a.type} {a.text}, {b.text}")

    def _compare(self, other: Operand, on_float: str, on_integer: str) -> Value:
        a, b = self._with(other)
        name = f"fcmp {on_float}" if a.type.kind == "f" else f"icmp {on_integer}"
        return self.function.emit(i1.of(a.type.lanes), f"{name} {a.type} {a.text}, {b.text}")

    def __add__(self, other: Operand) -> Value:
        return self._binary(other, "fadd", "add")

    def __radd__(self, other: Operand) -> Value:
        return self._binary(other, "fadd", "add", swap=True)

    def __sub__(self, other: Operand) -> Value:
        return self._binary(other, "fsub", "sub")

    def __rsub__(self, other: Operand) -> Value:
        return self._binary(other, "fsub", "sub", swap=True)

    def __mul__(self, other: Operand) -> Value:
        return self._binary(other, "fmul", "mul")

    def __rmul__(self, other: Operand) -> Value:
        return self._binary(other, "fmul", "mul", swap=True)

    def __truediv__(self, other: Operand) -> Value:
        return self._binary(other, "fdiv", "")

    def __rtruediv__(self, other: Operand) -> Value:
        return self._binary(other, "fdiv", "", swap=True)

    def __and__(self, other: Operand) -> Value:
        return self._binary(other, "", "and")

    def __or__(self, other: Operand) -> Value:
        return self._binary(other, "", "or")

    def __xor__(self, other: Operand) -> Value:
        return self._binary(other, "", "xor")

    def __lshift__(self, other: Operand) -> Value:
        return self._binary(other, "", "shl")

    def __rshift__(self, other: Operand) -> Value:
        """The arithmetic shift, which keeps the sign; `lshr` is the other one."""
        return self._binary(other, "", "ashr")

    def lshr(self, other: Operand) -> Value:
        return self._binary(other, "", "lshr")

    def quotient(self, other: Operand) -> Value:
        """Integer division towards zero; the divisor must not be 0."""
        return self._binary(other, "", "sdiv")

    def remainder(self, other: Operand) -> Value:
        return self._binary(other, "", "srem")

    def __invert__(self) -> Value:
        return self ^ (1 if self.type.scalar == i1 else -1)

    def __neg__(self) -> Value:
        if self.type.kind == "f":
            return self.function.emit(self.type, f"fneg {self.type} {self.text}")
        return 0 - self

    # Comparisons of floats are ordered (false for NaN) but for `differs`, which is true for NaN.
    def __lt__(self, other: Operand) -> Value:
        return self._compare(other, "olt", "slt")

    def __le__(self, other: Operand) -> Value:
        return self._compare(other, "ole", "sle")

    def __gt__(self, other: Operand) -> Value:
        return self._compare(other, "ogt", "sgt")

    def __ge__(self, other: Operand) -> Value:
        return self._compare(other, "oge", "sge")

    def equals(self, other: Operand) -> Value:
        return self._compare(other, "oeq", "eq")

    def differs(self, other: Operand) -> Value:
        return self._compare(other, "une", "ne")

    def splat(self, lanes: int) -> Value:
        """This scalar in every lane."""
        if lanes == 1 or self.type.lanes == lanes:
            return self
        wide, f = self.type.of(lanes), self.function
        first = f.emit(wide, f"insertelement {wide} poison, {self.type} {self.text}, i64 0")
        zeros = constant(i32.of(lanes), 0)
        return f.emit(wide, f"shufflevector {wide} {first.text}, {wide} poison, {i32.of(lanes)} {zeros}")

    def __getitem__(self, lane: Operand) -> Value:
        lane = self.function.value(i64, lane)
        return self.function.emit(self.type.scalar, f"extractelement {self.type} {self.text}, i64 {lane.text}")

    def put(self, lane: Operand, element: Value) -> Value:
        lane = self.function.value(i64, lane)
        text = f"insertelement {self.type} {self.text}, {element.type} {element.text}, i64 {lane.text}"
        return self.function.emit(self.type, text)

    def bits(self, to: Type) -> Value:
        """The same bits read as another type."""
        if to == self.type:
            return self
        return self.function.emit(to, f"bitcast {self.type} {self.text} to {to}")

    def to(self, scalar: Type, signed: bool = True) -> Value:
        """The same number as another type: widened, narrowed, or between integer and float."""
        source, target = self.type, scalar.of(self.type.lanes)
        if source == target:
            return self
        if source.kind == "p" or target.kind == "p":
            name = "ptrtoint" if source.kind == "p" else "inttoptr"
        elif source.kind == target.kind == "f":
            name = "fpext" if target.bits > source.bits else "fptrunc"
        elif source.kind == target.kind:
            name = "trunc" if target.bits < source.bits else "sext" if signed and source.bits > 1 else "zext"
        elif source.kind == "i":
            name = "sitofp" if signed and source.bits > 1 else "uitofp"
        else:
            name = "fptosi"
        return self.function.emit(target, f"{name} {source} {self.text} to {target}")

    def shuffle(self, other: Value, lanes: Sequence[int]) -> Value:
        """Lanes picked from this vector (0 …) and another (following on)."""
        indices = "<" + ", ".join(f"i32 {i}" for i in lanes) + ">"
        text = f"shufflevector {self.type} {self.text}, {other.type} {other.text}, {i32.of(len(lanes))} {indices}"
        return self.function.emit(self.type.of(len(lanes)), text)


class Pointer:
    """An address and what lies there. Indices count elements; a vector is read from consecutive ones."""

    def __init__(self, address: Value, element: Type, align: int = 0):
        self.address, self.element, self.align = address, element, align or element.size

    def at(self, index: Operand) -> Value:
        f, index = self.address.function, self.address.function.value(i64, index)
        if index.text == "0":
            return self.address
        return f.emit(ptr, f"getelementptr {self.element}, ptr {self.address.text}, i64 {index.text}")

    def __add__(self, index: Operand) -> Pointer:
        return Pointer(self.at(index), self.element, self.align)

    def bytes(self, count: Operand) -> Pointer:
        """So many bytes further on."""
        return Pointer(Pointer(self.address, i8).at(count), self.element, self.align)

    def cast(self, element: Type) -> Pointer:
        return Pointer(self.address, element)

    def __getitem__(self, index: Operand) -> Value:
        return self.load(index, 1)

    def load(self, index: Operand, lanes: int) -> Value:
        kind = self.element.of(lanes)
        where = self.at(index)
        return where.function.emit(kind, f"load {kind}, ptr {where.text}, align {self.align}")

    def __setitem__(self, index: Operand, value: Operand) -> None:
        where = self.at(index)
        given = where.function.value(self.element, value)  # a vector fills consecutive elements
        where.function.line(f"store {given.type} {given.text}, ptr {where.text}, align {self.align}")

    # Whole words that several threads share.
    def fetch_add(self, index: Operand, amount: Operand) -> Value:
        where = self.at(index)
        given = where.function.value(self.element, amount)
        return where.function.emit(self.element, f"atomicrmw add ptr {where.text}, {given.type} {given.text} acq_rel")

    def load_acquire(self, index: Operand) -> Value:
        where = self.at(index)
        return where.function.emit(
            self.element, f"load atomic {self.element}, ptr {where.text} acquire, align {self.element.size}"
        )


class Variable:
    """A place that loops and branches may change; LLVM keeps it in a register."""

    def __init__(self, function: Function, first: Value):
        self.function, self.type = function, first.type
        self.place = function.stack(first.type)
        self.set(first)

    def get(self) -> Value:
        return self.function.emit(self.type, f"load {self.type}, ptr {self.place.text}")

    def set(self, value: Operand) -> None:
        given = self.function.value(self.type, value)
        self.function.line(f"store {given.type} {given.text}, ptr {self.place.text}")


@dataclass
class Function:
    """One LLVM function being written."""

    module: Module
    name: str
    parameters: Sequence[tuple[str, Type]]
    result: Type = void
    public: bool = False
    lines: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    counter: int = 0
    block: str = "entry"

    @property
    def arguments(self) -> list[Value]:
        return [Value(self, kind, f"%{name}") for name, kind in self.parameters]

    def fresh(self, hint: str = "") -> str:
        self.counter += 1
        return f"{hint}{self.counter}" if hint else f"t{self.counter}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def emit(self, kind: Type, text: str) -> Value:
        name = "%" + self.fresh()
        self.lines.append(f"  {name} = {text}")
        return Value(self, kind, name)

    def constant(self, kind: Type, number: Number) -> Value:
        return Value(self, kind, constant(kind, number))

    def value(self, kind: Type, given: Operand) -> Value:
        """A Python number as a value of this type; a value as it is."""
        return given if isinstance(given, Value) else self.constant(kind, given)

    def lanes(self, kind: Type, numbers: Sequence[Number]) -> Value:
        """A constant vector with a number for each lane."""
        text = "<" + ", ".join(f"{kind} {constant(kind, x)}" for x in numbers) + ">"
        return Value(self, kind.of(len(numbers)), text)

    def stack(self, kind: Type, count: int = 1) -> Value:
        """Room on the stack, taken once on entry."""
        name = "%" + self.fresh("place")
        self.places.append(f"  {name} = alloca {kind}, i64 {count}, align 64")
        return Value(self, ptr, name)

    def variable(self, first: Value) -> Variable:
        return Variable(self, first)

    def call(self, callee: Function | str, arguments: Sequence[Value], result: Type = void) -> Value:
        """A call of a function of this module, or of an intrinsic by its name."""
        if isinstance(callee, Function):
            name, result = callee.name, callee.result
        else:
            name = callee
            self.module.declare(name, result, [a.type for a in arguments])
        text = f"call {result} @{name}({', '.join(f'{a.type} {a.text}' for a in arguments)})"
        if result == void:
            self.line(text)
            return self.constant(i1, 0)
        return self.emit(result, text)

    def give(self, value: Value | None = None) -> None:
        """Return."""
        self.line(f"ret {value.type} {value.text}" if value else "ret void")

    # Blocks.
    def open(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: Value, yes: str, no: str) -> None:
        self.line(f"br i1 {condition.text}, label %{yes}, label %{no}")

    @contextmanager
    def loop(self, start: Operand, stop: Operand, step: Operand = 1) -> Iterator[Value]:
        """`for i in range(start, stop, step)` with a positive step."""
        first, last, stride = (self.value(i64, x) for x in (start, stop, step))
        body, done = self.fresh("loop"), self.fresh("after")
        before = self.block
        self.branch(first < last, body, done)
        self.open(body)
        name = "%" + self.fresh("i")
        hole = len(self.lines)
        self.lines.append("")
        index = Value(self, i64, name)
        yield index
        following = index + stride
        again = following < last
        self.lines[hole] = f"  {name} = phi i64 [ {first.text}, %{before} ], [ {following.text}, %{self.block} ]"
        self.branch(again, body, done)
        self.open(done)

    @contextmanager
    def repeat(self) -> Iterator[Callable[[Value], None]]:
        """`while True`; the value given is called with the condition on which to leave."""
        body, done = self.fresh("repeat"), self.fresh("after")
        self.jump(body)
        self.open(body)

        def leave_when(condition: Value) -> None:
            stay = self.fresh("stay")
            self.branch(condition, done, stay)
            self.open(stay)

        yield leave_when
        self.jump(body)
        self.open(done)

    @contextmanager
    def when(self, condition: Value) -> Iterator[Callable[[], None]]:
        """`if`; calling the value given begins the `else`."""
        yes, no, done = self.fresh("then"), self.fresh("else"), self.fresh("after")
        self.branch(condition, yes, no)
        self.open(yes)
        split: list[bool] = []

        def otherwise() -> None:
            split.append(True)
            self.jump(done)
            self.open(no)

        yield otherwise
        self.jump(done)
        if not split:
            self.open(no)
            self.jump(done)
        self.open(done)

    def side_by_side(self, several: Sequence[Callable[[], T]]) -> list[T]:
        """What each of these gives, their instructions dealt out in turn, so that while one chain waits others go on.

        Each is a straight line of its own: no loops or branches, and nothing that another of them sets.
        """
        kept, results, streams = self.lines, [], []
        for one in several:
            self.lines = []
            results.append(one())
            streams.append(self.lines)
        self.lines = kept + [line for step in zip_longest(*streams) for line in step if line is not None]
        return results

    def __str__(self) -> str:
        # No two arguments of our kernels overlap: inputs are only read, outputs and scratch are apart from them.
        parameters = ", ".join(f"{kind}{' noalias' * (kind == ptr)} %{name}" for name, kind in self.parameters)
        linkage = "" if self.public else "internal "
        head = (
            f"define {linkage}{self.result} @{self.name}({parameters}) {'' if self.public else 'noinline '}nounwind {{"
        )
        return "\n".join([head, "entry:", *self.places, *self.lines, "}"])


class Module:
    """Functions that are compiled together, and the intrinsics that they call."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.declarations: dict[str, str] = {}

    def function(
        self, name: str, parameters: Sequence[tuple[str, Type]], result: Type = void, public: bool = False
    ) -> Function:
        made = Function(self, name, parameters, result, public)
        self.functions.append(made)
        return made

    def declare(self, name: str, result: Type, arguments: Sequence[Type]) -> None:
        self.declarations[name] = f"declare {result} @{name}({', '.join(map(str, arguments))})"

    def __str__(self) -> str:
        return "\n".join([*self.declarations.values(), "", *(str(f) + "\n" for f in self.functions)])


# Words that take values of any function.


def select(condition: Value, yes: Operand, no: Operand) -> Value:
    """`yes` where the condition holds, else `no`, lane by lane."""
    f = condition.function
    model = next(x for x in (yes, no) if isinstance(x, Value))
    a, b = f.value(model.type, yes), f.value(model.type, no)
    lanes = max(condition.type.lanes, a.type.lanes, b.type.lanes)
    a, b = a.splat(lanes), b.splat(lanes)
    # A scalar condition may choose between whole vectors.
    return f.emit(a.type, f"select {condition.type} {condition.text}, {a.type} {a.text}, {b.type} {b.text}")


def fma(a: Value, b: Value, c: Value, fused: bool = True) -> Value:
    """a·b + c in one rounding, or, where the machine has no such instruction, in two."""
    lanes = max(a.type.lanes, b.type.lanes, c.type.lanes)
    a, b, c = a.splat(lanes), b.splat(lanes), c.splat(lanes)
    name = "llvm.fma" if fused else "llvm.fmuladd"
    return a.function.call(f"{name}.{a.type.code}", [a, b, c], a.type)


def larger(a: Value, b: Operand) -> Value:
    """The larger of both; where either is NaN, the second."""
    b = a.function.value(a.type, b)
    return select(a > b, a, b)


def smaller(a: Value, b: Operand) -> Value:
    """The smaller of both; where either is NaN, the second."""
    b = a.function.value(a.type, b)
    return select(a < b, a, b)


def unary(name: str, a: Value) -> Value:
    """An LLVM intrinsic of one argument: fabs, floor, …"""
    return a.function.call(f"llvm.{name}.{a.type.code}", [a], a.type)


def any_lane(condition: Value) -> Value:
    """Whether the condition holds in any lane."""
    n = condition.type.lanes
    return condition if n == 1 else condition.bits(Type("i", n)).differs(0)


def across(x: Value, join: Callable[[Value, Value], Value]) -> Value:
    """All lanes joined into one number, by halves."""
    distance = x.type.lanes // 2
    while distance:
        x = join(x, x.shuffle(x, [(lane + distance) % x.type.lanes for lane in range(x.type.lanes)]))
        distance //= 2
    return x[0]


def turn(rows: Sequence[Value]) -> list[Value]:
    """The transpose of a square of lanes: n vectors of n lanes, n a power of two, in log2(n) rounds of shuffles."""
    n, out = len(rows), list(rows)
    distance = n // 2
    while distance:
        # Swap the off-diagonal squares of side `distance`.
        low = [i + (n if i & distance else 0) - (distance if i & distance else 0) for i in range(n)]
        high = [i + (n if i & distance else 0) + (0 if i & distance else distance) for i in range(n)]
        for i in range(n):
            if not i & distance:
                a, b = out[i], out[i + distance]
                out[i], out[i + distance] = a.shuffle(b, low), a.shuffle(b, high)
        distance //= 2
    return out


def row_sums(rows: Sequence[Value]) -> Value:
    """The sum over the lanes of each of n vectors of n lanes, as one vector: lane i has the sum of vector i."""
    n, out = len(rows), list(rows)
    distance = n // 2
    while distance:
        halves = []
        for a, b in zip(out[::2], out[1::2], strict=True):
            low = [lane for lane in range(2 * n) if not lane & distance]
            halves.append(a.shuffle(b, low) + a.shuffle(b, [lane + distance for lane in low]))
        out = halves
        distance //= 2
    return out[0]
