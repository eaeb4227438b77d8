/* The sample extension (examples/extensions): its kernels for GPUs, on a device that pretends to be one. */
#include "support/heard.h"
#include "support/loopback.h"

#include "support/loopback_axpby.h"

#include "axpby/axpby.h"

static const mlx_dtype dtypes[] = { MLX_FLOAT32, MLX_FLOAT64, MLX_FLOAT16, MLX_BFLOAT16, MLX_COMPLEX64, MLX_INT32 };

/* 4 x + 2 y on a stream, of an x that is transposed and a y that is broadcast; the expected numbers are small
 * integers, so that every dtype has them. */
static void check(mlx_stream s, mlx_dtype t, mlx_array expected)
{
    mlx_array x = mlx_array_new(), y = mlx_array_new(), z = mlx_array_new(), same = mlx_array_new();
    mlx_stream cpu = mlx_default_cpu_stream_new();
    bool equal = false;
    OK(mlx_arange(&x, 0, 12, 1, MLX_FLOAT32, cpu));
    OK(mlx_reshape(&x, x, (int[]){ 4, 3 }, 2, cpu));
    OK(mlx_transpose(&x, x, cpu));
    OK(mlx_astype(&x, x, t, cpu));
    OK(mlx_arange(&y, 0, 4, 1, t, cpu));
    OK(axpby(&z, x, y, 4, 2, s));
    assert_int_equal(mlx_array_dtype(z), t == MLX_INT32 ? MLX_FLOAT32 : t);
    OK(mlx_array_eval(z));
    OK(mlx_array_equal(&same, z, expected, false, cpu));
    OK(mlx_array_item_bool(&equal, same));
    assert_true(equal);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(z);
    mlx_array_free(same);
}

static void same_on_every_device(void **state)
{
    (void)state;
    float numbers[12];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) numbers[4 * i + j] = (float)(4 * (3 * j + i) + 2 * j);
    mlx_array expected = mlx_array_new_data(numbers, (int[]){ 3, 4 }, 2, MLX_FLOAT32);
    mlx_stream cpu = mlx_default_cpu_stream_new();
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) check(cpu, dtypes[i], expected);
    loopback_register();
    loopback_set_kernels(run_axpby);
    mlx_stream gpu = mlx_default_gpu_stream_new();
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) check(gpu, dtypes[i], expected);
    assert_int_equal(axpby_launches, sizeof dtypes / sizeof *dtypes);
    mlx_array_free(expected);
}

/* Every float16 comes back, and what lies between two goes to the even one. */
static void halves(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = from_float16((unsigned short)h);
        if (f == f)
            assert_int_equal(to_float16(f), h);
        else
            assert_int_equal(to_float16(f) & 0x7fff, 0x7e00);
        if ((h & 0x7fff) < 0x7bff) {
            float next = from_float16((unsigned short)(h + 1));
            assert_int_equal(to_float16(f + (next - f) / 2), h + (h & 1));
        }
        float b = from_bfloat16((unsigned short)h);
        if (b == b)
            assert_int_equal(to_bfloat16(b), h);
    }
    assert_int_equal(to_float16(65519), 0x7bff);
    assert_int_equal(to_float16(65520), 0x7c00);
    assert_int_equal(to_float16(-1e10f), 0xfc00);
    assert_int_equal(to_bfloat16(1.00390625f), 0x3f80); /* 1 + 2^-8, half way */
}

static void a_kernel_that_is_not_there(void **state)
{
    (void)state;
    mlx_array x = mlx_array_new_float(1), z = mlx_array_new();
    mlx_stream gpu = mlx_default_gpu_stream_new();
    loopback_set_kernels(NULL);
    OK(axpby(&z, x, x, 4, 2, gpu));
    FAILS(mlx_array_eval(z), "axpby_general_float32");
    loopback_set_kernels(run_axpby);
    mlx_array_free(x);
    mlx_array_free(z);
}

/* What a launch is refused for: a primitive whose state says which of its arguments is wrong. */
static int launch(const void *state, mlx_run run)
{
    int none[3] = { 1, 0, 1 }, one[3] = { 1, 1, 1 };
    switch (*(const int *)state) {
    case 0: return mlx_run_launch(run, NULL, "k", one, one, NULL, 0);
    case 1: return mlx_run_launch(run, "nowhere", "k", one, one, NULL, 0);
    case 2: return mlx_run_launch(run, "mlx_ext_kernels", "k", none, one, NULL, 0);
    default: return mlx_run_launch(run, "mlx_ext_kernels", "k", one, one, NULL, 1);
    }
}

static void launches_are_checked(void **state)
{
    static const struct mlx_primitive_class launcher = {
        .struct_size = sizeof launcher,
        .abi = MLX_PRIMITIVE_ABI,
        .name = "Launcher",
        .eval_cpu = launch,
        .eval_gpu = launch,
    };
    static int kinds[] = { 0, 1, 2, 3 };
    static const char *const says[] = { "got null", "registered as 'nowhere'", "positive sizes", "got null" };
    mlx_stream gpu = mlx_default_gpu_stream_new(), cpu = mlx_default_cpu_stream_new();
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    mlx_output like = { MLX_FLOAT32, 1, { 1 } };
    mlx_array y = mlx_array_new();
    (void)state;
    for (int i = 0; i < 4; i++) {
        OK(mlx_primitive_apply(&out, &launcher, &kinds[i], in, &like, 1, gpu));
        OK(mlx_vector_array_get(&y, out, 0));
        FAILS(mlx_array_eval(y), says[i]);
    }
    OK(mlx_primitive_apply(&out, &launcher, &kinds[2], in, &like, 1, cpu));
    OK(mlx_vector_array_get(&y, out, 0));
    FAILS(mlx_array_eval(y), "Device(cpu, 0) runs no kernels");
    mlx_array_free(y);
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_on_every_device),
        cmocka_unit_test(halves),
        cmocka_unit_test(a_kernel_that_is_not_there),
        cmocka_unit_test(launches_are_checked),
    };
    return cmocka_run_group_tests(tests, start_listening, all_gone);
}
