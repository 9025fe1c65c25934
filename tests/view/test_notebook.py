"""The widget of a notebook, driven by its messages as the page would."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import MissingError
from regard.view.notebook import Teller, widget
from regard.view.questions import Questions
from regard.view.server.answers import Route, Said
from regard.view.server.memory import Memory, MemoryText

pytest.importorskip("anywidget")
HEAD = {"r": 0, "x": 0, "l": 0, "h": 0}


@pytest.fixture
def shown() -> Iterator[Any]:
    """A widget, and what it sends."""
    x = np.random.default_rng(0).standard_normal((2, 5, 4), dtype=np.float32)
    made = widget(regard.matrix(x, x, tokens=list("abcde")), height=300, state="l=0&h=1")
    made.sent = []
    made.teller.send = lambda content, buffers: made.sent.append((content, buffers))
    yield made
    made.close()


def told(shown: Any, path: str, /, **params: Any) -> tuple[dict[str, Any], list[bytes]]:
    """What comes back for a question."""
    name = f"q{len(shown.sent)}"
    shown._handle_custom_msg({"id": name, "path": path, "params": params}, [])
    for _ in range(500):
        for content, buffers in shown.sent:
            if content["id"] == name:
                return content, buffers
        time.sleep(0.01)
    raise AssertionError(f"no answer to {path}")


def test_json(shown: Any) -> None:
    said, buffers = told(shown, "about")
    assert said["json"]["recordings"][0]["texts"][0]["n"] == 5
    assert buffers == []


def test_numbers_come_as_buffers(shown: Any) -> None:
    said, [buffer] = told(shown, "tile", **HEAD, a=0, b=0, i=0, j=0)
    assert said["head"]["rows"] == said["head"]["columns"] == 5
    exact = np.asarray(shown.teller.asked.server.holdings.head((0, 0, 0), 0))[0]
    np.testing.assert_array_equal(np.frombuffer(buffer, "<f4").reshape(5, 5), exact.astype(np.float32))


def test_refusals_are_sentences(shown: Any) -> None:
    said, _ = told(shown, "cell", **HEAD, i=9, j=0)
    assert said["error"] == "i is 9, expected 0 to 4"
    assert said["status"] == 400
    assert told(shown, "secrets")[0]["status"] == 404
    assert "is not known" in told(shown, "about", path="/etc/passwd")[0]["error"]


def test_a_file_of_it_all(shown: Any) -> None:
    said, _ = told(shown, "export", **HEAD)
    assert said["json"]["file"].startswith("<!doctype html>")
    assert said["json"]["name"] == "regard-L0H0.html"


@pytest.mark.parametrize(
    "content", [None, [], {}, {"id": 1, "path": "about", "params": {}}, {"id": "a"}, {"cancel": 7}]
)
def test_what_is_no_question_is_ignored(shown: Any, content: Any) -> None:
    shown._handle_custom_msg(content, [])
    told(shown, "about")
    assert len(shown.sent) == 1


def test_a_question_given_up_is_not_answered() -> None:
    begun, gone, sent = threading.Event(), threading.Event(), []
    asked = Questions([])

    def slow(server: Any, params: Any, job: Any) -> Said:
        begun.set()
        while not job.gone:
            time.sleep(0.001)
        gone.set()
        return Said("never")

    teller = Teller(asked, lambda content, buffers: sent.append(content))
    asked.routes["slow"] = Route(slow)
    teller.message({"id": "a", "path": "slow", "params": {}})
    assert begun.wait(5)
    teller.message({"cancel": "a"})
    assert gone.wait(5)
    teller.close()
    assert sent == []


def test_a_failure_is_told() -> None:
    sent: list[Any] = []
    answered = threading.Event()
    asked = Questions([])

    def broken(server: Any, params: Any, job: Any) -> Said:
        raise RuntimeError("a bug")

    teller = Teller(asked, lambda content, buffers: (sent.append(content), answered.set()))
    asked.routes["broken"] = Route(broken)
    teller.message({"id": "a", "path": "broken", "params": {}})
    assert answered.wait(5)
    teller.close()
    assert sent == [{"id": "a", "error": "the answer failed: RuntimeError('a bug')", "status": 500}]


def test_the_page_is_in_the_module(shown: Any) -> None:
    assert shown._esm.startswith("const PAGE = ")
    assert "export default" in shown._esm
    assert shown.height == 300
    assert shown.state == "l=0&h=1"


def test_recordings_are_called_by_their_file() -> None:
    recording = Memory([MemoryText([regard.matrix(np.eye(2), np.eye(2))])])
    made = widget(recording)
    assert made.teller.asked.server.holdings.recordings[0].name == "recording 0"
    made.close()


def test_what_cannot_be_shown() -> None:
    with pytest.raises(ValueError, match="nothing to show, expected a recording or a matrix"):
        widget()
    with pytest.raises(TypeError, match="was given a int, expected a recording or a matrix"):
        widget(3)


def test_anywidget_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(MissingError, match=r"pip install 'regard\[notebook\]'"):
        widget(regard.matrix(np.eye(2), np.eye(2)))


def test_the_module_loads_without_anywidget() -> None:
    code = "import sys, regard.view.notebook; sys.exit('anywidget' in sys.modules or 'starlette' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
