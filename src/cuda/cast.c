/* cast.c: conversions between types. */
#include "cuda/kernels/cast.h"
#include "cuda/gpu.h"
#include "plan/layout.h"

int gpu_run_astype(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    mx x = r->x[0], y = r->y[0];
    mx_own hold = { 0 };
    struct cast_args a = { .to = (int32_t)y->dtype };
    void *f = gpu_find(gpu_of(r), &found[x->dtype], "cast", "cast", (enum dtype)x->dtype);
    int failed = !f || gpu_out_new(r, 0);
    if (!failed && !layout_walk(&a.w, y, 1, &x)) {
        failed = is_nil(x = gpu_row_major(r, x, &hold));
        layout_walk(&a.w, y, 1, &x);
    }
    if (!failed) {
        a.y = gpu_pointer(r, y);
        a.x = gpu_pointer(r, x);
        a.w.aligned = ((uint64_t)a.y | (uint64_t)a.x) % 16 == 0;
        void *args[] = { &a };
        failed =
            gpu_launch(r->stream, r->node->op->name, f, ceil_div(a.w.n, CAST_THREADS * CAST_EACH), CAST_THREADS, args);
    }
    mx_drop(&hold);
    return failed;
}
