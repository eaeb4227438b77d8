/* runs.h: operands of any strides, handed to a kernel as runs of stride 0 or 1. */
#ifndef MX_CPU_RUNS_H
#define MX_CPU_RUNS_H

#include "core/array.h"
#include "cpu/kernels.h"

enum {
    RUN_OPERANDS = 8,
    RUN_BYTES = 32, /* of one element of each operand together */
    TILE = 1024,    /* elements; what is gathered or converted stays in L1 */
};

struct runs {
    /* Makes n elements, at most `most`, of the output, from number `at` on; x[k] has stride s[k]. */
    void (*kernel)(const struct runs *r, int64_t at, const void *const x[], const int s[], int64_t n);
    union {
        unary_fn *unary;
        binary_fn *binary;
        cast_fn *cast;
        select_fn *select;
        const struct tape_program *tape;
    } fn;
    cast_fn *widen, *narrow; /* half types: to and from float32; no narrow where fn gives bool */
    uint32_t repeats;        /* bit k: the kernel takes x[k] of stride 0 */
    int64_t most;            /* 0: any number */
    int64_t grain;           /* elements worth a thread of their own, as pool_for takes them */

    /* Filled by runs_over. */
    char *y;
    const char *x[RUN_OPERANDS];
    size_t y_size, x_size[RUN_OPERANDS];
    int n, ndim;
    int shape[MX_MAX_NDIM];
    int64_t row; /* elements along the last dimension */
    int64_t strides[RUN_OPERANDS][MX_MAX_NDIM], y_strides[MX_MAX_NDIM];
    int block_rows, block_cols;
};

/* Calls r->kernel until all elements of row-major y are made, on several threads if they are
 * many.  data[k] is the first element of x[k], and the n operands have one shape, y's. */
void runs_over(struct runs *r, void *y, size_t y_size, int n, const mx x[], const void *const data[]);

/* The same in two steps: elements begin..end alone, on this thread. */
void runs_prepare(struct runs *r, int n, const mx x[], const void *const data[]);
void runs_range(const struct runs *r, int64_t begin, int64_t end);

/* The elements from number `at` on. */
static inline void *runs_y(const struct runs *r, int64_t at) { return r->y + (size_t)at * r->y_size; }

/* The stride an array has as one run: 1 row-major, 0 one value all over, -1 neither. */
int run_stride(mx x);

#endif
