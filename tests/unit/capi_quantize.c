/* The entry points of packed weights and of products of some matrices. */
#include "mlx/c/binding.h"
#include "support/heard.h"

static mlx_stream s;
static mlx_array r, w, x, i;
static const mlx_array none = { NULL };
static const mlx_optional_int usual = { .has_value = false };
static const mlx_optional_dtype f32 = { .value = MLX_FLOAT32, .has_value = true };

static void shape_is(mlx_array a, int rows, int columns)
{
    assert_int_equal(mlx_array_ndim(a), 2);
    assert_int_equal(mlx_array_dim(a, 0), rows);
    assert_int_equal(mlx_array_dim(a, 1), columns);
}

static mlx_array part(mlx_vector_array all, size_t k)
{
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, all, k));
    return a;
}

/* w is 2 by 64, ones and twos; x is one row of ones. */
static void affine(void **state)
{
    (void)state;
    mlx_vector_array all = mlx_vector_array_new();
    OK(mlx_quantize(&all, w, usual, usual, "affine", none, s));
    assert_int_equal(mlx_vector_array_size(all), 3);
    mlx_array q = part(all, 0), scales = part(all, 1), biases = part(all, 2);
    assert_int_equal(mlx_array_dtype(q), MLX_UINT32);
    shape_is(q, 2, 8);
    shape_is(scales, 2, 1);
    OK(mlx_dequantize(&r, q, scales, biases, usual, usual, "affine", none, f32, s));
    shape_is(r, 2, 64);
    GIVES(mlx_quantized_matmul(&r, x, q, scales, biases, true, usual, usual, "affine", s),
          "[[64, 128]], dtype=float32");
    OK(mlx_gather_qmm(&r, x, q, scales, biases, none, none, true, usual, usual, "affine", false, s));
    expect_array(r, "[[64, 128]], dtype=float32");
    FAILS(mlx_quantized_matmul(&r, x, q, scales, none, true, usual, usual, "affine", s), "biases");
    FAILS(mlx_quantized_matmul(&r, x, q, scales, biases, true, usual, usual, NULL, s), "a mode");
    FAILS(mlx_quantized_matmul(&r, x, none, scales, biases, true, usual, usual, "affine", s), "w");
    FAILS(mlx_quantize(&all, w, usual, usual, "affine", x, s), "nvfp4");
    FAILS(mlx_quantize(&all, w, (mlx_optional_int){ .value = -3, .has_value = true }, usual, "affine", none, s),
          "group size");
    FAILS(mlx_dequantize(&r, q, scales, biases, usual, usual, "affine", none,
                         (mlx_optional_dtype){ .value = (mlx_dtype)77, .has_value = true }, s),
          "dtype");
    expect_array(r, "[[64, 128]], dtype=float32"); /* as it was */
    mlx_array_free(q);
    mlx_array_free(scales);
    mlx_array_free(biases);
    mlx_vector_array_free(all);
}

/* r is v and 2 v. */
static void pair_is(float v)
{
    OK(mlx_array_eval(r));
    shape_is(r, 1, 2);
    const float *got = mlx_array_data_float32(r);
    assert_true(got[0] == v && got[1] == 2 * v);
}

