/* The entry points of random.h.  What a key gives is fixed for good: programs compare results drawn
 * with one key, so the numbers stand here. */
#include "support/heard.h"

static mlx_stream s;
static mlx_array r, key, zero, one, three;
static const mlx_array none = { NULL };

#define SHAPE(...) (const int[]){ __VA_ARGS__ }, sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)
#define F32 ", dtype=float32"
#define U32 ", dtype=uint32"

static void keys(void **state)
{
    (void)state;
    mlx_array other = mlx_array_new();
    GIVES(mlx_random_key(&r, ((uint64_t)5 << 32) + 7), "[5, 7]" U32);
    GIVES(mlx_random_split_num(&r, key, 3, s), "[[276534068, 861967409],\n"
                                               "       [1905761346, 1641862660],\n"
                                               "       [2900896126, 1402713516]]" U32);
    OK(mlx_random_split(&other, &r, key, s));
    GIVES(mlx_array_set(&r, r), "[1948237315, 1058547403]" U32);
    GIVES(mlx_array_set(&r, other), "[966301609, 989289821]" U32);
    /* Along batch axes each key is split by itself. */
    mlx_array both = mlx_array_new_data((const uint32_t[]){ 0, 7, 5, 7 }, (const int[]){ 2, 1, 2 }, 3, MLX_UINT32);
    OK(mlx_random_split(&other, &r, both, s));
    expect_array(other, "[[[966301609, 989289821]],\n       [[3212260180, 2680159693]]]" U32);
    expect_array(r, "[[[1948237315, 1058547403]],\n       [[952943831, 3111455102]]]" U32);
    mlx_array_free(both);
    GIVES(mlx_random_bits(&r, SHAPE(3), 4, key, s), "[966301609, 1830345032, 1948237315]" U32);
    OK(mlx_random_bits(&r, SHAPE(2, 2), 1, key, s));
    assert_int_equal(mlx_array_dtype(r), MLX_UINT8);
    OK(mlx_random_bits(&r, SHAPE(2, 2), 2, key, s));
    assert_int_equal(mlx_array_dtype(r), MLX_UINT16);
    OK(mlx_random_seed(11));
    GIVES(mlx_random_uniform(&r, zero, one, SHAPE(2), MLX_FLOAT32, none, s), "[0.646934, 0.186988]" F32);
    GIVES(mlx_random_uniform(&r, zero, one, SHAPE(2), MLX_FLOAT32, none, s), "[0.25079, 0.56176]" F32);
    mlx_array_free(other);
}

static void distributions(void **state)
{
    (void)state;
    mlx_array low = mlx_array_new_int(-5), high = mlx_array_new_int(10), half = mlx_array_new_float(0.5f);
    GIVES(mlx_random_uniform(&r, one, three, SHAPE(3), MLX_FLOAT32, key, s), "[1.44997, 1.85232, 1.90722]" F32);
    GIVES(mlx_random_randint(&r, low, high, SHAPE(4), MLX_INT32, key, s), "[-2, -2, 1, -2], dtype=int32");
    GIVES(mlx_random_bernoulli(&r, half, SHAPE(5), key, s), "[True, True, False, True, False], dtype=bool");
    GIVES(mlx_random_normal(&r, SHAPE(3), MLX_FLOAT32, 0, 1, key, s), "[-0.755466, -0.186158, -0.116547]" F32);
    GIVES(mlx_random_normal(&r, SHAPE(3), MLX_FLOAT32, 2, 3, key, s), "[-0.266399, 1.44153, 1.65036]" F32);
    GIVES(mlx_random_normal_broadcast(&r, SHAPE(3), MLX_FLOAT32, one, three, key, s),
          "[-1.2664, 0.441526, 0.650358]" F32);
    GIVES(mlx_random_normal_broadcast(&r, SHAPE(3), MLX_FLOAT32, none, none, key, s),
          "[-0.755466, -0.186158, -0.116547]" F32);
    GIVES(mlx_random_truncated_normal(&r, zero, one, SHAPE(3), MLX_FLOAT32, key, s),
          "[0.193707, 0.373112, 0.398413]" F32);
    GIVES(mlx_random_gumbel(&r, SHAPE(3), MLX_FLOAT32, key, s), "[-0.399932, 0.159067, 0.235066]" F32);
    GIVES(mlx_random_laplace(&r, SHAPE(3), MLX_FLOAT32, 1, 2, key, s), "[2.59715, 1.31958, 1.19474]" F32);
    mlx_array_free(low);
    mlx_array_free(high);
    mlx_array_free(half);
}

