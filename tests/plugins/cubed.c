/* A library with one primitive: the cube of float32 numbers. */
#include "mlx/c/mlx.h"

static int compute(const void *state, mlx_run run)
{
    (void)state;
    if (mlx_run_alloc(run, 0))
        return 1;
    const mlx_run_array *x = mlx_run_input(run, 0), *y = mlx_run_output(run, 0);
    const float *from = x->data;
    float *to = y->data;
    if (x->dtype != MLX_FLOAT32 || !x->row_contiguous)
        return mlx_run_error(run, "expected float32 numbers in a row, got dtype %d", (int)x->dtype);
    for (int64_t i = 0; i < x->size; i++) to[i] = from[i] * from[i] * from[i];
    return 0;
}

static int shapes(const void *state, const mlx_vector_array inputs, mlx_output *y, size_t n)
{
    mlx_array x = mlx_array_new();
    (void)state;
    if (n != 1 || mlx_vector_array_get(&x, inputs, 0))
        return 1;
    y->dtype = MLX_FLOAT32;
    y->ndim = (int)mlx_array_ndim(x);
    for (int i = 0; i < y->ndim; i++) y->shape[i] = mlx_array_shape(x)[i];
    mlx_array_free(x);
    return 0;
}

static const struct mlx_primitive_class cubed = {
    .struct_size = sizeof cubed,
    .abi = MLX_PRIMITIVE_ABI,
    .name = "Cubed",
    .eval_cpu = compute,
    .output_shapes = shapes,
};

static int load(void) { return mlx_primitive_register(&cubed); }
MLX_PLUGIN(load)
