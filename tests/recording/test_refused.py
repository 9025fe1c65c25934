"""What is no recording, or no attention, is refused in one sentence, and nothing is left of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import regard
from regard.errors import DtypeError, RecordingError, RegardError
from tests.recording.test_round_trip import arrays

N, D = 12, 8
Q, K = arrays(4, N, D), arrays(2, N, D, seed=1)


@pytest.mark.parametrize("call", [regard.open, regard.recording], ids=["open", "recording"])
@pytest.mark.parametrize(
    ("path", "kind", "sentence"),
    [
        (3, DtypeError, "path is 3, expected the folder of a recording"),
        (None, DtypeError, "path is None, expected the folder of a recording"),
        (b"r", DtypeError, "path is b'r', expected the folder of a recording"),
        ("", RecordingError, "path is '', expected one that a folder can have"),
        ("a\0b", RecordingError, r"path is 'a\\x00b', expected one that a folder can have"),
    ],
    ids=str,
)
def test_paths_that_are_none(call: Any, path: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        call(path)
    assert "\n" not in str(caught.value)
    assert "\0" not in str(caught.value)


@pytest.mark.parametrize("notes", [3, "synthetic", [3], {"a": 1}.values()], ids=str)
def test_notes_that_are_none(notes: Any, tmp_path: Path) -> None:
    with pytest.raises(DtypeError, match="expected a list of strings: pass notes="):
        regard.recording(tmp_path / "r", notes=notes)


def test_a_place_that_no_folder_can_have(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(RecordingError, match=r"could not be made \(Not a directory\)") as caught:
        regard.recording(tmp_path / "file" / "r")
    assert "chunks" not in str(caught.value)


def test_what_is_never_entered_makes_nothing(tmp_path: Path) -> None:
    recorder = regard.recording(tmp_path / "r")
    with pytest.raises(RegardError):
        recorder.layer(3, 4)
    assert not (tmp_path / "r").exists()
    recorder.close()
    assert not (tmp_path / "r").exists()
    late = regard.recording(tmp_path / "r")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine").write_bytes(b"x")
    with pytest.raises(RecordingError, match="is there already"):
        late.layer(Q, K)
    assert [x.name for x in (tmp_path / "r").iterdir()] == ["mine"]
    with regard.recording(tmp_path / "s"):
        assert (tmp_path / "s").is_dir()


TERMS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "causal": {"mask": regard.causal},
    "padding": {"mask": regard.padding([9])},
    "an array": {"mask": np.tri(N, dtype=np.bool_)},
    "bias": {"bias": arrays(N, N)},
    "bias of heads": {"bias": arrays(4, N, N), "scale": 0.5},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16], ids=lambda x: x.__name__)
@pytest.mark.parametrize("name", TERMS)
def test_an_lse_of_something_else_is_refused(name: str, dtype: Any, tmp_path: Path) -> None:
    q, k = Q.astype(dtype), K.astype(dtype)
    terms = TERMS[name]
    if "bias" in terms:
        terms = terms | {"bias": terms["bias"].astype(dtype)}
    lse = np.asarray(regard.matrix(q, k, **terms).lse)
    with regard.recording(tmp_path / "r", sync=False) as recorder:
        recorder.layer(q, k, lse=lse.astype(np.float32), **terms)
        recorder.text()
        for wrong in (lse + 1, lse / np.log(2), np.full_like(lse, np.nan), np.full_like(lse, -np.inf), lse * 0 - 9):
            with pytest.raises(
                RecordingError, match=r"^lse of query \d+ of the first head is .*, but q, k and the terms"
            ):
                recorder.layer(q, k, lse=wrong, **terms)
        recorder.layer(q[:, -3:], k, lse=lse[:, -3:], **_last(terms))
    assert regard.open(tmp_path / "r").verify()
    assert [len(text) for text in regard.open(tmp_path / "r").texts] == [1, 1]


def _last(terms: dict[str, Any]) -> dict[str, Any]:
    return {name: x[..., -3:, :] if isinstance(x, np.ndarray) else x for name, x in terms.items()}


def test_an_lse_of_a_batch_and_of_rows_that_see_nothing(tmp_path: Path) -> None:
    q, seen = arrays(3, 2, N, D), np.ones((N, N), np.bool_)
    seen[0] = False
    lse = np.asarray(regard.matrix(q, q, mask=seen).lse)
    assert np.isneginf(lse[0, 0, 0])
    with regard.recording(tmp_path / "r", sync=False) as recorder:
        recorder.layer(q, q, mask=seen, lse=lse)
        recorder.text()
        with pytest.raises(RecordingError, match="lse of query 11 of the first head"):
            recorder.layer(q, q, mask=seen, lse=lse[:, :, ::-1])


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_a_scale_that_is_no_number(scale: float, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=f"scale is {scale}, expected a finite number"):
        regard.recording(tmp_path / "r").layer(Q, K, scale=scale)


def test_values_that_are_not_given(tmp_path: Path) -> None:
    with regard.recording(tmp_path / "r", values=True) as recorder:
        with pytest.raises(RecordingError, match="v is None, expected values, as values=True was given"):
            recorder.layer(Q, K)
        recorder.layer(Q, K, K)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tokens": [None, "a"]}, "tokens has None at 0, expected a string"),
        ({"tokens": [["a", None]]}, "tokens has None at 1, expected a string"),
        ({"tokens": ["a", "b"], "offsets": [(0, 1), (3, 2)]}, r"offsets has \(3, 2\) for token 1, expected where"),
        ({"tokens": ["a", "b"], "offsets": [(0, 1), (2,)]}, r"offsets has \(2,\) for token 1, expected where"),
        ({"tokens": ["a", "b"], "offsets": [(-1, 1), (2, 3)]}, r"offsets has \(-1, 1\) for token 0, expected where"),
    ],
    ids=str,
)
def test_names_that_are_none(given: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=sentence):
        regard.recording(tmp_path / "r", **given).layer(Q[:, :2], K[:, :2])


def test_a_text_of_a_batch_may_have_no_tokens(tmp_path: Path) -> None:
    x = arrays(2, 1, 2, 4)
    with regard.recording(tmp_path / "r", tokens=[None, ["a", "b"]]) as recorder:
        recorder.layer(x, x)
    assert [text.tokens for text in regard.open(tmp_path / "r").texts] == [None, ("a", "b")]


@pytest.mark.parametrize("whole", [True, False], ids=["the whole cache", "new keys alone"])
def test_a_step_with_fewer_keys_than_queries(whole: bool, tmp_path: Path) -> None:
    with regard.recording(tmp_path / "r") as recorder:
        recorder.layer(Q[:, :6], K[:, :6], name="x", mask=regard.causal)
        with pytest.raises(RegardError, match="layer 'x' came again with 3 new queries and 1 key for them"):
            recorder.layer(Q[:, 6:9], K[:, :7] if whole else K[:, 6:7], name="x", mask=regard.causal)
        recorder.layer(Q[:, 6:9], K[:, :9] if whole else K[:, 6:9], name="x", mask=regard.causal)
        recorder.layer(Q[:, 9:12], K[:, :9], name="x", mask=regard.causal)  # they look at what was there
    assert regard.open(tmp_path / "r").verify()


@pytest.mark.parametrize(
    ("sentence", "change"),
    [
        (r"another number of heads \(2, before 4\)", {"q": Q[:2, 6:7], "k": -K[:, :7]}),
        (r"another number of key heads \(1, before 2\)", {"k": K[:1, :7]}),
        (r"another batch \(2, before 1\)", {"q": np.stack([Q[:, 6:7]] * 2), "k": np.stack([K[:, :7]] * 2)}),
        (r"another dtype \(float64, before float32\)", {"q": Q[:, 6:7] * np.float64(1), "k": K[:, :7] * np.float64(1)}),
        (r"another d \(4, before 8\)", {"q": Q[:, 6:7, :4], "k": K[:, :7, :4]}),
        (r"another scale \(0\.5, before 0\.25\)", {"scale": 0.5}),
        ("other keys than before", {"k": -K[:, :7]}),
    ],
)  # fmt: skip
def test_the_reason_comes_first(sentence: str, change: dict[str, Any], tmp_path: Path) -> None:
    """Where keys differ because something else does, that is what is told."""
    with regard.recording(tmp_path / "r") as recorder:
        recorder.layer(Q[:, :6], K[:, :6], name="x", mask=regard.causal, scale=0.25)
        step: dict[str, Any] = {"q": Q[:, 6:7], "k": K[:, :7], "scale": 0.25} | change
        with pytest.raises(RecordingError, match=sentence):
            recorder.layer(**step, name="x", mask=regard.causal)
