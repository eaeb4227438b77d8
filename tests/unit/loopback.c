/* A device with memory of its own: copies, events between streams, errors in flight, no memory left. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/memory.h"
#include "core/scope.h"
#include "core/stream.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/effort.h"
#include "support/loopback.h"
#include "transform/compile.h"
#include "transform/control.h"

static struct stream *cpu_stream, *gpu_stream;

static int begin(void **state)
{
    (void)state;
    loopback_register();
    cpu_stream = default_stream((struct device){ DEVICE_CPU, 0 });
    gpu_stream = default_stream((struct device){ DEVICE_GPU, 0 });
    return !cpu_stream || !gpu_stream;
}

static mx ramp(int n)
{
    float v[1000];
    for (int i = 0; i < n; i++) v[i] = (float)i;
    return array_of_data(DT_float32, 1, &n, v);
}

static float at(mx x, int i)
{
    assert_int_equal(mx_wait_host(x), 0);
    return ((float *)array_host(x))[i * x->strides[0]];
}

static void computes_there(void **state)
{
    (void)state;
    assert_int_equal(default_device().type, DEVICE_GPU);
    mx_own y = { 0 };
    {
        MX_SCOPE(gpu_stream);
        mx x = ramp(10);
        mx_keep(&y, mx_add(mx_multiply(x, x), mx_scalar_like(1, x)));
    }
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_int_equal(y.it->buf->state, ON_DEVICE);
    for (int i = 0; i < 10; i++) assert_float_equal(at(y.it, i), (float)(i * i + 1), 0);
    assert_int_equal(y.it->buf->state, ON_DEVICE | ON_HOST);
    mx_drop(&y);
}

/* Where malloc happens to put the host's bytes, right behind a header too, says nothing of how a buffer was made:
 * they go back to the cache. */
static void keeps_host_memory_apart(void **state)
{
    (void)state;
    enum { N = 256, BYTES = 500 };
    static struct buffer *b[N];
    static void *others[N];
    for (int i = 0; i < N; i += 2) {
        others[i] = malloc(8 + 16 * (size_t)(i / 2 % 8)); /* so that headers come to lie at every alignment */
        b[i] = buffer_wrap(NULL, BYTES, true, NULL, NULL);
        b[i + 1] = buffer_wrap(NULL, BYTES, true, NULL, NULL);
        assert_true(b[i] && b[i + 1] && !buffer_need_host(b[i]) && !buffer_need_host(b[i + 1]));
    }
    for (int i = 0; i < N; i++) {
        size_t before = memory_cached(), capacity = b[i]->capacity;
        buffer_release(b[i]);
        assert_int_equal(memory_cached(), before + capacity);
        free(others[i]);
    }
    memory_clear_cache();
}

/* A chain that changes sides at every step, each step slow. */
static void crosses_streams(void **state)
{
    (void)state;
    loopback_set_delay(2000);
    mx_own y = { 0 }, z = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&y, ramp(1000));
    }
    for (int i = 0; i < 10; i++) {
        MX_SCOPE(i % 2 ? cpu_stream : gpu_stream);
        mx_keep(&y, mx_add(y.it, mx_scalar_like(1, y.it)));
        if (i == 4)
            mx_keep(&z, y.it);
    }
    assert_int_equal(mx_async_eval(1, &y.it), 0);
    {
        MX_SCOPE(cpu_stream);
        mx_keep(&z, mx_negative(z.it));
    }
    assert_float_equal(at(z.it, 7), -12, 0);
    assert_float_equal(at(y.it, 7), 17, 0);
    mx_drop(&y);
    mx_drop(&z);
    loopback_set_delay(0);
}

/* Views of device data stay there; reading part of it brings it over once. */
static void views_share(void **state)
{
    (void)state;
    mx_own y = { 0 };
    {
        MX_SCOPE(gpu_stream);
        mx x = mx_reshape(mx_exp(ramp(12)), 2, (int[]){ 3, 4 });
        mx_keep(&y, mx_transpose(x, NULL, 0));
    }
    assert_int_equal(mx_eval(1, &y.it), 0);
    long before = loopback_copies();
    assert_float_equal(at(y.it, 0), 1, 1e-6f);
    assert_float_equal(at(y.it, 1), 2.7182818f, 1e-6f);
    assert_int_equal(loopback_copies() - before, 1);
    mx_drop(&y);
}

