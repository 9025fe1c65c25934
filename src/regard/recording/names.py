"""The texts of a recording and their tokens, as they are collected and as tokens.json has them.

>>> names = Names("a cat", ["a", "cat"], [(0, 1), (2, 5)], None)
>>> names.place(1)
>>> names.content()["texts"][0]["offsets"]
[0, 1, 2, 5]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.errors import DtypeError, ShapeError, counted, there


class Names:
    """The texts so far, the newest of them, or, of a batch, the newest together, still open."""

    def __init__(self, text: Any, tokens: Any, offsets: Any, special: Any):
        self.texts: list[dict[str, Any]] = []
        self.first = 0  # the first of the newest
        self.labels: list[str] = []  # of the layers of the newest
        self.placed = False  # whether it is known how many texts the newest are
        self.dirty = False
        self.given = _checked(text, tokens, offsets, special)

    def next(self, text: Any, tokens: Any, offsets: Any, special: Any) -> None:
        """Begin the next text, or the next batch of them. One without layers is none."""
        given = _checked(text, tokens, offsets, special)
        self.first, self.labels, self.placed, self.given = len(self.texts), [], False, given

    def unnamed(self) -> str:
        """The name of a layer that was given none: its number."""
        number = len(self.labels)
        while str(number) in self.labels:
            number += 1
        return str(number)

    def place(self, batch: int, n_q: int | None = None, n_k: int | None = None) -> None:
        """The newest text is so many, of so many rows and keys in their first layer."""
        if self.placed:
            if batch != len(self.texts) - self.first:
                raise ShapeError(
                    f"q has {counted(batch, 'sequence')}, and the first layer of this text had "
                    f"{len(self.texts) - self.first}, expected the same: begin another with recorder.text()"
                )
            return
        text, tokens, offsets, special = self.given
        each = _of_each("tokens", tokens, batch)
        made: list[dict[str, Any]] = []
        for b, names in enumerate(each):
            if names is not None and n_q is not None and n_k is not None:
                fits("tokens", names, n_q, n_k, padded=_nested(tokens))
            spans, marks = _of_each("offsets", offsets, batch)[b], _of_each("special", special, batch)[b]
            _ordered(spans)
            for name, x in (("offsets", spans), ("special", marks)):
                if x is not None and (names is None or len(x) != len(names)):
                    there_are = "no tokens" if names is None else counted(len(names), "token")
                    raise ShapeError(f"{name} has {len(x)} entries for {there_are}, expected one for each: pass both")
            made.append(
                {
                    "text": (text[b] if b < len(text) else None) if isinstance(text, list) else text,
                    "tokens": names,
                    "offsets": None if spans is None else [int(x) for span in spans for x in span],
                    "special": None if marks is None else [i for i, x in enumerate(marks) if x],
                    "padded": n_q if _nested(tokens) else None,
                    "layers": {},
                }
            )
        self.texts += made
        self.placed = self.dirty = True

    def layer(self, label: str, n_q: int, n_k: int, tokens: Any, key_tokens: Any) -> None:
        """A layer's own names of its axes."""
        if label not in self.labels:
            self.labels.append(label)
        batch = len(self.texts) - self.first
        ours, theirs = _of_each("tokens", tokens, batch), _of_each("key_tokens", key_tokens, batch)
        for b in range(batch):
            if ours[b] is not None or theirs[b] is not None:
                self.texts[self.first + b]["layers"][label] = [ours[b], theirs[b]]
                self.dirty = True

    def check(self, tokens: Any, key_tokens: Any, batch: int, n_q: int, n_k: int) -> None:
        """That a layer's own names fit its axes."""
        for names in _of_each("tokens", tokens, batch):
            if names is not None:
                fits("tokens", names, n_q, n_k, padded=_nested(tokens))
        for names in _of_each("key_tokens", key_tokens, batch):
            if names is not None:
                fits("key_tokens", names, n_k, n_k, padded=_nested(key_tokens))

    def grown(self, label: str, rows: int, new: int, tokens: Any) -> None:
        """Names of the rows that a step brought, `new` of them, which are then `rows`; or of all rows."""
        batch = len(self.texts) - self.first
        for b, names in enumerate(_of_each("tokens", tokens, batch)):
            if names is None:
                continue
            entry = self.texts[self.first + b]
            own = entry["layers"].get(label, [None, None])
            before = own[0] if own[0] is not None else entry["tokens"] or []
            if len(names) == rows:
                after = names
            elif len(names) == new and len(before) >= rows and before[rows - new : rows] == names:
                continue  # another layer has brought them
            elif len(names) == new and len(before) == rows - new:
                after = [*before, *names]
            else:
                raise ShapeError(
                    f"tokens has {counted(len(names), 'token')} for a step of {counted(new, 'row')}, expected one for "
                    f"each, or {rows} for all rows so far: pass as many"
                )
            if own[0] is None and entry["tokens"] is not None and after[: len(before)] == before:
                entry["tokens"], entry["offsets"], entry["special"] = after, None, None
            else:
                entry["layers"][label] = [after, own[1]]
            self.dirty = True

    def content(self) -> dict[str, Any]:
        """tokens.json, as it is now."""
        self.dirty = False
        return {"texts": [x | {"layers": dict(x["layers"])} for x in self.texts]}


