"""The main job on a machine where nothing is there yet: a clone, and an environment that it makes itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    os.environ.get("REGARD_FRESH") != "required", reason="installs from the network: REGARD_FRESH=required"
)
def test_look_from_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "regard"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=False)  # if this is a clone itself
    clone.mkdir(exist_ok=True)
    for part in ("src", "scripts", "pyproject.toml", "README.md", "LICENSE"):  # as they are here, committed or not
        subprocess.run(["cp", "-r", str(ROOT / part), str(clone)], check=True)
    bare = {name: x for name, x in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    bare |= {"REGARD_CACHE": str(tmp_path / "cache"), "COLUMNS": "80"}
    left = subprocess.run(
        ["scripts/look", "The cat chased mice"], cwd=clone, env=bare, capture_output=True, text=True, timeout=600
    )
    assert left.returncode == 0, left.stderr
    said = " ".join(left.stdout.split())
    assert "63 of 72 heads rest mostly on [CLS] and [SEP]" in said
    assert "'cat' gives 81 % of its attention in L1H8 to 'chased', 4.9 times an even spread over 6 tokens." in said
    installed = {path.name for path in (clone / ".venv").glob("lib/python3*/site-packages/*")}
    assert "tokenizers" in installed
    assert not {"torch", "transformers", "pytest"} & installed  # nor is more fetched than it needs
