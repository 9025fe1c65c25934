"""Decoding steps that grow a layer chunk by chunk, against the matrix of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import regard
from regard.recording import recorder as recorder_module
from tests.recording.test_round_trip import Array, arrays, same

N, START = 24, 9
Q, K = arrays(4, N, 8), arrays(2, N, 8, seed=1)


def decoded(path: Path, steps: Sequence[int], terms: Callable[[int, int], dict[str, Any]], **options: Any) -> Any:
    """A prefill and steps of so many rows; `terms` are those of the rows from first to stop."""
    first = 0
    together, recorder_module.TOGETHER = recorder_module.TOGETHER, options.pop("together", 1 << 20)
    whole = options.pop("whole", True)
    q, k = options.pop("q", Q), options.pop("k", K)
    try:
        with regard.recording(path, sync=False, **options) as recorder:
            for n in steps:
                stop = first + n
                keys = k[..., :stop, :] if whole else k[..., first:stop, :]
                recorder.layer(q[..., first:stop, :], keys, name="layer", **terms(first, stop))
                first = stop
    finally:
        recorder_module.TOGETHER = together
    return regard.open(path)


STEPS = [START, *[1] * (N - START - 3), 2, 1]
CAUSAL: Callable[[int, int], dict[str, Any]] = lambda first, stop: {"mask": regard.causal}  # noqa: E731  # a case beside others
HIDDEN = np.random.default_rng(5).random(N) < 0.3
HIDDEN[0] = False
BIAS = arrays(N, N, seed=7)
LOW = np.where(HIDDEN, -np.inf, 0).astype(np.float32)


def prefilled(first: int, stop: int) -> dict[str, Any]:
    """What models do: causal at first, nothing for single rows."""
    return {"mask": regard.causal} if stop - first > 1 else {}


def as_bias(first: int, stop: int) -> dict[str, Any]:
    """Additive masks: a plane at first, then the keys alone."""
    hidden = np.where(np.tri(N, dtype=np.bool_) & ~HIDDEN, 0, -np.inf).astype(np.float32)
    return {"bias": hidden[first:stop, :stop]}


def as_array(first: int, stop: int) -> dict[str, Any]:
    return {"mask": (np.tri(N, dtype=np.bool_) & ~HIDDEN)[first:stop, :stop]}


def changing(first: int, stop: int) -> dict[str, Any]:
    """What one row sees says nothing of the next."""
    return {"bias": BIAS[first:stop, :stop], "mask": regard.causal}


def of_other_kinds(first: int, stop: int) -> dict[str, Any]:
    return {"modify": regard.softcap(2.0) if first % 2 else regard.alibi(np.arange(4.0)), "mask": regard.causal}


WHOLE: dict[str, tuple[Callable[[int, int], dict[str, Any]], dict[str, Any]]] = {
    "causal": (CAUSAL, {"mask": regard.causal}),
    "prefilled": (prefilled, {"mask": regard.causal}),
    "as bias": (as_bias, {"bias": np.where(np.tri(N, dtype=np.bool_) & ~HIDDEN, 0, -np.inf).astype(np.float32)}),
    "as array": (as_array, {"mask": np.tri(N, dtype=np.bool_) & ~HIDDEN}),
    "window": (
        lambda first, stop: {"mask": regard.causal & regard.window(4)},
        {"mask": regard.causal & regard.window(4)},
    ),
    "padding": (
        lambda first, stop: {"mask": regard.causal & regard.padding([stop])},
        {"mask": regard.causal},
    ),
    "alibi and sinks": (
        lambda first, stop: {"mask": regard.causal, "modify": regard.alibi(np.arange(4.0)), "sinks": np.arange(4.0)},
        {"mask": regard.causal, "modify": regard.alibi(np.arange(4.0)), "sinks": np.arange(4.0)},
    ),
    "changing": (changing, {"bias": BIAS, "mask": regard.causal}),
    "first": (
        lambda first, stop: {"mask": regard.window(first + 2, 0, align="first") | regard.causal},
        {"mask": regard.causal},
    ),
    "other kinds": (of_other_kinds, {"mask": regard.causal, "modify": None}),
}


def _first(row: int) -> int:
    """The first row of the step that a row is in."""
    ends = np.cumsum(STEPS)
    return int([0, *ends][int(np.searchsorted(ends, row, "right"))])


FEW, EACH = 600, 1  # bytes: some steps in a chunk, or one
CASES = [
    *((name, 1 << 20) for name in WHOLE),
    ("as bias", FEW),
    ("padding", FEW),
    ("other kinds", FEW),
    ("causal", EACH),
]


@pytest.mark.parametrize(("name", "together"), CASES)
def test_steps_against_the_whole(name: str, together: int, tmp_path: Path) -> None:
    terms, options = WHOLE[name]
    if name == "other kinds":
        odd = np.isin(np.arange(N), [i for i in range(N) if _first(i) % 2])
        options = {
            "mask": regard.causal,
            "modify": lambda score, b, h, q, k: regard.algebra.where(
                odd[q], regard.softcap(2.0)(score, b, h, q, k), regard.alibi(np.arange(4.0))(score, b, h, q, k)
            ),
        }
    rec = decoded(tmp_path / "r", STEPS, terms, together=together)
    assert rec.verify()
    A, B = rec["layer"], regard.matrix(Q, K, **options)
    assert A.shape == (4, N, N)
    assert np.allclose(A.build(), B.build(), atol=2e-6)
    assert np.allclose(A.lse, B.lse, atol=1e-5)
    if together == FEW:
        assert np.allclose(rec["layer", 3].build(), B[3], atol=2e-6)
        assert 2 < len(rec.chunks) < len(STEPS)
        assert A.weights.offset == 0


def test_a_row_never_sees_what_came_later(tmp_path: Path) -> None:
    """Without any mask, a step sees all keys of its time."""
    A = decoded(tmp_path / "r", [5, 3, 1, 4], lambda first, stop: {}, q=Q[:, :13], k=K[:, :13])["layer"].build()
    first = 0
    for stop in (5, 8, 9, 13):
        B = regard.matrix(Q[:, first:stop], K[:, :stop]).build()
        assert np.allclose(A[:, first:stop, :stop], B, atol=1e-6)
        assert not A[:, first:stop, stop:].any()
        first = stop


@pytest.mark.parametrize("lse", [None, False])
def test_new_keys_alone(lse: Any, tmp_path: Path) -> None:
    terms: Any = lambda first, stop: {"mask": regard.causal, "lse": lse}  # noqa: E731  # with this lse
    A = decoded(tmp_path / "r", STEPS, terms, whole=False)["layer"]
    assert np.allclose(A.build(), regard.matrix(Q, K, mask=regard.causal).build(), atol=2e-6)


def test_only_what_is_new_is_stored(tmp_path: Path) -> None:
    rec = decoded(tmp_path / "r", STEPS, CAUSAL)
    assert sum(x.keys for x in rec.chunks) == N
    assert len(rec.chunks) == 2  # the steps together
    many = decoded(tmp_path / "s", [1] * N, prefilled, together=1)
    assert len(many.chunks) == N
    assert np.allclose(many["layer"].build(), rec["layer"].build(), atol=2e-6)


def test_many_steps_are_few_files(tmp_path: Path) -> None:
    q, k = arrays(1, 400, 4), arrays(1, 400, 4, seed=1)
    lse = regard.matrix(q, k, mask=regard.causal).lse
    with regard.recording(tmp_path / "r", sync=False) as recorder:
        for i in range(400):
            row = np.s_[:, i : i + 1]
            recorder.layer(q[row], k[:, : i + 1], bias=np.zeros(i + 1, np.float32), name="x", lse=lse[row])
    assert len(list((tmp_path / "r").iterdir())) < 20
    A = regard.open(tmp_path / "r")["x"]
    assert A.weights.offset == 0
    same_rows = [0, 1, 200, 399]
    assert np.allclose(A[0, same_rows], regard.matrix(q, k, mask=regard.causal)[0, same_rows], atol=1e-6)


def test_batches_grow_together(tmp_path: Path) -> None:
    q, k = arrays(3, 2, 10, 8), arrays(3, 2, 10, 8, seed=1)
    seen = np.random.default_rng(1).random((3, 1, 1, 10)) < 0.8
    seen[..., 0] = True
    causal = np.tri(10, dtype=np.bool_) & seen
    rec = decoded(tmp_path / "r", [6, 1, 1, 2], lambda first, stop: {"mask": causal[..., first:stop, :stop]}, q=q, k=k)
    B = regard.matrix(q, k, mask=causal)
    for b, text in enumerate(rec.texts):
        assert np.allclose(text["layer"].build(), B[b], atol=2e-6)


def test_bf16_grows(tmp_path: Path) -> None:
    rec = decoded(tmp_path / "r", STEPS, CAUSAL, dtype="bf16")
    rounded = [x.astype(ml_dtypes.bfloat16) for x in (Q, K)]
    assert np.allclose(rec["layer"].build(), regard.matrix(*rounded, mask=regard.causal).build(), atol=2e-6)
    assert np.allclose(rec["layer"].build().sum(-1), 1, atol=1e-6)
    plain = decoded(tmp_path / "s", STEPS, CAUSAL, dtype="bf16", q=rounded[0], k=rounded[1])
    assert plain.notes == ()
    assert plain["layer"].weights._known.all()  # computed while it was recorded


def test_cross_attention_of_a_decoder(tmp_path: Path) -> None:
    """Every step has the same keys, all of which it sees."""
    q, k = arrays(2, 7, 4), arrays(2, 5, 4, seed=1)
    with regard.recording(tmp_path / "r", sync=False, tokens=list("abcd")) as recorder:
        for first, stop in ((0, 4), (4, 5), (5, 6), (6, 7)):
            recorder.layer(q[:, first:stop], k, name="cross", key_tokens=list("vwxyz"),
                           tokens=list("abcdefg")[first:stop])  # fmt: skip
    A = regard.open(tmp_path / "r")["cross"]
    assert np.allclose(A.build(), regard.matrix(q, k).build(), atol=2e-6)
    assert (A.tokens, A.key_tokens) == (tuple("abcdefg"), tuple("vwxyz"))


def test_tokens_come_with_steps(tmp_path: Path) -> None:
    words = ["The", "cat", "chased", "mice", "and", "one", "bird"]
    q = arrays(1, 7, 4)
    with regard.recording(tmp_path / "r", sync=False, text="t", tokens=words[:4]) as recorder:
        for layer in ("0", "1"):
            recorder.layer(q[:, :4], q[:, :4], name=layer, mask=regard.causal)
        for i in (4, 5):
            for layer in ("0", "1"):
                recorder.layer(q[:, i : i + 1], q[:, : i + 1], name=layer, tokens=[words[i]])
        recorder.layer(q[:, 6:], q, name="1")
        with pytest.raises(regard.RegardError, match="tokens has 2 tokens for a step of 1 row, expected one for each"):
            recorder.layer(q[:, 6:], q, name="0", tokens=["a", "b"])
    text = regard.open(tmp_path / "r").texts[0]
    assert text.tokens == tuple(words[:6])
    assert text["0"].tokens == text["0"].key_tokens == tuple(words[:6])
    assert text["1"].tokens == (*words[:6], "#6")


@pytest.mark.parametrize(
    ("sentence", "change"),
    [
        ("came again with other keys than before, expected its 9 keys", {"k": K[:, ::-1]}),
        (r"came again with another d \(4, before 8\)", {"q": Q[:, 9:10, :4], "k": K[:, 9:10, :4]}),
        (r"came again with another number of heads \(2, before 4\)", {"q": Q[:2, 9:10], "k": K[:, 9:10]}),
        (r"came again with another scale \(0\.1, before 0\.3535", {"scale": 0.1}),
        ("came again with another sinks,", {"sinks": np.zeros(4)}),
        (
            r"came again with another dtype \(float64, before float32\)",
            {"q": Q[:, 9:10].astype("f8"), "k": K[:, 9:10].astype("f8")},
        ),
        ("came again with another score,", {"score": regard.general(np.eye(8))}),
        ("q has d = 8 and k has d = 4", {"k": K[..., :10, :4]}),
    ],
)
def test_steps_that_do_not_go_on(sentence: str, change: dict[str, Any], tmp_path: Path) -> None:
    with regard.recording(tmp_path / "r", sync=False) as recorder:
        recorder.layer(Q[:, :9], K[:, :9], name="x", mask=regard.causal)
        with pytest.raises((ValueError, TypeError), match=sentence):
            recorder.layer(**({"q": Q[:, 9:10], "k": K[:, :10], "name": "x", "mask": regard.causal} | change))
        recorder.layer(Q[:, 9:10], K[:, :10], name="x", mask=regard.causal)
    A: Array = regard.open(tmp_path / "r")["x"]
    assert np.allclose(A.build(), regard.matrix(Q[:, :10], K[:, :10], mask=regard.causal).build(), atol=2e-6)


def test_a_layer_of_one_step_stays_as_it_is(tmp_path: Path) -> None:
    same(decoded(tmp_path / "r", [N], CAUSAL)["layer"], regard.matrix(Q, K, mask=regard.causal))
