/* Primitives of a program's own: every rule and its absence, in every transform, and libraries of them. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "support/heard.h"
#include "support/loopback.h"

static mlx_stream cpu(void) { return mlx_default_cpu_stream_new(); }

/* ---- z = alpha x + beta y, and x y beside it where the class says so */

struct params {
    float alpha, beta;
};

static int destroyed, computed, on_gpu;
static void destroy(void *state)
{
    destroyed++;
    free(state);
}

static int64_t offset(const mlx_run_array *a, int64_t i)
{
    int64_t at = 0;
    for (int k = a->ndim; k-- > 0;) {
        at += i % a->shape[k] * a->strides[k];
        i /= a->shape[k];
    }
    return at;
}

static int compute(const void *state, mlx_run run)
{
    const struct params *p = state;
    const mlx_run_array *x = mlx_run_input(run, 0), *y = mlx_run_input(run, 1), *z = mlx_run_output(run, 0);
    computed++;
    if (p->alpha == 13)
        return mlx_run_error(run, "%d brings bad luck", 13);
    if (p->alpha == 14)
        return 3;
    if (p->alpha == 15)
        return 0;
    if (mlx_run_alloc(run, 0))
        return 1;
    const float *u = x->data, *v = y->data;
    float *to = z->data;
    for (int64_t i = 0; i < z->size; i++) to[i] = p->alpha * u[offset(x, i)] + p->beta * v[offset(y, i)];
    return 0;
}

static int compute_gpu(const void *state, mlx_run run)
{
    on_gpu++;
    return compute(state, run);
}

static int scaled(mlx_vector_array *res, mlx_array x, float by, mlx_stream s)
{
    mlx_array k = mlx_array_new_float(by), y = mlx_array_new();
    int failed = mlx_multiply(&y, x, k, s) || mlx_vector_array_append_value(*res, y);
    mlx_array_free(k);
    mlx_array_free(y);
    return failed;
}

static int vjp(mlx_vector_array *res, const void *state, const mlx_vector_array primals, const mlx_vector_array cts,
               const int *argnums, size_t n, const mlx_vector_array outputs, const mlx_stream s)
{
    const struct params *p = state;
    mlx_array ct = mlx_array_new();
    int failed = mlx_vector_array_get(&ct, cts, 0);
    (void)primals, (void)outputs;
    for (size_t i = 0; i < n && !failed; i++) failed = scaled(res, ct, argnums[i] ? p->beta : p->alpha, s);
    mlx_array_free(ct);
    return failed;
}

static int axpby(mlx_array *res, mlx_array x, mlx_array y, float alpha, float beta, mlx_stream s);

static int jvp(mlx_vector_array *res, const void *state, const mlx_vector_array primals,
               const mlx_vector_array tangents, const int *argnums, size_t n, const mlx_stream s)
{
    const struct params *p = state;
    mlx_array t = mlx_array_new(), u = mlx_array_new();
    (void)primals;
    int failed = mlx_vector_array_get(&t, tangents, 0);
    if (n == 1)
        failed = failed || scaled(res, t, argnums[0] ? p->beta : p->alpha, s);
    else
        failed = failed || mlx_vector_array_get(&u, tangents, 1) || axpby(&t, t, u, p->alpha, p->beta, s) ||
                 mlx_vector_array_append_value(*res, t);
    mlx_array_free(t);
    mlx_array_free(u);
    return failed;
}

static int vmap(mlx_vector_array *res, mlx_vector_int *res_axes, const void *state, const mlx_vector_array in,
                const int *axes, size_t n, const mlx_stream s)
{
    const struct params *p = state;
    mlx_array x[2] = { mlx_array_new(), mlx_array_new() };
    int failed = 0;
    for (size_t i = 0; i < n && !failed; i++)
        failed = mlx_vector_array_get(&x[i], in, i) ||
                 (axes[i] < 0 ? mlx_expand_dims(&x[i], x[i], 0, s) : mlx_moveaxis(&x[i], x[i], axes[i], 0, s));
    failed = failed || axpby(&x[0], x[0], x[1], p->alpha, p->beta, s) || mlx_vector_array_append_value(*res, x[0]) ||
             mlx_vector_int_append_value(*res_axes, 0);
    mlx_array_free(x[0]);
    mlx_array_free(x[1]);
    return failed;
}

