/* The running folds of every instruction-set level, called directly, against plain loops: every length
 * to some vectors, both directions, carried values, and guards around the output. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/kernels.h"
#include "cpu/kernels/scan.h"
#include "support/levels.h"

enum { MOST = 70, GUARD = 8, ROWS = 5 };

static double first_of(int fold) { return (double[]){ 0, 1, INFINITY, -INFINITY }[fold]; }

/* NaN stays. */
static double folded(int fold, double a, double x)
{
    switch (fold) {
    case SCAN_ID_SUM: return a + x;
    case SCAN_ID_PROD: return a * x;
    case SCAN_ID_MIN: return isnan(a) || a <= x ? a : x;
    default: return isnan(a) || a >= x ? a : x;
    }
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

#define FOR(T, S, DTYPE)                                                                                          \
    static void folds_##S(const struct cpu_kernels *k)                                                            \
    {                                                                                                             \
        T x[MOST], room[MOST + 2 * GUARD], *y = room + GUARD;                                                     \
        for (int n = 0; n <= MOST; n++)                                                                           \
            for (int fold = 0; fold < SCAN_ID_COUNT; fold++)                                                      \
                for (int back = 0; back < 2; back++) {                                                            \
                    for (int i = 0; i < n; i++) x[i] = (T)(i % 23 == 22 && n % 2 ? NAN : (rand() % 9 - 4) * 0.5); \
                    memset(room, 0x55, sizeof room);                                                              \
                    double carried = n % 3 ? first_of(fold) : 1.5, want = carried;                                \
                    union fold_acc acc = { .f = carried };                                                        \
                    k->scan->row[fold][DTYPE](&acc, y, x, (size_t)n, back);                                       \
                    for (int i = 0; i < n; i++) {                                                                 \
                        int at = back ? n - 1 - i : i;                                                            \
                        want = folded(fold, want, (double)x[at]);                                                 \
                        assert_true(same((double)y[at], (double)(T)want));                                        \
                    }                                                                                             \
                    assert_true(same((double)(T)acc.f, (double)(T)want));                                         \
                    for (int i = 0; i < GUARD; i++) {                                                             \
                        unsigned char guard[sizeof(T)];                                                           \
                        memset(guard, 0x55, sizeof guard);                                                        \
                        assert_memory_equal(&room[i], guard, sizeof guard);                                       \
                        assert_memory_equal(&y[n + i], guard, sizeof guard);                                      \
                    }                                                                                             \
                }                                                                                                 \
    }                                                                                                             \
    static void columns_##S(const struct cpu_kernels *k)                                                          \
    {                                                                                                             \
        T x[ROWS * MOST], y[ROWS * MOST];                                                                         \
        for (int cols = 1; cols <= MOST; cols++)                                                                  \
            for (int fold = 0; fold < SCAN_ID_COUNT; fold++)                                                      \
                for (int back = 0; back < 2; back++) {                                                            \
                    union fold_acc acc[SCAN_COLS];                                                                \
                    int64_t last = back ? (ROWS - 1) * cols : 0;                                                  \
                    for (int i = 0; i < ROWS * cols; i++) x[i] = (T)((rand() % 9 - 4) * 0.5);                     \
                    for (int j = 0; j < cols; j++) acc[j].f = first_of(fold);                                     \
                    k->scan->col[fold][DTYPE](acc, y + last, x + last, back ? -cols : cols, ROWS, (size_t)cols);  \
                    for (int j = 0; j < cols; j++) {                                                              \
                        double want = first_of(fold);                                                             \
                        for (int i = 0; i < ROWS; i++) {                                                          \
                            int at = (back ? ROWS - 1 - i : i) * cols + j;                                        \
                            want = folded(fold, want, (double)x[at]);                                             \
                            assert_true((double)y[at] == want);                                                   \
                        }                                                                                         \
                    }                                                                                             \
                }                                                                                                 \
    }                                                                                                             \
    static void logarithms_##S(const struct cpu_kernels *k)                                                       \
    {                                                                                                             \
        T x[1200], y[1200];                                                                                       \
        for (int back = 0; back < 2; back++) {                                                                    \
            union fold_acc acc = { .c = { -INFINITY, 0 } };                                                       \
            double want = -INFINITY;                                                                              \
            for (int i = 0; i < 1200; i++) x[i] = i % 600 == 599 ? (T)-INFINITY : (T)(rand() % 2000 - 1000) / 10; \
            k->scan->logsumexp[DTYPE](&acc, y, x, 1200, back);                                                    \
            for (int i = 0; i < 1200; i++) {                                                                      \
                int at = back ? 1199 - i : i;                                                                     \
                double v = (double)x[at], high = v > want ? v : want, low = v > want ? want : v;                  \
                want = high == -INFINITY ? high : high + log1p(exp(low - high));                                  \
                assert_true((double)y[at] == want || fabs((double)y[at] - want) <= 1e-6 * (1 + fabs(want)));      \
            }                                                                                                     \
        }                                                                                                         \
    }
FOR(float, f32, DT_float32)
FOR(double, f64, DT_float64)

static void totals(const struct cpu_kernels *k)
{
    float x[2 * MOST];
    for (int n = 0; n <= MOST; n++) {
        union fold_acc one = { .f = 2 }, two = { .c = { 1, -1 } };
        double sum = 2, re = 1, im = -1;
        for (int i = 0; i < 2 * n; i++) x[i] = (float)(rand() % 9 - 4);
        for (int i = 0; i < n; i++) {
            sum += x[i];
            re += x[2 * i];
            im += x[2 * i + 1];
        }
        k->scan->total[DT_float32](&one, x, (size_t)n);
        k->scan->total[DT_complex64](&two, x, (size_t)n);
        assert_true(one.f == sum && two.c[0] == re && two.c[1] == im);
    }
}

#define TEST(name)                        \
    static void test_##name(void **state) \
    {                                     \
        (void)state;                      \
        on_every_level(name##_f32);       \
        on_every_level(name##_f64);       \
    }
TEST(folds)
TEST(columns)
TEST(logarithms)
static void test_totals(void **state) { (void)state, on_every_level(totals); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folds),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_logarithms),
        cmocka_unit_test(test_totals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
