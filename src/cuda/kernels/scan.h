/* scan.h: the arguments of scan.cu. */
#ifndef MX_CUDA_KERNELS_SCAN_H
#define MX_CUDA_KERNELS_SCAN_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* SCAN_PART: bytes of the fold of a piece, at most; SCAN_AHEAD: reads of a thread at once, of a row that a warp has. */
enum { SCAN_RECURRENCE = 5, SCAN_THREADS = 256, SCAN_PART = 32, SCAN_AHEAD = 4 };

/* (outer, n, inner), along n.  Rows, where inner is 1, are scanned by blocks or warps, columns by threads; long ones in
 * pieces,
 * each of which a block or a thread has.  Folds of pieces are made first, then made those of all before them, and then
 * pieces are scanned. */
struct scan_call {
    void *y;
    const void *x;
    const void *more; /* the recurrence's b, beside x, its a */
    void *parts;      /* of each piece of each row or column; NULL: there is one piece */
    int64_t outer, n, inner;
    int64_t piece, pieces;
    int32_t fold; /* enum scan_fold, or SCAN_RECURRENCE */
    int32_t reverse;
    int32_t folding; /* no results but the folds of pieces */
    int32_t whole;   /* rows and pieces are vectors of LANES elements, aligned */
};

#endif