static bool is_equivalent(const void *a, const void *b) { return !memcmp(a, b, sizeof(struct params)); }

static int print(const void *state, char *text, size_t size)
{
    const struct params *p = state;
    return snprintf(text, size, "alpha=%g, beta=%g", p->alpha, p->beta);
}

static int shapes(const void *state, const mlx_vector_array in, mlx_output *out, size_t n)
{
    mlx_array x = mlx_array_new();
    (void)state;
    if (n != 1 || mlx_vector_array_size(in) != 2 || mlx_vector_array_get(&x, in, 0))
        return 1;
    out->dtype = mlx_array_dtype(x);
    out->ndim = (int)mlx_array_ndim(x);
    memcpy(out->shape, mlx_array_shape(x), (size_t)out->ndim * sizeof(int));
    mlx_array_free(x);
    return 0;
}

static size_t serialize(const void *state, void *bytes, size_t size)
{
    if (size >= sizeof(struct params))
        memcpy(bytes, state, sizeof(struct params));
    return sizeof(struct params);
}

static void *deserialize(const void *bytes, size_t size)
{
    struct params *p = size == sizeof *p ? malloc(sizeof *p) : NULL;
    return p ? memcpy(p, bytes, size) : NULL;
}

static const struct mlx_primitive_class axpby_class = {
    .struct_size = sizeof axpby_class,
    .abi = MLX_PRIMITIVE_ABI,
    .name = "Axpby",
    .eval_cpu = compute,
    .eval_gpu = compute_gpu,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
    .is_equivalent = is_equivalent,
    .print = print,
    .output_shapes = shapes,
    .serialize = serialize,
    .deserialize = deserialize,
    .destroy = destroy,
};

/* What has nothing but a kernel for the CPU. */
static const struct mlx_primitive_class bare_class = {
    .struct_size = sizeof bare_class,
    .abi = MLX_PRIMITIVE_ABI,
    .name = "Bare",
    .eval_cpu = compute,
    .destroy = destroy,
};

static int apply(mlx_array *res, const struct mlx_primitive_class *cls, const mlx_output *out, mlx_array x, mlx_array y,
                 float alpha, float beta, mlx_stream s)
{
    struct params *p = malloc(sizeof *p);
    *p = (struct params){ alpha, beta };
    mlx_vector_array in = mlx_vector_array_new(), z = mlx_vector_array_new();
    mlx_vector_array_append_value(in, x);
    mlx_vector_array_append_value(in, y);
    int failed = mlx_primitive_apply(&z, cls, p, in, out, 1, s) || mlx_vector_array_get(res, z, 0);
    mlx_vector_array_free(in);
    mlx_vector_array_free(z);
    return failed;
}

static int axpby(mlx_array *res, mlx_array x, mlx_array y, float alpha, float beta, mlx_stream s)
{
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    mlx_array u = mlx_array_new(), v = mlx_array_new();
    int failed = mlx_vector_array_append_value(in, x) || mlx_vector_array_append_value(in, y) ||
                 mlx_broadcast_arrays(&out, in, s) || mlx_vector_array_get(&u, out, 0) ||
                 mlx_vector_array_get(&v, out, 1) || apply(res, &axpby_class, NULL, u, v, alpha, beta, s);
    mlx_array_free(u);
    mlx_array_free(v);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    return failed;
}

/* ---- */

static mlx_array of(int n, const float *v) { return floats(n, v); }
static const float ramp[] = { 1, 2, 3, 4, 5, 6 }, tens[] = { 10, 20, 30, 40, 50, 60 };

static void computes(void **state)
{
    (void)state;
    mlx_array r = mlx_array_new(), x = of(3, ramp), y = of(3, tens), ten = mlx_array_new_float(10);
    destroyed = 0;
    GIVES(axpby(&r, x, y, 4, 2, cpu()), "[24, 48, 72], dtype=float32");
    GIVES(axpby(&r, x, ten, 1, 1, cpu()), "[11, 12, 13], dtype=float32");
    mlx_array_free(r);
    assert_int_equal(destroyed, 2);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(ten);
}

