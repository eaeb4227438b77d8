/* control.c: loops and branches, whose bodies run here, on the thread that runs the operation.
 *
 * On a device the operations of all steps are queued one after the other, and the host waits for nothing but
 * the truth of a condition. */
#include "run/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "plan/result.h"
#include "run/eval.h"
#include "run/steps.h"
#include "run/stop.h"
#include "transform/body.h"
#include "transform/control.h"

/* Nobody will look at result k. */
static bool unwanted(const struct run *r, int k) { return result_unwanted(r->node, r->keep, r->y[k]); }

/* An error of the body says in which step. */
static int failed_in(const char *who, int64_t step)
{
    enum mx_error kind = mx_error_kind();
    char text[512];
    if (kind == MX_MEMORY || kind == MX_INTERRUPTED || kind == MX_USER)
        return 1;
    snprintf(text, sizeof text, "%s", mx_error_message());
    mx_error_clear();
    mx_fail_as(kind, "%s (in step %lld of %s)", text, (long long)step, who);
    return 1;
}

/* ---- rows of results */

/* x, of any strides, on a device: into row-major memory of y from element `at` on. */
static int put_on_device(struct stream *s, mx y, int64_t at, mx x)
{
    MX_SCOPE(s);
    if (!x->row) {
        mx copy = mx_contiguous(x, false);
        struct entry e = { .node = copy->node, .one = copy, .keep = true, .before = -1 };
        if (!e.node || mx_run_entry(s, &e))
            return 1;
        atomic_store_explicit(&copy->status, READY, memory_order_relaxed);
        x = copy;
    }
    size_t item = itemsize(x);
    if (buffer_bring(x->buf, s))
        return 1;
    char *to = (char *)buffer_on(y->buf, s) + (size_t)at * item;
    const char *from = (const char *)buffer_on(x->buf, s) + (size_t)x->offset * item;
    if (s->on->from_peer(s, to, s, from, (size_t)nbytes(x)))
        return 1;
    buffer_was_read(x->buf, s);
    buffer_made(y->buf, s);
    return buffer_made_of(y->buf, x->buf);
}

static int put_row(struct stream *s, mx y, int t, mx x)
{
    int64_t at = t * x->size;
    if (!x->size)
        return 0;
    return backend_of(s)->put ? backend_of(s)->put(s, y, at, x) : put_on_device(s, y, at, x);
}

/* ---- scan */

static int scan_steps(const struct run *r, struct steps *s, int n_out, int length)
{
    const struct scan_loop_args *a = r->args;
    int nc = a->n_carry;
    int64_t next = 0;
    for (int i = 0; i < length; i++) {
        int t = a->reverse ? length - 1 - i : i;
        if (mx_interrupted(&next))
            return 1;
        for (int j = nc; j < nc + a->n_xs; j++) steps_put_slice(s, j, r->x[j], t);
        for (int k = n_out; k < r->nout; k++)
            if (r->y[k]->buf && put_row(r->stream, r->y[k], t, s->v[k - n_out]))
                return failed_in("scan", i);
        if (steps_run(s))
            return failed_in("scan", i);
        for (int k = nc; k < n_out; k++)
            if (r->y[k]->buf && put_row(r->stream, r->y[k], t, steps_result(s, k)))
                return failed_in("scan", i);
        steps_feed(s, nc);
    }
    return 0;
}

static int run_scan_loop(const struct run *r)
{
    const struct scan_loop_args *a = r->args;
    struct graph *g = (struct graph *)a->body;
    int nc = a->n_carry, n_out = g->n_out, length = a->n_xs ? r->x[nc]->shape[0] : a->length;
    struct steps s = { 0 };
    struct dims *in = mx_zeroed(r->nin, sizeof *in);
    if (in)
        body_dims(r->nin, r->x, nc, a->n_xs, in);
    int failed = !in || steps_open(&s, "scan", r->stream, g, in, nc);
    for (int i = 0; i < r->nin && !failed; i++)
        if (i < nc || i >= nc + a->n_xs)
            steps_put(&s, i, r->x[i]);
    for (int k = nc; k < r->nout && !failed; k++)
        if (!unwanted(r, k))
            failed = result_new(r->stream, r->y[k]);
    failed = failed || scan_steps(r, &s, n_out, length);
    for (int k = 0; k < nc && !failed; k++) steps_share(r->y[k], s.v[k]);
    for (int k = nc; k < r->nout && failed; k++)
        if (r->y[k]->buf) {
            buffer_release(r->y[k]->buf);
            r->y[k]->buf = NULL;
        }
    steps_close(&s);
    free(in);
    return failed;
}

/* ---- while_loop */

