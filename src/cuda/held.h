/* held.h: launches that are held back, for the next one may do what they do on its way.
 *
 * A launch that is held has been reported as queued, but neither is it on the stream nor on its tape (record.c).  Of
 * two kinds a stream holds one each: the norm of one row, which a launch of products makes that reads it, and products
 * of one vector, as queries, keys and values of one token are, which others of that vector become part of, rotations of
 * heads, and their way into the cache.  What else is queued has them recorded first. */
#ifndef MX_CUDA_HELD_H
#define MX_CUDA_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "cuda/kernels/rows.h"
#include "cuda/kernels/vector_turns.h"

struct buffer;
struct gpu;
struct gpu_stream;

/* The norm of one row. */
struct gpu_held_norm {
    bool waits; /* else none is held */
    void *kernel;
    int64_t blocks;
    enum dtype type;
    struct rows_args args;
    struct buffer *of[4]; /* which nobody else may have until it is recorded; the thread's that runs the batches */
};

/* Adds the matrices of another launch to what is at `args` of the one that is held, and says how many blocks it has
 * then; 0: they do not go together. */
typedef int64_t gpu_join_fn(const struct gpu *g, void *args, const void *more);

/* A vector's products with n matrices of m[i] lines.  What becomes of heads of queries, keys and values may be done on
 * their way (kernels/vector_turns.h): `args` are the arguments of the kernel and, behind them, of the one that does
 * that as well, where there is something to do. */
enum { GPU_VECTORS_BYTES = 2048, GPU_VECTORS_READ = 4 * VECTOR_TURNED + 4 };
struct gpu_vectors {
    bool waits; /* else none are held */
    bool turns; /* there is something to do: the kernel is `turning` */
    gpu_join_fn *join;
    void *kernel, *turning;
    unsigned blocks, threads;
    enum dtype type;
    int n;
    void *y[VECTOR_TURNED];          /* where results go */
    const void *into[VECTOR_TURNED]; /* the memory that they go to, if they were told to: else m[i] follow each other */
    size_t into_bytes[VECTOR_TURNED];
    int64_t m[VECTOR_TURNED];
    const void *reads[GPU_VECTORS_READ]; /* where what it reads begins, or NULL */
    size_t bytes;
    _Alignas(16) char args[GPU_VECTORS_BYTES];
};

/* What may become of all results of one matrix, `size` of them from x on: they go to y, as heads of `width` numbers,
 * `step` from one to the next; or, where `pairs` is not 0, they stay, and points of such heads, whose numbers are
 * `apart`, half a head or 1, are turned. */
struct gpu_heads {
    const void *x;
    int64_t size;
    enum dtype type;
    int width, pairs, apart;
    void *y;
    int64_t step;
    const void *into; /* the memory that y is in, of so many bytes, of which the launch may read nothing */
    size_t into_bytes;
    float cosine[VECTOR_PAIRS], sine[VECTOR_PAIRS];
};

/* Holds a launch of products, which those that are held may take in: v is all but `waits`, `turns` and the arguments,
 * at `args`; y: as of gpu_launch_with_norm, among them, or NULL.  The driver's error, after which it is neither held
 * nor queued. */
int gpu_hold_vectors(struct gpu_stream *q, const struct gpu_vectors *v, const void *args, void **y);
/* May the products that are held do that?  And have they been told to?  By the thread that runs the stream's batches;
 * others may have them recorded meanwhile. */
bool gpu_vectors_may(struct gpu_stream *q, const struct gpu_heads *t);
bool gpu_vectors_take(struct gpu_stream *q, const struct gpu_heads *t);

/* Holds the norm until the next launch, at the latest; it takes the references to `of`, some of which may be NULL. */
void gpu_hold_norm(struct gpu_stream *q, const struct gpu_held_norm *h);
/* Is one held that makes what is at y, of this type, and what does it do? */
bool gpu_holds_norm(struct gpu_stream *q, const void *y, enum dtype t, struct rows_args *a);
/* Lets go of the memory of a norm that is no longer held.  The second has one recorded that is of b, which somebody
 * wants to have for himself.  Both by the thread that runs the stream's batches. */
void gpu_drop_held(struct gpu_stream *q);
void gpu_claim_from_held(struct gpu_stream *q, const struct buffer *b);

#endif
