"""The command line: `regard look "The cat chased mice"`.

Each subcommand is a file in `commands`, whose `add` puts it into the parser and says, by `run`, what it does with its
arguments: it leaves with the number that `run` gives, 0 if none. What it needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from regard.commands import circuit, cost, demo, doctor, look, read, view
from regard.errors import RegardError

Subparsers = Any  # argparse has no public name for what add_subparsers gives
Run = Callable[[argparse.Namespace], int | None]

WRONG = 2  # what argparse leaves with, too, when it cannot read its arguments
STOPPED = 130  # 128 and the number of the signal, as shells have it

COMMANDS: tuple[Callable[[Subparsers], None], ...] = (
    *(look.add, read.add, view.add),
    *(demo.add, cost.add, circuit.add, doctor.add),
)
LEAVES = (
    "It leaves with 0 if all went well, 1 if what was checked is not right (read … verify, doctor), 2 if it was used "
    "wrongly or given something that it cannot read, and 130 if it was stopped by Ctrl-C."
)


def parser() -> argparse.ArgumentParser:
    """All of them."""
    made = argparse.ArgumentParser(
        prog="regard",
        description="Exact attention in linear memory, with every weight still readable.",
        epilog=LEAVES,
    )
    subparsers = made.add_subparsers(metavar="command", required=True)
    for add in COMMANDS:
        add(subparsers)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the number that the process leaves with."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a letter that cannot be written is no reason to stop
    given = parser().parse_args(arguments)
    run: Run = given.run
    try:
        left = run(given)
        sys.stdout.flush()  # who reads may be gone: that is found out here, not when the interpreter ends
    except BrokenPipeError:  # whoever read has seen enough
        _close(sys.stdout)
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the shell's next line begins on a line of its own
        return STOPPED
    except (RegardError, OSError, ValueError, IndexError) as error:
        print(f"regard: {error}", file=sys.stderr)
        return WRONG
    else:
        return left or 0
    return 0


def _close(stream: TextIO) -> None:
    """Let nothing be written any more when the process ends, where there is nobody to read it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
