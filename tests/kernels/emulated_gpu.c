/* The CUDA backend on an emulated driver (tests/emulated/cuda.c): operations there beside the same on the CPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/stream.h"
#include "cuda/gpu.h"
#include "cuda/kernels/move.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/fast.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "ops/random.h"
#include "run/backend.h"
#include "run/eval.h"
#include "support/numbers.h"

#ifdef __SANITIZE_ADDRESS__
void __asan_poison_memory_region(const volatile void *p, size_t size);
void __asan_unpoison_memory_region(const volatile void *p, size_t size);
#define SLOW 1
#define POISON(p, size) __asan_poison_memory_region(p, size)
#define UNPOISON(p, size) __asan_unpoison_memory_region(p, size)
#else
#define SLOW 0
#define POISON(p, size) ((void)(p), (void)(size))
#define UNPOISON(p, size) ((void)(p), (void)(size))
#endif

/* ---- the backend, with memory whose end the address sanitizer knows */

enum { REST = 64 };
static struct stream *on_cpu, *on_gpu;
static struct backend guarded;

static void *guarded_alloc(struct stream *s, size_t bytes)
{
    char *p = cuda_backend.devices.alloc(s, bytes + REST);
    if (p) {
        UNPOISON(p, bytes);
        POISON(p + (bytes + 7) / 8 * 8, REST - 8);
    }
    return p;
}

static void guarded_free(struct stream *s, void *p, size_t bytes)
{
    UNPOISON(p, bytes + REST);
    cuda_backend.devices.free(s, p, bytes + REST);
}

static int begin(void **state)
{
    (void)state;
    setenv("MLX_FALLBACK", "error", 1);
    guarded = cuda_backend;
    guarded.devices.alloc = guarded_alloc;
    guarded.devices.free = guarded_free;
    devices_register(&guarded.devices);
    on_cpu = default_stream((struct device){ DEVICE_CPU, 0 });
    on_gpu = default_stream((struct device){ DEVICE_GPU, 0 });
    return !on_cpu || !on_gpu;
}

/* ---- comparing */

static const enum dtype types[] = {
#define X(name, ...) DT_##name,
    MX_DTYPES(X)
#undef X
};
enum { TYPES = sizeof types / sizeof *types };

/* Something to compute. */
struct trial {
    const char *name;
    mx (*build)(const struct trial *t, const mx x[]);
    const int *axes;
    int n;
    unsigned fold;
};

static mx on(struct stream *s, const struct trial *t, const mx x[])
{
    mx_own y = { NULL };
    {
        MX_SCOPE(s);
        mx_keep(&y, t->build(t, x));
    }
    assert_false(is_nil(y.it));
    if (mx_eval(1, &y.it) || mx_wait_host(y.it))
        fail_msg("%s: %s", t->name, mx_error_message());
    return scope_lend(y.it);
}

static const char *element(mx x, int64_t i)
{
    const char *p = array_host(x);
    for (int d = x->ndim; d-- > 0; i /= x->shape[d]) p += i % x->shape[d] * x->strides[d] * (int64_t)itemsize(x);
    return p;
}

static bool near(real a, real b, real relative, real absolute)
{
    return isnan(b) ? isnan(a) : a == b || fabsl(a - b) <= relative * fabsl(b) + absolute;
}

/* The same on both devices, floats but for so much. */
static void beside(const struct trial *t, const char *what, const mx x[], double relative, double absolute)
{
    mx want = on(on_cpu, t, x), got = on(on_gpu, t, x);
    enum dtype type = want->dtype;
    assert_int_equal(got->dtype, type);
    assert_int_equal(got->size, want->size);
    for (int64_t i = 0; i < want->size; i++) {
        cplx w = complex_of(type, element(want, i)), g = complex_of(type, element(got, i));
        bool exact = !dtype_is_inexact(type);
        real r = exact ? 0 : (real)relative, a = exact ? 0 : (real)absolute;
        if (!near(creall(g), creall(w), r, a) || !near(cimagl(g), cimagl(w), r, a))
            fail_msg("%s of %s, %s: element %lld is %Lg + %Lgi, expected %Lg + %Lgi", t->name,
                     dtype_name((enum dtype)x[0]->dtype), what, (long long)i, creall(g), cimagl(g), creall(w),
                     cimagl(w));
    }
}

/* Integers below a hundred; ordinary floats, with special ones among them if asked for. */
static mx numbers(enum dtype t, int ndim, const int *shape, bool special)
{
    mx_own x = { NULL };
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    double *v[2];
    for (int part = 0; part < 2; part++) {
        v[part] = malloc((size_t)(n ? n : 1) * sizeof(double));
        for (int64_t i = 0; i < n; i++) {
            double some[] = { INFINITY, -INFINITY, NAN, 0, -0.0, 1, -1, 2 };
            double whole = floor(uniform(dtype_kind(t) == 'i' ? -100 : 0, 100));
            v[part][i] = dtype_is_integer(t)              ? whole
                         : t == DT_bool_                  ? bits64() % 5 != 0
                         : special && bits64() % 256 == 0 ? some[bits64() % 8]
                                                          : uniform(-2, 2);
        }
    }
    {
        MX_SCOPE(on_cpu);
        mx re = mx_astype(array_of_data(DT_float64, ndim, shape, v[0]), t);
        mx im = mx_astype(array_of_data(DT_float64, ndim, shape, v[1]), t);
        mx_keep(&x, dtype_is_complex(t) ? mx_add(re, mx_multiply(im, array_of_complex(0, 1, t))) : re);
    }
    free(v[0]);
    free(v[1]);
    assert_int_equal(mx_eval(1, &x.it), 0);
    return scope_lend(x.it);
}

