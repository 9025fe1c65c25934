"""A chunk: a piece of a layer as a line of the manifest and a file of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from regard.algebra.expression import Expression, mentions
from regard.algebra.scores import Score, additive, dot, general
from regard.errors import RecordingError, RegardError
from regard.recording.format import Layout, crcs, described, file_name, layout, tensors_of, whole
from regard.recording.piece import Piece
from regard.recording.trees import read, real, written

Array = np.ndarray[Any, Any]
Tensor = tuple[str, tuple[int, ...]]  # a dtype and a shape
SCORES = {"dot": (), "general": ("weight",), "additive": ("w", "w_q", "w_k")}
MOST = 1 << 16  # texts of a batch, heads of a layer: so many places are made, however small their arrays are
ARRAYS = ("q", "k", "v", "lse", "mask", "bias", "sinks", "weight", "w", "w_q", "w_k")  # others are of trees


def _kind(score: Score) -> str:
    return next(name for name in SCORES if score.name.startswith(name))


def tensors(piece: Piece) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays of a piece, and what is to be told beside them."""
    arrays: dict[str, Array] = {}
    trees = {
        name: None if x is None else written(x, arrays) for name, x in (("modify", piece.modify), ("mask", piece.mask))
    }
    kind = _kind(piece.score)
    large = {"q": piece.q, "k": piece.k, "v": piece.v, "lse": piece.lse, "mask": piece.plane, "bias": piece.bias}
    small = {"sinks": piece.sinks} | {name: getattr(piece.score, name) for name in SCORES[kind]}
    # What lies row after row is written so: as (B, rows, heads, d), and told of.
    across = [name for name in ("q", "k", "v") if _across(large[name])]
    large |= {name: x.swapaxes(1, 2) for name, x in large.items() if name in across and x is not None}
    named = {name: np.ascontiguousarray(x) for name, x in (large | small).items() if x is not None} | arrays
    told = {
        "row": piece.row,
        "key": piece.key,
        "steps": [list(step) for step in piece.steps],
        "scale": piece.scale.hex(),
        "score": kind,
        "single": piece.single,
        "rounded": piece.rounded,
        "across": across,
        **trees,
    }
    return named, told


def _across(x: Array | None) -> bool:
    """Whether an array of (B, heads, rows, d) lies in memory with the heads of a row beside each other."""
    return x is not None and not x.flags.c_contiguous and x.swapaxes(1, 2).flags.c_contiguous


