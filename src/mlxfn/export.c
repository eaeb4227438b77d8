/* export.c: functions written to files.
 *
 * A trace is recorded down to the arrays that have data, so what is captured is written as it was
 * made.  Operations that have no primitive are replaced by others until all have one (or are an
 * extension); what depends on no input and has none is a constant. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "mlxfn/export_parts.h"
#include "ops/ops.h"
#include "ops/plugin.h"

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

static void trace_clear(struct export_trace *t)
{
    recording_free(&t->g.r);
    list_clear(&t->in);
    free(t->folded);
    t->folded = NULL;
}

/* What was found among the values that must not be there: a placeholder of somebody else's, or an
 * example that the function knows without having been given it. */
static int check_captured(const struct export_trace *t, const mx like[])
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
                        "it; pass it as an argument, or export with an example that is another array",
                        k, shape_of(x));
                return 1;
            }
    }
    return 0;
}

/* Fails where shapes matter; `why` is then not NULL. */
static int follows_none(const char *why, const char *how)
{
    if (why)
        mx_fail("[export_function] cannot export the function for any shape%s: what it does depends on the shapes of "
                "its arguments (%s)",
                how, why);
    return why != NULL;
}

/* Records what makes the results and everything else that stays in the file, in roots, and the checks. */
static int record_with(struct export_trace *t, struct mx_list *roots, const struct mx_list *checks)
{
    if (list_push_all(roots, checks->n, checks->n ? (mx *)checks->v : NULL))
        return 1;
    t->g.n_check = roots->n - t->g.n_out;
    recording_free(&t->g.r);
    if (record(&t->g.r, roots->n, (mx *)roots->v, t->in.n, (mx *)t->in.v, false))
        return 1;
    bool inside = false;
    for (int k = t->g.n_out; k < roots->n; k++) inside |= t->g.r.foreign[t->g.r.roots[k]];
    return follows_none(inside ? "a transform inside" : NULL, "");
}

static int trace_function(struct exporter *e, struct bound *b, int n, const mx like[], struct export_trace *t)
{
    struct mx_list out = { 0 };
    *t = (struct export_trace){ 0 };
    struct shapeless_trace *said = shapeless_begin(e->shapeless);
    if (!said)
        return 1;
    trace_begin();
    int failed = graph_placeholders(n, like, &t->in) || b->closure.call(&b->closure, n, (mx *)t->in.v, &out);
    trace_end();
    shapeless_end(said);
    e->sizes_read = said->reads.n > 0;
    failed = failed || (said->any && follows_none(said->why, ""));
    t->g.n_in = n;
    t->g.n_out = out.n;
    failed = failed || record_with(t, &out, &said->checks) || check_captured(t, like);
    list_clear(&out);
    shapeless_free(said);
    return failed;
}

/* ---- until every entry can be written */

/* Entry i on the values v. */
struct call export_call_of(const struct graph *g, int i, mx v[], mx x[])
{
    const struct node *n = g->r.entries[i].node;
    for (int k = 0; k < n->nin; k++) x[k] = v[graph_reads(g, i)[k]];
    for (int k = 0; k < n->nout; k++) x[n->nin + k] = v[graph_makes(g, i)[k]];
    return (struct call){ n->op, n->args, n->nin, n->nout, x, x + n->nin };
}

/* With `whole`, f is filled in for what is written; an extension takes some work. */
enum fate export_fate(const struct exporter *e, const struct graph *g, int i, const struct call *c, bool whole,
                      struct wire_form *f)
{
    /* A file is as portable as the library of a plugin is. */
    bool ours = (!e->portable || plugin_of(c->op)) && wire_has_extension(c->op), composable = wire_composable(c->op);
    bool dependent = g->r.dependent[graph_makes(g, i)[0]];
    bool settled_there = e->shapeless && e->portable && !dependent;
    if (!dependent && c->op == &op_reshape && c->nin > 1) /* to a shape of constants, which files have no word for */
        return FOLDED;
    if (wire_form(c, e->shapeless && dependent, e->portable, f)) /* the package infers the shapes of constants too */
        return settled_there && !f->follows_there ? FOLDED : WRITTEN;
    if (composable && !ours)
        return REPLACED;
    if (!composable && !dependent)
        return FOLDED;
    if (ours)
        return !whole || wire_extension(c, f) ? WRITTEN : REFUSED;
    return REFUSED;
}

void export_refuse(const struct exporter *e, const struct op *op)
{
    if (mx_failed())
        return;
    if (e->portable && wire_has_extension(op))
        mx_fail("[export_function] Unable to serialize primitive %s: the format of the mlx package has none like it; "
                "portable=False writes it for this library",
                op->label);
    else
        mx_fail("[export_function] Unable to serialize primitive %s: %s cannot be exported%s", op->label,
                op == &op_cpu_kernel || op == &op_cuda_kernel ? "a kernel" : "it",
                op->id < OP_COUNT && !wire_stated(op) ? ": it has neither .fits nor a row of forms.def" : "");
}

