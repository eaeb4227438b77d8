/* pool.c: the threads that kernels share.
 *
 * One job runs at a time, owned by the thread that called pool_for; who finds the pool owned runs
 * its loop alone.  Each thread starts in its own share of the range, so that a chain of kernels
 * over the same arrays finds its half in its own cache, and then takes pieces from the others'
 * shares.
 *
 * Workers join a job of their own accord and only while it is open: the caller never waits for a
 * thread that is not already working, so on a busy machine it just does the work itself.  A job of
 * fewer shares than there are threads is the first ones', and the others do not touch it: each that
 * comes and finds nothing costs those that work a tenth of a microsecond.
 *
 * Workers that have found nothing for a while sleep, each at a place of its own, and are woken along
 * a tree, the caller its root: waking takes longer than much of the work.
 * Invariant: the fields of the job change only while it is closed and its crew is zero. */
#define _GNU_SOURCE
#include "core/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/settings.h"

enum {
    SPINS = 2000,      /* turns before a thread sleeps: some tens of microseconds */
    PIECES = 64,       /* of a share: a late thread holds the others up by at most one of these */
    OPEN = 1 << 30,    /* bits of `crew`; the low ones count the workers inside the job */
    WAITING = 1 << 29, /* its caller sleeps until they have left */
    COUNT = WAITING - 1,
    JOB = 1 << 9, /* a job in `epoch`, with the number of its shares below */
};

/* A thread's part of the range; on a cache line of its own, for others help themselves from it. */
struct pool_share {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
};

static struct {
    void (*fn)(void *ctx, int64_t begin, int64_t end);
    void *ctx;
    int64_t piece;
    int nshares;
    struct pool_share share[POOL_MOST];
} job;

static _Alignas(64) atomic_int crew;
static _Alignas(64) atomic_uint epoch; /* counts jobs; what idle workers watch */
static struct {
    _Alignas(64) atomic_int asleep;
} seat[POOL_MOST];
static _Alignas(64) atomic_flag owned = ATOMIC_FLAG_INIT;
static int started;              /* workers there are; under `owned` */
static atomic_int wanted;        /* threads including the caller; 0: not decided yet */
static atomic_int spins = SPINS; /* 0 where threads outnumber processors */

static void futex_wait(atomic_int *word, int value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_int *word, int n) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0); }

static inline void pause_briefly(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

/* Works through share `me`, then helps with the others. */
static void pool_work(int me)
{
    for (int i = 0; i < job.nshares; i++) {
        struct pool_share *s = &job.share[(me + i) % job.nshares];
        if (atomic_load_explicit(&s->next, memory_order_relaxed) >= s->end)
            continue;
        for (;;) {
            int64_t begin = atomic_fetch_add_explicit(&s->next, job.piece, memory_order_relaxed);
            if (begin >= s->end)
                break;
            job.fn(job.ctx, begin, s->end - begin > job.piece ? begin + job.piece : s->end);
        }
    }
}

/* Those that thread `me` wakes, of a job of so many shares. */
static void wake_others(int me, int shares)
{
    for (int i = 2 * me + 1; i <= 2 * me + 2 && i < shares; i++)
        if (atomic_load(&seat[i].asleep) && atomic_exchange(&seat[i].asleep, 0))
            futex_wake(&seat[i].asleep, 1);
}

/* Takes part in the open job, if there is one. */
static void join_pool(int me)
{
    int c = atomic_load(&crew);
    do {
        if (!(c & OPEN))
            return;
    } while (!atomic_compare_exchange_weak(&crew, &c, c + 1));
    pool_work(me);
    c = atomic_fetch_sub(&crew, 1);
    if ((c & WAITING) && (c & COUNT) == 1)
        futex_wake(&crew, 1);
}

static void *worker(void *index)
{
    int me = (int)(intptr_t)index, left = 0;
    for (unsigned seen = 0;;) {
        unsigned now = atomic_load(&epoch);
        for (; now == seen && left > 0; left--) {
            pause_briefly();
            now = atomic_load_explicit(&epoch, memory_order_acquire);
        }
        while (now == seen) {
            atomic_store(&seat[me].asleep, 1);
            if (atomic_load(&epoch) == seen)
                futex_wait(&seat[me].asleep, 1);
            atomic_store(&seat[me].asleep, 0);
            now = atomic_load(&epoch);
        }
        seen = now;
        int shares = (int)(now % JOB);
        if (me >= shares) /* goes on looking, but not for longer */
            continue;
        wake_others(me, shares);
        join_pool(me);
        left = atomic_load(&spins);
    }
    return NULL;
}

/* Waits until every worker has left the job that was just closed. */
static void wait_for_crew(void)
{
    int c = atomic_load(&crew);
    for (int i = atomic_load(&spins); (c & COUNT) && i > 0; i--) {
        pause_briefly();
        c = atomic_load(&crew);
    }
    if (c & COUNT) {
        c = atomic_fetch_or(&crew, WAITING) | WAITING;
        while (c & COUNT) {
            futex_wait(&crew, c);
            c = atomic_load(&crew);
        }
    }
    atomic_store(&crew, 0);
}

/* In a child there is only the thread that forked: the workers are made anew when needed. */
static void forget_workers(void)
{
    started = 0;
    atomic_store(&crew, 0);
    for (int i = 0; i < POOL_MOST; i++) atomic_store(&seat[i].asleep, 0);
    atomic_flag_clear(&owned);
}

__attribute__((constructor)) static void survive_fork(void) { pthread_atfork(NULL, NULL, forget_workers); }

sigset_t signals_block(void)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    return before;
}

