/* checkpoint.c: functions that are computed anew for their gradient.
 *
 * The function is called once, and what it did is kept as a graph of placeholders, which holds no data.
 * Its results get a vjp rule that calls the graph on the arguments and differentiates that.  The arguments
 * depend on the cotangents then: they keep what is computed anew apart from what was, and from being
 * computed before it is needed. */
#include <stdlib.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "ops/ops.h"
#include "transform/custom.h"
#include "transform/graph.h"

struct again {
    struct vjp_rule rule;
    struct graph *graph; /* of the arguments and of what the function knew from elsewhere */
};

struct graph_closure { struct closure closure; const struct graph *graph; };

static int call_graph(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    return graph_call(((struct graph_closure *)self)->graph, n, x, out);
}

static int call_again(struct vjp_rule *self, int nx, const mx x[], int ny, const mx y[], const mx ct[],
                      struct mx_list *dx)
{
    struct graph_closure f = { { { .refs = 1 }, call_graph }, ((struct again *)self)->graph };
    struct mx_list later = { 0 }, values = { 0 };
    mx *after = mx_malloc((size_t)nx * sizeof *after);
    int failed = !after;
    (void)y;
    if (!failed) {
        MX_SCOPE(NULL);
        failed = !mx_depends(nx, x, ny, ct, after);
        for (int i = 0; i < nx && !failed; i++)
            failed = list_push(&later, after[i]);
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

/* Appends what the graph between `in` and `y` has for constants. */
static int push_constants(struct mx_list *to, const struct mx_list *in, const struct mx_list *y)
{
    struct graph *g = graph_of(in->n, (mx *)in->v, y->n, (mx *)y->v);
    int failed = !g;
    for (int i = in->n; !failed && i < g->r.n_values; i++)
        failed = !g->r.dependent[i] && list_push(to, g->r.values[i].it);
    object_release((struct object *)g);
    return failed;
}

/* The graph between `in` and `y`, of placeholders. */
static struct graph *hollow(const struct mx_list *in, const struct mx_list *y)
{
    struct graph *g = graph_of(in->n, (mx *)in->v, y->n, (mx *)y->v), *result = NULL;
    struct mx_list holes = { 0 }, out = { 0 };
    int failed = !g;
    for (int i = 0; i < in->n && !failed; i++) {
        MX_SCOPE(NULL);
        mx like = in->v[i].it;
        failed = list_push(&holes, graph_placeholder((enum dtype)like->dtype, like->ndim, like->shape));
    }
    if (!failed && !graph_call(g, holes.n, (mx *)holes.v, &out))
        result = graph_of(holes.n, (mx *)holes.v, out.n, (mx *)out.v);
    list_clear(&holes);
    list_clear(&out);
    object_release((struct object *)g);
    return result;
}

/* Pushes y, made from `in`, which stand for x, with the rule. */
static int push_results(int n, const mx x[], const struct mx_list *in, const struct mx_list *y, struct mx_list *out)
{
    struct mx_list inside = { 0 }, from = { 0 };
    struct again *rule = mx_malloc(sizeof *rule);
    mx *passed = mx_malloc((size_t)(y->n ? y->n : 1) * sizeof *passed);
    int failed = !rule || !passed;
    for (int i = 0; i < n && !failed; i++)
        failed = list_push(&inside, in->v[i].it) || list_push(&from, x[i]);
    failed = failed || push_constants(&inside, in, y);
    for (int i = n; i < inside.n && !failed; i++)
        failed = list_push(&from, inside.v[i].it);
    struct graph *g = failed ? NULL : hollow(&inside, y);
    if (g) {
        MX_SCOPE(NULL);
        *rule = (struct again){ { { .refs = 1, .destroy = again_destroy }, call_again }, g };
        custom_exit(&rule->rule, from.n, (mx *)from.v, y->n, (mx *)y->v, passed);
        for (int k = 0; k < y->n && !failed; k++)
            failed = list_push(out, passed[k]);
        object_release(&rule->rule.object);
    } else {
        free(rule);
        failed = 1;
    }
    free(passed);
    list_clear(&inside);
    list_clear(&from);
    return failed;
}

struct checkpoint { struct closure closure; struct closure *f; };

static int checkpoint_call(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct closure *f = ((struct checkpoint *)self)->f;
    if (!n || !tracing())
        return f->call(f, n, x, out);
    struct mx_list in = { 0 }, y = { 0 };
    int failed = 0;
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < n && !failed; i++) {
            mx inside = mx_node(&op_copy, NULL, 1, &x[i], x[i]->ndim, x[i]->shape, (enum dtype)x[i]->dtype);
            failed = list_push(&in, inside);
            if (!failed)
                inside->tracer = true;
        }
    }
    failed = failed || f->call(f, n, (mx *)in.v, &y) || push_results(n, x, &in, &y, out);
    list_clear(&in);
    list_clear(&y);
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
