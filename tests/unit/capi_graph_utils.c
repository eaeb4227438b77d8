/* Graphs as text, names of arrays, and the operations of the C API that have to do with them. */
#define _GNU_SOURCE
#include "support/heard.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

static char *written(int (*write)(FILE *, const mlx_node_namer, const mlx_vector_array), mlx_node_namer namer,
                     mlx_vector_array outputs)
{
    char *text = NULL;
    size_t size = 0;
    FILE *os = open_memstream(&text, &size);
    assert_non_null(os);
    OK(write(os, namer, outputs));
    fclose(os);
    return text;
}

static void names(void **state)
{
    (void)state;
    mlx_node_namer namer = mlx_node_namer_new();
    mlx_array a[60];
    const char *name = NULL;
    for (int i = 0; i < 60; i++) {
        a[i] = mlx_array_new_int(i);
        OK(mlx_node_namer_get_name(&name, namer, a[i]));
        char want[3] = { (char)('A' + i % 26), 0, 0 };
        if (i >= 26)
            want[0] = (char)('A' + i / 26 - 1), want[1] = (char)('A' + i % 26);
        assert_string_equal(name, want);
    }
    OK(mlx_node_namer_set_name(namer, a[3], "weights"));
    OK(mlx_node_namer_set_name(namer, a[3], "bias"));
    OK(mlx_node_namer_get_name(&name, namer, a[3]));
    assert_string_equal(name, "bias");
    OK(mlx_node_namer_get_name(&name, namer, a[59]));
    assert_string_equal(name, "BH");

    mlx_array none = mlx_array_new();
    FAILS(mlx_node_namer_set_name(namer, none, "x"), "[node_namer_set_name]");
    FAILS(mlx_node_namer_set_name(namer, a[0], NULL), "[node_namer_set_name]");
    FAILS(mlx_node_namer_get_name(NULL, namer, a[0]), "[node_namer_get_name]");
    FAILS(mlx_node_namer_get_name(&name, (mlx_node_namer){ NULL }, a[0]), "[node_namer_get_name]");
    for (int i = 0; i < 60; i++) mlx_array_free(a[i]);
    OK(mlx_node_namer_free(namer));
    OK(mlx_node_namer_free((mlx_node_namer){ NULL }));
}

static void graphs(void **state)
{
    (void)state;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_node_namer namer = mlx_node_namer_new();
    mlx_array a = mlx_array_new_float(1), e = mlx_array_new(), y = mlx_array_new();
    OK(mlx_exp(&e, a, s));
    OK(mlx_add(&y, e, a, s));
    OK(mlx_node_namer_set_name(namer, a, "in"));
    OK(mlx_node_namer_set_name(namer, y, "a \"sum\""));
    mlx_vector_array outputs = mlx_vector_array_new_value(y);
    char *text = written(mlx_export_to_dot, namer, outputs);
    assert_string_equal(text,
                        "digraph {\n{ rank=source; \"in\"; }\n{ 0 [label =\"Exp\", shape=rectangle]; }\n"
                        "\"in\" -> 0\n{ \"A\"; }\n0 -> \"A\"\n{ 1 [label =\"Add\", shape=rectangle]; }\n"
                        "\"A\" -> 1\n\"in\" -> 1\n{ rank=sink; \"a \\\"sum\\\"\"; }\n1 -> \"a \\\"sum\\\"\"\n}\n");
    free(text);
    text = written(mlx_print_graph, (mlx_node_namer){ NULL }, outputs);
    assert_string_equal(text, "Inputs: A [(), float32]\nExp A -> B [(), float32]\nAdd B, A -> C [(), float32]\n"
                              "Outputs: C\n");
    free(text);
    FAILS(mlx_export_to_dot(NULL, namer, outputs), "[export_to_dot]");
    FAILS(mlx_print_graph(stderr, namer, (mlx_vector_array){ NULL }), "[print_graph]");
    mlx_vector_array_free(outputs);
    mlx_array_free(a);
    mlx_array_free(e);
    mlx_array_free(y);
    mlx_node_namer_free(namer);
    mlx_stream_free(s);
}

/* A stream whose writes let go of the names and the arrays that are written, or do not write. */
struct taking {
    mlx_node_namer *namer;
    mlx_array *y;
    char got[256];
};

static ssize_t take(void *cookie, const char *bytes, size_t size)
{
    struct taking *t = cookie;
    if (!t->namer)
        return 0;
    if (t->namer->ctx) {
        mlx_node_namer_free(*t->namer);
        *t->namer = (mlx_node_namer){ NULL };
        mlx_array_free(*t->y);
        *t->y = mlx_array_new();
    }
    strncat(t->got, bytes, size);
    return (ssize_t)size;
}

