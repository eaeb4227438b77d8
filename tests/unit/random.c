/* Random bits are those of Threefry-2x32-20 as laid out by other implementations of the format.
 *
 * The expected words were computed with NumPy from the published cipher; the cipher itself is
 * checked against the test vectors of its authors' reference code (Random123, kat_vectors). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/scope.h"
#include "cpu/kernels.h"
#include "cpu/kernels/random.h"
#include "ops/ops.h"
#include "ops/random.h"
#include "run/eval.h"
#include "support/levels.h"

static const void *data(mx_own *hold, mx x)
{
    mx_keep(hold, x);
    if (mx_eval(1, &hold->it))
        fail_msg("%s", mx_error_message());
    return array_host(hold->it);
}

static void cipher(void **state)
{
    (void)state;
    uint32_t a, b;
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        if (!k)
            continue;
        k->random->threefry(&a, &b, 0, 0, 0, 0, 1);
        assert_int_equal(a, 0x6b200159u);
        assert_int_equal(b, 0x99ba4efeu);
        k->random->threefry(&a, &b, ~0u, ~0u, ~0u, ~0u, 1);
        assert_int_equal(a, 0x1cb996fcu);
        assert_int_equal(b, 0xbb002be7u);
        k->random->threefry(&a, &b, 0x13198a2eu, 0x03707344u, 0x243f6a88u, 0x85a308d3u, 1);
        assert_int_equal(a, 0xc4923a9cu);
        assert_int_equal(b, 0x483df7a0u);
    }
}

/* Word i of an even draw pairs with word i + n/2; of an odd one the last pair has 0 for a counter. */
static void layout(void **state)
{
    (void)state;
    static const uint32_t want[][7] = {
        { 0xd817648b },
        { 0x0ba028bf, 0xf22056bf },
        { 0x399897a9, 0x6d18d948, 0x741fbe03 },
        { 0x399897a9, 0x3af75d5d, 0x741fbe03, 0x3f1826cb },
        { 0x107b9334, 0x33609431, 0xa6847f6e, 0x61dcd604, 0xace8297e },
        { 0 },
        { 0x030e6e42, 0x6115f64d, 0x55db5be2, 0x9bd2f903, 0xb8150dc4, 0xffce793b, 0xde6bd262 },
    };
    for (int n = 1; n <= 7; n++) {
        if (n == 6)
            continue;
        for (int width = 1; width <= 4; width *= 2) {
            MX_SCOPE(NULL);
            mx_own hold = { 0 };
            int count = n * 4 / width;
            assert_memory_equal(data(&hold, mx_random_bits(1, &count, width, mx_random_key(7))), want[n - 1],
                                (size_t)n * 4);
            mx_drop(&hold);
        }
    }
    MX_SCOPE(NULL);
    mx_own hold = { 0 };
    static const uint32_t batched[] = { 0xa1794954, 0xcfe17e63, 0x0ec0bfd5, 0x2b2ded74, 0xcceb4fa5,
                                        0x371200ca, 0xf537204b, 0x22615cdf, 0x0c121d4f };
    assert_memory_equal(data(&hold, mx_random_bits(1, (int[]){ 3 }, 4, mx_random_split(mx_random_key(7), 3))), batched,
                        sizeof batched);
    mx_drop(&hold);
}

static void key_and_state(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    mx_own hold = { 0 }, again = { 0 };
    const uint32_t *k = data(&hold, mx_random_key(((uint64_t)256 << 32) + 5));
    assert_int_equal(k[0], 256);
    assert_int_equal(k[1], 5);
    mx_random_seed(3);
    mx zero = array_of_double(0, DT_float32), one = array_of_double(1, DT_float32);
    for (int i = 0; i < 2; i++) {
        float u = *(const float *)data(&hold, mx_random_uniform(zero, one, 0, NULL, DT_float32, NULL));
        assert_float_equal(u, i ? 0.843591f : 0.476526f, 1e-6f);
    }
    mx_drop(&hold);
    mx_drop(&again);
}

struct moments {
    double mean, var, low, high;
};

static struct moments moments(mx x, enum dtype t)
{
    struct moments m = { .low = INFINITY, .high = -INFINITY };
    mx_own hold = { 0 };
    data(&hold, mx_astype(x, DT_float64));
    const double *v = array_host(hold.it);
    int64_t n = hold.it->size;
    for (int64_t i = 0; i < n; i++) {
        m.mean += v[i] / (double)n;
        m.low = v[i] < m.low ? v[i] : m.low;
        m.high = v[i] > m.high ? v[i] : m.high;
    }
    for (int64_t i = 0; i < n; i++) m.var += (v[i] - m.mean) * (v[i] - m.mean) / (double)n;
    assert_int_equal(x->dtype, t);
    mx_drop(&hold);
    return m;
}

