/* panels.c: factors of matrices that shared memory does not hold, on a GPU.
 *
 * Some columns at once, or a triangle on the diagonal, are factored by a block for each matrix; what is left of the
 * matrix is changed by products.  A system is solved with its right side beside the matrix, which elimination changes
 * along with it. */
#include "cuda/kernels/panels.h"

#include "cuda/linalg.h"

enum { TRIANGLE = LINALG_SIZE, STRIP = 1024 };
enum kernel { COPY_PART, CLEAR, PANEL_LU, EXCHANGE, PIVOTS, PANEL_QR, EIGEN, WEIGH, FINISH, KERNELS };

static int launch(const struct work *w, enum kernel k, int64_t blocks, int threads, void *call)
{
    static const char *const names[] = { [COPY_PART] = "part",    [CLEAR] = "clear",   [PANEL_LU] = "panel_lu",
                                         [EXCHANGE] = "exchange", [PIVOTS] = "pivots", [PANEL_QR] = "panel_qr",
                                         [EIGEN] = "eigen",       [WEIGH] = "weigh",   [FINISH] = "finish" };
    static struct gpu_found found[KERNELS][DT_COUNT];
    void *kernel = gpu_find(gpu_of(w->r), &found[k][w->t], "panels", names[k], w->t);
    return !kernel || gpu_launch(w->r->stream, w->r->node->op->name, kernel, blocks, threads, (void *[]){ call });
}

void *work_hold(struct work *w, int64_t bytes)
{
    struct buffer *b = buffer_new_on(w->r->stream, (size_t)bytes);
    if (b)
        w->held[w->nheld++] = b;
    return b ? buffer_on(b, w->r->stream) : NULL;
}

int work_begin(struct work *w, const struct run *r, mx x, bool flags)
{
    int64_t each = (int64_t)dim(x, -2) * dim(x, -1);
    *w = (struct work){ .r = r, .t = (enum dtype)x->dtype, .size = (int64_t)itemsize(x), .count = x->size / each };
    return flags && work_flags(w);
}

int work_flags(struct work *w)
{
    w->odd = work_hold(w, 2 * w->count * (int64_t)sizeof *w->odd);
    if (!w->odd)
        return 1;
    w->nan = w->odd + w->count;
    struct clear_call c = { w->odd, 2 * w->count };
    return launch(w, CLEAR, ceil_div(c.n, PANEL_ALONG), PANEL_ALONG, &c);
}

int work_end(struct work *w, int failed)
{
    for (int i = 0; i < w->nheld; i++) buffer_release(w->held[i]);
    return failed;
}

int work_copy(const struct work *w, struct part_call c)
{
    c.down = (int32_t)ceil_div(c.rows, PANEL_DOWN);
    c.across = (int32_t)ceil_div(c.columns, PANEL_ALONG);
    return launch(w, COPY_PART, w->count * c.down * c.across, PANEL_ALONG, &c);
}

int work_eigen(const struct work *w, struct eigen_call c)
{
    c.down = (int32_t)(c.vectors ? ceil_div(c.n, PANEL_DOWN) : 1);
    c.across = (int32_t)ceil_div(c.n, PANEL_ALONG);
    return launch(w, EIGEN, w->count * c.down * c.across, PANEL_ALONG, &c);
}

int work_pivots(struct work *w, struct pivots_call c)
{
    if (c.makes == LINALG_FACTORS && c.m > PANEL_ORDER &&
        !(c.order = work_hold(w, w->count * c.m * (int64_t)sizeof *c.order)))
        return 1;
    return launch(w, PIVOTS, w->count, PANEL_ALONG, &c);
}

int work_weigh(const struct work *w, struct weigh_call c) { return launch(w, WEIGH, w->count, PANEL_ALONG, &c); }

int work_finish(const struct work *w, struct finish_call c)
{
    return launch(w, FINISH, ceil_div(w->count * c.each, PANEL_ALONG), PANEL_ALONG, &c);
}

/* y -= a b, of parts of m by k and k by n. */
static int subtract(const struct work *w, struct gpu_matrices y, struct gpu_matrices a, struct gpu_matrices b, int m,
                    int n, int k)
{
    struct gpu_product_at p = { y, a, b, m, n, k, w->count, -1, 1 };
    return gpu_multiply_at(w->r, w->t, &p);
}

