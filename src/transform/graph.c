/* graph.c: functions of arrays as graphs that can be called again. */
#include "transform/graph.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/ops.h"

static void graph_destroy(struct object *o)
{
    struct graph *g = (struct graph *)o;
    struct object *resting = atomic_load_explicit(&g->resting, memory_order_acquire);
    if (resting)
        object_release(resting);
    recording_free(&g->r);
    free(g->copied);
    free(g);
}

struct graph *graph_of_object(struct object *o) { return o && o->destroy == graph_destroy ? (struct graph *)o : NULL; }

mx graph_placeholder(enum dtype t, int ndim, const int *shape)
{
    mx x = array_new(t, ndim, shape);
    if (!is_nil(x))
        x->tracer = trace_number();
    return x;
}

/* Do the results need a placeholder that is not ours? */
static void note_open(struct graph *g)
{
    g->open = false;
    for (int k = 0; k < g->n_out; k++) g->open |= g->r.foreign[g->r.roots[k]];
}

static void note_loops(struct graph *g)
{
    for (int i = 0; i < g->r.n; i++) {
        const struct node *n = g->r.entries[i].node;
        for (const struct field *f = n->op->fields; f && f->name; f++) {
            struct object *o = f->kind == F_OBJECT ? *(struct object **)((char *)n->args + f->offset) : NULL;
            const struct graph *in = graph_of_object(o);
            if (in && in->loops >= g->loops)
                g->loops = in->loops + 1;
        }
    }
}

static int record_dependent(struct recording *r, int n_roots, const mx roots[], int n_leaves, const mx leaves[],
                            uint32_t clock)
{
    (void)clock;
    return record(r, n_roots, roots, n_leaves, leaves, true);
}

typedef int recorder(struct recording *r, int n_roots, const mx roots[], int n_leaves, const mx leaves[],
                     uint32_t clock);

static struct graph *graph_from(recorder *how, uint32_t clock, int n, const mx in[], int n_out, const mx out[])
{
    struct graph *g = mx_malloc(sizeof *g);
    if (!g)
        return NULL;
    *g = (struct graph){ .object = { .refs = 1, .destroy = graph_destroy }, .n_in = n, .n_out = n_out };
    if (how(&g->r, n_out, out, n, in, clock)) {
        free(g);
        return NULL;
    }
    note_open(g);
    note_loops(g);
    return g;
}

struct graph *graph_of(int n, const mx in[], int n_out, const mx out[])
{
    return graph_from(record_dependent, 0, n, in, n_out, out);
}

struct graph *graph_since(uint32_t clock, int n, const mx in[], int n_out, const mx out[])
{
    return graph_from(record_since, clock, n, in, n_out, out);
}

int graph_placeholders(int n, const mx like[], struct mx_list *in)
{
    int failed = 0;
    for (int i = 0; i < n && !failed; i++) {
        MX_SCOPE(NULL);
        failed = list_push(in, graph_placeholder(like[i]->dtype, like[i]->ndim, like[i]->shape));
    }
    return failed;
}

void graph_forget(mx placeholder) { placeholder->out = 1; }

/* ---- traces for any shape */

/* Nothing in the graph depends on how many dimensions its operands have. */
static bool suits_any_rank(const struct graph *g)
{
    for (int i = 0; i < g->r.n; i++) {
        const struct node *n = g->r.entries[i].node;
        bool any = (n->op->traits & FUSE) || n->op == &op_copy || n->op == &op_stop_gradient || n->op == &op_full ||
                   (n->op == &op_broadcast && n->nin > 1);
        if (!any || node_has_lists(n)) /* of axes or sizes */
            return false;
    }
    return true;
}

/* Puts the values of the roots from *from on after those of the others, but for what depends on a placeholder of a
 * transform inside, which is not known again; how many. */
static int more_roots(struct graph *g, int to, int from, int n)
{
    int kept = 0;
    for (int i = from; i < from + n; i++) {
        int k = g->r.roots[i];
        if (g->r.foreign[k])
            g->fixed = "a transform inside";
        else
            g->r.roots[to + kept++] = k;
    }
    return kept;
}

