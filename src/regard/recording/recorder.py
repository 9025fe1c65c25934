"""The recorder: takes the Q and K of layer after layer, and hands them to the writer."""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from regard.algebra.scores import Score, dot
from regard.errors import DtypeError, RecordingError, ShapeError, counted
from regard.problem import DTYPES, torch_module
from regard.recording.format import FORMAT, VERSION, checked, placed
from regard.recording.growth import joined
from regard.recording.names import Names, listed
from regard.recording.piece import Piece
from regard.recording.room import Room
from regard.recording.taken import Call
from regard.recording.writer import Writer, unmade
from regard.terms import Modify

# Steps of decoding are small: those of a layer are written together, when they are so many bytes or the first of all
# has waited so many seconds.
TOGETHER, PATIENCE = 1 << 20, 2.0
EVERY = 1.0  # seconds between two tokens.json, which has all texts


class Layer:
    """What is known of a layer that was recorded: a step that goes on with it has to fit."""

    def __init__(self, piece: Piece, last: bytes, like: Mapping[str, Any]):
        self.last = last  # the last key
        self.rows, self.keys = piece.row + piece.rows, piece.keys
        self.like = like

    def fits(self, label: str, like: Mapping[str, Any]) -> None:
        """That a step has what the layer has."""
        for name, have in like.items():
            if have != self.like[name]:
                shown = "" if name in ("sinks", "score") else f" ({have}, before {self.like[name]})"
                raise RecordingError(
                    f"layer {label!r} came again with another {name}{shown}, expected the same in all its steps: "
                    "give it another name, or begin another text with recorder.text()"
                )


def _likeness(call: Call) -> dict[str, Any]:
    """What all steps of a layer have in common, as far as keys are none that were recorded if it differs."""
    of, score = call.of, call.score
    return {
        "batch": of.batch,
        "number of heads": of.heads,
        "number of key heads": of.key_heads,
        "d": call.q.shape[-1],
        "d of keys": call.k.shape[-1],
        "dtype": DTYPES[call.q.storage],
        "score": (score.name, *(x.tobytes() for x in vars(score).values() if isinstance(x, np.ndarray))),
    }


def _further(piece: Piece) -> dict[str, Any]:
    """What else they have in common."""
    return {
        "scale": piece.scale,
        "batch of keys": len(piece.k),
        "sinks": None if piece.sinks is None else piece.sinks.tobytes(),
        "d of values": None if piece.v is None else piece.v.shape[-1],
    }


