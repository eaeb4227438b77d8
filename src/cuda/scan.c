/* scan.c: running folds on a GPU. */
#include "cuda/kernels/scan.h"
#include "cuda/gpu.h"
#include "ops/scan.h"

enum { PIECE = 1 << 14, COLUMN_PIECE = 256 };

/* (outer, n, inner) about the axis, and in how many pieces: more where rows or columns are few. */
static void lay_out(struct scan_call *c, mx x, int axis, const struct gpu *g)
{
    c->outer = c->inner = 1;
    c->n = x->shape[axis];
    for (int d = 0; d < x->ndim; d++) *(d < axis ? &c->outer : &c->inner) *= d == axis ? 1 : x->shape[d];
    int64_t all = c->outer * c->inner, each = c->inner > 1 ? COLUMN_PIECE : PIECE;
    int64_t enough = c->inner > 1 ? (int64_t)g->multiprocessors * 1024 : (int64_t)g->multiprocessors * 2;
    bool cut = c->n >= 2 * each && all < enough;
    c->piece = cut ? each : c->n;
    c->pieces = ceil_div(c->n, c->piece);
}

/* The three steps, or the last alone. */
static int run_scans(const struct run *r, struct scan_call *c, enum dtype t)
{
    static struct gpu_found rows[DT_COUNT], columns[DT_COUNT], parts[DT_COUNT];
    struct gpu *g = gpu_of(r);
    bool by_rows = c->inner == 1;
    void *kernel =
        by_rows ? gpu_find(g, &rows[t], "scan", "scan_rows", t) : gpu_find(g, &columns[t], "scan", "scan_columns", t);
    void *before = gpu_find(g, &parts[t], "scan", "scan_parts", t), *args[] = { c };
    int64_t all = c->outer * c->inner, blocks = by_rows ? all * c->pieces : ceil_div(all * c->pieces, SCAN_THREADS);
    int failed = !kernel || !before;
    for (c->folding = c->pieces > 1; !failed; c->folding = 0) {
        failed = gpu_launch(r->stream, "scan", kernel, blocks, SCAN_THREADS, args);
        if (!c->folding || failed)
            break;
        failed = gpu_launch(r->stream, "scan", before, ceil_div(all, SCAN_THREADS), SCAN_THREADS, args);
    }
    return failed;
}

/* Of one operand or two. */
static int scan_operands(const struct run *r, int fold, int axis, bool reverse)
{
    mx x[2] = { r->x[0], r->x[r->nin - 1] };
    mx_own hold[2] = { 0 };
    enum dtype t = (enum dtype)x[0]->dtype;
    struct scan_call c = { .fold = fold, .reverse = reverse };
    if (gpu_out_new(r, 0))
        return 1;
    if (x[0]->size == 0)
        return 0;
    if (!gpu_all_row_major(r, r->nin, x, hold)) {
        gpu_drop(2, hold);
        return 1;
    }
    lay_out(&c, x[0], axis, gpu_of(r));
    if (t == DT_bool_ && c.fold == SCAN_PROD)
        c.fold = SCAN_MIN;
    c.x = gpu_pointer(r, x[0]);
    c.more = r->nin > 1 ? gpu_pointer(r, x[1]) : NULL;
    c.y = gpu_pointer(r, r->y[0]);
    c.whole = c.n % gpu_lanes(t) == 0 && ((uint64_t)c.x | (uint64_t)c.y) % 16 == 0;
    struct buffer *room = NULL;
    int failed = 0;
    if (c.pieces > 1) {
        room = buffer_new_on(r->stream, (size_t)(c.outer * c.inner * c.pieces) * SCAN_PART);
        failed = !room;
        c.parts = room ? buffer_on(room, r->stream) : NULL;
    }
    failed = failed || run_scans(r, &c, t);
    if (room)
        buffer_release(room);
    gpu_drop(2, hold);
    return failed;
}

int gpu_run_scan(const struct run *r)
{
    const struct scan_args *a = r->args;
    return scan_operands(r, (int)a->fold, a->axis, a->reverse);
}

int gpu_run_recurrence(const struct run *r)
{
    const struct recurrence_args *a = r->args;
    return scan_operands(r, SCAN_RECURRENCE, a->axis, a->reverse);
}