static void categories(void **state)
{
    (void)state;
    const float v[] = { 0, 1, 2, 3, 0, 0 };
    const int shape[] = { 2, 3 };
    mlx_array logits = mlx_array_new_data(v, shape, 2, MLX_FLOAT32);
    GIVES(mlx_random_categorical(&r, logits, 1, key, s), "[2, 0]" U32);
    GIVES(mlx_random_categorical(&r, logits, 0, key, s), "[1, 1, 0]" U32);
    GIVES(mlx_random_categorical_num_samples(&r, logits, 1, 4, key, s), "[[0, 2, 0, 1],\n       [0, 1, 0, 0]]" U32);
    GIVES(mlx_random_categorical_shape(&r, logits, 1, SHAPE(3, 2), key, s),
          "[[1, 2],\n       [2, 0],\n       [2, 0]]" U32);
    mlx_array_free(logits);
}

static void bad_arguments(void **state)
{
    (void)state;
    int many[65] = { 0 };
    OK(mlx_array_set_int(&r, 77));
    FAILS(mlx_random_split(&r, &r, none, s), "[random.split] expected an array for `key`");
    FAILS(mlx_random_split_num(&r, none, 2, s), "[random.split_num] expected an array for `key`");
    FAILS(mlx_random_split(&r, NULL, key, s), "place for the result");
    FAILS(mlx_random_split_num(&r, none, 2, s), "`key`");
    FAILS(mlx_random_split_num(&r, key, -2, s), "got -2");
    FAILS(mlx_random_bits(&r, SHAPE(2), 3, key, s), "got 3");
    FAILS(mlx_random_bits(&r, SHAPE(-2), 4, key, s), "bits");
    FAILS(mlx_random_bits(&r, NULL, 2, 4, key, s), "`shape`, got NULL");
    FAILS(mlx_random_bits(&r, many, 65, 4, key, s), "at most 64 dimensions, got 65");
    FAILS(mlx_random_uniform(&r, none, one, SHAPE(2), MLX_FLOAT32, key, s), "`low`");
    FAILS(mlx_random_uniform(&r, zero, one, SHAPE(2), (mlx_dtype)40, key, s), "a dtype, got 40");
    FAILS(mlx_random_normal(&r, SHAPE(2), MLX_INT32, 0, 1, key, s), "normal");
    FAILS(mlx_random_uniform(&r, zero, one, SHAPE(2), MLX_FLOAT32, one, s), "key");
    FAILS(mlx_random_categorical(&r, none, 0, key, s), "`logits`");
    int v;
    OK(mlx_array_item_int32(&v, r));
    assert_int_equal(v, 77);
}

static int make(void **state)
{
    start_listening(state);
    s = mlx_default_cpu_stream_new();
    r = mlx_array_new();
    key = mlx_array_new();
    zero = mlx_array_new_float(0);
    one = mlx_array_new_float(1);
    three = mlx_array_new_float(3);
    return mlx_random_key(&key, 7);
}

static int unmake(void **state)
{
    (void)state;
    mlx_array all[] = { r, key, zero, one, three };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mlx_array_free(all[i]);
    mlx_set_error_handler(NULL, NULL, NULL); /* the state of the generator stays alive */
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(distributions),
        cmocka_unit_test(categories),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests_name("C API: random", tests, make, unmake);
}