/* The part of x from this row and column on. */
static struct gpu_matrices part_of(const struct work *w, struct gpu_matrices x, int64_t row, int64_t column)
{
    x.p = work_at(w, x.p, row * x.row + column * x.column);
    return x;
}

/* ---- elimination */

/* In the first n of w columns of m rows; which rows are exchanged into swaps. */
static int eliminate(struct work *w, struct gpu_matrices x, int m, int n, int columns, int32_t *swaps)
{
    int steps = m < n ? m : n, failed = 0;
    void *panel = work_hold(w, w->count * PANEL * m * w->size);
    if (!panel)
        return 1;
    for (int first = 0; first < steps && !failed; first += PANEL) {
        int wide = (int)least(PANEL, steps - first), next = first + wide, height = m - first;
        struct gpu_matrices here = part_of(w, x, first, first);
        struct panel_call c = {
            .x = x.p, .row = x.row, .matrix = x.matrix, .panel = panel, .swaps = swaps, .m = m, .w = columns, .k = steps
        };
        c.first = first;
        c.columns = wide;
        c.across = (int32_t)ceil_div(columns, PANEL_EXCHANGED);
        struct part_call turn = { .y = panel, .x = here.p, .y_row = m, .x_row = x.row, .rows = wide };
        turn.columns = height;
        turn.y_matrix = (int64_t)PANEL * m;
        turn.x_matrix = x.matrix;
        turn.turned = PART_TRANSPOSED;
        struct part_call back = { .y = here.p, .x = panel, .y_row = x.row, .x_row = m, .rows = height };
        back.columns = wide;
        back.y_matrix = x.matrix;
        back.x_matrix = (int64_t)PANEL * m;
        back.turned = PART_TRANSPOSED;
        failed = work_copy(w, turn) ||
                 launch(w, PANEL_LU, w->count, (int)greatest(PANEL, gpu_power_of_two(height, PANEL_THREADS)), &c) ||
                 work_copy(w, back) || launch(w, EXCHANGE, w->count * c.across, PANEL_EXCHANGED, &c) ||
                 subtract(w, part_of(w, x, next, next), part_of(w, x, next, first), part_of(w, x, first, next),
                          m - next, columns - next, wide);
    }
    return failed;
}

/* y becomes the solution of a triangle, from the right side: k columns. */
static int substitute(const struct work *w, struct gpu_matrices a, struct gpu_matrices y, int n, int k,
                      enum linalg_part part)
{
    int failed = 0;
    bool lower = part == LINALG_LOWER;
    for (int i = 0; i < n && !failed; i += TRIANGLE) {
        int wide = (int)least(TRIANGLE, n - i), first = lower ? i : n - i - wide, left = n - i - wide;
        struct gpu_matrices here = part_of(w, a, first, first), b = part_of(w, y, first, 0);
        struct linalg_call c = { .y = { b.p }, .a = here.p, .b = b.p, .count = w->count, .m = wide, .n = wide, .k = k };
        c.a_row = a.row;
        c.a_matrix = a.matrix;
        c.b_row = c.y_row = y.row;
        c.b_matrix = c.y_matrix = y.matrix;
        c.part = (int32_t)part;
        c.odd = w->odd;
        c.nan = w->nan;
        c.noting = w->noting;
        failed = linalg_launch(w->r, LINALG_SOLVE, w->t, &c) ||
                 subtract(w, part_of(w, y, lower ? first + wide : 0, 0), part_of(w, a, lower ? first + wide : 0, first),
                          b, left, k, wide);
    }
    return failed;
}

