/* Graphs: building, evaluating, freeing, failing and trying again; derivatives of deep chains. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/stream.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/effort.h"
#include "transform/transform.h"

static mx vec(int n, float start)
{
    float *v = malloc((size_t)n * sizeof *v);
    for (int i = 0; i < n; i++) v[i] = start + (float)i;
    mx x = array_of_data(DT_float32, 1, &n, v);
    free(v);
    return x;
}

static float at(mx x, int i) { return ((float *)array_host(x))[i * x->strides[0]]; }

static void evaluates(void **state)
{
    (void)state;
    mx_own x = { 0 }, y = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&x, vec(5, 1));
        mx_keep(&y, mx_add(mx_multiply(x.it, x.it), x.it));
    }
    assert_int_equal(y.it->status, LAZY);
    assert_int_equal(mx_eval(1, &y.it), 0);
    for (int i = 0; i < 5; i++) assert_float_equal(at(y.it, i), (float)((i + 1) * (i + 2)), 0);
    assert_null(y.it->node);
    mx_drop(&x);
    mx_drop(&y);
    assert_int_equal(scope_depth(), 0);
}

static void nil_has_sizes(void **state)
{
    (void)state;
    for (int i = -MX_MAX_NDIM; i < MX_MAX_NDIM; i++) {
        assert_int_equal(MX_NIL->shape[i], 1);
        assert_int_equal(MX_NIL->strides[i], 0);
    }
}

static void deep_chain(void **state)
{
    (void)state;
    mx_own y = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&y, vec(1, 0));
    }
    for (int i = 0; i < times(1000000); i++) {
        MX_SCOPE(NULL);
        mx_keep(&y, mx_add(y.it, y.it->status == READY ? vec(1, 1) : y.it));
        if (i % 20 == 0) {
            mx_keep(&y, mx_negative(y.it));
        }
    }
    assert_false(mx_failed());
    assert_int_equal(mx_eval(1, &y.it), 0);
    mx_drop(&y);
    /* And one that is never evaluated. */
    {
        MX_SCOPE(NULL);
        mx_keep(&y, vec(1, 0));
    }
    for (int i = 0; i < times(1000000); i++) {
        MX_SCOPE(NULL);
        mx_keep(&y, mx_negative(y.it));
    }
    mx_drop(&y);
}

static void reuses_buffers(void **state)
{
    (void)state;
    enum { N = 1 << 22 };
    mx_own y = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&y, vec(N, 0));
    }
    mx x = y.it;
    mx_retain(x);
    for (int i = 0; i < 100; i++) {
        MX_SCOPE(NULL);
        mx_keep(&y, mx_add(y.it, array_of_double(1, DT_float32)));
    }
    memory_clear_cache();
    memory_reset_peak();
    size_t before = memory_active();
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_true(memory_peak() - before <= 2 * (size_t)N * 4 * 5 / 4);
    assert_float_equal(at(y.it, 3), 103, 0);
    assert_float_equal(at(x, 3), 3, 0);
    mx_release(x);
    mx_drop(&y);
}

/* A failure leaves the graph as it was, and a later eval succeeds. */
static void fails_and_recovers(void **state)
{
    (void)state;
    mx_own x = { 0 }, y = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&x, vec(1 << 20, 0));
        mx_keep(&y, mx_add(mx_exp(mx_negative(x.it)), x.it));
    }
    size_t limit = memory_set_limit(memory_active() + 1000);
    memory_clear_cache();
    assert_int_equal(mx_eval(1, &y.it), 1);
    assert_int_equal(mx_error_kind(), MX_MEMORY);
    assert_non_null(strstr(mx_error_message(), "4194304 bytes"));
    mx_error_clear();
    memory_set_limit(limit);
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_float_equal(at(y.it, 0), 1, 1e-6f);
    mx_drop(&x);
    mx_drop(&y);
}

static void error_reaches_the_reader(void **state)
{
    (void)state;
    mx_own x = { 0 }, y = { 0 }, good = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&x, vec(1 << 20, 0));
        mx_keep(&y, mx_exp(x.it));
        mx_keep(&good, mx_sum(x.it, NULL, 0, false));
    }
    size_t limit = memory_set_limit(memory_active() + 1000);
    memory_clear_cache();
    assert_int_equal(mx_async_eval(2, (mx[]){ y.it, good.it }), 0);
    if (mx_eval(1, &good.it))
        fail_msg("%s", mx_error_message());
    assert_int_equal(mx_eval(1, &y.it), 1);
    assert_int_equal(mx_error_kind(), MX_MEMORY);
    mx_error_clear();
    memory_set_limit(limit);
    assert_int_equal(mx_eval(1, &y.it), 0);
    stream_synchronize(default_stream(default_device()));
    mx_error_clear();
    mx_drop(&x);
    mx_drop(&y);
    mx_drop(&good);
}

