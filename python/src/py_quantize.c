/* py_quantize.c: packed weights, and products of matrices picked by index or cut up. */
#include "py.h"

static mlx_optional_int optional_int(const struct value *v)
{
    return (mlx_optional_int){ .value = v->given ? v->i : 0, .has_value = v->given };
}

#define SIZE(k) optional_int(&c->v[k])

PyObject *fn_quantize(struct py_call *c)
{
    mlx_vector_array parts = mlx_vector_array_new();
    if (mlx_quantize(&parts, ARRAY(0), SIZE(1), SIZE(2), TEXT(3), ARRAY(4), STREAM)) {
        mlx_vector_array_free(parts);
        return raise_last(), NULL;
    }
    return vector_to_list(parts);
}

PyObject *fn_dequantize(struct py_call *c)
{
    mlx_optional_dtype t = { .value = DTYPE(7, MLX_FLOAT32), .has_value = GIVEN(7) };
    return give(c,
                mlx_dequantize(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), SIZE(3), SIZE(4), TEXT(5), ARRAY(6), t, STREAM));
}

PyObject *fn_quantized_matmul(struct py_call *c)
{
    return give(c, mlx_quantized_matmul(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), ARRAY(3), BOOL(4), SIZE(5), SIZE(6),
                                        TEXT(7), STREAM));
}

PyObject *fn_gather_qmm(struct py_call *c)
{
    return give(c, mlx_gather_qmm_scaled(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), ARRAY(3), ARRAY(4), ARRAY(5), BOOL(6),
                                         SIZE(7), SIZE(8), TEXT(9), ARRAY(10), BOOL(11), STREAM));
}

PyObject *fn_qqmm(struct py_call *c)
{
    return give(c,
                mlx_qqmm(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), SIZE(3), SIZE(4), TEXT(5), ARRAY(6), ARRAY(7), STREAM));
}

PyObject *fn_gather_qqmm(struct py_call *c)
{
    return give(c, mlx_gather_qqmm(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), ARRAY(3), ARRAY(4), SIZE(5), SIZE(6), TEXT(7),
                                   ARRAY(8), ARRAY(9), BOOL(10), STREAM));
}

PyObject *fn_to_fp8(struct py_call *c) { return give(c, mlx_to_fp8(&c->res, ARRAY(0), STREAM)); }

PyObject *fn_from_fp8(struct py_call *c)
{
    return give(c, mlx_from_fp8(&c->res, ARRAY(0), DTYPE(1, MLX_BFLOAT16), STREAM));
}

PyObject *fn_gather_mm(struct py_call *c)
{
    return give(c, mlx_gather_mm(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), ARRAY(3), BOOL(4), STREAM));
}

PyObject *fn_segmented_mm(struct py_call *c)
{
    return give(c, mlx_segmented_mm(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), STREAM));
}

PyObject *fn_block_masked_mm(struct py_call *c)
{
    return give(c, mlx_block_masked_mm(&c->res, ARRAY(0), ARRAY(1), INT(2), ARRAY(3), ARRAY(4), ARRAY(5), STREAM));
}

PyObject *fn_hadamard_transform(struct py_call *c)
{
    mlx_optional_float scale = { .value = GIVEN(1) ? (float)DOUBLE(1) : 0, .has_value = GIVEN(1) };
    return give(c, mlx_hadamard_transform(&c->res, ARRAY(0), scale, STREAM));
}
