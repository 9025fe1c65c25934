"""Without a mouse, on a phone, in the dark, and for who listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from regard.view.colour import DARK, rgb
from tests.page.shown import CLOSE, Shown, colours

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


# Keyboard.


def focused(shown: Shown) -> Any:
    return shown.look("focused")


def test_everything_is_reached_by_the_keyboard_alone(shown: Shown, cat: Any) -> None:
    shown.go("l=1&h=8", fresh=True)
    shown.press("m")  # to the matrix
    assert focused(shown) == "marks"
    shown.press("0", "Home", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp")
    shown.press("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight")
    assert shown.sentence.startswith("'cat' gives 81 % of its attention in L1H8 to 'chased'")
    shown.press("Enter")
    assert shown.cell == (2, 3)
    shown.press("o")  # the overview
    assert focused(shown) == "1.8"
    shown.press("ArrowUp", "ArrowRight")
    assert shown.text("#head") == "L0H9"
    assert focused(shown) == "0.9"
    shown.press(".")
    assert shown.text("#head") == "L0H10"
    for key, view in (("2", "distance"), ("3", "text"), ("4", "steps"), ("5", "compare"), ("1", "matrix")):
        shown.press(key)
        assert shown.state["view"] == view
        assert shown.page.get_attribute(f"#tab-{view}", "aria-selected") == "true"
    shown.press("t", "v", "p")
    assert (shown.state["turn"], shown.state["of"], shown.state["pool"]) == (True, "length", "mean")
    shown.press("Escape")
    assert shown.cell == (None, None)
    shown.press("Backspace")
    assert shown.cell == (2, 3)


def test_keys_zoom_about_the_cursor(shown: Shown) -> None:
    shown.go("x=2&l=1&h=8&i=55&j=56&pin=1").press("m")
    before = shown.state["zoomA"]
    shown.press("+", "+", "+", "+", "+", "+", "+", "+")
    assert shown.text("#scale") == "1 cell = 112 px"
    x, y = shown.place(55, 56)
    box = shown.page.locator("#map").bounding_box()
    assert box is not None
    assert box["x"] < x < box["x"] + box["width"]
    assert box["y"] < y < box["y"] + box["height"]
    shown.press("0")
    assert shown.state["zoomA"] == before


def test_the_list_of_keys(shown: Shown) -> None:
    shown.go("l=1&h=8").press("?")
    assert shown.visible("#keys")
    assert "follow the diagonal" in shown.text("#keys")
    shown.press("Escape")
    assert not shown.visible("#keys")


def test_tab_reaches_every_control_and_the_ring_is_seen(shown: Shown) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1", fresh=True)
    seen = set()
    for _ in range(60):
        shown.page.keyboard.press("Tab")
        name, ring = shown.look("ring")
        assert ring, name
        seen.add(name)
    assert {"texts", "before", "after", "find", "turn", "share", "help", "tab-matrix", "marks", "legend", "1.8"} <= seen


# For who listens.


def test_what_is_there_has_a_name(shown: Shown) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1", fresh=True)
    assert shown.look("nameless") == []
    assert shown.page.get_attribute("#sentence", "aria-live") == "polite"
    assert "L1H8" in (shown.page.get_attribute("#marks", "aria-label") or "")
    assert shown.page.get_attribute("html", "lang") == "en"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(shown: Shown, theme: str) -> None:
    """Contrast of 4.5 for all text, as WCAG has it for small text."""
    shown.go(f"l=1&h=8&i=2&j=3&pin=1&theme={theme}", fresh=True)
    assert shown.look("faint", 4.5) == []


# Dark.


def test_dark_as_the_system_is(opened: Callable[..., Shown], cat: Any) -> None:
    shown = opened("l=1&h=8&sinks=show", color_scheme="dark")
    paper = shown.page.evaluate("() => getComputedStyle(document.querySelector('.regard')).backgroundColor")
    assert paper == f"rgb{rgb(DARK.paper)}"
    cells = [(i + 0.12, j + 0.12) for i in range(6) for j in range(6)]
    wanted = colours(np.asarray(cat[0][1, 8][:]).ravel(), 6, DARK)
    assert np.abs(shown.pixels(cells) - wanted).max() <= CLOSE
    shown.page.emulate_media(color_scheme="light")
    assert np.abs(shown.ready().pixels(cells) - colours(np.asarray(cat[0][1, 8][:]).ravel(), 6)).max() <= CLOSE


# A phone.


def test_a_phone(opened: Callable[..., Shown], cat: Any) -> None:
    shown = opened("", **PHONE)
    width = shown.page.evaluate("() => document.documentElement.scrollWidth")
    assert width == 390  # nothing to scroll sideways
    assert shown.text("#typed #text") == "The cat chased mice"
    assert shown.text("#head") == "L1H8"
    assert shown.visible("#sentence")
    assert "81 %" in shown.sentence
    assert not shown.visible("#overview")
    assert not shown.visible("#reading")
    # The text comes first, the matrix has the full width.
    text, matrix = shown.page.locator("#typed").bounding_box(), shown.page.locator("#map").bounding_box()
    assert text is not None
    assert matrix is not None
    assert text["y"] < matrix["y"]
    assert matrix["width"] >= 350
    # A tap is a row; sheets come from below.
    shown.page.tap("#typed [data-token='4']")
    assert shown.ready().cell[0] == 4
    shown.page.tap("#open-reading")
    assert shown.ready().visible("#reading")
    assert "mice" in shown.text("#reading")
    shown.page.tap("#open-reading")
    shown.ready()
    shown.page.tap("#open-overview")
    assert shown.ready().visible("#overview")
    shown.page.tap("#overview [data-head='0.2']")
    assert shown.ready().text("#head") == "L0H2"


def test_fingers_are_large_enough_on_a_phone(opened: Callable[..., Shown]) -> None:
    shown = opened("l=1&h=8&i=2&j=3&pin=1", **PHONE)
    assert shown.look("small", 24) == []


def test_two_fingers_zoom(opened: Callable[..., Shown]) -> None:
    shown = opened("x=2&l=1&h=8", **PHONE)
    x, y = shown.place(60, 60)
    client = shown.context.new_cdp_session(shown.page)
    for kind, spread in (("touchStart", 20), ("touchMove", 40), ("touchMove", 70), ("touchEnd", 0)):
        points = [{"x": x - spread, "y": y}, {"x": x + spread, "y": y}] if spread else []
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    shown.ready()
    assert shown.state["zoomA"] is not None
    assert np.hypot(*np.subtract(shown.place(60, 60), (x, y))) < 40