static mx ready(mx x)
{
    assert_int_equal(mx_eval(1, &x), 0);
    return x;
}

static double ulp_at_one(enum dtype t) { return (double)ulp_of(dtype_is_complex(t) ? DT_float32 : t, 1); }

/* ---- reductions */

static mx fold(const struct trial *t, const mx x[]) { return mx_reduce(x[0], t->fold, t->axes, t->n, true); }
static mx arg_fold(const struct trial *t, const mx x[])
{
    return mx_arg_reduce(x[0], t->fold ? ARG_MAX : ARG_MIN, t->axes[0], true);
}

static void fold_all_ways(const char *what, mx x, int n, const int *axes)
{
    static const char *const names[] = { "sum", "prod", "min", "max", "all", "any" };
    int64_t folded = n || !x->ndim ? 1 : x->size;
    for (int i = 0; i < n; i++) folded *= x->shape[axes[i]];
    double eps = ulp_at_one((enum dtype)x->dtype);
    for (unsigned f = FOLD_SUM; f <= FOLD_ANY; f++) {
        if ((f == FOLD_MIN || f == FOLD_MAX) && folded == 0)
            continue;
        if ((f == FOLD_ALL || f == FOLD_ANY) && x->dtype != DT_bool_)
            continue;
        struct trial t = { names[f], fold, axes, n, f };
        double wrong = f == FOLD_SUM && dtype_size(x->dtype) > 2 ? 4 * sqrt((double)folded) * eps : 0;
        double steps = x->dtype == DT_float64 ? (double)folded : 2;
        beside(&t, what, &x, f <= FOLD_PROD ? steps * eps : 0, wrong);
    }
    for (unsigned f = 0; f < 2 && n == 1 && folded > 0; f++)
        beside(&(struct trial){ f ? "argmax" : "argmin", arg_fold, axes, 1, f }, what, &x, 0, 0);
}

static void reductions(void **unused)
{
    (void)unused;
    static const int zero[] = { 0 }, one[] = { 1 }, two[] = { 2 }, outer[] = { 0, 2 }, inner[] = { 1, 2 };
    for (int k = 0; k < TYPES; k += SLOW ? 3 : 1) {
        MX_SCOPE(on_cpu);
        enum dtype t = types[k];
        mx flat = numbers(t, 2, (int[]){ 5, 1003 }, !dtype_is_complex(t)),
           box = numbers(t, 3, (int[]){ 6, 10, 24 }, false);
        fold_all_ways("rows", flat, 1, one);
        fold_all_ways("columns", flat, 1, zero);
        fold_all_ways("all", flat, 2, (int[]){ 0, 1 });
        fold_all_ways("aligned rows", box, 1, two);
        fold_all_ways("aligned columns", box, 1, one);
        fold_all_ways("two inner axes", box, 2, inner);
        fold_all_ways("two axes apart", box, 2, outer);
        fold_all_ways("turned", ready(mx_transpose(box, (int[]){ 2, 0, 1 }, 3)), 2, outer);
        fold_all_ways("turned, one axis", ready(mx_transpose(box, (int[]){ 2, 0, 1 }, 3)), 1, two);
        fold_all_ways("every other", ready(mx_slice_axis(flat, 1, 1, 1001, 2)), 1, one);
        fold_all_ways("every other, columns", ready(mx_slice_axis(flat, 1, 1, 1001, 2)), 1, zero);
        fold_all_ways("not aligned", ready(mx_slice_axis(flat, 1, 1, 1003, 1)), 1, one);
        fold_all_ways("backwards", ready(mx_slice_axis(flat, 1, 1002, -1004, -1)), 1, one);
        fold_all_ways("broadcast", ready(mx_broadcast_to(mx_slice_axis(box, 0, 1, 2, 1), 3, (int[]){ 4, 10, 24 })), 2,
                      outer);
        fold_all_ways("broadcast kept", ready(mx_broadcast_to(mx_slice_axis(box, 1, 1, 2, 1), 3, (int[]){ 6, 9, 24 })),
                      1, two);
        fold_all_ways("one number", ready(mx_slice_axis(mx_slice_axis(flat, 0, 1, 2, 1), 1, 5, 6, 1)), 1, one);
        fold_all_ways("nothing", numbers(t, 2, (int[]){ 0, 4 }, false), 1, zero);
        fold_all_ways("no results", numbers(t, 2, (int[]){ 0, 4 }, false), 1, one);
    }
}

/* Which of several NaN with which other part wins. */
static void complex_extremes(void **unused)
{
    (void)unused;
    MX_SCOPE(on_cpu);
    mx x = numbers(DT_complex64, 2, (int[]){ 40, 300 }, true);
    for (int axis = 0; axis < 2; axis++)
        for (unsigned f = 0; f < 2; f++) {
            beside(&(struct trial){ "extreme", fold, &axis, 1, f ? FOLD_MIN : FOLD_MAX }, "special", &x, 0, 0);
            beside(&(struct trial){ "its place", arg_fold, &axis, 1, f }, "special", &x, 0, 0);
        }
}

/* Several blocks for one result, whose parts a second launch merges. */
static void long_reductions(void **unused)
{
    (void)unused;
    static const enum dtype some[] = { DT_float32, DT_bfloat16, DT_int8, DT_complex64 };
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        MX_SCOPE(on_cpu);
        fold_all_ways("a long row", numbers(some[k], 1, (int[]){ 70001 }, false), 1, (int[]){ 0 });
        fold_all_ways("long columns", numbers(some[k], 2, (int[]){ 40001, 3 }, false), 1, (int[]){ 0 });
    }
}

