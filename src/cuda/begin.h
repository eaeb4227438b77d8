/* begin.h: members of a group that are not element-wise, which others of it read (run/fuse.h).
 *
 * They run before the rest of the group, each with what element-wise members its kernel does besides. */
#ifndef MX_CUDA_BEGIN_H
#define MX_CUDA_BEGIN_H

#include "cuda/gpu.h"

/* May the node be such a member?  One that draws random bits, or multiplies matrices where a library does. */
bool gpu_begins(const struct node *n);
/* Groups that have such members. */
int gpu_run_begun(struct stream *s, int n, struct entry *const m[], const bool wanted[]);

/* What was done: the member whose result is in memory, and all that it took, as bits. */
struct begun {
    int last;
    uint32_t members;
};
typedef int begin_fn(struct stream *s, int n, struct entry *const m[], const bool wanted[], int first, struct begun *b);
begin_fn gpu_begin_draw, gpu_begin_product;

/* Members that read one another, and nobody else does. */
struct chain {
    int n;
    struct entry *const *m;
    const bool *wanted;
    int at;          /* the last one so far */
    uint32_t passed; /* all of them, as bits */
};
/* If nobody but one member, once, looks at the last one's result, and it is `op` of that and perhaps of one number for
 * all elements, the `other` (which may come first where the order does not matter), the chain goes on there. */
bool chain_goes_on(struct chain *c, int op, enum dtype to, mx *other);

#endif
