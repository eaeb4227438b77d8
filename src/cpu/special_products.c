/* special_products.c: products of matrices picked by index or cut into segments, on the CPU.
 *
 * Rows of different matrices that meet the same second operand are put under each other first: one
 * product of many rows instead of many of few. */
#include "ops/special_products.h"

#include <stdatomic.h>
#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "cpu/pairs.h"
#include "cpu/product.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "plan/lookup.h"

/* Matrix `flat` of x's batch. */
static struct matrix batch_matrix_at(mx x, int64_t flat)
{
    int64_t at = 0;
    for (int i = x->ndim - 2; i-- > 0; flat /= x->shape[i]) at += flat % x->shape[i] * x->strides[i];
    return (struct matrix){ (char *)host(x) + at * (int64_t)itemsize(x), x->strides[x->ndim - 2],
                            x->strides[x->ndim - 1] };
}

static int multiply_pair(enum dtype t, struct matrix a, struct matrix b, void *y, int64_t m, int64_t n, int64_t k)
{
    return product_run(&(struct product){ .t = t, .m = m, .n = n, .k = k, .a = a, .b = b, .y = y, .alpha = 1 });
}

/* rows by columns elements without gaps. */
static void copy_matrix(char *to, struct matrix x, int64_t rows, int64_t columns, size_t size)
{
    static const uint8_t log2[] = { [1] = 0, [2] = 1, [4] = 2, [8] = 3 };
    for (int64_t i = 0; i < rows; i++, to += (size_t)columns * size)
        cpu->move[log2[size]](to, 1, (const char *)x.p + i * x.rs * (int64_t)size, x.cs, (size_t)columns);
}

struct groups {
    const struct pairs *pairs, *others;
    mx a, c, y;
    int64_t m, n, k; /* of the product of one pair */
    int (*one)(const struct groups *g, const struct pair_group *p);
    atomic_int failed;
};

static void some_groups(void *ctx, int64_t begin, int64_t end)
{
    struct groups *g = ctx;
    for (int64_t i = begin; i < end; i++)
        if (g->one(g, &g->pairs->group[i]))
            atomic_store(&g->failed, 1);
}

/* Many small groups are shared out, large ones each computed by all threads. */
static int all_groups(struct groups *g)
{
    int64_t count = g->pairs->groups, work = count ? g->pairs->n / count * g->m * g->n * g->k : 0;
    bool small = count > 1 && work < 16 * WORTH_MULTIPLIED;
    if (small)
        pool_for(count, 1 + WORTH_MULTIPLIED / (work + 1), some_groups, g);
    else
        some_groups(g, 0, count);
    return atomic_load(&g->failed);
}

/* ---- gather_mm ---- */

static int gather_group(const struct groups *g, const struct pair_group *p)
{
    const int64_t *order = g->pairs->order + p->first;
    enum dtype t = g->a->dtype;
    size_t size = itemsize(g->a);
    struct matrix b = batch_matrix_at(g->c, p->b);
    char *y = host(g->y);
    int64_t whole = g->m * g->n * (int64_t)size;
    if (p->n == 1)
        return multiply_pair(t, batch_matrix_at(g->a, g->pairs->a[order[0]]), b, y + order[0] * whole, g->m, g->n,
                             g->k);
    bool together = order[p->n - 1] - order[0] == p->n - 1; /* in y */
    size_t rows = (size_t)(p->n * g->m), in = rows * (size_t)g->k * size;
    struct buffer *room = buffer_new(in + (together ? 0 : rows * (size_t)g->n * size) + 1);
    if (!room)
        return 1;
    char *to = room->host, *sums = together ? y + order[0] * whole : to + in;
    for (int64_t i = 0; i < p->n; i++)
        copy_matrix(to + (size_t)(i * g->m * g->k) * size, batch_matrix_at(g->a, g->pairs->a[order[i]]), g->m, g->k,
                    size);
    int failed = multiply_pair(t, (struct matrix){ to, g->k, 1 }, b, sums, (int64_t)rows, g->n, g->k);
    for (int64_t i = 0; !together && i < p->n; i++) memcpy(y + order[i] * whole, sums + i * whole, (size_t)whole);
    buffer_release(room);
    return failed;
}

