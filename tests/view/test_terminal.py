"""The matrix in a terminal: it fits, it says what it shows, and no token breaks it."""

from __future__ import annotations

import io
import re
import unicodedata
from itertools import product
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import QuestionError
from regard.view.colour import DARK, LIGHT, nearest, rgb
from regard.view.picture import html
from regard.view.reading import CAUTION
from regard.view.text import END, ISOLATE
from tests.view.drawn import CODES, LINE, ODD, WORDS, Terminal, draw, made, plain, widest

WIDTHS = (20, 40, 80, 120)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("layout", ["shade", "dots"])
@pytest.mark.parametrize("colour", [False, 256, "full"])
def test_it_fits_the_window(width: int, layout: Any, colour: Any) -> None:
    for tokens, scores in product((WORDS, LINE, ODD, None), (False, True)):
        A = made(tokens, n=150 if tokens is None else 0, mask=regard.causal)
        for matrix in (A, A.T):
            text = draw(matrix, width=width, layout=layout, colour=colour, scores=scores)
            assert widest(text) <= width, text


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_always_there(width: int) -> None:
    lines = plain(draw(made(LINE, mask=regard.causal), width=width))
    text = " ".join(" ".join(lines).split())
    for part in ("query ↓ looks at", "key → is looked at", "19 queries × 19 keys", "linear", "even spread", CAUTION):
        assert part in text, part
    assert "╱ hidden" in text


@pytest.mark.parametrize("height", [8, 16, 24, 60])
def test_the_picture_fits_the_height(height: int) -> None:
    for n in (6, 19, 200):
        lines = plain(draw(made(n=n), width=80, height=height))
        end = next(i for i, line in enumerate(lines) if "even spread" in line or "1 · " in line or line.startswith("≤"))
        assert end <= height, lines


def test_numbers_stand_in_the_cells() -> None:
    A = made(WORDS)
    lines = plain(draw(A, width=80))
    start = next(i for i, line in enumerate(lines) if "[CLS]" in line and "0." in line)
    for i in range(6):
        name, *numbers = re.sub("▸", " ", lines[start + i]).split()
        assert name == WORDS[i]
        assert np.allclose([float(x) for x in numbers], np.asarray(A[i]), atol=6e-4)


def test_names_stand_over_their_columns() -> None:
    lines = plain(draw(made(LINE), width=80))
    down = next(i for i, line in enumerate(lines) if line.split()[:1] == ["The"] or line.strip().startswith("The"))
    left = 17
    above = lines[2:down]
    for j, token in enumerate(LINE):
        column = "".join(line[left + 2 * j] for line in above if len(line) > left + 2 * j).strip()
        assert column == token


def test_a_turned_matrix_swaps_axes_and_titles() -> None:
    A = regard.matrix(np.eye(2, 3), np.eye(3), tokens=["a", "b"], key_tokens=["x", "y", "z"])
    lines = plain(draw(A.T, width=80))
    assert any("key ↓ is looked at" in line for line in lines)
    assert any("query → looks at" in line for line in lines)
    rows = [line.split() for line in lines if line.split()[:1] in (["x"], ["y"], ["z"])]
    assert [[float(x) for x in row[1:]] for row in rows] == np.asarray(A.T[...]).round(3).tolist()


def test_the_first_of_many_heads_is_shown_and_said() -> None:
    A = made(WORDS, heads=(2, 3))
    assert plain(draw(A))[0] == "head (0, 0) of 2 × 3, head= shows another · 6 queries × 6 keys"
    assert plain(draw(A, 4))[0] == "head (1, 1) of 2 × 3 · 6 queries × 6 keys"
    assert draw(A, 4) == draw(A, (1, 1)) == draw(A, -2) == draw(A, (-1, -2))
    assert draw(A, 4).splitlines()[1:] != draw(A, 3).splitlines()[1:]
    for head, kind in ((6, IndexError), ((2, 0), IndexError), ((0,), IndexError), ("L1H8", TypeError)):
        with pytest.raises(kind, match=r"^head is .*, expected "):
            draw(A, head)


