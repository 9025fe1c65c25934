"""What a person takes away: a picture, a drawing, numbers, and the page itself in one file, offline."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.page.shown import CLOSE, LAPTOP, LOOK, Shown, Stage, colours
from tests.page.test_matrix import every

CHOSEN = "l=1&h=8&i=2&j=3&pin=1&sinks=show"


def taken(shown: Shown, what: str, folder: Path) -> Path:
    """A download, by the menu of Share."""
    shown.page.click("#share")
    with shown.page.expect_download() as waiting:
        shown.page.click(f"#share-{what}")
    shown.ready()
    place = folder / waiting.value.suggested_filename
    waiting.value.save_as(place)
    return place


def test_a_picture_of_what_is_seen(shown: Shown, tmp_path: Path) -> None:
    shown.go(CHOSEN)
    place = taken(shown, "png", tmp_path)
    assert place.name == "regard-L1H8.png"
    with Image.open(place) as picture:
        picture.load()
        assert min(picture.size) > 600
        seen = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    brightest = colours([0.81150049], 6)[0]
    assert (np.abs(seen.astype(int) - brightest).max(1) <= CLOSE).sum() > 2000  # the cell of 0.81 is in it


def test_a_drawing_with_text_as_text(shown: Shown, tmp_path: Path) -> None:
    shown.go(CHOSEN)
    root = ElementTree.parse(taken(shown, "svg", tmp_path)).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = " ".join(element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text"))
    for word in ("chased", "query ↓ looks at", ".81", "'cat' gives 81 %"):
        assert word in words
    assert not [x for x in root.iter() if "http" in x.attrib.get("href", "")]  # nothing is fetched from elsewhere


def test_the_numbers_of_a_row(shown: Shown, cat: Any, tmp_path: Path) -> None:
    shown.go(CHOSEN)
    rows = list(csv.reader(io.StringIO(taken(shown, "csv", tmp_path).read_text("utf-8"))))
    assert [row[1] for row in rows[1:]] == ["[CLS]", "the", "cat", "chased", "mice", "[SEP]"]
    assert [float(row[2]) for row in rows[1:]] == pytest.approx(np.asarray(cat[0][1, 8][2]), rel=1e-5)


def test_the_address_is_copied(stage: Stage) -> None:
    assert stage.browser is not None
    shown = stage.new(permissions=["clipboard-read", "clipboard-write"])
    shown.go(CHOSEN, fresh=True)
    shown.page.click("#share")
    shown.page.click("#share-link")
    shown.ready()
    assert shown.page.evaluate("() => navigator.clipboard.readText()") == f"{shown.url}#{shown.hash}"
    assert "copied" in shown.text("#notes")
    assert shown.wrong == []
    shown.context.close()


def test_one_file_that_works_offline(shown: Shown, stage: Stage, cat: Any, tmp_path: Path) -> None:
    shown.go(CHOSEN)
    place = taken(shown, "html", tmp_path)
    assert stage.browser is not None
    context = stage.browser.new_context(viewport=LAPTOP, offline=True)
    asked: list[str] = []
    wrong: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    context.add_init_script(LOOK)
    page = context.new_page()
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(place.as_uri())
    away = Shown.__new__(Shown)
    away.context, away.page, away.url, away.wrong = context, page, place.as_uri(), wrong
    assert away.ready().text("#typed #text") == shown.text("#typed #text")
    assert away.text("#head") == "L1H8"
    assert away.cell == (2, 3)
    assert away.sentence == shown.sentence
    assert "0.812" in away.text("#reading")
    weights = np.asarray(cat[0][1, 8][:])
    assert np.abs(away.pixels(every(6, 0.12)) - colours(weights.ravel(), 6)).max() <= CLOSE
    page.mouse.click(*away.place(4, 5))
    assert away.ready().cell == (4, 5)
    assert away.sentence == shown.go(CHOSEN.replace("i=2&j=3", "i=4&j=5")).sentence
    assert away.click("#of [data-value=length]").sentence == shown.click("#of [data-value=length]").sentence
    for page_ in (away, shown):
        page_.click("#tab-steps").click("#steps-of [data-value=designed]")
        page_.page.select_option("#designed", "local")
        page_.page.fill("#strength", "9")
        page_.ready().page.wait_for_selector("#view-steps output:text-is('9')")
    for step in (1, 2, 3):
        assert away.look("texts", f"[data-step='{step}'] td") == shown.look("texts", f"[data-step='{step}'] td")
    shown.page.select_option("#designed", "previous_token")
    assert wrong == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()
