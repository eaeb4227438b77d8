/* memory.c: the caches of freed memory, and what is counted.
 *
 * Sizes are rounded up to classes, four to an octave, so a freed block serves any later request of about its size.
 * The host's blocks of 2 MiB and more come from mmap, aligned for huge pages: writing to a fresh page costs several
 * times what writing to a recycled one does.  A device's block is handed out again on the stream that used it last
 * without waiting, since what comes later there is done later; another stream gets it when there is nothing fresh, and
 * follows the last use.
 *
 * Invariant: active is the sum of the capacities of what is taken, cached that of blocks in bins. */
#define _GNU_SOURCE
#include "core/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t HUGE = 2u << 20;

static atomic_size_t active, peak, devices_active;
static atomic_size_t limit, default_limit, cache_limit, wired_limit;
atomic_long mx_test_countdown;

void mx_test_fail_at(long n) { atomic_store(&mx_test_countdown, n); }
bool mx_test_counts_down(void) { return atomic_fetch_sub(&mx_test_countdown, 1) == 1; }

static bool refused(void)
{
    if (__builtin_expect(!mx_test_should_fail(), 1))
        return false;
    errno = ENOMEM;
    return true;
}

void *mx_try_malloc(size_t bytes) { return refused() ? NULL : malloc(bytes ? bytes : 1); }
void *mx_try_realloc(void *old, size_t bytes) { return refused() ? NULL : realloc(old, bytes ? bytes : 1); }
void *mx_try_aligned(size_t bytes) { return refused() ? NULL : aligned_alloc(64, (bytes / 64 + 1) * 64); }

static char *copied(const char *s, void *to(size_t))
{
    size_t bytes = strlen(s) + 1;
    char *copy = to(bytes);
    return copy ? memcpy(copy, s, bytes) : NULL;
}

char *mx_try_strdup(const char *s) { return copied(s, mx_try_malloc); }
char *mx_strdup(const char *s) { return copied(s, mx_malloc); }

void *mx_malloc(size_t bytes)
{
    void *p = mx_try_malloc(bytes);
    if (!p)
        mx_fail_memory(bytes);
    return p;
}

void *mx_calloc(size_t n, size_t item)
{
    void *p = refused() ? NULL : calloc(n ? n : 1, item);
    if (!p)
        mx_fail_memory(n * item);
    return p;
}

void *mx_grow(void *old, int n, int *cap, size_t item)
{
    int more = *cap ? *cap * 2 : 16;
    while (more <= n) more *= 2;
    void *p = mx_try_realloc(old, (size_t)more * item);
    if (!p) {
        mx_fail_memory((size_t)more * item);
        return NULL;
    }
    *cap = more;
    return p;
}

void *mx_grow_from(const void *few, void *old, int n, int *cap, size_t item)
{
    int had = *cap;
    void *p = mx_grow(old == few ? NULL : old, n, cap, item);
    return p && old == few ? memcpy(p, few, (size_t)had * item) : p;
}