/* f(x, y) = axpby with 4 and 2. */
static int f(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_get(&y, in, 1) || axpby(&x, x, y, 4, 2, cpu()) ||
                 mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    mlx_array_free(y);
    return failed;
}

static int bare(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    mlx_output out = { MLX_FLOAT32, 1, { 3 } };
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_get(&y, in, 1);
    out.ndim = (int)mlx_array_ndim(x);
    if (out.ndim)
        out.shape[0] = mlx_array_shape(x)[0];
    failed = failed || apply(&x, &bare_class, &out, x, y, 4, 2, cpu()) || mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    mlx_array_free(y);
    return failed;
}

static mlx_vector_array pair(mlx_array x, mlx_array y)
{
    mlx_array both[] = { x, y };
    return mlx_vector_array_new_data(both, 2);
}

static void expect(mlx_vector_array v, size_t i, const char *text)
{
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, v, i));
    expect_array(a, text);
    mlx_array_free(a);
}

static void derives(void **state)
{
    (void)state;
    mlx_array x = of(3, ramp), y = of(3, tens);
    mlx_vector_array in = pair(x, y), ct = mlx_vector_array_new_value(x), out = mlx_vector_array_new(),
                     d = mlx_vector_array_new(), t = pair(y, x);
    mlx_closure cls = mlx_closure_new_func(f), none = mlx_closure_new_func(bare);
    OK(mlx_vjp(&out, &d, cls, in, ct));
    expect(d, 0, "[4, 8, 12], dtype=float32");
    expect(d, 1, "[2, 4, 6], dtype=float32");
    OK(mlx_jvp(&out, &d, cls, in, t));
    expect(d, 0, "[42, 84, 126], dtype=float32");
    FAILS(mlx_vjp(&out, &d, none, in, ct), "Bare has no vjp rule");
    FAILS(mlx_jvp(&out, &d, none, in, t), "Bare has no jvp rule");
    mlx_closure_free(cls);
    mlx_closure_free(none);
    mlx_vector_array_free(in);
    mlx_vector_array_free(ct);
    mlx_vector_array_free(out);
    mlx_vector_array_free(d);
    mlx_vector_array_free(t);
    mlx_array_free(x);
    mlx_array_free(y);
}

static int mapped(mlx_vector_array *res, mlx_closure cls, mlx_vector_array in, const int axes[2])
{
    int zero = 0;
    mlx_vector_array trace_in = mlx_vector_array_new(), trace_out = mlx_vector_array_new();
    int failed = mlx_detail_vmap_trace(&trace_in, &trace_out, cls, in, axes, 2) ||
                 mlx_detail_vmap_replace(res, in, trace_in, trace_out, axes, 2, &zero, 1);
    mlx_vector_array_free(trace_in);
    mlx_vector_array_free(trace_out);
    return failed;
}

static void maps(void **state)
{
    (void)state;
    mlx_array x = mlx_array_new_data(ramp, (int[]){ 2, 3 }, 2, MLX_FLOAT32), y = of(3, tens);
    mlx_vector_array in = pair(x, y), out = mlx_vector_array_new();
    mlx_closure cls = mlx_closure_new_func(f), none = mlx_closure_new_func(bare);
    OK(mapped(&out, cls, in, (int[]){ 0, -1 }));
    expect(out, 0, "[[24, 48, 72],\n       [36, 60, 84]], dtype=float32");
    FAILS(mapped(&out, none, in, (int[]){ 0, -1 }), "Bare has no vmap rule");
    mlx_closure_free(cls);
    mlx_closure_free(none);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_array_free(x);
    mlx_array_free(y);
}

/* The same twice, which is one. */
static int twice(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new(), z = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_get(&y, in, 1) || axpby(&z, x, y, 4, 2, cpu()) ||
                 axpby(&x, x, y, 4, 2, cpu()) || mlx_add(&x, x, z, cpu()) || mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(z);
    return failed;
}

