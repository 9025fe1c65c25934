"""What a model looks at: `regard look "The cat chased mice"`.

The text goes through the model into a recording, a temporary one if nobody wants to keep it, and what is shown is read
from there: so a text, and a recording of one, are looked at in the same way.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from regard.commands.shared import (
    Bar,
    check_head,
    free,
    head_of,
    layer_of,
    opened,
    phrase,
    positive,
    program,
    quoted,
    read_text,
    text_of,
    whole,
)
from regard.errors import LimitError, MissingError, QuestionError, ShapeError

EXAMPLE, OTHER = "The cat chased mice", "Mice chased the cat"
LONGEST = 1000  # letters of a text that a command to copy repeats
WORDS = (3, 7)  # words of a text whose reverse is worth a try
TEXTS = 12  # that are shown in few lines each


def add(subparsers: Any) -> None:
    """regard look"""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "look",
        help="what a model looks at in a text, or in a recording",
        description="What a model looks at: the text, all its heads, those that rest, and the few that tell something.",
        epilog="Without a text it reads what comes in, or takes an example. "
        "It leaves with 0 if all went well, 2 if something was used wrongly, 130 after Ctrl-C.",
    )
    parser.add_argument("text", nargs="*", help="the text; or a recording, a folder such as run.regard")
    parser.add_argument("--file", metavar="FILE", help="a file with the text; - for what comes in")
    parser.add_argument("--model", metavar="PATH", help="a folder with config.json, model.safetensors, tokenizer.json")
    parser.add_argument("--layer", metavar="N", help="one layer, by number or name")
    parser.add_argument("--head", metavar="HEAD", help="one head whole: L1H8, or 8 with --layer 1")
    parser.add_argument("--top", type=positive, default=0, metavar="N", help="write the N strongest keys of each row")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="keep the recording: run.regard")
    parser.add_argument("--start", type=whole, metavar="N", help="begin a long text at its token N")
    parser.add_argument("--windows", action="store_true", help="a long text in windows, each a text of its own")
    parser.add_argument("--text", dest="number", type=int, metavar="I", help="which text of a recording, from 0")
    parser.add_argument("--width", type=positive, metavar="N", help="columns; those of the terminal if not given")
    parser.add_argument("--browser", action="store_true", help="look at it in the browser; Ctrl-C ends it")
    parser.set_defaults(run=_look)


class Command(NamedTuple):
    """A command that looks at the same again, to which options can be added."""

    before: str
    after: str = ""  # a text that begins as an option does comes last

    def __call__(self, options: str = "") -> str:
        return " ".join(part for part in (self.before, options, self.after) if part)


def _look(given: argparse.Namespace) -> None:
    if given.browser:
        for name in ("top", "width"):
            if getattr(given, name):
                raise QuestionError(f"--{name} came with --browser, expected it for the terminal alone: leave it out")
    place = _recording_of(given)
    if place is not None:
        for name in ("file", "model", "output", "start"):
            if getattr(given, name) is not None:
                raise QuestionError(f"--{name} came with a recording, expected a text: leave it out")
        with opened(place) as recording:
            if given.browser:
                _browse(recording, Path(place).name, _chosen(given, recording))
                return
            _show(given, recording, Command(f"{program()} look {quoted(place)}"), None, kept=place)
        return
    text = _text(given)
    wanted = head_of(given.head, given.layer)  # what is wrong with it is said before the model is read
    if wanted[1] is not None and wanted[0] is None:
        raise QuestionError(f"--head is {given.head!r} of no layer, expected one such as L1H{wanted[1]}: add its layer")
    _check_output(given.output)
    try:
        model = _model(given.model)
    except MissingError as error:
        if given.model is not None:
            raise
        _designed(given, str(error))
        return
    if wanted[0] is not None:
        layer_of(wanted[0], range(model.layers), given.head)
    if wanted[1] is not None:
        check_head(wanted[1], model.heads)
    with _recorded(given, model, text) as recording:
        if given.browser:
            _browse(recording, recording.model.get("name") or "look", _chosen(given, recording))
            return
        _show(given, recording, _command(given, text), _reversed(text), kept=given.output)


def _chosen(given: argparse.Namespace, recording: Any) -> str:
    """What the page begins with: the text, the layer and the head that were asked for, which have to be there."""
    at = text_of(recording, given.number)
    text = recording.texts[at]
    name, head = head_of(given.head, given.layer)
    if head is not None and name is None:
        raise QuestionError(f"--head is {given.head!r} of no layer, expected one such as L1H{head}: add its layer")
    chosen = [f"x={at}"] if at else []
    if name is not None:
        number = layer_of(name, text.layers, given.head)
        if head is not None:
            check_head(head, text.heads(number))
        chosen += [f"l={number}", f"h={head or 0}"]
    return "&".join(chosen)


def _check_output(place: str | None) -> None:
    """Where a recording is to be kept there is no file on the way, before anything is computed."""
    if place is None:
        return
    for above in Path(place).parents:
        if above.exists() and not above.is_dir():
            raise QuestionError(f"{above} is a file, expected a folder to write into: choose another place with -o")


def _browse(recording: Any, name: str, chosen: str) -> None:
    from regard.commands.view import serve
    from regard.view.server.holdings import Recorded

    serve([Recorded(recording, name)], chosen=chosen)


def _recording_of(given: argparse.Namespace) -> str | None:
    """The place of a recording, if that is what came in the text's place."""
    if len(given.text) != 1:
        return None
    (only,) = given.text
    here = Path(only)
    with contextlib.suppress(OSError, ValueError):  # a text may be no path at all
        if (here / "manifest.jsonl").exists():
            return str(only)
        if here.is_file() and not any(c.isspace() for c in only):
            raise QuestionError(
                f"{only} is a file, expected a text: write --file {quoted(only)} to look at what is in it"
            )
    if here.suffix == ".regard":
        return str(only)
    return None


