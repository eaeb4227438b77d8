/* attention.h: the arguments of attention.cu. */
#ifndef MX_CUDA_KERNELS_ATTENTION_H
#define MX_CUDA_KERNELS_ATTENTION_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

enum { ATTENTION_DIMS = 4 };
/* A block of attention_few: threads, rows of queries, keys at most; of attention_tile: threads, keys at a time. */
enum { ATTENTION_FEW_THREADS = 128, ATTENTION_FEW = 8, ATTENTION_PIECE = 512, ATTENTION_THREADS = 256 };
enum { ATTENTION_KEYS = 64, ATTENTION_WARP_THREADS = 128 };
/* Threads that merge pieces, and how many pieces of an element one of them reads before it looks at the first. */
enum { ATTENTION_MERGE_THREADS = 256, ATTENTION_MERGED_AT_ONCE = 8 };

/* The kernels whose warps multiply matrices: for heads of up to so many elements, rows of 16 for each of four warps,
 * keys at a time. */
#define ATTENTION_WARPS(X) \
    X(64, 2, 64)           \
    X(96, 2, 64)           \
    X(128, 2, 64)          \
    X(256, 1, 32)
/* Shared memory of one: the queries, keys and values, in rows that end with eight elements more, for eight of them to
 * begin in different banks. */
#define ATTENTION_WARPS_BYTES(width, tall, keys) ((64 * (tall) + 2 * (keys)) * ((width) + 8) * 2)

/* The same of float32 (attention_parts_tile.inc), with how many warps; that of 128 is for larger heads as well, that of
 * 256 where there is so much memory (HAS_LARGE_PARTS). */
#define ATTENTION_PARTS(X) \
    X(64, 4, 1, 32)        \
    X(128, 4, 1, 32)       \
    X(256, 8, 1, 32)
#define ATTENTION_PARTS_BYTES(width, warps, tall, keys) ((16 * (warps) * (tall) + 2 * (keys)) * ((width) + 8) * 4)

/* Those for a few queries (attention_split.inc): keys at a time, and shared memory, where at last sums are. */
enum { ATTENTION_SPLIT = 16, ATTENTION_SPLIT_KEYS = 64, ATTENTION_SPLIT_BLOCKS = 3 };
#define ATTENTION_SPLIT_BYTES(width, stages) ((ATTENTION_SPLIT + 2 * (stages)*ATTENTION_SPLIT_KEYS) * ((width) + 8) * 2)

/* The kernels whose groups of warps do (attention_groups.inc): threads, of which the first four warps fetch, and rows;
 * for heads of up to so many elements, keys at a time; and shared memory: queries, two tiles each of keys and values,
 * and what a panel may have to skip to begin at a multiple of 1,024. */
enum { ATTENTION_GROUP_THREADS = 384, ATTENTION_GROUP_ROWS = 128 };
#define ATTENTION_GROUPS(X) \
    X(64, 128)              \
    X(128, 128)             \
    X(256, 64)
#define ATTENTION_GROUPS_BYTES(width, keys) ((ATTENTION_GROUP_ROWS + 4 * (keys)) * (width)*2 + 1024)

/* The same kernels of the derivative: for heads of up to so many elements, rows of 16 for each of four warps, or for
 * each two of them, of the others at a time. */
#define ATTENTION_TO_QUERIES(X) \
    X(64, 2, 32)                \
    X(96, 2, 32)                \
    X(128, 2, 32)
#define ATTENTION_TO_KEYS(X) \
    X(64, 2, 64)             \
    X(96, 2, 32)             \
    X(128, 2, 32)
/* Q, the cotangents and a step of keys and values; keys, values, two steps of the others, and weights of float32. */
#define ATTENTION_TO_QUERIES_BYTES(width, tall, step) ((128 * (tall) + 2 * (step)) * ((width) + 8) * 2)
#define ATTENTION_TO_KEYS_BYTES(width, tall, step) \
    ((64 * (tall) + 4 * (step)) * ((width) + 8) * 2 + 32 * (tall) * (step)*4)