int panels_solve(const struct run *r, const mx x[2], enum linalg_part part)
{
    struct work w;
    int n = dim(x[0], -1), k = dim(r->y[0], -1);
    int64_t a_matrix = (int64_t)n * n, y_matrix = (int64_t)n * k;
    int failed = work_begin(&w, r, x[0], true) || linalg_noting(r, &w.noting, FACTOR_SINGULAR);
    bool all = part == LINALG_ALL;
    struct gpu_matrices a = { gpu_pointer(r, x[0]), n, 1, a_matrix }, y = { gpu_pointer(r, r->y[0]), k, 1, y_matrix };
    struct gpu_matrices right = y;
    int32_t *swaps = NULL;
    struct part_call read = { .x = a.p, .x_row = n, .x_matrix = a_matrix, .odd = w.odd, .rows = n, .columns = n };
    read.part = (int32_t)part;
    if (!failed && all) { /* the matrix, and the right side beside it */
        int64_t row = (int64_t)n + k;
        read.y = work_hold(&w, w.count * n * row * w.size);
        swaps = work_hold(&w, w.count * n * (int64_t)sizeof *swaps);
        failed = !read.y || !swaps;
        read.y_row = row;
        read.y_matrix = n * row;
        a = (struct gpu_matrices){ read.y, row, 1, n * row };
        right = part_of(&w, a, 0, n);
    }
    struct part_call beside = { .y = right.p, .x = x[1] ? gpu_pointer(r, x[1]) : NULL, .rows = n, .columns = k };
    beside.y_row = right.row;
    beside.y_matrix = right.matrix;
    beside.x_row = k;
    beside.x_matrix = y_matrix;
    failed = failed || work_copy(&w, read) || work_copy(&w, beside) || (all && eliminate(&w, a, n, n, n + k, swaps)) ||
             substitute(&w, a, right, n, k, all ? LINALG_UPPER : part);
    struct part_call last = { .y = y.p, .x = right.p, .y_row = k, .y_matrix = y_matrix, .rows = n, .columns = k };
    last.x_row = right.row;
    last.x_matrix = right.matrix;
    last.nan = w.nan;
    last.part = (int32_t)(x[1] ? LINALG_ALL : part); /* of an inverse nothing else */
    return work_end(&w, failed || work_copy(&w, last)) || linalg_noted(r);
}

int panels_lu(const struct run *r, const struct lu_call *l)
{
    struct work w = { .r = r, .t = l->t, .size = (int64_t)dtype_size(l->t), .count = l->count };
    int m = l->m, n = l->n, k = m < n ? m : n, failed = 0;
    int64_t each = (int64_t)m * n;
    struct pivots_call c = { .row = n, .matrix = each, .m = m, .k = k, .makes = (int32_t)l->makes };
    int32_t *swaps = work_hold(&w, w.count * k * (int64_t)sizeof *swaps);
    for (int i = 0; i < 3; i++) c.y[i] = l->y[i];
    void *to = l->makes == LINALG_FACTORS ? c.y[0] : work_hold(&w, w.count * each * w.size);
    struct part_call copy = { .y = to, .x = (void *)l->a, .y_row = n, .y_matrix = each, .rows = m, .columns = n };
    copy.x_row = n;
    copy.x_matrix = each;
    c.x = to;
    c.swaps = swaps;
    failed = failed || !swaps || !to || work_copy(&w, copy) ||
             eliminate(&w, (struct gpu_matrices){ to, n, 1, each }, m, n, n, swaps) || work_pivots(&w, c);
    return work_end(&w, failed);
}

/* ---- QR */

/* Reflections of a panel: 1 - V T V^H.  v: V by rows and columns, turned: its adjoint; t: T and its adjoint. */
struct reflections {
    struct gpu_matrices v, adjoint, t, t_adjoint;
    int height, wide;
};

/* y -= V T V^H y, or with T's adjoint, of the rows that reflections are of, and n columns. */
static int reflect(const struct work *w, const struct reflections *o, bool adjoint, struct gpu_matrices y, int n,
                   void *room[2])
{
    struct gpu_matrices first = { room[0], n, 1, (int64_t)PANEL * n }, second = { room[1], n, 1, (int64_t)PANEL * n };
    struct gpu_product_at p = { first, o->adjoint, y, o->wide, n, o->height, w->count, 1, 0 };
    struct gpu_product_at q = { second, adjoint ? o->t_adjoint : o->t, first, o->wide, n, o->wide, w->count, 1, 0 };
    return gpu_multiply_at(w->r, w->t, &p) || gpu_multiply_at(w->r, w->t, &q) ||
           subtract(w, y, o->v, second, o->height, n, o->wide);
}

