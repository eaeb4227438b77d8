/* composed.c: see composed.h.  The formula is a closure over the operation's call. */
#include "ops/composed.h"

#include "core/scope.h"
#include "ops/rules.h"
#include "transform/transform.h"

enum { MOST = 16 }; /* operands or results */

struct formula {
    struct closure closure;
    compose_fn *f;
    const struct call *c;
};

static int call_formula(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct formula *g = (struct formula *)self;
    struct call c = *g->c;
    MX_SCOPE(NULL);
    mx y[MOST];
    (void)n;
    c.x = x;
    c.y = NULL;
    g->f(&c, y);
    for (int k = 0; k < c.nout; k++)
        if (is_nil(y[k]) || list_push(out, y[k]))
            return 1;
    return 0;
}

/* Owned by the list, lent to the scope. */
static mx lent_of(const struct mx_list *l, int i)
{
    mx x = l->v[i].it;
    mx_retain(x);
    return scope_lend(x);
}

void composed_vjp(compose_fn *f, const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    struct formula g = { { { .refs = 1 }, call_formula }, f, c };
    struct mx_list y = { 0 }, d = { 0 };
    mx all[MOST];
    for (int k = 0; k < c->nout; k++) all[k] = or_zeros(ct[k], c->y[k]);
    if (!mx_vjp(&g.closure, c->nin, c->x, c->nout, all, &y, &d))
        for (int i = 0; i < c->nin; i++)
            if (want[i])
                dx[i] = lent_of(&d, i);
    list_clear(&y);
    list_clear(&d);
}

void composed_jvp(compose_fn *f, const struct call *c, const mx t[], mx dy[])
{
    struct formula g = { { { .refs = 1 }, call_formula }, f, c };
    struct mx_list y = { 0 }, d = { 0 };
    mx all[MOST];
    for (int i = 0; i < c->nin; i++) all[i] = or_zeros(t[i], c->x[i]);
    if (!mx_jvp(&g.closure, c->nin, c->x, c->nin, all, &y, &d))
        for (int k = 0; k < c->nout; k++) dy[k] = lent_of(&d, k);
    list_clear(&y);
    list_clear(&d);
}
