"""The page as a person sees it: started by the command, looked at with Chromium, its pixels and numbers read off.

One server and one browser serve all tests of this folder that follow one another, and are closed after the last.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from regard.view.colour import LIGHT, Scale, Theme

Array = np.ndarray[Any, Any]

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--disable-quic", "--disable-dev-shm-usage"),
)
LAPTOP = {"width": 1280, "height": 800}
STOPPED = 130  # what a command leaves with after Ctrl-C
PATIENCE = 10_000  # milliseconds that the page may take for anything, on a machine that is busy
LOOK = (Path(__file__).parent / "look.js").read_text("utf-8")


class Server:
    """`regard view …` as a person starts it; `url` is what it prints."""

    def __init__(self, *recordings: Path):
        command = [Path(sys.executable).with_name("regard"), "view", *recordings, "--no-browser", "--port", "0"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.process.communicate()

    def stop(self) -> tuple[int, str]:
        """End it by Ctrl-C: what it leaves with, and what it said besides its address."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, (out + err).strip()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def chromium() -> str:
    """Where it is; without it the test is skipped, or fails where a browser is required."""
    found = shutil.which("chromium")
    if found is None:
        said = "the page is tested in Chromium, and there is no `chromium` to be found: install it"
        if os.environ.get("REGARD_BROWSER") == "required":
            pytest.fail(said, pytrace=False)
        pytest.skip(said)
    return found


class Stage:
    """The server, the browser and the page that tests share, as long as there are such tests."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.playwright: Playwright | None = None
        self.browser: Browser | None = None
        self.shown: Shown | None = None
        self._loop: Any = None

    def open(self, *recordings: Path) -> None:
        place = chromium()
        self.server = Server(*recordings)
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=place, args=list(FLAGS))

    def new(self, **options: Any) -> Shown:
        """A page in a window of its own."""
        assert self.browser is not None
        assert self.server is not None
        return Shown(self.browser.new_context(**{"viewport": LAPTOP, **options}), self.server.url)

    def shared(self) -> Shown:
        if self.shown is None:
            self.shown = self.new()
        return self.shown

    def enter(self) -> None:
        """Playwright's loop counts as running from its start to its end: tests between these would have none."""
        if self._loop is not None:
            asyncio._set_running_loop(self._loop)

    def leave(self) -> None:
        self._loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)

    def close(self) -> None:
        if self.server is None:
            return
        self.enter()
        server, self.server = self.server, None
        if self.shown is not None:
            self.shown.context.close()
        if self.browser is not None:
            self.browser.close()
        if self.playwright is not None:
            self.playwright.stop()
        self.shown = self.browser = self.playwright = self._loop = None
        asyncio._set_running_loop(None)
        with server:
            assert server.stop() == (STOPPED, "")


class Shown:
    """A page of the server, and what is read off it. `wrong` collects what should never be: errors and strangers."""

    def __init__(self, context: BrowserContext, url: str):
        self.context, self.url = context, url
        self.wrong: list[str] = []
        context.set_default_timeout(PATIENCE)
        context.add_init_script(LOOK)
        self.page: Page = context.new_page()
        self.watch(self.page)

    def watch(self, page: Page) -> None:
        """Note errors of a page and what it asks of anybody but the server."""
        page.on("console", lambda said: self.note("console", said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.note("error", str(error)))
        page.on("crash", lambda _: self.note("crash", ""))
        page.on("request", lambda asked: self.stranger(asked.url))

    def note(self, kind: str, said: str) -> None:
        if "willReadFrequently" in said:
            return  # that is these tests
        self.wrong.append(f"{kind}: {said}")

    def stranger(self, url: str) -> None:
        if not url.startswith((self.url, "data:", f"blob:{self.url[: self.url.index('/', 8)]}")):
            self.note("request", url)

    # Going.

    def go(self, hash: str = "", fresh: bool = False) -> Shown:
        """Look at something: as a link in the page does, or in a page that is new. The hand is nowhere."""
        self.page.mouse.move(2, 2)
        if fresh or not self.page.url.startswith(self.url):
            self.page.goto("about:blank")
            self.page.goto(f"{self.url}#{hash}")
        else:
            self.look("follow", hash)
        return self.ready()

    def ready(self) -> Shown:
        """Nothing is loading and all is drawn."""
        self.look("ready")
        return self

    def press(self, *keys: str) -> Shown:
        for key in keys:
            self.page.keyboard.press(key)
        return self.ready()

    def click(self, selector: str) -> Shown:
        self.page.click(selector)
        return self.ready()

    # Reading.

    def look(self, what: str, *at: Any) -> Any:
        """Something that look.js reads off the page."""
        return self.page.evaluate("([what, at]) => look[what](...at)", [what, list(at)])

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.look("state")
        return found

    @property
    def cell(self) -> tuple[int, int]:
        """The chosen query and key."""
        return self.state["i"], self.state["j"]

    def text(self, selector: str) -> str:
        """What stands there, spaces in one."""
        return re.sub(r"\s+", " ", self.page.inner_text(selector)).strip()

    @property
    def sentence(self) -> str:
        return self.text("#sentence")

    @property
    def hash(self) -> str:
        """What the address says."""
        self.look("flush")
        return self.page.url.partition("#")[2]

    def visible(self, selector: str) -> bool:
        return self.page.is_visible(selector)

    # The matrix.

    def levels(self) -> tuple[int, int]:
        a, b = self.look("levels")
        return a, b

    def place(self, i: float, j: float) -> tuple[float, float]:
        """The middle of a cell in the window."""
        x, y = self.look("place", i, j)
        return x, y

    def pixels(self, cells: Sequence[tuple[float, float]]) -> Array:
        """(cells, 3): the colours at places of the matrix, told in queries and keys; fractions lie within a cell."""
        return np.array(self.look("pixels", [[float(i), float(j)] for i, j in cells]))

    def sheet(self, selector: str) -> Array:
        """(height, width, 3): the colours of a canvas."""
        width, height, data = self.look("sheet", selector)
        found: Array = np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)[..., :3].astype(int)
        return found


def colours(values: Any, n_k: int, theme: Theme = LIGHT, scale: Scale | None = None) -> Array:
    """The colours that these weights have everywhere in Regard."""
    scale = scale or Scale.of_weights(n_k)
    return scale.table(theme)[scale.index(values)].astype(int)


# The page's table has four times as many colours, and 0.4 % of a value share one.
CLOSE = 5
