"""Heads that are found in trained models, built by hand, so that it is known what they do.

`patterns()` gives each its name back:

>>> A = previous_token(8).matrix()
>>> A.patterns().named()[0].name
'previous_token_head'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.algebra.masks import causal
from regard.attention import attention
from regard.circuits.by_hand import Array, Designed, attend, strength_for
from regard.errors import DtypeError, ShapeError
from regard.lens import wording
from regard.matrix import AttentionMatrix, matrix

WEIGHT = 0.95  # what a row gives to what it looks at, if all keys are visible; under a mask it gives more


def previous_token(n: int, weight: float = WEIGHT) -> Designed:
    """Each token looks at the one before it; the first has none and spreads its attention."""
    return _pointing(n, {i: [i - 1] for i in range(1, _places(n))}, weight)


def first_token(n: int, weight: float = WEIGHT) -> Designed:
    """All look at the first token, on which heads rest that have nothing to look for."""
    return _pointing(n, {i: [0] for i in range(_places(n))}, weight)


def current_token(n: int, weight: float = WEIGHT) -> Designed:
    """Each token looks at itself."""
    return _pointing(n, {i: [i] for i in range(_places(n))}, weight)


def separator(tokens: Sequence[str], special: Sequence[str] | None = None, weight: float = WEIGHT) -> Designed:
    """All look at the separators, evenly: at the `special` tokens, or those that a tokenizer adds.

    >>> made = separator(["[CLS]", "a", "cat", "sat", "[SEP]"])
    >>> [f"{weight:.3f}" for weight in made.matrix()[2]]
    ['0.475', '0.017', '0.017', '0.017', '0.475']
    """
    if isinstance(tokens, str):
        raise DtypeError("tokens is one string, expected a token for each place: pass text.split()")
    found = wording.special(tokens) if special is None else np.isin(np.array(tokens, object), np.array(special, object))
    keys = [int(j) for j in np.flatnonzero(found)]
    if not keys:
        wanted = "that a tokenizer adds" if special is None else f"in {list(special)!r}"
        raise ShapeError(f"none of the {len(tokens)} tokens is one {wanted}, expected a separator: pass special=")
    return _pointing(len(tokens), dict.fromkeys(range(len(tokens)), keys), weight)


def local(n: int, width: int = 2, weight: float = WEIGHT) -> Designed:
    """Each token looks evenly at the keys at most `width` places away, itself included."""
    if isinstance(width, bool) or not isinstance(width, (int, np.integer)) or width < 0:
        raise ShapeError(f"width is {width!r}, expected a whole number of places, 0 or more")
    window = {i: list(range(max(0, i - width), min(n, i + width + 1))) for i in range(_places(n))}
    return _pointing(n, window, weight)


def _places(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ShapeError(f"n is {n!r}, expected a whole number of tokens, 1 or more")
    return int(n)


def _pointing(n: int, links: dict[int, list[int]], weight: float) -> Designed:
    """The targets of `attend`, each row as strong as it needs to be: at the edges fewer keys share a weight."""
    made = attend(links, 1.0, n=n)
    rows = np.ones((n, 1), np.float32)
    for i, keys in links.items():
        if len(keys) < n:
            rows[i] = strength_for(weight, n, n, len(keys))
    return made._replace(q=made.q * rows)


# Induction.


class Projected(NamedTuple):
    """One head with its projections, each (width of the residual, …), and what came of them."""

    w_q: Array
    w_k: Array
    w_v: Array
    w_o: Array
    q: Array  # (n, d)
    k: Array  # (n, d)
    v: Array  # (n, values)

    def matrix(self, **more: Any) -> AttentionMatrix:
        """The weights under a causal mask; the arguments are those of `regard.matrix`."""
        return matrix(self.q, self.k, **{"v": self.v, "mask": causal, **more})


class Induction(NamedTuple):
    """Two layers that continue what was there before: after "a b … a" comes "b"."""

    previous: Projected  # writes into each place which token stands before it
    induction: Projected  # looks at the place before which stands what stands here
    residual: Array  # (n, width): [token | position | token before], after the first layer
    output: Array  # (n, vocabulary): what comes next, as shares of the tokens
    vocabulary: tuple[Any, ...]

    @property
    def predicted(self) -> list[Any]:
        """The likeliest next token at each place."""
        return [self.vocabulary[j] for j in self.output.argmax(-1)]


def induction(tokens: Sequence[Any], weight: float = WEIGHT) -> Induction:
    """Induction in two layers, on a residual of [token | position | token before] and with causal masks.

    The first layer is a previous-token head: its query is the position, turned by one, its key the position, and it
    copies the token into a part of the residual of its own. In the second the query is the token and the key the token
    before: it looks at what followed when this token was there last, and copies that. The first token has none before
    it and would take itself for it; its position keeps the key of that place from matching.

    >>> made = induction("the cat sat . the".split())
    >>> made.predicted[-1], [f"{weight:.2f}" for weight in made.induction.matrix()[-1]]
    ('cat', ['0.00', '0.96', '0.01', '0.01', '0.01'])
    """
    if isinstance(tokens, str):
        raise DtypeError("tokens is one string, expected a token for each place: pass text.split()")
    n = _places(len(tokens))
    vocabulary = tuple(dict.fromkeys(tokens))
    size = len(vocabulary)
    token, position, before = slice(0, size), slice(size, size + n), slice(size + n, 2 * size + n)
    x = np.zeros((n, 2 * size + n), np.float32)
    x[np.arange(n), [vocabulary.index(t) for t in tokens]] = 1
    x[:, position] = np.eye(n)

    # A score of the first layer has n dimensions, of the second one for each token and one more.
    first = _part(x, position, np.eye(n, k=-1) * strength_for(weight, max(2, n), n), n)
    second = strength_for(weight, max(2, n), size + 1)
    write = np.zeros((size, x.shape[1]), np.float32)
    write[:, before] = np.eye(size)
    previous = _layer(x, first, _part(x, position, np.eye(n), n), _part(x, token, np.eye(size), size), write)
    after = x + attention(previous.q, previous.k, previous.v, mask=causal) @ previous.w_o

    # Every token says 1 in the last dimension of its query; the first position answers with -2 · strength.
    ask = _part(x, token, np.hstack([second * np.eye(size), np.ones((size, 1))]), size + 1)
    answer = _part(x, before, np.eye(size, size + 1), size + 1)
    answer[position.start, size] = -2 * second
    out = _layer(after, ask, answer, _part(x, token, np.eye(size), size), np.eye(size, dtype=np.float32))
    z = attention(out.q, out.k, out.v, mask=causal)
    return Induction(previous, out, after, np.asarray(z), vocabulary)


def _part(x: Array, rows: slice, block: Any, columns: int) -> Array:
    """A projection that reads one part of the residual."""
    w = np.zeros((x.shape[1], columns), np.float32)
    w[rows] = block
    return w


def _layer(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array) -> Projected:
    return Projected(w_q, w_k, w_v, w_o, x @ w_q, x @ w_k, x @ w_v)
