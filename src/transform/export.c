/* export.c: functions written to files.
 *
 * A trace is recorded down to the arrays that have data, so what is captured is written as it was
 * made.  Operations that have no primitive are replaced by others until all have one (or are an
 * extension); what depends on no input and has none is a constant.  Then everything is encoded in
 * memory, but for the elements of constants, and only then written.
 *
 * A reader takes as many traces as the header counts, so a trace is there from the moment on that the
 * count is written, which is last; what an interrupted writer leaves behind it is not looked at. */
#define _GNU_SOURCE
#include "transform/export.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "io/io.h"
#include "io/mlxfn.h"
#include "ops/ops.h"
#include "transform/eval.h"
#include "transform/graph.h"

struct signature {
    int n_pos, n_keys;
    char **keys;
    struct spec *in;
};

struct exporter {
    struct named_function *f;
    struct export_listener *listener; /* NULL: a file */
    char *target, *temporary;         /* temporary NULL: the file is in its place */
    int fd;                           /* -1: closed */
    bool shapeless, portable, closed;
    uint64_t count_at, end;
    int n, cap;
    struct signature *traces;
    struct mx_list constants;   /* those in the file, which must stay what they are */
    struct id_table known;      /* by address: their numbers */
    int names;                  /* given to listeners */
};

/* ---- the graph of a call */

struct bound {
    struct closure closure;
    struct named_function *f;
    int n_pos, n_keys;
    const char *const *keys;
};

static int call_bound(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct bound *b = (struct bound *)self;
    (void)n;
    return b->f->call(b->f, b->n_pos, b->n_keys, b->keys, x, out);
}

/* The values of the graph; `folded` marks entries whose results are constants. */
struct trace {
    struct graph g;
    struct mx_list in;
    bool *folded;
};

static void trace_clear(struct trace *t)
{
    recording_free(&t->g.r);
    list_clear(&t->in);
    free(t->folded);
    t->folded = NULL;
}

/* What was found among the values that must not be there: a placeholder of somebody else's, or an
 * example that the function knows without having been given it. */
static int check_captured(const struct trace *t, const mx like[])
{
    const struct recording *r = &t->g.r;
    for (int i = t->g.n_in; i < r->n_values; i++) {
        mx x = r->values[i].it;
        if (!x->node && x->status == LAZY) {
            mx_fail("[export_function] the function uses a placeholder of a function that is being traced around the "
                    "export");
            return 1;
        }
        for (int k = 0; k < t->g.n_in; k++)
            if (x == like[k]) {
                mx_fail("[export_function] input %d, of shape %s, is also used by the function without being passed to "
                        "it; pass it as an argument, or export with an example that is another array", k, shape_of(x));
                return 1;
            }
    }
    return 0;
}

static int record_trace(struct trace *t, int n_out, const mx out[])
{
    recording_free(&t->g.r);
    return record(&t->g.r, n_out, out, t->in.n, (mx *)t->in.v, false);
}

static int trace_function(struct exporter *e, struct bound *b, int n, const mx like[], struct trace *t)
{
    struct mx_list out = { 0 };
    int failed = 0;
    *t = (struct trace){ 0 };
    trace_begin();
    struct shapeless_trace outer = shapeless_begin(e->shapeless);
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < n && !failed; i++)
            failed = list_push(&t->in, graph_placeholder(like[i]->dtype, like[i]->ndim, like[i]->shape));
    }
    failed = failed || b->closure.call(&b->closure, n, (mx *)t->in.v, &out);
    struct shapeless_trace said = shapeless_end(outer);
    trace_end();
    if (!failed && said.why) {
        mx_fail("[export_function] cannot export the function for any shape: what it does depends on the shapes of its "
                "arguments (%s)", said.why);
        failed = 1;
    }
    t->g.n_in = n;
    t->g.n_out = out.n;
    failed = failed || record_trace(t, out.n, (mx *)out.v) || check_captured(t, like);
    list_clear(&out);
    return failed;
}

