"""Expressions traced from plain Python functions of (score, b, h, q, k).

A function is called once with variables in place of numbers; what it does to them is written down as a tree. The tree
has four uses: `evaluate` gives its value on NumPy arrays, `bounds` what it can be over a rectangle of the matrix,
`derivative` its slope in the score, and `kernels.lower` turns it into machine code.

    >>> from regard.algebra.tracing import trace
    >>> half = trace(lambda b, h, q, k: (q - k) // 2 < 3, "b h q k")
    >>> half
    (((q - k) // 2) < 3)

Arrays that the function closes over are gathered from: `slopes[h]`, `ids[b, q]`. Numbers and arrays are arguments of
the compiled code: only the shape of the tree is part of it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from regard.errors import TraceError

# Variables: the score, batch (flat index of the leading dimensions), query head, positions of query and key, and the
# row of the query, which is its position where queries and keys start together.
VARIABLES = {"score": "float", "b": "int", "h": "int", "q": "int", "k": "int", "row": "int"}
KINDS = ("bool", "int", "float")


INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "lt": "<",
    "le": "<=",
    "eq": "==",
}
INFIX |= {"ne": "!=", "and": "&", "or": "|"}
COMPARISONS = ("lt", "le", "eq", "ne")
LOGIC = ("and", "or", "not")
SMOOTH = ("exp", "log", "tanh", "sigmoid")


@dataclass(frozen=True, eq=False)
class Expression:
    """A node of the tree. Operators make larger trees; asking for its truth or its number is an error."""

    operation: str
    operands: tuple[Expression, ...] = ()
    kind: str = "int"
    payload: Any = None  # a constant's number, a variable's name, a gather's array

    # Arithmetic.
    def __add__(self, other: Any) -> Expression:
        return combine("add", self, other)

    def __radd__(self, other: Any) -> Expression:
        return combine("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return combine("sub", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return combine("sub", other, self)

    def __mul__(self, other: Any) -> Expression:
        return combine("mul", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return combine("mul", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return combine("div", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return combine("div", other, self)

    def __floordiv__(self, other: Any) -> Expression:
        return combine("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return combine("floordiv", other, self)

    def __mod__(self, other: Any) -> Expression:
        return combine("mod", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return combine("mod", other, self)

    def __pow__(self, power: Any) -> Expression:
        if not isinstance(power, int) or not 1 <= power <= 8:
            raise TraceError(f"the power is {power!r}, expected a whole number from 1 to 8: write it with exp and log")
        result = self
        for _ in range(power - 1):
            result = result * self
        return result

    def __neg__(self) -> Expression:
        return combine("neg", self)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return combine("abs", self)

    # Conditions.
    def __lt__(self, other: Any) -> Expression:
        return combine("lt", self, other)

    def __gt__(self, other: Any) -> Expression:
        return combine("lt", other, self)

    def __le__(self, other: Any) -> Expression:
        return combine("le", self, other)

    def __ge__(self, other: Any) -> Expression:
        return combine("le", other, self)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]  # it builds a tree, as in NumPy
        return combine("eq", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]  # the same
        return combine("ne", self, other)

    __hash__ = object.__hash__

    def __and__(self, other: Any) -> Expression:
        return combine("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return combine("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return combine("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return combine("or", other, self)

    def __invert__(self) -> Expression:
        return combine("not", self)

    def __xor__(self, other: Any) -> Expression:
        if self.kind != "bool" or lift(other).kind != "bool":
            raise TraceError("^ came with a number, expected conditions: compare first, as in (q - k < 8)")
        return combine("ne", self, other)

    __rxor__ = __xor__

    def __divmod__(self, other: Any) -> tuple[Expression, Expression]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Expression, Expression]:
        return other // self, other % self

    # What cannot be traced.
    def _refused(self, *_: Any) -> NoReturn:
        raise TraceError(f"an operator that cannot be traced came with {self}: those that can are {_TRACEABLE}")

    __round__ = __floor__ = __ceil__ = __trunc__ = __rpow__ = _refused
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __matmul__ = __rmatmul__ = _refused

    def __bool__(self) -> NoReturn:
        raise TraceError(
            f"the truth of {self} was asked while tracing, where it has none yet: "
            "use where(), & and | in place of if, and, or, and chained comparisons"
        )

    def _number(self) -> NoReturn:
        raise TraceError(
            f"the number behind {self} was asked while tracing, where it has none yet: use the functions of "
            "regard.algebra, and index arrays that the function itself closes over"
        )

    __int__ = __float__ = __index__ = __complex__ = __len__ = __iter__ = _number

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._number()

    # NumPy's and torch's functions of the same meaning.
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Expression:
        name = _ALIASES.get(ufunc.__name__)
        if name is None or method != "__call__" or options:
            raise TraceError(f"numpy.{ufunc.__name__} cannot be traced: the functions that can are {_TRACEABLE}")
        return _foreign(name, inputs)

    def __array_function__(self, function: Any, _: Any, inputs: Any, options: Any) -> Expression:
        name = _ALIASES.get(function.__name__)
        if name is None or options:
            raise TraceError(f"numpy.{function.__name__} cannot be traced: the functions that can are {_TRACEABLE}")
        return _foreign(name, inputs)

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, inputs: Any = (), options: Any = None) -> Expression:
        name = _ALIASES.get(getattr(function, "__name__", ""))
        if name is None or options:
            raise TraceError(
                f"torch.{getattr(function, '__name__', function)} cannot be traced: "
                f"the functions that can are {_TRACEABLE}"
            )
        return _foreign(name, inputs)

    def __repr__(self) -> str:
        if self.operation == "variable":
            return str(self.payload)
        if self.operation == "constant":
            return repr(self.payload)
        if self.operation == "gather":
            return f"array{list(self.payload.shape)}[{', '.join(map(repr, self.operands))}]"
        if self.operation in INFIX:
            return f"({self.operands[0]!r} {INFIX[self.operation]} {self.operands[1]!r})"
        return f"{self.operation}({', '.join(map(repr, self.operands))})"


def variable(name: str) -> Expression:
    return Expression("variable", (), VARIABLES[name], name)


def constant(number: Any) -> Expression:
    """A Python or NumPy number as a leaf."""
    if isinstance(number, (bool, np.bool_)):
        return Expression("constant", (), "bool", bool(number))
    if isinstance(number, (int, np.integer)):
        if not -(2**63) <= int(number) < 2**63:
            raise TraceError(f"the number {number} does not fit 64 bits: use a smaller one, or a float")
        return Expression("constant", (), "int", int(number))
    if isinstance(number, (float, np.floating)):
        return Expression("constant", (), "float", float(number))
    raise TraceError(
        f"a {type(number).__name__} came where a number or a traced value was expected: index arrays with b, h, q or k"
    )


def lift(value: Any) -> Expression:
    """A traced value as it is, a number as a constant, an array of one element as that element."""
    if isinstance(value, Expression):
        return value
    if hasattr(value, "shape") and hasattr(value, "item"):
        if tuple(value.shape) != ():
            raise TraceError(
                f"an array of shape {tuple(value.shape)} came where a number was expected: index it with b, h, q or k"
            )
        value = value.item()
    return constant(value)


def combine(operation: str, *values: Any) -> Expression:
    """A node over traced values and numbers, with the kind that follows from theirs."""
    operands = tuple(map(lift, values))
    kinds = [x.kind for x in operands]
    if operation in LOGIC:
        if any(kind != "bool" for kind in kinds):
            shown = "~" if operation == "not" else INFIX[operation]
            raise TraceError(f"{shown} came with a number, expected conditions: compare first, as in (q - k < 8)")
        kind = "bool"
    elif operation in COMPARISONS:
        kind = "bool"
    elif operation in SMOOTH or operation == "div":
        kind = "float"
    elif operation == "where":
        if kinds[0] != "bool":
            raise TraceError(f"where() was given {operands[0]}, expected a condition first: compare it with something")
        kind = max(kinds[1:], key=KINDS.index)
    else:  # arithmetic counts a condition as 0 or 1
        kind = max([*kinds, "int"], key=KINDS.index)
    return Expression(operation, operands, kind)


def gatherable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array as kernels can gather from it: itself, or what had to be converted."""
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TraceError(
            f"an array of dtype {array.dtype} cannot be gathered from: convert it to a number or a boolean"
        )
    if (array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8)) or array.dtype.name == "bfloat16":
        array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    elif array.dtype == np.uint64:
        if array.max() >= 1 << 63:
            raise TraceError(f"an array of uint64 holds {array.max()}, expected numbers below 2^63: use floats")
        array = array.astype(np.int64)
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    return array