def test_a_head_by_name() -> None:
    A, one = made(WORDS, heads=(2, 3)), made(WORDS, heads=(9,))
    assert draw(A, "L1H1") == draw(A, "item 1, head 1") == draw(A, (1, 1))
    assert draw(one, "H8") == draw(one, "8") == draw(one, "head 8") == draw(one, 8)
    assert html(A, "L1H1") == html(A, (1, 1))
    assert A.explain(3, head="L1H1") == A.explain(3, head=4) == A.explain(3, head=(1, 1))
    some = one.select(heads=[4, 8])  # a view keeps the names
    assert draw(some, "H8") == draw(some, 1)
    for drawn, head, words in (
        (A, "H1", "head is 'H1', expected one of L0H0, L0H1, L0H2, L1H0 …: choose it by name or number"),
        (A, "L2H0", "head is 'L2H0', expected one of L0H0, L0H1, L0H2, L1H0 …: choose it by name or number"),
        (some, "H0", "head is 'H0', expected one of H4, H8: choose it by name or number"),
        (made(WORDS), "H0", "head is 'H0', but no head of this matrix has a name: choose it by number, or leave it "),
    ):
        for ask in (lambda: draw(drawn, head), lambda: html(drawn, head), lambda: drawn.explain(0, head=head)):  # noqa: B023
            with pytest.raises(QuestionError, match=re.escape(words)):
                ask()


@pytest.mark.parametrize("n", [65, 3000])
def test_many_tokens_are_pooled_on_a_logarithmic_scale(n: int) -> None:
    A = made(n=n, mask=regard.causal)
    text = "\n".join(plain(draw(A, width=60, height=30, colour=False)))
    assert "logarithmic" in text
    assert f"≤ {1 / (10 * n):.1e}".replace("e-0", "e-")[:5] in text or "≤ 0.00154" in text
    assert re.search(r"1 cell [=≈] [\d.]+ × [\d.]+, max", text)
    assert "linear" in "\n".join(plain(draw(made(n=64), width=60)))


def test_the_largest_weight_is_in_its_bin() -> None:
    n = 3000
    q = np.zeros((n, 2), np.float32)
    q[2000] = 60
    k = np.zeros((n, 2), np.float32)
    k[1000] = 1
    A = regard.matrix(q, k)
    lines = plain(draw(A, width=66, height=36, colour=False))
    assert (
        "query 2000 gives > 99.9 %" in "\n".join(lines).lower() or "query 2000 gives 100 %" in "\n".join(lines).lower()
    )
    picture = [line for line in lines if "█" in line and "logarithmic" not in line and "0." not in line]
    (bright,) = [line for line in picture if "▸" in line]
    cells = bright.split("▸")[1]
    assert cells.count("█") == 1
    assert abs(cells.index("█") / len(cells) - 1000 / n) < 0.03


def test_the_row() -> None:
    A = made(LINE, mask=regard.causal)
    for row in (3, "fox", -16):
        lines = plain(draw(A, row=row, width=80))
        assert any(line.strip().startswith("fox▸") for line in lines)
        where = next(i for i, line in enumerate(lines) if line.startswith("'fox'"))
        named = {}
        for line in lines[where + 1 :]:
            parts = line.split()
            if len(parts) > 2 and parts[0].isdigit() and parts[1] in LINE:
                named[int(parts[0])] = float(parts[2])
        assert np.allclose([named[j] for j in range(4)], np.asarray(A[3])[:4], atol=6e-4)
    with pytest.raises(IndexError, match=r"^row is 19, expected 0 to 18: there are 19 queries$"):
        draw(A, row=19)
    with pytest.raises(regard.RegardError, match="none of the 19 tokens"):
        draw(A, row="mouse")


def test_the_row_of_its_own_choice_looks_at_another_token() -> None:
    scores = np.float32([[9, 0, 0], [0, 1, 3], [0, 0, 9]])
    A = regard.matrix(scores, np.eye(3, dtype=np.float32), scale=1.0, tokens=["a", "b", "c"])
    assert "b▸" in draw(A, width=80)


# Colours.


def test_what_is_hidden_never_has_the_colour_of_zero() -> None:
    for theme in (LIGHT, DARK):
        table = {tuple(map(int, colour)) for colour in regard_ramp(theme)}
        assert rgb(theme.hidden) not in table
        assert rgb(theme.nan) not in table
        in_256 = {nearest(colour) for colour in table}
        assert nearest(rgb(theme.hidden)) not in in_256
        assert nearest(rgb(theme.nan)) not in in_256


