/* Functions exported and imported through the C interface: values, errors, memory that runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/array.h"
#include "core/buffer.h"
#include "core/error.h"
#include "core/memory.h"
#include "mlx/c/mlx.h"
#include "support/heard.h"

static mlx_stream cpu;
static char path[64];

static int start(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/capi_export.%ld.mlxfn", (long)getpid());
    cpu = mlx_default_cpu_stream_new();
    mlx_set_error_handler(listen, NULL, NULL);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    unlink(path);
    mlx_set_error_handler(NULL, NULL, NULL);
    mlx_stream_free(cpu);
    return 0;
}

/* 2 a + b */
static int doubled_plus(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array a = mlx_array_new(), b = mlx_array_new();
    int failed = mlx_vector_array_get(&a, in, 0) || mlx_vector_array_get(&b, in, 1) || mlx_add(&b, a, b, cpu) ||
                 mlx_add(&b, a, b, cpu) || mlx_vector_array_append_value(*res, b);
    mlx_array_free(a);
    mlx_array_free(b);
    return failed;
}

/* a, times `by` if there is one */
static int scaled(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array named)
{
    mlx_array a = mlx_array_new(), by = mlx_array_new();
    int failed = mlx_vector_array_get(&a, in, 0);
    if (!failed && mlx_map_string_to_array_get(&by, named, "by") == 0)
        failed = mlx_multiply(&a, a, by, cpu);
    failed = failed || mlx_vector_array_append_value(*res, a);
    mlx_array_free(a);
    mlx_array_free(by);
    return failed;
}

static int failing(mlx_vector_array *res, const mlx_vector_array in)
{
    (void)res, (void)in;
    return 7;
}

static mlx_vector_array vector(int n, const float v[])
{
    mlx_vector_array vec = mlx_vector_array_new();
    for (int i = 0; i < n; i++) {
        mlx_array a = mlx_array_new_data(&v[i], (int[]){ 1 }, 1, MLX_FLOAT32);
        mlx_vector_array_append_value(vec, a);
        mlx_array_free(a);
    }
    return vec;
}

static float only(mlx_vector_array y)
{
    mlx_array a = mlx_array_new();
    assert_int_equal(mlx_vector_array_size(y), 1);
    assert_int_equal(mlx_vector_array_get(&a, y, 0), 0);
    assert_int_equal(mlx_array_eval(a), 0);
    float v = mlx_array_data_float32(a)[0];
    mlx_array_free(a);
    return v;
}

static void one_function(void **state)
{
    (void)state;
    mlx_closure f = mlx_closure_new_func(doubled_plus);
    mlx_vector_array in = vector(2, (float[]){ 3, 4 }), y = mlx_vector_array_new(), one = vector(1, (float[]){ 1 });
    assert_int_equal(mlx_export_function(path, f, in, false), 0);
    mlx_imported_function g = mlx_imported_function_new(path);
    assert_non_null(g.ctx);
    assert_int_equal(mlx_imported_function_apply(&y, g, in), 0);
    assert_true(only(y) == 10);
    assert_int_equal(mlx_imported_function_apply(&y, g, one), 1);
    assert_non_null(strstr(heard.last, "differs: 2 positional inputs, got 1"));
    assert_true(only(y) == 10);
    mlx_string told = mlx_string_new();
    assert_int_equal(mlx_inspect_function(&told, path), 0);
    assert_non_null(strstr(mlx_string_data(told), "\"operations\":{\"Add\":2}"));
    mlx_string_free(told);
    mlx_imported_function_free(g);
    mlx_vector_array_free(in);
    mlx_vector_array_free(one);
    mlx_vector_array_free(y);
    mlx_closure_free(f);
}

