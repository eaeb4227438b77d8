/* export_file.c: traces in files.
 *
 * Everything is encoded in memory, but for the elements of constants, and only then written.  A reader
 * takes as many traces as the header counts, so a trace is there from the moment on that the count is
 * written, which is last; what an interrupted writer leaves behind it is not looked at. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "io/io.h"
#include "mlxfn/export_parts.h"

/* ---- a trace in bytes
 *
 * Ids of constants are odd, those of other values even. */

struct hole {
    size_t at;
    mx_own x;
}; /* the elements of x belong there */

struct writing {
    struct exporter *e;
    struct export_trace *t;
    struct bytes b;
    int n_holes, holes_cap;
    struct hole *holes;
    uint64_t base, elements; /* where b begins in the file, bytes of the elements so far */
    uint64_t entries;
    bool *made, *done; /* by value */
    int fresh;         /* constants known before this trace */
};

static uint64_t id_in_file(struct writing *w, int v)
{
    mx x = w->t->g.r.values[v].it;
    if (v < w->t->g.n_in || w->made[v])
        return 2 * (uint64_t)v;
    return 2 * (uint64_t)export_known(w->e, x) + 1;
}

static void put_spec(struct bytes *b, mx x)
{
    put_shape(b, x->ndim, x->shape);
    put_dtype(b, x->dtype);
}

/* Large constants begin at a multiple of 64, so that they can be used where they are: an unused constant
 * of some bytes in front of them sees to it. */
static void pad_to_array(struct writing *w, mx x)
{
    enum { LARGE = 4096, ALIGN = 64, HEAD = 8 + 1 + 1 + 8 + 5 };
    if (nbytes(x) < LARGE)
        return;
    uint64_t at = w->base + w->b.n + w->elements + HEAD + 4 + HEAD + 4 * (uint64_t)x->ndim;
    int n = (int)((ALIGN - at % ALIGN) % ALIGN);
    static const uint8_t zeros[ALIGN];
    put_u64(&w->b, UINT64_MAX - w->base - w->b.n - w->elements); /* an id that nobody has */
    put_u8(&w->b, false);
    put_u8(&w->b, true);
    put_shape(&w->b, 1, &n);
    put_dtype(&w->b, DT_uint8);
    put_bytes(&w->b, zeros, (size_t)n);
    w->entries++;
}

/* The value's entry, if it is an input or a constant that has none yet in this trace. */
static int put_leaf(struct writing *w, int v)
{
    mx x = w->t->g.r.values[v].it;
    if (w->made[v] || w->done[v])
        return 0;
    w->done[v] = true;
    bool constant = v >= w->t->g.n_in, first = constant && export_known(w->e, x) < 0;
    if (first) {
        pad_to_array(w, x);
        if (export_remember(w->e, x))
            return 1;
    }
    put_u64(&w->b, id_in_file(w, v));
    put_u8(&w->b, false);
    put_u8(&w->b, constant);
    w->entries++;
    if (!first)
        return 0;
    put_spec(&w->b, x);
    struct hole *h = mx_grown(w->holes, w->n_holes, &w->holes_cap, sizeof *h);
    if (!h)
        return 1;
    w->holes = h;
    h[w->n_holes] = (struct hole){ w->b.n, { NULL } };
    if (is_nil(io_ready(x, &h[w->n_holes].x))) {
        mx_drop(&h[w->n_holes].x);
        return 1;
    }
    w->n_holes++;
    w->elements += (uint64_t)nbytes(x);
    return 0;
}

static int put_entry(struct writing *w, int i, mx x[], struct wire_form *f)
{
    const struct graph *g = &w->t->g;
    const struct node *n = g->r.entries[i].node;
    const int *in = graph_reads(g, i), *out = graph_makes(g, i);
    struct call c = export_call_of(g, i, (mx *)g->r.values, x);
    for (int k = 0; k < n->nin; k++)
        if (put_leaf(w, in[k]))
            return 1;
    f->text = NULL;
    if (export_fate(w->e, g, i, &c, true, f) != WRITTEN)
        return export_refuse(w->e, n->op), 1;
    struct bytes *b = &w->b;
    put_u64(b, id_in_file(w, out[0]));
    put_u8(b, true);
    put_u64(b, (uint64_t)n->nin);
    for (int k = 0; k < n->nin; k++) put_u64(b, id_in_file(w, in[(k + f->rotate) % n->nin]));
    for (int k = 0; k < 3; k++) /* the first stream of the first CPU */
        put_i32(b, 0);
    put_text(b, f->name, strlen(f->name));
    put_state(b, f->format, &f->s);
    free(f->text);
    put_u64(b, (uint64_t)(n->nout - 1));
    if (n->nout == 1) {
        put_spec(b, c.y[0]);
    } else {
        put_u64(b, (uint64_t)n->nout);
        for (int k = 0; k < n->nout; k++) put_u64(b, id_in_file(w, out[k]));
        put_u64(b, (uint64_t)n->nout);
        for (int k = 0; k < n->nout; k++) put_shape(b, c.y[k]->ndim, c.y[k]->shape);
        put_u64(b, (uint64_t)n->nout);
        for (int k = 0; k < n->nout; k++) put_dtype(b, c.y[k]->dtype);
    }
    w->entries++;
    return b->failed;
}

