/* steps.c: a graph run on the spot, over and over.
 *
 * What steps_open lays out stays where it is: nodes of our own whose operands are the values' arrays,
 * entries around them, and per entry the counts to set before it and the arrays to empty after it. */
#include "run/steps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/plugin.h"
#include "run/check.h"
#include "run/control.h"
#include "run/eval.h"
#include "run/fuse.h"
#include "transform/body.h"

/* Elements: below that a pass over them costs less than planning one for several.  More than where nothing is laid out
 * beforehand (run/fuse.c). */
enum { WORTH_FUSING = 8192 };

/* An entry, or several that run as one. */
struct step {
    struct entry **members;
    bool *wanted; /* results that somebody else looks at */
    int n;
    bool plain;            /* one that its backend runs on the host, where all operands are */
    int n_counts, n_drops; /* of s->counts and s->drops, one step's behind the other's */
};
struct ref_count {
    mx x;
    int refs;
};

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
    mx x =
        i < s->n_in ? array_new(like->dtype, in[i].ndim, in[i].shape) : array_new(like->dtype, like->ndim, like->shape);
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

/* at[i]: when entry i runs.  last[i]: when value i is looked at last, but for those who run with its
 * maker; INT_MAX if it is to stay, -1 if nobody looks. */
struct layout {
    int *at, *last, *maker; /* maker: when a value is made */
    bool *made;
    int n_counts, n_drops;
};

static void find_last(const struct steps *s, int carried, struct layout *l)
{
    const struct graph *g = s->g;
    for (int i = 0; i < s->n_values; i++) l->last[i] = l->maker[i] = -1;
    for (int i = 0; i < g->r.n; i++) {
        const struct node *n = g->r.entries[i].node;
        for (int k = 0; k < n->nin; k++) {
            int v = graph_reads(g, i)[k];
            if (l->maker[v] != l->at[i] && l->last[v] < l->at[i])
                l->last[v] = l->at[i];
        }
        for (int k = 0; k < n->nout; k++) l->maker[graph_makes(g, i)[k]] = l->at[i];
    }
    for (int i = 0; i < s->n_values; i++) {
        l->made[i] = l->maker[i] >= 0;
        if (!l->made[i] && i >= carried)
            l->last[i] = INT_MAX;
    }
    for (int k = 0; k < s->n_out; k++) l->last[g->r.roots[k]] = INT_MAX;
}

static int occurrences(int n, const int v[], int x)
{
    int count = 0;
    for (int i = 0; i < n; i++) count += v[i] == x;
    return count;
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
        if (buffer_bring(x->buf, s->on))
            return 1;
        steps_share(s->v[i], x);
    }
    return 0;
}

/* ---- the entries */

static int make_nodes(struct steps *s)
{
    const struct graph *g = s->g;
    size_t n = (size_t)g->r.n + 1, lists = (size_t)g->r.n_numbers + 1;
    s->entries = mx_malloc(n * sizeof *s->entries);
    s->nodes = s->entries ? mx_malloc(n * sizeof *s->nodes) : NULL;
    mx *pieces = s->nodes ? s->pieces = mx_malloc(lists * sizeof(mx)) : NULL;
    if (!pieces)
        return 1;
    for (int i = 0; i < g->r.n; i++) {
        const struct node *of = g->r.entries[i].node;
        struct node *node = &s->nodes[i];
        *node = (struct node){ .refs = 1,
                               .nin = of->nin,
                               .nout = of->nout,
                               .op = of->op,
                               .stream = s->on,
                               .args = of->args,
                               .specs = of->specs,
                               .in = pieces,
                               .out = pieces + of->nin };
        pieces += of->nin + of->nout;
        for (int k = 0; k < of->nin; k++) node->in[k] = s->v[graph_reads(g, i)[k]];
        for (int k = 0; k < of->nout; k++) {
            node->out[k] = s->v[graph_makes(g, i)[k]];
            node->out[k]->out = k;
        }
        s->entries[i] = (struct entry){ .node = node, .before = -1 };
        if (of->nout == 1)
            s->entries[i].one = node->out[0];
        else
            s->entries[i].several = node->out;
    }
    return 0;
}

