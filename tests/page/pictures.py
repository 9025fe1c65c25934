"""The README's pictures of the page: `scripts/pictures [FOLDER]`. The same page and fonts give the same bytes."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from regard.recording.planted import plan
from tests.page.recorded import SENTENCE, TURNED, planted, read_by_model
from tests.page.shown import FLAGS, LAPTOP, Server, Shown, chromium

PLACE = Path(__file__).parents[2] / "docs" / "pictures"
MOST = 200_000  # bytes of a picture
LONG = 131_072
PATIENCE = 600_000  # milliseconds for the first pass over a long head
# name: (recording, hash, colours of the system); i and j are those of the planted cell
PICTURES = {
    "sentence": ("cat", "", "light"),
    "long": ("demo", "l=1&h=1&i={i}&j={j}&pin=1", "dark"),
}
PROFILES = "() => ['rows', 'keys'].every((name) => regard.views.matrix.profiles.lines[name])"


def main(place: Path = PLACE) -> None:
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        made = {
            "cat": read_by_model(Path(folder) / "cat.regard", SENTENCE, TURNED),
            "demo": planted(Path(folder) / f"demo-{LONG}.regard", LONG),
        }
        i, j = next(cell.where for cell in plan(LONG) if cell.kind == "cell")
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        for name, (recording, hash, scheme) in PICTURES.items():
            with Server(made[recording]) as server:
                shown = Shown(browser.new_context(viewport=LAPTOP, color_scheme=scheme), server.url)
                shown.context.set_default_timeout(PATIENCE)
                shown.go(hash.format(i=i, j=j), fresh=True).look("ready", PATIENCE)
                while not shown.page.evaluate(PROFILES):  # of a long head they come after the pass
                    shown.page.wait_for_timeout(200)
                small = small_enough(shown.ready().page.screenshot())
                (place / f"{name}.png").write_bytes(small)
                print(f"{name}.png: {len(small) / 1e3:.0f} kB")
                shown.context.close()
                server.stop()
        browser.close()


def small_enough(screenshot: bytes) -> bytes:
    """The same picture in as few bytes as there may be: with a palette, where all colours need too many."""
    with Image.open(io.BytesIO(screenshot)) as picture:
        whole: Any = picture.convert("RGB")
    for made in (whole, whole.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)):
        into = io.BytesIO()
        made.save(into, "PNG", optimize=True)
        if into.tell() <= MOST:
            return into.getvalue()
    raise ValueError(f"the picture has {into.tell()} bytes, expected at most {MOST}: show less")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
