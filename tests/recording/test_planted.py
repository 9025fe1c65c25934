"""Synthetic recordings: what is planted is where the header says; and `regard demo`, which makes and shows one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard import cli
from regard.errors import DtypeError, ShapeError
from regard.recording import planted
from regard.recording.planted import BLOCKS, BRIGHT, INSIDE, RESTS, plan, plant

N, SEED = 2000, 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planted") / "two.regard"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planted, "ROWS", 512)  # several blocks, the last of them shorter
        planted._turning.cache_clear()
        plant(path, N, seed=SEED)
        planted._turning.cache_clear()
    return path


def digests(path: Path) -> dict[str, str]:
    return {x.name: hashlib.sha256(x.read_bytes()).hexdigest() for x in path.iterdir()}


def of_kind(recording: Any, kind: str) -> tuple[Any, list[int]]:
    """The head of this kind, and where it is planted, by the header."""
    (found,) = (x for x in recording.model["planted"] if x["kind"] == kind)
    return recording[found["layer"], found["head"]], found["where"]


def test_the_recording_says_what_it_is(place: Path) -> None:
    with regard.open(place) as recording:
        assert recording.notes == ("synthetic",)
        assert recording.model["name"] == "synthetic"
        assert recording.model["planted"] == [x._asdict() for x in plan(N, SEED)]
        assert (recording.layers, recording.heads(0)) == (("0", "1"), 2)
        tokens = recording.texts[0].tokens
        assert tokens is not None
        assert len(tokens) == N
        assert all(token.isalpha() for token in tokens)
        assert "synthetic" in repr(recording)
        assert recording[1, 1].notes == ("synthetic",)
        assert recording.verify()


def test_a_previous_token_head(place: Path) -> None:
    with regard.open(place) as recording:
        A, _ = of_kind(recording, "previous")
        found = A.patterns()
        assert found["previous_token_head"].share > 0.99
        assert found.named()[0].name == "previous_token_head"
        assert np.isneginf(A.scores[10, 11])  # causal
        rows = np.array([1, 511, 512, 513, 1024, N - 1])  # at the edges of the blocks it was made in
        assert A[rows, rows - 1].min() > 0.98


def test_a_sink(place: Path) -> None:
    with regard.open(place) as recording:
        A, _ = of_kind(recording, "sink")
        found = A.patterns()["first_token"]
        assert found.share == pytest.approx(RESTS, abs=0.02)
        late = A[np.arange(100, N), 0]
        assert abs(late - RESTS).max() < 0.12  # as much in every row, however many keys it sees
        assert np.sort(A.received())[-2] < 0.05 * A.received()[0]


def test_blocks(place: Path) -> None:
    with regard.open(place) as recording:
        A, begins = of_kind(recording, "blocks")
        assert len(begins) == BLOCKS
        assert begins == sorted(set(begins))
        ends = [*begins[1:], N]
        between = A.between(list(zip(begins, ends, strict=True)))
        inside = np.diagonal(between)
        assert abs(inside - INSIDE).max() < 0.01
        shifted = A.between([(a + 30, min(b + 30, N)) for a, b in zip(begins, ends, strict=True)])
        assert np.diagonal(shifted).max() < INSIDE - 0.02  # they are where the header has them, not somewhere near


@pytest.mark.parametrize("size", [8, 32, 128, 512])
def test_the_bright_cell_is_found_at_every_resolution(place: Path, size: int) -> None:
    with regard.open(place) as recording:
        A, (query, key) = of_kind(recording, "cell")
        weight = A[query, key]
        assert weight == pytest.approx(BRIGHT, abs=0.004)
        heat = A.heatmap(size, pool="max")
        row, column = np.unravel_index(heat.argmax(), heat.shape)
        assert heat[row, column] == pytest.approx(weight, rel=1e-5)
        assert (row, column) == tuple(((at + 1) * size - 1) // N for at in (query, key))
        assert np.sort(heat.ravel())[-2] < weight / 50  # there is one
        mean = A.heatmap(size)
        assert size > 128 or mean.max() < 0.1  # a mean would hide it


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, workers, seed in (("one", 1, 3), ("again", 4, 3), ("other", 1, 4)):
        monkeypatch.setattr("os.cpu_count", lambda workers=workers: workers)
        plant(tmp_path / name, 300, seed=seed)
    assert digests(tmp_path / "one") == digests(tmp_path / "again")
    with regard.open(tmp_path / "one") as one, regard.open(tmp_path / "other") as other:
        assert one.model["planted"] != other.model["planted"]
        assert one.texts[0].tokens != other.texts[0].tokens
        assert not np.array_equal(one[0, 1][5], other[0, 1][5])


def test_other_sizes_and_bf16(tmp_path: Path) -> None:
    told: list[float] = []
    plant(tmp_path / "run.regard", 200, layers=3, heads=3, dtype="bf16", progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1
    with regard.open(tmp_path / "run.regard") as recording:
        kinds = [x["kind"] for x in recording.model["planted"]]
        assert kinds == ["previous", "sink", "previous", "blocks", "cell", "blocks", "previous", "sink", "previous"]
        assert recording[2, 2][50, 49] > 0.98
        cell = recording.model["planted"][4]["where"]
        assert recording[1, 1][tuple(cell)] == pytest.approx(BRIGHT, abs=0.02)
        assert not np.array_equal(recording[0, 0][5], recording[2, 0][5])  # each head has noise of its own


def test_opening_reads_no_layer(place: Path) -> None:
    with regard.open(place) as recording:
        assert not recording._maps
        assert recording[1, 1][3, 4] > 0
        assert len(recording._maps) == 1


def test_messages(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"^tokens is 3, expected 32 or more$"):
        plant(tmp_path / "x", 3)
    with pytest.raises(ShapeError, match=r"^heads is 0, expected 1 or more$"):
        plant(tmp_path / "x", 300, heads=0)
    with pytest.raises(DtypeError, match=r"^dtype is 'f16', expected one of f32, bf16$"):
        plant(tmp_path / "x", 300, dtype="f16")
    assert not (tmp_path / "x").exists()


# The command.


def test_the_command_makes_it_and_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    demo = ["demo", "--tokens", "300", "--width", "80"]
    assert cli.main([*demo, "--map"]) == 0
    out = capsys.readouterr().out
    query, key = plan(300)[-1].where
    assert out.startswith("demo-300.regard: 300 tokens, ")
    assert f"  L1H1 is even, but for one bright cell: query {query}, key {key}\n" in out
    assert "synthetic · 2 × 2 heads · 300 tokens" in out
    near, _, drawn = out.partition("The bright cell of L1H1, 0.99")[2].partition("map of all 300 × 300")
    assert "9 queries × 9 keys" in near
    assert "0.99" in near
    assert "█" in drawn
    assert "max" in drawn
    before = digests(tmp_path / "demo-300.regard")
    assert cli.main(demo) == 0  # it is there: looked at, and left as it was
    assert digests(tmp_path / "demo-300.regard") == before
    again = capsys.readouterr().out
    assert again.startswith("demo-300.regard: 300 tokens, ")
    assert "map of all" not in again


def test_the_command_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path / "mine.regard", 64, seed=1)
    before = digests(tmp_path / "mine.regard")
    demo = ["demo", "--tokens", "64", "-o", str(tmp_path / "mine.regard")]
    assert cli.main(demo) == 2
    expected = f"regard: {tmp_path}/mine.regard is there already and is another recording: choose another place with -o"
    assert capsys.readouterr().err.strip() == expected
    assert digests(tmp_path / "mine.regard") == before
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "note.txt").write_text("mine")
    assert cli.main(["demo", "--tokens", "64", "-o", str(tmp_path / "folder")]) == 2
    assert capsys.readouterr().err.startswith("regard: ")
    assert [x.name for x in (tmp_path / "folder").iterdir()] == ["note.txt"]
    (tmp_path / "file").write_text("mine")
    assert cli.main(["demo", "--tokens", "64", "-o", str(tmp_path / "file")]) == 2
    assert (tmp_path / "file").read_text() == "mine"


def test_one_that_was_not_written_to_its_end_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "half.regard"
    plant(place, 64)
    lines = (place / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (place / "manifest.jsonl").write_bytes(b"".join(lines[:-1]))
    assert cli.main(["demo", "--tokens", "64", "-o", str(place)]) == 2
    assert "was not written to its end: remove it" in capsys.readouterr().err
