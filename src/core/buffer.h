/* buffer.h: reference-counted memory, and the cache it comes from.
 *
 * A buffer has a host side, a device side, or both; `state` says which of them hold the current
 * bytes.  Freed host memory is kept by size class and handed out again, large blocks on huge pages,
 * so that a loop in its steady state touches no fresh page. */
#ifndef MX_CORE_BUFFER_H
#define MX_CORE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend;

enum side { ON_HOST = 1, ON_DEVICE = 2 };

struct buffer {
    atomic_int refs;
    _Atomic uint8_t state;          /* set of enum side: where the current bytes are */
    bool writable;                  /* foreign memory may be read-only: never written in place */
    bool mapped;                    /* pages of a file: may be written, but each is copied then */
    size_t bytes;                   /* as asked for */
    size_t capacity;                /* as got */
    void *host;                     /* may be NULL while only the device has it */
    void *device;
    const struct backend *backend;  /* of the device side */
    int device_index;
    void (*release)(void *payload); /* foreign memory: called once, never on a worker or under a lock */
    void *payload;
};

/* Uninitialized host memory, 64-byte aligned; NULL after mx_fail.  The new buffer has one reference. */
struct buffer *buffer_new(size_t bytes);
/* A buffer with only a device side. */
struct buffer *buffer_new_device(const struct backend *be, int device_index, size_t bytes);
/* Memory of somebody else.  On failure NULL, and `release` was not called. */
struct buffer *buffer_wrap(void *host, size_t bytes, bool writable, void (*release)(void *), void *payload);
void buffer_retain(struct buffer *b);
void buffer_release(struct buffer *b);
/* While on, this thread puts releases of foreign memory off until somebody runs them. */
void buffer_defer_releases(bool on);
void buffer_run_releases(void);
/* Makes sure that the host side exists (allocates it, contents undefined). */
int buffer_need_host(struct buffer *b);

/* Statistics and limits, in bytes. */
size_t memory_active(void);
size_t memory_peak(void);
size_t memory_cached(void);
size_t memory_limit(void);
void memory_reset_peak(void);
size_t memory_set_limit(size_t bytes);       /* returns the former one */
size_t memory_set_cache_limit(size_t bytes); /* returns the former one */
size_t memory_set_wired_limit(size_t bytes); /* returns the former one; kept, nothing to wire on a CPU */
void memory_clear_cache(void);

/* The n-th allocation from now on fails (arrays, nodes and buffers alike); 0: none. */
void mx_test_fail_at(long n);
/* malloc that takes part in mx_test_fail_at and reports its failure. */
void *mx_malloc(size_t bytes);
/* A growing array of *cap items with room for the one numbered n; NULL after mx_fail, `old` as it was. */
void *mx_grown(void *old, int n, int *cap, size_t item);
bool mx_test_should_fail(void);

#endif
