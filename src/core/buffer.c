/* buffer.c: reference-counted memory and the cache behind it.
 *
 * Sizes are rounded up to classes, four to an octave, so a freed block serves any later request of
 * about its size.  Small blocks (header and data in one) come from the slab, without a lock; larger
 * ones from shared bins.  Blocks of 2 MiB and more come from mmap, aligned for huge pages: writing to
 * a fresh page costs several times what writing to a recycled one does.
 *
 * Invariant: active is the sum of the capacities of live buffers, cached that of blocks in bins. */
#define _GNU_SOURCE
#include "core/buffer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"
#include "core/slab.h"
#include "core/stream.h"

enum {
    HEADER = 128,            /* struct buffer, padded so that data behind it is 64-byte aligned */
    SMALL = 1024,            /* bytes of data of the largest block that shares one piece with its header */
    BINS = 63 * 4,           /* four to an octave, up to the 2^63 bytes that a shape may ask for */
};
static const size_t HUGE = 2u << 20;

_Static_assert(sizeof(struct buffer) <= HEADER, "the header holds the struct");

static atomic_size_t active, peak, cached;
static atomic_size_t limit, cache_limit, wired_limit;
static atomic_long fail_at;

void mx_test_fail_at(long n) { atomic_store(&fail_at, n); }

bool mx_test_should_fail(void)
{
    if (__builtin_expect(atomic_load_explicit(&fail_at, memory_order_relaxed) == 0, 1))
        return false;
    return atomic_fetch_sub(&fail_at, 1) == 1;
}

void *mx_malloc(size_t bytes)
{
    void *p = mx_test_should_fail() ? NULL : malloc(bytes ? bytes : 1);
    if (!p)
        mx_fail_memory(bytes);
    return p;
}

void *mx_grown(void *old, int n, int *cap, size_t item)
{
    if (n < *cap)
        return old;
    int more = *cap ? *cap * 2 : 16;
    while (more <= n)
        more *= 2;
    void *p = mx_test_should_fail() ? NULL : realloc(old, (size_t)more * item);
    if (!p) {
        mx_fail_memory((size_t)more * item);
        return NULL;
    }
    *cap = more;
    return p;
}

/* ---- limits */

/* What the machine has, or the control group may use of it. */
static size_t physical_memory(void)
{
    static const char *const quotas[] = { "/sys/fs/cgroup/memory.max",
                                          "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
    size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE), quota;
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++) {
        FILE *f = fopen(quotas[i], "re");
        if (f && fscanf(f, "%zu", &quota) == 1 && quota > 0 && quota < all) /* or "max" */
            all = quota;
        if (f)
            fclose(f);
    }
    return all;
}

__attribute__((constructor)) static void set_default_limits(void)
{
    size_t all = physical_memory();
    atomic_store(&limit, all - all / 20);
    atomic_store(&cache_limit, all / 4 * 3);
}

size_t memory_active(void) { return atomic_load(&active); }
size_t memory_peak(void) { return atomic_load(&peak); }
size_t memory_cached(void) { return atomic_load(&cached); }
size_t memory_limit(void) { return atomic_load(&limit); }
void memory_reset_peak(void) { atomic_store(&peak, 0); } /* until something is allocated */
size_t memory_set_limit(size_t n) { return atomic_exchange(&limit, n); }
size_t memory_set_wired_limit(size_t n) { return atomic_exchange(&wired_limit, n); }

static void count_active(size_t bytes)
{
    size_t now = atomic_fetch_add_explicit(&active, bytes, memory_order_relaxed) + bytes;
    size_t seen = atomic_load_explicit(&peak, memory_order_relaxed);
    while (now > seen && !atomic_compare_exchange_weak(&peak, &seen, now))
        ;
}

void memory_count(int64_t bytes)
{
    if (bytes > 0)
        count_active((size_t)bytes);
    else
        atomic_fetch_sub_explicit(&active, (size_t)-bytes, memory_order_relaxed);
}

/* ---- blocks: memory of one size class */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

size_t memory_class(size_t bytes, int *bin)
{
    if (bytes < 256)
        bytes = 256;
    int e = 63 - __builtin_clzl(bytes - 1); /* 2^e < bytes <= 2^(e+1) */
    size_t quarter = (size_t)1 << (e - 2);
    size_t k = (bytes - ((size_t)1 << e) + quarter - 1) / quarter; /* 1..4 */
    *bin = e * 4 + (int)k - 1;
    return ((size_t)1 << e) + k * quarter;
}