static void compiles(void **state)
{
    (void)state;
    mlx_array x = of(3, ramp), y = of(3, tens), x2 = of(2, ramp), y2 = of(2, tens);
    mlx_vector_array in = pair(x, y), in2 = pair(x2, y2), out = mlx_vector_array_new();
    int (*const functions[])(mlx_vector_array *, const mlx_vector_array) = { twice, bare };
    for (int which = 0; which < 2; which++)
        for (int shapeless = 0; shapeless < 2; shapeless++) {
            mlx_closure cls = mlx_closure_new_func(functions[which]), fast = mlx_closure_new();
            OK(mlx_compile(&fast, cls, shapeless));
            computed = 0;
            OK(mlx_closure_apply(&out, fast, in));
            expect(out, 0, which ? "[24, 48, 72], dtype=float32" : "[48, 96, 144], dtype=float32");
            assert_int_equal(computed, 1);
            OK(mlx_closure_apply(&out, fast, in2));
            expect(out, 0, which ? "[24, 48], dtype=float32" : "[48, 96], dtype=float32");
            mlx_closure_free(cls);
            mlx_closure_free(fast);
        }
    mlx_vector_array_free(in);
    mlx_vector_array_free(in2);
    mlx_vector_array_free(out);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(x2);
    mlx_array_free(y2);
}

static void travels(void **state)
{
    (void)state;
    char file[] = "/tmp/primitive-XXXXXX";
    assert_true(mkstemp(file) >= 0);
    mlx_array x = of(3, ramp), y = of(3, tens), x2 = of(2, ramp), y2 = of(2, tens);
    mlx_vector_array in = pair(x, y), in2 = pair(x2, y2), out = mlx_vector_array_new();
    mlx_closure cls = mlx_closure_new_func(f), none = mlx_closure_new_func(bare);
    for (int shapeless = 0; shapeless < 2; shapeless++) {
        OK(mlx_export_function(file, cls, in, shapeless));
        mlx_imported_function got = mlx_imported_function_new(file);
        OK(mlx_imported_function_apply(&out, got, in));
        expect(out, 0, "[24, 48, 72], dtype=float32");
        if (shapeless) {
            OK(mlx_imported_function_apply(&out, got, in2));
            expect(out, 0, "[24, 48], dtype=float32");
        }
        mlx_imported_function_free(got);
    }
    FAILS(mlx_export_function(file, none, in, false), "Bare has no output_shapes rule");
    remove(file);
    mlx_closure_free(cls);
    mlx_closure_free(none);
    mlx_vector_array_free(in);
    mlx_vector_array_free(in2);
    mlx_vector_array_free(out);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(x2);
    mlx_array_free(y2);
}

static void runs_on_devices(void **state)
{
    (void)state;
    loopback_register();
    mlx_stream gpu = mlx_default_gpu_stream_new();
    mlx_array r = mlx_array_new(), x = of(3, ramp), y = of(3, tens);
    on_gpu = 0;
    GIVES(axpby(&r, x, y, 4, 2, gpu), "[24, 48, 72], dtype=float32");
    assert_int_equal(on_gpu, 1);
    mlx_output out = { MLX_FLOAT32, 1, { 3 } };
    OK(apply(&r, &bare_class, &out, x, y, 4, 2, gpu));
    OK(mlx_array_eval(r)); /* its rule for the CPU, since it has none for the device */
    mlx_array_free(r);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_stream_free(gpu);
}