/* Of two exporters to a file the one whose file was replaced writes no more, and the other's stays. */
static void replaced(void **state)
{
    (void)state;
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(scaled);
    mlx_vector_array one = vector(1, (float[]){ 3 }), two = vector(2, (float[]){ 3, 4 }), y = mlx_vector_array_new();
    for (int more = 0; more < 2; more++) {
        unlink(path);
        mlx_function_exporter a = mlx_function_exporter_new_kwargs(path, f, false, true, "", 0);
        mlx_function_exporter b = mlx_function_exporter_new_kwargs(path, f, false, true, "", 0);
        assert_int_equal(mlx_function_exporter_apply(a, one), 0);
        assert_int_equal(mlx_function_exporter_apply(b, two), 0);
        assert_int_equal(mlx_function_exporter_apply(b, one), 0);
        assert_int_equal(mlx_function_exporter_close(b, true), 0);
        if (more) {
            assert_int_equal(mlx_function_exporter_apply(a, two), 1);
            assert_non_null(strstr(heard.last, "replaced"));
        }
        assert_int_equal(mlx_function_exporter_close(a, true), 0);
        mlx_function_exporter_free(a);
        mlx_function_exporter_free(b);
        mlx_imported_function made = mlx_imported_function_new(path);
        assert_int_equal(mlx_imported_function_apply(&y, made, one), 0);
        assert_int_equal(mlx_imported_function_apply(&y, made, two), 0);
        mlx_imported_function_free(made);
    }
    unlink(path);
    mlx_vector_array_free(one);
    mlx_vector_array_free(two);
    mlx_vector_array_free(y);
    mlx_closure_kwargs_free(f);
}

static void several_traces(void **state)
{
    (void)state;
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(scaled);
    mlx_map_string_to_array none = mlx_map_string_to_array_new(), named = mlx_map_string_to_array_new();
    mlx_array two = mlx_array_new_float(2);
    mlx_map_string_to_array_insert(named, "by", two);
    mlx_vector_array in = vector(1, (float[]){ 3 }), y = mlx_vector_array_new();
    mlx_function_exporter e = mlx_function_exporter_new_kwargs(path, f, true, true, "about", 5);
    assert_non_null(e.ctx);
    assert_int_equal(mlx_function_exporter_apply_kwargs(e, in, none), 0);
    assert_int_equal(mlx_function_exporter_apply_kwargs(e, in, named), 0);
    assert_int_equal(mlx_function_exporter_apply_kwargs(e, in, named), 1);
    assert_non_null(strstr(heard.last, "same signature"));
    assert_int_equal(mlx_function_exporter_close(e, true), 0);
    assert_int_equal(mlx_function_exporter_apply(e, in), 1);
    assert_non_null(strstr(heard.last, "closed"));
    mlx_function_exporter_free(e);
    mlx_imported_function g = mlx_imported_function_new(path);
    const char *text;
    size_t length;
    assert_int_equal(mlx_imported_function_metadata(&text, &length, g), 0);
    assert_int_equal(length, 5);
    assert_string_equal(text, "about");
    assert_int_equal(mlx_imported_function_apply_kwargs(&y, g, in, named), 0);
    assert_true(only(y) == 6);
    assert_int_equal(mlx_imported_function_apply(&y, g, in), 0);
    assert_true(only(y) == 3);
    mlx_imported_function_free(g);
    assert_int_equal(mlx_export_function_kwargs(path, f, in, named, false), 0);
    mlx_array_free(two);
    mlx_map_string_to_array_free(none);
    mlx_map_string_to_array_free(named);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_closure_kwargs_free(f);
}

static int count_events(const char *event, const mlx_vector_array constants, void *payload)
{
    (void)constants;
    assert_int_equal(event[0], '{');
    ++*(int *)payload;
    return 0;
}

