/* rules.c: the rules of an operation against what they must agree with. */
#include "support/rules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/sample.h"
#include "transform/transform.h"
#include "transform/walk.h"

/* ---- derivatives */

struct builder {
    struct closure closure;
    build_fn *build;
};

static int call_builder(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    (void)n;
    MX_SCOPE(NULL);
    mx y[RULE_RESULTS] = { 0 };
    int m = ((struct builder *)self)->build(x, y);
    for (int k = 0; k < m; k++)
        if (list_push(out, y[k]))
            return 1;
    return 0;
}

static void require(const struct rule_case *c, int failed, const char *what)
{
    if (failed || mx_failed())
        fail_msg("%s: %s: %s", c->name, what, mx_error_message());
}

static mx *arrays(struct mx_list *l) { return (mx *)l->v; }

static void push_array(struct mx_list *l, mx x) { assert_int_equal(list_push(l, x), 0); }

static bool differentiable(const struct operand *o) { return o->dtype == DT_float64; }

/* sum over results of <weight_k, f_k(x)>, operand `i` replaced by v. */
static double weighed(const struct rule_case *c, const struct mx_list *x, int i, const struct model *v,
                      const struct model weight[])
{
    struct mx_list in = { 0 }, y = { 0 };
    struct builder f = { { { 1, NULL }, call_builder }, c->build };
    double sum = 0;
    {
        MX_SCOPE(NULL);
        for (int k = 0; k < c->n; k++)
            push_array(&in, k == i ? array_from(DT_float64, v->ndim, v->shape, v->v) : x->v[k].it);
    }
    require(c, call_builder(&f.closure, c->n, arrays(&in), &y) || mx_eval(y.n, arrays(&y)), "value");
    for (int k = 0; k < y.n; k++) {
        struct model m = model_of(y.v[k].it);
        for (int64_t j = 0; j < m.size; j++) sum += m.v[j] * weight[k].v[j];
        model_drop(&m);
    }
    list_clear(&in);
    list_clear(&y);
    return sum;
}

static double dot(const struct model *a, const struct model *b)
{
    double sum = 0;
    for (int64_t i = 0; i < a->size; i++) sum += a->v[i] * b->v[i];
    return sum;
}

static void agree(const struct rule_case *c, const char *what, int i, int64_t j, double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%s: %s, operand %d, element %lld: %.12g, expected %.12g", c->name, what, i, (long long)j, got, want);
}

/* Numbers below 1 are 0 in integer types: tangents that say nothing. */
void check_derivatives(const struct rule_case *c)
{
    enum { N = RULE_OPERANDS };
    struct mx_list x = { 0 }, t = { 0 }, y = { 0 }, ct = { 0 }, dx = { 0 }, y2 = { 0 }, dy = { 0 };
    struct builder f = { { { 1, NULL }, call_builder }, c->build };
    struct model xm[N], tm[N], dm[N], weight[RULE_RESULTS];
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < c->n; i++) {
            const struct operand *o = &c->x[i];
            push_array(&x, sample_between(o->dtype, o->ndim, o->shape, o->low, o->high));
            push_array(&t, differentiable(o) ? sample_between(DT_float64, o->ndim, o->shape, -1, 1)
                                             : sample_between(o->dtype, o->ndim, o->shape, 0, 1));
            xm[i] = model_of(x.v[i].it);
            tm[i] = model_of(t.v[i].it);
        }
    }
    require(c, call_builder(&f.closure, c->n, arrays(&x), &y), "build");
    {
        MX_SCOPE(NULL);
        for (int k = 0; k < y.n; k++) {
            mx a = y.v[k].it;
            push_array(&ct, sample_between(DT_float64, a->ndim, a->shape, -1, 1));
            weight[k] = model_of(ct.v[k].it);
        }
    }
    int results = y.n;
    list_clear(&y);
    require(c, mx_vjp(&f.closure, c->n, arrays(&x), ct.n, arrays(&ct), &y, &dx) || mx_eval(dx.n, arrays(&dx)), "vjp");
    require(c, mx_jvp(&f.closure, c->n, arrays(&x), t.n, arrays(&t), &y2, &dy) || mx_eval(dy.n, arrays(&dy)), "jvp");
    double along = 0;
    for (int i = 0; i < c->n; i++) {
        const double h = 1e-5;
        dm[i] = model_of(dx.v[i].it);
        if (!same_shape(dx.v[i].it, x.v[i].it))
            fail_msg("%s: gradient %d has shape %s", c->name, i, shape_of(dx.v[i].it));
        for (int64_t j = 0; differentiable(&c->x[i]) && j < xm[i].size; j++) {
            double v = xm[i].v[j];
            xm[i].v[j] = v + h;
            double up = weighed(c, &x, i, &xm[i], weight);
            xm[i].v[j] = v - h;
            double down = weighed(c, &x, i, &xm[i], weight);
            xm[i].v[j] = v;
            agree(c, "vjp", i, j, dm[i].v[j], (up - down) / (2 * h));
        }
        along += differentiable(&c->x[i]) ? dot(&dm[i], &tm[i]) : 0;
    }
    /* <J t, c> = <t, J' c> */
    double across = 0;
    for (int k = 0; k < results; k++) {
        struct model m = model_of(dy.v[k].it);
        across += dot(&m, &weight[k]);
        model_drop(&m);
        model_drop(&weight[k]);
    }
    agree(c, "jvp", -1, -1, across, along);
    for (int i = 0; i < c->n; i++) {
        model_drop(&xm[i]);
        model_drop(&tm[i]);
        model_drop(&dm[i]);
    }
    list_clear(&x);
    list_clear(&t);
    list_clear(&y);
    list_clear(&ct);
    list_clear(&dx);
    list_clear(&y2);
    list_clear(&dy);
}

