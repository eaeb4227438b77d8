/* quantize_pack.c: numbers into groups of codes, at one instruction-set level. */
#include "cpu/kernels/quantize.h"

#include "cpu/kernels/level.h"
#include "shared/scalar.h"

enum { LONGEST = 128, LANES = 16 };

/* Codes of `bits` bits each, lowest first: 8 of them are that many bytes. */
TEMPLATE void pack_codes(const int bits, uint8_t *w, const uint8_t *codes, int n)
{
    for (int i = 0; i < n; i += 8, w += bits) {
        uint64_t all = 0;
        for (int j = 0; j < 8; j++) all |= (uint64_t)codes[i + j] << (j * bits);
        memcpy(w, &all, (size_t)bits);
    }
}

static void pack(int bits, void *w, const uint8_t *codes, int n)
{
    switch (bits) {
    case 1: pack_codes(1, w, codes, n); break;
    case 2: pack_codes(2, w, codes, n); break;
    case 3: pack_codes(3, w, codes, n); break;
    case 4: pack_codes(4, w, codes, n); break;
    case 5: pack_codes(5, w, codes, n); break;
    case 6: pack_codes(6, w, codes, n); break;
    default: memcpy(w, codes, (size_t)n);
    }
}

/* Least and greatest of n numbers, n a multiple of 16; false if one of them is not finite. */
static bool range(const float *x, int n, float *low, float *high)
{
    float least[LANES], most[LANES];
    uint32_t bad[LANES] = { 0 };
    for (int l = 0; l < LANES; l++) least[l] = most[l] = x[l];
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float v = x[i + l];
            least[l] = v < least[l] ? v : least[l];
            most[l] = v > most[l] ? v : most[l];
            bad[l] |= (bits_f32(v) & 0x7f800000) == 0x7f800000;
        }
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++) {
            least[l] = least[l + half] < least[l] ? least[l + half] : least[l];
            most[l] = most[l + half] > most[l] ? most[l + half] : most[l];
            bad[l] |= bad[l + half];
        }
    *low = least[0], *high = most[0];
    return !bad[0];
}

/* codes[i] of a group, computed in vectors of a fixed length and narrowed afterwards. */
#define EACH_CODE(value)                                                 \
    for (int i = 0; i < group; i += LANES) {                             \
        uint32_t wide[LANES];                                            \
        for (int l = 0; l < LANES; l++) wide[l] = value;                 \
        for (int l = 0; l < LANES; l++) codes[i + l] = (uint8_t)wide[l]; \
    }

/* The scale is such that the end of the range that is farther from zero has a code of its own, and
 * zero too if it is inside; with one bit the two ends are the codes. */
static void affine_scale(float low, float high, int bits, float *scale, float *bias)
{
    float codes = (float)((1 << bits) - 1), width = (high - low) / codes;
    float step = width > 1e-7f ? width : 1e-7f;
    bool below = (low < 0 ? -low : low) > (high < 0 ? -high : high);
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

TEMPLATE uint32_t affine_of(float x, float scale, float bias, float most)
{
    float v = (x - bias) / scale;
    v = v > 0 ? v : 0;
    v = v < most ? v : most;
    return bits_f32(v + 0x1.8p23f); /* rounded to even in the low bits */
}

void LEVEL(quantize_affine)(uint32_t *w, float *scales, float *biases, const float *x, int64_t groups, int group,
                            int bits);
void LEVEL(quantize_affine)(uint32_t *w, float *scales, float *biases, const float *x, int64_t groups, int group,
                            int bits)
{
    for (int64_t g = 0; g < groups; g++, x += group, w += group * bits / 32) {
        uint8_t codes[LONGEST];
        float low, high, most = (float)((1 << bits) - 1), scale, bias;
        if (!range(x, group, &low, &high)) {
            scales[g] = biases[g] = __builtin_nanf("");
            memset(w, 0, (size_t)(group * bits / 8));
            continue;
        }
        affine_scale(low, high, bits, &scale, &bias);
        EACH_CODE(affine_of(x[i + l], scale, bias, most))
        pack(bits, w, codes, group);
        scales[g] = scale, biases[g] = bias;
    }
}

/* The nearest e4m3, ties to even; what is larger than 448 becomes that, NaN stays NaN.  The least
 * numbers are rounded by adding 2^14, whose last place is the least e4m3. */
TEMPLATE uint32_t e4m3_of(float x)
{
    uint32_t u = bits_f32(x), sign = u >> 24 & 0x80, a = u & 0x7fffffff;
    a = a < 0x43e00000 ? a : 0x43e00000;
    uint32_t tiny = bits_f32(f32_bits(a) + 0x1p14f) - bits_f32(0x1p14f);
    uint32_t normal = (a + 0x7ffff + (a >> 20 & 1) - (120u << 23)) >> 20;
    return sign | (x != x ? 0x7f : a < 0x3c800000 ? tiny : normal);
}

void LEVEL(to_e4m3)(uint8_t *y, const float *x, int64_t n);
void LEVEL(to_e4m3)(uint8_t *y, const float *x, int64_t n)
{
    IVDEP for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)e4m3_of(x[i]);
}

TEMPLATE float from_e4m3(uint32_t e)
{
    float size = f32_bits((e & 0x7f) << 20) * 0x1p120f;
    return (e & 0x7f) == 0x7f ? __builtin_nanf("") : e & 0x80 ? -size : size;
}

/* The nearest e2m1, ties toward zero, of which there is one. */
TEMPLATE uint32_t e2m1_of(float x)
{
    float a = x < 0 ? -x : x;
    uint32_t size = (uint32_t)((a > .25f) + (a > .75f) + (a > 1.25f) + (a > 1.75f) + (a > 2.5f) + (a > 3.5f) + (a > 5));
    return size | (uint32_t)(size && x < 0) << 3;
}

/* The least power of two that is no less than x >= 0, as an e8m0; zero has 1. */
TEMPLATE uint8_t e8m0_of(float x)
{
    uint32_t u = bits_f32(x);
    if (u == 0)
        return 127;
    if (u < 0x00800000)
        return u > 0x00400000;
    return (uint8_t)((u >> 23) + ((u & 0x7fffff) != 0));
}

void LEVEL(quantize_floating)(uint32_t *w, uint8_t *scales, const float *x, int64_t groups, int group, int bits,
                              bool nv, float factor);
void LEVEL(quantize_floating)(uint32_t *w, uint8_t *scales, const float *x, int64_t groups, int group, int bits,
                              bool nv, float factor)
{
    float largest = bits == 4 ? 6 : 448;
    for (int64_t g = 0; g < groups; g++, x += group, w += group * bits / 32) {
        uint8_t codes[LONGEST];
        float low, high, scale;
        if (!range(x, group, &low, &high)) {
            scales[g] = nv ? 0x7f : 0xff; /* NaN */
            memset(w, 0, (size_t)(group * bits / 8));
            continue;
        }
        float most = -low > high ? -low : high;
        if (nv) {
            scales[g] = (uint8_t)e4m3_of(most / largest / factor);
            scale = from_e4m3(scales[g]) * factor;
        } else {
            scales[g] = e8m0_of(most / largest);
            scale = scales[g] ? f32_bits((uint32_t)scales[g] << 23) : 0x1p-127f;
        }
        if (scale == 0)
            memset(codes, 0, sizeof codes);
        else if (bits == 4)
            EACH_CODE(e2m1_of(x[i + l] / scale))
        else
            EACH_CODE(e4m3_of(x[i + l] / scale))
        pack(bits, w, codes, group);
    }
}
