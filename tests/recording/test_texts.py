"""Texts of a batch, their padding, several texts, cross-attention, and the names of axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from tests.recording.test_round_trip import Array, alike, arrays, same


def test_each_of_a_batch_is_a_text(tmp_path: Path) -> None:
    q, k = arrays(3, 4, 9, 8), arrays(3, 2, 9, 8, seed=1)
    lengths = [9, 4, 6]
    words = [[f"{b}:{i}" for i in range(n)] for b, n in enumerate(lengths)]
    options: dict[str, Any] = {
        "mask": regard.causal & regard.padding(lengths),
        "modify": lambda score, b, h, q, k: score * (b + 1) + h,
        "bias": arrays(3, 1, 9, 9, seed=2),
        "sinks": np.arange(4.0),
    }
    with regard.recording(tmp_path / "r", text=["x", "y", "z"], tokens=words, sync=False) as recorder:
        recorder.layer(q, k, name="first", **options)
        recorder.layer(q, k, name="second")
    rec = regard.open(tmp_path / "r")
    B, C = regard.matrix(q, k, **options), regard.matrix(q, k)
    assert [len(text) for text in rec.texts] == [2, 2, 2]
    assert [text.text for text in rec.texts] == ["x", "y", "z"]
    for b, n in enumerate(lengths):
        text = rec.texts[b]
        assert text.tokens == tuple(words[b])
        assert text.layers == ("first", "second")
        for layer, whole in (("first", B), ("second", C)):
            A = text[layer]
            assert A.shape == (4, n, n)
            assert A.tokens == A.key_tokens == tuple(words[b])
            # Another problem than that of the whole batch: its sums may be made in another order.
            assert np.allclose(A.build(), whole[b, :, :n, :n], atol=1e-6, rtol=1e-5)
            assert np.array_equal(A.lse, whole.lse[b, :, :n])
            assert np.array_equal(text[layer, 2].build(), A[2])
        assert np.allclose(text["first"].build().sum(-1), 1 - np.exp(np.arange(4.0)[:, None] - text["first"].lse))


def test_what_is_the_same_for_all_is_kept_once(tmp_path: Path) -> None:
    q, k, plane = arrays(5, 2, 6, 4), arrays(1, 2, 6, 4, seed=1), np.tri(6, dtype=np.bool_)
    with regard.recording(tmp_path / "r", sync=False) as recorder:
        recorder.layer(q, k, mask=plane)
        recorder.layer(q, k[0], mask=np.broadcast_to(plane, (5, 2, 6, 6)))
        recorder.layer(q.reshape(1, 5, 2, 6, 4), k, name="flat")
    rec = regard.open(tmp_path / "r")
    assert len(rec.texts) == 5
    for chunk in rec.chunks:
        places = chunk.layout.places
        assert places["k"].shape == (1, 2, 6, 4)
        assert "mask" not in places or places["mask"].shape == (1, 1, 6, 6)
    for b in range(5):
        alike(rec.texts[b][0], regard.matrix(q[b], k[0], mask=plane))
        alike(rec.texts[b][1], regard.matrix(q[b], k[0], mask=plane))
        alike(rec.texts[b]["flat"], regard.matrix(q[b], k[0]))


def test_several_texts(tmp_path: Path) -> None:
    first_text: dict[str, Any] = {
        "text": "a cat",
        "tokens": ["a", "cat"],
        "offsets": [(0, 1), (2, 5)],
        "special": [True, False],
    }
    model = {"name": "m", "layers": 2}
    with regard.recording(tmp_path / "r", **first_text, model=model, notes=["synthetic"], sync=False) as recorder:
        recorder.layer(arrays(1, 2, 4), arrays(1, 2, 4))
        recorder.text("nothing comes of it")
        recorder.text(text="of three", tokens=["of", "th", "##ree"])
        recorder.layer(arrays(1, 3, 4), arrays(1, 3, 4))
        recorder.layer(arrays(1, 3, 4), arrays(1, 3, 4), name="named")
        recorder.text()
        recorder.layer(arrays(1, 5, 4), arrays(1, 5, 4))
    rec = regard.open(tmp_path / "r")
    assert rec.model == {"name": "m", "layers": 2}
    assert rec.notes == rec[0].notes == ("synthetic",)
    assert repr(rec) == f"Recording {str(tmp_path / 'r')!r} of m: 3 texts, 1 layer (synthetic)"
    first, second, third = rec.texts
    assert (first.text, first.tokens, first.offsets) == ("a cat", ("a", "cat"), ((0, 1), (2, 5)))
    assert first.special == (True, False)
    assert (second.text, second.offsets, second.special) == ("of three", None, None)
    assert (third.text, third.tokens, third.layers) == (None, None, ("0",))
    assert [repr(x) for x in rec.texts] == [
        "Text 0: 1 layer, 2 tokens",
        "Text 1: 2 layers, 3 tokens",
        "Text 2: 1 layer",
    ]
    assert (len(rec), rec.layers, rec.heads(0), second.layers, len(second)) == (1, ("0",), 1, ("0", "named"), 2)
    assert second[1, 0]["##ree", "th"] == second["named"][0, 2, 1]
    assert second.matrix("named") is second[1]
    assert rec[-1, 0] is rec["0", 0]
    assert third[0].tokens is None


def test_cross_attention(tmp_path: Path) -> None:
    q, k = arrays(2, 4, 8), arrays(2, 7, 8, seed=1)
    ours, theirs = [f"q{i}" for i in range(4)], [f"k{i}" for i in range(7)]
    with regard.recording(tmp_path / "r", tokens=ours, sync=False) as recorder:
        recorder.layer(q, q, name="own", mask=regard.causal)
        recorder.layer(q, k, name="cross", key_tokens=theirs, mask=PAIRS)
        recorder.layer(k, k, name="encoder", tokens=theirs)
        recorder.layer(k, q, name="neither")
    rec = regard.open(tmp_path / "r")
    same(rec["cross"], regard.matrix(q, k, mask=PAIRS))
    assert (rec["own"].tokens, rec["own"].key_tokens) == (tuple(ours), tuple(ours))
    assert (rec["cross"].tokens, rec["cross"].key_tokens) == (tuple(ours), tuple(theirs))
    assert (rec["encoder"].tokens, rec["encoder"].key_tokens) == (tuple(theirs), tuple(theirs))
    assert (rec["neither"].tokens, rec["neither"].key_tokens) == (None, None)
    assert rec["cross", 1]["q2", "k5"] == rec["cross"][1, 2, 5]


PAIRS = np.random.default_rng(4).random((4, 7)) < 0.7


def test_cross_attention_of_a_batch_with_padding(tmp_path: Path) -> None:
    q, k = arrays(2, 1, 4, 8), arrays(2, 1, 7, 8, seed=1)
    with regard.recording(tmp_path / "r", tokens=[["a", "b"], ["c", "d", "e", "f"]], sync=False) as recorder:
        recorder.layer(q, k, key_tokens=[list("stuvwxy"), list("st")], mask=regard.padding([7, 2]) & regard.causal)
    rec = regard.open(tmp_path / "r")
    B = regard.matrix(q, k, mask=regard.padding([7, 2]) & regard.causal)
    for text, rows, keys in zip(rec.texts, (2, 4), (7, 2), strict=True):
        A = text[0, 0]
        assert A.shape == (rows, keys)
        assert np.allclose(A.build(), B[text.index, 0, :rows, :keys], atol=1e-6)
        assert (len(A.tokens or ()), len(A.key_tokens or ())) == (rows, keys)
        assert np.allclose(A.build().sum(-1), 1)  # positions are still those of the whole


def refused(sentence: str, path: Path, *calls: dict[str, Any], **options: Any) -> None:
    x = arrays(2, 5, 4)
    with regard.recording(path / "r", sync=False, **options) as recorder:
        for call in calls[:-1]:
            recorder.layer(x, x, **call)
        with pytest.raises((ValueError, TypeError), match=sentence):
            recorder.layer(x, x, **calls[-1]) if "q" not in calls[-1] else recorder.layer(**calls[-1])
    rec = regard.open(path / "r")
    assert len(rec.chunks) == len(calls) - 1
    assert rec.verify()


@pytest.mark.parametrize(
    ("sentence", "call", "options"),
    [
        ("tokens has 3 tokens, but there are 5 queries: give each query one", {}, {"tokens": ["a", "b", "c"]}),
        ("tokens has 1 token, but there are 5 queries", {"tokens": ["a"]}, {}),
        ("key_tokens has 6 tokens, but there are 5 keys: give each key one", {"key_tokens": list("abcdef")}, {}),
        ("tokens is one string, expected a token for each place", {"tokens": "abcde"}, {}),
        ("tokens is 5, expected a token for each place", {"tokens": 5}, {}),
        ("offsets has 1 entries for 5 tokens, expected one", {}, {"tokens": list("abcde"), "offsets": [(0, 1)]}),
        ("special has 5 entries for no tokens, expected one for each", {}, {"special": [True] * 5}),
        ("tokens is for 3 texts, but there is 1 sequence: pass as many", {}, {"tokens": [["a"], ["b"], ["c"]]}),
        ("scale is 'x', expected a real number", {"scale": "x"}, {}),
        ("q is a list, expected an array", {"q": [1], "k": [1]}, {}),
        ("mask has shape", {"mask": np.ones((4, 4), np.bool_)}, {}),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(sentence: str, call: Any, options: Any, tmp_path: Path) -> None:
    refused(sentence, tmp_path, call, **options)


def test_a_batch_stays_of_one_size(tmp_path: Path) -> None:
    x = arrays(3, 2, 5, 4)
    with regard.recording(tmp_path / "r", sync=False) as recorder:
        recorder.layer(arrays(2, 5, 4), arrays(2, 5, 4))
        with pytest.raises(regard.RegardError, match="q has 3 sequences, and the first layer of this text had 1"):
            recorder.layer(x, x)
        recorder.text(tokens=list("abcde"))
        with pytest.raises(regard.RegardError, match="tokens is for one text, but there are 3 sequences"):
            recorder.layer(x, x)
        recorder.text(tokens=[list("abcde")] * 3)
        recorder.layer(x, x)
    assert len(regard.open(tmp_path / "r").texts) == 4


@pytest.mark.parametrize(
    ("sentence", "options"),
    [
        ("text is 5, expected a string", {"text": 5}),
        ("tokens is one string", {"tokens": "a b"}),
        ("offsets is 5, expected an entry for each token", {"offsets": 5}),
        ("notes is 'x', expected a list of strings", {"notes": "x"}),
    ],
)
def test_what_a_recording_is_given(sentence: str, options: Any, tmp_path: Path) -> None:
    with pytest.raises(regard.RegardError, match=sentence):
        regard.recording(tmp_path / "r", **options)
    assert not (tmp_path / "r").exists()


def test_rows_are_named_by_the_keys_they_stand_beside(tmp_path: Path) -> None:
    q, k = arrays(1, 2, 4), arrays(1, 5, 4)
    with regard.recording(tmp_path / "r", tokens=list("abcde"), sync=False) as recorder:
        recorder.layer(q, k, mask=regard.causal)
    A: Array = regard.open(tmp_path / "r")[0]
    assert (A.tokens, A.key_tokens) == (("d", "e"), tuple("abcde"))