static void errors_in_flight(void **state)
{
    (void)state;
    mx_own bad = { 0 }, after = { 0 }, good = { 0 };
    loopback_fail_op("exp");
    loopback_set_delay(1000);
    {
        MX_SCOPE(gpu_stream);
        mx_keep(&bad, mx_exp(ramp(4)));
        mx_keep(&good, mx_negative(ramp(4)));
    }
    {
        MX_SCOPE(cpu_stream);
        mx_keep(&after, mx_add(bad.it, good.it));
    }
    assert_int_equal(mx_async_eval(2, (mx[]){ after.it, good.it }), 0);
    assert_float_equal(at(good.it, 3), -3, 0);
    assert_int_equal(mx_wait_host(after.it), 1);
    assert_string_equal(mx_error_message(), "[exp] the device failed");
    mx_error_clear();
    assert_int_equal(mx_wait_host(bad.it), 1);
    assert_string_equal(mx_error_message(), "[exp] the device failed");
    mx_error_clear();
    /* It has been told; another attempt has not. */
    assert_int_equal(stream_synchronize(gpu_stream) || stream_synchronize(cpu_stream), 0);
    assert_int_equal(mx_async_eval(1, &bad.it), 0);
    assert_int_equal(stream_synchronize(gpu_stream), 1);
    assert_string_equal(mx_error_message(), "[exp] the device failed");
    mx_error_clear();
    assert_int_equal(stream_synchronize(gpu_stream), 0);
    loopback_fail_op(NULL);
    loopback_set_delay(0);
    assert_float_equal(at(after.it, 0), 1, 0); /* and now it works */
    mx_drop(&bad);
    mx_drop(&after);
    mx_drop(&good);
}

static void no_kernel(void **state)
{
    (void)state;
    mx_own y = { 0 };
    loopback_forget_op("tanh");
    {
        MX_SCOPE(gpu_stream);
        mx_keep(&y, mx_tanh(ramp(4)));
    }
    assert_int_equal(mx_eval(1, &y.it), 0); /* on the CPU, then */
    assert_int_equal(y.it->buf->state, ON_HOST);
    assert_float_equal(at(y.it, 1), 0.76159416f, 1e-6f);
    loopback_forget_op(NULL);
    mx_drop(&y);
}

/* Streams of one device follow each other's work, and what one device has made is copied to the other. */
static void two_devices(void **state)
{
    (void)state;
    struct stream *other = default_stream((struct device){ DEVICE_GPU, 1 });
    struct stream *beside = stream_new((struct device){ DEVICE_GPU, 0 });
    assert_true(other && beside);
    loopback_set_delay(2000);
    mx_own y = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&y, ramp(100));
    }
    for (int i = 0; i < 12; i++) {
        MX_SCOPE(i % 3 == 0 ? gpu_stream : i % 3 == 1 ? other : beside);
        mx_keep(&y, mx_add(y.it, mx_square(mx_scalar_like(1, y.it))));
        if (i % 5 == 4) {
            assert_int_equal(mx_async_eval(1, &y.it), 0);
        }
    }
    assert_float_equal(at(y.it, 7), 19, 0);
    mx_drop(&y);
    loopback_set_delay(0);
    assert_int_equal(stream_synchronize(other) || stream_synchronize(beside), 0);
}

/* Memory freed while another stream still reads it is not handed out before. */
static void freed_while_read(void **state)
{
    (void)state;
    struct stream *beside = stream_new((struct device){ DEVICE_GPU, 0 });
    loopback_set_delay(3000);
    for (int i = 0; i < 5; i++) {
        mx_own x = { 0 }, y = { 0 }, z = { 0 };
        {
            MX_SCOPE(gpu_stream);
            mx_keep(&x, mx_square(ramp(1000)));
        }
        assert_int_equal(mx_async_eval(1, &x.it), 0);
        {
            MX_SCOPE(beside);
            mx_keep(&y, mx_negative(mx_negative(mx_negative(x.it))));
        }
        assert_int_equal(mx_async_eval(1, &y.it), 0);
        mx_drop(&x);
        {
            MX_SCOPE(gpu_stream);
            mx_keep(&z, mx_exp(ramp(1000)));
        }
        assert_int_equal(mx_async_eval(1, &z.it), 0);
        assert_float_equal(at(y.it, 9), -81, 0);
        mx_drop(&y);
        mx_drop(&z);
    }
    loopback_set_delay(0);
    assert_int_equal(stream_synchronize(beside), 0);
}

/* ---- marks */

static struct stream *new_stream(void)
{
    struct stream *s = stream_new((struct device){ DEVICE_GPU, 0 });
    assert_non_null(s);
    return s;
}

/* y = op(x) on s, queued. */
static void queue_unary(struct stream *s, mx_own *y, mx (*op)(mx), mx x)
{
    {
        MX_SCOPE(s);
        mx_keep(y, op(x ? x : ramp(1000)));
    }
    assert_int_equal(mx_async_eval(1, &y->it), 0);
}

