"""What a score means: expressions traced from plain Python, masks, and scores.

The functions here are for use inside `mask(lambda b, h, q, k: …)` and `modify=lambda score, b, h, q, k: …`; NumPy's and
torch's of the same names work there too.
"""

from regard.algebra.expression import exp, log, maximum, minimum, sigmoid, tanh, where

__all__ = ["exp", "log", "maximum", "minimum", "sigmoid", "tanh", "where"]