/* ---- products: sizes around those of tiles and of what is read at once */

static mx product(const struct trial *t, const mx x[]) { return (void)t, mx_matmul(x[0], x[1]); }
static mx product_plus(const struct trial *t, const mx x[]) { return (void)t, mx_addmm(x[2], x[0], x[1], 0.5, 2); }

static mx transposed(mx x) { return ready(mx_swapaxes(x, 0, 1)); }

static void products(void **unused)
{
    (void)unused;
    static const int sizes[][3] = { { 1, 1, 1 },   { 3, 5, 7 },      { 65, 66, 33 },  { 130, 72, 40 }, { 64, 64, 64 },
                                    { 1, 9, 100 }, { 257, 1, 1025 }, { 1, 300, 300 }, { 9, 5, 600 },   { 2, 3, 0 } };
    for (int k = 0; k < TYPES; k += SLOW ? 2 : 1)
        for (size_t l = 0; l < sizeof sizes / sizeof *sizes; l++) {
            MX_SCOPE(on_cpu);
            enum dtype t = types[k];
            const int *s = sizes[l];
            double eps = ulp_at_one(t), sum = 4 * (s[2] + 1.0) * ulp_at_one(dtype_size(t) < 4 ? DT_float32 : t);
            mx a = numbers(t, 2, (int[]){ s[0], s[2] }, false), b = numbers(t, 2, (int[]){ s[2], s[1] }, false);
            mx at = numbers(t, 2, (int[]){ s[2], s[0] }, false), bt = numbers(t, 2, (int[]){ s[1], s[2] }, false);
            mx c = numbers(t, 2, (int[]){ s[1], s[0] }, false);
            struct trial plain = { .name = "matmul", .build = product },
                         plus = { .name = "addmm", .build = product_plus };
            beside(&plain, "rows", (mx[]){ a, b }, eps, sum);
            beside(&plain, "turned left", (mx[]){ transposed(at), b }, eps, sum);
            beside(&plain, "turned right", (mx[]){ a, transposed(bt) }, eps, sum);
            beside(&plain, "turned", (mx[]){ transposed(at), transposed(bt) }, eps, sum);
            if (dtype_is_inexact(t))
                beside(&plus, "with a turned matrix", (mx[]){ a, b, transposed(c) }, eps, sum);
        }
}

/* ---- rows: lengths around those that threads and teams take */

static mx softmax(const struct trial *t, const mx x[]) { return (void)t, mx_softmax(x[0], (int[]){ -1 }, 1, false); }
static mx logsumexp(const struct trial *t, const mx x[])
{
    return (void)t, mx_logsumexp(x[0], (int[]){ -1 }, 1, false);
}
static mx rms_norm(const struct trial *t, const mx x[]) { return (void)t, mx_rms_norm(x[0], x[1], 1e-5); }
static mx layer_norm(const struct trial *t, const mx x[]) { return (void)t, mx_layer_norm(x[0], x[1], x[1], 1e-5); }
static mx tangent(const struct trial *t, const mx x[])
{
    return (void)t, mx_infer(&op_norm_tangent, &(struct norm_tangent_args){ true, 1e-5 }, 2, (mx[]){ x[0], x[2] });
}

static void rows(void **unused)
{
    (void)unused;
    static const enum dtype floats[] = { DT_float32, DT_float16, DT_bfloat16, DT_float64 };
    static const int lengths[] = { 2, 3, 8, 31, 33, 64, 100, 1027, 4096 };
    for (size_t k = 0; k < 4; k++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            MX_SCOPE(on_cpu);
            int shape[] = { 5, lengths[l] };
            mx x[] = { numbers(floats[k], 2, shape, false), numbers(floats[k], 1, shape + 1, false),
                       numbers(floats[k], 2, shape, false) };
            double eps = 8 * ulp_at_one(floats[k]);
            beside(&(struct trial){ .name = "softmax", .build = softmax }, "rows", x, eps, eps);
            beside(&(struct trial){ .name = "logsumexp", .build = logsumexp }, "rows", x, eps, eps);
            beside(&(struct trial){ .name = "rms_norm", .build = rms_norm }, "rows", x, eps, eps);
            beside(&(struct trial){ .name = "layer_norm", .build = layer_norm }, "rows", x, eps, eps);
            beside(&(struct trial){ .name = "norm_tangent", .build = tangent }, "rows", x, eps, 64 * eps);
        }
}

/* ---- from nothing */

static mx bits_of(const struct trial *t, const mx x[])
{
    int64_t n = t->n;
    return mx_infer(&op_random_bits, &(struct random_bits_args){ { 1, &n }, (int)t->fold }, 1, x);
}
static mx numbered(const struct trial *t, const mx x[])
{
    return (void)x, mx_arange(3, 3 + 0.75 * t->n, 0.75, (enum dtype)t->fold);
}
static mx diagonal(const struct trial *t, const mx x[])
{
    return (void)x, mx_eye(t->n, 5, t->n % 3 - 1, (enum dtype)t->fold);
}

static mx count(const struct trial *t, const mx x[])
{
    int64_t axes[] = { 0, 1 };
    return mx_infer(&op_number_of_elements, &(struct number_args){ { 2, axes }, t->n, (enum dtype)t->fold }, 1, x);
}