/* ---- derivatives */

struct fn {
    struct closure closure;
    mx (*f)(mx);
};
static int call_fn(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    MX_SCOPE(NULL);
    assert_int_equal(n, 1);
    return list_push(out, ((struct fn *)self)->f(x[0]));
}
static mx sum_sin(mx x) { return mx_sum(mx_sin(x), NULL, 0, false); }
static mx long_chain(mx x)
{
    mx_own y = { 0 };
    mx_keep(&y, x);
    for (int i = 0; i < times(300000); i++) {
        MX_SCOPE(NULL);
        mx_keep(&y, mx_negative(y.it));
    }
    mx z = mx_sum(y.it, NULL, 0, false);
    mx_drop(&y);
    return z;
}

static void differentiates(void **state)
{
    (void)state;
    struct fn f = { { { .refs = 1 }, call_fn }, sum_sin };
    mx_own x = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&x, vec(3, 0.5f));
    }
    struct mx_list y = { 0 }, dx = { 0 };
    assert_int_equal(mx_value_and_grad(&f.closure, 1, &x.it, (int[]){ 0 }, 1, &y, &dx), 0);
    assert_int_equal(mx_eval(1, &dx.v[0].it), 0);
    for (int i = 0; i < 3; i++) assert_float_equal(at(dx.v[0].it, i), cosf(0.5f + (float)i), 1e-6f);
    list_clear(&y);
    list_clear(&dx);
    f.f = long_chain;
    assert_int_equal(mx_value_and_grad(&f.closure, 1, &x.it, (int[]){ 0 }, 1, &y, &dx), 0);
    assert_int_equal(mx_eval(1, &dx.v[0].it), 0);
    assert_float_equal(at(dx.v[0].it, 2), 1, 0);
    list_clear(&y);
    list_clear(&dx);
    mx_drop(&x);
}

/* Every allocation may fail: one error, nothing live, nothing lost. */
static void survives_each_failing_allocation(void **state)
{
    (void)state;
    struct fn f = { { { .refs = 1 }, call_fn }, sum_sin };
    mx_own x = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&x, vec(300, 0.5f));
    }
    long live = array_live_count();
    bool done = false;
    for (int n = 1; n < 1000 && !done; n++) {
        struct mx_list y = { 0 }, dx = { 0 };
        mx_test_fail_at(n);
        int failed = mx_value_and_grad(&f.closure, 1, &x.it, (int[]){ 0 }, 1, &y, &dx) || mx_eval(1, &dx.v[0].it);
        mx_test_fail_at(0);
        if (failed)
            assert_int_equal(mx_error_kind(), MX_MEMORY);
        else
            done = !mx_failed();
        mx_error_clear();
        list_clear(&y);
        list_clear(&dx);
        assert_int_equal(array_live_count(), live);
    }
    assert_true(done);
    mx_drop(&x);
}

static void *evaluate_many(void *arg)
{
    mx x = arg;
    for (int i = 0; i < 200; i++) {
        mx_own y = { 0 };
        {
            MX_SCOPE(NULL);
            mx_keep(&y, mx_sum(mx_add(x, x), NULL, 0, false));
        }
        if (mx_eval(1, &y.it) || *(float *)array_host(y.it) != 2 * 499500.f)
            return arg;
        mx_drop(&y);
    }
    return NULL;
}

/* Threads share an unevaluated array: it is made once, and all see it. */
static void threads_share_a_graph(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        mx_own x = { 0 };
        {
            MX_SCOPE(NULL);
            mx_keep(&x, mx_negative(mx_negative(vec(1000, 0))));
        }
        pthread_t t[4];
        void *bad;
        for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, evaluate_many, x.it);
        for (int i = 0; i < 4; i++) {
            pthread_join(t[i], &bad);
            assert_null(bad);
        }
        mx_drop(&x);
    }
}

static int nothing_left(void **state)
{
    (void)state;
    assert_int_equal(array_live_count(), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(evaluates, nothing_left),
        cmocka_unit_test_teardown(nil_has_sizes, nothing_left),
        cmocka_unit_test_teardown(deep_chain, nothing_left),
        cmocka_unit_test_teardown(reuses_buffers, nothing_left),
        cmocka_unit_test_teardown(fails_and_recovers, nothing_left),
        cmocka_unit_test_teardown(error_reaches_the_reader, nothing_left),
        cmocka_unit_test_teardown(differentiates, nothing_left),
        cmocka_unit_test_teardown(survives_each_failing_allocation, nothing_left),
        cmocka_unit_test_teardown(threads_share_a_graph, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
