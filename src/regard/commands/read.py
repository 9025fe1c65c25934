"""Questions to a recording: `regard read run.regard top 3 --head L1H8 --json`.

An answer is a table, the same for people, as JSON and as CSV: columns with names, and rows. For people numbers are
short and rows are few; JSON and CSV have all of them, with all their digits.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from typing import Any

from regard.commands.questions import KEY, QUERY, QUESTIONS, Part, Rows
from regard.commands.shared import Bar, check_head, head_of, layer_of, opened, text_of
from regard.errors import QuestionError, RecordingError, ShapeError

ROWS = 60  # that people are shown
NOT_RIGHT = 1  # what it leaves with if a recording is not what was written

COMPARE = ("layer", "head", "distance")
TELLING = ("layer", "head", "pattern", "share", "even", *QUERY, *KEY, "weight")
OTHERS = {
    "telling": ("", "the heads to look at first"),
    "compare": ("OTHER.regard", "how far the same heads of two recordings are apart"),
    "texts": ("", "what is in it; also without a question"),
    "verify": ("", "whether it is what was written"),
}


def add(subparsers: Any) -> None:
    """regard read"""
    asked = {**{name: (x.arguments, x.says) for name, x in QUESTIONS.items()}, **OTHERS}
    lines = [f"  {f'{name} {arguments}':30} {says}" for name, (arguments, says) in asked.items()]
    parser: Any = subparsers.add_parser(
        "read",
        help="questions to a recording, as a table, JSON or CSV",
        description="Questions to a recording. QUERY and KEY are numbers or tokens.\n\nquestions:\n" + "\n".join(lines),
        epilog="It leaves with 0 if all went well, 1 if verify finds that something is not what was written, "
        "2 if something was used wrongly, 130 after Ctrl-C.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.mixed = True  # options may stand before the question
    parser.add_argument("recording", help="a folder such as run.regard")
    parser.add_argument("question", nargs="?", default="texts", metavar="question", choices=list(asked))
    parser.add_argument("arguments", nargs="*", default=[], help="what the question takes")
    parser.add_argument("--text", type=int, metavar="I", help="which text, from 0")
    parser.add_argument("--layer", metavar="N", help="one layer, by number or name; all if not given")
    parser.add_argument("--head", metavar="HEAD", help="one head: L1H8, or 8; all if not given")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON, with all rows and digits")
    form.add_argument("--csv", action="store_true", help="as CSV, with all rows and digits")
    parser.add_argument("--width", type=int, metavar="N", help="columns; those of the terminal if not given")
    parser.set_defaults(run=_read)


def _read(given: argparse.Namespace) -> int:
    if given.question == "verify":
        return _verify(given)
    with opened(given.recording) as recording:
        if given.question == "texts":
            _say(given, recording, ("text", "layers", "tokens", "begins"), list(_texts(recording)), {})
            return 0
        number = text_of(recording, given.text)
        text = recording.texts[number]
        with Bar("reading") as bar:
            columns, rows = _answer(given, recording, text, number, bar)
        _say(given, recording, columns, rows, {"text": number})
    return 0


def _answer(
    given: argparse.Namespace, recording: Any, text: Any, number: int, bar: Bar
) -> tuple[tuple[str, ...], list[list[Any]]]:
    layers, head = _chosen(given, text)
    if given.question == "telling":
        return TELLING, list(_telling(text, layers, bar))
    asked = QUESTIONS.get(given.question)
    rows: list[list[Any]] = []
    if asked is not None:
        most = len(asked.arguments.split()) if given.question != "between" else sys.maxsize
        if len(given.arguments) > max(most, 3 if given.question == "mass" else 0):
            raise QuestionError(
                f"{given.question} came with {' '.join(given.arguments)!r}, expected {asked.arguments or 'nothing'}"
            )
        for at, layer in enumerate(layers):
            rows += asked.rows(_part(text, layer, head, bar.part(at / len(layers), 1 / len(layers))), given.arguments)
        return asked.columns, rows
    if len(given.arguments) != 1:
        raise QuestionError(
            "compare came without another recording, expected one: regard read a.regard compare b.regard"
        )
    with opened(given.arguments[0]) as other:
        theirs = other.texts[text_of(other, given.text)]
        for layer in layers:
            if layer >= len(theirs):
                raise ShapeError(f"{given.arguments[0]} has no layer {layer}, expected the same layers: choose one")
            part = _part(text, layer, head, None)
            apart = part.flat(part.matrix.compare(theirs.matrix(layer)).heads)
            rows += [[layer, h, float(apart[h])] for h in part.heads]
            bar((layer + 1) / len(layers))
    return COMPARE, rows


def _chosen(given: argparse.Namespace, text: Any) -> tuple[list[int], int | None]:
    """The layers and the head that are asked."""
    layer, head = head_of(given.head, given.layer)
    return list(range(len(text))) if layer is None else [layer_of(layer, text.layers, given.head)], head


def _part(text: Any, layer: int, head: int | None, bar: Any) -> Part:
    matrix = text.matrix(layer).in_layer(layer)
    count = math.prod(matrix.front)
    return Part(layer, matrix, range(count) if head is None else [check_head(head, count)], bar)


def _telling(text: Any, layers: list[int], bar: Bar) -> Rows:
    from regard.view.look import Look

    look = Look([text.matrix(layer) for layer in layers], first=layers[0], progress=bar)
    for head in look.telling.heads:
        part = Part(head.layer, look.layers[head.layer - layers[0]], [], None)
        cell = head.cell
        at = ["", "", "", "", math.nan] if cell is None else [*part.query(cell.query), *part.key(cell.key), cell.weight]
        yield [head.layer, head.head, head.name or "", head.share, head.even, *at]


def _texts(recording: Any) -> Rows:
    for number, text in enumerate(recording.texts):
        tokens = text.tokens
        begins = text.text if text.text is not None else " ".join(tokens or ())
        yield [number, len(text), 0 if tokens is None else len(tokens), " ".join(begins[:200].split())]


def _verify(given: argparse.Namespace) -> int:
    """Hold a recording against its checks; one that cannot even be opened is not what was written either."""
    try:
        with opened(given.recording) as recording, Bar("verifying") as bar:
            recording.verify(bar)
    except (RecordingError, FileNotFoundError) as error:
        if given.json:
            print(json.dumps({"right": False, "why": str(error)}, ensure_ascii=False))
        else:
            print(f"regard: {error}", file=sys.stderr)
        return NOT_RIGHT
    print(json.dumps({"right": True}) if given.json else f"{given.recording} is what was written.")
    return 0


# Answers.


def _say(given: argparse.Namespace, recording: Any, columns: tuple[str, ...], rows: list[list[Any]], more: Any) -> None:
    """An answer in the form that was asked for."""
    if given.json:
        said = {
            "recording": given.recording,
            "model": dict(recording.model or {}),
            "notes": list(recording.notes),
            "question": given.question,
            "arguments": given.arguments,
            **more,
            "columns": columns,
            "rows": [[None if isinstance(x, float) and not math.isfinite(x) else x for x in row] for row in rows],
        }
        plain = not (sys.stdout.encoding or "").lower().startswith("utf")  # JSON has escapes of its own
        json.dump(said, sys.stdout, ensure_ascii=plain, allow_nan=False)
        print()
    elif given.csv:
        written = csv.writer(sys.stdout, lineterminator="\n")
        written.writerow(columns)
        written.writerows(rows)
    else:
        _table(given, recording, columns, rows)


def _table(given: argparse.Namespace, recording: Any, columns: tuple[str, ...], rows: list[list[Any]]) -> None:
    from regard.lens.wording import number
    from regard.view.columns import table
    from regard.view.screen import Screen
    from regard.view.text import clean, safe

    screen = Screen.of(sys.stdout, given.width, None, None)
    if recording.notes:
        print(*screen.words(" · ".join(recording.notes)), sep="\n")
    if given.question == "explain":
        for _, _, sentence in rows:
            print(*screen.words(safe(sentence, screen.unicode)), sep="\n")
        return

    def text(x: Any, name: str) -> str:
        if x is None:
            return screen.plain("–")
        if isinstance(x, float):
            return screen.plain(number(x))
        if name in ("token", "key_token"):
            return clean(x, screen.unicode) if x else ""
        return safe(str(x), screen.unicode)

    shown = rows[:ROWS]
    left = [i for i, name in enumerate(columns) if name in ("token", "key_token", "pattern", "begins")]
    made = [[name.replace("_", " "), *(text(row[i], name) for row in shown)] for i, name in enumerate(columns)]
    known = [i for i, name in enumerate(columns) if name not in ("token", "key_token")]
    order = [columns.index(columns[-1]), *(i for i in known if i != len(columns) - 1)]
    order += [i for i in range(len(columns)) if i not in order]
    if columns[-1] == "begins":
        order = list(range(len(columns)))
        used = sum(max(map(len, x)) + 2 for x in made[:-1])
        made[-1] = [x[: max(8, screen.width - used)] for x in made[-1]]
    print(*table(made, screen.width, left, order), sep="\n")
    if any(None in row for row in shown):
        print(*screen.words("– is hidden: the query does not see the key."), sep="\n")
    if len(rows) > ROWS:
        print(
            *screen.words(f"{len(rows) - ROWS} more rows: --csv and --json have all, --head and --layer choose"),
            sep="\n",
        )