static void from_nothing(void **unused)
{
    (void)unused;
    static const int lengths[] = { 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 64, 1021, 2000 };
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        MX_SCOPE(on_cpu);
        mx one = numbers(DT_uint32, 1, (int[]){ 2 }, false), many = numbers(DT_uint32, 2, (int[]){ 7, 2 }, false);
        for (unsigned width = 1; width <= 4; width *= 2) {
            struct trial t = { "bits", bits_of, NULL, lengths[l], width };
            beside(&t, "one key", &one, 0, 0);
            beside(&t, "many keys", &many, 0, 0);
        }
        for (int k = 0; k < TYPES; k++) {
            for (int inverted = 0; inverted < 2; inverted++)
                beside(&(struct trial){ "number_of_elements", count, NULL, inverted, types[k] }, "sizes", &many, 0, 0);
            beside(&(struct trial){ "eye", diagonal, NULL, lengths[l], types[k] }, "a diagonal", &one, 0, 0);
            if (types[k] != DT_bool_)
                beside(&(struct trial){ "arange", numbered, NULL, lengths[l], types[k] }, "a series", &one, 0, 0);
        }
    }
}

/* ---- gated delta networks: result n, with a mask or without */

static mx delta(const struct trial *t, const mx x[])
{
    mx y[2];
    mx_gated_delta(x[0], x[1], x[2], x[3], x[4], x[5], t->fold ? x[6] : NULL, y);
    return y[t->n];
}

static void deltas(void **unused)
{
    (void)unused;
    static const struct {
        int steps, keys, heads, d, e;
    } sizes[] = {
        { 1, 1, 1, 1, 1 }, { 9, 1, 2, 20, 9 }, { 40, 2, 2, 64, 6 }, { 3, 1, 1, 515, 5 }, { 11, 1, 1, 7, 130 }
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int wide = 0; wide < 2; wide++) {
            MX_SCOPE(on_cpu);
            int t = sizes[i].steps, k = sizes[i].keys, n = sizes[i].heads, d = sizes[i].d, e = sizes[i].e;
            mx some = mx_scalar_like(0.1, array_of_double(0, DT_float32));
            mx x[] = { numbers(DT_float32, 4, (int[]){ 2, t, k, d }, false),
                       mx_multiply(numbers(DT_float32, 4, (int[]){ 2, t, k, d }, false), some),
                       numbers(DT_float32, 4, (int[]){ 2, t, n, e }, false),
                       mx_sigmoid(numbers(DT_float32, 3 + wide, (int[]){ 2, t, n, d }, false)),
                       mx_sigmoid(numbers(DT_float32, 3, (int[]){ 2, t, n }, false)),
                       numbers(DT_float32, 4, (int[]){ 2, n, e, d }, false),
                       numbers(DT_bool_, 2, (int[]){ 2, t }, false) };
            for (int y = 0; y < 2; y++)
                for (unsigned masked = 0; masked < 2; masked++)
                    beside(&(struct trial){ "gated_delta_update", delta, NULL, y, masked }, "steps", x, 1e-5, 1e-4);
        }
}

/* ---- rope */

static mx turned(const struct trial *t, const mx x[])
{
    double base = 100;
    return mx_rope(x[0], t->n, t->fold, &base, 0.5, x[1], NULL);
}

static void rotations(void **unused)
{
    (void)unused;
    static const enum dtype floats[] = { DT_float32, DT_float16, DT_bfloat16, DT_float64 };
    for (size_t k = 0; k < 4; k++)
        for (int width = 4; width < 40; width += 5) {
            MX_SCOPE(on_cpu);
            mx x[] = { numbers(floats[k], 4, (int[]){ 2, 3, 5, width }, false),
                       numbers(DT_int64, 1, (int[]){ 2 }, false) };
            for (unsigned pairs = 0; pairs < 2; pairs++)
                for (int dims = 2; dims <= width; dims += 6)
                    beside(&(struct trial){ "rope", turned, NULL, dims, pairs }, "rows", x, 0,
                           8 * ulp_at_one(floats[k]));
        }
}

/* ---- attention: causal, a mask of bools or one that is added, sinks */

enum { CAUSAL = 1, MASKED = 2, ADDED = 4, SINKS = 8 };

static mx attended(const struct trial *t, const mx x[])
{
    mx mask = t->fold & MASKED ? x[3] : t->fold & ADDED ? x[4] : NULL;
    return mx_attention(x[0], x[1], x[2], 0.1, t->fold & CAUSAL, mask, t->fold & SINKS ? x[5] : NULL);
}

/* Cotangent n of what attention gives for x[6], its operands all of their shapes. */
static mx attended_back(const struct trial *t, const mx x[])
{
    struct attention_args a = { 0.1, t->fold & CAUSAL, t->fold & (MASKED | ADDED), t->fold & SINKS };
    mx in[9] = { x[0], x[1], x[2] }, y[3] = { NULL }, dx[4] = { NULL };
    int n = 3, scores[] = { x[0]->shape[0], x[0]->shape[1], x[0]->shape[2], x[1]->shape[2] };
    if (a.mask)
        in[n++] = mx_broadcast_to(x[t->fold & MASKED ? 3 : 4], 4, scores);
    if (a.sinks)
        in[n++] = mx_broadcast_to(x[5], 2, scores);
    mx_infer_n(&op_attention, &a, n, in, 3, y);
    in[n] = x[6];
    for (int i = 0; i < 3; i++) in[n + 1 + i] = y[i];
    mx_infer_n(&op_attention_vjp, &a, n + 4, in, 3 + a.sinks, dx);
    return dx[t->n];
}