def line(number: int, text: int, layer: str, named: Mapping[str, Array], told: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says of a chunk, but for its file's size and checks."""
    shapes = {name: [dtype, list(shape)] for name, (dtype, shape) in described(named).items()}
    return {"chunk": number, "text": text, "layer": layer, **told, "tensors": shapes}


def ending(chunks: int, texts: int, tokens: list[Any]) -> dict[str, Any]:
    """The last line of the manifest: what there is when all was written."""
    return {"end": True, "chunks": chunks, "texts": texts, "tokens": tokens}


class End(NamedTuple):
    """What the last line tells."""

    chunks: int
    texts: int
    size: int  # of tokens.json
    crc32: str


def end_of(content: Mapping[str, Any], where: str) -> End:
    """The last line, checked."""
    match content:
        case {"end": True, "chunks": int(chunks), "texts": int(texts), "tokens": [int(size), str(check)]}:
            if all(map(whole, (chunks, texts, size))):
                return End(chunks, texts, size, check)
    raise RecordingError(f"{where} is no end that this format knows: the recording was altered")


@dataclass(frozen=True, eq=False)
class Chunk:
    """What a line of the manifest tells, checked as far as it can be without the file."""

    number: int
    text: int  # the first of its texts
    texts: int
    layer: str
    row: int
    key: int
    rows: int
    keys: int  # that came with it
    heads: int
    steps: tuple[tuple[int, int], ...]
    tensors: Mapping[str, Tensor]
    layout: Layout
    checks: list[str]  # of each slice of the file
    told: Mapping[str, Any]

    @property
    def name(self) -> str:
        return file_name(self.number)

    @property
    def rounded(self) -> bool:
        return bool(self.told["rounded"])

    def follows(self, before: Chunk) -> bool:
        """Whether it goes on with another of its layer."""

        def alike(x: Chunk) -> Any:
            (kept, q), (_, k) = x.tensors["q"], x.tensors["k"]
            values = x.tensors.get("v", (kept, (0,)))[1][-1]
            return x.text, x.texts, kept, q[1], k[1], q[3], k[3], values, x.told["single"], x.told["score"]

        return alike(self) == alike(before) and (self.row, self.key) == (before.row + before.rows, before.steps[-1][1])

    def piece(self, arrays: Mapping[str, Array]) -> Piece:
        """The piece, from its arrays; whatever the line says, it is one that can be computed with, or one sentence."""
        told, where = self.told, f"chunk {self.number}"
        arrays = dict(arrays)
        for name in told["across"]:
            arrays[name] = arrays[name].swapaxes(1, 2)  # (B, rows, heads, d) -> (B, heads, rows, d)
        try:
            score = _score(told["score"], arrays)
            q = arrays["q"]
            made = Piece(
                q=q,
                k=arrays["k"],
                v=arrays.get("v"),
                lse=arrays.get("lse"),
                scale=real(told["scale"]),
                modify=_tree(told["modify"], arrays, f"modify of {where}", mask=False),
                mask=_tree(told["mask"], arrays, f"the mask of {where}", mask=True),
                plane=arrays.get("mask"),
                bias=arrays.get("bias"),
                sinks=arrays.get("sinks"),
                score=score,
                single=told["single"] is True,
                row=self.row,
                key=self.key,
                steps=self.steps,
                rounded=self.rounded,
            )
        except (RegardError, KeyError) as error:
            raise RecordingError(f"{where} holds no attention ({error}): it was not written by Regard") from error
        return made


def _tree(nodes: Any, arrays: Mapping[str, Array], where: str, mask: bool) -> Expression | None:
    if nodes is None:
        return None
    made = read(nodes, arrays, where)
    if (made.kind == "bool") != mask or (mask and mentions(made, "score")):
        raise RecordingError(f"{where} is of kind {made.kind}, expected {'a condition' if mask else 'a number'}")
    return made


def _score(kind: Any, arrays: Mapping[str, Array]) -> Score:
    parts = [arrays[name] for name in SCORES.get(kind, ("",))]
    return dot if kind == "dot" else (general if kind == "general" else additive)(*parts)


def chunk_of(content: Mapping[str, Any], where: str) -> Chunk:
    """A line of the manifest as a chunk, or one sentence."""
    turned: dict[str, Tensor] | None = None
    match content:
        case {
            "chunk": int(number),
            "text": int(text),
            "layer": str(layer),
            "row": int(row),
            "key": int(key),
            "steps": [_, *_] as given,
            "single": bool(single),
            "rounded": bool(),
            "across": list(across),
            "scale": str(),
            "score": str(kind),
            "modify": _,
            "mask": _,
            "size": int(size),
            "crc32": str(digits),
        }:
            steps = tuple((x[0], x[1]) for x in given if isinstance(x, list) and len(x) == 2 and all(map(whole, x)))
            fine = len(steps) == len(given) and all(map(whole, (number, text, row, key, size)))
            checks = crcs(digits, size) if fine else None
            problem = "numbers that no size can be, or too few checks" if checks is None else ""
            found = tensors_of(content.get("tensors"), where)
            place = layout(found)
            if not problem:
                turned = _turned(found, across)
                problem = (
                    _misfit(turned, steps, key, single, kind) if turned else "an order of axes that it cannot have"
                )
        case _:
            problem = "entries that this format does not know"
    if problem or turned is None or checks is None:
        raise RecordingError(f"{where} has {problem}, expected a line as Regard writes it: the recording was altered")
    if place.size != size:
        raise RecordingError(f"{where} tells of {size} bytes where its tensors take {place.size}: it was altered")
    (texts, heads, rows, _), new = turned["q"][1], turned["k"][1][2]
    return Chunk(number, text, texts, layer, row, key, rows, new, heads, steps, turned, place, checks, content)


def _turned(found: Mapping[str, Tensor], across: list[Any]) -> dict[str, Tensor] | None:
    """The tensors as (B, heads, rows, d), those that are written across too."""
    made = dict(found)
    for name in across:
        if name not in ("q", "k", "v") or name not in made or len(made[name][1]) != 4 or across.count(name) > 1:
            return None
        dtype, (b, rows, heads, d) = made[name]
        made[name] = dtype, (b, heads, rows, d)
    return made


def _misfit(
    found: Mapping[str, Tensor],
    steps: tuple[tuple[int, int], ...],
    key: int,
    single: bool,
    kind: str,
) -> str:
    """What is wrong with the shapes of a chunk's tensors; nothing if they fit."""
    if "q" not in found or "k" not in found or kind not in SCORES or any(name not in found for name in SCORES[kind]):
        return "no Q, no K, or not what its score needs"
    if any(name not in ARRAYS and not name.isdecimal() for name in found):
        return "tensors of other names"
    (kept, q), (theirs, k) = found["q"], found["k"]
    floats = ("F64", "F32", "F16", "BF16")
    if len(q) != 4 or len(k) != 4 or kept not in floats or theirs != kept:
        return "Q and K that do not fit each other"
    texts, heads, rows, d = q
    if texts > MOST or heads > MOST:
        return "more texts or heads than there can be"
    if k[0] not in (1, texts) or not k[1] or heads % k[1] or (kind == "dot" and k[3] != d):
        return "Q and K that do not fit each other"
    if single and (texts, heads) != (1, 1):
        return "more than one head without an axis for it"
    keys = key + k[2]
    if sum(n for n, _ in steps) != rows or steps[-1][1] != keys:
        return "steps that do not add up to its rows and keys"
    if any(b < a for (_, a), (_, b) in pairwise(steps)):
        return "steps that lose keys"
    number = "F64" if kept == "F64" else "F32"
    wanted: dict[str, Any] = {
        "lse": lambda dtype, shape: dtype == "F64" and shape == (texts, heads, rows),
        "v": lambda dtype, shape: dtype == kept and len(shape) == 4 and shape[0] in (1, texts) and shape[1:3] == k[1:3],
        "sinks": lambda dtype, shape: dtype in (number, "F32") and shape == (heads,),
        "mask": lambda dtype, shape: dtype == "BOOL" and _plane(shape, texts, heads, rows, keys),
        "bias": lambda dtype, shape: dtype in (kept, "F32") and _plane(shape, texts, heads, rows, keys),
    }
    for name, fits in wanted.items():
        if name in found and not fits(*found[name]):
            return f"a tensor {name} that does not fit Q and K"
    return ""


def _plane(shape: tuple[int, ...], texts: int, heads: int, rows: int, keys: int) -> bool:
    return len(shape) == 4 and shape[0] in (1, texts) and shape[1] in (1, heads) and shape[2:] == (rows, keys)
