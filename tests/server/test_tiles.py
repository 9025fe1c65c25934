"""Pixels of tiles against pools of the dense matrix in float64, at every pair of levels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import regard
from regard.algebra.expression import where
from regard.view.server import base, pictures
from tests.server.asking import HEAD, SECRET, WORDS, Array, Client, arrays, held, sentence, serving, until

# Relative, in f32: the weights are those of the matrix; a pass adds some hundreds of them up before it goes on in f64.
ROUNDING = {"max": 3e-7, "mean": 2e-6, "signed": 2e-6}


def causal(n_q: int, n_k: int) -> regard.AttentionMatrix:
    q, k = arrays(2, n_q, n_k)
    return regard.matrix(q, k, mask=regard.causal)


def free(n_q: int, n_k: int) -> regard.AttentionMatrix:
    return regard.matrix(*arrays(2, n_q, n_k))


def listed(n_q: int, n_k: int) -> regard.AttentionMatrix:
    """A mask of an array, with rows that see nothing."""
    seen = np.random.default_rng(3).random((n_q, n_k)) < 0.3
    seen[n_q // 3 : n_q // 2] = False
    return regard.matrix(*arrays(2, n_q, n_k), mask=seen)


def broken(n_q: int, n_k: int) -> regard.AttentionMatrix:
    """A NaN among the queries, and one among the keys that late queries alone see."""
    q, k = arrays(2, n_q, n_k)
    q[:, 5, 0] = np.nan
    k[:, n_k - 9, 0] = np.nan
    return regard.matrix(q, k, mask=regard.causal)


def biased(n_q: int, n_k: int) -> regard.AttentionMatrix:
    bias = np.random.default_rng(4).standard_normal((2, n_q, n_k)).astype(np.float32)
    bias[:, :, ::3] = -np.inf
    return regard.matrix(*arrays(2, n_q, n_k), bias=bias)


def windowed(n_q: int, n_k: int) -> regard.AttentionMatrix:
    ids = np.arange(n_k) // 100
    return regard.matrix(*arrays(2, n_q, n_k), mask=regard.causal & regard.segments(ids[n_k - n_q :], ids))


def hiding(n_q: int, n_k: int) -> regard.AttentionMatrix:
    """What is hidden is known by its score alone."""
    return regard.matrix(*arrays(2, n_q, n_k), modify=lambda s, b, h, q, k: where(s < -1.0, -np.inf, s))


def double(n_q: int, n_k: int) -> regard.AttentionMatrix:
    q, k = arrays(2, n_q, n_k)
    return regard.matrix(q.astype(np.float64), k.astype(np.float64), mask=regard.causal)


def dense(matrix: regard.AttentionMatrix, head: int) -> Array:
    """All weights of a head in float64, −inf where hidden."""
    return np.where(np.asarray(matrix.scores[head]) == -np.inf, -np.inf, np.asarray(matrix[head], np.float64))


def pooled(whole: Array, a: int, b: int, pool: str) -> Array:
    """Written out: every pixel from its cells."""
    n_q, n_k = whole.shape
    found = np.full((-(-n_q >> a), -(-n_k >> b)), -np.inf)
    for r, c in np.ndindex(found.shape):
        part = whole[r << a : (r + 1) << a, c << b : (c + 1) << b]
        seen = part[part != -np.inf]
        if len(seen):
            found[r, c] = {"max": np.max, "mean": np.mean}.get(pool, largest)(seen)
    return found


def largest(seen: Array) -> float:
    """The one of largest magnitude; of two that are as large the positive one."""
    if np.isnan(seen).any():
        return np.nan
    return float(seen.max() if seen.max() >= -seen.min() else seen.min())


def assert_same(found: Array, wanted: Array, rounding: float) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found == -np.inf, wanted == -np.inf)
    there = wanted != -np.inf
    np.testing.assert_allclose(found[there], wanted[there], rtol=rounding, atol=1e-12)


def whole(client: Client, n_q: int, n_k: int, a: int, b: int, query: str) -> Array:
    """A level put together from its tiles; one whose base is not there yet is asked for again."""
    down, across = -(-n_q >> a), -(-n_k >> b)
    found = np.zeros((down, across), np.float32)
    for i, j in product(range(-(-down // 256)), range(-(-across // 256))):
        asked = f"{query}&a={a}&b={b}&i={i}&j={j}"
        until(lambda asked=asked: client.get("tile", asked).status != 202)
        tile = client.tile(asked)
        found[i * 256 : i * 256 + len(tile), j * 256 : j * 256 + tile.shape[1]] = tile
    return found


@pytest.mark.parametrize(
    "made", [causal, free, listed, broken, biased, windowed, hiding, double], ids=lambda f: f.__name__
)
def test_pixels_are_exact_at_every_pair_of_levels(made: Callable[..., Any]) -> None:
    n_q, n_k = 19, 277
    matrix = made(n_q, n_k)
    cells = dense(matrix, 1)
    with serving(held(matrix)) as client:
        for a, b, pool in product((0, 1, 4), (0, 2, 9), ("max", "mean")):
            found = whole(client, n_q, n_k, a, b, f"r=0&x=0&l=0&h=1&pool={pool}")
            assert_same(found, pooled(cells, a, b, pool), ROUNDING[pool])


@pytest.mark.parametrize("made", [causal, listed, broken], ids=lambda f: f.__name__)
def test_pixels_from_a_base_are_exact(made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A base of at most 16 × 16 pixels in bands of 3, merged to all coarser levels."""
    monkeypatch.setattr(base, "LONG", 0)
    monkeypatch.setattr(base, "MOST", 16)
    monkeypatch.setattr(base, "BAND", 3)
    n_q, n_k = 61, 277
    matrix = made(n_q, n_k)
    cells = dense(matrix, 0)
    with serving(held(matrix)) as client:
        first = client.get("tile", f"{HEAD}&a=2&b=5&i=0&j=0")
        assert first.status in (200, 202)
        for a, b, pool in product((2, 5), (5, 6, 9), ("max", "mean")):
            found = whole(client, n_q, n_k, a, b, f"{HEAD}&pool={pool}")
            assert_same(found, pooled(cells, a, b, pool), ROUNDING[pool])
        report = client.get("base", HEAD).said
        assert report["state"] == "done"
        assert report["share"] == 1