/* Of a number that is made by now, or queued: the host waits for it, and gets nothing of what it may be a view of. */
static int truth(mx x, bool *is)
{
    uint8_t byte = 0;
    int failed = buffer_read(x->buf, (size_t)x->offset, &byte, 1);
    *is = byte != 0;
    return failed;
}

static int run_while_loop(const struct run *r)
{
    const struct while_loop_args *a = r->args;
    int n = a->n_carry, n_test = n + a->n_test, n_body = r->nin - a->n_test;
    struct steps test = { 0 }, body = { 0 };
    struct dims *in = mx_zeroed(r->nin, sizeof *in);
    mx *x = in ? mx_zeroed(r->nin, sizeof *x) : NULL;
    bool *reads = x ? mx_zeroed(n, sizeof *reads) : NULL;
    int failed = !reads;
    if (!failed) {
        body_dims(n_test, r->x, 0, 0, in);
        failed = steps_open(&test, "while_loop", r->stream, (struct graph *)a->test, in, n);
    }
    for (int i = n; i < n_test && !failed; i++) steps_put(&test, i, r->x[i]);
    for (int i = 0; i < n && !failed; i++) reads[i] = steps_reads(&test, i);
    if (!failed) {
        body_operands(r->x, n, n_test, r->nin, x);
        body_dims(n_body, x, 0, 0, in);
        failed = steps_open(&body, "while_loop", r->stream, (struct graph *)a->body, in, n);
    }
    for (int i = 0; i < n_body && !failed; i++) steps_put(&body, i, x[i]);
    int64_t next = 0;
    for (int64_t step = 0; !failed; step++) {
        if ((failed = mx_interrupted(&next)))
            break;
        for (int i = 0; i < n; i++)
            if (reads[i])
                steps_put(&test, i, body.v[i]);
        if ((failed = steps_run(&test) && failed_in("while_loop", step)))
            break;
        bool more;
        if ((failed = truth(steps_result(&test, 0), &more)))
            break;
        steps_forget(&test);
        for (int i = 0; i < n; i++) /* so that the body may write over it */
            if (reads[i])
                steps_take(&test, i);
        if (!more)
            break;
        if (!(failed = steps_run(&body) && failed_in("while_loop", step)))
            steps_feed(&body, n);
    }
    for (int k = 0; k < n && !failed; k++) steps_share(r->y[k], body.v[k]);
    steps_close(&test);
    steps_close(&body);
    free(reads);
    free(x);
    free(in);
    return failed;
}

/* ---- cond */

static int run_cond(const struct run *r)
{
    const struct cond_args *a = r->args;
    bool yes;
    if (truth(r->x[0], &yes))
        return 1;
    struct graph *g = (struct graph *)(yes ? a->yes : a->no);
    struct steps s = { 0 };
    struct dims *in = mx_zeroed(r->nin, sizeof *in);
    mx *x = in ? mx_zeroed(r->nin, sizeof *x) : NULL;
    int failed = !x;
    if (!failed) {
        int from = a->n + (yes ? 0 : a->n_yes);
        body_operands(r->x + 1, a->n, from, yes ? from + a->n_yes : r->nin - 1, x);
        body_dims(g->n_in, x, 0, 0, in);
        failed = steps_open(&s, "cond", r->stream, g, in, 0);
    }
    for (int i = 0; i < g->n_in && !failed; i++) steps_put(&s, i, x[i]);
    failed = failed || steps_run(&s);
    for (int k = 0; k < r->nout && !failed; k++) steps_share(r->y[k], steps_result(&s, k));
    steps_close(&s);
    free(x);
    free(in);
    return failed;
}

/* ---- the operations of a compiled function */

static int run_compiled(const struct run *r)
{
    struct graph *g = (struct graph *)((const struct compiled_args *)r->args)->body;
    struct steps *s = steps_wake("compile", r->stream, g);
    if (!s)
        return 1;
    for (int i = 0; i < r->nin; i++) steps_put(s, i, r->x[i]);
    int failed = steps_run(s);
    for (int k = 0; k < r->nout && !failed; k++) steps_share(r->y[k], steps_result(s, k));
    steps_rest(s, failed);
    return failed;
}

/* ---- which is which */

static run_fn *runner(const struct op *op)
{
    return op->id == OP_scan_loop    ? run_scan_loop
           : op->id == OP_while_loop ? run_while_loop
           : op->id == OP_cond       ? run_cond
           : op->id == OP_compiled   ? run_compiled
                                     : NULL;
}

bool control_is(const struct op *op) { return runner(op) != NULL; }

int control_run(struct stream *s, struct entry *e)
{
    struct run r = run_of(s, e);
    for (int i = r.node->op->id == OP_cond; i < r.nin; i++)
        if (buffer_bring(r.x[i]->buf, s))
            return 1;
    return runner(r.node->op)(&r);
}
