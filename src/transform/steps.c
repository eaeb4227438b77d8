/* steps.c: a graph run on the spot, over and over.
 *
 * What steps_open lays out stays where it is: nodes of our own whose operands are the values' arrays,
 * entries around them, and per entry the counts to set before it and the arrays to empty after it. */
#include "transform/steps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "transform/eval.h"

struct step {
    struct entry entry;
    int n_counts, n_drops; /* of s->counts and s->drops, one step's behind the other's */
};
struct count { mx x; int refs; };

/* How a result reaches an input. */
struct feed {
    enum { STAYS, MOVES, SHARES } how;
    bool made; /* the result is an entry's, and this is the first one of its value */
    struct buffer *buf;
    int64_t offset;
    bool row;
    int64_t *strides;
};

/* ---- what is where */

static mx value_array(struct steps *s, int i, const struct dims in[])
{
    mx like = s->g->r.values[i].it;
    if (!like)
        return NULL;
    mx x = i < s->n_in ? array_new(like->dtype, in[i].ndim, in[i].shape)
                       : array_new(like->dtype, like->ndim, like->shape);
    if (is_nil(x))
        return NULL;
    mx_retain(x);
    atomic_store_explicit(&x->status, READY, memory_order_relaxed);
    return x;
}

static int make_values(struct steps *s, const struct dims in[])
{
    MX_SCOPE(NULL);
    size_t bytes = ((size_t)s->n_values + 1) * sizeof(mx);
    if (!(s->v = mx_malloc(bytes)))
        return 1;
    memset(s->v, 0, bytes);
    for (int i = 0; i < s->n_values; i++)
        if (!(s->v[i] = value_array(s, i, in)) && s->g->r.values[i].it)
            return 1;
    return 0;
}

/* last[i]: the entry that looks at value i last; INT_MAX if it is to stay, -1 if nobody looks. */
static void find_last(const struct steps *s, int carried, int *last, bool *made)
{
    const struct graph *g = s->g;
    for (int i = 0; i < s->n_values; i++)
        last[i] = -1, made[i] = false;
    for (int i = 0; i < g->r.n; i++) {
        const struct node *n = g->r.entries[i].node;
        for (int k = 0; k < n->nin; k++)
            last[graph_reads(g, i)[k]] = i;
        for (int k = 0; k < n->nout; k++)
            made[graph_makes(g, i)[k]] = true;
    }
    for (int i = 0; i < s->n_values; i++)
        if (!made[i] && i >= carried)
            last[i] = INT_MAX;
    for (int k = 0; k < s->n_out; k++)
        last[g->r.roots[k]] = INT_MAX;
}

static int share_constants(struct steps *s, const bool *made)
{
    for (int i = s->n_in; i < s->n_values; i++) {
        mx x = s->g->r.values[i].it;
        if (!x || made[i])
            continue;
        if (atomic_load_explicit(&x->status, memory_order_acquire) != READY) {
            mx_fail_as(MX_RUNTIME, "[%s] the body uses an array of shape %s that has no value", s->who, shape_of(x));
            return 1;
        }
        steps_share(s->v[i], x);
    }
    return 0;
}

/* ---- the entries */

struct layout { int *last; bool *made; int n_counts, n_drops; };

static void add_count(struct steps *s, struct step *e, struct layout *l, mx x, int refs)
{
    s->counts[l->n_counts++] = (struct count){ x, refs };
    e->n_counts++;
}

static void add_drop(struct steps *s, struct step *e, struct layout *l, mx x)
{
    s->drops[l->n_drops++] = x;
    e->n_drops++;
}

static int occurrences(int n, const int v[], int x)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += v[i] == x;
    return count;
}

