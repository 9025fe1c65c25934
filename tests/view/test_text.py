"""Tokens and numbers as text: safe, and of a width that is known."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from regard.view.text import END, ISOLATE, clean, clip, clusters, number, pad, safe, ticks, width, wrap

ANY = st.text(st.characters(), max_size=12)  # halves of surrogates too


@given(ANY)
def test_a_clean_token_has_nothing_that_steers(token: str) -> None:
    for shown in (clean(token), safe(token).replace(ISOLATE, "").replace(END, "")):
        assert all(unicodedata.category(c)[0] not in "CZ" or c == " " for c in shown)
    assert clean(token)
    assert width(clean(token)) > 0
    clean(token).encode("utf-8")
    assert clean(token, unicode=False).isascii()
    assert clean(token, unicode=False).isprintable()


@given(ANY, st.integers(1, 12))
def test_clipped_and_padded(token: str, columns: int) -> None:
    shown = clean(token)
    assert width(clip(shown, columns)) <= columns
    for side in ("left", "right", "middle"):
        assert width(pad(clip(shown, columns), columns, side).replace(ISOLATE, "").replace(END, "")) == columns


@given(ANY)
def test_clusters_are_the_text(token: str) -> None:
    shown = clean(token)
    assert "".join(clusters(shown)) == shown
    assert sum(map(width, clusters(shown))) == width(shown)


@given(st.text("ab 猫é%", max_size=60), st.integers(2, 30))
def test_wrapped_lines_fit_and_lose_nothing(text: str, columns: int) -> None:
    lines = wrap(text, columns)
    assert all(width(line) <= columns for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_number_stays_beside_its_sign() -> None:
    assert wrap("gives 81 % of its attention", 8) == ["gives", "81 % of", "its atte", "ntion"]


def test_numbers_as_the_page_has_them() -> None:
    wanted = {0.81234: "0.812", 3.14e-5: "3.1e-5", 1.0: "1.000", 0.0: "0", -2.5: "-2.500", 1234.56: "1234.6"}
    assert {x: number(x) for x in wanted} == wanted


def test_wide_letters() -> None:
    assert [width(x) for x in ("猫", "각", "👩", "é", "e\u0301", "ไ", "\u200b", "Ａ")] == [2, 2, 2, 1, 1, 1, 0, 2]


@given(st.integers(1, 200000), st.integers(1, 300), st.integers(1, 40))
def test_ticks_are_apart(n: int, cells: int, apart: int) -> None:
    cells = min(cells, n)
    found = [place for place, _ in ticks(n, cells, apart)]
    assert found[0] == 0
    assert all(b - a >= min(apart, cells) - 1 for a, b in pairwise(found))
    assert all(0 <= place < cells for place in found)