def gather(array: np.ndarray[Any, Any], indices: Sequence[Any]) -> Expression:
    """The element at traced indices; an index outside the array is moved to its nearest end."""
    chosen = tuple(map(lift, indices))
    if any(x.kind == "float" for x in chosen):
        raise TraceError(
            f"an array of shape {array.shape} was indexed with a float: index it with //, or with b, h, q, k"
        )
    if len(chosen) != array.ndim:
        raise TraceError(
            f"an array of shape {array.shape} was indexed with {len(chosen)} indices, expected {array.ndim}"
        )
    if array.size == 0:
        raise TraceError(f"an array of shape {array.shape} has no elements to gather: give it at least one")
    array = gatherable(array)
    kind = {"b": "bool", "i": "int", "u": "int"}.get(array.dtype.kind, "float")
    return Expression("gather", chosen, kind, array)


def where(condition: Any, yes: Any, no: Any) -> Expression:
    """`yes` where the condition holds, else `no`.

    >>> from regard.algebra.tracing import trace
    >>> trace(lambda score, b, h, q, k: where(q >= k, score, 0.0), "score b h q k")
    where((k <= q), score, 0.0)
    """
    return combine("where", condition, yes, no)


def minimum(a: Any, b: Any) -> Expression:
    """The smaller of two traced values."""
    return combine("minimum", a, b)