static void listeners(void **state)
{
    (void)state;
    int events = 0;
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(scaled);
    mlx_map_string_to_array named = mlx_map_string_to_array_new();
    mlx_array two = mlx_array_new_float(2);
    mlx_map_string_to_array_insert(named, "by", two);
    mlx_vector_array in = vector(1, (float[]){ 3 });
    mlx_function_exporter e = mlx_function_exporter_new_callback(count_events, &events, NULL, f, false, true);
    assert_int_equal(mlx_function_exporter_apply_kwargs(e, in, named), 0);
    assert_int_equal(events, 6); /* inputs, keywords, outputs, constants, Broadcast, Multiply */
    mlx_function_exporter_free(e);
    mlx_array_free(two);
    mlx_map_string_to_array_free(named);
    mlx_vector_array_free(in);
    mlx_closure_kwargs_free(f);
}

/* A listener that uses, closes or frees the exporter that tells it. */
static struct {
    mlx_function_exporter e;
    mlx_vector_array in;
    int does, failed;
} nested;
static int use_exporter(const char *event, const mlx_vector_array constants, void *payload)
{
    (void)event, (void)constants, (void)payload;
    if (nested.does == 0)
        nested.failed += mlx_function_exporter_apply(nested.e, nested.in);
    else if (nested.does == 1)
        mlx_function_exporter_close(nested.e, true);
    else if (nested.does++ == 2)
        mlx_function_exporter_free(nested.e);
    return 0;
}

static int sum_of_constant(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array named,
                           void *constant)
{
    mlx_array a = mlx_array_new();
    (void)named;
    int failed = mlx_vector_array_get(&a, in, 0) || mlx_add(&a, a, *(mlx_array *)constant, cpu) ||
                 mlx_vector_array_append_value(*res, a);
    mlx_array_free(a);
    return failed;
}

/* Takes constants unless it refuses them. */
static struct {
    bool refuses;
    size_t taken;
} taker;
static int take_constants(const char *event, const mlx_vector_array constants, void *payload)
{
    (void)payload;
    bool refused = taker.refuses && strstr(event, "\"constants\"");
    taker.taken += refused ? 0 : mlx_vector_array_size(constants);
    return refused;
}

static void constants_that_were_refused(void **state)
{
    (void)state;
    mlx_array constant = mlx_array_new();
    assert_int_equal(mlx_arange(&constant, 0, 5000, 1, MLX_FLOAT32, cpu) || mlx_array_eval(constant), 0);
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func_payload(sum_of_constant, &constant, NULL);
    mlx_map_string_to_array none = mlx_map_string_to_array_new();
    mlx_vector_array one = vector(1, (float[]){ 3 }), other = mlx_vector_array_new();
    mlx_array number = mlx_array_new_float(2);
    mlx_vector_array_append_value(other, number);
    mlx_function_exporter e = mlx_function_exporter_new_callback(take_constants, NULL, NULL, f, false, true);
    taker.refuses = true;
    assert_int_equal(mlx_function_exporter_apply_kwargs(e, one, none), 1);
    taker.refuses = false;
    taker.taken = 0;
    assert_int_equal(mlx_function_exporter_apply_kwargs(e, one, none), 0);
    assert_int_equal(taker.taken, 1);
    assert_int_equal(mlx_function_exporter_apply_kwargs(e, other, none), 0); /* known by now */
    assert_int_equal(taker.taken, 1);
    mlx_function_exporter_free(e);
    mlx_array_free(constant);
    mlx_map_string_to_array_free(none);
    mlx_vector_array_free(one);
    mlx_vector_array_free(other);
    mlx_array_free(number);
    mlx_closure_kwargs_free(f);
}

static int traced_apply(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array kwargs)
{
    (void)kwargs;
    nested.failed += nested.does == 0 && mlx_function_exporter_apply(nested.e, nested.in);
    return mlx_vector_array_set(res, in);
}

