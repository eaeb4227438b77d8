/* Exporting, importing, saving and loading through the C interface again and again, also where it fails: no
 * handle, no file and no memory stays behind. */
#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include "support/heard.h"

enum { TIMES = 1000 };
static mlx_stream cpu;
static char folder[64], path[5][96];
enum { NPY, SAFETENSORS, GGUF, FUNCTION, DAMAGED };

static int softmax_of(mlx_vector_array *res, const mlx_vector_array in)
{
    mlx_array x = mlx_array_new();
    int failed = mlx_vector_array_get(&x, in, 0) || mlx_softmax_axis(&x, x, -1, true, cpu) ||
                 mlx_vector_array_append_value(*res, x);
    mlx_array_free(x);
    return failed;
}

static void export_and_import(mlx_array x)
{
    mlx_closure f = mlx_closure_new_func(softmax_of);
    mlx_vector_array in = mlx_vector_array_new_value(x), out = mlx_vector_array_new();
    OK(mlx_export_function(path[FUNCTION], f, in, false));
    mlx_imported_function g = mlx_imported_function_new(path[FUNCTION]);
    OK(mlx_imported_function_apply(&out, g, in));
    OK(mlx_eval(out));
    mlx_imported_function_free(g);
    g = mlx_imported_function_new(path[DAMAGED]);
    expect_heard(1, "[import_function]");
    mlx_imported_function_free(g);
    mlx_function_exporter e = mlx_function_exporter_new(path[FUNCTION], f, false);
    OK(mlx_function_exporter_apply(e, in));
    FAILS(mlx_function_exporter_apply(e, in), "same signature");
    mlx_function_exporter_free(e);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_closure_free(f);
}

static void save_and_load(mlx_array x)
{
    mlx_array y = mlx_array_new();
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    mlx_map_string_to_string texts = mlx_map_string_to_string_new();
    OK(mlx_save(path[NPY], x));
    OK(mlx_load(&y, path[NPY], cpu));
    OK(mlx_array_eval(y));
    FAILS(mlx_load(&y, path[DAMAGED], cpu), "[load]");
    OK(mlx_map_string_to_array_insert(arrays, "a", x));
    OK(mlx_map_string_to_string_insert(texts, "a", "b"));
    OK(mlx_save_safetensors(path[SAFETENSORS], arrays, texts));
    OK(mlx_load_safetensors(&arrays, &texts, path[SAFETENSORS], cpu));
    FAILS(mlx_load_safetensors(&arrays, &texts, path[DAMAGED], cpu), "[load_safetensors]");
    mlx_io_gguf g = mlx_io_gguf_new();
    OK(mlx_io_gguf_set_array(g, "a", x));
    OK(mlx_save_gguf(path[GGUF], g));
    OK(mlx_load_gguf(&g, path[GGUF], cpu));
    OK(mlx_io_gguf_get_array(&y, g, "a"));
    OK(mlx_array_eval(y));
    FAILS(mlx_load_gguf(&g, path[DAMAGED], cpu), "[load_gguf]");
    mlx_io_gguf_free(g);
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_string_free(texts);
    mlx_array_free(y);
}

static int open_files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void again_and_again(void **state)
{
    (void)state;
    mlx_array x = mlx_array_new();
    OK(mlx_arange(&x, 0, 6, 1, MLX_FLOAT32, cpu));
    size_t handles = 0, left = 0, bytes = 0;
    int files = 0;
    for (int i = 0; i < TIMES; i++) {
        if (i == TIMES / 4) { /* every cache is full */
            OK(mlx_handles_count(&handles, NULL));
            files = open_files();
            bytes = mallinfo2().uordblks;
        }
        export_and_import(x);
        save_and_load(x);
    }
    OK(mlx_handles_count(&left, NULL));
    assert_int_equal(left, handles);
    assert_int_equal(open_files(), files);
    assert_true(mallinfo2().uordblks < bytes + 4096);
    mlx_array_free(x);
}

static int start(void **state)
{
    (void)state;
    static const char *const names[] = { "x.npy", "x.safetensors", "x.gguf", "x.mlxfn", "damaged" };
    snprintf(folder, sizeof folder, "/tmp/capi_leaks.XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    for (int i = 0; i < 5; i++) snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    FILE *f = fopen(path[DAMAGED], "w");
    if (!f || fputs("\x93NUMPY\1 what is this, a file?", f) < 0 || fclose(f))
        return 1;
    cpu = mlx_default_cpu_stream_new();
    mlx_set_error_handler(listen, NULL, NULL);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) unlink(path[i]);
    mlx_set_error_handler(NULL, NULL, NULL);
    mlx_stream_free(cpu);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(again_and_again) };
    return cmocka_run_group_tests_name("C API: nothing is left of files", tests, start, finish);
}
