/* Kernels given as text, by the entry points of fast.h: what runs, and what is refused. */
#include <stdlib.h>
#include <unistd.h>

#include "support/heard.h"

static mlx_stream s;
static mlx_array r;

static mlx_vector_string names(const char *one, const char *two)
{
    mlx_vector_string v = mlx_vector_string_new();
    OK(one && mlx_vector_string_append_value(v, one));
    OK(two && mlx_vector_string_append_value(v, two));
    return v;
}

#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)

#define WORD cpu
#define LAST false
#include "unit/capi_kernels.inc"
#define WORD cuda
#define LAST 0
#include "unit/capi_kernels.inc"
#define WORD metal
#define LAST false
#include "unit/capi_kernels.inc"

static mlx_vector_array operands(void)
{
    mlx_array x = floats(3, (const float[]){ 1, 2, 3 }), n = ints(1, (const int[]){ 10 });
    mlx_vector_array v = mlx_vector_array_new_data((const mlx_array[]){ x, n }, 2);
    mlx_array_free(x);
    mlx_array_free(n);
    return v;
}

static const char source[] = "size_t i = thread_position_in_grid.x;\n"
                             "T t = x[i];\n"
                             "y[i] += t * n[0] + N;\n"
                             "if (i == 0) z[0] = n_ndim + x_shape[0] + B;\n";

static void results(void **state)
{
    (void)state;
    mlx_fast_cpu_kernel k = cpu_made("k", source);
    mlx_fast_cpu_kernel_config c = cpu_config();
    mlx_vector_array in = operands(), out = mlx_vector_array_new();
    OK(mlx_fast_cpu_kernel_config_set_math_mode(c, "safe"));
    OK(mlx_fast_cpu_kernel_apply(&out, k, in, c, s));
    mlx_fast_cpu_kernel_free(k); /* the results keep what they need */
    mlx_fast_cpu_kernel_config_free(c);
    assert_int_equal(mlx_vector_array_size(out), 2);
    OK(mlx_vector_array_get(&r, out, 0));
    expect_array(r, "[13, 23, 33], dtype=float32");
    OK(mlx_vector_array_get(&r, out, 1));
    expect_array(r, "5, dtype=int32");
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
}

static void refused_by_the_compiler(void **state)
{
    (void)state;
    mlx_fast_cpu_kernel k = cpu_made("k", "\ny[0] = not_there;");
    mlx_fast_cpu_kernel_config c = cpu_config();
    mlx_vector_array in = operands(), out = mlx_vector_array_new();
    for (int i = 0; i < 2; i++) {
        OK(mlx_fast_cpu_kernel_apply(&out, k, in, c, s));
        OK(mlx_vector_array_get(&r, out, 0));
        FAILS(mlx_array_eval(r), "<k source>:2:");
    }
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_fast_cpu_kernel_free(k);
    mlx_fast_cpu_kernel_config_free(c);
}

static void not_here(void **state)
{
    (void)state;
    mlx_vector_array in = operands(), out = mlx_vector_array_new();
    mlx_fast_metal_kernel m = metal_made("k", "");
    mlx_fast_metal_kernel_config mc = metal_config();
    FAILS(mlx_fast_metal_kernel_apply(&out, m, in, mc, s), "there is no Metal in this build");
    mlx_fast_cuda_kernel g = cuda_made("k", "");
    mlx_fast_cuda_kernel_config gc = cuda_config();
    const char *why = gpus_here() ? "expected a stream of a GPU for k" : "kernels for CUDA are not run";
    FAILS(mlx_fast_cuda_kernel_apply(&out, g, in, gc, s), why);
    assert_int_equal(mlx_vector_array_size(out), 0);
    OK(mlx_fast_cuda_kernel_config_add_output_arg(gc, NULL, 0, MLX_INT32));
    FAILS(mlx_fast_cuda_kernel_apply(&out, g, in, gc, s), "2 outputs for k, got 3");
    mlx_fast_metal_kernel_free(m);
    mlx_fast_metal_kernel_config_free(mc);
    mlx_fast_cuda_kernel_free(g);
    mlx_fast_cuda_kernel_config_free(gc);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
}