/* ---- until every entry can be written */

enum fate { WRITTEN, REPLACED, FOLDED, REFUSED };

/* Entry i on the values v. */
static struct call call_of(const struct graph *g, int i, mx v[], mx x[])
{
    const struct node *n = g->r.entries[i].node;
    for (int k = 0; k < n->nin; k++)
        x[k] = v[graph_reads(g, i)[k]];
    for (int k = 0; k < n->nout; k++)
        x[n->nin + k] = v[graph_makes(g, i)[k]];
    return (struct call){ n->op, n->args, n->nin, n->nout, x, x + n->nin };
}

/* With `whole`, f is filled in for what is written; an extension takes some work. */
static enum fate fate_of(const struct exporter *e, const struct graph *g, int i, const struct call *c, bool whole,
                         struct wire_form *f)
{
    if (c->op->id < OP_COUNT && wire_form(c, e->shapeless, f))
        return WRITTEN;
    if (c->op->id < OP_COUNT && wire_composable(c->op))
        return REPLACED;
    if (!g->r.dependent[graph_makes(g, i)[0]])
        return FOLDED;
    if (!e->portable && wire_has_extension(c->op))
        return !whole || wire_extension(c, f) ? WRITTEN : REFUSED;
    return REFUSED;
}

static int widest(const struct graph *g)
{
    int most = 1;
    for (int i = 0; i < g->r.n; i++) {
        const struct node *n = g->r.entries[i].node;
        most = n->nin + n->nout > most ? n->nin + n->nout : most;
    }
    return most;
}

/* New nodes for what is replaced and for what comes after it; *left: how many were replaced. */
static int replace(const struct exporter *e, struct trace *t, int *left)
{
    struct graph *g = &t->g;
    int most = widest(g), failed = 0;
    mx *v = mx_malloc(((size_t)g->r.n_values + 2 * (size_t)most) * sizeof *v);
    struct wire_form *f = v ? mx_malloc(sizeof *f) : NULL;
    free(t->folded);
    t->folded = f ? calloc((size_t)g->r.n + 1, sizeof *t->folded) : NULL;
    *left = 0;
    if (!t->folded) {
        free(v);
        free(f);
        return 1;
    }
    struct mx_list out = { 0 };
    trace_begin();
    struct shapeless_trace outer = shapeless_begin(e->shapeless);
    {
        MX_SCOPE(NULL);
        mx *x = v + g->r.n_values, *y = x + most;
        for (int i = 0; i < g->r.n_values; i++)
            v[i] = g->r.values[i].it;
        for (int i = 0; i < g->r.n && !failed; i++) {
            struct node *n = g->r.entries[i].node;
            struct call c = call_of(g, i, v, x);
            bool moved = false;
            for (int k = 0; k < n->nin; k++)
                moved |= x[k] != g->r.values[graph_reads(g, i)[k]].it;
            f->text = NULL;
            enum fate fate = fate_of(e, g, i, &c, false, f);
            if (fate == REPLACED) {
                (*left)++;
                wire_compose(&c, y);
            } else if (fate == REFUSED) {
                if (!mx_failed())
                    mx_fail("[export_function] Unable to serialize primitive %s", n->op->label);
            } else if (fate == FOLDED || !moved) {
                t->folded[i] = fate == FOLDED;
                continue;
            } else if (n->nout > 1) {
                mx_nodes(n->op, n->args, n->nin, x, n->nout, n->specs, y);
            } else {
                mx like = c.y[0];
                y[0] = mx_node(n->op, n->args, n->nin, x, like->ndim, like->shape, like->dtype);
            }
            for (int k = 0; k < n->nout && !mx_failed(); k++) {
                mx old = g->r.values[graph_makes(g, i)[k]].it;
                if (fate == REPLACED && (!same_shape(y[k], old) || y[k]->dtype != old->dtype))
                    mx_fail("[export_function] %s of shape %s and type %s was put as one of shape %s and type %s",
                            n->op->label, shape_of(old), dtype_name(old->dtype), shape_of(y[k]),
                            dtype_name(y[k]->dtype));
                v[graph_makes(g, i)[k]] = y[k];
            }
            failed = mx_failed();
        }
        for (int k = 0; k < g->n_out && !failed; k++)
            failed = list_push(&out, v[g->r.roots[k]]);
    }
    shapeless_end(outer);
    trace_end();
    if (!failed && *left)
        failed = record_trace(t, out.n, (mx *)out.v);
    list_clear(&out);
    free(v);
    free(f);
    return failed;
}