static struct graph *traced_graph(struct closure *f, int n, const mx like[], bool any_shape, const char *name)
{
    struct mx_list in = { 0 }, out = { 0 };
    struct shapeless_trace *said = shapeless_begin(any_shape);
    if (!said)
        return NULL;
    said->name = name;
    trace_begin();
    uint32_t clock = node_clock();
    int failed = graph_placeholders(n, like, &in) || f->call(f, n, (mx *)in.v, &out);
    shapeless_end(said);
    const struct mx_list *reads = &said->reads, *checks = &said->checks;
    int n_out = out.n;
    failed = failed || list_push_all(&out, reads->n, reads->n ? (mx *)reads->v : NULL) ||
             list_push_all(&out, checks->n, checks->n ? (mx *)checks->v : NULL);
    struct graph *g = failed ? NULL : graph_from(record_anew, clock, n, (mx *)in.v, out.n, (mx *)out.v);
    trace_end();
    if (g) {
        g->n_read = more_roots(g, n_out, n_out, reads->n);
        g->n_check = more_roots(g, n_out + g->n_read, n_out + reads->n, checks->n);
        g->n_out = n_out;
        note_open(g);
        g->any_shape = any_shape;
        g->fixed = any_shape && said->why ? said->why : g->fixed;
        g->any_rank = any_shape && !said->ranks && suits_any_rank(g);
    }
    shapeless_free(said);
    for (int i = 0; i < in.n; i++) graph_forget(in.v[i].it);
    list_clear(&in);
    list_clear(&out);
    return g;
}

struct graph *graph_trace(struct closure *f, int n, const mx like[], const char *name)
{
    return traced_graph(f, n, like, false, name);
}

struct graph *graph_trace_shapeless(struct closure *f, int n, const mx like[], const char *name)
{
    return traced_graph(f, n, like, true, name);
}

/* ---- calling */

static bool fits_trace(const struct graph *g, const mx x[])
{
    for (int i = 0; i < g->n_in; i++)
        if (!same_shape(x[i], g->r.values[i].it))
            return false;
    return true;
}

static int check_inputs(const struct graph *g, int n, const mx x[])
{
    if (n != g->n_in) {
        mx_fail("[graph] expected %d inputs, got %d", g->n_in, n);
        return 1;
    }
    for (int i = 0; i < n; i++)
        if (is_nil(x[i]) || x[i]->dtype != g->r.values[i].it->dtype) {
            mx_fail("[graph] input %d: expected type %s, got %s", i, dtype_name(g->r.values[i].it->dtype),
                    dtype_name(x[i]->dtype));
            return 1;
        }
    return 0;
}

/* New results of entry i on the values v, of the traced shapes or of inferred ones. */
static void call_entry(const struct graph *g, int i, mx v[], bool as_traced, mx x[], mx y[])
{
    struct node *n = g->r.entries[i].node;
    const int *in = graph_reads(g, i), *out = graph_makes(g, i);
    for (int k = 0; k < n->nin; k++) x[k] = v[in[k]];
    if ((n->op->traits & LENDS) && !shapeless()) {
        mx_settle_n(n->op, n->args, n->nin, x, n->nout, y);
    } else if (!as_traced) {
        mx_infer_n(n->op, n->args, n->nin, x, n->nout, y);
    } else if (n->nout > 1) {
        mx_nodes(n->op, n->args, n->nin, x, n->nout, n->specs, y);
    } else {
        mx like = g->r.values[out[0]].it;
        y[0] = mx_node(n->op, n->args, n->nin, x, like->ndim, like->shape, like->dtype);
    }
    for (int k = 0; k < n->nout; k++) {
        bool fresh = !is_nil(y[k]); /* not an operand, which another thread may be computing */
        for (int i = 0; i < n->nin; i++) fresh &= y[k] != x[i];
        v[out[k]] = y[k];
        if (fresh && y[k]->node)
            y[k]->node->stream = n->stream;
    }
}

/* Do the values have the shapes that were looked at? */
static bool as_read(const struct graph *g, mx v[])
{
    for (int i = 0; i < g->n_read; i++) {
        int k = g->r.roots[g->n_out + i];
        if (!same_shape(v[k], g->r.values[k].it))
            return false;
    }
    return true;
}

