"""The picture and the page: well-formed, whole in themselves, and with the real numbers in them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.view.colour import DARK, LIGHT
from regard.view.reading import CAUTION
from tests.trace.traced import designed, dog, numbers, variants
from tests.view.drawn import ODD
from tests.view.test_picture import Page

VARIANTS = variants()
SVG = "{http://www.w3.org/2000/svg}"


def drawn(t: Any, **more: Any) -> ET.Element:
    return ET.fromstring(str(t.diagram(**more)))


def texts(root: ET.Element) -> list[str]:
    return ["".join(x.itertext()) for x in root.iter(f"{SVG}text")]


def places(root: ET.Element) -> dict[str, float]:
    """Where across the picture each title stands."""
    return {
        (x.text or "").partition(" =")[0]: float(x.get("x", 0))
        for x in root.iter(f"{SVG}text")
        if x.get("class") == "b"
    }


def test_the_numbers_of_every_step_are_in_it() -> None:
    found = texts(drawn(dog(), row="dog"))
    for number in ("1.0", "3.0", "0.6", "−0.2", "0.9", "−0.10", "2.00", "1.40", "3.50", "1.916", "0.448", "0.172",
                   "0.380", "1.275", "2.364"):  # fmt: skip
        assert number in found, number
    assert {"X", "W_Q", "W_K", "W_V", "Q = X·W_Q", "K = X·W_K", "V = X·W_V", "S′ = Q·Kᵀ / √2", "A = softmax(S′)",
            "Z = A·V"} <= set(found)  # fmt: skip
    assert "Z[dog] = 0.448·V[dog] + 0.172·V[ate] + 0.380·V[dinner]" in found
    assert " ".join(found[-1:]) in CAUTION


def test_it_reads_from_the_left_to_the_right() -> None:
    at = places(drawn(dog()))
    order = ["X", "W_Q", "Q", "S′", "A", "Z"]
    assert sorted(order, key=at.__getitem__) == order
    assert at["W_Q"] == at["W_K"] == at["W_V"]
    heads = places(drawn(regard.trace(**VARIANTS["heads"])))
    assert heads["Z"] < heads["M"] < heads["Y"]


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("theme", ["auto", "dark"])
def test_it_is_well_formed_and_fetches_nothing(name: str, theme: str) -> None:
    t = regard.trace(**VARIANTS[name])
    text = str(t.diagram(theme=theme))
    root = ET.fromstring(text)
    assert text.count("http") == 1  # the name of the format, which no one fetches
    assert not [x for x in root.iter() if x.tag.split("}")[1] in ("script", "image", "use", "a", "foreignObject")]
    assert set(re.findall(r"url\(([^)]*)\)", text)) <= {f"#regard-hatch-{theme}"}
    w, h = float(root.get("width", 0)), float(root.get("height", 0))
    for x in root.iter(f"{SVG}rect"):
        if x.get("x"):
            assert 0 <= float(x.get("x", 0)) <= w - float(x.get("width", 0))
            assert 0 <= float(x.get("y", 0)) <= h - float(x.get("height", 0))


def test_matrices_do_not_lie_on_each_other() -> None:
    for name in VARIANTS:
        root = drawn(regard.trace(**VARIANTS[name]))
        edges = [x for x in root.iter(f"{SVG}rect") if x.get("class") == "edge"]
        boxes = [tuple(float(x.get(k, 0)) for k in ("x", "y", "width", "height")) for x in edges]
        for i, (x, y, w, h) in enumerate(boxes):
            for a, b, c, d in boxes[:i]:
                assert x + w <= a or a + c <= x or y + h <= b or b + d <= y, name


def test_scores_diverge_about_zero_and_what_is_hidden_is_hatched() -> None:
    text = str(regard.trace(**VARIANTS["masked"]).diagram())
    assert text.count("fill='url(#regard-hatch-auto)'><title>") == 6  # of 4 × 4 under a causal mask
    assert "scores, about 0:" in text
    assert ">hidden</text>" in text
    assert "hidden" not in texts(drawn(dog()))


def test_light_and_dark() -> None:
    light, dark, both = (str(dog().diagram(theme=theme)) for theme in ("light", "dark", "auto"))
    assert LIGHT.paper in light
    assert "prefers-color-scheme" not in light
    assert DARK.paper in dark
    assert LIGHT.ink not in dark
    assert "prefers-color-scheme:dark" in both


def test_a_long_one_is_cut_and_says_its_shapes() -> None:
    t = regard.trace(q=numbers(300, 64), k=numbers(300, 64, seed=1), v=numbers(300, 64, seed=2))
    root = drawn(t)
    found = texts(root)
    assert "300 × 64" in found
    assert "300 × 300" in found
    assert "⋮" in found
    assert "…" in found
    assert float(root.get("width", 0)) < 2400


def test_it_can_be_saved(tmp_path: Path) -> None:
    diagram = designed().diagram()
    diagram.save(tmp_path / "attention.svg")
    text = (tmp_path / "attention.svg").read_text(encoding="utf-8")
    assert text == str(diagram) + "\n"
    assert diagram._repr_svg_() == str(diagram)
    assert repr(diagram) == "Diagram: 4 × 4 weights, SVG; save('attention.svg') writes it"
    with pytest.raises(ValueError, match=r"^path is 'a.png', expected a name that ends in .svg: the diagram is SVG$"):
        diagram.save("a.png")


def test_odd_tokens_do_no_harm() -> None:
    n = len(ODD) - 1  # one of them is half of a pair of surrogates, which no file can hold as it is
    tokens = [x for x in ODD if x != "\ud800"]
    t = regard.trace(q=numbers(n, 2), k=numbers(n, 2, seed=1), v=numbers(n, 2, seed=2), tokens=tokens)
    for row in range(n):
        ET.fromstring(str(t.diagram(row=row)))


@pytest.mark.parametrize("name", [*VARIANTS, "dog"])
def test_the_page_is_whole_in_itself(name: str) -> None:
    t = dog() if name == "dog" else regard.trace(**VARIANTS[name])
    for text in (t._repr_html_(), t.to_html(), t.grad(1.0)._repr_html_(), t.grad(1.0).to_html()):
        void = re.sub(r"<meta[^>]*>", "", text.replace("<!doctype html>", ""))
        page = Page(re.sub(r"<(rect|path)([^>]*[^/])></\1>", r"<\1\2/>", void))
        assert not [tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "object", "embed", "img")]
        assert "@import" not in text
        assert text.count("http") == text.count("<svg")
        assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    assert " ".join(t.to_html().split()).count(CAUTION) == 1
    assert t.to_html().startswith("<!doctype html>")


def test_the_page_has_the_picture_and_the_sums() -> None:
    text = dog().to_html(row="dog")
    assert text.count("<svg") == 1
    assert "q[dog]·k[ate] = −0.10·0.45 + 2.00·0.70 = 1.3550" in text
    assert "prefers-color-scheme:dark" in text
    assert text.count("<h2>") == 5
