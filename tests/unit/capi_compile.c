/* Compiled closures: what they keep, what makes them trace again, and what is let go of. */
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "support/heard.h"

static mlx_stream s;
static int runs;

static mlx_array at(mlx_vector_array vec, size_t i)
{
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, vec, i));
    return a;
}

/* x + x, and how often it was called */
static int twice(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new();
    runs++;
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_add(&x, x, x, s) || mlx_vector_array_set_value(res, x);
    mlx_array_free(x);
    return failed;
}

static int looks(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_array_eval(x) || mlx_vector_array_set_value(res, x);
    mlx_array_free(x);
    return failed;
}

static mlx_vector_array ones(int n)
{
    mlx_array a = mlx_array_new();
    OK(mlx_ones(&a, &n, 1, MLX_FLOAT32, s));
    mlx_vector_array v = mlx_vector_array_new_value(a);
    mlx_array_free(a);
    return v;
}

/* f of n ones is n twos. */
static void expect_twos(mlx_closure f, int n)
{
    mlx_vector_array in = ones(n), out = mlx_vector_array_new();
    OK(mlx_closure_apply(&out, f, in));
    mlx_array y = at(out, 0), sum = mlx_array_new();
    float v = 0;
    OK(mlx_sum(&sum, y, false, s));
    OK(mlx_array_item_float32(&v, sum));
    assert_int_equal(v, 2 * n);
    mlx_array_free(y);
    mlx_array_free(sum);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
}

static void traced_once_for_each_shape(void **state)
{
    (void)state;
    mlx_closure fun = mlx_closure_new_func(twice), f = mlx_closure_new();
    OK(mlx_compile(&f, fun, false));
    runs = 0;
    for (int i = 0; i < 3; i++) {
        expect_twos(f, 2);
        expect_twos(f, 5);
    }
    assert_int_equal(runs, 2);
    OK(mlx_disable_compile());
    assert_false(mlx_compile_is_enabled());
    expect_twos(f, 2);
    assert_int_equal(runs, 3);
    OK(mlx_enable_compile());
    expect_twos(f, 2);
    assert_int_equal(runs, 3);
    OK(mlx_compile(&f, fun, true));
    for (int n = 1; n < 6; n++) expect_twos(f, n);
    assert_int_equal(runs, 4);
    mlx_closure_free(fun);
    mlx_closure_free(f);
}

static void known_by_number(void **state)
{
    (void)state;
    mlx_closure fun = mlx_closure_new_func(twice), f = mlx_closure_new(), g = mlx_closure_new();
    const uint64_t one = 1, two = 2;
    OK(mlx_detail_compile(&f, fun, 42, false, &one, 1));
    OK(mlx_detail_compile(&g, fun, 42, false, &one, 1));
    runs = 0;
    expect_twos(f, 3);
    expect_twos(g, 3);
    assert_int_equal(runs, 1);
    OK(mlx_detail_compile(&g, fun, 42, false, &two, 1));
    expect_twos(g, 3);
    assert_int_equal(runs, 2);
    OK(mlx_detail_compile_erase(42));
    OK(mlx_detail_compile(&g, fun, 42, false, &one, 1));
    expect_twos(g, 3);
    assert_int_equal(runs, 3);
    OK(mlx_detail_compile_clear_cache());
    expect_twos(f, 3);
    assert_int_equal(runs, 4);
    mlx_closure_free(fun);
    mlx_closure_free(f);
    mlx_closure_free(g);
}

static void modes(void **state)
{
    (void)state;
    for (int m = MLX_COMPILE_MODE_DISABLED; m <= MLX_COMPILE_MODE_ENABLED; m++) {
        mlx_closure fun = mlx_closure_new_func(twice), f = mlx_closure_new();
        OK(mlx_set_compile_mode((mlx_compile_mode)m));
        OK(mlx_compile(&f, fun, false));
        expect_twos(f, 4);
        mlx_closure_free(fun);
        mlx_closure_free(f);
    }
    FAILS(mlx_set_compile_mode((mlx_compile_mode)9), "[set_compile_mode] expected a mode from 0 to 3, got 9");
    assert_true(mlx_compile_is_enabled());
}

static void failures(void **state)
{
    (void)state;
    mlx_closure fun = mlx_closure_new_func(looks), f = mlx_closure_new(), none = mlx_closure_new();
    mlx_vector_array in = ones(1), out = mlx_vector_array_new();
    OK(mlx_compile(&f, fun, false));
    FAILS(mlx_closure_apply(&out, f, in), "which is being compiled");
    FAILS(mlx_compile(&f, none, false), "[compile] expected a closure");
    FAILS(mlx_compile(NULL, fun, false), "[compile] expected");
    FAILS(mlx_detail_compile(&f, fun, 1, false, NULL, 3), "[detail_compile] expected");
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_closure_free(fun);
    mlx_closure_free(f);
}

static void count(void *payload) { ++*(int *)payload; }

