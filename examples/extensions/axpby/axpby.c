/* axpby.c: z = alpha x + beta y as a primitive: how it is computed, and how it behaves in transforms. */
#define _GNU_SOURCE
#include "axpby.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "axpby.cu"

/* The state of one use. */
struct params {
    float alpha, beta;
};

/* On the CPU */

struct work {
    struct params p;
    const mlx_run_array *x, *y, *z;
    void (*run)(const struct work *w, const char *x, int64_t sx, const char *y, int64_t sy, size_t at, size_t n);
};

/* One row: n elements of z from number `at` on, of operands with strides sx and sy. */
#define ROW(name, T)                                                                                                 \
    static void row_##name(const struct work *w, const char *px, int64_t sx, const char *py, int64_t sy, size_t at,  \
                           size_t n)                                                                                 \
    {                                                                                                                \
        const T *x = (const T *)px, *y = (const T *)py;                                                              \
        T *z = (T *)w->z->data + at;                                                                                 \
        float alpha = w->p.alpha, beta = w->p.beta;                                                                  \
        if (sx == 1 && sy == 1)                                                                                      \
            for (size_t i = 0; i < n; i++) z[i] = axpby_##name(x[i], y[i], alpha, beta);                             \
        else                                                                                                         \
            for (size_t i = 0; i < n; i++) z[i] = axpby_##name(x[(int64_t)i * sx], y[(int64_t)i * sy], alpha, beta); \
    }
EACH_DTYPE(ROW)

/* Element i, counted in row-major order. */
static const char *element(const mlx_run_array *a, size_t i)
{
    int64_t offset = 0, rest = (int64_t)i;
    for (int k = a->ndim; k-- > 0; rest /= a->shape[k]) offset += rest % a->shape[k] * a->strides[k];
    return (const char *)a->data + offset * (int64_t)mlx_dtype_size(a->dtype);
}

static void general(void *ctx, size_t begin, size_t end)
{
    const struct work *w = ctx;
    int last = w->z->ndim - 1;
    size_t width = last < 0 ? 1 : (size_t)w->z->shape[last], n;
    int64_t sx = last < 0 ? 1 : w->x->strides[last], sy = last < 0 ? 1 : w->y->strides[last];
    for (size_t i = begin; i < end; i += n) {
        n = width - i % width;
        n = n < end - i ? n : end - i;
        w->run(w, element(w->x, i), sx, element(w->y, i), sy, i, n);
    }
}

#ifdef AXPBY_BLAS
/* The OpenBLAS beside libmlx, whose names have this prefix. */
void scipy_cblas_sscal(int n, float factor, float *x, int incx);
void scipy_cblas_saxpy(int n, float alpha, const float *x, int incx, float *y, int incy);

/* BLAS puts the result in the place of y.  It has a saxpby too, which took twice as long as these two. */
static void blas(void *ctx, size_t begin, size_t end)
{
    const struct work *w = ctx;
    const float *x = (const float *)w->x->data + begin, *y = (const float *)w->y->data + begin;
    float *z = (float *)w->z->data + begin;
    if (z != y)
        memcpy(z, y, (end - begin) * sizeof *z);
    scipy_cblas_sscal((int)(end - begin), w->p.beta, z, 1);
    scipy_cblas_saxpy((int)(end - begin), w->p.alpha, x, 1, z, 1);
}
#endif

/* Elements: few enough to be in the cache for each step, and for BLAS not to start threads of its own. */
enum { GRAIN = 8192 };

static int eval_cpu(const void *state, mlx_run run)
{
    struct work w = { *(const struct params *)state, mlx_run_input(run, 0), mlx_run_input(run, 1),
                      mlx_run_output(run, 0), NULL };
    size_t size = (size_t)w.z->size;
#ifdef AXPBY_BLAS
    /* A result in the order of its operands.  To BLAS, 0 times NaN is 0: zeros are not for it. */
    bool rows = w.x->row_contiguous && w.y->row_contiguous, columns = w.x->col_contiguous && w.y->col_contiguous;
    if (w.z->dtype == MLX_FLOAT32 && (rows || columns) && w.p.alpha != 0 && w.p.beta != 0) {
        if (rows ? mlx_run_alloc_over(run, 0, 1) : mlx_run_alloc_like(run, 0, 1))
            return 1;
        mlx_parallel_for(size, GRAIN, blas, &w);
        return 0;
    }
#endif
    switch (w.z->dtype) {
#define CASE(enumerator, name) \
    case enumerator: w.run = row_##name; break;
        CASE(MLX_FLOAT32, float32)
        CASE(MLX_FLOAT64, float64)
        CASE(MLX_FLOAT16, float16)
        CASE(MLX_BFLOAT16, bfloat16)
        CASE(MLX_COMPLEX64, complex64)
    default: return mlx_run_error(run, "expected a floating-point dtype, got %s", mlx_dtype_name(w.z->dtype));
    }
    if (mlx_run_alloc(run, 0))
        return 1;
    mlx_parallel_for(size, GRAIN, general, &w);
    return 0;
}

