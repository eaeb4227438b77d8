/* made.h: reductions of elements that are made as they are needed (cpu/tape.c). */
#ifndef MX_CPU_MADE_H
#define MX_CPU_MADE_H

#include "cpu/run.h"

struct made {
    /* Elements at .. at + n of the operand, row-major, at most MADE_MOST; may be put into `space`.
     * Called by several threads. */
    const void *(*make)(void *ctx, char *space, int64_t at, int64_t n);
    void *ctx;
};
enum { MADE_MOST = 1024 };

/* Does this reduction come to the same, bit for bit, when its operand arrives in that way? */
bool reduces_made(const struct node *n);
int reduce_made(const struct run *r, const struct made *m);

#endif