static int lower(const struct exporter *e, struct trace *t)
{
    enum { ROUNDS = 16 };
    for (int i = 0, left = 1; left; i++) {
        if (replace(e, t, &left))
            return 1;
        if (i == ROUNDS) {
            mx_fail("[export_function] operations are put in terms of each other without end");
            return 1;
        }
    }
    int left;
    return graph_simplify(&t->g) && replace(e, t, &left); /* again, to know what is folded */
}

/* ---- what of a graph is where */

/* made[v]: v is made by an entry that is written. */
static bool *made_values(const struct trace *t)
{
    const struct graph *g = &t->g;
    bool *made = calloc((size_t)g->r.n_values + 1, sizeof *made);
    if (!made)
        mx_fail_memory((size_t)g->r.n_values);
    for (int i = 0; made && i < g->r.n; i++)
        for (int k = 0; k < g->r.entries[i].node->nout && !t->folded[i]; k++)
            made[graph_makes(g, i)[k]] = true;
    return made;
}

/* The number of a constant in the file or to the listener, -1 if it has not been there. */
static int known_constant(const struct exporter *e, mx x)
{
    int *k = id_find(&e->known, (uint64_t)(uintptr_t)x);
    return k ? *k : -1;
}

static int remember(struct exporter *e, mx x)
{
    if (id_put(&e->known, (uint64_t)(uintptr_t)x, e->constants.n))
        return 1;
    return list_push(&e->constants, x);
}

/* Forgets constants from number n on, which have not got into the file. */
static int forget(struct exporter *e, int n)
{
    struct id_table fresh = { 0 };
    int failed = 0;
    while (e->constants.n > n)
        mx_drop(&e->constants.v[--e->constants.n]);
    for (int i = 0; i < n && !failed; i++)
        failed = id_put(&fresh, (uint64_t)(uintptr_t)e->constants.v[i].it, i);
    id_free(&e->known);
    e->known = fresh;
    return failed;
}

/* ---- a trace in bytes
 *
 * Ids of constants are odd, those of other values even. */

struct hole { size_t at; mx_own x; }; /* the elements of x belong there */

struct writing {
    struct exporter *e;
    struct trace *t;
    struct bytes b;
    int n_holes, holes_cap;
    struct hole *holes;
    uint64_t base, elements; /* where b begins in the file, bytes of the elements so far */
    uint64_t entries;
    bool *made, *done;       /* by value */
    int fresh;               /* constants known before this trace */
};

static uint64_t id_of(struct writing *w, int v)
{
    mx x = w->t->g.r.values[v].it;
    if (v < w->t->g.n_in || w->made[v])
        return 2 * (uint64_t)v;
    return 2 * (uint64_t)known_constant(w->e, x) + 1;
}

static void put_spec(struct bytes *b, mx x)
{
    put_shape(b, x->ndim, x->shape);
    put_dtype(b, x->dtype);
}

/* Large constants begin at a multiple of 64, so that they can be used where they are: an unused constant
 * of some bytes in front of them sees to it. */
