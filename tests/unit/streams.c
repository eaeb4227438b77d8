/* Threads that evaluate overlapping graphs on several streams: every batch is queued behind those it
 * waits for, so none waits for one that is stuck behind it.  Others clear the streams meanwhile. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/stream.h"
#include "ops/ops.h"
#include "run/eval.h"

enum { STREAMS = 3, SHARED = 4, THREADS = 4, ROUNDS = 40, EVALS = 300 };
static struct stream *stream[STREAMS];

/* Keeps -(a + b), the sum on one stream and its negative on the next. */
static void across_streams(mx_own *y, int i, mx a, mx b)
{
    MX_SCOPE(stream[i % STREAMS]);
    mx sum = mx_add(a, b);
    {
        MX_SCOPE(stream[(i + 1) % STREAMS]);
        mx_keep(y, mx_negative(sum));
    }
}

static void *evaluate_many(void *arg)
{
    mx *x = arg;
    for (int i = 0; i < EVALS; i++) {
        mx_own y = { 0 };
        across_streams(&y, i, x[i % SHARED], x[(i + 1) % SHARED]);
        if (i % 5 == 0 && mx_async_eval(1, &y.it))
            return arg;
        if (i % 7 == 0 && mx_eval(1, &x[i % SHARED])) /* one operation, which others evaluate and read too */
            return arg;
        float want = (float)(i % SHARED + (i + 1) % SHARED);
        if (mx_eval(1, &y.it) || *(float *)array_host(y.it) != want)
            return arg;
        mx_drop(&y);
    }
    return NULL;
}

/* Until those that compute are done. */
static atomic_int computing;

static void *clear_many(void *arg)
{
    while (atomic_load(&computing)) {
        streams_clear();
        sched_yield();
    }
    return arg;
}

static void *synchronize_many(void *arg)
{
    while (atomic_load(&computing)) {
        if (!stream_new(default_device()) || streams_synchronize_all())
            return NULL;
        usleep(2000);
    }
    return arg;
}

static void run_rounds(int rounds, int n_others, void *(*const others[])(void *))
{
    for (int s = 0; s < STREAMS; s++) stream[s] = s ? stream_new(default_device()) : default_stream(default_device());
    for (int round = 0; round < rounds; round++) {
        mx_own own[SHARED] = { { 0 } };
        mx x[SHARED];
        for (int i = 0; i < SHARED; i++) {
            MX_SCOPE(stream[i % STREAMS]);
            mx_keep(&own[i], mx_negative(array_of_double(i, DT_float32)));
            x[i] = own[i].it;
        }
        pthread_t thread[THREADS], other[THREADS];
        void *bad;
        atomic_store(&computing, 1);
        for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_create(&thread[t], NULL, evaluate_many, x), 0);
        for (int t = 0; t < n_others; t++) assert_int_equal(pthread_create(&other[t], NULL, others[t], x), 0);
        for (int t = 0; t < THREADS; t++) {
            pthread_join(thread[t], &bad);
            assert_null(bad);
        }
        atomic_store(&computing, 0);
        for (int t = 0; t < n_others; t++) {
            pthread_join(other[t], &bad);
            assert_non_null(bad);
        }
        for (int i = 0; i < SHARED; i++) mx_drop(&own[i]);
    }
    assert_int_equal(streams_synchronize_all(), 0);
}

static void overlap(void **state)
{
    (void)state;
    run_rounds(ROUNDS, 0, NULL);
}

static void cleared_meanwhile(void **state)
{
    (void)state;
    run_rounds(ROUNDS / 4, 3, (void *(*const[])(void *)){ clear_many, clear_many, synchronize_many });
}

/* What was queued before is done when the streams are clear, and its failures are forgotten. */
static void clears(void **state)
{
    (void)state;
    struct stream *s = stream_new(default_device());
    for (int i = 0; i < 20; i++) {
        mx_own y = { 0 };
        {
            MX_SCOPE(s);
            mx_keep(&y, mx_negative(array_of_double(i, DT_float32)));
        }
        assert_int_equal(mx_async_eval(1, &y.it), 0);
        assert_int_equal(streams_clear(), 0);
        assert_int_equal(y.it->status, READY);
        assert_int_equal(stream_synchronize(s), 0);
        mx_drop(&y);
    }
}

