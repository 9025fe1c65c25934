"""Attention in plain Python whose every multiply-add, exponential and tanh is counted."""

from __future__ import annotations

import math
import random
from collections import Counter

Table = list[list[float]]


class Counted:
    """A layer with random numbers in it; `count` says what each step took."""

    def __init__(self, seed: int = 0) -> None:
        self.count: Counter[tuple[str, str]] = Counter()
        self.random = random.Random(seed)
        self.step = ""

    def some(self, rows: int, columns: int) -> Table:
        return [[self.random.uniform(-1, 1) for _ in range(columns)] for _ in range(rows)]

    def dot(self, a: list[float], b: list[float]) -> float:
        total = 0.0
        for x, y in zip(a, b, strict=True):
            total += x * y
            self.count[self.step, "products"] += 1
        return total

    def times(self, a: Table, b: Table) -> Table:
        columns = [list(column) for column in zip(*b, strict=True)]
        return [[self.dot(row, column) for column in columns] for row in a]

    def exp(self, x: float) -> float:
        self.count[self.step, "exp"] += 1
        return math.exp(x)

    def tanh(self, x: float) -> float:
        self.count[self.step, "tanh"] += 1
        return math.tanh(x)

    def layer(self, n: int, n_k: int, d_model: int, heads: int, key_heads: int, d: int, cached: int, score: str,
              d_a: int, left: float, right: float, output_projection: bool) -> Table:  # fmt: skip
        """One layer of attention over one sequence."""
        x, context = self.some(n, d_model), self.some(n_k - cached, d_model)
        self.step = "Q, K, V"
        q = [self.times(x, self.some(d_model, d)) for _ in range(heads)]
        k = [self.some(cached, d) + self.times(context, self.some(d_model, d)) for _ in range(key_heads)]
        v = [self.some(cached, d) + self.times(context, self.some(d_model, d)) for _ in range(key_heads)]
        if score == "general":
            self.step = "q·W"
            q = [self.times(one, self.some(d, d)) for one in q]
        if score == "additive":
            self.step = "W_q q, W_k k"
            q = [self.times(one, self.some(d, d_a)) for one in q]
            k = [self.times(one, self.some(d, d_a)) for one in k]
        outputs = []
        for h in range(heads):
            mine = h * key_heads // heads
            w = self.some(1, d_a)[0]
            rows = []
            for i in range(n):
                at = i + (n_k - n if math.isfinite(min(left, right)) else 0)
                seen = [j for j in range(n_k) if -left <= j - at <= right]
                self.step = "scores"
                if score == "additive":
                    sums = [[self.tanh(a + b) for a, b in zip(q[h][i], k[mine][j], strict=True)] for j in seen]
                    s = [self.dot(one, w) for one in sums]
                else:
                    s = [self.dot(q[h][i], k[mine][j]) for j in seen]
                self.step = "softmax"
                e = [self.exp(one - max(s)) for one in s]
                a = [one / sum(e) for one in e]
                self.step = "A·V"
                rows.append([self.dot(a, [v[mine][j][c] for j in seen]) for c in range(d)])
            outputs.append(rows)
        z = [[x for rows in outputs for x in rows[i]] for i in range(n)]
        if output_projection:
            self.step = "output"
            z = self.times(z, self.some(heads * d, d_model))
        return z
