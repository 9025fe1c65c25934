"""Tokens index the axes of queries and keys; and what a softmax without some of the keys is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import reference
from regard.errors import DtypeError, ShapeError, TokenError
from tests.attention.judge import normal
from tests.matrix.built import close, kind

WORDS = ["The", "cat", "chased", "the", "mice", "the", "dog"]


def named(**options: Any) -> regard.AttentionMatrix:
    return regard.matrix(normal((2, 7, 8)), normal((2, 7, 8), "f32", 1), **{"tokens": WORDS} | options)


def test_tokens_are_places() -> None:
    A, B = named(), regard.matrix(normal((7, 8)), normal((7, 8), "f32", 1), tokens=WORDS)
    whole, single = A.build(), B.build()
    assert A[1, "cat", "chased"] == whole[1, 1, 2]
    assert B["cat", "chased"] == single[1, 2]
    close(B["cat"], single[1], 1e-6)
    close(B[:, "chased"], single[:, 2], 1e-6)
    close(A[..., "mice"], whole[..., 4], 1e-6)
    close(A[0, "cat":"mice"], whole[0, 1:4], 1e-6)  # type: ignore[misc]
    close(A[0, "cat":6:2, :"mice"], whole[0, 1:6:2, :4], 1e-6)  # type: ignore[misc]
    close(A[0, ["cat", "dog"]], whole[0, [1, 6]], 1e-6)
    close(A[0, np.array(["cat", "dog"]), ["The", "mice"]], whole[0, [1, 6], [0, 4]], 1e-6)
    close(A[0, [["cat"], ["dog"]], ["The", "mice"]], whole[0, [[1], [6]], [0, 4]], 1e-6)
    close(A[:, "cat", None], whole[:, 1, None], 1e-6)
    close(A.T[0, "chased", "cat"], whole[0, 1, 2], 1e-6)
    close(A.T[0, :, "cat"], whole[0, 1], 1e-6)
    close(A.scores[0, "cat"], A.scores[0, 1], 1e-6)


def test_queries_and_keys_have_tokens_of_their_own() -> None:
    q, k = normal((3, 8)), normal((7, 8), "f32", 1)
    A = regard.matrix(q, k, tokens=["der", "Hund", "bellt"], key_tokens=WORDS)
    whole = A.build()
    assert A["Hund", "dog"] == whole[1, 6]
    assert A.T["dog", "Hund"] == whole[1, 6]
    with pytest.raises(TokenError, match="'dog' is none of the 3 tokens of the query axis"):
        A["dog"]
    with pytest.raises(TokenError, match="'Hund' is none of the 7 tokens of the key axis"):
        A[:, "Hund"]
    # Queries are the last of the keys, as in decoding: one list names both.
    B = regard.matrix(q, k, tokens=WORDS)
    assert B["dog", "cat"] == whole[2, 1]
    with pytest.raises(TokenError):
        B["cat"]
    # Keys alone may be named, and queries alone where their numbers differ.
    assert regard.matrix(q, k, key_tokens=WORDS)[1, "dog"] == whole[1, 6]
    only = regard.matrix(q, k, tokens=["der", "Hund", "bellt"])
    close(only["Hund"], whole[1], 1e-6)
    with pytest.raises(TokenError):
        only[0, "Hund"]


def test_tokens_that_are_not_there_or_not_one() -> None:
    A = named()
    for index, message in (
        ((0, "horse"), "'horse' is none of the 7 tokens of the query axis: index by number"),
        ((0, 0, "horse"), "'horse' is none of the 7 tokens of the key axis: index by number"),
        ((0, "the"), "'the' is not one token but 2, at 3, 5: index by one of these numbers"),
        ((0, ["cat", "the"]), "'the' is not one token but 2, at 3, 5: index by one of these numbers"),
        ((0, slice("the", None)), "'the' is not one token but 2, at 3, 5: index by one of these numbers"),
    ):
        with pytest.raises(TokenError) as caught:
            A[index]
        assert str(caught.value) == message
        assert isinstance(caught.value, LookupError)
    for index in ("cat", ("cat", "chased"), (["cat"], 0)):  # the heads come first
        with pytest.raises(TokenError, match="give the leading indices first"):
            A[index]
    many = regard.matrix(normal((30, 8)), normal((30, 8)), tokens=["a"] * 30)
    with pytest.raises(TokenError, match=r"not one token but 30, at 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 …: index by"):
        many["a"]
    with pytest.raises(TokenError):
        named(tokens=None)[0, "cat"]


def test_tokens_of_the_wrong_number() -> None:
    for options, message in (
        ({"tokens": WORDS[1:]}, "tokens has 6 tokens, but there are 7 queries: give each query one"),
        ({"key_tokens": WORDS[1:]}, "key_tokens has 6 tokens, but there are 7 keys: give each key one"),
    ):
        with pytest.raises(ShapeError) as caught:
            named(**options)
        assert str(caught.value) == message
    with pytest.raises(
        DtypeError, match=r"tokens is one string, expected a token for each place: pass tokens=text\.sp"
    ):
        named(tokens="The cat")


# without.


def test_without_keys_is_a_softmax_over_the_others() -> None:
    built = kind("grouped, padding, f64")
    A, n_k = built.A, built.weights.shape[-1]
    for keys, gone in (([0, 3], [0, 3]), (slice(2, 5), [2, 3, 4]), (-1, [n_k - 1]), ([], []), (range(2), [0, 1])):
        left = np.delete(np.arange(n_k), gone)
        kept = np.zeros_like(built.scores, dtype=bool)
        kept[..., left] = True
        want = reference.softmax(np.where(kept, built.scores, -np.inf))
        close(A.without(keys)[...], want, built.rounding, 1e-12, f"without {keys}")
    B = named()
    close(B.without("cat")[...], B.without(1)[...], 1e-6)
    close(B.without(["cat", 4])[...], B.without([1, 4])[...], 1e-6)
    assert B.without("cat").tokens == B.tokens
    with pytest.raises(TokenError):
        B.without("horse")
    close(B.without(slice("cat", None))[...], B.without(slice(1, None))[...], 1e-6)
    for keys, words in (
        (7, "keys goes from 7 to 7, expected -7 to 6"),
        ([0, 9], "keys goes from 0 to 9, expected -7 to 6"),
        ([0.5], "keys has shape (1,) and dtype float64, expected a slice, indices, or 7 booleans: pass one of them"),
        (1.5, "keys has shape () and dtype float64, expected a slice, indices, or 7 booleans: pass one of them"),
        ([True], "keys has shape (1,) and dtype bool, expected a slice, indices, or 7 booleans: pass one of them"),
    ):
        with pytest.raises(IndexError) as caught:
            B.without(keys)
        assert str(caught.value) == words