static void refuses(void **state)
{
    (void)state;
    mlx_array r = mlx_array_new_float(7), x = of(3, ramp), y = of(3, tens), z = mlx_array_new();
    mlx_vector_array in = pair(x, y), out = mlx_vector_array_new(), null = { NULL };
    destroyed = 0;
    for (int alpha = 13; alpha <= 15; alpha++) {
        static const char *const says[] = { "[Axpby] 13 brings bad luck", "to return 0, got 3",
                                            "gave result 0 no memory" };
        OK(axpby(&z, x, y, (float)alpha, 2, cpu()));
        FAILS(mlx_array_eval(z), says[alpha - 13]);
    }
    mlx_array_free(z);
    assert_int_equal(destroyed, 3);
    mlx_output bad = { MLX_FLOAT32, 1, { -3 } }, deep = { MLX_FLOAT32, 65, { 0 } }, type = { (mlx_dtype)99, 0, { 0 } };
    FAILS(apply(&r, &axpby_class, &bad, x, y, 1, 1, cpu()), "-3");
    FAILS(apply(&r, &axpby_class, &deep, x, y, 1, 1, cpu()), "expected 0 to 64 dimensions, got 65");
    FAILS(apply(&r, &axpby_class, &type, x, y, 1, 1, cpu()), "expected a dtype, got 99");
    FAILS(apply(&r, &bare_class, NULL, x, y, 1, 1, cpu()), "no output_shapes rule");
    FAILS(mlx_primitive_apply(&out, &axpby_class, malloc(8), null, NULL, 1, cpu()), "inputs");
    FAILS(mlx_primitive_apply(&out, &axpby_class, malloc(8), in, NULL, 0, cpu()), "1 to 1048576 results, got 0");
    FAILS(mlx_primitive_apply(NULL, &axpby_class, malloc(8), in, NULL, 1, cpu()), "a place for the result");
    FAILS(mlx_primitive_apply(&out, NULL, NULL, in, NULL, 1, cpu()), "a class");
    assert_int_equal(destroyed, 10);
    struct mlx_primitive_class other = axpby_class;
    other.vmap = NULL;
    FAILS(mlx_primitive_register(&other), "expected one class of the name Axpby");
    other = axpby_class;
    other.abi = 2;
    FAILS(mlx_primitive_register(&other), "interface 1");
    other.abi = 1;
    other.name = "not a name";
    FAILS(mlx_primitive_register(&other), "identifier");
    OK(mlx_primitive_register(&axpby_class));
    /* One compiled when the struct ended before its last members. */
    struct mlx_primitive_class older = axpby_class;
    older.name = "Older";
    older.struct_size = offsetof(struct mlx_primitive_class, vmap);
    OK(mlx_primitive_register(&older));
    older.struct_size = offsetof(struct mlx_primitive_class, eval_cpu) + 5; /* inside of a member */
    FAILS(mlx_primitive_register(&older), "the size of a class in struct_size");
    expect_array(r, "7, dtype=float32");
    mlx_array_free(r);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
}

/* A rule of evaluation that evaluates and waits, and rules that fail without a word. */
static int evaluates(const void *state, mlx_run run)
{
    mlx_array a = mlx_array_new();
    (void)state;
    int failed = mlx_arange(&a, 0, 3, 1, MLX_FLOAT32, mlx_run_stream(run)) ||
                 (mlx_array_eval(a) && mlx_synchronize(mlx_run_stream(run)) && mlx_clear_streams());
    mlx_array_free(a);
    return failed;
}

/* Halves its first operand in its place; then fails the first time where the state is 1 and gives a second result no
 * memory where it is 2. */
static int attempts;
static int halves(const void *state, mlx_run run)
{
    if (mlx_run_alloc_over(run, 0, 0))
        return 1;
    const mlx_run_array *x = mlx_run_input(run, 0), *y = mlx_run_output(run, 0);
    const float *from = x->data;
    float *to = y->data;
    for (int64_t i = 0; i < y->size; i++) to[i] = from[i] / 2;
    if (attempts++)
        return 0;
    return *(const int *)state == 1 && mlx_run_error(run, "not this time");
}

static const struct mlx_primitive_class halves_class = {
    .struct_size = sizeof halves_class,
    .abi = MLX_PRIMITIVE_ABI,
    .name = "Halves",
    .eval_cpu = halves,
    .destroy = free,
};

/* Of x, which may be let go of here; the first of as many results as the way it fails. */
static mlx_array halved(mlx_array x, bool keep, int way)
{
    static const mlx_output two[] = { { MLX_FLOAT32, 1, { 3 } }, { MLX_FLOAT32, 1, { 3 } } };
    int *state = malloc(sizeof *state);
    mlx_vector_array in = mlx_vector_array_new_value(x), out = mlx_vector_array_new();
    mlx_array y = mlx_array_new();
    *state = way;
    attempts = 0;
    if (!keep)
        mlx_array_free(x);
    OK(mlx_primitive_apply(&out, &halves_class, state, in, two, (size_t)way, cpu()));
    OK(mlx_vector_array_get(&y, out, 0));
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    return y;
}

