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

#define T float
#define S f32
#define DTYPE DT_float32
#include "kernels/scan.inc"
#define T double
#define S f64
#define DTYPE DT_float64
#include "kernels/scan.inc"

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

TEST_BOTH(folds)
TEST_BOTH(columns)
TEST_BOTH(logarithms)
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
