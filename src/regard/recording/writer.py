"""The writer: a thread that puts chunks on the disk, one after the other, while the recorder takes the next.

A file is written under a temporary name and renamed; then the manifest gains its line. So whatever happens, and
whenever, what the manifest tells of is there. Its last line, written when all of it is on the disk, tells how much
there is: a recording without it was not written to its end.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import RecordingError
from regard.recording.chunk import ending, line, tensors
from regard.recording.format import MANIFEST, SLICE, TOKENS, Layout, checked, crc, described, file_name, layout
from regard.recording.piece import Piece

WAITING = 256 << 20  # bytes of chunks that may wait; one larger chunk may wait alone
LARGE = 16 << 20  # bytes of a file from which on a second thread is worth its while
BEGUN = 16 << 20  # bytes after which the system is asked to begin with putting them on the disk
MANY = 64  # parts of a slice that are put together before they are written

BINARY = getattr(os, "O_BINARY", 0)  # a system that would change line ends

Array = np.ndarray[Any, Any]
Job = Callable[[], None]


class Queue:
    """Jobs with their sizes; who puts one waits while there is no room."""

    def __init__(self, room: int):
        self.room, self.held = room, 0
        self.jobs: deque[tuple[Job, int, bool]] = deque()
        self.changed = threading.Condition()

    def put(self, job: Job, size: int, always: bool = False) -> None:
        """A job; `always` is done even after something went wrong."""
        with self.changed:
            while self.held and self.held + size > self.room:
                self.changed.wait()
            self.jobs.append((job, size, always))
            self.held += size
            self.changed.notify_all()

    def next(self) -> tuple[Job, int, bool]:
        with self.changed:
            while not self.jobs:
                self.changed.wait()
            return self.jobs.popleft()

    def done(self, size: int) -> None:
        with self.changed:
            self.held -= size
            self.changed.notify_all()


class Writer:
    """The files of a recording that is being written."""

    def __init__(self, path: Path, header: Mapping[str, Any], sync: bool):
        self.path, self.sync = path, sync
        self.number = self.texts = 0  # so many are finished
        self.tokens: list[Any] = []  # the size and the check of tokens.json
        self.error: RecordingError | None = None
        self.queue = Queue(WAITING)
        self.thread: threading.Thread | None = None
        self.manifest = os.open(path / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | BINARY, 0o666)
        try:
            _write(self.manifest, checked(header) + b"\n")
            self.put_tokens({"texts": []})
        except OSError as error:
            os.close(self.manifest)
            raise unmade(path, error) from error

    # From the recorder's thread.

    def put(self, text: int, layer: str, make: Callable[[], Piece], size: int, after: Job | None = None) -> None:
        """A chunk to be written: `make` gives its piece, in the writer's thread, and `after` is called when it is."""

        def job() -> None:
            self._chunk(text, layer, make())
            if after is not None:
                after()

        self.later(job, size)

    def later(self, job: Job, size: int = 0) -> None:
        """Something to be done after what waits."""
        self.check()
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, name="regard-recording", daemon=True)
            self.thread.start()
        self.queue.put(job, size)

    def check(self) -> None:
        """Say what went wrong in the thread."""
        if self.error is not None:
            raise self.error

    def close(self, whole: bool = True) -> None:
        """Write what waits, and, if that is wanted, see to it that it is on the disk; if it is the whole, say so."""
        if self.thread is not None:
            self.queue.put(self._stop, 0, always=True)
            self.thread.join()
            self.thread = None
        if self.manifest >= 0:
            try:
                if self.error is None:
                    self._ended(whole)
            except OSError as error:
                self.error = self._failed(error)
            finally:
                os.close(self.manifest)
                self.manifest = -1
        self.check()

    def wait(self) -> None:
        """Until what was put has been written."""
        done = threading.Event()
        if self.thread is not None:
            self.queue.put(done.set, 0, always=True)
            done.wait()

    # In the writer's thread.

    def _run(self) -> None:
        while True:
            job, size, always = self.queue.next()
            try:
                if self.error is None or always:
                    job()
            except StopIteration:
                return
            except OSError as error:
                self.error = self._failed(error)
            except RecordingError as error:
                self.error = error
            except BaseException as error:
                self.error = RecordingError(
                    f"a chunk of {self.path} could not be made ({type(error).__name__}: {error}): {self._left()}"
                )
                self.error.__cause__ = error
            finally:
                del job  # and the arrays it holds
                self.queue.done(size)

    def _stop(self) -> None:
        raise StopIteration

    def _failed(self, error: OSError) -> RecordingError:
        reason = error.strerror or error
        return RecordingError(
            f"{self.path} could not be written to ({reason}), expected room and permission: {self._left()}"
        )

    def _left(self) -> str:
        """What there is of a recording that went wrong."""
        if not self.number:
            return "nothing of it can be read, record it again in another place"
        return "the chunks before can be read"

    def _chunk(self, text: int, layer: str, piece: Piece) -> None:
        named, told = tensors(piece)
        place = layout(described(named))
        name = file_name(self.number)
        checks = self._file(name, place, named)
        content = line(self.number, text, layer, named, told) | {"size": place.size, "crc32": checks}
        _write(self.manifest, checked(content) + b"\n")
        self.number += 1
        self.texts = max(self.texts, text + len(piece.q))

    def _file(self, name: str, place: Layout, named: Mapping[str, Array]) -> str:
        """Write the tensors; the checks of the file."""
        if place.size >= LARGE:  # checked by another thread meanwhile
            with ThreadPoolExecutor(1) as other, self._renamed(name) as file:
                coming = []
                for parts in _slices(place, named):
                    coming.append(other.submit(crc, parts))
                    _write(file, *parts)
                    if self.sync:
                        _begin(file, len(coming) * SLICE)
                return "".join(x.result() for x in coming)
        checks = []
        with self._renamed(name) as file:
            for parts in _slices(place, named):  # each is checked and written while it is in the cache
                checks.append(crc(parts))
                _write(file, *parts)
        return "".join(checks)

    def put_tokens(self, content: Mapping[str, Any]) -> None:
        """tokens.json, written anew."""
        whole = checked(content)
        with self._renamed(TOKENS) as file:
            _write(file, whole)
        self.tokens = [len(whole), crc([whole])]

    @contextmanager
    def _renamed(self, name: str) -> Iterator[int]:
        """A file under a temporary name, which gets its own when it is whole."""
        temporary = self.path / f"{name}.tmp"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o666)
        try:
            yield file
        except BaseException:
            os.close(file)
            with suppress(OSError):
                temporary.unlink()
            raise
        os.close(file)
        os.replace(temporary, self.path / name)

    def _ended(self, whole: bool) -> None:
        """The last line, when what it tells of is on the disk."""
        if self.sync:
            for name in (TOKENS, *map(file_name, range(self.number))):
                _fsync(self.path / name)
            _fsync(self.path)
            _fsync(self.path.parent)
        if whole:
            _write(self.manifest, checked(ending(self.number, self.texts, self.tokens)) + b"\n")
        if self.sync:
            os.fsync(self.manifest)