static void floating(void **state)
{
    (void)state;
    static const char *const modes[] = { "mxfp4", "mxfp8", "nvfp4" };
    /* The scale nearest to 1 / 6 that nvfp4 has makes 1.03125 of 1. */
    static const float once[] = { 64, 64, 66 }, twice[] = { 64, 64, 68.0625f };
    for (int m = 0; m < 3; m++) {
        mlx_vector_array all = mlx_vector_array_new();
        OK(mlx_quantize(&all, w, usual, usual, modes[m], none, s));
        assert_int_equal(mlx_vector_array_size(all), 2);
        mlx_array q = part(all, 0), scales = part(all, 1);
        OK(mlx_quantized_matmul(&r, x, q, scales, none, true, usual, usual, modes[m], s));
        pair_is(once[m]);
        OK(mlx_qqmm(&r, x, q, scales, usual, usual, modes[m], none, none, s));
        pair_is(twice[m]);
        OK(mlx_qqmm(&r, x, w, none, usual, usual, modes[m], none, none, s));
        pair_is(twice[m]);
        OK(mlx_gather_qqmm(&r, x, w, none, none, none, usual, usual, modes[m], none, none, false, s));
        pair_is(twice[m]);
        OK(mlx_gather_qmm_scaled(&r, x, q, scales, none, none, none, true, usual, usual, modes[m], none, true, s));
        pair_is(once[m]);
        OK(mlx_dequantize(&r, q, scales, none, usual, usual, modes[m], none, (mlx_optional_dtype){ .has_value = false },
                          s));
        assert_int_equal(mlx_array_dtype(r), MLX_BFLOAT16);
        mlx_array_free(q);
        mlx_array_free(scales);
        mlx_vector_array_free(all);
    }
    mlx_array f = floats(3, (const float[]){ 1, -448, 0.3f });
    GIVES(mlx_to_fp8(&r, f, s), "[56, 254, 42], dtype=uint8");
    GIVES(mlx_from_fp8(&r, r, MLX_FLOAT32, s), "[1, -448, 0.3125], dtype=float32");
    FAILS(mlx_from_fp8(&r, f, MLX_FLOAT32, s), "uint8");
    FAILS(mlx_to_fp8(&r, i, s), "int32");
    mlx_array_free(f);
}

static void products(void **state)
{
    (void)state;
    mlx_array turned = mlx_array_new(),
              segments = mlx_array_new_data((const int[]){ 0, 1, 0, 64 }, (const int[]){ 2, 2 }, 2, MLX_INT32);
    mlx_array mask = mlx_array_new_data((const float[]){ 2 }, (const int[]){ 1, 1 }, 2, MLX_FLOAT32);
    OK(mlx_transpose(&turned, w, s));
    GIVES(mlx_gather_mm(&r, x, turned, none, none, false, s), "[[64, 128]], dtype=float32");
    GIVES(mlx_gather_mm(&r, x, turned, i, none, true, s), "[[[64, 128]],\n       [[64, 128]]], dtype=float32");
    GIVES(mlx_segmented_mm(&r, x, turned, segments, s), "[[[1, 2]],\n       [[64, 128]]], dtype=float32");
    GIVES(mlx_block_masked_mm(&r, x, turned, 64, mask, none, mask, s), "[[256, 512]], dtype=float32");
    GIVES(mlx_hadamard_transform(&r, r, (mlx_optional_float){ .value = 1, .has_value = true }, s),
          "[[768, -256]], dtype=float32");
    FAILS(mlx_gather_mm(&r, x, turned, x, none, false, s), "integers");
    FAILS(mlx_segmented_mm(&r, x, turned, none, s), "segments");
    FAILS(mlx_block_masked_mm(&r, x, turned, 0, none, none, none, s), "block size");
    FAILS(mlx_hadamard_transform(&r, none, (mlx_optional_float){ .has_value = false }, s), "a");
    mlx_array_free(turned);
    mlx_array_free(segments);
    mlx_array_free(mask);
}

static int begin(void **state)
{
    float v[128];
    for (int k = 0; k < 128; k++) v[k] = (float)(1 + k / 64);
    start_listening(state);
    s = mlx_default_cpu_stream_new();
    r = mlx_array_new();
    w = mlx_array_new_data(v, (const int[]){ 2, 64 }, 2, MLX_FLOAT32);
    x = mlx_array_new_data(v, (const int[]){ 1, 64 }, 2, MLX_FLOAT32);
    i = ints(2, (const int[]){ 0, -1 });
    return 0;
}

static int end(void **state)
{
    mlx_array_free(r);
    mlx_array_free(w);
    mlx_array_free(x);
    mlx_array_free(i);
    mlx_stream_free(s);
    return all_gone(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(affine),
        cmocka_unit_test(floating),
        cmocka_unit_test(products),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
