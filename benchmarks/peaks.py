"""What this machine can do at most: FMA, pair products and memory reads per second, by small kernels of ours.

Each kernel is LLVM text made for the host. It does nothing but the one thing it measures, on `THREADS` threads. The
peaks take part in the rounds of every work, so that a share is always of the peak the machine had just then.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from regard.kernels.target import host as machine

from . import THREADS

FMA, PAIR, READ = "FMA peak", "pair peak", "read rate"
UNITS = {FMA: "GF/s", PAIR: "GF/s", READ: "GB/s"}

READ_BYTES = 256 << 20  # per thread: far more than any cache holds
ROUNDS = 5_000_000  # of the arithmetic kernels: some 25 ms at 500 GF/s


@dataclass(frozen=True)
class Peak:
    """One call of `run` does `amount` units of work (operations or bytes)."""

    name: str  # FMA, PAIR or READ
    way: str
    amount: float
    run: Callable[[], object]


@dataclass(frozen=True)
class Host:
    """What the kernels need to know of the processor."""

    lanes: int  # of 32 bits in a vector register
    accumulators: int  # independent chains: enough to hide the latency, few enough for the registers
    pairs: bool  # vdpbf16ps on 512 bits


@cache
def host() -> Host:
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return Host(16, 24, bool(features.get("avx512bf16")))
    if features.get("fma"):
        return Host(8, 12, False)
    return Host(4, 24 if platform.machine() in ("arm64", "aarch64") else 12, False)


_engines: list[Any] = []  # the code lives as long as its engine


def _compile(source: str, name: str, *arguments: Any) -> Callable[..., None]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    module = llvm.parse_assembly(source)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    return ctypes.CFUNCTYPE(None, *arguments)(engine.get_function_address(name))


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


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS - 1)


def _everywhere(kernel: Callable[..., None], first: int, buffers: list[np.ndarray]) -> Callable[[], object]:
    """The kernel on every thread at once, each on a buffer of its own; the calling thread is one of them."""

    def run() -> None:
        waiting = [_pool().submit(kernel, first, buffer.ctypes.data) for buffer in buffers[1:]]
        kernel(first, buffers[0].ctypes.data)
        for future in waiting:
            future.result()

    return run


def _fma() -> Iterator[Peak]:
    lanes, count = host().lanes, host().accumulators
    vector = f"<{lanes} x float>"
    # x·a + y with x < 1 stays finite; fmuladd is one instruction where there is one and no library call elsewhere.
    intrinsic = f"@llvm.fmuladd.v{lanes}f32"
    source = _arithmetic(
        f"declare {vector} {intrinsic}({vector}, {vector}, {vector})",
        vector,
        vector,
        f"call {vector} {intrinsic}({vector} %a{{i}}, {vector} %x, {vector} %y)",
        count,
    )
    kernel = _compile(source, "peak", ctypes.c_int64, ctypes.c_void_p)
    buffers = [np.full(64, 0.5, np.float32) for _ in range(THREADS)]
    yield Peak(FMA, "", 2.0 * lanes * count * ROUNDS * THREADS, _everywhere(kernel, ROUNDS, buffers))


def _pair() -> Iterator[Peak]:
    """By vectors and, where there are some, by matrix registers."""
    if not host().pairs:
        return
    if machine().amx:
        yield _matrix()
    count = host().accumulators
    intrinsic = "@llvm.x86.avx512bf16.dpbf16ps.512"
    source = _arithmetic(
        f"declare <16 x float> {intrinsic}(<16 x float>, <32 x bfloat>, <32 x bfloat>)",
        "<16 x float>",
        "<32 x bfloat>",
        f"call <16 x float> {intrinsic}(<16 x float> %a{{i}}, <32 x bfloat> %x, <32 x bfloat> %y)",
        count,
    )
    kernel = _compile(source, "peak", ctypes.c_int64, ctypes.c_void_p)
    buffers = [np.ones(64, np.float32) for _ in range(THREADS)]
    yield Peak(PAIR, "vectors", 4.0 * 16 * count * ROUNDS * THREADS, _everywhere(kernel, ROUNDS, buffers))


def _matrix() -> Peak:
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
    kernel = _compile(source, "peak", ctypes.c_int64, ctypes.c_void_p)
    configuration = np.zeros(64, np.uint8)  # palette 1; 64 bytes in a row and 16 rows, for all 8 registers
    configuration[0], configuration[16:32:2], configuration[48:56] = 1, 64, 16
    rounds = ROUNDS // 4
    amount = 4.0 * 2 * 16 * 16 * 32 * rounds * THREADS
    return Peak(PAIR, "matrix registers", amount, _everywhere(kernel, rounds, [configuration] * THREADS))


def _read() -> Iterator[Peak]:
    buffers = [np.ones(READ_BYTES // 4, np.float32) for _ in range(THREADS)]
    # Which way of reading is fastest differs from machine to machine; every one of them is tried in every round.
    for streams, ahead in ((1, 0), (1, 1024), (1, 4096), (4, 0), (4, 1024)):
        kernel = _compile(_reading(host().lanes, streams, ahead), "peak", ctypes.c_int64, ctypes.c_void_p)
        way = f"{streams} streams, {ahead} bytes ahead"
        yield Peak(READ, way, float(READ_BYTES * THREADS), _everywhere(kernel, READ_BYTES // streams, buffers))


@cache
def peaks(name: str) -> tuple[Peak, ...]:
    """The ways of measuring a peak; none where the machine has no such instruction."""
    return tuple({FMA: _fma, PAIR: _pair, READ: _read}[name]())
