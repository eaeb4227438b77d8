/* quantize_pack.c: numbers into groups of codes, at one instruction-set level. */
#include "cpu/kernels/level.h"

#include "cpu/kernels/quantize.h"
#include "shared/scalar.h"

#include "shared/quantize.h"

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

static void pack_words(int bits, void *w, const uint8_t *codes, int n)
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
static bool least_and_most(const float *x, int n, float *low, float *high)
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

void LEVEL(quantize_affine)(uint32_t *w, float *scales, float *biases, const float *x, int64_t groups, int group,
                            int bits)
{
    for (int64_t g = 0; g < groups; g++, x += group, w += group * bits / 32) {
        uint8_t codes[LONGEST];
        float low, high, most = (float)((1 << bits) - 1), scale, bias;
        if (!least_and_most(x, group, &low, &high)) {
            scales[g] = biases[g] = __builtin_nanf("");
            memset(w, 0, (size_t)(group * bits / 8));
            continue;
        }
        affine_scale(low, high, bits, &scale, &bias);
        EACH_CODE(affine_of(x[i + l], scale, bias, most))
        pack_words(bits, w, codes, group);
        scales[g] = scale, biases[g] = bias;
    }
}

void LEVEL(to_e4m3)(uint8_t *y, const float *x, int64_t n)
{
    IVDEP for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)e4m3_of(x[i]);
}

void LEVEL(quantize_floating)(uint32_t *w, uint8_t *scales, const float *x, int64_t groups, int group, int bits,
                              bool nv, float factor)
{
    float largest = bits == 4 ? 6 : 448;
    for (int64_t g = 0; g < groups; g++, x += group, w += group * bits / 32) {
        uint8_t codes[LONGEST];
        float low, high, scale;
        if (!least_and_most(x, group, &low, &high)) {
            scales[g] = nv ? 0x7f : 0xff; /* NaN */
            memset(w, 0, (size_t)(group * bits / 8));
            continue;
        }
        float most = -low > high ? -low : high;
        if (nv) {
            scales[g] = (uint8_t)e4m3_of(most / largest / factor);
            scale = f32_from_e4m3(scales[g]) * factor;
        } else {
            scales[g] = e8m0_of(most / largest);
            scale = f32_from_e8m0(scales[g]);
        }
        if (scale == 0)
            memset(codes, 0, sizeof codes);
        else if (bits == 4)
            EACH_CODE(e2m1_of(x[i + l] / scale))
        else
            EACH_CODE(e4m3_of(x[i + l] / scale))
        pack_words(bits, w, codes, group);
    }
}