/* The same of float32 (attention_parts_queries.inc, attention_parts_keys.inc): warps, of one team or two; rows of 16
 * for each of four, whose operands stay, and a step of the others; and memory for what teams tell each other. */
#define ATTENTION_PARTS_VJP(X) \
    X(64, 4, 1, 32)            \
    X(128, 4, 1, 24)           \
    X(256, 8, 1, 24)
#define ATTENTION_PARTS_VJP_BYTES(width, warps, tall, step) \
    ((128 * (tall) + 2 * (step)) * ((width) + 8) * 4 + ((warps) > 4 ? (warps)*128 * (tall) * (step) : 0))

/* Those of groups of warps, of ATTENTION_GROUP_ROWS: for heads of up to so many elements, of the others at a time, of
 * which there are two places. */
#define ATTENTION_GROUPS_TO_QUERIES(X) \
    X(64, 128)                         \
    X(128, 128)
#define ATTENTION_GROUPS_TO_KEYS(X) \
    X(64, 128)                      \
    X(128, 64)
#define ATTENTION_GROUPS_VJP_BYTES(width, step) ((2 * ATTENTION_GROUP_ROWS + 4 * (step)) * (width)*2 + 1024)

/* Where rows are: from head to head, from row to row, and along the batch, in elements. */
struct attention_operand {
    const void *p;
    int64_t head, row, batch[ATTENTION_DIMS];
    int32_t vectors; /* LANES neighbours are read at once: sizes, steps and the address allow it */
};

/* A head of keys of one place of the batch is a unit, whose `rows` of queries are those of `group` heads, one after
 * another.  Blocks take a tile of rows, some columns of the result and a piece of the keys. */
struct attention_call {
    void *y, *top, *sum;
    void *partial; /* of several pieces: of each all rows, not yet divided by their sums; then the tops and the sums */
    struct attention_operand q, k, v, mask, sinks;
    int64_t mask_key; /* from key to key */
    uint32_t shape[ATTENTION_DIMS];
    int32_t ndim; /* of the batch */
    int32_t causal, mask_is_bool;
    int32_t fours; /* rows of y are multiples of four elements */
    int64_t units, kv, group, length, keys, rows, d, e;
    int64_t tiles, chunks, pieces, piece;
    double scale;
    int32_t key_team, value_team; /* attention_few: threads that have a row of K and of V, powers of two */
    int32_t merge_team;           /* threads that have an element of the result, a power of two */
    int32_t stages, ahead;   /* attention_split: places of K and V, and keys that are fetched into the cache first */
    uint32_t *arrived;       /* of each unit, how many pieces are there; NULL: another launch merges them */
    const uint32_t *only_if; /* NULL, or where 0 is there is nothing to do; of half types */
};

enum { ATTENTION_DELTA_THREADS = 256 };
/* What the derivative is given, which makes y of c for the queries. */
struct attention_vjp_call {
    struct attention_call c;
    struct attention_operand ct;
    const void *result;     /* of attention, row-major */
    int32_t result_vectors; /* LANES neighbours of it are read at once, and of the cotangent */
    int32_t delta_team;     /* threads that have a row of both, a power of two */
    void *delta;            /* of each row of queries the sum of their products, which a launch makes */
    void *dk, *dv, *dsinks;
};

/* Beside cuDNN's attention.  A block looks at rows of results: *wild becomes whether there is anything not finite.  And
 * of each row of queries becomes `weight` the logarithm of the sum of its weights or, if that is NULL, its sum 1. */
enum { ATTENTION_LOOK_THREADS = 256, ATTENTION_LOOKS = 2 };
struct attention_look_call {
    const void *x[ATTENTION_LOOKS]; /* the first of these rows */
    int64_t step[ATTENTION_LOOKS];  /* from one to the next, in elements */
    uint32_t rows[ATTENTION_LOOKS];
    uint32_t vectors; /* of a row */
    uint32_t *wild;   /* NULL: nothing is looked at */
    const float *top;
    float *sum, *weight;
    int64_t queries; /* 0: nothing is made of them */
};

#endif
