/* emulator.c: see emulator.h. */
#include "support/emulator.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define FIBERS
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined FIBERS
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *size);
#define START_SWITCH(...) __sanitizer_start_switch_fiber(__VA_ARGS__)
#define FINISH_SWITCH(...) __sanitizer_finish_switch_fiber(__VA_ARGS__)
#define UNSEEN __attribute__((noinline, no_sanitize("address")))
#else
#define START_SWITCH(fake, bottom, size) ((void)(fake), (void)(bottom), (void)(size))
#define FINISH_SWITCH(fake, bottom, size) ((void)(fake), (void)(bottom), (void)(size))
#define UNSEEN __attribute__((noinline))
#endif

/* What is left to go on later.  swapcontext asks the kernel about signals each time, and a sanitizer clears the stack
 * for it and for longjmp; the compiler's own jump does neither.  Of registers it keeps two: who left is a function that
 * is called, and so has put the others on its stack. */
struct place {
    ucontext_t at; /* where it begins */
    void *left[5];
};
UNSEEN static void go_on(struct place *p) { __builtin_longjmp(p->left, 1); }
UNSEEN static void change(struct place *from, struct place *to, bool begun)
{
    if (__builtin_setjmp(from->left))
        return;
    if (begun)
        go_on(to);
    setcontext(&to->at);
}

struct emulated_place threadIdx, blockIdx, blockDim, gridDim;

enum { THREADS = 1024, WARP = 32, STACK = 128 << 10, VALUE = 64 };
enum state { UNBEGUN, RUNS, AT_BARRIER, AT_SHUFFLE, AT_SIGNAL, LEFT };

/* A stack that runs one thread after the other, until one of them waits, which then keeps it. */
struct fiber {
    struct place here;
    char *stack;
    void *fake_stack;
    int thread; /* -1: idle */
};

static struct thread {
    enum state state;
    struct fiber *on;
    const char *file; /* where it waits */
    int line;
    unsigned turn; /* its shuffles so far: two values in turn, since others may still read the last one */
    const struct emulated_signal *signal; /* it waits for */
    unsigned parity;
} threads[THREADS];
static _Alignas(64) char values[THREADS / WARP][2][WARP * VALUE]; /* of a warp's threads, one behind the other */

static struct fiber fibers[THREADS], *running;
static struct place scheduler;
static void *scheduler_fake;
static const void *scheduler_stack;
static size_t scheduler_size;
static emulated_fn *kernel;
static void **arguments;
static int count, next;
static bool backwards;

static void die(const char *what, int a, int b)
{
    const struct thread *t = &threads[a], *u = &threads[b];
    fprintf(stderr, "emulator: %s: thread %d at %s:%d, thread %d at %s:%d\n", what, a, t->file ? t->file : "its end",
            t->line, b, u->file ? u->file : "its end", u->line);
    abort();
}

static void place_thread(int t)
{
    unsigned n = (unsigned)t;
    threadIdx = (struct emulated_place){ n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y };
}

static void leave_fiber(struct fiber *f)
{
    START_SWITCH(&f->fake_stack, scheduler_stack, scheduler_size);
    change(&f->here, &scheduler, true);
    FINISH_SWITCH(f->fake_stack, &scheduler_stack, &scheduler_size);
}

static void fiber_main(void)
{
    struct fiber *f = running;
    FINISH_SWITCH(NULL, &scheduler_stack, &scheduler_size);
    for (;;) {
        while (next < count) {
            int t = backwards ? count - 1 - next : next;
            next++;
            threads[t] = (struct thread){ .state = RUNS, .on = f };
            f->thread = t;
            place_thread(t);
            kernel(arguments);
            threads[t].state = LEFT;
            threads[t].file = NULL;
        }
        f->thread = -1;
        leave_fiber(f);
    }
}

static void enter_fiber(struct fiber *f)
{
    bool begun = f->stack;
    running = f;
    if (!begun) {
        f->stack = aligned_alloc(64, STACK);
        getcontext(&f->here.at);
        f->here.at.uc_stack.ss_sp = f->stack;
        f->here.at.uc_stack.ss_size = STACK;
        makecontext(&f->here.at, fiber_main, 0);
    }
    START_SWITCH(&scheduler_fake, f->stack, STACK);
    change(&scheduler, &f->here, begun);
    FINISH_SWITCH(scheduler_fake, NULL, NULL);
}

static void wait_at(enum state s, const char *file, int line)
{
    struct thread *t = &threads[running->thread];
    t->state = s;
    t->file = file;
    t->line = line;
    struct emulated_place me = threadIdx;
    leave_fiber(running);
    threadIdx = me;
}

/* Lets threads first to first + n go on that all wait so, at one place; those that have left may be missing at a
 * barrier, not in a warp that exchanges values. */
