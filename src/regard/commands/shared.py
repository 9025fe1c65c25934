"""What several commands do alike: where a text comes from, which head is meant, and how far a long answer is."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from regard.errors import QuestionError, ShapeError, there

HEAD = re.compile(r"(?:L(\d+))?H?(\d+)", re.IGNORECASE)  # L1H8, H8 or 8
PLAIN = re.compile(r"[^\"$`\\!\n]*")  # what double quotes keep as it is
SOON = 1.0  # seconds after which a bar is worth its place
OFTEN = 0.1  # seconds between two pictures of it
BAR = 24  # columns


class Bar:
    """Progress on the error stream: only in a terminal, and only of what takes longer than a second."""

    def __init__(self, what: str, file: TextIO | None = None):
        self.what, self.file = what, sys.stderr if file is None else file
        self.began = self.drawn = time.monotonic()
        self.there = False

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if now - self.began < SOON or now - self.drawn < OFTEN or not self.file.isatty():
            return
        self.drawn, self.there = now, True
        share = min(1.0, max(0.0, share))
        full = round(share * BAR)
        print(
            f"\r{self.what} [{'#' * full}{' ' * (BAR - full)}] {share:4.0%}", end="\x1b[K", file=self.file, flush=True
        )

    def part(self, first: float, size: float) -> Any:
        """A function for the progress of a part of the whole."""
        return lambda share: self(first + size * share)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()

    def clear(self) -> None:
        """Give the line back, to whoever writes next."""
        if self.there:
            print("\r\x1b[K", end="", file=self.file, flush=True)
            self.there = False


def read_text(place: str) -> str:
    """The text in a file, or what comes in if it is called -."""
    name = "what came in" if place == "-" else place
    try:
        content = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
    except FileNotFoundError:
        raise ShapeError(f"there is no file {place}, expected a text: check the path") from None
    except IsADirectoryError:
        raise ShapeError(f"{place} is a folder, expected a file with a text: name one in it") from None
    except OSError as error:
        raise ShapeError(f"{place} cannot be read ({error.strerror}), expected a file with a text") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ShapeError(f"{name} is not UTF-8 at byte {error.start}, expected a text: convert it first") from None
    if "\0" in text:
        raise ShapeError(f"{name} holds bytes that no text has, expected a text in UTF-8: is it the right file?")
    return text


def head_of(given: str | None, layer: str | None) -> tuple[str | None, int | None]:
    """(layer, head) of --layer and --head, where the head may name its layer too.

    >>> head_of("L1H8", None), head_of("8", "3"), head_of(None, "3")
    (('1', 8), ('3', 8), ('3', None))
    """
    if given is None:
        return layer, None
    found = HEAD.fullmatch(given)
    if found is None:
        raise QuestionError(f"--head is {given!r}, expected one such as L1H8, or 8 with --layer 1")
    if found[1] is not None and layer is not None and layer != found[1]:
        raise QuestionError(f"--head is {given!r} and --layer is {layer!r}, expected one layer: leave one of them out")
    return (layer if found[1] is None else found[1]), int(found[2])


def layer_of(given: str, names: Any, head: str | None = None) -> int:
    """The number of a layer, from its number or its name, or from a head that names its layer."""
    known = [str(name) for name in names]
    if given in known and not given.lstrip("-").isdigit():
        return known.index(given)
    try:
        number = int(given)
    except ValueError:
        some = ", ".join(known[:4]) + (" …" if len(known) > 4 else "")
        raise QuestionError(f"--layer is {given!r}, expected a number or one of {some}") from None
    if not -len(known) <= number < len(known):
        found = None if head is None else HEAD.fullmatch(head)
        if found is not None and found[1] is not None:
            raise QuestionError(
                f"--head is {head!r}, expected layer 0 to {len(known) - 1} in it: {there(len(known), 'layer')}"
            )
        raise QuestionError(f"--layer is {number}, expected 0 to {len(known) - 1}: {there(len(known), 'layer')}")
    return number % len(known)


def check_head(head: int, count: int) -> int:
    """A head that is there."""
    if head >= count:
        raise QuestionError(f"--head is {head}, expected 0 to {count - 1}: {there(count, 'head')} in a layer")
    return head


def quoted(text: str) -> str:
    """A text as it is typed into a shell.

    >>> quoted("The cat"), quoted("$5 each"), quoted("run.regard")
    ('"The cat"', "'$5 each'", 'run.regard')
    """
    return text if re.fullmatch(r"[\w./+:@%,=-]+", text) else phrase(text)


def phrase(text: str) -> str:
    """A text in quotes, which a shell takes as it is.

    >>> phrase("cats"), phrase("Cats!")
    ('"cats"', "'Cats!'")
    """
    import shlex

    return f'"{text}"' if PLAIN.fullmatch(text) else shlex.quote(text)


def whole(text: str) -> int:
    """A number of an option, from 0."""
    return _least(text, 0)


def positive(text: str) -> int:
    """A number of an option, from 1."""
    return _least(text, 1)


def _least(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if value < least:
        raise argparse.ArgumentTypeError(f"{value} is below {least}")
    return value


def free(name: str) -> str:
    """A name for a new recording that nothing here has yet: run.regard, or run-2.regard."""
    first, number = Path(name), 1
    place = first
    while os.path.lexists(place):
        number += 1
        place = first.with_name(f"{first.stem}-{number}{first.suffix}")
    return str(place)


def program() -> str:
    """How this program is called from here, so that what is shown can be copied."""
    here = Path(sys.argv[0])
    if here.name == "__main__.py":
        return "python -m regard"
    if here.name != "regard":
        return "regard"
    import shutil

    found = shutil.which("regard")
    if found is not None and Path(found).resolve() == here.resolve():
        return "regard"
    try:
        return quoted(str(here.absolute().relative_to(Path.cwd())))
    except ValueError:
        return quoted(str(here))


def opened(place: str) -> Any:
    """A recording, with a sentence for what is none."""
    from regard.recording import open as open_recording

    if not Path(place).exists():
        raise ShapeError(
            f"there is no recording {place}, expected a folder that `regard look … -o` wrote: check the path"
        )
    return open_recording(place)


def text_of(recording: Any, number: int | None) -> int:
    """The number of a text of a recording, the first if none is given."""
    count = len(recording.texts)
    number = 0 if number is None else number
    if not -count <= number < count:
        raise QuestionError(f"--text is {number}, expected 0 to {count - 1}: {there(count, 'text')}")
    return number % count
