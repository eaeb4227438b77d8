/* The entry points of orders, running folds and results whose shape depends on elements. */
#include "mlx/c/binding.h"
#include "support/heard.h"

static mlx_stream s;
static mlx_array r, a;
static const mlx_array none = { NULL };

#define I32 ", dtype=int32"
#define U32 ", dtype=uint32"

static void orders(void **state)
{
    (void)state;
    GIVES(mlx_sort(&r, a, s), "[1, 2, 3, 4, 5, 9]" I32);
    GIVES(mlx_sort_axis(&r, a, 0, s), "[[2, 1, 4],\n       [3, 9, 5]]" I32);
    GIVES(mlx_argsort(&r, a, s), "[1, 3, 0, 2, 5, 4]" U32);
    GIVES(mlx_argsort_axis(&r, a, -1, s), "[[1, 0, 2],\n       [0, 2, 1]]" U32);
    GIVES(mlx_topk(&r, a, 2, s), "[5, 9]" I32);
    GIVES(mlx_topk_axis(&r, a, 1, 1, s), "[[4],\n       [9]]" I32);
    GIVES(mlx_partition(&r, a, -1, s), "[1, 2, 3, 4, 5, 9]" I32);
    OK(mlx_partition_axis(&r, a, 1, 1, s));
    OK(mlx_argpartition(&r, a, 2, s));
    OK(mlx_argpartition_axis(&r, a, 1, 1, s));
    GIVES(mlx_median(&r, a, (const int[]){ 0, 1 }, 2, false, s), "3.5, dtype=float32");
    GIVES(mlx_median(&r, a, (const int[]){ 1 }, 1, true, s), "[[3],\n       [5]], dtype=float32");
    GIVES(mlx_median(&r, a, NULL, 0, false, s), "[[3, 1, 4],\n       [2, 9, 5]], dtype=float32");
}

static void folds(void **state)
{
    (void)state;
    GIVES(mlx_cumsum(&r, a, 1, false, true, s), "[[3, 4, 8],\n       [2, 11, 16]]" I32);
    GIVES(mlx_cumsum(&r, a, 1, true, false, s), "[[5, 4, 0],\n       [14, 5, 0]]" I32);
    GIVES(mlx_cumprod(&r, a, 0, false, true, s), "[[3, 1, 4],\n       [6, 9, 20]]" I32);
    GIVES(mlx_cummax(&r, a, 1, false, true, s), "[[3, 3, 4],\n       [2, 9, 9]]" I32);
    GIVES(mlx_cummin(&r, a, 1, true, true, s), "[[1, 1, 4],\n       [2, 5, 5]]" I32);
    OK(mlx_logcumsumexp(&r, a, 1, false, true, s));
    assert_int_equal(mlx_array_dtype(r), MLX_FLOAT32);
}

static void shapes_that_depend(void **state)
{
    (void)state;
    mlx_array four = mlx_array_new_int(4), sorted = mlx_array_new(), above = mlx_array_new();
    mlx_vector_array all = mlx_vector_array_new();
    OK(mlx_greater(&above, a, four, s));
    GIVES(mlx_nonzero(&r, above, s), "[[1, 1],\n       [1, 2]]" I32);
    mlx_index mask = { .kind = MLX_INDEX_ARRAY, .array = above };
    GIVES(mlx_getitem(&r, a, &mask, 1, s), "[9, 5]" I32);
    GIVES(mlx_setitem(&r, a, &mask, 1, r, MLX_FOLD_ADD, s), "[[3, 1, 4],\n       [2, 18, 10]]" I32);
    OK(mlx_sort(&sorted, a, s));
    GIVES(mlx_searchsorted(&r, sorted, four, false, s), "3" U32);
    GIVES(mlx_searchsorted(&r, sorted, four, true, s), "4" U32);
    OK(mlx_unique(&all, above, (mlx_optional_int){ .has_value = false }, none, s));
    assert_int_equal(mlx_vector_array_size(all), 4);
    OK(mlx_vector_array_get(&r, all, 0));
    expect_array(r, "[False, True], dtype=bool");
    OK(mlx_vector_array_get(&r, all, 3));
    expect_array(r, "[4, 2]" I32);
    OK(mlx_unique(&all, a, (mlx_optional_int){ .value = 8, .has_value = true }, four, s));
    OK(mlx_vector_array_get(&r, all, 0));
    expect_array(r, "[1, 2, 3, ..., 9, 4, 4]" I32);
    mlx_vector_array_free(all);
    mlx_array_free(four);
    mlx_array_free(sorted);
    mlx_array_free(above);
}

static void permutations(void **state)
{
    (void)state;
    mlx_array key = mlx_array_new();
    OK(mlx_random_key(&key, 3));
    GIVES(mlx_random_permutation_arange(&r, 5, key, s), "[0, 1, 4, 3, 2]" U32);
    GIVES(mlx_random_permutation(&r, a, 1, key, s), "[[1, 3, 4],\n       [9, 2, 5]]" I32);
    FAILS(mlx_random_permutation(&r, a, 2, key, s), "permutation");
    FAILS(mlx_random_permutation_arange(&r, -1, key, s), "got -1");
    mlx_array_free(key);
}

static void bad_arguments(void **state)
{
    int many[65] = { 0 };
    (void)state;
    FAILS(mlx_sort(&r, none, s), "`a`");
    FAILS(mlx_sort_axis(&r, a, 2, s), "[sort_axis] axis 2");
    FAILS(mlx_argsort_axis(NULL, a, 0, s), "place for the result");
    FAILS(mlx_topk(&r, a, 7, s), "got 7");
    FAILS(mlx_partition(&r, a, 6, s), "[partition] expected kth from -6 to 5");
    FAILS(mlx_argpartition_axis(&r, a, 3, 1, s), "[argpartition_axis] expected kth from -3 to 2");
    FAILS(mlx_median(&r, a, NULL, 1, false, s), "`axes`, got NULL");
    FAILS(mlx_median(&r, a, many, 65, false, s), "at most 64 axes, got 65");
    FAILS(mlx_median(&r, a, many, 2, false, s), "median");
    FAILS(mlx_cumsum(&r, a, -3, false, true, s), "[cumsum] axis -3");
    FAILS(mlx_logcumsumexp(&r, none, 0, false, true, s), "`a`");
    FAILS(mlx_searchsorted(&r, a, a, false, s), "one dimension");
    FAILS(mlx_nonzero(&r, none, s), "`a`");
    mlx_vector_array all = mlx_vector_array_new();
    FAILS(mlx_unique(&all, a, (mlx_optional_int){ .value = -1, .has_value = true }, none, s), "got -1");
    FAILS(mlx_unique(&all, a, (mlx_optional_int){ .value = 1, .has_value = true }, a, s), "one fill value");
    FAILS(mlx_unique(&all, none, (mlx_optional_int){ .has_value = false }, none, s), "`a`");
    mlx_vector_array_free(all);
}

static int make(void **state)
{
    static const int v[] = { 3, 1, 4, 2, 9, 5 };
    start_listening(state);
    s = mlx_default_cpu_stream_new();
    r = mlx_array_new();
    a = mlx_array_new_data(v, (const int[]){ 2, 3 }, 2, MLX_INT32);
    return 0;
}

static int unmake(void **state)
{
    mlx_array_free(r);
    mlx_array_free(a);
    mlx_stream_free(s);
    return all_gone(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),       cmocka_unit_test(folds),         cmocka_unit_test(shapes_that_depend),
        cmocka_unit_test(permutations), cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests_name("C API: order", tests, make, unmake);
}
