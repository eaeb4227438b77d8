/* control.c: loops.
 *
 * Derivatives and batches of a loop are loops again, whose bodies are made by the same transform from
 * the graph of the body; so each can be transformed further.  Going back, scan starts each step from
 * the carry that the forward pass kept for it and computes the body anew, so that memory is one carry
 * a step rather than every intermediate; the forward node gives those carries as results that are
 * only computed if somebody holds them. */
#include "transform/control.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "transform/body.h"

/* ---- scan */

static int loop_shapes(const struct call *c, struct spec out[])
{
    const struct scan_loop_args *a = c->args;
    int nc = a->n_carry, length = a->n_xs ? dim(c->x[nc], 0) : a->length;
    struct dims *in = mx_zeroed(c->nin, sizeof *in);
    if (in)
        body_dims(c->nin, c->x, nc, a->n_xs, in);
    struct graph *g = in ? graph_at(graph_in(a->body), in) : NULL;
    int bad = !g || body_check("scan", nc, c->x, g);
    for (int k = 0; !bad && k < c->nout; k++) {
        mx y = g->r.values[g->r.roots[k < g->n_out ? k : k - g->n_out]].it;
        int shape[MX_MAX_NDIM + 1] = { length }, stacked = k >= nc;
        if (y->ndim + stacked > MX_MAX_NDIM) {
            bad = failed(mx_fail("[scan] cannot stack results of %d dimensions", y->ndim));
            break;
        }
        memcpy(shape + stacked, y->shape, (size_t)y->ndim * sizeof(int));
        spec_set(&out[k], (enum dtype)y->dtype, y->ndim + stacked, shape);
    }
    if (g)
        object_release(&g->object);
    free(in);
    return bad;
}

static int scan_length(int n_xs, const mx xs[], int length)
{
    int first = -1;
    for (int i = 0; i < n_xs; i++) {
        if (xs[i]->ndim == 0) {
            mx_fail("[scan] expected xs with an axis to go along, got a scalar (array %d of xs)", i);
            return -1;
        }
        if (first >= 0 && xs[i]->shape[0] != xs[first]->shape[0]) {
            mx_fail("[scan] expected xs of one length, got %d (array %d) and %d (array %d of shape %s)",
                    xs[first]->shape[0], first, xs[i]->shape[0], i, shape_of(xs[i]));
            return -1;
        }
        first = first < 0 ? i : first;
    }
    if (first < 0 && length < 0)
        mx_fail("[scan] expected xs or a length that is not negative");
    else if (first >= 0 && length >= 0 && length != xs[first]->shape[0])
        mx_fail("[scan] expected xs of the length given, %d, got %d", length, xs[first]->shape[0]);
    else
        return first >= 0 ? xs[first]->shape[0] : length;
    return -1;
}

/* With `all` also pushes the carries that the steps began with. */
static int scan_build(struct closure *f, int nc, const mx init[], int nx, const mx xs[], int length, bool reverse,
                      bool all, struct mx_list *out)
{
    struct mx_list like = { 0 }, in = { 0 };
    struct body b = { 0 };
    int bad = mx_failed() || (length = scan_length(nx, xs, length)) < 0 || list_push_all(&like, nc, init) ||
              list_push_all(&in, nc, init) || list_push_all(&in, nx, xs);
    for (int i = 0; i < nx && !bad; i++) {
        MX_SCOPE(NULL);
        bad = list_push(&like, graph_placeholder((enum dtype)xs[i]->dtype, xs[i]->ndim - 1, xs[i]->shape + 1));
    }
    bad = bad || body_trace(&b, f, nc + nx, (mx *)like.v, false);
    if (!bad && b.g->n_out < nc)
        bad = failed(
            mx_fail("[scan] expected the function to return the %d arrays of the carry first, got %d", nc, b.g->n_out));
    if (!bad && !(bad = body_check("scan", nc, init, b.g) || list_push_captured(&in, &b))) {
        bool keeps = all || tracing() || any_traced(in.n, (mx *)in.v);
        struct scan_loop_args args = { &b.g->object, nc, nx, length, reverse, keeps };
        int nout = b.g->n_out + (args.keeps ? nc : 0);
        bad = list_push_node(&op_scan_loop, &args, &in, nout, all ? nout : b.g->n_out, out);
    }
    list_clear(&like);
    list_clear(&in);
    body_free(&b);
    return bad;
}

