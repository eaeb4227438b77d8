/* kernels.h: what one instruction-set level offers.
 *
 * kernels/ is compiled once per level; each level exports one const table and nothing else.
 * Kernels work on contiguous runs (strides 0 or 1) on one thread; the files of cpu/ split work over
 * threads, walks strides and turns half types into float32 tiles. */
#ifndef MX_CPU_KERNELS_H
#define MX_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"

/* Rows of the element-wise kernel tables. */
enum unary_id {
#define UNARY(name, ...) UNARY_##name,
#include "ops/ops.def"
    UNARY_COUNT
};
enum binary_id {
#define BINARY(name, ...) BINARY_##name,
#include "ops/ops.def"
    BINARY_COUNT
};

/* Strides are 0 (one value for all) or 1.  y may be an operand of stride 1 with elements of its
 * size. */
typedef void unary_fn(void *y, const void *x, size_t n);
typedef void binary_fn(void *y, const void *a, int sa, const void *b, int sb, size_t n);
typedef void cast_fn(void *y, const void *x, size_t n);
/* y[i * sy] = x[i * sx], elements of 1, 2, 4, 8 bytes; strides in elements, any sign */
typedef void move_fn(void *y, int64_t sy, const void *x, int64_t sx, size_t n);
/* y[i * sy + j] = x[j * sx + i] for i < rows, j < cols */
typedef void transpose_fn(void *y, int64_t sy, const void *x, int64_t sx, size_t rows, size_t cols);
/* y = c ? a : b by element width; strides 0 or 1 */
typedef void select_fn(void *y, const void *c, int sc, const void *a, int sa, const void *b, int sb, size_t n);

/* Tables of their own: struct <name>_kernels of kernels/<name>.h (quantize.h, trees.h), one of each at a level. */
/* clang-format off */
#define CPU_TABLES(X)                                                                \
    X(gemm) X(hadamard) X(index) X(quant) X(reduce) X(random) X(norm) X(fft)         \
    X(attention) X(sort) X(scan) X(factor) X(tree)
/* clang-format on */

struct cpu_kernels {
    const char *isa;
    /* Indexed by the dtype computed in; NULL where the row does not take it.  Half types are NULL
     * everywhere: they are cast to float32 a tile at a time. */
    unary_fn *unary[UNARY_COUNT][DT_COUNT];
    binary_fn *binary[BINARY_COUNT][DT_COUNT];
    cast_fn *cast[DT_COUNT][DT_COUNT]; /* [from][to] */
    move_fn *move[4];                  /* by log2 of the element size */
    transpose_fn *transpose[4];
    select_fn *select[4];
#define X(name) const struct name##_kernels *name;
    CPU_TABLES(X)
#undef X
};

extern const struct cpu_kernels *cpu;                         /* chosen at start-up by cpu/dispatch.c */
const struct cpu_kernels *cpu_kernels_named(const char *isa); /* NULL: unknown or not usable here */

#endif
