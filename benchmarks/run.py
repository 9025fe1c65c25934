"""The bench: `python -m benchmarks.run [words] [--repeats N] [--quick] [--json PATH]`.

Words choose works by a part of their name. A whole run leaves its figures under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from . import THREADS, accuracy, fresh, reading
from .measured import Measured
from .peaks import UNITS, peaks
from .peers import TORCH, Array, Way, from_tensor, tensor, versions, ways
from .timing import Effort, Times, interleaved, keep_memory
from .works import BEST, OWN, Error, Fresh, Timed, Work, chosen, copies, question, regard_call

RESULTS = Path(__file__).resolve().parent / "results"
REGARD = "Regard"
SAME = {"f32": 1e-3, "bf16": 5e-2}  # as far as answers to the same question may lie apart; errors are judged elsewhere

Result = dict[str, Any]


def _figure(what: str, value: float | None, unit: str, bound: str = "", target: float | None = None) -> Result:
    """One number of the table. Without a target it is there to be known."""
    met = None
    if target is not None and value is not None:
        met = value >= target if bound == ">=" else value <= target
    return {"what": what, "value": value, "unit": unit, "bound": bound, "target": target, "met": met}


def _array(result: Any) -> Array:
    if isinstance(result, np.ndarray):
        return result.astype(np.float32)
    return from_tensor(result)


def timed(regard: Any, work: Timed, effort: Effort) -> Result:
    problem = work.problem
    calls: dict[str, list[Callable[[], Any]]] = {REGARD: []}
    contenders: dict[str, list[Way]] = {}  # by peer and way, one for each set of arrays
    for seed in range(copies(work)):
        arrays = problem.arrays(seed)
        given = [tensor(x) for x in arrays] if work.tensors else arrays
        calls[REGARD].append(regard_call(regard, work.ask, problem, *given))
        for peer in work.peers:
            for way in ways(peer, question(work.ask, problem, *arrays)):
                contenders.setdefault(f"{peer}, {way.name}" if way.name else peer, []).append(way)
    notes = []
    answer = _array(calls[REGARD][0]())
    for name, each in contenders.items():
        apart = float(np.abs(each[0].read(each[0].call()) - answer).max())
        if not apart <= SAME[problem.dtype]:
            notes.append(f"{name} answers differently, by {apart:.2g}")
    del answer
    calls |= {name: [way.call for way in each] for name, each in contenders.items()}
    if work.beside:
        calls[OWN] = [regard_call(regard, work.beside[1], work.beside[0], *work.beside[0].arrays())]
    measured = {peak.way: peak for peak in (peaks(work.peak) if work.peak else ())}
    yardsticks = {f"{work.peak}, {way}": [peak.run] for way, peak in measured.items()}

    times = interleaved(calls | yardsticks, effort, yardsticks)
    rate = max((peak.amount / times[f"{work.peak}, {way}"].best for way, peak in measured.items()), default=None)
    return {
        "name": work.name,
        "seconds": {name: vars(time) for name, time in times.items()},
        "amount": work.amount,
        "peak": {"name": work.peak, "rate": rate} if work.peak else None,
        "figures": _compared(work, times, rate),
        "notes": notes,
    }


def _compared(work: Timed, times: dict[str, Times], peak_rate: float | None) -> list[Result]:
    """Every comparison that can be made; those the work has targets for are judged."""
    own = times[REGARD].best
    fastest: dict[str, float] = {}
    for peer in work.peers:
        found = [time.best for name, time in times.items() if name.split(",")[0] == peer]
        if found:
            fastest[peer] = min(found)
    reached: dict[str, tuple[str, float | None, str]] = {}
    if work.peak:
        share = work.amount / own / peak_rate if peak_rate else None
        reached[work.peak] = (f"of the {work.peak}", share, "%")
    if work.beside:
        other, ask = work.beside
        each = own / (work.problem.heads * work.problem.n_q)
        beside = times[OWN].best / (other.heads * other.n_q)
        # Per query and head: between two lengths that is what can be compared, and else it changes nothing.
        same = other == work.problem
        reached[OWN] = (
            f"of its own {ask} time" if same else f"of the time per query at {other.n_q}",
            each / beside,
            "of",
        )
    for peer in work.peers:
        reached[peer] = (f"× {peer}", fastest[peer] / own if peer in fastest else None, "×")
    if fastest:
        best = min(fastest, key=lambda peer: fastest[peer])
        reached[BEST] = (f"× the best peer ({best})", fastest[best] / own, "×")
    wanted = {target.against: target for target in work.targets}
    figures = []
    for against, (what, value, unit) in reached.items():
        if against in wanted:
            figures.append(_figure(what, value, unit, wanted[against].bound, wanted[against].value))
        elif against != BEST:
            figures.append(_figure(what, value, unit))
    return figures


def measured_fresh(work: Fresh, effort: Effort) -> Result:
    answer = fresh.measure(work.kind, work.dtype, work.ask, work.cached, effort.rounds)
    target = work.targets[0]
    figure = _figure("", answer["value"], work.unit, target.bound, target.value)
    return {"name": work.name, "figures": [figure], "details": answer, "notes": []}


def measured_error(regard: Any, work: Error) -> Result:
    found = accuracy.measure(regard, work)
    limits = {"rms": work.rms, "max": work.largest}
    figures = [
        _figure(f"{kind} error, of PyTorch's", found[REGARD][kind] / found[TORCH][kind], "of", "<=", limit)
        for kind, limit in limits.items()
    ]
    return {"name": work.name, "figures": figures, "errors": found, "notes": []}


def measured_reading(regard: Any, work: reading.Reading, effort: Effort) -> Result:
    times, ratios = reading.timed(regard, work, effort)
    figures = [
        _figure(what, value, "×" if bound == ">=" else "of", bound, target) for what, value, bound, target in ratios
    ]
    seconds = {name: vars(time) for name, time in times.items() if not name.startswith(reading.READ)}
    return {"name": work.name, "seconds": seconds, "amount": 0, "peak": None, "figures": figures, "notes": []}


def measured_agreement(regard: Any, work: reading.Agreement) -> Result:
    found = list(reading.errors(regard, work))
    figures = [
        _figure(name if "of" in name else f"{name}, of float32 NumPy's", ours / theirs, "of", "<=", limit)
        for name, ours, theirs in found
        for limit in ([1.0] if "of" in name else [work.target])
    ]
    errors = {name: {"Regard": ours, "float32": theirs} for name, ours, theirs in found}
    return {"name": work.name, "figures": figures, "errors": errors, "notes": []}


def measured_by_itself(work: Measured, effort: Effort) -> Result:
    figures = [_figure(*found) for found in work.figures(effort.rounds)]
    return {"name": work.name, "figures": figures, "notes": []}


def measure(regard: Any, work: Work, effort: Effort) -> Result:
    """A work that fails is a line of the table too, and the next one is still measured."""
    try:
        if isinstance(work, Timed):
            return timed(regard, work, effort)
        if isinstance(work, reading.Reading):
            return measured_reading(regard, work, effort)
        if isinstance(work, reading.Agreement):
            return measured_agreement(regard, work)
        if isinstance(work, Fresh):
            return measured_fresh(work, effort)
        if isinstance(work, Measured):
            return measured_by_itself(work, effort)
        return measured_error(regard, work)
    except Exception as error:
        return {"name": work.name, "figures": [], "notes": [f"failed: {type(error).__name__}: {error}"], "failed": True}


# What is printed.


def show(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "%":
        return f"{100 * value:.0f} %"
    if unit == "s":
        return f"{value:.3f} s"
    return f"{value:.0f} {unit}" if unit in ("MB", "MB/s", "/s", "ms", "kB") else f"{value:.2f}"


def target(figure: Result) -> str:
    if figure["target"] is None:
        return ""
    sign = "≥" if figure["bound"] == ">=" else "≤"
    unit = figure["unit"]
    return f"{sign} " + (show(figure["target"], unit) if unit == "%" else f"{figure['target']:g}")


def verdict(figure: Result) -> str:
    if figure["target"] is None:
        return ""
    return "–" if figure["met"] is None else "ok" if figure["met"] else "short"


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.1f} µs"
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def line(name: str, what: str, reached: str, wanted: str, mark: str) -> str:
    return f"{name:<44} {what:<36} {reached:>9} {wanted:>9}  {mark}".rstrip()


def printed(result: Result) -> str:
    lines = []
    name = result["name"]
    for figure in result["figures"]:
        reached = show(figure["value"], figure["unit"])
        lines.append(line(name, figure["what"], reached, target(figure), verdict(figure)))
        name = ""
    lines += [line(name if not lines else "", note, "", "", "") for note in result["notes"]]
    if "seconds" in result:
        peak = result["peak"]
        times = {k: v["best"] for k, v in result["seconds"].items() if not peak or not k.startswith(peak["name"])}
        parts = [f"{name} {duration(seconds)}" for name, seconds in times.items()]
        if peak and peak["rate"]:
            unit = UNITS[peak["name"]]
            parts[0] += f" = {result['amount'] / times[REGARD] / 1e9:.0f} {unit}"
            parts.append(f"{peak['name']} {peak['rate'] / 1e9:.0f} {unit}")
        lines.append("    " + " · ".join(parts))
    return "\n".join(lines)


# Where and what it was.


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else []
    return f"{names[0] if names else platform.processor() or platform.machine()} ({llvm.get_host_cpu_name()})"


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def commit() -> str | None:
    def git(*words: str) -> str:
        root = RESULTS.parent.parent
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def place() -> Result:
    return {
        "machine": processor(),
        "cores": cores(),
        "threads": THREADS,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions(),
        "commit": commit(),  # "+": the sources differed from it
    }


def default_path(where: Result, day: str) -> Path:
    words = re.findall(r"[a-z0-9]+", where["machine"].lower())
    return RESULTS / f"{day}-{'-'.join(words)}-{where['cores']}-cores.json"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Regard beside its peers and the machine.")
    parser.add_argument("words", nargs="*", help="measure only works whose names contain one of these")
    parser.add_argument("--repeats", type=int, default=7, help="rounds at least (7)")
    parser.add_argument("--quick", action="store_true", help="3 short rounds, nothing that takes long; only a look")
    parser.add_argument("--json", type=Path, help="where the figures go (a whole run: benchmarks/results/)")
    parser.add_argument("--list", action="store_true", help="print the names of the works and stop")
    options = parser.parse_args(arguments)
    works = chosen(options.words)
    if not works:
        parser.error(f"no work has any of {', '.join(options.words)} in its name; --list shows them")
    if options.list:
        print("\n".join(work.name for work in works))
        return 0
    effort = Effort(3, 0.3) if options.quick else Effort(options.repeats)
    if options.quick:
        works = [work for work in works if not getattr(work, "long", False)]

    regard: Any = import_module("regard")
    regard.threads(THREADS)
    keep_memory()
    where = place()
    now = datetime.now(timezone.utc)
    found = ", ".join(f"{name} {version}" for name, version in where["versions"].items() if version)
    print(f"{where['machine']}, {where['cores']} cores, {THREADS} threads each · {found}\n")
    print(line("work", "", "reached", "to reach", ""), flush=True)
    results = []
    for work in works:
        results.append(measure(regard, work, effort))
        print(printed(results[-1]), flush=True)
    judged = [figure for result in results for figure in result["figures"] if figure["met"] is not None]
    short = sum(not figure["met"] for figure in judged) + sum("failed" in result for result in results)
    print(f"\n{len(judged)} figures judged, {short} short")
    path = options.json
    if path is None and not options.words and not options.quick:
        path = default_path(where, now.date().isoformat())
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        report = {"date": now.isoformat(timespec="seconds"), **where, "rounds": effort.rounds, "works": results}
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
