"""Kernels compiled by a test run are kept for its length, away from the user's own cache."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# NumPy's own threads spin while they wait; beside a busy neighbour that makes the reference ten times slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is first imported


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """REGARD_CACHE points at a folder of this run; subprocesses inherit it, and several workers share it."""
    before = os.environ.get("REGARD_CACHE")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "objects"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ["REGARD_CACHE"] = str(folder)
    yield str(folder)
    if before is None:
        del os.environ["REGARD_CACHE"]
    else:
        os.environ["REGARD_CACHE"] = before
