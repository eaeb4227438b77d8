/* pairs.c: which matrices are multiplied with each other. */
#include "cpu/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/shape.h"
#include "cpu/run.h"
#include "plan/lookup.h"

static int pairs_new(struct pairs *p, int64_t n)
{
    *p = (struct pairs){ .n = n, .in_order = true };
    int64_t *v = mx_malloc((size_t)(3 * n + 1) * sizeof *v);
    if (!v)
        return 1;
    p->a = v, p->b = v + n, p->order = v + 2 * n;
    return 0;
}

void pairs_free(struct pairs *p)
{
    free(p->a);
    free(p->group);
}

/* A stable counting sort by b, of `count` matrices. */
static int group(struct pairs *p, int64_t count)
{
    int64_t *start = mx_malloc((size_t)(count + 1) * sizeof *start);
    int64_t used = 0, at = 0;
    if (!start)
        return 1;
    memset(start, 0, (size_t)(count + 1) * sizeof *start);
    for (int64_t i = 0; i < p->n; i++) used += start[p->b[i]]++ == 0;
    p->group = mx_malloc((size_t)(used + 1) * sizeof *p->group);
    for (int64_t b = 0; p->group && b < count; b++) {
        int64_t n = start[b];
        start[b] = at;
        if (n)
            p->group[p->groups++] = (struct pair_group){ b, at, n };
        at += n;
    }
    for (int64_t i = 0; p->group && i < p->n; i++) {
        int64_t to = start[p->b[i]]++;
        p->order[to] = i;
        p->in_order = p->in_order && to == i;
    }
    free(start);
    return !p->group;
}

struct pair {
    int64_t b, at;
};

static int compare_pairs(const void *x, const void *y)
{
    const struct pair *p = x, *q = y;
    return p->b != q->b ? (p->b > q->b) - (p->b < q->b) : (p->at > q->at) - (p->at < q->at);
}

/* The same without a count for each matrix, of which there may be any number where they have no elements. */
static int group_few(struct pairs *p)
{
    struct pair *all = mx_malloc((size_t)(p->n + 1) * sizeof *all);
    p->group = all ? mx_malloc((size_t)(p->n + 1) * sizeof *p->group) : NULL;
    for (int64_t i = 0; p->group && i < p->n; i++) all[i] = (struct pair){ p->b[i], i };
    if (p->group)
        qsort(all, (size_t)p->n, sizeof *all, compare_pairs);
    for (int64_t i = 0; p->group && i < p->n; i++) {
        if (i == 0 || all[i].b != all[i - 1].b)
            p->group[p->groups++] = (struct pair_group){ all[i].b, i, 0 };
        p->group[p->groups - 1].n++;
        p->order[i] = all[i].at;
        p->in_order = p->in_order && all[i].at == i;
    }
    free(all);
    return !p->group;
}

static int pairs_grouped(struct pairs *p, int failed, int64_t count)
{
    enum { MANY = 1 << 16 };
    if (!failed && !(count > MANY && count / 16 > p->n ? group_few(p) : group(p, count)))
        return 0;
    pairs_free(p);
    return 1;
}

/* The flat index into x's batch of each element of a batch of `shape`, to which it broadcasts. */
static void broadcast_indices(int64_t *out, int64_t n, int ndim, const int *shape, mx x)
{
    int64_t stride[MX_MAX_NDIM] = { 0 }, step = 1;
    int own = x->ndim - 2, skip = ndim - own;
    for (int i = own; i-- > 0; step *= x->shape[i]) stride[skip + i] = x->shape[i] == 1 ? 0 : step;
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = k;
        out[k] = 0;
        for (int i = ndim; i-- > 0; rest /= shape[i]) out[k] += rest % shape[i] * stride[i];
    }
}

int pairs_of_batch(struct pairs *p, mx a, mx b)
{
    int na = a->ndim - 2, nb = b->ndim - 2, ndim = na > nb ? na : nb, shape[MX_MAX_NDIM];
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) {
        int da = i < ndim - na ? 1 : a->shape[i - (ndim - na)];
        int db = i < ndim - nb ? 1 : b->shape[i - (ndim - nb)];
        n *= shape[i] = da == 1 ? db : da;
    }
    if (pairs_new(p, n))
        return 1;
    broadcast_indices(p->a, n, ndim, shape, a);
    broadcast_indices(p->b, n, ndim, shape, b);
    return pairs_grouped(p, 0, matrix_count(b));
}

/* out[i] = index i, of one of x's matrices. */
static int read_indices(int64_t *out, const char *op, int operand, mx index, mx of)
{
    struct lookup_index what = lookup_matrix_of(index, operand, of);
    int64_t n = what.size;
    mx_own hold = { NULL };
    mx x = row_major(index, &hold);
    if (is_nil(x))
        return 1;
    cpu->cast[x->dtype][DT_int64](out, host(x), (size_t)x->size);
    bool whole = x->dtype == DT_uint64; /* those past int64 have become negative */
    int64_t bad = -1, first = 0;
    for (int64_t i = x->size; i-- > 0;) {
        int64_t v = out[i], least = whole ? 0 : -n;
        if (v >= n || v < least) {
            bad = i;
            first = v;
            v = v >= n || whole ? n - 1 : 0;
        }
        out[i] = v < 0 ? v + n : v;
    }
    mx_drop(&hold);
    struct lookup_outside o = { op, OUTSIDE_READ, operand, n, what.room, first, whole };
    return bad >= 0 && (n == 0 || outside_counts()) && lookup_report_matrix(&o, bad);
}

int pairs_of_indices(struct pairs *p, const char *op, mx a, mx b, mx lhs, mx rhs)
{
    if (pairs_new(p, lhs->size))
        return 1;
    int failed = read_indices(p->a, op, 0, lhs, a) || read_indices(p->b, op, 1, rhs, b);
    return pairs_grouped(p, failed, matrix_count(b));
}
