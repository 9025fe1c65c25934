"""The files of a recording, as they are read: plain files, as long as they were written, or one sentence."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.errors import RecordingError, counted
from regard.recording.chunk import Chunk, End, chunk_of, end_of
from regard.recording.format import FORMAT, MANIFEST, SLICE, SUFFIX, TOKENS, VERSION, crc, file_name, sound, unchecked
from regard.recording.names import known


def opened(path: Path, size: int | None = None) -> Any:
    """A plain file, of this size."""
    file = open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | NONBLOCK))  # noqa: SIM115  # it is given on
    try:
        _plain(path, os.fstat(file.fileno()), size)
    except RecordingError:
        file.close()
        raise
    return file


NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe in place of a file must not be waited for


def unread(path: Path, error: OSError) -> RecordingError:
    return RecordingError(
        f"{path} cannot be read ({error.strerror or error}), expected a file of the recording: "
        "copy the whole folder anew, or record it again"
    )


def manifest(path: Path) -> tuple[dict[str, Any], list[Chunk], End | None]:
    """The header of a recording, its finished chunks and, if it was written to it, its end."""
    if not path.is_dir():
        what = "is no folder" if path.exists() else "is not there"
        raise RecordingError(f"{path} {what}, expected a recording: a folder that regard.recording has written")
    try:
        with opened(path / MANIFEST) as file:
            content = file.read()
    except FileNotFoundError:
        raise RecordingError(
            f"{path} has no {MANIFEST}, expected a recording: a folder that regard.recording has written"
        ) from None
    except OSError as error:
        raise unread(path / MANIFEST, error) from error
    *lines, rest = content.split(b"\n")
    if sound(rest[:-1]) or (lines and sound(rest)):  # whole but for its end
        lines.append(rest)
        rest = b""
    if not lines:
        raise RecordingError(
            f"{MANIFEST} of {path} has no whole line, expected a header: it is no recording, or was cut off"
        )
    header = unchecked(lines[0])
    if header is None or header.get("format") != FORMAT:
        foreign = _foreign(lines[0])
        raise RecordingError(f"{path} is no recording of Regard's ({foreign}), expected one: it is foreign or altered")
    version = header.get("version")
    if version != VERSION:
        raise RecordingError(
            f"{path} is of version {version!r} of the format, expected {VERSION}: install a newer Regard"
        )
    match header:
        case {"model": dict(), "notes": list(notes)} if all(isinstance(x, str) for x in notes):
            pass
        case _:
            raise RecordingError(f"{MANIFEST} of {path} has a header without model and notes: it was altered")
    chunks: list[Chunk] = []
    end: End | None = None
    for number, line in enumerate(lines[1:], 2):
        entry = unchecked(line)
        where = f"line {number} of {MANIFEST}"
        if entry is None:
            raise RecordingError(f"{where} of {path} is not as it was written: it was altered")
        if end is not None:
            raise RecordingError(f"{where} of {path} stands after its end: it was altered")
        if "end" in entry:
            end = end_of(entry, f"{where} of {path}")
            continue
        chunk = chunk_of(entry, where)
        if chunk.number != len(chunks):
            raise RecordingError(
                f"{where} of {path} is of chunk {chunk.number}, expected {len(chunks)}: it was altered"
            )
        chunks.append(chunk)
    if end is not None:
        _whole(path, chunks, end, rest)
    for chunk in chunks:
        _there(path / chunk.name, chunk.layout.size)
    _there(path / TOKENS)
    return header, chunks, end


def _whole(path: Path, chunks: list[Chunk], end: End, rest: bytes) -> None:
    """That the lines are those that the last one tells of."""
    texts = max((x.text + x.texts for x in chunks), default=0)
    if rest:
        raise RecordingError(f"{MANIFEST} of {path} goes on after its end, expected nothing there: it was altered")
    for name, count, told in (("chunk", len(chunks), end.chunks), ("text", texts, end.texts)):
        if count != told:
            raise RecordingError(
                f"{MANIFEST} of {path} has lines of {counted(count, name)}, expected {told}: lines were lost or added"
            )


def untold(path: Path, chunks: int) -> list[str]:
    """The files of chunks of which the manifest has no line."""
    names = {entry.name for entry in os.scandir(path)}
    known = set(map(file_name, range(chunks)))
    return sorted(x for x in names - known if x.endswith(SUFFIX) and x.removesuffix(SUFFIX).isdecimal())


def _there(path: Path, size: int | None = None) -> None:
    """That a plain file is there, of this size."""
    try:
        state = os.stat(path)
    except OSError as error:
        raise unread(path, error) from error
    _plain(path, state, size)


def _plain(path: Path, state: os.stat_result, size: int | None) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise RecordingError(f"{path} is no plain file, expected one as Regard writes it: it was put there by others")
    if size is not None and state.st_size != size:
        raise RecordingError(
            f"{path} has {state.st_size} bytes, expected {size}: it was cut off or altered, "
            "copy the whole folder anew, or record it again"
        )


def _foreign(line: bytes) -> str:
    return f"its manifest begins {line[:24]!r}" if line else "its manifest begins with an empty line"


def tokens(path: Path, end: End | None) -> list[Mapping[str, Any]]:
    """What tokens.json says."""
    try:
        with opened(path / TOKENS) as file:
            read = file.read()
            content = unchecked(read)
    except OSError as error:
        raise unread(path / TOKENS, error) from error
    texts = None if content is None else content.get("texts")
    if not isinstance(texts, list) or not all(map(known, texts)):
        raise RecordingError(f"{TOKENS} of {path} is not as Regard writes it: it was altered")
    if end is not None and (len(read), crc([read])) != (end.size, end.crc32):
        raise RecordingError(f"{TOKENS} of {path} is not the one it was closed with: it was altered or exchanged")
    return texts


def mapped(path: Path, chunk: Chunk) -> mmap.mmap:
    """The file of a chunk in memory, its beginning checked."""
    place = path / chunk.name
    try:
        with opened(place, chunk.layout.size) as file:
            found = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise unread(place, error) from error
    if found[: len(chunk.layout.head)] != chunk.layout.head:
        raise RecordingError(f"{place} does not begin as it was written: it was altered")
    return found


def compared(path: Path, chunk: Chunk) -> Iterator[tuple[int, int, bool]]:
    """Where each slice of a chunk's file begins, how long it is, and whether it is as it was written."""
    place = path / chunk.name
    size = chunk.layout.size
    room = memoryview(bytearray(min(SLICE, size)))
    try:
        with opened(place, size) as file:
            for number, check in enumerate(chunk.checks):
                first = number * SLICE
                part = room[: min(SLICE, size - first)]
                have = 0
                while have < len(part) and (count := file.readinto(part[have:])):
                    have += count
                yield first, len(part), have == len(part) and crc([part]) == check
    except OSError as error:
        raise unread(place, error) from error
