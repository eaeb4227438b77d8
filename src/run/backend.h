/* backend.h: the one door between graphs and kernels.
 *
 * A graph becomes batches of entries, and a backend runs an entry: it gives the outputs memory and fills
 * it.  A backend for the host's processor has done so when `run` returns.  One for a device has queued it: its
 * arrays are READY, which for them means that their work is on its stream, and that their bytes are there
 * once the mark of their buffer's side has passed.  So
 *
 *   - kernels that follow on the same stream need not wait, and other streams of the device follow the mark without
 *     the host (buffer_bring);
 *   - only who reads on the host waits (buffer_bring_host), and so does everything that gives an address of the host's
 *     away: mx_wait_host comes before the buffer protocol, DLPack, files and printing, which see host memory alone;
 *   - an operand may be written over by who is its last reader on its own stream, behind readers on others
 *     (buffer_claim_on);
 *   - memory is free when the last reference goes, before the work is done: what its stream queues next may use it, and
 *     another stream follows its last use (core/memory.h, struct side);
 *   - what the device finds wrong later stays with the bytes, and goes to all that comes of them (buffer_may_fail). */
#ifndef MX_RUN_BACKEND_H
#define MX_RUN_BACKEND_H

#include "core/node.h"
#include "core/stream.h"

/* One operation of a tape.  The entry owns a reference to its node and to each output. */
struct entry {
    struct node *node;
    mx one;      /* the output, where there is only one */
    mx *several; /* else all of them */
    bool keep;   /* the node may run again (it stays on arrays of a trace): operands must not be written over */
    /* Of entries that run as one, at the place of the last: filled by fuse_plan (run/fuse.h), and when the turn comes
     * of those that are alike. */
    bool waits;      /* does not run when its turn comes: with a later entry it does, or has been made early */
    uint8_t from[4]; /* by operand: which member makes it, in order; OUTSIDE: none */
    int before;      /* number of the member before this one; -1: none */
};
enum {
    FUSE_MOST = 32, /* members of a fused entry */
    OUTSIDE = 255
};
static inline mx *entry_out(struct entry *e) { return e->several ? e->several : &e->one; }

/* An entry in the hands of who runs it: operands that are READY where it runs, results that have no memory yet. */
struct run {
    struct stream *stream; /* that it runs on, whatever the node's is */
    const struct node *node;
    const void *args;
    int nin, nout;
    const mx *x, *y;
    bool keep; /* operands must not be written over */
};
typedef int run_fn(const struct run *r); /* non-zero after mx_fail */
static inline struct run run_of(struct stream *s, struct entry *e)
{
    const struct node *n = e->node;
    return (struct run){ s, n, n->args, n->nin, n->nout, n->in, entry_out(e), e->keep };
}

/* An operation registered at run time, by its rule for this kind of device, with the backend's ways to give results
 * memory (ops/plugin.h). */
int run_plugin(const struct run *r, enum device_type on, int (*fresh)(const struct run *r, int k),
               int (*over)(const struct run *r, int k, int i));

/* A stretch of a tape for one stream: wait, run in order, signal. */
struct batch {
    struct stream *stream;
    int nwait, wait_cap;
    struct event **wait;
    int n, cap;
    struct entry *entries;
    int first; /* number of the first entry on the tape */
    struct event *done;
    bool now;      /* somebody waits for it: failures are theirs alone, not the stream's */
    uint64_t turn; /* its number on its queue, whose batches run in order */
    bool reserved; /* the queue is idle, and kept so, until it runs */
    struct batch *next;
    struct entry few[]; /* where `entries` are at first */
};
enum { BATCH_FEW = 3 };

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
    struct device_class devices;
    /* Takes the batch over, to be run through run_batch (run/eval.h) in the order of these
     * calls.  They come under the graph lock, so that a batch is queued behind those it waits for;
     * nothing is run in them.  Where the queue is idle it may return 1 instead: it is then reserved, and the
     * caller has the batch run by run_now (run/queue.h). */
    int (*submit)(struct stream *s, struct batch *b);
    void (*run_now)(struct stream *s, struct batch *b); /* NULL where submit returns 0 always */
    /* Is there a kernel for this op?  What a device has none for runs on the CPU. */
    bool (*supports)(const struct node *n);
    /* Runs one entry; called by run_batch on the queue's thread, and by mx_eval under the graph lock, of a small
     * element-wise one whose operands the host has.  Non-zero after mx_fail. */
    int (*run)(struct stream *s, struct entry *e);
    /* Runs n entries as one: element-wise ones of one shape, with those that is_producer and `ends` let in, or such as
     * are `alike`, whose operands are all from OUTSIDE; those are where they are needed.  Only outputs that are
     * `wanted` get memory: nobody else can look at the others.  NULL: entries of this backend are never fused. */
    int (*run_fused)(struct stream *s, int n, struct entry *const m[], const bool wanted[]);
    bool fuses_small; /* arrays of any size are worth it, since starting a kernel costs more than planning */
    /* May this entry, which is not element-wise, be the last member, its operand one that another, of node `from`,
     * makes?  NULL: none may. */
    bool (*ends)(const struct node *n, const struct node *from);
    /* May this entry, which is not element-wise and makes one array, be a member whose operands are none of the
     * others'?  NULL: none may. */
    bool (*is_producer)(const struct node *n);
    /* May n, whose operands are READY, run as one with `first`, of the same operation, both by themselves, as members
     * that read none of each other's results?  Each has one result and operands as many as `from` has room for.  Of
     * `first` with itself it is asked whether such an operation may at all.  NULL: none may. */
    bool (*alike)(const struct node *n, const struct node *first);
    /* Does n read operand k on the host, where its bytes are, so that they need not be brought?  NULL: never. */
    bool (*reads_host)(const struct node *n, int k);
    /* Copies x, of any strides, into row-major y of its dtype from element `at` on.  NULL: run/control.c knows how,
     * for a device. */
    int (*put)(struct stream *s, mx y, int64_t at, mx x);
    /* Around the entries of a batch, so that a device may start what they queue as one, by `end` at the latest, and
     * find that the same has come before but for its addresses: a compiled function called again, a step of training.
     * A mark that somebody waits for or follows earlier has all that was queued before it started at once.  NULL:
     * nothing to do. */
    void (*begin)(struct stream *s);
    int (*end)(struct stream *s);
    /* Queues the kernel, copying its arguments.  NULL: a backend that has no kernels of others. */
    int (*launch)(struct stream *s, const struct launch *l);
};

extern const struct backend cpu_backend, cuda_backend; /* registered by run/backends.c */
static inline const struct backend *backend_of(const struct stream *s) { return (const struct backend *)s->on; }

#endif
