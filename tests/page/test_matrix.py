"""The matrix: its pixels are the lens's numbers, and hands reach every cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.view.colour import DARK, LIGHT, Scale, ramp, rgb
from tests.page.shown import CLOSE, Array, Shown, colours

N = 133  # tokens of the longer text
PLAIN = "l=1&h=8&sinks=show"  # no column is greyed
SOME = [(i + 0.5, j + 0.5) for i in range(20) for j in range(N)]  # rows of the longer text


def every(n: int, within: float = 0.5) -> list[tuple[float, float]]:
    """A place in each cell; numbers in cells leave their corners free."""
    return [(i + within, j + within) for i in range(n) for j in range(n)]


def dense(matrix: Any) -> Array:
    found: Array = np.asarray(matrix[:])
    return found


# Colours.


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_sentence_in_colours(shown: Shown, cat: Any, theme: str) -> None:
    shown.go(f"{PLAIN}&theme={theme}")
    wanted = colours(dense(cat[0][1, 8]).ravel(), 6, LIGHT if theme == "light" else DARK)
    assert np.abs(shown.pixels(every(6, 0.12)) - wanted).max() <= CLOSE


def test_a_text_in_colours_by_magnitude(shown: Shown, cat: Any) -> None:
    shown.go(f"x=2&{PLAIN}")
    assert shown.levels() == (0, 0)
    wanted = colours(dense(cat[2][1, 8]).ravel(), N)
    assert np.abs(shown.pixels(every(N)) - wanted).max() <= CLOSE


def test_every_head_has_its_own(shown: Shown, cat: Any) -> None:
    shown.go("l=0&h=0&sinks=show")
    for layer, head in ((0, 2), (3, 7), (5, 11)):
        shown.click(f"#overview [data-head='{layer}.{head}']")
        wanted = colours(dense(cat[0][layer, head]).ravel(), 6)
        assert np.abs(shown.pixels(every(6, 0.12)) - wanted).max() <= CLOSE


def test_numbers_stand_in_large_cells(shown: Shown) -> None:
    shown.go(PLAIN)
    middle, corner = shown.pixels([(2.5, x) for x in np.linspace(3.3, 3.7, 40)]), shown.pixels([(2.12, 3.12)])
    assert np.abs(middle - corner).max() > 100  # .81 is written there


def test_special_tokens_are_greyed_and_can_be_shown_or_taken_out(shown: Shown, cat: Any) -> None:
    weights = dense(cat[0][1, 8])
    shown.go("l=1&h=8&i=2&j=3&pin=1")
    full, paper = colours(weights[:, 0], 6), np.array(rgb(LIGHT.paper))
    greyed = shown.pixels([(i + 0.12, 0.12) for i in range(6)])
    assert np.abs(greyed - (full + 0.55 * (paper - full))).max() <= CLOSE
    shown.press("x")
    assert shown.state["sinks"] == "show"
    assert np.abs(shown.pixels([(i + 0.12, 0.12) for i in range(6)]) - full).max() <= CLOSE
    shown.press("x")
    assert "without [CLS], [SEP]; not the model's weights" in shown.text("#title")
    less = dense(cat[0][1, 8].without([0, 5]))
    kept = weights[:, 1:5].sum(1) >= 0.1  # the other rows are hatched
    assert kept.tolist() == [False, True, True, True, True, False]
    free = [(i + 0.12, j + 0.12) for i in np.flatnonzero(kept) for j in range(1, 5)]
    assert np.abs(shown.pixels(free) - colours(less[kept, 1:5].ravel(), 6)).max() <= CLOSE
    assert f"{less[2, 3]:.3f}" in shown.text("#reading")
    shown.press("x")
    assert shown.text("#title") == ""


def test_turned_around_columns_are_queries(shown: Shown, cat: Any) -> None:
    shown.go(f"{PLAIN}&i=2&j=3&pin=1")
    before, sentence = shown.place(2, 3), shown.sentence
    shown.click("#turn")
    x, y = shown.place(2, 3)
    assert (x > shown.place(1, 3)[0], y) == (True, shown.place(1, 3)[1])  # queries lie beside each other
    assert (x, y) != before
    assert shown.sentence == sentence
    wanted = colours(dense(cat[0][1, 8]).ravel(), 6)
    assert np.abs(shown.pixels(every(6, 0.12)) - wanted).max() <= CLOSE
    shown.click("#turn")
    assert shown.place(2, 3) == before


def test_weight_times_value(shown: Shown, cat: Any) -> None:
    shown.go(f"{PLAIN}&i=2&j=3&pin=1").click("#of [data-value=length]")
    lengths = dense(cat[0][1, 8].norms())
    scale = Scale.of_weights(6, float(lengths.max()))
    assert np.abs(shown.pixels(every(6, 0.12)) - colours(lengths.ravel(), 6, scale=scale)).max() <= CLOSE
    assert f"{lengths[2, 3]:.3f}" in shown.text("#reading")
    assert shown.sentence.startswith(
        "The value vector of 'chased' adds 89 % of the weighted length: 'cat' gives 81 % of"
    )
    shown.click("#of [data-value=weight]")
    assert "0.812" in shown.text("#reading")


def test_words_and_tokens(shown: Shown, cat: Any) -> None:
    shown.go(f"x=2&{PLAIN}").click("#unit [data-value=words]")
    text = cat[2]
    words = text[1, 8].words(text.text)
    n = words.shape[-1]
    assert n < N
    wanted = colours(dense(words).ravel(), n)
    assert np.abs(shown.pixels(every(n)) - wanted).max() <= CLOSE
    assert "words" in shown.text("#meta")
    shown.click("#unit [data-value=tokens]")
    assert f"{N} tokens" in shown.text("#meta")


def test_colours_and_scale_change_at_once(shown: Shown, cat: Any) -> None:
    shown.go(f"x=2&{PLAIN}").press("c")
    weights = dense(cat[2][1, 8])[:20].ravel()
    shown.click("#set-scale [data-value=linear]")
    assert np.abs(shown.pixels(SOME) - colours(weights, N, scale=Scale("linear", 0, 1))).max() <= CLOSE
    shown.page.fill("#high", "0.25")
    shown.page.press("#high", "Enter")
    shown.ready()
    assert np.abs(shown.pixels(SOME) - colours(weights, N, scale=Scale("linear", 0, 0.25))).max() <= CLOSE
    shown.click("#reset")
    assert np.abs(shown.pixels(SOME) - colours(weights, N)).max() <= CLOSE
    shown.click("#set-map [data-value=grey]")
    grey = shown.pixels(SOME)
    assert (grey == grey[:, :1]).all()
    assert (np.diff(grey[np.argsort(weights), 0]) <= 0).all()  # the larger, the darker
    shown.press("Escape")
    assert not shown.visible("#colours")


def test_what_is_hidden_is_hatched_and_never_the_colour_of_0(shown: Shown) -> None:
    shown.go("r=1&l=0&h=0&sinks=show&top=0&left=0&za=0.05&zb=0.05")
    hidden = shown.pixels([(1 + x, 4 + y) for x in np.arange(0.075, 1, 0.05) for y in np.arange(0.075, 1, 0.05)])
    kinds = {tuple(colour) for colour in hidden.tolist()}
    assert len(kinds) > 1
    assert max(min(colour) for colour in kinds) < 240
    assert min(min(colour) for colour in kinds) > 150  # a neutral, not a weight
    assert max(max(colour) - min(colour) for colour in kinds) < 14


# Hands.


def test_the_wheel_zooms_about_the_cell_under_it_down_to_one(shown: Shown) -> None:
    shown.go(f"x=2&{PLAIN}")
    x, y = shown.place(55, 56)
    shown.page.mouse.move(x, y)
    for _ in range(40):
        shown.page.mouse.wheel(0, -120)
    shown.ready()
    assert np.hypot(*np.subtract(shown.place(55, 56), (x, y))) < 60  # still the same cell
    assert shown.text("#scale") == "1 cell = 112 px"
    assert shown.sentence.startswith("'the' at 55 gives 98 % of its attention in L1H8 to 'moon'")
    shown.page.mouse.wheel(0, 4000)
    for _ in range(40):
        shown.page.mouse.wheel(0, 120)
    shown.ready()
    assert shown.state["zoomA"] is None
    assert shown.state["zoomB"] is None


def test_shift_and_alt_zoom_one_way(shown: Shown) -> None:
    shown.go(f"x=2&{PLAIN}")
    shown.page.mouse.move(*shown.place(60, 60))
    for key, changed, kept in (("Shift", "zoomB", "zoomA"), ("Alt", "zoomA", "zoomB")):
        before = shown.state
        shown.page.keyboard.down(key)
        shown.page.mouse.wheel(0, -240)
        shown.page.keyboard.up(key)
        after = shown.ready().state
        assert after[changed] != before[changed]
        assert after[kept] == before[kept]


def test_dragging_moves_what_is_under_the_hand(shown: Shown) -> None:
    shown.go(f"x=2&{PLAIN}&top=30&left=30&za=0.1&zb=0.1")
    x, y = shown.place(60, 50)
    shown.page.mouse.move(x, y)
    shown.page.mouse.down()
    shown.page.mouse.move(x + 60, y - 40, steps=4)
    shown.page.mouse.up()
    shown.ready()
    assert np.abs(np.subtract(shown.place(60, 50), (x + 60, y - 40))).max() <= 1
    assert shown.state["i"] is None  # it was no click


def test_a_box_is_zoomed_to(shown: Shown) -> None:
    shown.go(f"x=2&{PLAIN}")
    (x0, y0), (x1, y1) = shown.place(40, 50), shown.place(49, 59)
    shown.page.keyboard.down("Shift")
    shown.page.mouse.move(x0, y0)
    shown.page.mouse.down()
    shown.page.mouse.move(x1, y1, steps=3)
    shown.page.mouse.up()
    shown.page.keyboard.up("Shift")
    shown.ready()
    q, k = (shown.look("camera")[axis] for axis in "qk")
    assert q["at"] <= 40
    assert q["at"] + q["seen"] >= 50
    assert k["at"] <= 50
    assert k["at"] + k["seen"] >= 60
    assert min(q["seen"], k["seen"]) <= 10.01


def test_a_click_chooses_a_cell_and_its_sentence_is_that_of_explain(shown: Shown, cat: Any) -> None:
    shown.go("l=1&h=8")
    for i, j in ((4, 5), (1, 2), (3, 0)):
        shown.page.mouse.click(*shown.place(i, j))
        assert shown.ready().cell == (i, j)
        assert shown.sentence == cat[0][1, 8].explain(i, j).replace("attention to", "attention in L1H8 to")
    shown.page.mouse.move(5, 5)
    shown.press("Escape")
    assert shown.cell == (None, None)


def test_hover_tells_and_does_not_choose(shown: Shown, cat: Any) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1")
    shown.page.mouse.move(*shown.place(3, 4))
    assert shown.ready().sentence.startswith("'chased' gives 79 % of its attention in L1H8 to 'mice'")
    assert shown.cell == (2, 3)
    shown.page.mouse.move(5, 5)
    assert shown.ready().sentence.startswith("'cat' gives 81 %")


def test_the_five_largest_of_row_and_column(shown: Shown, cat: Any) -> None:
    shown.go("x=2&l=2&h=5&i=20&j=21&pin=1")
    weights = dense(cat[2][2, 5])
    rows = shown.look("tops")
    assert rows[0] == np.argsort(-weights[20], kind="stable")[:5].tolist()
    assert rows[1] == np.argsort(-weights[:, 21], kind="stable")[:5].tolist()
    shown.click("#reading ol >> nth=0 >> [data-at] >> nth=1")  # a bar leads to its cell
    assert shown.cell == (20, rows[0][1])


def test_a_name_of_a_row_or_column_chooses_it(shown: Shown, cat: Any) -> None:
    shown.go("l=1&h=8")
    weights, (x, y) = dense(cat[0][1, 8]), shown.place(3, 0)
    left = shown.place(3, -1)[0] - 10
    shown.page.mouse.click(left, y)  # the name of query 3
    assert shown.ready().cell == (3, 4)  # 'mice' is what it looks at most
    x, top = shown.place(0, 2)[0], shown.place(0, 2)[1]
    height = shown.place(1, 2)[1] - top
    shown.page.mouse.click(x + 2, top - 0.5 * height - 8)  # the name of key 2
    i, j = shown.ready().cell
    assert j == 2
    assert i == np.argmax(np.where(np.arange(6) == 2, 0, weights[:, 2]))


def test_the_cell_in_all_heads(shown: Shown, cat: Any) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1")
    wanted = np.array([[np.asarray(cat[0][layer, h][2, 3]) for h in range(12)] for layer in range(6)])
    every_head, squares = [f"L{layer}H{h}" for layer in range(6) for h in range(12)], "#reading .everyhead button"
    assert [title.split(":")[0] for title in shown.look("titles", squares)] == every_head
    assert np.abs(np.array(shown.look("papers", squares)) - colours(wanted.ravel(), 6)).max() <= CLOSE


def test_pictures_of_heads_are_their_weights(shown: Shown, cat: Any) -> None:
    shown.go(PLAIN)
    for layer, head in ((0, 2), (1, 8), (5, 3)):
        found = shown.sheet(f"#overview [data-head='{layer}.{head}'] canvas")
        assert found.shape == (6, 6, 3)
        wanted = colours(dense(cat[0][layer, head]), 6)
        assert np.abs(found - wanted).max() <= CLOSE


def test_the_scale_of_colours_is_that_of_the_terminal(shown: Shown) -> None:
    shown.go(f"x=2&{PLAIN}")
    assert np.abs(shown.sheet("#strip")[0] - ramp(LIGHT.ramp)).max() <= CLOSE