/* Every refused setting leaves the config as it was, so it still runs. */
static void configs(void **state)
{
    (void)state;
    const mlx_fast_cpu_kernel_config none = { NULL };
    mlx_fast_cpu_kernel_config c = cpu_config();
#define CONFIG(function, ...) mlx_fast_cpu_kernel_config_##function(__VA_ARGS__)
    FAILS(CONFIG(set_grid, none, 1, 1, 1), "a config");
    FAILS(CONFIG(set_verbose, none, true), "a config");
    FAILS(CONFIG(set_init_value, none, 1), "a config");
    FAILS(CONFIG(set_thread_group, none, 1, 1, 1), "a config");
    FAILS(CONFIG(set_math_mode, none, "safe"), "a config");
    FAILS(CONFIG(add_output_arg, none, NULL, 0, MLX_INT32), "a config");
    FAILS(CONFIG(add_template_arg_int, none, "M", 1), "a config");
    FAILS(CONFIG(set_grid, c, 1, -1, 1), "without negative sizes, got (1,-1,1)");
    FAILS(CONFIG(set_grid, c, 1 << 30, 1 << 30, 1 << 30), "less than 2^63 points");
    FAILS(CONFIG(set_thread_group, c, 1, 1, 0), "positive sizes, got (1,1,0)");
    FAILS(CONFIG(add_output_arg, c, (int[]){ -1 }, 1, MLX_INT32), "sizes of 0 or more, got -1");
    FAILS(CONFIG(add_output_arg, c, (int[]){ 1 << 30, 1 << 30, 1 << 30 }, 3, MLX_INT32), "");
    FAILS(CONFIG(add_output_arg, c, (int[]){ 1 }, 65, MLX_INT32), "at most 64 dimensions");
    FAILS(CONFIG(add_output_arg, c, (int[]){ 1 }, 1, (mlx_dtype)99), "a dtype for an output, got 99");
    FAILS(CONFIG(add_output_arg, c, NULL, 1, MLX_INT32), "`shape`");
    FAILS(CONFIG(add_template_arg_int, c, "N", 1), "got \"N\" twice");
    FAILS(CONFIG(add_template_arg_int, c, "", 1), "an identifier");
    FAILS(CONFIG(add_template_arg_int, c, "for", 1), "nothing in C or in kernels, got \"for\"");
    FAILS(CONFIG(add_template_arg_bool, c, NULL, 1), "`name`");
    FAILS(CONFIG(add_template_arg_dtype, c, "U", (mlx_dtype)-1), "a dtype for the template argument \"U\"");
    FAILS(CONFIG(set_math_mode, c, "slow"), "got \"slow\"");
    FAILS(CONFIG(set_math_mode, c, NULL), "`mode`");
    mlx_fast_cpu_kernel k = cpu_made("k", source);
    mlx_vector_array in = operands(), out = mlx_vector_array_new(), empty = mlx_vector_array_new();
    const mlx_vector_array no_vector = { NULL };
    const mlx_fast_cpu_kernel no_kernel = { NULL };
    OK(mlx_fast_cpu_kernel_apply(&out, k, in, c, s));
    OK(mlx_vector_array_get(&r, out, 0));
    expect_array(r, "[13, 23, 33], dtype=float32");
    FAILS(mlx_fast_cpu_kernel_apply(&out, k, empty, c, s), "2 inputs for k, got 0");
    FAILS(mlx_fast_cpu_kernel_apply(&out, k, no_vector, c, s), "a vector");
    FAILS(mlx_fast_cpu_kernel_apply(&out, k, in, none, s), "a config");
    FAILS(mlx_fast_cpu_kernel_apply(&out, no_kernel, in, c, s), "a kernel");
    FAILS(mlx_fast_cpu_kernel_apply(NULL, k, in, c, s), "place for the result");
    OK(CONFIG(add_template_arg_int, c, "x", 1));
    FAILS(mlx_fast_cpu_kernel_apply(&out, k, in, c, s), "another name than an input or output of k, got \"x\"");
    mlx_fast_cpu_kernel_config_free(c);
    c = mlx_fast_cpu_kernel_config_new();
    OK(CONFIG(add_output_arg, c, NULL, 0, MLX_INT32));
    OK(CONFIG(add_output_arg, c, NULL, 0, MLX_INT32));
    FAILS(mlx_fast_cpu_kernel_apply(&out, k, in, c, s), "a grid for k, got none");
    OK(CONFIG(set_grid, c, 1, 1, 1));
    FAILS(mlx_fast_cpu_kernel_apply(&out, k, in, c, s), "a threadgroup for k, got none");
    assert_int_equal(mlx_vector_array_size(out), 2); /* a failed call leaves its result as it was */
    mlx_fast_cpu_kernel_config_free(c);
    mlx_fast_cpu_kernel_config_free(none);
    mlx_fast_cpu_kernel_free(k);
    mlx_fast_cpu_kernel_free(no_kernel);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_vector_array_free(empty);
}

