"""How commands leave: what they refuse and with which number, and that nothing stays behind."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard import cli
from regard.commands import demo, view
from regard.recording import open as opened
from regard.recording.planted import plant
from tests.look.told import TOKENS, record, run

Capsys = pytest.CaptureFixture[str]


def flat(text: str) -> str:
    return " ".join(text.split())


# The synthetic recording.


def test_the_bright_cell_is_explained_by_the_whole_head(
    capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plant("demo-600.regard", 600)
    left = run(capsys, "demo", "--tokens", "600", "--width", "90")
    assert (left.code, left.err) == (0, "")
    with opened("demo-600.regard") as recording:
        query, key = recording.model["planted"][-1]["where"]
        said = recording[1, 1].explain(query, key)
        tokens = recording.texts[0].tokens
    end = left.out.partition("The bright cell of")[2]
    assert said.replace("'", "") in flat(end).replace("'", "")
    table, _, numbers = end.partition(" gives ")
    for at in (query - 4, query, query + 4):
        assert any(line.split()[0].startswith(f"{at}") and tokens[at] in line for line in table.splitlines() if line)
    assert " ".join(map(str, range(key - 4, key + 5))) in flat(table)
    assert f"{key} {tokens[key]} 0.99" in flat(numbers)


@pytest.mark.parametrize("size", [["--heads", "1000000"], ["--tokens", "100000000000"], ["--layers", "100000000"]])
def test_what_has_no_room_is_refused_at_once(
    capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    left = run(capsys, "demo", *size)
    assert (left.code, left.out) == (2, "")
    assert left.err.startswith("regard: the recording would have ")
    assert " free, expected it to fit" in left.err
    assert list(tmp_path.iterdir()) == []


def test_memory_that_is_not_there_leaves_no_folder(
    capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(place: Path, *_: Any, **__: Any) -> None:
        place.mkdir()
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr(sys.modules["regard.recording.planted"], "plant", fail)
    left = run(capsys, "demo", "--tokens", "64", "-o", tmp_path / "made.regard")
    assert (left.code, left.err.count("\n")) == (2, 1)
    assert "there is not enough memory for this (Unable to allocate 3 TiB)" in left.err
    assert list(tmp_path.iterdir()) == []


def test_the_map_is_of_the_same_recording(capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "EXACT", 0)
    place = tmp_path / "made.regard"
    given = ["demo", "--tokens", "64", "--seed", "3", "--dtype", "bf16", "-o", str(place)]
    again = run(capsys, *given, "--width", "80").lines[-1].split()
    again = again[again.index("demo") :]
    assert sorted(again) == sorted([*given, "--map"])
    assert run(capsys, *again, "--width", "80").code == 0


# What is damaged.


def _cut(place: Path) -> None:
    file = next(place.rglob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-8])


def _manifest(keep: slice) -> Callable[[Path], None]:
    def cut(place: Path) -> None:
        lines = (place / "manifest.jsonl").read_bytes().splitlines(keepends=True)
        (place / "manifest.jsonl").write_bytes(b"".join(lines[keep]))

    return cut


DAMAGES: dict[str, Callable[[Path], None]] = {
    "chunk cut": _cut,
    "chunk missing": lambda place: next(place.rglob("*.safetensors")).unlink(),
    "tokens missing": lambda place: (place / "tokens.json").unlink(),
    "manifest empty": _manifest(slice(0)),
    "last line missing": _manifest(slice(0, -1)),
    "last lines missing": _manifest(slice(0, 2)),
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_verify_leaves_with_1_for_every_damage(capsys: Capsys, tmp_path: Path, damage: str) -> None:
    place = record(tmp_path / "run.regard")
    assert run(capsys, "read", place, "verify").code == 0
    DAMAGES[damage](place)
    left = run(capsys, "read", place, "verify")
    assert (left.code, left.out, left.err.count("\n")) == (1, "", 1)
    left = run(capsys, "read", place, "verify", "--json")
    assert left.code == 1
    assert json.loads(left.out)["right"] is False


def test_verify_of_nothing_is_used_wrongly(capsys: Capsys, tmp_path: Path) -> None:
    assert run(capsys, "read", tmp_path / "no.regard", "verify").code == 2


# Streams and signals.


def test_a_closed_output(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["doctor"]) == 2
    assert capsys.readouterr().err.startswith("regard: the output is closed")
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["doctor"]) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_output_that_is_full(tmp_path: Path) -> None:
    place = record(tmp_path / "run.regard")
    buffered = {name: x for name, x in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for arguments in (["read", str(place), "peak"], ["--help"]):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "regard", *arguments]
            left = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, timeout=60, check=False
            )
        assert left.returncode == 2
        assert left.stderr == (
            "regard: the output could not be written (No space left on device), "
            "expected room for it: write it elsewhere\n"
        )


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_clears_temporary_folders(
    capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    signal.signal(number, signal.SIG_DFL)
    made = []

    def ends(given: Any) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            made.append(folder)
            os.kill(os.getpid(), number)

    monkeypatch.setattr("regard.commands.doctor._doctor", ends)
    try:
        with pytest.raises(SystemExit) as caught:
            run(capsys, "doctor")
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert caught.value.code == 128 + number
    assert len(made) == 1
    assert list(tmp_path.iterdir()) == []


def test_signals_are_left_alone_in_other_threads_and_where_they_are_ignored(capsys: Capsys) -> None:
    left: list[int] = []
    thread = threading.Thread(
        target=lambda: left.append(cli.main(["cost", "--n", "8", "--d-model", "8", "--heads", "1"]))
    )
    thread.start()
    thread.join()
    assert left == [0]
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with cli._signals():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_the_system_refuses_is_a_sentence(capsys: Capsys) -> None:
    left = run(capsys, "cost", "nothing.json")
    expected = (
        "regard: nothing.json cannot be used (No such file or directory), expected one that can: check the path\n"
    )
    assert left == (2, "", expected)


# Options.


def test_options_between_a_recording_and_its_question(capsys: Capsys, tmp_path: Path) -> None:
    place = record(tmp_path / "run.regard")
    expected = run(capsys, "read", place, "top", "2", "--head", "L0H1", "--json")
    for arguments in (
        ["--head", "L0H1", place, "--json", "top", "2"],
        [place, "--head", "L0H1", "top", "--json", "2"],
        [place, "--json", "top", "2", "--head", "L0H1"],
    ):
        assert run(capsys, "read", *arguments) == expected
    assert run(capsys, "read", place, "--head", "L0H1", "row", "-1").code == 0
    with pytest.raises(SystemExit) as caught:
        run(capsys, "read")
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith("the following arguments are required: recording\n")


def test_the_version_and_numbers_of_options(capsys: Capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        run(capsys, "--version")
    assert (caught.value.code, capsys.readouterr().out) == (0, f"regard {regard.__version__}\n")
    with pytest.raises(SystemExit):
        run(capsys, "look", "a", "--width", "abc")
    assert "argument --width: 'abc' is no whole number" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--head", "L9H0"], ["--head", "L0H9"], ["--layer", "9"], ["--top", "2"]])
def test_a_recording_in_the_browser_is_asked_as_in_the_terminal(
    capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    served = []
    monkeypatch.setattr(view, "serve", served.append)
    place = record(tmp_path / "run.regard")
    left = run(capsys, "look", place, "--browser", *arguments)
    assert (left.code, left.out, left.err.count("\n")) == (2, "", 1)
    assert not served


# Hidden cells.


def test_hidden_cells_are_no_numbers(capsys: Capsys, tmp_path: Path) -> None:
    place = tmp_path / "causal.regard"
    q = np.random.default_rng(0).standard_normal((2, 6, 8)).astype(np.float32)
    with regard.recording(place, tokens=TOKENS, sync=False) as recorder:
        recorder.layer(q, q, mask=regard.causal)
    for arguments, hidden in (
        (["row", "2"], [False] * 3 + [True] * 3),
        (["column", "2"], [True] * 2 + [False] * 4),
        (["cell", "1", "4"], [True]),
        (["cell", "4", "1"], [False]),
    ):
        told = [*arguments, "--head", "L0H1"]
        rows = json.loads(run(capsys, "read", place, *told, "--json").out)["rows"]
        assert [row[-1] is None for row in rows] == hidden
        written = list(csv.DictReader(io.StringIO(run(capsys, "read", place, *told, "--csv").out)))
        assert [row["weight"] == "" for row in written] == hidden
        shown = run(capsys, "read", place, *told, "--width", "80").out
        assert ("– is hidden: the query does not see the key." in shown) == any(hidden)
        assert shown.count("–") == sum(hidden) + any(hidden)


def test_the_page_begins_with_what_was_asked_for(
    capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(view, "serve", lambda held, *, chosen: begun.append(chosen))
    place = record(tmp_path / "run.regard")
    for arguments in ([], ["--head", "L1H2"], ["--layer", "1"]):
        assert run(capsys, "look", place, "--browser", *arguments).code == 0
    assert begun == ["", "l=1&h=2", "l=1&h=0"]
