/* Array handles: making, sharing, reading, foreign memory, and what becomes of bad arguments. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "support/heard.h"

static void empty_handles(void **state)
{
    (void)state;
    mlx_array none = mlx_array_new();
    assert_null(none.ctx);
    assert_null(mlx_array_empty.ctx);
    OK(mlx_array_free(none));
    FAILS(mlx_array_size(none) == 0, "array_size");
    FAILS(mlx_array_ndim(none) == 0, "array_ndim");
    FAILS(mlx_array_nbytes(none) == 0, "`arr`, got an empty handle");
    FAILS(mlx_array_itemsize(none) == 0, "array_itemsize");
    FAILS(mlx_array_shape(none) == NULL, "array_shape");
    FAILS(mlx_array_strides(none) == NULL, "array_strides");
    FAILS(mlx_array_dtype(none) == MLX_BOOL, "array_dtype");
    FAILS(mlx_array_dim(none, 0) == 0, "array_dim");
    FAILS(mlx_array_eval(none), "array_eval");
    FAILS(mlx_array_data_float32(none) == NULL, "array_data_float32");
    float v = 7;
    FAILS(mlx_array_item_float32(&v, none), "array_item_float32");
    assert_true(v == 7);
    bool yes = true;
    FAILS(_mlx_array_is_available(&yes, none), "array_is_available");
    FAILS(_mlx_array_is_row_contiguous(&yes, none), "array_is_row_contiguous");
    FAILS(_mlx_array_wait(none), "array_wait");
    mlx_string text = mlx_string_new();
    FAILS(mlx_array_tostring(&text, none), "array_tostring");
    assert_null(text.ctx);
    mlx_array to = mlx_array_new_int(3);
    FAILS(mlx_array_set(&to, none), "`src`");
    int i;
    OK(mlx_array_item_int32(&i, to));
    assert_int_equal(i, 3);
    mlx_array_free(to);
}

static void digits(void **state)
{
    (void)state;
    mlx_string text = mlx_string_new();
    mlx_array tenth = mlx_array_new_float(0.1f);
    OK(mlx_array_text(&text, tenth, INT32_MAX)); /* all its digits, and no more room than they may take */
    assert_int_equal(strlen(mlx_string_data(text)), strlen("array(0., dtype=float32)") + 1074);
    mlx_array_free(tenth);
    mlx_string_free(text);
}

static void scalars(void **state)
{
    (void)state;
    const struct {
        mlx_array a;
        mlx_dtype dtype;
        size_t bytes;
    } all[] = {
        { mlx_array_new_bool(true), MLX_BOOL, 1 },          { mlx_array_new_int(-5), MLX_INT32, 4 },
        { mlx_array_new_float32(0.1f), MLX_FLOAT32, 4 },    { mlx_array_new_float(0.1f), MLX_FLOAT32, 4 },
        { mlx_array_new_float64(0.1), MLX_FLOAT64, 8 },     { mlx_array_new_double(0.1), MLX_FLOAT64, 8 },
        { mlx_array_new_complex(1, -2), MLX_COMPLEX64, 8 },
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        assert_int_equal(mlx_array_dtype(all[k].a), all[k].dtype);
        assert_int_equal(mlx_array_ndim(all[k].a), 0);
        assert_int_equal(mlx_array_size(all[k].a), 1);
        assert_int_equal(mlx_array_itemsize(all[k].a), all[k].bytes);
        assert_int_equal(mlx_array_nbytes(all[k].a), all[k].bytes);
        assert_int_equal(mlx_dtype_size(all[k].dtype), all[k].bytes);
    }
    bool b = false;
    int32_t i;
    float f;
    double d;
    mlx_complex64_t z;
    OK(mlx_array_item_bool(&b, all[0].a));
    OK(mlx_array_item_int32(&i, all[1].a));
    OK(mlx_array_item_float32(&f, all[2].a));
    OK(mlx_array_item_float64(&d, all[4].a));
    OK(mlx_array_item_complex64(&z, all[6].a));
    assert_true(b);
    assert_int_equal(i, -5);
    assert_true(f == 0.1f && d == 0.1 && crealf(z) == 1 && cimagf(z) == -2);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) OK(mlx_array_free(all[k].a));
}

