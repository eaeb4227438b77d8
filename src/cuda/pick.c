/* pick.c: products of matrices that are picked by index or cut into segments, on a GPU.
 *
 * Where few rows meet each matrix, the pairs are put in the order of the second: rows of the first that meet one matrix
 * are multiplied as if they were of one, copied to follow each other where no kernel reads them in that order. */
#include "cuda/kernels/pick.h"

#include <limits.h>
#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "cuda/gpu.h"
#include "cuda/kernels/product.h"
#include "ops/special_products.h"
#include "plan/lookup.h"
#include "plan/product.h"

/* Sizes are counted in 31 bits. */
bool gpu_takes_picked(const struct node *n)
{
    bool fits = n->in[2]->size < 1 << 28;
    for (int i = 0; i < 2; i++) fits &= matrix_count(n->in[i]) <= INT_MAX;
    return fits;
}

static int launch_pick(const struct run *r, struct gpu_found *found, const char *name, int64_t n, void *args)
{
    void *f = gpu_find(gpu_of(r), found, "pick", name, DT_COUNT);
    return !f ||
           gpu_launch(r->stream, r->node->op->name, f, ceil_div(n, PICK_THREADS), PICK_THREADS, (void *[]){ args });
}

/* By the kernel alone, or the one that puts pairs in an order. */
static int pick(const struct run *r, const char *op, struct pick_args *a, int n, const struct lookup_index *what,
                struct pick_order_args *order)
{
    static struct gpu_found found[2];
    bool nowhere = false, any;
    a->n = what[0].array->size;
    for (int k = 0; k < n; k++) {
        nowhere |= what[k].size == 0;
        a->of[k].index = gpu_pointer(r, what[k].array);
        a->of[k].t = what[k].array->dtype;
        a->of[k].matrices = what[k].size;
    }
    bool now = nowhere || outside_fails();
    gpu_note_about(&a->noting.about, op, NOTE_MATRIX, nowhere ? OUTSIDE_NOWHERE : OUTSIDE_READ, a->n, n, what);
    if (gpu_noting(r, &a->noting, now ? NOTE_NOW : NOTE_LATER))
        return 1;
    void *f = order ? gpu_find(gpu_of(r), &found[1], "pick", "pick_order", DT_COUNT) : NULL;
    int failed = order ? !f || gpu_launch(r->stream, r->node->op->name, f, 1, PICK_ORDER_THREADS, (void *[]){ order })
                       : a->n && launch_pick(r, &found[0], "pick", a->n * n, a);
    return failed || (now && gpu_noted(r, &any, true));
}

int gpu_pick(const struct run *r, const char *op, int n, const struct lookup_index *what, uint32_t *const to[])
{
    struct pick_args a = { .arrays = n };
    for (int k = 0; k < n; k++) a.of[k].y = to[k];
    return pick(r, op, &a, n, what, NULL);
}

/* ---- arrays of the runner's own */

static mx new_room(const struct run *r, enum dtype t, int ndim, const int *shape)
{
    mx x = array_new(t, ndim, shape);
    return is_nil(x) || result_new(r->stream, x) ? MX_NIL : x;
}

/* n elements of x, a row, from `at` on. */
static mx part_of(mx x, int64_t at, int64_t n)
{
    buffer_retain(x->buf);
    mx y = array_of_buffer((enum dtype)x->dtype, 1, (int[]){ (int)n }, x->buf);
    if (!is_nil(y))
        y->offset = x->offset + at;
    return y;
}

/* x as (matrices, rows, columns), with any steps; copied where those of the batch differ. */
static mx pick_matrices(const struct run *r, mx x, mx_own *hold)
{
    int shape[MX_MAX_NDIM], ndim = x->ndim - 2;
    int64_t strides[MX_MAX_NDIM] = { 0 }, *all[] = { strides };
    memcpy(shape, x->shape, (size_t)ndim * sizeof *shape);
    memcpy(strides, x->strides, (size_t)ndim * sizeof *strides);
    if (ndim > 1 && matrix_count(x) && collapse(ndim, shape, 1, all) > 1) {
        if (is_nil(x = gpu_row_major(r, x, hold)))
            return x;
        strides[0] = (int64_t)dim(x, -2) * dim(x, -1);
    }
    buffer_retain(x->buf);
    mx y = array_of_buffer((enum dtype)x->dtype, 3, (int[]){ (int)matrix_count(x), dim(x, -2), dim(x, -1) }, x->buf);
    if (is_nil(y))
        return y;
    y->offset = x->offset;
    y->strides[0] = strides[0];
    y->strides[1] = x->strides[x->ndim - 2];
    y->strides[2] = x->strides[x->ndim - 1];
    array_note_layout(y);
    return y;
}