static void attentions(void **unused)
{
    (void)unused;
    static const enum dtype floats[] = { DT_float32, DT_float16, DT_bfloat16, DT_float64 };
    static const unsigned kinds[] = { 0, CAUSAL, MASKED, ADDED | SINKS };
    static const struct {
        int length, keys, d, e;
    } sizes[] = { { 1, 7, 8, 8 },    { 1, 130, 64, 64 },  { 3, 600, 20, 12 }, { 5, 9, 3, 5 },
                  { 66, 130, 8, 8 }, { 20, 70, 80, 130 }, { 9, 33, 128, 24 }, { 17, 40, 260, 257 } };
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t j = SLOW ? (i + k) % 4 : 0; j < 4; j += SLOW ? 4 : 1) {
                MX_SCOPE(on_cpu);
                int length = sizes[i].length, keys = sizes[i].keys;
                enum dtype t = floats[k];
                mx x[] = { numbers(t, 4, (int[]){ 2, 4, length, sizes[i].d }, false),
                           numbers(t, 4, (int[]){ 2, 2, keys, sizes[i].d }, false),
                           numbers(t, 4, (int[]){ 2, 2, keys, sizes[i].e }, false),
                           numbers(DT_bool_, 2, (int[]){ length, keys }, false),
                           numbers(t, 4, (int[]){ 2, 1, 1, keys }, false),
                           numbers(t, 1, (int[]){ 4 }, false),
                           numbers(t, 4, (int[]){ 2, 4, length, sizes[i].e }, false) };
                double eps = (t == DT_float16 || t == DT_bfloat16 ? 4 : 64) * ulp_at_one(t);
                char what[64];
                snprintf(what, sizeof what, "%d by %d of %d and %d, kind %u", length, keys, sizes[i].d, sizes[i].e,
                         kinds[j]);
                beside(&(struct trial){ "attention", attended, NULL, 0, kinds[j] }, what, x, eps, eps);
                int n = (int)(i + j + k) % (kinds[j] & SINKS ? 4 : 3);
                beside(&(struct trial){ "attention_vjp", attended_back, NULL, n, kinds[j] }, what, x, 8 * eps, 8 * eps);
            }
}

/* ---- convolutions, and weights of what they give */

struct geometry {
    int n, x[5], w[5], stride, low, high, dilation, spread, groups;
};
static const struct geometry geometries[] = {
    { 1, { 2, 9, 8 }, { 5, 3, 8 }, 1, 1, 0, 1, 1, 1 },
    { 2, { 2, 9, 8, 3 }, { 70, 3, 2, 3 }, 2, 1, 1, 1, 1, 1 },
    { 2, { 1, 12, 13, 72 }, { 72, 3, 3, 72 }, 1, 2, 2, 2, 1, 1 },
    { 3, { 1, 4, 5, 6, 8 }, { 16, 2, 3, 2, 4 }, 1, 2, 2, 1, 2, 2 },
    { 2, { 1, 40, 50, 8 }, { 3, 5, 4, 8 }, 1, 3, 3, 1, 2, 1 }, /* few channels of many positions */
    { 1, { 1, 3, 3 }, { 4, 2, 3 }, 1, 1, 1, 1, 20, 1 },
    { 2, { 2, 9, 21, 12 }, { 12, 3, 6, 1 }, 1, 2, 1, 1, 1, 12 },
    { 2, { 2, 9, 11, 6 }, { 9, 3, 2, 2 }, 2, 1, 1, 1, 1, 3 },
    { 1, { 1, 16400, 8 }, { 66, 2, 8 }, 1, 0, 0, 1, 1, 1 },   /* as many tiles as larger ones are for */
    { 1, { 1, 32800, 40 }, { 72, 2, 40 }, 1, 0, 0, 1, 1, 1 }, /* the same for weights; slow */
};

static mx convolved(const struct trial *t, const mx x[])
{
    const struct geometry *g = &geometries[t->n];
    const int all[5][3] = { { g->stride, g->stride, g->stride },
                            { g->low, g->low, g->low },
                            { g->high, g->high, g->high },
                            { g->dilation, g->dilation, g->dilation },
                            { g->spread, g->spread, g->spread } };
    return mx_conv("conv", x[0], x[1],
                   &(struct conv){ .n = g->n,
                                   .stride = all[0],
                                   .low = all[1],
                                   .high = all[2],
                                   .dilation = all[3],
                                   .input_dilation = all[4],
                                   .groups = g->groups });
}

static mx convolved_back(const struct trial *t, const mx x[])
{
    const struct geometry *g = &geometries[t->n];
    int64_t v[5][3];
    for (int i = 0; i < 3; i++) {
        const int64_t of[5] = { g->stride, g->low, g->dilation, g->spread, g->w[1 + i] };
        for (int k = 0; k < 5; k++) v[k][i] = of[k];
    }
    struct conv_args a = { .stride = { g->n, v[0] },
                           .low = { g->n, v[1] },
                           .dilation = { g->n, v[2] },
                           .input_dilation = { g->n, v[3] },
                           .size = { g->n, v[4] },
                           .groups = g->groups };
    return mx_infer(&op_conv_weight, &a, 2, (mx[]){ x[0], x[2] });
}

static void convolutions(void **unused)
{
    (void)unused;
    static const enum dtype floats[] = { DT_float32, DT_float16, DT_bfloat16, DT_float64 };
    enum { N = sizeof geometries / sizeof *geometries };
    for (size_t k = 0; k < 4; k++)
        for (int i = SLOW ? (int)k % 2 : 0; i < N - (SLOW || k % 2); i += SLOW ? 2 : 1) {
            MX_SCOPE(on_cpu);
            const struct geometry *g = &geometries[i];
            mx x[3] = { numbers(floats[k], g->n + 2, g->x, false), numbers(floats[k], g->n + 2, g->w, false) };
            struct trial t = { "conv", convolved, NULL, i, 0 };
            mx y = ready(convolved(&t, x));
            x[2] = numbers(floats[k], y->ndim, y->shape, false);
            double eps = ulp_at_one(floats[k]), one = dtype_size(floats[k]) > 2 ? eps : ulp_at_one(DT_float32);
            double taps = (double)x[1]->size / g->w[0], positions = (double)y->size / dim(y, -1);
            char what[32];
            snprintf(what, sizeof what, "geometry %d", i);
            beside(&t, what, x, 2 * eps, 4 * one * taps);
            beside(&(struct trial){ "conv_weight", convolved_back, NULL, i, 0 }, what, x, 2 * eps, 4 * one * positions);
        }
}