/* Groups of small arrays are taken apart again; not on devices, where starting each entry costs more. */
static void part_small(struct entry *e, int i)
{
    while (i >= 0) {
        int before = e[i].before;
        e[i].before = -1;
        e[i].waits = false;
        i = before;
    }
}

static int fuse(struct steps *s)
{
    int n = s->g->r.n, failed = 0;
    if (!mx_fuse_enabled() || !n || !backend_of(s->on)->run_fused)
        return 0;
    graph_lock();
    uint32_t walk = walk_begin();
    for (int i = 0; i < n; i++)
        for (int k = 0; k < s->nodes[i].nout; k++) {
            s->nodes[i].out[k]->mark = walk;
            s->nodes[i].out[k]->slot = i;
        }
    failed = fuse_plan(n, s->entries, walk, 0);
    graph_unlock();
    for (int i = 0; i < n && !failed && !backend_of(s->on)->fuses_small; i++)
        if (!s->entries[i].waits && s->entries[i].before >= 0 && s->entries[i].node->in[0]->size < WORTH_FUSING)
            part_small(s->entries, i);
    return failed;
}

static void add_count(struct steps *s, struct step *e, struct layout *l, mx x, int refs)
{
    s->counts[l->n_counts++] = (struct ref_count){ x, refs };
    e->n_counts++;
}

static void add_drop(struct steps *s, struct step *e, struct layout *l, mx x)
{
    s->drops[l->n_drops++] = x;
    e->n_drops++;
}

/* How often the members from number `from` on take x from outside. */
static int times_used(const struct step *e, int from, mx x)
{
    int count = 0;
    for (int m = from; m < e->n; m++)
        for (int k = 0; k < e->members[m]->node->nin; k++)
            count += e->members[m]->node->in[k] == x && (e->n == 1 || e->members[m]->from[k] == OUTSIDE);
    return count;
}

/* How often members take what member m makes. */
static int times_inside(const struct step *e, int m)
{
    int count = 0;
    for (int i = m + 1; i < e->n; i++)
        for (int k = 0; k < e->members[i]->node->nin; k++) count += e->members[i]->from[k] == m;
    return count;
}

/* The counts that tell a step which operands it is the last to look at, and which results nobody will. */
static void step_layout(struct steps *s, struct step *e, int at, struct layout *l)
{
    for (int m = 0; m < e->n; m++) {
        const struct entry *member = e->members[m];
        const struct node *n = member->node;
        const int *in = graph_reads(s->g, (int)(member - s->entries)), *out = in + n->nin;
        for (int k = 0; k < n->nin; k++) {
            if (occurrences(k, in, in[k]) || (e->n > 1 && member->from[k] != OUTSIDE))
                continue;
            int all = times_used(e, 0, s->v[in[k]]);
            if (times_used(e, m, s->v[in[k]]) < all) /* met in an earlier member */
                continue;
            bool here = l->last[in[k]] == at;
            add_count(s, e, l, s->v[in[k]], all + !here);
            if (here)
                add_drop(s, e, l, s->v[in[k]]);
        }
        e->wanted[m] = l->last[out[0]] >= 0;
        int inside = e->n > 1 ? times_inside(e, m) : 0;
        if (inside) /* a backend may run a group in parts, each of which reads it */
            add_count(s, e, l, s->v[out[0]], inside + 1);
        for (int k = 0; k < n->nout && e->n == 1; k++) {
            bool unused = l->last[out[k]] < 0;
            if (n->nout > 1)
                add_count(s, e, l, s->v[out[k]], unused ? 1 : 2);
            if (unused)
                add_drop(s, e, l, s->v[out[k]]);
        }
    }
}

