/* attention.c: the table of what attention needs of this level; the loops are in attention.inc. */
#include "cpu/kernels/attention.h"

#include <float.h>
#include <string.h>

#include "cpu/kernels/level.h"
#include "shared/scalar.h"

/* As gemm.c has it: TILE_VECTORS * VBYTES. */
#if defined __AVX512F__
#define PANEL_BYTES 128
#elif defined __FMA__
#define PANEL_BYTES 96
#elif defined __aarch64__
#define PANEL_BYTES 48
#else
#define PANEL_BYTES 32
#endif

#define T float
#define SUFFIX f32
#define LARGEST FLT_MAX
#define LEAST_LOG -87.0f
#include "cpu/kernels/attention.inc"
#define T double
#define SUFFIX f64
#define LARGEST DBL_MAX
#define LEAST_LOG -708.0
#include "cpu/kernels/attention.inc"

static void pairs_of_rows(uint32_t *to, const float *s, size_t rows, size_t steps)
{
    size_t p = 0;
    for (; 2 * p + 1 < rows; p++, to += W_f32, s += 2 * W_f32) {
        IVDEP
        for (size_t c = 0; c < W_f32; c++) to[c] = bf16_from_f32(s[c]) | (uint32_t)bf16_from_f32(s[W_f32 + c]) << 16;
    }
    if (rows % 2) {
        for (size_t c = 0; c < W_f32; c++) to[c] = bf16_from_f32(s[c]);
        to += W_f32;
        p++;
    }
    memset(to, 0, (steps - p) * W_f32 * sizeof *to);
}

extern const struct attention_kernels LEVEL(attention_kernels);
const struct attention_kernels LEVEL(attention_kernels) = {
    .width = { [DT_float32] = W_f32, [DT_float64] = W_f64 },
    .attend = { [DT_float32] = attend_f32, [DT_float64] = attend_f64 },
    .scale = { [DT_float32] = fade_rows_f32, [DT_float64] = fade_rows_f64 },
    .pairs = pairs_of_rows,
    .slope = { [DT_float32] = slope_f32, [DT_float64] = slope_f64 },
};