struct visits {
    int n, stop_at;
    void *last;
};

static int note_visit(void *payload, void *arg)
{
    struct visits *v = arg;
    v->last = payload;
    return ++v->n == v->stop_at ? 7 : 0;
}

/* A trace that serves several keys is visited once. */
static void what_is_attached_is_visited(void **state)
{
    (void)state;
    mlx_compiled c = mlx_compiled_new("the function", true);
    mlx_closure fun = mlx_closure_new_func(twice);
    mlx_vector_array out = mlx_vector_array_new();
    int ended = 0;
    struct visits v = { 0 };
    for (int n = 1; n <= 3; n++) {
        mlx_vector_array in = ones(n);
        int64_t trace = -2;
        OK(mlx_compiled_apply(&out, &trace, c, fun, NULL, 0, in));
        assert_int_equal(trace, 0);
        mlx_vector_array_free(in);
    }
    assert_int_equal(mlx_compiled_visit(c, note_visit, &v), 0);
    assert_int_equal(v.n, 0);
    for (int i = 0; i < 2; i++) OK(mlx_compiled_attach(c, 0, &ended, count));
    assert_int_equal(mlx_compiled_visit(c, note_visit, &v), 0);
    assert_int_equal(v.n, 2);
    assert_ptr_equal(v.last, &ended);
    v = (struct visits){ .stop_at = 1 };
    assert_int_equal(mlx_compiled_visit(c, note_visit, &v), 7);
    assert_int_equal(v.n, 1);
    assert_int_equal(ended, 0);
    OK(mlx_compiled_forget(c));
    assert_int_equal(ended, 2);
    assert_int_equal(mlx_compiled_visit(c, note_visit, &v), 0);
    assert_int_equal(v.n, 1);
    FAILS(mlx_compiled_visit(c, NULL, &v), "[compiled_visit] expected a function for `visit`");
    FAILS(mlx_compiled_forget((mlx_compiled){ NULL }), "[compiled_forget] expected a compiled function");
    mlx_vector_array_free(out);
    mlx_closure_free(fun);
    OK(mlx_compiled_free(c));
}

static void what_a_binding_keeps(void **state)
{
    (void)state;
    mlx_compiled c = mlx_compiled_new("the function", false);
    mlx_closure fun = mlx_closure_new_func(twice);
    mlx_vector_array out = mlx_vector_array_new();
    int ended = 0, ended_early = 0;
    OK(mlx_compiled_set_limit(c, 2));
    for (int n = 1; n <= 4; n++) {
        mlx_vector_array in = ones(n);
        int64_t trace = -2;
        OK(mlx_compiled_apply(&out, &trace, c, fun, NULL, 0, in));
        assert_int_equal(trace, n - 1);
        OK(mlx_compiled_attach(c, trace, &ended_early, count));
        OK(mlx_compiled_attach(c, trace, &ended, count));
        assert_ptr_equal(mlx_compiled_payload(c, trace), &ended);
        mlx_vector_array_free(in);
    }
    assert_int_equal(ended, 2);
    assert_null(mlx_compiled_payload(c, 0));
    assert_int_equal(mlx_compiled_count(c), 4);
    mlx_string text = mlx_string_new();
    OK(mlx_compiled_text(&text, c));
    assert_non_null(strstr(mlx_string_data(text), "the function: 4 traces, 2 kept (at most 2)"));
    assert_non_null(strstr(mlx_string_data(text), "argument 0: float32 (3,) -> float32 (4,)"));
    mlx_string_free(text);
    FAILS(mlx_compiled_set_limit(c, 0), "[compile] expected room for one trace at least, got 0");
    mlx_vector_array_free(out);
    mlx_closure_free(fun);
    OK(mlx_compiled_free(c));
    assert_int_equal(ended, 4);
    assert_int_equal(ended_early, 4);
}

static void names_that_cannot_be_copied(void **state)
{
    (void)state;
    mlx_compiled c = mlx_compiled_new("the function", false);
    const char *const names[] = { "x", "y" };
    long n = 0;
    for (int failed = 1; failed; n++) {
        mx_test_fail_at(n + 1);
        failed = mlx_compiled_describe(c, names, 2, "it is new");
        mx_test_fail_at(0);
        expect_heard(failed, failed ? "memory" : "");
    }
    assert_int_equal(n, 5); /* the list, two names, the reason, and then none */
    OK(mlx_compiled_free(c));
}

int main(void)
{
    s = mlx_default_cpu_stream_new();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traced_once_for_each_shape),
        cmocka_unit_test(known_by_number),
        cmocka_unit_test(modes),
        cmocka_unit_test(failures),
        cmocka_unit_test(what_a_binding_keeps),
        cmocka_unit_test(what_is_attached_is_visited),
        cmocka_unit_test(names_that_cannot_be_copied),
    };
    return cmocka_run_group_tests_name("C API: compile", tests, start_listening, all_gone);
}
