/* pool_for covers the range once, begins where it says, and gets by when nested, shared or
 * forked. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/pool.h"

struct probe {
    int64_t n, grain;
    _Atomic uint8_t *seen;
    atomic_bool wrong;
};

static void mark(void *ctx, int64_t begin, int64_t end)
{
    struct probe *p = ctx;
    if (begin % p->grain || begin >= end || end > p->n)
        atomic_store(&p->wrong, true);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add_explicit(&p->seen[i], 1, memory_order_relaxed);
}

static bool covers_once(int64_t n, int64_t grain)
{
    struct probe p = { .n = n, .grain = grain, .seen = calloc((size_t)n + 1, 1) };
    assert_non_null(p.seen);
    pool_for(n, grain, mark, &p);
    bool ok = !atomic_load(&p.wrong) && p.seen[n] == 0;
    for (int64_t i = 0; i < n; i++) ok = ok && p.seen[i] == 1;
    free((void *)p.seen);
    return ok;
}

static void coverage(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 0, 1, 2, 3, 5, 7, 8, 9, 31, 64, 100, 127, 1000, 4097, 65537 };
    for (int threads = 1; threads <= 9; threads += 2) {
        pool_set_threads(threads);
        assert_int_equal(pool_threads(), threads);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int64_t grain = 1; grain <= 2000; grain = grain * 3 + 1) assert_true(covers_once(sizes[i], grain));
    }
    pool_set_threads(0);
    assert_int_equal(pool_threads(), 1);
    pool_set_threads(3);
}

/* Threads do take part: a range whose first pieces wait for one another needs two of them. */
static atomic_int meeting;
static void meet(void *ctx, int64_t begin, int64_t end)
{
    (void)ctx, (void)begin, (void)end;
    atomic_fetch_add(&meeting, 1);
    for (int i = 0; i < 20000 && atomic_load(&meeting) < 2; i++) {
        struct timespec ms = { .tv_nsec = 1000000 };
        nanosleep(&ms, NULL);
    }
}

static void several_threads(void **state)
{
    (void)state;
    for (int pause = 0; pause < 2; pause++) { /* with workers awake, then asleep */
        if (pause)
            usleep(20000);
        pool_set_threads(2);
        atomic_store(&meeting, 0);
        pool_for(2, 1, meet, NULL);
        assert_int_equal(atomic_load(&meeting), 2);
    }
    pool_set_threads(8);
    atomic_store(&meeting, 0);
    pool_for(8, 1, meet, NULL);
    assert_int_equal(atomic_load(&meeting), 8);
    pool_set_threads(2); /* fewer than there are workers: those left still come */
    usleep(20000);
    atomic_store(&meeting, 0);
    pool_for(2, 1, meet, NULL);
    assert_int_equal(atomic_load(&meeting), 2);
}

static void below_two_grains_is_serial(void **state)
{
    (void)state;
    pool_set_threads(4);
    struct probe p = { .n = 199, .grain = 100, .seen = calloc(200, 1) };
    pool_for(199, 100, mark, &p);
    assert_int_equal(p.seen[0], 1);
    assert_int_equal(p.seen[198], 1);
    free((void *)p.seen);
}

static atomic_bool nested_ok;
static void nest(void *ctx, int64_t begin, int64_t end)
{
    (void)ctx;
    for (int64_t i = begin; i < end; i++)
        if (!covers_once(100 + i, 3))
            atomic_store(&nested_ok, false);
}

static void nested(void **state)
{
    (void)state;
    pool_set_threads(4);
    atomic_store(&nested_ok, true);
    pool_for(200, 1, nest, NULL);
    assert_true(atomic_load(&nested_ok));
}

static void *many_calls(void *ctx)
{
    for (int i = 0; i < 300; i++)
        if (!covers_once(200 + i, 1 + i % 7))
            atomic_store((atomic_bool *)ctx, false);
    return NULL;
}

static void concurrent(void **state)
{
    (void)state;
    pool_set_threads(4);
    pthread_t t[4];
    atomic_bool ok = true;
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, many_calls, &ok), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    assert_true(ok);
}

static void asleep_then_awake(void **state)
{
    (void)state;
    pool_set_threads(3);
    for (int i = 0; i < 200; i++) {
        assert_true(covers_once(64, 1));
        if (i % 4 == 0)
            usleep(300); /* about as long as the workers spin: some are on their way to sleep */
    }
}

static void child_of_fork(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* its runtime has no threads in a child */
#endif
    pool_set_threads(4);
    assert_true(covers_once(1000, 1));
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(20);
            bool ok = covers_once(5000, 2);
            pool_set_threads(2);
            atomic_store(&meeting, 0);
            pool_for(2, 1, meet, NULL);
            _exit(ok && atomic_load(&meeting) == 2 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_true(covers_once(1000, 1));
    }
}

static void environment(const char *value, int expect)
{
    pid_t child = fork();
    if (child == 0) {
        char self[] = "/proc/self/exe";
        setenv("MLX_NUM_THREADS", value, 1);
        execl(self, "pool", "--threads", (char *)NULL);
        _exit(255);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expect);
}

static void threads_from_environment(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    environment("3", 3);
    environment("100000", 256 & 255); /* the most there can be, as an exit status */
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) {
            CPU_SET(i, &one);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    environment("", 1);
    environment("nonsense", 1);
    assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Busy for about the number of microseconds that ctx points to, per index. */
static void burn(void *ctx, int64_t begin, int64_t end)
{
    for (double stop = now() + (double)(end - begin) * *(double *)ctx * 1e-6; now() < stop;)
        ;
}

static int bench(void)
{
    pool_for(2, 1, burn, &(double){ 1 });
    for (double us = 1; us <= 100; us *= 10) {
        double best = 1, asleep = 0;
        for (int i = 0; i < 20000 / us; i++) {
            double t = now();
            pool_for(pool_threads(), 1, burn, &us);
            t = now() - t;
            best = t < best ? t : best;
        }
        for (int i = 0; i < 100; i++) {
            usleep(1000);
            double t = now();
            pool_for(pool_threads(), 1, burn, &us);
            asleep += (now() - t) / 100;
        }
        printf("%d pieces of %.0f us on %d threads: %.2f us hot, %.2f with workers asleep\n", pool_threads(), us,
               pool_threads(), best * 1e6, asleep * 1e6);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--threads"))
        return pool_threads();
    if (argc > 1 && !strcmp(argv[1], "--bench"))
        return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coverage),
        cmocka_unit_test(several_threads),
        cmocka_unit_test(below_two_grains_is_serial),
        cmocka_unit_test(nested),
        cmocka_unit_test(concurrent),
        cmocka_unit_test(asleep_then_awake),
        cmocka_unit_test(child_of_fork),
        cmocka_unit_test(threads_from_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