def regard_ramp(theme: Any) -> Any:
    from regard.view.colour import Scale

    return np.concatenate([Scale.of_weights(9).table(theme), Scale.of_scores(1.0).table(theme)])


@pytest.mark.parametrize("layout", ["shade", "dots"])
@pytest.mark.parametrize("colour", [False, "full"])
@pytest.mark.parametrize("n", [4, 19, 150])
def test_hidden_cells_are_hatched_and_zeros_are_not(layout: Any, colour: Any, n: int) -> None:
    q = np.zeros((n, 1), np.float32)
    q[1:] = 1
    k = np.zeros((n, 1), np.float32)
    k[0] = 300  # all weight on the first key, exactly 0 on the others
    A = regard.matrix(q, k, mask=regard.causal)
    assert float(A[n - 1, 1]) == 0
    text = draw(A, width=80, layout=layout, colour=colour)
    assert "╱" in "\n".join(plain(text)[:-6])
    open_to_all = draw(regard.matrix(q, k), width=80, layout=layout, colour=colour)
    assert "╱" not in open_to_all


def test_an_empty_row_is_hidden_and_said() -> None:
    A = made(WORDS, mask=np.tri(6, k=-1, dtype=np.bool_))  # the first query sees nothing
    lines = plain(draw(A, width=80, row=0))
    assert next(line for line in lines if "[CLS]▸" in line).count("╱") == 18
    assert any("empty" in line for line in lines)


def test_nan_has_a_sign_and_a_colour_of_its_own() -> None:
    q = np.ones((5, 2), np.float32)
    q[2] = np.nan
    A = regard.matrix(q, np.ones((5, 2), np.float32), mask=regard.causal)
    text = draw(A, width=80, colour="full")
    red, green, blue = rgb(LIGHT.nan)
    assert f"48;2;{red};{green};{blue}" in text
    assert "? NaN" in "\n".join(plain(text))
    assert "NaN" in next(line for line in plain(text) if line.strip().startswith("2"))
    for n, layout in product((5, 200), ("shade", "dots")):
        q = np.ones((n, 2), np.float32)
        q[2] = np.nan
        A = regard.matrix(q, np.ones((n, 2), np.float32), mask=regard.causal)
        lines = plain(draw(A, width=60, layout=layout, row=2))
        assert "? NaN" in "\n".join(lines)
        assert "╱ hidden" in "\n".join(lines)


@pytest.mark.parametrize(
    ("environment", "given", "wanted"),
    [
        ({"TERM": "xterm-256color"}, None, "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, None, "full"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, None, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, "256"),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, None, "none"),
        ({"TERM": "xterm-256color"}, False, "none"),
        ({"TERM": "xterm-256color"}, "full", "full"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, 256, "256"),
    ],
)
def test_the_depth_of_colour(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], given: Any, wanted: str
) -> None:
    for name in ("TERM", "COLORTERM", "NO_COLOR", "COLORFGBG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    text = draw(made(WORDS), width=80, colour=given, file=Terminal())
    found = "full" if "8;2;" in text else "256" if "8;5;" in text else "none"
    assert found == wanted


def test_a_file_gets_no_colour_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert "\x1b" not in draw(made(WORDS), width=80)
    assert "\x1b[" in draw(made(WORDS), width=80, colour=True)


def test_a_dark_terminal_has_the_dark_ramp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "15;0")
    dark = draw(made(WORDS, mask=regard.causal), width=80, colour="full")
    monkeypatch.setenv("COLORFGBG", "0;15")
    light = draw(made(WORDS, mask=regard.causal), width=80, colour="full")
    for text, theme in ((dark, DARK), (light, LIGHT)):
        assert "48;2;{};{};{}m".format(*rgb(theme.hidden)) in text