/* The counts that tell an entry which operands it is the last to look at, and which results nobody will. */
static void lay_out(struct steps *s, int i, struct layout *l)
{
    struct step *e = &s->steps[i];
    const struct node *n = s->g->r.entries[i].node;
    const int *in = graph_reads(s->g, i), *out = graph_makes(s->g, i);
    for (int k = 0; k < n->nin; k++) {
        if (occurrences(k, in, in[k]))
            continue;
        bool here = l->last[in[k]] == i;
        add_count(s, e, l, s->v[in[k]], occurrences(n->nin, in, in[k]) + !here);
        if (here)
            add_drop(s, e, l, s->v[in[k]]);
    }
    for (int k = 0; k < n->nout; k++) {
        bool unused = l->last[out[k]] < 0;
        if (n->nout > 1)
            add_count(s, e, l, s->v[out[k]], unused ? 1 : 2);
        if (unused)
            add_drop(s, e, l, s->v[out[k]]);
    }
}

static int make_entries(struct steps *s, struct layout *l)
{
    const struct graph *g = s->g;
    size_t n = (size_t)g->r.n + 1, lists = (size_t)g->r.n_numbers + 1;
    s->steps = mx_malloc(n * sizeof *s->steps);
    s->nodes = s->steps ? mx_malloc(n * sizeof *s->nodes) : NULL;
    s->counts = s->nodes ? mx_malloc(lists * sizeof *s->counts) : NULL;
    s->drops = s->counts ? mx_malloc(lists * sizeof *s->drops) : NULL;
    mx *pieces = s->drops ? s->pieces = mx_malloc(2 * lists * sizeof(mx)) : NULL;
    if (!pieces)
        return 1;
    for (int i = 0; i < g->r.n; i++) {
        const struct node *of = g->r.entries[i].node;
        struct node *node = &s->nodes[i];
        *node = (struct node){ .refs = 1, .nin = of->nin, .nout = of->nout, .op = of->op, .stream = of->stream,
                               .args = of->args, .specs = of->specs, .in = pieces, .out = pieces + of->nin };
        pieces += of->nin + of->nout;
        for (int k = 0; k < of->nin; k++)
            node->in[k] = s->v[graph_reads(g, i)[k]];
        for (int k = 0; k < of->nout; k++)
            node->out[k] = s->v[graph_makes(g, i)[k]];
        s->steps[i] = (struct step){ .entry = { .node = node } };
        if (of->nout == 1)
            s->steps[i].entry.one = node->out[0];
        else
            s->steps[i].entry.several = node->out;
        lay_out(s, i, l);
        s->n = i + 1;
    }
    return 0;
}

/* ---- from results to inputs */

static int make_feeds(struct steps *s, const bool *made)
{
    size_t n = (size_t)s->n_out + 1;
    const int *roots = s->g->r.roots;
    s->feeds = mx_malloc(n * (sizeof *s->feeds + MX_MAX_NDIM * sizeof(int64_t)));
    if (!s->feeds)
        return 1;
    int64_t *strides = (int64_t *)(s->feeds + n);
    for (int k = 0; k < s->n_out; k++) {
        bool again = occurrences(k, roots, roots[k]) > 0, once = occurrences(s->n_out, roots, roots[k]) == 1;
        s->feeds[k] = (struct feed){ .how = roots[k] == k ? STAYS : made[roots[k]] && once ? MOVES : SHARES,
                                     .made = made[roots[k]] && !again,
                                     .strides = strides + k * MX_MAX_NDIM };
    }
    return 0;
}

static void empty(mx x)
{
    buffer_release(x->buf);
    x->buf = NULL;
}

static void place(mx x, struct buffer *buf, int64_t offset, bool row, const int64_t *strides)
{
    empty(x);
    x->buf = buf;
    x->offset = offset;
    x->row = row;
    memcpy(x->strides, strides, (size_t)x->ndim * sizeof *strides);
}

void steps_share(mx y, mx x)
{
    if (x->buf)
        buffer_retain(x->buf);
    place(y, x->buf, x->offset, x->row, x->strides);
}

void steps_forget(struct steps *s)
{
    for (int k = 0; k < s->n_out; k++)
        if (s->feeds[k].made)
            empty(steps_result(s, k));
}

