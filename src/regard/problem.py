"""One call, checked: arrays of any kind as addresses, shapes and strides, with messages that say what to do.

>>> import numpy as np
>>> view("q", np.zeros((2, 5, 4), np.float32)).shape
(2, 5, 4)
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from regard.algebra.masks import Expectation
from regard.errors import DeviceError, DtypeError, GradientError, ShapeError

NUMPY = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(np.float16): "f16",
    np.dtype(np.bool_): "bool",
}
DTYPES = {storage: dtype for dtype, storage in NUMPY.items()}
TORCH = {"torch.float32": "f32", "torch.float64": "f64", "torch.bfloat16": "bf16", "torch.float16": "f16"}
TORCH |= {"torch.bool": "bool"}
FLOATS = "float32, float64, bfloat16 or float16"


class View(NamedTuple):
    """An array as kernels see it."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    storage: str
    owner: Any  # what keeps the memory alive

    def __reduce__(self) -> Any:
        """A copy, in this process or another, is a view of a copy of its owner: an address means nothing there."""
        return _viewed_again, (self.shape, self.strides, self.storage, self.owner)

    def __deepcopy__(self, memo: dict[int, Any]) -> View:
        return _viewed_again(self.shape, self.strides, self.storage, copy.deepcopy(self.owner, memo))


def _viewed_again(shape: tuple[int, ...], strides: tuple[int, ...], storage: str, owner: Any) -> View:
    x = view("a copied array", owner)
    if x.shape == shape:
        return x
    # Missing axes were put in front of it.
    return x._replace(shape=shape, strides=(0,) * (len(shape) - len(x.strides)) + x.strides)


def torch_module() -> Any:
    """torch, if the caller has imported it."""
    found = sys.modules.get("torch")
    return found if hasattr(found, "Tensor") else None  # not a namesake


def refuse_gradients(name: str, given: Any) -> None:
    """Say that no gradient will come back to a tensor that expects one."""
    torch = torch_module()
    if torch is not None and isinstance(given, torch.Tensor) and given.requires_grad and torch.is_grad_enabled():
        raise GradientError(
            f"{name} requires grad, but gradients are not computed here yet; "
            f"call under torch.no_grad() or pass {name}.detach()"
        )


def view(name: str, given: Any) -> View:
    """An array of NumPy, torch or anything with `__dlpack__`, without a copy where its rows lie in one piece."""
    if type(given) is not np.ndarray:
        given = _foreign(name, given)
        if isinstance(given, View):
            return given
    storage = NUMPY.get(given.dtype)
    if storage is None:
        if given.dtype.newbyteorder("=") not in NUMPY:
            raise DtypeError(f"{name} has dtype {given.dtype}, expected {FLOATS}: convert it with astype")
        given = given.astype(given.dtype.newbyteorder("="))
        storage = NUMPY[given.dtype]
    strides = given.strides
    if (
        given.ndim
        and given.size
        and ((strides[-1] != given.itemsize and given.shape[-1] > 1) or not given.flags.aligned)
    ):
        given = np.ascontiguousarray(given) if given.flags.aligned else given.copy()
        strides = given.strides
    return View(given.__array_interface__["data"][0], given.shape, strides, storage, given)


def _foreign(name: str, given: Any) -> Any:
    torch = torch_module()
    if torch is not None and isinstance(given, torch.Tensor):
        return _tensor(name, given, torch)
    if isinstance(given, np.ndarray):  # a subclass
        return np.asarray(given)
    if hasattr(given, "__dlpack__"):
        device = given.__dlpack_device__()[0] if hasattr(given, "__dlpack_device__") else 1
        if int(device) != 1:
            raise DeviceError(f"{name} is not in the memory of the CPU, expected a CPU array: copy it there first")
        try:
            return np.from_dlpack(given)
        except (BufferError, RuntimeError, TypeError) as error:
            raise DtypeError(
                f"{name} is a {type(given).__name__} that cannot be read through DLPack ({error}): convert it to NumPy"
            ) from error
    raise DtypeError(f"{name} is a {type(given).__name__}, expected an array: pass numpy.asarray({name})")


def _tensor(name: str, given: Any, torch: Any) -> View:
    if given.device.type != "cpu":
        how = "give it memory there first" if given.device.type == "meta" else f"call {name}.cpu()"
        raise DeviceError(f"{name} is on {given.device}, expected a tensor on the CPU: {how}")
    refuse_gradients(name, given)
    if given.layout != torch.strided:
        raise DtypeError(f"{name} has layout {given.layout}, expected a dense tensor: call {name}.to_dense()")
    storage = TORCH.get(str(given.dtype))
    if storage is None:
        raise DtypeError(f"{name} has dtype {given.dtype}, expected {FLOATS}: convert it with {name}.to(…)")
    if given.is_conj() or given.is_neg():
        given = given.resolve_conj().resolve_neg()
    if given.dim() and given.shape[-1] > 1 and given.stride(-1) != 1 and given.numel():
        given = given.contiguous()
    size = given.element_size()
    return View(given.data_ptr(), tuple(given.shape), tuple(s * size for s in given.stride()), storage, given)