int export_widest(const struct graph *g)
{
    int most = 1;
    for (int i = 0; i < g->r.n; i++) {
        const struct node *n = g->r.entries[i].node;
        most = n->nin + n->nout > most ? n->nin + n->nout : most;
    }
    return most;
}

/* New nodes for what is replaced and for what comes after it; *left: how many were replaced. */
static int replace(const struct exporter *e, struct export_trace *t, int *left)
{
    struct graph *g = &t->g;
    int most = export_widest(g), failed = 0;
    mx *v = mx_malloc(((size_t)g->r.n_values + 2 * (size_t)most) * sizeof *v);
    struct wire_form *f = v ? mx_malloc(sizeof *f) : NULL;
    struct shapeless_trace *said = f ? shapeless_begin(e->shapeless) : NULL;
    free(t->folded);
    t->folded = said ? mx_calloc((size_t)g->r.n + 1, sizeof *t->folded) : NULL;
    *left = 0;
    if (!t->folded) {
        shapeless_free(said);
        free(v);
        free(f);
        return 1;
    }
    struct mx_list out = { 0 };
    trace_begin();
    {
        MX_SCOPE(NULL);
        mx *x = v + g->r.n_values, *y = x + most;
        for (int i = 0; i < g->r.n_values; i++) v[i] = g->r.values[i].it;
        for (int i = 0; i < g->r.n && !failed; i++) {
            struct node *n = g->r.entries[i].node;
            struct call c = export_call_of(g, i, v, x);
            bool moved = false;
            for (int k = 0; k < n->nin; k++) moved |= x[k] != g->r.values[graph_reads(g, i)[k]].it;
            f->text = NULL;
            enum fate fate = export_fate(e, g, i, &c, false, f);
            if (fate == REPLACED) {
                (*left)++;
                wire_compose(&c, y);
            } else if (fate == REFUSED) {
                export_refuse(e, n->op);
            } else if (!moved) {
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
        for (int k = 0; k < graph_roots(g) && !failed; k++) failed = list_push(&out, v[g->r.roots[k]]);
    }
    trace_end();
    shapeless_end(said);
    const char *how = e->portable ? " and for the mlx package; portable=False may do" : "";
    failed = failed || (said->any && follows_none(said->why, how));
    if (!failed && *left)
        failed = record_with(t, &out, &said->checks);
    list_clear(&out);
    shapeless_free(said);
    free(v);
    free(f);
    return failed;
}

static int lower(const struct exporter *e, struct export_trace *t)
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
bool *export_made(const struct export_trace *t)
{
    const struct graph *g = &t->g;
    bool *made = mx_calloc((size_t)g->r.n_values + 1, sizeof *made);
    for (int i = 0; made && i < g->r.n; i++)
        for (int k = 0; k < g->r.entries[i].node->nout && !t->folded[i]; k++) made[graph_makes(g, i)[k]] = true;
    return made;
}

/* The number of a constant in the file or to the listener, -1 if it has not been there. */
int export_known(const struct exporter *e, mx x)
{
    int *k = id_find(&e->known, (uint64_t)(uintptr_t)x);
    return k ? *k : -1;
}

int export_remember(struct exporter *e, mx x)
{
    if (id_put(&e->known, (uint64_t)(uintptr_t)x, e->constants.n))
        return 1;
    return list_push(&e->constants, x);
}

/* Forgets constants from number n on, which have not got into the file. */
int export_forget(struct exporter *e, int n)
{
    struct id_table fresh = { 0 };
    int failed = 0;
    while (e->constants.n > n) mx_drop(&e->constants.v[--e->constants.n]);
    for (int i = 0; i < n && !failed; i++) failed = id_put(&fresh, (uint64_t)(uintptr_t)e->constants.v[i].it, i);
    id_free(&e->known);
    e->known = fresh;
    return failed;
}

/* ---- exporters */

static struct exporter *exporter_made(struct named_function *f, bool shapeless, bool portable)
{
    struct exporter *e = mx_malloc(sizeof *e);
    if (!e)
        return NULL;
    object_retain(&f->object);
    *e = (struct exporter){
        .f = f, .file = new_file_closed(), .shapeless = shapeless, .portable = portable, .owner = getpid()
    };
    return e;
}

struct exporter *exporter_new(const char *path, struct named_function *f, bool shapeless, bool portable,
                              const char *metadata, size_t length)
{
    struct exporter *e = exporter_made(f, shapeless, portable);
    if (e && (export_create(e, path) || export_header(e, metadata, length))) {
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

static void forget_constants(struct exporter *e)
{
    list_clear(&e->constants);
    id_free(&e->known);
}

int exporter_close(struct exporter *e, bool keep)
{
    int failed = 0;
    if (e->closed)
        return 0;
    e->closed = true;
    if (e->file.fd >= 0 && keep)
        failed = export_publish(e);
    if (!new_file_close(&e->file) && !failed)
        failed = export_file_failed(e, "close");
    forget_constants(e);
    return failed;
}

bool exporter_whole(const struct exporter *e) { return e->n && !e->tracing && !e->failed && e->owner == getpid(); }

static void signature_free(struct export_signature *s)
{
    for (int i = 0; s->keys && i < s->n_keys; i++) free(s->keys[i]);
    free(s->keys);
    free(s->in);
}

void exporter_free(struct exporter *e)
{
    if (!e)
        return;
    exporter_close(e, exporter_whole(e));
    if (e->tracing) {
        e->freed = true;
        return;
    }
    for (int i = 0; i < e->n; i++) signature_free(&e->traces[i]);
    free(e->traces);
    free(e->name);
    object_release(&e->f->object);
    if (e->listener)
        object_release(&e->listener->object);
    free(e);
}

static bool signature_of(struct export_signature *s, int n_pos, int n_keys, const char *const keys[], const mx x[])
{
    int n = n_pos + n_keys;
    *s = (struct export_signature){ .n_pos = n_pos };
    s->keys = mx_malloc(((size_t)n_keys + 1) * sizeof *s->keys);
    s->in = s->keys ? mx_malloc(((size_t)n + 1) * sizeof *s->in) : NULL;
    for (int i = 0; s->in && i < n_keys; i++, s->n_keys++)
        if (!(s->keys[i] = mx_strdup(keys[i])))
            return false;
    for (int i = 0; s->in && i < n; i++) {
        s->in[i] = (struct spec){ .dtype = x[i]->dtype, .ndim = x[i]->ndim };
        memcpy(s->in[i].shape, x[i]->shape, (size_t)x[i]->ndim * sizeof(int));
    }
    return s->in;
}

static bool same_signature(const struct exporter *e, const struct export_signature *a, const struct export_signature *b)
{
    bool same = a->n_pos == b->n_pos && a->n_keys == b->n_keys;
    for (int i = 0; same && i < a->n_keys; i++) same = !strcmp(a->keys[i], b->keys[i]);
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
    struct export_signature s;
    int failed = !signature_of(&s, n_pos, n_keys, keys, x);
    struct export_signature *all = failed ? NULL : mx_grown(e->traces, e->n, &e->cap, sizeof *all);
    failed = !all;
    if (all)
        e->traces = all;
    for (int i = 0; i < e->n && !failed; i++)
        if (same_signature(e, &s, &e->traces[i])) {
            mx_fail_as(MX_RUNTIME,
                       "[export_function] Attempting to export a function twice with the same signature, "
                       "that of trace %d",
                       i + 1);
            failed = 1;
        }
    struct export_trace t = { 0 };
    struct bound b = { { { .refs = 1 }, call_bound }, e->f, n_pos, n_keys, keys };
    failed = failed || trace_function(e, &b, n_pos + n_keys, x, &t) || lower(e, &t);
    if (!failed && e->closed) {
        mx_fail_as(MX_RUNTIME, "[export_function] the function closed the exporter that traced it");
        failed = 1;
    }
    failed = failed || (e->listener ? export_tell(e, &t, n_keys, keys) : export_write(e, &t, n_keys, keys));
    trace_clear(&t);
    if (failed)
        signature_free(&s);
    else
        e->traces[e->n++] = s;
    return failed;
}

bool exporter_sizes_read(const struct exporter *e) { return e->sizes_read; }

int exporter_trace(struct exporter *e, int n_pos, int n_keys, const char *const keys[], const mx x[])
{
    if (e->tracing || e->closed) {
        mx_fail_as(MX_RUNTIME, "[export_function] %s",
                   e->tracing ? "the exporter is at work: what it traces or tells cannot use it"
                              : "Attempting to write after exporting is done: the exporter is closed");
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
        e->tracing = true;
        failed = add_trace(e, n_pos, n_keys, sorted, in);
        e->failed = failed != 0;
        e->tracing = false;
        if (e->closed) /* by who was told of the trace, which went on */
            forget_constants(e);
    }
    free(sorted);
    free(in);
    if (e->freed)
        exporter_free(e);
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
    e->name = mx_strdup("a graph");
    e->file.fd = memfd_create("mlxfn", MFD_CLOEXEC);
    e->file.placed = true;
    if (!e->name || e->file.fd < 0)
        mx_fail_as(MX_RUNTIME, "[export_function] could not write a graph: %s", strerror(errno));
    else if (!export_header(e, "", 0) && !exporter_trace(e, g->n_in, 0, NULL, (const mx *)g->r.values))
        bytes = mx_malloc(e->end + 1);
    if (bytes && pread(e->file.fd, bytes, e->end, 0) != (ssize_t)e->end) {
        export_file_failed(e, "read");
        free(bytes);
        bytes = NULL;
    }
    *length = e->end;
    exporter_free(e);
    return bytes;
}