static void exporters_at_work(void **state)
{
    (void)state;
    for (nested.does = 0; nested.does < 3; nested.does++) {
        mlx_closure_kwargs f = mlx_closure_kwargs_new_func(traced_apply);
        mlx_vector_array in = vector(1, (float[]){ 3 });
        nested.in = vector(2, (float[]){ 3, 4 });
        nested.failed = 0;
        heard.n = 0;
        int does = nested.does;
        nested.e = mlx_function_exporter_new_callback(use_exporter, NULL, NULL, f, false, true);
        mlx_function_exporter_apply(nested.e, in);
        assert_int_equal(heard.n, nested.failed);
        if (does == 0) {
            assert_true(nested.failed >= 3); /* by the function, and for each event */
            assert_non_null(strstr(heard.last, "the exporter is at work"));
        }
        if (does < 2)
            mlx_function_exporter_free(nested.e);
        nested.does = does;
        heard.n = 0;
        mlx_vector_array_free(in);
        mlx_vector_array_free(nested.in);
        mlx_closure_kwargs_free(f);
    }
}

static int scaled_by_twos(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array kwargs)
{
    mlx_array x = mlx_array_new(), twos = mlx_array_new_data((float[]){ 2, 2 }, (int[]){ 2 }, 1, MLX_FLOAT32);
    (void)kwargs;
    int failed =
        mlx_vector_array_get(&x, in, 0) || mlx_multiply(&x, x, twos, cpu) || mlx_vector_array_set_value(res, x);
    mlx_array_free(x);
    mlx_array_free(twos);
    return failed;
}

static void closed_before_constants_are_told(void **state)
{
    (void)state;
    for (nested.does = 1; nested.does < 3; nested.does++) {
        mlx_closure_kwargs f = mlx_closure_kwargs_new_func(scaled_by_twos);
        mlx_vector_array in = vector(2, (float[]){ 3, 4 });
        int does = nested.does;
        long before = array_live_count();
        heard.n = 0;
        nested.e = mlx_function_exporter_new_callback(use_exporter, NULL, NULL, f, false, true);
        OK(mlx_function_exporter_apply(nested.e, in));
        if (does == 1)
            mlx_function_exporter_free(nested.e);
        nested.does = does;
        assert_int_equal(array_live_count(), before);
        mlx_vector_array_free(in);
        mlx_closure_kwargs_free(f);
    }
}

static void mistakes(void **state)
{
    (void)state;
    mlx_closure f = mlx_closure_new_func(doubled_plus), bad = mlx_closure_new_func(failing);
    mlx_vector_array in = vector(2, (float[]){ 3, 4 }), y = mlx_vector_array_new();
    assert_int_equal(mlx_export_function(path, f, in, false), 0);
    struct stat before, after;
    stat(path, &before);
    assert_int_equal(mlx_export_function(path, bad, in, false), 1);
    assert_int_equal(mlx_export_function(NULL, f, in, false), 1);
    assert_int_equal(mlx_export_function(path, (mlx_closure){ NULL }, in, false), 1);
    assert_int_equal(mlx_export_function(path, f, (mlx_vector_array){ NULL }, false), 1);
    assert_int_equal(mlx_export_function("/nowhere/at/all", f, in, false), 1);
    assert_non_null(strstr(heard.last, "Failed to open"));
    stat(path, &after);
    assert_true(before.st_ino == after.st_ino);
    assert_null(mlx_imported_function_new("/nowhere/at/all").ctx);
    assert_null(mlx_imported_function_new(NULL).ctx);
    assert_int_equal(mlx_imported_function_apply(&y, (mlx_imported_function){ NULL }, in), 1);
    assert_int_equal(mlx_function_exporter_apply((mlx_function_exporter){ NULL }, in), 1);
    assert_int_equal(mlx_function_exporter_free((mlx_function_exporter){ NULL }), 0);
    assert_int_equal(mlx_imported_function_free((mlx_imported_function){ NULL }), 0);
    mlx_string told = mlx_string_new();
    assert_int_equal(mlx_inspect_function(&told, "/nowhere/at/all"), 1);
    mlx_string_free(told);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_closure_free(f);
    mlx_closure_free(bad);
}

