/* Arrays on the caller's memory, of any layout. */
#include "core/buffer.h"
#include "support/heard.h"

static mlx_stream s;
static int ended;

static void end(void *payload) { *(int *)payload += 1; }

/* 0 1 2 3 / 4 5 6 7 / 8 9 10 11 */
static const float grid[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };

static void layout(const float *data, int rows, int columns, int64_t down, int64_t right, const char *text)
{
    mlx_array a =
        mlx_array_new_borrowed(data, (int[]){ rows, columns }, (int64_t[]){ down, right }, 2, MLX_FLOAT32, &ended, end);
    mlx_array y = mlx_array_new();
    expect_array(a, text);
    assert_ptr_equal(mlx_array_data_float32(a), data);
    /* an operation on it, and one on a view of it */
    OK(mlx_subtract(&y, a, a, s));
    OK(mlx_transpose(&a, a, s));
    OK(mlx_transpose(&a, a, s));
    OK(mlx_add(&y, y, a, s));
    expect_array(y, text);
    bool writable = true;
    OK(mlx_array_is_writable(&writable, a));
    assert_false(writable);
    ended = 0;
    mlx_array_free(a);
    mlx_array_free(y);
    assert_int_equal(ended, 1);
}

static void layouts(void **state)
{
    (void)state;
    layout(grid, 3, 4, 4, 1, "[[0, 1, 2, 3],\n       [4, 5, 6, 7],\n       [8, 9, 10, 11]], dtype=float32");
    layout(grid + 1, 2, 2, 4, 2, "[[1, 3],\n       [5, 7]], dtype=float32");
    layout(grid, 4, 3, 1, 4, "[[0, 4, 8],\n       [1, 5, 9],\n       [2, 6, 10],\n       [3, 7, 11]], dtype=float32");
    layout(grid + 11, 2, 2, -4, -1, "[[11, 10],\n       [7, 6]], dtype=float32");
    layout(grid + 8, 2, 2, -8, 1, "[[8, 9],\n       [0, 1]], dtype=float32");
    layout(grid + 4, 2, 3, 0, 1, "[[4, 5, 6],\n       [4, 5, 6]], dtype=float32");
}

static void edges(void **state)
{
    (void)state;
    ended = 0;
    mlx_array a = mlx_array_new_borrowed(grid + 5, NULL, NULL, 0, MLX_FLOAT32, &ended, end);
    expect_array(a, "5, dtype=float32");
    mlx_array_free(a);
    a = mlx_array_new_borrowed(NULL, (int[]){ 0, 3 }, (int64_t[]){ 7, -9 }, 2, MLX_FLOAT32, &ended, end);
    assert_int_equal(mlx_array_size(a), 0);
    mlx_array_free(a);
    assert_int_equal(ended, 2);
    a = mlx_array_new_borrowed(grid, (int[]){ 12 }, NULL, 1, MLX_FLOAT32, NULL, NULL);
    assert_int_equal(mlx_array_size(a), 12);
    mlx_array_free(a);
}

static void refused(void **state)
{
    (void)state;
    ended = 0;
    const int two[] = { 2, 2 };
    const int64_t far[] = { INT64_MAX / 2, INT64_MAX / 2 };
    const double here[2] = { 0 };
    const int64_t wide[] = { INT64_C(1) << 61, 1 }, wider[] = { (INT64_C(1) << 61) + 100000000000, 1 };
    for (int i = 0; i < 2; i++)
        FAILS(!mlx_array_new_borrowed(here, two, i ? wider : wide, 2, MLX_FLOAT64, &ended, end).ctx, "leave it");
    FAILS(!mlx_array_new_borrowed(NULL, two, NULL, 2, MLX_FLOAT32, &ended, end).ctx, "`data`");
    FAILS(!mlx_array_new_borrowed(grid, NULL, NULL, 2, MLX_FLOAT32, &ended, end).ctx, "`shape`");
    FAILS(!mlx_array_new_borrowed(grid, two, far, 2, MLX_FLOAT32, &ended, end).ctx, "strides");
    FAILS(!mlx_array_new_borrowed(grid, two, NULL, 2, (mlx_dtype)99, &ended, end).ctx, "dtype");
    FAILS(!mlx_array_new_borrowed(grid, two, NULL, 65, MLX_FLOAT32, &ended, end).ctx, "dimensions");
    FAILS(!mlx_array_new_borrowed((const char *)grid + 2, two, NULL, 2, MLX_FLOAT32, &ended, end).ctx, "multiple of 4");
    for (long n = 1;; n++) {
        mx_test_fail_at(n);
        mlx_array a = mlx_array_new_borrowed(grid, two, NULL, 2, MLX_FLOAT32, &ended, end);
        mx_test_fail_at(0);
        if (a.ctx) {
            mlx_array_free(a);
            break;
        }
        expect_heard(1, "could not allocate");
        assert_int_equal(ended, 0); /* the memory stays the caller's */
    }
    assert_int_equal(ended, 1);
}

/* Whoever takes back what is not lent has lost count: that is an error, and what is lent later is. */
static void taken_back(void **state)
{
    (void)state;
    const float two[] = { 1, 2 };
    mlx_array a = floats(2, two), b = mlx_array_new(), never = mlx_array_new();
    FAILS(mlx_array_take_back(a), "[array_take_back] expected an array that is lent");
    FAILS(mlx_array_take_back_on(a), "[array_take_back_on] expected an array that is lent on a GPU");
    OK(mlx_array_lend(a));
    OK(mlx_array_lend(a));
    OK(mlx_array_take_back(a));
    OK(mlx_array_take_back(a));
    FAILS(mlx_array_take_back(a), "lent");
    OK(mlx_negative(&b, a, s));
    FAILS(mlx_array_take_back(b), "lent");
    FAILS(mlx_array_take_back_on(b), "lent");
    FAILS(mlx_array_take_back(never), "an empty handle");
    mlx_array_free(a);
    mlx_array_free(b);
}

int main(void)
{
    s = mlx_default_cpu_stream_new();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),
        cmocka_unit_test(edges),
        cmocka_unit_test(refused),
        cmocka_unit_test(taken_back),
    };
    return cmocka_run_group_tests_name("C API: borrowed memory", tests, start_listening, all_gone);
}
