/* Fused entries: what is still held, what is written in place, what is left when something fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "run/fuse.h"
#include "run/stop.h"
#include "support/effort.h"
#include "support/loopback.h"

static struct stream *cpu_stream, *gpu_stream;

static int begin(void **state)
{
    (void)state;
    loopback_register();
    cpu_stream = default_stream((struct device){ DEVICE_CPU, 0 });
    gpu_stream = default_stream((struct device){ DEVICE_GPU, 0 });
    set_default_device((struct device){ DEVICE_CPU, 0 });
    mx_fuse_least(1);
    return !cpu_stream || !gpu_stream;
}

static int nothing_left(void **state)
{
    (void)state;
    assert_int_equal(array_live_count(), 0);
    return 0;
}

static mx ramp(int n)
{
    mx x = mx_arange(0, n, 1, DT_float32);
    assert_int_equal(mx_eval(1, &x), 0);
    return x;
}

static float at(mx x, int i) { return ((float *)array_host(x))[i]; }
static mx plus(mx x, double v) { return mx_add(x, mx_scalar_like(v, x)); }

static void count(mx y, int kernels, int fused)
{
    struct recording r;
    int got_kernels, got_fused;
    assert_int_equal(record(&r, 1, &y, 0, NULL, false), 0);
    assert_int_equal(recording_kernels(&r, &got_kernels, &got_fused), 0);
    recording_free(&r);
    assert_int_equal(got_kernels, kernels);
    assert_int_equal(got_fused, fused);
}

/* What a graph comes to. */
static void groups(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    mx x = ramp(10);
    count(plus(x, 1), 1, 0);
    count(mx_exp(plus(x, 1)), 1, 1);
    count(mx_multiply(mx_exp(x), mx_sin(x)), 1, 1);
    mx e = mx_exp(plus(x, 1)); /* ends with the sum; what reads that comes after */
    count(mx_square(mx_divide(e, mx_sum(e, NULL, 0, true))), 2, 2);
    mx z = mx_square(mx_reshape(x, 2, (int[]){ 2, 5 })); /* a fold of few columns, or of floats in one go, is no end */
    count(mx_sum(z, (int[]){ 1 }, 1, false), 1, 1);
    count(mx_sum(z, (int[]){ 0 }, 1, false), 2, 0);
    count(mx_max(z, (int[]){ 1 }, 1, false), 2, 0);
    count(mx_max(mx_astype(z, DT_int32), (int[]){ 1 }, 1, false), 1, 1);
    mx rows = mx_square(mx_reshape(ramp(240), 3, (int[]){ 8, 10, 3 })); /* of columns of eight tiles it is one */
    count(mx_sum(rows, (int[]){ 1 }, 1, false), 1, 1);
    mx long_one = x;
    for (int i = 0; i < 3 * FUSE_MOST; i++) long_one = mx_negative(long_one);
    count(long_one, 3, 3);
    mx_fuse_enable(false);
    count(mx_exp(plus(x, 1)), 2, 0);
    mx_fuse_enable(true);
    mx_fuse_least(20);
    count(mx_exp(plus(x, 1)), 2, 0);
    mx_fuse_least(1);
}

/* Programs whose operands are fetched ahead: of more streams than steps, than are fetched, of short
 * elements, and with a last tile of any size. */
static void ahead(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    enum { N = 300007 };
    mx x[20], y, few, last;
    for (int i = 0; i < 20; i++) x[i] = plus(ramp(N), i);
    assert_int_equal(mx_eval(20, x), 0);
    y = x[0];
    for (int i = 1; i < 20; i++) y = mx_add(y, x[i]);
    few = mx_where(mx_less(x[0], x[1]), x[2], x[3]);
    last = mx_square(mx_astype(mx_greater(few, mx_scalar_like(1000, few)), DT_float32));
    count(y, 1, 1);
    assert_int_equal(mx_eval(3, (mx[]){ y, few, last }), 0);
    for (int i = 0; i < N; i++) {
        assert_float_equal(at(y, i), 20.0f * i + 190, 1);
        assert_float_equal(at(few, i), i + 2, 0);
        assert_float_equal(at(last, i), i + 2 > 1000, 0);
    }
}

