/* producer.h: members of a group that are not element-wise, which others of it read (run/fuse.h).
 *
 * They run before the rest of the group, each with an epilogue: what element-wise members its kernel does besides. */
#ifndef MX_CUDA_PRODUCER_H
#define MX_CUDA_PRODUCER_H

#include "cuda/gpu.h"

/* May the node be one?  It draws random bits, multiplies matrices where a library does or a vector, or transforms the
 * first of two axes, the second of which may end the group. */
bool gpu_is_producer(const struct node *n);
/* Runs a group that has some. */
int gpu_run_producers(struct stream *s, int n, struct entry *const m[], const bool wanted[]);

/* What was done, as bits: the members whose results are in memory, and all that they took. */
struct produced {
    uint32_t gone; /* what has been done before it was asked */
    uint32_t made, members;
};
typedef int producer_fn(struct stream *s, int n, struct entry *const m[], const bool wanted[], int first,
                        struct produced *b);
producer_fn gpu_produce_draws, gpu_produce_product, gpu_produce_fft;

/* A producer and members behind it, each of which reads the one before, and nobody else does. */
struct epilogue {
    int n;
    struct entry *const *m;
    const bool *wanted;
    int at;          /* the last one so far */
    uint32_t passed; /* all of them, as bits */
};
/* If nobody but one member, once, looks at the last one's result, and it is `op` of that and perhaps of one number for
 * all elements, the `other` (which may come first where the order does not matter), it is taken in. */
bool epilogue_takes(struct epilogue *c, int op, enum dtype to, mx *other);
/* The same for the sum of it and an array of its shape and type, row-major. */
bool epilogue_takes_sum(struct epilogue *c, mx *other);
/* The same for it times what another producer makes, which nobody else looks at either: that is taken in too, and its
 * number returned; negative: there is no such product. */
int epilogue_takes_product(struct epilogue *c);

#endif
