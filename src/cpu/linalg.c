/* linalg.c: linear algebra on the CPU: batches of matrices, each given to LAPACK by one thread.
 *
 * LAPACK itself keeps to the thread that calls it, so that results do not depend on how many there
 * are and threads do not multiply.  A large matrix is cut up (panels.inc), and where there are fewer of them than
 * threads these share each. */
#define _GNU_SOURCE /* dladdr, cpu_set_t */
#include "cpu/linalg.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/lock.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "cpu/kernels.h"
#include "cpu/kernels/factor.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "ops/linalg.h"
#include "plan/factor.h"

/* ---- OpenBLAS's memory
 *
 * OpenBLAS works in a buffer for each thread in it, keeps those it has made, the first when it is opened, and ends the
 * process where it can make no more.  How many it has made cannot be known: so who is not alone in it looks whether
 * there is room for another one for each of the others, and where there is not waits. */

LOCK(door, LOCK_LEAF);
static pthread_cond_t one_left = PTHREAD_COND_INITIALIZER;
static int inside, forks; /* threads in OpenBLAS; those that fork */

/* Bytes of so many, and some for what others ask for meanwhile. */
static size_t room_for(int buffers) { return ((size_t)buffers * 32 + 8) << 20; }

static bool has_room(int buffers)
{
    void *p = mmap(NULL, room_for(buffers), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    munmap(p, room_for(buffers));
    return true;
}

/* To be called before a thread enters OpenBLAS, and after. */
static void blas_enter(void)
{
    lock_take(&door);
    while (forks || (inside && !has_room(inside))) pthread_cond_wait(&one_left, &door.mutex);
    inside++;
    lock_give(&door);
}

static void blas_leave(void)
{
    lock_take(&door);
    inside--;
    pthread_cond_broadcast(&one_left);
    lock_give(&door);
}

/* It has a lock of its own, which a child would find taken for ever by a thread that is not there: so nobody is in it
 * while a thread forks.  That comes before all other locks are taken, which core/lock.c told pthread_atfork first. */
static void empty_blas(void)
{
    lock_take(&door);
    forks++;
    while (inside) pthread_cond_wait(&one_left, &door.mutex);
    lock_give(&door);
}

static void reopen_blas(void)
{
    lock_take(&door);
    forks--;
    pthread_cond_broadcast(&one_left);
    lock_give(&door);
}

static void forget_others(void)
{
    inside = forks = 0;
    pthread_cond_init(&one_left, NULL);
}
__attribute__((constructor)) static void survive_fork(void) { pthread_atfork(empty_blas, reopen_blas, forget_others); }

/* ---- OpenBLAS, opened when it is first needed
 *
 * It makes threads when it is loaded: loaded with the program, before main, these would take signals that the program
 * blocks everywhere to wait for them, and programs without a factorization would start later. */

LOCK(opening, LOCK_DEVICE);

/* The name of OpenBLAS beside libmlx, in whatever folder that is. */
static void beside_us(char *path, size_t size)
{
    const char *name = "libscipy_openblas.so";
    Dl_info us;
    const char *end = dladdr(&opening, &us) ? strrchr(us.dli_fname, '/') : NULL;
    snprintf(path, size, "%.*s%s", end ? (int)(end + 1 - us.dli_fname) : 0, end ? us.dli_fname : "", name);
    if (access(path, R_OK)) /* in a program with the static library in it, which has loaded OpenBLAS */
        snprintf(path, size, "%s", name);
}

static int fail_open(const char *name)
{
    mx_fail_as(MX_RUNTIME, "[linalg.%s] expected OpenBLAS beside libmlx, got: %s", name, dlerror());
    return 1;
}

/* It starts a thread for each processor that the opening one may use, which look for work for some 30 ms at the cost of
 * ours, and get none: so that one uses no more than one meanwhile. */
static void *open_alone(const char *path)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    CPU_SET((size_t)greatest(sched_getcpu(), 0), &one);
    const bool moved = !sched_getaffinity(0, sizeof all, &all) && !sched_setaffinity(0, sizeof one, &one);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (moved)
        sched_setaffinity(0, sizeof all, &all);
    return library;
}

static int open_blas(const char *name)
{
    char path[PATH_MAX];
    const int buffers = 3; /* as much as itself, one it makes when it is loaded, and the first that is worked in */
    if (!has_room(buffers)) {
        mx_fail_memory(room_for(buffers));
        return 1;
    }
    beside_us(path, sizeof path);
    sigset_t before = signals_block();
    void *library = open_alone(path);
    signals_restore(before);
    if (!library)
        return fail_open(name);
    void (*set_threads)(int) = NULL;
    *(void **)&set_threads = dlsym(library, "scipy_openblas_set_num_threads");
    if (!set_threads || !lapack_open(library))
        return fail_open(name);
    set_threads(1);
    return 0;
}

