"""Which heads are telling: one for each pattern, then the brightest cell; sinks are counted, and nothing is made up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import DtypeError
from regard.lens.telling import Sinks, brightest, telling
from regard.lens.wording import percent

WORDS = [f"word{i}" for i in range(58)]  # so many that near tokens are few of all
TEXT = ["[CLS]", *WORDS, "[SEP]"]
N = len(TEXT)
STRENGTH = 9.0  # a target has e^9 times the weight of another key: nearly all of the row
Target = Callable[[int], int | None]


def layer(*targets: Target | tuple[Target, float], tokens: Any = TEXT, **more: Any) -> Any:
    """A head for each rule: its queries look at the keys that the rule says, at none in particular if None."""
    n = len(tokens) if tokens is not None else N
    k = np.broadcast_to(np.eye(n, max(n, 64), dtype=np.float32), (len(targets), n, max(n, 64)))
    q = np.zeros_like(k)
    for h, given in enumerate(targets):
        rule, strength = given if isinstance(given, tuple) else (given, STRENGTH)
        for i in range(n):
            key = rule(i)
            if key is not None:
                q[h, i, key % n] = strength
    return regard.matrix(q, k, scale=1.0, tokens=tokens, **more)


def before(i: int) -> int:
    return max(0, i - 1)


def after(i: int) -> int:
    return min(N - 1, i + 1)


def itself(i: int) -> int:
    return i


def near(i: int) -> int:
    return min(N - 1, max(0, i + (3 if i % 2 else -3)))


def first(i: int) -> int:
    return 0


def last(i: int) -> int:
    return N - 1


def nowhere(i: int) -> None:
    return None


@pytest.mark.parametrize(
    ("rule", "name", "letter", "said"),
    [
        (before, "previous_token_head", "P", "previous token"),
        (after, "next_token", "N", "next token"),
        (itself, "current_token", "C", "current token"),
        (near, "local", "L", "near tokens"),
    ],
)
def test_a_head_of_places(rule: Target, name: str, letter: str, said: str) -> None:
    found = telling([layer(nowhere), layer(nowhere, rule)])
    assert [mark.letter for marks in found.marks for mark in marks] == ["", "", letter]
    head = found.heads[0]
    assert (head.layer, head.head, head.name, head.label) == (1, 1, name, "L1H1")
    assert head.by_place
    assert found.lead is head
    assert str(head) == f"L1H1 {said} {percent(head.share)}"
    assert head.share == pytest.approx(float(layer(rule).patterns()[name].share[0]))
    assert head.cell is not None
    assert head.cell.key == rule(head.cell.query)
    assert head.cell.weight == pytest.approx(float(layer(rule)[0, head.cell.query, head.cell.key]))


def test_heads_of_repetition() -> None:
    half = [f"w{i}" for i in range(30)]
    text = half + half

    def copies(i: int) -> int | None:
        return i - 30 if i >= 30 else None

    def follows(i: int) -> int | None:
        return i - 29 if i >= 30 else None

    found = telling([layer(copies, follows, tokens=text, mask=regard.causal)])
    assert [mark.letter for mark in found.marks[0]] == ["D", "I"]
    assert {head.name: head.head for head in found.heads} == {"duplicate_token_head": 0, "induction_head": 1}
    assert not any(head.by_place for head in found.heads)


def test_punctuation_is_a_pattern_and_no_sink() -> None:
    text = ["[CLS]", *WORDS[:10], ".", "[SEP]"]
    found = telling([layer(lambda i: 11, tokens=text)])
    assert found.marks[0][0].letter == "M"
    assert found.sinks.heads == 0


def test_sinks_are_counted_and_never_shown() -> None:
    found = telling([layer(first, last, nowhere), layer(before, first)])
    assert [[mark.letter for mark in marks] for marks in found.marks] == [["S", "S", ""], ["P", "S"]]
    assert str(found.sinks) == "3 of 5 heads rest mostly on [CLS] and [SEP]"
    assert found.sinks.even == pytest.approx(2 / N)
    assert [(head.layer, head.head) for head in found.heads] == [(1, 0)]


def test_a_head_with_a_pattern_may_rest_too() -> None:
    """As L1H8 does of the example: over half on special tokens, and still the next token 3 times an even spread."""
    text = ["[CLS]", "a", "b", "c", "d", "e", "[SEP]"]

    def rule(i: int) -> int:
        return i + 1 if i in (1, 2, 3, 5) else 0  # 5 looks at [SEP], which is special

    found = telling([layer(rule, tokens=text)])
    assert found.sinks.heads == 1
    assert found.marks[0][0].letter == "N"
    assert found.heads[0].name == "next_token"


def test_without_special_tokens_the_first_is_where_heads_rest() -> None:
    for tokens in (WORDS, None):
        found = telling([layer(first, before, tokens=tokens, mask=regard.causal)])
        assert [mark.letter for mark in found.marks[0]] == ["S", "P"]
        assert str(found.sinks) == "1 of 2 heads rests mostly on the first token"
        assert [head.head for head in found.heads] == [1]  # the brightest cell is not one of a sink


def test_one_head_for_each_pattern_the_one_with_most_of_it() -> None:
    found = telling([layer((before, 6.0), (before, 8.0)), layer((before, 7.0), (after, 6.0))])
    named = [head for head in found.heads if not head.bright]
    assert [(head.label, head.name) for head in named] == [("L0H1", "previous_token_head"), ("L1H1", "next_token")]
    (other,) = [head for head in found.heads if head.bright]  # it has that pattern too, and is not said to have none
    assert str(other).startswith("L1H0 previous token ")


def test_a_weak_pattern_names_nothing() -> None:
    n = len(TEXT)
    less = math.log(n * 0.4 / 0.6)  # 40 % of a row
    found = telling([layer((before, less))])
    assert found.marks[0][0].letter == ""
    assert [head.name for head in found.heads] == [None]


def test_the_brightest_cell_is_between_two_different_words() -> None:
    text = ["[CLS]", "the", "cat", "saw", "the", "dog", "[SEP]"]

    def rule(i: int) -> int | None:
        return {0: 3, 1: 4, 2: 2, 3: 0, 5: 2, 6: 5}.get(i)  # a special query, a twin, itself, a special key, 5 → 2

    weak = layer(lambda i: 3 if i == 2 else None, tokens=text)
    A = layer(rule, tokens=text)
    A = regard.matrix(A.like, np.eye(7, 64, dtype=np.float32)[None], scale=0.4, tokens=text)
    found = telling([weak, A])
    (head,) = found.heads
    assert head.label == "L0H0"
    assert (head.cell and head.cell[:2]) == (2, 3)
    found = telling([A])
    assert found.heads[0].cell is not None
    assert found.heads[0].cell[:2] == (5, 2)
    assert found.heads[0].said == "no simple pattern"
    assert brightest(A, 0) == found.heads[0].cell


def test_nothing_is_made_up() -> None:
    even = telling([layer(nowhere, nowhere)])
    assert (even.heads, even.lead) == ([], None)
    assert str(even.sinks) == "none of 2 heads rests mostly on [CLS] and [SEP]"
    alone = telling([layer(first, tokens=["[CLS]", "cat", "[SEP]"])])
    assert alone.heads == []
    for n in (0, 1):
        x = np.zeros((2, n, 64), np.float32)
        found = telling([regard.matrix(x, x, tokens=["cat"] * n)])
        assert found.heads == []
    assert telling([]).marks == []


def test_a_cell_that_is_little_above_its_neighbours_is_not_bright() -> None:
    faint, bright = (layer((lambda i: 3 if i == 9 else None, math.log(w))) for w in (1.9, 2.5))
    assert telling([faint]).heads == []
    (head,) = telling([bright]).heads
    assert head.cell is not None
    assert head.cell[:2] == (9, 3)


def test_the_lead_is_what_the_pattern_does_not_give_anyway() -> None:
    sure, unsure = layer(before), layer((after, 4.5))
    assert telling([sure]).lead == telling([sure]).heads[0]

    def mostly(i: int) -> int:
        return after(i) if i % 3 else (i + 9) % N

    found = telling([sure, layer(mostly)])
    assert found.lead is not None
    assert found.lead.label == "L1H0"
    assert unsure.shape == sure.shape


def test_heads_without_an_axis_and_layers_by_number() -> None:
    A = layer(before)
    single = regard.matrix(A.like[0], np.eye(N, 64, dtype=np.float32), scale=1.0, tokens=TEXT)
    found = telling([single], first=7)
    assert found.heads[0].label == "L7H0"
    assert found.marks[0][0].letter == "P"


def test_a_sample_finds_the_same() -> None:
    text = [f"w{i}" for i in range(300)]
    A = layer(lambda i: max(0, i - 1), lambda i: 0, lambda i: None, tokens=text, mask=regard.causal)
    whole, part = telling([A]), telling([A], sample=32)
    assert (whole.sampled, part.sampled) == (0, 32)
    assert [m.letter for m in part.marks[0]] == [m.letter for m in whole.marks[0]] == ["P", "S", ""]
    head = part.heads[0]
    assert head.cell is not None
    assert head.cell.weight == pytest.approx(float(A[0, head.cell.query, head.cell.key]))
    assert telling([A], sample=1000).sampled == 0


def test_progress_goes_up_to_the_end() -> None:
    told: list[float] = []
    telling([layer(before), layer(after)], progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    with pytest.raises(DtypeError, match=r"^progress is 5"):
        telling([layer(before)], progress=5)  # type: ignore[arg-type]


def test_a_nan_is_no_pattern() -> None:
    A = layer(before)
    q = np.array(A.like)
    q[0, 5] = np.nan
    found = telling([regard.matrix(q, np.eye(N, 64, dtype=np.float32)[None], scale=1.0, tokens=TEXT)])
    assert not math.isnan(sum(head.cell.weight for head in found.heads if head.cell))


def test_sinks_in_words() -> None:
    assert str(Sinks(1, 1, (), 0.5)) == "the only head rests mostly on the first token"
    assert str(Sinks(0, 1, ("<s>",), 0.5)) == "the only head does not rest mostly on <s>"
    assert str(Sinks(2, 3, ("<s>", "</s>", "<pad>"), 0.5)) == "2 of 3 heads rest mostly on <s>, </s> and <pad>"
