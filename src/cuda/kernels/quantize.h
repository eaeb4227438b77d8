/* quantize.h: the arguments of quantize.cu, and formats of packed weights. */
#ifndef MX_CUDA_KERNELS_QUANTIZE_H
#define MX_CUDA_KERNELS_QUANTIZE_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

#include "cuda/kernels/rows.h"
#include "cuda/kernels/vector_turns.h"

/* X(name, bits): integers of so many bits, e2m1 with scales in e8m0, e4m3, e2m1 with scales in e4m3. */
#define QUANT_FORMATS(X) \
    X(u1, 1)             \
    X(u2, 2)             \
    X(u3, 3)             \
    X(u4, 4)             \
    X(u5, 5)             \
    X(u6, 6)             \
    X(u8, 8)             \
    X(mxfp4, 4)          \
    X(mxfp8, 8)          \
    X(nvfp4, 4)
#define X(name, bits) FORMAT_##name,
enum gpu_quant_format { QUANT_FORMATS(X) FORMATS };
#undef X

/* A thread has QUANT_EACH numbers of a group when it packs; QMV_ROWS, QMV_VECTORS: rows of the matrix and of x that a
 * warp multiplies with each other; QMM_SIDE: of the square of a product that a block makes, QMM_DEPTH at a time.  Of
 * half types it makes QMM_WIDE of the matrix' rows by some of x's, QMM_STEP at a time, of which a thread has QMM_CHUNK
 * of a row. */
enum {
    QUANT_THREADS = 128,
    QUANT_EACH = 8,
    QMV_THREADS = 128,
    QMV_ROWS = 4,
    QMV_BLOCKS = 4, /* of a multiprocessor, where lines are read 16 bytes at a time */
    QMV_VECTORS = 4,
    QMM_THREADS = 256,
    QMM_SIDE = 64,
    QMM_DEPTH = 32,
    QMM_WIDE = 128,
    QMM_STEP = 128,
    QMM_CHUNK = 32,
    QMM_WARP_THREADS = 128,
    QMM_GROUP_THREADS = 384,
    QMM_GROUP_ROOM = 224 << 10,
    QMM_MOST_STAGES = 8,
    QMM_DIMS = 8
};
/* Steps that are in shared memory, of tiles of so many rows of x, and their bytes. */
#define QMM_STAGES(tall) ((tall) > 64 ? 2 : 3)
#define QMM_BYTES(tall, bits) (QMM_STAGES(tall) * ((tall)*QMM_STEP * 2 + QMM_WIDE * QMM_STEP / 8 * (bits)))

/* The same of what groups of warps multiply (quantize_groups.inc). */
#define QMM_GROUP_STAGE(tall, bits) ((tall)*QMM_STEP * 2 + QMM_WIDE * QMM_STEP / 8 * (bits))
#define QMM_GROUP_STAGES(tall, bits)                                                  \
    (QMM_GROUP_ROOM / QMM_GROUP_STAGE(tall, bits) > QMM_MOST_STAGES ? QMM_MOST_STAGES \
                                                                    : QMM_GROUP_ROOM / QMM_GROUP_STAGE(tall, bits))
#define QMM_GROUP_BYTES(tall, bits) (QMM_GROUP_STAGES(tall, bits) * QMM_GROUP_STAGE(tall, bits) + 1024)

/* n numbers x in groups, as codes, scales and biases of x's type (bytes in other formats than integers), or y as they
 * come back. */
struct pack_args {
    const void *x;
    void *w, *scales, *biases, *y;
    const float *global; /* NULL: none */
    int64_t n;
    int32_t group, bits, format;
};

/* What a thread of dequantize makes: pieces of so many numbers of so many bits, by the bytes of a result; a piece has
 * one scale. */
#define QUANT_PIECE(bits, size) \
    ((bits) == 1 || (bits) == 3 || (bits) == 5 ? 32 : (bits) == 6 ? 16 : (bits) == 8 && (size) == 2 ? 8 : 32 / (bits))
#define QUANT_PIECES(bits) ((bits) % 4 == 0 ? 4 : 1)

/* n numbers y from codes in groups; scales and biases of the type `t` (enum dtype). */
struct unpack_args {
    void *y;
    const void *w, *scales, *biases;
    const float *global;
    int64_t n;
    int32_t log_group, format, t;
};

/* y (m x n) = x (m x k) W, or its transpose, for each place of a batch; scales and biases are of x's type. */
struct qmm_args {
    void *y;
    const void *x, *w, *scales, *biases;
    int64_t m, n, k, batch;
    int32_t log_group, transpose;
    int32_t aligned; /* rows of x begin at multiples of 16 bytes */
    int32_t team;    /* of warps that have the same rows of the matrix */
    uint32_t tall;   /* blocks or teams along m */
    uint32_t wide;   /* along n */
    uint32_t pieces; /* of k, which different blocks take, `piece` each */
    int64_t piece;
    float *partial;            /* where there are several: the sums of each, after one another */
    unsigned char *arranged;   /* x for groups of warps, in tiles of `height` rows (quantize_groups.cu) */
    int64_t words, groups;     /* of a matrix */
    const uint32_t *lhs, *rhs; /* numbers of matrices, for each place of the batch; NULL: they are walked */
    int32_t ndim, height;
    uint32_t shape[QMM_DIMS];
    int64_t stride[2][QMM_DIMS]; /* in matrices: of x, of w */
};

/* One row of x with several matrices, which warps `first` and up have groups of QMV_ROWS rows of; two that are `gated`
 * have half of each group, and one result (kernels/vector_results.h). */
enum { QMV_MATRICES = 4 };
struct qmv_lines {
    void *y;
    const void *w, *scales, *biases, *c; /* c: NULL, or what is added */
    int64_t n;
    uint32_t first;
};
struct qmv_lines_args {
    struct qmm_args a; /* `wide`: groups of all matrices; the rest is the first one's */
    struct qmv_lines of[QMV_MATRICES];
    int32_t matrices, gated, team_bits; /* team_bits: warps that have a group together, as a power of two */
    int64_t turns;                      /* of what a block does: blocks are as many or, for a norm, fewer */
    struct vector_norm norm;
};

struct qmv_turned_args {
    struct qmv_lines_args l;
    struct vector_turns t;
};

#endif