static void no_stream_without_a_queue(void **state)
{
    (void)state;
    int n = 1;
    for (struct stream *s = NULL; !s; n++) {
        mx_test_fail_at(n);
        s = stream_new(default_device());
        mx_test_fail_at(0);
        assert_true(!s == mx_failed());
        assert_true(!s || s->queue);
        mx_error_clear();
        assert_int_equal(streams_synchronize_all(), 0);
    }
    assert_true(n > 3); /* the stream, its queue */
}

/* What threads do that run what they submit, on two streams that need each other in turns. */
static void *turns(void *arg)
{
    struct stream *const *s = arg;
    mx_own x = { 0 };
    for (int k = 0; k < 50; k++) {
        {
            MX_SCOPE(s[0]);
            mx_keep(&x, array_of_double(1, DT_float32));
        }
        for (int i = 0; i < 5; i++) {
            MX_SCOPE(s[i % 2]);
            mx_keep(&x, mx_add(x.it, x.it));
        }
        if (mx_eval(1, &x.it) || *(float *)array_host(x.it) != 32)
            _exit(2);
    }
    mx_drop(&x);
    return NULL;
}

/* In a child that may start no thread but one: work runs where it is waited for, in the order of submission. */
static void no_worker_to_be_had(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        struct device cpu = { DEVICE_CPU, 0 };
        struct stream *s[2] = { stream_new(cpu), stream_new(cpu) };
        pthread_t beside;
        struct rlimit none = { 0, 0 };
        if (pthread_create(&beside, NULL, turns, s) || setrlimit(RLIMIT_NPROC, &none) || (!getuid() && setuid(65534)))
            _exit(3);
        turns(s);
        pthread_join(beside, NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int negative_far(mx x)
{
    mx_own y = { 0 };
    across_streams(&y, 0, x, x);
    int failed = mx_async_eval(1, &y.it) || streams_synchronize_all() || mx_eval(1, &y.it);
    mx_drop(&y);
    return failed;
}

static void *negative_for_ever(void *arg)
{
    while (!negative_far(arg)) pthread_testcancel();
    return arg;
}

/* A thread that is cancelled while it evaluates or waits first gives back what others need. */
static void cancelled(void **state)
{
    (void)state;
    for (int s = 0; s < STREAMS; s++) stream[s] = stream_new(default_device());
    mx_own x = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&x, mx_full(2, (int[]){ 1000, 1000 }, array_of_double(1, DT_float32), DT_float32));
    }
    assert_int_equal(mx_eval(1, &x.it), 0);
    for (int k = 0; k < 60; k++) {
        pthread_t thread;
        void *end;
        assert_int_equal(pthread_create(&thread, NULL, negative_for_ever, x.it), 0);
        usleep(100 + 137 * (unsigned)k);
        pthread_cancel(thread);
        pthread_join(thread, &end);
        assert_ptr_equal(end, PTHREAD_CANCELED);
        assert_int_equal(negative_far(x.it), 0);
    }
    mx_drop(&x);
}

static int negative_here(mx x)
{
    MX_SCOPE(default_stream(default_device()));
    mx y = mx_negative(x);
    return mx_eval(1, &y);
}

static void *negative_once(void *arg)
{
    pthread_cancel(pthread_self());
    negative_here(arg);
    pthread_testcancel();
    return arg;
}

/* What is told of a wrong setting, the first time that it is asked for, is told where a thread may be cancelled. */
static void cancelled_where_a_setting_is_told(void **state)
{
    (void)state;
    pthread_t thread;
    void *end;
    mx_own x = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&x, array_of_double(1, DT_float32));
    }
    assert_int_equal(pthread_create(&thread, NULL, negative_once, x.it), 0);
    pthread_join(thread, &end);
    assert_ptr_equal(end, PTHREAD_CANCELED);
    assert_int_equal(negative_here(x.it), 0);
    mx_drop(&x);
}

int main(void)
{
    setenv("MLX_CHECK", "as told", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_where_a_setting_is_told), /* for the first time */
        cmocka_unit_test(no_worker_to_be_had),
        cmocka_unit_test(overlap),
        cmocka_unit_test(cleared_meanwhile),
        cmocka_unit_test(clears),
        cmocka_unit_test(no_stream_without_a_queue),
        cmocka_unit_test(cancelled),
    };
    alarm(500); /* a deadlock ends the test */
    return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
