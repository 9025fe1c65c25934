"""Opening the page: what a person sees in the first thirty seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.page.recorded import SENTENCE
from tests.page.shown import STOPPED, Server, Shown, Stage


def test_the_first_thirty_seconds(opened: Callable[..., Shown], cat: Any) -> None:
    shown = opened()
    # The text as typed, and what it is.
    assert shown.text("#typed #text") == SENTENCE
    meta = shown.text("#meta")
    assert "all-MiniLM-L6-v2 · 6 × 12 heads · 6 tokens · reads both directions" in meta
    # A telling head, and one cell of it chosen.
    assert shown.text("#head") == "L1H8"
    assert shown.cell == (2, 3)
    assert shown.sentence == cat[0][1, 8].explain(2, 3).replace("attention to", "attention in L1H8 to")
    assert shown.sentence.startswith("'cat' gives 81 % of its attention in L1H8 to 'chased', 4.9 times an even spread")
    reading = shown.text("#reading")
    assert "cat → chased" in reading
    assert "81 %" in reading
    assert "0.812" in reading  # the number, to three digits
    # The lesson, and the three cards.
    assert shown.text("#lesson").startswith("This head gives 54 % to the next token whatever it is")
    assert "'Mice chased the cat'" in shown.text("#lesson")
    cards = [card.inner_text() for card in shown.page.query_selector_all("#cards .card")]
    assert sorted(cards[:2]) == ["L0H2 previous token > 99.9 %", "L1H8 next token 54 %"]
    assert cards[2] == "63 of 72 heads rest mostly on [CLS] and [SEP]"  # a line, no button
    assert shown.page.eval_on_selector("#cards .quiet", "(card) => [card.tagName, card.dataset.head]") == ["P", None]
    assert shown.look("cut", "#cards .card") == []
    # The overview: every head at its place, the one in view marked.
    assert shown.look("data", "#overview [data-head]", "head") == [
        f"{layer}.{h}" for layer in range(6) for h in range(12)
    ]
    assert shown.look("data", "#overview [aria-selected=true]", "head") == ["1.8"]
    # One hint, gone after the first act. No dialog, no tour.
    assert shown.text("#hint") == "hover a word · click a head · scroll to zoom"
    assert shown.page.query_selector("dialog[open]") is None
    shown.click("#overview [data-head='0.2']")
    assert not shown.visible("#hint")
    assert shown.text("#head") == "L0H2"


def test_the_lesson_leads_to_the_other_text(shown: Shown) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1").click("#lesson button")
    assert shown.text("#typed #text") == "Mice chased the cat"
    assert shown.state["x"] == 1
    shown.page.go_back()
    assert shown.ready().text("#typed #text") == SENTENCE


def test_cards_choose_their_head(shown: Shown) -> None:
    shown.go("l=4&h=4").click("#cards [data-head='0.2']")
    assert shown.text("#head") == "L0H2"
    assert shown.cell == (2, 1)
    assert "'cat' gives" in shown.sentence


def test_the_address_is_the_view(shown: Shown, opened: Callable[..., Shown]) -> None:
    shown.go("x=2&l=1&h=8&i=9&j=10&pin=1&top=3&left=5&za=0.1&zb=0.1&sinks=show&map=grey&turn=1&pool=mean")
    shown.click("#after")
    told, state, sentence = shown.hash, shown.state, shown.sentence
    again = opened(told)
    assert again.hash == told
    assert again.state == state
    assert again.sentence == sentence
    assert "L1H9" in sentence


def test_back_undoes_each_act(shown: Shown) -> None:
    shown.go("l=1&h=8&i=2&j=3&pin=1")
    x, y = shown.place(4, 4)
    shown.page.mouse.click(x, y)
    assert shown.ready().cell == (4, 4)
    shown.page.mouse.move(5, 5)
    shown.click("#overview [data-head='3.3']")
    shown.click("#tab-distance")
    shown.page.go_back()
    assert shown.ready().state["view"] == "matrix"
    assert shown.text("#head") == "L3H3"
    shown.press("Backspace")
    assert shown.text("#head") == "L1H8"
    assert shown.cell == (4, 4)
    shown.press("Backspace")
    assert shown.cell == (2, 3)


@pytest.mark.parametrize(
    "hash", ["l=9&h=99&i=3&j=3", "x=77", "r=4&view=nothing", "za=-1&zb=1e999&top=NaN", "l=1&h=8&i=7&j=9"]
)
def test_an_address_that_says_nonsense_shows_what_there_is(shown: Shown, hash: str) -> None:
    shown.go(hash, fresh=True)
    assert shown.text("#typed #text") == SENTENCE
    assert shown.text("#head").startswith("L")
    assert shown.visible("#view-matrix")


def test_a_wrong_token_is_one_sentence(stage: Stage, opened: Callable[..., Shown]) -> None:
    assert stage.browser is not None
    assert stage.server is not None
    with stage.browser.new_context() as context:
        page = context.new_page()
        root = stage.server.url.rsplit("/", 2)[0]
        answer = page.goto(f"{root}/wrong/")
        assert answer is not None
        assert answer.status == 403
        assert "the token is missing or wrong, expected the address that the server printed" in page.content()


def test_ctrl_c_ends_it_and_an_open_page_says_so(stage: Stage, read: Path) -> None:
    assert stage.browser is not None
    with Server(read) as server, stage.browser.new_context() as context:
        shown = Shown(context, server.url)
        shown.go("l=1&h=8", fresh=True)
        assert server.stop() == (STOPPED, "")
        shown.page.click("#overview [data-head='4.4']")
        shown.page.wait_for_selector("#notes:not(:empty)")
        assert shown.text("#notes").endswith(".")
