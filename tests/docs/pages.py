"""Pages whose Python blocks are run and whose output is compared with the text blocks under them.

    .venv/bin/python -m tests.docs.pages docs/worked/*.md     # writes what the code gives; read the difference

A page's blocks share a namespace. What a ```python block prints must be the ```text block that follows it, to the
letter; a block that nothing follows prints nothing.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]


class PageError(AssertionError):
    """What is wrong with a page, with its name and line."""


class Block(NamedTuple):
    """A fenced block; lines count from 0, the fences not included."""

    kind: str
    first: int
    stop: int
    text: str


class Example(NamedTuple):
    """Code, and what it shall print."""

    code: Block
    expected: Block | None


def blocks(text: str, name: str = "page") -> list[Block]:
    """All fenced blocks of a page.

    >>> [(b.kind, b.text) for b in blocks("# A\\n```python\\nprint(1)\\n```\\n\\n```text\\n1\\n```\\n")]
    [('python', 'print(1)\\n'), ('text', '1\\n')]
    """
    found: list[Block] = []
    kind, fence, first = "", "", 0
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not fence and line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
            kind, first = line.strip("` "), number + 1
        elif fence and line.rstrip() == fence:
            found.append(Block(kind, first, number, "".join(f"{x}\n" for x in lines[first:number])))
            fence = ""
    if fence:
        raise PageError(f"{name}:{first}: a block begins here that does not end")
    return found


def examples(text: str, name: str = "page") -> list[Example]:
    """The Python blocks of a page with the text blocks that follow them, nothing but blank lines between.

    A text block that follows no code would never be compared, so it is an error.
    """
    lines, found = text.splitlines(), blocks(text, name)
    made: list[Example] = []
    for before, block in zip([None, *found], found, strict=False):
        if block.kind == "python":
            made.append(Example(block, None))
        elif block.kind == "text":
            between = [] if before is None else lines[before.stop + 1 : block.first - 1]
            if before is None or before.kind != "python" or any(line.strip() for line in between):
                raise PageError(f"{name}:{block.first}: a text block follows no Python block")
            made[-1] = Example(made[-1].code, block)
    return made


def printed(text: str, name: str = "page") -> list[str]:
    """What each Python block of a page prints."""
    namespace: dict[str, Any] = {"__name__": "page"}
    found = []
    for example in examples(text, name):
        out = io.StringIO()
        code = "\n" * example.code.first + example.code.text  # so that tracebacks name the line of the page
        with contextlib.redirect_stdout(out):
            exec(compile(code, name, "exec"), namespace)
        found.append(out.getvalue())
    return found


def check(text: str, name: str = "page") -> int:
    """Run a page and compare what it prints with what it says; gives how many blocks there were."""
    pairs = examples(text, name)
    for example, given in zip(pairs, printed(text, name), strict=True):
        want = "" if example.expected is None else example.expected.text
        if given != want:
            line = example.code.first
            raise PageError(f"{name}:{line}: the block prints\n{given}\nbut the page says\n{want}")
    return len(pairs)


def renewed(text: str, name: str = "page") -> str:
    """The page with its text blocks as the code gives them, added where there are none."""
    lines = text.splitlines()
    for example, given in reversed(list(zip(examples(text, name), printed(text, name), strict=True))):
        if example.expected is not None:
            lines[example.expected.first : example.expected.stop] = given.splitlines()
        elif given:
            lines[example.code.stop + 1 : example.code.stop + 1] = ["", "```text", *given.splitlines(), "```"]
    return "".join(f"{line}\n" for line in lines)


def main(paths: list[str]) -> None:
    for path in map(Path, paths):
        before = path.read_text(encoding="utf-8")
        after = renewed(before, path.name)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"wrote {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