/* Copies of a handle share the box. */
static void sharing(void **state)
{
    (void)state;
    mlx_array a = mlx_array_new_int(1), copy = a;
    OK(mlx_array_set_float64(&copy, 2.5));
    assert_int_equal(mlx_array_dtype(a), MLX_FLOAT64);
    mlx_array other = mlx_array_new();
    OK(mlx_array_set(&other, a));
    assert_ptr_not_equal(other.ctx, a.ctx);
    assert_true(mlx_array_id(other) == mlx_array_id(a) && mlx_array_id(a) == mlx_array_id(copy));
    OK(mlx_array_set_bool(&a, true));
    assert_true(mlx_array_id(other) != mlx_array_id(a) && mlx_array_id(a) == mlx_array_id(copy));
    assert_true(mlx_array_id(mlx_array_empty) == 0);
    OK(mlx_array_set_int(&a, 4));
    OK(mlx_array_set_float32(&a, 4));
    OK(mlx_array_set_float(&a, 4));
    OK(mlx_array_set_double(&a, 4));
    OK(mlx_array_set_complex(&a, 4, 5));
    assert_int_equal(mlx_array_dtype(copy), MLX_COMPLEX64);
    assert_int_equal(mlx_array_dtype(other), MLX_FLOAT64);
    OK(mlx_array_set(&a, a));
    FAILS(mlx_array_set_int(NULL, 4), "array_set_int");
    OK(mlx_array_free(a));
    OK(mlx_array_free(other));
}

static void data(void **state)
{
    (void)state;
    const float v[] = { 1, 2, 3, 4, 5, 6 };
    const int shape[] = { 2, 3 };
    mlx_array a = mlx_array_new_data(v, shape, 2, MLX_FLOAT32);
    assert_int_equal(mlx_array_dim(a, 0), 2);
    assert_int_equal(mlx_array_dim(a, -1), 3);
    FAILS(mlx_array_dim(a, 2) == 0, "array_dim");
    assert_int_equal(mlx_array_shape(a)[0], 2);
    assert_int_equal(mlx_array_strides(a)[0], 3);
    assert_int_equal(mlx_array_strides(a)[1], 1);
    const float *w = mlx_array_data_float32(a);
    assert_ptr_not_equal(w, v);
    assert_memory_equal(w, v, sizeof v);
    const uint32_t *bits = mlx_array_data_uint32(a);
    assert_int_equal(bits[0], 0x3f800000);
    FAILS(mlx_array_data_int32(a) == NULL, "expected an array of dtype int32, got one of float32");
    FAILS(mlx_array_data_uint64(a) == NULL, "got one of float32");
    float x;
    FAILS(mlx_array_item_float32(&x, a), "one of shape (2,3)");
    FAILS(mlx_array_item_float32(NULL, a), "place for the result");
    bool yes = false;
    OK(_mlx_array_is_available(&yes, a));
    assert_true(yes);
    OK(_mlx_array_wait(a));
    yes = false;
    OK(_mlx_array_is_contiguous(&yes, a));
    assert_true(yes);
    OK(_mlx_array_is_row_contiguous(&yes, a));
    assert_true(yes);
    OK(_mlx_array_is_col_contiguous(&yes, a));
    assert_false(yes);
    FAILS(_mlx_array_is_contiguous(NULL, a), "place for the result");
    OK(mlx_array_set_data(&a, v, shape, 1, MLX_FLOAT32));
    assert_int_equal(mlx_array_ndim(a), 1);
    OK(_mlx_array_is_col_contiguous(&yes, a));
    assert_true(yes);
    mlx_array_free(a);
}

static void bad_data(void **state)
{
    (void)state;
    const int v[4] = { 0 }, shape[] = { 2, 2 }, negative[] = { 2, -1 }, zero[] = { 0 };
    const int huge[] = { 1 << 30, 1 << 30, 1 << 30 };
    int ones[65];
    for (int i = 0; i < 65; i++) ones[i] = 1;
    FAILS(mlx_array_new_data(v, shape, 2, (mlx_dtype)14).ctx == NULL, "expected a dtype, got 14");
    FAILS(mlx_array_new_data(v, shape, 2, (mlx_dtype)-1).ctx == NULL, "expected a dtype");
    FAILS(mlx_array_new_data(v, shape, -1, MLX_INT32).ctx == NULL, "dimensions, got -1");
    FAILS(mlx_array_new_data(v, ones, 65, MLX_INT32).ctx == NULL, "dimensions, got 65");
    FAILS(mlx_array_new_data(v, NULL, 2, MLX_INT32).ctx == NULL, "`shape`, got NULL");
    FAILS(mlx_array_new_data(NULL, shape, 2, MLX_INT32).ctx == NULL, "`data`, got NULL");
    FAILS(mlx_array_new_data(v, negative, 2, MLX_INT32).ctx == NULL, "[array_new_data]");
    FAILS(mlx_array_new_data(v, huge, 3, MLX_INT32).ctx == NULL, "[array_new_data]");
    FAILS(mlx_dtype_size((mlx_dtype)99) == 0, "expected a dtype, got 99");
    mlx_array empty = mlx_array_new_data(NULL, zero, 1, MLX_INT32);
    assert_int_equal(mlx_array_size(empty), 0);
    FAILS(mlx_array_set_data(&empty, v, negative, 2, MLX_INT32), "[array_set_data]");
    assert_int_equal(mlx_array_ndim(empty), 1);
    expect_heard(0, "");
    mlx_array_free(empty);
}

