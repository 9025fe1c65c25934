"""The README's table, from a result: `python -m benchmarks.readme [RESULT.json]`; without one, the newest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .peaks import UNITS
from .peers import JAX, NUMPY, OPENVINO, ORT, TORCH
from .run import REGARD, RESULTS, duration, show, target

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
README = RESULTS.parent.parent / "README.md"
PEERS = (TORCH, ORT, OPENVINO, NUMPY, JAX)


def _cell(figure: dict[str, Any] | None) -> str:
    """The figure, and what it should have been where it falls short."""
    if figure is None:
        return "–"
    text = show(figure["value"], figure["unit"])
    return f"{text} ({target(figure)} wanted)" if figure["met"] is False else text


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _timed(works: list[dict[str, Any]], peers: list[str]) -> list[str]:
    rows = [_row(["", REGARD, "of the peak", *(f"× {peer}" for peer in peers), "beside its own"])]
    rows.append("|---" * (len(peers) + 4) + "|")
    for work in works:
        figures = work["figures"]
        seconds, peak = work["seconds"][REGARD]["best"], work["peak"]
        speed = duration(seconds)
        if peak:
            speed += f", {work['amount'] / seconds / 1e9:.0f} {UNITS[peak['name']]}"
        share = next((f for f in figures if f["unit"] == "%"), None)
        own = next((f for f in figures if f["unit"] == "of"), None)
        times = []
        for peer in peers:
            figure = next((f for f in figures if f["what"].partition(",")[0] == f"× {peer}"), None)
            best = next((f for f in figures if f["what"] == f"× the best peer ({peer})"), None)
            times.append(_cell(best or figure))
        beside = "–" if own is None else f"{_cell(own)} {own['what']}"
        rows.append(_row([work["name"], speed, _cell(share), *times, beside]))
    return rows


def _others(works: list[dict[str, Any]]) -> list[str]:
    rows = [_row(["", "measured", "to reach"]), "|---|---|---|"]
    for work in works:
        figures = work["figures"]
        kinds = [figure["what"].partition(",")[0].removesuffix(" error") for figure in figures]
        measured = [f"{kind} {show(f['value'], f['unit'])}".strip() for kind, f in zip(kinds, figures, strict=True)]
        beside = {"PyTorch's": "error over PyTorch's", "NumPy's": "error over that of A built in float32"}
        over = next((words for whose, words in beside.items() if whose in figures[-1]["what"]), "")
        name = work["name"] + (f": {over}" if over else "")
        short = " (short)" if any(figure["met"] is False for figure in figures) else ""
        wanted = list(dict.fromkeys(target(figure) for figure in figures))
        rows.append(_row([name, ", ".join(measured) + short, ", ".join(wanted)]))
    return rows


def render(report: dict[str, Any]) -> str:
    """A compact table of a result, in Markdown."""
    works = [work for work in report["works"] if work["figures"]]
    timed = [work for work in works if "seconds" in work]
    others = [work for work in works if "seconds" not in work]
    peers = [
        peer
        for peer in PEERS
        if any(f["value"] is not None and peer in f["what"] for work in timed for f in work["figures"])
    ]
    versions = ", ".join(f"{peer} {report['versions'][peer]}" for peer in peers)
    revision = f", commit {report['commit'][:10]}" if report["commit"] else ""
    head = (
        f"Measured on {report['date'][:10]} on {report['machine']}, {report['cores']} cores, {report['threads']} "
        f"threads for everybody, interleaved in one process, the best of at least {report['rounds']}{revision}. "
        f"{versions}. ×: how many times as fast as the fastest way the peer offers."
    )
    later: dict[str, list[str]] = {}
    for work in works:
        if "commit" in work:
            later.setdefault(work["commit"][:10], []).append(work["name"])
    for revision, names in later.items():
        head += f" At commit {revision}, measured again: {'; '.join(names)}."
    return "\n\n".join([head, "\n".join(_timed(timed, peers)), "\n".join(_others(others))])


def insert(text: str, table: str) -> str:
    """The text with the table between the markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md has no {BEGIN} … {END} to write between")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main(arguments: list[str]) -> None:
    found = [Path(arguments[0])] if arguments else sorted(RESULTS.glob("*.json"))
    if not found:
        raise SystemExit("no result under benchmarks/results; run scripts/bench first")
    report = json.loads(found[-1].read_text())
    README.write_text(insert(README.read_text(), render(report)))
    print(f"README.md shows {found[-1].name}")


if __name__ == "__main__":
    main(sys.argv[1:])