/* Queued is not done, and whether it is can be asked. */
static void queued_is_not_done(void **state)
{
    (void)state;
    mx_own x = { 0 };
    loopback_hold(gpu_stream);
    queue_unary(gpu_stream, &x, mx_square, NULL);
    assert_int_equal(x.it->status, READY);
    assert_false(buffer_is_there(x.it->buf));
    loopback_hold(NULL);
    assert_int_equal(mx_eval(1, &x.it), 0);
    assert_true(buffer_is_there(x.it->buf));
    assert_float_equal(at(x.it, 3), 9, 0);
    assert_true(buffer_is_there(x.it->buf));
    mx_drop(&x);
}

/* What others ask between taking memory and queueing the work says nothing of that work. */
static void wait_now(struct stream *s) { s->on->wait(s, s->on->mark(s)); }
static void wait_and_hold(struct stream *s)
{
    wait_now(s);
    loopback_hold(s);
}
static void marks_follow_the_work(void **state)
{
    (void)state;
    struct stream *beside = new_stream();
    mx_own x = { 0 }, y = { 0 }, z = { 0 };
    loopback_set_delay(2000);
    loopback_before_queueing(wait_now);
    queue_unary(gpu_stream, &x, mx_square, NULL);
    assert_float_equal(at(x.it, 3), 9, 0);
    queue_unary(gpu_stream, &x, mx_square, NULL);
    loopback_before_queueing(wait_and_hold);
    queue_unary(beside, &y, mx_negative, x.it);
    loopback_before_queueing(NULL);
    mx_drop(&x); /* which `beside` has yet to read */
    queue_unary(gpu_stream, &z, mx_exp, NULL);
    usleep(20000);
    loopback_hold(NULL);
    assert_float_equal(at(y.it, 3), -9, 0);
    loopback_set_delay(0);
    mx_drop(&y);
    mx_drop(&z);
}

/* Streams that read at once, one of another device among them, all keep the memory. */
static void several_readers(void **state)
{
    (void)state;
    struct stream *on[] = { new_stream(), new_stream(), default_stream((struct device){ DEVICE_GPU, 1 }) };
    mx_own x = { 0 }, y[3] = { 0 }, z = { 0 };
    for (int held = 0; held < 3; held++) {
        queue_unary(gpu_stream, &x, mx_square, NULL);
        loopback_hold(on[held]);
        for (int i = 0; i < 3; i++) queue_unary(on[(held + i) % 3], &y[i], mx_negative, x.it);
        mx_drop(&x);
        queue_unary(gpu_stream, &z, mx_exp, NULL);
        usleep(20000);
        loopback_hold(NULL);
        for (int i = 0; i < 3; i++) assert_float_equal(at(y[i].it, 3), -9, 0);
    }
    for (int i = 0; i < 3; i++) mx_drop(&y[i]);
    mx_drop(&z);
}

/* Bytes that are copied anew for one stream are there for the others, too. */
static void copied_anew_for_all(void **state)
{
    (void)state;
    struct stream *one = new_stream(), *two = new_stream();
    mx_own x = { 0 }, y = { 0 }, y1 = { 0 }, y2 = { 0 };
    {
        MX_SCOPE(cpu_stream);
        mx_keep(&x, array_of_data(DT_float32, 1, (int[]){ 2 }, (float[]){ 1, 2 }));
    }
    queue_unary(gpu_stream, &y, mx_negative, x.it);
    assert_float_equal(at(y.it, 1), -2, 0);
    buffer_lend(x.it->buf);
    ((float *)x.it->buf->host)[1] = 20;
    buffer_take_back(x.it->buf);
    loopback_hold(one);
    queue_unary(one, &y1, mx_negative, x.it);
    queue_unary(two, &y2, mx_negative, x.it);
    usleep(10000);
    loopback_hold(NULL);
    assert_float_equal(at(y1.it, 1), -20, 0);
    assert_float_equal(at(y2.it, 1), -20, 0);
    mx_drop(&x);
    mx_drop(&y);
    mx_drop(&y1);
    mx_drop(&y2);
}

