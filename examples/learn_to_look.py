"""Learning where to look: W_Q and W_K from random to peaked, by plain gradient descent on the reference gradients.

Learning attention is learning to make the right products q·k large. Two tasks:

- **four words**: "the" shall look at "cat", "cat" at "sat", "sat" at "cat", "down" at "sat". The values are the
  identity, so that the output is the row of weights, and the loss is -ln of the weight on the right word.
- **lookup**: eight entries, each a key and what is stored under it, and a query that is one of the keys. The values are
  what is stored, and the loss is -ln of what the output gives of the right thing. Entries are drawn anew in every step,
  so the head has to learn to compare keys and not where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import regard
from regard import reference

Array = np.ndarray[Any, np.dtype[np.float64]]

WORDS = ("the", "cat", "sat", "down")
LOOKS_AT = (1, 2, 1, 2)
ENTRIES, KEYS, STORED = 8, 16, 8  # in a lookup, keys that there are, and things that are stored under them
BATCH = 32  # lookups in a step
TEST = 256  # lookups that it is tested on, drawn after all that it learned from


@dataclass(frozen=True)
class Examples:
    """Inputs and where their rows shall look: queries from x, keys from context."""

    x: Array  # (batch, n, width)
    context: Array  # (batch, m, width)
    values: Array  # (batch, m, e)
    answers: np.ndarray[Any, np.dtype[np.int64]]  # (batch, n) the column of the values that is wanted
    targets: np.ndarray[Any, np.dtype[np.int64]]  # (batch, n) the key that holds it


@dataclass(frozen=True)
class Seen:
    """What is known of a head at some step."""

    step: int
    loss: float
    weight: float  # mean weight on the right key
    entropy: float  # mean of a row, in nats
    right: float  # mean of q·k/√d at the right key
    wrong: float  # the same at the others

    def __str__(self) -> str:
        return (
            f"{self.step:>6}{self.loss:>9.3f}{100 * self.weight:>9.1f} %{self.entropy:>9.3f}"
            f"{self.right:>9.2f}{self.wrong:>9.2f}"
        )


TITLE = f"{'step':>6}{'loss':>9}{'weight':>11}{'entropy':>9}{'q·k':>9}{'others':>9}"


@dataclass
class Head:
    """Two projections, trained by gradient descent."""

    w_q: Array
    w_k: Array

    @classmethod
    def random(cls, width: int, d: int, rng: np.random.Generator) -> Head:
        """Uniform from -1 to 1 over √width, so that rows are nearly flat."""
        w_q, w_k = rng.uniform(-1, 1, (2, width, d)) / np.sqrt(width)
        return cls(w_q, w_k)

    def learn(self, of: Examples, rate: float) -> None:
        """One step down the gradient of the mean of -ln z[answer]."""
        q, k = of.x @ self.w_q, of.context @ self.w_k  # (batch, n, d), (batch, m, d)
        v = of.values
        z = reference.attention(*(a[:, None] for a in (q, k, v)))[:, 0]  # (batch, 1, n, e) -> (batch, n, e)
        d_z = np.zeros_like(z)
        wanted = of.answers[..., None]  # (batch, n, 1)
        np.put_along_axis(d_z, wanted, -1 / (np.take_along_axis(z, wanted, -1) * of.answers.size), -1)
        found = reference.attention_gradients(d_z[:, None], *(a[:, None] for a in (q, k, v)))
        self.w_q -= rate * np.einsum("bnw,bnd->wd", of.x, found.d_q[:, 0])
        self.w_k -= rate * np.einsum("bmw,bmd->wd", of.context, found.d_k[:, 0])

    def seen(self, of: Examples, step: int) -> Seen:
        q, k = (of.x @ self.w_q)[:, None], (of.context @ self.w_k)[:, None]  # (batch, 1, n, d)
        scores, a = reference.scores(q, k)[:, 0], reference.weights(q, k)[:, 0]  # (batch, n, m)
        z = a @ of.values
        at = of.targets[..., None]
        right = np.take_along_axis(scores, at, -1)
        given = np.take_along_axis(z, of.answers[..., None], -1)
        return Seen(
            step,
            loss=float(-np.log(given).mean()),
            weight=float(np.take_along_axis(a, at, -1).mean()),
            entropy=float(-(a * np.log(np.maximum(a, 1e-300))).sum(-1).mean()),
            right=float(right.mean()),
            wrong=float((scores.sum() - right.sum()) / (scores.size - right.size)),
        )


def four_words(rng: np.random.Generator) -> Examples:
    """Four words with embeddings of their own, always the same."""
    x = rng.uniform(-1, 1, (1, len(WORDS), 8))
    answers = np.array([LOOKS_AT])
    return Examples(x, x, np.eye(len(WORDS))[None], answers, answers)


def lookups(count: int, rng: np.random.Generator) -> Examples:
    """Tables of different keys with something stored under each, and one key that is asked for."""
    keys = rng.permuted(np.tile(np.arange(KEYS), (count, 1)), axis=1)[:, :ENTRIES]  # (count, entries)
    stored = rng.integers(STORED, size=(count, ENTRIES))
    asked = rng.integers(ENTRIES, size=(count, 1))
    wanted = np.take_along_axis(keys, asked, 1)
    # [key | stored]: a query has nothing stored.
    context = np.concatenate([np.eye(KEYS)[keys], np.eye(STORED)[stored]], -1)
    x = np.concatenate([np.eye(KEYS)[wanted], np.zeros((count, 1, STORED))], -1)
    return Examples(x, context, np.eye(STORED)[stored], np.take_along_axis(stored, asked, 1), asked)


def train(head: Head, examples: Callable[[], Examples], test: Examples, steps: int, rate: float) -> Iterator[Seen]:
    """Learn so many steps; tells what is seen before the first, and after 1, 2, 4, 8 … and all of them."""
    for step in range(steps + 1):
        if step & (step - 1) == 0 or step == steps:  # powers of two, and 0
            yield head.seen(test, step)
        head.learn(examples(), rate)


def learn_four_words(steps: int = 128, rate: float = 1.0, seed: int = 0) -> tuple[list[Seen], list[Any]]:
    """What was seen on the way, and the matrix before and after."""
    rng = np.random.default_rng(seed)
    words, head = four_words(rng), Head.random(8, 4, rng)
    matrices = [matrix_of(head, words)]
    told = list(train(head, lambda: words, words, steps, rate))
    return told, [*matrices, matrix_of(head, words)]


def learn_lookup(steps: int = 256, rate: float = 8.0, seed: int = 0) -> list[Seen]:
    """What was seen on the way, on lookups that were not learned from."""
    rng = np.random.default_rng(seed)
    head, test = Head.random(KEYS + STORED, KEYS, rng), lookups(TEST, np.random.default_rng(seed + 1))
    return list(train(head, lambda: lookups(BATCH, rng), test, steps, rate))


def matrix_of(head: Head, words: Examples) -> regard.AttentionMatrix:
    return regard.matrix((words.x @ head.w_q)[0], (words.context @ head.w_k)[0], tokens=WORDS)


def main() -> None:
    told, (before, after) = learn_four_words()
    print("Four words: weight on the right word, entropy in nats, and q·k/√d there and elsewhere", TITLE, sep="\n")
    print(*told, sep="\n")
    for when, A in (("before", before), ("after", after)):
        print(f"\n{when}")
        for word, row in zip(WORDS, np.asarray(A), strict=True):
            print(f"  {word:<5}" + "".join(f"{weight:>7.3f}" for weight in row))
    print(f"\nAfter: {str(after.explain('the')).partition('. ')[0]}.\n")
    print(f"Lookup among {ENTRIES} entries, on {TEST} tables that it did not learn from", TITLE, sep="\n")
    print(*learn_lookup(), sep="\n")


if __name__ == "__main__":
    main()