static void pad(struct writing *w, mx x)
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
    bool constant = v >= w->t->g.n_in, first = constant && known_constant(w->e, x) < 0;
    if (first) {
        pad(w, x);
        if (remember(w->e, x))
            return 1;
    }
    put_u64(&w->b, id_of(w, v));
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
    struct call c = call_of(g, i, (mx *)g->r.values, x);
    for (int k = 0; k < n->nin; k++)
        if (put_leaf(w, in[k]))
            return 1;
    f->text = NULL;
    if (fate_of(w->e, g, i, &c, true, f) != WRITTEN)
        return mx_fail("[export_function] Unable to serialize primitive %s", n->op->label), 1;
    struct bytes *b = &w->b;
    put_u64(b, id_of(w, out[0]));
    put_u8(b, true);
    put_u64(b, (uint64_t)n->nin);
    for (int k = 0; k < n->nin; k++)
        put_u64(b, id_of(w, in[(k + f->rotate) % n->nin]));
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
        for (int k = 0; k < n->nout; k++)
            put_u64(b, id_of(w, out[k]));
        put_u64(b, (uint64_t)n->nout);
        for (int k = 0; k < n->nout; k++)
            put_shape(b, c.y[k]->ndim, c.y[k]->shape);
        put_u64(b, (uint64_t)n->nout);
        for (int k = 0; k < n->nout; k++)
            put_dtype(b, c.y[k]->dtype);
    }
    w->entries++;
    return b->failed;
}

static int put_trace(struct writing *w, int n_keys, const char *const keys[])
{
    const struct graph *g = &w->t->g;
    struct bytes *b = &w->b;
    put_u64(b, (uint64_t)n_keys);
    for (int i = 0; i < n_keys; i++)
        put_text(b, keys[i], strlen(keys[i]));
    put_u64(b, (uint64_t)g->n_in);
    for (int i = 0; i < g->n_in; i++)
        put_u64(b, 2 * (uint64_t)i);
    put_u64(b, (uint64_t)g->n_in);
    for (int i = 0; i < g->n_in; i++)
        put_spec(b, g->r.values[i].it);
    put_u64(b, (uint64_t)g->n_out);
    size_t outputs = b->n; /* the ids of constants are not known yet, nor is the length of the tape */
    for (int k = 0; k < g->n_out + 1; k++)
        put_u64(b, 0);
    mx *x = mx_malloc((size_t)widest(g) * sizeof *x);
    struct wire_form *f = x ? mx_malloc(sizeof *f) : NULL;
    int failed = !f;
    for (int i = 0; i < g->r.n && !failed; i++)
        failed = !w->t->folded[i] && put_entry(w, i, x, f);
    for (int k = 0; k < g->n_out && !failed; k++)
        failed = g->r.roots[k] >= g->n_in && put_leaf(w, g->r.roots[k]);
    free(x);
    free(f);
    if (failed || b->failed)
        return 1;
    size_t end = b->n;
    b->n = outputs;
    for (int k = 0; k < g->n_out; k++)
        put_u64(b, id_of(w, g->r.roots[k]));
    put_u64(b, w->entries);
    b->n = end;
    return 0;
}

/* ---- files */

static int file_failed(const struct exporter *e, const char *what)
{
    mx_fail_as(MX_RUNTIME, "[export_function] %s: could not %s: %s", e->target, what, strerror(errno));
    return 1;
}