/* Threads that compute with one array on streams of both devices, evaluate, read and let go when they like. */
static struct stream *streams[5];
static mx shared;
static void *compute(void *seed)
{
    unsigned r = (unsigned)(uintptr_t)seed;
    int wrong = 0;
    for (int i = 0; i < 40; i++) {
        mx_own y = { 0 }, last = { 0 };
        mx_keep(&y, shared);
        float want = 9;
        for (int k = 0; k < 8; k++) {
            r = r * 1664525 + 1013904223;
            MX_SCOPE(streams[(r >> 16) % 5]);
            mx_keep(&last, y.it);
            mx_keep(&y, (r >> 20) % 3 ? mx_add(y.it, shared) : mx_negative(y.it));
            want = (r >> 20) % 3 ? want + 9 : -want;
            if ((r >> 24) % 3 == 0)
                wrong += mx_async_eval(1, &y.it);
        }
        if (mx_wait_host(y.it) || ((float *)array_host(y.it))[3] != want)
            wrong++;
        mx_drop(&y);
        mx_drop(&last);
    }
    return (void *)(uintptr_t)wrong;
}
static void from_many_threads(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    pthread_t t[THREADS];
    mx_own x = { 0 };
    for (int i = 0; i < 5; i++) streams[i] = i == 4 ? cpu_stream : stream_new((struct device){ DEVICE_GPU, i % 2 });
    queue_unary(gpu_stream, &x, mx_square, NULL);
    shared = x.it;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, compute, (void *)(uintptr_t)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(t[i], &wrong);
        assert_null(wrong);
    }
    mx_drop(&x);
    for (int i = 0; i < 5; i++) assert_int_equal(stream_synchronize(streams[i]), 0);
}

/* Who waits for a device keeps nobody from queueing more. */
static void *read_on_a_thread(void *x)
{
    static float v;
    v = mx_wait_host(x) ? -1 : ((float *)array_host(x))[3];
    return &v;
}
static void waiting_is_no_lock(void **state)
{
    (void)state;
    struct stream *beside = new_stream();
    mx_own x = { 0 }, y = { 0 };
    pthread_t reader;
    void *read;
    loopback_hold(gpu_stream);
    queue_unary(gpu_stream, &x, mx_square, NULL);
    assert_int_equal(pthread_create(&reader, NULL, read_on_a_thread, x.it), 0);
    usleep(10000);
    queue_unary(beside, &y, mx_negative, NULL);
    assert_float_equal(at(y.it, 3), -3, 0);
    loopback_hold(NULL);
    pthread_join(reader, &read);
    assert_float_equal(*(float *)read, 9, 0);
    mx_drop(&x);
    mx_drop(&y);
}

/* What a device finds late stays with the arrays it spoiled and with all that came of them: on the device, on
 * another one, on the CPU, fused or in place, whenever they are read.  The others are as they should be. */
static void fails_with(mx x, const char *words)
{
    for (int i = 0; i < 2; i++) { /* and it is not forgotten */
        assert_int_equal(mx_wait_host(x), 1);
        assert_string_equal(mx_error_message(), words);
        mx_error_clear();
    }
}

static void errors_found_late(void **state)
{
    (void)state;
    static const char words[] = "[exp] the device failed late";
    struct stream *other = default_stream((struct device){ DEVICE_GPU, 1 }), *beside = new_stream();
    struct stream *on[] = { gpu_stream, other, beside, gpu_stream };
    mx_own bad = { 0 }, good = { 0 }, next = { 0 }, of[4] = { 0 }, here = { 0 };
    loopback_fail_late("exp");
    loopback_hold(gpu_stream);
    queue_unary(gpu_stream, &bad, mx_exp, NULL);
    queue_unary(gpu_stream, &good, mx_negative, NULL);
    loopback_fail_late(NULL);
    for (int i = 0; i < 4; i++) {
        MX_SCOPE(on[i]);
        mx_keep(&of[i], mx_add(mx_square(good.it), mx_transpose(mx_negative(i == 3 ? of[1].it : bad.it), NULL, 0)));
        assert_int_equal(mx_async_eval(1, &of[i].it), 0);
    }
    queue_unary(gpu_stream, &next, mx_square, good.it);
    queue_unary(cpu_stream, &here, mx_negative, bad.it);
    loopback_hold(NULL);
    assert_int_equal(mx_eval(1, &of[0].it), 1);
    assert_string_equal(mx_error_message(), words);
    mx_error_clear();
    for (int i = 0; i < 4; i++) fails_with(of[i].it, words);
    fails_with(bad.it, words);
    assert_int_equal(mx_wait_host(here.it), 1);
    assert_string_equal(mx_error_message(), words);
    mx_error_clear();
    assert_float_equal(at(good.it, 3), -3, 0);
    assert_float_equal(at(next.it, 3), 9, 0);
    queue_unary(cpu_stream, &here, mx_square, of[1].it); /* after the fact */
    assert_int_equal(mx_wait_host(here.it), 1);
    assert_string_equal(mx_error_message(), words);
    mx_error_clear();
    for (int i = 0; i < 4; i++) mx_drop(&of[i]);
    mx_drop(&bad);
    mx_drop(&good);
    mx_drop(&next);
    mx_drop(&here);
    stream_synchronize(cpu_stream);
    mx_error_clear();
}

