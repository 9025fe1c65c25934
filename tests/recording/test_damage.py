"""Truncated, altered, foreign and newer recordings: one sentence each, and nothing loaded that is not data."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import regard
from regard.errors import RecordingError
from regard.recording import recorder as recorder_module
from regard.recording import writer as writer_module
from regard.recording.format import SLICE, checked, sound, unchecked
from tests.recording.test_round_trip import Array, arrays, same
from tests.system.scripts import run

TABLE = np.arange(6.0)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recording with all kinds of things in it."""
    path = tmp_path_factory.mktemp("good") / "r"
    with regard.recording(path, text="a b c d e f", tokens=list("abcdef"), model="m", values=True) as recorder:
        x, v = arrays(2, 6, 8), arrays(2, 6, 3)
        recorder.layer(x, x, v, mask=regard.causal, name="first", lse=False)
        recorder.layer(
            x, x, v, bias=arrays(6, 6), sinks=np.zeros(2), modify=lambda score, b, h, q, k: score + TABLE[k], lse=False
        )
        recorder.layer(x, x, v, score=regard.general(np.eye(8)), mask=np.tri(6, dtype=np.bool_), lse=np.zeros((2, 6)))
        recorder.layer(arrays(2, 1, 8), np.concatenate([x, x[:, :1]], 1), arrays(2, 7, 3), name="first", lse=False)
    return path


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good, tmp_path / "copy")
    return tmp_path / "copy"


def everything(path: Path, build: bool = True) -> None:
    """All that reads a recording."""
    rec = regard.open(path)
    for text in rec.texts:
        text.text, text.tokens, text.offsets, text.special, repr(text)
        for layer in text.layers:
            A = text[layer, 0]
            if build:
                A[0]
            text.matrix(layer)
    rec.verify()