static int write_at(const struct exporter *e, const void *data, size_t n, uint64_t at)
{
    while (n) {
        ssize_t put = pwrite(e->fd, data, n > 1u << 30 ? 1u << 30 : n, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return file_failed(e, "write");
        data = (const char *)data + put;
        n -= (size_t)put;
        at += (uint64_t)put;
    }
    return 0;
}

static int publish(struct exporter *e)
{
    if (!e->temporary)
        return 0;
    if (rename(e->temporary, e->target))
        return file_failed(e, "replace it");
    free(e->temporary);
    e->temporary = NULL;
    return 0;
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
    failed = failed || write_count(e, e->n + 1) || publish(e);
    if (!failed) {
        e->end = at;
        return 0;
    }
    /* As it was: nothing reads behind the last trace. */
    uint8_t le[4] = { (uint8_t)e->n, (uint8_t)(e->n >> 8), (uint8_t)(e->n >> 16), (uint8_t)(e->n >> 24) };
    if (pwrite(e->fd, le, 4, (off_t)e->count_at) != 4 || ftruncate(e->fd, (off_t)e->end))
        return 1;
    return 1;
}

static int write_trace(struct exporter *e, struct trace *t, int n_keys, const char *const keys[])
{
    struct writing w = { .e = e, .t = t, .base = e->end, .fresh = e->constants.n };
    w.made = made_values(t);
    w.done = w.made ? calloc((size_t)t->g.r.n_values + 1, sizeof *w.done) : NULL;
    int failed = !w.done || put_trace(&w, n_keys, keys) || commit(e, &w);
    if (failed)
        forget(e, w.fresh);
    for (int i = 0; i < w.n_holes; i++)
        mx_drop(&w.holes[i].x);
    free(w.holes);
    free(w.made);
    free(w.done);
    free(w.b.v);
    return failed;
}

static int create(struct exporter *e, const char *path)
{
    struct stat st;
    mode_t mode = umask(0);
    umask(mode);
    mode = 0666 & ~mode;
    e->target = realpath(path, NULL);
    if (!e->target)
        e->target = strdup(path);
    if (!e->target)
        return mx_fail_memory(strlen(path)), 1;
    if (!stat(e->target, &st)) {
        if (!S_ISREG(st.st_mode)) {
            mx_fail_as(MX_RUNTIME, "[export_function] Failed to open %s: not a regular file", path);
            return 1;
        }
        mode = st.st_mode & 07777;
    }
    if (asprintf(&e->temporary, "%s.XXXXXX", e->target) < 0) {
        e->temporary = NULL;
        return mx_fail_memory(strlen(path)), 1;
    }
    e->fd = mkostemp(e->temporary, O_CLOEXEC);
    if (e->fd < 0) {
        free(e->temporary);
        e->temporary = NULL;
        mx_fail_as(MX_RUNTIME, "[export_function] Failed to open %s: %s", path, strerror(errno));
        return 1;
    }
    fchmod(e->fd, mode);
    return 0;
}

static int write_header(struct exporter *e, const char *metadata, size_t length)
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

/* ---- listeners: the same as JSON */

/* ---- listeners: the same as JSON */

/* A, B, ..., Z, AA, AB, ... */
static void put_name(struct bytes *b, int number)
{
    char name[16];
    int n = 0;
    for (int64_t k = (int64_t)number + 1; k > 0; k = (k - 1) / 26)
        name[n++] = (char)('A' + (k - 1) % 26);
    put_format(b, "\"");
    while (n > 0)
        put_bytes(b, &name[--n], 1);
    put_format(b, "\"");
}

struct telling {
    struct exporter *e;
    struct trace *t;
    int *names;
};

static int tell(struct telling *w, struct bytes *b, int n, const mx constants[])
{
    put_u8(b, 0);
    int failed = b->failed || w->e->listener->hear(w->e->listener, (char *)b->v, n, constants);
    b->n = 0;
    return failed;
}

static void put_values(struct telling *w, struct bytes *b, int n, const int values[], int first)
{
    put_format(b, "[");
    for (int k = 0; k < n; k++) {
        int v = values ? values[n ? (k + first) % n : 0] : k;
        mx x = w->t->g.r.values[v].it;
        if (w->names[v] < 0)
            w->names[v] = w->e->names++;
        put_format(b, k ? ",[" : "[");
        put_name(b, w->names[v]);
        put_format(b, ",");
        put_json_shape(b, x->ndim, x->shape);
        put_format(b, ",\"%s\"]", dtype_name(x->dtype));
    }
    put_format(b, "]");
}

static int tell_constants(struct telling *w, struct bytes *b, const bool *made)
{
    const struct recording *r = &w->t->g.r;
    struct mx_list all = { 0 };
    int failed = 0;
    put_format(b, "{\"type\":\"constants\",\"constants\":[");
    for (int v = w->t->g.n_in; v < r->n_values && !failed; v++) {
        mx x = r->values[v].it;
        if (made[v] || !x)
            continue;
        w->names[v] = known_constant(w->e, x);
        if (w->names[v] >= 0)
            continue;
        w->names[v] = w->e->names++;
        put_format(b, all.n ? "," : "");
        put_name(b, w->names[v]);
        failed = id_put(&w->e->known, (uint64_t)(uintptr_t)x, w->names[v]) || list_push(&w->e->constants, x) ||
                 list_push(&all, x);
    }
    put_format(b, "]}");
    failed = failed || tell(w, b, all.n, (mx *)all.v);
    list_clear(&all);
    return failed;
}

static int tell_entry(struct telling *w, struct bytes *b, int i, mx x[], struct wire_form *f)
{
    const struct graph *g = &w->t->g;
    const struct node *n = g->r.entries[i].node;
    struct call c = call_of(g, i, (mx *)g->r.values, x);
    f->text = NULL;
    if (fate_of(w->e, g, i, &c, true, f) != WRITTEN)
        return mx_fail("[export_function] Unable to get state for primitive %s", n->op->label), 1;
    put_format(b, "{\"type\":\"primitive\",\"name\":\"%s\",\"inputs\":", f->name);
    put_values(w, b, n->nin, graph_reads(g, i), f->rotate);
    put_format(b, ",\"outputs\":");
    put_values(w, b, n->nout, graph_makes(g, i), 0);
    put_format(b, ",\"arguments\":");
    if (f->text)
        put_format(b, "[]");
    else
        put_json_state(b, f->format, &f->s);
    put_format(b, "}");
    free(f->text);
    return tell(w, b, 0, NULL);
}

static int tell_trace(struct exporter *e, struct trace *t, int n_keys, const char *const keys[])
{
    const struct graph *g = &t->g;
    struct telling w = { e, t, mx_malloc(((size_t)g->r.n_values + 1) * sizeof(int)) };
    struct wire_form *f = w.names ? mx_malloc(sizeof *f) : NULL;
    mx *x = f ? mx_malloc((size_t)widest(g) * sizeof *x) : NULL;
    bool *made = x ? made_values(t) : NULL;
    struct bytes b = { 0 };
    int failed = !made;
    for (int v = 0; v < g->r.n_values && !failed; v++)
        w.names[v] = -1;
    if (!failed) {
        put_format(&b, "{\"type\":\"inputs\",\"inputs\":");
        put_values(&w, &b, g->n_in, NULL, 0);
        put_format(&b, "}");
        failed = tell(&w, &b, 0, NULL);
    }
    if (!failed) {
        put_format(&b, "{\"type\":\"keyword_inputs\",\"keywords\":[");
        for (int k = 0; k < n_keys; k++) {
            put_format(&b, k ? ",[" : "[");
            put_json_text(&b, keys[k], strlen(keys[k]));
            put_format(&b, ",");
            put_name(&b, w.names[g->n_in - n_keys + k]);
            put_format(&b, "]");
        }
        put_format(&b, "]}");
        failed = tell(&w, &b, 0, NULL);
    }
    for (int v = g->n_in; v < g->r.n_values && !failed; v++) /* constants keep their names */
        if (!made[v] && g->r.values[v].it)
            w.names[v] = known_constant(e, g->r.values[v].it);
    if (!failed) {
        put_format(&b, "{\"type\":\"outputs\",\"outputs\":");
        put_values(&w, &b, g->n_out, g->r.roots, 0);
        put_format(&b, "}");
        failed = tell(&w, &b, 0, NULL) || tell_constants(&w, &b, made);
    }
    for (int i = 0; i < g->r.n && !failed; i++)
        failed = !t->folded[i] && tell_entry(&w, &b, i, x, f);
    free(b.v);
    free(made);
    free(x);
    free(f);
    free(w.names);
    return failed;
}

/* ---- exporters */

static struct exporter *exporter_made(struct named_function *f, bool shapeless, bool portable)
{
    struct exporter *e = mx_malloc(sizeof *e);
    if (!e)
        return NULL;
    object_retain(&f->object);
    *e = (struct exporter){ .f = f, .fd = -1, .shapeless = shapeless, .portable = portable };
    return e;
}

struct exporter *exporter_new(const char *path, struct named_function *f, bool shapeless, bool portable,
                              const char *metadata, size_t length)
{
    struct exporter *e = exporter_made(f, shapeless, portable);
    if (e && (create(e, path) || write_header(e, metadata, length))) {
        exporter_free(e);
        return NULL;
    }
    return e;
}

struct exporter *exporter_new_listener(struct export_listener *l, struct named_function *f, bool shapeless,
                                       bool portable)
{
    struct exporter *e = exporter_made(f, shapeless, portable);
    if (e) {
        object_retain(&l->object);
        e->listener = l;
    }
    return e;
}

int exporter_close(struct exporter *e, bool keep)
{
    int failed = 0;
    if (e->closed)
        return 0;
    e->closed = true;
    if (e->fd >= 0 && e->temporary && keep)
        failed = publish(e);
    if (e->temporary) {
        unlink(e->temporary);
        free(e->temporary);
        e->temporary = NULL;
    }
    if (e->fd >= 0 && close(e->fd) && !failed)
        failed = file_failed(e, "close");
    e->fd = -1;
    list_clear(&e->constants);
    id_free(&e->known);
    return failed;
}

static void signature_free(struct signature *s)
{
    for (int i = 0; s->keys && i < s->n_keys; i++)
        free(s->keys[i]);
    free(s->keys);
    free(s->in);
}

void exporter_free(struct exporter *e)
{
    if (!e)
        return;
    exporter_close(e, false);
    for (int i = 0; i < e->n; i++)
        signature_free(&e->traces[i]);
    free(e->traces);
    free(e->target);
    object_release(&e->f->object);
    if (e->listener)
        object_release(&e->listener->object);
    free(e);
}

static bool signature_of(struct signature *s, int n_pos, int n_keys, const char *const keys[], const mx x[])
{
    int n = n_pos + n_keys;
    *s = (struct signature){ .n_pos = n_pos };
    s->keys = mx_malloc(((size_t)n_keys + 1) * sizeof *s->keys);
    s->in = s->keys ? mx_malloc(((size_t)n + 1) * sizeof *s->in) : NULL;
    for (int i = 0; s->in && i < n_keys; i++, s->n_keys++)
        if (!(s->keys[i] = strdup(keys[i]))) {
            mx_fail_memory(strlen(keys[i]));
            return false;
        }
    for (int i = 0; s->in && i < n; i++) {
        s->in[i] = (struct spec){ .dtype = x[i]->dtype, .ndim = x[i]->ndim };
        memcpy(s->in[i].shape, x[i]->shape, (size_t)x[i]->ndim * sizeof(int));
    }
    return s->in;
}

static bool same_signature(const struct exporter *e, const struct signature *a, const struct signature *b)
{
    bool same = a->n_pos == b->n_pos && a->n_keys == b->n_keys;
    for (int i = 0; same && i < a->n_keys; i++)
        same = !strcmp(a->keys[i], b->keys[i]);
    for (int i = 0; same && i < a->n_pos + a->n_keys; i++)
        same = a->in[i].dtype == b->in[i].dtype && a->in[i].ndim == b->in[i].ndim &&
               (e->shapeless || !memcmp(a->in[i].shape, b->in[i].shape, (size_t)a->in[i].ndim * sizeof(int)));
    return same;
}

/* keys and their arrays in the order of the bytes of the keys. */
static void sort_keys(int n, const char **keys, mx x[])
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && strcmp(keys[k - 1], keys[k]) > 0; k--) {
            const char *key = keys[k];
            mx a = x[k];
            keys[k] = keys[k - 1], keys[k - 1] = key;
            x[k] = x[k - 1], x[k - 1] = a;
        }
}

