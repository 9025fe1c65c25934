"""A sheet as Markdown and as HTML that fetches nothing and runs nothing.

>>> print(markdown([Heading("Scores", "S = Q·Kᵀ"), Words("a*b")]))
## Scores
<BLANKLINE>
`S = Q·Kᵀ`
<BLANKLINE>
a\\*b
<BLANKLINE>
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from regard.view.colour import DARK, LIGHT, RGB, ink_on
from regard.view.figures import fitted
from regard.view.picture import HUES
from regard.view.reading import titles
from regard.view.sheet import Block, Heading, Listing, Table, Words, Work, shade

ROWS, COLUMNS = 12, 12  # of a table
MARKED = re.compile(r"([\\`*_{}\[\]<>|#])")  # what Markdown would take for its own

STYLE = (
    HUES
    + """.regard{font:14px/1.5 system-ui,sans-serif;padding:12px 20px;border-radius:6px;max-width:72em;
box-sizing:border-box}
.regard h1{font-size:1.4em;margin:.4em 0}.regard h2{font-size:1.1em;margin:1.6em 0 .3em;padding-top:.5em;
border-top:1px solid color-mix(in srgb,currentColor 20%%,transparent)}
.regard h2 code{font-weight:400;margin-left:.8em}.regard p{margin:.4em 0}
.regard code,.regard pre,.regard table{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;
font-size:12.5px;background:none;color:inherit}
.regard pre{margin:.6em 0;white-space:pre-wrap;overflow-wrap:break-word;border:0;padding:0}
.regard pre div{padding-left:4em;text-indent:-4em;margin-left:1em}
.regard .beside{display:flex;flex-wrap:wrap;gap:.4em 2.2em;align-items:flex-start}.regard .one{overflow-x:auto}
.regard table{border-collapse:collapse;margin:.5em 0;border:0;width:auto}
.regard table caption{text-align:left;white-space:nowrap}
.regard tr{background:none!important}
.regard th,.regard td{padding:2px 7px;text-align:right;font-weight:400;border:0;white-space:nowrap}
.regard td.left,.regard th.left{text-align:left}
.regard thead th{color:%(faint)s}.regard tbody th{color:%(faint)s}
.regard .tq{color:%(query)s!important}.regard .tk{color:%(key)s!important}
.regard tr.mark th::after{content:'▸'}.regard tr.mark th,.regard tr.mark td{font-weight:700}
.regard tr.total td,.regard tr.total th{border-top:1px solid currentColor}
.regard td.c{background:var(--l);color:var(--li)}
.regard figure{margin:.6em 0;overflow-x:auto}
"""
)
NIGHT = (
    HUES
    + """.regard thead th,.regard tbody th{color:%(faint)s}.regard td.c{background:var(--d);color:var(--di)}
.regard .tq{color:%(query)s!important}.regard .tk{color:%(key)s!important}
"""
)


# Markdown.


def markdown(blocks: Sequence[Block]) -> str:
    """A sheet as Markdown."""
    return "\n\n".join(part for block in blocks for part in _parts(block)) + "\n"


def _quoted(text: str) -> str:
    return MARKED.sub(r"\\\1", text)


def _parts(block: Block) -> list[str]:
    if isinstance(block, Heading):
        tail = ", ".join(filter(None, (f"`{block.equation}`" if block.equation else "", block.shape)))
        return [f"{'#' * block.level} {_quoted(block.text)}", *([tail] if tail else [])]
    if isinstance(block, Words):
        return [f"*{_quoted(block.text)}*" if block.faint else _quoted(block.text)]
    if isinstance(block, Work):
        return ["\n".join(["```text", *(line.text() for line in block.lines), "```"])]
    if isinstance(block, Listing):
        sides = ["---"] + ["--:" if block.numbers else "---"] * (len(block.header) - 1)
        rows = [[_quoted(x) for x in row] for row in block.rows]
        return [_pipes([[_quoted(x) for x in block.header], sides, *rows])]
    if isinstance(block, Table):
        return [_piped(block)]
    return [f"**{_quoted(table.name)}** {table.caption[len(table.name) :].strip()}\n\n{_piped(table)}"
            for table in block.tables]  # fmt: skip


def _pipes(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _piped(table: Table) -> str:
    rows, columns = _shown(table)
    corner = titles(False)[0] if table.titled() else ""
    lines = [
        [corner, *("…" if j is None else _quoted(table.columns[j]) for j in columns)],
        ["--:"] * (len(columns) + 1),
    ]
    for i in rows:
        if i is None:
            lines.append(["⋮", *[""] * len(columns)])
            continue
        name = _quoted(table.rows[i])
        cells = ["…" if j is None else table.cell(i, j) for j in columns]
        lines.append([f"**{name} ▸**" if i == table.mark else name, *cells])
    return _pipes(lines)


def _shown(table: Table) -> tuple[list[int | None], list[int | None]]:
    keep = [*([] if table.mark is None else [table.mark]), *table.keep[0]]
    return fitted(len(table.rows), ROWS, keep), fitted(len(table.columns), COLUMNS, table.keep[1])


# HTML.


def fragment(blocks: Sequence[Block], picture: str = "") -> str:
    """A sheet as one element for notebooks; the picture stands under the first title."""
    parts = [_element(block) for block in blocks]
    if picture:
        parts.insert(1, f"<figure>{picture}</figure>")
    night = f"@media(prefers-color-scheme:dark){{{NIGHT % vars(DARK)}}}"
    return f"<div class='regard'><style>{STYLE % vars(LIGHT)}{night}</style>{''.join(parts)}</div>"


def page(blocks: Sequence[Block], picture: str = "") -> str:
    """A sheet as a page of its own."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    sheet = (
        f"body{{margin:0;background:{LIGHT.paper}}}.regard{{margin:0 auto}}"
        f"@media(prefers-color-scheme:dark){{body{{background:{DARK.paper}}}}}"
    )
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<meta name='color-scheme' content='light dark'><title>{escape(title)}</title><style>{sheet}</style></head>"
        f"<body>{fragment(blocks, picture)}</body></html>\n"
    )


