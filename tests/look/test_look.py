"""`regard look`: from a text to what a model looks at, and every way in which it can go wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.commands import shared
from regard.lens.telling import telling
from regard.models import folder
from regard.models.encoder import Encoder
from regard.recording import open as opened
from tests.look.told import TEXT, TOKENS, coming_in, record, run
from tests.view.drawn import Terminal

Capsys = pytest.CaptureFixture[str]
model = pytest.mark.skipif(
    find_spec(folder.PACKAGE) is None or find_spec("tokenizers") is None, reason="the default model is not installed"
)


@pytest.fixture(autouse=True)
def kept_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default model is read once, and nobody sits at a terminal."""
    coming_in(monkeypatch, b"")
    original = Encoder.open
    monkeypatch.setattr(Encoder, "open", staticmethod(lambda path=None: original(path) if path else _default(original)))


_known: list[Encoder] = []


def _default(read: Any) -> Encoder:
    if folder.installed() is None:
        return read()  # type: ignore[no-any-return]  # it raises
    if not _known:
        _known.append(read())
    return _known[0]


# A real model.


@model
def test_the_published_figures(capsys: Capsys, tmp_path: Path) -> None:
    """As they were measured on all-MiniLM-L6-v2 with another implementation."""
    place = tmp_path / "run.regard"
    left = run(capsys, "look", TEXT, "-o", place, "--width", "100")
    assert (left.code, left.err) == (0, "")
    flat = " ".join(left.out.split())
    for part in (
        "The cat chased mice all-MiniLM-L6-v2 · 6 × 12 heads · 6 tokens · reads both directions",
        "63 of 72 heads rest mostly on [CLS] and [SEP] (an even spread: 33 %).",
        "L1H8 next token 54 %",
        "'cat' gives 81 % of its attention in L1H8 to 'chased', 4.9 times an even spread over 6 tokens.",
        "This head gives 54 % to the next token whatever it is, so try 'Mice chased the cat'.",
        "L0H2 previous token > 99.9 %",
    ):
        assert part in flat, part
    with opened(place) as rec:
        found = telling([rec.texts[0].matrix(i) for i in range(6)])
        assert found.sinks.heads == 63
        assert [(head.label, head.name) for head in found.heads[:2]] == [
            ("L0H2", "previous_token_head"),
            ("L1H8", "next_token"),
        ]
        assert found.lead is found.heads[1]
        assert found.lead.share == pytest.approx(0.54, abs=0.005)
        assert float(rec[1, 8]["cat", "chased"]) == pytest.approx(0.81, abs=0.005)
        text = rec.texts[0]
        assert (text.text, text.tokens) == (TEXT, tuple(TOKENS))
        assert text.offsets is not None
        assert [TEXT[a:b] for a, b in text.offsets[1:-1]] == TEXT.split()
        assert text.special == (True, False, False, False, False, True)
        assert rec.model["name"] == "all-MiniLM-L6-v2"
    assert run(capsys, "read", place, "verify").code == 0
    # A recording of a text is looked at as the text is, but for how to go on.
    again = run(capsys, "look", place, "--width", "100")
    assert again.out.split("A weight says")[0] == left.out.split("A weight says")[0].replace(
        ", so try 'Mice chased the cat'", ""
    )


@model
@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_its_window(capsys: Capsys, width: int) -> None:
    left = run(capsys, "look", "Old cats chase young mice over there, and nobody knows it was so.", "--width", width)
    assert left.code == 0
    assert (
        max(len(line) for line in left.lines if f"{shared.program()} look" not in line) <= width
    )  # commands are to be copied
    assert "\x1b" not in left.out


