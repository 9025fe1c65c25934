"""`regard view` as a person starts it, and what is needed for it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

import regard
from regard.cli import main
from regard.commands import view
from regard.view.server.serving import Serving
from tests.server.asking import sentence


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("view") / "run.regard"
    with regard.recording(path, tokens=["a", "b", "c"], sync=False) as made:
        made.layer(*np.random.default_rng(0).standard_normal((2, 1, 3, 4), dtype=np.float32))
    return path


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "regard", "view", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": "false"},
    )


def test_it_prints_its_address_answers_and_closes_by_ctrl_c(recorded: Path) -> None:
    with started(str(recorded), str(recorded), "--no-browser") as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", url)
            with urlopen(url, timeout=10) as page:
                assert b"<!doctype html>" in page.read()[:40].lower()
            with urlopen(url + "api/about", timeout=10) as about:
                said = about.read()
                assert said.count(b'"name":"run.regard"') == 2
                assert f'"version":"{regard.__version__}"'.encode() in said
        finally:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert process.returncode == 130
        assert errors.strip() == ""


def test_a_warning_where_others_can_reach_it() -> None:
    made = Serving([sentence()], "0.0.0.0")
    assert made.warning is not None
    assert "not encrypted" in made.warning
    assert made.url.startswith("http://127.0.0.1:")
    made.app.close()
    made.socket.close()
    made = Serving([sentence()])
    assert made.warning is None
    made.app.close()
    made.socket.close()


def test_what_cannot_be_served(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = Serving([sentence()])
    assert main(["view", str(recorded), "--no-browser", "--port", str(taken.port)]) == 2
    assert f"cannot listen on 127.0.0.1 port {taken.port}" in capsys.readouterr().err
    taken.app.close()
    taken.socket.close()
    assert main(["view", str(recorded.parent / "none.regard"), "--no-browser"]) == 2
    assert "none.regard" in capsys.readouterr().err
    for port in ("70000", "-1", "x"):
        with pytest.raises(SystemExit) as left:
            main(["view", str(recorded), "--port", port])
        assert left.value.code == 2


def test_a_text_in_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """`regard look --browser` serves what the model made of the text, and of its words in another order."""
    served: list[tuple[Any, ...]] = []

    def serve(held: list[Any], *, chosen: str) -> None:
        assert chosen == ""
        served.extend((text.text, len(text), text.matrix(1).v is not None) for text in held[0].recording.texts)

    monkeypatch.setattr(view, "serve", serve)
    assert main(["look", "The cat chased mice", "--browser"]) == 0
    assert served == [("The cat chased mice", 6, True), ("Mice chased the cat", 6, True)]


def test_without_starlette_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(regard.errors.MissingError, match=r"pip install 'regard\[view\]'"):
        Serving([sentence()])


def test_all_files_of_the_page_are_in_the_package() -> None:
    """Those that the page's modules import are there, under the names that are served."""
    folder = Path(regard.__file__).parent / "view" / "page"
    names = {x.name for x in folder.iterdir()}
    for script in folder.glob("*.js"):
        for name in re.findall(r'(?:from|import)\s*\(?\s*"\./([\w.-]+)"', script.read_text()):
            assert name in names, (script.name, name)
    for name in re.findall(r'(?:src|href)="page/([\w.-]+)"', (folder / "index.html").read_text()):
        assert name in names