/* ---- derivatives of derivatives */

static const struct rule_case *inner;

/* Operands and a cotangent, to the gradients by the operands that are differentiable. */
static int gradients_of_inner(const mx x[], mx y[])
{
    struct builder f = { { { 1, NULL }, call_builder }, inner->build };
    struct mx_list results = { 0 }, dx = { 0 };
    int m = 0;
    if (mx_vjp(&f.closure, inner->n, x, 1, &x[inner->n], &results, &dx))
        y[m++] = MX_NIL;
    else
        for (int i = 0; i < inner->n; i++)
            if (differentiable(&inner->x[i])) {
                mx_retain(dx.v[i].it);
                y[m++] = scope_lend(dx.v[i].it);
            }
    list_clear(&results);
    list_clear(&dx);
    return m;
}

void check_second_derivatives(const struct rule_case *c)
{
    struct rule_case outer = *c;
    mx y[RULE_RESULTS];
    assert_true(c->n < RULE_OPERANDS);
    inner = c;
    outer.build = gradients_of_inner;
    outer.n++;
    {
        MX_SCOPE(NULL);
        mx x[RULE_OPERANDS];
        for (int i = 0; i < c->n; i++) x[i] = sample_between(c->x[i].dtype, c->x[i].ndim, c->x[i].shape, 0, 1);
        if (c->build(x, y) != 1)
            return;
        struct operand *ct = &outer.x[c->n];
        *ct = (struct operand){ DT_float64, y[0]->ndim, { 0 }, -1, 1 };
        assert_true(y[0]->ndim <= 6);
        for (int i = 0; i < y[0]->ndim; i++) ct->shape[i] = y[0]->shape[i];
    }
    check_derivatives(&outer);
}

/* ---- failing allocations */

void check_allocations(const struct rule_case *c)
{
    struct mx_list x = { 0 };
    struct builder f = { { { 1, NULL }, call_builder }, c->build };
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < c->n; i++)
            push_array(&x, sample_between(c->x[i].dtype, c->x[i].ndim, c->x[i].shape, c->x[i].low, c->x[i].high));
    }
    long before = array_live_count();
    for (long n = 1, failed = 1; failed; n++) {
        struct mx_list y = { 0 };
        mx_test_fail_at(n);
        failed = call_builder(&f.closure, c->n, arrays(&x), &y) || mx_eval(y.n, arrays(&y));
        mx_test_fail_at(0);
        if (failed && mx_error_kind() != MX_MEMORY)
            fail_msg("%s, allocation %ld: %s", c->name, n, mx_error_message());
        mx_error_clear();
        list_clear(&y);
        if (array_live_count() != before)
            fail_msg("%s, allocation %ld: %ld arrays left", c->name, n, array_live_count() - before);
        if (n > 10000)
            fail_msg("%s: still failing", c->name);
    }
    list_clear(&x);
}

/* ---- vmap: one rule after the other over a recorded graph */

enum { BATCH = 3 };