/* What was in the way, file descriptors used up, say, may not be there the next time. */
static int need_blas(const char *name)
{
    static _Atomic bool is_open;
    if (atomic_load_explicit(&is_open, memory_order_acquire))
        return 0;
    lock_take(&opening);
    int failed = !atomic_load(&is_open) && open_blas(name);
    atomic_store_explicit(&is_open, !failed, memory_order_release);
    lock_give(&opening);
    return failed;
}

/* ---- one matrix
 *
 * Only the thread that has a matrix is in OpenBLAS: others that came in would wait for buffers that it has, while it
 * waits for them. */

struct turns {
    pthread_t owner;
    bool begun; /* its own part; nobody else looks */
    atomic_llong next;
    int64_t n;
    void (*fn)(void *ctx, int64_t i);
    void *ctx;
};

static void take_turns(void *turns, int64_t begin, int64_t end)
{
    struct turns *t = turns;
    (void)begin, (void)end;
    if (pthread_equal(t->owner, pthread_self()) && !t->begun) {
        t->begun = true;
        t->fn(t->ctx, 0);
    }
    for (int64_t i; (i = atomic_fetch_add(&t->next, 1)) < t->n;) t->fn(t->ctx, i);
}

void linalg_share(int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx)
{
    struct turns t = { .owner = pthread_self(), .next = 1, .n = n, .fn = fn, .ctx = ctx };
    if (n == 0)
        return;
    pool_for(n < pool_threads() ? n : pool_threads(), 1, take_turns, &t);
    take_turns(&t, 0, 0); /* others may have taken this thread's call, but not its part */
}

/* ---- batches */

/* The first one is kept. */
static void note_failure(struct linalg_job *j, int64_t i)
{
    long long first = atomic_load(&j->failed);
    while (i < first && !atomic_compare_exchange_weak(&j->failed, &first, i)) {}
}

/* Matrices begin..end by one thread, with the job's scratch at `room`. */
static void some_with(struct linalg_job *j, char *room, int64_t begin, int64_t end)
{
    struct scratch s = { .p = room };
    blas_enter();
    for (int64_t i = begin; i < end; i++) {
        s.used = 0;
        if (j->one(j, i, &s))
            note_failure(j, i);
    }
    blas_leave();
}

static void some(void *ctx, int64_t begin, int64_t end)
{
    struct linalg_job *j = ctx;
    char *room = mx_try_malloc(j->scratch + 1);
    if (room)
        some_with(j, room, begin, end);
    else
        atomic_store(&j->no_memory, true);
    free(room);
}

/* All of them, each by all threads.  Pages of a buffer are those of the last one. */
static int one_after_another(struct linalg_job *j)
{
    struct buffer *b = buffer_new(j->scratch + 1);
    if (!b)
        return 1;
    some_with(j, b->host, 0, j->count);
    buffer_release(b);
    return 0;
}

/* Groups begin..end of as many as there are lanes. */
static void some_small(void *ctx, int64_t begin, int64_t end)
{
    struct linalg_job *j = ctx;
    for (int64_t g = begin; g < end; g++) {
        int64_t first = g * j->lanes, failed = j->small(j, first, (int)least(j->lanes, j->count - first));
        if (failed >= 0)
            note_failure(j, failed);
    }
}

static int64_t work_of(const struct linalg_job *j) { return 1 + (int64_t)(j->m < j->n ? j->m : j->n) * j->m * j->n; }

/* Non-zero after mx_fail, for lack of memory or of OpenBLAS. */
static int run_one_by_one(struct linalg_job *j, const char *name)
{
    struct scratch measure = { NULL, 0 };
    if (need_blas(name))
        return 1;
    if (j->one(j, 0, &measure) || j->count == 0)
        return 0;
    j->scratch = measure.used;
    if (j->shares && j->count < pool_threads())
        return one_after_another(j);
    pool_for(j->count, 1 + WORTH_FACTORED / work_of(j), some, j);
    if (!atomic_load(&j->no_memory))
        return 0;
    mx_fail_memory(j->scratch);
    return 1;
}

/* Small square ones lie side by side in registers, and need no OpenBLAS. */
static bool are_small(const struct linalg_job *j)
{
    return j->small && j->m == j->n && j->n > 0 && j->n <= FACTOR_MOST && (!j->b || (j->k > 0 && j->k <= FACTOR_MOST));
}

static int run_all(struct linalg_job *j, mx x, const char *name, enum factor_fault fault)
{
    atomic_init(&j->failed, INT64_MAX);
    atomic_init(&j->no_memory, false);
    j->lanes = cpu->factor->bytes / (int)dtype_size(x->dtype);
    if (are_small(j))
        pool_for(ceil_div(j->count, j->lanes), 1 + WORTH_SIDE_BY_SIDE / (work_of(j) * j->lanes), some_small, j);
    else if (run_one_by_one(j, name))
        return 1;
    long long failed = atomic_load(&j->failed);
    if (failed == INT64_MAX)
        return 0;
    return factor_report(name, fault, x->ndim - 2, x->shape, failed);
}