/* A plan without a batch: m by k times k by n, by these steps. */
static struct product_plan plan_of(int64_t m, int64_t n, int64_t k, struct product_steps a, struct product_steps b)
{
    return (struct product_plan){ .m = m, .n = n, .k = k, .steps = { a, b } };
}
static void add_batch(struct product_plan *p, int64_t n, int64_t a, int64_t b)
{
    p->ndim = 1;
    p->shape[0] = (int)n;
    p->batch[0][0] = a;
    p->batch[1][0] = b;
}
static struct product_steps steps_of(mx x, bool turned)
{
    int64_t row = x->strides[x->ndim - 2], column = x->strides[x->ndim - 1];
    return turned ? (struct product_steps){ column, row } : (struct product_steps){ row, column };
}

/* ---- pairs in the order of a matrix */

struct pairs_in_order {
    mx room;   /* numbers of each index array, but for the second, whose are keys, and room to sort those */
    mx number; /* of the pairs */
    mx bounds; /* of the pairs of each matrix, times `each` */
    int64_t n;
};

/* Numbers of n index arrays, of which the second is what pairs are put in the order of. */
static int pick_pairs(const struct run *r, struct pairs_in_order *p, const char *op, int n,
                      const struct lookup_index what[])
{
    int64_t pairs = what[0].array->size, room = (n - 1) * pairs + (int64_t)gpu_keys_room(pairs);
    p->n = pairs;
    p->room = new_room(r, DT_uint32, 1, (int[]){ (int)room });
    if (is_nil(p->room))
        return 1;
    uint32_t *to = gpu_pointer(r, p->room), *key = to + (n - 1) * pairs;
    return gpu_pick(r, op, n, what, (uint32_t *[]){ to, key, to + pairs });
}

/* The bounds are to be written. */
static int new_bounds(const struct run *r, struct pairs_in_order *p, int64_t matrices)
{
    p->bounds = new_room(r, DT_int64, 1, (int[]){ (int)matrices + 1 });
    return is_nil(p->bounds);
}

static int order_pairs(const struct run *r, struct pairs_in_order *p, int64_t others, int64_t matrices, int64_t each)
{
    static struct gpu_found found;
    uint32_t *room = gpu_pointer(r, p->room);
    struct gpu_keys keys = gpu_keys_at(room + others * p->n, p->n);
    int now = p->n ? gpu_keys_sort(r, &keys, (uint64_t)matrices) : 0;
    if (now < 0)
        return 1;
    p->number = part_of(p->room, keys.number[now] - room, p->n);
    if (is_nil(p->number) || new_bounds(r, p, matrices))
        return 1;
    struct bounds_args a = {
        .y = gpu_pointer(r, p->bounds), .key = keys.key[now], .n = p->n, .groups = matrices, .each = each
    };
    return launch_pick(r, &found, "bounds", matrices + 1, &a);
}

/* A block puts few pairs of two index arrays in order, whose sums are not added to one another. */
static bool are_few(int64_t pairs, int64_t matrices)
{
    return pairs <= PICK_ORDER_PAIRS && matrices > 0 && matrices <= PICK_ORDER_GROUPS;
}
static int pick_in_order(const struct run *r, struct pairs_in_order *p, const char *op,
                         const struct lookup_index what[2], int64_t each)
{
    p->n = what[0].array->size;
    p->room = new_room(r, DT_uint32, 1, (int[]){ (int)(2 * p->n) });
    if (is_nil(p->room) || is_nil(p->number = part_of(p->room, p->n, p->n)) || new_bounds(r, p, what[1].size))
        return 1;
    struct pick_order_args a = { .order = gpu_pointer(r, p->number),
                                 .bounds = gpu_pointer(r, p->bounds),
                                 .each = each };
    a.pick.of[0].y = gpu_pointer(r, p->room);
    return pick(r, op, &a.pick, 2, what, &a);
}

/* Matrices of x under each other: those that index array k picks, in the order of the pairs. */
static mx put_under_each_other(const struct run *r, const struct pairs_in_order *p, int64_t k, mx x)
{
    int pairs = (int)p->n;
    mx picked = new_room(r, DT_uint32, 2, (int[]){ pairs, 1 }), all = part_of(p->room, k * p->n, p->n);
    mx y = new_room(r, (enum dtype)x->dtype, 4, (int[]){ pairs, 1, dim(x, -2), dim(x, -1) });
    if (is_nil(picked) || is_nil(all) || is_nil(y) || (pairs && gpu_take(r, picked, all, p->number)))
        return MX_NIL;
    mx flat = part_of(picked, 0, pairs);
    return is_nil(flat) || (y->size && gpu_take(r, y, x, flat)) ? MX_NIL : y;
}