static int call_fitting(const struct graph *g, int n, const mx x[], struct mx_list *y, bool *fits)
{
    enum { FEW = 64 };
    mx few[FEW], *v = few;
    int most = recording_widest(&g->r), failed = check_inputs(g, n, x);
    if (failed)
        return 1;
    if (g->r.n_values + 2 * most > FEW && !(v = mx_malloc((size_t)(g->r.n_values + 2 * most) * sizeof *v)))
        return 1;
    bool as_traced = fits_trace(g, x);
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < g->r.n_values; i++) v[i] = i < n ? x[i] : g->r.values[i].it;
        mx *slots = v + g->r.n_values;
        int i = 0;
        while (i < g->r.n && !mx_failed()) call_entry(g, i++, v, as_traced, slots, slots + most);
        failed = mx_failed();
        if (fits && failed && !sizes_were_given(g->r.entries[i - 1].node)) {
            mx_error_clear();
            failed = *fits = false;
        }
        if (fits && *fits && !failed)
            *fits = as_read(g, v);
        for (int k = 0; k < g->n_out && !failed && (!fits || *fits); k++) {
            mx out = v[g->r.roots[k]];
            failed = list_push(y, g->copied && g->copied[k] && !out->tracer ? mx_duplicate(out) : out) || mx_failed();
        }
    }
    if (v != few)
        free(v);
    return failed;
}

int graph_call(const struct graph *g, int n, const mx x[], struct mx_list *y) { return call_fitting(g, n, x, y, NULL); }

int graph_call_fitting(const struct graph *g, int n, const mx x[], struct mx_list *y, bool *fits)
{
    *fits = n == g->n_in && (!g->fixed || fits_trace(g, x));
    for (int i = 0; i < n && *fits; i++)
        *fits = x[i]->dtype == g->r.values[i].it->dtype && (g->any_rank || x[i]->ndim == g->r.values[i].it->ndim);
    return *fits ? call_fitting(g, n, x, y, fits) : 0;
}

static bool has_dims(const struct graph *g, const struct dims in[])
{
    for (int i = 0; i < g->n_in; i++) {
        mx x = g->r.values[i].it;
        if (x->ndim != in[i].ndim || (x->ndim && memcmp(x->shape, in[i].shape, (size_t)x->ndim * sizeof(int))))
            return false;
    }
    return true;
}

struct graph *graph_at(struct graph *g, const struct dims in[])
{
    if (has_dims(g, in)) {
        object_retain(&g->object);
        return g;
    }
    struct mx_list x = { 0 }, y = { 0 };
    int failed = 0;
    trace_begin();
    for (int i = 0; i < g->n_in && !failed; i++) {
        MX_SCOPE(NULL);
        failed = list_push(&x, graph_placeholder(g->r.values[i].it->dtype, in[i].ndim, in[i].shape));
    }
    uint32_t clock = node_clock();
    failed = failed || graph_call(g, x.n, (mx *)x.v, &y);
    struct graph *made = failed ? NULL : graph_since(clock, x.n, (mx *)x.v, y.n, (mx *)y.v);
    trace_end();
    list_clear(&x);
    list_clear(&y);
    return made;
}

int graph_hand_out(struct graph *g)
{
    bool *kept = mx_malloc((size_t)(g->r.n_values + g->n_out + 1) * sizeof *kept), *copied = kept + g->r.n_values;
    if (!kept)
        return 1;
    for (int i = 0; i < g->r.n_values; i++) kept[i] = i >= g->n_in;
    for (int i = 0; i < g->r.n; i++) {
        const struct node *n = g->r.entries[i].node;
        for (int k = 0; k < n->nout; k++)
            kept[graph_makes(g, i)[k]] = n->op->traits & VIEW && kept[graph_reads(g, i)[node_viewed(n, k)]];
    }
    bool any = false;
    for (int k = 0; k < g->n_out; k++) any |= copied[k] = kept[g->r.roots[k]];
    free(g->copied);
    g->copied = NULL;
    if (any && (g->copied = mx_malloc((size_t)g->n_out * sizeof *copied)))
        memcpy(g->copied, copied, (size_t)g->n_out * sizeof *copied);
    free(kept);
    return any && !g->copied;
}

/* ---- simplifying */