/* Two things go wrong in one batch: each is told of what it spoiled. */
static void errors_of_one_batch(void **state)
{
    (void)state;
    mx_own a = { 0 }, b = { 0 }, c = { 0 };
    loopback_fail_op("exp");
    loopback_fail_late("sin");
    {
        MX_SCOPE(gpu_stream);
        mx_keep(&a, mx_negative(mx_exp(ramp(4))));
        mx_keep(&b, mx_negative(mx_sin(ramp(4))));
        mx_keep(&c, mx_add(mx_negative(ramp(4)), mx_scalar_like(1, ramp(4))));
    }
    assert_int_equal(mx_async_eval(3, (mx[]){ a.it, b.it, c.it }), 0);
    assert_int_equal(mx_wait_host(a.it), 1);
    assert_string_equal(mx_error_message(), "[exp] the device failed");
    mx_error_clear();
    fails_with(b.it, "[sin] the device failed late");
    assert_float_equal(at(c.it, 3), -2, 0);
    loopback_fail_op("sin"); /* two that are found when they are queued */
    {
        MX_SCOPE(gpu_stream);
        mx_keep(&b, mx_negative(mx_sin(ramp(4))));
        mx_keep(&c, mx_negative(mx_negative(mx_reshape(a.it, 1, (int[]){ 4 }))));
    }
    assert_int_equal(mx_async_eval(2, (mx[]){ b.it, c.it }), 0);
    assert_float_equal(at(c.it, 1), -2.7182817f, 1e-5);
    assert_int_equal(mx_wait_host(b.it), 1);
    assert_string_equal(mx_error_message(), "[sin] the device failed");
    mx_error_clear();
    loopback_fail_op(NULL);
    loopback_fail_late(NULL);
    mx_drop(&a);
    mx_drop(&b);
    mx_drop(&c);
    stream_synchronize(gpu_stream);
    mx_error_clear();
}

/* ---- batches that come again */

static int push(struct mx_list *out, mx x, mx y) { return list_push(out, x) || (y && list_push(out, y)); }

/* (x, y) -> (exp(x y) + 2, the sum of it): the same tasks in every call, on other addresses. */
static int of_two(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    MX_SCOPE(gpu_stream);
    (void)self, (void)n;
    mx y = mx_add(mx_exp(mx_multiply(x[0], x[1])), mx_scalar_like(2, x[0]));
    return push(out, y, mx_sum(y, NULL, 0, false));
}

static void call_of_two(struct compiled *c, struct closure *f, int n, float scale)
{
    mx_own x = { 0 }, y = { 0 };
    struct mx_list out = { 0 };
    int64_t trace;
    {
        MX_SCOPE(gpu_stream);
        mx_keep(&x, mx_multiply(ramp(n), mx_scalar_like(scale, ramp(1))));
        mx_keep(&y, mx_full(1, &n, mx_scalar_like(0.125, ramp(1)), DT_float32));
        assert_int_equal(mx_eval(2, (mx[]){ x.it, y.it }), 0);
        assert_int_equal(compiled_call(c, f, 0, NULL, 2, (mx[]){ x.it, y.it }, &out, &trace), 0);
    }
    assert_int_equal(mx_async_eval(2, (mx[]){ out.v[0].it, out.v[1].it }), 0);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double want = exp((double)(scale * (float)i) / 8) + 2;
        sum += want;
        assert_float_equal(at(out.v[0].it, i), want, 1e-5 * want);
    }
    assert_int_equal(mx_wait_host(out.v[1].it), 0);
    assert_float_equal(*(float *)array_host(out.v[1].it), sum, 1e-5 * sum);
    list_clear(&out);
    mx_drop(&x);
    mx_drop(&y);
}

static void batches_come_again(void **state)
{
    (void)state;
    struct closure f = { { .refs = 1 }, of_two };
    struct compiled *c = compiled_new("of_two", false);
    assert_non_null(c);
    for (int i = 0; i < 3; i++) call_of_two(c, &f, 40, (float)i / 16); /* until constants are where they are needed */
    long recordings = loopback_recordings(), replays = loopback_replays();
    for (int i = 0; i < 10; i++) call_of_two(c, &f, 40, (float)i / 4);
    assert_int_equal(loopback_recordings(), recordings);
    assert_int_equal(loopback_replays(), replays + 20);               /* the arguments, and the call */
    for (int i = 0; i < 4; i++) call_of_two(c, &f, 41, (float)i / 4); /* other shapes */
    assert_true(loopback_recordings() > recordings);
    recordings = loopback_recordings();
    replays = loopback_replays();
    for (int i = 0; i < 4; i++) call_of_two(c, &f, 40 + i % 2, (float)i / 4);
    assert_int_equal(loopback_recordings(), recordings);
    assert_int_equal(loopback_replays(), replays + 8);
    loopback_before_queueing(wait_now); /* what somebody waits for starts before the batch is whole */
    for (int i = 0; i < 4; i++) call_of_two(c, &f, 40, (float)i / 4);
    loopback_before_queueing(NULL);
    compiled_release(c);
}

