"""Settings of the environment: REGARD_EXPLAIN and REGARD_TARGET."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from regard.errors import TargetError
from regard.kernels import target
from tests.system.scripts import PRELUDE, environment, run

X86 = platform.machine() in ("x86_64", "AMD64")


def explained(what: str, tmp_path: Path, code: str = "assert right()", **settings: str) -> str:
    result = run(code, REGARD_EXPLAIN=what, REGARD_CACHE=str(tmp_path / "cache"), **settings)
    assert result.stdout == ""  # the program's own output stays its own
    return result.stderr


def failure(code: str, **settings: str) -> str:
    """The last line of what a script that fails says."""
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + code],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(**settings),
        check=False,
    )
    assert result.returncode == 1
    return result.stderr.strip().splitlines()[-1]


@pytest.mark.skipif(not X86, reason="narrowed targets are those of x86")
def test_the_plan_is_printed_once(tmp_path: Path) -> None:
    code = "assert right(); assert right()"
    text = explained("plan", tmp_path, code, REGARD_TARGET="x86-64-v2")
    lines = text.splitlines()
    assert lines[0] == "plan: forward f32 d=32 d_v=32"
    assert lines[1] == "  machine     x86-64-v2, 4 lanes, 16 registers"
    assert lines[2] == "  tile        4 keys × 2 vectors of queries"
    assert re.fullmatch(r"  blocks      \d+ queries × \d+ keys", lines[3])
    assert lines[4] == "  reductions  output"
    assert lines[5] == "  arrays      none"
    assert len(lines) == 6
    assert explained("plan", tmp_path, code, REGARD_TARGET="x86-64-v2") == text  # also where the code comes from disk


def test_the_plan_shows_what_was_asked(tmp_path: Path) -> None:
    code = """
q, k, v = inputs()
regard.attention(q, k, v, mask=regard.causal & np.tri(200, dtype=bool), modify=regard.softcap(5.0), return_lse=True,
                 bias=np.zeros((200, 200), np.float32), sinks=np.zeros(4))
regard.attention(q, k, v, mask=np.tri(200, dtype=bool))
"""
    text = explained("plan", tmp_path, code)
    assert text.count("plan: forward f32") == 2
    first, second = (part.splitlines() for part in text.split("plan: ")[1:])
    assert any(re.fullmatch(r"  modify      0:\S+.*tanh.*", line) for line in first)
    assert any(re.fullmatch(r"  mask        0:\S+.*", line) for line in first)
    assert "  reductions  output, lse" in first
    assert "  arrays      bias f32, sinks" in first
    assert "  arrays      mask" in second


def test_llvm_is_printed_also_where_the_code_is_on_disk(tmp_path: Path) -> None:
    for _ in range(2):
        text = explained("llvm", tmp_path)
        assert len(re.findall(r"^define (noundef |range\([^)]*\) )*i64 @run\(", text, re.M)) == 1
        assert "plan:" not in text


def test_assembly_is_printed_also_where_the_code_is_on_disk(tmp_path: Path) -> None:
    for _ in range(2):
        text = explained("asm", tmp_path)
        assert len(re.findall(r"^_?run:", text, re.M)) == 1
        assert "define " not in text


def test_nothing_is_printed_unless_asked(tmp_path: Path) -> None:
    assert explained("", tmp_path) == ""


def test_a_wrong_explanation() -> None:
    assert failure("right()", REGARD_EXPLAIN="verbose") == (
        "regard.errors.RegardError: REGARD_EXPLAIN is 'verbose', expected plan, llvm or asm: set one, or unset it"
    )


@pytest.mark.skipif(not X86, reason="narrowed targets are those of x86")
class TestTarget:
    @pytest.mark.parametrize("wrong", ["avx2", "x86-64", "x86-64-v5", "X86-64-V3", " x86-64-v3"])
    def test_a_wrong_one(self, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REGARD_TARGET", wrong)
        with pytest.raises(TargetError) as caught:
            target.host()
        expected = "expected one of x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v4+bf16: set one, or unset it"
        assert str(caught.value) == f"REGARD_TARGET is {wrong!r}, {expected}"

    def test_a_wrong_one_reaches_the_caller(self) -> None:
        assert failure("right()", REGARD_TARGET="fast").startswith("regard.errors.TargetError: REGARD_TARGET is 'fast'")

    def test_one_that_this_machine_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(target.llvm, "get_host_cpu_features", lambda: {"avx2": True, "fma": True})
        with pytest.raises(TargetError) as caught:
            target._read.__wrapped__("x86-64-v4")
        sentence = "REGARD_TARGET is x86-64-v4, but this machine only has x86-64-v3: choose that, or unset it"
        assert str(caught.value) == sentence

    @pytest.mark.parametrize(
        ("name", "lanes", "registers", "fused", "half", "pairs"),
        [
            ("x86-64-v2", 4, 16, False, False, False),
            ("x86-64-v3", 8, 16, True, True, False),
            ("x86-64-v4", 16, 32, True, True, False),
            ("x86-64-v4+bf16", 16, 32, True, True, True),
        ],
    )
    def test_what_each_has(self, name: str, lanes: int, registers: int, fused: bool, half: bool, pairs: bool) -> None:
        try:
            found = target._read(name)
        except TargetError:
            pytest.skip(f"this machine has no {name}")
        assert (found.lanes(32), found.lanes(64), found.registers) == (lanes, lanes // 2, registers)
        assert (found.fused, found.half, found.pairs, found.amx) == (fused, half, pairs, False)

    def test_matrix_registers_that_the_system_keeps_to_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        everything = dict.fromkeys((f"avx512{x}" for x in ("f", "bw", "dq", "vl", "bf16")), True)
        everything |= {"amx-tile": True, "amx-bf16": True}
        monkeypatch.setattr(target.llvm, "get_host_cpu_features", lambda: llvm.FeatureMap(everything))
        for permitted in (False, True):
            monkeypatch.setattr(target, "_amx_permitted", lambda permitted=permitted: permitted)
            found = target._read.__wrapped__("")
            assert (found.pairs, found.amx) == (True, permitted)

    def test_calls_follow_a_change(self) -> None:
        # The same call in one process under different settings: nothing prepared for one may serve the other.
        run("""
names = []
from regard.kernels import compile
before = compile.compiled
compile.compiled = lambda text, target, *more: names.append(target.cpu) or before(text, target, *more)
os.environ["REGARD_CACHE"] = "/dev/null/none"
for name in ("x86-64-v2", "x86-64-v3"):
    os.environ["REGARD_TARGET"] = name
    assert right()
    assert right()
assert names == ["x86-64-v2", "x86-64-v3"], names
""")


def test_a_machine_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target.llvm, "get_process_triple", lambda: "riscv64-unknown-linux-gnu")
    with pytest.raises(TargetError) as caught:
        target._read.__wrapped__("")
    assert str(caught.value) == (
        "this process runs on riscv64-unknown-linux-gnu, expected a 64-bit x86 or Arm: kernels are not made for others"
    )


def test_the_size_of_the_cache_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, size in (("1024K", 1 << 20), ("2M", 2 << 20), ("", 512 << 10), ("much", 512 << 10)):
        monkeypatch.setattr(target.Path, "read_text", lambda self, text=text: text + "\n")
        assert target._cache_bytes(2, 512 << 10) == size
