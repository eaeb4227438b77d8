/* memory.h: memory of the host and of devices: the cache of freed blocks, statistics, limits.
 *
 * Freed memory is kept by size class and handed out again, so that a loop in its steady state asks neither the
 * operating system nor a driver. */
#ifndef MX_CORE_MEMORY_H
#define MX_CORE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/slab.h"

struct stream;

enum { MEMORY_BINS = 63 * 4 }; /* four to an octave, up to the 2^63 bytes that a shape may ask for */

/* Freed memory; `last` is the stream whose queued work may still use it, NULL on the host. */
struct memory_block {
    void *p;
    size_t bytes;
    struct stream *last;
    int next;
};

struct memory;
/* Of blocks that are pieces of others: whether those in the cache are all that there are of one.  Each is weighed, then
 * asked about, with the memory's lock held. */
struct memory_pieces {
    void (*begin)(struct memory *m);
    void (*weigh)(struct memory *m, const struct memory_block *b);
    bool (*goes)(struct memory *m, const struct memory_block *b);
    void (*end)(struct memory *m);
};

/* The memory of the host, or of one device. */
struct memory {
    /* From the operating system or the driver, for s; NULL: there is none (no failure is kept). */
    void *(*fresh)(struct memory *m, size_t bytes, struct stream *s);
    /* Gives a block back, once what uses it is done. */
    void (*discard)(struct memory *m, const struct memory_block *b);
    size_t least; /* smaller blocks are pieces of others: they do not count as cached, and go only all together */
    size_t most;  /* bytes to take at most where no limit is set; 0: as many as there are */
    const struct memory_pieces *pieces; /* NULL: there are none */

    /* Kept by memory.c. */
    bool device;
    struct lock lock;
    struct memory *next;
    struct memory_bin {
        int first;
        size_t n, idle; /* blocks; the fewest since the last sweep, so many of which nobody needed */
    } bins[MEMORY_BINS];
    struct memory_block *blocks; /* those in bins, and spare ones in a list of their own */
    int spare, n_blocks, blocks_cap;
    atomic_size_t active, cached;
    atomic_long taken[MEMORY_BINS]; /* blocks in use of a megabyte and more, by class */
    size_t traffic, most_cached;    /* bytes since the last sweep: taken and put, cached at most */
};

extern struct memory host_memory;
/* A device's, whose first five members are set: it lives until the process ends. */
void memory_open(struct memory *m);

/* Memory of at least so many bytes, what `*capacity` says, for work on s; *last: where that is not s, the stream whose
 * queued work s has to come after.  NULL, without a failure being kept: there is none, or the limit forbids it. */
void *memory_take(struct memory *m, size_t bytes, struct stream *s, size_t *capacity, struct stream **last);
/* Takes it back, of the bytes asked for or the capacity got. */
void memory_give(struct memory *m, void *p, size_t bytes, struct stream *last);
/* Writes which blocks in use are the largest, "; the largest are 3 of 1073741824 and 1 of 2097152 bytes" or nothing. */
enum { MEMORY_LARGEST = 160 };
void memory_largest(const struct memory *m, char text[MEMORY_LARGEST]);

/* Statistics and limits, in bytes: of the host and all devices together; a limit holds for each of them. */
void memory_count(int64_t bytes); /* the host's, from elsewhere: taken, or below zero given back */
bool memory_allows(size_t bytes); /* may the host take so many more? */
size_t memory_active(void);
size_t memory_peak(void);
size_t memory_cached(void);
size_t memory_limit(void);
size_t memory_limit_of(const struct memory *m); /* of the host or a device: what is set, else what it has */
void memory_reset_peak(void);
size_t memory_set_limit(size_t bytes);       /* returns the former one */
size_t memory_set_cache_limit(size_t bytes); /* returns the former one */
size_t memory_set_wired_limit(size_t bytes); /* returns the former one; kept, nothing to wire on a CPU */
void memory_clear_cache(void);

/* The n-th allocation from now on fails (arrays, nodes and buffers alike); 0: none. */
void mx_test_fail_at(long n);
extern atomic_long mx_test_countdown;
bool mx_test_counts_down(void);
static inline bool mx_test_should_fail(void)
{
    return __builtin_expect(atomic_load_explicit(&mx_test_countdown, memory_order_relaxed) != 0, 0) &&
           mx_test_counts_down();
}
/* What the library allocates otherwise is of these, which take part in mx_test_fail_at: slab_new, malloc, calloc and
 * strdup that report their failure; */
static inline void *mx_slab(size_t bytes)
{
    void *p = mx_test_should_fail() ? NULL : slab_new(bytes);
    if (__builtin_expect(!p, 0))
        mx_fail_memory(bytes);
    return p;
}
void *mx_malloc(size_t bytes);
void *mx_calloc(size_t n, size_t item);
char *mx_strdup(const char *s);
/* and those that leave it to the caller, errno being ENOMEM; `aligned` is to 64 bytes. */
void *mx_try_malloc(size_t bytes);
void *mx_try_aligned(size_t bytes);
void *mx_try_realloc(void *old, size_t bytes);
char *mx_try_strdup(const char *s);
/* A growing array of *cap items with room for the one numbered n; NULL after mx_fail, `old` as it was. */
void *mx_grow(void *old, int n, int *cap, size_t item);
static inline void *mx_grown(void *old, int n, int *cap, size_t item)
{
    return n < *cap ? old : mx_grow(old, n, cap, item);
}
/* The same of one that begins in room of its owner's, `few`, which is not of malloc. */
void *mx_grow_from(const void *few, void *old, int n, int *cap, size_t item);
static inline void *mx_grown_from(const void *few, void *old, int n, int *cap, size_t item)
{
    return n < *cap ? old : mx_grow_from(few, old, n, cap, item);
}

#endif