/* On a GPU */

/* The path of a file beside the library that this code is in. */
static void beside(const char *name, char *path, size_t size)
{
    Dl_info info;
    const char *file = dladdr((void *)(uintptr_t)beside, &info) && info.dli_fname ? info.dli_fname : "";
    const char *slash = strrchr(file, '/');
    snprintf(path, size, "%.*s%s", slash ? (int)(slash - file) + 1 : 0, file, name);
}

static int eval_gpu(const void *state, mlx_run run)
{
    struct params p = *(const struct params *)state;
    const mlx_run_array *x = mlx_run_input(run, 0), *y = mlx_run_input(run, 1), *z = mlx_run_output(run, 0);
    char path[4096], kernel[64];
    beside("mlx_ext.cu", path, sizeof path);
    if (mlx_register_library("mlx_ext_kernels", path))
        return mlx_run_error(run, "could not read the kernels from %s", path);
    if (mlx_run_alloc(run, 0))
        return 1;
    if (z->size == 0)
        return 0;
    struct axpby_layout at = { .size = z->size, .ndim = z->ndim };
    for (int k = 0; k < z->ndim; k++) {
        at.shape[k] = z->shape[k];
        at.x_strides[k] = x->strides[k];
        at.y_strides[k] = y->strides[k];
    }
    snprintf(kernel, sizeof kernel, "axpby_general_%s", mlx_dtype_name(z->dtype));
    enum { THREADS = 256 };
    int threads[3] = { THREADS, 1, 1 }, blocks[3] = { (int)((z->size + THREADS - 1) / THREADS), 1, 1 };
    const void *arguments[] = { &x->data, &y->data, &z->data, &p.alpha, &p.beta, &at };
    return mlx_run_launch(run, "mlx_ext_kernels", kernel, blocks, threads, arguments, 6);
}

/* In transforms.  It is linear: derivatives are the same operation, or a multiplication. */

/* Appends factor * x. */
static int append_scaled(mlx_vector_array res, const mlx_vector_array from, size_t i, float factor, const mlx_stream s)
{
    mlx_array x = mlx_array_new(), k = mlx_array_new();
    int failed = mlx_vector_array_get(&x, from, i) || mlx_scalar_double(&k, factor, mlx_array_dtype(x)) ||
                 mlx_multiply(&x, x, k, s) || mlx_vector_array_append_value(res, x);
    mlx_array_free(k);
    mlx_array_free(x);
    return failed;
}

static int append_axpby(mlx_vector_array res, const mlx_array x, const mlx_array y, struct params p, const mlx_stream s)
{
    mlx_array z = mlx_array_new();
    int failed = axpby(&z, x, y, p.alpha, p.beta, s) || mlx_vector_array_append_value(res, z);
    mlx_array_free(z);
    return failed;
}

static int jvp(mlx_vector_array *jvps, const void *state, const mlx_vector_array primals,
               const mlx_vector_array tangents, const int *argnums, size_t argnums_num, const mlx_stream s)
{
    struct params p = *(const struct params *)state;
    (void)primals;
    if (argnums_num == 1)
        return append_scaled(*jvps, tangents, 0, argnums[0] == 0 ? p.alpha : p.beta, s);
    mlx_array tx = mlx_array_new(), ty = mlx_array_new();
    int failed = mlx_vector_array_get(&tx, tangents, 0) || mlx_vector_array_get(&ty, tangents, 1) ||
                 append_axpby(*jvps, tx, ty, p, s);
    mlx_array_free(tx);
    mlx_array_free(ty);
    return failed;
}

static int vjp(mlx_vector_array *vjps, const void *state, const mlx_vector_array primals,
               const mlx_vector_array cotangents, const int *argnums, size_t argnums_num,
               const mlx_vector_array outputs, const mlx_stream s)
{
    struct params p = *(const struct params *)state;
    int failed = 0;
    (void)primals;
    (void)outputs;
    for (size_t i = 0; i < argnums_num && !failed; i++)
        failed = append_scaled(*vjps, cotangents, 0, argnums[i] == 0 ? p.alpha : p.beta, s);
    return failed;
}

