"""Traced expressions as machine code: exact on lanes, and as intervals over a rectangle.

Both read a program's constants and arrays from its arguments, one array of 64-bit words laid out by `Layout`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.algebra.bounds import SLACK, Interval, Rules
from regard.algebra.program import Node
from regard.kernels.functions import Functions
from regard.kernels.values import (
    Operand,
    Pointer,
    Type,
    Value,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    larger,
    ptr,
    select,
    smaller,
    unary,
)

Shape = tuple[tuple[Node, ...], tuple[int, ...]]  # of a program: its steps and its roots

STORED = {"bool": i8, "int8": i8, "uint8": i8, "int16": i16, "uint16": i16, "int32": i32, "uint32": i32, "int64": i64}
STORED |= {"float32": f32, "float64": f64}


@dataclass(frozen=True)
class Layout:
    """Where a program's arguments lie: constants first, then for each array its address, its bounds and its lengths."""

    constants: int
    dimensions: tuple[int, ...]

    @staticmethod
    def of(nodes: tuple[Node, ...]) -> Layout:
        constants = 1 + max((n.slot for n in nodes if n.operation == "constant"), default=-1)
        gathers = {n.slot: len(n.operands) for n in nodes if n.operation == "gather"}
        return Layout(constants, tuple(gathers[i] for i in range(len(gathers))))

    def array(self, slot: int) -> int:
        """The word of an array's address; its table of bounds, that table's shift and width, and lengths follow."""
        return self.constants + sum(4 + n for n in self.dimensions[:slot])


class Lanes:
    """The exact value of a program's steps, computed as soon as the variables they need are there.

    What depends on the query alone is computed once for a tile, what depends on the key alone once for its row.
    """

    def __init__(
        self, nodes: tuple[Node, ...], words: Pointer, functions: Functions, number: Type, whole: Type, **known: Value
    ):
        self.nodes, self.words, self.functions, self.number, self.whole = nodes, words, functions, number, whole
        self.layout = Layout.of(nodes)
        self.variables = known
        self.done: dict[tuple[int, Type], Value] = {}

    def with_(self, *others: Lanes, **known: Value) -> Lanes:
        """The same program with more variables, and what others have computed of it."""
        made = Lanes(self.nodes, self.words, self.functions, self.number, self.whole, **self.variables)
        made.done.update(self.done)
        for other in others:
            made.variables.update(other.variables)
            made.done.update(other.done)
        made.variables.update(known)
        return made

    def ready(self, root: int) -> Lanes:
        """Compute all that the known variables allow on the way to a root."""
        self._hoist(root, self._type(root))
        return self

    def _type(self, i: int) -> Type:
        return {"bool": i1, "int": self.whole, "float": self.number}[self.nodes[i].kind]

    def _below(self, i: int, kind: Type) -> list[tuple[int, Type]]:
        """The operands of a step, each with the type that it is needed in."""
        node = self.nodes[i]
        kinds = {self.nodes[x].kind for x in node.operands}
        if node.operation == "gather":
            return [(x, self.whole) for x in node.operands]
        if node.operation == "where":
            return [(node.operands[0], i1), (node.operands[1], kind), (node.operands[2], kind)]
        if node.operation in ("and", "or", "not"):
            return [(x, i1) for x in node.operands]
        if node.kind == "bool":  # a comparison: positions are compared in full precision, scores in their own
            moving = any("score" in self.nodes[x].depends for x in node.operands)
            common = (self.number if moving else f64) if "float" in kinds else self.whole
            return [(x, common) for x in node.operands]
        return [(x, kind) for x in node.operands]

    def _hoist(self, i: int, kind: Type) -> None:
        if self.nodes[i].depends <= self.variables.keys():
            self.value(i, kind)
        else:
            for operand, needed in self._below(i, kind):
                self._hoist(operand, needed if self.nodes[operand].kind != "bool" else i1)

    def value(self, i: int, kind: Type | None = None) -> Value:
        """The value of a step as this type (its own if none is given)."""
        node = self.nodes[i]
        own = self._type(i)
        kind = kind or own
        # A condition counts as 0 or 1, a whole number is turned into the float that is asked for.
        converted = kind != own and (node.kind == "bool" or (node.kind == "int" and kind.kind == "f"))
        if (i, kind) not in self.done:
            value = self.value(i, own).to(kind) if converted else self._compute(node, i, kind)
            self.done[i, kind] = value
        return self.done[i, kind]

    def _compute(self, node: Node, i: int, kind: Type) -> Value:
        if node.operation == "variable":
            given = self.variables[node.detail]
            return given if node.detail == "score" else given.to(kind)
        if node.operation == "constant":
            word = self.words[node.slot]
            if node.kind == "bool":
                return word.differs(0)
            return word.to(kind) if node.kind == "int" else word.bits(f64).to(kind)
        if node.operation == "gather":
            return self._gather(node, kind)
        operands = [self.value(x, needed) for x, needed in self._below(i, kind)]
        return EXACT[node.operation](self, *operands)

    def _gather(self, node: Node, kind: Type) -> Value:
        at = self.layout.array(node.slot)
        stored = STORED[node.detail]
        base = Pointer(self.words[at].to(ptr), stored)
        flat: Value | None = None
        for axis, operand in enumerate(node.operands):
            length = self.words[at + 4 + axis].to(self.whole)
            index = self.value(operand, self.whole)
            # clamp to 0 … length - 1
            index = smaller((length - 1).splat(index.type.lanes), index)
            index = larger(index, 0)
            flat = index if flat is None else flat * length + index
        assert flat is not None
        if flat.type.lanes == 1:
            element = base[flat.to(i64)]
        else:
            f = flat.function
            element = f.constant(stored.of(flat.type.lanes), 0)
            for lane in range(flat.type.lanes):
                element = element.put(lane, base[flat[lane].to(i64)])
        if node.kind == "bool":
            return element.differs(0)
        return element.to(kind, signed=not node.detail.startswith("u"))

    # Whole quotients round down, and by 0 are 0.
    def floor_divide(self, a: Value, b: Value) -> Value:
        lanes = max(a.type.lanes, b.type.lanes)
        if a.type.kind == "f":
            return unary("floor", a / b)
        a, b = a.splat(lanes), b.splat(lanes)
        if a.type.bits == 64:
            return select(b.equals(0), 0, whole_quotient(a, b))
        # A quotient of 32-bit numbers is exact enough in f64 to be rounded down.
        return select(b.equals(0), 0, unary("floor", a.to(f64) / b.to(f64)).to(i32))

    def modulo(self, a: Value, b: Value) -> Value:
        left = a - b * self.floor_divide(a, b)
        return left if a.type.kind == "f" else select(b.splat(left.type.lanes).equals(0), 0, left)


