/* sort.h: the arguments of sort.cu. */
#ifndef MX_CUDA_KERNELS_SORT_H
#define MX_CUDA_KERNELS_SORT_H

#ifndef __CUDACC__
#include <stdbool.h>
#include <stdint.h>
#endif

/* A tile of keys, by the bytes of one, is what a block has at once. */
enum { SORT_THREADS = 512, SORT_BITS = 8, SORT_DIGITS = 1 << SORT_BITS };
#define SORT_EACH(size) ((size) == 8 ? 8 : 16)
#define SORT_TILE(size) (SORT_THREADS * SORT_EACH(size))

/* Rows of SORT_WARP at most are put in order by some threads of a warp, which have 1, 4 or 16 elements each. */
enum { SORT_WARP = 512, SORT_WARP_THREADS = 128 };

/* How elements are keys, unsigned integers of their size. */
enum sort_kind { SORT_UNSIGNED, SORT_SIGNED, SORT_BOOL, SORT_FLOAT, SORT_BFLOAT16, SORT_COMPLEX };

/* Rows of n elements each.  What becomes of them: `to`, their values in order; to_places, where in the row they were;
 * or, where keys do not tell the values, `picked`, those of `x` at these places. */
struct sort_call {
    const void *from;       /* elements, or keys: SORT_UNSIGNED */
    const uint32_t *places; /* NULL: 0, 1, ... */
    void *to;               /* NULL: none; so for the two below */
    uint32_t *to_places;
    void *picked;
    const void *x;
    int64_t n, rows;
    int32_t reads, writes; /* enum sort_kind, of `from` and `to` */
    int32_t ranks;         /* keys of equal values are equal; else -0 comes before 0 */
    int32_t passes;        /* over digits of SORT_BITS, from the lowest on */
    int32_t low;           /* bits of a key below the lowest digit, which do not count */
    int64_t kth;           /* what rows are split at */
    int32_t width;         /* of rows for threads of a warp: n up to a power of two, so many elements of a thread */

    /* Long rows: each pass is a launch, or several, over `tiles` tiles of each row from element `first` on. */
    int32_t pass;
    int64_t first, tiles;
    uint32_t *counts;  /* of each row and pass, of each digit; then where the first of them goes */
    uint32_t *next;    /* the same for the launch behind this one of the same pass, or NULL */
    uint32_t *counter; /* of tiles that have begun */
    /* What is known of each tile and digit, for so many tiles of each row: 0 before anything is; those of a launch are
     * made 0 by the one before. */
    uint32_t *known, *known_next;
    int64_t room;
    int64_t piece, pieces; /* of a row, whose digits a block counts */
    uint32_t *zeros;       /* so many words that become 0 */
    int64_t n_zeros;
};

#endif
