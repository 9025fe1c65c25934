"""Elementary functions and number formats on arrays, against NumPy in more digits; and loops and branches alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from regard.errors import TargetError
from regard.kernels import compile, target
from regard.kernels.functions import Functions
from regard.kernels.values import Function, Module, Pointer, Type, Value, Variable, f32, f64, i16, i32, i64, ptr, turn

Array = np.ndarray[Any, Any]
SETTINGS = ("host", "host, nothing fused", "x86-64-v2", "x86-64-v3", "x86-64-v4")
DTYPE = {f32: np.float32, f64: np.float64, i16: np.uint16, i32: np.int32, i64: np.int64}


def machine(setting: str) -> tuple[target.Target, Functions]:
    try:
        found = target._read("" if setting.startswith("host") else setting)
    except TargetError:
        pytest.skip(f"this machine has no {setting}")
    plain = setting.endswith("fused")
    return found, Functions(found.fused and not plain, found.half and not plain)


def built(module: Module, of: target.Target) -> Callable[..., int]:
    """A module's `run` as a function of arrays, whose addresses are the words of its job, and a number after them."""
    entry = compile._load(compile.compiled(str(module), of), of)

    def call(*arrays: Array, number: int = 0) -> int:
        job = (ctypes.c_int64 * (len(arrays) + 1))(*(x.ctypes.data for x in arrays), number)
        return int(entry(job, 0))

    return call


def beginning(module: Module) -> tuple[Function, Pointer]:
    """The public function `run(job, workspace)`, and its job as addresses."""
    f = module.function("run", [("job", ptr), ("workspace", ptr)], i64, public=True)
    return f, Pointer(f.arguments[0], ptr)