static bool is_plain(struct stream *on, const struct entry *e)
{
    const struct op *op = e->node->op;
    return e->before < 0 && !(op->traits & VIEW) && !on->on->alloc && !plugin_of(op) && !control_is(op) &&
           backend_of(on)->supports(e->node);
}

static int make_steps(struct steps *s, struct layout *l)
{
    const struct graph *g = s->g;
    size_t n = (size_t)g->r.n + 1, lists = (size_t)g->r.n_numbers + 1;
    s->steps = mx_malloc(n * sizeof *s->steps);
    s->counts = s->steps ? mx_malloc(lists * sizeof *s->counts) : NULL;
    s->drops = s->counts ? mx_malloc(lists * sizeof *s->drops) : NULL;
    s->members = s->drops ? mx_malloc(n * (sizeof *s->members + sizeof(bool))) : NULL;
    if (!s->members)
        return 1;
    struct entry **members = s->members;
    bool *wanted = (bool *)(members + n);
    for (int i = 0; i < g->r.n; i++) {
        if (s->entries[i].waits)
            continue;
        struct step *e = &s->steps[s->n++];
        *e = (struct step){ .members = members, .wanted = wanted, .plain = is_plain(s->on, &s->entries[i]) };
        for (int k = i; k >= 0; k = s->entries[k].before) e->n++;
        int last = e->n;
        for (int k = i; k >= 0; k = s->entries[k].before) members[--last] = &s->entries[k];
        members += e->n;
        wanted += e->n;
        step_layout(s, e, i, l);
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
        s->feeds[k] = (struct feed){ .how = roots[k] == k            ? STAYS
                                            : made[roots[k]] && once ? MOVES
                                                                     : SHARES,
                                     .made = made[roots[k]] && !again,
                                     .strides = strides + k * MX_MAX_NDIM };
    }
    return 0;
}

static void let_data_go(mx x)
{
    buffer_release(x->buf);
    x->buf = NULL;
}

static void place_value(mx x, struct buffer *buf, int64_t offset, bool row, const int64_t *strides)
{
    let_data_go(x);
    x->buf = buf;
    x->offset = offset;
    x->row = row;
    memcpy(x->strides, strides, (size_t)x->ndim * sizeof *strides);
}

void steps_share(mx y, mx x)
{
    if (x->buf)
        buffer_retain(x->buf);
    place_value(y, x->buf, x->offset, x->row, x->strides);
}

void steps_forget(struct steps *s)
{
    for (int k = 0; k < s->n_out; k++)
        if (s->feeds[k].made)
            let_data_go(steps_result(s, k));
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
            place_value(s->v[k], f->buf, f->offset, f->row, f->strides);
        if (f->how != MOVES)
            continue;
        place_value(s->v[k], x->buf, x->offset, x->row, x->strides);
        x->buf = NULL;
    }
    steps_forget(s);
}

/* ---- the public ways in */

int steps_open(struct steps *s, const char *who, struct stream *on, struct graph *g, const struct dims in[],
               int carried)
{
    *s = (struct steps){ .who = who, .on = on };
    if (!(s->g = graph_at(g, in)))
        return 1;
    s->n_in = s->g->n_in;
    s->n_out = s->g->n_out;
    s->n_values = s->g->r.n_values;
    size_t values = (size_t)s->n_values + 1;
    struct layout l = { .at = mx_malloc(((size_t)s->g->r.n + 2 * values) * sizeof *l.at) };
    l.maker = l.at ? l.at + s->g->r.n : NULL;
    l.last = l.at ? l.maker + values : NULL;
    l.made = l.at ? mx_malloc(values) : NULL;
    int failed = !l.made || make_values(s, in) || make_nodes(s) || fuse(s);
    if (!failed) {
        for (int i = 0; i < s->g->r.n; i++)
            if (!s->entries[i].waits)
                for (int k = i; k >= 0; k = s->entries[k].before) l.at[k] = i;
        find_last(s, carried, &l);
        failed = make_steps(s, &l) || make_feeds(s, l.made) || share_constants(s, l.made);
    }
    free(l.at);
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
    free(s->members);
    free(s->entries);
    free(s->nodes);
    free(s->counts);
    free(s->drops);
    free(s->pieces);
    free(s->feeds);
    if (s->g)
        object_release(&s->g->object);
}

