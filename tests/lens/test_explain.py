"""Sentences: their wording, and that their numbers are those of the matrix."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import DtypeError, QuestionError, TokenError
from regard.lens.wording import bare, percent, shown

Array = np.ndarray[Any, Any]

FORBIDDEN = re.compile(
    r"\bbecause\b|understand|\bmeans\b|\bmeant\b|influenc|of the representation|\bcaus|\bsource\b|\btarget\b|"
    r"(?<!\d)(?<!\.)0 %|\.0 %|\bnan\b|\binf\b|%%|  |\.\.|\bNone\b|\[\]|array",
)
SENTENCE = re.compile(r"^([A-Z']|'.)")


def rows_of(weights: Any, **options: Any) -> regard.AttentionMatrix:
    """A matrix whose weights are these, in rows that sum to 1."""
    a = np.atleast_2d(np.asarray(weights, np.float64))
    with np.errstate(divide="ignore"):
        scores = np.log(a)
    hidden = np.isneginf(scores)
    mask = ~hidden if hidden.any() else None
    mask = options.pop("mask", mask)
    q = np.where(hidden, 0, scores)
    return regard.matrix(q, np.eye(a.shape[1]), scale=1.0, mask=mask, **options)


def even_rest(n: int, *first: float) -> list[float]:
    """A row that begins with these and spreads the rest evenly."""
    return [*first, *[(1 - sum(first)) / (n - len(first))] * (n - len(first))]


SIX = ["[CLS]", "The", "cat", "chased", "mice", "[SEP]"]


def test_a_cell_as_the_page_says_it() -> None:
    row = [0.05, 0.04, 0.03, 0.81, 0.04, 0.03]
    A = rows_of([row] * 6, tokens=SIX)
    A.labels = "L1H8"  # type: ignore[attr-defined]  # a recording knows its heads' names
    said = A.explain("cat", "chased")
    first = "'cat' gives 81 % of its attention in L1H8 to 'chased', 4.9 times an even spread over 6 tokens."
    assert said == f"{first} The other 5 tokens share 19 %."
    assert A.explain(2, 3) == A.explain(-4, -3) == said
    assert A.explain("cat") == said


def test_one_visible_key() -> None:
    A = rows_of([[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0]], tokens=["The", "cat", "sat"])
    assert A.explain("The") == A.explain("The", "The") == "'The' sees only itself, so 100 % says nothing."
    assert A.explain("sat") == "'sat' sees only 'cat', so 100 % says nothing."


def test_a_split_row() -> None:
    A = rows_of([[0.41, 0.38, 0.11, 0.1]], tokens=["q"], key_tokens=["X", "Y", "a", "b"])
    said = A.explain(0)
    assert said.startswith(
        "'q' divides its attention mostly between 'X' (41 %) and 'Y' (38 %). The first is 1.6 times "
    )
    assert said.endswith("an even spread over 4 tokens. The other 2 tokens share 21 %.")
    assert "The row is split, mostly between 'X' (41 %) and 'Y' (38 %)." in A.explain(0, "a")
    assert A.explain(0, "Y").startswith(
        "'q' gives 38 % of its attention to 'Y', 1.5 times an even spread over 4 tokens."
    )


def test_ties_are_exact_or_none() -> None:
    A = rows_of([[0.4, 0.4, 0.1, 0.1]], tokens=["q"], key_tokens=[*"abcd"])
    assert "They tie exactly, each 1.6 times an even spread over 4 tokens." in A.explain(0)
    assert "It ties exactly with 'b'." in A.explain(0, "a")
    nearly = rows_of([[0.4, 0.4001, 0.1, 0.0999]], tokens=["q"], key_tokens=[*"abcd"])
    assert "tie" not in nearly.explain(0)
    assert "tie" not in nearly.explain(0, "a")
    three = rows_of([[0.2] * 3 + [0.04] * 10], tokens=["q"], key_tokens=[*"abcdefghijklm"])
    assert "'a', 'b' and 'c' tie exactly at 20 %, each 2.6 times an even spread over 13 tokens." in three.explain(0)
    many = rows_of([[0.1] * 8 + [0.02] * 10])
    assert "Key 0 and 7 others tie exactly at 10 %" in many.explain(0)


def test_an_even_row() -> None:
    A = rows_of([[1, 1, 1, 1, 1, 1]] * 6, tokens=SIX)
    assert A.explain("cat") == "'cat' spreads its attention evenly over 6 tokens, 17 % each."
    assert A.explain("cat", "mice") == (
        "'cat' gives 17 % of its attention to 'mice', as much as an even spread over 6 tokens. "
        "All 6 tokens tie exactly."
    )


def test_a_flat_row() -> None:
    A = rows_of([[0.2, 0.18, 0.17, 0.16, 0.15, 0.14]] * 6, tokens=SIX)
    assert A.explain("cat") == (
        "'cat' spreads its attention almost evenly over 6 tokens (≈ 6.0 tokens). "
        "The largest weight, on '[CLS]', is 20 %, 1.2 times an even spread over 6 tokens."
    )
    assert "The row is nearly flat (≈ 6.0 tokens): the largest weight, on '[CLS]', is 20 %." in A.explain("cat", "mice")
    assert "No token gets more, though the row is nearly flat" in A.explain("cat", "[CLS]")


def test_another_key_dominates() -> None:
    A = rows_of([[0.81, 0.05, 0.05, 0.03, 0.03, 0.03]] * 6, tokens=SIX)
    assert A.explain("cat", "chased") == (
        "'cat' gives 3 % of its attention to 'chased', 0.2 times an even spread over 6 tokens. "
        "The other 5 tokens share 97 %, most of it on '[CLS]' (81 %)."
    )
    two = rows_of([[0.9, 0.1]], tokens=["q"], key_tokens=["a", "b"])
    assert two.explain(0, 1).endswith("The other token, 'a', gets 90 %.")


def test_a_row_spread_over_several_keys() -> None:
    A = rows_of([even_rest(12, 0.3, 0.2)])
    assert A.explain(0) == (
        "Query 0 spreads its attention over several keys (≈ 8.9 keys). "
        "The largest part, 30 %, goes to key 0, 3.6 times an even spread over 12 keys. The other 11 keys share 70 %."
    )
    assert A.explain(0, 5).endswith("The row is spread (≈ 8.9 keys): the largest weight, on key 0, is 30 %.")


def test_what_cannot_be_seen() -> None:
    A = rows_of([[0.9, 0.1, 0], [0, 0, 0], [1, 1, 1]], tokens=[*"abc"])
    assert A.explain("a", "c").startswith("'a' cannot see 'c': it is masked. 'a' gives 90 % of its attention to itself")
    assert A.explain("b") == A.explain("b", "c") == "'b' sees no token: its row is empty."
    three = regard.matrix(np.zeros((3, 2, 1)), np.zeros((3, 2, 1)), mask=np.array([[True, False], [False, False]]))
    assert three.explain(1) == "Query 1 sees no key in any of 3 heads: its row is empty."
    assert three.explain(0, 1) == "Query 0 cannot see key 1 in any of 3 heads: it is masked."


def test_nan() -> None:
    x = np.zeros((3, 2))
    x[1] = np.nan
    A = regard.matrix(x, np.zeros((3, 2)), tokens=[*"abc"])
    assert A.explain("b") == "The row of 'b' is NaN: there is a NaN among the numbers that it comes from."
    assert A.explain("b", "c") == A.explain("b")
    heads = regard.matrix(np.stack([x, np.zeros((3, 2))]), np.ones((2, 3, 2)), tokens=[*"abc"])
    assert heads.explain("b", "c").startswith("Of 2 heads, head 1 says it most strongly. 'b' gives 33 %")


def test_a_sink() -> None:
    A = regard.matrix(np.zeros((3, 1)), np.zeros((3, 1)), mask=regard.causal, sinks=[np.log(2.0)], tokens=[*"abc"])
    assert A.explain("a") == "'a' sees only itself and gives it 33 % of its attention. The sink takes 67 %."
    assert A.explain("c") == "'c' spreads its attention evenly over 3 tokens, 20 % each. The sink takes 40 %."
    nothing = regard.matrix(np.zeros((2, 1)), np.zeros((2, 1)), mask=np.zeros((2, 2), bool), sinks=[0.0])
    assert nothing.explain(0) == "Query 0 sees no key: its row is empty. All of its attention goes to the sink."


def test_values_are_said_with_v() -> None:
    row = [0.05, 0.04, 0.03, 0.81, 0.04, 0.03]
    v = np.ones((6, 2))
    v[3] *= 0.1 * 0.19 / 0.81 / 0.9
    A = rows_of([row] * 6, tokens=SIX, v=v)
    said = "spread over 6 tokens. Its value vector is short, so it adds 1 % of the weighted length. The other 5 tokens"
    share = 0.81 * v[3, 0] / (0.81 * v[3, 0] + 0.19)
    assert said.replace("1 %", percent(share)) in A.explain("cat", "chased")
    assert said.replace("1 %", percent(share)) in A.explain("cat")
    same = rows_of([row] * 6, tokens=SIX, v=np.ones((6, 2)))
    assert "Its value vector adds 81 % of the weighted length." in same.explain("cat", "chased")
    v = np.ones((6, 2))
    v[0] *= 100
    long = rows_of([row] * 6, tokens=SIX, v=v)
    assert "Its value vector is long, so it adds 84 % of the weighted length." in long.explain("cat", "[CLS]")


def test_values_of_grouped_heads() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, heads, 5, 3)) for heads in (4, 2, 2))
    A = regard.matrix(q, k, v=v)
    a = A.build()
    for b in range(2):
        for h in range(4):
            each = a[b, h, 3] * np.linalg.norm(v[b, h // 2], axis=-1)
            assert f"adds {percent(each[1] / each.sum())} of the weighted length" in A.explain(3, 1, head=(b, h))


def test_several_heads() -> None:
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 6, 5, 3))
    A = regard.matrix(q, k, tokens=["a", "b", "a", "c", "[SEP]"])
    a = A.build()
    best = int(a[:, 1, 3].argmax())
    assert A.explain("b", "c").startswith(f"Of 6 heads, head {best} says it most strongly. 'b' gives ")
    assert f"of its attention in head {best} to 'c'" in A.explain("b", "c")
    assert A.explain("b", "c", head=2).startswith(f"'b' gives {percent(a[2, 1, 3])} of its attention in head 2 to 'c'")
    # A row is told by the head that looks most at another token that is not special.
    best = int(a[:, 1, [0, 2, 3]].max(-1).argmax())
    assert A.explain("b").startswith(f"Of 6 heads, head {best} says it most strongly. ")
    A.labels = [f"L0H{h}" for h in range(6)]  # type: ignore[attr-defined]
    assert "in L0H2 to 'c'" in A.explain("b", "c", head="L0H2")
    assert A.explain("b", "c", head="L0H2") == A.explain("b", "c", head=2) == A.explain("b", "c", head=-4)
    alike = regard.matrix(np.zeros((3, 2, 1)), np.zeros((3, 2, 1)))
    assert alike.explain(0, 1).startswith("All 3 heads say it just as strongly. Query 0 gives 50 % ")


def test_tokens_that_repeat_and_tokens_that_do_not_print() -> None:
    A = rows_of([[0.7, 0.2, 0.1]] * 3, tokens=["the", " cat", "the"])
    assert A.explain(2, 0).startswith("'the' at 2 gives 70 % of its attention to 'the' at 0, ")
    assert A.explain(1, 1).startswith("'·cat' gives 20 % of its attention to itself, ")
    odd = rows_of([[0.7, 0.2, 0.1]], tokens=["\x1b[2J"], key_tokens=["\n", "", "\u202eabc"])
    assert odd.explain(0, 0).startswith("'\\x1b[2J' gives 70 % of its attention to '↵', ")
    assert " to key 1, " in odd.explain(0, 1)
    assert "'\\u202eabc'" in odd.explain(0, 2)


def test_an_other_text_is_not_itself() -> None:
    A = rows_of([[0.7, 0.2, 0.1]] * 3, tokens=["un", "chat", "noir"], key_tokens=["un", "gato", "negro"])
    assert A.explain(0).startswith("'un' gives 70 % of its attention to 'un', ")


def test_a_cache() -> None:
    A = rows_of([[0.1, 0.2, 0.7]], tokens=["a", "b", "c"])
    assert A.explain("c").startswith("'c' gives 70 % of its attention to itself, ")
    assert A.T.explain("c", "b") == A.explain("c", "b")  # it is the query that comes first


def test_a_view() -> None:
    A = rows_of([[0.1, 0.2, 0.7]] * 3, tokens=["a", "b", "c"])
    view = A.select(queries=[1, 2], keys=[0, 2])
    assert view.explain("b") == (
        "'b' gives 70 % of its attention to 'c', 1.4 times an even spread over 2 tokens. "
        "The other token, 'a', gets 10 %. 20 % goes to keys that are left out here."
    )
    assert "itself" in view.explain("c")
    with pytest.raises(QuestionError, match="expected weights: ask before norms"):
        A.norms(np.full((3, 2), 10.0)).explain(0)


def test_words() -> None:
    A = rows_of([[0.1, 0.2, 0.6, 0.1]] * 4, tokens=["The", "Ġcat", "Ġpur", "rs"]).words()
    first = "'cat' gives 70 % of its attention to 'purrs', 2.1 times an even spread over 3 tokens."
    assert A.explain("cat", "purrs") == f"{first} The other 2 tokens share 30 %."


def test_messages() -> None:
    A = rows_of([[0.7, 0.2, 0.1]] * 3, tokens=["the", "cat", "the"])
    with pytest.raises(TokenError, match="'the' is not one token but 2, at 0, 2"):
        A.explain("the")
    with pytest.raises(TokenError, match="'dog' is none of the 3 tokens of the key axis"):
        A.explain("cat", "dog")
    with pytest.raises(TokenError, match="the query axis has no tokens: pass tokens=, or a number"):
        rows_of([[1, 1]]).explain("cat")
    with pytest.raises(IndexError, match="query 3 is out of bounds, expected -3 to 2"):
        A.explain(3)
    with pytest.raises(DtypeError, match=r"query is 1\.5, expected a number or a token"):
        A.explain(1.5)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="head is 2, expected 0 to 0: there is 1 head"):
        A.explain(0, head=2)
    with pytest.raises(
        QuestionError, match="head is 'L9H9', but no head of this matrix has a name: choose it by number"
    ):
        A.explain(0, head="L9H9")
    with pytest.raises(DtypeError, match=r"head is 1\.5, expected a number, a name, or a tuple"):
        A.explain(0, head=1.5)
    with pytest.raises(QuestionError, match="a matrix without heads"):
        regard.matrix(np.zeros((0, 2, 3, 1)), np.zeros((0, 2, 3, 1))).explain(0)


def random_matrix(seed: int) -> regard.AttentionMatrix:
    """Anything: flat and sharp, masked and not, with sinks, values, heads, tokens or without."""
    rng = np.random.default_rng(seed)
    n_q, n_k = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    heads = (None, 1, 2, 5)[seed % 4]
    front = () if heads is None else (heads,)
    size = rng.choice([0, 0.3, 2, 8, 40])
    q, k = size * rng.standard_normal((*front, n_q, 3)), rng.standard_normal((*front, n_k, 3))
    if seed % 7 == 0:  # ties
        q, k = np.round(q), np.round(k)
    if seed % 11 == 0:
        q[..., 0, 0] = np.nan
    options: dict[str, Any] = {
        "mask": (None, regard.causal, rng.random((n_q, n_k)) < 0.5)[seed % 3],
        "sinks": rng.standard_normal(heads or 1) if seed % 5 == 0 else None,
        "v": rng.standard_normal((*front, n_k, 4)) * rng.choice([0.01, 1, 50], (n_k, 1)) if seed % 2 else None,
    }
    if rng.random() < 0.7:
        names = np.array(["cat", "the", "##ing", "[SEP]", "Ġdog", ".", "", "\n", "猫", "<s>", "x", "chased"])
        options |= {"tokens": list(rng.choice(names, n_q)), "key_tokens": list(rng.choice(names, n_k))}
    return regard.matrix(q, k, **options)


@pytest.mark.parametrize("block", range(8))
def test_the_wording_holds_for_anything(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        A = random_matrix(seed)
        n_q, n_k = A.shape[-2:]
        for i in range(n_q):
            for j in (None, *range(n_k)):
                said = A.explain(i, j)
                assert not FORBIDDEN.search(said), said
                assert said.endswith("."), said
                assert "\n" not in said
                assert all(SENTENCE.match(s) or s[0].isdigit() for s in re.split(r"(?<=[a-z%)0-9'])\. ", said)), said
                for share in re.findall(r"([\d.]+) %", said):
                    assert 0 < float(share) <= 100, said


@pytest.mark.parametrize("seed", range(40))
def test_the_numbers_are_those_of_the_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    q, k = rng.standard_normal((2, n, 3)) * 2
    A = regard.matrix(q, k, mask=(None, regard.causal)[seed % 2])
    a = A.build()
    for i in range(1, n):
        visible = i + 1 if seed % 2 else n
        for j in range(visible):
            said = A.explain(i, j)
            found = re.match(
                r"Query (\d+) gives (.+?) of its attention to key (\d+), (.+?) an even spread over (\d+) ", said
            )
            assert found, said
            assert (int(found[1]), int(found[3]), int(found[5])) == (i, j, visible)
            assert found[2] == percent(a[i, j])
            ratio = a[i, j] * visible
            if found[4] == "as much as":
                assert 0.94 < ratio < 1.06
            elif found[4] == "less than 0.1 times":
                assert ratio < 0.1
            else:
                assert float(found[4].removesuffix(" times")) == pytest.approx(ratio, rel=0.05, abs=0.051)
            if others := re.search(r"The other \d+ keys share (.+? %)", said):
                rest = np.delete(a[i, :visible], j).sum()
                assert others[1] == percent(rest)
            if spread := re.search(r"≈ ([\d.]+) keys", said):
                assert float(spread[1]) == pytest.approx(A.effective()[i], abs=0.051)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0, "< 0.1 %"),
        (9e-4, "< 0.1 %"),
        (0.001, "0.1 %"),
        (0.0094, "0.9 %"),
        (0.0096, "1 %"),
        (0.5, "50 %"),
        (0.994, "99 %"),
        (0.995, "99.5 %"),
        (0.9989, "99.9 %"),
        (0.9999999, "> 99.9 %"),
        (1, "100 %"),
    ],
)
def test_percent(share: float, said: str) -> None:
    assert percent(share) == said


def test_tokens_as_they_are_shown() -> None:
    assert shown("a\u200db") == "a\u200db"  # joined letters stay whole
    assert shown("\u200b") == "\\u200b"
    assert bare("▁word") == "word"


def test_only_the_row_is_computed() -> None:
    n = 200_000
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, n, 4)).astype(np.float32)
    lse = np.full(n, 10.0, np.float32)
    said = regard.matrix(q, k, mask=regard.causal, lse=lse).explain(17, 3)  # n × n would be 160 GB
    assert said.startswith("Query 17 gives ")
