"""Four words, one head, designed by hand: the attention matrix in the terminal.

Each word's key is a direction of its own, and each word's query points at the key it shall look at. With values
that are the identity, the output of attention *is* the matrix of weights. Run it with python examples/four_words.py.
"""

from __future__ import annotations

import regard

WORDS = ("The", "cat", "chased", "mice")
LOOKS_AT = (1, 2, 3, 2)  # determiner -> noun, subject -> verb, verb -> object, object -> verb
WEIGHT = 0.8  # how much each word gives to the word it looks at


def designed(weight: float = WEIGHT) -> regard.AttentionMatrix:
    """The 4 × 4 matrix A, with the strength that this weight needs."""
    n = len(WORDS)
    made = regard.circuits.attend(LOOKS_AT, regard.circuits.strength_for(weight, n, d=n))
    return made.matrix(tokens=WORDS)


if __name__ == "__main__":
    designed().show(row="cat")
