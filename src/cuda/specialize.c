/* specialize.c: which element-wise programs get kernels of their own, and when.
 *
 * A program that has been launched a few times, of few elements more often, is put into a table, which only grows, up
 * to MOST; a thread has those compiled that are waiting, one after the other, and publishes each kernel when it is
 * loaded. Whoever launches never waits, and takes the interpreter until then, and for good where compiling fails.
 *
 * A compile cannot be broken off.  So the thread has a lock during each, which who forks waits for, and the end of the
 * process as well, before anything that is done at exit: NVRTC and the driver register some of that while they work,
 * and it must not be done under them. */
#include "cuda/specialize.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/pool.h"
#include "core/settings.h"
#include "cuda/libraries.h"

/* Of few elements a program has to come often, and leaves room for others. */
enum {
    PLACES = 512,
    MOST = PLACES / 2,
    SEEN = 1024,
    LAUNCHES = 3,
    LEAST = 1 << 16,
    LAUNCHES_OF_FEW = 48,
    COUNTED = 63
};

struct program {
    uint64_t hash;
    struct program *next; /* that waits to be compiled */
    struct gpu *gpu;
    int64_t each;
    void *_Atomic kernel; /* NULL: not yet, or never */
    struct specialized is;
};

static struct program *_Atomic table[PLACES]; /* from hash % PLACES on, without gaps */
static _Atomic uint64_t seen[SEEN];           /* a hash, and in its lowest bits how many launches there were */
static atomic_int programs;
static atomic_size_t ready, waiting;
LOCK(queueing, LOCK_LEAF); /* of the table's growth and of what follows */
static struct program *first, **last = &first;
static bool works; /* the thread */
LOCK(compiling, LOCK_GRAPH);
static atomic_bool off, ended;

/* ---- whether */

static enum specialize { SPECIALIZE_OFF, SPECIALIZE_LATER, SPECIALIZE_NOW } asked(void)
{
    static const char *const words[] = { "0", "1", "now", NULL };
    static atomic_int kept;
    return (enum specialize)setting_word_kept(&kept, "MLX_SPECIALIZE", words, SPECIALIZE_LATER);
}

/* ---- programs */

static size_t size_of_key(const struct specialized *p)
{
    return offsetof(struct specialized, step) + p->steps * sizeof *p->step;
}
_Static_assert(offsetof(struct specialized, step) % 8 == 0 && sizeof(struct fused_step) == 8, "words of a hash");

static uint64_t hash_of(const struct specialized *p)
{
    const char *bytes = (const char *)p;
    uint64_t h = 0x9e3779b97f4a7c15u, word;
    for (size_t i = 0; i < size_of_key(p); i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        h = (h ^ word) * 0xd6e8feb86659fd93u;
        h ^= h >> 32;
    }
    return h;
}

static void make_key(struct specialized *p, const struct gpu *g, const struct fused_args *a, bool few)
{
    memset(p, 0, offsetof(struct specialized, step));
    p->gpu = (uint8_t)g->number;
    p->few = few;
    p->steps = (uint8_t)a->steps;
    p->operands = (uint8_t)a->operands;
    p->lanes = (uint8_t)a->lanes;
    p->ndim = (uint8_t)a->ndim;
    p->whole = (uint8_t)a->whole;
    p->near = (uint8_t)a->near;
    for (int i = 0; i < a->operands; i++) {
        const struct fused_operand *o = &a->x[i];
        bool same = o->lies == FUSED_STRIDED && a->whole && !o->stride[a->ndim - 1];
        p->type[i] = (uint8_t)o->type;
        p->lies[i] = (uint8_t)(same ? FUSED_SAME : o->lies);
    }
    memcpy(p->step, a->step, (size_t)a->steps * sizeof *a->step);
}

static struct program *find(const struct specialized *is, uint64_t hash, size_t *place)
{
    size_t i = hash % PLACES, size = size_of_key(is);
    struct program *p;
    while ((p = atomic_load_explicit(&table[i], memory_order_acquire)) &&
           (p->hash != hash || size_of_key(&p->is) != size || memcmp(&p->is, is, size)))
        i = (i + 1) % PLACES;
    *place = i;
    return p;
}

/* Has it been launched often enough?  Programs of one place forget each other. */
static bool is_due(uint64_t hash, uint64_t launches)
{
    _Atomic uint64_t *at = &seen[hash % SEEN];
    uint64_t was = atomic_load_explicit(at, memory_order_relaxed), name = hash & ~(uint64_t)COUNTED;
    uint64_t count = (was & ~(uint64_t)COUNTED) == name ? (was & COUNTED) + 1 : 1;
    atomic_store_explicit(at, name | (count < launches ? count : launches - 1), memory_order_relaxed);
    return count >= launches;
}

/* ---- compiling */

static void end_compiling(void)
{
    if (atomic_exchange(&ended, true)) /* no compile begins any more */
        return;
    lock_take(&compiling);
    lock_give(&compiling); /* the first thread may leave by pthread_exit, and others fork */
}

/* exit() runs the destructors of its thread's variables before everything else, and that thread is mostly the first,
 * which mostly loads the library.  glibc's function under C++'s thread_local; C has no other name for it. */
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *) __attribute__((weak));
extern void *__dso_handle;
static void end_thread(void *unused)
{
    (void)unused;
    end_compiling();
}
__attribute__((constructor)) static void wait_before_exit(void)
{
    if (__cxa_thread_atexit_impl && syscall(SYS_gettid) == getpid())
        (void)__cxa_thread_atexit_impl(end_thread, NULL, &__dso_handle);
}

