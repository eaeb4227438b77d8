/* stream.h: devices, streams and events.
 *
 * A stream runs what it is given in order; one small operation of the host eval makes at once, past its queue.  An
 * array has no location; the stream of the operation that reads it says where its bytes are needed (buffer_bring). */
#ifndef MX_CORE_STREAM_H
#define MX_CORE_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/array.h"
#include "core/refs.h"

enum device_type { DEVICE_CPU, DEVICE_GPU };

struct device {
    enum device_type type;
    int index;
};

struct stream {
    int index;
    struct device device;
    const struct device_class *on;
    void *queue; /* its backend's own */
    struct stream *older;
};

/* What streams and buffers need of the devices of one type.  It is the first member of a struct backend
 * (run/backend.h), which runs graphs as well. */
struct device_class {
    const char *name;
    enum device_type type;
    int (*count)(void);
    /* A queue of work, as old as its stream; NULL after mx_fail. */
    void *(*open)(struct stream *s);
    /* Waits for what was submitted before, forgets how it ended, and lets go what the queue does not need
     * while it is idle.  Any thread may call it while others submit.  1 if it was interrupted: nothing happened. */
    int (*rest)(struct stream *s);
    /* Called in the child of a fork(), where nobody works any more on what was submitted.  NULL: nothing to do. */
    void (*forked)(struct stream *s);
    int (*synchronize)(struct stream *s); /* waits for what was submitted before; non-zero after mx_fail */
    /* Facts for device_info: calls add(ctx, key, text or NULL, number). */
    void (*info)(int device, void (*add)(void *, const char *, const char *, size_t), void *ctx);
    /* Libraries of others that are looked for: calls add(ctx, name, path, version, used for); no path: not found, no
     * use: nothing.  NULL: there are none. */
    void (*libraries)(void (*add)(void *, const char *, const char *, const char *, const char *), void *ctx);

    /* The rest is of devices with memory of their own; alloc is NULL for one that computes in the host's.
     * Work on such a device is queued, on a stream in order, and done later.  A mark is a point on a stream:
     * what was queued before mark() was asked is done when its mark has passed. */
    void *(*alloc)(struct stream *s, size_t bytes);        /* for work on s; NULL after mx_fail */
    void (*free)(struct stream *s, void *p, size_t bytes); /* not used before what is queued on s now is done */
    uint64_t (*mark)(struct stream *s);
    /* Work queued on s from now on comes after that mark of another stream of this class. */
    int (*follow)(struct stream *s, struct stream *other, uint64_t mark);
    int (*wait)(struct stream *s, uint64_t mark);    /* the calling thread waits; non-zero where the device failed */
    bool (*passed)(struct stream *s, uint64_t mark); /* would it not wait? */
    /* Queued on s; the host's bytes may change when it returns. */
    int (*to_device)(struct stream *s, void *device, const void *host, size_t bytes);
    /* Of bytes that are there at that mark; they are on the host when it returns. */
    int (*to_host)(struct stream *s, uint64_t mark, void *host, const void *device, size_t bytes);
    /* Queued on s: from memory of another device of this class, or of its own. */
    int (*from_peer)(struct stream *s, void *to, const struct stream *other, const void *from, size_t bytes);
    /* Of devices that others in the process use as well, NULL for any else.  The driver's own name of s; work queued on
     * theirs from now on comes after that mark of s; work queued on s from now on comes after what is on theirs now.
     * Theirs is NULL for those that programs have without asking for one, -1 for none. */
    void *(*native)(struct stream *s);
    int (*owner)(const void *p); /* the number of the device whose memory it is; -1: of none that is known */
    int (*lead)(struct stream *s, uint64_t mark, void *theirs);
    int (*trail)(struct stream *s, void *theirs);
};

/* Why work failed, shared by all that it spoiled.  Reference counted. */
struct run_failure {
    atomic_int refs;
    enum mx_error kind;
    char *message;    /* NULL: there was no memory for it */
    atomic_bool told; /* somebody was, who asked for what it spoiled */
};

/* A set-once flag with an outcome.  Reference counted; made by eval, set by the stream. */
struct event {
    atomic_int refs;
    atomic_int done;
    atomic_bool awaited;     /* by somebody who may be asleep */
    atomic_bool given_up;    /* whoever waited for it was interrupted: what runs for long ends early */
    unsigned process;        /* counts forks: in a child, nobody is left to set the events of its parent */
    struct run_failure *why; /* what it stands for failed; NULL: it did not.  Read after done */
    struct stream *stream;
};

/* One class per type of device; the last one registered counts. */
void devices_register(const struct device_class *c);
const struct device_class *devices_of(enum device_type t); /* NULL: none */

int device_count(enum device_type t);
/* That of all threads, but for those that have one of their own; setting it changes that where there is one. */
struct device default_device(void);
int set_default_device(struct device d);
/* The calling thread's own.  False: it has none. */
bool thread_device(struct device *d);
int set_thread_device(const struct device *d); /* NULL: none any more */
const char *device_text(struct device d);      /* "Device(cpu, 0)" */

/* Streams and their queues live until the process ends: handles are copied as numbers, and arrays that are yet to be
 * computed, events and keys of compiled functions hold addresses of streams without counting them.  So one that nobody
 * made a handle of any more may still be submitted to, and its address must not come to mean another stream. */
struct stream *stream_new(struct device d);
struct stream *default_stream(struct device d);
struct stream *thread_stream(void); /* of the calling thread's default device */
void set_default_stream(struct stream *s);
int stream_synchronize(struct stream *s); /* raises what failed on it */
int streams_synchronize_all(void);
int streams_clear(void); /* their workers end; 1: interrupted, and those that were not waited for go on */

/* Where there is no memory for it, it is that there is none. */
struct run_failure *failure_new(enum mx_error kind, const char *message);
static inline void failure_retain(struct run_failure *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}
void failure_release(struct run_failure *f);
void failure_tell(struct run_failure *f); /* to who called, unless that is told of another already */

struct event *event_new(struct stream *s);
static inline void event_retain(struct event *e) { atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed); }
void event_free(struct event *e);
static inline void event_release(struct event *e)
{
    if (last_goes(&e->refs))
        event_free(e);
}
/* Takes over the reference to why it failed; NULL: it did not. */
void event_set(struct event *e, struct run_failure *why);
/* One that is over and failed; takes over the reference, and is never NULL. */
struct event *event_failed(struct run_failure *why);
static inline bool event_is_failed(const struct event *e)
{
    return atomic_load_explicit(&e->done, memory_order_acquire) && e->why;
}
void event_wait(struct event *e);             /* returns when it is set, whatever the outcome */
struct timespec time_after(int ms);           /* from now, for pthread_cond_timedwait */
bool event_wait_for(struct event *e, int ms); /* no longer than that; whether it is set */

#endif