static void no_stream(void **state)
{
    (void)state;
    loopback_fail_open(0);
    assert_null(stream_new((struct device){ DEVICE_GPU, 0 }));
    assert_string_equal(mx_error_message(), "[loopback] expected another stream, got none");
    mx_error_clear();
    /* A device's first stream is opened when it is first asked for. */
    assert_int_equal(set_default_device((struct device){ DEVICE_GPU, 1 }), 0);
    loopback_fail_open(0);
    {
        MX_SCOPE(NULL);
        assert_true(is_nil(mx_square(ramp(4))));
        assert_string_equal(mx_error_message(), "[loopback] expected another stream, got none");
    }
    mx_error_clear();
    assert_int_equal(set_default_device((struct device){ DEVICE_GPU, 0 }), 0);
    loopback_fail_open(-1);
    assert_non_null(default_stream((struct device){ DEVICE_GPU, 1 }));
}

static void out_of_memory(void **state)
{
    (void)state;
    memory_clear_cache();
    assert_int_equal(streams_synchronize_all(), 0);
    size_t before = loopback_in_use();
    mx_own x = { 0 }, y = { 0 };
    {
        MX_SCOPE(gpu_stream);
        mx_keep(&x, mx_negative(mx_reshape(mx_broadcast_to(mx_scalar_like(1, ramp(1)), 1, (int[]){ 1 << 16 }), 1,
                                           (int[]){ -1 })));
        mx_keep(&y, mx_exp(x.it));
    }
    assert_int_equal(mx_eval(1, &x.it), 0);
    loopback_set_memory(loopback_in_use() + 4096);
    assert_int_equal(mx_eval(1, &y.it), 1);
    assert_int_equal(mx_error_kind(), MX_MEMORY);
    mx_error_clear();
    loopback_set_memory(0);
    assert_float_equal(at(y.it, 100), 0.36787944f, 1e-6f);
    mx_drop(&x);
    mx_drop(&y);
    assert_int_equal(stream_synchronize(gpu_stream), 0);
    memory_clear_cache();
    assert_int_equal(streams_synchronize_all(), 0);
    assert_int_equal(loopback_in_use(), before);
}

/* n times 1 in memory that s takes, not evaluated yet. */
static mx ones(struct stream *s, int n, mx_own *y)
{
    MX_SCOPE(s);
    mx x = mx_broadcast_to(mx_scalar_like(-1, ramp(1)), 1, &n);
    mx_keep(y, mx_negative(mx_reshape(x, 1, (int[]){ -1 })));
    return y->it;
}

/* What the device's memory comes from is what the host's comes from: counted, kept by size, limited, and given to
 * another stream when there is no more, behind the last use. */
static void memory_of_devices(void **state)
{
    (void)state;
    enum { N = 1 << 16, BYTES = 4 * N };
    memory_clear_cache();
    assert_int_equal(streams_synchronize_all(), 0);
    mx_own x = { 0 }, y = { 0 };
    size_t before = memory_active();
    mx a = ones(gpu_stream, N, &x);
    assert_int_equal(mx_eval(1, &a), 0);
    assert_int_equal(stream_synchronize(gpu_stream), 0);
    assert_in_range(memory_active() - before, BYTES, BYTES + 4096);
    size_t used = loopback_in_use();
    mx_drop(&x);
    assert_true(memory_cached() >= BYTES);
    for (int i = 0; i < 4; i++) {
        a = ones(gpu_stream, N, &x);
        assert_int_equal(mx_eval(1, &a), 0);
        mx_drop(&x);
    }
    assert_int_equal(loopback_in_use(), used);
    loopback_set_memory(used + 4096); /* the number that is repeated */
    loopback_set_delay(2000);
    a = ones(gpu_stream, N, &x);
    assert_int_equal(mx_async_eval(1, &a), 0);
    mx_drop(&x);
    struct stream *beside = stream_new((struct device){ DEVICE_GPU, 0 });
    for (int i = 0; i < 10000 && memory_cached() < BYTES; i++) usleep(100); /* until the queue lets go */
    ones(beside, N, &y);
    assert_float_equal(at(y.it, N - 1), 1, 0);
    assert_true(loopback_in_use() <= used + 4096);
    loopback_set_delay(0);
    mx_drop(&y);
    loopback_set_memory(0);
    size_t cached = memory_set_cache_limit(0);
    assert_int_equal(memory_cached(), 0);
    memory_set_cache_limit(cached);
    size_t limit = memory_set_limit(memory_active() + BYTES / 2);
    a = ones(gpu_stream, N, &x);
    assert_int_equal(mx_eval(1, &a), 1);
    assert_int_equal(mx_error_kind(), MX_MEMORY);
    mx_error_clear();
    memory_set_limit(limit);
    mx_drop(&x);
}

