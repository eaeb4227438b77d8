/* walk.c: recording a graph. */
#include "transform/walk.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"

struct walk_frame {
    mx x;
    int next;
};
struct graph_walk {
    struct recording *r;
    uint32_t epoch;
    bool only_dependent, since;
    uint32_t clock; /* with `since` */
    struct walk_frame *stack;
    int depth, cap;
    bool *dependent; /* by value */
    uint8_t *foreign;
    int dependent_cap, foreign_cap;
};

/* Numbers x; its reference is the recording's. */
static bool number_array(struct graph_walk *w, mx x, bool dependent, uint8_t foreign)
{
    struct recording *r = w->r;
    mx_own *v = mx_grown(r->values, r->n_values, &r->values_cap, sizeof *v);
    if (!v)
        return false;
    r->values = v;
    bool *d = mx_grown(w->dependent, r->n_values, &w->dependent_cap, sizeof *d);
    if (!d)
        return false;
    w->dependent = d;
    d[r->n_values] = dependent;
    uint8_t *f = mx_grown(w->foreign, r->n_values, &w->foreign_cap, sizeof *f);
    if (!f)
        return false;
    w->foreign = f;
    f[r->n_values] = foreign;
    v[r->n_values].it = NULL;
    mx_keep(&v[r->n_values], x);
    x->mark = w->epoch;
    x->slot = r->n_values++;
    return true;
}

static bool numbered(struct graph_walk *w, mx x) { return x->mark == w->epoch; }

static bool push(struct graph_walk *w, mx x)
{
    struct walk_frame *s = mx_grown(w->stack, w->depth, &w->cap, sizeof *s);
    if (!s)
        return false;
    w->stack = s;
    s[w->depth++] = (struct walk_frame){ x, 0 };
    return true;
}

/* Bytes of a constant that is not worth an operation in each call. */
enum { SMALL = 4096 };

static bool makes_much(const struct node *n, mx x)
{
    bool much = nbytes(x) > SMALL;
    for (int k = 0; n->nout > 1 && k < n->nout && !much; k++) {
        const struct spec *y = &n->specs[k];
        much = shape_size(n->op->name, y->ndim, y->shape) > SMALL / (int64_t)dtype_size(y->dtype);
    }
    return much;
}

/* The graph ends at x, which has a node and is no leaf. */
static bool ends_at(const struct graph_walk *w, mx x)
{
    const struct node *n = x->node;
    bool old = w->since && !node_since(n, w->clock);
    if (!w->only_dependent)
        return old;
    bool anew = w->since && !old && n->op != &op_load && makes_much(n, x);
    return !x->tracer && !anew;
}

/* All operands of x are numbered: record its node. */
static bool append_node(struct graph_walk *w, mx x)
{
    struct recording *r = w->r;
    struct node *n = x->node;
    bool dependent = false;
    uint8_t foreign = 0;
    for (int i = 0; i < n->nin; i++) {
        dependent |= w->dependent[n->in[i]->slot];
        foreign |= w->foreign[n->in[i]->slot];
    }
    if (w->only_dependent && !dependent && x->tracer)
        return number_array(w, x, false, foreign);
    struct recorded *all = mx_grown(r->entries, r->n, &r->cap, sizeof *all);
    if (!all)
        return false;
    r->entries = all;
    int *numbers = mx_grown(r->numbers, r->n_numbers + n->nin + n->nout, &r->numbers_cap, sizeof *numbers);
    if (!numbers)
        return false;
    r->numbers = numbers;
    int at = r->n_numbers;
    for (int i = 0; i < n->nin; i++) numbers[at + i] = n->in[i]->slot;
    for (int k = 0; k < n->nout; k++) {
        mx y = x;
        if (k != x->out && is_nil(y = node_output(n, k)))
            return false;
        bool ok = number_array(w, y, dependent, foreign);
        numbers[at + n->nin + k] = y->slot;
        if (y != x)
            mx_release(y);
        if (!ok)
            return false;
    }
    node_retain(n);
    r->n_numbers += n->nin + n->nout;
    r->entries[r->n++] = (struct recorded){ n, at };
    return true;
}