int run_gather_mm(const struct run *r)
{
    struct pairs pairs;
    mx a = r->x[0], b = r->x[1], y = r->y[0];
    bool quantized = ((const struct gather_mm_args *)r->args)->quantized;
    if (pairs_of_indices(&pairs, quantized ? "gather_qqmm" : "gather_mm", a, b, r->x[2], r->x[3]))
        return 1;
    int failed = out_new(r, 0);
    struct groups g = {
        .pairs = &pairs, .a = a, .c = b, .y = y, .m = dim(a, -2), .n = dim(b, -1), .k = dim(a, -1), .one = gather_group
    };
    if (!failed && y->size > 0)
        failed = all_groups(&g);
    pairs_free(&pairs);
    return failed;
}

/* ---- scatter_mm ---- */

static int scatter_group(const struct groups *g, const struct pair_group *p)
{
    const int64_t *order = g->pairs->order + p->first;
    size_t size = itemsize(g->a), rows = (size_t)(p->n * g->k);
    char *y = (char *)host(g->y) + (size_t)(p->b * g->m * g->n) * size;
    struct buffer *room = buffer_new(rows * (size_t)(g->m + g->n) * size + 1);
    if (!room)
        return 1;
    char *a = room->host, *c = a + rows * (size_t)g->m * size;
    for (int64_t i = 0; i < p->n; i++) {
        copy_matrix(a + (size_t)(i * g->k * g->m) * size, batch_matrix_at(g->a, g->pairs->a[order[i]]), g->k, g->m,
                    size);
        copy_matrix(c + (size_t)(i * g->k * g->n) * size, batch_matrix_at(g->c, g->others->a[order[i]]), g->k, g->n,
                    size);
    }
    int failed = multiply_pair(g->a->dtype, (struct matrix){ a, 1, g->m }, (struct matrix){ c, g->n, 1 }, y, g->m, g->n,
                               (int64_t)rows);
    buffer_release(room);
    return failed;
}

int run_scatter_mm(const struct run *r)
{
    struct pairs pairs, others;
    mx a = r->x[0], c = r->x[1], y = r->y[0];
    if (pairs_of_indices(&pairs, "scatter_mm", a, y, r->x[2], r->x[4]))
        return 1;
    int failed = pairs_of_indices(&others, "scatter_mm", c, y, r->x[3], r->x[4]);
    if (!failed) {
        failed = out_new(r, 0);
        struct groups g = { .pairs = &pairs,
                            .others = &others,
                            .a = a,
                            .c = c,
                            .y = y,
                            .m = dim(a, -1),
                            .n = dim(c, -1),
                            .k = dim(a, -2),
                            .one = scatter_group };
        if (!failed) {
            memset(host(y), 0, (size_t)nbytes(y)); /* those that no pair adds to */
            failed = y->size > 0 && all_groups(&g);
        }
        pairs_free(&others);
    }
    pairs_free(&pairs);
    return failed;
}

/* ---- segments ---- */

