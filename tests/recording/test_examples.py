"""The examples run by themselves, are short, and show what they say."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path

import pytest

from regard.models.folder import installed

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOWN = {
    "recording_arrays": ("any word and words so far", "'tinsel' spreads its attention", "╱╱╱"),
    "recording_torch": ("12 queries × 12 keys", "of its attention to 'c'"),
    "recording_transformers": ("previous token > 99.9 %", "'hungry' gives > 99.9 % of its attention to 'was'"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_an_example(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    path = EXAMPLES / f"{name}.py"
    assert len(path.read_text().splitlines()) <= 20
    if name == "recording_transformers" and installed() is None:
        pytest.skip("the default model is not installed")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        runpy.run_path(str(path))
    finally:
        torch.set_num_threads(threads)
    text = capsys.readouterr().out
    for part in SHOWN[name]:
        assert part in text