int mx_scan_loop(struct closure *f, int n_carry, const mx init[], int n_xs, const mx xs[], int length, bool reverse,
                 struct mx_list *out)
{
    return scan_build(f, n_carry, init, n_xs, xs, length, reverse, false, out);
}

/* What the rules of a loop know, and their bodies: see scan_vjp, scan_jvp and scan_vmap. */
struct rule {
    struct closure closure;
    const struct graph *g;
    const mx *x;         /* operands of the loop */
    int nc, nx, n_in;    /* carries, xs, inputs of the body */
    int n_w, *w;         /* inputs by which to differentiate: carries, xs, captured ones */
    int n_wc, n_wx;      /* of which the first are carries, the next xs */
    int n_d, *d;         /* results with cotangents: carries as in w, then ys */
    const int *kept;     /* by carry of w: which of the last xs is its own cotangent, or -1 */
    const mx *t;         /* tangents of the operands */
    const bool *batched; /* results */
    int *axes, size;     /* of the inputs; of the batch */
};

/* carries: cotangents of the carries, sums for captured ones; xs: the carries, the xs, cotangents of ys,
 * of the kept carries.  Results: both carries; the cotangents of the xs. */
static int scan_vjp_body(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct rule *r = (struct rule *)self;
    int n_sums = r->n_w - r->n_wc - r->n_wx;
    const mx *ct = x, *sums = x + r->n_wc, *carries = sums + n_sums, *xs = carries + r->nc, *ys = xs + r->nx,
             *kept = ys + r->n_d - r->n_wc;
    struct mx_list y = { 0 }, dx = { 0 };
    mx *all = mx_zeroed(r->n_in + r->n_w + r->n_d, sizeof *all), *by = all + r->n_in, *cts = by + r->n_w;
    (void)n;
    if (!all)
        return 1;
    for (int i = 0; i < r->n_in; i++) all[i] = i < r->nc ? carries[i] : i < r->nc + r->nx ? xs[i - r->nc] : r->x[i];
    for (int i = 0; i < r->n_w; i++) by[i] = all[r->w[i]];
    for (int k = 0; k < r->n_d; k++) cts[k] = k < r->n_wc ? ct[k] : ys[k - r->n_wc];
    struct graph_part f = graph_part(r->g, all, r->w, r->n_d, r->d);
    int bad = mx_vjp(&f.closure, r->n_w, by, r->n_d, cts, &y, &dx);
    MX_SCOPE(NULL);
    for (int i = 0; i < r->n_wc && !bad; i++)
        bad = list_push(out, r->kept[i] < 0 ? dx.v[i].it : mx_add(dx.v[i].it, kept[r->kept[i]]));
    for (int i = 0; i < n_sums && !bad; i++) bad = list_push(out, mx_add(sums[i], dx.v[r->n_wc + r->n_wx + i].it));
    for (int i = 0; i < r->n_wx && !bad; i++) bad = list_push(out, dx.v[r->n_wc + i].it);
    list_clear(&y);
    list_clear(&dx);
    free(all);
    return bad;
}

static struct rule scan_rule(const struct call *c, int (*body)(struct closure *, int, const mx[], struct mx_list *))
{
    const struct scan_loop_args *a = c->args;
    return (struct rule){ .closure = { { .refs = 1 }, body },
                          .g = graph_in(a->body),
                          .x = c->x,
                          .nc = a->n_carry,
                          .nx = a->n_xs,
                          .n_in = c->nin };
}

/* The carries that the steps began with; NULL after mx_fail. */
static const mx *scan_kept(const struct call *c, mx *fresh)
{
    const struct scan_loop_args *a = c->args;
    struct scan_loop_args keeping = *a;
    int n_out = graph_in(a->body)->n_out;
    if (a->keeps)
        return c->y + n_out;
    keeping.keeps = true;
    mx_infer_n(&op_scan_loop, &keeping, c->nin, c->x, n_out + a->n_carry, fresh);
    return mx_failed() ? NULL : fresh + n_out;
}

/* Which carries vary, or are batched, if those of `in` do at first: on return every one that does so in
 * some step.  out: the body's results. */
