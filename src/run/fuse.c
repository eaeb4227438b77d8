/* fuse.c: which entries of a tape run as one.
 *
 * One pass in the order of the tape.  An element-wise entry joins the groups of its operands' makers,
 * which become one group; operands of an element-wise operation have the shape of its result, so a
 * group has one shape.  A reduction, or the second half of a transform, may be its last member, and what
 * comes from nothing one that joins nobody but is joined.  A group is closed as soon as an entry outside of
 * it reads what one of its members makes: the group has to run before that entry, and so takes no later
 * member.
 *
 * Groups are sets in a forest (`up` leads to the root), no larger than FUSE_MOST: a chain of any
 * length is cut into pieces that a backend can hold. */
#include "run/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/settings.h"
#include "ops/op.h"
#include "run/check.h"
#include "transform/compile.h"

static atomic_int enabled = -1; /* not asked yet */

bool mx_fuse_enabled(void)
{
    int on = atomic_load_explicit(&enabled, memory_order_relaxed);
    if (on < 0) {
        on = setting_switch("MLX_FUSE", true);
        atomic_store(&enabled, on);
    }
    return on && compile_mode() != COMPILE_NO_FUSE && checks_now() == CHECK_NOTHING;
}

void mx_fuse_enable(bool on) { atomic_store(&enabled, on); }

static _Atomic int64_t least = 4096; /* measured: chains of 2 to 100 operations, float32 */

int64_t mx_fuse_least(int64_t elements) { return atomic_exchange(&least, elements); }

/* An entry's place among the groups; the second line is of the root. */
struct membership {
    int up; /* -1: cannot be fused */
    uint8_t number;
    uint8_t size, count;
    bool closed;
    int last;
};

enum { FEW = 64 };

static int root_of(struct membership *p, int i)
{
    while (p[i].up != i) i = p[i].up = p[p[i].up].up;
    return i;
}

/* The walk that marked the outputs of the entries, and the number it gave to the first. */
struct marks {
    uint32_t walk;
    int first;
};

/* Which entry makes x; negative: none of them.  All operands come before their users. */
static int maker(struct marks m, mx x) { return x->mark == m.walk ? x->slot - m.first : -1; }

static bool can_fuse(const struct entry *e)
{
    if (!(e->node->op->traits & FUSE) || e->keep || e->one->size == 0)
        return false;
    return e->one->size >= atomic_load_explicit(&least, memory_order_relaxed) ||
           backend_of(e->node->stream)->fuses_small;
}

/* A group takes an entry of another kind as its last member, if the backend can do that. */
static bool can_end(const struct entry *all, int i, const struct membership *p, struct marks m)
{
    const struct entry *e = &all[i];
    const struct node *n = e->node;
    const struct backend *be = backend_of(n->stream);
    if (n->nin != 1 || n->nout != 1 || (n->op->traits & (FUSE | VIEW)) || e->keep || !be->ends)
        return false;
    int from = maker(m, n->in[0]);
    return from >= 0 && p[from].up >= 0 && n->in[0]->size > 0 && be->ends(n, all[from].node);
}

/* An entry of another kind may be what a group reads first, if the backend can do that. */
static bool can_produce(const struct entry *e)
{
    const struct backend *be = backend_of(e->node->stream);
    return be->is_producer && e->node->nout == 1 && !e->keep && e->one->size > 0 && be->is_producer(e->node);
}

static void form_groups(int n, const struct entry *e, struct marks m, struct membership *p)
{
    for (int i = 0; i < n; i++) {
        bool ends = can_end(e, i, p, m), produces = !ends && can_produce(&e[i]);
        int mine = ends || produces || can_fuse(&e[i]) ? i : -1;
        p[i] = (struct membership){ .up = mine, .size = 1, .last = -1 };
        for (int k = 0; k < e[i].node->nin; k++) {
            int from = maker(m, e[i].node->in[k]);
            if (from < 0 || p[from].up < 0)
                continue;
            int other = root_of(p, from);
            if (other == mine)
                continue;
            if (mine < 0 || produces || p[other].closed || p[other].size + p[mine].size > FUSE_MOST) {
                p[other].closed = true;
                continue;
            }
            p[other].size += p[mine].size;
            mine = p[mine].up = other;
        }
        if (ends)
            p[mine].closed = true;
    }
}

/* Chains the members of each group, and notes where their operands come from. */
static void link_members(int n, struct entry *e, struct marks m, struct membership *p)
{
    for (int i = 0; i < n; i++) {
        int root = p[i].up < 0 ? -1 : root_of(p, i);
        if (root < 0 || p[root].size < 2)
            continue;
        e[i].before = p[root].last;
        if (e[i].before >= 0)
            e[e[i].before].waits = true;
        p[root].last = i;
        p[i].number = p[root].count++;
        for (int k = 0; k < e[i].node->nin; k++) {
            int from = maker(m, e[i].node->in[k]);
            bool inside = from >= 0 && p[from].up >= 0 && root_of(p, from) == root;
            e[i].from[k] = inside ? p[from].number : OUTSIDE;
        }
    }
}

/* Groups begin with those that can. */
static bool any_can(int n, const struct entry *e)
{
    for (int i = 0; i < n; i++)
        if (can_fuse(&e[i]) || can_produce(&e[i]))
            return true;
    return false;
}

int fuse_plan(int n, struct entry *e, uint32_t walk, int first)
{
    if (!any_can(n, e))
        return 0;
    struct membership few[FEW], *p = n <= FEW ? few : mx_malloc((size_t)n * sizeof *p);
    if (!p)
        return 1;
    struct marks m = { walk, first };
    form_groups(n, e, m, p);
    link_members(n, e, m, p);
    if (p != few)
        free(p);
    return 0;
}

bool results_are_checked(void) { return checks_now() != CHECK_NOTHING; }

bool recording_is_small(const struct recording *r)
{
    int64_t most = atomic_load_explicit(&least, memory_order_relaxed);
    bool small = r->n > 0;
    for (int i = 0; i < r->n && small; i++) {
        const struct node *n = r->entries[i].node;
        const struct backend *be = backend_of(n->stream);
        const int *values = r->numbers + r->entries[i].at;
        small = n->stream == r->entries[0].node->stream && be->run_fused && !be->fuses_small &&
                (n->op->traits & FUSE || (n->op->traits & (VIEW | FORWARDS)) == VIEW);
        for (int k = 0; k < n->nin + n->nout; k++) small &= r->values[values[k]].it->size < most;
    }
    return small;
}

int recording_kernels(const struct recording *r, int *kernels, int *fused)
{
    *kernels = *fused = 0;
    struct entry *e = mx_malloc((size_t)r->n * sizeof *e);
    if (!e)
        return 1;
    graph_lock();
    uint32_t walk = walk_begin();
    for (int i = 0; i < r->n; i++) {
        struct node *node = r->entries[i].node;
        const int *results = r->numbers + r->entries[i].at + node->nin;
        e[i] = (struct entry){ .node = node, .one = r->values[results[0]].it, .before = -1 };
        for (int k = 0; k < node->nout; k++) {
            r->values[results[k]].it->mark = walk;
            r->values[results[k]].it->slot = i;
        }
    }
    int failed = mx_fuse_enabled() ? fuse_plan(r->n, e, walk, 0) : 0;
    graph_unlock();
    for (int i = 0; i < r->n && !failed; i++) {
        *kernels += !e[i].waits && !(e[i].node->op->traits & VIEW);
        *fused += !e[i].waits && e[i].before >= 0;
    }
    free(e);
    return failed;
}
