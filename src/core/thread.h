/* thread.h: what nearly every operation touches of the thread's own.
 *
 * In a shared library a call tells where a thread's variables are, and compilers ask again for each of them and each
 * use: a tenth of what it takes to build a graph.  So those of several files that are used at every turn are here,
 * each for the file that its comment names, and a function without effects tells where: one call of it serves all that
 * is inline in a function.  Others are where they belong. */
#ifndef MX_CORE_THREAD_H
#define MX_CORE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct evaluation;
struct event;
struct handle_scope;
struct mx_array;
struct shapeless_trace;
struct stream;
struct tally;

/* Arrays on loan (core/scope.h). */
struct scopes {
    struct mx_array **lent;
    size_t n, cap;
    size_t mark;           /* of the innermost scope */
    struct stream *stream; /* likewise */
};

/* Freed small objects by size (core/slab.h). */
enum {
    SLAB_MAX = 1152, /* larger requests go to malloc */
    SLAB_STEP = 64,
    SLAB_BINS = SLAB_MAX / SLAB_STEP + 1
};
struct slab_spare {
    struct slab_spare *next;
};
struct slab {
    size_t depth; /* how long a list may become; 0 before the thread's first and after its last */
    struct slab_bin {
        struct slab_spare *first;
        size_t n;
    } bins[SLAB_BINS];
};

enum { DEVICES_MOST = 16 }; /* of a type; more are not used */

struct thread {
    unsigned error; /* of enum mx_error: what has failed (core/error.h) */
    bool defers;    /* the owners' releases, likewise */
    struct scopes scopes;
    struct slab slab;
    struct mx_array *dead; /* arrays that wait to be freed, while one is (core/array.c) */
    bool frees;
    int traces;                        /* one inside the other (core/node.h) */
    uint32_t trace;                    /* their number, or that of the last ones */
    struct shapeless_trace *innermost; /* ops/op.h */
    /* Evaluations (run/eval.c). */
    bool (*stop)(void);
    void (*leave)(void *payload);
    void *left;
    struct event *running;
    struct evaluation *evaluation; /* the innermost */
    const char *forbidden;
    struct handle_scope *handles; /* the innermost scope of handles (capi/c_handles.c) */
    struct tally *tally;          /* core/tally.h */
    /* Choices of its own (core/stream.c): a device, if it has one, and streams by device. */
    bool has_device;
    int device_type, device_index;
    struct stream *stream[2][DEVICES_MOST];
};

struct thread *this_thread(void) __attribute__((const));

#endif
