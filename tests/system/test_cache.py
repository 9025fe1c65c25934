"""The cache of object code: private, whole or not at all, and never the reason that a call fails."""

from __future__ import annotations

import dataclasses
import importlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard import reference
from regard.kernels import compile
from regard.kernels.plan import Plan
from regard.kernels.target import host
from tests.attention.judge import normal
from tests.system.scripts import PRELUDE, environment, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes as POSIX has them")

# A process that may not compile: it is right only if it finds the object code on disk.
ONLY_LOADS = """
from regard.kernels import compile
def refuse(*_):
    raise AssertionError("it compiled")
compile.compiled = refuse
assert right()
"""
# A process that tells how often it compiled.
COUNTS = """
from regard.kernels import compile
made, before = [], compile.compiled
compile.compiled = lambda *given: made.append(1) or before(*given)
assert right()
print(len(made))
"""


def made_by_another(folder: object, **settings: str | None) -> int:
    """How many kernels a fresh process compiles with this cache."""
    return int(run(COUNTS, REGARD_CACHE=str(folder), **settings).stdout)


def made(folder: object, d: int = 32, **settings: str | None) -> int:
    """The same of this process, once all that it has in memory is forgotten; LLVM does each piece of work only once."""
    count = 0

    def counted(*given: Any) -> bytes:
        nonlocal count
        count += 1
        return once(*given)

    q, k, v = (normal((4, 200, d), "f32", seed) for seed in range(3))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("REGARD_EXPLAIN", "REGARD_TARGET"):
            patch.delenv(name, raising=False)
        for name, value in {"REGARD_CACHE": None if folder is None else str(folder), **settings}.items():
            patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
        patch.setattr(compile, "compiled", counted)
        patch.setattr(compile, "_kernels", {})
        patch.setattr(importlib.import_module("regard.attention"), "_prepared", {})
        assert np.allclose(regard.attention(q, k, v), reference.attention(q, k, v), atol=2e-6)
    return count


once = cache(compile.compiled)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the kernel of the usual call."""
    folder = tmp_path_factory.mktemp("filled") / "deep" / "cache"
    assert made_by_another(folder) == 1
    return folder


@pytest.fixture
def cached(filled: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoiled."""
    shutil.copytree(filled, tmp_path / "cache")
    return tmp_path / "cache"


def entry(folder: Path) -> Path:
    (only,) = folder.iterdir()
    return only


def test_files_are_private_and_whole(filled: Path) -> None:
    assert stat.S_IMODE(filled.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(filled).stat().st_mode) == 0o600
    assert entry(filled).suffix == ".o"


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    run("os.umask(0); assert right()", REGARD_CACHE=str(tmp_path / "cache"))
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(tmp_path / "cache").stat().st_mode) == 0o600


def test_the_second_process_does_not_compile(filled: Path) -> None:
    run(ONLY_LOADS, REGARD_CACHE=str(filled))


def test_that_the_check_above_can_fail(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="it compiled"):
        run(ONLY_LOADS, REGARD_CACHE=str(tmp_path / "cache"))


def flipped(at: float) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        place = int(at * (len(content) - 1))
        return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]

    return change


