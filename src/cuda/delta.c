/* delta.c: the linear attention of gated delta networks on a GPU. */
#include "cuda/kernels/delta.h"
#include "core/shape.h"
#include "cuda/gpu.h"
#include "ops/delta.h"

enum { Q, K, V, GAMMA, BETA, STATE, MASK, OPERANDS };

/* How threads share rows, and how many steps are in shared memory at once. */
static void lay_out(struct delta_call *c, int64_t item)
{
    c->team = gpu_power_of_two(ceil_div(c->d, DELTA_HELD), 32);
    int rows = DELTA_THREADS / c->team;
    c->padded = c->team * DELTA_HELD;
    c->row_blocks = (int32_t)ceil_div(c->e, rows);
    int64_t step = ((2 + c->wide) * c->padded + rows + 2) * item + 1;
    c->tile = (int32_t)least(DELTA_BYTES / step, DELTA_STEPS);
}

int gpu_run_gated_delta(const struct run *r)
{
    static struct gpu_found found[2][DT_COUNT];
    const struct gated_delta_args *args = r->args;
    enum dtype t = (enum dtype)r->y[0]->dtype;
    mx x[OPERANDS] = { NULL };
    mx_own hold[OPERANDS] = { 0 };
    struct gpu *g = gpu_of(r);
    for (int i = 0; i < r->nin; i++) x[i] = r->x[i];
    struct delta_call c = { .batch = dim(x[V], 0),
                            .steps = dim(x[V], 1),
                            .heads = dim(x[V], 2),
                            .shared = dim(x[V], 2) / dim(x[K], 2),
                            .d = dim(x[K], 3),
                            .e = dim(x[V], 3),
                            .wide = dim(x[GAMMA], 3) == dim(x[K], 3) };
    bool is_long = c.d > 32 * DELTA_HELD;
    void *kernel = gpu_find(g, &found[is_long][t], "delta", is_long ? "gated_delta_long" : "gated_delta", t);
    if (!kernel || gpu_out_new(r, 0) || gpu_out_new(r, 1))
        return 1;
    int64_t rows = (int64_t)c.batch * c.heads * c.e, blocks = ceil_div(rows, DELTA_THREADS / 32);
    if (rows == 0)
        return 0;
    bool failed = false;
    for (int i = 0; i < r->nin && !failed; i++) failed = i != STATE && is_nil(x[i] = gpu_row_major(r, x[i], &hold[i]));
    if (!failed) {
        const void **at[] = { &c.q, &c.k, &c.v, &c.gamma, &c.beta, &c.state };
        for (int i = Q; i <= STATE; i++) *at[i] = gpu_pointer(r, x[i]);
        for (int i = 0; i < 4; i++) c.state_stride[i] = x[STATE]->strides[i];
        c.mask = args->mask ? gpu_pointer(r, x[MASK]) : NULL;
        c.y = gpu_pointer(r, r->y[0]);
        c.last = gpu_pointer(r, r->y[1]);
        int64_t lanes = 16 / (int64_t)dtype_size(t);
        uint64_t low = (uint64_t)c.q | (uint64_t)c.k | (c.wide ? (uint64_t)c.gamma : 0);
        c.whole = c.d % lanes == 0 && low % 16 == 0;
        c.e_whole = c.e % lanes == 0 && (uint64_t)c.v % 16 == 0;
        if (!is_long) {
            lay_out(&c, (int64_t)dtype_size(t));
            blocks = (int64_t)c.batch * c.heads * c.row_blocks;
        }
        failed = gpu_launch(r->stream, r->node->op->name, kernel, blocks, DELTA_THREADS, (void *[]){ &c });
    }
    gpu_drop(OPERANDS, hold);
    return failed;
}
