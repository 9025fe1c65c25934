"""Figures of matplotlib, where it is installed, and one sentence where it is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import MissingError, QuestionError
from tests.view.drawn import LINE, ODD, WORDS, made

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def test_one_head_with_its_tokens() -> None:
    ax = made(WORDS, mask=regard.causal).plot()
    assert [x.get_text() for x in ax.get_yticklabels()] == WORDS
    assert [x.get_text() for x in ax.get_xticklabels()] == WORDS
    assert ax.get_ylabel() == "query ↓ looks at"
    assert ax.get_xlabel() == "key → is looked at"
    ax.figure.canvas.draw()


def test_the_picture_is_the_matrix() -> None:
    A = made(WORDS, mask=regard.causal)
    for matrix in (A, A.T):
        ax = matrix.plot()
        shown = ax.images[0].get_array()
        assert np.allclose(shown, np.asarray(matrix[...]), atol=1e-6)
        # What is hidden is not drawn: the hatched ground is seen instead, which has no colour of the ramp.
        built = np.asarray(matrix.scores[...])
        assert np.array_equal(ax.images[0].get_alpha(), np.where(np.isfinite(built), 1.0, 0.0))
        assert ax.patch.get_hatch()
    assert A.T.plot().get_ylabel() == "key ↓ is looked at"


def test_an_axes_that_is_given_is_used() -> None:
    figure, ax = plt.subplots()
    assert made(WORDS).plot(ax=ax) is ax
    assert made(WORDS, heads=(3,)).plot(1, ax=ax) is ax
    figure.canvas.draw()


def test_a_grid_of_heads() -> None:
    axes = made(LINE, heads=(12,), mask=regard.causal).plot()
    assert axes.shape == (3, 4)
    assert [ax.get_title() for ax in axes.flat] == [f"head {i}" for i in range(12)]
    assert made(WORDS, heads=(2, 20)).plot().shape == (4, 4)
    assert made(WORDS, heads=(12,)).plot(3).get_title() == "head 3 of 12 · 6 queries × 6 keys"
    axes[0, 0].figure.canvas.draw()


def test_long_matrices_are_pooled_on_a_logarithmic_scale() -> None:
    ax = made(n=1200, mask=regard.causal).plot(bins=100)
    image = ax.images[0]
    assert image.get_array().shape == (100, 100)
    assert isinstance(image.norm, matplotlib.colors.LogNorm)
    assert (image.norm.vmin, image.norm.vmax) == (1 / 12000, 1.0)
    assert image.get_extent() == [-0.5, 1199.5, 1199.5, -0.5]
    ax.figure.canvas.draw()


def test_scores_go_both_ways() -> None:
    ax = made(WORDS).plot(scores=True)
    norm = ax.images[0].norm
    assert norm.vmin == -norm.vmax
    ax.figure.canvas.draw()


def test_odd_tokens_are_drawn_as_they_are() -> None:
    tokens: list[Any] = ["$x^2$", "a_{b", *ODD]
    ax = made(tokens).plot()
    assert ax.get_yticklabels()[0].get_text() == "$x^2$"
    assert not any("\x1b" in x.get_text() for x in ax.get_xticklabels())
    with pytest.warns(UserWarning, match="Glyph"):  # the font that comes with it lacks some
        ax.figure.canvas.draw()


def test_options_go_to_imshow() -> None:
    ax = made(WORDS).plot(cmap="viridis", vmin=0, vmax=0.5)
    assert ax.images[0].get_cmap().name == "viridis"
    assert ax.images[0].norm.vmax == 0.5
    ax.figure.canvas.draw()


def test_dark_figures_have_the_dark_colours() -> None:
    from regard.view.colour import DARK, rgb

    with plt.style.context("dark_background"):
        ax = made(WORDS, mask=regard.causal).plot()
    assert np.allclose(np.multiply(ax.get_facecolor()[:3], 255), rgb(DARK.hidden))


def test_a_head_by_name() -> None:
    A = made(WORDS, heads=(2, 3))
    assert A.plot("L1H1").get_title() == A.plot((1, 1)).get_title()


def test_dots_are_for_the_terminal() -> None:
    message = r"^layout is 'dots', but plot draws shades alone: leave it out, or use show\(layout='dots'\)$"
    with pytest.raises(QuestionError, match=message):
        made(WORDS).plot(layout="dots")


def test_nothing_to_draw() -> None:
    made(n=1).plot().figure.canvas.draw()
    regard.matrix(np.zeros((0, 2)), np.zeros((3, 2))).plot().figure.canvas.draw()


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingError, match=r"^plot needs matplotlib, .* pip install 'regard\[plot\]', or use show\(\)$"
    ):
        made(WORDS).plot()
    assert issubclass(MissingError, ImportError)
