"""The number of threads: how it is chosen, what is refused, and that it changes no bit."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import regard
from tests.system.scripts import run


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    regard.threads(0)


def test_the_default_is_the_cores_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_THREADS", raising=False)
    assert regard.threads(0) == regard.threads() == len(os.sched_getaffinity(0))


def test_setting_asking_and_going_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_THREADS", "5")
    assert regard.threads() == 5
    assert regard.threads(3) == regard.threads() == 3  # what the program says goes before the environment
    assert regard.threads(0) == 5


@pytest.mark.parametrize("wrong", [-1, 1025, 1.5, 2.0, True, "2", [2]])
def test_a_wrong_number_is_refused_and_changes_nothing(wrong: object) -> None:
    regard.threads(3)
    with pytest.raises(ValueError, match="expected a whole number") as caught:
        regard.threads(wrong)  # type: ignore[arg-type]
    assert str(caught.value) == f"threads came as {wrong!r}, expected a whole number from 0 (automatic) to 1024"
    assert regard.threads() == 3


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "1.5", " 2", "1025", "²"])
def test_a_wrong_environment_gets_a_sentence(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_THREADS", wrong)
    with pytest.raises(ValueError, match="expected a whole number") as caught:
        regard.threads()
    sentence = f"REGARD_THREADS is {wrong!r}, expected a whole number from 1 to 1024: set one, or unset it"
    assert str(caught.value) == sentence


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_environment_says_how_many_helpers_start(count: int) -> None:
    out = run(
        "digest(); print(sum(t.name.startswith('regard-') for t in threading.enumerate()))", REGARD_THREADS=str(count)
    ).stdout
    assert out.strip() == str(count - 1)


def test_a_small_call_starts_no_helper() -> None:
    run("regard.threads(3); digest(heads=1, n=16); assert threading.active_count() == 1")


def test_the_number_changes_no_bit() -> None:
    run("""
bits = set()
for count in (1, 2, 3, 8):
    regard.threads(count)
    bits |= {digest(), digest(heads=3, n=401, d=24)}
assert len(bits) == 2
""")


def test_eight_python_threads_at_once() -> None:
    run("""
from concurrent.futures import ThreadPoolExecutor
shapes = [dict(heads=1 + i % 4, n=100 + 37 * i, d=16) for i in range(8)]
alone = [digest(**shape) for shape in shapes]
regard.threads(2)
with ThreadPoolExecutor(8) as pool:
    together = list(pool.map(lambda i: digest(**shapes[i % 8]), range(64)))
assert together == alone * 8
""")


def test_a_call_while_the_interpreter_ends() -> None:
    # Helpers are daemons that sit in native code when the process ends; it must end all the same, without a crash.
    run("""
regard.threads(3)
threading.Thread(target=lambda: digest(heads=8, n=6000, d=64), daemon=True).start()
time.sleep(0.2)
""")


def test_where_no_thread_can_be_started_the_caller_computes_alone() -> None:
    # As in a container with a limit on processes: helpers are a help, not a need.
    run("""
def refuse(self):
    raise RuntimeError("can't start new thread")
regard.threads(1)
before = digest()
threading.Thread.start = refuse
regard.threads(2)
assert digest() == before
""")
