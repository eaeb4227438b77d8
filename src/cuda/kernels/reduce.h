/* reduce.h: what reduce.cu is called with. */
#ifndef MX_CUDA_KERNELS_REDUCE_H
#define MX_CUDA_KERNELS_REDUCE_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* REDUCE_PART: bytes of a partial result, at most; REDUCE_READS: what a thread of one of many rows reads at once. */
enum { REDUCE_THREADS = 256, REDUCE_DIMS = 8, REDUCE_PART = 32, REDUCE_READS = 8 };
/* Blocks that a multiprocessor has at once, of elements of so many bytes. */
#define REDUCE_BLOCKS(size) ((size) > 4 ? 2 : (size) > 2 ? 4 : 3)

/* What results are stored as. */
enum reduce_out { OUT_8, OUT_16, OUT_32, OUT_64, OUT_F16, OUT_BF16, OUT_F32, OUT_F64, OUT_C64 };

/* Dimensions of one kind: those that are kept count the results, row-major, those that are folded the elements of
 * each. */
struct reduce_axes {
    int64_t n; /* elements */
    int32_t ndim;
    uint32_t shape[REDUCE_DIMS]; /* the outermost first, whose size nobody asks for */
    int64_t stride[REDUCE_DIMS]; /* in elements */
};

/* A block's threads are `width` teams of `team`, each of which folds a piece of one result; where `columns` is set, a
 * piece of each of LANES results that are neighbours, and neighbours in the block work on neighbours in memory.  With
 * several pieces the block stores what it has, and a launch with `from` set merges that. */
struct reduce_call {
    void *y;
    const void *x;
    void *partial;    /* NULL: results go to y */
    const void *from; /* partial results: NULL in the first launch */
    struct reduce_axes kept, folded;
    int64_t times;            /* how often each element counts */
    int64_t piece, pieces;    /* elements of each; how many there are of a result */
    int32_t columns, aligned; /* aligned: LANES neighbours of the innermost dimension are one read */
    int32_t width, team;
    int32_t doubled; /* a thread reads a row 2^doubled times at once */
    int32_t rounds;  /* long rows: how many a warp has, one after the other */
    int32_t out;     /* enum reduce_out */
};

#endif