void steps_feed(struct steps *s, int n)
{
    for (int k = 0; k < n; k++) {
        struct feed *f = &s->feeds[k];
        mx x = steps_result(s, k);
        if (f->how != SHARES)
            continue;
        buffer_retain(f->buf = x->buf);
        f->offset = x->offset;
        f->row = x->row;
        memcpy(f->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
    }
    for (int k = 0; k < n; k++) {
        const struct feed *f = &s->feeds[k];
        mx x = steps_result(s, k);
        if (f->how == SHARES)
            place(s->v[k], f->buf, f->offset, f->row, f->strides);
        if (f->how != MOVES)
            continue;
        place(s->v[k], x->buf, x->offset, x->row, x->strides);
        x->buf = NULL;
    }
    steps_forget(s);
}

/* ---- the public ways in */

static int same_backend(const struct steps *s, const struct stream *on)
{
    for (int i = 0; i < s->g->r.n; i++) {
        const struct node *n = s->g->r.entries[i].node;
        if (n->stream->backend == on->backend)
            continue;
        mx_fail_as(MX_RUNTIME, "[%s] a body that runs on %s cannot have an operation (%s) on another kind of device",
                   s->who, device_text(on->device), n->op->name);
        return 1;
    }
    return 0;
}

int steps_open(struct steps *s, const char *who, struct stream *on, struct graph *g, const struct dims in[],
               int carried)
{
    *s = (struct steps){ .who = who };
    if (!(s->g = graph_at(g, in)))
        return 1;
    s->n_in = s->g->n_in;
    s->n_out = s->g->n_out;
    s->n_values = s->g->r.n_values;
    struct layout l = { .last = mx_malloc(((size_t)s->n_values + 1) * sizeof *l.last) };
    l.made = l.last ? mx_malloc((size_t)s->n_values + 1) : NULL;
    int failed = !l.made || same_backend(s, on) || make_values(s, in);
    if (!failed) {
        find_last(s, carried, l.last, l.made);
        failed = make_entries(s, &l) || make_feeds(s, l.made) || share_constants(s, l.made);
    }
    free(l.last);
    free(l.made);
    return failed;
}

void steps_close(struct steps *s)
{
    for (int i = 0; s->v && i < s->n_values; i++)
        if (s->v[i]) {
            atomic_store_explicit(&s->v[i]->refs, 1, memory_order_relaxed);
            mx_release(s->v[i]);
        }
    free(s->v);
    free(s->steps);
    free(s->nodes);
    free(s->counts);
    free(s->drops);
    free(s->pieces);
    free(s->feeds);
    if (s->g)
        object_release(&s->g->object);
}

void steps_put(struct steps *s, int i, mx x) { steps_share(s->v[i], x); }

void steps_take(struct steps *s, int i) { empty(s->v[i]); }

void steps_put_slice(struct steps *s, int i, mx x, int t)
{
    mx y = s->v[i];
    if (!y->buf) {
        buffer_retain(x->buf);
        place(y, x->buf, 0, false, x->strides + 1);
        array_note_layout(y);
    }
    y->offset = x->offset + t * x->strides[0];
}

mx steps_result(const struct steps *s, int k) { return s->v[s->g->r.roots[k]]; }

bool steps_reads(const struct steps *s, int i)
{
    for (int k = 0; k < s->n; k++)
        if (occurrences(s->nodes[k].nin, graph_reads(s->g, k), i))
            return true;
    return occurrences(s->n_out, s->g->r.roots, i) > 0;
}

int steps_run(struct steps *s)
{
    const struct count *c = s->counts;
    mx *d = s->drops;
    for (int i = 0; i < s->n; i++) {
        struct step *e = &s->steps[i];
        for (int k = e->n_counts; k-- > 0; c++)
            atomic_store_explicit(&c->x->refs, c->refs, memory_order_relaxed);
        if (mx_run_entry(e->entry.node->stream, &e->entry))
            return 1;
        for (int k = e->n_drops; k-- > 0; d++)
            empty(*d);
    }
    return 0;
}
