/* walk.h: the one way to look at a graph. */
#ifndef MX_TRANSFORM_WALK_H
#define MX_TRANSFORM_WALK_H

#include "core/array.h"
#include "ops/op.h"

/* A recorded graph: entries in an order in which operands come before users.  Values are numbered,
 * leaves first (leaf i is value i; where one is there twice, entries have the last), results and constants alike. */
struct recorded {
    struct node *node; /* owned */
    int at;            /* numbers[at ...]: the operands, then the results */
};
/* What is made of a placeholder that is none of the leaves: of one that stands for something in a trace around, or of
 * one whose trace is over, which stands for nothing any more. */
enum { FOREIGN = 1, FORGOTTEN = 2 };
struct recording {
    int n, cap;
    struct recorded *entries;
    int n_numbers, numbers_cap;
    int *numbers;
    int n_values, values_cap;
    mx_own *values;
    bool *dependent;  /* by value: does it depend on a leaf? */
    uint8_t *foreign; /* by value: FOREIGN, FORGOTTEN; 0: neither */
    int *roots;       /* the roots' values */
};

/* Records what `roots` are made of, down to `leaves` and to arrays without a node; with
 * only_dependent what does not depend on a leaf is a constant.  0, or non-zero after mx_fail. */
int record(struct recording *r, int n_roots, const mx roots[], int n_leaves, const mx leaves[], bool only_dependent);
/* What depends on a leaf, and what does not where it is large and newer than `clock` (node_clock): other arrays are
 * constants, which stay as long as the recording does. */
int record_anew(struct recording *r, int n_roots, const mx roots[], int n_leaves, const mx leaves[], uint32_t clock);
/* What roots are made of, where the graph ends at leaves and at nodes older than `clock`. */
int record_since(struct recording *r, int n_roots, const mx roots[], int n_leaves, const mx leaves[], uint32_t clock);
/* By value: do the roots need it, where an entry needs its first `reads` operands?  To be freed; NULL after
 * mx_fail. */
bool *recording_needs(const struct recording *r, int n_roots, int (*reads)(const struct node *n));
void recording_free(struct recording *r);
/* The most operands or results that an entry has; at least 1. */
int recording_widest(const struct recording *r);

/* How many kernels a recorded graph comes to if it is evaluated on a backend that fuses (views count
 * as none), and how many of them run several operations.  Takes the graph lock.  Non-zero after
 * mx_fail.  Defined where graphs are run (run/fuse.c). */
int recording_kernels(const struct recording *r, int *kernels, int *fused);
/* Is it made of element-wise operations and views alone, all on one stream, on arrays so small that starting one takes
 * longer than computing it?  In the same file. */
bool recording_is_small(const struct recording *r);
/* Is each result looked at when it is made (MLX_CHECK)?  In the same file. */
bool results_are_checked(void);

#endif
