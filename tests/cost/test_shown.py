"""The table, the figure and the command line."""

from __future__ import annotations

import importlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli, machine
from regard.errors import MissingError, TargetError
from regard.view.columns import table
from regard.view.costs import bytes_of, count, duration
from regard.view.text import width

CASES: list[dict[str, Any]] = [
    {},
    {"layers": 12, "batch": 3, "causal": True, "key_heads": 4},
    {"score": "additive", "d_a": 100, "window": (256, 0)},
    {"n": 1, "n_k": 4096, "causal": True, "score": "general", "d": 32},
]


@pytest.fixture(autouse=True)
def _peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same machine everywhere, and no time spent on measuring it."""
    monkeypatch.setattr(machine, "best", lambda name: 5e10 if name == machine.READ else 5e11)


def made(**case: Any) -> Any:
    return regard.cost(**{"n": 512, "d_model": 768, "heads": 12, **case})


def shown(of: Any, columns: int, encoding: str = "utf-8") -> list[str]:
    class File(io.StringIO):
        @property
        def encoding(self) -> str:  # type: ignore[override]  # StringIO has none
            return encoding

    file = File()
    of.show(file, width=columns)
    file.getvalue().encode(encoding)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("columns", [12, 20, 40, 60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_it_fits_its_window(columns: int, encoding: str) -> None:
    for case in CASES:
        lines = shown(made(**case), columns, encoding)
        assert max(map(width, lines)) <= columns, lines
        assert not any(line != line.rstrip() or "\xa0" in line for line in lines)


def test_what_is_always_said() -> None:
    text = " ".join(shown(made(layers=12), 30))
    for part in (
        *("Two operations to a multiply-add", "n = 1536 = 2·d", "one head 1 MiB", "144 MiB", "where an RNN has 512"),
        *("general 4096", "additive 8256", "36.6 MiB", "by its measured peaks"),
    ):
        assert part in text, part


def test_the_columns_of_a_wide_table() -> None:
    lines = shown(made(), 100)
    titles = next(line for line in lines if line.startswith("step"))
    assert titles.split() == ["step", "a", "layer's", "multiply-adds", "share", "operations", "at", "least"]
    scores = next(line for line in lines if line.startswith("scores"))
    assert scores.split()[:6] == ["scores", "n²·d", "201", "M", "12", "%"]
    assert "n^2*d" in " ".join(shown(made(), 100, "ascii"))


def test_a_table_leaves_out_whole_columns() -> None:
    columns = [["a", "b"], ["word", "x"], ["long word", "y"], ["c", "d"]]
    assert table(columns, 99) == ["a  word  long word  c", "b     x          y  d"]
    assert table(columns, 10) == ["a  word  c", "b     x  d"]
    assert table(columns, 12, first=(2, 0, 1, 3)) == ["a  long word", "b          y"]
    assert table(columns, 3, first=(2,)) == ["lo…", "  …"]


def test_units() -> None:
    assert [count(x) for x in (0, 999, 999.7, 1000, 999_960, 1.5e21)] == ["0", "999", "1 k", "1 k", "1 M", "1500 E"]
    assert [bytes_of(x) for x in (1, 1023, 1024, 1 << 30, 144 << 20)] == ["1 B", "1023 B", "1 KiB", "1 GiB", "144 MiB"]
    assert [duration(x) for x in (1e-9, 2.5e-3, 3.0, 200, 9000)] == ["1 ns", "2.5 ms", "3 s", "3.33 min", "2.5 h"]


def test_a_machine_without_peaks_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> float:
        raise TargetError("no kernels for this machine")

    monkeypatch.setattr("regard.machine.best", refuse)
    text = str(made())
    assert "n²·d" in text
    assert "at least" not in text.lower()


# The figure.


def test_the_figure() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    for case in CASES[::2]:
        ax = made(**case).plot()
        assert [x.get_text() for x in ax.get_legend().get_texts()] == ["projections", "scores and A·V", "exponentials"]
    ax.figure.canvas.draw()
    _, ax = plt.subplots()
    assert made().plot(ax) is ax
    over, products = ax.lines[1].get_data()
    at = len(over) // 2
    assert products[at] == 2 * over[at] ** 2 * 768
    assert any("n = 1536" in text.get_text() for text in ax.texts)
    plt.close("all")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingError, match=r"^plot needs matplotlib, which cannot be imported"):
        made().plot()


# The command line.

ASKED = ["cost", "--n", "512", "--d-model", "768", "--heads", "12"]


@pytest.mark.parametrize("columns", [30, 80])
def test_the_command(columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*ASKED, "--layers", "12", "--width", str(columns)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == shown(made(layers=12), columns)


def test_all_its_arguments(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    more = "--n-k 600 --key-heads 4 --d 32 --cached 5 --batch 2 --window 9 3 --dtype bf16 --score additive --d-a 7"
    assert cli.main([*ASKED, *more.split(), "--no-output-projection", "--width", "100"]) == 0
    of = made(n_k=600, key_heads=4, d=32, cached=5, batch=2, window=(9, 3), dtype="bf16", score="additive", d_a=7,
              output_projection=False)  # fmt: skip
    assert capsys.readouterr().out.splitlines() == shown(of, 100)
    assert cli.main([*ASKED, "--causal", "--width", "100"]) == 0
    assert capsys.readouterr().out.splitlines() == shown(made(causal=True), 100)
    monkeypatch.setattr(importlib.import_module("regard.cost"), "ENOUGH", 0.0)
    assert cli.main([*ASKED, "--n", "64", "--measure"]) == 0
    assert "Measured:" in capsys.readouterr().out


def test_a_configuration_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 512}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for place in (tmp_path, tmp_path / "config.json"):
        assert cli.main(["cost", str(place), "--width", "80"]) == 0
        assert capsys.readouterr().out.splitlines() == shown(made(), 80)
    (tmp_path / "config.json").write_text("[1]")
    assert cli.main(["cost", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("config.json holds a list, expected the configuration of a model\n")
    (tmp_path / "config.json").write_text("{")
    assert cli.main(["cost", str(tmp_path)]) == 2
    assert "is no JSON" in capsys.readouterr().err


def test_a_figure_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert cli.main([*ASKED, "--plot", str(tmp_path / "cost.svg")]) == 0
    assert (tmp_path / "cost.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cost", "--n", "5", "--d-model", "7", "--heads", "2"]) == 2
    sentence = "regard: d_model is 7 and heads is 2, expected a multiple: pass d=, the width of a head\n"
    assert capsys.readouterr().err == sentence
    for arguments in ([], ["nothing"], ["cost", "--n", "many"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 2


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    assert re.search(r"^ +cost +\S", capsys.readouterr().out, re.M)


def test_python_m_regard() -> None:
    command = [sys.executable, "-m", "regard", *ASKED, "--width", "40"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("512 tokens")