/* Each allocation failing in turn: one error, an older file as it was, and nothing left. */
static void out_of_memory(void **state)
{
    (void)state;
    mlx_closure f = mlx_closure_new_func(doubled_plus);
    mlx_vector_array in = vector(2, (float[]){ 3, 4 });
    assert_int_equal(mlx_export_function(path, f, in, false), 0);
    long live = array_live_count(), n = 0;
    for (int failed = 1; failed; n++) {
        struct stat before, after;
        stat(path, &before);
        heard.n = 0;
        mx_test_fail_at(n + 1);
        failed = mlx_export_function(path, f, in, false);
        mx_test_fail_at(0);
        stat(path, &after);
        assert_int_equal(heard.n, failed);
        assert_int_equal(before.st_ino != after.st_ino, !failed);
        assert_int_equal(array_live_count(), live);
    }
    assert_true(n > 20);
    n = 0;
    for (int failed = 1; failed; n++) {
        mlx_vector_array y = mlx_vector_array_new();
        mx_test_fail_at(n + 1);
        mlx_imported_function g = mlx_imported_function_new(path);
        failed = !g.ctx || mlx_imported_function_apply(&y, g, in);
        mx_test_fail_at(0);
        if (!failed)
            assert_true(only(y) == 10);
        mlx_vector_array_free(y);
        mlx_imported_function_free(g);
        assert_int_equal(array_live_count(), live);
    }
    assert_true(n > 20);
    mlx_vector_array_free(in);
    mlx_closure_free(f);
}

/* The same where the arrays have names, which are copied. */
static void out_of_memory_for_names(void **state)
{
    (void)state;
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(scaled);
    mlx_vector_array in = vector(1, (float[]){ 3 });
    mlx_map_string_to_array named = mlx_map_string_to_array_new();
    mlx_array four = mlx_array_new_float(4);
    mlx_map_string_to_array_insert(named, "by", four);
    mlx_array_free(four);
    assert_int_equal(mlx_export_function_kwargs(path, f, in, named, false), 0);
    long live = array_live_count(), n = 0;
    for (int failed = 1; failed; n++) {
        heard.n = 0;
        mx_test_fail_at(n + 1);
        failed = mlx_export_function_kwargs(path, f, in, named, false);
        mx_test_fail_at(0);
        assert_true(heard.n == 1 || !failed); /* `scaled` gets by without `by` */
        assert_int_equal(array_live_count(), live);
    }
    assert_true(n > 20);
    mx_test_fail_at(1);
    assert_null(mx_strdup("by"));
    mx_test_fail_at(0);
    assert_true(mx_error_kind() == MX_MEMORY);
    mx_error_clear();
    mlx_map_string_to_array_free(named);
    mlx_vector_array_free(in);
    mlx_closure_kwargs_free(f);
}

static int freeing(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array named)
{
    int failed = scaled(res, in, named);
    mlx_vector_array_free(in);
    mlx_map_string_to_array_free(named);
    return failed;
}

static void a_function_that_frees_its_arguments(void **state)
{
    (void)state;
    mlx_map_string_to_array named = mlx_map_string_to_array_new();
    mlx_array two = mlx_array_new_float(2);
    mlx_map_string_to_array_insert(named, "by", two);
    mlx_vector_array in = vector(1, (float[]){ 3 });
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func(freeing);
    assert_int_equal(mlx_export_function_kwargs(path, f, in, named, false), 0);
    mlx_function_exporter e = mlx_function_exporter_new_kwargs(path, f, false, true, NULL, 0);
    assert_int_equal(mlx_function_exporter_apply_kwargs(e, in, named), 0);
    mlx_function_exporter_free(e);
    mlx_array_free(two);
    mlx_closure_kwargs_free(f);
    mlx_vector_array_free(in);
    mlx_map_string_to_array_free(named);
}

