"""Exact attention, fast and in linear memory, with every weight still readable."""

import typing as _typing

from regard.algebra.masks import Mask, causal, mask, padding, prefix, segments, window
from regard.algebra.scores import additive, alibi, dot, general, softcap
from regard.attention import attention
from regard.cost import cost
from regard.errors import RegardError
from regard.kernels.threads import threads
from regard.matrix import AttentionMatrix, matrix
from regard.recording import open as open  # not in __all__: a star import would hide Python's own
from regard.recording import recording
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
    "recording",
    "segments",
    "softcap",
    "threads",
    "trace",
    "window",
]
__version__ = "0.1.0"

if _typing.TYPE_CHECKING:
    from regard import circuits as circuits
    from regard import models as models


def __getattr__(name: str) -> _typing.Any:
    """`regard.circuits` and `regard.models` are imported when they are first asked for."""
    if name in ("circuits", "models"):
        from importlib import import_module

        return import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
