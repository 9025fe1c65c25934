"""A Python function becomes a tree: it is called once, with variables in place of numbers and its arrays in sight."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from regard.algebra.expression import Expression, gather, gatherable, lift, variable

LIBRARIES = ("regard", "numpy", "torch")  # whose functions know traced values already


class Table(np.ndarray[Any, Any]):
    """A view of an array whose indexing by traced values is written down."""

    plain: np.ndarray[Any, Any]

    def __getitem__(self, index: Any) -> Any:
        indices = index if isinstance(index, tuple) else (index,)
        if any(isinstance(i, Expression) for i in indices):
            # What has to be converted to be gathered from is converted once.
            if not hasattr(self, "plain"):
                self.plain = gatherable(self.view(np.ndarray))
            return gather(self.plain, indices)
        return super().__getitem__(index)


def as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """NumPy arrays, torch tensors and whatever has `__dlpack__` as NumPy arrays; None for anything else."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.split(".")[0] == "torch" and hasattr(value, "data_ptr"):
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return np.asarray(value.detach().cpu().numpy())
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        return np.from_dlpack(value)
    return None


def _within_sight(function: types.FunctionType, seen: dict[int, Any]) -> types.FunctionType:
    """The same function, seeing each array that it closes over, or finds in its module, as a Table."""
    if id(function) in seen:
        return seen[id(function)]  # type: ignore[no-any-return]  # what is stored are functions

    def shown(value: Any) -> Any:
        array = as_array(value)
        if array is not None:
            return array.view(Table) if array.ndim else value
        if isinstance(value, types.FunctionType) and str(value.__module__).split(".")[0] not in LIBRARIES:
            return _within_sight(value, seen)
        return value

    code = function.__code__
    names = set(_names(code))
    scope = function.__globals__ | {n: shown(function.__globals__[n]) for n in names if n in function.__globals__}
    cells = function.__closure__ or ()
    closure = tuple(types.CellType() for _ in cells)
    made = types.FunctionType(code, scope, function.__name__, None, closure)
    seen[id(function)] = made
    for ours, theirs in zip(closure, cells, strict=True):
        try:
            ours.cell_contents = shown(theirs.cell_contents)
        except ValueError:  # a cell that is still empty stays so
            continue
    made.__defaults__ = tuple(map(shown, function.__defaults__ or ())) or None
    made.__kwdefaults__ = {name: shown(x) for name, x in (function.__kwdefaults__ or {}).items()}
    return made


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def trace(function: Callable[..., Any], arguments: str) -> Expression:
    """The tree of a Python function, called with variables of these names."""
    return lift(_opened(function)(*map(variable, arguments.split())))


def _opened(function: Any) -> Callable[..., Any]:
    """A function, a method, a partial function or a callable object, with the arrays that it uses in sight."""
    if isinstance(function, types.FunctionType):
        return _within_sight(function, {})
    if isinstance(function, functools.partial):
        return functools.partial(_opened(function.func), *function.args, **function.keywords)
    method = function if isinstance(function, types.MethodType) else getattr(type(function), "__call__", None)  # noqa: B004  # the function behind it is wanted
    if isinstance(method, types.FunctionType):
        return types.MethodType(_within_sight(method, {}), function)
    if isinstance(method, types.MethodType) and isinstance(method.__func__, types.FunctionType):
        return types.MethodType(_within_sight(method.__func__, {}), method.__self__)
    opened: Callable[..., Any] = function
    return opened