def maximum(a: Any, b: Any) -> Expression:
    """The larger of two traced values."""
    return combine("maximum", a, b)


def exp(x: Any) -> Expression:
    """e to the power of a traced value."""
    return combine("exp", x)


def log(x: Any) -> Expression:
    """The natural logarithm of a traced value."""
    return combine("log", x)


def tanh(x: Any) -> Expression:
    """The hyperbolic tangent of a traced value."""
    return combine("tanh", x)


def sigmoid(x: Any) -> Expression:
    """1 / (1 + e^-x) of a traced value."""
    return combine("sigmoid", x)


_ALIASES = {
    "add": "add",
    "subtract": "sub",
    "sub": "sub",
    "multiply": "mul",
    "mul": "mul",
    "divide": "div",
    "div": "div",
}
_ALIASES |= {"true_divide": "div", "rsub": "rsub", "floor_divide": "floordiv", "remainder": "mod", "mod": "mod"}
_ALIASES |= {"negative": "neg", "neg": "neg", "absolute": "abs", "abs": "abs", "fabs": "abs", "minimum": "minimum"}
_ALIASES |= {"maximum": "maximum", "exp": "exp", "log": "log", "tanh": "tanh", "sigmoid": "sigmoid", "where": "where"}
_ALIASES |= {
    "less": "lt",
    "lt": "lt",
    "less_equal": "le",
    "le": "le",
    "greater": "gt",
    "gt": "gt",
    "greater_equal": "ge",
}
_ALIASES |= {"ge": "ge", "equal": "eq", "eq": "eq", "not_equal": "ne", "ne": "ne", "logical_and": "and"}
_ALIASES |= {"bitwise_and": "and", "logical_or": "or", "bitwise_or": "or", "logical_not": "not", "bitwise_not": "not"}
_ALIASES |= {"invert": "not"}
_TRACEABLE = "abs, minimum, maximum, where, exp, log, tanh, sigmoid, arithmetic, comparisons, and & | ~"
_TURNED = {"gt": "lt", "ge": "le", "rsub": "sub"}


def _foreign(name: str, inputs: Sequence[Any]) -> Expression:
    if name in _TURNED:
        return combine(_TURNED[name], *reversed(inputs))
    return combine(name, *inputs)


def substitute(x: Expression, **by: Expression) -> Expression:
    """The tree with variables replaced, all at once: what replaces one may hold another.

    >>> substitute(variable("q") - variable("k"), q=variable("k"), k=variable("q"))
    (k - q)
    """
    done: dict[int, Expression] = {}

    def visit(node: Expression) -> Expression:
        if id(node) not in done:
            if node.operation == "variable":
                done[id(node)] = by.get(node.payload, node)
            else:
                below = tuple(map(visit, node.operands))
                same = all(map(operator.is_, below, node.operands))
                done[id(node)] = node if same else Expression(node.operation, below, node.kind, node.payload)
        return done[id(node)]

    return visit(x)


def mentions(x: Expression | None, *names: str) -> bool:
    """Whether a tree reads any of these variables.

    >>> mentions(variable("q") - 1, "q"), mentions(None, "q")
    (True, False)
    """
    seen: set[int] = set()

    def visit(node: Expression) -> bool:
        if id(node) in seen:
            return False
        seen.add(id(node))
        return node.payload in names if node.operation == "variable" else any(map(visit, node.operands))

    return x is not None and visit(x)