/* ---- packed weights: the parts in turn, and products */

static const struct {
    const char *mode;
    int bits, group;
} packed[] = { { "affine", 1, 32 }, { "affine", 2, 64 }, { "affine", 3, 32 }, { "affine", 4, 64 }, { "affine", 5, 128 },
               { "affine", 6, 32 }, { "affine", 8, 64 }, { "mxfp4", 4, 32 },  { "mxfp8", 8, 32 },  { "nvfp4", 4, 16 } };

static mx one_part(const struct trial *t, const mx x[])
{
    mx part[3];
    int n = mx_quantize(x[0], packed[t->fold].group, packed[t->fold].bits, packed[t->fold].mode, NULL, part);
    return part[t->n < n ? t->n : 0];
}
static mx back(const struct trial *t, const mx x[])
{
    return mx_dequantize(x[0], x[1], x[2], packed[t->fold].group, packed[t->fold].bits, packed[t->fold].mode, NULL,
                         &(enum dtype){ t->n });
}
static mx times(const struct trial *t, const mx x[])
{
    return mx_quantized_matmul(x[0], x[1], x[2], x[3], t->n, packed[t->fold].group, packed[t->fold].bits,
                               packed[t->fold].mode);
}

static void packed_weights(void **unused)
{
    (void)unused;
    static const enum dtype floats[] = { DT_float32, DT_float16, DT_bfloat16 };
    for (size_t k = 0; k < 3; k++)
        for (unsigned f = 0; f < sizeof packed / sizeof *packed; f++) {
            MX_SCOPE(on_cpu);
            enum dtype t = floats[k];
            int columns = 3 * packed[f].group;
            mx w = numbers(t, 2, (int[]){ 7, columns }, false), part[3] = { NULL };
            int n = mx_quantize(w, packed[f].group, packed[f].bits, packed[f].mode, NULL, part);
            for (int i = 0; i < n; i++) {
                beside(&(struct trial){ "quantize", one_part, NULL, i, f }, packed[f].mode, &w, 0, 0);
                ready(part[i]);
            }
            double eps = 8 * ulp_at_one(t);
            beside(&(struct trial){ "dequantize", back, NULL, (int)t, f }, packed[f].mode, part, eps, 8 * eps);
            for (int m = 1; m < 70; m = 3 * m + 1)
                for (int transpose = 0; transpose < 2; transpose++) {
                    mx in[] = { numbers(t, 2, (int[]){ m, transpose ? columns : 7 }, false), part[0], part[1],
                                part[2] };
                    beside(&(struct trial){ "quantized_matmul", times, NULL, transpose, f }, packed[f].mode, in, eps,
                           columns * eps);
                }
        }
}

/* ---- running folds */

static mx running(const struct trial *t, const mx x[])
{
    return mx_scan(x[0], t->fold, t->n, t->fold % 2, t->fold > 2);
}

static void scans(void **unused)
{
    (void)unused;
    for (int k = 0; k < TYPES; k++)
        for (unsigned f = SCAN_SUM; f <= SCAN_LOGSUMEXP; f++) {
            MX_SCOPE(on_cpu);
            enum dtype t = types[k];
            if (f == SCAN_LOGSUMEXP && (!dtype_is_float(t) || dtype_is_complex(t)))
                continue;
            double eps = (t == DT_float64 ? 1024 : 8) * ulp_at_one(t);
            for (int axis = 0; axis < 2; axis++) {
                struct trial r = { "scan", running, NULL, axis, f };
                mx x = numbers(t, 2, (int[]){ 11, 37 }, false);
                beside(&r, "rows", &x, eps, eps);
                x = ready(mx_slice_axis(numbers(t, 2, (int[]){ 3, 2065 }, false), 1, 1, 65, 1));
                beside(&r, "not aligned", &x, eps, eps);
            }
        }
    MX_SCOPE(on_cpu);
    mx x[] = { numbers(DT_int32, 2, (int[]){ 1, 33001 }, false), numbers(DT_int16, 2, (int[]){ 1200, 3 }, false) };
    beside(&(struct trial){ "scan", running, NULL, 1, SCAN_SUM }, "a long row", &x[0], 0, 0);
    beside(&(struct trial){ "scan", running, NULL, 0, SCAN_PROD }, "long columns", &x[1], 0, 0);
}

/* ---- rows in order */

static mx ordered(const struct trial *t, const mx x[]) { return t->n ? mx_argsort(x[0], -1) : mx_sort(x[0], -1); }

