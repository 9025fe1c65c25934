"""The page in a browser: how soon it can be used, and how evenly it moves over a head of 131072².

Chromium draws without a graphics card here, so all of its work is on the same cores as the server's. Frame times are
from the browser's own trace.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import page
from .measured import Figures

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--disable-quic"),
)
WINDOW = {"width": 1280, "height": 800}
SENTENCE = "The cat chased mice"
RATE = 60  # frames a second of a browser without a screen
PANS, STEPS, FAR = 10, 24, 360  # drags, movements of each, and pixels of each: about a thousand pixels a second
TRACED = ["devtools.timeline", "disabled-by-default-devtools.timeline.frame", "cc", "benchmark", "blink.user_timing"]

# The first frame in which a head is drawn, its cell read, and nothing more is loading.
USABLE = """(() => {
  const look = () => {
    const app = window.regard, { map } = app?.views?.matrix ?? {};
    const done = app?.chosen && app.series?.whole && map.width && !app.loading && !app.tiles.busy;
    if (done && app.shell.sentence.textContent) window.usable = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()"""
WHEN = """async () => {
  const end = performance.now() + 60000;
  while (!window.usable && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 20));
  return window.usable;
}"""

Seconds = list[float]


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, as Playwright drives it."""
    from playwright.sync_api import sync_playwright

    place = shutil.which("chromium")
    if place is None:
        raise RuntimeError("there is no `chromium` to be found: install it")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=place, args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


def usable(rounds: int) -> Figures:
    """From navigation to a page that can be used, of a recording of 72 heads; each time a new server and window."""
    with tempfile.TemporaryDirectory() as folder, browser() as opened:
        place = Path(folder) / "run.regard"
        command = [sys.executable, "-m", "regard", "look", SENTENCE, "-o", str(place)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken: Seconds = []
        for _ in range(rounds + 1):
            with page.served("recording", str(place)) as (url, _):
                window = opened.new_page(viewport=WINDOW)
                window.add_init_script(USABLE)
                window.goto(url)
                taken.append(window.evaluate(WHEN) / 1e3)
                window.close()
    return [("to use", min(taken[1:]), "s", "<=", 1.0), ("median to use", statistics.median(taken[1:]), "s", "", None)]


def panning(rounds: int) -> Figures:
    """Frames a second while the hand moves over full resolution, with tiles arriving."""
    with page.served("settled") as (url, _), browser() as opened:
        window = opened.new_page(viewport=WINDOW)
        window.goto(f"{url}#l=0&h=0&za=1&zb=1&top=90000&left=40000&sinks=show")
        window.evaluate(WAIT)
        rounds_of = [_pan(opened, window) for _ in range(max(2, rounds))]
    rate, script, tiles = max(rounds_of)
    return [
        ("frames a second", rate, "/s", ">=", 59.0),  # of 60, but for one that any other process may cost
        ("99th percentile of the page's own work in a frame", script, "ms", "<=", 1e3 / RATE),
        ("tiles a second meanwhile", tiles, "/s", "", None),
    ]


WAIT = """async () => {
  while (!window.regard?.chosen) await new Promise((resolve) => setTimeout(resolve, 20));
  await window.regard.idle(300000);
}"""


def _pan(opened: Any, window: Any) -> tuple[float, float, float]:
    """(frames a second, milliseconds of the page's work in all but 1 in 100, tiles a second) of a few drags."""
    box = window.locator("#marks").bounding_box()
    x, y = box["x"] + box["width"] / 2 - FAR / 2, box["y"] + box["height"] / 2
    came: list[float] = []
    window.on("requestfinished", lambda asked: came.append(0) if "/api/tile?" in asked.url else None)
    window.mouse.move(x, y)
    opened.start_tracing(page=window, categories=TRACED)
    window.evaluate("() => performance.mark('pan begins')")
    for drag in range(PANS):
        back = drag % 4 == 3  # onward three times of four, so that what comes is new
        window.mouse.move(x + (0 if back else FAR), y)
        window.mouse.down()
        window.mouse.move(x + (FAR if back else 0), y - 90, steps=STEPS)
        window.mouse.up()
    window.evaluate("() => performance.mark('pan ends')")
    events = json.loads(opened.stop_tracing())["traceEvents"]
    begin, end = (next(x["ts"] for x in events if x["name"] == f"pan {which}") for which in ("begins", "ends"))
    during = [x for x in events if begin <= x.get("ts", 0) <= end]
    # What became of every frame that was wanted: presented whole, in part (the page was late), or dropped.
    frames = Counter(
        x["args"]["frame_reporter"]["state"] for x in during if x["name"] == "PipelineReporter" and x["args"]
    )
    del frames["STATE_NO_UPDATE_DESIRED"]
    work = [x["dur"] / 1e3 for x in during if x["name"] == "FireAnimationFrame"]
    return (
        RATE * frames["STATE_PRESENTED_ALL"] / frames.total(),
        statistics.quantiles(work, n=100)[98],
        len(came) / ((end - begin) / 1e6),
    )
