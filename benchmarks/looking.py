"""Looking: the time until a first picture, what recording costs, and how fast recordings are opened and written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from .measured import Figures, Measured
from .timing import settle

ROOT = Path(__file__).resolve().parent.parent
TEXT = "The old cat slept while two grey mice ran past its nose"  # 12 words
PICTURE = b"is looked at"  # stands above the first matrix; the overview of all heads comes before it
LONG, SMALL = 131072, 64  # tokens
N = 512  # tokens of what is recorded
TEXTS = 8  # that are recorded one after the other
PIECE = 1 << 20  # bytes of a plain write

WORKS = (
    Measured("look: first picture of a text of 12 words", "looking.picture"),
    Measured(f"look: recording a forward of {N} tokens", "looking.overhead"),
    Measured(f"look: opening a recording, {LONG} tokens", "looking.opening"),
    Measured(f"look: writing a demo of {LONG} tokens", "looking.writing"),
)


def picture(rounds: int) -> Figures:
    """From the start of `regard look` to the first matrix in its output, in new processes; one before has warmed up."""
    found = []
    with tempfile.TemporaryDirectory() as cache:
        for number in range(rounds + 1):
            first, last = _looked({**os.environ, "REGARD_CACHE": cache})
            if number:
                found.append((first, last))
    return [
        ("shell to first picture", min(first for first, _ in found), "s", "<=", 2.0),
        ("shell to the end", min(last for _, last in found), "s", "", None),
    ]


def _looked(environment: dict[str, str]) -> tuple[float, float]:
    """Seconds until the first picture, and until it has ended."""
    command = [sys.executable, "-m", "regard", "look", TEXT]
    start = time.perf_counter()
    first = None
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if first is None and PICTURE in line:
                first = time.perf_counter() - start
        errors = process.stderr.read()
    last = time.perf_counter() - start
    if process.returncode or first is None:
        raise RuntimeError(errors.decode().strip() or f"exit {process.returncode}, and no picture")
    return first, last


def overhead(rounds: int) -> Figures:
    """The default model reading texts one after the other, plain and into a recording, to the end of the `with`."""
    regard: Any = import_module("regard")
    model = import_module("regard.models.encoder").Encoder.open()
    ids = [np.random.default_rng(i).integers(1000, 30000, N) for i in range(TEXTS)]

    def plain() -> None:
        for x in ids:
            model(x)

    def recorded(path: str, sync: bool) -> tuple[float, float]:
        start = time.perf_counter()
        with regard.recording(path, sync=sync) as recorder:
            for x in ids:
                recorder.text()
                model(x, each=lambda layer, q, k, v, mask, lse: recorder.layer(q, k, mask=mask, lse=lse))
            inside = time.perf_counter() - start
        return inside, time.perf_counter() - start

    times: dict[str, list[float]] = {"plain": [], "inside": [], "closed": [], "synced": []}
    plain()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.regard"
        for _ in range(rounds):
            settle()
            start = time.perf_counter()
            plain()
            times["plain"].append(time.perf_counter() - start)
            settle()
            inside, closed = recorded(path, sync=False)
            times["inside"].append(inside)
            times["closed"].append(closed)
            shutil.rmtree(path)
            times["synced"].append(recorded(path, sync=True)[1])
            shutil.rmtree(path)
    best = {name: min(x) for name, x in times.items()}
    return [
        ("of a plain forward, all written", best["closed"] / best["plain"], "of", "<=", 1.15),
        ("until the last layer is taken", best["inside"] / best["plain"], "of", "", None),
        ("until it is on the disk", best["synced"] / best["plain"], "of", "", None),
        ("a plain forward", best["plain"] / TEXTS, "s", "", None),
    ]


OPEN = """
import sys, time
import regard
start = time.perf_counter()
recording = regard.open(sys.argv[1])
opened = time.perf_counter() - start
recording[1, 1]
print(opened, time.perf_counter() - start)
"""


def opening(rounds: int) -> Figures:
    """In new processes that find bytecode, a long recording and a small one in turn: opened, and a head of it taken."""
    plant = import_module("regard.recording.planted").plant
    found: dict[int, list[tuple[float, float]]] = {SMALL: [], LONG: []}
    with tempfile.TemporaryDirectory() as folder:
        environment = {x: y for x, y in os.environ.items() if x != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
        for n in found:
            plant(f"{folder}/{n}.regard", n, sync=False)
        for number in range(rounds + 1):
            for n, times in found.items():
                command = [sys.executable, "-c", OPEN, f"{folder}/{n}.regard"]
                done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
                if number:
                    opened, taken = map(float, done.stdout.split())
                    times.append((opened, taken))
    opened, taken = ({n: min(x[i] for x in times) for n, times in found.items()} for i in range(2))
    return [
        ("opened", opened[LONG], "s", "<=", 0.05),
        (f"of the time at {SMALL} tokens", opened[LONG] / opened[SMALL], "of", "<=", 1.25),
        ("with a head of it, and its tokens", taken[LONG], "s", "<=", 0.05),
        (f"the same at {SMALL} tokens", taken[SMALL], "s", "<=", 0.05),
    ]


def writing(rounds: int) -> Figures:
    """The demo made and on the disk, beside the same bytes from memory by plain writes, each file synced."""
    plant = import_module("regard.recording.planted").plant
    times: dict[str, list[float]] = {"made": [], "plain": []}
    with tempfile.TemporaryDirectory() as folder:
        made, plain = Path(folder, "made.regard"), Path(folder, "plain")
        for _ in range(max(5, rounds)):
            start = time.perf_counter()
            plant(made, LONG)
            times["made"].append(time.perf_counter() - start)
            files = {x.name: x.read_bytes() for x in made.iterdir()}
            shutil.rmtree(made)
            plain.mkdir()
            start = time.perf_counter()
            for name, content in files.items():
                _write(plain / name, content)
            times["plain"].append(time.perf_counter() - start)
            shutil.rmtree(plain)
    size = sum(map(len, files.values())) / 1e6
    rate = {name: size / median(x) for name, x in times.items()}  # a disk that is fast at times is so for both
    return [
        ("of the rate of plain writes", rate["made"] / rate["plain"], "of", ">=", 0.8),
        ("made and written", rate["made"], "MB/s", "", None),
        ("plain writes", rate["plain"], "MB/s", "", None),
    ]


def _write(path: Path, content: bytes) -> None:
    memory = memoryview(content)
    with open(path, "wb", buffering=0) as file:
        for first in range(0, len(memory), PIECE):
            file.write(memory[first : first + PIECE])
        os.fsync(file.fileno())
