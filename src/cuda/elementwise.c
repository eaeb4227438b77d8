/* elementwise.c: unary and binary operations on a GPU: one kernel of each row for each type. */
#include "cuda/gpu.h"
#include "plan/layout.h"

enum { THREADS = 256 };

int gpu_run_elementwise(const struct run *r)
{
    mx y = r->y[0], x[2] = { r->x[0], r->x[r->nin - 1] };
    mx_own hold[2] = { 0 };
    enum dtype t = (enum dtype)x[0]->dtype;
    struct gpu *g = gpu_of(r);
    static struct gpu_found found[OP_COUNT][DT_COUNT];
    const struct op *op = r->node->op;
    struct walk w;
    void *f = gpu_find(g, &found[op->id][t], "elementwise", op->name, t);
    int failed = !f || gpu_out_over(r, 0);
    if (!failed && !layout_walk(&w, y, r->nin, x)) { /* more dimensions than a kernel knows */
        failed = !gpu_all_row_major(r, r->nin, x, hold);
        layout_walk(&w, y, r->nin, x);
    }
    if (!failed) {
        uint64_t to = gpu_address(r, y), at[2] = { 0 }, low = to;
        for (int i = 0; i < r->nin; i++) {
            at[i] = gpu_address(r, x[i]);
            low |= w.step[i] ? at[i] : 0;
        }
        w.aligned = low % 16 == 0;
        int64_t pieces = ceil_div(w.n, (int64_t)THREADS * gpu_lanes(t));
        int32_t rounds = gpu_rounds(g, pieces);
        void *unary[] = { &to, &at[0], &w, &rounds }, *binary[] = { &to, &at[0], &at[1], &w, &rounds };
        failed = gpu_launch(r->stream, op->name, f, ceil_div(pieces, rounds), THREADS, r->nin == 1 ? unary : binary);
    }
    gpu_drop(r->nin, hold);
    return failed;
}