def _fsync(path: Path) -> None:
    try:
        file = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder, where the system opens none
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _begin(file: int, written: int) -> None:
    """Have the disk busy while there is more to be written: at close less is left to wait for."""
    if written % BEGUN == 0 and hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, written - BEGUN, BEGUN, os.POSIX_FADV_DONTNEED)


def _parts(place: Layout, named: Mapping[str, Array]) -> Iterator[Any]:
    """The bytes of a file, one part after the other, without a copy."""
    yield place.head
    at = len(place.head)
    for name, where in place.places.items():
        yield bytes(where.start - at)
        yield named[name].reshape(-1).view(np.uint8).data
        at = where.start + where.size
    yield bytes(place.size - at)


def _slices(place: Layout, named: Mapping[str, Array]) -> Iterator[list[Any]]:
    """The parts of each slice of a file."""
    parts: list[Any] = []
    left = SLICE
    for part in _parts(place, named):
        first = 0
        while first < len(part):
            parts.append(memoryview(part)[first : first + left])
            first += len(parts[-1])
            left -= len(parts[-1])
            if not left:
                yield parts
                parts, left = [], SLICE
    if parts:
        yield parts


def _write(file: int, *parts: Any) -> None:
    """All of it: a system may write less than it is given."""
    if len(parts) > MANY or not hasattr(os, "writev"):
        parts = (b"".join(parts),)
    left = [memoryview(x) for x in parts]
    while left:
        count = os.writev(file, left) if len(left) > 1 else os.write(file, left[0])
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if left:
            left[0] = left[0][count:]


def unmade(path: Path, error: OSError) -> RecordingError:
    """What to say of a recording that could not even be begun."""
    return RecordingError(
        f"{path} could not be made ({error.strerror or error}), expected a place where a folder can be: choose another"
    )
