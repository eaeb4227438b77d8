/* transform.h: derivatives. */
#ifndef MX_TRANSFORM_TRANSFORM_H
#define MX_TRANSFORM_TRANSFORM_H

#include "core/array.h"
#include "ops/op.h"

/* A function of arrays that transforms call.  The operands are owned by the caller and valid during
 * the call; results are pushed.  0, or non-zero after mx_fail (MX_USER if the error is the callback's). */
struct closure {
    struct object object;
    int (*call)(struct closure *self, int n, const mx x[], struct mx_list *out);
};

/* y = f(x) and, for each x, the sum over results of ct_k dy_k/dx_i.  n_ct must match the results;
 * dx entries are never NULL (zeros where f does not depend on x_i). */
int mx_vjp(struct closure *f, int n, const mx x[], int n_ct, const mx ct[], struct mx_list *y, struct mx_list *dx);
/* y = f(x) and the derivative of f at x in the direction t. */
int mx_jvp(struct closure *f, int n, const mx x[], int n_t, const mx t[], struct mx_list *y, struct mx_list *dy);
/* Value and gradient of the first result, a scalar, with respect to the arguments named. */
int mx_value_and_grad(struct closure *f, int n, const mx x[], const int *argnums, int n_arg, struct mx_list *y,
                      struct mx_list *dx);
/* Pushes y = f(x); gives the function of tangents that mx_jvp computes, and the function of cotangents
 * that mx_vjp does, without calling f again.  The caller gets the only reference, NULL after mx_fail. */
struct closure *mx_linearize(struct closure *f, int n, const mx x[], struct mx_list *y);
struct closure *mx_pullback(struct closure *f, int n, const mx x[], struct mx_list *y);

/* vmap in two steps, since the axes of results may be chosen once it is known how many there are.
 * The first calls f on placeholders: pushes one array per operand and f's results.  axes[i] is the
 * mapped axis of operand i, not negative, or -1 where it is the same for the whole batch. */
int mx_vmap_trace(struct closure *f, int n, const mx x[], const int axes[], struct mx_list *in, struct mx_list *out);
/* The second gives the results for the batch, with the batch at out_axes[k] of result k. */
enum { VMAP_NONE = -1000 }; /* no axis: the result does not depend on the batch */
int mx_vmap_replace(int n, const mx x[], const mx in[], const int axes[], int n_out, const mx out[],
                    const int out_axes[], struct mx_list *y);
/* Both, with the batch in front of every result. */
int mx_vmap(struct closure *f, int n, const mx x[], const int axes[], struct mx_list *y);

#endif
