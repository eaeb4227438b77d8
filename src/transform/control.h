/* control.h: loops and branches whose bodies are graphs.
 *
 * A body is traced once.  Of what it uses besides its arguments, numbers stay in its graph as
 * constants and everything else becomes an operand of the node, after the arguments: transforms see
 * it there, and a body never refers to anything outside itself. */
#ifndef MX_TRANSFORM_CONTROL_H
#define MX_TRANSFORM_CONTROL_H

#include "transform/graph.h"
#include "transform/transform.h"

/* f(carry, x) -> (carry, y) along the first axis of the xs.  Operands: carries, xs, captured ones;
 * the body's inputs are the same, of each x a slice.  Results: the last carries, the ys stacked, and
 * with `keeps` the carries that each step began with, stacked: what derivatives start from. */
struct scan_loop_args {
    struct object *body; /* struct graph */
    int n_carry, n_xs, length;
    bool reverse, keeps;
};

/* Operands: carries, what the condition captured, what the body captured. */
struct while_loop_args {
    struct object *test, *body;
    int n_carry, n_test; /* n_test: captured by the condition */
};

/* Operands: the predicate, those of the branches, what `yes` captured, what `no` captured. */
struct cond_args {
    struct object *yes, *no;
    int n, n_yes; /* operands of both branches; captured by `yes` */
};

/* Operands: the graph's inputs. */
struct compiled_args {
    struct object *body; /* struct graph */
};

/* The operands that a body has as inputs: the first n of x, then those from `from` up to `to`.  Both
 * lists have as many as the body has inputs. */
static inline void body_operands(const mx x[], int n, int from, int to, mx in[])
{
    for (int i = 0; i < n; i++) in[i] = x[i];
    for (int i = from; i < to; i++) in[n + i - from] = x[i];
}
/* Their shapes; those from xs up to xs + n_xs are taken a slice at a time. */
static inline void body_dims(int n, const mx x[], int xs, int n_xs, struct dims in[])
{
    for (int i = 0; i < n; i++) {
        int sliced = i >= xs && i < xs + n_xs;
        in[i] = (struct dims){ x[i]->ndim - sliced, x[i]->shape + sliced };
    }
}

/* Each pushes its results; 0, or non-zero after mx_fail.  length -1: that of the xs. */
int mx_scan_loop(struct closure *f, int n_carry, const mx init[], int n_xs, const mx xs[], int length, bool reverse,
                 struct mx_list *out); /* the carries, then the ys */
int mx_while_loop(struct closure *test, struct closure *body, int n, const mx init[], struct mx_list *out);
int mx_cond(mx pred, struct closure *yes, struct closure *no, int n, const mx x[], struct mx_list *out);

#endif
