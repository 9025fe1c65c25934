"""The other views: distance, text, steps, two heads beside each other; and search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.view.colour import LIGHT, Scale, rgb
from tests.page.recorded import BRIGHT, LONG
from tests.page.shown import CLOSE, Array, Shown, colours

HATCH = LIGHT.hatch  # the frame of a matrix


def dense(matrix: Any) -> Array:
    found: Array = np.asarray(matrix[:])
    return found


def grid(shown: Shown, selector: str, n: int) -> Array:
    """(n · n, 3): the colours of the cells of a matrix that is seen whole, found by its frame."""
    seen = shown.sheet(selector)
    frame = (seen == rgb(HATCH)).all(-1)
    (top, bottom), (left, right) = (
        np.flatnonzero(frame.sum(axis) > 0.9 * frame.sum(axis).max())[[0, -1]] for axis in (1, 0)
    )
    within = (np.arange(n) + 0.12) / n  # numbers and lines leave these places free
    ys, xs = (top + 1 + within * (bottom - top - 1)).astype(int), (left + 1 + within * (right - left - 1)).astype(int)
    return seen[np.ix_(ys, xs)].reshape(-1, 3)


# Distance.


def test_distance_shows_how_far_back_heads_look(shown: Shown) -> None:
    """A head that looks at the token before is one dark column, at 1."""
    shown.go("r=1&l=0&h=0&i=100&j=99&pin=1").click("#tab-distance")
    assert shown.visible("#distance")
    seen = shown.sheet("#distance")
    line = seen[int(0.4 * len(seen))]
    dark = np.flatnonzero(np.abs(line - colours([1.0], LONG)[0]).max(1) <= 2 * CLOSE)
    assert 2 <= len(dark) <= 12
    assert dark[-1] - dark[0] < 12  # one band
    box = shown.page.locator("#distance").bounding_box()
    assert box is not None
    shown.page.mouse.move(box["x"] + float(dark.mean()), box["y"] + 0.4 * box["height"])
    shown.ready()
    assert "to the key 1 before them" in shown.sentence
    assert "> 99.9 % of their weight" in shown.sentence
    shown.page.mouse.click(box["x"] + float(dark.mean()), box["y"] + 0.4 * box["height"])
    i, j = shown.ready().cell
    assert i - j == 1


# Text.


def test_text_is_tinted_by_what_a_token_looks_at(shown: Shown, cat: Any) -> None:
    shown.go("x=2&l=1&h=8&i=9&j=10&pin=1&sinks=show").click("#tab-text")
    names = shown.look("texts", "#flow [data-t]")
    assert names == list(cat[2].tokens)
    seen = np.array(shown.look("papers", "#flow [data-t]"))
    n = len(names)
    assert np.abs(seen - colours(dense(cat[2][1, 8])[9], n)).max() <= CLOSE
    # Turned around: who looks at it. The token is asked about is now the key.
    shown.click("#way [data-value=looked]")
    seen = np.array(shown.look("papers", "#flow [data-t]"))
    assert np.abs(seen - colours(dense(cat[2][1, 8])[:, 10], n)).max() <= CLOSE


def test_a_token_of_the_text_is_chosen_by_a_click(shown: Shown, cat: Any) -> None:
    shown.go("x=2&l=1&h=8&view=text&sinks=show").click("#flow [data-t='7']")
    i, j = shown.cell
    assert i == 7
    assert j == int(
        np.argmax(
            np.where(np.isin(np.arange(len(cat[2].tokens)), [0, 7, len(cat[2].tokens) - 1]), 0, dense(cat[2][1, 8])[7])
        )
    )
    assert shown.sentence.startswith(f"'{cat[2].tokens[7]}'")


def test_of_a_long_text_only_what_is_seen_is_in_the_page_and_the_skyline_jumps(shown: Shown, bright: Any) -> None:
    where = next(x["where"] for x in bright.model["planted"] if x["kind"] == "cell")
    shown.go(f"r=1&l={BRIGHT[0]}&h={BRIGHT[1]}&i={where[0]}&j={where[1]}&pin=1&view=text")
    seen = [int(t) for t in shown.look("data", "#flow [data-t]", "t")]
    assert where[0] in seen
    assert len(seen) < LONG / 4
    # The end of its arc is elsewhere: a chip says where, and leads there.
    chip = f"#over [data-t='{where[1]}']"
    assert f"{where[1]} {bright.texts[0].tokens[where[1]]} 0.99" in shown.text(chip)
    shown.click(chip)
    seen = [int(t) for t in shown.look("data", "#flow [data-t]", "t")]
    assert where[1] in seen
    box = shown.page.locator("#skyline").bounding_box()
    assert box is not None
    shown.page.mouse.click(box["x"] + 10, box["y"] + 2)
    shown.ready()
    assert shown.page.query_selector("#flow [data-t='0']") is not None


# Steps.


def test_steps_show_the_numbers_of_the_trace(shown: Shown, cat: Any) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1").click("#tab-steps")
    matrix = cat[0][1, 8]
    weights = shown.look("texts", "[data-step='3'] tr:nth-child(4) td")
    assert [float(text.replace("−", "-")) for text in weights] == pytest.approx(dense(matrix)[2], abs=5.1e-3)
    scores = shown.look("texts", "[data-step='2'] tr:nth-child(4) td")
    assert [float(text.replace("−", "-")) for text in scores] == pytest.approx(np.asarray(matrix.scores[2]), abs=5.1e-3)
    assert "0.812" in shown.text("[data-step='3'] p")
    assert shown.text("[data-step='4'] tr.mine th") == "cat"
    assert shown.visible("[data-step='4'] tr.mine td >> nth=0")
    shown.click("[data-step='3'] tr:nth-child(6) td:nth-of-type(3)")
    assert shown.cell == (4, 2)


def test_a_designed_head_sharpens_with_its_strength(shown: Shown) -> None:
    shown.go("view=steps&mode=designed&l=1&h=8")
    peaks = []
    for strength in ("0", "8", "40"):
        shown.page.fill("#strength", strength)
        shown.ready()
        shown.page.wait_for_selector(f"#view-steps output:text-is('{strength}')")
        cells = [float(text) for text in shown.look("texts", "[data-step='3'] td")]
        peaks.append(np.array(cells).reshape(6, 6)[2].max())
    assert peaks[0] == pytest.approx(1 / 6, abs=5e-3)
    assert peaks[0] < peaks[1] < peaks[2]
    assert peaks[2] > 0.99
    # What is said of the head in view is of other numbers, and not seen here; neither is its cell what is chosen.
    before = shown.cell
    shown.click("[data-step='3'] tr:nth-child(5) td:nth-of-type(2)")
    assert "e^" in shown.text("[data-step='3'] p")
    assert shown.text("[data-step='3'] tr.mine th") == "the"
    assert shown.cell == before
    assert not shown.visible("#sentence")
    assert not shown.visible("#reading .place")
    shown.click("#tab-matrix")
    assert shown.visible("#sentence")


# Compare.


def test_two_heads_beside_each_other(shown: Shown, cat: Any) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1&sinks=show").click("#tab-compare")
    shown.page.select_option("#other", "0.0.0.2")
    shown.ready()
    one, two = dense(cat[0][1, 8]), dense(cat[0][0, 2])
    for name, weights in (("one", one), ("two", two)):
        assert np.abs(grid(shown, f"#map-{name}", 6) - colours(weights.ravel(), 6)).max() <= CLOSE
    apart = float(np.asarray(cat[0][1, 8].compare(cat[0][0, 2]).heads))
    assert f"apart by {apart:.3f}" in shown.text("#apart")


def test_one_head_less_another(shown: Shown, cat: Any) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1&sinks=show&view=compare&minus=0.0.0.2").click("#compare-how [data-value=less]")
    less = dense(cat[0][1, 8]).astype(np.float64) - dense(cat[0][0, 2])
    scale = Scale.of_scores(float(np.abs(less).max()))
    assert np.abs(grid(shown, "#map-less", 6) - colours(less.ravel(), 6, LIGHT, scale)).max() <= 2 * CLOSE
    assert "L1H8 less L0H2" in shown.text("#view-compare")


def test_two_recordings_of_the_same_text(shown: Shown, cat: Any, warm: Path) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1&sinks=show&view=compare")
    shown.page.select_option("#other", "2.0.1.8")
    shown.ready()
    other = regard.open(warm).texts[0][1, 8]
    for name, matrix in (("one", cat[0][1, 8]), ("two", other)):
        assert np.abs(grid(shown, f"#map-{name}", 6) - colours(dense(matrix).ravel(), 6)).max() <= CLOSE
    assert f"apart by {float(np.asarray(cat[0][1, 8].compare(other).heads)):.3f}" in shown.text("#apart")
    assert "warm.regard" in shown.text("#view-compare h3 >> nth=1")


def test_shift_click_on_a_head_compares_with_it(shown: Shown) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1")
    shown.page.click("#overview [data-head='3.3']", modifiers=["Shift"])
    shown.ready()
    assert (shown.state["view"], shown.state["minus"]) == ("compare", "0.0.3.3")
    shown.click("#tab-matrix")
    assert shown.state["minus"] is None


# Search.


def test_search_finds_every_place_and_walks_them(shown: Shown, cat: Any) -> None:
    shown.go("x=2&l=1&h=8").press("/")
    shown.page.keyboard.type("mill")
    shown.page.wait_for_selector("#search [data-hit]")
    shown.ready()
    places = [at for at, token in enumerate(cat[2].tokens) if "mill" in token]
    hits = [int(hit) for hit in shown.look("data", "#search [data-hit]", "hit")]
    assert hits == places
    shown.press("Enter")
    assert shown.cell[0] == places[0]
    shown.press("Enter")
    assert shown.cell[0] == places[1]
    shown.press("Escape")
    assert not shown.visible("#search")
    assert shown.cell[0] == places[1]


def test_search_that_finds_nothing_says_so(shown: Shown) -> None:
    shown.go("l=1&h=8").click("#find")
    shown.page.keyboard.type("zebra")
    shown.page.wait_for_selector("#search [role=status]:text('0 places')")
    shown.press("Escape")
