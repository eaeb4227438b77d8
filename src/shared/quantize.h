/* quantize.h: numbers as codes of a few bits and back.
 *
 * Include shared/scalar.h before.  Codes of floating point are e2m1 (4 bits) and e4m3 (8); scales of one byte e8m0, a
 * power of two, or e4m3. */
#ifndef MX_SHARED_QUANTIZE_H
#define MX_SHARED_QUANTIZE_H

/* The scale is such that the end of the range that is farther from zero has a code of its own, and
 * zero too if it is inside; with one bit the two ends are the codes. */
FN void affine_scale(float low, float high, int bits, float *scale, float *bias)
{
    float codes = (float)((1 << bits) - 1), width = (high - low) / codes;
    float step = width > 1e-7f ? width : 1e-7f;
    int below = (low < 0 ? -low : low) > (high < 0 ? -high : high);
    float edge = below ? low : high;
    if (bits == 1) {
        *scale = step, *bias = low;
        return;
    }
    step = below ? step : -step;
    float steps = __builtin_rintf(edge / step);
    *scale = steps != 0 ? edge / steps : step;
    *bias = steps != 0 ? edge : 0;
}

/* The code in the low byte; most: the greatest one. */
FN uint32_t affine_of(float x, float scale, float bias, float most)
{
    float v = (x - bias) / scale;
    v = v > 0 ? v : 0;
    v = v < most ? v : most;
    return bits_f32(v + 12582912.0f); /* 1.5 * 2^23: rounded to even in the low bits */
}

/* The nearest e4m3, ties to even; what is larger than 448 becomes that, NaN stays NaN.  The least
 * numbers are rounded by adding 2^14, whose last place is the least e4m3. */
FN uint32_t e4m3_of(float x)
{
    uint32_t u = bits_f32(x), sign = u >> 24 & 0x80, a = u & 0x7fffffff;
    a = a < 0x43e00000 ? a : 0x43e00000;
    uint32_t tiny = bits_f32(f32_bits(a) + 16384.0f) - 0x46800000;
    uint32_t normal = (a + 0x7ffff + (a >> 20 & 1) - (120u << 23)) >> 20;
    return sign | (x != x ? 0x7f : a < 0x3c800000 ? tiny : normal);
}

/* Moved into the place of a float's bits it is the number times 2^-120, subnormals included; all ones is NaN. */
FN float f32_from_e4m3(uint32_t e)
{
    float size = f32_bits((e & 0x7f) << 20) * f32_bits(247u << 23);
    return f32_bits((e & 0x7f) == 0x7f ? 0x7fc00000 : bits_f32(size) | (e & 0x80) << 24);
}

/* The nearest e2m1, ties toward zero, of which there is one. */
FN uint32_t e2m1_of(float x)
{
    float a = x < 0 ? -x : x;
    uint32_t size = (uint32_t)((a > .25f) + (a > .75f) + (a > 1.25f) + (a > 1.75f) + (a > 2.5f) + (a > 3.5f) + (a > 5));
    return size | (uint32_t)(size && x < 0) << 3;
}

/* Likewise, from 2^-126 on, of which the one subnormal is a half. */
FN float f32_from_e2m1(uint32_t e) { return f32_bits((e & 7) << 22 | (e & 8) << 28) * f32_bits(253u << 23); }

/* The least power of two that is no less than x >= 0, as an e8m0; zero has 1. */
FN uint8_t e8m0_of(float x)
{
    uint32_t u = bits_f32(x);
    if (u == 0)
        return 127;
    if (u < 0x00800000)
        return u > 0x00400000;
    return (uint8_t)((u >> 23) + ((u & 0x7fffff) != 0));
}

/* Powers of two from 2^-127 on; the last is NaN. */
FN float f32_from_e8m0(uint32_t e) { return f32_bits(e == 0 ? 0x00400000u : e == 255 ? 0x7fc00000u : e << 23); }

#endif