SPOILS: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit in the first byte": flipped(0),
    "a flipped bit in the digest": lambda content: content[:20] + bytes([content[20] ^ 0x80]) + content[21:],
    "a flipped bit in the middle": flipped(0.5),
    "a flipped bit in the last byte": flipped(1),
    "cut to half": lambda content: content[: len(content) // 2],
    "cut by one byte": lambda content: content[:-1],
    "only the head": lambda content: content[:48],
    "empty": lambda content: b"",
    "longer by one byte": lambda content: content + b"\0",
    "something else": lambda content: b"#!/bin/sh\necho not object code\n",
    "an object without our head": lambda content: content[48:],
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_spoiled_entry_is_not_taken(spoil: str, filled: Path, tmp_path: Path) -> None:
    place = tmp_path / entry(filled).name
    place.write_bytes(SPOILS[spoil](entry(filled).read_bytes()))
    place.chmod(0o600)
    assert compile._read(place) is None
    place.write_bytes(entry(filled).read_bytes())
    assert compile._read(place) is not None  # it was that, and nothing else, which was refused


@pytest.mark.parametrize("spoil", ["a flipped bit in the middle", "empty"])
def test_a_spoiled_entry_is_made_again(spoil: str, cached: Path) -> None:
    place = entry(cached)
    good = place.read_bytes()
    place.write_bytes(SPOILS[spoil](good))
    assert compile._read(place) is None  # or this process would run it
    assert made(cached) == 1
    assert entry(cached).read_bytes() == good
    assert made(cached) == 0


def test_the_entry_of_another_plan_is_not_taken(cached: Path) -> None:
    ours = entry(cached)
    assert made(cached, d=16) == 1
    (other,) = set(cached.iterdir()) - {ours}
    assert compile._read(other) is not None
    os.replace(other, ours)
    assert compile._read(ours) is None
    assert made(cached) == 1


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_not_taken(mode: int, cached: Path) -> None:
    entry(cached).chmod(mode)
    assert compile._read(entry(cached)) is None


def test_a_file_that_others_may_write_is_replaced(cached: Path) -> None:
    entry(cached).chmod(0o666)
    assert made(cached) == 1
    assert stat.S_IMODE(entry(cached).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write_is_done_without(mode: int, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    if mode == 0o777:
        assert made(folder) == 1
    else:
        assert _placed(folder) is None
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may give files away")
def test_files_and_folders_of_others_are_not_taken(cached: Path) -> None:
    place = entry(cached)
    os.chown(place, 12345, -1)
    assert compile._read(place) is None
    os.chown(place, 0, -1)
    os.chown(cached, 12345, -1)
    assert _placed(cached) is None
    assert made(cached) == 1


def _placed(folder: Path) -> Path | None:
    """Where the entry of some plan would be in this folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder))
        return compile._place(plan())


def plan(**changes: object) -> Plan:
    return dataclasses.replace(Plan("forward", host(), "f32", 8, 8, 1, 1, 32), **changes)  # type: ignore[arg-type]


def test_a_cache_that_cannot_be_is_done_without(tmp_path: Path) -> None:
    # Root may write everywhere, so: a file, a path below a file, and a file system that takes no files.
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/regard"), Path("/dev/null")):
        assert _placed(folder) is None, folder
        assert made(folder) == 1, folder
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc")
def test_a_folder_that_takes_no_files_is_done_without() -> None:
    # It exists and is ours, but nothing can be made in it, not even by root.
    assert made("/proc/self/fd") == 1


def test_a_dangling_link_or_a_folder_in_place_of_an_entry(cached: Path, tmp_path: Path) -> None:
    place = entry(cached)
    place.unlink()
    place.mkdir()
    assert made(cached) == 1
    assert [x.name for x in cached.iterdir()] == [place.name]  # nothing temporary is left
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "at" / "all")
    assert made(tmp_path / "link") == 1


def test_where_there_is_no_home() -> None:
    for home in (None, "", "/nonexistent/home", "/dev/null"):
        assert made(None, XDG_CACHE_HOME="/dev/null/cache", HOME=home) == 1
    with pytest.MonkeyPatch.context() as patch:

        def homeless() -> Path:
            raise RuntimeError("Could not determine home directory.")

        patch.setattr(Path, "home", homeless)
        assert made(None, XDG_CACHE_HOME=None) == 1


def test_the_folder_is_where_users_expect_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    assert compile.folder() == tmp_path
    monkeypatch.setenv("REGARD_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setenv("HOME", "/home/someone")
    assert compile.folder() == Path("/x/regard")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert compile.folder() == Path("/home/someone/.cache/regard")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert compile.folder() == Path("/home/someone/Library/Caches/regard")


@pytest.mark.parametrize("name", ["replace", "fdopen"])
def test_a_write_that_fails_leaves_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(compile.os, name, full)  # type: ignore[attr-defined]
        compile._write(tmp_path / "entry.o", b"code")
    assert list(tmp_path.iterdir()) == []
    compile._write(tmp_path / "entry.o", b"code")
    assert compile._read(tmp_path / "entry.o") == b"code"


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compile.os, "replace", interrupted)  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        compile._write(tmp_path / "entry.o", b"code")
    assert list(tmp_path.iterdir()) == []


def test_many_processes_make_the_same_entry_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    code = PRELUDE + "sys.stdin.readline(); assert right()"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, text=True, env=environment(REGARD_CACHE=str(folder))
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    try:
        assert [process.wait(60) for process in processes] == [0] * 4
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert compile._read(entry(folder)) is not None
    run(ONLY_LOADS, REGARD_CACHE=str(folder))


def test_the_key_covers_plan_machine_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    usual = compile._place(plan())
    assert usual is not None
    assert usual == compile._place(plan())
    others = [
        compile._place(plan(**change)) for change in ({"d": 9}, {"keys": 64}, {"storage": "bf16"}, {"sinks": True})
    ]
    for name, value in (("cpu", "another"), ("features", "+none"), ("triple", "riscv"), ("fused", not host().fused)):
        others.append(compile._place(plan(target=dataclasses.replace(host(), **{name: value}))))
    monkeypatch.setattr(compile, "_version", lambda: "another")
    others.append(compile._place(plan()))
    assert len({usual, *others}) == 1 + len(others)


def test_a_changed_line_of_code_is_another_version(tmp_path: Path, filled: Path) -> None:
    here = Path(compile.__file__).parents[1]
    for part in ("kernels/functions.py", "algebra/expression.py"):
        copy = tmp_path / part.replace("/", "-") / "regard"
        shutil.copytree(here, copy, ignore=shutil.ignore_patterns("__pycache__"))
        assert made_by_another(filled, PYTHONPATH=str(copy.parent)) == 0  # the same code elsewhere finds the same entry
        with open(copy / part, "a") as file:
            file.write("\n# another line\n")
        spoiled = tmp_path / part.replace("/", "+")
        shutil.copytree(filled, spoiled)
        assert made_by_another(spoiled, PYTHONPATH=str(copy.parent)) == 1


def test_a_narrowed_machine_has_entries_of_its_own(cached: Path) -> None:
    assert made(cached, REGARD_TARGET="x86-64-v2") == 1
    assert len(list(cached.iterdir())) == 2
    assert made(cached, REGARD_TARGET="x86-64-v2") == 0
