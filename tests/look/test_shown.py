"""What is seen of a text: it fits every window, with and without colours, for few heads and for many."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest

import regard
from regard.lens.telling import telling
from regard.lens.wording import number
from regard.view.look import Look, beside, onward
from regard.view.overview import Overview, overview, small
from regard.view.picture import html
from regard.view.reading import CAUTION
from regard.view.screen import Screen
from tests.lens.test_explain import FORBIDDEN
from tests.view.drawn import LINE, ODD, WORDS, Terminal, plain, widest

WIDTHS = (40, 80, 200)


def layers(count: int, heads: int, tokens: list[str] | None, n: int = 0, **more: Any) -> list[Any]:
    """Random heads, none of them strong; of the first layer one looks at the token before, one has a bright cell."""
    rng = np.random.default_rng(3)
    n = n or len(tokens or ())
    found = []
    for i in range(count):
        q, k = rng.standard_normal((2, heads, n, 32)).astype(np.float32)
        q *= 0.03
        if i == 0 and 2 < n <= 32:
            q[0], k[0] = 40 * np.eye(n, 32, -1, np.float32), np.eye(n, 32, dtype=np.float32)
        if i == 0 and 5 < n <= 32 and heads > 1:
            q[1], k[1] = 0, np.eye(n, 32, dtype=np.float32)
            q[1, 4, 2] = 1.5
        found.append(regard.matrix(q, k, scale=1.0, tokens=tokens, **more))
    return found


def shown(look: Look, width: int = 80, colour: Any = False, file: Any = None) -> str:
    file = file or io.StringIO()
    look.show(file=file, width=width, colour=colour)
    return str(file.getvalue())


ONWARD = [("regard look ... --head L1H8", "this head whole"), ("regard look ... -o run.regard", "keep it")]


@pytest.mark.parametrize(("width", "colour"), [(40, False), (40, "full"), (80, 256), (80, False), (200, "full")])
@pytest.mark.parametrize(
    ("count", "heads", "tokens", "n", "mask"),
    [
        (6, 12, WORDS, 0, None),
        (2, 12, LINE, 0, regard.causal),
        (1, 1, WORDS, 0, regard.causal),
        (2, 3, ODD, 0, None),
        (1, 2, None, 100, regard.causal),
        (3, 1, None, 1, None),
    ],
)
def test_it_fits_its_window(width: int, colour: Any, count: int, heads: int, tokens: Any, n: int, mask: Any) -> None:
    text = None if tokens is None else " ".join(tokens) * 5
    look = Look(layers(count, heads, tokens, n, mask=mask), text, "a model", other="the same", onward=ONWARD, top=3)
    whole = shown(look, width, colour)
    assert widest(whole) <= width, whole
    assert colour or "\x1b" not in whole
    screen = Screen.of(io.StringIO(), width, None, colour)
    for lines in (look.brief(screen), *look.one(screen, 0, 0)):
        assert widest("\n".join(lines)) <= width, lines


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("count", "heads"), [(32, 32), (40, 64)])
def test_many_heads_fit_too(width: int, count: int, heads: int) -> None:
    found = telling(layers(count, heads, WORDS))
    lines = overview(Screen.of(io.StringIO(), width, None, "full"), layers(count, heads, WORDS), found)
    assert widest("\n".join(lines)) <= width
    grid = [line for line in plain("\n".join(lines)) if re.match(r"L\d", line)]
    assert len(grid) == count
    if count * heads > 2000:
        assert grid[0].split() == ["L0", "P", "1", "·", "63"]
        assert grid[-1].split() == [f"L{count - 1}", "·", "64"]
    else:
        assert grid[0].count("P") == 1
        assert [line[3:].count("·") for line in grid] == [31, *[32] * 31]


def test_a_share_of_all_has_a_letter_where_there_is_room_for_one() -> None:
    found = layers(2, 12, WORDS)
    lines = plain("\n".join(overview(Screen.of(io.StringIO(), 40, None, False), found, telling(found))))
    assert "PX" in next(line for line in lines if line.startswith("L0"))
    assert "share in tenths, X for 10" in " ".join(" ".join(lines).split())


def test_a_band_for_what_is_wider_than_the_window() -> None:
    found = layers(2, 50, WORDS)
    made = Overview(Screen.of(io.StringIO(), 40, None, False), found, telling(found))
    lines = made.lines()
    assert [line[:2] for line in lines if line.startswith("L")] == ["L0", "L1", "L0", "L1"]
    assert "H37" in " ".join(lines)


def test_what_is_always_there() -> None:
    text = shown(Look(layers(6, 12, WORDS), "The cat chased mice", "a model", other="Mice it was", onward=ONWARD))
    flat = " ".join(text.split())
    for part in (
        "The cat chased mice a model · 6 × 12 heads · 6 tokens · reads both directions",
        "P previous token",
        "of 72 heads",
        "(an even spread: 33 %).",
        "L0H0 previous token",
        "query ↓ looks at",
        "key → is looked at",
        "times an even spread over 6 tokens",
        "to the previous token whatever it is, so try 'Mice it was'.",
        CAUTION,
        "regard look ... --head L1H8 this head whole",
    ):
        assert part in flat, part
    assert flat.count(CAUTION) == 1
    for line in flat.replace("look ...", "look").replace("None of 72", "Some").split(". "):
        found = FORBIDDEN.search(line)
        assert found is None, line


def test_the_text_is_cut_and_its_directions_are_told() -> None:
    screen = Screen.of(io.StringIO(), 40, None, False)
    look = Look(layers(1, 1, WORDS, mask=regard.causal), "word " * 500)
    lines = look.heading(screen)
    assert len(lines) == 5
    assert lines[2].endswith("…")
    assert "reads from left to right" in " ".join(lines)
    assert "reads" not in " ".join(Look(layers(1, 1, WORDS, mask=regard.window(2, 2))).heading(screen))
    both = [*layers(1, 1, WORDS), *layers(1, 1, WORDS, mask=regard.causal)]
    assert "reads" not in " ".join(Look(both).heading(screen))
    assert "\x1b" not in "".join(Look(layers(1, 1, WORDS), "evil \x1b[31m text").heading(screen))


def test_a_small_picture_shows_the_words_alone() -> None:
    (A,) = layers(1, 2, WORDS)
    found = small(A, 4)
    assert found.shape == (2, 4, 4)
    assert np.allclose(found, np.asarray(A[...])[:, 1:5, 1:5])
    assert np.array_equal(small(A, 9), found.repeat(2, axis=1).repeat(2, axis=2))
    (B,) = layers(1, 1, None, n=300, mask=regard.causal)
    part = small(B, 6)
    assert part.shape == (1, 6, 6)
    assert np.isnan(part[0, 0, 1:]).all()
    dense = np.asarray(B[0]).reshape(6, 50, 6, 50).max((1, 3))
    assert np.allclose(part[0][~np.isnan(part[0])], dense[~np.isnan(part[0])])
    assert np.array_equal(np.isnan(part[0]), np.triu(np.ones((6, 6)), 1) > 0)
    assert small(B, 6, sample=30).shape == (1, 6, 6)


def test_pictures_come_with_colours_and_letters_without() -> None:
    found = layers(6, 12, WORDS)
    look = Look(found, "x")
    assert Overview(Screen.of(None, 80, None, "full"), found, look.telling).side == 4
    assert Overview(Screen.of(None, 80, None, False), found, look.telling).side == 0
    assert Overview(Screen.of(None, 40, None, "full"), found, look.telling).side == 0
    assert "▀" in shown(look, 80, "full").split("P previous")[0]
    assert "▸P100" in shown(look, 80).replace("99", "100")


@pytest.mark.parametrize("name", ["NO_COLOR", "TERM"])
def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    look = Look(layers(2, 2, WORDS), "x")
    assert "\x1b[" in shown(look, colour=None, file=Terminal())
    monkeypatch.setenv(name, "1" if name == "NO_COLOR" else "dumb")
    assert "\x1b" not in shown(look, colour=None, file=Terminal())


def test_letters_that_a_terminal_has() -> None:
    shown(Look(layers(2, 4, ODD), "naïve → 猫", "a model", onward=ONWARD), file=Terminal("ascii")).encode("ascii")


def test_several_heads_stand_beside_each_other() -> None:
    text = shown(Look(layers(6, 12, WORDS), "x"), 200)
    assert re.search(r"^L0H0 previous token 100 % {30,}L\d+H\d+ no simple pattern", text, re.M)
    assert beside([["ab", "c"], ["d"]], 4) == ["ab     d", "c      "]


def test_commands_stand_beside_what_they_do_or_below_it() -> None:
    wide = onward(Screen.of(io.StringIO(), 80, None, False), ONWARD)
    assert wide[0] == "regard look ... --head L1H8    this head whole"
    narrow = onward(Screen.of(io.StringIO(), 36, None, False), ONWARD)
    assert narrow[:2] == ["this head whole:", "  regard look ... --head L1H8"]


def test_one_head_and_its_strongest_keys() -> None:
    found = layers(2, 3, WORDS)
    look = Look(found, "x", top=2)
    lines = "\n".join(line for part in look.one(Screen.of(io.StringIO(), 80, None, False), 1, 2) for line in part)
    assert "L1H2 of 2 × 3 heads" in lines
    weights, keys = found[1].top(2)
    for i, token in enumerate(WORDS):
        row = rf"^ *{re.escape(token)}"
        row += "".join(
            rf"  {re.escape(WORDS[k])} +{number(float(w))}" for w, k in zip(weights[2, i], keys[2, i], strict=True)
        )
        assert re.search(row, lines.split("strongest 2 keys")[1], re.M), row


def test_a_long_text_is_sampled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.view.look.FULL", 1000)
    monkeypatch.setattr("regard.view.look.SAMPLE", 4000)
    monkeypatch.setattr("regard.view.look.ONE", 1000)
    text = shown(Look(layers(1, 2, None, n=120), "x"))
    assert "Sampled 16 of 120 queries" in " ".join(text.split())
    assert "queries" in text.split("Sampled")[1]


def test_notes_are_said_wherever_a_matrix_is_shown() -> None:
    (A,) = layers(1, 2, WORDS)
    A.notes = ("synthetic", "from bf16-rounded Q, K")
    said = "synthetic · from bf16-rounded Q, K"
    for head in (None, 1):
        file = io.StringIO()
        A.show(head, file=file, width=100)
        assert said in file.getvalue()
        assert said in html(A, head)
    assert said in " ".join(shown(Look([A], "x")).split())
    pytest.importorskip("matplotlib").use("Agg")
    assert said in A.plot(1).get_title()
    assert said in A.plot()[0, 0].figure.get_suptitle()
    import matplotlib.pyplot as plt

    plt.close("all")
