"""The command line: `regard look "The cat chased mice"`.

Each subcommand is a file in `commands`, whose `add` puts it into the parser and says, by `run`, what it does with its
arguments: it leaves with the number that `run` gives, 0 if none. What it needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, TextIO

from regard import __version__
from regard.commands import circuit, cost, demo, doctor, look, read, view
from regard.errors import RegardError

Subparsers = Any  # argparse has no public name for what add_subparsers gives
Run = Callable[[argparse.Namespace], int | None]

WRONG = 2  # what argparse leaves with, too, when it cannot read its arguments
STOPPED = 130  # 128 and the number of the signal, as shells have it
ENDED = ("SIGTERM", "SIGHUP")  # signals after which temporary folders are still cleared away
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)  # of an output that takes no more

COMMANDS: tuple[Callable[[Subparsers], None], ...] = (
    *(look.add, read.add, view.add),
    *(demo.add, cost.add, circuit.add, doctor.add),
)
LEAVES = (
    "It leaves with 0 if all went well, 1 if what was checked is not right (read … verify, doctor), 2 if it was used "
    "wrongly or given something that it cannot read, and 130 if it was stopped by Ctrl-C."
)


class Parser(argparse.ArgumentParser):
    """Arguments, which may stand between options where a command says so by `mixed`."""

    mixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self.mixed:
            return super().parse_known_args(args, namespace)
        self.mixed = False  # it calls this again, for the options and for the rest
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.mixed = True


def parser() -> argparse.ArgumentParser:
    """All of them."""
    made = Parser(
        prog="regard",
        description="Exact attention in linear memory, with every weight still readable.",
        epilog=LEAVES,
    )
    made.add_argument("--version", action="version", version=f"regard {__version__}")
    subparsers = made.add_subparsers(metavar="command", required=True)
    for add in COMMANDS:
        add(subparsers)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the number that the process leaves with."""
    if sys.stdout is None:  # closed by who started this: files opened from now on would get its number
        if sys.stderr is not None:
            print("regard: the output is closed, expected somewhere to write to: leave out >&-", file=sys.stderr)
        return WRONG
    try:
        with contextlib.ExitStack() as stack:
            if sys.stderr is None:  # print would take the output instead
                null = stack.enter_context(open(os.devnull, "w"))
                stack.enter_context(contextlib.redirect_stderr(null))
            stack.enter_context(_signals())
            return _run(arguments)
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the shell's next line begins on a line of its own
        return STOPPED


def _run(arguments: Sequence[str] | None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a letter that cannot be written is no reason to stop
    try:
        try:
            given = parser().parse_args(arguments)
        except SystemExit:  # of --help, which has been written too
            sys.stdout.flush()
            raise
        run: Run = given.run
        left = run(given)
        sys.stdout.flush()  # who reads may be gone: that is found out here, not when the interpreter ends
    except BrokenPipeError:  # whoever read has seen enough
        _close(sys.stdout)
    except (RegardError, OSError, ValueError, IndexError) as error:
        said = str(error)
        if isinstance(error, OSError) and error.filename is None and error.errno in NO_ROOM:
            said = f"the output could not be written ({error.strerror}), expected room for it: write it elsewhere"
            _close(sys.stdout)
        elif isinstance(error, OSError) and error.filename is not None and error.strerror:
            said = f"{error.filename} cannot be used ({error.strerror}), expected one that can: check the path"
        print(f"regard: {said}", file=sys.stderr)
        return WRONG
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        print(f"regard: there is not enough memory for this{why}, expected more: ask for less of it", file=sys.stderr)
        return WRONG
    else:
        return left or 0
    return 0


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Leave as after an error when the process is told to end, so that nothing temporary stays behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ENDED if hasattr(signal, name)]
    # What is ignored stays so: nohup ignores SIGHUP.
    taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _close(stream: TextIO) -> None:
    """Let nothing be written any more when the process ends, where there is nobody to read it."""
    with contextlib.suppress(OSError, ValueError):  # it may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