@model
def test_a_text_from_everywhere(capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("\ufeffOld cats sleep\n", encoding="utf-8")
    expected = run(capsys, "look", "Old cats sleep").out.split("A weight says")[0]
    assert run(capsys, "look", "Old", "cats", "sleep").out.split("A weight says")[0] == expected
    from_file = run(capsys, "look", "--file", tmp_path / "text.txt")
    assert _without_hint(from_file.out) == _without_hint(expected)
    assert f"look --file {tmp_path / 'text.txt'} --head" in " ".join(from_file.out.split())
    coming_in(monkeypatch, b"Old cats sleep\n")
    assert _without_hint(run(capsys, "look").out) == _without_hint(expected)
    coming_in(monkeypatch, b"Old cats sleep\n")
    assert _without_hint(run(capsys, "look", "--file", "-").out) == _without_hint(expected)
    coming_in(monkeypatch, b"", tty=True)  # a person who wrote nothing sees the example
    assert run(capsys, "look").lines[0] == TEXT


def _without_hint(text: str) -> str:
    return text.split("A weight says")[0]


@model
def test_one_head_and_one_layer(capsys: Capsys) -> None:
    for arguments in (["--head", "L1H8"], ["--layer", "1", "--head", "8"], ["--layer", "-5", "--head", "H8"]):
        left = run(capsys, "look", TEXT, *arguments, "--top", "2", "--width", "80")
        assert left.code == 0
        assert "L1H8 of 6 × 12 heads" in left.out
        assert re.search(r"^ +cat +0\.107 +5\.2e-4 +0\.072 +0\.812", left.out.replace("▸", " "), re.M)
        assert re.search(r"^ +cat  chased 0\.812  \[CLS\]  0\.107$", left.out, re.M)
    left = run(capsys, "look", TEXT, "--layer", "1")
    assert [line[:2] for line in left.lines if re.match(r"L\d ", line)] == ["L1"]
    assert "12 of 12 heads" in left.out or "11 of 12 heads" in left.out
    assert "6 × 12 heads" in left.out


@model
def test_what_is_too_long_is_refused_and_never_cut(capsys: Capsys, tmp_path: Path) -> None:
    words = ["the", "old", "cat", "saw", "a", "young", "dog", "near", "one", "red", "barn"] * 60
    file = tmp_path / "long.txt"
    file.write_text(" ".join(words))
    left = run(capsys, "look", "--file", file)
    assert (left.code, left.out) == (2, "")
    assert left.err == (
        "regard: the text has 662 tokens, 2 of them special, and all-MiniLM-L6-v2 reads 512 at most: "
        "look at a part of it with --start N, "
        "a token, or at all of it with --windows\n"
    )
    part = tmp_path / "part.regard"
    assert run(capsys, "look", "--file", file, "--start", "300", "-o", part).code == 0
    whole = tmp_path / "whole.regard"
    left = run(capsys, "look", "--file", file, "--windows", "-o", whole)
    assert left.code == 0
    assert "text 0 of 2" in left.out
    assert "text 1 of 2" in left.out
    assert f"look {whole} --text 1" in " ".join(left.out.split())
    with opened(part) as rec:
        assert rec.texts[0].tokens == ("[CLS]", *words[300:660], "[SEP]")
        assert rec.texts[0].text == " ".join(words[300:])
        assert rec.texts[0].offsets is not None
        assert rec.texts[0].offsets[1:3] == ((0, len(words[300])), (len(words[300]) + 1, len(" ".join(words[300:302]))))
    with opened(whole) as rec:
        read = [token for text in rec.texts for token in (text.tokens or ())[1:-1]]
        assert read == words
        assert all(len(text.tokens or ()) <= 512 for text in rec.texts)
    one = run(capsys, "look", whole, "--text", "1", "--width", "80")
    assert one.code == 0
    assert f"{len(words) + 2 * 2 - 512} tokens" in one.out  # 510 words and two special tokens in the first
    left = run(capsys, "look", "--file", file, "--start", "9999")
    assert left.code == 2
    assert "start is 9999" in left.err


@model
def test_ctrl_c_leaves_cleanly(capsys: Capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[int] = []
    original = Encoder.__call__

    def interrupted(self: Encoder, ids: Any, lengths: Any = None, each: Any = None) -> Any:
        def stopping(layer: int, *arrays: Any) -> None:
            each(layer, *arrays)
            seen.append(len(list(tmp_path.iterdir())))
            if layer == 3:
                signal.raise_signal(signal.SIGINT)

        return original(self, ids, lengths, stopping)

    monkeypatch.setattr(Encoder, "__call__", interrupted)
    left = run(capsys, "look", TEXT)
    assert (left.code, left.out, left.err) == (130, "", "\n")
    assert seen == [1] * 4
    assert list(tmp_path.iterdir()) == []
    # What was to be kept is there as far as it came, and can be read.
    place = tmp_path / "kept.regard"
    assert run(capsys, "look", TEXT, "-o", place).code == 130
    with opened(place) as rec:
        assert 1 <= len(rec.texts[0]) <= 4


@model
def test_nothing_is_left_behind(capsys: Capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(capsys, "look", TEXT).code == 0
    assert list(tmp_path.iterdir()) == []


@model
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([""], "the text is empty, expected at least one word"),
        ([" \n "], "the text is empty"),
        ([], "the text is empty"),
        (["--file", "nothing.txt"], "there is no file nothing.txt"),
        (["--file", "."], ". is a folder, expected a file with a text"),
        (["--file", "binary"], "binary is not UTF-8 at byte 1, expected a text"),
        (["--file", "zeros"], "zeros holds bytes that no text has"),
        (["text.txt"], "text.txt is a file, expected a text: write --file text.txt"),
        (["a", "--file", "text.txt"], "a text and --file came together"),
        (["a", "--start", "1", "--windows"], "--start and --windows came together"),
        (["run.regard"], "there is no recording run.regard"),
        (["a", "--head", "8"], "--head is '8' of no layer, expected one such as L1H8: add its layer"),
        (["a", "--head", "eight"], "--head is 'eight', expected one such as L1H8"),
        (["a", "--head", "L6H0"], "--head is 'L6H0', expected layer 0 to 5 in it: there are 6 layers"),
        (["a", "--layer", "6"], "--layer is 6, expected 0 to 5: there are 6 layers"),
        (["a", "--browser", "--head", "L6H0"], "--head is 'L6H0', expected layer 0 to 5 in it"),
        (["a", "--browser", "--head", "L0H12"], "--head is 12, expected 0 to 11"),
        (["a", "--browser", "--layer", "6"], "--layer is 6, expected 0 to 5"),
        (["a", "--browser", "--top", "3"], "--top came with --browser"),
        (["a", "--browser", "--width", "80"], "--width came with --browser"),
        (["caf\udce9"], "the text is not UTF-8, expected a text"),
        (["a", "-o", "text.txt/x"], "text.txt is a file, expected a folder to write into"),
        (["a", "--head", "L0H12"], "--head is 12, expected 0 to 11: there are 12 heads"),
        (["a", "--model", "nowhere"], "the model nowhere is not there"),
        (["a", "--text", "1"], "--text is 1, expected 0 to 0: there is 1 text"),
        (["a", "-o", "text.txt"], "text.txt is there already"),
        (["a", "-o", "no/such.regard"], "no is not there"),
    ],
)
def test_wrong_input_is_a_sentence(
    capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("a text")
    (tmp_path / "binary").write_bytes(b"a\xff\xfe")
    (tmp_path / "zeros").write_bytes(b"a\0b")
    left = run(capsys, "look", *arguments)
    assert (left.code, left.out) == (2, "")
    assert left.err.startswith("regard: ")
    assert words in left.err
    assert left.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--top", "0"], ["--start", "-1"], ["--width", "none"], ["--unknown"]])
def test_wrong_options(capsys: Capsys, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(capsys, "look", "a", *arguments)
    assert caught.value.code == 2


# Without a model.


def test_without_a_model(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "installed", lambda: None)
    left = run(capsys, "look", "a text", "--width", "60")
    assert (left.code, left.err) == (0, "")
    assert left.lines[0].startswith("there is no model yet: install the default one with `pip install")
    assert "config.json" in left.lines[1]
    assert left.lines[2] == ""
    assert "'cat' gives 80 % of its attention to 'chased'" in left.out
    monkeypatch.undo()


# A recording.


def test_a_recording_with_several_texts(capsys: Capsys, tmp_path: Path) -> None:
    other = "Mice chased", ["[CLS]", "mice", "chased", "[SEP]"]
    place = record(tmp_path / "run.regard", (TEXT, TOKENS), other)
    left = run(capsys, "look", place, "--width", "60")
    assert left.code == 0
    assert [line for line in left.lines if line.startswith("text ")] == ["text 0 of 2", "text 1 of 2"]
    assert "L0H1 next token" in left.out
    one = run(capsys, "look", place, "--text", "1", "--width", "60")
    assert one.lines[:2] == ["Mice chased", "a model · 2 × 3 heads · 4 tokens · reads both directions"]
    assert run(capsys, "look", place, "--head", "L1H0", "--width", "60").lines[0] == TEXT
    for option in (["--file", "x"], ["--model", "x"], ["-o", "x"], ["--start", "1"]):
        left = run(capsys, "look", place, *option)
        assert left.code == 2
        assert "came with a recording, expected a text: leave it out" in left.err


def test_notes_of_a_recording_are_said(capsys: Capsys, tmp_path: Path) -> None:
    place = record(tmp_path / "run.regard", notes=("synthetic",), dtype="bf16")
    for arguments in ([], ["--head", "L0H1"]):
        left = run(capsys, "look", place, *arguments, "--width", "120")
        assert "synthetic · from bf16-rounded Q, K" in left.out


def test_a_pipe_is_plain_and_may_end_early(tmp_path: Path) -> None:
    place = record(tmp_path / "run.regard")
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    command = [sys.executable, "-m", "regard", "look", str(place)]
    whole = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (whole.returncode, whole.stderr) == (0, "")
    assert "\x1b" not in whole.stdout
    assert "python -m regard look" in whole.stdout
    code = f"{sys.executable} -m regard look {place} | head -n 1; echo ${{PIPESTATUS[0]}}"
    early = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (early.stdout, early.stderr) == (f"{TEXT}\n0\n", "")


# What commands share.


def test_a_bar_is_for_terminals_and_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(shared.time, "monotonic", lambda: now[0])
    for tty in (True, False):
        now[0] = 0.0
        file: Any = Terminal()
        file.isatty = lambda tty=tty: tty
        with shared.Bar("reading", file) as bar:
            bar(0.1)
            assert file.getvalue() == ""
            now[0] = 1.5
            bar(0.5)
            once = file.getvalue()
            bar(0.6)  # too soon after the last
            assert file.getvalue() == once
            now[0] = 1.7
            bar.part(0.5, 0.5)(0.5)
        text = file.getvalue()
        assert ("reading [############            ]  50%" in text) == tty
        assert ("75%" in text) == tty
        assert text.endswith("\r\x1b[K" if tty else "")
        assert "\n" not in text


def test_how_a_command_is_copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    script = tmp_path / "bin" / "regard"
    script.parent.mkdir()
    script.touch(mode=0o755)
    for called, expected in (
        ("/some/pytest", "regard"),
        ("/some/regard/__main__.py", "python -m regard"),
        (str(script), "bin/regard"),
        ("/other/bin/regard", "/other/bin/regard"),
    ):
        monkeypatch.setattr(sys, "argv", [called])
        assert shared.program() == expected
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert shared.program() == "regard"


@model
def test_commands_to_copy_are_ones_that_work(capsys: Capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/some/pytest"])

    def printed(*arguments: str) -> list[list[str]]:
        left = run(capsys, "look", "--width", "200", *arguments)
        assert (left.code, left.err) == (0, "")
        end = left.out.partition("would change anything.")[2].splitlines()
        return [shlex.split(line.rpartition("   ")[0] or line) for line in end if "regard look" in line]

    for given, typed in (
        (["Hello!"], ["Hello!"]),
        (["$HOME"], ["$HOME"]),
        (["--", "-o x"], ["--", "-o x"]),
        (["word " * 60], ["word " * 60]),
    ):
        for command in printed(*given):
            assert command[:2] == ["regard", "look"]
            start = command.index(typed[0])
            assert command[start : start + len(typed)] == typed
            if typed[0] == "--":
                assert command[start + 2 :][:1] in ([], ["keep"], ["this"])
        assert "..." not in capsys.readouterr().out
    coming_in(monkeypatch, b"old cats\nchase mice\n")  # what came in is gone
    assert [x for x in printed() if "mice" not in " ".join(x).lower()] == []
    assert "..." not in run(capsys, "look", "a\nb").out
    assert any("run.regard" in x for x in printed("a"))
    (tmp_path / "run.regard").mkdir()
    assert any("run-2.regard" in x for x in printed("a"))
    (tmp_path / "run-2.regard").touch()
    assert any("run-3.regard" in x for x in printed("a"))
    left = run(capsys, "look", "a\nb", "-o", "kept.regard", "--width", "200")
    assert "regard look kept.regard --head" in left.out


# What there is to work with.


def test_doctor(capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = run(capsys, "doctor", "--width", "60")
    assert left.err == ""
    assert max(map(len, left.lines)) <= 60
    flat = " ".join(left.out.split())
    for part in (f"version {regard.__version__}", f"{regard.threads()} of", "lanes of f32", "usable yes", "numpy"):
        assert part in flat, part
    told = json.loads(run(capsys, "doctor", "--json").out)
    assert told["regard"]["numpy"] == np.__version__
    assert left.code == (1 if told["wrong"] else 0)
    if find_spec(folder.PACKAGE) is not None:
        assert told["models"]["weights"] == "SHA-256 is right"
        assert left.code == 0
        monkeypatch.setattr(folder, "DIGEST", "0" * 64)
        left = run(capsys, "doctor")
        assert left.code == 1
        assert "! the weights of all-MiniLM-L6-v2 are not those expected" in left.out
        monkeypatch.undo()


def test_doctor_finds_what_is_wrong(capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "installed", lambda: None)
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    left = run(capsys, "doctor", "--model", tmp_path)
    assert left.code == 1
    flat = " ".join(left.out.split())
    assert f"! the cache {tmp_path / 'file'} cannot be written" in flat
    assert "has no config.json" in flat
    assert "missing: pip install --no-deps" in flat
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("REGARD_CACHE", str(open_to_all))
    assert "no, it can be written by others" in run(capsys, "doctor").out


def test_help_says_how_it_leaves(capsys: Capsys) -> None:
    for arguments in (["--help"], ["look", "--help"], ["read", "--help"], ["doctor", "--help"]):
        with pytest.raises(SystemExit) as caught:
            run(capsys, *arguments)
        assert caught.value.code == 0
        assert "leaves with" in " ".join(capsys.readouterr().out.split())