static int settle_carries(const struct graph *g, int nc, bool in[], bool out[], bool derivatives)
{
    for (bool more = true; more;) {
        if (graph_spread(g, in, out, derivatives))
            return 1;
        more = false;
        for (int i = 0; i < nc; i++) {
            more |= out[i] && !in[i];
            in[i] |= out[i];
        }
    }
    for (int i = 0; i < nc; i++) out[i] = in[i];
    return 0;
}

static void loop_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    const struct scan_loop_args *a = c->args;
    struct rule r = scan_rule(c, scan_vjp_body);
    int n_out = r.g->n_out, nc = r.nc, length = a->n_xs ? dim(c->x[nc], 0) : a->length;
    struct mx_list init = { 0 }, xs = { 0 }, out = { 0 };
    int *lists = mx_zeroed(c->nin + n_out + nc, sizeof *lists);
    mx *fresh = lists ? mx_zeroed(n_out + nc, sizeof *fresh) : NULL;
    bool *in = fresh ? mx_zeroed(c->nin + n_out, sizeof *in) : NULL, *varies = in ? in + c->nin : NULL;
    for (int i = 0; i < c->nin && in; i++) in[i] = want[i] && has_derivative(c->x[i]);
    const mx *began = in && !settle_carries(r.g, nc, in, varies, true) ? scan_kept(c, fresh) : NULL;
    if (!began) {
        free(in);
        free(fresh);
        list_clear(&init);
        free(lists);
        return;
    }
    int *kept = lists + c->nin + n_out, n_kept = 0;
    r.w = lists;
    r.d = lists + c->nin;
    r.kept = kept;
    int bad = list_push_all(&xs, nc, began) || list_push_all(&xs, r.nx, c->x + nc);
    for (int i = 0; i < nc && !bad; i++)
        if (in[i]) {
            r.w[r.n_w++] = r.d[r.n_d++] = i;
            bad = list_push(&init, or_zeros(ct[i], c->x[i]));
        }
    r.n_wc = r.n_w;
    for (int i = nc; i < c->nin && !bad; i++)
        if (in[i]) {
            r.n_wx += i < nc + r.nx;
            r.w[r.n_w++] = i;
            bad = i >= nc + r.nx && list_push(&init, zeros_of(c->x[i]));
        }
    for (int k = nc; k < n_out && !bad; k++)
        if (ct[k] && varies[k]) {
            r.d[r.n_d++] = k;
            bad = list_push(&xs, ct[k]);
        }
    for (int i = 0; i < r.n_wc && !bad; i++) {
        mx own = a->keeps ? ct[n_out + r.w[i]] : NULL;
        kept[i] = own ? n_kept++ : -1;
        bad = own && list_push(&xs, own);
    }
    if (!bad && r.n_w && r.n_d &&
        !scan_build(&r.closure, init.n, (mx *)init.v, xs.n, (mx *)xs.v, length, !a->reverse, false, &out)) {
        int n_sums = r.n_w - r.n_wc - r.n_wx;
        for (int i = 0; i < r.n_w; i++) {
            int at = i < r.n_wc ? i : i < r.n_wc + r.n_wx ? i + n_sums : i - r.n_wx;
            if (want[r.w[i]])
                dx[r.w[i]] = list_lent(&out, at);
        }
    }
    list_clear(&xs);
    list_clear(&out);
    free(in);
    free(fresh);
    list_clear(&init);
    free(lists);
}

/* carries: the carries, their tangents; xs: the xs, their tangents.  Results: both carries; tangents of ys. */
static int scan_jvp_body(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct rule *r = (struct rule *)self;
    const mx *tc = x + r->nc, *xs = tc + r->n_wc, *tx = xs + r->nx;
    struct mx_list y = { 0 }, dy = { 0 };
    mx *all = mx_zeroed(r->n_in + r->n_w + r->n_w, sizeof *all), *by = all + r->n_in, *t = by + r->n_w;
    (void)n;
    if (!all)
        return 1;
    for (int i = 0; i < r->n_in; i++) all[i] = i < r->nc ? x[i] : i < r->nc + r->nx ? xs[i - r->nc] : r->x[i];
    for (int i = 0; i < r->n_w; i++) {
        by[i] = all[r->w[i]];
        t[i] = i < r->n_wc ? tc[i] : i < r->n_wc + r->n_wx ? tx[i - r->n_wc] : r->t[r->w[i]];
    }
    struct graph_part f = graph_part(r->g, all, r->w, 0, NULL);
    int bad = mx_jvp(&f.closure, r->n_w, by, r->n_w, t, &y, &dy) || list_push_all(out, r->nc, (mx *)y.v);
    for (int k = 0; k < r->n_d && !bad; k++) bad = list_push(out, dy.v[r->d[k]].it);
    list_clear(&y);
    list_clear(&dy);
    free(all);
    return bad;
}

