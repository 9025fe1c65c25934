"""Pooled views: selections, means over heads, words and weighted lengths, against the same on the built matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import regard
import regard.pooling
from regard.errors import DtypeError, LimitError, QuestionError, ShapeError, TokenError
from regard.lens import Mass, Received
from regard.words import words_of
from tests.attention.judge import normal
from tests.lens.asked import NAMES, Flat, agree, everything, flattened, wanted
from tests.matrix.built import Built, beside, close, kind

Array = Any
KINDS = (
    "f64",
    "single, more queries than keys",
    "leading axes and an array",
    "grouped, padding, f64",
    "bias, sinks, bf16",
    "modified",
    "hidden by a modifier",
    "window and array",
    "NaN",
)
# Masks are about the whole, not the view: they are held below.
PLAIN = [name for name in NAMES if name not in ("mass causal", "mass window", "mass function", "mass causal and array")]


# The same, dense: (…, heads, rows, keys) weights, and which cells are visible.

Dense = tuple[Array, Array]


def mean_of_queries(x: Array, spans: list[tuple[int, int]], seen: bool = False) -> Array:
    parts = [x[..., a:b, :].any(-2) if seen else x[..., a:b, :].mean(-2) for a, b in spans]
    return np.stack(parts, -2)


def sum_of_keys(x: Array, spans: list[tuple[int, int]], seen: bool = False) -> Array:
    return np.stack([x[..., a:b].any(-1) if seen else x[..., a:b].sum(-1) for a, b in spans], -1)


def in_spans(built: Dense, rows: list[tuple[int, int]], keys: list[tuple[int, int]]) -> Dense:
    a, seen = built
    return sum_of_keys(mean_of_queries(a, rows), keys), sum_of_keys(mean_of_queries(seen, rows, True), keys, True)


def lengths(built: Built, v: Array, w_o: Array | None = None) -> Array:
    """(…, heads, keys)"""
    of = built.A.weights.of
    v = v.astype(float)
    v = v if of.single else np.repeat(v, of.heads // of.key_heads, axis=-3)
    if w_o is not None:
        w = w_o.astype(float).reshape(of.heads, v.shape[-1], -1)
        v = v @ (w[0] if of.single else w)
    return np.linalg.norm(v, axis=-1)


def values_of(built: Built, d_v: int = 3) -> Array:
    of = built.A.weights.of
    front = () if of.single else (*of.leading, of.key_heads)
    return np.random.default_rng(5).standard_normal((*front, of.n_k, d_v)).astype(regard.weights.DTYPES[of.storage])


def spans_of(n: int, step: int) -> list[tuple[int, int]]:
    """Words of 1, 2, … step tokens, over and over."""
    result, at, size = [], 0, 1
    while at < n:
        result.append((at, min(at + size, n)))
        at, size = at + size, size % step + 1
    return result


View = Callable[[Built], tuple[Any, Array, Array, Array, Array]]  # view, weights, visible, positions


def places(built: Built) -> tuple[Array, Array]:
    q, k = built.A.readable().positions
    return np.asarray(q), np.asarray(k)


def selected(built: Built) -> Any:
    n_q, n_k = built.A.shape[-2:]
    rows, keys = np.arange(n_q)[::3], np.array([n_k - 1, 0, n_k // 2])
    view = built.A.select(queries=slice(None, None, 3), keys=keys)
    index = (..., rows[:, None], keys)
    q, k = places(built)
    return view, built.weights[index], built.visible[index], q[rows], k[keys]


def word_by_word(built: Built) -> Any:
    n_q, n_k = built.A.shape[-2:]
    rows, keys = spans_of(n_q, 3), spans_of(n_k, 4)
    view = built.A.words(rows, keys)
    a, seen = in_spans((built.weights, built.visible), rows, keys)
    shift = 0 if built.A.weights.offset == 0 else len(keys) - len(rows)
    return view, a, seen, np.arange(len(rows)) + shift, np.arange(len(keys))


def mean_head(built: Built) -> Any:
    q, k = places(built)
    return built.A.mean_heads(), built.weights.mean(-3), built.visible.any(-3), q, k


def last_head(built: Built) -> Any:
    q, k = places(built)
    return built.A.select(heads=-1), built.weights[..., -1, :, :], built.visible[..., -1, :, :], q, k


def some_heads(built: Built) -> Any:
    view, a, seen, q, k = selected(built)
    n = a.shape[-3]
    heads = [n - 1, 0]
    return view.select(heads=heads), a[..., heads, :, :], seen[..., heads, :, :], q, k


def weighted(built: Built) -> Any:
    v, (q, k) = values_of(built), places(built)
    return built.A.norms(v), built.weights * lengths(built, v)[..., None, :], built.visible, q, k


def everything_at_once(built: Built) -> Any:
    """Norms after the output projection, means over heads, words, and a selection of these."""
    v, of = values_of(built), built.A.weights.of
    w_o = np.random.default_rng(6).standard_normal((of.heads * v.shape[-1], 7))
    n_q, n_k = built.A.shape[-2:]
    rows, keys = spans_of(n_q, 2), spans_of(n_k, 3)
    view = built.A.words(rows, keys).norms(v, w_o).mean_heads([0, -1]).select(queries=[2, 0], keys=slice(1, None))
    a = (built.weights * lengths(built, v, w_o)[..., None, :])[..., [0, -1], :, :].mean(-3)
    a, seen = in_spans((a, built.visible[..., [0, -1], :, :].any(-3)), rows, keys)
    shift = 0 if built.A.weights.offset == 0 else len(keys) - len(rows)
    return view, a[..., [2, 0], 1:], seen[..., [2, 0], 1:], np.array([2, 0]) + shift, np.arange(len(keys))[1:]


VIEWS: dict[str, Any] = {
    "select": selected,
    "words": word_by_word,
    "mean_heads": mean_head,
    "one head": last_head,
    "some heads": some_heads,
    "norms": weighted,
    "everything": everything_at_once,
}
CASES = [(name, view) for name in KINDS for view in VIEWS]


def case(name: str, view: str) -> tuple[Built, Any, Array, Array, Array, Array]:
    if name.startswith("single") and view in ("mean_heads", "one head", "some heads", "everything"):
        pytest.skip("there is no axis of heads")
    built = kind(name)
    return built, *VIEWS[view](built)


@pytest.mark.parametrize(("name", "view"), CASES)
def test_reading(name: str, view: str) -> None:
    built, A, a, _, _, _ = case(name, view)
    relative = 4 * built.rounding
    assert A.shape == a.shape
    assert A.dtype == built.A.dtype
    close(A, a, relative, 1e-12, "all")
    close(A.T, a.swapaxes(-1, -2), relative, 1e-12, "turned")
    n_q, n_k = a.shape[-2:]
    rng = np.random.default_rng(0)
    i, j = rng.integers(-n_q, n_q, (4, 3)), rng.integers(0, n_k, 3)
    for index in (
        (..., -1, slice(None)),
        (..., slice(None), 0),
        (..., slice(None, None, -2), slice(1, None)),
        (..., i, j),
        (..., i[0][:, None], j),
        (..., rng.random(n_q) < 0.5, slice(None, 2)),
        (None, ..., 0, 1),
    ):
        close(A[index], a[index], relative, 1e-12, str(index))
    turned = (..., j, i)
    close(A.T[turned], a[..., i, j], relative, 1e-12, "turned cells")


@pytest.mark.parametrize(("name", "view"), CASES)
def test_cells_one_by_one(name: str, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # No outer product is small enough: every cell is computed by itself, in several parts, and the largest as blocks.
    monkeypatch.setattr("regard.indexing.SLACK", -1 << 40)
    monkeypatch.setattr(regard.pooling, "SINGLE", 7)
    monkeypatch.setattr(regard.pooling, "FEW", 1)
    built, A, a, _, _, _ = case(name, view)
    index = (..., np.array([[0, -1], [1, 0]]), np.array([-1, 0]))
    close(A[index], a[index], 4 * built.rounding, 1e-12)


@pytest.mark.parametrize(("name", "view"), CASES)
def test_every_question(name: str, view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.pooling, "CELLS", 40)  # many parts, in the middle of words too
    # Each question is asked of each view on three kinds of matrix, and of each kind by two views or three; the view of
    # everything at once is asked all of them.
    asked = PLAIN if view == "everything" else PLAIN[(KINDS.index(name) + list(VIEWS).index(view)) % 3 :: 3]
    built, A, a, seen, q, k = case(name, view)
    of = A.readable()
    assert (np.asarray(of.positions[0]) == q).all()
    assert (np.asarray(of.positions[1]) == k).all()
    flat = (of.heads, *a.shape[-2:])
    f = Flat(a.reshape(flat), seen.reshape(flat), q, k, of.each, of.group, 4 * built.rounding)
    for name, question in everything(f).items():
        if name in asked and not ("kv" in name and not A.pooling().whole_groups):
            agree(name, question, flattened(question, A.ask(question)[0], of.front), wanted(question, f), f)


@pytest.mark.parametrize("name", ["leading axes and an array", "grouped, padding, f64"])
def test_masks_are_about_the_whole(name: str) -> None:
    built = kind(name)
    n_q, n_k = built.A.shape[-2:]
    row, key, head = np.array([n_q - 1, 0, 2]), np.array([1, n_k - 1]), np.array([1, 0, 3])
    A = built.A.select(head, row, key)
    a = built.weights[..., head, :, :][..., row[:, None], key]
    where = regard.mask(lambda b, h, q, k: (q + k + h + b) % 2 == 0)
    b = np.arange(np.prod(a.shape[:-3], dtype=int)).reshape(*a.shape[:-3], 1, 1, 1)
    inside = (row[:, None] + n_k - n_q + key + head[:, None, None] + b) % 2 == 0
    close(A.mass(where).heads, np.where(inside, a, 0).sum((-1, -2)) / a.sum((-1, -2)), 1e-6)
    close(A.ask(Mass(where))[0].heads, A.mass(where).heads, 0)
    first = A.select(heads=0).mass(regard.window(0, 0, align="first")).rows
    inside = row[:, None] == key
    whole = a[..., 0, :, :].sum(-1)
    close(first, np.where(inside, a[..., 0, :, :], 0).sum(-1) / np.where(whole == 0, 1, whole), 1e-6)
    with pytest.raises(QuestionError, match=r"^mass was asked of a mean over heads inside a mask that differs by head"):
        A.mean_heads().mass(where)
    segments = regard.segments(np.arange(n_k) // 2)
    A.mass(segments)
    with pytest.raises(ShapeError, match=rf"^ids of where is for 2 keys, but the view is of {n_k}: make it for all of"):
        A.mass(regard.segments([0, 1]))


def test_key_heads_of_a_selection() -> None:
    built = kind("grouped, padding, f64")  # 6 query heads on 2 key heads
    whole = built.A.select(heads=slice(3, None)).received(group="kv")
    close(whole, built.weights[:, 3:].sum((1, 2))[:, None], 1e-12)
    for view in (built.A.select(heads=[0, 1]), built.A.select(heads=[1, 2, 3]), built.A.mean_heads()):
        with pytest.raises(QuestionError, match=r"^group='kv' was asked of some heads or their mean, expected all"):
            view.ask(Received(group="kv"))


# Selections.


def small(**options: Any) -> regard.AttentionMatrix:
    return regard.matrix(np.zeros((3, 5, 2)), np.zeros((3, 5, 2)), tokens=["a", "b", "c", "d", "e"], **options)


def test_select_by_everything() -> None:
    A = regard.matrix(normal((3, 5, 4), "f64"), normal((3, 5, 4), "f64", 1), tokens=["a", "b", "c", "d", "e"])
    a = np.asarray(A)
    for chosen, places in [
        (slice(1, 4), [1, 2, 3]),
        ([3, -5], [3, 0]),
        ([True, False, False, True, False], [0, 3]),
        (np.array([1, 1]), [1, 1]),
        ("c", [2]),
        (["e", "b", 0], [4, 1, 0]),
        (("e",), [4]),
        (slice("b", "d"), [1, 2]),
        (3, [3]),
        (np.int64(-1), [4]),
        ([], []),
        (np.array(["b"]), [1]),
        (torch.tensor([4, 2]), [4, 2]),
        (range(1, 3), [1, 2]),
    ]:
        close(A.select(queries=chosen), a[:, places], 0)
        close(A.select(keys=chosen), a[:, :, places], 0)
        assert A.select(queries=chosen).tokens == tuple("abcde"[i] for i in places)
        assert A.select(keys=chosen).key_tokens == tuple("abcde"[i] for i in places)
    for chosen, shape in [(2, (5, 5)), (slice(0, 2), (2, 5, 5)), ([0], (1, 5, 5)), ([False] * 3, (0, 5, 5))]:
        assert A.select(heads=chosen).shape == shape
        close(A.select(heads=chosen), a[chosen], 0)
    assert A.select().shape == A.shape
    assert A.select(1)["b", "c"] == A[1, "b", "c"]
    close(A.select(queries=["e", "b"])[:, "b"], a[:, 1], 0)


def test_distances_of_a_selection_stay() -> None:
    A = regard.matrix(normal((4, 2), "f64"), normal((9, 2), "f64"), mask=regard.causal)
    found = A.select(queries=[3, 1], keys=[0, 4]).by_distance()
    a = np.asarray(A)
    want = {8: a[3, 0], 4: a[3, 4], 6: a[1, 0], 2: a[1, 4]}
    assert found.distances.tolist() == [2, 3, 4, 5, 6, 7, 8]
    close(found.mass, np.array([want.get(x, 0) for x in found.distances]), 1e-12)
    assert found.visible.tolist() == [1, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    "view",
    [
        lambda A: A.select(heads=[]),
        lambda A: A.select(queries=[]),
        lambda A: A.select(keys=slice(0)),
        lambda A: A.select(queries=[], keys=[]),
        lambda A: A.select(queries=[]).words(),
        lambda A: A.select(keys=[]).words(),
        lambda A: A.select(keys=[]).mean_heads().norms(np.ones((3, 5, 2))),
    ],
)
@pytest.mark.parametrize("mask", [None, regard.causal])
def test_nothing_left(view: Any, mask: Any) -> None:
    A = view(small(mask=mask))
    assert A.size == 0
    assert np.asarray(A).shape == A.shape
    for name, x in A.summary().items():
        for part in x if isinstance(x, tuple) else (x,):
            assert np.isfinite(part).all(), name
    assert A.entropy().shape == A.shape[:-1]
    assert A.received().shape == (*A.shape[:-2], A.shape[-1])
    assert A.mass(regard.causal).rows.shape == A.shape[:-1]
    assert len(A.cells(0.0).weight) == 0


def test_a_long_matrix_is_not_built() -> None:
    n = 20000
    x = normal((2, n, 8))
    A = regard.matrix(x, x, mask=regard.causal, v=x)
    words = A.mean_heads().norms().words([(i, i + 2) for i in range(0, n, 2)])
    assert words.shape == (n // 2, n // 2)
    rows = np.asarray([A[h, 2 * 777 : 2 * 777 + 2] for h in (0, 1)], float)
    want = (rows * np.linalg.norm(x.astype(float), axis=-1)[:, None]).mean((0, 1)).reshape(-1, 2).sum(-1)
    close(words[777], want, 1e-5, 1e-9)
    assert words[[1, -1], [0, 5]].shape == (2,)
    A = regard.matrix(x, x, mask=regard.causal)
    found = A.select(heads=0, queries=[0, n - 1], keys=[n - 1, 0])[:]
    assert A.weights._known.sum() == 2  # neither the lse of the rows between nor that of other heads was computed
    close(found, np.array([[0, 1.0], [A[0, -1, -1], A[0, -1, 0]]]), 1e-6)
    message = r"^this would build 100000000 cells \(381\.5 MiB\), expected at most 1000: "
    with pytest.raises(LimitError, match=message):
        words.build(1000)
    long = regard.matrix(normal((1, 20000, 2)), normal((1, 20000, 2))).mean_heads()
    for refused in (lambda: np.asarray(long), lambda: long[:]):
        with pytest.raises(
            LimitError, match=r"^this would build 400000000 cells \(1\.5 GiB\), expected at most 268435"
        ):
            refused()


def test_a_word_of_all_tokens_is_pooled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    weighted = regard.pooling.Pooling._weighted

    def noted(self: Any, *arguments: Any) -> Any:
        found = weighted(self, *arguments)
        sizes.append(found.size)
        return found

    monkeypatch.setattr(regard.pooling.Pooling, "_weighted", noted)
    monkeypatch.setattr(regard.pooling, "CELLS", 1 << 16)
    x = normal((1000, 4))
    A = regard.matrix(x, x, mask=regard.causal).words([(0, 1000)])
    close(A[0, 0], np.ones(()), 1e-5)
    close(A.received(), np.ones(1), 1e-5)
    close(A[[0], [0]], np.ones(1), 1e-5)
    assert max(sizes) <= 1 << 16


# Means over heads.


def test_mean_of_some_heads() -> None:
    A = regard.matrix(normal((2, 3, 5, 4), "f64"), normal((2, 3, 5, 4), "f64", 1))
    a = np.asarray(A)
    close(A.mean_heads([0, 2]), a[:, [0, 2]].mean(1), 1e-12)
    close(A.mean_heads(1), a[:, 1], 0)
    words = A.mean_heads(slice(1, None)).words([(0, 5)], [(3, 5)])
    close(words[:, 0, 3], a[:, 1:, :, 3:].sum(-1).mean((1, 2)), 1e-12)


# Words.


@pytest.mark.parametrize(
    ("tokens", "given", "words"),
    [
        ("[CLS] play ##ing cats [SEP]", None, ["[CLS]", "playing", "cats", "[SEP]"]),
        ("The Ġcat Ġpur rs .", None, ["The", "cat", "purrs."]),
        ("<s> ▁The ▁un s een ▁ cat </s>", None, ["<s>", "The", "unseen", "cat", "</s>"]),
        ("<|begin_of_text|> Hi Ċ Ġyou Ċ there", None, ["<|begin_of_text|>", "Hi", "Ċ", "you", "Ċ", "there"]),
        ("<pad> <pad> a b", None, ["<pad>", "<pad>", "a", "b"]),
        ("Ġna Ã¯ ve", None, ["naïve"]),
        ("▁caf <0xC3> <0xA9> ▁x", None, ["café", "x"]),
        ("[CLS] play ##ing cats ! [SEP]", "Playing cats!", ["[CLS]", "Playing", "cats", "!", "[SEP]"]),
        ("the resume ##s don ' t", "The résumés don’t".replace("’", "'"), ["The", "résumés", "don't"]),
        ("The Ġcat Ġpur rs .", "The cat purrs.", ["The", "cat", "purrs", "."]),
        ("wait ... Ġ( no )", "wait... (no)", ["wait", "...", "(", "no", ")"]),
        ("wait ... Ġ( no )", ["wait...", "(no)"], ["wait...", "(no)"]),
        ("New ĠYork Ġis", ["New York", "is"], ["New York", "is"]),
        ("<s> ▁The ▁ cat </s>", "The cat", ["<s>", "The", "cat", "</s>"]),
        ("<s> ▁The ▁ cat </s>", "<s>The cat</s>", ["<s>", "The", "cat", "</s>"]),
        ("[CLS] a [UNK] , b [SEP]", "A ☃x☃, b".replace("☃", "ж"), ["[CLS]", "A", "жxж", ",", "b", "[SEP]"]),
        ("Ġna Ã ¯ ve Ġcat", "naïve cat", ["naïve", "cat"]),
        ("hi Ġ ðŁ ĺ Ģ !", "hi 😀!", ["hi", "😀", "!"]),
        ("The Ċ Ġcat", "The\n cat", ["The", "Ċ", "cat"]),
        ("नम ##स ##्ते", "नमस्ते", ["नमस्ते"]),
        ("a b", "", None),
        ("", None, []),
        ("", "", []),
    ],
)
def test_words_of_tokens(tokens: str, given: Any, words: list[str] | None) -> None:
    known = tokens.split()
    if words is None:
        with pytest.raises(
            TokenError, match=r"^token 0 is 'a' where the words have their end, expected the same: pass"
        ):
            words_of(known, len(known), given)
        return
    found = words_of(known, len(known), given)
    assert list(found.names or ()) == words
    assert len(found.bounds) == len(words) + 1
    assert (found.bounds[0], found.bounds[-1]) == (0, len(known))
    assert (np.diff(found.bounds) > 0).all()


def test_tokens_with_spaces() -> None:
    assert words_of(["The", " cat", " pur", "rs", "\n", "x"], 6).names == ("The", "cat", "purrs", "\n", "x")


def test_words_of_a_matrix() -> None:
    tokens = ["[CLS]", "play", "##ing", "cats", "[SEP]"]
    x, y = normal((2, 5, 3), "f64"), normal((2, 5, 3), "f64", 1)
    A = regard.matrix(x, y, tokens=tokens)
    spans = [(0, 1), (1, 3), (3, 4), (4, 5)]
    words = A.words()
    want, _ = in_spans((np.asarray(A), np.ones(A.shape, bool)), spans, spans)
    close(words, want, 1e-12)
    assert words.tokens == words.key_tokens == ("[CLS]", "playing", "cats", "[SEP]")
    close(words[1, "playing", "cats"], want[1, 1, 2], 1e-12)
    close(words.entropy(), -(want * np.log(want)).sum(-1), 1e-12)
    close(words.top(1).weights[..., 0], want.max(-1), 1e-12)
    assert (words.peak().keys == want.argmax(-1)).all()
    for other in (A.words("playing cats"), A.words(["playing", "cats"]), A.words([(1, 3)])):
        close(other, want, 1e-12)
        assert other.tokens == words.tokens
    close(A.words().mean_heads(), want.mean(0), 1e-12)
    close(A.select(heads=1).words(), want[1], 1e-12)
    close(A.words().words([(1, 3)]), in_spans((want, want > 0), [(0, 1), (1, 3), (3, 4)], [(0, 1), (1, 3), (3, 4)])[0],
          1e-12)  # fmt: skip
    assert A.words().words([(1, 3)]).tokens == ("[CLS]", "playingcats", "[SEP]")
    assert regard.matrix(x, y).words([(1, 3)]).tokens is None
    distances = words.by_distance()
    assert distances.distances.tolist() == list(range(-3, 4))
    close(distances.mass[:, 3], np.trace(want, axis1=-2, axis2=-1), 1e-12)


def test_the_queries_of_a_cache_are_the_last_words() -> None:
    keys = ["Ġa", "b", "Ġc", "d", "Ġe", "Ġf", "g"]
    A = regard.matrix(normal((3, 2), "f64"), normal((7, 2), "f64"), mask=regard.causal, tokens=keys)
    assert A.tokens == ("Ġe", "Ġf", "g")
    assert A.words().tokens == ("e", "fg")
    a, _ = in_spans((np.asarray(A), np.asarray(A) > 0), [(0, 1), (1, 3)], [(0, 2), (2, 4), (4, 5), (5, 7)])
    close(A.words(), a, 1e-12)
    close(A.words("ab cd e fg"), a, 1e-12)
    assert A.words().by_distance().distances.tolist() == [-1, 0, 1, 2, 3]
    # "g" alone is what is left of its word; it stands where the word does.
    part = A.select(queries=[2]).words()
    assert part.tokens == ("fg",)
    close(part.by_distance().mass, part[0][::-1], 0)
    assert A.words().mass(regard.causal).rows.tolist() == [1.0, 1.0]
    assert A.select(queries=slice(1, None), keys=[4, 5]).words().key_tokens == ("e", "f")


def test_other_tokens_on_the_keys() -> None:
    A = regard.matrix(
        normal((3, 2), "f64"), normal((4, 2), "f64"), tokens=["Ġa", "b", "Ġc"], key_tokens=["u", "v", "w", "x"]
    )
    a = np.asarray(A)
    words = A.words()
    assert (words.tokens, words.key_tokens) == (("ab", "c"), ("u", "v", "w", "x"))
    close(words, np.stack([a[:2].mean(0), a[2]]), 1e-12)
    assert A.words([(0, 3)], [(1, 3)]).shape == (1, 3)
    assert A.words(None, ["u", "vw", "x"]).key_tokens == ("u", "vw", "x")
    message = (
        r"^words was given those of 3 queries, but there are 4 keys of other tokens: pass words\(spans, key_spans\)$"
    )
    with pytest.raises(ShapeError, match=message):
        A.words([(0, 3)])


def test_a_continuation_whose_beginning_is_left_out() -> None:
    A = regard.matrix(np.zeros((4, 1)), np.zeros((4, 1)), tokens=["a", "##b", "c", "##d"])
    assert A.select(keys=[0, 3]).words(key_spans=None).key_tokens == ("a", "d")


# Norms.


@pytest.mark.parametrize("w_o", [None, (6 * 5, 7), (6, 5, 3), (6 * 5, 40)])
def test_norms_of_groups(w_o: Any) -> None:
    v = normal((3, 2, 9, 5), "f64")
    w = None if w_o is None else normal(w_o, "f64", 3)
    built = beside(
        normal((3, 6, 8, 4), "f64"), normal((3, 2, 9, 4), "f64", 1), mask=regard.causal, v=v, sinks=np.ones(6)
    )
    want = built.weights * lengths(built, v, w)[..., None, :]
    close(built.A.norms(w_o=w), want, 1e-12, 1e-14)
    close(built.A.norms(v[:1], w), built.weights * lengths(built, v[:1], w)[..., None, :], 1e-12, 1e-14)
    close(built.A.norms(v, w).received(), want.sum(-2), 1e-12)


def test_norms_of_every_kind_of_array() -> None:
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    v = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1)).bfloat16()
    found = regard.matrix(x, x).norms(v)[:]
    assert isinstance(found, torch.Tensor)
    want = np.asarray(regard.matrix(x, x)) * v.float().norm(dim=-1).numpy()[:, None]
    close(found, want, 1e-6)
    assert isinstance(regard.matrix(x, x).norms(v, torch.ones(10, 3)).entropy(), torch.Tensor)


def test_what_is_hidden_cannot_leak() -> None:
    v = np.ones((4, 2))
    v[3] = np.nan
    v[2] = np.inf
    A = regard.matrix(np.zeros((4, 1)), np.zeros((4, 1)), mask=regard.causal, v=v).norms()
    close(A[:2], np.tril(np.ones((2, 4))) * np.sqrt(2) / [[1], [2]], 1e-12)
    assert np.isinf(A[2, 2])
    assert np.isnan(A[3, 3])
    assert np.isfinite(A[[0, 1, 2], [3, 2, 3]]).all()
    assert np.isfinite(A.words([(0, 2), (2, 4)])[0]).all()


# What is said.


def test_lines() -> None:
    A = regard.matrix(np.zeros((2, 4, 6, 3), np.float32), np.zeros((2, 2, 6, 3), np.float32))
    whole = "2 × 4 heads, 6 queries × 6 keys, d = 3, f32"
    assert repr(A.select(heads=0, queries=[1])) == f"PooledMatrix: 2 heads, 1 query × 6 keys (select of {whole})"
    assert repr(A.mean_heads().words([(0, 6)])) == (
        f"PooledMatrix: 2 heads, 1 query × 1 key (words of mean_heads of {whole})"
    )
    one = regard.matrix(np.zeros((6, 3)), np.zeros((6, 3))).select()
    assert repr(one) == "PooledMatrix: 1 head, 6 queries × 6 keys (select of 1 head, 6 queries × 6 keys, d = 3, f64)"


def test_what_heads_are_called() -> None:
    A = regard.matrix(np.zeros((2, 4, 3, 1)), np.zeros((2, 4, 3, 1)))
    assert A.select(heads=[3, 1]).labels == [f"item {b}, head {h}" for b in (0, 1) for h in (3, 1)]
    assert A.mean_heads().labels == ["item 0", "item 1"]
    B = small()
    assert B.select(heads=2).words([(0, 2)]).labels == ["head 2"]
    assert B.mean_heads().labels is None
    assert "in head 2" in B.select(heads=2).explain(0, 1)
    assert "head" not in B.mean_heads().explain(0, 1)


def test_views_are_shown_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    A = regard.matrix(np.zeros((2, 3, 1)), np.zeros((2, 3, 1)), tokens=["play", "##ing", "cats"])
    for view in (A.words(), A.words().T, A.mean_heads().words()):
        view.show(head=None if view.front == () else 1)
        assert "playing" in capsys.readouterr().out
        assert "playing" in view.explain("playing", "cats")
        assert "playing" in view._repr_html_()
        assert view.patterns().names


E = small
MESSAGES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "lse": (
        lambda: E().words().lse,
        QuestionError,
        "lse was asked of a pooled view (words), which is no softmax of scores: ask the matrix it was made of",
    ),
    "scores": (
        lambda: E().mean_heads().select(queries=[0]).scores[0],
        QuestionError,
        "scores were asked of a pooled view (select of mean_heads), which is no softmax of scores: "
        "ask the matrix it was made of",
    ),
    "head": (lambda: E().select(heads=3), IndexError, "head 3 is out of bounds, expected -3 to 2"),
    "heads": (lambda: E().select(heads=[0, -4]), IndexError, "heads goes from -4 to 0, expected -3 to 2"),
    "heads of one": (
        lambda: E().select(heads=0).select(heads=0),
        ShapeError,
        "heads were chosen of a matrix without an axis of heads, expected one: leave heads out",
    ),
    "queries": (lambda: E().select(queries=[5]), IndexError, "queries goes from 5 to 5, expected -5 to 4"),
    "booleans": (
        lambda: E().select(keys=[True, False]),
        IndexError,
        "keys has shape (2,) and dtype bool, expected a slice, indices, or 5 booleans: pass one of them",
    ),
    "floats": (
        lambda: E().select(keys=[0.5]),
        IndexError,
        "keys has shape (1,) and dtype float64, expected a slice, indices, or 5 booleans: pass one of them",
    ),
    "token": (
        lambda: E().select(keys=["x"]),
        TokenError,
        "'x' is none of the 5 tokens of the key axis: index by number",
    ),
    "query token": (
        lambda: E().select(queries="x"),
        TokenError,
        "'x' is none of the 5 tokens of the query axis: index by number",
    ),
    "no heads to average": (
        lambda: E().mean_heads([]),
        ShapeError,
        "mean_heads was asked of no heads, expected one at least: choose some",
    ),
    "no axis of heads": (
        lambda: E().mean_heads().mean_heads(),
        ShapeError,
        "mean_heads was asked of a matrix without an axis of heads, expected one: leave it out",
    ),
    "no values": (
        lambda: E().norms(),
        QuestionError,
        "norms was asked without values, expected v: pass norms(v) or matrix(…, v=v)",
    ),
    "norms twice": (
        lambda: E(v=np.ones((3, 5, 1))).norms().norms(),
        QuestionError,
        "norms was asked of weighted lengths, expected weights: ask it once",
    ),
    "values of another shape": (
        lambda: E().norms(np.ones((5, 2))),
        ShapeError,
        "v has shape (5, 2), expected (…, 3, 5, d_v): give each key of the matrix one value",
    ),
    "values of other sequences": (
        lambda: E().norms(np.ones((2, 3, 5, 2))),
        ShapeError,
        "v has leading axes (2,), expected some that broadcast to (): give each sequence its values",
    ),
    "projection": (
        lambda: E().norms(np.ones((3, 5, 2)), np.ones((5, 6))),
        ShapeError,
        "w_o has shape (5, 6), expected (3 · 2, d_model) or (3, 2, d_model): "
        "pass the matrix that z is multiplied with, z @ w_o",
    ),
    "no tokens": (
        lambda: regard.matrix(np.zeros((2, 1)), np.zeros((2, 1))).words(),
        TokenError,
        "this matrix has no tokens, expected some to make words of: pass tokens, or (start, stop) spans",
    ),
    "other words": (
        lambda: E().words("a b x d e"),
        TokenError,
        "token 2 is 'c' where the words have 'x', expected the same: pass the text that was tokenized, or spans",
    ),
    "more words": (
        lambda: E().words("a b c d e foo bar"),
        TokenError,
        "the words go on with 'foo' after the last token, expected those of the tokens: "
        "pass the text that was tokenized, or spans",
    ),
    "a token of two words": (
        lambda: words_of(["ab", "c"], 2, ["a", "bc"]),
        TokenError,
        "token 0, 'ab', is part of 'a' and of 'bc', expected no token in two words: "
        "join these, or pass the text as one string",
    ),
    "spans that overlap": (
        lambda: E().words([(0, 2), (1, 3)]),
        ShapeError,
        "the words have spans that overlap at (1, 3), expected each token in one",
    ),
    "a span outside": (
        lambda: E().words([(4, 6)]),
        ShapeError,
        "the words have the span (4, 6), expected one token or more within 0 and 5",
    ),
    "an empty span": (
        lambda: E().words([(4, 4)]),
        ShapeError,
        "the words have the span (4, 4), expected one token or more within 0 and 5",
    ),
    "numbers": (
        lambda: E().words([1, 2]),
        DtypeError,
        "words were given with shape (2,) and dtype int64, expected (start, stop) spans, a text, or a list of words",
    ),
    "a number": (
        lambda: E().words(5),
        DtypeError,
        "words were given as 5, expected (start, stop) spans, a text, or a list of words: pass one of them",
    ),
    "keys of a fraction": (
        lambda: E().select(keys=1.5),
        IndexError,
        "keys has shape () and dtype float64, expected a slice, indices, or 5 booleans: pass one of them",
    ),
    **{
        name: (
            lambda name=name, given=given: getattr(E().words(), name)(*given),
            QuestionError,
            f"{name} was asked of a pooled view (words), which is no softmax of scores: ask the matrix it was made of",
        )
        for name, given in (("without", [0]), ("output", []), ("logit_max", []))
    },
    "mixed": (
        lambda: E().words(["a", (0, 1)]),
        DtypeError,
        "words were given as strings and other things, expected strings alone, or spans alone",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    wrong, error, message = MESSAGES[name]
    with pytest.raises(error) as caught:
        wrong()
    assert str(caught.value) == message


def test_interruption_and_progress() -> None:
    A = small().words()
    told: list[float] = []
    A.received(progress=told.append)
    assert told[-1] == 1
    with pytest.raises(KeyboardInterrupt):
        A.received(progress=lambda share: (_ for _ in ()).throw(KeyboardInterrupt))
    close(A.received(), np.ones((3, 5)), 1e-12)