static void start(mlx_array y)
{
    mlx_vector_array all = mlx_vector_array_new_value(y);
    OK(mlx_async_eval(all));
    mlx_vector_array_free(all);
}

/* What was written over is not read again, whoever asks, and at hand or computed. */
static void fails_over_its_operand(void **state)
{
    (void)state;
    static const char *const says[] = { "[Halves] not this time", "[Halves] the rule of evaluation gave result 1 no" };
    for (int i = 0; i < 8; i++) {
        int way = 1 + i % 2;
        mlx_array x = of(3, ramp), r = mlx_array_new();
        if (i & 2)
            OK(mlx_square(&x, x, cpu()));
        mlx_array y = halved(x, false, way);
        if (i & 4)
            start(y);
        FAILS(mlx_array_eval(y), says[way - 1]);
        FAILS(mlx_array_eval(y), says[way - 1]);
        OK(mlx_negative(&r, y, cpu()));
        FAILS(mlx_array_eval(r), says[way - 1]);
        FAILS(mlx_array_eval(r), "lost");
        FAILS(mlx_array_eval(y), "lost");
        mlx_array_free(r);
        mlx_array_free(y);
    }
    /* An operand that others have is not taken over. */
    mlx_array x = of(3, ramp), r = halved(x, true, 1);
    FAILS(mlx_array_eval(r), says[0]);
    GIVES(mlx_array_eval(r), "[0.5, 1, 1.5], dtype=float32");
    expect_array(x, "[1, 2, 3], dtype=float32");
    mlx_array_free(x);
    mlx_array_free(r);
}

static int gives_seven(mlx_vector_array *res, const void *state, const mlx_vector_array primals,
                       const mlx_vector_array cts, const int *argnums, size_t n, const mlx_vector_array outputs,
                       const mlx_stream s)
{
    (void)res, (void)state, (void)primals, (void)cts, (void)argnums, (void)n, (void)outputs, (void)s;
    return 7;
}

static const struct mlx_primitive_class odd_class = {
    .struct_size = sizeof odd_class,
    .abi = MLX_PRIMITIVE_ABI,
    .name = "Odd",
    .eval_cpu = evaluates,
    .vjp = gives_seven,
    .output_shapes = shapes,
    .destroy = destroy,
};

static int odd(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || apply(&x, &odd_class, NULL, x, x, 0, 0, cpu()) ||
                 mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    return failed;
}

static void tells_whose_rule(void **state)
{
    (void)state;
    mlx_array x = of(3, ramp), z = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_value(x), out = mlx_vector_array_new(), d = mlx_vector_array_new();
    mlx_closure cls = mlx_closure_new_func(odd);
    FAILS(mlx_vjp(&out, &d, cls, in, in), "[Odd] expected the vjp rule to return 0, got 7");
    OK(apply(&z, &odd_class, NULL, x, x, 0, 0, cpu()));
    assert_true(mlx_array_eval(z)); /* reported inside, and to whoever waits */
    expect_heard(4, "expected no evaluation while Odd is computed");
    mlx_array_free(x);
    mlx_array_free(z);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_vector_array_free(d);
    mlx_closure_free(cls);
}

static void prints(void **state)
{
    (void)state;
    mlx_array x = of(3, ramp), y = of(3, tens), z = mlx_array_new();
    OK(axpby(&z, x, y, 4, 2, cpu()));
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    mlx_node_namer namer = mlx_node_namer_new();
    mlx_vector_array roots = mlx_vector_array_new_value(z);
    OK(mlx_print_graph(to, namer, roots));
    fclose(to);
    assert_non_null(strstr(text, "Axpby"));
    free(text);
    mlx_node_namer_free(namer);
    mlx_vector_array_free(roots);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(z);
}