static int ended;
static void *ended_with;
static void end(void *payload)
{
    ended++;
    ended_with = payload;
}

static void foreign_memory(void **state)
{
    (void)state;
    static int v[] = { 1, 2, 3 };
    static char payload;
    const int n = 3, bad = -3;
    mlx_array a = mlx_array_new_data_managed(v, &n, 1, MLX_INT32, end), b = mlx_array_new();
    assert_ptr_equal(mlx_array_data_int32(a), v);
    OK(mlx_array_set(&b, a));
    OK(mlx_array_free(a));
    assert_int_equal(ended, 0);
    OK(mlx_array_free(b));
    assert_int_equal(ended, 1);
    assert_ptr_equal(ended_with, v);
    a = mlx_array_new_data_managed_payload(v, &n, 1, MLX_INT32, &payload, end);
    OK(mlx_array_free(a));
    assert_int_equal(ended, 2);
    assert_ptr_equal(ended_with, &payload);
    a = mlx_array_new_data_managed(v, &n, 1, MLX_INT32, NULL);
    OK(mlx_array_free(a));
    /* After a failure the memory stays the caller's. */
    FAILS(mlx_array_new_data_managed(v, &bad, 1, MLX_INT32, end).ctx == NULL, "array_new_data_managed");
    FAILS(mlx_array_new_data_managed((char *)v + 1, &n, 1, MLX_INT32, end).ctx == NULL,
          "at a multiple of 4 bytes for int32");
    assert_int_equal(ended, 2);
}

static void expect_new(mlx_array a, const char *expected)
{
    expect_array(a, expected);
    mlx_array_free(a);
}

static void text(void **state)
{
    (void)state;
    const int v[] = { 0, 2, 4, 6 }, shape[] = { 2, 2 };
    expect_new(mlx_array_new_data(v, shape, 2, MLX_INT32), "[[0, 2],\n       [4, 6]], dtype=int32");
    expect_new(mlx_array_new_bool(true), "True, dtype=bool");
    expect_new(mlx_array_new_float(2.5f), "2.5, dtype=float32");
}

static void bools_of_any_byte(void **state)
{
    (void)state;
    static uint8_t v[] = { 0, 1, 2, 0, 128, 255 };
    const int n = 6, one = 1;
    mlx_stream s = mlx_default_cpu_stream_new();
    mlx_array of[] = { mlx_array_new_data(v, &n, 1, MLX_BOOL), mlx_array_new_data_managed(v, &n, 1, MLX_BOOL, NULL) };
    mlx_array y = mlx_array_new(), last = mlx_array_new_data(v + 5, &one, 1, MLX_BOOL);
    for (int i = 0; i < 2; i++) {
        bool same = false;
        int32_t count = 0;
        OK(mlx_sum(&y, of[i], false, s));
        OK(mlx_array_item_int32(&count, y));
        assert_int_equal(count, 4);
        OK(mlx_logical_not(&y, of[i], s));
        OK(mlx_logical_not(&y, y, s));
        assert_memory_equal(mlx_array_data_uint8(y), ((uint8_t[]){ 0, 1, 1, 0, 1, 1 }), 6);
        OK(mlx_array_equal(&y, y, of[i], false, s));
        OK(mlx_array_item_bool(&same, y));
        assert_true(same);
        mlx_array_free(of[i]);
    }
    uint8_t byte = 0;
    OK(mlx_array_item_bool((bool *)&byte, last));
    assert_int_equal(byte, 1);
    mlx_array_free(y);
    mlx_array_free(last);
    mlx_stream_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_handles),  cmocka_unit_test(digits), cmocka_unit_test(scalars),
        cmocka_unit_test(sharing),        cmocka_unit_test(data),   cmocka_unit_test(bad_data),
        cmocka_unit_test(foreign_memory), cmocka_unit_test(text),   cmocka_unit_test(bools_of_any_byte),
    };
    return cmocka_run_group_tests_name("C API: arrays", tests, start_listening, all_gone);
}