static void orders(void **unused)
{
    (void)unused;
    static const int lengths[] = { 1, 3, 33, 2048, 2051 };
    for (int k = 0; k < TYPES; k++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (int places = 0; places < 2 && types[k] != DT_complex64; places++) {
                MX_SCOPE(on_cpu);
                mx x = numbers(types[k], 2, (int[]){ 3, lengths[l] }, true);
                beside(&(struct trial){ "sort", ordered, NULL, places, 0 }, "rows", &x, 0, 0);
            }
}

/* ---- groups */

static int launches;
static int (*launch_with)(const void *, void *, void **, void **);
static int count_launch(const void *config, void *f, void **args, void **extra)
{
    launches++;
    return launch_with(config, f, args, extra);
}

/* (x + y) * x where that is less than y, a row that is broadcast: five members, three operands. */
static mx chain(const struct trial *t, const mx x[])
{
    mx row = mx_broadcast_to(x[2], 2, x[0]->shape), sum = mx_add(x[0], x[1]), y = mx_multiply(sum, x[0]);
    return (void)t, mx_where(mx_less(y, x[1]), mx_subtract(y, row), x[1]);
}

static void groups(void **unused)
{
    (void)unused;
    launch_with = cu.launch_with;
    cu.launch_with = count_launch;
    for (int k = 0; k < TYPES; k++)
        for (int n = 1; n < 4000; n = 3 * n + 2) {
            MX_SCOPE(on_cpu);
            enum dtype t = types[k];
            if (t == DT_bool_)
                continue;
            mx x[] = { numbers(t, 2, (int[]){ 3, n }, false), numbers(t, 2, (int[]){ 3, n }, false),
                       numbers(t, 1, &n, false) };
            bool one = dtype_size(t) == 4 || dtype_is_half(t);
            launches = 0;
            beside(&(struct trial){ "a group", chain, NULL, 0, 0 }, "rows", x, 0, 0);
            for (int i = 0; i < 3; i++)
                launches -= x[i]->buf->bytes <= SENT_BYTES; /* which go to the device with one */
            if (one)
                assert_int_equal(launches, 1);
            x[0] = ready(mx_slice_axis(x[0], 1, n - 1, -n - 1, -1));
            x[1] = ready(mx_broadcast_to(mx_slice_axis(x[1], 1, 0, 1, 1), 2, (int[]){ 3, n }));
            beside(&(struct trial){ "a group", chain, NULL, 0, 0 }, "of other strides", x, 0, 0);
        }
    cu.launch_with = launch_with;
}

/* ---- arrays of indices, many of which are out of range */

static mx take(const struct trial *t, const mx x[]) { return mx_take(x[0], x[1], t->n); }
static mx take_along(const struct trial *t, const mx x[]) { return mx_take_along_axis(x[0], x[1], t->n); }
static mx put_along(const struct trial *t, const mx x[])
{
    mx u = mx_take_along_axis(x[0], mx_negative(x[1]), t->n);
    return t->fold ? mx_scatter_add_axis(x[0], x[1], u, t->n) : mx_put_along_axis(x[0], x[1], u, t->n);
}
/* Slices of two along an axis, which overlap, at places of two axes. */
static mx gather_slices(const mx x[])
{
    return mx_gather(x[0], (mx[]){ x[1], x[2] }, (int[]){ 0, 1 }, 2, (int[]){ 1, 2, dim(x[0], 2) });
}
static mx slices(const struct trial *t, const mx x[]) { return (void)t, gather_slices(x); }
static mx scatter_slices(const struct trial *t, const mx x[])
{
    return mx_scatter(x[0], (mx[]){ x[1], x[2] }, (int[]){ 0, 1 }, 2, gather_slices((mx[]){ x[0], x[2], x[1] }),
                      (enum scatter_fold)t->fold);
}
static mx scatter_rows(const struct trial *t, const mx x[])
{
    mx u = mx_gather(x[0], (mx[]){ x[2] }, (int[]){ 0 }, 1, (int[]){ 1, dim(x[0], 1), dim(x[0], 2) });
    return mx_scatter(x[0], (mx[]){ x[1] }, (int[]){ 0 }, 1, u, (enum scatter_fold)t->fold);
}
static mx corner(const struct trial *t, const mx x[])
{
    int axes[] = { 1, 0 };
    mx part = mx_slice_dynamic(x[0], x[3], axes, 2, (int[]){ 40, 3, dim(x[0], 2) });
    return t->n ? mx_slice_update_dynamic(x[0], part, mx_negative(x[3]), axes, 2) : part;
}

static void all_lookups(const char *what, const mx x[])
{
    for (int axis = 0; axis < 3; axis++) {
        beside(&(struct trial){ "take", take, NULL, axis, 0 }, what, x, 0, 0);
        mx along[] = { x[0], ready(mx_broadcast_to(
                                 mx_reshape(x[1], 3, (int[]){ 1, 1, -1 }), 3,
                                 (int[]){ axis ? dim(x[0], 0) : 7, axis == 1 ? 7 : dim(x[0], 1), dim(x[1], 0) })) };
        if (axis == 2 || dim(x[0], 2) == dim(x[1], 0)) {
            beside(&(struct trial){ "take_along_axis", take_along, NULL, axis, 0 }, what, along, 0, 0);
            beside(&(struct trial){ "put_along_axis", put_along, NULL, axis, 0 }, what, along, 0, 0);
            beside(&(struct trial){ "scatter_add_axis", put_along, NULL, axis, 1 }, what, along, 0, 0);
        }
    }
    beside(&(struct trial){ .name = "slices", .build = slices }, what, x, 0, 0);
    for (unsigned f = SCATTER_SET; f <= SCATTER_MIN; f++) {
        beside(&(struct trial){ "scatter of slices", scatter_slices, NULL, 0, f }, what, x, 0, 0);
        beside(&(struct trial){ "scatter of rows", scatter_rows, NULL, 0, f }, what, x, 0, 0);
    }
    beside(&(struct trial){ "slice", corner, NULL, 0, 0 }, what, x, 0, 0);
    beside(&(struct trial){ "slice_update", corner, NULL, 1, 0 }, what, x, 0, 0);
}

static void lookups(void **unused)
{
    (void)unused;
    static const enum dtype index[] = { DT_int8, DT_int32, DT_int64, DT_uint8, DT_uint16, DT_uint64 };
    for (int k = 0; k < TYPES; k += SLOW ? 3 : 1) {
        MX_SCOPE(on_cpu);
        enum dtype of = index[k % 6];
        for (int width = 1; width < 40; width = 3 * width + 1) {
            mx x[] = { numbers(types[k], 3, (int[]){ 60, 9, width }, false), numbers(of, 1, (int[]){ 50 }, false),
                       numbers(of, 1, (int[]){ 50 }, false), numbers(of, 1, (int[]){ 2 }, false) };
            all_lookups("rows", x);
            x[0] = ready(mx_slice_axis(mx_transpose(x[0], (int[]){ 0, 2, 1 }, 3), 1, -1, -width - 1, -1));
            if (width >= 3)
                all_lookups("turned", x);
        }
        mx many[] = { numbers(types[k], 3, (int[]){ 60, 9, 2 }, false), numbers(of, 1, (int[]){ 5000 }, false),
                      numbers(of, 1, (int[]){ 5000 }, false) };
        beside(&(struct trial){ "scatter of many", scatter_rows, NULL, 0, SCATTER_ADD }, "rows", many, 0, 0);
        beside(&(struct trial){ "scatter of many", scatter_slices, NULL, 0, SCATTER_SET }, "rows", many, 0, 0);
    }
}

/* Libraries choose algorithms by it. */
static void alignment(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 5000; bytes += 61) {
        void *p = cuda_backend.devices.alloc(on_gpu, bytes);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 256, 0);
        cuda_backend.devices.free(on_gpu, p, bytes);
    }
}

