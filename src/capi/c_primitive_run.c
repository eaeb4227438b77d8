/* c_primitive_run.c: what a primitive's evaluation sees and may ask for. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "capi/primitive_run.h"
#include "core/buffer.h"
#include "core/pool.h"
#include "core/shape.h"
#include "run/backend.h"
#include "run/eval.h"

/* Without gaps, the first axis fastest. */
static bool column_major(mx x)
{
    int64_t s = 1;
    for (int i = 0; i < x->ndim; i++) {
        if (x->shape[i] != 1 && x->strides[i] != s)
            return false;
        s *= x->shape[i];
    }
    return true;
}

static void describe_array(mlx_run_array *a, mx x, const struct plugin_run *r)
{
    char *there = x->buf && r->on == DEVICE_GPU ? buffer_on(x->buf, r->stream) : NULL;
    char *base = there ? there : x->buf ? x->buf->host : NULL;
    *a = (mlx_run_array){ .data = base ? base + x->offset * (int64_t)itemsize(x) : NULL,
                          .dtype = (mlx_dtype)x->dtype,
                          .ndim = x->ndim,
                          .shape = x->shape,
                          .strides = x->strides,
                          .size = x->size,
                          .row_contiguous = x->row,
                          .col_contiguous = column_major(x) };
}

static bool on_device(const struct plugin_run *r) { return r->on == DEVICE_GPU; }

int run_open(struct mlx_run_ *run, const char *name, const struct plugin_run *r)
{
    mlx_run_array *a = mx_malloc((size_t)(r->nin + r->nout) * sizeof *a);
    if (!a)
        return 1;
    *run = (struct mlx_run_){ name, r, a, a + r->nin };
    for (int i = 0; i < r->nin; i++) describe_array(&run->x[i], r->x[i], r);
    for (int k = 0; k < r->nout; k++) {
        mx y = r->y[k];
        run->y[k] = (mlx_run_array){ .dtype = (mlx_dtype)y->dtype,
                                     .ndim = y->ndim,
                                     .shape = y->shape,
                                     .strides = y->strides,
                                     .size = y->size,
                                     .row_contiguous = true,
                                     .col_contiguous = false };
    }
    return 0;
}

/* After mx_fail: nothing of result k is left, nor of an operand whose memory it has. */
static void give_up(const struct plugin_run *r, int k)
{
    struct buffer *b = r->y[k]->buf;
    r->y[k]->buf = NULL;
    for (int i = 0; b && i < r->nin; i++)
        if (r->x[i]->buf == b)
            mx_lose(r->x[i]);
    buffer_release(b);
}

int run_close(struct mlx_run_ *run, int status)
{
    const struct plugin_run *r = run->r;
    if (status && !mx_failed())
        mx_fail_as(MX_RUNTIME, "[%s] expected the rule of evaluation to return 0, got %d", run->name, status);
    for (int k = 0; k < r->nout && !mx_failed(); k++)
        if (!r->y[k]->buf && r->y[k]->size)
            mx_fail_as(MX_RUNTIME, "[%s] the rule of evaluation gave result %d no memory", run->name, k);
        else if (!r->y[k]->buf)
            r->fresh(r->of, k);
    for (int k = 0; k < r->nout && mx_failed(); k++) give_up(r, k);
    free(run->x);
    return mx_failed();
}

size_t mlx_run_num_inputs(const mlx_run run) { return run ? (size_t)run->r->nin : 0; }
size_t mlx_run_num_outputs(const mlx_run run) { return run ? (size_t)run->r->nout : 0; }

const mlx_run_array *mlx_run_input(const mlx_run run, size_t i)
{
    return run && i < (size_t)run->r->nin ? &run->x[i] : NULL;
}

const mlx_run_array *mlx_run_output(const mlx_run run, size_t k)
{
    return run && k < (size_t)run->r->nout ? &run->y[k] : NULL;
}

/* Result k, which has no memory yet; NULL after a failure, which stays with the evaluation. */
static mx result(mlx_run run, size_t k)
{
    if (!run || mx_failed())
        return NULL;
    if (k >= (size_t)run->r->nout)
        mx_fail_as(MX_RUNTIME, "[%s] expected the number of one of %d results, got %zu", run->name, run->r->nout, k);
    else if (run->r->y[k]->buf)
        mx_fail_as(MX_RUNTIME, "[%s] result %zu has memory already", run->name, k);
    return mx_failed() ? NULL : run->r->y[k];
}

