"""The page in a notebook: the modules of the server's page, with the kernel in its place.

    from regard.view.notebook import widget
    widget(regard.open("run.regard"))

The page stands in a frame of its own, so that its styles, keys and names are nobody else's. Questions come as messages
{id, path, params}, answers go as {id, json}, {id, head} with the numbers in a buffer, {id, pending}, or {id, error,
status}; {cancel: id} gives up a question that nobody waits for.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from regard.errors import MissingError, RegardError
from regard.view.export import ROUTES, page
from regard.view.questions import Questions
from regard.view.server.answers import File, Floats, Said
from regard.view.server.asked import Refused
from regard.view.server.holdings import Recorded
from regard.view.server.jobs import Abandoned, Job
from regard.view.server.memory import Memory, MemoryText

INSTALL = "pip install 'regard[notebook]'"
HEIGHT = 640  # pixels, if none are given
THREADS = 2

BEGIN = """
globalThis.begin = async (model, state) => {
  const [{ start }, { MessageSource }] = await loaded;
  start(document.getElementById("regard"), new MessageSource(model), { url: false, first: state });
};
"""
# A frame is its own document: the window's width is that of the cell, and Backspace in it deletes no cell.
WIDGET = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  const dark = jpThemeLight === "false" || vscodeThemeKind === "vscode-dark";
  Object.assign(frame.style, { width: "100%", height: model.get("height") + "px", border: 0 });
  frame.title = "Regard";
  frame.srcdoc = PAGE;
  frame.onload = () => frame.contentWindow.begin(model, model.get("state") + (dark ? "&theme=dark" : ""));
  el.append(frame);
  return () => frame.remove();
}
export default { render };
"""


class Teller:
    """Answers messages: `send(content, buffers)` is called from threads of its own, once for each question."""

    def __init__(self, asked: Questions, send: Callable[[dict[str, Any], list[bytes]], None]):
        self.asked, self.send = asked, send
        asked.routes.update(ROUTES)
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="regard-notebook")
        self.jobs: dict[str, Job] = {}
        self.lock = threading.Lock()

    def message(self, content: Any) -> None:
        """A question, or that it is given up. Anything else is ignored."""
        if not isinstance(content, dict):
            return
        if "cancel" in content:
            with self.lock:
                job = self.jobs.pop(str(content["cancel"]), None)
            if job is not None:
                job.gone = True
            return
        name, path, params = content.get("id"), content.get("path"), content.get("params")
        if not isinstance(name, str) or not isinstance(path, str) or not isinstance(params, dict):
            return
        with self.lock:
            job = self.jobs[name] = Job()
        self.threads.submit(self._answer, name, path, params, job)

    def _answer(self, name: str, path: str, params: dict[str, Any], job: Job) -> None:
        try:
            job.check()
            said, buffers = self._said(path, params, job)
        except Abandoned:
            return
        except Refused as refused:
            said, buffers = {"error": refused.sentence, "status": refused.status}, []
        except RegardError as error:
            said, buffers = {"error": str(error), "status": 400}, []
        except Exception as error:  # the page says it; a thread's traceback would be seen by nobody
            said, buffers = {"error": f"the answer failed: {error!r}", "status": 500}, []
        with self.lock:
            if self.jobs.pop(name, None) is None:
                return
        self.send({"id": name, **said}, buffers)

    def _said(self, path: str, params: dict[str, Any], job: Job) -> tuple[dict[str, Any], list[bytes]]:
        found = self.asked.ask(path, job, **params)
        if isinstance(found, Floats):
            return {"head": found.head}, [np.ascontiguousarray(found.values, "<f4").tobytes()]
        if isinstance(found, File):
            return {"json": {"file": found.body.decode(), "name": found.name}}, []
        assert isinstance(found, Said)
        return {"pending" if found.status == 202 else "json": found.value}, []

    def close(self) -> None:
        """Give up what is under way."""
        with self.lock:
            for job in self.jobs.values():
                job.gone = True
            self.jobs.clear()
        self.threads.shutdown(wait=False, cancel_futures=True)
        self.asked.close()


def widget(*recordings: Any, height: int = HEIGHT, state: str = "") -> Any:
    """The page of recordings, or of matrices, as a widget of the notebook.

    `state` is the view to begin with, as it stands behind the # of the page's address: `"l=1&h=8&view=text"`.
    """
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise MissingError(
            f"the page in a notebook needs anywidget, which cannot be imported ({error}): {INSTALL}"
        ) from None
    if not recordings:
        raise ValueError(
            "widget was given nothing to show, expected a recording or a matrix: widget(regard.open(path))"
        )

    held = [_held(x, at) for at, x in enumerate(recordings)]

    class Widget(anywidget.AnyWidget):
        _esm = f"const PAGE = {json.dumps(page(BEGIN))};\n{WIDGET}"
        height = traitlets.Int(HEIGHT).tag(sync=True)
        state = traitlets.Unicode("").tag(sync=True)

        def __init__(self, **more: Any):
            super().__init__(**more)
            self.teller = Teller(Questions(held), self.send)
            self.on_msg(lambda _, content, buffers: self.teller.message(content))

        def close(self) -> None:
            self.teller.close()
            super().close()

    return Widget(height=height, state=state)


def _held(given: Any, at: int) -> Recorded:
    """A recording as it is; a matrix as the one layer of a text."""
    if hasattr(given, "texts"):
        return Recorded(given, str(getattr(given, "path", "") or f"recording {at}").rpartition("/")[2])
    if not hasattr(given, "weights"):
        raise TypeError(
            f"widget was given a {type(given).__name__}, expected a recording or a matrix: regard.open(path)"
        )
    return Recorded(Memory([MemoryText([given], tokens=given.key_tokens)]), f"matrix {at}")
