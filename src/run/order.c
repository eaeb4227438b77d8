/* order.c: see order.h.
 *
 * Of arrays that have something lazy in common, those first that need clearly less, so that what they read is let go of
 * before the others make more: the gradients of a model are given from its first layer on, and are made from the last
 * one on.  Otherwise as they are given: results of one batch after those of another keep nothing of the first. */
#include "run/order.h"

#include <stdlib.h>

#include "core/memory.h"
#include "core/node.h"
#include "run/evaluation.h"

enum { CLEARLY = 8 }; /* nodes of the longest chain behind an array */

/* Families of arrays, by the root that came to them first; two that meet are one, the earlier. */
struct families {
    int *of;
    mx *stack;
    size_t used, room;
};

static int first_of(int of[], int k)
{
    while (of[k] != k) k = of[k] = of[of[k]];
    return k;
}

static bool push(struct families *f, mx x)
{
    if (f->used == f->room) {
        size_t room = f->room ? 2 * f->room : 256;
        mx *more = mx_try_realloc(f->stack, room * sizeof(mx));
        if (!more)
            return false;
        f->stack = more;
        f->room = room;
    }
    f->stack[f->used++] = x;
    return true;
}

/* x is of family k, or that is x's. */
static bool meet(struct families *f, mx x, int k, uint32_t walk)
{
    if (x->status != LAZY)
        return true;
    if (x->mark == walk) {
        int a = first_of(f->of, x->slot), b = first_of(f->of, k);
        f->of[a > b ? a : b] = a < b ? a : b;
        return true;
    }
    x->mark = walk;
    x->slot = k;
    return !x->node || push(f, x);
}

static bool find_families(struct families *f, int n, const mx x[])
{
    const uint32_t walk = walk_begin();
    bool good = true;
    takes_long(); /* chains of such a length differ */
    for (int k = 0; k < n && good; k++) {
        f->of[k] = k;
        good = meet(f, x[k], k, walk);
        while (f->used && good) {
            const struct node *of = f->stack[--f->used]->node;
            for (int i = 0; i < of->nin && good; i++) good = meet(f, of->in[i], k, walk);
        }
    }
    return good;
}

struct root {
    int family, at;
    uint32_t depth;
};

static int is_before(const void *a, const void *b)
{
    const struct root *x = a, *y = b;
    if (x->family != y->family)
        return x->family < y->family ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

int *order_to_make(int n, const mx x[])
{
    bool sorted = true;
    for (int i = 1; i < n && sorted; i++) sorted = x[i - 1]->depth / CLEARLY <= x[i]->depth / CLEARLY;
    if (sorted)
        return NULL;
    struct families f = { .of = mx_try_malloc((size_t)n * sizeof *f.of) };
    struct root *r = f.of && find_families(&f, n, x) ? mx_try_malloc((size_t)n * sizeof *r) : NULL;
    int *order = r ? f.of : NULL;
    for (int i = 0; i < n && r; i++) r[i] = (struct root){ first_of(f.of, i), i, x[i]->depth / CLEARLY };
    if (r)
        qsort(r, (size_t)n, sizeof *r, is_before);
    for (int i = 0; i < n && r; i++) order[i] = r[i].at;
    if (!order)
        free(f.of);
    free(f.stack);
    free(r);
    return order;
}
