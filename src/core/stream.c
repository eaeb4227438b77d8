/* stream.c: devices, streams and events.
 *
 * Streams are few and live as long as the process, in a list that only grows, so it is read without a
 * lock.  One lock and one condition serve all events; a waiter spins a little first, since most of
 * what is waited for ends within microseconds. */
#include "core/stream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/lock.h"
#include "core/settings.h"

/* ---- devices */

static const struct device_class *classes[2];
static _Atomic int default_type = -1; /* -1: nobody has asked for it or set it */
static _Atomic int default_index;

void devices_register(const struct device_class *c) { classes[c->type] = c; }
const struct device_class *devices_of(enum device_type t) { return classes[t]; }

/* MLX_GPU=cpu: programs that ask for the GPU get the CPU, and there is no other. */
static bool cpu_stands_in(void)
{
    static const char *const words[] = { "cpu", NULL };
    static atomic_int kept;
    return setting_word_kept(&kept, "MLX_GPU", words, -1) == 0;
}

static struct device meant(struct device d)
{
    return d.type == DEVICE_GPU && cpu_stands_in() ? (struct device){ DEVICE_CPU, 0 } : d;
}

int device_count(enum device_type t)
{
    int count = classes[t] && !(t == DEVICE_GPU && cpu_stands_in()) ? classes[t]->count() : 0;
    return count < DEVICES_MOST ? count : DEVICES_MOST;
}

/* MLX_DEFAULT_DEVICE=cpu or gpu; otherwise a GPU where there is one. */
static enum device_type first_choice(void)
{
    static const char *const words[] = { "cpu", "gpu", NULL };
    static const enum device_type types[] = { DEVICE_CPU, DEVICE_GPU };
    int word = setting_word("MLX_DEFAULT_DEVICE", words, -1);
    return word >= 0 ? types[word] : device_count(DEVICE_GPU) > 0 ? DEVICE_GPU : DEVICE_CPU;
}

bool thread_device(struct device *d)
{
    const struct thread *mine = this_thread();
    *d = (struct device){ (enum device_type)mine->device_type, mine->device_index };
    return mine->has_device;
}

struct device default_device(void)
{
    struct device d;
    if (thread_device(&d))
        return d;
    int t = atomic_load_explicit(&default_type, memory_order_relaxed);
    if (t < 0) {
        int first = (int)first_choice();
        if (atomic_compare_exchange_strong(&default_type, &t, first))
            t = first;
    }
    return (struct device){ (enum device_type)t, atomic_load_explicit(&default_index, memory_order_relaxed) };
}

static bool device_exists(struct device d)
{
    if (d.index >= 0 && d.index < device_count(d.type))
        return true;
    mx_fail("[device] there is no %s: this machine has %d %s device(s)%s", device_text(d), device_count(d.type),
            d.type == DEVICE_GPU ? "gpu" : "cpu",
            d.type == DEVICE_GPU ? "; with MLX_GPU=cpu in the environment the CPU stands in" : "");
    return false;
}

int set_default_device(struct device d)
{
    d = meant(d);
    if (!device_exists(d))
        return 1;
    if (this_thread()->has_device)
        return set_thread_device(&d);
    atomic_store(&default_index, d.index);
    atomic_store(&default_type, (int)d.type);
    return 0;
}

int set_thread_device(const struct device *d)
{
    if (d && !device_exists(meant(*d)))
        return 1;
    struct thread *mine = this_thread();
    struct device it = d ? meant(*d) : (struct device){ 0 };
    mine->has_device = d != NULL;
    mine->device_type = (int)it.type;
    mine->device_index = it.index;
    return 0;
}

const char *device_text(struct device d)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "Device(%s, %d)", d.type == DEVICE_GPU ? "gpu" : "cpu", d.index);
    return text;
}

/* ---- streams */

static struct stream *_Atomic newest;
#define FOR_EACH_STREAM(s) for (struct stream *s = atomic_load_explicit(&newest, memory_order_acquire); s; s = s->older)
static struct stream *_Atomic first_stream[2][DEVICES_MOST]; /* each device's default */

struct stream *stream_new(struct device d)
{
    d = meant(d);
    if (!device_exists(d))
        return NULL;
    struct stream *s = mx_malloc(sizeof *s);
    if (!s)
        return NULL;
    *s = (struct stream){ .device = d, .on = classes[d.type] };
    s->queue = s->on->open(s);
    if (!s->queue) {
        free(s);
        return NULL;
    }
    s->older = atomic_load_explicit(&newest, memory_order_acquire);
    do s->index = s->older ? s->older->index + 1 : 0;
    while (!atomic_compare_exchange_weak_explicit(&newest, &s->older, s, memory_order_acq_rel, memory_order_acquire));
    return s;
}

/* That of d, if it has one; who has one exists. */
static inline struct stream *stream_there(struct device d)
{
    if (d.index < 0 || d.index >= DEVICES_MOST)
        return NULL;
    struct stream *s = this_thread()->stream[d.type][d.index];
    return s ? s : atomic_load_explicit(&first_stream[d.type][d.index], memory_order_acquire);
}

struct stream *thread_stream(void) { return default_stream(default_device()); }

