"""Exact attention, fast and in linear memory, with every weight still readable."""

import typing as _typing

from regard.algebra.masks import Mask, causal, mask, padding, prefix, segments, window
from regard.algebra.scores import additive, alibi, dot, general, softcap
from regard.attention import attention
from regard.cost import cost
from regard.errors import RegardError
from regard.kernels.threads import threads
from regard.matrix import AttentionMatrix, matrix
from regard.trace import trace

__all__ = [
    "AttentionMatrix",
    "Mask",
    "RegardError",
    "additive",
    "alibi",
    "attention",
    "causal",
    "cost",
    "dot",
    "general",
    "mask",
    "matrix",
    "padding",
    "prefix",
    "segments",
    "softcap",
    "threads",
    "trace",
    "window",
]
__version__ = "0.1.0"

if _typing.TYPE_CHECKING:
    from regard import circuits as circuits


def __getattr__(name: str) -> _typing.Any:
    """`regard.circuits` is imported when it is first asked for."""
    if name == "circuits":
        from importlib import import_module

        return import_module("regard.circuits")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