/* Six standard errors of 2^18 draws. */
static void distributions(void **state)
{
    (void)state;
    const int n = 1 << 18;
    const enum dtype types[] = { DT_float16, DT_bfloat16, DT_float32, DT_float64 };
    for (int i = 0; i < 4; i++) {
        MX_SCOPE(NULL);
        enum dtype t = types[i];
        mx key = mx_random_key((uint64_t)i);
        double se = 6 / sqrt(n), slack = dtype_is_half(t) ? 2e-2 : 0; /* their steps near 1 */
        struct moments m = moments(mx_random_uniform(array_of_double(-1, t), array_of_double(3, t), 1, &n, t, key), t);
        assert_true(m.low >= -1 && m.high <= 3);
        assert_true(fabs(m.mean - 1) < se * sqrt(16 / 12.0) + slack && fabs(m.var - 16 / 12.0) < 2 * se + slack);
        m = moments(mx_random_normal(1, &n, t, NULL, array_of_double(2, t), key), t);
        assert_true(fabs(m.mean) < 2 * se + slack && fabs(m.var - 4) < 4 * sqrt(2) * se + 4 * slack);
        assert_true(m.high < 12 && m.high > 7);
        m = moments(mx_random_truncated_normal(array_of_double(-1, t), array_of_double(2, t), 1, &n, t, key), t);
        assert_true(m.low >= -1 && m.high <= 2 && fabs(m.mean - 0.2296) < se + 2 * slack);
        m = moments(mx_random_laplace(1, &n, t, 1, 2, key), t);
        assert_true(fabs(m.mean - 1) < sqrt(8) * se + 4 * slack && fabs(m.var - 8) < 8 * sqrt(5) * se + 8 * slack);
        m = moments(mx_random_gumbel(1, &n, t, key), t);
        if (t != DT_float16) /* 2^-11 granularity of the uniform makes log(0) there */
            assert_true(fabs(m.mean - 0.5772) < 1.3 * se + 2 * slack || !isfinite(m.mean));
    }
    MX_SCOPE(NULL);
    mx key = mx_random_key(9);
    struct moments m = moments(
        mx_random_randint(array_of_int(-3, DT_int32), array_of_int(4, DT_int32), 1, &n, DT_int16, key), DT_int16);
    assert_true(m.low == -3 && m.high == 3 && fabs(m.mean) < 2 * 6 / sqrt(n));
    m = moments(mx_random_bernoulli(array_of_double(0.3, DT_float32), 1, &n, key), DT_bool_);
    assert_true(fabs(m.mean - 0.3) < 0.46 * 6 / sqrt(n));
    mx logits = mx_log(array_of_data(DT_float32, 1, (int[]){ 3 }, (float[]){ 0.2f, 0.5f, 0.3f }));
    m = moments(mx_random_categorical_n(logits, -1, n, key), DT_uint32);
    assert_true(fabs(m.mean - 1.1) < 0.7 * 6 / sqrt(n));
}

static void shapes_and_errors(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    mx key = mx_random_key(0), logits = mx_random_normal(3, (int[]){ 4, 5, 6 }, DT_float32, NULL, NULL, key);
    mx y = mx_random_categorical(logits, 1, 3, (int[]){ 7, 4, 6 }, key);
    assert_int_equal(y->ndim, 3);
    assert_true(y->shape[0] == 7 && y->shape[1] == 4 && y->shape[2] == 6);
    y = mx_random_categorical_n(logits, 0, 9, key);
    assert_true(y->ndim == 3 && y->shape[0] == 5 && y->shape[1] == 6 && y->shape[2] == 9);
    assert_false(mx_failed());
#define BAD(call, part)                                \
    assert_true(is_nil(call));                         \
    assert_non_null(strstr(mx_error_message(), part)); \
    mx_error_clear();
    mx one = array_of_double(1, DT_float32);
    BAD(mx_random_uniform(one, one, 0, NULL, DT_int32, key), "[uniform] expected a real floating point type, got int32")
    BAD(mx_random_uniform(logits, one, 2, (int[]){ 5, 6 }, DT_float32, key), "(4,5,6)")
    BAD(mx_random_bits(0, NULL, 3, key), "width")
    BAD(mx_random_bits(0, NULL, 4, one), "key")
    BAD(mx_random_normal(1, (int[]){ -1 }, DT_float32, NULL, NULL, key), "-1")
    BAD(mx_random_categorical(logits, 3, -1, NULL, key), "axis 3")
    BAD(mx_random_split(key, -1), "not negative")
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cipher), cmocka_unit_test(layout),
                                        cmocka_unit_test(key_and_state), cmocka_unit_test(distributions),
                                        cmocka_unit_test(shapes_and_errors) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
