/* The vjp, jvp and vmap rules of orders and running folds, each allocation failing in turn, and
 * results that must not depend on the number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/pool.h"
#include "core/scope.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "ops/scan.h"
#include "run/dynamic.h"
#include "run/eval.h"
#include "support/rules.h"
#include "support/sample.h"

#define F(...)                         \
    {                                  \
        DT_float64, __VA_ARGS__, -2, 2 \
    }
#define H(...)                         \
    {                                  \
        DT_float32, __VA_ARGS__, -2, 2 \
    }
#define ONE(name, expression)             \
    static int name(const mx x[], mx y[]) \
    {                                     \
        y[0] = expression;                \
        return 1;                         \
    }
#define COUNT(v) (sizeof(v) / sizeof *(v))

static mx recurrence(mx a, mx b, int axis, bool reverse)
{
    return mx_infer(&op_recurrence, &(struct recurrence_args){ axis, reverse }, 2, (mx[]){ a, b });
}

ONE(sorted, mx_sort(x[0], 1))
ONE(sorted_first, mx_sort(x[0], 0))
ONE(parted, mx_partition(x[0], 2, 1))
ONE(top, mx_topk(x[0], 2, 1))
ONE(median, mx_median(x[0], (int[]){ 0, 1 }, 2, false))
ONE(cumsum, mx_scan(x[0], SCAN_SUM, 1, false, true))
ONE(cumsum_back, mx_scan(x[0], SCAN_SUM, 0, true, false))
ONE(cumprod, mx_scan(x[0], SCAN_PROD, 1, false, true))
ONE(cumprod_back, mx_scan(x[0], SCAN_PROD, 0, true, false))
ONE(cummax, mx_scan(x[0], SCAN_MAX, 1, false, true))
ONE(cummin_back, mx_scan(x[0], SCAN_MIN, 0, true, true))
ONE(logcumsumexp, mx_scan(x[0], SCAN_LOGSUMEXP, 1, false, true))
ONE(logcumsumexp_back, mx_scan(x[0], SCAN_LOGSUMEXP, 0, true, true))
ONE(recur, recurrence(x[0], x[1], 1, false))
ONE(recur_back, recurrence(x[0], x[1], 0, true))

ONE(argsorted, mx_argsort(x[0], 0))
ONE(argparted, mx_argpartition(x[0], 0, 1))
ONE(found, mx_searchsorted(x[0], x[1], true))
static int unique(const mx x[], mx y[])
{
    mx_unique(x[0], 3, NULL, y);
    return 4;
}

#define ROWS           \
    {                  \
        F(2, { 3, 4 }) \
    }
static const struct rule_case cases[] = {
    { "sort", sorted, 1, ROWS },
    { "sort_first", sorted_first, 1, ROWS },
    { "partition", parted, 1, ROWS },
    { "topk", top, 1, ROWS },
    { "median", median, 1, { F(3, { 3, 2, 2 }) } },
    { "cumsum", cumsum, 1, ROWS },
    { "cumsum_back", cumsum_back, 1, ROWS },
    { "cumprod", cumprod, 1, ROWS },
    { "cumprod_back", cumprod_back, 1, ROWS },
    { "cummax", cummax, 1, ROWS },
    { "cummin_back", cummin_back, 1, ROWS },
    { "logcumsumexp", logcumsumexp, 1, ROWS },
    { "logcumsumexp_back", logcumsumexp_back, 1, ROWS },
    { "recurrence", recur, 2, { F(2, { 3, 4 }), F(2, { 3, 4 }) } },
    { "recurrence_back", recur_back, 2, { F(2, { 3, 4 }), F(2, { 3, 4 }) } },
};
static const struct rule_case places[] = {
    { "argsort", argsorted, 1, { H(2, { 3, 4 }) } },
    { "argpartition", argparted, 1, { H(2, { 3, 4 }) } },
    { "unique", unique, 1, { { DT_int32, 2, { 3, 4 }, 0, 5 } } },
};

static void derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) check_derivatives(&cases[i]);
}

static void second_derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) check_second_derivatives(&cases[i]);
}

static void batches(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) check_batching(&cases[i]);
    for (size_t i = 0; i < COUNT(places); i++) check_batching(&places[i]);
}

static void allocations(void **state)
{
    static const struct rule_case more = { "searchsorted", found, 2, { H(1, { 5 }), H(2, { 2, 3 }) } };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) check_allocations(&cases[i]);
    for (size_t i = 0; i < COUNT(places); i++) check_allocations(&places[i]);
    check_allocations(&more);
}

/* ---- long rows */

enum { LONG = 3 * (1 << 16) + 5 };

ONE(long_sorted, mx_sort(x[0], 0))
ONE(long_argsorted, mx_argsort(x[0], 0))
ONE(long_cumsum, mx_scan(x[0], SCAN_SUM, 0, false, true))
ONE(long_cumsum_back, mx_scan(x[0], SCAN_SUM, 0, true, true))
ONE(long_cumprod, mx_scan(x[0], SCAN_PROD, 0, false, true))
ONE(long_cummax, mx_scan(x[0], SCAN_MAX, 0, true, true))
ONE(long_places, mx_places("test", mx_greater(x[0], array_of_int(0, DT_int32)), "nothing"))

static build_fn *const long_ones[] = { long_sorted,  long_argsorted, long_cumsum, long_cumsum_back,
                                       long_cumprod, long_cummax,    long_places };

static void threads_do_not_matter(void **state)
{
    static const enum dtype types[] = { DT_float32, DT_float64, DT_float16, DT_int64, DT_complex64, DT_uint8 };
    int before = pool_threads();
    (void)state;
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t f = 0; f < COUNT(long_ones); f++) {
            MX_SCOPE(NULL);
            mx x = sample_between(types[t], 1, (int[]){ LONG }, -1, 1), y[2];
            assert_false(is_nil(x));
            for (int k = 0; k < 2; k++) {
                pool_set_threads(k ? 5 : 1);
                assert_int_equal(long_ones[f](&x, &y[k]), 1);
                y[k] = mx_contiguous(y[k], false);
                assert_int_equal(mx_wait_host(y[k]), 0);
            }
            assert_int_equal(nbytes(y[0]), nbytes(y[1]));
            assert_memory_equal(array_host(y[0]), array_host(y[1]), (size_t)nbytes(y[0]));
        }
    pool_set_threads(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives), cmocka_unit_test(second_derivatives),    cmocka_unit_test(batches),
        cmocka_unit_test(allocations), cmocka_unit_test(threads_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