static uint64_t entry_hash(const struct graph *g, int i)
{
    const struct node *n = g->r.entries[i].node;
    uint64_t h = node_hash(n);
    for (int k = 0; k < n->nin; k++) h = (h ^ (uint64_t)(unsigned)graph_reads(g, i)[k]) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static bool same_entry(const struct graph *g, int i, int j)
{
    const struct node *a = g->r.entries[i].node, *b = g->r.entries[j].node;
    return a->stream == b->stream && node_equivalent(a, b) &&
           !memcmp(graph_reads(g, i), graph_reads(g, j), (size_t)a->nin * sizeof(int));
}

static bool is_number(mx x) { return x->ndim == 0 && !x->tracer && array_readable(x); }

static uint64_t scalar_bits(mx x)
{
    uint64_t bits = 0;
    memcpy(&bits, array_host(x), itemsize(x));
    return bits;
}

/* An open hash table of numbers; `size` is a power of two at least twice the number of entries. */
struct table {
    uint32_t size;
    int *at;
};

/* goes[v] is where value v went: itself, or the one it equals. */
static void merge_constants(const struct graph *g, const bool *made, int *goes, struct table *t)
{
    for (int i = g->n_in; i < g->r.n_values; i++) {
        mx x = g->r.values[i].it;
        if (made[i] || !is_number(x))
            continue;
        uint64_t bits = scalar_bits(x), h = (bits + x->dtype) * 0x9e3779b97f4a7c15u;
        uint32_t at = (uint32_t)(h >> 32) & (t->size - 1);
        for (; t->at[at] >= 0; at = (at + 1) & (t->size - 1)) {
            mx other = g->r.values[t->at[at]].it;
            if (other->dtype == x->dtype && scalar_bits(other) == bits)
                break;
        }
        if (t->at[at] >= 0) {
            goes[i] = t->at[at];
        } else {
            t->at[at] = i;
        }
    }
}

static void redirect(struct graph *g, int i, const int *goes)
{
    int *in = g->r.numbers + g->r.entries[i].at;
    for (int k = 0; k < g->r.entries[i].node->nin; k++) in[k] = goes[in[k]];
}

static void merge_entries(struct graph *g, int *goes, struct table *t)
{
    for (int i = 0; i < g->r.n; i++) {
        redirect(g, i, goes);
        if (g->r.entries[i].node->op == &op_copy) {
            goes[graph_makes(g, i)[0]] = graph_reads(g, i)[0];
            continue;
        }
        uint32_t at = (uint32_t)entry_hash(g, i) & (t->size - 1);
        while (t->at[at] >= 0 && !same_entry(g, i, t->at[at])) at = (at + 1) & (t->size - 1);
        if (t->at[at] < 0)
            t->at[at] = i;
        else
            for (int k = 0; k < g->r.entries[i].node->nout; k++)
                goes[graph_makes(g, i)[k]] = graph_makes(g, t->at[at])[k];
    }
    for (int k = 0; k < graph_roots(g); k++) g->r.roots[k] = goes[g->r.roots[k]];
}

/* Keeps the entries that the results need, and lets go of the values that nothing names any more. */
static int drop_dead(struct graph *g, bool *needed)
{
    int kept = 0, before = g->r.n;
    memset(needed, 0, (size_t)g->r.n_values);
    for (int k = 0; k < graph_roots(g); k++) needed[g->r.roots[k]] = true;
    for (int i = before; i-- > 0;) {
        bool used = false;
        const struct node *n = g->r.entries[i].node;
        for (int k = 0; k < n->nout; k++) used |= needed[graph_makes(g, i)[k]];
        for (int k = 0; k < n->nin && used; k++) needed[graph_reads(g, i)[k]] = true;
        for (int k = 0; k < n->nout && used; k++) needed[graph_makes(g, i)[k]] = true;
        if (!used) {
            node_release(g->r.entries[i].node);
            g->r.entries[i].node = NULL;
        }
    }
    for (int i = 0; i < before; i++)
        if (g->r.entries[i].node)
            g->r.entries[kept++] = g->r.entries[i];
    g->r.n = kept;
    for (int i = g->n_in; i < g->r.n_values; i++)
        if (!needed[i])
            mx_drop(&g->r.values[i]);
    return before - kept;
}

int graph_simplify(struct graph *g)
{
    int most = g->r.n > g->r.n_values ? g->r.n : g->r.n_values, gone = 0;
    struct table t = { 8, NULL };
    while (t.size < 2 * (uint32_t)most) t.size *= 2;
    t.at = malloc(t.size * sizeof *t.at);
    int *goes = malloc(((size_t)g->r.n_values + 1) * sizeof *goes);
    bool *flags = calloc((size_t)g->r.n_values + 1, sizeof *flags);
    if (t.at && goes && flags) { /* without memory the graph stays as it is */
        for (int i = 0; i < g->r.n_values; i++) goes[i] = i;
        for (int i = 0; i < g->r.n; i++)
            for (int k = 0; k < g->r.entries[i].node->nout; k++) flags[graph_makes(g, i)[k]] = true;
        memset(t.at, -1, t.size * sizeof *t.at);
        merge_constants(g, flags, goes, &t);
        memset(t.at, -1, t.size * sizeof *t.at);
        merge_entries(g, goes, &t);
        gone = drop_dead(g, flags);
    }
    free(t.at);
    free(goes);
    free(flags);
    return gone;
}
