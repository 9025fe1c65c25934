"""Elementary functions on lanes: exp2, exp, log, tanh, sigmoid, and the roundings between number formats.

All of them keep a NaN a NaN and follow IEEE at infinity. Coefficients are those of the series, but for exp2 in f32,
where a minimax polynomial with its constant fixed at 1 makes exp2(0) exactly 1.
"""

from __future__ import annotations

import math

from regard.kernels.values import Value, f16, f32, fma, i16, i32, i64, larger, select, smaller, unary

LN2 = math.log(2)
LOG2E = 1 / LN2
# ln 2 in two parts for f32 and f64, the first so short that a whole number times it is exact.
LN2_PARTS = {32: (0.693359375, -2.121944400546905827679e-4), 64: (0.693145751953125, 1.42860682030941723212e-6)}

# exp2 on [-1/2, 1/2]: relative error 9e-8 (six terms) and 3e-6 (five, where the result is rounded to bf16 anyway).
EXP2_F32 = (1.0, 0.69314698, 0.24022242, 0.05550734, 0.00967151, 0.00132647)
EXP2_COARSE = (1.0, 0.69312418, 0.24024099, 0.05590643, 0.00958285)
# The Taylor series: term 14 is below 2e-17.
EXP2_F64 = tuple(LN2**k / math.factorial(k) for k in range(14))


