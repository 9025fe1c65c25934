"""The command line in this process, a recording to ask, and what a terminal would show."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from regard import cli
from regard.recording import recording

TEXT = "The cat chased mice"
TOKENS = ["[CLS]", "the", "cat", "chased", "mice", "[SEP]"]


class Left(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Left:
    """A command, run here."""
    capsys.readouterr()
    code = cli.main([str(x) for x in arguments])
    out, err = capsys.readouterr()
    return Left(code, out, err)


def record(place: Path, *texts: tuple[str, list[str]], layers: int = 2, heads: int = 3, **more: Any) -> Path:
    """A recording of random heads; the second head of the first layer looks at the next token."""
    rng = np.random.default_rng(5)
    with recording(place, model="a model", sync=False, **more) as recorder:
        for text, tokens in texts or ((TEXT, TOKENS),):
            recorder.text(text, tokens)
            n = len(tokens)
            for layer in range(layers):
                q, k = rng.standard_normal((2, heads, n, 32)).astype(np.float32)
                if layer == 0 and heads > 1:
                    q[1], k[1] = 12 * np.eye(n, 32, 1, np.float32), np.eye(n, 32, dtype=np.float32)
                recorder.layer(q, k, scale=1.0)
    return place


class Bytes(io.TextIOWrapper):
    """What comes in."""

    def __init__(self, content: bytes, tty: bool = False):
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


def coming_in(monkeypatch: pytest.MonkeyPatch, content: bytes, tty: bool = False) -> None:
    monkeypatch.setattr(sys, "stdin", Bytes(content, tty))