def _text(given: argparse.Namespace) -> str:
    """The text, from wherever it comes."""
    if given.text and given.file is not None:
        raise QuestionError("a text and --file came together, expected one of them: leave one out")
    if given.text:
        text = " ".join(given.text)
        if any("\ud800" <= letter <= "\udfff" for letter in text):  # how Python has bytes that are no letters
            raise ShapeError("the text is not UTF-8, expected a text: type it again, or convert it first")
    elif given.file is not None:
        text = read_text(given.file)
    elif sys.stdin is None or sys.stdin.isatty():
        return EXAMPLE
    else:
        text = read_text("-")
    if not text.strip():
        raise ShapeError("the text is empty, expected at least one word: write it behind look, or name a --file")
    return text.rstrip("\n")


def _model(path: str | None) -> Any:
    """The model. It is loaded here, so that a missing tokenizer is found before anything is written."""
    from regard.models.encoder import Encoder

    model = Encoder.open(path)
    model.tokens("")
    return model


def _designed(given: argparse.Namespace, why: str) -> None:
    """How to get a model, in two lines, and a head that was designed by hand."""
    from regard.circuits.by_hand import attend, strength_for

    print(why + ".", "", "Until then, a head that was designed by hand:", "", sep="\n")
    words = EXAMPLE.split()
    looks_at = (1, 2, 3, 2)  # determiner -> noun, subject -> verb, verb -> object, object -> verb
    made = attend(looks_at, strength_for(0.8, len(words), d=len(words)))
    made.matrix(tokens=words).show(row="cat", width=given.width)


# Recording.


def _pieces(given: argparse.Namespace, model: Any, text: str) -> list[tuple[str, Any]]:
    """What the model reads: (text, tokens) of each window, or of the one part that was asked for."""
    if given.windows:
        if given.start is not None:
            raise QuestionError("--start and --windows came together, expected one of them: leave one out")
        return [_part(text, tokens) for tokens in model.windows(text)]
    if given.start is not None:
        return [_part(text, model.tokens(text, given.start, model.positions))]
    tokens = model.tokens(text)
    if all(tokens.special):
        raise ShapeError("the text has no token, expected at least one word: write another")
    if len(tokens) > model.positions:
        raise LimitError(
            f"the text has {len(tokens)} tokens, {sum(tokens.special)} of them special, "
            f"and {model.name} reads {model.positions} at most: "
            "look at a part of it with --start N, a token, or at all of it with --windows"
        )
    return [(text, tokens)]


