/* gemm.c: matrix products of one instruction-set level.
 *
 * The register tile is MR rows by NV vectors of C: per step of k it takes NV loads of B and MR
 * broadcasts of A for MR * NV fused multiply-adds, and has enough independent sums to hide their
 * latency.  Convolutions, whose operands are not panels, take PIXELS_BY_1 and PIXELS_BY_2 rows of one and two vectors,
 * for as many sums.  gemm.inc is included once per real type, gemm_conv.inc within it,
 * gemm_complex.inc for complex64, gemm_pairs.inc and gemm_tiles.inc for bfloat16 as it is stored, gemv.inc once for
 * each type that matrices are stored in. */
#include "cpu/kernels/gemm.h"

#include "cpu/kernels/level.h"

/* MADD(acc, v, s): acc + v * s with one rounding where the processor has it, s a scalar; VMADD: s a
 * vector.  `(vector){} + s` would broadcast slowly. */
#if defined __AVX512F__
#include <immintrin.h>
enum { VBYTES = 64 };
#define TILE_ROWS 12
#define TILE_VECTORS 2
#define PIXELS_BY_1 12
#define PIXELS_BY_2 12
#define COMPLEX_ROWS 4
#define COMPLEX_VECTORS 2
#define MADD_f32(acc, v, s) _mm512_fmadd_ps(_mm512_set1_ps(s), v, acc)
#define MADD_f64(acc, v, s) _mm512_fmadd_pd(_mm512_set1_pd(s), v, acc)
#define VMADD_f32(acc, v, w) _mm512_fmadd_ps(v, w, acc)
#define VMADD_f64(acc, v, w) _mm512_fmadd_pd(v, w, acc)
#define MSUB_f32(acc, v, s) _mm512_fnmadd_ps(_mm512_set1_ps(s), v, acc)
#elif defined __FMA__
#include <immintrin.h>
enum { VBYTES = 32 };
#define TILE_ROWS 4
#define TILE_VECTORS 3
#define PIXELS_BY_1 12
#define PIXELS_BY_2 6
#define COMPLEX_ROWS 2
#define COMPLEX_VECTORS 2
#define MADD_f32(acc, v, s) _mm256_fmadd_ps(_mm256_set1_ps(s), v, acc)
#define MADD_f64(acc, v, s) _mm256_fmadd_pd(_mm256_set1_pd(s), v, acc)
#define VMADD_f32(acc, v, w) _mm256_fmadd_ps(v, w, acc)
#define VMADD_f64(acc, v, w) _mm256_fmadd_pd(v, w, acc)
#define MSUB_f32(acc, v, s) _mm256_fnmadd_ps(_mm256_set1_ps(s), v, acc)
#elif defined __aarch64__
#include <arm_neon.h>
enum { VBYTES = 16 };
#define TILE_ROWS 8
#define TILE_VECTORS 3
#define PIXELS_BY_1 12
#define PIXELS_BY_2 8
#define COMPLEX_ROWS 4
#define COMPLEX_VECTORS 2
#define MADD_f32(acc, v, s) ((V_f32)vfmaq_n_f32((float32x4_t)(acc), (float32x4_t)(v), s))
#define MADD_f64(acc, v, s) ((V_f64)vfmaq_n_f64((float64x2_t)(acc), (float64x2_t)(v), s))
#define VMADD_f32(acc, v, w) ((V_f32)vfmaq_f32((float32x4_t)(acc), (float32x4_t)(v), (float32x4_t)(w)))
#define VMADD_f64(acc, v, w) ((V_f64)vfmaq_f64((float64x2_t)(acc), (float64x2_t)(v), (float64x2_t)(w)))
#define MSUB_f32(acc, v, s) ((V_f32)vfmsq_n_f32((float32x4_t)(acc), (float32x4_t)(v), s))
#else
enum { VBYTES = 16 };
#define TILE_ROWS 4
#define TILE_VECTORS 2
#define PIXELS_BY_1 8
#define PIXELS_BY_2 4
#define COMPLEX_ROWS 2
#define COMPLEX_VECTORS 1
#define MADD_f32(acc, v, s) ((acc) + (v) * (s))
#define MADD_f64(acc, v, s) ((acc) + (v) * (s))
#define VMADD_f32(acc, v, w) ((acc) + (v) * (w))
#define VMADD_f64(acc, v, w) ((acc) + (v) * (w))
#define MSUB_f32(acc, v, s) ((acc) - (v) * (s))
#endif
#define MADD_u32(acc, v, s) ((acc) + (v) * (s))
#define MADD_u64(acc, v, s) ((acc) + (v) * (s))
#define VMADD_u32(acc, v, w) ((acc) + (v) * (w))
#define VMADD_u64(acc, v, w) ((acc) + (v) * (w))

enum { MOST_PIXELS = PIXELS_BEHIND + 1 }; /* of those two, at any level */

/* Which panel of a tile stays in L1 while those of the other operand pass by: the one of A is the
 * smaller where vectors are long, the one of B saves more reading where the tile is flat. */
#define A_STAYS (TILE_ROWS >= 8)

