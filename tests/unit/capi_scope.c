/* Scopes free the handles made in them, of every kind, and the report knows which are live. */
#include <pthread.h>
#include <stdlib.h>

#include "core/buffer.h"
#include "support/heard.h"

static mlx_stream s;

static size_t count(const char *kind)
{
    size_t n = 0;
    OK(mlx_handles_count(&n, kind));
    return n;
}

static int twice(mlx_array *res, const mlx_array x) { return mlx_add(res, x, x, s); }

static void drop(void *payload) { ++*(int *)payload; }

static int many(mlx_vector_array *res, const mlx_vector_array in, void *payload)
{
    (void)payload;
    OK(mlx_scope_begin());
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_square(&y, x, s) || mlx_sum(&y, y, false, s) ||
                 mlx_vector_array_append_value(*res, y);
    OK(mlx_scope_end());
    return failed;
}

static int named(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array kw)
{
    (void)kw;
    return mlx_vector_array_set(res, in);
}

static int rule(mlx_vector_array *res, const mlx_vector_array a, const mlx_vector_array b, const mlx_vector_array c)
{
    (void)b, (void)c;
    return mlx_vector_array_set(res, a);
}

static int forward(mlx_vector_array *res, const mlx_vector_array x, const mlx_vector_array t, const int *n, size_t num)
{
    (void)t, (void)n, (void)num;
    return mlx_vector_array_set(res, x);
}

static int batched(mlx_vector_array *res, mlx_vector_int *axes, const mlx_vector_array x, const int *in, size_t num)
{
    (void)in, (void)num;
    return mlx_vector_array_set(res, x) || mlx_vector_int_append_value(*axes, 0);
}

static bool is_open(void *d) { return d != NULL; }

/* One handle of every kind, made and left. */
static void make_all(int *ended)
{
    const int two[] = { 2 };
    const float v[] = { 1, 2 };
    mlx_array a = mlx_array_new_data(v, two, 1, MLX_FLOAT32), y = mlx_array_new(), g = mlx_array_new();
    mlx_vector_array va = mlx_vector_array_new_value(a), out = mlx_vector_array_new(), grads = mlx_vector_array_new();
    mlx_vector_vector_array_new_value(va);
    mlx_vector_int_new_value(1);
    mlx_vector_string_new_value("x");
    mlx_map_string_to_array m = mlx_map_string_to_array_new();
    mlx_map_string_to_string t = mlx_map_string_to_string_new();
    OK(mlx_map_string_to_array_insert(m, "a", a));
    mlx_map_string_to_array_iterator_new(m);
    mlx_map_string_to_string_iterator_new(t);
    mlx_string text = mlx_string_new_data("x");
    OK(mlx_array_tostring(&text, a));
    mlx_closure f = mlx_closure_new_func_payload(many, ended, drop), compiled = mlx_closure_new();
    OK(mlx_compile(&compiled, f, false));
    OK(mlx_closure_apply(&out, compiled, va));
    OK(mlx_vector_array_get(&y, out, 0));
    OK(mlx_array_eval(y));
    expect_array(y, "5, dtype=float32");
    mlx_closure_value_and_grad vg = mlx_closure_value_and_grad_new();
    OK(mlx_value_and_grad(&vg, f, (int[]){ 0 }, 1));
    OK(mlx_closure_value_and_grad_apply(&out, &grads, vg, va));
    OK(mlx_vector_array_get(&g, grads, 0));
    expect_array(g, "[2, 4], dtype=float32");
    mlx_closure_kwargs k = mlx_closure_kwargs_new_func(named);
    mlx_closure_custom_new_func(rule);
    mlx_closure_custom_jvp_new_func(forward);
    mlx_closure_custom_vmap_new_func(batched);
    mlx_compiled_new("f", false);
    mlx_device d = mlx_device_new_type(MLX_CPU, 0);
    mlx_device_info info = mlx_device_info_new();
    OK(mlx_device_info_get(&info, d));
    char name[] = "/tmp/scopeXXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    mlx_function_exporter e = mlx_function_exporter_new_kwargs(name, k, false, true, NULL, 0);
    OK(mlx_function_exporter_apply(e, va));
    OK(mlx_function_exporter_close(e, true));
    mlx_imported_function_new(name);
    remove(name);
    mlx_io_vtable none = { .is_open = is_open };
    mlx_io_reader_new(NULL, none);
    mlx_io_writer_new(NULL, none);
    mlx_io_gguf_new();
    mlx_node_namer_new();
    expect_heard(0, "");
}

