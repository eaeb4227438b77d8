/* handles.c: copies of a handle, what is left out, streams and devices, Metal that is not there, and an error
 * handler that returns. */
#include "mlx/c/mlx.h"

static int errors;

static void on_error(const char *msg, void *data)
{
    (void)msg;
    ++*(int *)data;
}

int main(void)
{
    mlx_set_error_handler(on_error, &errors, NULL);
    mlx_device device = mlx_device_new_type(MLX_CPU, 0);
    mlx_stream stream = mlx_stream_new_device(device), none = { 0 };
    mlx_array x = mlx_array_new_float(2.5f), same = x, y = mlx_array_new();

    mlx_square(&x, x, stream); /* seen through the copy */
    float v = 0;
    mlx_array_item_float32(&v, same);
    printf("%.2f", v);

    mlx_array low = mlx_array_new_float(1);
    mlx_clip(&y, x, low, mlx_array_empty, none);
    mlx_array_item_float32(&v, y);
    printf(" %.2f", v);

    int failed = mlx_add(&y, x, mlx_array_empty, stream) != 0;
    mlx_array_item_float32(&v, y);
    printf(" %d %d %.2f", failed, errors, v);
    printf(" %zu %d", mlx_array_ndim(mlx_array_empty), mlx_array_free(mlx_array_empty));

    bool metal = true;
    mlx_metal_is_available(&metal);
    mlx_vector_int ints = mlx_vector_int_new_data((int[]){ 3, 1, 2 }, 3);
    int last = 0;
    mlx_vector_int_get(&last, ints, mlx_vector_int_size(ints) - 1);
    printf(" %d %d %d\n", metal, last, mlx_synchronize(stream));

    mlx_vector_int_free(ints);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(low);
    mlx_stream_free(stream);
    mlx_device_free(device);
    return 0;
}
