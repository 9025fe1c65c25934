"""Kernels compiled by a test run are kept for its length, away from the user's own cache."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """REGARD_CACHE points at a folder of this run; subprocesses inherit it."""
    before = os.environ.get("REGARD_CACHE")
    folder = tmp_path_factory.mktemp("objects")
    folder.chmod(0o700)
    os.environ["REGARD_CACHE"] = str(folder)
    yield str(folder)
    if before is None:
        del os.environ["REGARD_CACHE"]
    else:
        os.environ["REGARD_CACHE"] = before
