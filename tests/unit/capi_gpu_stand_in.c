/* A program that asks for the GPU's stream, where MLX_GPU=cpu has the CPU stand in. */
#include "support/heard.h"

static void stream(void **state)
{
    (void)state;
    mlx_stream s = mlx_default_gpu_stream_new(), cpu = mlx_default_cpu_stream_new();
    assert_true(mlx_stream_equal(s, cpu));
    mlx_array two = mlx_array_new_int(2), sum = mlx_array_new();
    OK(mlx_add(&sum, two, two, s));
    OK(mlx_array_eval(sum));
    expect_array(sum, "4, dtype=int32");
    OK(mlx_synchronize(s));
    mlx_array_free(two);
    mlx_array_free(sum);
}

static void device(void **state)
{
    (void)state;
    mlx_device gpu = mlx_device_new_type(MLX_GPU, 0), cpu = mlx_device_new_type(MLX_CPU, 0), dev = mlx_device_new();
    mlx_stream s = mlx_stream_new_device(gpu);
    assert_non_null(s.ctx);
    OK(mlx_stream_get_device(&dev, s));
    assert_true(mlx_device_equal(dev, cpu));
    OK(mlx_set_default_device(gpu));
    OK(mlx_get_default_device(&dev));
    assert_true(mlx_device_equal(dev, cpu));
    int n = -1;
    OK(mlx_device_count(&n, MLX_GPU));
    assert_int_equal(n, 0);
    bool yes = true;
    OK(mlx_device_is_available(&yes, gpu));
    assert_false(yes);
    mlx_device_free(gpu);
    mlx_device_free(cpu);
    mlx_device_free(dev);
}

int main(void)
{
    setenv("MLX_GPU", "cpu", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream),
        cmocka_unit_test(device),
    };
    return cmocka_run_group_tests_name("C API: the CPU in place of a GPU", tests, start_listening, all_gone);
}
