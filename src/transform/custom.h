/* custom.h: functions with rules of their author's. */
#ifndef MX_TRANSFORM_CUSTOM_H
#define MX_TRANSFORM_CUSTOM_H

#include "transform/transform.h"

/* Rules are called as closures are: operands are owned by the caller, results are pushed; 0, or
 * non-zero after mx_fail. */

/* Pushes one array per x, or fewer where no more are wanted, given operands, results and a cotangent for
 * each result (zeros where none arrived). */
struct vjp_rule {
    struct object object;
    int (*call)(struct vjp_rule *self, int nx, const mx x[], int ny, const mx y[], const mx ct[], struct mx_list *dx);
};
/* Pushes one array per y, given operands, results and the operands' tangents, NULL where one does not vary. */
struct jvp_rule {
    struct object object;
    int (*call)(struct jvp_rule *self, int nx, const mx x[], int ny, const mx y[], const mx t[], struct mx_list *dy);
};
/* Pushes ny arrays, the results for a batch that lies along axis[i] of x[i] (-1: the same for the whole
 * batch), and says the same of them. */
struct vmap_rule {
    struct object object;
    int (*call)(struct vmap_rule *self, int nx, const mx x[], const int axis[], int ny, struct mx_list *y, int yaxis[]);
};

/* f with these rules in place of the ones that follow from its operations; a rule may be NULL.  Keeps
 * them all; the caller gets the only reference to the new closure, NULL after mx_fail.  Arrays that f
 * knows from elsewhere than its arguments get no derivative through a rule. */
struct closure *mx_custom_function(struct closure *f, struct vjp_rule *vjp, struct jvp_rule *jvp,
                                   struct vmap_rule *vmap);

/* Results y of the arguments x, with a vjp rule of their own. */
void custom_exit(struct vjp_rule *vjp, int nx, const mx x[], int ny, const mx y[], mx out[]);

/* How many of a node's first operands its rule looks at: all but the results that a rule of its author's
 * stands in for. */
int jvp_reads(const struct node *n);
int vmap_reads(const struct node *n);

/* f, computed anew for its gradient: what it computes on the way to its results is not kept meanwhile.
 * The operations are those of the first time, random numbers and all, and what f knows from elsewhere
 * than its arguments gets its gradient too. */
struct closure *mx_checkpoint(struct closure *f);

#endif
