/* Threads that evaluate overlapping graphs on several streams: every batch is queued behind those it
 * waits for, so none waits for one that is stuck behind it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

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
        float want = (float)(i % SHARED + (i + 1) % SHARED);
        if (mx_eval(1, &y.it) || *(float *)array_host(y.it) != want)
            return arg;
        mx_drop(&y);
    }
    return NULL;
}

static void overlap(void **state)
{
    (void)state;
    alarm(300); /* a deadlock ends the test */
    for (int s = 0; s < STREAMS; s++) stream[s] = stream_new(default_device());
    for (int round = 0; round < ROUNDS; round++) {
        mx_own own[SHARED] = { { 0 } };
        mx x[SHARED];
        for (int i = 0; i < SHARED; i++) {
            MX_SCOPE(stream[i % STREAMS]);
            mx_keep(&own[i], mx_negative(array_of_double(i, DT_float32)));
            x[i] = own[i].it;
        }
        pthread_t thread[THREADS];
        void *bad;
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_create(&thread[t], NULL, evaluate_many, x), 0);
        for (int t = 0; t < THREADS; t++) {
            pthread_join(thread[t], &bad);
            assert_null(bad);
        }
        for (int i = 0; i < SHARED; i++) mx_drop(&own[i]);
    }
    alarm(0);
    assert_int_equal(streams_synchronize_all(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(overlap) };
    return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