class Functions:
    """Elementary functions for machines with or without fused multiply-add."""

    def __init__(self, fused: bool, half: bool = True):
        self.fused, self.half = fused, half

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return fma(a, b, c, self.fused)

    def polynomial(self, x: Value, coefficients: tuple[float, ...]) -> Value:
        """c0 + c1·x + c2·x² + …, by Horner."""
        f, total = x.function, x.function.constant(x.type, coefficients[-1])
        for c in coefficients[-2::-1]:
            total = self.fma(total, x, f.constant(x.type, c))
        return total

    def split(self, x: Value) -> tuple[Value, Value, Value]:
        """x = n + f with n whole and |f| ≤ 1/2: n, f, and 2ⁿ, which is 0 from n = -127 (f64: -1023) down.

        Adding 1.5·2²³ rounds x to a whole number in the low bits of the sum, and the exponent's bias on top of that
        makes those bits the exponent of 2ⁿ.
        """
        half_bits, bias = (23, 127) if x.type.bits == 32 else (52, 1023)
        integer = (i32 if x.type.bits == 32 else i64).of(x.type.lanes)
        magic = 1.5 * 2.0**half_bits + bias
        # The clamp keeps NaN: larger() gives its second argument then.
        x = larger(x.function.constant(x.type, float(-bias)), x)
        shifted = x + magic
        n = shifted - magic
        return n, x - n, (shifted.bits(integer) << half_bits).bits(x.type)

    def exp2(self, x: Value, coarse: bool = False) -> Value:
        """2ˣ for x ≤ 0: exactly 1 at 0, exactly 0 from -126.5 (f64: -1022.5) down, NaN at NaN."""
        _, f, scale = self.split(x)
        series = EXP2_F64 if x.type.bits == 64 else EXP2_COARSE if coarse else EXP2_F32
        # A product, not an addition of exponents, so that a NaN stays one whatever its payload.
        return self.polynomial(f, series) * scale

    def _reduced(self, x: Value) -> tuple[Value, Value]:
        """eˣ = 2ⁿ·(1 + y): gives 2ⁿ and y, for x that does not overflow."""
        n, _, scale = self.split(x * LOG2E)
        high, low = LN2_PARTS[x.type.bits]
        f = x.function
        r = self.fma(n, f.constant(x.type, -high), x)
        r = self.fma(n, f.constant(x.type, -low), r)
        # (eʳ - 1) = r·(1 + r/2 + r²/6 …): the first term kept apart keeps small numbers exact.
        terms = 8 if x.type.bits == 32 else 14
        series = tuple(1 / math.factorial(k + 1) for k in range(terms))
        return scale, r * self.polynomial(r, series)

    def exp(self, x: Value) -> Value:
        """eˣ."""
        top = 88.0 if x.type.bits == 32 else 709.0
        bottom = -87.0 if x.type.bits == 32 else -708.0
        f = x.function
        clamped = smaller(f.constant(x.type, top), larger(f.constant(x.type, bottom), x))
        scale, y = self._reduced(clamped)
        # Beyond the clamp the last factor e^(x - clamp) is at most a few units, or the result is 0 or infinite.
        value = self.fma(scale, y, scale)
        rest = smaller(f.constant(x.type, 4.0), larger(f.constant(x.type, -40.0), x - clamped))
        far_scale, far = self._reduced(rest)
        value = select((x - clamped).differs(0.0), value * self.fma(far_scale, far, far_scale), value)
        value = select(x.equals(float("-inf")), 0.0, value)
        value = select(x > top + 2, float("inf"), value)
        return select(x.differs(x), x, value)

    def tanh(self, x: Value) -> Value:
        """tanh x = -t/(t + 2) with t = e^(-2|x|) - 1, which loses nothing near 0; the sign is that of x."""
        f = x.function
        size = unary("fabs", x)
        cut = 10.0 if x.type.bits == 32 else 20.0  # tanh is 1 to the last digit
        size = select(size > cut, cut, size)
        scale, y = self._reduced(size * -2.0)
        t = self.fma(scale, y, scale - 1.0)
        value = -t / (t + 2.0)
        name = f"llvm.copysign.{x.type.code}"
        return f.call(name, [value, x], x.type)

    def sigmoid(self, x: Value) -> Value:
        """1/(1 + e^-x), from e^-|x| so that nothing overflows."""
        e = self.exp(-unary("fabs", x))
        return select(x < 0.0, e, 1.0) / (e + 1.0)

    def log(self, x: Value) -> Value:
        """ln x: x = m·2ᵉ with m between √½ and √2, and ln m = 2·artanh((m - 1)/(m + 1))."""
        wide = x.type.bits == 64
        integer = (i64 if wide else i32).of(x.type.lanes)
        mantissa = 52 if wide else 23
        smallest = 2.0**-1022 if wide else 2.0**-126
        f = x.function
        tiny = x < smallest  # a denormal is scaled up first
        bits = select(tiny, x * 2.0**mantissa, x).bits(integer)
        # Subtracting the bits of √½ puts the carry into the exponent where the mantissa passes √2.
        root = 0x3FE6A09E667F3BCD if wide else 0x3F3504F3
        e = (bits - root) >> mantissa
        m = (bits - (e << mantissa)).bits(x.type)
        e = e.to(x.type.scalar) - select(tiny, f.constant(x.type, float(mantissa)), 0.0)
        z = (m - 1.0) / (m + 1.0)
        terms = 12 if wide else 6
        series = tuple(2 / (2 * k + 1) for k in range(terms))
        high, low = LN2_PARTS[x.type.bits]
        small = self.fma(e, f.constant(x.type, low), z * self.polynomial(z * z, series))
        value = self.fma(e, f.constant(x.type, high), small)
        value = select(x.equals(0.0), float("-inf"), value)
        value = select(x.equals(float("inf")), float("inf"), value)
        return select(x < 0.0, float("nan"), select(x.differs(x), x, value))

    # Number formats. bf16 and f16 travel as 16-bit integers.

    def widen(self, x: Value, storage: str) -> Value:
        """A bf16 or f16, as its bits, as an f32."""
        wide = i32.of(x.type.lanes)
        single = f32.of(x.type.lanes)
        if storage == "bf16":
            return (x.to(i32, signed=False) << 16).bits(single)
        # One f16 alone is converted by hand: LLVM would load four bytes for it, two of which may not be ours.
        if self.half and x.type.lanes > 1:
            half = x.bits(f16.of(x.type.lanes))
            return half.to(f32)
        bits = x.to(i32, signed=False)
        size = (bits & 0x7FFF) << 13
        # Exponent and mantissa sit 2^112 too low; a product puts them right, denormals included.
        value = (size.bits(single) * 2.0**112).bits(wide)
        special = (bits & 0x7C00).equals(0x7C00)
        value = select(special, size | 0x7F800000, value)
        return (value | ((bits & 0x8000) << 16)).bits(single)

    def narrow(self, x: Value, storage: str) -> Value:
        """An f32 as the bits of the nearest bf16 or f16, ties to even."""
        lanes = x.type.lanes
        bits = x.bits(i32.of(lanes))
        if storage == "bf16":
            rounded = bits + ((bits.lshr(16) & 1) + 0x7FFF)
            quiet = bits | 0x400000  # a NaN must not round up to infinity or over the top
            return select(x.differs(x), quiet, rounded).lshr(16).to(i16)
        if self.half:
            return x.to(f16).bits(i16.of(lanes))
        sign, size = bits.lshr(16) & 0x8000, bits & 0x7FFFFFFF
        normal = (size - (112 << 23) + ((size.lshr(13) & 1) + 0xFFF)).lshr(13)
        # Below 2^-14 adding ½ lines the result up in the low bits, and the addition rounds.
        small = (size.bits(f32.of(lanes)) + 0.5).bits(i32.of(lanes)) - 0x3F000000
        value = select(size < 0x38800000, small, normal)
        value = select(size >= 0x477FF000, 0x7C00, value)  # 65520 and more
        value = select(size > 0x7F800000, (size.lshr(13) & 0x3FF) | 0x7E00, value)
        return (value | sign).to(i16)
