/* body.h: the bodies of loops and branches, and bodies made of them. */
#ifndef MX_TRANSFORM_BODY_H
#define MX_TRANSFORM_BODY_H

#include "transform/graph.h"
#include "transform/transform.h"

/* A function traced by itself: its graph's inputs are the n of the function and then those captured. */
struct body {
    struct graph *g;
    struct mx_list captured;
};
/* `like` gives shapes and dtypes.  What does not depend on the arguments is computed beforehand, once,
 * or, with `whole`, by the body all the same.  Non-zero after mx_fail; body_free it in any case. */
int body_trace(struct body *b, struct closure *f, int n, const mx like[], bool whole);
/* The same of results `out` that a function has made from `in`, tracers, since node_clock said `clock`, while
 * tracing.  Appends what is captured to `in`. */
int body_of(struct body *b, bool whole, uint32_t clock, struct mx_list *in, const struct mx_list *out);
void body_free(struct body *b);

/* Parts of a graph as functions.  The inputs named are the arguments, the others have values of their
 * own; the results named are its results.  NULL: all of them, in order.  The lists are the caller's. */
struct graph_part {
    struct closure closure;
    const struct graph *g;
    const mx *x; /* all inputs */
    const int *in, *out;
    int n_out;
};
struct graph_part graph_part(const struct graph *g, const mx x[], const int *in, int n_out, const int *out);

/* A function whose last n inputs are x: what it captured. */
struct capturing {
    struct closure closure;
    struct closure *of;
    int n;
    const mx *x;
};
struct capturing capturing(struct closure *of, int n, const mx x[]);

/* What a graph's results depend on: out[k] if it does on an input with in[i] (with `derivatives`, in a way that
 * those take).  Non-zero after mx_fail. */
int graph_spread(const struct graph *g, const bool in[], bool out[], bool derivatives);
/* The results for a batch of n: axis 0 where batched[k], as they are where not.  Axes as mx_vmap takes them. */
int graph_map(const struct graph *g, int n, const mx x[], const int axes[], const bool batched[], struct mx_list *y);

/* p, a batch of numbers, in as many dimensions as x, which has the batch in front. */
mx lifted_like(mx p, mx x);

/* Fails as [op] where the first n results of g do not have the shapes and dtypes of the carry `before`. */
int body_check(const char *op, int n, const mx before[], const struct graph *g);
/* Makes the node and pushes the first n of its results.  Non-zero after mx_fail, as in the next one. */
int list_push_node(const struct op *op, const void *args, const struct mx_list *in, int nout, int n,
                   struct mx_list *out);
int list_push_captured(struct mx_list *l, const struct body *b);
/* The array, lent to the scope that is open. */
mx list_lent(const struct mx_list *l, int i);
static inline struct graph *graph_in(struct object *o) { return (struct graph *)o; }
static inline bool is_inexact(mx x) { return dtype_is_inexact((enum dtype)x->dtype); }
/* Derivatives pass through integers, in integers, as where there is no loop. */
static inline bool has_derivative(mx x) { return x->dtype != DT_bool_; }
/* n things and one more, all zero; NULL after mx_fail. */
void *mx_zeroed(int64_t n, size_t size);

#endif
