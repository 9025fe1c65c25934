"""A child of fork has none of its parent's threads and none of the owners of its locks; calls work all the same."""

from __future__ import annotations

import os

import pytest

from tests.system.scripts import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def test_before_any_call() -> None:
    run("assert reap(forked(right)) == 0; assert right()")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_after_a_call_with_helpers(count: int) -> None:
    run(f"""
regard.threads({count})
before = digest()
assert right()
child = forked(lambda: digest() == before)
assert reap(child) == 0
assert digest() == before  # the parent's own helpers still answer
""")


def test_a_grandchild() -> None:
    run("""
regard.threads(2)
before = digest()
child = forked(lambda: digest() == before and reap(forked(lambda: digest() == before)) == 0)
assert reap(child) == 0
""")


def test_children_start_their_own_helpers() -> None:
    run("""
regard.threads(3)
before = digest()
def helpers():
    return {t.name for t in threading.enumerate() if t.name.startswith("regard-")}
assert len(helpers()) == 2
child = forked(lambda: not helpers() and digest() == before and len(helpers()) == 2)
assert reap(child) == 0
""")


def test_while_another_thread_is_inside_a_call() -> None:
    run("""
regard.threads(2)
before = digest()
leave = threading.Event()
def work():
    long = inputs(heads=2, n=3000, d=64)
    while not leave.is_set():
        regard.attention(*long)
thread = threading.Thread(target=work)
thread.start()
left = []
for _ in range(6):
    time.sleep(0.03)
    left.append(reap(forked(lambda: digest() == before)))
leave.set()
thread.join()
assert left == [0] * 6, left
assert digest() == before
""")


def test_while_another_thread_compiles(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Nothing is cached, and each d is a kernel of its own, so that a fork meets the compiler at work.
    run(
        """
started = threading.Event()
def compile_many():
    for d in range(33, 60):
        if d == 34:
            started.set()
        if leave.is_set():
            return
        regard.attention(*inputs(1, 8, d))
leave = threading.Event()
thread = threading.Thread(target=compile_many)
thread.start()
started.wait()
left = []
for i in range(3):
    time.sleep(0.05)
    left.append(reap(forked(lambda: right(heads=1, n=9, d=8 + i)), 6.0))
leave.set()
thread.join()
assert left == [0] * 3, left
""",
        REGARD_CACHE=str(tmp_path_factory.mktemp("empty")),
    )


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(method: str, tmp_path: object) -> None:
    script = f"{tmp_path}/script.py"
    with open(script, "w") as file:
        file.write(f"""
import multiprocessing
import numpy as np
import regard

def total(seed):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((4, 200, 32)).astype(np.float32) for _ in range(3))
    return regard.attention(q, k, v).tobytes()

if __name__ == "__main__":
    regard.threads(2)
    here = [total(seed) for seed in range(4)]
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        there = pool.map_async(total, range(4)).get(timeout=30)
    assert here == there
    assert here == [total(seed) for seed in range(4)]
""")
    run(
        f"import runpy; runpy.run_path({script!r}, run_name='__main__')" if method == "fork" else _as_script(script),
        prelude="",
    )


def _as_script(path: str) -> str:
    # A spawned child imports its parent's main module again, so the parent must have one with a file.
    return f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, {path!r}]).returncode)"
