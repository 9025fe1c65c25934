"""Questions on the command line: their JSON and CSV are the lens's own numbers."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.commands.questions import QUESTIONS
from regard.commands.read import OTHERS
from regard.recording import open as opened
from tests.look.told import TEXT, TOKENS, record, run

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    other = "Mice chased", ["[CLS]", "mice", "chased", "[SEP]"]
    return record(tmp_path_factory.mktemp("read") / "run.regard", (TEXT, TOKENS), other)


def asked(capsys: Capsys, place: Path, *arguments: Any) -> list[dict[str, Any]]:
    """The rows of an answer; as CSV they are the same."""
    left = run(capsys, "read", place, *arguments, "--json")
    assert (left.code, left.err) == (0, "")
    found = json.loads(left.out)
    rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    left = run(capsys, "read", place, *arguments, "--csv")
    written = list(csv.DictReader(io.StringIO(left.out)))
    assert len(written) == len(rows)
    for ours, theirs in zip(rows, written, strict=True):
        for name, x in ours.items():
            if isinstance(x, float):
                assert float(theirs[name]) == x
            elif x is None:
                assert math.isnan(float(theirs[name]))
            else:
                assert theirs[name] == str(x)
    return rows


def values(rows: list[dict[str, Any]], name: str, *shape: int) -> Any:
    return np.array([np.nan if row[name] is None else row[name] for row in rows]).reshape(shape)


def test_a_number_for_each_row(capsys: Capsys, place: Path) -> None:
    with opened(place) as rec:
        layers = [rec.texts[0].matrix(i) for i in range(2)]
        for name in ("entropy", "effective"):
            expected = [np.asarray(getattr(A, name)()) for A in layers]
            assert np.array_equal(values(asked(capsys, place, name), name, 2, 3, 6), expected)
        rows = asked(capsys, place, "peak", "--layer", "1")
        weights, keys = layers[1].peak()
        assert np.array_equal(values(rows, "weight", 3, 6), weights)
        assert np.array_equal(values(rows, "key", 3, 6), keys)
        assert [row["key_token"] for row in rows] == [TOKENS[k] for k in keys.ravel()]
        assert [row["token"] for row in rows] == TOKENS * 3
        rows = asked(capsys, place, "top", "2", "--head", "L0H1")
        weights, keys = layers[0].top(2)
        assert np.array_equal(values(rows, "weight", 6, 2), weights[1])
        assert np.array_equal(values(rows, "key", 6, 2), keys[1])
        assert {row["head"] for row in rows} == {1}


def test_keys_distances_and_pools(capsys: Capsys, place: Path) -> None:
    with opened(place) as rec:
        A = rec.texts[0].matrix(1)
        at = ("--layer", "1")
        assert np.array_equal(values(asked(capsys, place, "received", *at), "received", 3, 6), A.received())
        assert np.array_equal(values(asked(capsys, place, "distance", *at), "distance", 3), A.distance())
        rows, found = asked(capsys, place, "by-distance", *at), A.by_distance()
        assert np.array_equal(values(rows, "mass", 3, 11), found.mass)
        assert [row["distance"] for row in rows[:11]] == found.distances.tolist()
        rows = asked(capsys, place, "heatmap", "3", "max", *at)
        assert np.array_equal(values(rows, "weight", 3, 3, 3), A.heatmap(3, pool="max"))
        rows = asked(capsys, place, "between", "0:2", "2:6", *at)
        assert np.array_equal(values(rows, "weight", 3, 2, 2), A.between([(0, 2), (2, 6)]))
        rows = asked(capsys, place, "mass", "window", "1", "0", *at)
        assert np.array_equal(values(rows, "share", 3), A.mass(regard.window(1, 0)).heads)
        rows = asked(capsys, place, "mass", "causal", *at)
        assert np.array_equal(values(rows, "share", 3), A.mass(regard.causal).heads)


def test_cells_and_words(capsys: Capsys, place: Path) -> None:
    with opened(place) as rec:
        A = rec.texts[0].matrix(0)
        assert np.array_equal(values(asked(capsys, place, "row", "cat", "--layer", "0"), "weight", 3, 6), A[:, "cat"])
        assert np.array_equal(values(asked(capsys, place, "column", "3", "--head", "L0H2"), "weight", 6), A[2, :, 3])
        (row,) = asked(capsys, place, "cell", "cat", "chased", "--head", "L0H1")
        assert row["weight"] == float(A[1, 2, 3])
        found = A.cells(0.5)
        rows = asked(capsys, place, "cells", "--layer", "0")
        assert [(r["head"], r["query"], r["key"]) for r in rows] == list(zip(*map(list, found[:3]), strict=True))
        assert [r["weight"] for r in rows] == [float(w) for w in found[3]]
        (row,) = asked(capsys, place, "explain", "cat", "chased", "--head", "L0H1")
        assert row["sentence"] == A.explain("cat", "chased", head=1).replace("head 1", "L0H1")
        left = run(capsys, "read", place, "explain", "cat", "--head", "L0H1", "--width", "40")
        assert left.out.startswith("'cat' gives > 99.9 % of its attention in")
        assert max(map(len, left.lines)) <= 40


def test_patterns_and_telling(capsys: Capsys, place: Path) -> None:
    with opened(place) as rec:
        found = rec.texts[0].matrix(0).patterns()
        rows = asked(capsys, place, "patterns", "--layer", "0")
        for name in ("share", "even", "mul", "rows"):
            expected = getattr(found, name)
            assert np.array_equal(values(rows, name, *expected.shape), expected, equal_nan=True)
        assert [row["pattern"] for row in rows[: len(found.names)]] == list(found.names)
        first = asked(capsys, place, "telling")[0]
        assert (first["layer"], first["head"], first["pattern"]) == (0, 1, "next_token")


def test_two_recordings(capsys: Capsys, place: Path, tmp_path: Path) -> None:
    again = record(tmp_path / "again.regard")
    rows = asked(capsys, place, "compare", again)
    assert np.array_equal(values(rows, "distance", 2, 3), np.zeros((2, 3)))
    other = record(tmp_path / "other.regard", notes=("synthetic",), dtype="bf16")
    rows = asked(capsys, place, "compare", other, "--layer", "1")
    with opened(place) as a, opened(other) as b:
        expected = a.texts[0].matrix(1).compare(b.texts[0].matrix(1)).heads
    assert np.array_equal(values(rows, "distance", 3), expected)
    assert run(capsys, "read", other, "entropy").lines[0] == "synthetic · from bf16-rounded Q, K"
    assert json.loads(run(capsys, "read", other, "entropy", "--json").out)["notes"][0] == "synthetic"


def test_texts(capsys: Capsys, place: Path) -> None:
    rows = asked(capsys, place)
    assert [(row["text"], row["layers"], row["tokens"], row["begins"]) for row in rows] == [
        (0, 2, 6, TEXT),
        (1, 2, 4, "Mice chased"),
    ]
    assert len(asked(capsys, place, "entropy", "--text", "1", "--head", "L0H0")) == 4
    assert len(asked(capsys, place, "entropy", "--text", "-1", "--head", "L0H0")) == 4


def test_many_rows_are_cut_for_people_alone(capsys: Capsys, tmp_path: Path) -> None:
    place = record(tmp_path / "long.regard", ("x", [f"w{i}" for i in range(20)]))
    left = run(capsys, "read", place, "row", "0", "--width", "60")
    assert len(left.lines) == 63  # a header, 60 rows and a sentence in two lines
    assert left.lines[-2].startswith("60 more rows")
    assert max(map(len, left.lines)) <= 60
    assert len(asked(capsys, place, "row", "0")) == 120


@pytest.mark.parametrize("question", [name for name in (*QUESTIONS, *OTHERS) if name != "compare"])
@pytest.mark.parametrize("width", [40, 80])
def test_an_answer_fits_its_window(capsys: Capsys, place: Path, question: str, width: int) -> None:
    arguments = {
        "between": ["0:2"],
        "mass": ["causal"],
        "row": ["1"],
        "column": ["1"],
        "cell": ["1", "2"],
        "explain": ["1"],
    }
    left = run(capsys, "read", place, question, *arguments.get(question, []), "--width", width, "--layer", "0")
    assert (left.code, left.err) == (0, "")
    assert left.lines
    assert question == "verify" or max(map(len, left.lines)) <= width


def test_verify(capsys: Capsys, tmp_path: Path) -> None:
    place = record(tmp_path / "run.regard")
    assert run(capsys, "read", place, "verify") == (0, f"{place} is what was written.\n", "")
    assert json.loads(run(capsys, "read", place, "verify", "--json").out) == {"right": True}
    (file, *_) = sorted(place.rglob("*.safetensors"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    left = run(capsys, "read", place, "verify")
    assert (left.code, left.out) == (1, "")
    assert left.err.startswith("regard: ")
    assert left.err.count("\n") == 1
    left = run(capsys, "read", place, "verify", "--json")
    assert left.code == 1
    assert json.loads(left.out)["right"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["row", "zebra"], "'zebra' is none of the 6 tokens"),
        (["row"], "the query is missing, expected its number or its token"),
        (["cell", "1"], "the key is missing"),
        (["row", "99"], "query 99 is out of bounds"),
        (["top", "many"], "K of top is 'many', expected a whole number"),
        (["cells", "bright"], "'bright' came where a weight was expected"),
        (["entropy", "5"], "entropy came with '5', expected nothing"),
        (["between"], "between came without groups"),
        (["between", "1-2"], "'1-2' is no span of tokens"),
        (["mass", "all"], "mass came with 'all', expected 'causal' or 'window 8 0'"),
        (["heatmap", "4", "median"], "heatmap came with 'median', expected mean, max or sum"),
        (["heatmap", "20000"], "N of heatmap is 20000, expected 1 to 1024"),
        (["mass", "window", "x", "0"], "L of mass window is 'x'"),
        (["entropy", "--head", "L9H1"], "--head is 'L9H1', expected layer 0 to 1 in it"),
        (["compare"], "compare came without another recording"),
        (["entropy", "--head", "9"], "--head is 9, expected 0 to 2: there are 3 heads"),
        (["entropy", "--head", "first"], "--head is 'first', expected one such as L1H8"),
        (["entropy", "--head", "L0H1", "--layer", "1"], "expected one layer: leave one of them out"),
        (["entropy", "--layer", "9"], "--layer is 9, expected 0 to 1: there are 2 layers"),
        (["entropy", "--layer", "top"], "--layer is 'top', expected a number or one of"),
        (["entropy", "--text", "2"], "--text is 2, expected 0 to 1: there are 2 texts"),
    ],
)
def test_wrong_questions(capsys: Capsys, place: Path, arguments: list[str], words: str) -> None:
    left = run(capsys, "read", place, *arguments)
    assert (left.code, left.out) == (2, "")
    assert left.err.startswith("regard: ")
    assert words in left.err
    assert left.err.count("\n") == 1


def test_no_recording(capsys: Capsys, tmp_path: Path) -> None:
    left = run(capsys, "read", tmp_path / "nothing.regard")
    assert left.code == 2
    assert f"there is no recording {tmp_path / 'nothing.regard'}" in left.err
    left = run(capsys, "read", tmp_path)
    assert left.code == 2
    assert left.err.count("\n") == 1


def test_letters_that_cannot_be_written(tmp_path: Path) -> None:
    place = record(tmp_path / "odd.regard", ("naïve 猫", ["naïve", "猫"]))
    for form, expected in (("--json", "na\\u00efve"), ("--csv", "na\\xefve")):
        command = [sys.executable, "-m", "regard", "read", str(place), "peak", form]
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        left = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False)
        assert (left.returncode, left.stderr) == (0, b"")
        assert expected in left.stdout.decode("ascii")
