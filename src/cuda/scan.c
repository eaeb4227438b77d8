/* scan.c: running folds on a GPU. */
#include "cuda/kernels/scan.h"
#include "cuda/gpu.h"
#include "ops/scan.h"

/* A piece of a row is so long at least, and pieces of all no more than enough to keep a device busy. */
enum { PIECE = 1 << 12, PIECES = 1 << 12, COLUMN_PIECE = 256 };

/* (outer, n, inner) about the axis, and in how many pieces: more where rows or columns are few. */
static void lay_out(struct scan_call *c, mx x, int axis, const struct gpu *g)
{
    c->outer = c->inner = 1;
    c->n = x->shape[axis];
    for (int d = 0; d < x->ndim; d++) *(d < axis ? &c->outer : &c->inner) *= d == axis ? 1 : x->shape[d];
    int64_t all = c->outer * c->inner, each = COLUMN_PIECE;
    if (c->inner == 1)
        each = ceil_div(greatest(PIECE, ceil_div(x->size, PIECES)), PIECE) * PIECE;
    int64_t enough = c->inner > 1 ? (int64_t)g->multiprocessors * 1024 : (int64_t)g->multiprocessors * 2;
    bool cut = c->n >= 2 * each && all < enough;
    c->piece = cut ? each : c->n;
    c->pieces = ceil_div(c->n, c->piece);
}

/* Which kernel scans, what puts the folds of pieces together, and how many rows a block has. */
enum how { BY_ANY_COLUMNS, BY_COLUMNS, BY_ROWS, BY_PIECES, BY_WARPS };
static enum how way_of(const struct scan_call *c, const struct gpu *g)
{
    bool is_short = !c->more && c->fold != SCAN_LOGSUMEXP;
    if (c->inner > 1)
        return is_short ? BY_COLUMNS : BY_ANY_COLUMNS;
    if (!c->whole || !is_short)
        return BY_ROWS;
    return c->pieces == 1 && c->outer >= (int64_t)g->multiprocessors * 16 ? BY_WARPS : BY_PIECES;
}

/* The three steps, or the last alone. */
static int run_scans(const struct run *r, struct scan_call *c, enum dtype t)
{
    static const char *const names[] = { [BY_ANY_COLUMNS] = "scan_any_columns",
                                         [BY_COLUMNS] = "scan_columns",
                                         [BY_ROWS] = "scan_rows",
                                         [BY_PIECES] = "scan_pieces",
                                         [BY_WARPS] = "scan_warps" };
    static struct gpu_found found[BY_WARPS + 1][DT_COUNT], parts[2][DT_COUNT];
    struct gpu *g = gpu_of(r);
    enum how how = way_of(c, g);
    bool rows = how > BY_COLUMNS;
    void *kernel = gpu_find(g, &found[how][t], "scan", names[how], t);
    void *before = gpu_find(g, &parts[rows][t], "scan", rows ? "scan_parts_of_rows" : "scan_parts", t), *args[] = { c };
    int64_t all = c->outer * c->inner, blocks = all * c->pieces;
    if (!rows)
        blocks = ceil_div(blocks, SCAN_THREADS);
    else if (how == BY_WARPS)
        blocks = ceil_div(blocks, SCAN_THREADS / 32);
    int failed = !kernel || !before;
    for (c->folding = c->pieces > 1; !failed; c->folding = 0) {
        failed = gpu_launch(r->stream, "scan", kernel, blocks, SCAN_THREADS, args);
        if (!c->folding || failed)
            break;
        failed = gpu_launch(r->stream, "scan", before, rows ? all : ceil_div(all, SCAN_THREADS), SCAN_THREADS, args);
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