def _part(text: str, tokens: Any) -> tuple[str, Any]:
    """The part of a text that tokens are of, their places counted in it."""
    own = [span for span, special in zip(tokens.offsets, tokens.special, strict=True) if not special]
    if not own:
        return "", tokens
    first, last = own[0][0], own[-1][1]
    offsets = [
        (0, 0) if special else (a - first, b - first)
        for (a, b), special in zip(tokens.offsets, tokens.special, strict=True)
    ]
    return text[first:last], replace(tokens, offsets=tuple(offsets))


@contextlib.contextmanager
def _recorded(given: argparse.Namespace, model: Any, text: str) -> Iterator[Any]:
    """The model's reading of the text, as a recording that is open."""
    from regard.recording import open as open_recording
    from regard.recording import recording

    pieces = _pieces(given, model, text)
    other = _reversed(text) if given.browser else None
    if other is not None:  # the page holds the same words in another order against them
        pieces.append((other, model.tokens(other)))
    with contextlib.ExitStack() as stack:
        kept = given.output is not None
        folder = given.output
        if not kept:
            import tempfile

            folder = str(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="regard-"))) / "look.regard")
        with Bar("reading") as bar, recording(folder, model=_told(model), values=given.browser, sync=kept) as recorder:
            for number, (part, tokens) in enumerate(pieces):
                recorder.text(part, tokens.names, tokens.offsets, tokens.special)

                def each(layer: int, q: Any, k: Any, v: Any, mask: Any, lse: Any, number: int = number) -> None:
                    recorder.layer(q[0], k[0], v[0] if given.browser else None, mask=mask, lse=lse[0])
                    bar((number + (layer + 1) / model.layers) / len(pieces))

                model(tokens.ids, each=each)
        yield stack.enter_context(open_recording(folder))


def _told(model: Any) -> dict[str, Any]:
    return {"name": model.name, "layers": model.layers, "heads": model.heads, "positions": model.positions}


# Showing.


def _show(
    given: argparse.Namespace, recording: Any, command: Command | None, other: str | None, kept: str | None
) -> None:
    from regard.view.look import Look, onward
    from regard.view.screen import Screen

    screen = Screen.of(sys.stdout, given.width, None, None)
    if not len(recording.texts):
        raise ShapeError("the recording holds no text, expected one at least: record one")
    if len(recording.texts) > 1 and given.number is None and given.head is None:
        _several(given, recording, screen, command)
        return
    number = text_of(recording, given.number)
    text = recording.texts[number]
    name, head = head_of(given.head, given.layer)
    if head is not None and name is None:
        raise QuestionError(f"--head is {given.head!r} of no layer, expected one such as L1H{head}: add its layer")
    layers, first = _layers(text, name, given.head)
    with Bar("looking") as bar:
        look = Look(
            layers, text.text, _name(recording), first=first, top=given.top, other=other, progress=bar, whole=len(text)
        )
        if head is not None:
            check_head(head, layers[0].readable().heads)
            parts = look.one(screen, first, head)
        else:
            parts = look.parts(screen)
        for part in parts:
            bar.clear()
            _print(part)
        commands = _onward(look, text, number, len(recording.texts), command, head is not None, kept)
        if commands:
            _print(["", *onward(screen, commands)])


def _print(lines: Sequence[str]) -> None:
    print(*(line.rstrip(" ") for line in lines), sep="\n", flush=True)


def _layers(text: Any, name: str | None, head: str | None = None) -> tuple[list[Any], int]:
    """The matrices that are looked at, and the number of the first."""
    if not len(text):
        raise ShapeError("the text holds no layer, expected one at least: record one")
    if name is None:
        return [text.matrix(layer) for layer in range(len(text))], 0
    number = layer_of(name, text.layers, head)
    return [text.matrix(number)], number


