/* checkpoint.c: functions that are computed anew for their gradient.
 *
 * The function is called once, and what it did is kept as a graph of placeholders, which holds no data.
 * Its results get a vjp rule that calls the graph on the arguments and differentiates that.  The arguments
 * depend on the cotangents then: this keeps what is computed anew apart from what was, and from being
 * computed before it is needed. */
#include <stdlib.h>

#include "core/buffer.h"
#include "core/room.h"
#include "core/scope.h"
#include "ops/ops.h"
#include "transform/body.h"
#include "transform/custom.h"

struct again {
    struct vjp_rule rule;
    struct graph *graph; /* of the arguments and of what the function knew from elsewhere */
};

static int call_again(struct vjp_rule *self, int nx, const mx x[], int ny, const mx y[], const mx ct[],
                      struct mx_list *dx)
{
    if (mx_need_room("checkpoint"))
        return 1;
    struct graph_part f = graph_part(((struct again *)self)->graph, NULL, NULL, 0, NULL);
    struct mx_list later = { 0 }, values = { 0 };
    mx *after = mx_zeroed((size_t)nx, sizeof *after);
    int failed = !after;
    (void)y;
    if (!failed) {
        MX_SCOPE(NULL);
        failed = !mx_depends(nx, x, ny, ct, after);
        for (int i = 0; i < nx && !failed; i++) failed = list_push(&later, after[i]);
    }
    failed = failed || mx_vjp(&f.closure, nx, (mx *)later.v, ny, ct, &values, dx);
    free(after);
    list_clear(&later);
    list_clear(&values);
    return failed;
}

static void again_destroy(struct object *o)
{
    object_release(&((struct again *)o)->graph->object);
    free(o);
}

/* Pushes y, made from x by the graph, with the rule. */
static int push_results(struct graph *g, const struct mx_list *x, const struct mx_list *y, struct mx_list *out)
{
    struct again *rule = mx_malloc(sizeof *rule);
    mx *passed = mx_zeroed((size_t)y->n, sizeof *passed);
    int failed = !rule || !passed;
    if (!failed) {
        MX_SCOPE(NULL);
        *rule = (struct again){ { { .refs = 1, .destroy = again_destroy }, call_again }, g };
        object_retain(&g->object);
        custom_exit(&rule->rule, x->n, (mx *)x->v, y->n, (mx *)y->v, passed);
        for (int k = 0; k < y->n && !failed; k++) failed = list_push(out, passed[k]);
        object_release(&rule->rule.object);
    } else {
        free(rule);
    }
    free(passed);
    return failed;
}

/* What stands for the arguments inside, told apart from every other use of them. */
static int push_inside(struct mx_list *in, int n, const mx x[])
{
    int failed = 0;
    for (int i = 0; i < n && !failed; i++) {
        MX_SCOPE(NULL);
        mx inside = mx_node(&op_copy, NULL, 1, &x[i], x[i]->ndim, x[i]->shape, (enum dtype)x[i]->dtype);
        failed = list_push(in, inside);
        if (!failed && !is_traced(inside))
            inside->tracer = trace_number();
    }
    return failed;
}

struct checkpoint {
    struct closure closure;
    struct closure *f;
};

static int checkpoint_call(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct closure *f = ((struct checkpoint *)self)->f;
    if (!tracing() && !any_traced(n, x))
        return f->call(f, n, x, out);
    struct mx_list in = { 0 }, y = { 0 }, from = { 0 };
    struct body b = { 0 };
    int failed = push_inside(&in, n, x);
    uint32_t clock = node_clock();
    failed = failed || f->call(f, n, (mx *)in.v, &y) || body_of(&b, true, clock, &in, &y);
    for (int i = 0; i < in.n && !failed; i++) failed = list_push(&from, i < n ? x[i] : in.v[i].it);
    if (!failed && y.n)
        failed = push_results(b.g, &from, &y, out);
    body_free(&b);
    list_clear(&in);
    list_clear(&y);
    list_clear(&from);
    return failed;
}

static void checkpoint_destroy(struct object *o)
{
    object_release(&((struct checkpoint *)o)->f->object);
    free(o);
}

struct closure *mx_checkpoint(struct closure *f)
{
    struct checkpoint *c = mx_malloc(sizeof *c);
    if (!c)
        return NULL;
    *c = (struct checkpoint){ { { .refs = 1, .destroy = checkpoint_destroy }, checkpoint_call }, f };
    object_retain(&f->object);
    return &c->closure;
}