/* For an exit() of another thread.  Kernels that are kept on disk are loaded by our thread too, which the driver's end
 * must not meet. */
static void wait_at_exit(void)
{
    static atomic_bool registered;
    if (!atomic_exchange(&registered, true))
        (void)atexit(end_compiling);
}

static atomic_bool warm;
static void *warm_up(void *gpu)
{
    specialized_warm_up(gpu);
    atomic_store(&warm, true);
    return NULL;
}

/* What NVRTC registers to be done at exit, when it compiles for the first time, would be done before what has been
 * registered earlier: our wait is registered again and again meanwhile. */
static void begin_compiling(struct gpu *g)
{
    pthread_t t;
    if (atomic_load(&warm))
        return;
    bool started = thread_start(&t, warm_up, g);
    while (started && !atomic_load(&warm)) {
        (void)atexit(end_compiling);
        usleep(1000);
    }
    if (started)
        pthread_join(t, NULL);
    (void)atexit(end_compiling);
}

/* A program that cannot be compiled stays the interpreter's; the first is told of. */
static void give_up(const struct program *p)
{
    static atomic_bool told;
    if (!atomic_exchange(&told, true))
        cuda_tried(CUDA_nvrtc, "an element-wise program", p->gpu->number,
                   mx_failed() ? mx_error_message() : "no memory");
    mx_error_clear();
}

static void compile_one(struct program *p)
{
    size_t size;
    void *module = NULL, *kernel = NULL;
    char *text = specialized_text(&p->is, &p->each);
    char *image = text && gpu_use(p->gpu->number) ? specialized_image(p->gpu, text, begin_compiling, &size) : NULL;
    int e = image ? cu.module_load(&module, image) : 0;
    if (image && !e)
        e = cu.module_function(&kernel, module, "cu_specialized");
    if (e)
        cuda_fail("cuda", e);
    if (kernel) {
        atomic_store_explicit(&p->kernel, kernel, memory_order_release);
        atomic_fetch_add(&ready, 1);
    } else {
        give_up(p);
    }
    free(image);
    free(text);
    atomic_fetch_sub(&waiting, 1);
}

/* The next one; NULL: the thread may go. */
static struct program *next_program(void)
{
    lock_take(&queueing);
    struct program *p = atomic_load(&off) || atomic_load(&ended) ? NULL : first;
    if (p && !(first = p->next))
        last = &first;
    works = p;
    lock_give(&queueing);
    return p;
}

static void compile_next(struct program *p)
{
    if (specialized_compiler()) {
        compile_one(p);
    } else {
        atomic_store(&off, true);
        atomic_store(&waiting, 0);
    }
}

static void *compile_all(void *arg)
{
    for (struct program *p; (p = next_program());) {
        lock_take(&compiling);
        if (!atomic_load(&ended))
            compile_next(p);
        lock_give(&compiling);
    }
    return arg;
}

/* Under the lock. */
static void queue_program(struct program *p)
{
    pthread_t t;
    *last = p;
    last = &p->next;
    if (works)
        return;
    wait_at_exit();
    works = thread_start(&t, compile_all, NULL);
    if (works)
        pthread_detach(t);
}

/* Puts it into the table, and has it compiled; NULL: there is no room. */
static struct program *add_program(const struct specialized *is, uint64_t hash, struct gpu *g, bool now)
{
    size_t place;
    lock_take(&queueing);
    struct program *there = find(is, hash, &place), *p = there;
    if (!p && atomic_load(&programs) < MOST && (p = mx_try_malloc(sizeof *p))) {
        *p = (struct program){ .hash = hash, .gpu = g };
        memcpy(&p->is, is, size_of_key(is));
        atomic_store_explicit(&table[place], p, memory_order_release);
        atomic_fetch_add(&programs, 1);
        atomic_fetch_add(&waiting, 1);
        if (!now)
            queue_program(p);
    }
    lock_give(&queueing);
    if (now && p && !there)
        compile_next(p);
    return p;
}

void *gpu_specialized(struct gpu *g, const struct fused_args *a, bool few, int64_t *each)
{
    enum specialize how = asked();
    struct specialized is;
    size_t place;
    if (how == SPECIALIZE_OFF || atomic_load_explicit(&off, memory_order_relaxed))
        return NULL;
    bool small = a->n < LEAST;
    make_key(&is, g, a, few);
    uint64_t hash = hash_of(&is);
    struct program *p = find(&is, hash, &place);
    if (!p &&
        atomic_load_explicit(&programs, memory_order_relaxed) < (small && how == SPECIALIZE_LATER ? MOST / 2 : MOST) &&
        (how == SPECIALIZE_NOW || is_due(hash, small ? LAUNCHES_OF_FEW : LAUNCHES)))
        p = add_program(&is, hash, g, how == SPECIALIZE_NOW);
    void *kernel = p ? atomic_load_explicit(&p->kernel, memory_order_acquire) : NULL;
    if (kernel)
        *each = p->each;
    return kernel;
}

void gpu_count_specialized(size_t *n_ready, size_t *n_waiting)
{
    *n_ready = atomic_load(&ready);
    *n_waiting = atomic_load(&waiting);
}