class Recorder:
    """Writes a recording; made by `regard.recording`, and used in a `with`.

    Where torch is imported, the attention of its models is recorded too, as long as the `with` lasts.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        text: Any = None,
        tokens: Any = None,
        offsets: Any = None,
        special: Any = None,
        model: Any = None,
        dtype: str | None = None,
        values: bool = False,
        notes: Sequence[str] = (),
        sync: bool = True,
    ):
        if dtype not in (None, "bf16"):
            raise DtypeError(f"dtype is {dtype!r}, expected None, which keeps Q and K as they come, or 'bf16'")
        self.path = placed(path)
        self.rounds, self.values = dtype == "bf16", values
        self.texts = Names(text, tokens, offsets, special)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "model": _model(model),
            "notes": _notes(notes),
            "dtype": dtype,
        }
        try:
            checked(header)
        except (TypeError, ValueError) as error:
            raise DtypeError(f"model is {model!r}, expected a name, or what JSON can hold ({error})") from None
        _free(self.path)
        self.header, self.sync = header, sync
        self._writer: Writer | None = None
        self.room = Room()
        self.layers: dict[str, Layer] = {}
        self.waiting: dict[str, list[Piece]] = {}  # what decoding left, by layer
        self.since = math.inf  # when the first of it came
        self.first, self.written = True, -math.inf  # of tokens.json
        self.open = True
        self._modes = ExitStack()
        self._calls: Any = None  # those of torch models

    @property
    def writer(self) -> Writer:
        """The files; the folder is made when there is something to be put into it."""
        if self._writer is None:
            self._writer = Writer(_folder(self.path), self.header, self.sync)
        return self._writer

    # A `with`.

    def __enter__(self) -> Recorder:
        self._check()
        assert self.writer
        if torch_module() is not None:  # the caller has imported it: what torch models do in here is recorded too
            from regard.models.torch import Calls

            self._calls = self._modes.enter_context(Calls(self.layer, self.text, values=self.values))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._modes.close()
        if error is None and self._calls is not None and not self.layers and not self.texts.first:
            self._calls.nothing()
        try:
            self._close(whole=error is None)
        except RecordingError:
            if error is None:
                raise

    def close(self) -> None:
        """Write what waits and the end, and say so if something could not be written.

        It may be called more than once. A recording that is not closed, or whose `with` an exception left, has no end:
        it can be read, and is marked `unfinished`.
        """
        self._close(whole=True)

    def _close(self, whole: bool) -> None:
        if self.open:
            self.open = False
            if self._writer is None:  # nothing was begun
                return
            try:
                if self.writer.error is None:
                    self._flush()
                    self._put_tokens(now=True)
            except BaseException:
                whole = False
                raise
            finally:
                self.writer.close(whole)
                self.room.clear()

    # What is recorded.

    def text(self, text: Any = None, tokens: Any = None, offsets: Any = None, special: Any = None) -> None:
        """Begin the next text."""
        self._check()
        if self._calls is not None:
            self._calls.forget()
        self._flush()
        self.layers = {}
        self.texts.next(text, tokens, offsets, special)

    def layer(
        self,
        q: Any,
        k: Any,
        v: Any = None,
        *,
        name: str | None = None,
        tokens: Any = None,
        key_tokens: Any = None,
        lse: Any = None,
        score: Score = dot,
        scale: float | None = None,
        modify: Modify = None,
        bias: Any = None,
        mask: Any = None,
        sinks: Any = None,
    ) -> None:
        """Record the attention of one layer; what it takes is what `attention` takes, and is copied before it returns.

        Without a name, layers are numbered. The same name once more is a decoding step: `k` is then the whole cache, or
        the new keys alone, and earlier rows do not see later keys. Leading axes are texts of a batch. `lse` is what
        attention(…, return_lse=True) gave; if it is False, it is computed when the recording is read.
        """
        self._check()
        if self.values and v is None:
            raise RecordingError(
                "v is None, expected values, as values=True was given: pass v, or leave values=True out"
            )
        call = Call(q, k, v if self.values else None, score, scale)
        label = self.texts.unnamed() if name is None else str(name)
        ours, theirs = listed("tokens", tokens), listed("key_tokens", key_tokens)
        known = self.layers.get(label)
        like = _likeness(call)
        if known is not None:
            known.fits(label, like)
        new, keys = (call.of.n_k, call.of.n_k) if known is None else self._goes_on(known, label, call)
        rows = call.of.n_q
        if known is not None:
            self._rows_fit(label, rows, new)
        what = call.terms(keys, modify, bias, mask, sinks)
        found = None if lse is None or lse is False else call.lse(lse)
        if known is None:
            if found is not None and not self.layers:  # of each text the first layer stands for all: it takes time
                call.compare(found, what)
            piece = call.piece(what, found, self.values, 0, 0, new, self.room)
            self.texts.place(call.of.batch, rows, keys)
            self.texts.check(ours, theirs, call.of.batch, rows, keys)
            self.texts.layer(label, rows, keys, ours, theirs)
        else:
            if lse is None and keys == call.of.n_k and not (self.rounds and call.q.storage != "bf16"):
                found = call.settle(what)
            piece = call.piece(what, found, self.values, known.rows, known.keys, new, self.room)
            known.fits(label, _further(piece))
            self.texts.grown(label, known.rows + rows, rows, ours)
        last = call.key_row(call.of.n_k - 1) if new else b"" if known is None else known.last
        self.layers[label] = Layer(piece, last, like | _further(piece))
        self._put(label, piece, lse is not False)

    def made(self, rows: int, make: Callable[[], Piece], size: int) -> None:
        """A layer with as many keys as rows that `make` gives when its turn to be written comes, in another thread.

        So no more than one has to be in memory, and nothing is copied.
        """
        self._check()
        label = self.texts.unnamed()
        self.texts.place(1, rows, rows)
        self.texts.layer(label, rows, rows, None, None)
        self._put_tokens(now=self.first)
        self.first = False
        self.writer.put(self.texts.first, label, make, size)

    def _goes_on(self, known: Layer, label: str, call: Call) -> tuple[int, int]:
        """How many keys are new in a step that goes on with a layer, and how many there are with them."""
        n_k = call.of.n_k
        if n_k < known.keys:
            return n_k, known.keys + n_k
        if known.keys and known.last != call.key_row(known.keys - 1):
            raise RecordingError(
                f"layer {label!r} came again with other keys than before, expected its {known.keys} keys and then new "
                "ones: begin another text with recorder.text(), or give it another name"
            )
        return n_k - known.keys, n_k

    def _rows_fit(self, label: str, rows: int, new: int) -> None:
        """That a step has a key for each of its rows, or, where all look at the same keys, none."""
        if 0 < new < rows:
            raise ShapeError(
                f"layer {label!r} came again with {rows} new queries and {counted(new, 'key')} for them, expected as "
                "many of both: pass the queries of this step alone, and its keys"
            )

    def _put(self, label: str, piece: Piece, settle: bool) -> None:
        """Hand a piece to the writer; the small ones of decoding wait for others of their layer."""
        if piece.row == 0 or piece.plane is not None or piece.bias is not None:
            self._flush(label)
            self._send(label, [piece], settle)
            return
        waiting = self.waiting.setdefault(label, [])
        waiting.append(piece)
        now = time.monotonic()
        self.since = min(self.since, now)
        if sum(x.size for x in waiting) >= TOGETHER:
            self._flush(label)
        if now - self.since >= PATIENCE:
            self._flush()

    def _flush(self, label: str | None = None) -> None:
        """Send what waits, of a layer or of all."""
        for name in [*self.waiting] if label is None else [label]:
            pieces = self.waiting.pop(name, [])
            if pieces:
                self._send(name, pieces, settle=False)
        if not self.waiting:
            self.since = math.inf

    def _send(self, label: str, pieces: list[Piece], settle: bool) -> None:
        rounds = self.rounds

        def made() -> Piece:
            return settled(joined([x.in_bf16() for x in pieces] if rounds else pieces), settle)

        def written() -> None:
            for x in pieces:
                self.room.back(x.q, x.k, x.v, x.plane, x.bias)

        self._put_tokens(now=self.first)
        self.first = False
        self.writer.put(self.texts.first, label, made, sum(x.size for x in pieces), written)

    def _put_tokens(self, now: bool) -> None:
        """Have tokens.json written anew; unless it has to be now, not more often than every second."""
        moment = time.monotonic()
        if self.texts.dirty and (now or moment - self.written >= EVERY):
            self.written = moment
            content = self.texts.content()
            self.writer.later(lambda: self.writer.put_tokens(content))

    def _check(self) -> None:
        if not self.open:
            raise RecordingError(f"{self.path} is closed, expected an open recording: record inside the `with`")
        if self._writer is not None:
            self._writer.check()


def settled(piece: Piece, settle: bool) -> Piece:
    """The piece with its lse."""
    if piece.lse is not None or not settle or piece.row:
        return piece
    b, heads, n, _ = piece.q.shape
    return replace(piece, lse=piece.weights().lse().reshape(b, heads, n))


def _folder(path: Path) -> Path:
    """A new folder, or an empty one."""
    _free(path)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise unmade(path, error) from error
    return path


def _free(path: Path) -> None:
    """That a folder can be made there, or is there and empty."""
    try:
        if path.is_dir():
            taken = any(path.iterdir())
        else:
            taken = os.path.lexists(path)
            os.stat(path.parent)
            if not taken and not path.parent.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except FileNotFoundError:
        raise RecordingError(
            f"{path.parent} is not there, expected a folder to write {path.name} in: make it"
        ) from None
    except OSError as error:
        raise unmade(path, error) from error
    if taken:
        raise RecordingError(f"{path} is there already, expected a new path: choose another, or remove it")


def _model(model: Any) -> dict[str, Any]:
    if model is None or isinstance(model, str):
        return {} if model is None else {"name": model}
    if not isinstance(model, Mapping):
        raise DtypeError(f"model is {model!r}, expected a name, or a dictionary with a name")
    return dict(model)


def _notes(notes: Any) -> list[str]:
    given = list(notes) if isinstance(notes, Iterable) else [notes]
    if isinstance(notes, str) or not all(isinstance(x, str) for x in given):
        raise DtypeError(f"notes is {notes!r}, expected a list of strings: pass notes=[…]")
    return given
