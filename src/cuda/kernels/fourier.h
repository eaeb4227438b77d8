/* fourier.h: the arguments of fourier.cu. */
#ifndef MX_CUDA_KERNELS_FOURIER_H
#define MX_CUDA_KERNELS_FOURIER_H

#include "shared/scalar.h"

/* A power of two, FOURIER_POWER or more, is transformed by threads that have FOURIER_EIGHT of its elements, other
 * lengths by FOURIER_THREADS of a block at most, with radices up to FOURIER_RADIX.  FOURIER_BYTES is the shared memory
 * of all rows of a block. */
enum { FOURIER_POWER = 32, FOURIER_EIGHT = 8, FOURIER_POWER_THREADS = 1024, FOURIER_THREADS = 384, FOURIER_RADIX = 13 };
enum { FOURIER_BYTES = 96 << 10, FOURIER_DIMS = 4, FOURIER_LEVELS = 14, FOURIER_TABLE_THREADS = 256 };

/* X(radix, how many transforms of it a thread takes at most), whose numbers are in registers. */
#define FOURIER_RADICES(X) X(2, 8) X(3, 5) X(4, 4) X(5, 3) X(7, 2) X(8, 2) X(11, 1) X(13, 1)

/* What elements are made of, and become.  PAIRS: a number is two real ones; HALF: a sequence is known by its first
 * half, the rest are conjugates; UNFOLDED: by that of one twice as long, which is real; FOLDED: the other way. */
enum fourier_how { FOURIER_COMPLEX, FOURIER_REAL, FOURIER_PAIRS, FOURIER_HALF, FOURIER_UNFOLDED, FOURIER_FOLDED };

/* Element j of a row is number i = row . number + j number_step of a sequence, at row . stride + i step, where `row`
 * stands for its coordinates. */
struct fourier_side {
    void *at;
    const void *factor; /* by i: complex64; or NULL */
    int64_t stride[FOURIER_DIMS], step;
    int64_t number[FOURIER_DIMS], number_step;
    int64_t limit;   /* numbers from that on are 0, or not written, */
    int32_t limited; /* where there are such */
    int64_t length;  /* of the sequence, which HALF and UNFOLDED need */
    int32_t how;
    int32_t across;        /* threads of neighbouring rows are neighbours */
    int32_t flat;          /* a block's rows are one piece of memory, with nothing to be done to their numbers */
    int32_t before, after; /* the parts of the number are swapped before the factor, or behind it */
};

/* Rows of n elements. */
struct fourier_call {
    struct fourier_side in, out;
    const void *factors;        /* of the stages: e^(-2 pi i p k / (m r)) at (k - 1) m + p */
    const void *coarse, *fine;  /* NULL: no product with e^(-2 pi i k t / length) follows, */
    int64_t turn[FOURIER_DIMS]; /* t = row . turn, */
    int32_t fine_bits;          /* k t = (a << fine_bits) + b */
    const void *roots;          /* e^(-2 pi i i / (2 length)), of FOLDED and UNFOLDED */
    int64_t rows;
    uint32_t shape[FOURIER_DIMS];  /* the last is the fastest */
    int32_t n, team, width, pitch; /* threads of a row, rows of a block, elements from row to row */
    uint32_t per_row;              /* (i per_row) >> 32 is i / n, of the elements of a block */
    int32_t lanes;                 /* threads that read or write a row together */
    int32_t stages;
    int32_t radix[FOURIER_LEVELS], start[FOURIER_LEVELS]; /* where a stage's factors begin */
    uint32_t inverse[FOURIER_LEVELS]; /* (b inverse) >> 32 is b / the product of the radices before */
    float scale;
};

/* Tables.  ROOTS: e^(-2 pi i j each / n) of j < count; STAGES: the factors of stages; CHIRP: e^(-pi i j^2 / n); FILTER:
 * conjugates of those, around count numbers. */
enum fourier_table { FOURIER_ROOTS, FOURIER_STAGE_FACTORS, FOURIER_CHIRP, FOURIER_FILTER };
struct fourier_table_call {
    void *y;
    int64_t count, n, each;
    int32_t kind, stages;
    int32_t radix[FOURIER_LEVELS], start[FOURIER_LEVELS];
};

/* Long real sequences: y of n / 2 + 1 numbers each from x of n / 2, rows `inner` apart. */
struct fourier_fold_call {
    void *y;
    const void *x, *coarse, *fine;
    int64_t outer, half, inner;
    int32_t fine_bits;
};

/* y[i] = x[i] times a number, of rows of `length`; those of x are anywhere, those of y follow each other.  Ends: what
 * stands for real numbers, the first of a row and number `last`, becomes real. */
enum { FOURIER_SCALED = 4 }; /* by a thread */
struct fourier_scale_call {
    void *y;
    const void *x;
    int64_t row, step, count; /* of all */
    uint32_t length, last;
    int32_t ends;
    float scale;
};

#endif
