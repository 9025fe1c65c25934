"""Exact attention, fast and in linear memory, with every weight still readable."""

from regard.algebra.masks import Mask, causal, mask, padding, prefix, segments, window
from regard.algebra.scores import additive, alibi, dot, general, softcap
from regard.attention import attention
from regard.errors import RegardError
from regard.kernels.threads import threads
from regard.matrix import AttentionMatrix, matrix

__all__ = [
    "AttentionMatrix",
    "Mask",
    "RegardError",
    "additive",
    "alibi",
    "attention",
    "causal",
    "dot",
    "general",
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
