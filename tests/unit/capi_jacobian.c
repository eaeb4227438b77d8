/* Jacobians and Hessians against their formulas, and batches of closures. */
#include "core/buffer.h"
#include "support/heard.h"

static mlx_stream s;

/* (x, y) -> (x * sum(y), sum(x^2 y)) */
static int two_results(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new(), t = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_get(&y, in, 1) || mlx_sum(&t, y, false, s) ||
                 mlx_multiply(&t, x, t, s) || mlx_vector_array_append_value(*res, t) || mlx_square(&t, x, s) ||
                 mlx_multiply(&t, t, y, s) || mlx_sum(&t, t, false, s) || mlx_vector_array_append_value(*res, t);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(t);
    return failed;
}

static int fails(mlx_vector_array *res, const mlx_vector_array in)
{
    (void)res, (void)in;
    mlx_error("it does not like this");
    return 1;
}

static int counts(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new();
    int failed =
        mlx_vector_array_get(&x, in, 0) || mlx_astype(&x, x, MLX_INT32, s) || mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    return failed;
}

typedef int transform(mlx_closure *res, const mlx_closure fun, const int *argnums, size_t argnums_num);

/* x = (1, 2, 3), y = (4, 5, 6) */
static mlx_vector_array point(void)
{
    mlx_array xy[] = { floats(3, (float[]){ 1, 2, 3 }), floats(3, (float[]){ 4, 5, 6 }) };
    mlx_vector_array at = mlx_vector_array_new_data(xy, 2);
    mlx_array_free(xy[0]);
    mlx_array_free(xy[1]);
    return at;
}

static void gives(transform *t, int n, const int *argnums, int n_out, const char *const text[])
{
    mlx_closure f = mlx_closure_new_func(two_results), j = mlx_closure_new();
    mlx_vector_array at = point(), out = mlx_vector_array_new();
    mlx_array a = mlx_array_new();
    OK(t(&j, f, argnums, (size_t)n));
    mlx_closure_free(f);
    for (int again = 0; again < 2; again++) {
        OK(mlx_closure_apply(&out, j, at));
        assert_int_equal(mlx_vector_array_size(out), n_out);
        for (int k = 0; k < n_out; k++) {
            OK(mlx_vector_array_get(&a, out, (size_t)k));
            expect_array(a, text[k]);
        }
    }
    mlx_closure_free(j);
    mlx_vector_array_free(at);
    mlx_vector_array_free(out);
    mlx_array_free(a);
}

static void both_ways(void **state)
{
    (void)state;
    static const char *const all[] = {
        "[[15, 0, 0],\n       [0, 15, 0],\n       [0, 0, 15]], dtype=float32", /* sum(y) on the diagonal */
        "[[1, 1, 1],\n       [2, 2, 2],\n       [3, 3, 3]], dtype=float32",    /* x_i */
        "[8, 20, 36], dtype=float32",                                          /* 2 x y */
        "[1, 4, 9], dtype=float32",                                            /* x^2 */
    };
    gives(mlx_jacfwd, 2, (int[]){ 0, 1 }, 4, all);
    gives(mlx_jacrev, 2, (int[]){ 0, 1 }, 4, all);
    static const char *const by_y[] = { all[1], all[3] };
    gives(mlx_jacfwd, 1, (int[]){ 1 }, 2, by_y);
    gives(mlx_jacrev, 1, (int[]){ 1 }, 2, by_y);
    static const char *const second[] = {
        "[[[0, 0, 0],\n        [0, 0, 0],\n        [0, 0, 0]],\n"
        "       [[0, 0, 0],\n        [0, 0, 0],\n        [0, 0, 0]],\n"
        "       [[0, 0, 0],\n        [0, 0, 0],\n        [0, 0, 0]]], dtype=float32",
        "[[8, 0, 0],\n       [0, 10, 0],\n       [0, 0, 12]], dtype=float32", /* 2 y on the diagonal */
    };
    gives(mlx_hessian, 1, (int[]){ 0 }, 2, second);
}

