"""Elementary functions on lanes: exp2, exp, log, tanh, sigmoid, and the roundings between number formats.

All of them keep a NaN a NaN and follow IEEE at infinity. Coefficients are those of the series, but for exp2 in f32,
where a minimax polynomial with its constant fixed at 1 makes exp2(0) exactly 1.
"""

from __future__ import annotations

import math

from regard.kernels.values import Operand, Value, f16, f32, fma, i16, i32, i64, larger, select, smaller, unary

LN2 = math.log(2)
LOG2E = 1 / LN2
# ln 2 in two parts for f32 and f64, the first so short that a whole number times it is exact.
LN2_PARTS = {32: (0.693359375, -2.121944400546905827679e-4), 64: (0.693145751953125, 1.42860682030941723212e-6)}

# exp2 on [-1/2, 1/2]: relative error 9e-8 (six terms) and 3e-6 (five, where the result is rounded to bf16 anyway).
EXP2_F32 = (1.0, 0.69314698, 0.24022242, 0.05550734, 0.00967151, 0.00132647)
EXP2_COARSE = (1.0, 0.69312418, 0.24024099, 0.05590643, 0.00958285)
# 1/y from 1 to 2: (1 - T(2y - 3)/T(-3))/y with the Chebyshev polynomial T of degree 3.
RECIPROCAL = (70 / 33, -16 / 11, 32 / 99)
# ((1 - e^(-2s))/2 - s)/s² for |s| ≤ ln 2/4, times s right to 2e-8; and its series, whose next term is below 2e-17.
TANH_F32 = (-1.000000012, 0.6666617116, -0.3333302519, 0.1338657753, -0.04462876874)
TANH_F64 = tuple((-1) ** (k + 1) * 2.0 ** (k - 1) / math.factorial(k) for k in range(2, 16))
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

    def split(self, x: Value, rate: Operand = 1.0, spare: int = 0) -> tuple[Value, Value, Value]:
        """x·rate = n + f with n whole and |f| ≤ 1/2: n, f, and 2^(n - spare), which is 0 where n - spare < -126.

        Adding 1.5·2²³ rounds to a whole number in the low bits of the sum, and the exponent's bias on top of that
        makes those bits the exponent. The product is never rounded by itself where multiply-adds are fused. For f64
        read 2⁵² and -1022.
        """
        half_bits, bias = (23, 127 - spare) if x.type.bits == 32 else (52, 1023 - spare)
        integer = (i32 if x.type.bits == 32 else i64).of(x.type.lanes)
        magic = x.function.constant(x.type, 1.5 * 2.0**half_bits + bias)
        lowest = x.function.constant(x.type.scalar, float(-bias))
        if isinstance(rate, Value):
            x = larger((lowest / rate).splat(x.type.lanes), x)  # keeps NaN: larger() gives its second argument then
            rate = rate.splat(x.type.lanes)
            shifted = self.fma(x, rate, magic)
            n = shifted - magic
            f = self.fma(x, rate, -n)
        else:
            assert rate == 1.0
            x = larger(lowest.splat(x.type.lanes), x)
            shifted = x + magic
            n = shifted - magic
            f = x - n
        return n, f, (shifted.bits(integer) << half_bits).bits(x.type)

    def exp2(self, x: Value, rate: Operand = 1.0, coarse: bool = False, spare: int = 0) -> Value:
        """2^(x·rate) for x ≤ 0, and a rate above 0 that is the same in all lanes.

        Exactly 1 at 0, NaN at NaN, and exactly 0 where the exponent is -126.5 + spare (f64: -1022.5 + spare) or less.
        """
        _, f, scale = self.split(x, rate, spare)
        series = EXP2_F64 if x.type.bits == 64 else EXP2_COARSE if coarse else EXP2_F32
        # A product, not an addition of exponents, so that a NaN stays one whatever its payload.
        return self.polynomial(f, tuple(2.0**spare * c for c in series)) * scale

    def _reduced(self, x: Value) -> tuple[Value, Value]:
        """eˣ = 2ⁿ·(1 + y): gives 2ⁿ and y, for x that does not overflow."""
        n, _, scale = self.split(x * LOG2E)
        high, low = LN2_PARTS[x.type.bits]
        f = x.function
        r = self.fma(n, f.constant(x.type, -high), x)
        r = self.fma(n, f.constant(x.type, -low), r)
        # (eʳ - 1) = r + r²·(1/2 + r/6 …): the first term, added last, is never rounded by itself. |r| ≤ 0.347, so the
        # terms left out are below 2e-8 (f64: 5e-18).
        terms = 7 if x.type.bits == 32 else 14
        series = tuple(1 / math.factorial(k + 1) for k in range(1, terms))
        return scale, self.fma(r * r, self.polynomial(r, series), r)

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
        """tanh x = m/(2 - m) with m = 1 - e^(-2|x|), which loses nothing near 0; the sign is that of x.

        e^(-2|x|) = 2ⁿ·e^(-2s) with |s| ≤ ln 2/4, and 1 - e^(-2s) = 2·(s + s²·q(s)). Right to 2 units of the last digit.
        """
        f, wide = x.function, x.type.bits == 64
        half_bits, bias, integer = (52, 1023, i64) if wide else (23, 127, i32)
        cut = 20.0 if wide else 10.0  # tanh is 1 to the last digit
        size = smaller(f.constant(x.type, cut), unary("fabs", x))  # keeps NaN
        magic = f.constant(x.type, 1.5 * 2.0**half_bits + bias)  # see `split`
        shifted = self.fma(size, f.constant(x.type, -2 * LOG2E), magic)
        n = shifted - magic
        scale = (shifted.bits(integer.of(x.type.lanes)) << half_bits).bits(x.type)
        high, low = (part / 2 for part in LN2_PARTS[x.type.bits])
        s = self.fma(n, f.constant(x.type, low), self.fma(n, f.constant(x.type, high), size))
        z = self.fma(s * s, self.polynomial(s, TANH_F64 if wide else TANH_F32), s)
        m = self.fma(z, scale + scale, 1.0 - scale)
        below = 2.0 - m
        value = self.quotient(m, below, (2.0 - below) - m)
        return f.call(f"llvm.copysign.{x.type.code}", [value, x], x.type)

    def quotient(self, x: Value, y: Value, rest: Value) -> Value:
        """x/(y + rest) for y from 1 to 2, `rest` being what was rounded off y. Division keeps a core busy for long, and
        where sums are fused it can be done without.

        1/y by a parabola that is right to 1e-2, and r·(1 + e) with e = 1 - r·y, which leaves e², 1e-4; what the
        quotient leaves over squares that once more and puts its last digit right.
        """
        if y.type.bits == 64:
            return x / y
        if not self.fused:
            return (x - x / y * rest) / y
        r = self.polynomial(y, RECIPROCAL)
        r = self.fma(r, self.fma(-y, r, y.function.constant(y.type, 1.0)), r)
        first = x * r
        return self.fma(self.fma(-first, rest, self.fma(-first, y, x)), r, first)

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