static int add_trace(struct exporter *e, int n_pos, int n_keys, const char *const keys[], const mx x[])
{
    struct signature s;
    int failed = !signature_of(&s, n_pos, n_keys, keys, x);
    struct signature *all = failed ? NULL : mx_grown(e->traces, e->n, &e->cap, sizeof *all);
    failed = !all;
    if (all)
        e->traces = all;
    for (int i = 0; i < e->n && !failed; i++)
        if (same_signature(e, &s, &e->traces[i])) {
            mx_fail_as(MX_RUNTIME, "[export_function] Attempting to export a function twice with the same signature, "
                                   "that of trace %d", i + 1);
            failed = 1;
        }
    struct trace t = { 0 };
    struct bound b = { { { .refs = 1 }, call_bound }, e->f, n_pos, n_keys, keys };
    failed = failed || trace_function(e, &b, n_pos + n_keys, x, &t) || lower(e, &t);
    failed = failed || (e->listener ? tell_trace(e, &t, n_keys, keys) : write_trace(e, &t, n_keys, keys));
    trace_clear(&t);
    if (failed)
        signature_free(&s);
    else
        e->traces[e->n++] = s;
    return failed;
}

int exporter_trace(struct exporter *e, int n_pos, int n_keys, const char *const keys[], const mx x[])
{
    if (e->closed) {
        mx_fail_as(MX_RUNTIME, "[export_function] Attempting to write after exporting is done: the exporter is closed");
        return 1;
    }
    int n = n_pos + n_keys;
    const char **sorted = mx_malloc(((size_t)n_keys + 1) * sizeof *sorted);
    mx *in = sorted ? mx_malloc(((size_t)n + 1) * sizeof *in) : NULL;
    int failed = !in;
    if (in) {
        if (n_keys)
            memcpy(sorted, keys, (size_t)n_keys * sizeof *sorted);
        if (n)
            memcpy(in, x, (size_t)n * sizeof *in);
        sort_keys(n_keys, sorted, in + n_pos);
        failed = add_trace(e, n_pos, n_keys, sorted, in);
    }
    free(sorted);
    free(in);
    return failed;
}