/* The Jacobian's own derivative, and it compiled. */
static void composed(void **state)
{
    (void)state;
    mlx_closure f = mlx_closure_new_func(two_results), j = mlx_closure_new(), c = mlx_closure_new();
    mlx_vector_array at = point(), out = mlx_vector_array_new();
    mlx_array a = mlx_array_new();
    OK(mlx_jacrev(&j, f, (int[]){ 0 }, 1));
    OK(mlx_jacfwd(&j, j, (int[]){ 1 }, 1));
    OK(mlx_compile(&c, j, false));
    OK(mlx_closure_apply(&out, c, at));
    OK(mlx_vector_array_get(&a, out, 1)); /* d^2 sum(x^2 y) / dx dy = 2 x on the diagonal */
    expect_array(a, "[[2, 0, 0],\n       [0, 4, 0],\n       [0, 0, 6]], dtype=float32");
    mlx_closure_free(f);
    mlx_closure_free(j);
    mlx_closure_free(c);
    mlx_vector_array_free(at);
    mlx_vector_array_free(out);
    mlx_array_free(a);
}

static void refused(void **state)
{
    (void)state;
    mlx_closure f = mlx_closure_new_func(two_results), j = mlx_closure_new();
    FAILS(mlx_jacfwd(&j, f, (int[]){ -1 }, 1), "[jacfwd] expected numbers of arguments from 0 on, got -1");
    FAILS(mlx_jacrev(&j, f, (int[]){ 1, 1 }, 2), "[jacrev] expected each argument once, got 1 twice");
    FAILS(mlx_jacrev(&j, f, (int[]){ 1 }, 0), "[jacrev] expected the number of one argument at least, got 0");
    FAILS(mlx_hessian(&j, f, NULL, 1), "`argnums`");
    FAILS(mlx_hessian(&j, mlx_closure_new(), (int[]){ 0 }, 1), "`fun`");
    FAILS(mlx_hessian(NULL, f, (int[]){ 0 }, 1), "`res`");
    assert_null(j.ctx);
    mlx_vector_array at = point(), out = mlx_vector_array_new();
    OK(mlx_jacfwd(&j, f, (int[]){ 2 }, 1));
    FAILS(mlx_closure_apply(&out, j, at), "cannot differentiate by argument 2 of a call with 2");
    mlx_closure g = mlx_closure_new_func(counts), h = mlx_closure_new_func(fails);
    OK(mlx_jacfwd(&j, g, (int[]){ 0 }, 1));
    FAILS(mlx_closure_apply(&out, j, at), "[jacfwd] expected results of real floating-point numbers, got int32");
    OK(mlx_jacrev(&j, h, (int[]){ 0 }, 1));
    FAILS(mlx_closure_apply(&out, j, at), "it does not like this");
    assert_int_equal(mlx_vector_array_size(out), 0);
    mlx_closure_free(f);
    mlx_closure_free(g);
    mlx_closure_free(h);
    mlx_closure_free(j);
    mlx_vector_array_free(at);
    mlx_vector_array_free(out);
}

/* dot product of two vectors */
static int dot(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_vector_array_get(&y, in, 1) || mlx_inner(&x, x, y, s) ||
                 mlx_vector_array_append_value(*res, x) || mlx_vector_array_append_value(*res, y);
    mlx_array_free(x);
    mlx_array_free(y);
    return failed;
}

