"""One bright cell in 67 million is seen at every zoom, and found by eye and hand alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.page.recorded import BRIGHT, LONG
from tests.page.shown import CLOSE, Shown, colours

LAYER, HEAD = BRIGHT
WHOLE = f"r=1&l={LAYER}&h={HEAD}&sinks=show"


def where(bright: Any) -> tuple[int, int]:
    found = next(x["where"] for x in bright.model["planted"] if x["kind"] == "cell")
    return found[0], found[1]


def grouped(n: int) -> str:
    """As the page writes it."""
    return str(n) if n < 10000 else f"{n:,}".replace(",", " ")


def test_it_is_seen_at_every_level_from_the_whole_to_one_cell(shown: Shown, bright: Any) -> None:
    i, j = where(bright)
    wanted = colours([float(bright[LAYER, HEAD][i, j])], LONG)
    shown.go(WHOLE)
    levels = [shown.levels()]
    for _ in range(20):
        a, b = levels[-1]
        step = shown.look("camera")["q"]["zoom"]  # cells of a pixel of the screen
        middle = [(x >> y << y) + 2**y / 2 for x, y in ((i, a), (j, b))]  # of the pixel that stands for many cells
        near = [(middle[0] + y * step, middle[1] + x * step) for y in (-1, 0, 1) for x in (-1, 0, 1)]
        assert np.abs(shown.pixels(near) - wanted).max(1).min() <= CLOSE, (a, b)
        if shown.text("#scale").startswith("1 cell = 112 px"):
            break
        shown.page.mouse.move(*shown.place(i, j))
        for _ in range(2 if max(a, b) else 6):  # from full resolution on in larger steps
            shown.page.mouse.wheel(0, -120)
        shown.page.mouse.move(5, 5)
        levels.append(shown.ready().levels())
    assert shown.text("#scale") == "1 cell = 112 px"
    assert sorted({a for a, _ in levels}) == list(range(6))


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_pixels_of_many_cells_are_exact_pools(shown: Shown, bright: Any, pool: str) -> None:
    i, j = where(bright)
    i0, j0 = (i - 200) // 4 * 4, (j - 200) // 4 * 4
    shown.go(f"{WHOLE}&top={i0 - 40}&left={j0 - 40}&za=4&zb=4&pool={pool}")  # a pixel of the screen is 4 × 4 cells
    assert shown.levels() == (2, 2)
    assert shown.text("#scale") == f"1 px = 4 × 4 cells, {pool}"
    assert shown.text("#exact") == "exact"
    cells = np.asarray(bright[LAYER, HEAD][i0 : i0 + 240, j0 : j0 + 400]).reshape(60, 4, 100, 4)
    pooled = cells.max((1, 3)) if pool == "max" else cells.mean((1, 3), dtype=np.float64)
    middle = [(i0 + 4 * y + 2, j0 + 4 * x + 2) for y in range(60) for x in range(100)]
    assert (pooled.max() > 0.9) == (pool == "max")  # the mean of 16 cells of which one is bright is not
    assert np.abs(shown.pixels(middle) - colours(pooled.ravel(), LONG)).max() <= CLOSE


def test_it_is_pinned_and_b_leads_to_it(shown: Shown, bright: Any) -> None:
    i, j = where(bright)
    shown.go(f"r=1&l={LAYER}&h={HEAD}")
    assert shown.look("drawn", i, j, 9) > 0.2  # something larger than the cell
    shown.press("b")
    assert shown.cell == (i, j)
    assert shown.sentence.startswith(f"'{bright.texts[0].tokens[i]}'")
    assert "99 %" in shown.sentence


def test_a_click_on_a_pixel_of_many_cells_chooses_the_brightest(shown: Shown, bright: Any) -> None:
    i, j = where(bright)
    shown.go(WHOLE)
    shown.page.mouse.click(*shown.place(i, j))
    assert shown.ready().cell == (i, j)


def test_hover_on_a_pixel_of_many_cells_says_what_it_is(shown: Shown, bright: Any) -> None:
    i, j = where(bright)
    shown.go(WHOLE)
    shown.page.mouse.move(*shown.place(i, j))
    shown.ready()
    a, b = shown.levels()
    first, key = i >> a << a, j >> b << b
    queries = f"{grouped(first)} to {grouped(first + 2**a - 1)}"
    keys = f"{grouped(key)} to {grouped(key + 2**b - 1)}"
    assert f"queries {queries} look with at most 0.992 at keys {keys}" in shown.sentence
    assert f"{2 ** (a + b)}" in shown.sentence
    shown.page.mouse.move(5, 5)