static void *fresh(size_t bytes)
{
    if (bytes < HUGE)
        return aligned_alloc(64, round_up(bytes, 64));
    size_t span = round_up(bytes, HUGE);
    char *p = mmap(NULL, span + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *start = (char *)round_up((size_t)p, HUGE);
    if (start > p)
        munmap(p, (size_t)(start - p));
    munmap(start + span, HUGE - (size_t)(start - p));
    madvise(start, span, MADV_HUGEPAGE);
    return start;
}

static void discard(void *p, size_t bytes)
{
    if (bytes < HUGE)
        free(p);
    else
        munmap(p, round_up(bytes, HUGE));
}

/* ---- the shared bins */

struct block { struct block *next; size_t bytes; };
static struct bin {
    struct block *first;
    size_t n, idle; /* blocks; the fewest since the last sweep, so many of which nobody needed */
} bins[BINS];
static size_t traffic, most_cached; /* bytes since the last sweep: taken and put, cached at most */
static pthread_mutex_t bins_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_bins(void) { pthread_mutex_lock(&bins_lock); }
static void unlock_bins(void) { pthread_mutex_unlock(&bins_lock); }
__attribute__((constructor)) static void survive_fork(void)
{
    pthread_atfork(lock_bins, unlock_bins, unlock_bins);
}

/* With the lock held. */
static struct block *pop(struct bin *bin)
{
    struct block *b = bin->first;
    bin->first = b->next;
    bin->n--;
    if (bin->n < bin->idle)
        bin->idle = bin->n;
    atomic_fetch_sub(&cached, b->bytes);
    return b;
}

static void *bin_take(int bin)
{
    pthread_mutex_lock(&bins_lock);
    struct block *b = bins[bin].n ? pop(&bins[bin]) : NULL;
    if (b)
        traffic += b->bytes;
    pthread_mutex_unlock(&bins_lock);
    return b;
}

static void push(struct block **list, struct block *b)
{
    b->next = *list;
    *list = b;
}

static void discard_all(struct block *b)
{
    while (b) {
        struct block *next = b->next;
        discard(b, b->bytes);
        b = next;
    }
}

/* Gives back blocks, the largest first, until at most `keep` bytes are cached. */
static void trim(size_t keep)
{
    struct block *gone = NULL;
    pthread_mutex_lock(&bins_lock);
    for (int i = BINS; i-- > 0 && atomic_load(&cached) > keep;)
        while (bins[i].n && atomic_load(&cached) > keep)
            push(&gone, pop(&bins[i]));
    pthread_mutex_unlock(&bins_lock);
    discard_all(gone);
}

/* Takes out the blocks that nobody needed since the last sweep, and begins anew.  With the lock held. */
static struct block *sweep(void)
{
    struct block *gone = NULL;
    for (int i = 0; i < BINS; i++) {
        for (size_t k = bins[i].idle; k > 0; k--)
            push(&gone, pop(&bins[i]));
        bins[i].idle = bins[i].n;
    }
    traffic = 0;
    most_cached = atomic_load(&cached);
    return gone;
}

/* A program that does the same again and again takes and puts everything in the cache once a turn.  After the
 * traffic of two turns, what lay idle was left by something else. */
static bool time_to_sweep(void)
{
    enum { FEW = 64 << 20 };
    return traffic > 4 * (most_cached > FEW ? most_cached : FEW);
}

static void bin_put(void *p, int bin, size_t bytes)
{
    struct block *b = p, *gone;
    b->bytes = bytes;
    pthread_mutex_lock(&bins_lock);
    push(&bins[bin].first, b);
    bins[bin].n++;
    size_t now = atomic_fetch_add(&cached, bytes) + bytes;
    traffic += bytes;
    if (now > most_cached)
        most_cached = now;
    gone = time_to_sweep() ? sweep() : NULL;
    pthread_mutex_unlock(&bins_lock);
    discard_all(gone);
    if (now > atomic_load(&cache_limit))
        trim(atomic_load(&cache_limit));
}

size_t memory_set_cache_limit(size_t n)
{
    size_t was = atomic_exchange(&cache_limit, n);
    trim(n);
    return was;
}

/* Memory of one class, or NULL without a failure being kept. */
static void *take_block(size_t bytes, size_t *capacity)
{
    int bin;
    *capacity = memory_class(bytes, &bin);
    void *p = bin_take(bin);
    if (p)
        return p;
    size_t most = atomic_load(&limit);
    if (*capacity > most || memory_active() > most - *capacity)
        return NULL;
    if (memory_active() + memory_cached() + *capacity > most)
        trim(most - *capacity - memory_active());
    p = fresh(*capacity);
    if (!p) {
        trim(0);
        p = fresh(*capacity);
    }
    return p;
}

static void give_block(void *p, size_t capacity)
{
    int bin;
    memory_class(capacity, &bin);
    bin_put(p, bin, capacity);
}

void memory_clear_cache(void)
{
    slab_clear();
    trim(0);
}

/* ---- buffers */

/* ---- foreign memory: its owner is told on a thread of the user's, never on a worker or under a lock */

static struct buffer *_Atomic pending;
static _Thread_local bool deferring;

void buffer_defer_releases(bool on) { deferring = on; }

void buffer_run_releases(void)
{
    if (!atomic_load_explicit(&pending, memory_order_relaxed))
        return;
    struct buffer *b = atomic_exchange(&pending, NULL);
    while (b) {
        struct buffer *next = b->host;
        b->release(b->payload);
        free(b);
        b = next;
    }
}

static void release_foreign(struct buffer *b)
{
    if (!deferring) {
        b->release(b->payload);
        free(b);
        return;
    }
    b->host = atomic_load(&pending);
    while (!atomic_compare_exchange_weak(&pending, (struct buffer **)&b->host, b))
        ;
}

static struct buffer *header_new(void)
{
    struct buffer *b = mx_malloc(sizeof *b);
    if (b)
        *b = (struct buffer){ .refs = 1, .writable = true };
    return b;
}

/* Header and data in one piece. */
static struct buffer *small_new(size_t bytes)
{
    size_t capacity = bytes ? round_up(bytes, 64) : 64;
    if (memory_active() + capacity > memory_limit())
        return NULL;
    struct buffer *b = slab_new(HEADER + capacity);
    if (b)
        *b = (struct buffer){
            .refs = 1, .writable = true, .inside = true, .capacity = capacity, .host = (char *)b + HEADER,
        };
    return b;
}

static struct buffer *large_new(size_t bytes)
{
    size_t capacity;
    void *p = take_block(bytes, &capacity);
    if (!p)
        return NULL;
    struct buffer *b = header_new();
    if (!b) {
        give_block(p, capacity);
        return NULL;
    }
    b->capacity = capacity;
    b->host = p;
    return b;
}

struct buffer *buffer_new(size_t bytes)
{
    struct buffer *b = mx_test_should_fail() ? NULL : bytes <= SMALL ? small_new(bytes) : large_new(bytes);
    if (!b) {
        mx_fail_memory(bytes);
        return NULL;
    }
    b->state = ON_HOST;
    b->bytes = bytes;
    count_active(b->capacity);
    return b;
}

/* ---- sides on devices */

static bool same_device(const struct stream *a, const struct stream *b)
{
    return a->on == b->on && a->device.index == b->device.index;
}

static struct side *side_on(const struct buffer *b, const struct stream *s)
{
    struct side *d = atomic_load_explicit(&b->sides, memory_order_acquire);
    while (d && !same_device(d->stream, s)) d = d->next;
    return d;
}

void *buffer_on(const struct buffer *b, const struct stream *s)
{
    const struct side *d = side_on(b, s);
    return d ? d->p : NULL;
}

/* Memory whose bytes work queued on s is about to make. */
static struct side *side_new(struct buffer *b, struct stream *s)
{
    struct side *d = mx_malloc(sizeof *d);
    void *p = d ? s->on->alloc(s, b->bytes ? b->bytes : 1) : NULL;
    if (!p) {
        free(d);
        return NULL;
    }
    *d = (struct side){ .p = p, .stream = s, .mark = s->on->mark(s) };
    return d;
}

static void side_free(struct side *d, size_t bytes)
{
    if (d->reader)
        d->stream->on->follow(d->stream, d->reader, d->read);
    d->stream->on->free(d->stream, d->p, bytes ? bytes : 1);
    free(d);
}

/* Found by other threads from now on. */
static void side_add(struct buffer *b, struct side *d)
{
    d->next = atomic_load_explicit(&b->sides, memory_order_relaxed);
    atomic_store_explicit(&b->sides, d, memory_order_release);
}

struct buffer *buffer_new_on(struct stream *s, size_t bytes)
{
    struct buffer *b = mx_test_should_fail() ? mx_fail_memory(bytes), NULL : header_new();
    if (!b)
        return NULL;
    b->bytes = bytes;
    struct side *d = side_new(b, s);
    if (!d) {
        free(b);
        return NULL;
    }
    side_add(b, d);
    b->state = ON_DEVICE;
    return b;
}

/* What s queues from now on comes after the bytes are there, and they stay until then. */
static int read_on(struct side *d, struct stream *s)
{
    if (d->stream == s)
        return 0;
    int failed = s->on->follow(s, d->stream, d->mark);
    if (d->reader && d->reader != s)
        failed |= d->stream->on->follow(d->stream, d->reader, d->read);
    d->reader = s;
    d->read = s->on->mark(s);
    return failed;
}

static pthread_mutex_t moving = PTHREAD_MUTEX_INITIALIZER;

static int to_device(struct buffer *b, struct stream *s)
{
    struct side *d = side_new(b, s), *from;
    if (!d)
        return 1;
    int failed;
    if (atomic_load(&b->state) & ON_HOST) {
        failed = s->on->to_device(s, d->p, b->host, b->bytes);
    } else {
        for (from = atomic_load(&b->sides); from->stream->on != s->on; from = from->next)
            ;
        failed = read_on(from, s) || s->on->from_peer(s, d->p, from->stream, from->p, b->bytes);
    }
    if (failed) {
        side_free(d, b->bytes);
        return 1;
    }
    side_add(b, d);
    atomic_fetch_or(&b->state, ON_DEVICE);
    return 0;
}

int buffer_bring(struct buffer *b, struct stream *s)
{
    if (!s->on->alloc)
        return buffer_bring_host(b);
    struct side *d = side_on(b, s);
    if (d && d->stream == s)
        return 0;
    pthread_mutex_lock(&moving);
    d = side_on(b, s);
    int failed = d ? read_on(d, s) : to_device(b, s);
    pthread_mutex_unlock(&moving);
    return failed;
}

int buffer_bring_host(struct buffer *b)
{
    if (atomic_load_explicit(&b->state, memory_order_acquire) & ON_HOST)
        return 0;
    int failed = 0;
    pthread_mutex_lock(&moving);
    if (!(atomic_load(&b->state) & ON_HOST)) {
        const struct side *d = atomic_load(&b->sides);
        failed = buffer_need_host(b) || d->stream->on->to_host(d->stream, d->mark, b->host, d->p, b->bytes);
        if (!failed)
            atomic_fetch_or(&b->state, ON_HOST);
    }
    pthread_mutex_unlock(&moving);
    return failed;
}

int buffer_wait(struct buffer *b)
{
    const struct side *d = atomic_load_explicit(&b->sides, memory_order_acquire);
    return d && !(atomic_load_explicit(&b->state, memory_order_acquire) & ON_HOST) &&
           d->stream->on->wait(d->stream, d->mark);
}

void buffer_leave_devices(struct buffer *b)
{
    struct side *d = atomic_exchange(&b->sides, NULL);
    for (struct side *next; d; d = next) {
        next = d->next;
        side_free(d, b->bytes);
    }
    atomic_store(&b->state, ON_HOST);
}

struct buffer *buffer_wrap(void *memory, size_t bytes, bool writable, void (*release)(void *), void *payload)
{
    struct buffer *b = header_new();
    if (!b)
        return NULL;
    b->state = ON_HOST;
    b->writable = writable;
    b->bytes = bytes;
    b->host = memory;
    b->release = release;
    b->payload = payload;
    return b;
}

int buffer_need_host(struct buffer *b)
{
    if (b->host)
        return 0;
    b->host = take_block(b->bytes ? b->bytes : 1, &b->capacity);
    if (!b->host) {
        b->capacity = 0;
        mx_fail_memory(b->bytes);
        return 1;
    }
    count_active(b->capacity);
    return 0;
}

void buffer_retain(struct buffer *b) { atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed); }

void buffer_release(struct buffer *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (atomic_load_explicit(&b->sides, memory_order_relaxed))
        buffer_leave_devices(b);
    if (b->release) {
        release_foreign(b);
        return;
    }
    atomic_fetch_sub_explicit(&active, b->capacity, memory_order_relaxed);
    if (b->inside) {
        slab_free(b, HEADER + b->capacity);
        return;
    }
    if (b->host)
        give_block(b->host, b->capacity);
    free(b);
}