static void kernels(void **state)
{
    (void)state;
    mlx_vector_string x = names("x", NULL), none = names(NULL, NULL), same = names("x", "x");
    const mlx_vector_string null = { NULL };
#define REFUSED(part, ...)                                     \
    do {                                                       \
        assert_null(mlx_fast_cpu_kernel_new(__VA_ARGS__).ctx); \
        expect_heard(1, part);                                 \
    } while (0)
    REFUSED("`name`", NULL, x, x, "", NULL, true, false);
    REFUSED("`input_names`", "k", null, x, "", NULL, true, false);
    REFUSED("`output_names`", "k", x, null, "", NULL, true, false);
    REFUSED("`source`", "k", none, x, NULL, NULL, true, false);
    REFUSED("at least one output", "k", x, none, "", NULL, true, false);
    REFUSED("different names, got \"x\" twice", "k", x, x, "", NULL, true, false);
    REFUSED("different names, got \"x\" twice", "k", same, x, "", NULL, true, false);
    REFUSED("an identifier", "a b", none, x, "", NULL, true, false);
    assert_null(mlx_fast_cuda_kernel_new("k", none, x, "", "", true, -1).ctx);
    expect_heard(1, "0 bytes or more, got -1");
    assert_null(mlx_fast_cuda_kernel_new_precompiled("k", SIZE_MAX, 1, "x", 1, true, 0).ctx);
    expect_heard(1, "at most 4095 inputs and as many outputs, got 18446744073709551615 and 1");
    assert_null(mlx_fast_cuda_kernel_new_precompiled("k", 4095, 4096, "x", 1, true, 0).ctx);
    expect_heard(1, "got 4095 and 4096");
    assert_null(mlx_fast_cuda_kernel_new_precompiled("k", 4095, 0, "x", 1, true, 0).ctx);
    expect_heard(1, "at least one output");
    mlx_vector_string_free(x);
    mlx_vector_string_free(none);
    mlx_vector_string_free(same);
}

int main(void)
{
    /* What is compiled here goes with the test. */
    char folder[] = "/tmp/mlx-kernels-XXXXXX", command[64];
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1))
        return 1;
    s = mlx_default_cpu_stream_new();
    r = mlx_array_new();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results),  cmocka_unit_test(refused_by_the_compiler),
        cmocka_unit_test(not_here), cmocka_unit_test(configs),
        cmocka_unit_test(kernels),
    };
    start_listening(NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mlx_array_free(r);
    mlx_stream_free(s);
    failed += all_gone(NULL);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) || failed;
}
