"""Texts to look at heads with: repeated random tokens, and short sentences whose links are known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np

from regard.errors import ShapeError


def repeated(
    n: int, seed: int = 0, vocabulary: Any = 50257, bos: int | None = None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The ids of n random tokens and then the same once more, the usual test for induction; after `bos` if given.

    `vocabulary` is a number of ids, or the ids to draw from. No id is drawn twice while there are enough, so that the
    second half has one place each to look back at.

    >>> ids = repeated(3, seed=1, vocabulary=100, bos=7)
    >>> len(ids), int(ids[0]), bool((ids[1:4] == ids[4:]).all())
    (7, 7, True)
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        raise ShapeError(f"n is {n!r}, expected a whole number of tokens, 0 or more")
    given = np.asarray(vocabulary)
    known = np.arange(int(given)) if given.ndim == 0 else given.astype(np.int64)
    if bos is not None:
        known = known[known != bos]
    if n and not len(known):
        raise ShapeError(f"vocabulary is {vocabulary!r}, expected at least one id to draw from")
    half = np.random.default_rng(seed).choice(known, int(n), replace=n > len(known)) if n else known[:0]
    return np.concatenate([[] if bos is None else [bos], half, half]).astype(np.int64)


@dataclass(frozen=True)
class Sentence:
    """A sentence with its dependencies, as Universal Dependencies draw them, and what its words refer back to.

    All numbers count words from 0; the root's head is -1. `coreference` links a (start, stop) span of words to the
    earlier one that it refers to.
    """

    tokens: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    coreference: tuple[tuple[tuple[int, int], tuple[int, int]], ...]

    @cached_property
    def edges(self) -> dict[str, list[tuple[int, int]]]:
        """(word, its head) pairs by relation: a word looks at its head."""
        found: dict[str, list[tuple[int, int]]] = {}
        for word, (head, relation) in enumerate(zip(self.heads, self.relations, strict=True)):
            if head >= 0:
                found.setdefault(relation, []).append((word, head))
        return found

    @property
    def references(self) -> list[tuple[int, int]]:
        """Coreference as (word, earlier word) pairs."""
        return [(i, j) for ours, theirs in self.coreference for i in range(*ours) for j in range(*theirs)]

    @property
    def text(self) -> str:
        """The sentence as it is written."""
        return " ".join(self.tokens[:-1]) + self.tokens[-1]  # nothing stands before the full stop

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The characters of each word in the text."""
        stops = np.cumsum([len(t) + 1 for t in self.tokens]) - 1
        stops[-1] -= 1
        return [(int(stop) - len(token), int(stop)) for token, stop in zip(self.tokens, stops, strict=True)]

    @property
    def conllu(self) -> str:
        """The same as CoNLL-U."""
        rows = [f"# text = {self.text}"]
        for i, (token, head, relation) in enumerate(zip(self.tokens, self.heads, self.relations, strict=True)):
            space = "SpaceAfter=No" if i == len(self.tokens) - 2 else "_"
            rows.append("\t".join([str(i + 1), token, *"____", str(head + 1), relation, "_", space]))
        return "\n".join(rows) + "\n\n"


def sentences() -> list[Sentence]:
    """Ten short English sentences with their links.

    >>> first = sentences()[0]
    >>> first.text, first.edges["nsubj"], first.references
    ('The cat chased the mouse until it hid.', [(1, 2), (6, 7)], [(6, 4)])
    """
    written = json.loads(files("regard.lens").joinpath("sentences.json").read_text(encoding="utf-8"))
    found = []
    for each in written:
        tokens, heads, relations = zip(*each["words"], strict=True)
        links = tuple((tuple(ours), tuple(theirs)) for ours, theirs in each["coreference"])
        found.append(Sentence(tokens, heads, relations, links))
    return found