/* Those of the panel that begins with column `first`, which are kept turned, as are their conjugates. */
static struct reflections reflections_of(const struct work *w, void *turned, void *conjugates, void *t, int first,
                                         int m, int k)
{
    int64_t matrix = (int64_t)k * m, t_matrix = (int64_t)k * 2 * PANEL, at_first = (int64_t)first * m;
    struct reflections o = { .height = m - first, .wide = (int)least(PANEL, k - first) };
    o.v = (struct gpu_matrices){ work_at(w, turned, at_first), 1, m, matrix };
    o.adjoint = (struct gpu_matrices){ work_at(w, conjugates, at_first), m, 1, matrix };
    o.t = (struct gpu_matrices){ work_at(w, t, (int64_t)first * 2 * PANEL), PANEL, 1, t_matrix };
    o.t_adjoint = part_of(w, o.t, o.wide, 0);
    return o;
}

int panels_qr(const struct run *r, mx x)
{
    struct work w;
    int m = dim(x, -2), n = dim(x, -1), k = m < n ? m : n;
    int64_t each = (int64_t)m * n, kept = (int64_t)k * m;
    int failed = work_begin(&w, r, x, false);
    bool is_complex = w.t == DT_complex64;
    void *a = work_hold(&w, w.count * each * w.size), *turned = work_hold(&w, w.count * kept * w.size);
    void *conjugates = is_complex ? work_hold(&w, w.count * kept * w.size) : turned;
    void *t = work_hold(&w, w.count * k * 2 * PANEL * w.size);
    void *room[2] = { work_hold(&w, w.count * PANEL * n * w.size), work_hold(&w, w.count * PANEL * n * w.size) };
    struct part_call copy = { .y = a, .x = gpu_pointer(r, x), .y_row = n, .x_row = n, .rows = m, .columns = n };
    copy.y_matrix = copy.x_matrix = each;
    failed = failed || !a || !turned || !conjugates || !t || !room[0] || !room[1] || work_copy(&w, copy);
    struct gpu_matrices left = { a, n, 1, each };
    for (int first = 0; first < k && !failed; first += PANEL) {
        struct reflections o = reflections_of(&w, turned, conjugates, t, first, m, k);
        struct gpu_matrices here = part_of(&w, left, first, first);
        struct part_call turn = { .y = o.v.p, .x = here.p, .y_row = m, .y_matrix = kept, .x_row = n, .x_matrix = each };
        turn.rows = o.wide;
        turn.columns = o.height;
        turn.turned = PART_TRANSPOSED;
        struct panel_call c = { .x = a, .row = n, .matrix = each, .panel = o.v.p, .t = t, .m = m, .k = k };
        c.first = first;
        c.columns = o.wide;
        struct part_call again = { .y = o.adjoint.p, .x = o.v.p, .y_row = m, .x_row = m, .rows = o.wide };
        again.y_matrix = again.x_matrix = kept;
        again.columns = o.height;
        again.turned = PART_CONJUGATE;
        failed = work_copy(&w, turn) ||
                 launch(&w, PANEL_QR, w.count, (int)greatest(64, gpu_power_of_two(o.height, PANEL_THREADS)), &c) ||
                 (is_complex && work_copy(&w, again)) ||
                 reflect(&w, &o, true, part_of(&w, here, 0, o.wide), n - first - o.wide, room);
    }
    struct gpu_matrices q = { gpu_pointer(r, r->y[0]), k, 1, kept };
    struct part_call upper = { .y = gpu_pointer(r, r->y[1]), .x = a, .y_row = n, .x_row = n, .rows = k, .columns = n };
    upper.y_matrix = (int64_t)k * n;
    upper.x_matrix = each;
    upper.part = LINALG_UPPER;
    struct part_call identity = { .y = q.p, .y_row = k, .y_matrix = kept, .rows = m, .columns = k };
    failed = failed || work_copy(&w, upper) || work_copy(&w, identity);
    for (int first = (k - 1) / PANEL * PANEL; first >= 0 && !failed; first -= PANEL) {
        struct reflections o = reflections_of(&w, turned, conjugates, t, first, m, k);
        failed = reflect(&w, &o, false, part_of(&w, q, first, first), k - first, room);
    }
    return work_end(&w, failed);
}

