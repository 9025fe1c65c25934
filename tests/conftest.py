"""Kernels compiled by a test run are kept for its length, away from the user's own cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

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


TOGETHER = {
    "tests/page/": "browser",
    "tests/models/test_encoder.py": "transformers",
    "tests/recording/test_torch_models.py": "transformers",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share a browser, or long imports, stay together on one worker; all others go where there is room."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((group for start, group in TOGETHER.items() if nodeid.startswith(start)), nodeid)

    return Scheduling(config, log)