def whole_quotient(a: Value, b: Value) -> Value:
    """⌊a / b⌋ of 64-bit numbers; by 0 anything, but never a trap."""
    special = b.equals(0) | b.equals(-1)
    safe = select(special, 1, b)
    quotient, left = a.quotient(safe), a.remainder(safe)
    down = left.differs(0) & ((left ^ safe) < 0)
    return select(b.equals(-1), -a, quotient - down.to(a.type.scalar, signed=False))


def _absolute(a: Value) -> Value:
    return unary("fabs", a) if a.type.kind == "f" else larger(a, -a)


def _with_nan(pick: Callable[[Value, Operand], Value]) -> Callable[[Lanes, Value, Value], Value]:
    """minimum and maximum as NumPy's: NaN where either is."""

    def picked(_: Lanes, a: Value, b: Value) -> Value:
        lanes = max(a.type.lanes, b.type.lanes)
        a, b = a.splat(lanes), b.splat(lanes)
        value = pick(a, b)
        return value if a.type.kind == "i" else select(a.differs(a), a, value)

    return picked


def _where(_: Lanes, condition: Value, yes: Value, no: Value) -> Value:
    lanes = max(condition.type.lanes, yes.type.lanes, no.type.lanes)
    return select(condition, yes.splat(lanes), no.splat(lanes))


EXACT: dict[str, Callable[..., Value]] = {
    "add": lambda o, a, b: a + b,
    "sub": lambda o, a, b: a - b,
    "mul": lambda o, a, b: a * b,
    "div": lambda o, a, b: a / b,
    "floordiv": Lanes.floor_divide,
    "mod": Lanes.modulo,
    "neg": lambda o, a: -a,
    "abs": lambda o, a: _absolute(a),
    "lt": lambda o, a, b: a < b,
    "le": lambda o, a, b: a <= b,
    "eq": lambda o, a, b: a.equals(b),
    "ne": lambda o, a, b: a.differs(b),
    "and": lambda o, a, b: a & b,
    "or": lambda o, a, b: a | b,
    "not": lambda o, a: ~a,
    "where": _where,
    "minimum": _with_nan(smaller),
    "maximum": _with_nan(larger),
    "exp": lambda o, a: o.functions.exp(a),
    "log": lambda o, a: o.functions.log(a),
    "tanh": lambda o, a: o.functions.tanh(a),
    "sigmoid": lambda o, a: o.functions.sigmoid(a),
}


