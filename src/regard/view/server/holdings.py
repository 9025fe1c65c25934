"""What the server has open: recordings, their layers, heads as pictures; found by whole numbers, kept while there is
room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from regard.lens import wording
from regard.matrix import AttentionMatrix
from regard.view.server.asked import Refused, wrong
from regard.view.server.pictures import Less, Long, Merged, Picture, Plain

Array = np.ndarray[Any, Any]
T = TypeVar("T")

TEXTS = 1000  # that are listed
LAYERS = 4000  # of the texts that are listed
TITLE = 80  # characters
LSE = 128 << 20  # bytes of lse that are kept of layers that nobody looks at
SOME = 256  # heads and other things that are kept
FEW = 8  # heads without some keys: each keeps the lse of a whole layer


class Kept:
    """The last few of something, made when they are asked for."""

    def __init__(self, most: int, size: Callable[[Any], int] = lambda made: 1):
        self.most, self.size, self.total = most, size, 0
        self.made: OrderedDict[Hashable, Any] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        with self.lock:
            if key in self.made:
                self.made.move_to_end(key)
                found: T = self.made[key]
                return found
        new = make()
        with self.lock:
            if key in self.made:  # somebody else was as fast
                found = self.made[key]
                return found
            self.made[key] = new
            self.total += self.size(new)
            while len(self.made) > 1 and self.total > self.most:
                self.total -= self.size(self.made.popitem(last=False)[1])
        return new


@dataclass(frozen=True)
class Recorded:
    """A recording and what it is called: an object with `texts`, `model` and `notes`, as `regard.open` gives."""

    recording: Any
    name: str


class Holdings:
    """Everything that can be asked about."""

    def __init__(self, recordings: Sequence[Recorded]):
        self.recordings = tuple(recordings)
        self.layers = Kept(LSE, lambda matrix: matrix.weights._lse.nbytes if hasattr(matrix, "weights") else 1)
        self.some, self.few = Kept(SOME), Kept(FEW)
        self.sizes: dict[tuple[int, int, int], int] = {}  # bytes of the arrays of layers that were looked at

    def looked_at(self) -> int:
        """Bytes of the arrays that were looked at."""
        return sum(list(self.sizes.values()))

    # Finding.

    def recording(self, r: int) -> Recorded:
        if r >= len(self.recordings):
            raise _unknown("recording", r, len(self.recordings))
        return self.recordings[r]

    def text(self, r: int, x: int) -> Any:
        texts = self.recording(r).recording.texts
        if x >= len(texts):
            raise _unknown("text", x, len(texts))
        return texts[x]

    def matrix(self, r: int, x: int, layer: int) -> AttentionMatrix:
        """A layer."""
        text = self.text(r, x)
        if layer >= len(text):
            raise _unknown("layer", layer, len(text))

        def make() -> AttentionMatrix:
            made: AttentionMatrix = text.matrix(layer)
            of = made.weights
            self.sizes[r, x, layer] = sum(int(np.prod(y.shape)) * np.dtype(y.dtype).itemsize for y in _arrays(of))
            return made

        return self.layers.get((r, x, layer), make)

    def without(self, source: tuple[int, int, int], keys: tuple[int, ...]) -> AttentionMatrix:
        """A layer whose softmax some keys have no part in."""
        matrix = self.matrix(*source)
        if not keys:
            return matrix
        if keys[-1] >= matrix.weights.of.n_k:
            raise wrong(f"without has {keys[-1]}, expected keys from 0 to {matrix.weights.of.n_k - 1}")
        return self.few.get(("without", source, keys), lambda: matrix.without(np.array(keys)))

    def head(self, source: tuple[int, int, int], h: int, keys: tuple[int, ...] = ()) -> AttentionMatrix:
        """One head as a matrix of its own, called by its name."""
        matrix = self.without(source, keys)
        of = matrix.weights.of
        if h >= of.batch * of.heads:
            raise _unknown("head", h, of.batch * of.heads)

        def make() -> AttentionMatrix:
            v = None if matrix.v is None else _values(matrix, h)
            made = AttentionMatrix(matrix.weights.head(h), matrix.like, v, matrix.tokens, matrix.key_tokens)
            made.labels = (f"L{source[2]}H{h}",)
            return made

        return (self.few if keys else self.some).get(("head", source, h, keys), make)

    def words(self, source: tuple[int, int, int]) -> tuple[Array, Array]:
        """Where the words of queries and of keys begin, with the end at last."""
        matrix, text = self.matrix(*source), self.text(*source[:2])

        def make() -> tuple[Array, Array]:
            made = merged(matrix, text.text).pooling()
            return made.rows.starts, made.keys.starts

        if matrix.key_tokens is None:
            raise wrong("unit is words, but this layer has no tokens, expected tokens")
        return self.some.get(("words", source), make)

    def view(self, source: tuple[int, int, int], h: int, asked: dict[str, Any]) -> Any:
        """A head as it is asked for, as a matrix: without some keys, in words."""
        matrix = self.head(source, h, asked["without"])
        if asked["unit"] == "tokens":
            return matrix
        key = ("view", source, h, asked["without"])
        self.words(source)  # refuses where there are none
        return (self.few if asked["without"] else self.some).get(
            key, lambda: merged(matrix, self.text(*source[:2]).text)
        )

    def picture(self, source: tuple[int, int, int], h: int, asked: dict[str, Any]) -> Picture:
        """A head as it is asked for, to be cut into tiles."""
        found = self._picture(source, h, asked)
        minus = asked.get("minus")
        if minus is None:
            return found
        other = self._picture(minus[:3], minus[3], asked)
        if (found.n_q, found.n_k) != (other.n_q, other.n_k):
            raise wrong(
                f"minus is a head of {other.n_q} × {other.n_k}, but this one is {found.n_q} × {found.n_k}, expected "
                "the same shape"
            )
        return Less(found, other)

    def _picture(self, source: tuple[int, int, int], h: int, asked: dict[str, Any]) -> Picture:
        matrix = self.head(source, h, asked["without"])
        found: Picture = Plain(matrix.weights)
        if asked["of"] == "length":
            if matrix.v is None:
                raise wrong("of is length, but no values were recorded, expected of=weight")
            lengths: Array = self.some.get(("lengths", source, h), lambda: _lengths(matrix))
            found = Long(found, lengths)
        return Merged(found, *self.words(source)) if asked["unit"] == "words" else found

    # What there is.

    def about(self, version: str) -> dict[str, Any]:
        """All recordings, texts, layers."""

        def make() -> dict[str, Any]:
            return {"version": version, "recordings": [self._about(r) for r in range(len(self.recordings))]}

        return self.some.get("about", make)

    def _about(self, r: int) -> dict[str, Any]:
        held = self.recordings[r]
        texts = held.recording.texts
        model = getattr(held.recording, "model", None)
        return {
            "r": r,
            "name": held.name,
            "notes": list(getattr(held.recording, "notes", ())),
            "model": model if isinstance(model, dict) else {"name": model},
            "count": len(texts),
            "texts": self._about_texts(r),
        }

    def _about_texts(self, r: int) -> list[dict[str, Any]]:
        """The texts, the first of them if there are many."""
        found: list[dict[str, Any]] = []
        texts, left = self.recordings[r].recording.texts, LAYERS
        for x in range(min(TEXTS, len(texts))):
            left -= len(texts[x])
            if found and left < 0:
                break
            found.append(self._about_text(r, x))
        return found

    def _about_text(self, r: int, x: int) -> dict[str, Any]:
        text = self.text(r, x)
        tokens = text.tokens
        known = text.text if text.text is not None else " ".join(tokens[:TITLE]) if tokens else ""
        title = " ".join(known[: 4 * TITLE].split())
        layers = [self._about_layer(r, x, i, str(name)) for i, name in enumerate(text.layers)]
        return {
            "x": x,
            "title": title if len(title) <= TITLE else title[: TITLE - 1] + "…",
            "n": len(tokens) if tokens else max((layer["n_k"] for layer in layers), default=0),
            "n_words": self._n_words(r, x) if x < 8 else None,
            "layers": layers,
        }

    def _about_layer(self, r: int, x: int, layer: int, name: str) -> dict[str, Any]:
        matrix = self.matrix(r, x, layer)
        of, what = matrix.weights.of, matrix.weights.terms
        return {
            "l": layer,
            "name": name,
            "heads": of.batch * of.heads,
            "n_q": of.n_q,
            "n_k": of.n_k,
            "d": of.d,
            "grouped": of.key_heads < of.heads,
            "masked": any(y is not None for y in (what.mask, what.mask_array, what.bias)),
            "values": matrix.v is not None,
        }

    def _n_words(self, r: int, x: int) -> int | None:
        """How many words a text has, if its tokens make words."""
        tokens = self.text(r, x).tokens
        if not tokens or len(tokens) > 1 << 14 or not len(self.text(r, x)):
            return None
        try:
            return len(self.words((r, x, 0))[1]) - 1
        except (Refused, ValueError, LookupError, TypeError):
            return None


def merged(matrix: Any, text: str | None) -> Any:
    """A matrix in words, by its text where that can be read along with the tokens, else by the marks of tokens."""
    if text is not None:
        try:
            return matrix.words(text)
        except (ValueError, LookupError, TypeError):
            pass
    return matrix.words()


def special(tokens: Sequence[str], given: Any = None) -> list[int]:
    """The places of special tokens."""
    found = wording.special(tokens) if given is None else np.asarray(given, np.bool_)
    return [int(i) for i in np.flatnonzero(found)]


def _lengths(matrix: AttentionMatrix) -> Array:
    """The length of each value of one head."""
    found = matrix.norms().pooling().lengths
    assert found is not None
    return np.asarray(found[0])


def _values(matrix: AttentionMatrix, h: int) -> Any:
    """The values of one head, (1, n_k, d_v)."""
    of = matrix.weights.of
    v = np.asarray(matrix.v) if not hasattr(matrix.v, "numpy") else matrix.v.numpy()
    if v.ndim == 2:
        return v[None]
    lead = np.unravel_index(h // of.heads, of.leading) if of.leading else ()
    v = np.broadcast_to(v, (*of.leading, *v.shape[-3:]))
    return v[lead][h % of.heads * v.shape[-3] // of.heads][None]


def _arrays(weights: Any) -> list[Any]:
    return [np.empty(0)] if weights is None else [_Sized(weights.q), _Sized(weights.k)]


class _Sized:
    """Shape and dtype of a view."""

    def __init__(self, view: Any):
        from regard.problem import DTYPES

        self.shape, self.dtype = view.shape, DTYPES[view.storage]


def _unknown(what: str, given: int, there: int) -> Refused:
    expected = f"expected 0 to {there - 1}" if there else "but there is none"
    return Refused(404, f"there is no {what} {given}, {expected}")