static void loads(void **state)
{
    (void)state;
    bool there = true;
    OK(mlx_primitive_is_registered(&there, "Cubed"));
    assert_false(there);
    FAILS(mlx_register_library("cubed", PLUGINS "absent.so"), "absent.so");
    FAILS(mlx_register_library("nothing", PLUGINS "nothing.so"), "expected the symbol mlx_plugin");
    mx_test_fail_at(2); /* the copy of the path */
    FAILS(mlx_register_library("nothing", PLUGINS "nothing.so"), "memory");
    mx_test_fail_at(0);
    char pipe[] = "/tmp/pipe-XXXXXX.so";
    assert_true(close(mkstemps(pipe, 3)) == 0 && unlink(pipe) == 0 && mkfifo(pipe, 0600) == 0);
    FAILS(mlx_register_library("pipe", pipe), "expected a regular file, got /tmp/pipe-");
    unlink(pipe);
    FAILS(mlx_register_library("newer", PLUGINS "newer.so"), "got interface 2 of mlx 9.0");
    OK(mlx_register_library("cubed", PLUGINS "cubed.so"));
    OK(mlx_register_library("cubed", PLUGINS "../plugins/cubed.so"));
    FAILS(mlx_register_library("cubed", PLUGINS "nothing.so"), "one library of the name 'cubed'");
    OK(mlx_primitive_is_registered(&there, "Cubed"));
    assert_true(there);

    char file[] = "/tmp/axpby-XXXXXX.cu";
    int fd = mkstemps(file, 3);
    FILE *to = fdopen(fd, "w");
    fputs("__global__ void axpby() {}", to);
    fclose(to);
    OK(mlx_register_library("axpby_kernels", file));
    mlx_library_kind kind;
    const void *bytes;
    size_t size;
    OK(mlx_library_contents(&kind, &bytes, &size, "axpby_kernels"));
    assert_int_equal(kind, MLX_LIBRARY_CUDA_SOURCE);
    assert_int_equal(size, 26);
    assert_string_equal(bytes, "__global__ void axpby() {}");
    FAILS(mlx_library_contents(&kind, &bytes, &size, "none"), "no library 'none'");
    FAILS(mlx_register_library("circle", PLUGINS "circle_here.so"), "circle_here.so not to load itself");
    FAILS(mlx_library_contents(&kind, &bytes, &size, "circle"), "no library 'circle'");
    FAILS(mlx_register_library("odd", "/etc/passwd"), "ends with .so, .cu");
    remove(file);
}

static void whole(void *ctx, size_t begin, size_t end)
{
    size_t *seen = ctx;
    assert_int_equal(begin, 0);
    *seen = end;
}

static void counts_past_signed_numbers(void **state)
{
    (void)state;
    for (size_t grain = SIZE_MAX; grain > SIZE_MAX / 2; grain -= SIZE_MAX / 8) {
        size_t seen = 0;
        mlx_parallel_for(SIZE_MAX, grain, whole, &seen);
        assert_true(seen == SIZE_MAX);
    }
}

static atomic_int evaluated, refused, told;

static void counts(const char *message, void *data)
{
    (void)data;
    told += !!strstr(message, "expected no evaluation while Parts is computed");
}

static void evaluates_part(void *ctx, size_t begin, size_t end)
{
    mlx_array x = mlx_array_new_float(1), z = mlx_array_new();
    for (int *spins = ctx, i = 0; i < *spins; i++) mlx_add(&z, x, x, cpu()); /* so that other threads get parts */
    atomic_fetch_add(mlx_array_eval(z) ? &refused : &evaluated, (int)(end - begin));
    mlx_array_free(x);
    mlx_array_free(z);
}

static int evaluates_in_parts(const void *state, mlx_run run)
{
    (void)state;
    int spins = 1000;
    mlx_parallel_for(64, 1, evaluates_part, &spins);
    return mlx_run_alloc(run, 0);
}

static void evaluates_in_no_thread_of_a_rule(void **state)
{
    (void)state;
    static const struct mlx_primitive_class parts_class = {
        .struct_size = sizeof parts_class,
        .abi = MLX_PRIMITIVE_ABI,
        .name = "Parts",
        .eval_cpu = evaluates_in_parts,
        .output_shapes = shapes,
        .destroy = destroy,
    };
    mlx_array x = of(3, ramp), z = mlx_array_new();
    OK(apply(&z, &parts_class, NULL, x, x, 0, 0, cpu()));
    mlx_set_error_handler(counts, NULL, NULL);
    assert_false(mlx_array_eval(z));
    mlx_set_error_handler(listen, NULL, NULL);
    assert_int_equal(refused, 64);
    assert_true(told > 0);
    assert_int_equal(evaluated, 0);
    mlx_array_free(x);
    mlx_array_free(z);
}

