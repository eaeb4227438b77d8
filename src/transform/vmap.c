/* vmap.c: functions of arrays, over a batch.
 *
 * The function is called on placeholders: arrays of the operands' shapes without the batched axis
 * and without values.  The graph it built between them and its results is recorded and replayed
 * on the batched operands, each entry by its op's vmap rule, or as it is where none of its operands
 * is batched.  What does not depend on a placeholder is left alone. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "transform/custom.h"
#include "transform/walk.h"

/* The size of the batch; -1 after a failure. */
static int batch_size(int n, const mx x[], const int axes[])
{
    int size = -1;
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0)
            continue;
        if (axes[i] >= x[i]->ndim) {
            mx_fail_as(MX_AXIS, "[vmap] axis %d is out of range for argument %d of shape %s", axes[i], i,
                       shape_of(x[i]));
            return -1;
        }
        int here = x[i]->shape[axes[i]];
        if (size >= 0 && here != size) {
            mx_fail("[vmap] expected mapped axes of one size, got %d and %d (axis %d of argument %d of shape %s)", size,
                    here, axes[i], i, shape_of(x[i]));
            return -1;
        }
        size = here;
    }
    if (size < 0)
        mx_fail("[vmap] expected at least one argument with an axis to map over");
    return size;
}

static mx placeholder(mx x, int axis)
{
    int shape[MX_MAX_NDIM], n = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != axis)
            shape[n++] = x->shape[i];
    mx y = array_new(x->dtype, n, shape);
    if (!is_nil(y))
        y->tracer = true;
    return y;
}

int mx_vmap_trace(struct closure *f, int n, const mx x[], const int axes[], struct mx_list *in, struct mx_list *out)
{
    if (batch_size(n, x, axes) < 0)
        return 1;
    int failed = 0, first = in->n;
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < n && !failed; i++) failed = list_push(in, axes[i] < 0 ? x[i] : placeholder(x[i], axes[i]));
    }
    if (failed)
        return 1;
    trace_begin();
    failed = f->call(f, n, (mx *)in->v + first, out);
    trace_end();
    return failed;
}

/* A batched value: the array and where its batch is; -1: the same for the whole batch. */
struct batched {
    mx_own x;
    int axis;
};

/* The entry on other operands of the same shapes. */
static void remake(const struct recording *g, const struct node *n, const int *out, const mx x[], mx y[])
{
    mx like = g->values[out[0]].it;
    if (n->nout > 1)
        mx_nodes(n->op, n->args, n->nin, x, n->nout, n->specs, y);
    else
        y[0] = mx_node(n->op, n->args, n->nin, x, like->ndim, like->shape, (enum dtype)like->dtype);
}

/* Results for a batch of no examples, of which rules need not think. */
static void none_of(const struct recording *g, const struct node *n, const int out[], mx y[], int yaxis[])
{
    for (int k = 0; k < n->nout; k++) {
        mx like = g->values[out[k]].it;
        int shape[MX_MAX_NDIM + 1] = { 0 };
        memcpy(shape + 1, like->shape, (size_t)like->ndim * sizeof *shape);
        y[k] = mx_zeros(1 + like->ndim, shape, (enum dtype)like->dtype);
        yaxis[k] = 0;
    }
}

static int replay(const struct recording *g, const struct recorded *e, const bool needed[], struct batched v[], mx *x,
                  mx *y, int *axis, int *yaxis)
{
    struct node *n = e->node;
    const int *in = g->numbers + e->at, *out = in + n->nin;
    bool any = false, other = false, use = false, none = false;
    for (int i = 0; i < n->nin; i++) {
        struct batched *b = &v[in[i]];
        x[i] = b->x.it ? b->x.it : g->values[in[i]].it;
        axis[i] = b->x.it ? b->axis : -1;
        any |= axis[i] >= 0;
        none |= axis[i] >= 0 && dim(x[i], axis[i]) == 0;
        other |= b->x.it != NULL;
    }
    for (int k = 0; k < n->nout; k++) use |= needed[out[k]];
    if (!other || !use)
        return 0;
    if (any && !n->op->vmap) {
        mx_fail("[vmap] %s has no vmap rule", n->op->label);
        return 1;
    }
    struct call c = { n->op, n->args, n->nin, n->nout, x, NULL };
    MX_SCOPE(n->stream);
    for (int k = 0; k < n->nout; k++) yaxis[k] = -1;
    if (none) {
        shapes_matter("vmap over no examples");
        none_of(g, n, out, y, yaxis);
    } else if (any) {
        n->op->vmap(&c, axis, y, yaxis);
    } else {
        remake(g, n, out, x, y);
    }
    for (int k = 0; k < n->nout && !mx_failed(); k++) {
        mx_keep(&v[out[k]].x, y[k]);
        v[out[k]].axis = yaxis[k];
    }
    return mx_failed();
}

