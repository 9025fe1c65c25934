"""What this machine can do at most: multiply-adds, pair products and memory reads per second, by small kernels of ours.

Each kernel is LLVM text made for the host. It does nothing but the one thing it measures, on every thread at once.

>>> best(FMA) > 1e8  # operations a second, two to a multiply-add
True
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from regard.kernels.target import Target, host
from regard.kernels.threads import threads

FMA, WIDE, PAIR, READ = "FMA peak", "f64 FMA peak", "pair peak", "read rate"
UNITS = {FMA: "GF/s", WIDE: "GF/s", PAIR: "GF/s", READ: "GB/s"}

ROUNDS = 5_000_000  # of the arithmetic kernels: some 25 ms at 500 GF/s
READ_BYTES = 256 << 20  # of all threads together: more than most caches hold
REPEATS = 4  # of each way; the fastest counts


@dataclass(frozen=True)
class Peak:
    """One call of `run` does `amount` units of work (operations or bytes)."""

    name: str  # FMA, WIDE, PAIR or READ
    way: str
    amount: float
    run: Callable[[], object]


def peaks(name: str, count: int | None = None, read_bytes: int | None = None) -> tuple[Peak, ...]:
    """The ways of measuring a peak on `count` threads; none where the machine has no such instruction."""
    count = threads() if count is None else count
    if name == READ:
        each = max(16 << 20, READ_BYTES // count) if read_bytes is None else read_bytes
        return tuple(_read(host(), count, each & -(64 << 10)))  # whole rounds only: nothing past the end is read
    if name == PAIR:
        return tuple(_pair(host(), count))
    return (_fma("float" if name == FMA else "double", name, host(), count),)


def peak_of(storage: str) -> str:
    """The peak that products of this storage are held against."""
    if storage == "f64":
        return WIDE
    return PAIR if storage == "bf16" and host().pairs else FMA


def best(name: str) -> float:
    """Units of work a second, by the fastest way; measured once for each machine and number of threads."""
    return _best(name, host(), threads())


@lru_cache(maxsize=16)
def _best(name: str, target: Target, count: int) -> float:
    return max(
        peak.amount / min(seconds(peak.run) for _ in range(REPEATS)) for peak in peaks(name, count)
    )  # seldom is a machine faster than itself, often it is disturbed


def seconds(run: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


# Kernels.

_engines: list[Any] = []  # the code lives as long as its engine
Kernel = Callable[[int, int], None]  # (rounds or bytes, address)


@lru_cache(maxsize=32)
def _compiled(source: str, target: Target) -> Kernel:
    machine = target.machine()
    module = llvm.parse_assembly(source)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(engine.get_function_address("peak"))


def _lines(template: str, count: int, **names: Any) -> str:
    return "\n".join("  " + template.format(i=i, **names) for i in range(count))


def _total(vector: str, count: int) -> str:
    """Adds %n0 ... into %total, so that no accumulator can be thought away."""
    lines = [f"  %t0 = fadd {vector} %n0, zeroinitializer"]
    lines += [f"  %t{i} = fadd {vector} %t{i - 1}, %n{i}" for i in range(1, count)]
    return "\n".join([*lines, f"  store {vector} %t{count - 1}, ptr %p, align 4"])


def _arithmetic(declaration: str, vector: str, operand: str, operation: str, count: int) -> str:
    """A loop of `count` independent operations on registers alone."""
    return f"""
{declaration}
define void @peak(i64 %rounds, ptr %p) {{
entry:
  %x = load {operand}, ptr %p, align 4
  %second = getelementptr i8, ptr %p, i64 64
  %y = load {operand}, ptr %second, align 4
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{_lines("%a{i} = phi {vector} [zeroinitializer, %entry], [%n{i}, %loop]", count, vector=vector)}
{_lines("%n{i} = " + operation, count)}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %rounds
  br i1 %more, label %loop, label %done
done:
{_total(vector, count)}
  ret void
}}"""


def _reading(lanes: int, streams: int, ahead: int) -> str:
    """Sums `streams` equal parts of a buffer, 16 vectors a round; `ahead` bytes are prefetched, 0 for none."""
    vector, count = f"<{lanes} x float>", 16
    size, each = lanes * 4, 16 // streams
    body = []
    for stream in range(streams):
        body.append(f"  %s{stream} = mul i64 %part, {stream}\n  %o{stream} = add i64 %i, %s{stream}")
        for j in range(each):
            n = stream * each + j
            body.append(f"  %f{n} = add i64 %o{stream}, {j * size}\n  %q{n} = getelementptr i8, ptr %p, i64 %f{n}")
            if ahead and j * size % 64 == 0:
                body.append(f"  %w{n} = getelementptr i8, ptr %q{n}, i64 {ahead}")
                body.append(f"  call void @llvm.prefetch.p0(ptr %w{n}, i32 0, i32 3, i32 1)")
            body.append(f"  %v{n} = load {vector}, ptr %q{n}, align 4\n  %n{n} = fadd {vector} %a{n}, %v{n}")
    return f"""
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define void @peak(i64 %part, ptr %p) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{_lines("%a{i} = phi {vector} [zeroinitializer, %entry], [%n{i}, %loop]", count, vector=vector)}
{chr(10).join(body)}
  %next = add i64 %i, {each * size}
  %more = icmp slt i64 %next, %part
  br i1 %more, label %loop, label %done