@dataclass(frozen=True)
class Problem:
    """The shapes of a call: (leading…, heads, n_q, d) queries against (leading…, key_heads, n_k, d) keys."""

    leading: tuple[int, ...]
    heads: int
    key_heads: int
    n_q: int
    n_k: int
    d: int
    d_v: int
    storage: str
    single: bool  # q came as (n, d), without an axis of heads

    @property
    def batch(self) -> int:
        return int(np.prod(self.leading, dtype=np.int64))

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape of what has one number for each query."""
        return (*self.leading, self.n_q) if self.single else (*self.leading, self.heads, self.n_q)


def problem(q: View, k: View, v: View | None) -> Problem:
    """Shapes and dtypes of q, k and v, checked against each other."""
    arrays = [("q", q), ("k", k)] + ([("v", v)] if v is not None else [])
    for name, x in arrays:
        if len(x.shape) < 2:
            raise ShapeError(f"{name} has shape {x.shape}, expected (…, heads, n, d) or (n, d): give it both axes")
        if x.storage == "bool":
            raise DtypeError(f"{name} has dtype bool, expected {FLOATS}: convert it")
    for name, x in arrays[1:]:
        if x.storage != q.storage:
            raise DtypeError(
                f"{name} has dtype {_dtype_name(x)} and q has {_dtype_name(q)}, expected the same: convert one of them"
            )
        if (len(x.shape) == 2) != (len(q.shape) == 2):
            raise ShapeError(
                f"q has shape {q.shape} and {name} has {x.shape}, expected both with an axis of heads or both without: "
                f"add one with {name if len(x.shape) == 2 else 'q'}[None]"
            )
    single = len(q.shape) == 2
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            f"q has d = {q.shape[-1]} and k has d = {k.shape[-1]}, expected the same: check their last axes"
        )
    if v is not None and v.shape[-2] != k.shape[-2]:
        raise ShapeError(f"k has {k.shape[-2]} rows and v has {v.shape[-2]}, expected the same: each key has one value")
    heads, key_heads = (1, 1) if single else (q.shape[-3], k.shape[-3])
    if v is not None and not single and v.shape[-3] != key_heads:
        raise ShapeError(f"k has {key_heads} heads and v has {v.shape[-3]}, expected the same: each key has one value")
    if key_heads == 0 or heads % key_heads:
        raise ShapeError(
            f"q has {heads} heads and k has {key_heads}, expected a multiple: each key head serves as many query heads"
        )
    try:
        leading = np.broadcast_shapes(*(x.shape[:-3] for _, x in arrays))
    except ValueError:
        shapes = ", ".join(f"{name} {x.shape[:-3]}" for name, x in arrays)
        raise ShapeError(
            f"the leading axes are {shapes}, expected shapes that broadcast: make them equal or 1"
        ) from None
    d_v = v.shape[-1] if v is not None else 0
    return Problem(leading, heads, key_heads, q.shape[-2], k.shape[-2], q.shape[-1], d_v, q.storage, single)


def _dtype_name(x: View) -> str:
    return str(DTYPES[x.storage])


def offsets(of: Problem, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bytes from an array's start to each (leading index, query head), flat.

    `shape` and `strides` are of the axes outside a head; missing axes and axes of 1 are repeated, and key heads stand
    for as many query heads as share them.
    """
    full = (*of.leading, of.heads)
    missing = len(full) - len(shape)
    table = np.zeros(1, np.int64)
    for axis, want in enumerate(full):
        have, stride = (1, 0) if axis < missing else (shape[axis - missing], strides[axis - missing])
        steps = np.arange(want, dtype=np.int64) // (want // have if have else 1) * stride
        table = (table[:, None] + steps).ravel()  # (axes so far, want) -> flat
    return table


def fits(name: str, shape: Sequence[int], of: Problem) -> tuple[int, ...]:
    """The shape of a mask or bias with all the axes of the problem's matrix, checked to broadcast to it."""
    full = (*of.leading, of.heads, of.n_q, of.n_k)
    wanted = (of.n_q, of.n_k) if of.single else full
    if len(shape) > len(wanted) or any(
        have not in (1, want) for have, want in zip(reversed(tuple(shape)), reversed(wanted), strict=False)
    ):
        raise ShapeError(
            f"{name} has shape {tuple(shape)}, expected one that broadcasts to {wanted}: "
            "its last axes are queries and keys"
        )
    return (1,) * (len(full) - len(shape)) + tuple(shape)


def check_expectations(where: str, expectations: Sequence[Expectation], of: Problem) -> None:
    """That the arrays a mask or a modifier was made with are as long as the axes they are indexed by."""
    axes = {"b": ("sequences", of.batch), "h": ("heads", of.heads), "row": ("queries", of.n_q), "k": ("keys", of.n_k)}
    for e in expectations:
        what, length = axes[e.axis]
        if e.length != length and not (e.length == 1 and e.repeats):
            raise ShapeError(
                f"{e.what} of the {where} is for {e.length} {what}, but there are {length}: make them agree"
            )