def unfinished(rec: Any) -> None:
    """That a recording says that it is not whole, and that what is there is as it was written."""
    assert not rec.finished
    assert "unfinished" in rec.notes
    with pytest.raises(RecordingError, match=r"was not written to its end.* is as it was written") as caught:
        rec.verify()
    assert "\n" not in str(caught.value)


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change what the manifest says, with checks that are right."""
    manifest = path / "manifest.jsonl"
    lines = [unchecked(x) or {} for x in manifest.read_bytes().splitlines()]
    change(lines)
    manifest.write_bytes(b"".join(checked(x) + b"\n" for x in lines))


def test_it_is_good(good: Path) -> None:
    everything(good)
    assert sorted(x.name for x in good.iterdir()) == [
        "000000.safetensors", "000001.safetensors", "000002.safetensors", "000003.safetensors", "manifest.jsonl",
        "tokens.json",
    ]  # fmt: skip
    for line in (good / "manifest.jsonl").read_bytes().splitlines():
        assert sound(line)
        assert isinstance(json.loads(line), dict)


def test_the_files_are_safetensors(good: Path) -> None:
    rec = regard.open(good)
    for chunk in rec.chunks:
        path = good / chunk.name
        theirs = safetensors.numpy.load_file(path)
        ours = rec.arrays(chunk)
        assert {name for name in theirs if not name.startswith("~")} == set(ours)
        for name, array in ours.items():
            assert array.tobytes() == theirs[name].tobytes()
            assert (array.shape, array.dtype) == (theirs[name].shape, theirs[name].dtype)
            assert not array.flags.writeable
        assert all(place.start % 64 == 0 for place in chunk.layout.places.values())


def test_flipped_bits_are_found(copy: Path) -> None:
    rng = random.Random(0)
    contents = {file: file.read_bytes() for file in sorted(copy.iterdir())}
    ends = [(file, at) for file in contents for at in (0, 7, 8, -1)]
    for number in range(200):
        file, at = ends[number] if number < len(ends) else (rng.choice([*contents]), None)
        flipped = bytearray(contents[file])
        flipped[rng.randrange(len(flipped)) if at is None else at] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
        with pytest.raises(RecordingError) as caught:
            regard.open(copy).verify()
        assert "\n" not in str(caught.value)
        with contextlib.suppress(RecordingError):  # an answer or a sentence, but no crash
            everything(copy, build=number % 8 == 0)
        file.write_bytes(contents[file])
    everything(copy)


@pytest.mark.parametrize("large", [1, 1 << 30], ids=["by two threads", "by one"])
def test_it_is_told_where_a_file_was_altered(tmp_path: Path, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "LARGE", large)
    x = arrays(2, 20_000, 8)
    with regard.recording(tmp_path / "r") as recorder:
        recorder.layer(x, x[:1], name="first", lse=False)
    rec = regard.open(tmp_path / "r")
    assert rec.verify()
    file = tmp_path / "r" / "000000.safetensors"
    content = file.read_bytes()
    assert len(content) > SLICE + 100
    for at, where in ((5000, f"0 to {SLICE - 1}"), (SLICE - 1, f"0 to {SLICE - 1}"), (SLICE, f"{SLICE} to "), (-1, "")):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[at] ^= 1 << bit
            file.write_bytes(flipped)
            expected = f"in its bytes {where or SLICE}.*: its layer, 'first', was altered"
            with pytest.raises(RecordingError, match=rf"^000000\.safetensors of .*{expected}"):
                rec.verify()


def test_what_is_cut_off_is_found(good: Path, tmp_path: Path) -> None:
    for file in sorted(good.iterdir()):
        content = file.read_bytes()
        for keep in (0, 1, 8, 40, len(content) // 2, len(content) - 70, len(content) - 2, len(content) - 1):
            path = tmp_path / "cut"
            shutil.copytree(good, path)
            (path / file.name).write_bytes(content[: max(0, keep)])
            if file.name == "manifest.jsonl" and keep >= content.index(b"\n"):
                # A torn last line is one that was being written.
                rec = regard.open(path)
                assert rec.finished == (keep == len(content) - 1)
                assert len(rec.chunks) == content[:keep].count(b"\n") - 1
                if rec.finished:
                    assert rec.verify()
                else:
                    unfinished(rec)
            else:
                with pytest.raises(RecordingError) as caught:
                    everything(path)
                assert "\n" not in str(caught.value)
            shutil.rmtree(path)


@pytest.mark.parametrize("name", ["000001.safetensors", "manifest.jsonl", "tokens.json"])
@pytest.mark.parametrize("put", ["nothing", "a folder", "a pipe", "a longer file"])
def test_files_that_are_none(name: str, put: str, copy: Path) -> None:
    file = copy / name
    content = file.read_bytes()
    file.unlink()
    if put == "a folder":
        file.mkdir()
    elif put == "a pipe":
        os.mkfifo(file)
    elif put == "a longer file":
        file.write_bytes(content + b"more\n")
    with pytest.raises(RecordingError, match=str(copy)):
        everything(copy)


FOREIGN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing": (lambda p: None, "is not there, expected a recording"),
    "a file": (lambda p: p.write_bytes(b"x"), "is no folder, expected a recording"),
    "an empty folder": (lambda p: p.mkdir(), "has no manifest.jsonl"),
    "an empty manifest": (lambda p: _manifest(p, b""), "has no whole line"),
    "a line": (lambda p: _manifest(p, b"\n"), "is no recording of Regard's"),
    "other JSON": (lambda p: _manifest(p, b'{"a": 1}\n'), "is no recording of Regard's"),
    "a pickle": (lambda p: _manifest(p, pickle.dumps({"format": "regard recording"}) + b"\n"), "is no recording of"),
    "another format": (lambda p: _manifest(p, checked({"format": "x", "version": 1}) + b"\n"), "is no recording of"),
    "newer": (
        lambda p: _manifest(p, checked({"format": "regard recording", "version": 2, "new": []}) + b"\n"),
        "is of version 2 of the format, expected 1: install a newer Regard",
    ),
    "version of words": (
        lambda p: _manifest(p, checked({"format": "regard recording", "version": "1"}) + b"\n"),
        "is of version '1' of the format",
    ),
    "a bare header": (
        lambda p: _manifest(p, checked({"format": "regard recording", "version": 1}) + b"\n"),
        "a header without model and notes",
    ),
    "deep nesting": (lambda p: _manifest(p, b"[" * 100000 + b"\n"), "is no recording of Regard's"),
    "random bytes": (lambda p: _manifest(p, random.Random(1).randbytes(5000) + b"\n"), "is no recording of Regard's"),
}


def _manifest(path: Path, content: bytes) -> None:
    path.mkdir()
    (path / "manifest.jsonl").write_bytes(content)


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_paths(name: str, tmp_path: Path) -> None:
    make, sentence = FOREIGN[name]
    make(tmp_path / "r")
    with pytest.raises(RecordingError, match=sentence) as caught:
        regard.open(tmp_path / "r")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def deep(n: int) -> Any:
    made: Any = 0
    for _ in range(n):
        made = [made]
    return made


# What a line may not say, though its check is right: an entry of the line and what stands there.
WRONG: list[tuple[str, Any]] = [
    ("chunk", 1), ("chunk", -1), ("chunk", 10**30), ("chunk", "../../x"), ("chunk", None), ("chunk", True),
    ("text", 5), ("text", -1), ("text", 1.5), ("text", 10**30), ("layer", 5), ("layer", None), ("layer", ["x"]),
    ("row", 1), ("key", 1), ("row", -1), ("row", "x"), ("steps", []), ("steps", [[6, 7]]), ("steps", [[5, 6]]),
    ("steps", [[3, 6], [3, 5]]), ("steps", [[10**20, 6]]), ("steps", [6, 6]), ("steps", "66"), ("steps", [[6, 6, 6]]),
    ("scale", 0.5), ("scale", "x"), ("scale", None), ("scale", "0x1p99999"), ("score", "os.system"), ("score", None),
    ("score", "general"), ("single", True), ("single", 1), ("rounded", None), ("size", 10**12), ("size", "x"),
    ("crc32", ""), ("crc32", 5), ("crc32", "0" * 16), ("mask", 5), ("mask", []), ("mask", [["variable", "q"]]),
    ("mask", deep(900)),
    ("mask", [["variable", "score"], ["constant", 1], ["lt", 0, 1]]), ("modify", [["constant", True]]),
    ("modify", [["gather", "5", 0]]), ("tensors", None), ("tensors", []), ("tensors", {}), ("tensors", {"q": 5}),
    ("across", None), ("across", "q"), ("across", ["x"]), ("across", [["q"]]), ("across", ["k", "k"]),
    ("across", ["q"]),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "value"), WRONG, ids=[f"{a}-{str(b)[:20]}" for a, b in WRONG])
def test_lines_that_say_something_else(entry: str, value: Any, copy: Path) -> None:
    rewritten(copy, lambda lines: lines[1].__setitem__(entry, value))
    with pytest.raises(RecordingError) as caught:
        everything(copy)
    assert "\n" not in str(caught.value)


SHAPES: list[tuple[str, Any]] = [
    ("q", ["F32", [1, 2, 6, 10**15]]), ("q", ["F32", [10**9, 2, 0, 8]]), ("q", ["F64", [1, 2, 6, 4]]),
    ("q", ["F32", [2, 6, 8]]), ("q", ["F32", [1, 2, -6, 8]]), ("q", ["F32", [1, 2, 6.0, 8]]), ("q", ["F32", "8"]),
    ("q", ["O", [1, 2, 6, 8]]), ("q", ["BOOL", [1, 2, 6, 32]]), ("q", ["F32"]), ("q", ["F32", [1] * 40]),
    ("k", ["F32", [1, 0, 6, 8]]), ("k", ["F32", [1, 4, 3, 8]]), ("k", ["F32", [1, 3, 4, 8]]),
    ("k", ["F32", [2, 2, 3, 8]]), ("k", ["F32", [1, 2, 12, 4]]), ("k", ["I32", [1, 2, 6, 8]]),
    ("v", ["F32", [1, 2, 3, 6]]), ("v", ["F32", [36]]), ("lse", ["F64", [5]]), ("~1", ["U8", [5]]),
    ("../x", ["U8", []]),
]  # fmt: skip


@pytest.mark.parametrize(("tensor", "what"), SHAPES, ids=[f"{a}-{b}" for a, b in SHAPES])
def test_shapes_that_do_not_fit(tensor: str, what: Any, copy: Path) -> None:
    rewritten(copy, lambda lines: lines[1]["tensors"].__setitem__(tensor, what))
    with pytest.raises(RecordingError) as caught:
        everything(copy)
    assert "\n" not in str(caught.value)


def test_lines_in_another_order(copy: Path) -> None:
    rewritten(copy, lambda lines: lines.insert(1, lines.pop(-2)))
    with pytest.raises(RecordingError, match="expected 0: it was altered"):
        regard.open(copy)


@pytest.mark.parametrize(
    "entry",
    [
        5, {}, [], {"text": 5}, {"tokens": "abc"}, {"tokens": [5]}, {"offsets": [1]}, {"offsets": "x"},
        {"special": ["x"]}, {"padded": "x"}, {"layers": []}, {"layers": {"first": 5}},
        {"layers": {"first": [[5], None]}},
    ],
    ids=str,
)  # fmt: skip
def test_tokens_that_are_none(entry: Any, copy: Path) -> None:
    file = copy / "tokens.json"
    content = unchecked(file.read_bytes()) or {}
    content["texts"][0] = content["texts"][0] | entry if isinstance(entry, dict) and entry else entry
    file.write_bytes(checked(content))
    with pytest.raises(RecordingError, match="is not as Regard writes it"):
        everything(copy)


NAMES = [
    "../../x",
    "/etc/passwd",
    "a\0b",
    "x" * 5000,
    "шляпа 🎩",
    "\ud800",
    "",
    ".",
    "con",
    "a\nb",
    "000000.safetensors",
]


def test_names_never_become_paths(tmp_path: Path) -> None:
    x = arrays(1, 2, 4)
    (tmp_path / "inside").mkdir()
    path = tmp_path / "inside" / "r"
    with regard.recording(path, text=NAMES[0], tokens=["../..", "\ud800"], model="../../m", notes=["/n"]) as recorder:
        for name in NAMES:
            recorder.layer(x, x, name=name, lse=False)
    assert [p.name for p in tmp_path.iterdir()] == ["inside"]
    assert [p.name for p in (tmp_path / "inside").iterdir()] == ["r"]
    assert len(list(path.iterdir())) == len(NAMES) + 2
    rec = regard.open(path)
    assert rec.layers == tuple(NAMES)
    assert rec.verify()
    for name in NAMES:
        assert rec[name, 0].shape == (2, 2)
    assert rec[0].tokens == ("../..", "\ud800")


def test_an_existing_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with regard.recording(tmp_path / "empty"):
        pass
    assert len(regard.open(tmp_path / "empty")) == 0
    with pytest.raises(RecordingError, match="holds no layer yet"):
        regard.open(tmp_path / "empty")[0]
    (tmp_path / "file").write_bytes(b"x")
    for taken in ("empty", "file"):
        with pytest.raises(RecordingError, match=f"{taken} is there already, expected a new path"):
            regard.recording(tmp_path / taken)
    with pytest.raises(RecordingError, match="nowhere is not there, expected a folder to write r in"):
        regard.recording(tmp_path / "nowhere" / "r")


def test_what_is_deleted_or_replaced_while_it_is_open(copy: Path) -> None:
    rec = regard.open(copy)
    A, before = rec["first"], rec["first"].build()
    for file in copy.iterdir():
        file.unlink()
    assert np.array_equal(A.build(), before)
    with pytest.raises(RecordingError, match=r"000001\.safetensors cannot be read \(No such file or directory\)"):
        rec[1]
    rec.close()
    with pytest.raises(RecordingError, match="was closed, expected an open recording"):
        rec["first"]
    assert np.array_equal(A.build(), before)
    with regard.open(_again(copy)) as again:
        same(again["first"], A)


def _again(path: Path) -> Path:
    shutil.rmtree(path)
    x, v = arrays(2, 6, 8), arrays(2, 6, 3)
    with regard.recording(path, values=True) as recorder:
        recorder.layer(x, x, v, mask=regard.causal, name="first", lse=False)
        recorder.layer(arrays(2, 1, 8), np.concatenate([x, x[:, :1]], 1), arrays(2, 7, 3), name="first", lse=False)
    return path


def test_a_recording_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    x: Array = arrays(1, 4, 4)
    with regard.recording(tmp_path / "r", tokens=list("abcd")) as recorder:
        assert len(regard.open(tmp_path / "r").texts) == 0
        recorder.layer(x, x, lse=False)
        recorder.writer.wait()
        rec = regard.open(tmp_path / "r")
        assert rec[0].tokens == tuple("abcd")
        recorder.layer(x, x, lse=False)
    assert len(rec) == 1
    assert len(regard.open(tmp_path / "r")) == 2


def test_after_the_end_nothing_is_recorded(tmp_path: Path) -> None:
    x = arrays(1, 4, 4)
    with regard.recording(tmp_path / "r") as recorder:
        recorder.layer(x, x, lse=False)
    recorder.close()
    for late in (lambda: recorder.layer(x, x), lambda: recorder.text("late")):
        with pytest.raises(RecordingError, match="is closed, expected an open recording"):
            late()
    assert regard.open(tmp_path / "r").verify()


def test_an_exception_inside_leaves_what_was_recorded(tmp_path: Path) -> None:
    x = arrays(1, 4, 4)

    def interrupted() -> None:
        with regard.recording(tmp_path / "r") as recorder:
            recorder.layer(x, x, lse=False)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    rec = regard.open(tmp_path / "r")
    assert len(rec) == 1
    unfinished(rec)
    assert rec[0, 0].notes == ("unfinished",)


def test_a_chunk_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "settled", lambda piece, settle: 1 // 0)
    with (
        pytest.raises(RecordingError, match=r"could not be made \(ZeroDivisionError"),
        regard.recording(tmp_path / "r") as recorder,
    ):
        recorder.layer(arrays(1, 4, 4), arrays(1, 4, 4))
    assert len(regard.open(tmp_path / "r")) == 0


def test_nothing_is_pickled(good: Path) -> None:
    run(
        f"""
import builtins, pickle
def refuse(*_, **__):
    raise SystemExit("a pickle was read")
pickle.load = pickle.loads = pickle.Unpickler = refuse
np.load = refuse
rec = regard.open({str(good)!r})
rec["first", 0][0], rec[1], rec[2].tokens, rec.verify()
assert not {{"safetensors", "torch"}} & set(sys.modules)
"""
    )
