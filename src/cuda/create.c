/* create.c: arrays made from nothing, on a GPU. */
#include "cuda/kernels/create.h"
#include "core/scope.h"
#include "cuda/gpu.h"
#include "ops/create.h"
#include "plan/series.h"
#include "shared/scalar.h"

static int launch_creation(const struct run *r, struct gpu_found *slot, const char *kernel, void *args)
{
    enum { BLOCK = CREATE_THREADS * CREATE_ROUNDS * 16 };
    void *f = gpu_find(gpu_of(r), slot, "create", kernel, DT_COUNT);
    return !f || gpu_launch(r->stream, r->node->op->name, f, ceil_div(nbytes(r->y[0]), BLOCK), CREATE_THREADS,
                            (void *[]){ args });
}

/* ---- series */

static int launch_series(const struct run *r, struct series s)
{
    static struct gpu_found found[3];
    static const char *const kernels[] = {
        [SERIES_I64] = "series_i64", [SERIES_F32] = "series_f32", [SERIES_F64] = "series_f64"
    };
    mx y = r->y[0];
    if (gpu_out_new(r, 0))
        return 1;
    struct series_args a = { .y = gpu_pointer(r, y), .n = y->size, .to = (int32_t)y->dtype, .s = s };
    return launch_creation(r, &found[s.in], kernels[s.in], &a);
}

int gpu_run_arange(const struct run *r)
{
    return launch_series(r, series_of_arange(r->args, (enum dtype)r->y[0]->dtype));
}
int gpu_run_linspace(const struct run *r) { return launch_series(r, series_of_linspace(r->args)); }

/* ---- diagonals */

/* The bits of a 1. */
static uint64_t one_of(enum dtype t)
{
    switch (t) {
    case DT_float16: return f16_from_f32(1);
    case DT_bfloat16: return bf16_from_f32(1);
    case DT_float32:
    case DT_complex64: return bits_f32(1);
    case DT_float64: return bits_f64(1);
    default: return 1;
    }
}

/* Element (r, r + k) has the number r (m + 1) + k. */
int gpu_run_eye(const struct run *r)
{
    static struct gpu_found found;
    const struct eye_args *e = r->args;
    mx y = r->y[0];
    if (gpu_out_new(r, 0))
        return 1;
    const int64_t period = (int64_t)e->m + 1, k = e->k, first = greatest(0, -k), last = least(e->n, e->m - k);
    struct gpu_diagonal_args a = { .y = gpu_pointer(r, y),
                                   .n = y->size,
                                   .begin = first < last ? first * period + k : 0,
                                   .end = first < last ? last * period + k : 0,
                                   .one = one_of((enum dtype)y->dtype),
                                   .period = (uint32_t)period,
                                   .shift = (uint32_t)((period - k % period) % period),
                                   .step = (uint32_t)(CREATE_THREADS * 16 / itemsize(y) % period),
                                   .size = (int32_t)itemsize(y) };
    return launch_creation(r, &found, "diagonal", &a);
}

/* ---- one number that the host knows */

int gpu_run_number_of_elements(const struct run *r)
{
    MX_SCOPE(NULL);
    mx n = number_of_elements(r->x[0], r->args), y = r->y[0];
    struct stream *s = r->stream;
    return is_nil(n) || gpu_out_new(r, 0) || s->on->to_device(s, gpu_pointer(r, y), array_host(n), itemsize(n));
}
