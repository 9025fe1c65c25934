"""Attention designed by hand: heads whose every weight is known beforehand, a search in a graph, and what scale does.

>>> import regard
>>> A = regard.circuits.attend({0: 1, 1: 2, 2: 1, 3: 2}, strength=8).matrix(tokens="the cat sat down".split())
>>> print(str(A.explain("the")).partition(". ")[0])
'the' gives 95 % of its attention to 'cat', 3.8 times an even spread over 4 tokens
"""

from regard.circuits.by_hand import Designed, attend, strength_for, weight_for
from regard.circuits.checks import check
from regard.circuits.contrast import Contrast, contrast
from regard.circuits.explanation import Explanation, explain
from regard.circuits.graphs import Graph, random_graph, tokens
from regard.circuits.heads import (
    Induction,
    current_token,
    first_token,
    induction,
    local,
    previous_token,
    separator,
)
from regard.circuits.path_merging import PathMerging, ablate, path_merging
from regard.circuits.scaling import WhyScale, why_scale

__all__ = [
    "Contrast",
    "Designed",
    "Explanation",
    "Graph",
    "Induction",
    "PathMerging",
    "WhyScale",
    "ablate",
    "attend",
    "check",
    "contrast",
    "current_token",
    "explain",
    "first_token",
    "induction",
    "local",
    "path_merging",
    "previous_token",
    "random_graph",
    "separator",
    "strength_for",
    "tokens",
    "weight_for",
    "why_scale",
]