/* ---- Cholesky */

/* The lower factor, in place: of a triangle on the diagonal, what is below it times the inverse of that, and what is
 * left less the square of this. */
static int factor_lower(struct work *w, struct gpu_matrices x, int n)
{
    int64_t below_size = (int64_t)TRIANGLE * n;
    void *triangle = work_hold(w, w->count * TRIANGLE * TRIANGLE * w->size),
         *below = work_hold(w, w->count * below_size * w->size);
    int failed = !triangle || !below;
    for (int first = 0; first < n && !failed; first += TRIANGLE) {
        int wide = (int)least(TRIANGLE, n - first), next = first + wide, left = n - next;
        struct gpu_matrices here = part_of(w, x, first, first), low = part_of(w, x, next, first);
        struct linalg_call c = { .y = { here.p }, .a = here.p, .count = w->count, .m = wide, .n = wide };
        c.a_row = c.y_row = x.row;
        c.a_matrix = c.y_matrix = x.matrix;
        c.part = LINALG_LOWER;
        c.odd = w->odd;
        c.nan = w->nan;
        c.noting = w->noting;
        failed = linalg_launch(w->r, LINALG_CHOLESKY, w->t, &c);
        if (failed || left == 0)
            break;
        c.y[0] = triangle; /* its conjugate, which turned is the adjoint */
        c.y_row = TRIANGLE;
        c.y_matrix = TRIANGLE * TRIANGLE;
        c.k = wide;
        c.conjugated = 1;
        c.noting.note = NULL; /* has been said */
        struct gpu_matrices turned = { triangle, 1, TRIANGLE, TRIANGLE * TRIANGLE };
        struct gpu_product_at p = { { below, TRIANGLE, 1, below_size }, low, turned, left, wide, wide, w->count, 1, 0 };
        struct part_call back = { .y = low.p, .x = below, .y_row = x.row, .y_matrix = x.matrix, .x_row = TRIANGLE };
        back.x_matrix = below_size;
        back.rows = left;
        back.columns = wide;
        back.conjugated = 1;
        failed = linalg_launch(w->r, LINALG_SOLVE, w->t, &c) || gpu_multiply_at(w->r, w->t, &p) || work_copy(w, back);
        for (int c0 = next; c0 < n && !failed; c0 += STRIP) { /* little of what is above the diagonal */
            struct gpu_matrices right = { work_at(w, below, (int64_t)(c0 - next) * TRIANGLE), 1, TRIANGLE, below_size };
            failed = subtract(w, part_of(w, x, c0, c0), part_of(w, x, c0, first), right, n - c0,
                              (int)least(STRIP, n - c0), wide);
        }
    }
    return failed;
}

int panels_cholesky(const struct run *r, mx x, enum linalg_part part)
{
    struct work w;
    int n = dim(x, -1);
    int64_t each = (int64_t)n * n;
    bool upper = part == LINALG_UPPER;
    int failed = work_begin(&w, r, x, true) || linalg_noting(r, &w.noting, FACTOR_INDEFINITE);
    void *y = gpu_pointer(r, r->y[0]), *to = upper && !failed ? work_hold(&w, w.count * each * w.size) : y;
    struct part_call copy = { .y = to, .x = gpu_pointer(r, x), .y_row = n, .x_row = n, .rows = n, .columns = n };
    copy.y_matrix = copy.x_matrix = each;
    copy.part = LINALG_LOWER;
    copy.odd = w.odd;
    copy.turned = upper ? PART_ADJOINT : PART_AS_IT_IS;
    struct part_call last = copy;
    last.x = to;
    last.y = y;
    last.odd = NULL;
    last.nan = w.nan;
    last.part = (int32_t)part;
    failed = failed || !to || work_copy(&w, copy) || factor_lower(&w, (struct gpu_matrices){ to, n, 1, each }, n) ||
             work_copy(&w, last);
    return work_end(&w, failed) || linalg_noted(r);
}