/* Whoever has the host's bytes to write to is heard by every operation until he gives them back, and once more. */
static void written_from_outside(void **state)
{
    (void)state;
    mx_own x = { 0 }, y = { 0 };
    {
        MX_SCOPE(cpu_stream);
        mx_keep(&x, array_of_data(DT_float32, 1, (int[]){ 2 }, (float[]){ 1, 2 }));
    }
    float *p = (float *)x.it->buf->host + x.it->offset;
    long before = loopback_copies();
    for (int i = 0; i < 6; i++) {
        if (i == 1)
            buffer_lend(x.it->buf);
        if (i >= 1 && i <= 3)
            p[1] = (float)(10 * i);
        if (i == 3)
            buffer_take_back(x.it->buf);
        MX_SCOPE(gpu_stream);
        mx_keep(&y, mx_negative(x.it));
        assert_float_equal(at(y.it, 1), i == 0 ? -2 : -10 * (i < 3 ? i : 3), 0);
    }
    assert_int_equal(loopback_copies() - before, 4 + 6); /* as often as it may have changed; and the answers */
    mx_drop(&x);
    mx_drop(&y);
}

/* What devices hold is no host's, whenever one looks: memory that comes and goes there refuses none here. */
static atomic_bool enough;
static void *come_and_go(void *unused)
{
    (void)unused;
    while (!atomic_load(&enough)) buffer_release(buffer_new_on(gpu_stream, 1 << 16));
    return NULL;
}
static void counted_apart(void **state)
{
    (void)state;
    pthread_t t[2];
    atomic_store(&enough, false);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, come_and_go, NULL), 0);
    int refused = 0;
    for (int i = 0; i < times(30000000); i++) refused += !memory_allows(64);
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    assert_int_equal(refused, 0);
}

/* ---- loops */

/* (c, x) -> (c + x, c x) */
static int adds(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    MX_SCOPE(NULL);
    (void)self, (void)n;
    return push(out, mx_add(x[0], x[1]), mx_multiply(x[0], x[1]));
}
static int below_hundred(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    MX_SCOPE(NULL);
    (void)self, (void)n;
    return push(out, mx_less(x[0], mx_scalar_like(100, x[0])), NULL);
}
static int doubles(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    MX_SCOPE(NULL);
    (void)self, (void)n;
    return push(out, mx_add(x[0], x[0]), NULL);
}
static int sorts(struct closure *self, int n, const mx x[], struct mx_list *out) /* for which there is no kernel */
{
    MX_SCOPE(NULL);
    (void)self, (void)n;
    return push(out, mx_sort(mx_negative(x[0]), 0), NULL);
}

/* Bodies run where the loop does: the host copies operands over, and reads conditions and what is asked for. */
static void loops_run_there(void **state)
{
    (void)state;
    struct closure step = { { .refs = 1 }, adds }, test = { { .refs = 1 }, below_hundred },
                   twice = { { .refs = 1 }, doubles }, sorted = { { .refs = 1 }, sorts };
    mx_own kept[4] = { 0 };
    struct mx_list out = { 0 };
    {
        MX_SCOPE(gpu_stream);
        mx zero = array_of_double(0, DT_float32), one = array_of_double(1, DT_float32), x = ramp(10);
        assert_int_equal(mx_scan_loop(&step, 1, &zero, 1, &x, 10, false, &out), 0);
        assert_int_equal(out.n, 2);
        mx_keep(&kept[0], out.v[0].it);
        mx_keep(&kept[1], out.v[1].it);
        list_clear(&out);
        assert_int_equal(mx_while_loop(&test, &twice, 1, &one, &out), 0);
        mx_keep(&kept[2], out.v[0].it);
        list_clear(&out);
        assert_int_equal(mx_cond(mx_greater(one, zero), &sorted, &twice, 1, &x, &out), 0);
        mx_keep(&kept[3], out.v[0].it);
        list_clear(&out);
    }
    long before = loopback_copies();
    assert_int_equal(mx_eval(2, (mx[]){ kept[0].it, kept[1].it }), 0);
    assert_int_equal(kept[0].it->buf->state, ON_DEVICE);
    assert_int_equal(kept[1].it->buf->state, ON_DEVICE);
    assert_int_equal(loopback_copies() - before, 2 + 10); /* zero and x; rows into the result, on the device */
    assert_float_equal(at(kept[0].it, 0), 45, 0);
    for (int i = 0, sum = 0; i < 10; sum += i++) assert_float_equal(at(kept[1].it, i), (float)(sum * i), 0);
    before = loopback_copies();
    assert_int_equal(mx_eval(1, &kept[2].it), 0);
    assert_int_equal(kept[2].it->buf->state, ON_DEVICE);
    assert_int_equal(loopback_copies() - before, 2 + 8); /* one and 100; eight answers of the test */
    assert_float_equal(at(kept[2].it, 0), 128, 0);
    for (int i = 0; i < 10; i++) assert_float_equal(at(kept[3].it, i), (float)(i - 9), 0);
    for (int i = 0; i < 4; i++) mx_drop(&kept[i]);
}