def test_every_colour_is_ended_on_its_line() -> None:
    for n in (6, 19, 200):
        for line in draw(made(n=n, mask=regard.causal), width=80, colour="full").splitlines():
            codes = CODES.findall(line)
            assert codes[1::2] == ["\x1b[0m"] * (len(codes) // 2)
            assert len(codes) % 2 == 0


# Tokens.


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("colour", [False, "full"])
def test_nothing_in_a_token_reaches_the_terminal_raw(width: int, colour: Any) -> None:
    for scores in (False, True):
        text = draw(made(ODD), width=width, colour=colour, scores=scores, row=6)
        rest = CODES.sub("", text)
        text.encode("utf-8")  # no half of a surrogate
        for c in rest.replace("\n", "").replace(ISOLATE, "").replace(END, ""):
            assert unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp"), hex(ord(c))


def test_right_to_left_tokens_are_kept_apart() -> None:
    for line in draw(made(ODD), width=100, row=2).splitlines():
        inside = False
        for c in line:
            if c in (ISOLATE, END):
                assert inside == (c == END)
                inside = c == ISOLATE
            elif unicodedata.bidirectional(c) in ("R", "AL"):
                assert inside, line
        assert not inside


def test_rows_of_wide_tokens_begin_in_one_column() -> None:
    from regard.view.text import width

    lines = plain(draw(made(["a", "猫は", "e\u0301", "👩‍👩‍👧", "שלום", "각"]), width=80))
    rows = [line for line in lines if re.search(r"\d\.\d+ +\S*\d\.?\d* ", line) and "█" not in line]
    assert len(rows) == 6
    assert len({width(line.rstrip()) for line in rows}) == 1


def test_spaces_and_new_lines_can_be_seen() -> None:
    text = draw(made([" cat", "a b", "\n"]), width=80)
    assert "·cat" in text
    assert "a·b" in text
    assert "↵" in text


def test_a_terminal_without_unicode() -> None:
    for layout, n in product(("shade", "dots"), (4, 19, 150)):
        A = made([" café", "猫", "\n", "x"] if n == 4 else None, n=n, mask=regard.causal)
        for scores in (False, True):
            text = draw(A, width=60, layout=layout, file=Terminal("ascii"), colour=True, scores=scores)
            text.encode("ascii")
            assert "query v looks at" in text
            assert "/ hidden" in "\n".join(plain(text))


# Layouts and scores.


def test_dots_have_the_area_of_their_weight() -> None:
    A = made(WORDS)
    lines = plain(draw(A, width=80, layout="dots"))
    assert any("\u2801" <= c <= "\u28ff" for line in lines for c in line)
    counts = {}
    from regard.view.glyphs import disc

    for share in (0.1, 0.25, 0.5, 1.0):
        counts[share] = sum((ord(c) - 0x2800).bit_count() for line in disc(share, 6, 3) for c in line if c != " ")
    for share, number in counts.items():
        assert abs(number / counts[1.0] - share) < 0.06


@pytest.mark.parametrize(("encoding", "full", "hollow"), [("utf-8", "⬤", "◯"), ("ascii", "@", "O")])
def test_negative_scores_are_hollow(encoding: str, full: str, hollow: str) -> None:
    q = np.where(np.arange(12) % 2, -1.0, 1.0)[:, None]
    A = regard.matrix(q, np.ones((12, 1)), scale=1.0)
    lines = plain(draw(A, width=40, layout="dots", scores=True, colour=False, file=Terminal(encoding)))
    rows = [line for line in lines if line.count(full) + line.count(hollow) == 12]
    assert [full in row for row in rows] == [True, False] * 6


def test_scores_go_both_ways_from_zero() -> None:
    A = made(WORDS, mask=regard.causal)
    lines = plain(draw(A, width=100, scores=True, colour="full"))
    text = "\n".join(lines)
    assert text.startswith("scores of 6 queries × 6 keys")
    assert "scores, about 0" in text
    largest = np.abs(np.where(np.isfinite(A.scores[...]), A.scores[...], 0)).max()
    assert f"−{largest:.3g}" in text
    assert f"{float(A.scores[5, 0]):.3f}" in text


@pytest.mark.parametrize("pool", ["max", "mean", "sum"])
def test_pooled_scores_keep_their_sign(pool: Any) -> None:
    from regard.view.grid import grid

    A = made(n=101, mask=regard.causal)
    built = np.asarray(A.scores[...], np.float64)
    drawn = grid(A, (), 10, 7, scores=True, pool=pool)
    rows, keys = np.arange(11) * 101 // 10, np.arange(8) * 101 // 7
    for r, c in product(range(10), range(7)):
        part = built[rows[r] : rows[r + 1], keys[c] : keys[c + 1]]
        part = part[np.isfinite(part)]
        assert drawn.hidden[r, c] == (part.size == 0)
        if part.size:
            wanted = {"max": part[np.abs(part).argmax()], "mean": part.mean(), "sum": part.sum()}[pool]
            assert drawn.values[r, c] == pytest.approx(wanted, rel=1e-6)


def test_words_are_drawn_and_have_no_scores() -> None:
    from regard.view.terminal import show

    A = made(["play", "##ing", "cat", "##s", "."], mask=regard.causal).words()
    file = Terminal()
    show(A, file=file, width=60, colour=False)
    assert "playing" in file.getvalue()
    assert "╱" in file.getvalue()
    with pytest.raises(regard.RegardError, match="scores were asked"):
        show(A, file=file, scores=True)


def test_weighted_lengths_may_pass_1() -> None:
    from regard.view.terminal import show

    A = made(WORDS, mask=regard.causal).norms(np.full((6, 2), 3.0))
    file = Terminal()
    show(A, file=file, width=80, colour=False, row=0)
    assert "has its largest number, 4.243, with" in file.getvalue()
    assert " 4.24" in file.getvalue()


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_nothing_to_draw(shape: tuple[int, int]) -> None:
    A = regard.matrix(np.zeros((shape[0], 2)), np.zeros((shape[1], 2)))
    assert "Nothing to draw." in draw(A, width=80)


@pytest.mark.parametrize("shape", [(1, 1), (1, 400), (400, 1), (3, 2000), (90, 70)])
@pytest.mark.parametrize("layout", ["shade", "dots"])
def test_any_shape(shape: tuple[int, int], layout: Any) -> None:
    rng = np.random.default_rng(0)
    A = regard.matrix(rng.standard_normal((shape[0], 4)), rng.standard_normal((shape[1], 4)))
    for matrix, colour in product((A, A.T), (False, True)):
        assert widest(draw(matrix, width=40, height=20, layout=layout, colour=colour)) <= 40


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.eye(4)
    assert "0.5" in draw(regard.matrix(x, x, scale=0.0, mask=regard.causal), width=60)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"layout": "bars"}, "layout is 'bars', expected 'shade' or 'dots'"),
        ({"pool": "min"}, "pool is 'min', expected 'max', 'mean' or 'sum'"),
        ({"width": 0}, "width is 0, expected a number of columns"),
        ({"colour": "blue"}, "colour is 'blue', expected True, False, 256 or 'full'"),
    ],
)
def test_messages(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        draw(made(WORDS), **more)


def test_the_plain_page_of_a_small_matrix() -> None:
    A = regard.matrix(np.zeros((2, 1)), np.zeros((2, 1)), tokens=["a", "b"], mask=regard.causal)
    assert draw(A, width=60).splitlines()[:6] == [
        "2 queries × 2 keys",
        "                 key → is looked at",
        "query ↓ looks at       a      b",
        "               a   1.000    ╱╱╱",
        "               b▸  0.500  0.500",
        "0  ···░░░░░░░▒▒▒▒▒┃▒▓▓▓▓▓▓▓███████ 1 · linear",
    ]


def test_a_number_is_never_cut() -> None:
    """Each number that is written is the weight to the digits that it has, however many letters its exponent takes."""
    x = 6 * np.random.default_rng(0).standard_normal((5, 16))
    A = regard.matrix(x, x, tokens=[f"t{i}" for i in range(5)])
    for width in (50, 60, 80, 120):
        file = io.StringIO()
        A.show(width=width, file=file, colour=False)
        lines = [line for line in file.getvalue().splitlines() if re.match(r"^ *t\d▸? +[\d~]", line)][:5]
        told = np.array([[float(x.replace("~", "")) for x in line.replace("▸", " ").split()[1:6]] for line in lines])
        want = A[...]
        assert np.abs(told - want).max() < 6e-4
        small = (want < 1e-3) & (want > 1e-200)
        assert small.any()
        assert np.abs(np.log(told[small] / want[small])).max() < 0.41  # one digit, at the least
