/* elementwise.c: unary and binary operations on a GPU: one kernel of each row for each type. */
#include <stdio.h>
#include <string.h>

#include "cuda/gpu.h"
#include "plan/layout.h"

enum { THREADS = 256 };

static const char *suffix_of(enum dtype t)
{
    static const char *const suffix[] = {
#define X(name, suffix, type, size, kind) [DT_##name] = #suffix,
        MX_DTYPES(X)
#undef X
    };
    return suffix[t];
}

/* The kernel of an element-wise row for operands of type t, found once. */
static void *kernel_of(struct gpu *g, const struct op *op, enum dtype t)
{
    static void *_Atomic found[MAX_GPUS][OP_COUNT][DT_COUNT];
    void *f = atomic_load_explicit(&found[g->number][op->id][t], memory_order_acquire);
    if (f)
        return f;
    char module[48], kernel[64];
    snprintf(module, sizeof module, "elementwise_%s", suffix_of(t));
    snprintf(kernel, sizeof kernel, "cu_%s_%s", op->name, suffix_of(t));
    f = gpu_kernel(g, module, kernel);
    atomic_store_explicit(&found[g->number][op->id][t], f, memory_order_release);
    return f;
}

/* Elements of a thread, as in kernels/elementwise.cu. */
static int lanes_of(enum dtype t) { return dtype_size(t) <= 2 ? 8 : 4; }

static int run_elementwise(const struct gpu_run *r)
{
    mx y = r->y[0];
    enum dtype t = (enum dtype)r->x[0]->dtype;
    struct gpu *g = gpu_stream(r->stream)->gpu;
    struct walk w;
    void *f = kernel_of(g, r->node->op, t);
    if (!f || gpu_out_new(r, 0))
        return 1;
    if (!layout_walk(&w, y, r->nin, r->x)) {
        mx_fail_as(MX_RUNTIME, "[%s] expected operands whose strides come to at most %d dimensions, got %d",
                   r->node->op->name, WALK_DIMS, y->ndim);
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
    return gpu_launch(r->stream, r->node->op->name, f, (w.n + each - 1) / each, THREADS, r->nin == 1 ? unary : binary);
}

/* ---- which operation runs how */

gpu_run_fn *gpu_runner(const struct node *n)
{
    static gpu_run_fn *const runners[OP_COUNT] = {
#define UNARY(name, ...) [OP_##name] = run_elementwise,
#define BINARY(name, ...) [OP_##name] = run_elementwise,
#include "ops/ops.def"
    };
    return n->op->id < OP_COUNT ? runners[n->op->id] : NULL;
}
