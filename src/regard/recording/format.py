"""The format: what stands in the files of a recording.

    run.regard/
        manifest.jsonl        a header, a line for each finished chunk, and a last one when all was written
        tokens.json           texts, tokens and their places in the text
        000000.safetensors    the arrays of chunk 0

Every line, and tokens.json, ends with a check of itself; the line of a chunk has the checks of its file, one for each
MiB. They are there to find damage, not forgery. Files are named by number alone: no name inside a recording becomes
part of a path.

>>> line = checked({"format": "regard recording"})
>>> unchecked(line)
{'format': 'regard recording'}
>>> unchecked(line.replace(b"regard", b"Regard")) is None
True
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from regard.errors import DtypeError, RecordingError

FORMAT, VERSION = "regard recording", 1
MANIFEST, TOKENS = "manifest.jsonl", "tokens.json"
SUFFIX = ".safetensors"  # of the files of chunks
SLICE = 1 << 20  # bytes of a file that have a check of their own
ALIGNMENT = 64  # bytes: a cache line, and the widest register

Array = np.ndarray[Any, Any]

# dtypes by their names in safetensors.
NAMED = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U32": np.dtype(np.uint32),
    "U16": np.dtype(np.uint16),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
NAMES = {dtype: name for name, dtype in NAMED.items()}
AXES = 8  # of a tensor, at most
PAD = "~"  # what tensors are named that fill up to the next alignment


def file_name(number: int) -> str:
    """The file of a chunk."""
    return f"{number:06d}{SUFFIX}"


# Lines that check themselves.

CHECK = 16  # digits
_KEY = b',"check":"'
_TAIL = len(_KEY) + CHECK + 2  # the check with its key, a quote and a brace


def checked(content: Mapping[str, Any]) -> bytes:
    """A JSON object whose last entry checks what stands before it."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")
    body = text[:-1]
    return body + _KEY + _check(body) + b'"}'


def _check(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:CHECK].encode("ascii")


def sound(line: bytes) -> bool:
    """Whether a line is as it was written."""
    body, tail = line[:-_TAIL], line[-_TAIL:]
    return len(line) > _TAIL and tail == _KEY + _check(body) + b'"}'


def unchecked(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None if it is not as it was written, or not JSON that this format knows."""
    if not sound(line):
        return None
    try:
        content = json.loads(line, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    del content["check"]
    return content


def _refused(name: str) -> Any:
    raise ValueError(name)


# The checks of a file: CRC-32 of each slice. It finds any burst of up to 32 bits, and runs as fast as memory is copied.


def crc(parts: Iterable[Any]) -> str:
    """The check of a slice that is given in parts, as 8 digits.

    >>> crc([b"a", b"ttention"]) == crc([b"attention"])
    True
    """
    found = 0
    for part in parts:
        found = zlib.crc32(part, found)
    return f"{found:08x}"


def crcs(text: str, size: int) -> list[str] | None:
    """The checks of a file of this size, out of what a line has; None if they are not as many."""
    found = [text[at : at + 8] for at in range(0, len(text), 8)]
    return found if len(text) == 8 * -(-size // SLICE) else None


# The layout of a file of tensors.


class Place(NamedTuple):
    """Where a tensor stands in its file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    size: int


class Layout(NamedTuple):
    """A file of tensors: its first bytes, where each tensor stands, and how long it is."""

    head: bytes
    places: dict[str, Place]
    size: int


def layout(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> Layout:
    """Where tensors of these dtypes and shapes stand in a safetensors file, each at a multiple of 64 bytes.

    >>> made = layout({"q": ("F32", (3, 5)), "k": ("F16", (2, 2))})
    >>> [place.start % 64 for place in made.places.values()], made.places["k"].start - made.places["q"].start
    ([0, 0], 64)
    """
    entries: dict[str, Any] = {}
    inside: dict[str, Place] = {}
    at = 0
    for number, (name, (dtype, shape)) in enumerate(tensors.items()):
        size = math.prod(shape) * NAMED[dtype].itemsize
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        inside[name] = Place(NAMED[dtype], shape, at, size)
        at += size
        fill = -at % ALIGNMENT
        if fill:  # the format has no holes
            entries[f"{PAD}{number}"] = {"dtype": "U8", "shape": [fill], "data_offsets": [at, at + fill]}
            at += fill
    text = json.dumps(entries, separators=(",", ":")).encode("ascii")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    head = len(text).to_bytes(8, "little") + text
    places = {name: x._replace(start=x.start + len(head)) for name, x in inside.items()}
    return Layout(head, places, len(head) + at)


def described(arrays: Mapping[str, Array]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The dtypes and shapes of arrays, as the format has them."""
    return {name: (NAMES[x.dtype], x.shape) for name, x in arrays.items()}


def tensors_of(content: Any, where: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The dtypes and shapes that a line tells of, checked."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    if isinstance(content, dict) and len(content) <= 1 << 16:
        for name, entry in content.items():
            match entry:
                case [str(dtype), list(shape)] if dtype in NAMED and len(shape) <= AXES and all(map(whole, shape)):
                    found[name] = dtype, tuple(shape)
    if not isinstance(content, dict) or len(found) != len(content) or any(name.startswith(PAD) for name in found):
        raise RecordingError(f"{where} tells of no tensors that this format knows, expected names, dtypes and shapes")
    return found


def placed(path: Any) -> Path:
    """The path that is meant, or one sentence."""
    try:
        name = os.fspath(path)
    except TypeError:
        name = path
    if not isinstance(name, str):
        raise DtypeError(f"path is {path!r}, expected the folder of a recording: pass a string or a pathlib.Path")
    if not name or "\0" in name:
        raise RecordingError(f"path is {name!r}, expected one that a folder can have, such as 'run.regard'")
    return Path(name)


def whole(x: Any) -> bool:
    """Whether something is a whole number that a size can be."""
    return isinstance(x, int) and not isinstance(x, bool) and 0 <= x < 1 << 48
