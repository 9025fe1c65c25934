"""Results as arrays of the caller's kind, and arrays of the caller's as NumPy sees them, without a copy.

>>> as_callers(np.zeros(3), np.ones(2)).tolist()
[1.0, 1.0]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.problem import DTYPES, View, torch_module

Array = np.ndarray[Any, Any]


def empty(like: Any, shape: tuple[int, ...], storage: str) -> Any:
    """Memory for a result: a torch tensor if q was one, else a NumPy array."""
    torch = torch_module()
    if torch is not None and isinstance(like, torch.Tensor):
        names = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
        return torch.empty(shape, dtype=names[storage])
    return np.empty(shape, DTYPES[storage])


def as_callers(like: Any, array: Any) -> Any:
    """A NumPy result as an array of the library that q came from, where that library says how."""
    if not isinstance(array, np.ndarray) or isinstance(like, np.ndarray):
        return array
    torch = torch_module()
    if torch is not None and isinstance(like, torch.Tensor):
        array = array if array.flags.writeable else array.copy()
        if array.dtype == DTYPES["bf16"]:  # the same bits, which NumPy has no word for
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().from_dlpack(array)
    return array


def as_numpy(x: View) -> Array:
    """The memory of a view as a NumPy array."""
    if isinstance(x.owner, np.ndarray) and x.owner.shape == x.shape and x.owner.strides == x.strides:
        return x.owner
    dtype = np.dtype(DTYPES[x.storage])
    plain = np.dtype(np.uint16) if x.storage == "bf16" else dtype  # the protocol has no word for bfloat16
    if 0 in x.shape:
        return np.zeros(x.shape, dtype)

    class Memory:
        owner = x.owner
        __array_interface__ = {  # noqa: RUF012  # the protocol asks for a plain dictionary
            "version": 3,
            "data": (x.address, False),
            "shape": x.shape,
            "strides": x.strides,
            "typestr": plain.str,
        }

    return np.asarray(Memory()).view(dtype)