/* Fills w and d of a rule for tangents: what varies, the carries first. */
static int find_varying(struct rule *r, const mx t[], int *lists, bool *varies)
{
    bool *in = varies, *out = varies + r->n_in;
    for (int i = 0; i < r->n_in; i++) in[i] = t[i] && has_derivative(r->x[i]);
    if (settle_carries(r->g, r->nc, in, out, true))
        return 1;
    r->w = lists;
    r->d = lists + r->n_in;
    r->t = t;
    for (int i = 0; i < r->n_in; i++)
        if (in[i]) {
            r->n_wc += i < r->nc;
            r->n_wx += i >= r->nc && i < r->nc + r->nx;
            r->w[r->n_w++] = i;
        }
    for (int k = 0; k < r->g->n_out; k++)
        if (out[k])
            r->d[r->n_d++] = k;
    return 0;
}

static void loop_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct scan_loop_args *a = c->args;
    struct rule r = scan_rule(c, scan_jvp_body);
    int n_out = r.g->n_out, nc = r.nc, length = a->n_xs ? dim(c->x[nc], 0) : a->length;
    struct mx_list init = { 0 }, xs = { 0 }, out = { 0 };
    int *lists = mx_zeroed(c->nin + n_out, sizeof *lists);
    bool *varies = lists ? mx_zeroed(c->nin + n_out, sizeof *varies) : NULL;
    int bad = !varies || find_varying(&r, t, lists, varies) || list_push_all(&init, nc, c->x) ||
              list_push_all(&xs, r.nx, c->x + nc);
    for (int i = 0; i < r.n_wc && !bad; i++) bad = list_push(&init, or_zeros(t[r.w[i]], c->x[r.w[i]]));
    for (int i = r.n_wc; i < r.n_wc + r.n_wx && !bad; i++) bad = list_push(&xs, t[r.w[i]]);
    if (!bad && r.n_w &&
        !scan_build(&r.closure, init.n, (mx *)init.v, xs.n, (mx *)xs.v, length, a->reverse, a->keeps, &out)) {
        for (int k = 0; k < r.n_d; k++) dy[r.d[k]] = list_lent(&out, nc + k);
        for (int i = 0; i < r.n_wc && a->keeps; i++) /* behind the results, and the carries that are no tangents */
            dy[n_out + r.w[i]] = list_lent(&out, nc + r.n_d + nc + i);
    }
    list_clear(&xs);
    list_clear(&out);
    free(varies);
    list_clear(&init);
    free(lists);
}

/* A body over a batch: all its inputs and results have the batch in front. */
static int map_body(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct rule *r = (struct rule *)self;
    mx *all = mx_zeroed(r->n_in, sizeof *all);
    if (!all)
        return 1;
    for (int i = 0; i < r->n_in; i++) all[i] = i < n ? x[i] : r->x[i];
    int bad = graph_map(r->g, r->size, all, r->axes, r->batched, out);
    free(all);
    return bad;
}

static void loop_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct scan_loop_args *a = c->args;
    struct rule r = scan_rule(c, map_body);
    int n_out = r.g->n_out, nc = r.nc, size = batch_size(c, axis).now, length = a->n_xs ? 0 : a->length;
    struct mx_list in = { 0 }, out = { 0 };
    mx *x = mx_zeroed(c->nin, sizeof *x);
    bool *batched = x ? mx_zeroed(c->nin + n_out, sizeof *batched) : NULL;
    r.axes = batched ? mx_zeroed(c->nin, sizeof *r.axes) : NULL;
    int bad = !r.axes;
    for (int i = 0; i < c->nin && !bad; i++) batched[i] = axis[i] >= 0;
    bad = bad || settle_carries(r.g, nc, batched, batched + c->nin, false);
    for (int i = 0; i < c->nin && !bad; i++) {
        bool slices = i >= nc && i < nc + r.nx;
        r.axes[i] = batched[i] ? 0 : -1;
        x[i] = !batched[i] ? c->x[i]
               : slices    ? mx_moveaxis(c->x[i], axis[i], 1)
                           : batch_all(c->x[i], axis[i], size_is(size));
        bad = list_push(&in, x[i]);
    }
    if (!bad) {
        r.x = x;
        r.size = size;
        r.batched = batched + c->nin;
        length = r.nx ? dim(x[nc], 0) : length;
        bad = scan_build(&r.closure, nc, x, r.nx, x + nc, length, a->reverse, a->keeps, &out);
    }
    for (int k = 0; k < c->nout; k++) {
        y[k] = bad ? MX_NIL : list_lent(&out, k);
        yaxis[k] = bad || !r.batched[k < n_out ? k : k - n_out] ? -1 : k >= nc;
    }
    list_clear(&out);
    free(batched);
    free(r.axes);
    list_clear(&in);
    free(x);
}

