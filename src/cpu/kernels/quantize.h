/* quantize.h: products with packed weights, and packing, for one thread.
 *
 * A row of a packed matrix is a stream of codes of a few bits, lowest bits first, and one scale (and
 * perhaps a bias) for each group of them.  The kernels never put codes back into their order: the
 * row is read as blocks of `lanes` chunks, a chunk being the fewest whole words that hold whole
 * codes, and lane i of a vector works on chunk i of the block.  So an element is a shift and a mask
 * away, and what meets it is laid out the same way ("spread"): element i * elements + j of a block
 * stands at j * lanes + i. */
#ifndef MX_CPU_KERNELS_QUANTIZE_H
#define MX_CPU_KERNELS_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

enum quant_format {
    QUANT_1,
    QUANT_2,
    QUANT_3,
    QUANT_4,
    QUANT_5,
    QUANT_6,
    QUANT_8,   /* integers of so many bits */
    QUANT_FP4, /* e2m1 */
    QUANT_FP8, /* e4m3 */
    QUANT_FORMATS
};
enum quant_scale { SCALE_f32, SCALE_f16, SCALE_bf16, SCALE_e8m0, SCALE_e4m3 };

enum { QUANT_VECTORS = 4 };

static inline int quant_scale_size(enum quant_scale t)
{
    return t == SCALE_f32 ? 4 : t == SCALE_f16 || t == SCALE_bf16 ? 2 : 1;
}

struct quant_matrix {
    const uint32_t *w;
    const void *scales, *biases; /* biases: NULL where there are none; of the scales' type */
    enum quant_scale scale;
    int group;
    int64_t columns; /* elements of a row, whole groups */
};

struct quant_kernel {
    int elements, words; /* of a chunk */
    int shift;           /* elements of a chunk but the last meet `dot` times 2^-shift each more than the one before */
    /* y[v * sy + i] = row (first + i) times vector v, for n rows and nv <= QUANT_VECTORS spread
     * vectors x, ldx apart; sums: of each group of x, lds apart, zeros up to whole vectors. */
    void (*dot)(const struct quant_matrix *m, int64_t first, int64_t n, const float *x, int64_t ldx, const float *sums,
                int64_t lds, int nv, float *y, int64_t sy);
    /* y += sum over rows first + i of x[v * ldx + i] times blocks at .. at + blocks of the row, spread;
     * ldy from vector to vector. */
    void (*add_rows)(const struct quant_matrix *m, int64_t first, int64_t n, const float *x, int64_t ldx, int nv,
                     int64_t at, int64_t blocks, float *y, int64_t ldy);
    /* Blocks of a row as numbers, spread; zeros where the last one is not whole. */
    void (*unpack)(const struct quant_matrix *m, int64_t row, int64_t at, int64_t blocks, float *y);
    /* Numbers at .. at + n, whole groups, of `rows` <= lanes rows from `first` on: number i of row r at y[i * sy + r],
     * zeros up to r = lanes.  words: what these rows hold them in, turned: word i of row r at words[i * lanes + r]. */
    void (*across)(const struct quant_matrix *m, int64_t first, int rows, int64_t at, int64_t n, const uint32_t *words,
                   float *y, int64_t sy);
    /* The same as pairs of bfloat16, of which pair i of row r is y[i * sy + r]; NULL where the level has none. */
    void (*across_pairs)(const struct quant_matrix *m, int64_t first, int rows, int64_t at, int64_t n,
                         const uint32_t *words, uint32_t *y, int64_t sy);
};

struct quant_kernels {
    int lanes;
    struct quant_kernel format[QUANT_FORMATS];
    /* Groups of x as codes of `bits` bits, scales and biases. */
    void (*affine)(uint32_t *w, float *scales, float *biases, const float *x, int64_t groups, int group, int bits);
    /* The same for codes of 4 or 8 bits of floating point with one-byte scales, e8m0 or, with nv,
     * e4m3 that is multiplied by `factor`. */
    void (*floating)(uint32_t *w, uint8_t *scales, const float *x, int64_t groups, int group, int bits, bool nv,
                     float factor);
    void (*to_e4m3)(uint8_t *y, const float *x, int64_t n);
    void (*from_e4m3)(float *y, const uint8_t *x, int64_t n);
};

#ifdef LEVEL /* of kernels/quantize_pack.c */
void LEVEL(quantize_affine)(uint32_t *w, float *scales, float *biases, const float *x, int64_t groups, int group,
                            int bits);
void LEVEL(quantize_floating)(uint32_t *w, uint8_t *scales, const float *x, int64_t groups, int group, int bits,
                              bool nv, float factor);
void LEVEL(to_e4m3)(uint8_t *y, const float *x, int64_t n);
#endif

#endif
