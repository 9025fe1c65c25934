"""Patterns that heads are known for, and how much of each is in every head, from one pass over A.

>>> import numpy as np, regard
>>> n = 6
>>> q, k = 40 * np.eye(n, k=-1, dtype=np.float32), np.eye(n, dtype=np.float32)
>>> A = regard.matrix(q, k, mask=regard.causal, scale=1.0, tokens="a rose is a rose .".split())
>>> found = patterns(A)
>>> [float(x.round(3)) for x in found["previous_token_head"]]  # in 5 of 6 rows, all of it
[0.833, 1.0, 0.29, 5.0]
>>> print(found.named()[0])
previous token 100 %
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.algebra.masks import Mask
from regard.errors import DtypeError, QuestionError, ShapeError
from regard.lens import wording
from regard.lens.ask import Progress
from regard.lens.columns import ByDistance, Received
from regard.lens.even import Evenly, bands, evenly
from regard.lens.links import pairs
from regard.lens.places import (
    Direction,
    Pattern,
    Places,
    aligned,
    columns,
    diagonal,
    duplicates,
    induction,
    nearby,
    own,
    pairs_of,
    places_of,
)
from regard.lens.rows import Entropy, Visible
from regard.lens.single import Mass
from regard.lens.table import Fixed, Patterns

Array = np.ndarray[Any, Any]
CANDIDATES = 8  # fixed distances that edges are compared with: the commonest ones among them


def patterns(
    matrix: Any,
    ids: Any = None,
    *,
    special: Any = None,
    local: int = 4,
    edges: Any = None,
    offsets: Any = None,
    direction: Direction = "back",
    where: Mapping[str, Any] | None = None,
    exclude_bos: bool = False,
    exclude_current_token: bool = False,
    progress: Progress | None = None,
) -> Patterns:
    """How much of each head's attention lies in patterns that heads are known for; see `Patterns` for the numbers.

    previous_token_head   the key just before the query
    duplicate_token_head  keys with the same token as the query
    induction_head        keys just after such a key
    next_token            the key just after the query
    current_token         the query itself
    first_token           the first key, on which heads rest that have nothing to look for
    separator             the tokenizer's special tokens
    punctuation           tokens of punctuation
    local                 keys at most `local` places away
    uniform               entropy / log(visible keys): 1 for an even spread
    aligned               keys at the same part of their sequence as the query of its own
    edges                 links that are given

    `ids` say which tokens are the same: a number for each key, or (for queries, for keys); without them the tokens do.
    `special` chooses the separators, as keys or tokens. With `direction="both"` a duplicate, or what stands before the
    key of induction, may come after the query too. `edges` are (query, key) pairs, pairs of spans of characters with
    `offsets`, the span of each token, or CoNLL-U; or several of these by name. `where` are masks of your own by name.

    `exclude_bos` and `exclude_current_token` are TransformerLens' options: `mul` is then of A with the weights on the
    first key, or of each query on itself, set to 0.
    """
    read = matrix.readable()
    at = places_of(matrix)
    left_out: dict[str, str] = {}
    asked = [*_tokens(matrix, at, ids, direction, left_out), *_places(matrix, at, special, local, left_out)]
    asked += [*_edges(matrix, read, edges, offsets), *(own(name, given) for name, given in (where or {}).items())]
    names = [p.name for p in asked]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise QuestionError(f"two patterns are called {twice!r}, expected a name for each: rename yours")

    masses = [p for p in asked if p.distances is None and p.keys is None and p.pairs is None]
    kept = _kept(at, exclude_bos, exclude_current_token)
    rest = (
        [Mass(kept), *(_within(p, kept, at, exclude_bos, exclude_current_token) for p in asked)]
        if kept is not None
        else []
    )
    questions = (ByDistance(), Received(), Entropy(), Visible(), *(Mass(p.where) for p in masses), *rest)
    by_distance, received, entropy, visible, *shares = matrix.ask(*questions, progress=progress)
    heads, n_q = read.heads, read.n_q

    def flat(x: Any, *shape: int) -> Array:
        return np.asarray(x).reshape(heads, *shape)

    distances = np.asarray(by_distance.distances)
    mass = flat(by_distance.mass, len(distances)).astype(np.float64)
    seen = flat(by_distance.visible, len(distances))
    received, visible = flat(received, read.n_k).astype(np.float64), flat(visible, n_q)
    total = mass.sum(-1)  # (heads,)
    known = {p.name: flat(share.heads) * total for p, share in zip(masses, shares, strict=False)}
    evens = evenly(matrix, asked, bands(at, distances, seen, visible))

    columns_of: dict[str, tuple[Array, Array, Array, Array]] = {}
    fixed: dict[str, Fixed] = {}
    for number, (pattern, even) in enumerate(zip(asked, evens, strict=True)):
        if pattern.distances is not None:
            least, most = pattern.distances
            inside = mass[:, (distances >= least) & (distances <= most)].sum(-1)
        elif pattern.keys is not None:
            inside = received[:, pattern.keys].sum(-1)
        elif pattern.pairs is not None:
            inside = _cells(matrix, pattern.pairs, heads).sum(-1)
            fixed[pattern.name] = _fixed(matrix, at, pattern.pairs, even, heads)
        else:
            inside = known[pattern.name]
        if kept is None:
            mul = _ratio(inside, total, 0)
        else:
            whole, part = (flat(x.heads) for x in (shares[len(masses)], shares[len(masses) + 1 + number]))
            mul = _ratio(part, whole, 0)
        rows = even.exists.sum(-1)
        columns_of[pattern.name] = mul, _ratio(inside, rows, np.nan), even.even, rows
    columns_of["uniform"] = _uniform(flat(entropy, n_q), visible)

    front = tuple(read.front)
    order = tuple(dict.fromkeys(name for name in (*ORDER, *names) if name in columns_of))
    mul, share, even_share, rows = (
        np.stack([columns_of[name][i] for name in order], -1).reshape(*front, len(order)) for i in range(4)
    )
    told = {name: Fixed(*(x.reshape(front) for x in each)) for name, each in fixed.items()}
    return Patterns(order, mul, share, even_share, rows, tuple(wording.labels(matrix)), int(local), told, left_out)


ORDER = (
    "previous_token_head",
    "duplicate_token_head",
    "induction_head",
    "next_token",
    "current_token",
    "first_token",
    "separator",
    "punctuation",
    "local",
    "uniform",
    "aligned",
)


def _ratio(part: Array, whole: Array, empty: float) -> Array:
    return np.where(whole == 0, empty, part / np.where(whole == 0, 1, whole))


def _tokens(matrix: Any, at: Places, ids: Any, direction: Direction, left_out: dict[str, str]) -> list[Pattern]:
    """What follows from which tokens are the same."""
    if direction not in ("back", "both"):
        raise ValueError(f"direction is {direction!r}, expected 'back' or 'both'")
    known = _identity(matrix, at, ids)
    if known is None:
        left_out |= dict.fromkeys(
            ("duplicate_token_head", "induction_head"),
            "it needs to know which tokens are the same: pass ids=, or make the matrix with tokens=",
        )
        return []
    return [
        duplicates("duplicate_token_head", at, *known, direction),
        induction("induction_head", at, *known, direction),
    ]


def _identity(matrix: Any, at: Places, ids: Any) -> tuple[Array, Array] | None:
    """A number for the token of each query and key: equal numbers are equal tokens."""
    n_q, n_k = len(at.q), len(at.k)
    if ids is None:
        ours, theirs = matrix.tokens, matrix.key_tokens
        if ours is None or theirs is None:
            return None
    elif isinstance(ids, (tuple, list)) and len(ids) == 2 and all(np.ndim(x) == 1 for x in ids):
        ours, theirs = map(np.asarray, ids)
    else:
        theirs = np.asarray(ids)
        if theirs.ndim == 1 and n_q > len(theirs) == n_k:
            raise ShapeError(f"ids are for {n_k} keys and there are {n_q} queries: pass (ids of queries, ids of keys)")
        ours = theirs[len(theirs) - n_q :] if theirs.ndim else theirs
    if ids is not None and (theirs.dtype.kind not in "iu" or ours.dtype.kind not in "iu"):
        raise DtypeError(f"ids have dtype {theirs.dtype}, expected whole numbers: pass the ids that the tokenizer gave")
    if np.shape(theirs) != (n_k,) or np.shape(ours) != (n_q,):
        raise ShapeError(f"ids have shape {np.shape(theirs)}, expected ({n_k},): give each key one number")
    _, numbers = np.unique(np.concatenate([np.asarray(ours), np.asarray(theirs)]), return_inverse=True)
    numbers = numbers.reshape(-1).astype(np.int64)
    return numbers[:n_q], numbers[n_q:]


def _places(matrix: Any, at: Places, special: Any, local: Any, left_out: dict[str, str]) -> list[Pattern]:
    """What follows from where queries and keys stand, and from which keys are special."""
    if isinstance(local, bool) or not isinstance(local, (int, np.integer)) or local < 1:
        raise ValueError(f"local is {local!r}, expected a whole number of places, 1 or more")
    found = [
        diagonal("previous_token_head", at, 1),
        diagonal("next_token", at, -1),
        diagonal("current_token", at, 0),
        columns("first_token", at, at.k == 0),
        nearby("local", at, -int(local), int(local)),
        aligned("aligned", at),
    ]
    tokens = matrix.key_tokens
    if special is not None:
        found.append(columns("separator", at, _chosen(special, tokens, len(at.k))))
    elif tokens is not None:
        found.append(columns("separator", at, wording.special(tokens)))
    else:
        left_out["separator"] = "it needs to know the tokens: pass special=, or make the matrix with tokens="
    if tokens is not None:
        found.append(columns("punctuation", at, wording.punctuation(tokens)))
    else:
        left_out["punctuation"] = "it needs to know the tokens: make the matrix with tokens="
    return found


def _chosen(special: Any, tokens: Sequence[str] | None, n_k: int) -> Array:
    """Keys as a boolean for each, from numbers, booleans or tokens; a token stands for every key that has it."""
    given = [special] if isinstance(special, (str, int, np.integer)) else list(special)
    chosen = np.zeros(n_k, np.bool_)
    if given and all(isinstance(x, str) for x in given):
        if tokens is None:
            raise QuestionError(f"special is {given!r}, but the keys have no tokens: pass numbers of keys")
        return np.isin(np.array(tokens, object), np.array(given, object))
    try:
        chosen[np.array(given) if given else []] = True
    except IndexError as error:
        raise ShapeError(f"special cannot choose from {n_k} keys ({error}): pass keys or tokens") from None
    return chosen


def _edges(matrix: Any, read: Any, edges: Any, offsets: Any) -> list[Pattern]:
    if edges is None:
        return []
    tokens = matrix.key_tokens
    groups = {f"edges {name}": x for name, x in edges.items()} if isinstance(edges, Mapping) else {"edges": edges}
    return [pairs_of(name, pairs(x, read.n_q, read.n_k, tokens, offsets), read.n_q) for name, x in groups.items()]


def _kept(at: Places, bos: bool, current: bool) -> Mask | None:
    """What TransformerLens' options leave."""
    if not bos and not current:
        return None
    others = Mask(at.query != at.key) if current else None
    if not bos:
        return others
    return Mask(at.key != 0) if others is None else Mask(at.key != 0) & others