/* Runs the graph on batched leaves; axis[] of leaves in, of results out. */
static void batched(const struct rule_case *c, const struct recording *g, const mx leaves[], int axis[], int n_roots,
                    struct mx_list *y)
{
    mx value[64] = { 0 };
    int at[64];
    MX_SCOPE(NULL);
    assert_true(g->n_values <= 64);
    for (int i = 0; i < g->n_values; i++) {
        value[i] = i < c->n ? leaves[i] : g->values[i].it;
        at[i] = i < c->n ? axis[i] : -1;
    }
    for (int e = 0; e < g->n; e++) {
        struct node *n = g->entries[e].node;
        const int *in = g->numbers + g->entries[e].at, *out = in + n->nin;
        mx x[RULE_OPERANDS + 4], r[RULE_RESULTS];
        int xaxis[RULE_OPERANDS + 4], raxis[RULE_RESULTS];
        bool any = false;
        for (int i = 0; i < n->nin; i++) {
            x[i] = value[in[i]];
            xaxis[i] = at[in[i]];
            any |= xaxis[i] >= 0;
        }
        if (any) {
            struct call call = { n->op, n->args, n->nin, n->nout, x, NULL };
            if (!n->op->vmap)
                fail_msg("%s: %s has no vmap rule", c->name, n->op->name);
            n->op->vmap(&call, xaxis, r, raxis);
            require(c, 0, "vmap");
        } else {
            mx_infer_n(n->op, n->args, n->nin, x, n->nout, r);
        }
        for (int k = 0; k < n->nout; k++) {
            value[out[k]] = r[k];
            at[out[k]] = any ? raxis[k] : -1;
        }
    }
    for (int k = 0; k < n_roots; k++) {
        axis[k] = at[g->roots[k]];
        push_array(y, value[g->roots[k]]);
    }
}

/* Example b of an array whose batch lies along `axis`. */
static mx example(mx x, int axis, int b)
{
    int start[MX_MAX_NDIM] = { 0 }, stop[MX_MAX_NDIM];
    if (axis < 0)
        return x;
    memcpy(stop, x->shape, (size_t)x->ndim * sizeof *stop);
    start[axis] = b;
    stop[axis] = b + 1;
    return mx_squeeze(mx_slice(x, start, stop, NULL), &axis, 1);
}

static void check_subset(const struct rule_case *c, unsigned subset)
{
    struct mx_list x = { 0 }, placeholders = { 0 }, traced = { 0 }, y = { 0 };
    struct builder f = { { { 1, NULL }, call_builder }, c->build };
    struct recording g;
    int axis[RULE_OPERANDS > RULE_RESULTS ? RULE_OPERANDS : RULE_RESULTS], given[RULE_OPERANDS];
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < c->n; i++) {
            const struct operand *o = &c->x[i];
            int shape[8];
            given[i] = axis[i] = subset >> i & 1 ? (int)draw(o->ndim + 1) : -1;
            for (int k = 0, from = 0; k < o->ndim + (axis[i] >= 0); k++)
                shape[k] = k == axis[i] ? BATCH : o->shape[from++];
            push_array(&x, sample_between(o->dtype, o->ndim + (axis[i] >= 0), shape, o->low, o->high));
            mx p = array_new(o->dtype, o->ndim, o->shape);
            p->tracer = trace_number();
            push_array(&placeholders, p);
        }
    }
    trace_begin();
    require(c, call_builder(&f.closure, c->n, arrays(&placeholders), &traced), "trace");
    require(c, record(&g, traced.n, arrays(&traced), c->n, arrays(&placeholders), true), "record");
    batched(c, &g, arrays(&x), axis, traced.n, &y);
    trace_end();
    require(c, mx_eval(y.n, arrays(&y)), "batched evaluation");
    for (int b = 0; b < BATCH; b++) {
        struct mx_list in = { 0 }, want = { 0 }, got = { 0 };
        {
            MX_SCOPE(NULL);
            for (int i = 0; i < c->n; i++) push_array(&in, example(x.v[i].it, given[i], b));
            for (int k = 0; k < y.n; k++) push_array(&got, example(y.v[k].it, axis[k], b));
        }
        require(c, call_builder(&f.closure, c->n, arrays(&in), &want) || mx_eval(want.n, arrays(&want)), "loop");
        for (int k = 0; k < y.n; k++) {
            struct model m = model_of(want.v[k].it), n;
            if (got.v[k].it->dtype != want.v[k].it->dtype || !same_shape(got.v[k].it, want.v[k].it))
                fail_msg("%s: vmap of operands %x gives shape %s, the loop %s", c->name, subset, shape_of(got.v[k].it),
                         shape_of(want.v[k].it));
            n = model_of(got.v[k].it);
            for (int64_t j = 0; j < m.size; j++)
                if (!(fabs(m.v[j] - n.v[j]) <= 1e-12 * (1 + fabs(m.v[j]))))
                    fail_msg("%s: vmap of operands %x, example %d, element %lld: %g, the loop %g", c->name, subset, b,
                             (long long)j, n.v[j], m.v[j]);
            model_drop(&m);
            model_drop(&n);
        }
        list_clear(&in);
        list_clear(&want);
        list_clear(&got);
    }
    recording_free(&g);
    list_clear(&x);
    list_clear(&placeholders);
    list_clear(&traced);
    list_clear(&y);
}

void check_batching(const struct rule_case *c)
{
    for (int again = 0; again < 4; again++)
        for (unsigned subset = 1; subset < 1u << c->n; subset++) check_subset(c, subset);
}