def axes(
    entry: Mapping[str, Any], layer: str, grown: bool, n_q: int, n_k: int
) -> tuple[int, int, tuple[str, ...] | None, tuple[str, ...] | None]:
    """What is shown of a layer of so many rows and keys, and what they are called: without the padding of a batch.

    >>> axes({"tokens": ["a", "cat"], "padded": 3, "layers": {}}, "0", False, 3, 3)
    (2, 2, ('a', 'cat'), ('a', 'cat'))
    """
    own, theirs = entry.get("layers", {}).get(layer, (None, None))
    ours = entry.get("tokens") if own is None else own
    rows, keys = n_q, n_k
    if grown:
        if ours is not None and len(ours) < n_k and len(ours) != n_q:  # what came later was given no names
            ours = [*ours, *(f"#{i}" for i in range(len(ours), n_k))]
    else:
        padded = entry.get("padded") if own is None else n_q
        if ours is not None and padded is not None and len(ours) < padded:
            rows, keys = (len(ours) if n == padded else n for n in (n_q, n_k))
        if theirs is not None:
            keys = min(n_k, len(theirs))
    names = None if theirs is None or len(theirs) != keys else tuple(theirs)
    if ours is None or len(ours) not in (rows, keys) or (len(ours) != rows and (rows > keys or names is not None)):
        return rows, keys, None, names
    if len(ours) == rows:
        return rows, keys, tuple(ours), tuple(ours) if names is None and rows == keys else names
    return rows, keys, tuple(ours[keys - rows :]), tuple(ours)


def known(entry: Any) -> bool:
    """Whether this is a text as tokens.json has it."""

    def all_of(kinds: set[type], x: Any) -> bool:  # of a long text in a millisecond
        return x is None or (isinstance(x, list) and set(map(type, x)) <= kinds)

    def strings(x: Any) -> bool:
        return all_of({str}, x)

    def numbers(x: Any) -> bool:
        return all_of({int}, x)

    match entry:
        case {
            "text": str() | None,
            "tokens": tokens,
            "offsets": offsets,
            "special": special,
            "padded": int() | None,
            "layers": dict(layers),
        }:
            named = all(isinstance(x, list) and len(x) == 2 and all(map(strings, x)) for x in layers.values())
            whole = offsets is None or (
                isinstance(tokens, list) and numbers(offsets) and len(offsets) == 2 * len(tokens)
            )
            return strings(tokens) and whole and numbers(special) and named
    return False


def fits(what: str, names: Sequence[str], n_q: int, n_k: int, padded: bool = False) -> None:
    """That there is a name for each query, or for each key, the last of which are the queries."""
    n = len(names)
    if n == n_q or (n == n_k and n_q < n_k) or (padded and n < n_q):
        return
    axis = "key" if what == "key_tokens" else "query"
    raise ShapeError(f"{what} has {counted(n, 'token')}, but {there(n_q, axis)}: give each {axis} one")


def _nested(tokens: Any) -> bool:
    """Whether these are the tokens of each text of a batch."""
    return tokens is not None and len(tokens) > 0 and not isinstance(tokens[0], str)


def _of_each(what: str, given: Any, batch: int) -> list[list[Any] | None]:
    """What is given for each text: entries of the texts, or, of one text, of it."""
    if given is None:
        return [None] * batch
    deep = what == "offsets"
    some = next((x for x in given if x is not None), None)
    one = some is None or (not isinstance(some, (list, tuple)) if not deep else _pair(some))
    if one:
        if batch != 1:
            raise ShapeError(
                f"{what} is for one text, but {there(batch, 'sequence')} in the batch: pass a list for each"
            )
        return [given]
    if len(given) != batch:
        raise ShapeError(f"{what} is for {counted(len(given), 'text')}, but {there(batch, 'sequence')}: pass as many")
    return [None if x is None else list(x) for x in given]


def _ordered(spans: Any) -> None:
    """That offsets are pairs, none of which ends before it begins."""
    for i, span in enumerate(spans or ()):
        if not isinstance(span, (list, tuple)) or not _pair(span) or not 0 <= span[0] <= span[1]:
            shown = tuple(span) if isinstance(span, list) else span
            raise ShapeError(f"offsets has {shown!r} for token {i}, expected where it begins and then where it ends")


def _pair(x: Any) -> bool:
    return len(x) == 2 and all(not isinstance(i, (list, tuple)) for i in x)


def _checked(text: Any, tokens: Any, offsets: Any, special: Any) -> tuple[Any, Any, Any, Any]:
    """What is given of a text, as lists."""
    if text is not None and not isinstance(text, str):
        if not isinstance(text, Iterable) or not all(x is None or isinstance(x, str) for x in text):
            raise DtypeError(f"text is {text!r}, expected a string, or one for each text of a batch: pass a list")
        text = list(text)
    return text, listed("tokens", tokens), _entries("offsets", offsets), _entries("special", special)


def listed(what: str, tokens: Any) -> Any:
    """Tokens as a list of strings, or of lists of strings."""
    if isinstance(tokens, str):
        raise DtypeError(f"{what} is one string, expected a token for each place: pass {what}=text.split()")
    if tokens is None:
        return None
    if not isinstance(tokens, Iterable):
        raise DtypeError(f"{what} is {tokens!r}, expected a token for each place: pass a list of strings")
    given = list(tokens)
    of_texts = any(isinstance(x, Iterable) and not isinstance(x, str) for x in given)  # one of which may have none
    return [None if x is None and of_texts else _strings(what, x, i) for i, x in enumerate(given)]


def _strings(what: str, x: Any, at: int) -> Any:
    if x is None:
        raise DtypeError(f"{what} has None at {at}, expected a string for each place: pass '' where there is none")
    if isinstance(x, str) or not isinstance(x, Iterable):
        return str(x)
    return [_strings(what, name, i) for i, name in enumerate(x)]


def _entries(what: str, given: Any) -> Any:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DtypeError(f"{what} is {given!r}, expected an entry for each token: pass a list")
    return [x.tolist() if hasattr(x, "tolist") else list(x) if isinstance(x, (list, tuple)) else x for x in given]
