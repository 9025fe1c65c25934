"""No kernel reads or writes outside its arrays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attention.judge import DTYPES

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="memory is guarded with mprotect")


def run(argument, target=""):
    environment = {**os.environ, "REGARD_TARGET": target}
    command = [sys.executable, "-m", "tests.attention.guarded", argument]
    folder = Path(__file__).parents[2]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=110)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_between_forbidden_pages(dtype):
    done = run(dtype)
    last = done.stdout.strip().rpartition("\n")[2]
    assert done.returncode == 0, f"ended with {done.returncode} at: {last}\n{done.stderr[-2000:]}"
    assert last.endswith("calls stayed inside")


def test_the_guard_holds():
    assert run("crash").returncode < 0