class Emitted:
    """The arithmetic of the interval rules as machine code: whole numbers in i64, floats in f64."""

    def __init__(self, words: Pointer, layout: Layout, functions: Functions):
        self.words, self.layout, self.functions = words, layout, functions
        self.function = words.address.function

    def _extreme(self, pick: Callable[[Value, Operand], Value], values: tuple[Value, ...]) -> Value:
        best = values[0]
        for x in values[1:]:
            chosen = pick(best, x)
            best = chosen if x.type.kind == "i" else select(best.differs(best), best, chosen)
        return best

    def least(self, *values: Value) -> Value:
        return self._extreme(smaller, values)

    def greatest(self, *values: Value) -> Value:
        return self._extreme(larger, values)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        return select(condition, yes, no)

    def negate(self, condition: Value) -> Value:
        return ~condition

    def both(self, a: Value, b: Value) -> Value:
        return a & b

    def either(self, a: Value, b: Value) -> Value:
        return a | b

    def ordered(self, *values: Value) -> Value:
        fine = self.function.constant(i1, 1)
        for x in values:
            fine = fine & (x - x).equals(0.0)
        return fine

    def floor_divide(self, a: Value, b: Value) -> Value:
        return whole_quotient(a, b)

    def floor(self, a: Value) -> Value:
        return unary("floor", a)

    def number(self, x: Any, like: Value) -> Value:
        return self.function.constant(like.type, x)

    def cast(self, x: Value, kind: str) -> Value:
        return x.to(f64 if kind == "float" else i64, signed=x.type != i1)

    def smooth(self, name: str, x: Value, up: bool) -> Value:
        value: Value = getattr(self.functions, name)(x)
        return value + (unary("fabs", value) + 1e-30) * (SLACK if up else -SLACK)

    def gathered(self, node: Node, indices: list[Interval]) -> Interval:
        """Least and greatest of a stretch of the flattened array, from a table of overlapping blocks of 2ᵏ."""
        f, at = self.function, self.layout.array(node.slot)
        table, shift, width = self.words[at + 1], self.words[at + 2], self.words[at + 3]
        ends: list[Value] = []
        for side in (0, 1):
            flat = f.constant(i64, 0)
            for axis, index in enumerate(indices):
                length = self.words[at + 4 + axis]
                flat = flat * length + larger(smaller(index[side], length - 1), 0)
            ends.append(flat >> shift)
        first, last = ends
        span = last - first + 1
        level = 63 - f.call("llvm.ctlz.i64", [span, f.constant(i1, 1)], i64)
        row = level * width
        second = last - (f.constant(i64, 1) << level) + 1
        stored = f64 if node.kind == "float" else i64
        low = Pointer(table.to(ptr), stored)
        # The table of greatest values follows that of least ones, which has a row for each power of two in its width.
        rows = 64 - f.call("llvm.ctlz.i64", [width, f.constant(i1, 1)], i64)
        high = low + rows * width
        least = self.least(low[row + first], low[row + second])
        greatest = self.greatest(high[row + first], high[row + second])
        if node.kind == "bool":
            return least.differs(0), greatest.differs(0)
        return least, greatest


def bounds(
    nodes: tuple[Node, ...], root: int, words: Pointer, functions: Functions, rectangle: dict[str, tuple[Value, Value]]
) -> Interval:
    """The interval of a step over a rectangle, as machine code."""
    emitted = Emitted(words, Layout.of(nodes), functions)
    rules = Rules(emitted)
    known: dict[int, Interval] = {}

    def visit(i: int) -> Interval:
        if i not in known:
            node = nodes[i]
            if node.operation == "variable":
                known[i] = rectangle[node.detail]
            elif node.operation == "constant":
                word = words[node.slot]
                value = word.bits(f64) if node.kind == "float" else word.differs(0) if node.kind == "bool" else word
                known[i] = (value, value)
            else:
                operands = [visit(x) for x in node.operands]
                known[i] = rules.step(node, operands, [nodes[x].kind for x in node.operands])
        return known[i]

    return visit(root)