def test_a_base_is_computed_in_the_background_and_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LONG", 0)
    with serving(held(causal(700, 700))) as client:
        before = client.get("base", HEAD).said
        assert before["state"] in ("none", "running", "done")
        until(lambda: client.get("base", HEAD).said["state"] == "done")
        assert client.get("base", HEAD).said["seconds"] > 0


@pytest.mark.parametrize("n", [1, 255, 256, 257, 509])
def test_tiles_are_cut_at_the_edges(n: int) -> None:
    with serving(held(causal(n, n))) as client:
        last = (n - 1) // 256
        tile = client.tile(f"{HEAD}&a=0&b=0&i={last}&j={last}")
        assert tile.shape == (n - 256 * last, n - 256 * last)
        assert client.get("tile", f"{HEAD}&a=0&b=0&i={last + 1}&j=0").status == 400
        if n > 256:
            assert (client.tile(f"{HEAD}&a=0&b=0&i=0&j={last}") == -np.inf).all()


def test_a_head_of_nothing() -> None:
    nothing = regard.matrix(*arrays(1, 0, 0))
    with serving(held(nothing, tokens=None)) as client:
        assert client.tile(f"{HEAD}&a=0&b=0&i=0&j=0").shape == (0, 0)
        assert client.get("tile", f"{HEAD}&a=0&b=0&i=1&j=0").status == 400
        for route in ("overview", "thumbs", "profile", "distance", "skyline"):
            query = {"overview": "r=0&x=0", "thumbs": "r=0&x=0&l=0"}.get(route, HEAD)
            assert client.get(route, query).status == 200


def test_words_are_the_mean_over_queries_and_the_sum_over_keys() -> None:
    recorded = sentence()
    matrix = recorded.recording.texts[0].matrix(1)
    words = matrix.words(recorded.recording.texts[0].text)
    assert len(words.tokens) < len(WORDS)
    with serving(recorded) as client:
        found = client.tile("r=0&x=0&l=1&h=2&a=0&b=0&i=0&j=0&unit=words")
        np.testing.assert_allclose(found, words[2], rtol=1e-6)
        coarse = client.tile("r=0&x=0&l=1&h=2&a=1&b=2&i=0&j=0&unit=words&pool=mean")
        assert_same(coarse, pooled(np.asarray(words[2], np.float64), 1, 2, "mean"), 1e-6)


def test_lengths_without_and_minus() -> None:
    recorded = sentence()
    matrix = recorded.recording.texts[0].matrix(0)
    place = "r=0&x=0&l=0&h=1&a=0&b=0&i=0&j=0"
    with serving(recorded) as client:
        np.testing.assert_allclose(client.tile(place + "&of=length"), matrix.norms()[1], rtol=1e-6)
        without = client.tile(place + "&without=12,0")
        assert (without[:, [0, 12]] == -np.inf).all()
        np.testing.assert_allclose(np.where(without == -np.inf, 0, without), matrix.without([0, 12])[1], rtol=1e-6)
        difference = np.asarray(matrix[1], np.float64) - np.asarray(matrix[2], np.float64)
        np.testing.assert_allclose(client.tile(place + "&minus=0.0.0.2"), difference, atol=1e-7)
        coarse = client.tile("r=0&x=0&l=0&h=1&a=2&b=1&i=0&j=0&minus=0.0.0.2")
        np.testing.assert_allclose(coarse, pooled(difference, 2, 1, "signed"), atol=1e-7)
        assert client.get("tile", place + "&without=13").status == 400


def test_differences_from_a_base_keep_their_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LONG", 0)
    monkeypatch.setattr(base, "MOST", 16)
    monkeypatch.setattr(pictures, "CHUNK", 640)  # pixels lie in several chunks
    matrix = causal(61, 97)
    cells = [dense(matrix, h) for h in (0, 1)]
    wanted = np.where(cells[0] == -np.inf, -np.inf, cells[0] - np.where(cells[1] == -np.inf, 0, cells[1]))
    with serving(held(matrix)) as client:
        for a, b in ((2, 3), (3, 3), (5, 4)):
            found = whole(client, 61, 97, a, b, f"{HEAD}&minus=0.0.0.1")
            np.testing.assert_allclose(found, pooled(wanted, a, b, "signed"), atol=1e-7)


def test_a_tile_says_what_it_is() -> None:
    with serving(held(causal(300, 300))) as client:
        answer = client.raw(f"/{SECRET}/api/tile?{HEAD}&a=0&b=1&i=1&j=0")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.head["rows"] == 44
        assert answer.head["columns"] == 150
        assert answer.head["exact"] is True
        assert answer.head["ms"] >= 0