def _within(pattern: Pattern, kept: Mask, at: Places, bos: bool, current: bool) -> Mass:
    """The part of a pattern that is left."""
    if pattern.pairs is None:
        return Mass(pattern.where & kept)
    q, k = at.q[pattern.pairs[:, 0]], at.k[pattern.pairs[:, 1]]
    return Mass(pattern.pairs[~((bos & (k == 0)) | (current & (q == k)))])


def _cells(matrix: Any, which: Array, heads: int) -> Array:
    """Single cells of A, (heads, cells)."""
    plain = matrix.T if getattr(matrix, "turned", False) else matrix
    return np.asarray(plain[..., which[:, 0], which[:, 1]], np.float64).reshape(heads, len(which))


def _fixed(matrix: Any, at: Places, edges: Array, even: Evenly, heads: int) -> Fixed:
    """How much the same queries give at one distance, the best of those that occur."""
    given, counts = np.unique(at.q[edges[:, 0]] - at.k[edges[:, 1]], return_counts=True)
    commonest = given[np.argsort(-counts, kind="stable")[:CANDIDATES]]
    place = {int(k): j for j, k in enumerate(at.k)}
    rows = np.flatnonzero(even.exists.any(0))
    best, share = np.zeros(heads, np.int64), np.full(heads, np.nan)
    for distance in commonest:
        to = np.array([place.get(int(q - distance), -1) for q in at.q[rows]], np.int64)
        there = to >= 0
        cells = _cells(matrix, np.stack([rows[there], to[there]], -1), heads)
        counted = even.exists[:, rows]
        inside = np.where(counted[:, there], cells, 0).sum(-1)
        mean = _ratio(inside, counted.sum(-1), np.nan)
        better = np.isnan(share) | (mean > share)
        best, share = np.where(better, distance, best), np.where(better, mean, share)
    return Fixed(best, share)


def _uniform(entropy: Array, visible: Array) -> tuple[Array, Array, Array, Array]:
    """Entropy / log(visible keys), in rows that see two or more."""
    several = visible >= 2
    each = np.where(several, entropy / np.log(np.maximum(visible, 2)), 0)
    rows = several.sum(-1)
    share = _ratio(each.sum(-1), rows, np.nan)
    return np.full(share.shape, np.nan), share, np.where(rows == 0, np.nan, 1.0), rows