static mx run_operand(mlx_run run, size_t i)
{
    if (i < (size_t)run->r->nin)
        return run->r->x[i];
    mx_fail_as(MX_RUNTIME, "[%s] expected the number of one of %d operands, got %zu", run->name, run->r->nin, i);
    return NULL;
}

int mlx_run_alloc(mlx_run run, size_t k)
{
    mx y = result(run, k);
    if (!y || run->r->fresh(run->r->of, (int)k))
        return 1;
    describe_array(&run->y[k], y, run->r);
    return 0;
}

int mlx_run_alloc_like(mlx_run run, size_t k, size_t i)
{
    mx y = result(run, k), x = y ? run_operand(run, i) : NULL;
    if (!x)
        return 1;
    if (!same_shape(x, y) || (!x->row && !column_major(x))) {
        mx_fail_as(MX_RUNTIME, "[%s] expected operand %zu to be contiguous and of shape %s as result %zu, got shape %s",
                   run->name, i, shape_of(y), k, shape_of(x));
        return 1;
    }
    if (run->r->fresh(run->r->of, (int)k))
        return 1;
    if (!x->row) {
        memcpy(y->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
        array_note_layout(y);
    }
    describe_array(&run->y[k], y, run->r);
    return 0;
}

int mlx_run_alloc_over(mlx_run run, size_t k, size_t i)
{
    mx y = result(run, k);
    if (!y || !run_operand(run, i) || run->r->over(run->r->of, (int)k, (int)i))
        return 1;
    describe_array(&run->y[k], y, run->r);
    return 0;
}

mlx_stream mlx_run_stream(const mlx_run run) { return (mlx_stream){ run ? run->r->stream : NULL }; }

int mlx_run_launch(mlx_run run, const char *library, const char *kernel, const int blocks[3], const int threads[3],
                   const void *const *args, size_t args_num)
{
    mlx_library_kind kind;
    if (!run || mx_failed())
        return 1;
    struct launch l = {
        .library = library, .kernel = kernel, .blocks = blocks, .threads = threads, .args = args, .nargs = args_num
    };
    const struct backend *be = backend_of(run->r->stream);
    if (!library || !kernel || !blocks || !threads || (!args && args_num))
        return mlx_run_error(run, "expected a library, a kernel, sizes and arguments to launch, got null");
    if (!on_device(run->r) || !be->launch)
        return mlx_run_error(run, "kernel %s: %s runs no kernels of CUDA libraries", kernel,
                             device_text(run->r->stream->device));
    if (!library_find(library, &kind, &l.code, &l.size) || !l.code)
        return mlx_run_error(run, "kernel %s: no library of device code is registered as '%s'", kernel, library);
    for (int i = 0; i < 3; i++)
        if (blocks[i] <= 0 || threads[i] <= 0)
            return mlx_run_error(run, "kernel %s: expected positive sizes of grid and block, got %d and %d", kernel,
                                 blocks[i], threads[i]);
    l.is_source = kind == MLX_LIBRARY_CUDA_SOURCE;
    return be->launch(run->r->stream, &l);
}

int mlx_run_error(mlx_run run, const char *format, ...)
{
    char msg[2048];
    va_list args;
    va_start(args, format);
    int n = format ? vsnprintf(msg, sizeof msg, format, args) : -1;
    va_end(args);
    mx_fail_as(MX_RUNTIME, "[%s] %s", run ? run->name : "eval", n < 0 ? "failed" : msg);
    return 1;
}

/* ---- threads */

struct work {
    void (*fn)(void *ctx, size_t begin, size_t end);
    void *ctx;
    size_t first;
    const char *rule; /* whose work it is: evaluating is an error on every thread that does a part of it */
};

static void part_of_run(void *ctx, int64_t begin, int64_t end)
{
    const struct work *w = ctx;
    const char *was = eval_forbid(w->rule);
    w->fn(w->ctx, w->first + (size_t)begin, w->first + (size_t)end);
    eval_forbid(was);
}

void mlx_parallel_for(size_t n, size_t grain, void (*fn)(void *ctx, size_t begin, size_t end), void *ctx)
{
    struct work w = { fn, ctx, 0, eval_forbid(NULL) };
    eval_forbid(w.rule);
    grain = grain ? grain : 1;
    if (!fn || !n)
        return;
    if (grain >= n || grain > INT64_MAX) {
        fn(ctx, 0, n);
        return;
    }
    for (size_t most = INT64_MAX / grain * grain; w.first < n; w.first += most) {
        size_t left = n - w.first;
        pool_for((int64_t)(left < most ? left : most), (int64_t)grain, part_of_run, &w);
        if (left <= most)
            return;
    }
}
