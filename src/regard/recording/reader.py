"""The reader: a recording over mapped files. Nothing is read before it is asked for."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from regard.errors import RecordingError, counted, within
from regard.matrix import AttentionMatrix
from regard.pools import places
from regard.recording.chunk import Chunk
from regard.recording.files import compared, manifest, mapped, tokens, untold
from regard.recording.format import placed
from regard.recording.growth import joined, whole
from regard.recording.names import axes
from regard.recording.piece import Piece

Array = np.ndarray[Any, Any]
Progress = Callable[[float], object]
ROUNDED, UNFINISHED = "from bf16-rounded Q, K", "unfinished"


class Recording:
    """A recording that is read; made by `regard.open`.

    `finished` is whether it was written to its end when it was opened; if not, its `notes` say so.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = placed(path)
        header, chunks, self._end = manifest(self.path)
        self.finished = self._end is not None
        self.model: dict[str, Any] = header["model"]
        notes = list(header["notes"])
        if any(x.rounded for x in chunks) and ROUNDED not in notes:
            notes.append(ROUNDED)
        if not self.finished and UNFINISHED not in notes:
            notes.append(UNFINISHED)
        self.notes: tuple[str, ...] = tuple(notes)
        self.chunks = chunks
        self.texts: Sequence[Text] = _texts(self)
        self._names: list[Any] | None = None
        self._maps: dict[int, mmap.mmap] = {}
        self._closed = False

    # The first text.

    def __getitem__(self, index: Any) -> AttentionMatrix:
        return self._first[index]

    def __len__(self) -> int:
        return len(self._first) if self.texts else 0

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers of the first text."""
        return self.texts[0].layers if self.texts else ()

    def heads(self, layer: int | str) -> int:
        """How many heads a layer of the first text has."""
        return self._first.heads(layer)

    @property
    def _first(self) -> Text:
        if not self.texts:
            raise RecordingError(f"{self.path} holds no layer yet, expected one at least: record one")
        return self.texts[0]

    def __repr__(self) -> str:
        name = self.model.get("name")
        parts = [f"Recording {str(self.path)!r}", *([f"of {name}"] if name else [])]
        size = [counted(len(self.texts), "text"), counted(len(self), "layer")]
        notes = f" ({'; '.join(self.notes)})" if self.notes else ""
        return f"{' '.join(parts)}: {', '.join(size)}{notes}"

    # Files.

    def names(self, text: int) -> Mapping[str, Any]:
        """What tokens.json says of a text."""
        if self._names is None:
            self._names = tokens(self.path, self._end)
        return self._names[text] if text < len(self._names) else {}  # it was ended before they were written

    def arrays(self, chunk: Chunk) -> dict[str, Array]:
        """The arrays of a chunk, over its mapped file."""
        if self._closed:
            raise RecordingError(f"{self.path} was closed, expected an open recording: open it again")
        found = self._maps.get(chunk.number)
        if found is None:
            found = self._maps[chunk.number] = mapped(self.path, chunk)
        return {
            name: np.frombuffer(found, place.dtype, place.size // place.dtype.itemsize, place.start).reshape(
                place.shape
            )
            for name, place in chunk.layout.places.items()
        }

    def verify(self, progress: Progress | None = None) -> bool:
        """Read every file and compare checks: True, or a RecordingError that says what is not as it was written.

        One that was not written to its end is refused too, after what is there was compared.
        """
        _, chunks, end = manifest(self.path)  # it may have been finished since
        self._names = tokens(self.path, end)
        more = untold(self.path, len(chunks))
        if more and end is not None:
            raise RecordingError(
                f"{self.path} has a file {more[0]} of which its manifest does not tell: it was altered"
            )
        total = sum(x.layout.size for x in self.chunks)
        done = 0
        for chunk in self.chunks:
            for first, count, right in compared(self.path, chunk):
                if not right:
                    raise RecordingError(
                        f"{chunk.name} of {self.path} is not as it was written, in its bytes {first} to "
                        f"{first + count - 1}: its layer, {chunk.layer!r}, was altered"
                    )
                done += count
                if progress is not None:
                    progress(done / total)
            chunk.piece(self.arrays(chunk))
        if end is None:
            lost = f" (beside {counted(len(more), 'file')} of which its manifest does not tell)" if more else ""
            raise RecordingError(
                f"{self.path} was not written to its end, or lost the end of its manifest: what is there, "
                f"{counted(len(chunks), 'chunk')}, is as it was written{lost}; record it again to have the rest"
            )
        return True

    def close(self) -> None:
        """Let the files go; matrices that were taken from it keep theirs."""
        self._closed = True
        self._maps.clear()
        for text in self.texts:
            text.forget()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Text:
    """One text of a recording: its tokens and its layers."""

    def __init__(self, of: Recording, index: int):
        self.of, self.index = of, index
        self._chunks: dict[str, list[Chunk]] = {}
        self._made: dict[Any, AttentionMatrix] = {}
        self._grown: dict[str, Piece] = {}

    def add(self, chunk: Chunk) -> bool:
        """A chunk of it, the next of its layer; whether it can be that."""
        chunks = self._chunks.setdefault(chunk.layer, [])
        fits = chunk.follows(chunks[-1]) if chunks else (chunk.row, chunk.key) == (0, 0)
        if fits:
            chunks.append(chunk)
        return fits

    def forget(self) -> None:
        """Let go what was made."""
        self._made.clear()
        self._grown.clear()

    @property
    def text(self) -> str | None:
        """The text itself."""
        found: str | None = self.of.names(self.index).get("text")
        return found

    @property
    def tokens(self) -> tuple[str, ...] | None:
        """Its tokens."""
        return _tuple(self.of.names(self.index).get("tokens"))

    @property
    def offsets(self) -> tuple[tuple[int, int], ...] | None:
        """Where each token begins and ends in the text."""
        flat = self.of.names(self.index).get("offsets")
        return None if flat is None else tuple(zip(flat[::2], flat[1::2], strict=True))

    @property
    def special(self) -> tuple[bool, ...] | None:
        """Which tokens are none of the text's own."""
        which, tokens = self.of.names(self.index).get("special"), self.tokens
        if which is None or tokens is None:
            return None
        marked = set(which)
        return tuple(i in marked for i in range(len(tokens)))

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of its layers."""
        return tuple(self._chunks)

    def __len__(self) -> int:
        return len(self._chunks)

    def heads(self, layer: int | str) -> int:
        """How many heads a layer has."""
        return self._chunks[self._name(layer)][0].heads

    def _name(self, layer: Any) -> str:
        names = self.layers
        if isinstance(layer, str):
            if layer in self._chunks:
                return layer
            few = ", ".join(map(repr, names[:4])) + (" …" if len(names) > 4 else "")
            raise IndexError(f"layer {layer!r} is none of the {len(names)}: {few}")
        if not isinstance(layer, (int, np.integer)) or isinstance(layer, bool):
            raise IndexError(f"a layer came as {layer!r}, expected its number or its name")
        if not -len(names) <= layer < len(names):
            raise IndexError(f"layer {layer} is out of bounds, {within(len(names))}")
        return names[int(layer)]

    def matrix(self, layer: int | str) -> AttentionMatrix:
        """All heads of a layer."""
        return self[layer]

    def __getitem__(self, index: Any) -> AttentionMatrix:
        layer: Any = index
        heads: Any = None
        if isinstance(index, tuple) and len(index) == 2:
            layer, heads = index
        name = self._name(layer)
        n = self._chunks[name][0].heads
        if isinstance(heads, (int, np.integer)) and not isinstance(heads, bool):
            if not -n <= heads < n:
                raise IndexError(f"head {heads} is out of bounds, {within(n)}")
            heads = int(heads) % n
        elif isinstance(heads, str):
            raise IndexError(f"heads came as {heads!r}, expected a number, a slice or indices: layers alone have names")
        elif heads is not None:
            heads = tuple(places("heads", heads, n, None).tolist())
            heads = None if heads == tuple(range(n)) else heads
        key = name, heads
        if key not in self._made:
            self._made[key] = self._matrix(name, heads)
        return self._made[key]

    def _matrix(self, name: str, heads: Any) -> AttentionMatrix:
        piece = self._piece(name)
        rows, keys, tokens, key_tokens = axes(self.of.names(self.index), name, self.grown(name), piece.rows, piece.keys)
        if (rows, keys) != (piece.rows, piece.keys):
            piece = piece.first(rows, keys)
        if heads is not None:
            piece = piece.of_heads(heads if isinstance(heads, int) else np.array(heads, np.int64))
        q, v = (x if x is None else x[0, 0] if piece.single else x[0] for x in (piece.q, piece.v))
        return AttentionMatrix(piece.weights(), q, v, tokens, key_tokens, False, self.of.notes)

    def grown(self, layer: str) -> bool:
        """Whether a layer was recorded step by step."""
        chunks = self._chunks[layer]
        return len(chunks) > 1 or len(chunks[0].steps) > 1

    def _piece(self, name: str) -> Piece:
        """The piece of this text that a layer is. One chunk is read where it lies; several are put together, once."""
        if name in self._grown:
            return self._grown[name]
        pieces = [x.piece(self.of.arrays(x)).of_text(self.index - x.text) for x in self._chunks[name]]
        made = whole(joined(pieces))
        if len(pieces) > 1:
            self._grown[name] = made
        return made

    def __repr__(self) -> str:
        n = counted(len(self), "layer")
        tokens = self.tokens
        return f"Text {self.index}: {n}" + ("" if tokens is None else f", {counted(len(tokens), 'token')}")


def _tuple(x: Any) -> tuple[Any, ...] | None:
    return None if x is None else tuple(x)


def _texts(of: Recording) -> list[Text]:
    """The texts of a recording, each with its chunks."""
    made: list[Text] = []
    for chunk in of.chunks:
        which = range(chunk.text, chunk.text + chunk.texts)
        fits = which.start <= len(made)
        if fits:
            made += [Text(of, i) for i in range(len(made), which.stop)]
            fits = all(made[i].add(chunk) for i in which)
        if not fits:
            raise RecordingError(
                f"chunk {chunk.number} of {of.path} does not go on with its layer, {chunk.layer!r}: it was altered"
            )
    return made
