"""What only a new process can show: the first call, the import, and the memory of a long call.

`python -m benchmarks.fresh KIND DTYPE ASK` is the new process: it imports Regard alone and prints one JSON object.
Everything above `main` runs in the process that asks.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LONG = 131072


def _child(kind: str, dtype: str, ask: str, cache: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.fresh", kind, dtype, ask]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "REGARD_CACHE": cache}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def measure(kind: str, dtype: str, ask: str, cached: bool, rounds: int) -> dict[str, float]:
    """The best of `rounds` new processes; with `cached`, one before them has filled the cache folder."""
    rounds = 1 if kind in ("memory", "asking", "additive") else rounds  # memory repeats itself and takes long
    answers = []
    with tempfile.TemporaryDirectory() as shared:
        if cached or kind == "load":  # an import writes its bytecode the first time
            _child(kind, dtype, ask, shared)
        for _ in range(rounds):
            if cached or kind == "load":
                answers.append(_child(kind, dtype, ask, shared))
            else:
                with tempfile.TemporaryDirectory() as empty:
                    answers.append(_child(kind, dtype, ask, empty))
    return {**min(answers, key=lambda answer: answer["value"]), "rounds": rounds}


# In the new process.


def load(dtype: str, ask: str) -> dict[str, float]:
    import llvmlite.binding  # noqa: F401  # what is over these two is measured
    import numpy  # noqa: F401

    start = time.perf_counter()
    import regard  # noqa: F401

    return {"value": time.perf_counter() - start}


def _call(dtype: str, ask: str, heads: int, n: int) -> tuple[Any, list[Any]]:
    import ml_dtypes
    import numpy as np

    regard: Any = import_module("regard")
    rng = np.random.default_rng(0)
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.float32
    arrays = [rng.standard_normal((heads, n, 64), np.float32).astype(kind, copy=False) for _ in range(3)]
    arguments = {"mask": regard.causal} if ask == "causal" else {}
    return lambda: regard.attention(*arrays, **arguments), arrays


def first(dtype: str, ask: str) -> dict[str, float]:
    """Seconds until the first answer, and of a call after it; the problem is small, so what counts is the rest."""
    call, _ = _call(dtype, ask, 8, 512)
    start = time.perf_counter()
    call()
    value = time.perf_counter() - start
    start = time.perf_counter()
    call()
    return {"value": value, "second call": time.perf_counter() - start}


def _status(*names: str) -> list[float]:
    """Bytes, from /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    values = {line.split(":")[0]: line.split(":")[1] for line in lines}
    return [float(values.get(name, "0 kB").split()[0]) * 1024 for name in names]


def memory(dtype: str, ask: str) -> dict[str, float]:
    """Megabytes: the peak of resident memory during the first call, less what was there before and the output.

    One process, one call: so the compiler's memory counts too. What is left in anonymous memory and in pages of
    files (the code of libraries) afterwards is told apart, to show where the peak comes from.
    """
    call, _ = _call(dtype, ask, 1, LONG)
    return _extra(call)


def _extra(call: Callable[[], Any]) -> dict[str, float]:
    gc.collect()
    linux = Path("/proc/self/status").exists()
    if linux:
        with contextlib.suppress(OSError):  # not permitted: the peak so far is at least not below the truth
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        before, anonymous, files = _status("VmRSS", "RssAnon", "RssFile")
    else:
        before = _peak()
    out = call()
    answer = {"value": ((_status("VmHWM")[0] if linux else _peak()) - before - out.nbytes) / 1e6}
    if linux:
        anonymous_after, files_after = _status("RssAnon", "RssFile")
        answer["anonymous kept"] = (anonymous_after - anonymous - out.nbytes) / 1e6
        answer["files kept"] = (files_after - files) / 1e6
    return answer


def asking(dtype: str, ask: str) -> dict[str, float]:
    """Megabytes beyond the inputs and the answers, of the questions of `reading`; in all, for the long one."""
    import numpy as np

    from .reading import arrays, questions

    regard: Any = import_module("regard")
    heads, n = map(int, ask.split())
    q, k = arrays(heads, n)
    wanted = questions()
    gc.collect()
    linux = Path("/proc/self/status").exists()
    if linux:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")[0] if linux else _peak()
    answers = regard.matrix(q, k).ask(*wanted)
    peak = _status("VmHWM")[0] if linux else _peak()
    flat = [part for x in answers for part in (x if isinstance(x, tuple) else (x,))]
    size = sum(np.asarray(x).nbytes for x in flat)
    return {"value": (peak if n == LONG else peak - before - size) / 1e6, "answers": size / 1e6}


def additive(dtype: str, ask: str) -> dict[str, float]:
    """Megabytes beyond inputs and output of additive scores; n × n × d_a would be 68 GB, n × n 1 GB."""
    import numpy as np

    regard: Any = import_module("regard")
    q, k, v = (np.random.default_rng(i).standard_normal((16384, 64), np.float32) for i in range(3))
    eye = np.eye(64, dtype=np.float32)
    score = regard.additive(np.ones(64, np.float32), eye, eye)
    return _extra(lambda: regard.attention(q, k, v, score=score))


def _peak() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)


def main() -> None:
    kind, dtype, ask = sys.argv[1:]
    print(
        json.dumps(
            {"load": load, "first": first, "memory": memory, "asking": asking, "additive": additive}[kind](dtype, ask)
        )
    )


if __name__ == "__main__":
    main()