/* The batch goes to the front; an operand that has none is broadcast along it. */
static int vmap(mlx_vector_array *outputs, mlx_vector_int *output_axes, const void *state,
                const mlx_vector_array inputs, const int *axes, size_t axes_num, const mlx_stream s)
{
    mlx_array v[2] = { mlx_array_new(), mlx_array_new() };
    int failed = 0;
    for (size_t i = 0; i < axes_num && !failed; i++)
        failed = mlx_vector_array_get(&v[i], inputs, i) ||
                 (axes[i] < 0 ? mlx_expand_dims(&v[i], v[i], 0, s) : mlx_moveaxis(&v[i], v[i], axes[i], 0, s));
    failed = failed || append_axpby(*outputs, v[0], v[1], *(const struct params *)state, s) ||
             mlx_vector_int_append_value(*output_axes, 0);
    mlx_array_free(v[0]);
    mlx_array_free(v[1]);
    return failed;
}

static bool is_equivalent(const void *state, const void *other)
{
    const struct params *p = state, *q = other;
    return p->alpha == q->alpha && p->beta == q->beta;
}

static int print(const void *state, char *text, size_t size)
{
    const struct params *p = state;
    return snprintf(text, size, "alpha=%g, beta=%g", p->alpha, p->beta);
}

/* One result, like the operands, which are of one shape and dtype. */
static int output_shapes(const void *state, const mlx_vector_array inputs, mlx_output *outputs, size_t outputs_num)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    bool fit = outputs_num == 1 && mlx_vector_array_size(inputs) == 2 && !mlx_vector_array_get(&x, inputs, 0) &&
               !mlx_vector_array_get(&y, inputs, 1);
    int ndim = fit ? (int)mlx_array_ndim(x) : 0;
    fit = fit && mlx_array_dtype(x) == mlx_array_dtype(y) && (int)mlx_array_ndim(y) == ndim;
    for (int k = 0; k < ndim && fit; k++) {
        outputs->shape[k] = mlx_array_dim(x, k);
        fit = mlx_array_dim(y, k) == outputs->shape[k];
    }
    (void)state;
    if (fit) {
        outputs->ndim = ndim;
        outputs->dtype = mlx_array_dtype(x);
    } else {
        mlx_error("[Axpby] expected two operands of one shape and dtype");
    }
    mlx_array_free(x);
    mlx_array_free(y);
    return !fit;
}

/* In files of exported functions */

static size_t serialize(const void *state, void *bytes, size_t size)
{
    if (size >= sizeof(struct params))
        memcpy(bytes, state, sizeof(struct params));
    return sizeof(struct params);
}

static void *deserialize(const void *bytes, size_t size)
{
    struct params *p = size == sizeof *p ? malloc(sizeof *p) : NULL;
    return p ? memcpy(p, bytes, sizeof *p) : NULL;
}

static const struct mlx_primitive_class axpby_class = {
    .struct_size = sizeof axpby_class,
    .abi = MLX_PRIMITIVE_ABI,
    .name = "Axpby",
    .eval_cpu = eval_cpu,
    .eval_gpu = eval_gpu,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
    .is_equivalent = is_equivalent,
    .print = print,
    .output_shapes = output_shapes,
    .serialize = serialize,
    .deserialize = deserialize,
    .destroy = free,
};

/* The operation: operands of one floating dtype and one shape, and a node of the graph on them. */
int axpby(mlx_array *z, const mlx_array x, const mlx_array y, float alpha, float beta, const mlx_stream s)
{
    mlx_array v[2] = { mlx_array_new(), mlx_array_new() };
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    mlx_dtype dtype = mlx_dtype_promote(mlx_array_dtype(x), mlx_array_dtype(y));
    if (dtype <= MLX_INT64) /* bool and integers */
        dtype = mlx_dtype_promote(dtype, MLX_FLOAT32);
    int failed = mlx_astype(&v[0], x, dtype, s) || mlx_astype(&v[1], y, dtype, s) ||
                 mlx_vector_array_set_data(&in, v, 2) || mlx_broadcast_arrays(&in, in, s);
    struct params *p = failed ? NULL : malloc(sizeof *p);
    if (p) {
        *p = (struct params){ alpha, beta };
        failed = mlx_primitive_apply(&out, &axpby_class, p, in, NULL, 1, s) || mlx_vector_array_get(z, out, 0);
    } else if (!failed) {
        mlx_error("[axpby] out of memory");
        failed = 1;
    }
    mlx_vector_array_free(out);
    mlx_vector_array_free(in);
    mlx_array_free(v[0]);
    mlx_array_free(v[1]);
    return failed;
}

int axpby_register(void) { return mlx_primitive_register(&axpby_class); }

/* For mlx_register_library. */
MLX_PLUGIN(axpby_register)
