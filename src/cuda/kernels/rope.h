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

/* Rows of `width` elements, at `length` positions for each of `rows` that share an offset, one of `groups`.  Sines take
 * longer than all else.  Where there is one group, a block has `each` rows at `span` positions: it makes the sines of
 * their points, ROPE_SHARED at most, first.  Else a thread rotates ROPE_PAIRS points at one position, with the same
 * sines, in `each` rows.  Of the units along a row those behind `quads` are copied, which are not rotated.
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
    uint32_t span, spans; /* span 0: threads make sines; spans: so many are all positions */
    int32_t pairwise;     /* points are neighbours; else `half` apart */
    double turns[ROPE_TURNS];
};

#endif