/* ---- the host's */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static void *host_fresh(struct memory *m, size_t bytes, struct stream *s)
{
    (void)m;
    (void)s;
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

static void host_discard(struct memory *m, const struct memory_block *b)
{
    (void)m;
    if (b->bytes < HUGE)
        free(b->p);
    else
        munmap(b->p, round_up(b->bytes, HUGE));
}

struct memory host_memory = { .fresh = host_fresh, .discard = host_discard, .lock.mutex = PTHREAD_MUTEX_INITIALIZER };

/* What the machine has, or the control group may use of it. */
static size_t physical_memory(void)
{
    static const char *const quotas[] = { "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
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

/* ---- all of them */

static struct memory *_Atomic memories = &host_memory;
#define FOR_EACH_MEMORY(m) for (struct memory *m = atomic_load(&memories); m; m = m->next)

static void empty_memory(struct memory *m)
{
    m->spare = -1;
    for (int i = 0; i < MEMORY_BINS; i++) m->bins[i].first = -1;
}

void memory_open(struct memory *m)
{
    lock_open(&m->lock, LOCK_LEAF);
    m->device = true;
    empty_memory(m);
    m->next = atomic_load(&memories);
    while (!atomic_compare_exchange_weak(&memories, &m->next, m))
        ;
}

__attribute__((constructor)) static void set_up(void)
{
    size_t all = physical_memory();
    atomic_store(&default_limit, all - all / 20);
    atomic_store(&limit, all - all / 20);
    atomic_store(&cache_limit, all / 4 * 3);
    empty_memory(&host_memory);
    lock_survives(&host_memory.lock, LOCK_LEAF);
}

/* ---- statistics and limits */

size_t memory_active(void) { return atomic_load(&active); }
size_t memory_peak(void) { return atomic_load(&peak); }
size_t memory_limit(void) { return atomic_load(&limit); }
void memory_reset_peak(void) { atomic_store(&peak, 0); } /* until something is allocated */
size_t memory_set_limit(size_t n) { return atomic_exchange(&limit, n); }
size_t memory_set_wired_limit(size_t n) { return atomic_exchange(&wired_limit, n); }

size_t memory_cached(void)
{
    size_t n = 0;
    FOR_EACH_MEMORY(m) n += atomic_load(&m->cached);
    return n;
}

static void count_up(size_t bytes)
{
    size_t now = atomic_fetch_add_explicit(&active, bytes, memory_order_relaxed) + bytes;
    size_t seen = atomic_load_explicit(&peak, memory_order_relaxed);
    while (now > seen && !atomic_compare_exchange_weak(&peak, &seen, now))
        ;
}

void memory_count(int64_t bytes)
{
    if (bytes > 0)
        count_up((size_t)bytes);
    else
        atomic_fetch_sub_explicit(&active, (size_t)-bytes, memory_order_relaxed);
}

static void count_bytes(struct memory *m, int64_t bytes)
{
    if (m->device) {
        atomic_fetch_add_explicit(&m->active, (size_t)bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&devices_active, (size_t)bytes, memory_order_relaxed);
    }
    memory_count(bytes);
}

/* The host's is what is no device's, so that small blocks count once.  Others count meanwhile, between the two reads
 * too: never more devices' than all. */
static size_t active_in(const struct memory *m)
{
    if (m->device)
        return atomic_load_explicit(&m->active, memory_order_relaxed);
    size_t devices = atomic_load_explicit(&devices_active, memory_order_relaxed);
    size_t all = atomic_load_explicit(&active, memory_order_relaxed);
    return all > devices ? all - devices : 0;
}

/* The default is the host's. */
size_t memory_limit_of(const struct memory *m)
{
    size_t set = atomic_load_explicit(&limit, memory_order_relaxed);
    if (m->device && set == atomic_load_explicit(&default_limit, memory_order_relaxed))
        return m->most ? m->most : SIZE_MAX;
    return set;
}

bool memory_allows(size_t bytes)
{
    size_t most = memory_limit_of(&host_memory);
    return bytes <= most && active_in(&host_memory) <= most - bytes;
}

/* ---- bins */

static size_t bytes_of_class(int bin) { return (size_t)(bin % 4 + 5) << (bin / 4 - 2); }

/* The size that a request is rounded up to, and the number of its class: 4, 5, 6 and 7 times powers of two. */
static size_t memory_class(size_t bytes, int *bin)
{
    if (bytes < 256)
        bytes = 256;
    int e = 63 - __builtin_clzl(bytes - 1); /* 2^e < bytes <= 2^(e+1) */
    size_t quarter = (size_t)1 << (e - 2);
    size_t k = (bytes - ((size_t)1 << e) + quarter - 1) / quarter; /* 1..4 */
    *bin = e * 4 + (int)k - 1;
    return bytes_of_class(*bin);
}

static void count_taken(struct memory *m, int bin, size_t bytes, int by)
{
    if (bytes >= 1u << 20)
        atomic_fetch_add_explicit(&m->taken[bin], by, memory_order_relaxed);
}

void memory_largest(const struct memory *m, char text[MEMORY_LARGEST])
{
    int used = 0, named = 0;
    text[0] = 0;
    for (int bin = MEMORY_BINS; bin-- > 0 && named < 3;) {
        long n = atomic_load_explicit(&m->taken[bin], memory_order_relaxed);
        if (n > 0)
            used += snprintf(text + used, MEMORY_LARGEST - (size_t)used, "%s%ld of %zu",
                             named++ ? ", " : "; the largest are ", n, bytes_of_class(bin));
    }
    if (named)
        snprintf(text + used, MEMORY_LARGEST - (size_t)used, " bytes");
}

/* The rest of this part is called with the lock held. */

static size_t counted(const struct memory *m, size_t bytes) { return bytes < m->least ? 0 : bytes; }

/* Takes a block out: the one after `before`, or the first where that is -1. */
static int take_from_bin(struct memory *m, struct memory_bin *bin, int before)
{
    int *from = before < 0 ? &bin->first : &m->blocks[before].next, i = *from;
    *from = m->blocks[i].next;
    bin->n--;
    if (bin->n < bin->idle)
        bin->idle = bin->n;
    atomic_fetch_sub(&m->cached, counted(m, m->blocks[i].bytes));
    return i;
}

static void chain(struct memory *m, int *list, int i)
{
    m->blocks[i].next = *list;
    *list = i;
}

/* The first block that s used last; with `any`, the first of all. */
static bool take_block(struct memory *m, int bin, const struct stream *s, bool any, struct memory_block *b)
{
    int before = -1, i = m->bins[bin].first;
    while (i >= 0 && !any && m->blocks[i].last != s) {
        before = i;
        i = m->blocks[i].next;
    }
    if (i < 0)
        return false;
    take_from_bin(m, &m->bins[bin], before);
    *b = m->blocks[i];
    chain(m, &m->spare, i);
    m->traffic += b->bytes;
    return true;
}

/* The newest block is the first to be taken.  Of a device it is the one with the lowest address, as far as one looks: a
 * program that does the same again has the same addresses again, and what was launched can be launched again. */
static int *place_in_bin(struct memory *m, struct memory_bin *bin, const void *p)
{
    enum { LOOKED_AT = 64 };
    int *at = &bin->first;
    for (int n = m->device ? LOOKED_AT : 0; n > 0 && *at >= 0 && m->blocks[*at].p < p; n--) at = &m->blocks[*at].next;
    return at;
}

static bool put_block(struct memory *m, int bin, struct memory_block b)
{
    int i = m->spare;
    if (i >= 0) {
        m->spare = m->blocks[i].next;
    } else {
        if (m->n_blocks == m->blocks_cap) {
            int cap = m->blocks_cap ? 2 * m->blocks_cap : 64;
            struct memory_block *more = realloc(m->blocks, (size_t)cap * sizeof *more);
            if (!more)
                return false;
            m->blocks = more;
            m->blocks_cap = cap;
        }
        i = m->n_blocks++;
    }
    m->blocks[i] = b;
    chain(m, place_in_bin(m, &m->bins[bin], b.p), i);
    m->bins[bin].n++;
    size_t bytes = counted(m, b.bytes), now = atomic_fetch_add(&m->cached, bytes) + bytes;
    if (now > m->most_cached)
        m->most_cached = now;
    return true;
}

static bool may_go(const struct memory *m, const struct memory_bin *bin)
{
    return bin->n && m->blocks[bin->first].bytes >= m->least;
}

/* Takes out the blocks that nobody needed since the last sweep, and begins anew. */
static int sweep(struct memory *m)
{
    int gone = -1;
    for (struct memory_bin *bin = m->bins; bin < m->bins + MEMORY_BINS; bin++) {
        size_t idle = may_go(m, bin) ? bin->idle : 0;
        int before = -1;
        for (size_t k = idle ? bin->n - idle : 0; k > 0; k--) before = before < 0 ? bin->first : m->blocks[before].next;
        for (size_t k = idle; k > 0; k--) chain(m, &gone, take_from_bin(m, bin, before));
        bin->idle = bin->n;
    }
    m->traffic = 0;
    m->most_cached = atomic_load(&m->cached);
    return gone;
}

/* A program that does the same again and again takes and puts everything in the cache once a turn, and what its layers
 * take one after the other as often as it has layers.  After the traffic of some turns, what lay idle was left by
 * something else.  What goes too early is taken afresh in each turn, from the host by faults, from a device by
 * waiting. */
static bool time_to_sweep(const struct memory *m)
{
    enum { FEW = 64 << 20, HOST = 16, DEVICE = 64 };
    return m->traffic > (m->device ? DEVICE : HOST) * (m->most_cached > FEW ? m->most_cached : FEW);
}

/* ---- taking and giving, without the lock */

static void discard_all(struct memory *m, int gone)
{
    while (gone >= 0) {
        lock_take(&m->lock);
        struct memory_block b = m->blocks[gone];
        chain(m, &m->spare, gone);
        lock_give(&m->lock);
        m->discard(m, &b);
        gone = b.next;
    }
}

/* Gives back blocks, the largest first, until at most `keep` bytes are cached. */
static void trim(struct memory *m, size_t keep)
{
    int gone = -1;
    lock_take(&m->lock);
    for (struct memory_bin *bin = m->bins + MEMORY_BINS; bin-- > m->bins && atomic_load(&m->cached) > keep;)
        while (may_go(m, bin) && atomic_load(&m->cached) > keep) chain(m, &gone, take_from_bin(m, bin, -1));
    lock_give(&m->lock);
    discard_all(m, gone);
}

/* Gives back pieces that are all that there are of a block. */
static void give_whole(struct memory *m)
{
    int gone = -1;
    if (!m->pieces)
        return;
    m->pieces->begin(m);
    lock_take(&m->lock);
    for (struct memory_bin *bin = m->bins; bin < m->bins + MEMORY_BINS; bin++)
        for (int i = may_go(m, bin) ? -1 : bin->first; i >= 0; i = m->blocks[i].next)
            m->pieces->weigh(m, &m->blocks[i]);
    for (struct memory_bin *bin = m->bins; bin < m->bins + MEMORY_BINS; bin++)
        for (int before = -1, next, i = may_go(m, bin) ? -1 : bin->first; i >= 0; i = next) {
            next = m->blocks[i].next;
            if (m->pieces->goes(m, &m->blocks[i]))
                chain(m, &gone, take_from_bin(m, bin, before));
            else
                before = i;
        }
    lock_give(&m->lock);
    m->pieces->end(m);
    discard_all(m, gone);
}

static bool found(struct memory *m, int bin, const struct stream *s, bool any, struct memory_block *b)
{
    lock_take(&m->lock);
    bool is = take_block(m, bin, s, any, b);
    lock_give(&m->lock);
    return is;
}

void *memory_take(struct memory *m, size_t bytes, struct stream *s, size_t *capacity, struct stream **last)
{
    int bin;
    size_t size = *capacity = memory_class(bytes, &bin), most = memory_limit_of(m);
    struct memory_block b = { .last = s };
    if (found(m, bin, s, false, &b))
        goto taken;
    if (size > most || active_in(m) > most - size)
        return NULL;
    bool crowded = active_in(m) + atomic_load(&m->cached) + size > most;
    if (crowded && found(m, bin, s, true, &b))
        goto taken;
    if (crowded)
        trim(m, most - size - active_in(m));
    b.p = m->fresh(m, size, s);
    if (!b.p && found(m, bin, s, true, &b))
        goto taken;
    if (!b.p) {
        trim(m, 0);
        give_whole(m);
        b.p = m->fresh(m, size, s);
    }
    if (!b.p)
        return NULL;
taken:
    count_bytes(m, (int64_t)size);
    count_taken(m, bin, size, 1);
    *last = b.last;
    return b.p;
}

/* A turn of the program, in which each memory has had its part. */
static void sweep_all(void)
{
    FOR_EACH_MEMORY(m) {
        lock_take(&m->lock);
        int gone = sweep(m);
        lock_give(&m->lock);
        discard_all(m, gone);
    }
}

void memory_give(struct memory *m, void *p, size_t bytes, struct stream *last)
{
    int bin;
    struct memory_block b = { .p = p, .bytes = memory_class(bytes, &bin), .last = last };
    count_bytes(m, -(int64_t)b.bytes);
    count_taken(m, bin, b.bytes, -1);
    lock_take(&m->lock);
    bool kept = put_block(m, bin, b);
    m->traffic += b.bytes;
    bool turned = time_to_sweep(m);
    lock_give(&m->lock);
    if (turned)
        sweep_all();
    if (!kept && b.bytes >= m->least)
        m->discard(m, &b);
    if (atomic_load(&m->cached) > atomic_load(&cache_limit))
        trim(m, atomic_load(&cache_limit));
}

size_t memory_set_cache_limit(size_t n)
{
    size_t was = atomic_exchange(&cache_limit, n);
    FOR_EACH_MEMORY(m) trim(m, n);
    return was;
}

void memory_clear_cache(void)
{
    slab_clear();
    FOR_EACH_MEMORY(m) {
        trim(m, 0);
        give_whole(m);
    }
}
