/* solver_factors.c: Cholesky, LU and QR factors of large matrices, systems and inverses by cuSOLVER.
 *
 * What it sees of rows is a transposed matrix.  Of a Hermitian one that is the conjugate, whose lower factor is the
 * transpose of the upper one, and lies as that does.  Lower factors (it takes twice as long for upper ones), LU and QR
 * factors, and systems, which an inverse is as well, are of copies that are turned, one pass through memory on each
 * way: exchanges of rows are the CPU's then, and what is small is A times the inverse less 1, not the inverse times A.
 *
 * Its pivots are undefined where something is not finite, and our panels know what to do there: a batch in which there
 * is such a matrix is theirs. */
#include "cuda/kernels/panels.h"

#include <stdlib.h>

#include "cuda/linalg.h"
#include "cuda/solver_problem.h"
#include "ops/linalg.h"

/* It gets one matrix of a batch after the other.  A block of ours, and most of the time of a single matrix is one
 * block's, has one of each at once: so many matrices take it about as long as one, until there are more of them than
 * cuSOLVER is faster, which it is the more the larger they are. */
bool solver_takes(enum solver_kind kind, const struct run *r, int64_t count, int m, int n)
{
    int64_t least_size = least(m, n), few = (kind == SOLVER_CHOLESKY ? 4 : 2) + least_size / 1024;
    return count <= few && (int64_t)m * n <= INT32_MAX && solver_works(kind, gpu_of(r)->number);
}

static bool any(const int *flags, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (flags[i])
            return true;
    return false;
}

/* The first matrix for which cuSOLVER said that there is no factor is a failure. */
static int report_first(const struct run *r, const int *info, int64_t n, enum factor_fault fault)
{
    mx x = r->x[0];
    for (int64_t i = 0; i < n; i++)
        if (info[i])
            return factor_report(factor_asker(r->node), fault, x->ndim - 2, x->shape, i);
    return 0;
}

int solver_cholesky(const struct run *r, mx x, unsigned part)
{
    struct work w;
    struct room room = { 0 };
    const char *asker = factor_asker(r->node);
    int n = dim(x, -1), *flags = NULL;
    int64_t each = (int64_t)n * n;
    int failed = work_begin(&w, r, x, true);
    bool turned = part == PART_LOWER;
    struct problem p = { .kind = SOLVER_CHOLESKY, .m = n, .n = n, .lda = n, .triangle = CUSOLVER_LOWER };
    void *y = gpu_pointer(r, r->y[0]);
    p.a = failed ? NULL : turned ? work_hold(&w, w.count * each * w.size) : y;
    solver_types(&p, w.t);
    struct steps by = { .a = each * w.size };
    struct part_call in = { .y = p.a, .x = gpu_pointer(r, x), .y_row = n, .x_row = n, .rows = n, .columns = n };
    in.y_matrix = in.x_matrix = each;
    in.part = LINALG_UPPER;
    in.turned = turned ? PART_TRANSPOSED : PART_AS_IT_IS;
    in.odd = w.odd;
    struct part_call last = in; /* zeros beside the factor, where it may have worked */
    last.y = y;
    last.x = p.a;
    last.part = (int32_t)part;
    last.odd = NULL;
    failed = !p.a || work_copy(&w, in) || solver_enter(&w, &p, &room, asker) ||
             solver_queue(&w, p, &by, NULL, &room, asker) || work_copy(&w, last) ||
             !(flags = solver_flags(&w, w.odd, 2 * w.count));
    bool odd = !failed && any(flags, w.count);
    if (!failed && !odd)
        failed = report_first(r, flags + w.count, w.count, FACTOR_INDEFINITE);
    solver_leave(&room);
    free(flags);
    failed = work_end(&w, failed);
    return odd ? panels_cholesky(r, x, (enum linalg_part)part) : failed;
}

/* x[1] NULL: the inverse. */
int solver_solve(const struct run *r, const mx x[2])
{
    struct work w;
    struct room room = { 0 };
    const char *asker = factor_asker(r->node);
    int n = dim(x[0], -1), k = dim(r->y[0], -1), *flags = NULL;
    bool turned = !x[1] || k > 1, odd = false;
    int64_t each = (int64_t)n * n, right = (int64_t)n * k;
    int failed = work_begin(&w, r, x[0], true);
    struct problem p = { .kind = SOLVER_LU, .m = n, .n = n, .k = k, .lda = n, .ldu = n };
    solver_types(&p, w.t);
    struct steps by = { each * w.size, n * (int64_t)sizeof(int32_t), right * w.size, 0 };
    void *y = gpu_pointer(r, r->y[0]);
    if (!failed) {
        p.a = work_hold(&w, w.count * by.a);
        p.values = work_hold(&w, w.count * by.values);
        p.u = turned ? work_hold(&w, w.count * by.u) : y;
    }
    struct part_call in = { .y = p.a, .x = gpu_pointer(r, x[0]), .odd = w.odd, .rows = n, .columns = n };
    in.y_row = in.x_row = n;
    in.y_matrix = in.x_matrix = each;
    in.turned = PART_TRANSPOSED;
    /* the right side, along columns; one column is as a row */
    struct part_call beside = { .y = p.u, .x = x[1] ? gpu_pointer(r, x[1]) : NULL, .rows = k, .columns = n };
    beside.y_row = n;
    beside.x_row = k;
    beside.y_matrix = beside.x_matrix = right;
    beside.turned = x[1] ? PART_TRANSPOSED : PART_AS_IT_IS;
    struct part_call last = { .y = y, .x = p.u, .y_row = k, .x_row = n, .rows = n, .columns = k };
    last.y_matrix = last.x_matrix = right;
    last.turned = PART_TRANSPOSED;
    failed = failed || !p.a || !p.values || !p.u || work_copy(&w, in) || !(flags = solver_flags(&w, w.odd, w.count));
    if (!failed && !(odd = any(flags, w.count))) {
        free(flags);
        flags = NULL;
        failed = work_copy(&w, beside) || solver_enter(&w, &p, &room, asker) ||
                 solver_queue(&w, p, &by, NULL, &room, asker) || (turned && work_copy(&w, last)) ||
                 !(flags = solver_flags(&w, w.nan, w.count)) || report_first(r, flags, w.count, FACTOR_SINGULAR);
    }
    solver_leave(&room);
    free(flags);
    failed = work_end(&w, failed);
    return odd ? panels_solve(r, x, LINALG_ALL) : failed;
}

