/* order.h: the arguments of order.cu. */
#ifndef MX_CUDA_KERNELS_ORDER_H
#define MX_CUDA_KERNELS_ORDER_H

#include "cuda/kernels/lookup.h"

enum { ORDER_THREADS = 256, ORDER_ROW = 12288 }; /* places of a row that a block has in its own memory */
#define ORDER_NONE 0xffffffffu                   /* the key of an update that is left out; more than any other */

/* Where each update goes: the offset of its slice in `far`, without the bits that are 0 in all; elements: each element
 * of a slice counts as an update. */
struct keys_call {
    struct lookup_call lookup;
    uint32_t *key;   /* NULL: indices are only looked at */
    uint32_t *value; /* of each update, in a word; NULL: not asked for */
    int64_t n;
    int32_t size; /* of an element, for values and rows */
    int32_t shift, elements;
    int32_t drops; /* those out of range are left out */
    /* Of updates that are not put in order, one of them: of each place the last that goes to it, counted from 1, or
     * the sum of those that do. */
    uint32_t *last;
    float *sums;
};

/* Sums of float32 that are added to places of half types. */
struct sums_call {
    void *far;
    const float *sums;
    int64_t places;
    int32_t shift;
};

/* As enum scatter_fold (ops/ops.h). */
enum update { UPDATE_SET, UPDATE_ADD, UPDATE_PROD, UPDATE_MAX, UPDATE_MIN };

/* Updates in the order of where they go, and among those that go to one place in their own: the thread that meets the
 * first of these folds all of them. */
struct fold_call {
    struct lookup_call lookup;
    const uint32_t *key, *number; /* NULL where there is one */
    int64_t n;
    int32_t shift, elements;
    int32_t fold;  /* enum update */
    int32_t lanes; /* numbers in what the lookup calls an element: 1 or 16 bytes of them */
};

/* Updates of single elements that are in the order of the higher bits of where they go alone, and among those in their
 * own, with their values: a warp has BUCKET_LANES places, a thread one of them, and goes through all updates of those
 * that share the bits. */
enum { BUCKET_THREADS = 256, BUCKET_EACH = 4, BUCKET_LANES = 32 };
struct bucket_call {
    void *far;
    const uint32_t *key, *value;
    int64_t n, places;
    int32_t shift;
    int32_t low;   /* bits that updates are not in the order of */
    uint32_t mask; /* of those above them that they are */
    int32_t fold;  /* enum update */
};

/* Updates that are added to few places (scatter_tables.inc): a warp takes `piece` of them, and blocks of TABLES_WARPS
 * have a table of sums each, of float for half types. */
enum { TABLES_PLACES = 1536, TABLES_WARPS = 8, TABLES_ROWS = 16 };
struct tables_call {
    struct keys_call keys;
    void *sums; /* NULL: the only block adds to the places itself */
    int64_t piece;
    int32_t places, bits; /* of the number of a place */
};
struct tables_add_call {
    void *far;
    const void *sums;
    int32_t blocks, places, shift;
};

#endif