static const struct field scan_loop_args_fields[] = {
    FIELD(scan_loop_args, body),
    FIELD(scan_loop_args, n_carry),
    FIELD(scan_loop_args, n_xs),
    FIELD(scan_loop_args, length),
    FIELD(scan_loop_args, reverse),
    FIELD(scan_loop_args, keeps),
    { 0 },
};

static bool scan_fits(const struct call *c)
{
    const struct scan_loop_args *a = c->args;
    return a->n_carry >= 0 && a->n_xs >= 0 && a->length >= 0 && (int64_t)a->n_carry + a->n_xs <= c->nin;
}

static int scan_rebuild(const struct call *c, struct closure *const of[], struct mx_list *out)
{
    const struct scan_loop_args *a = c->args;
    const mx *xs = c->x + a->n_carry, *captured = xs + a->n_xs;
    struct capturing f = capturing(of[0], (int)(c->x + c->nin - captured), captured);
    return mx_scan_loop(&f.closure, a->n_carry, c->x, a->n_xs, xs, a->n_xs ? -1 : a->length, a->reverse, out);
}

const struct op op_scan_loop = {
    OP_ROW(scan_loop), ARGS(scan_loop_args), .shapes = loop_shapes, .vjp = loop_vjp,
    .jvp = loop_jvp,   .vmap = loop_vmap,    .fits = scan_fits,     .rebuild = scan_rebuild,
};

/* ---- while_loop */

static int while_shapes(const struct call *c, struct spec out[])
{
    const struct while_loop_args *a = c->args;
    int n = a->n_carry, n_in = c->nin - a->n_test;
    struct dims *in = mx_zeroed(c->nin, sizeof *in);
    mx *x = in ? mx_zeroed(c->nin, sizeof *x) : NULL;
    if (x) {
        body_operands(c->x, n, n + a->n_test, c->nin, x);
        body_dims(n_in, x, 0, 0, in);
    }
    struct graph *g = x ? graph_at(graph_in(a->body), in) : NULL;
    int bad = !g || body_check("while_loop", n, c->x, g);
    for (int k = 0; k < n && !bad; k++) spec_like(&out[k], c->x[k]);
    if (g)
        object_release(&g->object);
    free(x);
    free(in);
    return bad;
}

/* Makes the condition's result what the loop reads. */
struct test {
    struct closure closure;
    struct closure *of;
};

static int call_test(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct closure *of = ((struct test *)self)->of;
    struct mx_list y = { 0 };
    int bad = of->call(of, n, x, &y);
    if (!bad && (y.n != 1 || y.v[0].it->ndim))
        bad = failed(mx_fail("[while_loop] expected the condition to return one scalar, got %s%s",
                             y.n == 1 ? "an array of shape " : "another number of arrays",
                             y.n == 1 ? shape_of(y.v[0].it) : ""));
    if (!bad) {
        MX_SCOPE(NULL);
        bad = list_push(out, mx_astype(y.v[0].it, DT_bool_));
    }
    list_clear(&y);
    return bad;
}

int mx_while_loop(struct closure *test, struct closure *body, int n, const mx init[], struct mx_list *out)
{
    struct test t = { { { .refs = 1 }, call_test }, test };
    struct mx_list in = { 0 };
    struct body b = { 0 }, until = { 0 };
    int bad = mx_failed() || list_push_all(&in, n, init) || body_trace(&until, &t.closure, n, (mx *)in.v, false) ||
              body_trace(&b, body, n, (mx *)in.v, false);
    if (!bad && b.g->n_out != n)
        bad = failed(
            mx_fail("[while_loop] expected the function to return the %d arrays of the carry, got %d", n, b.g->n_out));
    if (!bad && !(bad = body_check("while_loop", n, init, b.g) || list_push_captured(&in, &until) ||
                        list_push_captured(&in, &b))) {
        struct while_loop_args args = { &until.g->object, &b.g->object, n, until.captured.n };
        bad = list_push_node(&op_while_loop, &args, &in, n, n, out);
    }
    list_clear(&in);
    body_free(&b);
    body_free(&until);
    return bad;
}