/* ---- copies of large memory, whose pieces fail one after the other */

static int copies_until_failure;
static struct cuda_driver whole;

static int no_more_copies(void) { return copies_until_failure-- <= 0 ? CUDA_OUT_OF_MEMORY : CUDA_SUCCESS; }

static int failing_to_device(uint64_t to, const void *from, size_t bytes, void *stream)
{
    int e = no_more_copies();
    return e ? e : whole.copy_to_device(to, from, bytes, stream);
}

static int failing_to_host(void *to, uint64_t from, size_t bytes, void *stream)
{
    int e = no_more_copies();
    return e ? e : whole.copy_to_host(to, from, bytes, stream);
}

/* There and back, of which that many copies of pieces go well.  Returns whether all did. */
static bool copied(mx_own *x, int well)
{
    copies_until_failure = well;
    struct buffer *b = buffer_new_on(on_gpu, x->it->buf->bytes), *of = x->it->buf;
    bool good = b && !buffer_bring(of, on_gpu) &&
                !on_gpu->on->from_peer(on_gpu, buffer_on(b, on_gpu), on_gpu, buffer_on(of, on_gpu), b->bytes);
    if (good)
        buffer_made(b, on_gpu);
    good = good && !buffer_bring_host(b);
    assert_true(good || mx_error_kind() == MX_MEMORY);
    assert_true(!good || !memcmp(b->host, of->host, b->bytes));
    mx_error_clear();
    buffer_release(b);
    return good;
}

static void failing_copies(void **unused)
{
    (void)unused;
    enum { PIECES = 6, N = 21 << 20 };
    whole = cu;
    cu.copy_to_device = failing_to_device;
    cu.copy_to_host = failing_to_host;
    for (int well = 0; well <= 2 * PIECES; well++) {
        mx_own x = { NULL };
        {
            MX_SCOPE(on_cpu);
            mx_keep(&x, mx_arange(0, N / 8, 1, DT_int64));
        }
        assert_false(mx_eval(1, &x.it));
        assert_int_equal(copied(&x, well), well == 2 * PIECES);
        assert_true(copied(&x, 2 * PIECES)); /* the next ones find all pieces well */
        mx_drop(&x);
    }
    cu = whole;
}

/* What was freed on another GPU goes back to the driver while work is queued on the first. */
static void memory_of_another(void **unused)
{
    (void)unused;
    enum { BYTES = 4 << 20 };
    memory_clear_cache(); /* of what others left on the first, which would be in use again then */
    struct stream *another = default_stream((struct device){ DEVICE_GPU, 1 });
    void *p = cuda_backend.devices.alloc(another, BYTES);
    assert_non_null(p);
    cuda_backend.devices.free(another, p, BYTES);
    assert_non_null(gpu_use_stream(on_gpu));
    memory_clear_cache();
    assert_int_equal(gpu_used()->number, 0);
    void *stream = gpu_direct(gpu_stream(on_gpu));
    assert_int_equal(cu.stream_wait(stream), 0);
}

int main(void)
{
    setenv("PRETEND_DEVICES", "2", 1);
    setenv("MLX_DETERMINISTIC", "1", 1); /* half types are rounded after each of what is added, as on the CPU */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions), cmocka_unit_test(complex_extremes), cmocka_unit_test(long_reductions),
        cmocka_unit_test(rows),       cmocka_unit_test(from_nothing),     cmocka_unit_test(rotations),
        cmocka_unit_test(deltas),     cmocka_unit_test(packed_weights),   cmocka_unit_test(scans),
        cmocka_unit_test(orders),     cmocka_unit_test(groups),           cmocka_unit_test(lookups),
        cmocka_unit_test(products),   cmocka_unit_test(attentions),       cmocka_unit_test(convolutions),
        cmocka_unit_test(alignment),  cmocka_unit_test(failing_copies),   cmocka_unit_test(memory_of_another),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
