"""Ctrl-C in a long call: KeyboardInterrupt within a second, nothing left running, and the next call is right."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.system.scripts import run, start

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has them")

LONG = """
rng = np.random.default_rng(3)
long = [rng.standard_normal((1, 131072, 64)).astype(np.float32) for _ in range(3)]
"""


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("count", [1, 3])
def test_a_long_call_stops_and_leaves_nothing_behind(count: int) -> None:
    process = start(
        LONG
        + f"""
regard.threads({count})
before = digest()
out = np.zeros_like(long[0])
regard.attention(*(x[:, :64] for x in long))  # compiled, so that the signal meets the kernel
print("begin")
try:
    regard.attention(*long, out=out)
    print("finished")
except KeyboardInterrupt:
    print(time.monotonic())
copy = out.copy()
cpu, clock = time.process_time(), time.monotonic()
time.sleep(0.4)
print(time.process_time() - cpu)
assert np.array_equal(out, copy), "somebody still writes"
assert digest() == before
assert right()
print("right")
"""
    )
    try:
        assert _line(process) == "begin"
        time.sleep(0.2)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        raised = _line(process)
        assert raised != "finished"
        assert float(raised) - sent < 1.0
        assert float(_line(process)) < 0.1, "seconds of CPU were spent after the call was left"
        assert _line(process) == "right", process.communicate(timeout=20)[1]
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("known", [False, True], ids=["lse is computed", "lse is known"])
def test_a_long_question_stops_and_leaves_nothing_behind(known: bool) -> None:
    process = start(
        LONG
        + f"""
from regard.lens import Entropy, Received, Top
asked = Entropy(), Received(), Top(3)
n, lse = 131072, np.full((1, 131072), np.log(131072), np.float32) if {known} else None
q, k, v = long
small = regard.matrix(q[:, :200], k[:, :300])
before = small.ask(*asked)  # compiled, so that the signal meets the kernel
A = regard.matrix(q, k, lse=lse)
print("begin")
try:
    A.ask(*asked)
    print("finished")
except KeyboardInterrupt:
    print(time.monotonic())
cpu = time.process_time()
time.sleep(0.4)
print(time.process_time() - cpu)
after = small.ask(*asked), regard.matrix(q[:, :200], k[:, :300]).ask(*asked)
for found in after:
    assert np.array_equal(found[0], before[0]) and np.array_equal(found[1], before[1])
    assert all(map(np.array_equal, found[2], before[2]))
# Rows whose lse was on its way must not be taken for known.
rows = [0, 1, 70_000, n - 1]
s = q[0, rows].astype(np.float64) @ k[0].T.astype(np.float64) / 8
there = A.lse if {known} else np.stack([A.weights.lse(range(i, i + 1))[0] for i in rows], axis=1)
want = lse[:, rows] if {known} else np.log(np.exp(s).sum(-1))[None]
assert np.allclose(there[:, rows] if {known} else there, want, atol=1e-4)
assert np.allclose(A[0, rows], np.exp(s - want[0][:, None]), rtol=1e-3, atol=1e-9)
print("right")
"""
    )
    try:
        assert _line(process) == "begin", process.communicate(timeout=20)[1]
        time.sleep(0.3)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        raised = _line(process)
        assert raised != "finished"
        assert float(raised) - sent < 3.0  # a step of a plain form may take a second
        assert float(_line(process)) < 0.1, "seconds of CPU were spent after the question was left"
        assert _line(process) == "right", process.communicate(timeout=20)[1]
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def test_an_interrupt_that_nobody_catches_ends_the_process() -> None:
    process = start(LONG + "regard.threads(2)\nprint('begin')\nregard.attention(*long)")
    try:
        assert _line(process) == "begin"
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=5)[1]
        assert process.returncode == -signal.SIGINT
        assert errors.strip().endswith("KeyboardInterrupt")
    finally:
        process.kill()
        process.communicate()


def test_many_interrupts_at_once_leave_nobody_inside() -> None:
    # Impatient people press Ctrl-C again. A second interrupt while helpers are on their way out must not let the call
    # return before they have left, because what they write to is freed then.
    run("""
from regard.kernels import threads
from regard.kernels.plan import JOB, JOB_WORDS
import ctypes, signal
regard.threads(2)
inside = []
def kernel(job, workspace):
    if threading.current_thread() is threading.main_thread():
        time.sleep(0.01)
    else:
        inside.append(1)
        time.sleep(0.3)
        inside.pop()
    return 1
def press():
    for pause in (0.1, 0.08, 0.08):
        time.sleep(pause)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
presses = threading.Thread(target=press)
presses.start()
there = 0
try:
    try:
        threads.compute(kernel, (ctypes.c_int64 * JOB_WORDS)(), 4096, 1, 1, None)
    except KeyboardInterrupt:
        there = len(inside)
    presses.join()
except KeyboardInterrupt:
    presses.join()
assert there == 0, f"{there} helpers were still in the kernel when the call had been left"
""")


def test_a_signal_handler_may_call_too() -> None:
    # The handler runs on the thread that is inside the outer call, between two of its native calls.
    run(
        """
import signal
regard.threads(1)
rng = np.random.default_rng(3)
q, k, v = (rng.standard_normal((1, 20000, 64)).astype(np.float32) for _ in range(3))
alone, small = regard.attention(q, k, v), digest()
inner = []
def handler(number, frame):
    inner.append(digest() == small)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.02)
together = regard.attention(q, k, v)
assert inner == [True]
assert np.array_equal(alone, together), "the outer call lost its state"
""",
        timeout=10,
    )


def test_an_exception_from_a_signal_handler_stops_a_call() -> None:
    # As tests with a time limit do it: any exception, not only KeyboardInterrupt.
    run(
        LONG
        + """
import signal
class TooLong(Exception):
    pass
def handler(number, frame):
    raise TooLong
regard.threads(2)
before = digest()
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
start = time.monotonic()
try:
    regard.attention(*long)
except TooLong:
    assert time.monotonic() - start < 1.3
else:
    raise AssertionError("it was not stopped")
assert digest() == before
"""
    )
