"""Colour maps are even in lightness, and scales are what the page says."""

from __future__ import annotations

import re
from dataclasses import asdict
from importlib.resources import files

import numpy as np
import pytest

from regard.view import colour
from regard.view.colour import DARK, HUES, LIGHT, Scale, Theme, nearest, oklab, ramp, rgb


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_ramps_are_even_in_lightness(theme: Theme) -> None:
    for stops in (theme.ramp, theme.negative):
        light = oklab(ramp(stops))[:, 0]
        steps = np.diff(light) * np.sign(light[-1] - light[0])
        assert (steps > -2e-3).all()  # rounded to 8 bits
        assert np.allclose(light, np.linspace(light[0], light[-1], 256), atol=4e-3)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_256_colours_keep_the_order(theme: Theme) -> None:
    levels = np.arange(6) * 40 + 55
    levels[0] = 0
    cube = [(r, g, b) for r in levels for g in levels for b in levels] + [(8 + 10 * i,) * 3 for i in range(24)]
    light = oklab(cube)[:, 0]
    chosen = light[[nearest(tuple(map(int, c))) - 16 for c in ramp(theme.ramp)]]
    chosen = chosen * np.sign(chosen[-1] - chosen[0])
    assert (np.diff(chosen) > -0.04).all()


def test_linear_up_to_64_keys_and_logarithmic_from_there() -> None:
    assert Scale.of_weights(64) == Scale("linear", 0.0, 1.0)
    assert Scale.of_weights(65) == Scale("logarithmic", 1 / 650, 1.0)
    scale = Scale.of_weights(131072)
    assert scale.place(1 / 131072) > 0.1  # an even weight can be seen
    for place in (0.0, 0.3, 1.0):
        assert scale.place(scale.value(place)) == pytest.approx(place)
        assert Scale.of_scores(3.0).place(Scale.of_scores(3.0).value(place)) == pytest.approx(place)


def test_zero_is_in_the_middle_of_scores() -> None:
    scale = Scale.of_scores(4.0)
    assert scale.place([-4.0, 0.0, 4.0]).tolist() == [0.0, 0.5, 1.0]
    for theme in (LIGHT, DARK):
        assert scale.table(theme)[[127, 128]].tolist() == [ramp(theme.ramp)[0].tolist()] * 2
    assert Scale.of_scores(0.0).high == Scale.of_scores(float("inf")).high == 1.0


def test_every_value_has_a_place() -> None:
    for scale in (Scale.of_weights(9), Scale.of_weights(999), Scale.of_scores(1.0)):
        places = scale.index(np.array([-5.0, 0.0, 1e-30, 0.5, 7.0, np.nan]))
        assert places.min() >= 0
        assert places.max() <= 255


# The page has these colours in a module of its own.


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_page_has_the_same_themes(name: str) -> None:
    page = (files("regard.view") / "page" / "colour.js").read_text("utf-8")
    found = re.search(rf"export const THEMES = {{.*?\b{name}: {{(.*?)\n  }}", page, re.DOTALL)
    assert found is not None
    single = dict(re.findall(r'(\w+): "(#\w{6})"', found[1]))
    several = {key: tuple(re.findall(r"#\w{6}", stops)) for key, stops in re.findall(r"(\w+): \[(.*?)\]", found[1])}
    wanted = asdict(LIGHT if name == "light" else DARK)
    assert {key: (single | several).get(key) for key in wanted} == wanted


def test_the_page_has_the_same_hues_and_scales() -> None:
    page = (files("regard.view") / "page" / "colour.js").read_text("utf-8")
    patterns = page[page.index("export const PATTERNS") :]
    assert {letter: rgb(hue) for letter, hue in re.findall(r'(\w): \["[\w ]+", "(#\w{6})"\]', patterns)} == HUES
    for number in ("LINEAR_UP_TO", "REACH"):
        assert f"{number} = {getattr(colour, number)};" in page
