/* stream.h: devices, streams, events, and the one door to a backend.
 *
 * A stream runs what it is given in order.  An event is a point on a stream that others can wait
 * for.  An array has no location; the stream of the operation that reads it says where the bytes
 * are needed, and the backends' `copy` moves them. */
#ifndef MX_CORE_STREAM_H
#define MX_CORE_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/array.h"

enum device_type { DEVICE_CPU, DEVICE_GPU };

struct device {
    enum device_type type;
    int index;
};

struct stream {
    int index;
    struct device device;
    const struct backend *backend;
    void *queue; /* the backend's own */
    struct stream *older;
};

/* A set-once flag with an outcome.  Reference counted; made by eval, set by the stream. */
struct event {
    atomic_int refs;
    atomic_int done;
    atomic_bool given_up; /* whoever waited for it was interrupted: what runs for long ends early */
    enum mx_error error; /* MX_OK, or why what it stands for failed; read after done */
    char *message;
    unsigned process; /* counts forks: in a child, nobody is left to set the events of its parent */
    struct stream *stream;
    void *native; /* the backend's own event, if it has one */
};

/* One operation of a tape.  The entry owns a reference to its node and to each output. */
struct entry {
    struct node *node;
    mx one;          /* the output, where there is only one */
    mx *several;     /* else all of them */
    bool keep;       /* the node stays on its arrays (tracing): operands must not be written over */
    /* Filled by fuse_plan (run/fuse.h): entries that run as one, at the place of the last. */
    bool waits;      /* runs with a later entry */
    uint8_t from[3]; /* by operand: which member makes it, in order; OUTSIDE: none */
    int before;      /* number of the member before this one; -1: none */
};
enum {
    FUSE_MOST = 32, /* members of a fused entry */
    OUTSIDE = 255
};
static inline mx *entry_out(struct entry *e) { return e->several ? e->several : &e->one; }

/* A stretch of a tape for one stream: wait, run in order, signal. */
struct batch {
    struct stream *stream;
    int nwait, wait_cap;
    struct event **wait;
    int n, cap;
    struct entry *entries;
    int first; /* number of the first entry on the tape */
    struct event *done;
    bool now; /* somebody waits for it: failures are theirs alone, not the stream's */
    struct batch *next;
};

/* A kernel of a library that the program has registered: which, on what grid, with what arguments. */
struct launch {
    const char *library, *kernel;
    const void *code; /* of the library: source text or machine code, there until the process ends */
    size_t size;
    bool is_source;
    const int *blocks, *threads;
    const void *const *args;
    size_t nargs;
};

struct backend {
    const char *name;
    enum device_type type;
    int (*device_count)(void);
    /* A queue of work, as old as its stream; NULL after mx_fail. */
    void *(*open)(struct stream *s);
    /* Waits for what was submitted before, forgets how it ended, and lets go what the queue does not need
     * while it is idle.  Any thread may call it while others submit. */
    void (*rest)(struct stream *s);
    /* Called in the child of a fork(), where nobody works any more on what was submitted.  NULL: nothing to do. */
    void (*forked)(struct stream *s);
    /* Takes the batch over, to be run through run_batch (run/eval.h) in the order of these
     * calls.  They come under the graph lock, so that a batch is queued behind those it waits for;
     * nothing is run in them.  Where somebody waits for the batch (b->now) an idle queue may return
     * 1 instead: it is then reserved, and the caller has the batch run by run_now. */
    int (*submit)(struct stream *s, struct batch *b);
    void (*run_now)(struct stream *s, struct batch *b); /* NULL where submit returns 0 always */
    /* Is there a kernel for this op? */
    bool (*supports)(const struct node *n);
    /* Runs one entry; called by run_batch on the queue's thread.  Non-zero after mx_fail. */
    int (*run)(struct stream *s, struct entry *e);
    /* Runs n element-wise entries of one shape as one; operands from OUTSIDE are where they are
     * needed.  Only outputs that are `wanted` get memory: nobody else can look at the others.
     * NULL: entries of this backend are never fused. */
    int (*run_fused)(struct stream *s, int n, struct entry *const m[], const bool wanted[]);
    /* May this entry, which is not element-wise, be the last member, its operand one that another
     * makes?  NULL: none may. */
    bool (*ends)(const struct node *n);
    int (*synchronize)(struct stream *s); /* waits for what was submitted before */
    /* Queues the kernel, copying its arguments.  NULL: a backend that has no kernels of others. */
    int (*launch)(struct stream *s, const struct launch *l);
    /* Device memory; NULL for backends that compute in host memory. */
    void *(*alloc)(int device, size_t bytes);
    void (*free)(int device, void *p, size_t bytes);
    int (*to_device)(struct stream *s, void *device, const void *host, size_t bytes);
    int (*to_host)(struct stream *s, void *host, const void *device, size_t bytes);
    /* Facts for device_info: calls add(ctx, key, text or NULL, number). */
    void (*info)(int device, void (*add)(void *, const char *, const char *, size_t), void *ctx);
};

extern const struct backend cpu_backend;
void backend_register(const struct backend *be); /* at most one per device type; NULL-safe to repeat */
const struct backend *backend_of(enum device_type t); /* NULL: none */

int device_count(enum device_type t);
struct device default_device(void);
int set_default_device(struct device d);
const char *device_text(struct device d); /* "Device(cpu, 0)" */

/* Streams and their queues live until the process ends. */
struct stream *stream_new(struct device d);
struct stream *default_stream(struct device d);
void set_default_stream(struct stream *s);
int stream_synchronize(struct stream *s); /* raises what failed on it */
int streams_synchronize_all(void);
void streams_clear(void); /* their workers end; every device has its first default stream again */

struct event *event_new(struct stream *s);
void event_retain(struct event *e);
void event_release(struct event *e);
void event_set(struct event *e, enum mx_error kind, const char *message);
void event_wait(struct event *e); /* returns when it is set, whatever the outcome */
bool event_wait_for(struct event *e, int ms); /* no longer than that; whether it is set */

#endif