static bool release(enum state s, int first, int n)
{
    int one = -1;
    for (int i = first; i < first + n; i++) {
        if (threads[i].state == LEFT)
            continue;
        if (threads[i].state != s)
            return false;
        if (one >= 0 && (threads[i].line != threads[one].line ||
                         (threads[i].file != threads[one].file && strcmp(threads[i].file, threads[one].file))))
            die("threads wait at different places", one, i);
        one = i;
    }
    for (int i = first; i < first + n && one >= 0; i++) {
        if (s == AT_SHUFFLE && threads[i].state == LEFT)
            die("a thread of the warp has left", one, i);
        if (threads[i].state == s)
            threads[i].state = RUNS;
    }
    return one >= 0;
}

/* Lets a thread go on that waits for a signal which has come. */
static bool release_one(struct thread *t)
{
    if (t->state != AT_SIGNAL || t->signal->phase == t->parity)
        return false;
    t->state = RUNS;
    return true;
}

static void run_block(void)
{
    next = 0;
    for (int i = 0; i < count; i++) threads[i].state = UNBEGUN;
    for (int i = 0; next < count; i++) {
        fibers[i].thread = -1;
        enter_fiber(&fibers[i]);
    }
    for (;;) {
        bool any = release(AT_BARRIER, 0, count);
        for (int w = 0; w < count; w += WARP) any |= release(AT_SHUFFLE, w, count - w < WARP ? count - w : WARP);
        for (int i = 0; i < count; i++) any |= release_one(&threads[i]);
        int waits = -1;
        for (int i = 0; i < count; i++) {
            int t = backwards ? count - 1 - i : i;
            if (threads[t].state == RUNS)
                enter_fiber(threads[t].on);
            else if (threads[t].state != LEFT)
                waits = t;
        }
        if (!any) {
            if (waits < 0)
                return;
            for (int i = 0; i < count; i++)
                if (threads[i].state != threads[waits].state || threads[i].state == AT_SIGNAL)
                    die("threads wait for each other", waits, i);
        }
    }
}

void emulated_launch(emulated_fn *f, void **args, struct emulated_place grid, struct emulated_place block)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    kernel = f;
    arguments = args;
    gridDim = grid;
    blockDim = block;
    count = (int)(block.x * block.y * block.z);
    if (count < 1 || count > THREADS) {
        fprintf(stderr, "emulator: %d threads in a block\n", count);
        abort();
    }
    bool last_first = getenv("PRETEND_LAST_FIRST") != NULL; /* blocks come in any order */
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = (struct emulated_place){ last_first ? grid.x - 1 - x : x, y, z };
                backwards = x & 1;
                run_block();
            }
    pthread_mutex_unlock(&one);
}

void emulated_barrier(const char *file, int line) { wait_at(AT_BARRIER, file, line); }

void emulated_arrive(struct emulated_signal *s)
{
    if (++s->arrived < s->count)
        return;
    s->arrived = 0;
    s->phase ^= 1;
}

void emulated_wait(const struct emulated_signal *s, unsigned parity, const char *file, int line)
{
    struct thread *t = &threads[running->thread];
    t->signal = s;
    t->parity = parity;
    if (s->phase == parity)
        wait_at(AT_SIGNAL, file, line);
}

const void *emulated_gather(const void *value, size_t size, const char *file, int line)
{
    int me = running->thread;
    char *all = values[me / WARP][threads[me].turn++ & 1];
    if (size > VALUE)
        die("a value too large to exchange", me, me);
    memcpy(all + (unsigned)me % WARP * size, value, size);
    wait_at(AT_SHUFFLE, file, line);
    return all;
}

void emulated_shuffle_xor(void *value, size_t size, unsigned bits, const char *file, int line)
{
    const char *all = emulated_gather(value, size, file, line);
    int me = running->thread, other = me ^ (int)(bits % WARP);
    memcpy(value, all + (unsigned)(other < count ? other : me) % WARP * size, size);
}

/* ---- modules */

static struct emulated_kernels *modules;

void emulated_add(struct emulated_kernels *k)
{
    k->next = modules;
    modules = k;
}

emulated_fn *emulated_find(const char *name)
{
    for (const struct emulated_kernels *m = modules; m; m = m->next)
        for (const struct emulated_kernel *k = m->list; k->name; k++)
            if (!strcmp(k->name, name))
                return k->run;
    return NULL;
}

const struct emulated_kernel *emulated_kernel_of(emulated_fn *run)
{
    for (const struct emulated_kernels *m = modules; m; m = m->next)
        for (const struct emulated_kernel *k = m->list; k->name; k++)
            if (k->run == run)
                return k;
    return NULL;
}