/* ---- a graph by itself: bodies of loops, in the files of those */

struct graph_function {
    struct named_function named;
    struct graph *g;
};

static int call_graph(struct named_function *self, int n_pos, int n_keys, const char *const keys[], const mx x[],
                      struct mx_list *out)
{
    (void)n_keys, (void)keys;
    return graph_call(((struct graph_function *)self)->g, n_pos, x, out);
}

static void keep_nothing(struct object *o) { (void)o; }

char *export_graph(struct graph *g, uint64_t *length)
{
    struct graph_function f = { { { .refs = 1, .destroy = keep_nothing }, call_graph }, g };
    struct exporter *e = exporter_made(&f.named, false, false);
    char *bytes = NULL;
    if (!e)
        return NULL;
    e->target = strdup("a graph");
    e->fd = memfd_create("mlxfn", MFD_CLOEXEC);
    if (!e->target || e->fd < 0)
        mx_fail_as(MX_RUNTIME, "[export_function] could not write a graph: %s", strerror(errno));
    else if (!write_header(e, "", 0) && !exporter_trace(e, g->n_in, 0, NULL, (const mx *)g->r.values))
        bytes = mx_malloc(e->end + 1);
    if (bytes && pread(e->fd, bytes, e->end, 0) != (ssize_t)e->end) {
        file_failed(e, "read");
        free(bytes);
        bytes = NULL;
    }
    *length = e->end;
    exporter_free(e);
    return bytes;
}
