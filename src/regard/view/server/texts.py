"""The text: search in it, the four steps of a short one with their numbers, and heads designed by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.problem import View
from regard.results import as_numpy
from regard.view.server.answers import HEAD, TEXT, Answer, Route, Said, Server, source, within
from regard.view.server.asked import Choice, Refused, Whole, Words
from regard.view.server.jobs import Job

Array = np.ndarray[Any, Any]

HITS = 200  # of one answer
CONTEXT = 40  # characters beside a hit
LONGEST = 200  # characters that are searched for
SHORT = 16  # tokens of a text whose steps are shown
PLACES = 9  # of a number of a step: rounding it once more for people changes nothing
STRENGTH = 64  # of a designed head
SENTENCE = "the cat chased the mice and the mice ran far away from the big old cat"


# Search.


@dataclass(frozen=True)
class Searched:
    """A text, folded so that case does not matter; where tokens with letters begin in it, and which these are."""

    folded: str
    shown: str  # of the same length
    starts: Array
    which: Array

    def token(self, at: int) -> int:
        """The token that a place is in, or stands behind."""
        found = int(np.searchsorted(self.starts, at, side="right")) - 1
        return int(self.which[max(0, found)]) if len(self.which) else 0


def searched(server: Server, r: int, x: int) -> Searched:
    """What is searched: the text itself where tokens know their place in it, else the tokens one after the other."""
    text = server.holdings.text(r, x)

    def make() -> Searched:
        if text.text is not None and text.offsets is not None and len(text.offsets):
            places = np.asarray(text.offsets, np.int64).reshape(-1, 2)
            which = np.flatnonzero(places[:, 1] > places[:, 0])  # special tokens have no letters
            return Searched(_folded(text.text), text.text, places[which, 0], which)
        if not text.tokens:
            raise Refused(400, "the text has no tokens, expected some to search in")
        parts: list[str] = []
        starts: list[int] = []
        at = 0
        for token in text.tokens:
            lead = "" if token.startswith("##") or not parts else " "
            part = token[2:] if token.startswith("##") else token.replace("Ġ", "").replace("▁", "")
            starts.append(at + len(lead))
            parts.append(lead + part)
            at += len(lead) + len(part)
        whole = "".join(parts)
        return Searched(_folded(whole), whole, np.array(starts, np.int64), np.arange(len(starts)))

    found: Searched = server.holdings.some.get(("searched", r, x), make)
    return found


def _folded(text: str) -> str:
    """Small letters, one for each character."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def search(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """Where something stands: the token it begins in, and what stands beside it."""
    wanted = _folded(asked["q"])
    held, tokens = searched(server, asked["r"], asked["x"]), server.holdings.text(asked["r"], asked["x"]).tokens
    hits: list[list[Any]] = []
    total, at = 0, held.folded.find(wanted) if wanted else -1
    while at >= 0:
        end = at + len(wanted)
        if asked["from"] <= total < asked["from"] + HITS:
            token = held.token(at)
            beside = held.shown[max(0, at - CONTEXT) : at], held.shown[end : end + CONTEXT]
            hits.append([token, tokens[token] if tokens else "", *beside])
        total += 1
        if total % 4096 == 0:
            job.check()
        at = held.folded.find(wanted, end)
    return Said({"total": total, "hits": hits})


# The four steps.


def steps(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """Q, K, scores, scaled scores and weights of a head of a short text, with the output where there are values."""
    matrix = server.holdings.head(source(asked), asked["h"])
    n_q, n_k = matrix.shape[-2:]
    if max(n_q, n_k) > SHORT:
        raise Refused(413, f"the text has {max(n_q, n_k)} tokens, expected at most {SHORT} for its steps")
    i = within("i", asked["i"], n_q)
    of = matrix.weights
    q, k = (_plain(x) for x in (of.q, of.k))
    w = of.terms.vector
    scores = q @ k.T if w is None else (np.tanh(q[:, None] + k[None]) * w[0]).sum(-1)
    weights = np.asarray(matrix[0], np.float64)
    final = np.asarray(matrix.scores[0], np.float64)
    found: dict[str, Any] = {
        "tokens": _names(matrix.tokens, n_q),
        "key_tokens": None if matrix.tokens == matrix.key_tokens else _names(matrix.key_tokens, n_k),
        "i": i,
        "d": of.of.d,
        "scale": round(of.terms.scale, PLACES),
        "q": _rounded(q),
        "k": _rounded(k),
        "scores": _rounded(scores),
        "scaled": _rounded(scores * of.terms.scale),
        "final": _rounded(final),
        "weights": _rounded(weights),
    }
    if matrix.v is not None:
        v = np.asarray(matrix.v, np.float64)[0]
        found |= {"v": _rounded(v), "output": _rounded(np.where(weights == 0, 0, weights) @ v)}
    return Said(found)


def _plain(x: View) -> Array:
    found: Array = as_numpy(x).astype(np.float64)[0]
    return found


def _names(tokens: Any, n: int) -> list[str]:
    return [str(i) for i in range(n)] if tokens is None else list(tokens)


def _rounded(x: Array) -> list[Any]:
    """Numbers as JSON has them: none where hidden, or not a number."""
    if x.ndim > 1:
        return [_rounded(row) for row in x]
    return [round(float(v), PLACES) if np.isfinite(v) else None for v in x]


DESIGNED = ("previous_token", "next_token", "first_token", "current_token", "local")


def designed(server: Server, asked: dict[str, Any], job: Job) -> Answer:
    """The steps of a head by hand whose queries point at their keys with some strength."""
    from regard.circuits.by_hand import attend

    n, name = asked["n"], asked["name"]
    targets: dict[int, list[int]] = {
        "previous_token": {i: [i - 1] for i in range(1, n)},
        "next_token": {i: [i + 1] for i in range(n - 1)},
        "first_token": {i: [0] for i in range(n)},
        "current_token": {i: [i] for i in range(n)},
        "local": {i: list(range(max(0, i - 1), min(n, i + 2))) for i in range(n)},
    }[name]
    made = attend(targets, float(asked["strength"]), n=n)
    q, k = made.q.astype(np.float64), made.k.astype(np.float64)
    scores = q @ k.T
    scaled = scores / np.sqrt(n)
    raised = np.exp(scaled - scaled.max(1, keepdims=True))
    return Said(
        {
            "tokens": SENTENCE.split()[:n],
            "q": _rounded(q),
            "k": _rounded(k),
            "scores": _rounded(scores),
            "scaled": _rounded(scaled),
            "weights": _rounded(raised / raised.sum(1, keepdims=True)),
        }
    )


ROUTES: dict[str, Route] = {
    "search": Route(search, {**TEXT, "q": Words(LONGEST), "from": Whole(default=0)}),
    "steps": Route(steps, {**HEAD, "i": Whole(default=0)}),
    "designed": Route(designed, {"name": Choice(*DESIGNED), "n": Whole(SHORT, 4, 1), "strength": Whole(STRENGTH, 8)}),
}