static void streams_of_a_caller(void **state)
{
    (void)state;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_node_namer namer = mlx_node_namer_new();
    mlx_array a = mlx_array_new_float(1), y = mlx_array_new();
    OK(mlx_exp(&y, a, s));
    OK(mlx_node_namer_set_name(namer, y, "result"));
    mlx_vector_array outputs = mlx_vector_array_new_value(y);
    struct taking t = { &namer, &y, "" };
    FILE *os = fopencookie(&t, "w", (cookie_io_functions_t){ .write = take });
    assert_non_null(os);
    setvbuf(os, NULL, _IONBF, 0);
    OK(mlx_print_graph(os, namer, outputs));
    assert_string_equal(t.got, "Inputs: A [(), float32]\nExp A -> result [(), float32]\nOutputs: result\n");
    t.namer = NULL;
    FAILS(mlx_print_graph(os, namer, outputs), "[print_graph] expected a stream that can be written to");
    fclose(os);
    mlx_vector_array_free(outputs);
    mlx_array_free(a);
    mlx_array_free(y);
    mlx_stream_free(s);
}

static void views_and_dependencies(void **state)
{
    (void)state;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_array a = mlx_array_new(), r = mlx_array_new(), b = mlx_array_new_int(7);
    OK(mlx_arange(&a, 0, 6, 1, MLX_INT32, s));
    OK(mlx_as_strided(&r, a, (int[]){ 2, 2 }, 2, (int64_t[]){ 3, -1 }, 2, 1, s));
    OK(mlx_array_eval(r));
    const int *v = mlx_array_data_int32(r);
    assert_non_null(v);
    FAILS(mlx_as_strided(&r, a, (int[]){ 2, 2 }, 2, (int64_t[]){ 3 }, 1, 1, s), "[as_strided]");
    FAILS(mlx_as_strided(&r, a, (int[]){ 2 }, 1, (int64_t[]){ 1 }, 1, SIZE_MAX, s), "[as_strided]");
    FAILS(mlx_as_strided(&r, a, (int[]){ 2 }, 1, NULL, 1, 0, s), "[as_strided]");
    mlx_vector_array x = mlx_vector_array_new_value(a), on = mlx_vector_array_new_value(b);
    mlx_vector_array y = mlx_vector_array_new();
    OK(mlx_depends(&y, x, on));
    assert_int_equal(mlx_vector_array_size(y), 1);
    OK(mlx_vector_array_get(&r, y, 0));
    assert_int_equal(mlx_array_size(r), 6);
    FAILS(mlx_depends(&y, x, (mlx_vector_array){ NULL }), "[depends]");
    FAILS(mlx_conv_general(&r, a, a, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 1, false, s), "[conv_general]");
    mlx_vector_array_free(x);
    mlx_vector_array_free(on);
    mlx_vector_array_free(y);
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(r);
    mlx_stream_free(s);
}

/* A locale with a decimal comma is the current one; false where there is none. */
static bool with_comma(char *folder)
{
    char command[256];
    if (!mkdtemp(folder))
        return false;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null", folder);
    if (system(command) == -1 || setenv("LOCPATH", folder, 1))
        return false;
    return setlocale(LC_NUMERIC, "de_DE.UTF-8") && *localeconv()->decimal_point == ',';
}

static void numbers_have_points(void **state)
{
    (void)state;
    char folder[] = "/tmp/capi_graph.XXXXXX", command[64];
    bool comma = with_comma(folder);
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_array x = mlx_array_new_float(1), y = mlx_array_new(), none = { NULL };
    OK(mlx_reshape(&x, x, (int[]){ 1 }, 1, s));
    OK(mlx_fast_rms_norm(&y, x, none, 0.5f, s));
    mlx_vector_array outputs = mlx_vector_array_new_value(y);
    char *text = written(mlx_print_graph, (mlx_node_namer){ NULL }, outputs);
    setlocale(LC_NUMERIC, "C");
    assert_non_null(strstr(text, "eps=0.5"));
    free(text);
    mlx_vector_array_free(outputs);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_stream_free(s);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    if (!comma)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(graphs),
        cmocka_unit_test(streams_of_a_caller),
        cmocka_unit_test(views_and_dependencies),
        cmocka_unit_test(numbers_have_points),
    };
    return cmocka_run_group_tests_name("C API: graphs", tests, start_listening, all_gone);
}
