/* made.h: reductions of elements that are made as they are needed (cpu/tape.c). */
#ifndef MX_CPU_MADE_H
#define MX_CPU_MADE_H

#include "cpu/run.h"

struct made {
    /* x[0] becomes elements at .. at + n of the operand, row-major, at most MADE_MOST, or x[0] and x[1] the factors
     * that these are the products of; may be put into `space`.  Called by several threads. */
    void (*make)(void *ctx, char *space, int64_t at, int64_t n, const void *x[2]);
    void *ctx;
    bool product;
    /* Where both factors are what is left of an operand in memory, `from`, without a number that is the same for all
     * that is folded into a result: those numbers, one for each; else NULL, both. */
    const void *from, *center;
};
enum { MADE_MOST = 1024 };

/* Does this reduction come to the same, bit for bit, when its operand arrives in that way? */
bool reduces_made(const struct node *n);
/* And when the factors do, of an operand that is a product? */
bool reduces_product(const struct node *n);
/* Has c, of the operand's shape, one number for each result, in their order in memory? */
bool one_for_each_result(const struct node *n, mx c);
int reduce_made(const struct run *r, const struct made *m);

#endif