static void write_text(const char *file, const char *text)
{
    FILE *f = fopen(file, "w");
    fputs(text, f);
    fclose(f);
}

/* Its place is settled when the exporter is made: folders that become the current one or take its folder's name later
 * do not matter, nor do links that appear. */
static void an_exporter_stays_in_its_folder(void **state)
{
    (void)state;
    char folder[] = "/tmp/capi_export.XXXXXX", was[4096], text[8] = "";
    assert_non_null(getcwd(was, sizeof was));
    assert_true(mkdtemp(folder) && !chdir(folder) && !mkdir("a", 0700) && !mkdir("b", 0700));
    write_text("b/m", "mine");
    write_text("b/old", "mine");
    write_text("a/old", "old");
    mlx_vector_array in = vector(2, (float[]){ 1, 2 });
    mlx_closure f = mlx_closure_new_func(doubled_plus);
    assert_int_equal(chdir("a"), 0);
    const char *names[] = { "m", "../a/n", "old", "link" };
    assert_int_equal(symlink("target", "link"), 0);
    mlx_function_exporter e[4];
    for (int i = 0; i < 4; i++) e[i] = mlx_function_exporter_new(names[i], f, false);
    assert_true(!chdir("../b") && !rename("../a", "../c") && !mkdir("../a", 0700));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mlx_function_exporter_apply(e[i], in), 0);
        mlx_function_exporter_free(e[i]);
    }
    static const char *const made[] = { "m", "n", "old", "target" };
    for (int i = 0; i < 4; i++) {
        char name[16];
        struct stat st;
        snprintf(name, sizeof name, "../c/%s", made[i]);
        assert_true(!stat(name, &st) && st.st_size > 100 && !unlink(name));
    }
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(i ? "old" : "m", "r");
        assert_true(fgets(text, sizeof text, file) && !strcmp(text, "mine"));
        fclose(file);
    }
    assert_true(!unlink("m") && !unlink("old") && !unlink("../c/link") && !chdir("..") && !rmdir("a") && !rmdir("b") &&
                !rmdir("c") && !rmdir(folder) && !chdir(was));
    mlx_closure_free(f);
    mlx_vector_array_free(in);
}

static int emptied(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array named, void *map)
{
    mlx_map_string_to_array none = mlx_map_string_to_array_new();
    int failed = mlx_map_string_to_array_set(map, none) || scaled(res, in, named);
    mlx_map_string_to_array_free(none);
    return failed;
}

/* The arguments are those that there were when the call began. */
static void a_function_that_changes_its_arguments(void **state)
{
    (void)state;
    mlx_map_string_to_array named = mlx_map_string_to_array_new();
    mlx_array two = mlx_array_new_float(2);
    mlx_map_string_to_array_insert(named, "by", two);
    mlx_vector_array in = vector(1, (float[]){ 3 });
    mlx_closure_kwargs f = mlx_closure_kwargs_new_func_payload(emptied, &named, NULL);
    assert_int_equal(mlx_export_function_kwargs(path, f, in, named, false), 0);
    mlx_string text = mlx_string_new();
    assert_int_equal(mlx_inspect_function(&text, path), 0);
    assert_non_null(strstr(mlx_string_data(text), "\"by\""));
    mlx_string_free(text);
    mlx_array_free(two);
    mlx_closure_kwargs_free(f);
    mlx_vector_array_free(in);
    mlx_map_string_to_array_free(named);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_function),
        cmocka_unit_test(several_traces),
        cmocka_unit_test(replaced),
        cmocka_unit_test(listeners),
        cmocka_unit_test(constants_that_were_refused),
        cmocka_unit_test(closed_before_constants_are_told),
        cmocka_unit_test(exporters_at_work),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(out_of_memory_for_names),
        cmocka_unit_test(a_function_that_changes_its_arguments),
        cmocka_unit_test(a_function_that_frees_its_arguments),
        cmocka_unit_test(an_exporter_stays_in_its_folder),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