def _name(recording: Any) -> str | None:
    told = recording.model or {}
    return told.get("name")


def _several(given: argparse.Namespace, recording: Any, screen: Any, command: Command | None) -> None:
    """Several texts, each in a few lines."""
    from regard.view.look import Look, onward

    count = len(recording.texts)
    with Bar("looking") as bar:
        for number in range(min(count, TEXTS)):
            text = recording.texts[number]
            layers, first = _layers(text, given.layer)
            look = Look(layers, text.text, _name(recording), first=first, progress=bar.part(number / count, 1 / count))
            lines = look.brief(screen)
            bar.clear()
            _print([f"text {number} of {count}", *lines, ""])
    if count > TEXTS:
        _print([f"and {count - TEXTS} more", ""])
    if given.output is not None:
        command = Command(f"{program()} look {quoted(given.output)}")
    if command is None:
        return
    commands = [(command("--text 1"), "one of them whole")]
    if given.windows and given.output is None:
        commands.append((command(f"-o {free('run.regard')}"), "keep them"))
    _print(onward(screen, commands))


def _onward(
    look: Any, text: Any, number: int, count: int, command: Command | None, one: bool, kept: str | None
) -> list[tuple[str, str]]:
    """Commands to go on with."""
    lead = look.telling.lead if not one else None
    which = f" --text {number}" if count > 1 else ""
    found = []
    if command is None and kept is not None:
        command = Command(f"{program()} look {quoted(kept)}")
    if command is None:
        pass
    elif lead is not None:
        every = ", all of its queries" if look.telling.sampled else ""
        found.append((command(f"{which} --head {lead.label}".strip()), f"this head whole{every}"))
    elif not one:
        found.append((command(f"{which} --head L{look.first}H0".strip()), "one head whole"))
    else:
        found.append((command(which.strip()), "all heads"))
    if not one and look.other and any(head.by_place and not head.bright for head in look.telling.heads):
        found.append((f"{program()} look {quoted(look.other)}", "the same words in another order"))
    if kept is None:
        if command is not None:
            found.append((command(f"-o {free('run.regard')}"), "keep what was computed, to ask more of it"))
        return found
    read = f"{program()} read {quoted(kept)}"
    if lead is not None and lead.cell is not None:
        cell = " ".join(_place(text.tokens, place) for place in lead.cell[:2])
        found.append((f"{read} explain {cell}{which} --head {lead.label}", "one cell in words"))
    found.append((f"{read} top 3{which} --json", "the numbers; regard read --help has all questions"))
    return found


def _place(tokens: Any, place: int) -> str:
    """A token as it is asked for: by name if it has one of its own that can be typed, or else by number."""
    token = "" if tokens is None else tokens[place]
    return token if token.isalpha() and token.isascii() and tokens.count(token) == 1 else str(place)


def _command(given: argparse.Namespace, text: str) -> Command | None:
    """The command that looks at the same text, for others to be built on; None if it cannot be typed."""
    parts, after = [program(), "look"], ""
    if given.file not in (None, "-"):
        parts += ["--file", quoted(given.file)]
    elif len(text) > LONGEST or any(letter < " " or letter == "\x7f" for letter in text):
        return None
    elif text.startswith("-"):
        after = f"-- {phrase(text)}"
    else:
        parts.append(phrase(text))
    if given.model is not None:
        parts += ["--model", quoted(given.model)]
    if given.start is not None:
        parts += ["--start", str(given.start)]
    if given.windows:
        parts.append("--windows")
    return Command(" ".join(parts), after)


def _reversed(text: str) -> str | None:
    """The same words in another order: of the example the other way round, of another text from back to front."""
    if text == EXAMPLE:
        return OTHER
    words = text.rstrip(" .!?").split()
    if not WORDS[0] <= len(words) <= WORDS[1] or not all(word.isalpha() for word in words):
        return None
    words = [words[0] if words[0] == "I" else words[0][0].lower() + words[0][1:], *words[1:]][::-1]
    turned = " ".join([words[0][0].upper() + words[0][1:], *words[1:]])
    return turned if turned != text else None
