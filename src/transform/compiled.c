/* compiled.c: the operations of a compiled function as one.
 *
 * Of a small function, a node, an array and an entry for each operation take many times as long as computing it. Where
 * nobody can follow the results back to the operands (compile.c) one node stands for all, whose argument is the graph;
 * where it is run (run/steps.c) nodes and arrays of its own are kept from call to call.  Its rules are those of the
 * graph, called again. */
#include "transform/control.h"

#include <stdlib.h>

#include "core/shape.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "transform/body.h"

static struct graph *body_of_call(const struct call *c)
{
    const struct compiled_args *a = c->args;
    return graph_in(a->body);
}

static int compiled_shapes(const struct call *c, struct spec out[])
{
    struct dims *in = mx_zeroed(c->nin, sizeof *in);
    if (in)
        body_dims(c->nin, c->x, 0, 0, in);
    struct graph *g = in ? graph_at(body_of_call(c), in) : NULL;
    for (int k = 0; k < c->nout && g; k++) spec_like(&out[k], g->r.values[g->r.roots[k]].it);
    if (g)
        object_release(&g->object);
    free(in);
    return !g;
}

static void compiled_compose(const struct call *c, mx y[])
{
    struct mx_list out = { 0 };
    int failed = graph_call(body_of_call(c), c->nin, c->x, &out);
    for (int k = 0; k < c->nout; k++) y[k] = failed ? MX_NIL : list_lent(&out, k);
    list_clear(&out);
}

static void compiled_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    struct graph_part f = graph_part(body_of_call(c), NULL, NULL, 0, NULL);
    struct mx_list y = { 0 }, d = { 0 };
    mx *all = mx_zeroed(c->nout, sizeof *all);
    for (int k = 0; k < c->nout && all; k++) all[k] = or_zeros(ct[k], c->y[k]);
    if (all && !mx_vjp(&f.closure, c->nin, c->x, c->nout, all, &y, &d))
        for (int i = 0; i < c->nin; i++)
            if (want[i])
                dx[i] = list_lent(&d, i);
    free(all);
    list_clear(&y);
    list_clear(&d);
}

static void compiled_jvp(const struct call *c, const mx t[], mx dy[])
{
    struct graph_part f = graph_part(body_of_call(c), NULL, NULL, 0, NULL);
    struct mx_list y = { 0 }, d = { 0 };
    mx *all = mx_zeroed(c->nin, sizeof *all);
    for (int i = 0; i < c->nin && all; i++) all[i] = or_zeros(t[i], c->x[i]);
    if (all && !mx_jvp(&f.closure, c->nin, c->x, c->nin, all, &y, &d))
        for (int k = 0; k < c->nout; k++) dy[k] = list_lent(&d, k);
    free(all);
    list_clear(&y);
    list_clear(&d);
}

static void compiled_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct mx_list out = { 0 };
    bool *batched = mx_zeroed(c->nout, sizeof *batched);
    for (int k = 0; k < c->nout && batched; k++) batched[k] = true;
    int failed = !batched || graph_map(body_of_call(c), batch_size(c, axis).now, c->x, axis, batched, &out);
    for (int k = 0; k < c->nout; k++) {
        y[k] = failed ? MX_NIL : list_lent(&out, k);
        yaxis[k] = 0;
    }
    free(batched);
    list_clear(&out);
}

static const struct field compiled_args_fields[] = { FIELD(compiled_args, body), { 0 } };

const struct op op_compiled = {
    OP_ROW(compiled),    ARGS(compiled_args),   .shapes = compiled_shapes,   .vjp = compiled_vjp,
    .jvp = compiled_jvp, .vmap = compiled_vmap, .compose = compiled_compose,
};