void signals_restore(sigset_t before) { pthread_sigmask(SIG_SETMASK, &before, NULL); }

bool thread_start(pthread_t *t, void *(*f)(void *), void *arg)
{
    sigset_t before = signals_block();
    bool started = !pthread_create(t, NULL, f, arg);
    signals_restore(before);
    return started;
}

static void start_workers(int n)
{
    pthread_t t;
    /* Where there are no more the work gets done by those there are. */
    while (started < n && thread_start(&t, worker, (void *)(intptr_t)(started + 1))) {
        pthread_detach(t);
        started++;
    }
}

/* The number of a small file, or `otherwise`. */
static long read_number(const char *path, long otherwise)
{
    long v = otherwise;
    FILE *f = fopen(path, "re");
    if (f) {
        if (fscanf(f, "%ld", &v) != 1)
            v = otherwise;
        fclose(f);
    }
    return v;
}

/* Processors a control group lets us use at once; INT_MAX without a limit. */
static int quota(void)
{
    long limit = -1, period = 100000;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re"); /* "max 100000" or "150000 100000" */
    if (f) {
        if (fscanf(f, "%ld %ld", &limit, &period) != 2)
            limit = -1;
        fclose(f);
    } else {
        limit = read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1);
        period = read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 100000);
    }
    if (limit <= 0 || period <= 0)
        return INT_MAX;
    long n = (limit + period - 1) / period;
    return n < INT_MAX ? (int)n : INT_MAX;
}

static int processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    int q = quota();
    return n < 1 ? 1 : n < q ? n : q;
}

void pool_set_threads(int n)
{
    n = n < 1 ? 1 : n > POOL_MOST ? POOL_MOST : n;
    atomic_store(&spins, n > processors() ? 0 : SPINS);
    atomic_store(&wanted, n);
}

int pool_threads(void)
{
    int n = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (n)
        return n;
    pool_set_threads((int)setting_number("MLX_NUM_THREADS", 1, POOL_MOST, processors()));
    return atomic_load(&wanted);
}

void pool_for(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t begin, int64_t end), void *ctx)
{
    if (n <= 0)
        return;
    if (grain < 1)
        grain = 1;
    int threads = pool_threads();
    int64_t grains = n / grain + (n % grain != 0);
    if (n / 2 < grain || threads == 1 || atomic_flag_test_and_set_explicit(&owned, memory_order_acquire)) {
        fn(ctx, 0, n);
        return;
    }
    if (started < threads - 1)
        start_workers(threads - 1);
    if (threads > started + 1)
        threads = started + 1;

    int shares = grains < threads ? (int)grains : threads;
    int64_t each = grains / shares, rest = grains % shares;
    job.fn = fn;
    job.ctx = ctx;
    job.nshares = shares;
    job.piece = (each + PIECES - 1) / PIECES * grain;
    for (int64_t i = 0, begin = 0; i < shares; i++) {
        atomic_store_explicit(&job.share[i].next, begin * grain, memory_order_relaxed);
        begin += each + (i < rest);
        job.share[i].end = i + 1 < shares ? begin * grain : n;
    }

    atomic_store(&crew, OPEN);
    atomic_store(&epoch, (atomic_load_explicit(&epoch, memory_order_relaxed) / JOB + 1) * JOB + (unsigned)shares);
    wake_others(0, shares);
    pool_work(0);
    atomic_fetch_and(&crew, ~OPEN);
    wait_for_crew();
    atomic_flag_clear_explicit(&owned, memory_order_release);
}