static int put_trace(struct writing *w, int n_keys, const char *const keys[])
{
    const struct graph *g = &w->t->g;
    struct bytes *b = &w->b;
    put_u64(b, (uint64_t)n_keys);
    for (int i = 0; i < n_keys; i++) put_text(b, keys[i], strlen(keys[i]));
    put_u64(b, (uint64_t)g->n_in);
    for (int i = 0; i < g->n_in; i++) put_u64(b, 2 * (uint64_t)i);
    put_u64(b, (uint64_t)g->n_in);
    for (int i = 0; i < g->n_in; i++) put_spec(b, g->r.values[i].it);
    put_u64(b, (uint64_t)g->n_out);
    size_t outputs = b->n; /* the ids of constants are not known yet, nor is the length of the tape */
    for (int k = 0; k < g->n_out + 1; k++) put_u64(b, 0);
    mx *x = mx_malloc((size_t)export_widest(g) * sizeof *x);
    struct wire_form *f = x ? mx_malloc(sizeof *f) : NULL;
    int failed = !f;
    for (int i = 0; i < g->r.n && !failed; i++) failed = !w->t->folded[i] && put_entry(w, i, x, f);
    for (int k = 0; k < g->n_out && !failed; k++) failed = g->r.roots[k] >= g->n_in && put_leaf(w, g->r.roots[k]);
    free(x);
    free(f);
    if (failed || b->failed)
        return 1;
    size_t end = b->n;
    b->n = outputs;
    for (int k = 0; k < g->n_out; k++) put_u64(b, id_in_file(w, g->r.roots[k]));
    put_u64(b, w->entries);
    b->n = end;
    return 0;
}

/* ---- files */

int export_file_failed(const struct exporter *e, const char *what)
{
    mx_fail_as(mx_error_of_system(errno), "[export_function] %s: could not %s: %s", e->name, what, strerror(errno));
    return 1;
}

static int write_at(const struct exporter *e, const void *data, size_t n, uint64_t at)
{
    while (n) {
        ssize_t put = pwrite(e->file.fd, data, n > 1u << 30 ? 1u << 30 : n, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return export_file_failed(e, "write");
        data = (const char *)data + put;
        n -= (size_t)put;
        at += (uint64_t)put;
    }
    return 0;
}

int export_publish(struct exporter *e) { return new_file_place(&e->file) ? 0 : export_file_failed(e, "replace it"); }

/* Non-zero after mx_fail where another file has taken the place of this one, or none is there. */
static int exporter_lost(const struct exporter *e)
{
    if (!new_file_lost(&e->file))
        return 0;
    mx_fail_as(MX_RUNTIME, "[export_function] %s: expected the file that was begun, which has been replaced or removed",
               e->name);
    return 1;
}

static int write_count(const struct exporter *e, int n)
{
    struct bytes b = { 0 };
    put_i32(&b, n);
    int failed = b.failed || write_at(e, b.v, b.n, e->count_at);
    free(b.v);
    return failed;
}

/* The trace behind all others, and then their number. */
static int commit(struct exporter *e, const struct writing *w)
{
    uint64_t at = e->end;
    size_t from = 0;
    int failed = 0;
    for (int i = 0; i <= w->n_holes && !failed; i++) {
        size_t to = i < w->n_holes ? w->holes[i].at : w->b.n;
        failed = write_at(e, w->b.v + from, to - from, at);
        at += to - from;
        from = to;
        if (i < w->n_holes && !failed) {
            mx x = w->holes[i].x.it;
            failed = write_at(e, array_host(x), (size_t)nbytes(x), at);
            at += (uint64_t)nbytes(x);
        }
    }
    failed = failed || write_count(e, e->n + 1);
    if (!failed) {
        new_file_offer(&e->file);
        e->end = at;
        return 0;
    }
    /* As it was: nothing reads behind the last trace. */
    uint8_t le[4] = { (uint8_t)e->n, (uint8_t)(e->n >> 8), (uint8_t)(e->n >> 16), (uint8_t)(e->n >> 24) };
    if (pwrite(e->file.fd, le, 4, (off_t)e->count_at) != 4 || ftruncate(e->file.fd, (off_t)e->end))
        return 1;
    return 1;
}

int export_write(struct exporter *e, struct export_trace *t, int n_keys, const char *const keys[])
{
    struct writing w = { .e = e, .t = t, .base = e->end, .fresh = e->constants.n };
    w.made = export_made(t);
    w.done = w.made ? mx_calloc((size_t)t->g.r.n_values + 1, sizeof *w.done) : NULL;
    int failed = !w.done || put_trace(&w, n_keys, keys) || exporter_lost(e) || commit(e, &w);
    if (failed)
        export_forget(e, w.fresh);
    for (int i = 0; i < w.n_holes; i++) mx_drop(&w.holes[i].x);
    free(w.holes);
    free(w.made);
    free(w.done);
    free(w.b.v);
    return failed;
}

int export_create(struct exporter *e, const char *path)
{
    if (!(e->name = mx_strdup(path)))
        return 1;
    const char *why = new_file_open(&e->file, path);
    if (why)
        mx_fail_as(mx_error_of_system(errno), "[export_function] Failed to open %s: %s", path, why);
    return why != NULL;
}

int export_header(struct exporter *e, const char *metadata, size_t length)
{
    struct bytes b = { 0 };
    put_text(&b, MLX_VERSION, strlen(MLX_VERSION));
    e->count_at = b.n;
    put_i32(&b, 0);
    put_u8(&b, e->shapeless);
    put_text(&b, metadata, length);
    e->end = b.n;
    int failed = b.failed || write_at(e, b.v, b.n, 0);
    free(b.v);
    return failed;
}