/* Intermediates that are held come out; others have no memory. */
static void held(void **state)
{
    (void)state;
    mx_own a = { 0 }, b = { 0 }, y = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&a, plus(ramp(1 << 20), 1));
        mx_keep(&b, mx_square(mx_negative(a.it)));
        mx_keep(&y, mx_negative(mx_negative(mx_multiply(b.it, a.it))));
    }
    memory_clear_cache();
    memory_reset_peak();
    size_t before = memory_active();
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_true(memory_peak() - before <= 3u * (4 << 20) * 5 / 4);
    assert_int_equal(a.it->status, READY);
    assert_int_equal(b.it->status, READY);
    for (int i = 0; i < 100; i++) {
        assert_float_equal(at(a.it, i), i + 1, 0);
        assert_float_equal(at(b.it, i), (i + 1) * (i + 1), 0);
        assert_float_equal(at(y.it, i), (i + 1) * (i + 1) * (i + 1), 0);
    }
    mx_drop(&a);
    mx_drop(&b);
    mx_drop(&y);
}

/* The result is written over an operand that nobody else has, unless that is still to be read. */
static void in_place(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        mx_own x = { 0 }, y = { 0 }, other = { 0 };
        {
            MX_SCOPE(NULL);
            mx_keep(&x, ramp(5000));
            mx_keep(&other, shared ? x.it : NULL);
            mx_keep(&y, mx_square(plus(x.it, 1)));
        }
        void *memory = array_host(x.it);
        mx_drop(&x);
        assert_int_equal(mx_eval(1, &y.it), 0);
        assert_int_equal(array_host(y.it) == memory, !shared);
        for (int i = 0; i < 5000; i++) assert_float_equal(at(y.it, i), (i + 1) * (i + 1), 0);
        if (shared)
            assert_float_equal(at(other.it, 4999), 4999, 0);
        mx_drop(&y);
        mx_drop(&other);
    }
    mx_own x = { 0 }, a = { 0 }, b = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&x, ramp(5000));
        mx_keep(&a, plus(x.it, 1));
        mx_keep(&b, mx_multiply(mx_negative(a.it), x.it));
    }
    mx_drop(&x);
    assert_int_equal(mx_eval(2, (mx[]){ a.it, b.it }), 0);
    for (int i = 0; i < 5000; i++) {
        assert_float_equal(at(a.it, i), i + 1, 0);
        assert_float_equal(at(b.it, i), -(float)(i + 1) * (float)i, 0);
    }
    mx_drop(&a);
    mx_drop(&b);
}

/* Many operands of layouts that no kernel takes as they are. */
static void strided(void **state)
{
    (void)state;
    enum { N = 40, M = 30, MANY = 12 };
    mx_own y = { 0 };
    float want[M][N] = { { 0 } };
    {
        MX_SCOPE(NULL);
        mx sum = mx_zeros(2, (int[]){ M, N }, DT_float32);
        for (int k = 0; k < MANY; k++) {
            mx t = mx_transpose(mx_reshape(plus(ramp(N * M), k), 2, (int[]){ N, M }), NULL, 0);
            sum = mx_add(sum, t);
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) want[i][j] += (float)(j * M + i + k);
        }
        mx_keep(&y, sum);
    }
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_memory_equal(array_host(y.it), want, sizeof want);
    mx_drop(&y);
}

static mx_own graph_of_everything(void)
{
    mx_own y = { 0 };
    MX_SCOPE(NULL);
    mx x = ramp(3000), t = mx_transpose(mx_reshape(x, 2, (int[]){ 100, 30 }), NULL, 0);
    mx h = mx_astype(mx_reshape(x, 2, (int[]){ 30, 100 }), DT_bfloat16);
    mx z = mx_where(mx_greater(h, t), mx_exp(mx_negative(t)), mx_astype(mx_square(h), DT_float32));
    mx_keep(&y, mx_add(mx_multiply(z, mx_sum(z, NULL, 0, false)), t));
    return y;
}