/* ---- gather_mm: y[i] = a[lhs[i]] b[rhs[i]] */

/* Few rows of each a, and several pairs for each b. */
static bool are_worth_an_order(int64_t pairs, mx a, mx b)
{
    int64_t m = dim(a, -2), n = dim(b, -1);
    return m < PRODUCT_SMALL && pairs >= 2 * matrix_count(b) && least(n, dim(a, -1)) > 1;
}

static int multiply_in_order(const struct run *r, const struct pairs_in_order *p, mx a, mx b)
{
    int64_t m = dim(a, -2), k = dim(a, -1), n = dim(b, -1), matrices = b->shape[0];
    struct product_plan plan = plan_of(p->n * m, n, k, steps_of(a, false), steps_of(b, false));
    add_batch(&plan, matrices, a->strides[0], b->strides[0]);
    struct product_args args = { .alpha = 1,
                                 .number = { gpu_pointer(r, p->room) },
                                 .bounds = gpu_pointer(r, p->bounds),
                                 .order = gpu_pointer(r, p->number),
                                 .groups = matrices,
                                 .each = m };
    if (!gpu_multiplies_in_order(r, &plan, (mx[]){ a, b }, r->y[0], &args)) {
        if (is_nil(a = put_under_each_other(r, p, 0, a)))
            return 1;
        plan.steps[0] = (struct product_steps){ k, 1 };
        plan.batch[0][0] = 0;
        args.number[0] = NULL;
    }
    return gpu_multiply(r, &plan, 2, (mx[]){ a, b }, r->y[0], &args);
}

static int multiply_one_by_one(const struct run *r, const struct pairs_in_order *p, mx a, mx b)
{
    struct product_plan plan = plan_of(dim(a, -2), dim(b, -1), dim(a, -1), steps_of(a, false), steps_of(b, false));
    add_batch(&plan, p->n, a->strides[0], b->strides[0]);
    const uint32_t *numbers = gpu_pointer(r, p->room);
    struct product_args args = { .alpha = 1, .number = { numbers, numbers + p->n } };
    return gpu_multiply(r, &plan, 2, (mx[]){ a, b }, r->y[0], &args);
}

int gpu_gather_products(const struct run *r, const char *op, const mx x[4])
{
    mx a = x[0], b = x[1], index[2] = { x[2], x[3] };
    mx_own hold[2] = { 0 }, hold_index[2] = { 0 };
    struct pairs_in_order p;
    MX_SCOPE(NULL);
    int failed = gpu_out_new(r, 0) || !gpu_all_row_major(r, 2, index, hold_index);
    if (!failed && index[0]->size) {
        const struct lookup_index what[] = { lookup_matrix_of(index[0], 0, a), lookup_matrix_of(index[1], 1, b) };
        int64_t pairs = index[0]->size, m = dim(a, -2);
        bool ordered = r->y[0]->size && are_worth_an_order(pairs, a, b);
        if (ordered && are_few(pairs, what[1].size))
            failed = pick_in_order(r, &p, op, what, m);
        else
            failed = pick_pairs(r, &p, op, 2, what) || (ordered && order_pairs(r, &p, 1, what[1].size, m));
        if (!failed && r->y[0]->size)
            failed = is_nil(a = pick_matrices(r, a, &hold[0])) || is_nil(b = pick_matrices(r, b, &hold[1])) ||
                     (ordered ? multiply_in_order(r, &p, a, b) : multiply_one_by_one(r, &p, a, b));
    }
    gpu_drop(2, hold);
    gpu_drop(2, hold_index);
    return failed;
}

int gpu_run_gather_mm(const struct run *r)
{
    bool quantized = ((const struct gather_mm_args *)r->args)->quantized;
    return gpu_gather_products(r, quantized ? "gather_qqmm" : "gather_mm", r->x);
}

/* ---- scatter_mm: y[i] = the sum of all a[la]^T c[lc] whose rhs is i */