int solver_lu(const struct run *r, const struct lu_call *l)
{
    struct work w = { .r = r, .t = l->t, .size = (int64_t)dtype_size(l->t), .count = l->count };
    struct room room = { 0 };
    const char *asker = r->node->op->name;
    int m = l->m, n = l->n, k = m < n ? m : n, *flags = NULL;
    bool odd = false;
    int64_t each = (int64_t)m * n;
    int failed = work_flags(&w);
    struct problem p = { .kind = SOLVER_LU, .m = m, .n = n, .lda = m };
    solver_types(&p, w.t);
    struct steps by = { .a = each * w.size, .values = k * (int64_t)sizeof(int32_t) };
    if (!failed) {
        p.a = work_hold(&w, w.count * by.a);
        p.values = work_hold(&w, w.count * by.values);
    }
    struct part_call in = { .y = p.a, .x = (void *)l->a, .odd = w.odd, .rows = n, .columns = m };
    in.y_row = m;
    in.x_row = n;
    in.y_matrix = in.x_matrix = each;
    in.turned = PART_TRANSPOSED;
    struct part_call out = { .y = l->y[0], .x = p.a, .y_row = n, .x_row = m, .rows = m, .columns = n };
    out.y_matrix = out.x_matrix = each;
    out.turned = PART_TRANSPOSED;
    struct pivots_call c = { .x = p.a, .row = m, .matrix = each, .swaps = p.values, .m = m, .k = k, .from = 1 };
    c.makes = (int32_t)l->makes;
    for (int i = 0; i < 3; i++) c.y[i] = l->y[i];
    failed = failed || !p.a || !p.values || work_copy(&w, in) || !(flags = solver_flags(&w, w.odd, w.count));
    if (!failed && !(odd = any(flags, w.count)))
        failed = solver_enter(&w, &p, &room, asker) || solver_queue(&w, p, &by, NULL, &room, asker) ||
                 (l->makes == LINALG_FACTORS && work_copy(&w, out)) || work_pivots(&w, c);
    solver_leave(&room); /* on the host LU has none, which what is queued could still use */
    free(flags);
    failed = work_end(&w, failed);
    return odd ? panels_lu(r, l) : failed;
}

int solver_qr(const struct run *r, mx x)
{
    struct work w;
    struct room room = { 0 };
    int m = dim(x, -2), n = dim(x, -1), k = m < n ? m : n, *flags = NULL;
    int64_t each = (int64_t)m * n;
    int failed = work_begin(&w, r, x, true);
    struct problem p = { .kind = SOLVER_QR, .m = m, .n = n, .lda = m };
    solver_types(&p, w.t);
    struct steps by = { .a = each * w.size, .values = k * w.size };
    if (!failed) {
        p.a = work_hold(&w, w.count * by.a);
        p.values = work_hold(&w, w.count * by.values);
    }
    struct problem q = p;
    q.kind = SOLVER_Q;
    q.n = k;
    struct part_call in = { .y = p.a, .x = gpu_pointer(r, x), .odd = w.odd, .rows = n, .columns = m };
    in.y_row = m;
    in.x_row = n;
    in.y_matrix = in.x_matrix = each;
    in.turned = PART_TRANSPOSED;
    struct part_call upper = { .y = gpu_pointer(r, r->y[1]), .x = p.a, .y_row = n, .x_row = m, .rows = k };
    upper.columns = n;
    upper.y_matrix = (int64_t)k * n;
    upper.x_matrix = each;
    upper.turned = PART_TRANSPOSED;
    upper.part = LINALG_UPPER;
    struct part_call out = { .y = gpu_pointer(r, r->y[0]), .x = p.a, .y_row = k, .x_row = m, .rows = m, .columns = k };
    out.y_matrix = (int64_t)m * k;
    out.x_matrix = each;
    out.turned = PART_TRANSPOSED;
    failed = failed || !p.a || !p.values || work_copy(&w, in) || solver_enter(&w, &p, &room, "qr") ||
             solver_queue(&w, p, &by, NULL, &room, "qr") || work_copy(&w, upper) ||
             solver_queue(&w, q, &by, NULL, &room, "qr") || work_copy(&w, out) ||
             !(flags = solver_flags(&w, w.odd, w.count));
    bool odd = !failed && any(flags, w.count);
    solver_leave(&room);
    free(flags);
    failed = work_end(&w, failed);
    return odd ? panels_qr(r, x) : failed;
}
