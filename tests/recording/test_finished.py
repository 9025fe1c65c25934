"""Finished or cut off: the last line of the manifest tells which, and what belongs to a recording that has one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.errors import RecordingError
from regard.recording.format import checked, unchecked
from tests.recording.test_damage import rewritten, unfinished
from tests.recording.test_round_trip import arrays

X = arrays(1, 4, 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with regard.recording(tmp_path / "r", tokens=list("abcd")) as recorder:
        for name in ("x", "y", "z"):
            recorder.layer(X, X, name=name)
        recorder.text(tokens=list("efgh"))
        recorder.layer(X, X, name="x")
    return tmp_path / "r"


def cut(path: Path, keep: int) -> None:
    """Keep some lines of the manifest."""
    manifest = path / "manifest.jsonl"
    manifest.write_bytes(b"".join(manifest.read_bytes().splitlines(keepends=True)[:keep]))


def test_a_finished_one(path: Path) -> None:
    rec = regard.open(path)
    assert rec.finished
    assert rec.notes == rec[0].notes == ()
    told: list[float] = []
    assert rec.verify(told.append) is True
    assert told[-1] == 1
    last = unchecked((path / "manifest.jsonl").read_bytes().splitlines()[-1])
    assert last is not None
    assert (last["chunks"], last["texts"]) == (4, 2)
    assert last["tokens"][0] == (path / "tokens.json").stat().st_size


def test_close_finishes_it_without_a_with(tmp_path: Path) -> None:
    recorder = regard.recording(tmp_path / "r", sync=False)
    recorder.layer(X, X)
    recorder.writer.wait()
    before = regard.open(tmp_path / "r")
    unfinished(before)
    recorder.close()
    recorder.close()
    assert regard.open(tmp_path / "r").verify()
    assert before.verify()  # it was finished since
    assert before.notes == ("unfinished",)


@pytest.mark.parametrize("keep", [1, 2, 3, 5])
def test_lost_lines_at_the_end_are_seen(path: Path, keep: int) -> None:
    cut(path, keep)
    rec = regard.open(path)
    unfinished(rec)
    assert "unfinished" in repr(rec)
    if keep > 1:
        assert rec[0, 0].notes == rec[0].T.notes == ("unfinished",)
    if keep < 5:
        with pytest.raises(RecordingError, match=rf"{5 - keep} files? of which its manifest does not tell"):
            rec.verify()


def test_a_note_is_told_once(tmp_path: Path) -> None:
    recorder = regard.recording(tmp_path / "r", notes=["unfinished"])
    recorder.layer(X, X)
    recorder.writer.wait()
    assert regard.open(tmp_path / "r").notes == ("unfinished",)
    recorder.close()


def test_damage_comes_before_being_unfinished(path: Path) -> None:
    cut(path, 4)
    file = path / "000001.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 4
    file.write_bytes(content)
    with pytest.raises(RecordingError, match=r"^000001\.safetensors of .* is not as it was written"):
        regard.open(path).verify()


def _without_a_line(path: Path) -> None:
    rewritten(path, lambda lines: lines.pop(-2))


def _another_file(path: Path) -> None:
    shutil.copy(path / "000000.safetensors", path / "000004.safetensors")


def _other_tokens(path: Path) -> None:
    content = unchecked((path / "tokens.json").read_bytes())
    assert content is not None
    content["texts"][0]["tokens"][0] = "z"
    (path / "tokens.json").write_bytes(checked(content))


def _more(path: Path, more: bytes) -> None:
    with (path / "manifest.jsonl").open("ab") as file:
        file.write(more)


DAMAGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a line less": (_without_a_line, "has lines of 3 chunks, expected 4: lines were lost or added"),
    "a file more": (_another_file, r"has a file 000004\.safetensors of which its manifest does not tell"),
    "other tokens": (_other_tokens, "is not the one it was closed with"),
    "something behind it": (lambda p: _more(p, b"x"), "goes on after its end"),
    "a line behind it": (lambda p: _more(p, checked({"end": True}) + b"\n"), "stands after its end"),
    "an end of other things": (
        lambda p: rewritten(p, lambda lines: lines[-1].__setitem__("chunks", "4")),
        "is no end that this format knows",
    ),
    "other texts": (
        lambda p: rewritten(p, lambda lines: lines[-1].__setitem__("texts", 3)),
        "has lines of 2 texts, expected 3",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_an_end_does_not_allow(name: str, path: Path) -> None:
    damage, sentence = DAMAGED[name]
    damage(path)
    with pytest.raises(RecordingError, match=sentence) as caught:
        regard.open(path).verify()
    assert "\n" not in str(caught.value)


def test_a_refused_layer_leaves_a_whole_recording(tmp_path: Path) -> None:
    with regard.recording(tmp_path / "r", tokens=list("abcd")) as recorder:
        with pytest.raises(regard.RegardError):
            recorder.layer(X, X, tokens=["a"])
        with pytest.raises(regard.RegardError):
            recorder.layer(np.ones((2, 4)), np.ones((3, 5)))
    assert regard.open(tmp_path / "r").verify()


@pytest.mark.parametrize("what", ["cut", "gone"])
def test_a_lost_chunk_says_what_to_do(path: Path, what: str) -> None:
    file = path / "000002.safetensors"
    content = file.read_bytes()
    file.unlink()
    if what == "cut":
        file.write_bytes(content[:100])
    with pytest.raises(RecordingError, match="copy the whole folder anew, or record it again"):
        regard.open(path)