static void while_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)ct, (void)dx;
    for (int i = 0; i < c->nin; i++)
        if (want[i] && is_inexact(c->x[i])) {
            mx_fail("[while_loop] has no derivative in reverse mode, since how many steps it takes, and so what they "
                    "need to keep, is not known: use scan with a length, or forward mode (jvp)");
            return;
        }
}

/* Both functions of a loop as parts of a rule. */
struct while_rule {
    struct rule test, body;
    mx *x; /* operands of the condition, then of the body */
};

static int while_rule(struct while_rule *w, const struct call *c, const mx x[],
                      int (*test)(struct closure *, int, const mx[], struct mx_list *),
                      int (*body)(struct closure *, int, const mx[], struct mx_list *))
{
    const struct while_loop_args *a = c->args;
    int n = a->n_carry, n_test = n + a->n_test, n_body = c->nin - a->n_test;
    if (!(w->x = mx_zeroed(n_test + n_body, sizeof *w->x)))
        return 1;
    body_operands(x, n_test, n_test, n_test, w->x);
    body_operands(x, n, n_test, c->nin, w->x + n_test);
    w->test =
        (struct rule){ .closure = { { .refs = 1 }, test }, .g = graph_in(a->test), .x = w->x, .nc = n, .n_in = n_test };
    w->body = (struct rule){
        .closure = { { .refs = 1 }, body }, .g = graph_in(a->body), .x = w->x + n_test, .nc = n, .n_in = n_body
    };
    return 0;
}

/* The graph of a rule on its first nc arguments. */
static int call_first(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct rule *r = (struct rule *)self;
    mx *all = mx_zeroed(r->n_in, sizeof *all);
    (void)n;
    if (!all)
        return 1;
    for (int i = 0; i < r->n_in; i++) all[i] = i < r->nc ? x[i] : r->x[i];
    int bad = graph_call(r->g, r->n_in, all, out);
    free(all);
    return bad;
}

static void while_jvp(const struct call *c, const mx t[], mx dy[])
{
    const struct while_loop_args *a = c->args;
    struct while_rule w = { 0 };
    struct mx_list init = { 0 }, out = { 0 };
    int n = a->n_carry, bad = while_rule(&w, c, c->x, call_first, scan_jvp_body), n_in = w.body.n_in;
    int *lists = bad ? NULL : mx_zeroed(n_in + n, sizeof *lists);
    bool *varies = lists ? mx_zeroed(n_in + n, sizeof *varies) : NULL;
    mx *tangents = varies ? mx_zeroed(n_in, sizeof *tangents) : NULL;
    if (tangents)
        body_operands(t, n, n + a->n_test, c->nin, tangents);
    bad = !tangents || find_varying(&w.body, tangents, lists, varies) || list_push_all(&init, n, c->x);
    for (int i = 0; i < w.body.n_wc && !bad; i++) bad = list_push(&init, or_zeros(t[w.body.w[i]], c->x[w.body.w[i]]));
    if (!bad && w.body.n_w && !mx_while_loop(&w.test.closure, &w.body.closure, init.n, (mx *)init.v, &out))
        for (int k = 0; k < w.body.n_d; k++) dy[w.body.d[k]] = list_lent(&out, n + k);
    list_clear(&out);
    free(w.x);
    free(tangents);
    free(varies);
    list_clear(&init);
    free(lists);
}

/* With a condition that differs over the batch the loop goes on while it holds anywhere. */
static int test_any(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct mx_list p = { 0 };
    int bad = map_body(self, n, x, &p);
    MX_SCOPE(NULL);
    bad = bad || list_push(out, mx_any(p.v[0].it, NULL, 0, false));
    list_clear(&p);
    return bad;
}

struct masked {
    struct closure closure;
    struct while_rule *w;
};