done:
{_total(vector, count)}
  ret void
}}"""


@lru_cache(maxsize=4)
def _pool(process: int, count: int) -> ThreadPoolExecutor:
    """Helpers of this process: a child begins without them."""
    return ThreadPoolExecutor(max(1, count - 1))


def _everywhere(kernel: Kernel, first: int, buffers: list[np.ndarray[Any, Any]]) -> Callable[[], object]:
    """The kernel on every thread at once, each on a buffer of its own; the calling thread is one of them."""

    def run() -> None:
        pool = _pool(os.getpid(), len(buffers))
        waiting = [pool.submit(kernel, first, buffer.ctypes.data) for buffer in buffers[1:]]
        kernel(first, buffers[0].ctypes.data)
        for future in waiting:
            future.result()

    return run


def _accumulators(target: Target) -> int:
    """Independent chains: enough to hide the latency, few enough for the registers."""
    return 24 if target.registers >= 32 else 12


def _fma(kind: str, name: str, target: Target, threads: int) -> Peak:
    lanes, count = target.lanes(32 if kind == "float" else 64), _accumulators(target)
    vector = f"<{lanes} x {kind}>"
    # x·a + y with x < 1 stays finite; fmuladd is one instruction where there is one and no library call elsewhere.
    intrinsic = f"@llvm.fmuladd.v{lanes}f{32 if kind == 'float' else 64}"
    source = _arithmetic(
        f"declare {vector} {intrinsic}({vector}, {vector}, {vector})",
        vector,
        vector,
        f"call {vector} {intrinsic}({vector} %a{{i}}, {vector} %x, {vector} %y)",
        count,
    )
    buffers = [np.full(128, 0.5, np.float32 if kind == "float" else np.float64) for _ in range(threads)]
    run = _everywhere(_compiled(source, target), ROUNDS, buffers)
    return Peak(name, "", 2.0 * lanes * count * ROUNDS * threads, run)


def _pair(target: Target, threads: int) -> Iterator[Peak]:
    """By vectors and, where there are some, by matrix registers."""
    if not target.pairs:
        return
    if target.amx:
        yield _matrix(target, threads)
    count = _accumulators(target)
    intrinsic = "@llvm.x86.avx512bf16.dpbf16ps.512"
    source = _arithmetic(
        f"declare <16 x float> {intrinsic}(<16 x float>, <32 x bfloat>, <32 x bfloat>)",
        "<16 x float>",
        "<32 x bfloat>",
        f"call <16 x float> {intrinsic}(<16 x float> %a{{i}}, <32 x bfloat> %x, <32 x bfloat> %y)",
        count,
    )
    buffers = [np.ones(64, np.float32) for _ in range(threads)]
    run = _everywhere(_compiled(source, target), ROUNDS, buffers)
    yield Peak(PAIR, "vectors", 4.0 * 16 * count * ROUNDS * threads, run)


def _matrix(target: Target, threads: int) -> Peak:
    """Four registers of sums, each of which takes 16 × 16 × 32 products at a time."""
    declarations = [("ldtilecfg", "ptr"), ("tilezero", "i8"), ("tilerelease", ""), ("tdpbf16ps", "i8, i8, i8")]
    source = f"""
{chr(10).join(f"declare void @llvm.x86.{name}({kinds})" for name, kinds in declarations)}
define void @peak(i64 %rounds, ptr %p) {{
entry:
  call void @llvm.x86.ldtilecfg(ptr %p)
{chr(10).join(f"  call void @llvm.x86.tilezero(i8 {i})" for i in range(6))}
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{chr(10).join(f"  call void @llvm.x86.tdpbf16ps(i8 {i}, i8 4, i8 5)" for i in range(4))}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %rounds
  br i1 %more, label %loop, label %done
done:
  call void @llvm.x86.tilerelease()
  ret void
}}"""
    configuration = np.zeros(64, np.uint8)  # palette 1; 64 bytes in a row and 16 rows, for all 8 registers
    configuration[0], configuration[16:32:2], configuration[48:56] = 1, 64, 16
    rounds = ROUNDS // 4
    run = _everywhere(_compiled(source, target), rounds, [configuration] * threads)
    return Peak(PAIR, "matrix registers", 4.0 * 2 * 16 * 16 * 32 * rounds * threads, run)


def _read(target: Target, threads: int, size: int) -> Iterator[Peak]:
    buffers = [np.ones(size // 4, np.float32) for _ in range(threads)]
    # Which way of reading is fastest differs from machine to machine; every one of them is tried.
    for streams, ahead in ((1, 0), (1, 1024), (1, 4096), (4, 0), (4, 1024)):
        kernel = _compiled(_reading(target.lanes(32), streams, ahead), target)
        way = f"{streams} streams, {ahead} bytes ahead"
        yield Peak(READ, way, float(size * threads), _everywhere(kernel, size // streams, buffers))
