/* rope.h: the arguments of rope.cu. */
#ifndef MX_CUDA_KERNELS_ROPE_H
#define MX_CUDA_KERNELS_ROPE_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* ROPE_PAIRS: coordinates that a thread rotates in one row; ROPE_TURNS: pairs of a launch. */
enum {
    ROPE_THREADS = 128,
    ROPE_PAIRS = 4,
    ROPE_TURNS = 256,
    ROPE_DIMS = 8,
    ROPE_SHARED = 2 * ROPE_THREADS,
    ROPE_ARRAYS = 2
};

/* Rows of `width` elements, at `length` positions for each of `rows` that share an offset, one of `groups`.  A thread
 * rotates ROPE_PAIRS points at one position, with the same sines, in `each` of those rows; threads behind `quads` copy
 * what is not rotated.  Where all positions have no more than ROPE_SHARED points, as the one that is written has, each
 * block makes the sines of all `together`, one or two by each thread: they take longer than all else.
 *
 * Two arrays, as queries and keys are, may be one launch: blocks `begin` and up have the second. */
struct rope_rows {
    void *y;
    const void *x;
    int64_t n, rows, each, begin;
    uint32_t chunks; /* of `each` rows */
    int32_t whole;   /* vectors of ROPE_PAIRS coordinates are aligned, and there are no others */
    int32_t ndim;    /* of the rows in x */
    uint32_t shape[ROPE_DIMS];
    int64_t stride[ROPE_DIMS], position; /* position: from one to the next in x */
};
struct rope_call {
    struct rope_rows of[ROPE_ARRAYS];
    int32_t arrays;
    const void *freqs;     /* of the type that is computed in, or NULL: then turns */
    const int64_t *offset; /* of each group; NULL: `only`, of one */
    int64_t only, groups;
    uint32_t length, quads, units;     /* units: of threads along a row */
    int64_t width, half, first, pairs; /* pairs first to first + pairs are of this launch */
    double scale, sign;
    int32_t together;
    int32_t pairwise; /* points are neighbours; else `half` apart */
    double turns[ROPE_TURNS];
};

#endif
