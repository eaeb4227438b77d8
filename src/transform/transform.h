/* transform.h: derivatives. */
#ifndef MX_TRANSFORM_TRANSFORM_H
#define MX_TRANSFORM_TRANSFORM_H

#include "core/array.h"
#include "ops/op.h"

/* A function of arrays that transforms call: x are owned by the caller and valid during the call;
 * results are stored owned.  Returns the number of results (at most cap), or -1 after mx_fail. */
struct closure {
    struct object object;
    /* Puts owned results into a list.  0, or non-zero after mx_fail. */
    int (*call)(struct closure *self, int n, const mx x[], struct mx_list *out);
};

/* A growing list of owned arrays. */
struct mx_list {
    int n, cap;
    mx_own *v;
};
void list_push(struct mx_list *l, mx x);
void list_clear(struct mx_list *l);

/* y = f(x) and, for each x, the sum over results of ct_k dy_k/dx_i.  n_ct must match the results;
 * dx entries are never NULL (zeros where f does not depend on x_i). */
int mx_vjp(struct closure *f, int n, const mx x[], int n_ct, const mx ct[], struct mx_list *y, struct mx_list *dx);
int mx_jvp(struct closure *f, int n, const mx x[], int n_t, const mx t[], struct mx_list *y, struct mx_list *dy);
/* Value and gradient of the first result, a scalar, with respect to the arguments named. */
int mx_value_and_grad(struct closure *f, int n, const mx x[], const int *argnums, int n_arg, struct mx_list *y,
                      struct mx_list *dx);
/* A function whose derivative is another: vjp(x..., y..., ct...) gives one array per x. */
struct closure *mx_custom_vjp(struct closure *f, struct closure *vjp);

#endif