def _element(block: Block) -> str:
    if isinstance(block, Heading):
        tail = "".join(f" <code>{escape(x)}</code>" for x in (block.equation, block.shape) if x)
        return f"<h{block.level}>{escape(block.text)}{tail}</h{block.level}>"
    if isinstance(block, Words):
        return f"<p{' class=faint' if block.faint else ''}>{escape(block.text)}</p>"
    if isinstance(block, Work):
        return f"<pre>{''.join(f'<div>{escape(line.text())}</div>' for line in block.lines)}</pre>"
    if isinstance(block, Listing):
        return _listed(block)
    if isinstance(block, Table):
        return _tabled(block, False)
    return f"<div class='beside'>{''.join(_tabled(table, True) for table in block.tables)}</div>"


def _listed(block: Listing) -> str:
    side = "" if block.numbers else " class='left'"

    def row(cells: Sequence[str], tag: str, ink: str = "") -> str:
        first = f"<th class='left{ink}'><bdi>{escape(cells[0])}</bdi></th>"
        return first + "".join(f"<{tag}{side}>{escape(x)}</{tag}>" for x in cells[1:])

    ink = {"query": " tq", "key": " tk"}.get(block.axis, "")
    body = "".join(f"<tr>{row(cells, 'td', ink)}</tr>" for cells in block.rows[: -1 if block.total else None])
    body += f"<tr class='total'>{row(block.rows[-1], 'td')}</tr>" if block.total else ""
    return (
        f"<div class='one'><table><thead><tr>{row(block.header, 'th')}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _tabled(table: Table, named: bool) -> str:
    rows, columns = _shown(table)
    inks = [{"query": " class='tq'", "key": " class='tk'"}.get(axis, "") for axis in table.axes]
    head = "".join(f"<th{inks[1]}><bdi>{'…' if j is None else escape(table.columns[j])}</bdi></th>" for j in columns)
    down, across = titles(False)
    corner = f"<th{inks[0]}>{down if table.titled() else ''}</th>"
    over = f"<tr><th></th><th class='tk left' colspan='{len(columns)}'>{across}</th></tr>" if table.titled() else ""
    colours = None if table.scale is None else (table.scale.table(LIGHT), table.scale.table(DARK))

    def cell(i: int, j: int) -> str:
        papers = None if colours is None else (shade(table, i, j, colours[0]), shade(table, i, j, colours[1]))
        if papers is None or papers[0] is None or papers[1] is None:
            return f"<td>{table.cell(i, j)}</td>"
        day, night = papers[0], papers[1]
        hues = f"--l:{_hex(day)};--li:{_hex(ink_on(day))};--d:{_hex(night)};--di:{_hex(ink_on(night))}"
        return f"<td class='c' style='{hues}'>{table.cell(i, j)}</td>"

    body = ""
    for i in rows:
        if i is None:
            body += "<tr><th>⋮</th></tr>"
            continue
        cells = "".join("<td>…</td>" if j is None else cell(i, j) for j in columns)
        mark = " class='mark'" if i == table.mark else ""
        body += f"<tr{mark}><th{inks[0]}><bdi>{escape(table.rows[i])}</bdi></th>{cells}</tr>"
    caption = f"<caption><b>{escape(table.name)}</b>{escape(table.caption[len(table.name) :])}</caption>"
    return (
        f"<div class='one'><table>{caption if named else ''}<thead>{over}<tr>{corner}{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _hex(colour: RGB) -> str:
    return "#" + "".join(f"{c:02x}" for c in colour)