#define REAL_KERNEL(suffix, solver)                                                                                   \
    {                                                                                                                 \
        .mr = TILE_ROWS, .nr = TILE_VECTORS * VBYTES / (int)sizeof(T_##suffix), .kc = 2048 / (int)sizeof(T_##suffix), \
        .pace = 1, .chunk = 1, .pack = pack_##suffix, .tile = tile_##suffix, .direct = direct_##suffix,               \
        .add = add_##suffix, .axpby = axpby_##suffix, .pixels = pixels_##suffix, .channels = channels_##suffix,       \
        .channels_weight = channels_weight_##suffix, .solve = solver                                                  \
    }

/* n < w elements, w a power of two, in moves of known size: a memcpy of so little would be slow. */
TEMPLATE void move_some(void *to, const void *from, size_t size, int64_t n, const int w)
{
    UNROLL for (int some = w / 2; some; some /= 2) if (n & some)
    {
        memcpy(to, from, (size_t)some * size);
        to = (char *)to + (size_t)some * size;
        from = (const char *)from + (size_t)some * size;
    }
}

typedef float T_f32;
typedef double T_f64;
typedef uint32_t T_u32;
typedef uint64_t T_u64;

#define SUFFIX f32
#define LANES4 1
#define SOLVES 1
#include "cpu/kernels/gemm.inc"
#define SUFFIX f64
#define LANES4 0
#define SOLVES 1
#include "cpu/kernels/gemm.inc"
#define SUFFIX u32
#define LANES4 1
#define SOLVES 0
#include "cpu/kernels/gemm.inc"
#define SUFFIX u64
#define LANES4 0
#define SOLVES 0
#include "cpu/kernels/gemm.inc"
#include "cpu/kernels/gemm_complex.inc"
#if defined __AVX512F__ || defined EMULATED_TILES
#include "cpu/kernels/gemm_pairs.inc"
#include "cpu/kernels/gemm_tiles.inc"
#endif

/* Half types to float32, exactly, a vector at a time. */
typedef uint16_t H_u16 __attribute__((vector_size(VBYTES / 2)));

/* Compilers make three steps of this one. */
TEMPLATE V_u32 lengthen(H_u16 h)
{
#if defined __AVX512F__
    return (V_u32)_mm512_cvtepu16_epi32((__m256i)h);
#elif defined __AVX2__
    return (V_u32)_mm256_cvtepu16_epi32((__m128i)h);
#else
    return __builtin_convertvector(h, V_u32);
#endif
}

TEMPLATE V_f32 from_bf16(H_u16 h) { return (V_f32)(lengthen(h) << 16); }

TEMPLATE V_f32 from_f16(H_u16 h)
{
#if defined __AVX512F__
    return _mm512_cvtph_ps((__m256i)h);
#elif defined __F16C__
    return _mm256_cvtph_ps((__m128i)h);
#else
    /* The bits of the magnitude read as a float32 are 2^-112 of the number, subnormals included;
     * infinities and NaN still need the largest exponent. */
    V_u32 bits = lengthen(h), size = (bits & 0x7fff) << 13;
    V_u32 special = (V_u32)(size >= 0x0f800000) & 0x7f800000;
    return (V_f32)((V_u32)((V_f32)size * 0x1p112f) | special | (bits & 0x8000) << 16);
#endif
}

#define STORED f32
#define COMPUTED f32
#define S float
#define WIDEN(v) (v)
#include "cpu/kernels/gemv.inc"
#define STORED f64
#define COMPUTED f64
#define S double
#define WIDEN(v) (v)
#include "cpu/kernels/gemv.inc"
#define STORED f16
#define COMPUTED f32
#define S uint16_t
#define WIDEN(v) from_f16(v)
#include "cpu/kernels/gemv.inc"
#define STORED bf16
#define COMPUTED f32
#define S uint16_t
#define WIDEN(v) from_bf16(v)
#include "cpu/kernels/gemv.inc"

extern const struct gemm_kernels LEVEL(gemm_kernels);
const struct gemm_kernels LEVEL(gemm_kernels) = {
    .type = {
        [GEMM_f32] = REAL_KERNEL(f32, solve_f32),
        [GEMM_f64] = REAL_KERNEL(f64, solve_f64),
        [GEMM_u32] = REAL_KERNEL(u32, NULL),
        [GEMM_u64] = REAL_KERNEL(u64, NULL),
        [GEMM_c64] = { .mr = COMPLEX_ROWS, .nr = COMPLEX_VECTORS * VBYTES / 4, .kc = 256, .pace = 1, .chunk = 1,
                       .pack = pack_c64, .tile = tile_c64, .add = add_c64, .axpby = axpby_c64,
                       .solve = solve_c64 },
#ifdef __AVX512F__
        [GEMM_pairs] = { .mr = TILE_ROWS, .nr = TILE_VECTORS * W_pairs, .kc = 1024, .pace = 2, .chunk = 1,
                         .pack = pack_pairs, .tile = tile_pairs, .add = add_f32, .axpby = axpby_f32 },
#endif
#if defined __AVX512F__ || defined EMULATED_TILES
        [GEMM_tiles] = { .mr = TILES_WIDE, .nr = TILES_WIDE, .kc = 1024, .pace = 2, .chunk = TILE_STEPS,
                         .pack = pack_tiles, .pack_a = pack_tiles_a, .tile = tile_tiles, .add = add_f32,
                         .axpby = axpby_f32 },
#endif
    },
    .gemv = { [DT_float32] = gemv_f32, [DT_float64] = gemv_f64, [DT_float16] = gemv_f16,
              [DT_bfloat16] = gemv_bf16 },
};