/* x, at which the graph ends. */
static uint8_t foreign_of(mx x)
{
    bool of_trace = x->tracer && x->status == LAZY;
    return !of_trace ? 0 : !x->node && x->out ? FORGOTTEN : FOREIGN;
}

static bool visit_graph(struct graph_walk *w, mx root)
{
    if (!numbered(w, root) && !push(w, root))
        return false;
    while (w->depth) {
        struct walk_frame *f = &w->stack[w->depth - 1];
        mx x = f->x;
        struct node *n = x->node;
        if (numbered(w, x)) {
            w->depth--;
            continue;
        }
        if (!n || ends_at(w, x)) {
            if (!number_array(w, x, false, foreign_of(x)))
                return false;
            w->depth--;
            continue;
        }
        mx down = NULL;
        while (f->next < n->nin && !down)
            if (!numbered(w, n->in[f->next++]))
                down = n->in[f->next - 1];
        if (down) {
            if (!push(w, down))
                return false;
            continue;
        }
        if (!append_node(w, x))
            return false;
        w->depth--;
    }
    return true;
}

static int record_walk(struct graph_walk *w, int n_roots, const mx roots[], int n_leaves, const mx leaves[])
{
    struct recording *r = w->r;
    *r = (struct recording){ 0 };
    bool ok = true;
    graph_lock();
    w->epoch = walk_begin();
    for (int i = 0; i < n_leaves && ok; i++) ok = number_array(w, leaves[i], true, 0);
    for (int i = 0; i < n_roots && ok; i++) ok = visit_graph(w, roots[i]);
    if (ok && n_roots) {
        r->roots = mx_malloc((size_t)n_roots * sizeof *r->roots);
        ok = r->roots != NULL;
        for (int i = 0; i < n_roots && ok; i++) r->roots[i] = roots[i]->slot;
    }
    graph_unlock();
    r->dependent = w->dependent;
    r->foreign = w->foreign;
    free(w->stack);
    if (!ok)
        recording_free(r);
    return !ok;
}

int record(struct recording *r, int n_roots, const mx roots[], int n_leaves, const mx leaves[], bool only_dependent)
{
    struct graph_walk w = { .r = r, .only_dependent = only_dependent };
    return record_walk(&w, n_roots, roots, n_leaves, leaves);
}

int record_anew(struct recording *r, int n_roots, const mx roots[], int n_leaves, const mx leaves[], uint32_t clock)
{
    struct graph_walk w = { .r = r, .only_dependent = true, .since = true, .clock = clock };
    return record_walk(&w, n_roots, roots, n_leaves, leaves);
}

int record_since(struct recording *r, int n_roots, const mx roots[], int n_leaves, const mx leaves[], uint32_t clock)
{
    struct graph_walk w = { .r = r, .since = true, .clock = clock };
    return record_walk(&w, n_roots, roots, n_leaves, leaves);
}

bool *recording_needs(const struct recording *r, int n_roots, int (*reads)(const struct node *n))
{
    bool *needed = mx_malloc((size_t)r->n_values + 1);
    if (!needed)
        return NULL;
    memset(needed, 0, (size_t)r->n_values + 1);
    for (int i = 0; i < n_roots; i++) needed[r->roots[i]] = true;
    for (int i = r->n; i-- > 0;) {
        const struct node *n = r->entries[i].node;
        const int *in = r->numbers + r->entries[i].at, *out = in + n->nin;
        bool any = false;
        for (int k = 0; k < n->nout; k++) any |= needed[out[k]];
        for (int k = any ? reads(n) : 0; k-- > 0;) needed[in[k]] = true;
    }
    return needed;
}

void recording_free(struct recording *r)
{
    /* Users before operands, so that long chains go one by one. */
    for (int i = r->n; i-- > 0;) node_release(r->entries[i].node);
    for (int i = r->n_values; i-- > 0;) mx_drop(&r->values[i]);
    free(r->entries);
    free(r->numbers);
    free(r->values);
    free(r->dependent);
    free(r->foreign);
    free(r->roots);
    *r = (struct recording){ 0 };
}

int recording_widest(const struct recording *r)
{
    int most = 1;
    for (int i = 0; i < r->n; i++) {
        const struct node *n = r->entries[i].node;
        most = n->nin > most ? n->nin : most;
        most = n->nout > most ? n->nout : most;
    }
    return most;
}