static const struct lapack *lapack_for(mx x)
{
    return x->dtype == DT_float64 ? &lapack_f64 : x->dtype == DT_complex64 ? &lapack_c64 : &lapack_f32;
}

/* Operands made row-major, results given memory, and the job done. */
static int run_linalg(const struct run *r, struct linalg_job *j, const char *name, enum factor_fault fault)
{
    MX_SCOPE(NULL);
    mx_own hold[2] = { { NULL }, { NULL } };
    mx x[2] = { NULL };
    int64_t count = matrix_count(r->x[0]);
    int failed = 0;
    bool empty = true; /* all results: then a matrix may have any size, and there may be any number of them */
    for (int k = 0; k < r->nout && !failed; k++) {
        failed = out_new(r, k);
        if (failed)
            break;
        empty &= r->y[k]->size == 0;
        j->y[k] = host(r->y[k]);
        j->y_size[k] = count ? (size_t)(nbytes(r->y[k]) / count) : 0;
    }
    for (int i = 0; i < r->nin && !failed && !empty; i++) {
        x[i] = row_major(r->x[i], &hold[i]);
        failed = is_nil(x[i]);
    }
    if (!failed && !empty) {
        j->m = dim(x[0], -2);
        j->n = dim(x[0], -1);
        j->k = r->nin > 1 ? dim(x[1], -1) : j->m < j->n ? j->m : j->n;
        j->a = host(x[0]);
        j->a_size = count ? (size_t)(nbytes(x[0]) / count) : 0;
        if (r->nin > 1) {
            j->b = host(x[1]);
            j->b_size = count ? (size_t)(nbytes(x[1]) / count) : 0;
        }
        j->count = count;
        failed = run_all(j, r->x[0], name, fault);
    }
    for (int i = 0; i < 2; i++) mx_drop(&hold[i]);
    return failed;
}

int run_inverse(const struct run *r)
{
    const struct part_args *g = r->args;
    const struct lapack *l = lapack_for(r->x[0]);
    struct linalg_job j = { .one = l->inverse, .small = l->small.inverse, .mode = g->part };
    return run_linalg(r, &j, factor_asker(r->node), FACTOR_SINGULAR);
}

int run_solve(const struct run *r)
{
    const struct part_args *g = r->args;
    const struct lapack *l = lapack_for(r->x[0]);
    struct linalg_job j = { .one = l->solve, .small = l->small.solve, .mode = g->part };
    return run_linalg(r, &j, factor_asker(r->node), FACTOR_SINGULAR);
}

int run_cholesky(const struct run *r)
{
    const struct part_args *g = r->args;
    const struct lapack *l = lapack_for(r->x[0]);
    struct linalg_job j = { .one = l->cholesky, .small = l->small.cholesky, .mode = g->part };
    return run_linalg(r, &j, "cholesky", FACTOR_INDEFINITE);
}

#define PLAIN(name, asker, fault, small_one)                          \
    int run_##name(const struct run *r)                               \
    {                                                                 \
        const struct lapack *l = lapack_for(r->x[0]);                 \
        struct linalg_job j = { .one = l->name, .small = small_one }; \
        return run_linalg(r, &j, #asker, fault);                      \
    }
PLAIN(det, det, FACTOR_SINGULAR, l->small.det)
PLAIN(slogdet, slogdet, FACTOR_SINGULAR, l->small.slogdet)
PLAIN(cofactor, det, FACTOR_SLOW, NULL)
PLAIN(pinv, pinv, FACTOR_SLOW, NULL)
PLAIN(qr, qr, FACTOR_SLOW, NULL)
PLAIN(lu, lu, FACTOR_SINGULAR, l->small.lu)

int run_svd(const struct run *r)
{
    struct linalg_job j = { .one = lapack_for(r->x[0])->svd, .mode = ((const struct svd_args *)r->args)->mode };
    return run_linalg(r, &j, "svd", FACTOR_SLOW);
}

int run_eigh(const struct run *r)
{
    const struct eigh_args *g = r->args;
    struct linalg_job j = { .one = lapack_for(r->x[0])->eigh, .mode = g->part, .vectors = g->vectors };
    return run_linalg(r, &j, g->vectors ? "eigh" : "eigvalsh", FACTOR_SLOW);
}

int run_eig(const struct run *r)
{
    struct linalg_job j = { .one = lapack_for(r->x[0])->eig, .vectors = ((const struct eig_args *)r->args)->vectors };
    return run_linalg(r, &j, j.vectors ? "eig" : "eigvals", FACTOR_SLOW);
}