static void steps_destroy(struct object *o)
{
    struct steps *s = (struct steps *)o;
    steps_close(s);
    free(s);
}

struct steps *steps_wake(const char *who, struct stream *on, struct graph *g)
{
    struct steps *s = (struct steps *)atomic_exchange_explicit(&g->resting, NULL, memory_order_acq_rel);
    if (s && s->on != on) {
        object_release(&s->object);
        s = NULL;
    }
    if (s) {
        object_retain(&g->object);
        s->g = g;
        return s;
    }
    struct dims *in = mx_zeroed(g->n_in, sizeof *in);
    s = in ? mx_malloc(sizeof *s) : NULL;
    for (int i = 0; i < g->n_in && s; i++) in[i] = (struct dims){ g->r.values[i].it->ndim, g->r.values[i].it->shape };
    int failed = s ? steps_open(s, who, on, g, in, 0) : 1;
    free(in);
    if (s)
        s->object = (struct object){ .refs = 1, .destroy = steps_destroy };
    if (s && failed)
        object_release(&s->object);
    return failed ? NULL : s;
}

void steps_rest(struct steps *s, bool failed)
{
    struct graph *g = s->g;
    struct object *nobody = NULL;
    if (failed) {
        object_release(&s->object);
        return;
    }
    for (int i = 0; i < s->n_in; i++) steps_take(s, i);
    steps_forget(s);
    s->g = NULL; /* the graph must not hold itself */
    bool rests = atomic_compare_exchange_strong_explicit(&g->resting, &nobody, &s->object, memory_order_acq_rel,
                                                         memory_order_relaxed);
    if (!rests)
        object_release(&s->object);
    object_release(&g->object);
}

void steps_put(struct steps *s, int i, mx x) { steps_share(s->v[i], x); }

void steps_take(struct steps *s, int i) { let_data_go(s->v[i]); }

void steps_put_slice(struct steps *s, int i, mx x, int t)
{
    mx y = s->v[i];
    if (!y->buf) {
        buffer_retain(x->buf);
        place_value(y, x->buf, 0, false, x->strides + 1);
        array_note_layout(y);
    }
    y->offset = x->offset + t * x->strides[0];
}

mx steps_result(const struct steps *s, int k) { return s->v[s->g->r.roots[k]]; }

bool steps_reads(const struct steps *s, int i)
{
    for (int k = 0; k < s->g->r.n; k++)
        if (occurrences(s->nodes[k].nin, graph_reads(s->g, k), i))
            return true;
    return occurrences(s->n_out, s->g->r.roots, i) > 0;
}

static int run_step(struct stream *on, const struct step *e)
{
    if (e->plain && checks_now() == CHECK_NOTHING)
        return backend_of(on)->run(on, e->members[0]);
    return e->n == 1 ? mx_run_entry(on, e->members[0]) : mx_run_fused(on, e->n, e->members, e->wanted);
}

int steps_run(struct steps *s)
{
    const struct ref_count *c = s->counts;
    mx *d = s->drops;
    for (const struct step *e = s->steps, *end = e + s->n; e < end; e++) {
        for (int k = e->n_counts; k-- > 0; c++) atomic_store_explicit(&c->x->refs, c->refs, memory_order_relaxed);
        if (run_step(s->on, e))
            return 1;
        for (int k = e->n_drops; k-- > 0; d++) let_data_go(*d);
    }
    return 0;
}
