"""The host: lanes, registers, caches, bf16 units; and the tile shapes that follow from them.

`REGARD_TARGET=x86-64-v2|v3|v4|v4+bf16` narrows the host to a smaller machine of its kind, so that the code which that
machine would run can be compiled and tested here.

    >>> host().lanes(32) in (4, 8, 16)
    True
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import llvmlite.binding as llvm

from regard.errors import TargetError

NARROWED = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16")  # each has what those before it have
BITS = {"x86-64-v2": 128, "x86-64-v3": 256, "x86-64-v4": 512, "x86-64-v4+bf16": 512}  # of a vector register


@dataclass(frozen=True)
class Target:
    """What code may use on this machine."""

    triple: str
    cpu: str
    features: str
    vector_bits: int
    registers: int  # vector registers
    fused: bool  # multiply-add in one instruction
    half: bool  # conversion between f16 and f32 in one instruction
    pairs: bool  # bf16 pair products
    amx: bool  # the same on matrix registers: 16 × 16 sums in one instruction
    near_cache: int  # bytes of the cache that a tile of weights stays in (L1)
    fast_cache: int  # bytes of the cache that a block of keys and a block of queries share (L2)

    def lanes(self, bits: int) -> int:
        """Lanes of a vector register, for elements of so many bits."""
        return self.vector_bits // bits

    @property
    def rows(self) -> int:
        """Rows of a register tile: all its sums, a vector of each column and one broadcast must stay in registers."""
        return 8 if self.registers >= 32 else 4

    @property
    def columns(self) -> int:
        """Vectors of a register tile, at most."""
        return 3 if self.registers >= 32 else 2

    def machine(self) -> llvm.TargetMachine:
        """LLVM's view of it; an engine takes a machine over, so each gets its own."""
        return _machine(self.triple, self.cpu, self.features)


def _machine(triple: str, cpu: str, features: str) -> llvm.TargetMachine:
    _start_llvm()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic")


@lru_cache(maxsize=1)
def _start_llvm() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def host() -> Target:
    """The machine that this process runs on, narrowed by REGARD_TARGET."""
    return _read(os.environ.get("REGARD_TARGET", ""))


@lru_cache(maxsize=8)
def _read(narrowed: str) -> Target:
    _start_llvm()
    triple = llvm.get_process_triple()
    near, fast = _cache_bytes(0, 32 << 10), _cache_bytes(2, 512 << 10)
    if not triple.startswith(("x86_64", "aarch64", "arm64")):
        raise TargetError(
            f"this process runs on {triple}, expected a 64-bit x86 or Arm: kernels are not made for others"
        )
    if not triple.startswith("x86_64"):
        if narrowed:
            raise TargetError(f"REGARD_TARGET is {narrowed!r}, but this machine is {platform.machine()}: unset it")
        features = llvm.get_host_cpu_features().flatten()
        return Target(triple, llvm.get_host_cpu_name(), features, 128, 32, True, True, False, False, near, fast)
    has = llvm.get_host_cpu_features()
    wide = all(has.get(f"avx512{part}", False) for part in ("f", "bw", "dq", "vl"))
    level = "x86-64-v4" if wide else "x86-64-v3" if has.get("avx2") and has.get("fma") else "x86-64-v2"
    if wide and has.get("avx512bf16"):
        level = "x86-64-v4+bf16"
    if narrowed and narrowed not in NARROWED:
        raise TargetError(f"REGARD_TARGET is {narrowed!r}, expected one of {', '.join(NARROWED)}: set one, or unset it")
    if narrowed > level:
        raise TargetError(f"REGARD_TARGET is {narrowed}, but this machine only has {level}: choose that, or unset it")
    level = narrowed or level
    cpu, features = llvm.get_host_cpu_name(), has.flatten()
    if narrowed:
        cpu, _, more = narrowed.partition("+")
        features = "+avx512bf16" if more else ""
    return Target(
        triple,
        cpu,
        features,
        vector_bits=BITS[level],
        registers=32 if BITS[level] == 512 else 16,
        fused=level != "x86-64-v2",
        half=level != "x86-64-v2",
        pairs=level == "x86-64-v4+bf16",
        amx=not narrowed and all(has.get(f"amx-{part}", False) for part in ("tile", "bf16")) and _amx_permitted(),
        near_cache=near,
        fast_cache=fast,
    )


def _amx_permitted() -> bool:
    """Ask the system for the matrix registers: a process has to, once, before it may use them."""
    if not sys.platform.startswith("linux"):
        return False
    arch_prctl, request, tile_data = 158, 0x1023, 18  # numbers of Linux on x86-64
    return int(ctypes.CDLL(None).syscall(arch_prctl, request, tile_data)) == 0


def _cache_bytes(index: int, otherwise: int) -> int:
    """A cache that one core has for itself: 0 is the nearest, of data; 2 is the second."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size").read_text().strip()
        return int(text.rstrip("KM")) * (1 << 20 if text.endswith("M") else 1 << 10)
    except (OSError, ValueError):
        return otherwise
