"""Exact attention, fast and in linear memory, with every weight still readable."""

from regard.algebra.masks import Mask, causal, mask, padding, prefix, segments, window
from regard.algebra.scores import alibi, dot, softcap
from regard.attention import attention
from regard.errors import RegardError
from regard.kernels.threads import threads
from regard.matrix import AttentionMatrix, matrix

__all__ = [
    "AttentionMatrix",
    "Mask",
    "RegardError",
    "alibi",
    "attention",
    "causal",
    "dot",
    "mask",
    "matrix",
    "padding",
    "prefix",
    "segments",
    "softcap",
    "threads",
    "window",
]
__version__ = "0.1.0"
