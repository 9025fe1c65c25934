"""Small pictures as PNG, written with what Python brings."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def png(places: Array, table: Array, clear: int | None = None) -> bytes:
    """A picture of places (rows, columns) in a table of at most 256 colours, one of which may be clear.

    >>> png(np.zeros((2, 3), np.uint8), np.zeros((1, 3), np.uint8))[:4]
    b'\\x89PNG'
    """
    rows, columns = places.shape
    # Each line begins with the filter that it went through: none.
    lines = np.zeros((rows, columns + 1), np.uint8)
    lines[:, 1:] = places
    alpha = b"" if clear is None else bytes([255] * clear + [0])
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(name, data)
        for name, data in (
            (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),  # 8 bits, of a palette
            (b"PLTE", np.ascontiguousarray(table, np.uint8).tobytes()),
            (b"tRNS", alpha),
            (b"IDAT", zlib.compress(lines.tobytes(), 9)),
            (b"IEND", b""),
        )
        if data or name != b"tRNS"
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def uri(picture: bytes) -> str:
    """A picture as an address that carries it."""
    return "data:image/png;base64," + base64.b64encode(picture).decode()