/* y with its batch, of `size`, at `axis` of the result. */
static mx place(mx y, int from, int to, struct size size)
{
    int ndim = y->ndim + (from < 0);
    if (to < -ndim || to >= ndim)
        return mx_fail_as(MX_AXIS, "[vmap] output axis %d is out of range for a result of %d dimensions with its batch",
                          to, ndim);
    to += to < 0 ? ndim : 0;
    if (from >= 0)
        return mx_moveaxis(y, from, to);
    struct size sizes[MX_MAX_NDIM + 1];
    mx z = mx_expand_dims(y, &to, 1);
    int n = sizes_like(z, sizes);
    if (n)
        sizes[to] = size;
    return mx_broadcast_by(z, n, sizes);
}

/* The roots and, after them, what a graph for any shape must be able to make. */
static int with_checks(int n_out, const mx out[], const struct mx_list *checks, struct mx_list *roots)
{
    return list_push_all(roots, n_out, out) || (checks && list_push_all(roots, checks->n, (mx *)checks->v));
}

int mx_vmap_replace(int n, const mx x[], const mx in[], const int axes[], int n_out, const mx out[],
                    const int out_axes[], struct mx_list *y)
{
    int failed = batch_size(n, x, axes) < 0;
    struct size size = size_is(0);
    struct recording g;
    struct mx_list *checks = shapeless_checks(), roots = { 0 };
    failed = failed || with_checks(n_out, out, checks, &roots) || record(&g, roots.n, (mx *)roots.v, n, in, true);
    int n_roots = roots.n;
    list_clear(&roots);
    if (failed)
        return 1;
    int most = recording_widest(&g);
    size_t values = ((size_t)g.n_values + 1) * sizeof(struct batched);
    struct batched *v = mx_malloc(values);
    if (v)
        memset(v, 0, values);
    mx *slots = mx_malloc((size_t)most * 2 * (sizeof(mx) + sizeof(int)));
    int *places = slots ? (int *)(slots + 2 * most) : NULL;
    bool *needed = recording_needs(&g, n_roots, vmap_reads);
    failed = !v || !slots || !needed;
    for (int i = 0; i < n && !failed; i++)
        if (axes[i] >= 0) {
            size = size_of(x[i], axes[i]);
            mx_keep(&v[i].x, x[i]);
            v[i].axis = axes[i];
        }
    for (int i = 0; i < g.n && !failed; i++)
        failed = replay(&g, &g.entries[i], needed, v, slots, slots + most, places, places + most);
    for (int k = 0; k < n_out && !failed; k++) {
        MX_SCOPE(NULL);
        struct batched *b = &v[g.roots[k]];
        if (out_axes[k] == VMAP_NONE) {
            if (b->x.it && b->axis >= 0) {
                mx_fail("[vmap] result %d depends on the batch, so its output axis cannot be None", k);
                failed = 1;
            } else {
                failed = list_push(y, b->x.it ? b->x.it : out[k]);
            }
            continue;
        }
        failed = list_push(y, place(b->x.it ? b->x.it : out[k], b->x.it ? b->axis : -1, out_axes[k], size));
    }
    for (int k = n_out; k < n_roots && !failed; k++) { /* checks of one example are now those of the batch */
        mx y = v[g.roots[k]].x.it;
        if (y)
            mx_keep(&checks->v[k - n_out], y);
    }
    for (int i = 0; v && i < g.n_values; i++) mx_drop(&v[i].x);
    free(v);
    free(slots);
    free(needed);
    recording_free(&g);
    return failed || mx_failed();
}

int mx_vmap(struct closure *f, int n, const mx x[], const int axes[], struct mx_list *y)
{
    struct mx_list in = { 0 }, out = { 0 };
    int failed = mx_vmap_trace(f, n, x, axes, &in, &out);
    size_t bytes = ((size_t)out.n + 1) * sizeof(int);
    int *front = failed ? NULL : mx_malloc(bytes);
    if (front)
        memset(front, 0, bytes);
    failed = failed || !front || mx_vmap_replace(n, x, (mx *)in.v, axes, out.n, (mx *)out.v, front, y);
    free(front);
    list_clear(&in);
    list_clear(&out);
    return failed;
}
