/* Arrays as text: every dtype, special values, nesting, summaries, as programs of the Python
 * package know them. */
#include <complex.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "core/print.h"
#include "core/scope.h"
#include "support/heard.h"

static void expect(mx x, int precision, const char *expected)
{
    char *text = array_text(x, precision);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static mx of(enum dtype t, int n, const void *data) { return array_of_data(t, 1, &n, data); }

static void dtypes(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    expect(of(DT_bool_, 2, (uint8_t[]){ 1, 0 }), -1, "array([True, False], dtype=bool)");
    expect(of(DT_uint8, 2, (uint8_t[]){ 255, 0 }), -1, "array([255, 0], dtype=uint8)");
    expect(of(DT_int8, 2, (int8_t[]){ -128, 5 }), -1, "array([-128, 5], dtype=int8)");
    expect(of(DT_uint16, 1, (uint16_t[]){ 65535 }), -1, "array([65535], dtype=uint16)");
    expect(of(DT_int16, 1, (int16_t[]){ -32768 }), -1, "array([-32768], dtype=int16)");
    expect(of(DT_uint32, 1, (uint32_t[]){ UINT32_MAX }), -1, "array([4294967295], dtype=uint32)");
    expect(of(DT_int32, 1, (int32_t[]){ INT32_MIN }), -1, "array([-2147483648], dtype=int32)");
    expect(of(DT_uint64, 1, (uint64_t[]){ UINT64_MAX }), -1, "array([18446744073709551615], dtype=uint64)");
    expect(of(DT_int64, 1, (int64_t[]){ INT64_MIN }), -1, "array([-9223372036854775808], dtype=int64)");
    expect(of(DT_float64, 4, (double[]){ 1.0 / 3, 1e300, 123456789.123, -0.0 }), -1,
           "array([0.333333, 1e+300, 1.23457e+08, -0], dtype=float64)");
    /* 1/3, 1000, 65504, smallest subnormal, largest subnormal, nan */
    expect(of(DT_float16, 6, (uint16_t[]){ 0x3555, 0x63d0, 0x7bff, 0x0001, 0x83ff, 0x7e00 }), -1,
           "array([0.333252, 1000, 65504, 5.96046e-08, -6.09756e-05, nan], dtype=float16)");
    expect(of(DT_float16, 2, (uint16_t[]){ 0x7c00, 0xfc00 }), -1, "array([inf, -inf], dtype=float16)");
    expect(of(DT_bfloat16, 4, (uint16_t[]){ 0x3eab, 0x4780, 0xff80, 0xffc0 }), -1,
           "array([0.333984, 65536, -inf, nan], dtype=bfloat16)");
}

static void floats_(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    expect(of(DT_float32, 6, (float[]){ 1, NAN, INFINITY, -INFINITY, -0.0f, -NAN }), -1,
           "array([1, nan, inf, -inf, -0, nan], dtype=float32)");
    expect(of(DT_float32, 6, (float[]){ 1e10f, 1e-10f, 123456789.0f, 0.1f, 999999.5f, 100000 }), -1,
           "array([1e+10, 1e-10, 1.23457e+08, 0.1, 1e+06, 100000], dtype=float32)");
    expect(of(DT_complex64, 5, (float[]){ 1, 2, 1, -2, NAN, INFINITY, 0, -INFINITY, 1e10f, 1 / 3.0f }), -1,
           "array([1+2j, 1-2j, nan+infj, 0-infj, 1e+10+0.333333j], dtype=complex64)");
    expect(of(DT_complex64, 2, (float[]){ -0.0f, -0.0f, 0, -NAN }), -1, "array([-0-0j, 0+nanj], dtype=complex64)");
}

static void precision(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    mx x = of(DT_float32, 4, (float[]){ 1 / 3.0f, 1e10f, 2, NAN });
    expect(x, 0, "array([0, 10000000000, 2, nan], dtype=float32)");
    expect(x, 3, "array([0.333, 10000000000.000, 2.000, nan], dtype=float32)");
    expect(x, 10, "array([0.3333333433, 10000000000.0000000000, 2.0000000000, nan], dtype=float32)");
    expect(of(DT_complex64, 1, (float[]){ 0.5f, -2 }), 1, "array([0.5-2.0j], dtype=complex64)");
    expect(of(DT_int32, 1, (int[]){ 7 }), 3, "array([7], dtype=int32)");
}

static mx shaped(int ndim, const int *shape)
{
    int32_t v[2048];
    for (int i = 0; i < 2048; i++) v[i] = i;
    return array_of_data(DT_int32, ndim, shape, v);
}

static void nesting(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    expect(array_of_int(3, DT_int32), -1, "array(3, dtype=int32)");
    expect(shaped(3, (int[]){ 2, 2, 2 }), -1,
           "array([[[0, 1],\n        [2, 3]],\n       [[4, 5],\n        [6, 7]]], dtype=int32)");
    expect(shaped(4, (int[]){ 1, 2, 1, 2 }), -1, "array([[[[0, 1]],\n        [[2, 3]]]], dtype=int32)");
    expect(shaped(3, (int[]){ 1, 3, 1 }), -1, "array([[[0],\n        [1],\n        [2]]], dtype=int32)");
    expect(shaped(1, (int[]){ 0 }), -1, "array([], dtype=int32)");
    expect(shaped(2, (int[]){ 0, 3 }), -1, "array([], dtype=int32)");
    expect(shaped(2, (int[]){ 2, 0 }), -1, "array([[],\n       []], dtype=int32)");
    expect(shaped(3, (int[]){ 2, 0, 3 }), -1, "array([[],\n       []], dtype=int32)");
}

static void summaries(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    expect(shaped(1, (int[]){ 6 }), -1, "array([0, 1, 2, 3, 4, 5], dtype=int32)");
    expect(shaped(1, (int[]){ 7 }), -1, "array([0, 1, 2, ..., 4, 5, 6], dtype=int32)");
    expect(shaped(2, (int[]){ 7, 200 }), -1,
           "array([[0, 1, 2, ..., 197, 198, 199],\n"
           "       [200, 201, 202, ..., 397, 398, 399],\n"
           "       [400, 401, 402, ..., 597, 598, 599],\n"
           "       ...,\n"
           "       [800, 801, 802, ..., 997, 998, 999],\n"
           "       [1000, 1001, 1002, ..., 1197, 1198, 1199],\n"
           "       [1200, 1201, 1202, ..., 1397, 1398, 1399]], dtype=int32)");
    expect(shaped(3, (int[]){ 1, 7, 1 }), -1,
           "array([[[0],\n        [1],\n        [2],\n        ...,\n        [4],\n        [5],\n"
           "        [6]]], dtype=int32)");
}

/* Strides, also negative ones, and a locale that writes numbers with a comma. */
static void views(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    mx x = shaped(2, (int[]){ 3, 2 }), y = array_alias(x);
    y->shape[0] = 2;
    y->shape[1] = 3;
    y->strides[0] = 1;
    y->strides[1] = -2;
    y->offset = 4;
    array_note_layout(y);
    expect(y, -1, "array([[4, 2, 0],\n       [5, 3, 1]], dtype=int32)");
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "C.UTF-8"))
        expect(of(DT_float32, 1, (float[]){ 0.5f }), -1, "array([0.5], dtype=float32)");
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes),  cmocka_unit_test(floats_),   cmocka_unit_test(precision),
        cmocka_unit_test(nesting), cmocka_unit_test(summaries), cmocka_unit_test(views),
    };
    return cmocka_run_group_tests_name("print", tests, start_listening, all_gone);
}