@lru_cache(maxsize=128)
def mapped(setting: str, name: str, source: Type, result: Type, *options: Any) -> Callable[[Array], Array]:
    """A function of Functions over the elements of an array."""
    of, functions = machine(setting)
    lanes = of.lanes(max(source.bits, result.bits))
    module = Module()
    f, job = beginning(module)
    given, made = Pointer(job[0], source), Pointer(job[1], result)
    with f.loop(0, job.cast(i64)[2], lanes) as i:
        made[i] = getattr(functions, name)(given.load(i, lanes), *options)
    f.give(f.constant(i64, 0))
    call = built(module, of)

    def on(x: Array) -> Array:
        padded = np.zeros(-(-len(x) // lanes) * lanes, DTYPE[source])
        padded[: len(x)] = x
        out = np.empty(len(padded), DTYPE[result])
        assert call(padded, out, number=len(padded)) == 0
        return out[: len(x)]

    return on


def distance(found: Array, exact: Array) -> float:
    """The largest error in units of the last digit of the exact value."""
    unit = np.spacing(np.abs(exact.astype(found.dtype))).astype(np.longdouble)
    return float(np.max(np.abs(found.astype(np.longdouble) - exact) / unit))


both = pytest.mark.parametrize("kind", [f32, f64], ids=["f32", "f64"])
everywhere = pytest.mark.parametrize("setting", SETTINGS)


def numbers(kind: Type, low: float, high: float, count: int = 100_003) -> Array:
    rng = np.random.default_rng(5)
    x = np.concatenate([np.linspace(low, high, count), rng.uniform(low, high, count), [low, high]])
    return x.astype(DTYPE[kind])


def long(x: Array) -> Array:
    return x.astype(np.longdouble)


def size(kind: Type) -> tuple[float, float]:
    """The smallest normal number and the exponent of the largest."""
    limits = np.finfo(DTYPE[kind])
    return float(limits.tiny), float(limits.maxexp)


def not_numbers(kind: Type) -> Array:
    """NaNs of both signs with the lowest, the highest and other payloads."""
    if kind == f32:
        bits = [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FA00000, 0x7F80FFFF]
        return np.array(bits, np.uint32).view(np.float32)
    bits = [0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, (0xFFF0 << 48) + 1, 2**63 - 1, 2**64 - 1, 0x7FF4 << 48]
    return np.array(bits, np.uint64).view(np.float64)


@everywhere
@both
class TestElementary:
    def test_exp2(self, setting: str, kind: Type) -> None:
        exp2 = mapped(setting, "exp2", kind, kind)
        lowest = -126.0 if kind == f32 else -1022.0
        x = numbers(kind, lowest, 0)
        assert distance(exp2(x), np.exp2(long(x))) <= (2.2 if kind == f32 else 4)
        whole = np.arange(lowest, 1).astype(DTYPE[kind])
        assert np.array_equal(exp2(whole), np.exp2(whole))
        assert exp2(np.array([0.0, -0.0], DTYPE[kind])).tolist() == [1.0, 1.0]
        zeros = np.array([-np.inf, lowest - 1.001, lowest - 2, -1e30, -np.finfo(DTYPE[kind]).max], DTYPE[kind])
        assert exp2(zeros).tolist() == [0.0] * len(zeros)
        between = exp2(numbers(kind, lowest - 1, lowest, 1000))
        assert np.all((between >= 0) & (between <= np.exp2(lowest) * 1.0001))

    def test_exp(self, setting: str, kind: Type) -> None:
        exp = mapped(setting, "exp", kind, kind)
        tiny, top = size(kind)
        x = np.concatenate([numbers(kind, np.log(tiny) + 0.01, top * np.log(2) - 0.01), numbers(kind, -1, 1)])
        assert distance(exp(x), np.exp(long(x))) <= 4
        # Denormal results are right to a few of the smallest steps.
        low = numbers(kind, np.log(tiny) - (15 if kind == f32 else 35), np.log(tiny), 1000)
        assert np.max(np.abs(long(exp(low)) - np.exp(long(low)))) <= 4 * np.finfo(DTYPE[kind]).smallest_subnormal
        ends = np.array([0.0, -0.0, np.inf, -np.inf, 1e5, -1e5], DTYPE[kind])
        assert exp(ends).tolist() == [1.0, 1.0, np.inf, 0.0, np.inf, 0.0]

    def test_log(self, setting: str, kind: Type) -> None:
        log = mapped(setting, "log", kind, kind)
        tiny, top = size(kind)
        limits = np.finfo(DTYPE[kind])
        steps = np.arange(1, 2000) * limits.smallest_subnormal
        x = np.concatenate(
            [
                np.exp(numbers(f64, np.log(tiny), top * 0.693)).astype(DTYPE[kind]),
                numbers(kind, 0.5, 2),
                steps.astype(DTYPE[kind]),
                np.array([tiny, limits.max, np.nextafter(DTYPE[kind](tiny), DTYPE[kind](0))], DTYPE[kind]),
            ]
        )
        exact = np.log(long(x))
        assert distance(log(x)[exact != 0], exact[exact != 0]) <= 4
        ends = np.array([1.0, 0.0, -0.0, np.inf], DTYPE[kind])
        assert log(ends).tolist() == [0.0, -np.inf, -np.inf, np.inf]
        assert np.isnan(log(np.array([-1.0, -np.inf, -limits.smallest_subnormal, -tiny], DTYPE[kind]))).all()

    def test_tanh(self, setting: str, kind: Type) -> None:
        tanh = mapped(setting, "tanh", kind, kind)
        small = np.exp(-numbers(f64, 0, 80)).astype(DTYPE[kind])
        x = np.concatenate([numbers(kind, -25, 25), small, -small])
        # Without multiply-adds that are rounded once the last digit is lost more easily.
        single = 2.2 if setting in ("host, nothing fused", "x86-64-v2") else 2.0
        assert distance(tanh(x), np.tanh(long(x))) <= (single if kind == f32 else 4)
        assert np.all(np.abs(tanh(x)) <= 1)
        ends = np.array([0.0, np.inf, -np.inf, 1e30, -1e30], DTYPE[kind])
        assert tanh(ends).tolist() == [0.0, 1.0, -1.0, 1.0, -1.0]
        assert np.signbit(tanh(np.array([-0.0], DTYPE[kind])))[0]

    def test_sigmoid(self, setting: str, kind: Type) -> None:
        sigmoid = mapped(setting, "sigmoid", kind, kind)
        x = np.concatenate([numbers(kind, np.log(size(kind)[0]) + 0.01, 100), numbers(kind, -1, 1)])
        assert distance(sigmoid(x), 1 / (1 + np.exp(-long(x)))) <= 4
        ends = np.array([0.0, np.inf, -np.inf, 1e30, -1e30], DTYPE[kind])
        assert sigmoid(ends).tolist() == [0.5, 1.0, 0.0, 1.0, 0.0]

    @pytest.mark.parametrize("name", ["exp2", "exp", "log", "tanh", "sigmoid"])
    def test_a_nan_stays_one(self, setting: str, kind: Type, name: str) -> None:
        assert np.isnan(mapped(setting, name, kind, kind)(not_numbers(kind))).all()


@everywhere
def test_coarse_exp2(setting: str) -> None:
    exp2 = mapped(setting, "exp2", f32, f32, 1.0, True)
    x = numbers(f32, -126, 0)
    exact = np.exp2(long(x))
    assert np.max(np.abs(long(exp2(x)) - exact) / exact) < 5e-6
    assert exp2(np.array([0.0, -np.inf, -128.0], np.float32)).tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(exp2(not_numbers(f32))).all()


PATTERNS = np.arange(65536, dtype=np.uint16)
FORMATS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
formats = pytest.mark.parametrize("storage", FORMATS)


@everywhere
@formats
class TestFormats:
    def test_every_pattern_widens_exactly(self, setting: str, storage: str) -> None:
        wide = mapped(setting, "widen", i16, f32, storage)(PATTERNS)
        exact = PATTERNS.view(FORMATS[storage]).astype(np.float32)
        number = ~np.isnan(exact)
        assert np.array_equal(wide[number].view(np.uint32), exact[number].view(np.uint32))
        assert np.isnan(wide[~number]).all()

    def test_every_pattern_comes_back(self, setting: str, storage: str) -> None:
        wide = PATTERNS.view(FORMATS[storage]).astype(np.float32)
        back = mapped(setting, "narrow", f32, i16, storage)(wide)
        number = ~np.isnan(wide)
        assert np.array_equal(back[number], PATTERNS[number])
        assert np.isnan(back[~number].view(FORMATS[storage]).astype(np.float32)).all()

    def test_rounding_is_to_nearest_and_ties_to_even(self, setting: str, storage: str) -> None:
        rng = np.random.default_rng(6)
        # Half way between every two neighbours, one step to either side of that, and any bits at all.
        here = PATTERNS.view(FORMATS[storage]).astype(np.float64)
        here = np.sort(here[np.isfinite(here)])
        middle = ((here[1:] + here[:-1]) / 2).astype(np.float32)
        infinite = np.float32(np.inf)
        x = np.concatenate(
            [
                middle,
                np.nextafter(middle, infinite),
                np.nextafter(middle, -infinite),
                rng.integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32),
                np.array(
                    [65504, 65519.996, 65520, 65536, 3.4e38, 3.3961e38, np.inf, 1e-45, 2**-25, 2**-24], np.float32
                ),
            ]
        )
        x = np.concatenate([x, -x])
        x = x[~np.isnan(x)]
        with np.errstate(over="ignore"):
            exact = x.astype(FORMATS[storage]).view(np.uint16)
        assert np.array_equal(mapped(setting, "narrow", f32, i16, storage)(x), exact)

    def test_a_nan_narrows_to_one(self, setting: str, storage: str) -> None:
        narrow = mapped(setting, "narrow", f32, i16, storage)(not_numbers(f32))
        assert np.isnan(narrow.view(FORMATS[storage]).astype(np.float32)).all()


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("kind", [f32, f64, i32], ids=["f32", "f64", "i32"])
def test_turning_a_square(lanes: int, kind: Type) -> None:
    module = Module()
    f, job = beginning(module)
    given, made = Pointer(job[0], kind), Pointer(job[1], kind)
    for i, row in enumerate(turn([given.load(i * lanes, lanes) for i in range(lanes)])):
        made[i * lanes] = row
    f.give(f.constant(i64, 0))
    square = np.arange(lanes * lanes, dtype=DTYPE[kind]).reshape(lanes, lanes)
    out = np.empty_like(square)
    built(module, target.host())(square, out)
    assert np.array_equal(out, square.T)


def control(write: Callable[[Function, Value, Pointer], Any]) -> Callable[[int], list[int]]:
    """A function of a number that writes whole numbers to an array."""
    module = Module()
    f, job = beginning(module)
    write(f, job.cast(i64)[1], Pointer(job[0], i64))
    f.give(f.constant(i64, 0))
    call = built(module, target.host())

    def on(number: int) -> list[int]:
        out = np.full(64, -1, np.int64)
        call(out, number=number)
        return [int(x) for x in out]

    return on


def test_a_loop_counts_as_range_does() -> None:
    for start, step in ((0, 1), (2, 1), (0, 3), (-4, 5)):

        def write(f: Function, n: Value, out: Pointer, start: int = start, step: int = step) -> None:
            count = Variable(f, f.constant(i64, 0))
            with f.loop(start, n, step) as i:
                out[count.get()] = i
                count.set(count.get() + 1)

        on = control(write)
        for n in (-7, 0, 1, 2, 3, 9, 30):
            expected = list(range(start, n, step))
            assert on(n) == expected + [-1] * (64 - len(expected))


def test_loops_and_branches_within_each_other() -> None:
    def write(f: Function, n: Value, out: Pointer) -> None:
        total = Variable(f, f.constant(i64, 0))
        with f.loop(0, n) as i, f.loop(0, i) as j, f.when(((i + j) & 1).equals(0)) as otherwise:
            with f.when(j > 2):
                total.set(total.get() + i * j)
            otherwise()
            total.set(total.get() - 1)
        out[0] = total.get()

    on = control(write)
    for n in (0, 1, 5, 11):
        pairs = [(i, j) for i in range(n) for j in range(i)]
        assert on(n)[0] == sum((i * j if j > 2 else 0) if (i + j) % 2 == 0 else -1 for i, j in pairs)


def test_when_without_otherwise() -> None:
    def write(f: Function, n: Value, out: Pointer) -> None:
        out[0] = 0
        with f.when(n > 3):
            out[0] = 1

    on = control(write)
    assert [on(n)[0] for n in (3, 4)] == [0, 1]


def test_repeat_leaves_where_it_is_told() -> None:
    def write(f: Function, n: Value, out: Pointer) -> None:
        steps, x = Variable(f, f.constant(i64, 0)), Variable(f, n)
        with f.repeat() as leave_when:
            leave_when(x.get() <= 1)
            with f.when((x.get() & 1).equals(0)) as otherwise:
                x.set(x.get() >> 1)
                otherwise()
                x.set(x.get() * 3 + 1)
            steps.set(steps.get() + 1)
            leave_when(steps.get() >= 100)
        out[0] = steps.get()

    on = control(write)
    assert [on(n)[0] for n in (1, 2, 7, 27)] == [0, 1, 16, 100]


def test_a_shared_counter_gives_each_number_once() -> None:
    import threading

    module = Module()
    f, job = beginning(module)
    counter, taken = Pointer(job[0], i64), Pointer(job[1], i64)
    with f.repeat() as leave_when:
        mine = counter.fetch_add(0, 1)
        leave_when(mine >= job.cast(i64)[2])
        taken[mine] = taken[mine] + 1
    f.give(counter.load_acquire(0))
    call = built(module, target.host())
    n, workers = 200_000, 4
    count, seen = np.zeros(1, np.int64), np.zeros(n, np.int64)
    threads = [threading.Thread(target=call, args=(count, seen), kwargs={"number": n}) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(seen, np.ones(n))
    assert count[0] == n + workers
