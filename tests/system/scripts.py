"""Python in a process of its own, so that a deadlock, a signal or a crash fails one test and not the run."""

from __future__ import annotations

import os
import subprocess
import sys

# What most scripts begin with: a call that is worth helpers (threads.WORTH_A_HAND), and its digest.
PRELUDE = '''
import hashlib, os, sys, threading, time, traceback
import numpy as np
import regard

def inputs(heads=4, n=200, d=32, dtype=np.float32):
    rng = np.random.default_rng(7)
    return [rng.standard_normal((heads, n, d)).astype(dtype) for _ in range(3)]

def digest(**shape):
    return hashlib.sha256(regard.attention(*inputs(**shape)).tobytes()).hexdigest()

def expected(heads=4, n=200, d=32):
    q, k, v = (x.astype(np.float64) for x in inputs(heads, n, d))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(d)
    w = np.exp(s - s.max(-1, keepdims=True))
    return w @ v / w.sum(-1, keepdims=True)

def right(**shape):
    return bool(np.allclose(regard.attention(*inputs(**shape)), expected(**shape), atol=2e-6))

def forked(work):
    """The id of a child that runs `work` and leaves with 0 if it gives True."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 4
    try:
        code = 0 if work() else 3
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)

def reap(child, seconds=15.0):
    """How a child left: 0 is right, 3 wrong, 4 an exception, "stuck" never."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "stuck"
'''


def environment(**settings: str | None) -> dict[str, str]:
    """That of this process with some settings changed, or removed where None."""
    result = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    for name in ("REGARD_EXPLAIN", "REGARD_TARGET", "REGARD_THREADS"):
        result.pop(name, None)
    for name, value in settings.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def run(
    code: str, timeout: float = 60, prelude: str = PRELUDE, **settings: str | None
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end; it must leave with 0."""
    result = subprocess.run(
        [sys.executable, "-c", prelude + code],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(**settings),
        check=False,
    )
    assert result.returncode == 0, f"left with {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def start(code: str, prelude: str = PRELUDE, **settings: str | None) -> subprocess.Popen[str]:
    """Start a script and leave it running."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", prelude + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**settings),
    )