/* Pairs of begin and end, the nearest that there are in what is cut; NULL after a failure. */
static const int64_t *segments_of(mx segments, int64_t k, struct buffer **room)
{
    mx_own hold = { NULL };
    mx x = row_major(segments, &hold);
    int64_t bad = -1, first[2] = { 0, 0 }, *v = NULL;
    *room = is_nil(x) ? NULL : buffer_new((size_t)x->size * sizeof *v + 1);
    if (*room) {
        v = (*room)->host;
        cpu->cast[x->dtype][DT_int64](v, host(x), (size_t)x->size);
        for (int64_t i = x->size / 2; i-- > 0;) {
            int64_t begin = v[2 * i], end = v[2 * i + 1];
            if (begin >= 0 && begin <= end && end <= k)
                continue;
            bad = i;
            first[0] = begin;
            first[1] = end;
            bool whole = x->dtype == DT_uint64; /* those past int64 have become negative */
            begin = begin < 0 && !whole ? 0 : begin < 0 || begin > k ? k : begin;
            end = (end < 0 && whole) || end > k ? k : end;
            v[2 * i] = begin;
            v[2 * i + 1] = end < begin ? begin : end;
        }
    }
    mx_drop(&hold);
    struct lookup_outside o = {
        .op = "segmented_mm", .use = OUTSIDE_READ, .size = k, .value = first[0], .huge = segments->dtype == DT_uint64
    };
    if (bad >= 0 && outside_counts() && lookup_report_segment(&o, first[1], bad)) {
        buffer_release(*room);
        v = NULL;
    }
    return v;
}

static struct matrix matrix_from(mx x, int64_t i, int64_t j)
{
    struct matrix m = batch_matrix_at(x, 0);
    m.p = (const char *)m.p + (i * m.rs + j * m.cs) * (int64_t)itemsize(x);
    return m;
}

int run_segmented_mm(const struct run *r)
{
    mx a = r->x[0], b = r->x[1], y = r->y[0];
    struct buffer *room;
    const int64_t *v = segments_of(r->x[2], dim(a, 1), &room);
    if (!v)
        return 1;
    int failed = out_new(r, 0);
    int64_t m = dim(a, 0), n = dim(b, 1);
    for (int64_t i = 0; !failed && y->size > 0 && i < r->x[2]->size / 2; i++)
        failed = multiply_pair(a->dtype, matrix_from(a, 0, v[2 * i]), matrix_from(b, v[2 * i], 0),
                               (char *)host(y) + (size_t)(i * m * n) * itemsize(y), m, n, v[2 * i + 1] - v[2 * i]);
    buffer_release(room);
    return failed;
}

/* Where a segment overlaps earlier ones, what they left is added to. */
static int add_segment(mx a, mx c, char *y, int64_t i, int64_t begin, int64_t end, bool again)
{
    int64_t n = dim(c, -1);
    size_t bytes = (size_t)((end - begin) * n) * itemsize(a);
    struct matrix left = matrix_from(a, 0, begin);
    struct product q = { .t = a->dtype,
                         .m = end - begin,
                         .n = n,
                         .k = dim(a, 0),
                         .b = batch_matrix_at(c, i),
                         .a = { left.p, left.cs, left.rs },
                         .y = y,
                         .alpha = 1,
                         .beta = 1 };
    struct buffer *before = again ? buffer_new(bytes + 1) : NULL;
    if (again && !before)
        return 1;
    if (again) {
        memcpy(before->host, y, bytes);
        q.c = (struct matrix){ before->host, n, 1 };
    }
    int failed = product_run(&q);
    if (before)
        buffer_release(before);
    return failed;
}

int run_segmented_outer(const struct run *r)
{
    mx a = r->x[0], c = r->x[1], y = r->y[0];
    struct buffer *room;
    const int64_t *v = segments_of(r->x[2], dim(a, 1), &room);
    if (!v)
        return 1;
    int failed = out_new(r, 0);
    if (!failed)
        memset(host(y), 0, (size_t)nbytes(y));
    for (int64_t i = 0; !failed && y->size > 0 && i < r->x[2]->size / 2; i++) {
        int64_t begin = v[2 * i], end = v[2 * i + 1];
        bool again = false;
        for (int64_t j = 0; j < i; j++) again = again || (v[2 * j] < end && begin < v[2 * j + 1]);
        failed = add_segment(a, c, (char *)host(y) + (size_t)(begin * dim(y, 1)) * itemsize(y), i, begin, end, again);
    }
    buffer_release(room);
    return failed;
}
