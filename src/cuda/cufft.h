/* cufft.h: what is called of cuFFT, as versions 11 and 12 have it, and transforms by it. */
#ifndef MX_CUDA_CUFFT_H
#define MX_CUDA_CUFFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cufft {
#define FFT(name, symbol, args) int(*name) args;
#include "cuda/cufft.def"
};

/* Numbers of its interface. */
enum {
    CUFFT_R2C = 0x2a, /* types */
    CUFFT_C2R = 0x2c,
    CUFFT_C2C = 0x29,
    CUFFT_FORWARD = -1, /* directions */
    CUFFT_INVERSE = 1,
};

/* Status: its name and number. */
#define CUFFT_STATUSES(X)            \
    X(SUCCESS, 0)                    \
    X(INVALID_PLAN, 1)               \
    X(ALLOC_FAILED, 2)               \
    X(INVALID_TYPE, 3)               \
    X(INVALID_VALUE, 4)              \
    X(INTERNAL_ERROR, 5)             \
    X(EXEC_FAILED, 6)                \
    X(SETUP_FAILED, 7)               \
    X(INVALID_SIZE, 8)               \
    X(UNALIGNED_DATA, 9)             \
    X(INCOMPLETE_PARAMETER_LIST, 10) \
    X(INVALID_DEVICE, 11)            \
    X(PARSE_ERROR, 12)               \
    X(NO_WORKSPACE, 13)              \
    X(NOT_IMPLEMENTED, 14)           \
    X(LICENSE_ERROR, 15)             \
    X(NOT_SUPPORTED, 16)
#define X(name, number) CUFFT_##name = number,
enum { CUFFT_STATUSES(X) };
#undef X

/* Where the elements of a side are, in its own: number (k, i, j) of rows x lines x n at k row + (i line + j) apart. */
struct cufft_side {
    int64_t apart, line, row;
};

/* `rows` transforms of n numbers each, or along both axes of lines x n, from x to y, which do not overlap; without a
 * factor.  C2R may write over x. */
struct run;
struct cufft_rows {
    int type, direction; /* a type has one direction but for C2C */
    int64_t lines, n, rows;
    struct cufft_side from, to;
    void *x, *y;
};
/* Queues them; false: it is not there, or does not take them, and x, but for C2R, is as it was. */
bool cufft_transform(const struct run *r, const struct cufft_rows *t);
/* Is it there, and does it work on this GPU? */
bool cufft_works(int gpu);

#endif