/* Every allocation may fail: one error, nothing live, nothing lost. */
static void no_memory(void **state)
{
    (void)state;
    mx_own want = graph_of_everything();
    assert_int_equal(mx_eval(1, &want.it), 0);
    bool done = false;
    for (int n = 1; n < 1000 && !done; n++) {
        mx_own y = graph_of_everything();
        mx_test_fail_at(n);
        int failed = mx_eval(1, &y.it);
        mx_test_fail_at(0);
        assert_int_equal(mx_error_kind(), failed ? MX_MEMORY : MX_OK);
        done = !failed;
        mx_error_clear();
        assert_int_equal(mx_eval(1, &y.it), 0); /* what was there before is there still */
        assert_memory_equal(array_host(y.it), array_host(want.it), 3000 * sizeof(float));
        mx_drop(&y);
    }
    assert_true(done);
    mx_drop(&want);
}

/* One of the operands failed elsewhere: members that do not need it are computed all the same. */
static void spoiled(void **state)
{
    (void)state;
    mx_own bad = { 0 }, good = { 0 }, both = { 0 };
    loopback_fail_op("exp");
    loopback_set_delay(1000);
    {
        MX_SCOPE(NULL);
        mx x = ramp(100), there;
        {
            MX_SCOPE(gpu_stream);
            mx_keep(&bad, mx_exp(x));
            there = bad.it;
        }
        mx_keep(&good, mx_square(plus(x, 1)));
        mx_keep(&both, mx_multiply(good.it, mx_negative(there)));
    }
    assert_int_equal(mx_async_eval(2, (mx[]){ both.it, good.it }), 0);
    assert_int_equal(mx_eval(1, &good.it), 0);
    assert_float_equal(at(good.it, 9), 100, 0);
    assert_int_equal(mx_eval(1, &both.it), 1);
    assert_string_equal(mx_error_message(), "[exp] the device failed");
    mx_error_clear();
    stream_synchronize(gpu_stream);
    mx_error_clear();
    stream_synchronize(cpu_stream);
    mx_error_clear();
    loopback_fail_op(NULL);
    loopback_set_delay(0);
    assert_int_equal(mx_eval(1, &both.it), 0);
    assert_float_equal(at(both.it, 0), -1, 0);
    mx_drop(&bad);
    mx_drop(&good);
    mx_drop(&both);
}

/* A chain of a million, every hundredth held for a while, cut into groups. */
static void deep(void **state)
{
    (void)state;
    int n = times(1000000);
    mx_own y = { 0 }, some = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&y, ramp(4));
    }
    for (int i = 0; i < n; i++) {
        MX_SCOPE(NULL);
        mx_keep(&y, i % 3 ? mx_negative(y.it) : plus(y.it, 1));
        if (i == n / 2)
            mx_keep(&some, y.it);
    }
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_int_equal(some.it->status, READY);
    assert_float_equal(at(y.it, 1) - at(y.it, 0), at(some.it, 1) - at(some.it, 0), 0);
    mx_drop(&y);
    mx_drop(&some);
}

static bool always(void) { return true; }

/* Whoever gives up finds the graph as it was. */
static void interrupted(void **state)
{
    (void)state;
    mx_own y = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&y, ramp(1 << 20));
    }
    for (int i = 0; i < 2000; i++) {
        MX_SCOPE(NULL);
        mx_keep(&y, mx_sin(y.it));
    }
    mx_stop_when(always);
    assert_int_equal(mx_eval(1, &y.it), 1);
    mx_stop_when(NULL);
    assert_int_equal(mx_error_kind(), MX_INTERRUPTED);
    mx_error_clear();
    assert_int_equal(y.it->status, LAZY);
    assert_non_null(y.it->node);
    mx_drop(&y);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(groups),    TEST(ahead),   TEST(held), TEST(in_place),    TEST(strided),
        TEST(no_memory), TEST(spoiled), TEST(deep), TEST(interrupted),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
