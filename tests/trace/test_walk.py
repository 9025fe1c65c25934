"""The walk in print: it fits the window, its sums are those of a pencil, and its words say no more than is so."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest

import regard
from regard.view.figures import value_of
from regard.view.reading import CAUTION
from regard.view.sheet import Sum, Work
from tests.trace.traced import WORDS, designed, dog, numbers, variants
from tests.view.drawn import ODD, plain, widest

VARIANTS = variants()
PRODUCT = re.compile(r"\(?(−?[\d.e−∞]+)\)?·\(?(−?[\d.e−∞]+)\)?")
NUMBER = re.compile(r"\(?(−?[\d.]+(?:e−?\d+)?)\)?")
FORBIDDEN = re.compile(r"\bbecause\b|understand|influenc|of the representation|\bcaus(?!al)|\bsource\b|\btarget\b")


def shown(t: Any, **more: Any) -> str:
    file = more.pop("file", None) or io.StringIO()
    t.show(file=file, **more)
    return str(file.getvalue())


def long() -> Any:
    words = [f"word{i}" for i in range(40)]
    weights = [numbers(16, 16, seed=i) / 4 for i in range(3)]
    return regard.trace(
        numbers(40, 16), *weights, mask=regard.causal, heads=2, w_o=numbers(16, 16, seed=4), tokens=words
    )


def sums(t: Any, **more: Any) -> list[Sum]:
    return [
        line
        for block in t._sheet(more.get("row"), more.get("head"), more.get("digits"))
        if isinstance(block, Work)
        for line in block.lines
    ]


DOG_STEP = """\
Step 1 of 4: scores   S = Q·Kᵀ   3 × 3 ─────────────────────

How well each query matches each key: the products of their
numbers, added up.

                    key → is looked at
  query ↓ looks at     dog     ate  dinner
               dog▸ 2.7100  1.3550  2.4750
               ate  1.3550  0.6775  1.2375
            dinner  1.4550  0.7275  0.6625

    q[dog]·k[dog]    = −0.10·0.90 + 2.00·1.40 = 2.7100
    q[dog]·k[ate]    = −0.10·0.45 + 2.00·0.70 = 1.3550
    q[dog]·k[dinner] = −0.10·0.25 + 2.00·1.25 = 2.4750

The same score read as two lengths and the angle between
them; here they lean the same way:

    q[dog]·k[dog] = ‖q‖·‖k‖·cos θ
                  = 2.0025·1.6643·cos 35.6° ≈ 2.7100