struct stream *default_stream(struct device d)
{
    d = meant(d);
    struct stream *s = stream_there(d);
    if (s)
        return s;
    if (!device_exists(d))
        return NULL;
    s = stream_new(d);
    struct stream *none = NULL;
    if (s && !atomic_compare_exchange_strong(&first_stream[d.type][d.index], &none, s))
        return none; /* another thread was first; ours stays in the list, unused */
    return s;
}

void set_default_stream(struct stream *s) { this_thread()->stream[s->device.type][s->device.index] = s; }

int stream_synchronize(struct stream *s)
{
    MX_UNCANCELLED;
    int failed = s->on->synchronize(s);
    mx_run_releases();
    return failed;
}

int streams_synchronize_all(void)
{
    int failed = 0;
    FOR_EACH_STREAM(s) failed |= stream_synchronize(s);
    return failed;
}

int streams_clear(void)
{
    MX_UNCANCELLED;
    int stopped = 0;
    FOR_EACH_STREAM(s) stopped = stopped || s->on->rest(s);
    mx_run_releases();
    return stopped;
}

/* ---- why work failed */

/* There is always a reference to this one. */
static struct run_failure no_memory = { .refs = 1, .kind = MX_MEMORY };

struct run_failure *failure_new(enum mx_error kind, const char *message)
{
    struct run_failure *f = slab_new(sizeof *f);
    if (f)
        *f = (struct run_failure){ .refs = 1, .kind = kind, .message = message ? mx_try_strdup(message) : NULL };
    else
        failure_retain(f = &no_memory);
    return f;
}

void failure_release(struct run_failure *f)
{
    if (!last_goes(&f->refs))
        return;
    free(f->message);
    slab_free(f, sizeof *f);
}

void failure_tell(struct run_failure *f)
{
    if (mx_failed())
        return;
    mx_fail_computing(f->kind, f->message ? f->message : "out of memory");
    atomic_store_explicit(&f->told, f != &no_memory, memory_order_relaxed);
}

/* ---- events */

LOCK(event_lock, LOCK_LEAF);
/* Who waits for an event is woken with those of few others: a chain through thousands of streams has as many. */
enum { EVENT_CONDS = 256 };
static pthread_cond_t event_conds[EVENT_CONDS];
static pthread_cond_t *cond_of(const struct event *e) { return &event_conds[(uintptr_t)e / sizeof *e % EVENT_CONDS]; }

static unsigned forks; /* from the first process to this one */

static void make_conds(void)
{
    for (int i = 0; i < EVENT_CONDS; i++) pthread_cond_init(&event_conds[i], NULL);
}

static void reset_in_child(void)
{
    forks++;
    make_conds();
    FOR_EACH_STREAM(s)
        if (s->on->forked)
            s->on->forked(s);
}
__attribute__((constructor)) static void survive_fork(void)
{
    make_conds();
    pthread_atfork(NULL, NULL, reset_in_child);
}

struct event *event_new(struct stream *s)
{
    struct event *e = mx_slab(sizeof *e);
    if (e)
        *e = (struct event){ .refs = 1, .process = forks, .stream = s };
    return e;
}

void event_free(struct event *e)
{
    if (e->why)
        failure_release(e->why);
    slab_free(e, sizeof *e);
}

struct event *event_failed(struct run_failure *why)
{
    static struct event out_of_memory = { .refs = 1, .done = 1, .why = &no_memory };
    struct event *e = slab_new(sizeof *e);
    if (e) {
        *e = (struct event){ .refs = 1, .done = 1, .why = why };
    } else {
        failure_release(why);
        event_retain(e = &out_of_memory);
    }
    return e;
}

void event_set(struct event *e, struct run_failure *why)
{
    e->why = why;
    /* Either this thread sees that somebody waits, or who is about to sees that it is done. */
    atomic_store(&e->done, 1);
    if (!atomic_load(&e->awaited))
        return;
    lock_take(&event_lock);
    pthread_cond_broadcast(cond_of(e));
    lock_give(&event_lock);
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* What is nearly there is not slept for; what will never be is set. */
static bool spin(struct event *e)
{
    for (int i = 0; i < 200; i++) {
        if (atomic_load_explicit(&e->done, memory_order_acquire))
            return true;
        cpu_relax();
    }
    if (e->process != forks && !atomic_load(&e->done))
        event_set(e, failure_new(MX_RUNTIME, "[eval] this was being computed when the process forked, and only the "
                                             "parent will have it: evaluate before forking"));
    return atomic_load_explicit(&e->done, memory_order_acquire);
}

void event_wait(struct event *e)
{
    if (spin(e))
        return;
    lock_take(&event_lock);
    atomic_store(&e->awaited, true);
    while (!atomic_load(&e->done)) pthread_cond_wait(cond_of(e), &event_lock.mutex);
    lock_give(&event_lock);
}

struct timespec time_after(int ms)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += ms % 1000 * 1000000L;
    end.tv_sec += ms / 1000 + end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    return end;
}

bool event_wait_for(struct event *e, int ms)
{
    if (spin(e))
        return true;
    struct timespec end = time_after(ms);
    lock_take(&event_lock);
    atomic_store(&e->awaited, true);
    int late = 0;
    while (!late && !atomic_load(&e->done)) late = pthread_cond_timedwait(cond_of(e), &event_lock.mutex, &end);
    lock_give(&event_lock);
    return atomic_load_explicit(&e->done, memory_order_acquire);
}