int gpu_run_scatter_mm(const struct run *r)
{
    mx a = r->x[0], c = r->x[1], y = r->y[0], index[3] = { r->x[2], r->x[4], r->x[3] };
    mx_own hold[2] = { 0 }, hold_index[3] = { 0 };
    struct pairs_in_order p;
    MX_SCOPE(NULL);
    int failed = gpu_out_new(r, 0) || !gpu_all_row_major(r, 3, index, hold_index);
    const struct lookup_index what[] = { lookup_matrix_of(index[0], 0, a), lookup_matrix_of(index[1], 1, y),
                                         lookup_matrix_of(index[2], 0, c) };
    failed = failed || pick_pairs(r, &p, "scatter_mm", 3, what);
    if (!failed && y->size) {
        int64_t k = dim(a, -2), m = dim(a, -1), n = dim(c, -1), matrices = matrix_count(y);
        failed = order_pairs(r, &p, 2, matrices, k) || is_nil(a = pick_matrices(r, a, &hold[0])) ||
                 is_nil(c = pick_matrices(r, c, &hold[1])) || is_nil(a = put_under_each_other(r, &p, 0, a)) ||
                 is_nil(c = put_under_each_other(r, &p, 1, c));
        struct product_plan plan =
            plan_of(m, n, p.n * k, (struct product_steps){ 1, m }, (struct product_steps){ n, 1 });
        add_batch(&plan, matrices, 0, 0);
        if (!failed) {
            struct product_args args = { .alpha = 1, .bounds = gpu_pointer(r, p.bounds), .bound_step = 1 };
            failed = gpu_multiply(r, &plan, 2, (mx[]){ a, c }, y, &args);
        }
    }
    gpu_drop(2, hold);
    gpu_drop(3, hold_index);
    return failed;
}

/* ---- segments */

/* Beginnings and ends, the nearest that there are; MX_NIL after a failure. */
static mx bounds_of_segments(const struct run *r, mx segments, int64_t k)
{
    static struct gpu_found found;
    mx_own hold = { 0 };
    mx x = gpu_row_major(r, segments, &hold), y = new_room(r, DT_int64, 1, (int[]){ (int)segments->size });
    bool now = outside_fails(), any;
    int failed = is_nil(x) || is_nil(y);
    if (!failed && x->size) {
        struct segments_args a = {
            .y = gpu_pointer(r, y), .x = gpu_pointer(r, x), .n = x->size / 2, .k = k, .t = x->dtype
        };
        const struct lookup_index what = { .array = x, .size = k };
        gpu_note_about(&a.noting.about, "segmented_mm", NOTE_SEGMENT, OUTSIDE_READ, a.n, 1, &what);
        failed = gpu_noting(r, &a.noting, now ? NOTE_NOW : NOTE_LATER) || launch_pick(r, &found, "segments", a.n, &a) ||
                 (now && gpu_noted(r, &any, true));
    }
    mx_drop(&hold);
    return failed ? MX_NIL : y;
}

/* A node of segments of k elements, its result allocated; 1: `bounds` are to be multiplied with, 0: nothing is,
 * -1: it failed. */
static int begin_segmented(const struct run *r, int64_t k, mx *bounds)
{
    *bounds = bounds_of_segments(r, r->x[2], k);
    return is_nil(*bounds) || gpu_out_new(r, 0) ? -1 : r->y[0]->size != 0;
}

/* y[s] = a[:, begin:end] b[begin:end] */
int gpu_run_segmented_mm(const struct run *r)
{
    mx a = r->x[0], b = r->x[1], bounds;
    MX_SCOPE(NULL);
    int begun = begin_segmented(r, dim(a, 1), &bounds);
    if (begun <= 0)
        return begun;
    struct product_plan plan = plan_of(dim(a, 0), dim(b, 1), dim(a, 1), steps_of(a, false), steps_of(b, false));
    add_batch(&plan, bounds->size / 2, 0, 0);
    struct product_args args = { .alpha = 1, .bounds = gpu_pointer(r, bounds), .bound_step = 2 };
    return gpu_multiply(r, &plan, 2, (mx[]){ a, b }, r->y[0], &args);
}

/* y[begin:end] += a[:, begin:end]^T c[s] */
int gpu_run_segmented_outer(const struct run *r)
{
    mx a = r->x[0], c = r->x[1], bounds;
    mx_own hold = { 0 };
    MX_SCOPE(NULL);
    int begun = begin_segmented(r, dim(a, 1), &bounds);
    if (begun <= 0)
        return begun;
    int failed = is_nil(c = pick_matrices(r, c, &hold));
    if (!failed) {
        int64_t n = bounds->size / 2;
        struct product_plan plan = plan_of(dim(a, 1), dim(c, 2), dim(a, 0), steps_of(a, true), steps_of(c, false));
        add_batch(&plan, n, 0, c->strides[0]);
        struct product_args args = {
            .alpha = 1, .bounds = gpu_pointer(r, bounds), .bound_step = 2, .groups = n, .outer = true
        };
        failed = gpu_multiply(r, &plan, 2, (mx[]){ a, c }, r->y[0], &args);
    }
    mx_drop(&hold);
    return failed;
}