/* Where an evaluation lets go of the last that owns it, while a stream is busy with that. */
static float found;
static void destroy_and_evaluate(void *state)
{
    mlx_array x = mlx_array_new_float(2);
    free(state);
    OK(mlx_square(&x, x, cpu()));
    OK(mlx_array_item_float32(&found, x));
    mlx_array_free(x);
}

static void evaluates_in_destroy(void **state)
{
    (void)state;
    struct mlx_primitive_class cls = bare_class;
    mlx_array x = of(3, ramp), z = mlx_array_new();
    mlx_output out = { .dtype = MLX_FLOAT32, .ndim = 1, .shape = { 3 } };
    cls.name = "BareAndBusy";
    cls.destroy = destroy_and_evaluate;
    for (int async = 0; async < 2; async++) {
        found = 0;
        OK(apply(&z, &cls, &out, x, x, 1, 1, cpu()));
        OK(mlx_square(&z, z, cpu()));
        if (async) {
            mlx_vector_array all = mlx_vector_array_new_value(z);
            OK(mlx_async_eval(all));
            mlx_vector_array_free(all);
            OK(mlx_synchronize(cpu()));
        } else {
            OK(mlx_array_eval(z));
        }
        assert_true(found == 4);
        expect_heard(0, "");
        assert_true(mlx_array_data_float32(z)[2] == 36);
    }
    mlx_array_free(x);
    mlx_array_free(z);
}

/* An array that was evaluated in a trace keeps its node until it is evaluated outside of one. */
static mlx_array of_a_trace;
static int evaluate_inside(mlx_vector_array *res, const mlx_vector_array in, void *class)
{
    mlx_array x = mlx_array_new(), z = mlx_array_new();
    mlx_output out = { .dtype = MLX_FLOAT32, .ndim = 1, .shape = { 3 } };
    int failed = mlx_vector_array_get(&x, in, 0) || apply(&z, class, &out, x, x, 1, 1, cpu()) || mlx_array_eval(z) ||
                 mlx_array_set(&of_a_trace, z) || mlx_vector_array_set_value(res, x);
    mlx_array_free(x);
    mlx_array_free(z);
    return failed;
}

static void evaluates_in_destroy_after_a_trace(void **state)
{
    (void)state;
    struct mlx_primitive_class cls = bare_class;
    cls.name = "BareAndTraced";
    cls.destroy = destroy_and_evaluate;
    of_a_trace = mlx_array_new();
    mlx_closure f = mlx_closure_new_func_payload(evaluate_inside, &cls, NULL);
    mlx_array x = of(3, ramp), y = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_value(x), out = mlx_vector_array_new(), dx = mlx_vector_array_new();
    OK(mlx_vjp(&out, &dx, f, in, in));
    found = 0;
    OK(mlx_square(&y, x, cpu()));
    OK(mlx_vector_array_set_value(&in, of_a_trace));
    OK(mlx_vector_array_append_value(in, y));
    OK(mlx_eval(in));
    assert_true(found == 4);
    assert_true(mlx_array_data_float32(y)[2] == 9);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_vector_array_free(dx);
    mlx_closure_free(f);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(of_a_trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluates_in_destroy_after_a_trace),
        cmocka_unit_test(evaluates_in_no_thread_of_a_rule),
        cmocka_unit_test(computes),
        cmocka_unit_test(evaluates_in_destroy),
        cmocka_unit_test(derives),
        cmocka_unit_test(maps),
        cmocka_unit_test(compiles),
        cmocka_unit_test(travels),
        cmocka_unit_test(refuses),
        cmocka_unit_test(prints),
        cmocka_unit_test(loads),
        cmocka_unit_test(runs_on_devices),
        cmocka_unit_test(tells_whose_rule),
        cmocka_unit_test(fails_over_its_operand),
        cmocka_unit_test(counts_past_signed_numbers),
    };
    return cmocka_run_group_tests(tests, start_listening, all_gone);
}
