"""The picture for notebooks: whole in itself, escaped, and of any size."""

from __future__ import annotations

import base64
import re
import zlib
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import regard
from regard.view import picture
from regard.view.picture import html
from regard.view.reading import CAUTION
from tests.view.drawn import LINE, ODD, WORDS, made

VOID = {"rect", "path", "image"}


class Page(HTMLParser):
    """Checks that what is opened is closed, and gathers what there is."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def pictures() -> dict[str, Any]:
    return {
        "small": made(WORDS),
        "masked": made(LINE, mask=regard.causal),
        "turned": made(LINE, mask=regard.causal).T,
        "odd": made(ODD),
        "long": made(n=3000, mask=regard.causal),
        "heads": made(LINE, heads=(2, 12), mask=regard.causal),
        "one": made(["x"]),
        "wide": regard.matrix(np.eye(2, 4), np.ones((700, 4))),
        "empty": regard.matrix(np.zeros((0, 2)), np.zeros((0, 2))),
        "words": made(["play", "##ing", "cat"]).words(),
    }


@pytest.mark.parametrize("name", pictures())
def test_it_fetches_nothing_and_runs_nothing(name: str) -> None:
    text = html(pictures()[name])
    page = Page(text)
    assert "http" not in text
    assert "script" not in text
    assert "@import" not in text
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "object", "embed", "img")]
    for _, attributes in page.tags:
        for key, value in attributes.items():
            assert not key.startswith("on")
            if key in ("src", "href", "srcset", "xlink:href"):
                assert str(value).startswith("data:image/png;base64,")
    for found in re.findall(r"url\(([^)]*)\)", text):
        assert found == "#regard-hatch"
    assert CAUTION in "".join(page.text)
    assert "prefers-color-scheme:dark" in text


def test_tokens_are_escaped() -> None:
    page = Page(html(made(["<b>", "&amp;", "'\"><script>alert(1)</script>", "\x00"])))
    assert "script" not in {tag for tag, _ in page.tags}
    assert "b" not in {tag for tag, _ in page.tags}
    text = "".join(page.text)
    assert "<b>" in text
    assert "&amp;" in text
    assert "\x00" not in text


def test_each_cell_of_a_small_matrix_says_its_number() -> None:
    A = made(WORDS, mask=regard.causal)
    for matrix in (A, A.T):
        text = "\n".join(Page(html(matrix)).text)
        assert text.count(" looks at '") >= 36
        assert f"'mice' looks at 'cat': {float(A[4, 2]):.3f}" in text
        assert "'The' looks at 'mice': hidden" in text


def test_titles_and_names() -> None:
    text = "".join(Page(html(made(LINE))).text)
    for part in ("query ↓ looks at", "key → is looked at", "window", "even spread 0.0526", "linear"):
        assert part in text
    turned = "".join(Page(html(made(LINE).T)).text)
    assert "key ↓ is looked at" in turned
    assert "query → looks at" in turned


def decoded(uri: str) -> np.ndarray[Any, Any]:
    """The places of a picture in its table."""
    data = base64.b64decode(uri.partition(",")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        assert zlib.crc32(name + body) == int.from_bytes(data[at + 8 + size : at + 12 + size], "big")
        chunks[name], at = body, at + 12 + size
    w, h = (int.from_bytes(chunks[b"IHDR"][i : i + 4], "big") for i in (0, 4))
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(h, w + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def test_a_long_matrix_is_pooled_and_its_mask_is_clear() -> None:
    page = Page(html(made(n=3000, mask=regard.causal)))
    map_of = decoded(str(page.named("image")[0]["href"]))
    assert map_of.shape == (250, 250)
    assert ((map_of == 0) == np.triu(np.ones((250, 250)), 1)).all()  # 0 is clear, and nothing visible is
    text = "".join(page.text)
    assert "1 cell = 12 × 12, max" in text
    assert "logarithmic" in text
    assert "hidden" in text
    assert len(html(made(n=3000))) < 400_000


def test_nan_has_its_own_place() -> None:
    q = np.ones((40, 2))
    q[7] = np.nan
    map_of = decoded(str(Page(html(regard.matrix(q, np.ones((40, 2)), mask=regard.causal))).named("image")[0]["href"]))
    assert (map_of[7, :8] == 1).all()
    assert (map_of == 1).sum() == 8
    assert (map_of[7, 8:] == 0).all()


def test_many_heads_are_a_grid_and_the_rest_is_counted() -> None:
    page = Page(html(made(LINE, heads=(2, 12), mask=regard.causal)))
    text = "".join(page.text)
    assert "head (1, 3)" in text
    assert "head (1, 4)" not in text
    assert "8 more" in text
    assert len([x for x in page.named("image") if x.get("class") == "day"]) == 16 + 1  # and the scale
    one = "".join(Page(html(made(LINE, heads=(2, 12)), head=(1, 4))).text)
    assert "head (1, 4) of 2 × 12" in one


def test_a_very_long_matrix_is_sampled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "CELLS", 1 << 18)
    A = made(n=1200, mask=regard.causal)
    page = Page(html(A))
    assert "sampled 240 of 1200 queries" in "".join(page.text)
    exact, sampled = (np.asarray(A.heatmap(240, pool="max")), decoded(str(page.named("image")[0]["href"])))
    assert sampled.shape == (240, 240)
    assert ((sampled == 0) == np.isnan(exact)).mean() > 0.99
    full = [float(A[int(i), : int(i) + 1].max()) for i in (2, 602, 1197)]  # the middle query of its bin
    for r, top in zip((0, 120, 239), full, strict=True):
        row = A.heatmap(1, 240, pool="max", region=(5 * r + 2, 5 * r + 3, 0, 1200))
        assert np.nanmax(np.asarray(row)) == pytest.approx(top)


def test_notebooks_find_it() -> None:
    A = made(WORDS)
    assert A._repr_html_() == html(A)
