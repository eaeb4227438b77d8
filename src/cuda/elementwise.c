/* elementwise.c: unary and binary operations on a GPU: one kernel of each row for each type. */
#include "cuda/gpu.h"
#include "plan/layout.h"

enum { THREADS = 256 };

/* Elements of a thread, as in kernels/elementwise.cu. */
static int lanes_of(enum dtype t) { return dtype_size(t) <= 2 ? 8 : 4; }

int gpu_run_elementwise(const struct gpu_run *r)
{
    mx y = r->y[0];
    enum dtype t = (enum dtype)r->x[0]->dtype;
    struct gpu *g = gpu_stream(r->stream)->gpu;
    static struct gpu_found found[OP_COUNT][DT_COUNT];
    const struct op *op = r->node->op;
    struct walk w;
    void *f = gpu_find(g, &found[op->id][t], "elementwise", op->name, t);
    if (!f || gpu_out_new(r, 0))
        return 1;
    if (!layout_walk(&w, y, r->nin, r->x)) {
        mx_fail_as(MX_RUNTIME, "[%s] expected operands whose strides come to at most %d dimensions, got %d",
                   op->name, WALK_DIMS, y->ndim);
        return 1;
    }
    uint64_t to = gpu_address(r, y), at[2] = { 0 };
    uint64_t low = to;
    for (int i = 0; i < r->nin; i++) {
        at[i] = gpu_address(r, r->x[i]);
        low |= w.step[i] ? at[i] : 0;
    }
    w.aligned = low % 16 == 0;
    int64_t each = (int64_t)THREADS * lanes_of(t);
    void *unary[] = { &to, &at[0], &w }, *binary[] = { &to, &at[0], &at[1], &w };
    return gpu_launch(r->stream, op->name, f, (w.n + each - 1) / each, THREADS, r->nin == 1 ? unary : binary);
}