/* Where it does not hold the carry stays as it is. */
static int masked_body(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct while_rule *w = ((struct masked *)self)->w;
    struct mx_list p = { 0 }, y = { 0 };
    int bad = map_body(&w->test.closure, n, x, &p) || map_body(&w->body.closure, n, x, &y);
    MX_SCOPE(NULL);
    for (int k = 0; k < y.n && !bad; k++) bad = list_push(out, mx_where(lifted_like(p.v[0].it, x[k]), y.v[k].it, x[k]));
    list_clear(&p);
    list_clear(&y);
    return bad;
}

static void while_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct while_loop_args *a = c->args;
    int n = a->n_carry, size = batch_size(c, axis).now, n_test = n + a->n_test;
    struct while_rule w = { 0 };
    struct masked masked = { { { .refs = 1 }, masked_body }, &w };
    struct mx_list out = { 0 }, held = { 0 };
    bool *batched = mx_zeroed(c->nin + n + c->nin + 1, sizeof *batched), differs = false;
    int *axes = batched ? mx_zeroed(n_test + c->nin, sizeof *axes) : NULL;
    mx *x = axes ? mx_zeroed(c->nin, sizeof *x) : NULL;
    int bad = !x || while_rule(&w, c, c->x, map_body, map_body);
    /* of the body: inputs, results; of the condition: inputs, result */
    bool *in = batched, *kept = in + c->nin, *test_in = kept + n;
    for (int pass = 0; pass < 2 && !bad; pass++) { /* a condition that differs makes all carries differ */
        for (int i = 0; i < w.body.n_in; i++)
            in[i] = axis[i < n ? i : i + a->n_test] >= 0 || (i < n && (in[i] || differs));
        bad = settle_carries(w.body.g, n, in, kept, false);
        for (int i = 0; i < n_test; i++) test_in[i] = i < n ? kept[i] : axis[i] >= 0;
        bad = bad || graph_spread(w.test.g, test_in, &differs, false);
    }
    for (int i = 0; i < c->nin && !bad; i++) {
        bool is = i < n ? kept[i] : axis[i] >= 0;
        x[i] = is ? batch_all(c->x[i], axis[i], size_is(size)) : c->x[i];
        bad = list_push(&held, x[i]);
    }
    free(w.x);
    w.x = NULL;
    bad = bad || while_rule(&w, c, x, differs ? test_any : map_body, map_body);
    if (!bad) {
        for (int i = 0; i < n_test; i++) axes[i] = test_in[i] ? 0 : -1;
        for (int i = 0; i < w.body.n_in; i++) axes[n_test + i] = in[i] ? 0 : -1;
        w.test.size = w.body.size = size;
        w.test.axes = axes;
        w.body.axes = axes + n_test;
        w.test.batched = &differs;
        w.body.batched = kept;
        bad = mx_while_loop(&w.test.closure, differs ? &masked.closure : &w.body.closure, n, x, &out);
    }
    for (int k = 0; k < n; k++) {
        y[k] = bad ? MX_NIL : list_lent(&out, k);
        yaxis[k] = bad || !kept[k] ? -1 : 0;
    }
    list_clear(&out);
    list_clear(&held);
    free(w.x);
    free(x);
    free(axes);
    free(batched);
}

static const struct field while_loop_args_fields[] = {
    FIELD(while_loop_args, test),
    FIELD(while_loop_args, body),
    FIELD(while_loop_args, n_carry),
    FIELD(while_loop_args, n_test),
    { 0 },
};

static bool while_fits(const struct call *c)
{
    const struct while_loop_args *a = c->args;
    return a->n_carry >= 0 && a->n_test >= 0 && (int64_t)a->n_carry + a->n_test <= c->nin;
}

static int while_rebuild(const struct call *c, struct closure *const of[], struct mx_list *out)
{
    const struct while_loop_args *a = c->args;
    int n = a->n_carry, n_test = n + a->n_test;
    struct capturing test = capturing(of[0], a->n_test, c->x + n);
    struct capturing body = capturing(of[1], c->nin - n_test, c->x + n_test);
    return mx_while_loop(&test.closure, &body.closure, n, c->x, out);
}

const struct op op_while_loop = {
    OP_ROW(while_loop), ARGS(while_loop_args), .shapes = while_shapes, .vjp = while_vjp,
    .jvp = while_jvp,   .vmap = while_vmap,    .fits = while_fits,     .rebuild = while_rebuild,
};