/* The first of many. */
static int first_below_hundred(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    MX_SCOPE(NULL);
    (void)self, (void)n;
    mx below = mx_less(x[0], mx_scalar_like(100, x[0]));
    return push(out, mx_squeeze(mx_slice(below, (int[]){ 1 }, (int[]){ 2 }, (int[]){ 1 }), (int[]){ 0 }, 1), NULL);
}

/* A condition that is part of a larger array: the host reads its byte. */
static void conditions_are_read_alone(void **state)
{
    (void)state;
    struct closure test = { { .refs = 1 }, first_below_hundred }, twice = { { .refs = 1 }, doubles };
    mx_own y = { 0 };
    struct mx_list out = { 0 };
    {
        MX_SCOPE(gpu_stream);
        mx x = ramp(1000);
        assert_int_equal(mx_while_loop(&test, &twice, 1, &x, &out), 0);
        mx_keep(&y, out.v[0].it);
        list_clear(&out);
    }
    size_t before = loopback_read();
    assert_int_equal(mx_eval(1, &y.it), 0);
    assert_int_equal(loopback_read() - before, 8);
    assert_float_equal(at(y.it, 3), 3 * 128, 0);
    mx_drop(&y);
}

enum { STREAMS = 4 };
static int compute_on_each(struct stream *const s[STREAMS])
{
    int failed = 0;
    for (int i = 0; i < STREAMS; i++) {
        mx_own y = { 0 };
        {
            MX_SCOPE(s[i]);
            mx x = ramp(10);
            mx_keep(&y, mx_multiply(x, x));
        }
        failed |= mx_eval(1, &y.it) || mx_wait_host(y.it) || ((float *)array_host(y.it))[9] != 81;
        mx_drop(&y);
    }
    return failed;
}

static void a_child_computes_on_each_stream(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own locks may be taken in the child */
#endif
    struct stream *s[STREAMS];
    for (int i = 0; i < STREAMS; i++) assert_non_null(s[i] = stream_new((struct device){ DEVICE_GPU, 0 }));
    assert_int_equal(compute_on_each(s), 0);
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(20); /* it hangs */
            _exit(compute_on_each(s));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_int_equal(compute_on_each(s), 0);
}

static int nothing_left(void **state)
{
    (void)state;
    stream_synchronize(gpu_stream);
    stream_synchronize(cpu_stream);
    assert_int_equal(array_live_count(), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(computes_there, nothing_left),
        cmocka_unit_test_teardown(keeps_host_memory_apart, nothing_left),
        cmocka_unit_test_teardown(crosses_streams, nothing_left),
        cmocka_unit_test_teardown(views_share, nothing_left),
        cmocka_unit_test_teardown(errors_in_flight, nothing_left),
        cmocka_unit_test_teardown(no_kernel, nothing_left),
        cmocka_unit_test_teardown(no_stream, nothing_left),
        cmocka_unit_test_teardown(two_devices, nothing_left),
        cmocka_unit_test_teardown(queued_is_not_done, nothing_left),
        cmocka_unit_test_teardown(marks_follow_the_work, nothing_left),
        cmocka_unit_test_teardown(several_readers, nothing_left),
        cmocka_unit_test_teardown(copied_anew_for_all, nothing_left),
        cmocka_unit_test_teardown(from_many_threads, nothing_left),
        cmocka_unit_test_teardown(waiting_is_no_lock, nothing_left),
        cmocka_unit_test_teardown(errors_found_late, nothing_left),
        cmocka_unit_test_teardown(errors_of_one_batch, nothing_left),
        cmocka_unit_test_teardown(batches_come_again, nothing_left),
        cmocka_unit_test_teardown(freed_while_read, nothing_left),
        cmocka_unit_test_teardown(out_of_memory, nothing_left),
        cmocka_unit_test_teardown(memory_of_devices, nothing_left),
        cmocka_unit_test_teardown(written_from_outside, nothing_left),
        cmocka_unit_test_teardown(counted_apart, nothing_left),
        cmocka_unit_test_teardown(loops_run_there, nothing_left),
        cmocka_unit_test_teardown(conditions_are_read_alone, nothing_left),
        cmocka_unit_test_teardown(a_child_computes_on_each_stream, nothing_left),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