static void batches(void **state)
{
    (void)state;
    mlx_array xy[] = { mlx_array_new_data((float[]){ 1, 2, 3, 4, 5, 6 }, (int[]){ 3, 2 }, 2, MLX_FLOAT32),
                       floats(3, (float[]){ 1, 10, 100 }) };
    mlx_vector_array in = mlx_vector_array_new_data(xy, 2), out = mlx_vector_array_new();
    mlx_closure f = mlx_closure_new_func(dot), v = mlx_closure_new();
    mlx_array a = mlx_array_new();
    OK(mlx_vmap(&v, f, (int[]){ 1, -1 }, 2, NULL, 0));
    OK(mlx_closure_apply(&out, v, in));
    OK(mlx_vector_array_get(&a, out, 0));
    expect_array(a, "[531, 642], dtype=float32");
    OK(mlx_vector_array_get(&a, out, 1));
    expect_array(a, "[[1, 10, 100],\n       [1, 10, 100]], dtype=float32");
    OK(mlx_vmap(&v, f, (int[]){ 1, -1 }, 2, (int[]){ 0, MLX_VMAP_NONE }, 2));
    OK(mlx_closure_apply(&out, v, in));
    OK(mlx_vector_array_get(&a, out, 1));
    expect_array(a, "[1, 10, 100], dtype=float32");
    OK(mlx_vmap(&v, f, (int[]){ 1, -1 }, 2, (int[]){ 0, -1 }, 2));
    OK(mlx_closure_apply(&out, v, in));
    OK(mlx_vector_array_get(&a, out, 1));
    expect_array(a, "[[1, 1],\n       [10, 10],\n       [100, 100]], dtype=float32");
    OK(mlx_vmap(&v, f, (int[]){ 1 }, 1, NULL, 0));
    FAILS(mlx_closure_apply(&out, v, in), "[vmap] expected 1 inputs, as many as axes, got 2");
    OK(mlx_vmap(&v, f, (int[]){ 1, -1 }, 2, (int[]){ 0 }, 1));
    FAILS(mlx_closure_apply(&out, v, in), "[vmap] expected 1 outputs, as many as axes, got 2");
    OK(mlx_vmap(&v, f, (int[]){ 7, -1 }, 2, NULL, 0));
    FAILS(mlx_closure_apply(&out, v, in), "[vmap]");
    FAILS(mlx_vmap(&v, f, NULL, 2, NULL, 0), "`in_axes`");
    FAILS(mlx_vmap(&v, mlx_closure_new(), NULL, 0, NULL, 0), "`fun`");
    mlx_array_free(a);
    mlx_array_free(xy[0]);
    mlx_array_free(xy[1]);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_closure_free(f);
    mlx_closure_free(v);
}

/* Sizes at the edges: an empty input, a scalar. */
static int doubles(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_add(&x, x, x, s) || mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    return failed;
}

static void sizes(void **state)
{
    (void)state;
    mlx_closure f = mlx_closure_new_func(doubles), j = mlx_closure_new();
    mlx_vector_array out = mlx_vector_array_new();
    mlx_array x[] = { mlx_array_new_float(3), floats(0, NULL) }, a = mlx_array_new();
    for (int forward = 0; forward < 2; forward++)
        for (int i = 0; i < 2; i++) {
            mlx_vector_array in = mlx_vector_array_new_value(x[i]);
            OK((forward ? mlx_jacfwd : mlx_jacrev)(&j, f, (int[]){ 0 }, 1));
            OK(mlx_closure_apply(&out, j, in));
            OK(mlx_vector_array_get(&a, out, 0));
            if (i)
                assert_true(mlx_array_ndim(a) == 2 && mlx_array_size(a) == 0);
            else
                expect_array(a, "2, dtype=float32");
            mlx_vector_array_free(in);
        }
    mlx_array_free(x[0]);
    mlx_array_free(x[1]);
    mlx_array_free(a);
    mlx_vector_array_free(out);
    mlx_closure_free(f);
    mlx_closure_free(j);
}

/* Every allocation failing once: an error, and nothing leaks. */
static void failing(void **state)
{
    (void)state;
    for (long n = 1, failed = 1; failed; n++) {
        mlx_closure f = mlx_closure_new_func(two_results), j = mlx_closure_new();
        mlx_vector_array at = point(), out = mlx_vector_array_new();
        mx_test_fail_at(n);
        failed = mlx_hessian(&j, f, (int[]){ 0, 1 }, 2) || mlx_closure_apply(&out, j, at);
        mx_test_fail_at(0);
        expect_heard((int)failed, failed ? "could not allocate" : "");
        mlx_closure_free(f);
        mlx_closure_free(j);
        mlx_vector_array_free(at);
        mlx_vector_array_free(out);
        assert_true(n < 100000);
    }
}

int main(void)
{
    s = mlx_default_cpu_stream_new();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways), cmocka_unit_test(composed), cmocka_unit_test(refused),
        cmocka_unit_test(batches),   cmocka_unit_test(sizes),    cmocka_unit_test(failing),
    };
    return cmocka_run_group_tests_name("C API: Jacobians", tests, start_listening, all_gone);
}