"""


def test_what_a_step_looks_like() -> None:
    text = shown(dog(), width=60, row="dog")
    assert DOG_STEP in text


def test_the_four_steps_stand_in_their_order() -> None:
    lines = [line for line in str(dog()).splitlines() if line.startswith("Step ")]
    assert [line.partition("   ")[0] for line in lines] == [
        "Step 1 of 4: scores", "Step 2 of 4: scaling", "Step 3 of 4: softmax", "Step 4 of 4: output"
    ]  # fmt: skip


def test_softmax_is_worked_out_key_by_key() -> None:
    lines = [" ".join(line.split()) for line in shown(dog(), width=80, row="dog").splitlines()]
    assert "key score − largest e to that / sum = weight" in lines
    assert "dog 1.916 − 1.916 1.000 / 2.231 0.448" in lines
    assert "ate 0.958 − 1.916 0.384 / 2.231 0.172" in lines
    assert "sum 2.231 1.000" in lines


def test_designed_attention_is_printed_in_whole_numbers() -> None:
    text = str(designed())
    assert "q[the]·k[cat]  = 0·0 + 1·8 + 0·0 + 0·0 = 8" in text
    assert "'the' gives 95 % of its attention to 'cat', 3.8 times an even spread over 4 tokens." in " ".join(
        text.split()
    )


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("width", [40, 80])
def test_it_fits_the_window(name: str, width: int) -> None:
    t = regard.trace(**VARIANTS[name])
    assert widest(shown(t, width=width)) <= width
    assert widest(shown(t.grad(1.0), width=width)) <= width


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_one_fits_and_leaves_out(width: int) -> None:
    t = long()
    text = shown(t, width=width)
    assert widest(text) <= width
    assert "others" in text
    assert "…" in text
    assert "⋮" in text
    assert len(text.splitlines()) < 420


@pytest.mark.parametrize("name", [*VARIANTS, "long", "dog"])
@pytest.mark.parametrize("digits", [None, 2])
def test_sums_are_right_with_the_figures_that_are_printed(name: str, digits: int | None) -> None:
    """Where there is =, whoever multiplies and adds what is written gets what is written."""
    t = long() if name == "long" else dog() if name == "dog" else regard.trace(**VARIANTS[name])
    found = 0
    for line in [*sums(t, digits=digits), *sums(t.grad(1.0), digits=digits)]:
        if "cos" in "".join(line.terms) or line.sign != "=":
            continue
        total = 0.0
        for term in line.terms:
            product = PRODUCT.fullmatch(term)
            number = NUMBER.match(term)
            assert product or number, term
            total += value_of(product[1]) * value_of(product[2]) if product else value_of(number[1])  # type: ignore[index]
        digits_of, _, power = line.right.replace("−", "-").partition("e")
        places = len(digits_of.partition(".")[2]) - int(power or 0)
        if line.right != "0":
            assert abs(total - value_of(line.right)) <= 0.51 * 10.0**-places, line.text()
        found += 1
    assert found > 3


def test_digits_are_as_many_as_asked_for() -> None:
    for digits in (2, 3, 4):
        text = shown(dog(), width=100, digits=digits, row="dog")
        line = next(x for x in text.partition("Step 3")[2].splitlines() if x.strip().startswith("dog▸"))
        assert line.split()[1] == f"{0.44834:.{digits}f}"


def test_another_row_and_another_head() -> None:
    t = regard.trace(**VARIANTS["heads"], tokens=WORDS)
    assert "z[mice, 0]" in shown(t, width=80, row="mice")
    assert "z[chased, 0]" in shown(t, width=80, row=2)
    first, second = shown(t, width=80, head=0, row=0), shown(t, width=80, head=1, row=0)
    assert "head 1 of 2" in second
    assert "Head 1 takes columns 2 to 3 of X·W_Q." in second
    assert first != second


def test_values_of_the_tables_are_those_of_the_steps() -> None:
    t = regard.trace(**VARIANTS["self"], tokens=WORDS)
    lines = plain(shown(t, width=80))
    at = next(i for i, line in enumerate(lines) if line.startswith("Step 3"))
    rows = [line.split() for line in lines[at:] if line.strip().partition("▸")[0].split(" ")[0] in WORDS][-4 - 4 :]
    weights = [[float(x) for x in row[1:]] for row in rows if len(row) == 5]
    np.testing.assert_allclose(weights[:4], t.weights, atol=5e-4)


@pytest.mark.parametrize("name", VARIANTS)
def test_words_say_no_more_than_is_so(name: str) -> None:
    t = regard.trace(**VARIANTS[name])
    text = " ".join(str(t).split())
    assert text.count(CAUTION) == 1
    assert not FORBIDDEN.search(text), FORBIDDEN.search(text)
    assert not FORBIDDEN.search(str(t.grad(1.0)))


def test_only_ascii_where_nothing_else_can_be_shown() -> None:
    class Plain(io.StringIO):
        encoding = "ascii"  # type: ignore[assignment]

    n = len(ODD)
    for t in (dog(), regard.trace(q=numbers(n, 2), k=numbers(n, 2, seed=1), v=numbers(n, 2, seed=2), tokens=ODD)):
        text = shown(t, width=80, file=Plain())
        assert text.isascii()
        assert widest(text) <= 80
    assert "q[dog]*k[dog]    = -0.10*0.90 + 2.00*1.40 = 2.7100" in shown(dog(), width=80, row=0, file=Plain())


def test_odd_tokens_do_no_harm() -> None:
    n = len(ODD)
    t = regard.trace(q=numbers(n, 2), k=numbers(n, 2, seed=1), v=numbers(n, 2, seed=2), tokens=ODD)
    for row in range(n):
        text = shown(t, width=80, row=row)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert widest(text) <= 80
    assert "<b>&" not in t.to_html()


def test_colours_are_those_of_the_matrix() -> None:
    text = shown(designed(), width=80, colour="full")
    assert "\x1b[" in text
    assert [line.rstrip() for line in plain(text)] == plain(shown(designed(), width=80))


def test_markdown() -> None:
    text = dog().to_markdown(row="dog")
    assert text.startswith("# Attention step by step: 3 queries × 3 keys\n")
    assert "| **dog ▸** | 2.7100 | 1.3550 | 2.4750 |" in text
    assert "`S = Q·Kᵀ`, 3 × 3" in text
    assert "```text\nq[dog]·k[dog] = −0.10·0.90 + 2.00·1.40 = 2.7100\n" in text
    rows = [line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("|")]
    assert min(rows) > 2
    odd = regard.trace(q=np.eye(2), k=np.eye(2), v=np.eye(2), tokens=["a|b", "*c*"]).to_markdown()
    assert "a\\|b" in odd
    assert "\\*c\\*" in odd
    assert dog().grad(1.0).to_markdown().startswith("# The way back: gradients\n")


def test_an_empty_row_is_said_to_be_empty() -> None:
    t = regard.trace(**VARIANTS["empty row"])
    assert "Query 0 sees no key: its weights are all 0." in shown(t, width=80, row=0)
    assert "NaN" not in shown(t.grad(1.0), width=80, row=0)
