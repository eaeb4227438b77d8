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
#include "transform/graph.h"
#include "transform/walk.h"

/* The size of the batch; -1 after a failure. */
static int mapped_size(int n, const mx x[], const int axes[])
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
    return graph_placeholder((enum dtype)x->dtype, n, shape);
}

int mx_vmap_trace(struct closure *f, int n, const mx x[], const int axes[], struct mx_list *in, struct mx_list *out)
{
    if (mapped_size(n, x, axes) < 0)
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
    for (int i = 0; i < n; i++)
        if (axes[i] >= 0)
            graph_forget(in->v[first + i].it);
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

struct replaying {
    const struct recording *g;
    bool *needed, *done; /* by value; by entry */
    struct batched *v;   /* by value */
    mx *x, *y;           /* of the entry at hand */
    int *axis, *yaxis;
};

static bool is_needed(const struct replaying *r, const struct recorded *e)
{
    const int *out = r->g->numbers + e->at + e->node->nin;
    bool needed = false;
    for (int k = 0; k < e->node->nout; k++) needed |= r->needed[out[k]];
    return needed;
}

static int replay(struct replaying *r, const struct recorded *e)
{
    const struct recording *g = r->g;
    struct node *n = e->node;
    const int *in = g->numbers + e->at, *out = in + n->nin;
    mx *x = r->x, *y = r->y;
    bool any = false, other = false, none = false;
    for (int i = 0; i < n->nin; i++) {
        struct batched *b = &r->v[in[i]];
        x[i] = b->x.it ? b->x.it : g->values[in[i]].it;
        r->axis[i] = b->x.it ? b->axis : -1;
        any |= r->axis[i] >= 0;
        none |= r->axis[i] >= 0 && dim(x[i], r->axis[i]) == 0;
        other |= b->x.it != NULL;
    }
    if (!other)
        return 0;
    if (any && !n->op->vmap) {
        mx_fail("[vmap] %s has no vmap rule", n->op->label);
        return 1;
    }
    struct call c = { n->op, n->args, n->nin, n->nout, x, NULL };
    MX_SCOPE(n->stream);
    for (int k = 0; k < n->nout; k++) r->yaxis[k] = -1;
    if (none) {
        shapes_matter("vmap over no examples");
        none_of(g, n, out, y, r->yaxis);
    } else if (any) {
        n->op->vmap(&c, r->axis, y, r->yaxis);
    } else {
        remake(g, n, out, x, y);
    }
    for (int k = 0; k < n->nout && !mx_failed(); k++) {
        mx_keep(&r->v[out[k]].x, y[k]);
        r->v[out[k]].axis = r->yaxis[k];
    }
    return mx_failed();
}

/* Entry i reads its arguments alone where its rule is asked, which it is not where none of them is mapped: then what
 * else it reads is needed, too.  True if so. */
static bool needs_more(struct replaying *r, int i)
{
    const struct recorded *e = &r->g->entries[i];
    const int *in = r->g->numbers + e->at;
    int reads = vmap_reads(e->node);
    for (int k = 0; k < reads; k++)
        if (r->v[in[k]].x.it && r->v[in[k]].axis >= 0)
            return false;
    bool more = false;
    for (int k = reads; k < e->node->nin; k++) {
        more |= !r->needed[in[k]];
        r->needed[in[k]] = true;
    }
    while (more && i-- > 0) {
        e = &r->g->entries[i];
        for (int k = is_needed(r, e) && !r->done[i] ? vmap_reads(e->node) : 0; k-- > 0;)
            r->needed[r->g->numbers[e->at + k]] = true;
    }
    return more;
}

/* What is needed of the first n entries. */
static int replay_all(struct replaying *r, int n)
{
    int failed = 0;
    for (int i = 0; i < n && !failed; i++) {
        const struct recorded *e = &r->g->entries[i];
        if (r->done[i] || !is_needed(r, e))
            continue;
        failed = (needs_more(r, i) && replay_all(r, i)) || replay(r, e);
        r->done[i] = true;
    }
    return failed;
}

/* y with its batch, of `size`, at `axis` of the result. */
static mx place_batch(mx y, int from, int to, struct size size)
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

/* Fails where x, without its mapped axis, is not what was traced. */
static bool unlike(int i, mx x, int axis, mx traced)
{
    int shape[MX_MAX_NDIM], n = 0;
    for (int k = 0; k < x->ndim; k++)
        if (k != axis)
            shape[n++] = x->shape[k];
    if (x->dtype == traced->dtype && n == traced->ndim &&
        (!n || !memcmp(shape, traced->shape, (size_t)n * sizeof *shape)))
        return false;
    mx_fail(
        "[vmap] expected input %d as it was traced, of shape %s and type %s for each example, got shape %s and type "
        "%s, mapped along axis %d",
        i, shape_of(traced), dtype_name(traced->dtype), shape_of(x), dtype_name(x->dtype), axis);
    return true;
}

int mx_vmap_replace(int n, const mx x[], const mx in[], const int axes[], int n_out, const mx out[],
                    const int out_axes[], struct mx_list *y)
{
    int failed = mapped_size(n, x, axes) < 0;
    struct size size = size_is(0);
    struct recording g;
    struct mx_list *checks = shapeless_checks(), roots = { 0 };
    for (int i = 0; i < n && !failed; i++) failed = unlike(i, x[i], axes[i], in[i]);
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
    bool *needed = recording_needs(&g, n_roots, vmap_reads), *done = mx_malloc((size_t)g.n + 1);
    struct replaying r = { &g, needed, done, v, slots, slots + most, places, places + most };
    failed = !v || !slots || !needed || !done;
    if (done)
        memset(done, 0, (size_t)g.n + 1);
    for (int i = 0; i < n && !failed; i++)
        if (axes[i] >= 0) {
            size = size_of(x[i], axes[i]);
            mx_keep(&v[i].x, x[i]);
            v[i].axis = axes[i];
        }
    failed = failed || replay_all(&r, g.n);
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
        failed = list_push(y, place_batch(b->x.it ? b->x.it : out[k], b->x.it ? b->axis : -1, out_axes[k], size));
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
    free(done);
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