static void every_kind(void **state)
{
    (void)state;
    int ended = 0;
    size_t before = count(NULL);
    assert_int_equal(before, count("mlx_array"));
    OK(mlx_scope_begin());
    make_all(&ended);
    /* clang-format off */
    static const char *const kinds[] = {
        "mlx_array", "mlx_vector_array", "mlx_vector_vector_array", "mlx_vector_int", "mlx_vector_string",
        "mlx_map_string_to_array", "mlx_map_string_to_string", "mlx_map_string_to_array_iterator",
        "mlx_map_string_to_string_iterator", "mlx_string", "mlx_closure", "mlx_closure_kwargs",
        "mlx_closure_value_and_grad", "mlx_closure_custom", "mlx_closure_custom_jvp", "mlx_closure_custom_vmap",
        "mlx_compiled", "mlx_device", "mlx_device_info", "mlx_function_exporter", "mlx_imported_function",
        "mlx_io_reader", "mlx_io_writer", "mlx_io_gguf", "mlx_node_namer",
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (count(kinds[i]) == 0)
            fail_msg("no %s is counted", kinds[i]);
    assert_int_equal(ended, 0);
    OK(mlx_scope_end());
    assert_int_equal(ended, 1);
    assert_int_equal(count(NULL), before);
}

static void kept(void **state)
{
    (void)state;
    OK(mlx_scope_begin());
    mlx_array outer = mlx_array_new_int(1);
    OK(mlx_scope_begin());
    mlx_array gone = mlx_array_new_int(2), given = mlx_array_new_int(3), out = mlx_array_new_int(4);
    OK(mlx_add(&outer, outer, gone, s)); /* changed, and still the outer scope's */
    OK(mlx_array_free(gone));
    OK(mlx_scope_keep(given.ctx));
    OK(mlx_scope_keep(out.ctx));
    OK(mlx_scope_keep(out.ctx));   /* the outer one's now, and not touched */
    OK(mlx_scope_keep(outer.ctx)); /* nor is what was there before */
    OK(mlx_scope_end());
    OK(mlx_scope_keep(out.ctx));
    expect_array(outer, "3, dtype=int32");
    expect_array(given, "3, dtype=int32");
    assert_int_equal(count("mlx_array"), 3);
    OK(mlx_scope_end());
    assert_int_equal(count("mlx_array"), 1);
    expect_array(out, "4, dtype=int32");
    OK(mlx_scope_keep(out.ctx)); /* it is in no scope */
    OK(mlx_array_free(out));
    FAILS(mlx_scope_end(), "[scope_end] expected a scope begun on this thread");
    FAILS(mlx_scope_keep(NULL), "[scope_keep]");
}

/* Results of callbacks that open scopes. */
static int keeps_result(mlx_array *res, const mlx_array x)
{
    OK(mlx_scope_begin());
    int failed = twice(res, x) || mlx_scope_keep(res->ctx);
    OK(mlx_scope_end());
    return failed;
}

static void in_callbacks(void **state)
{
    (void)state;
    mlx_closure f = mlx_closure_new_unary(keeps_result), g = mlx_closure_new_func_payload(many, NULL, NULL);
    mlx_array x = mlx_array_new_float(3), y = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_value(x), out = mlx_vector_array_new();
    OK(mlx_scope_begin());
    OK(mlx_closure_apply(&out, f, in));
    OK(mlx_vector_array_get(&y, out, 0));
    expect_array(y, "6, dtype=float32");
    OK(mlx_vjp(&out, &in, g, in, in));
    OK(mlx_vector_array_get(&y, in, 0));
    expect_array(y, "18, dtype=float32");
    OK(mlx_scope_end()); /* y was empty before, and is gone */
    OK(mlx_vector_array_free(in));
    OK(mlx_vector_array_free(out));
    OK(mlx_array_free(x));
    OK(mlx_closure_free(f));
    OK(mlx_closure_free(g));
}

/* Scopes of other threads are their own; a handle may be freed elsewhere than where it was made. */
static void *on_thread(void *made)
{
    mlx_array_free(*(mlx_array *)made);
    for (int i = 0; i < 2000; i++) {
        mlx_scope_begin();
        for (int k = 0; k < 5; k++) {
            mlx_array a = mlx_array_new_int(k);
            if (k % 2)
                mlx_array_free(a);
        }
        mlx_scope_end();
    }
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    size_t before = count(NULL);
    OK(mlx_scope_begin());
    mlx_array made[3], stays = mlx_array_new_int(7);
    pthread_t thread[3];
    for (int i = 0; i < 3; i++) {
        made[i] = mlx_array_new_int(i);
        assert_int_equal(pthread_create(&thread[i], NULL, on_thread, &made[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    assert_int_equal(count(NULL), before + 1);
    expect_array(stays, "7, dtype=int32");
    OK(mlx_scope_end());
    assert_int_equal(count(NULL), before);
}

static void report(void **state)
{
    (void)state;
    mlx_string text = mlx_string_new();
    OK(mlx_handles_watch(true));
    mlx_array a = mlx_array_new_int(1), b = mlx_array_new();
    OK(mlx_add(&b, a, a, s));
    OK(mlx_handles_watch(false));
    mlx_array unwatched = mlx_array_new_int(1);
    OK(mlx_handles_report(&text));
    const char *t = mlx_string_data(text), *first = strstr(t, "mlx_array made by mlx_array_new_int, handle ");
    const char *second = strstr(t, "mlx_array made by mlx_add, handle ");
    if (strncmp(t, "3 handles are live\n       3 mlx_array\n", 37) || !first || !second || second < first)
        fail_msg("%s", t);
    OK(mlx_array_free(b));
    OK(mlx_array_free(unwatched));
    OK(mlx_string_free(text));
    text = mlx_string_new();
    OK(mlx_handles_report(&text));
    t = mlx_string_data(text);
    if (strncmp(t, "1 handle is live\n", 17) || strstr(t, "mlx_add"))
        fail_msg("%s", t);
    OK(mlx_string_free(text));
    OK(mlx_array_free(a));
    size_t n;
    FAILS(mlx_handles_count(&n, "array"), "[handles_count]");
    FAILS(mlx_handles_count(NULL, NULL), "[handles_count]");
    FAILS(mlx_handles_report(NULL), "[handles_report]");
}

/* Whatever allocation fails: one error, and nothing stays. */
static void failing(void **state)
{
    (void)state;
    size_t before = count(NULL);
    for (long n = 1, failed = 1; failed; n++) {
        mx_test_fail_at(n);
        failed = mlx_scope_begin();
        if (!failed) {
            mlx_array a = mlx_array_new_int(1), b = mlx_array_new();
            mlx_vector_array v = { NULL };
            failed = !a.ctx || mlx_add(&b, a, a, s) || !(v = mlx_vector_array_new_value(b)).ctx ||
                     !mlx_string_new_data("x").ctx || !mlx_io_gguf_new().ctx;
            mx_test_fail_at(0);
            mlx_scope_end();
        }
        mx_test_fail_at(0);
        expect_heard((int)failed, failed ? "could not allocate" : "");
        assert_int_equal(count(NULL), before);
        assert_true(n < 1000);
    }
}

int main(void)
{
    s = mlx_default_cpu_stream_new();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind), cmocka_unit_test(kept),   cmocka_unit_test(in_callbacks),
        cmocka_unit_test(threads),    cmocka_unit_test(report), cmocka_unit_test(failing),
    };
    return cmocka_run_group_tests_name("C API: scopes of handles", tests, start_listening, all_gone);
}
