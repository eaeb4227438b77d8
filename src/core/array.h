/* array.h: arrays, the nodes that make them, and who owns what.
 *
 * An array is a strided view of a buffer, or a promise of one: its node says how to make it.  An
 * array points strongly at its node, a node strongly at its inputs and weakly at its outputs.  The
 * count of references is atomic; everything else of an array is written by the thread that builds
 * it, or under the graph lock (core/node.h), or by the stream that runs it before its status is
 * set to READY. */
#ifndef MX_CORE_ARRAY_H
#define MX_CORE_ARRAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/error.h"

typedef struct mx_array *mx; /* borrowed: good until the current scope closes */
typedef struct {
    struct mx_array *it;
} mx_own; /* owned: good until mx_drop */

enum { MX_MAX_NDIM = 64 };

enum status {
    LAZY,      /* has a node (or is a placeholder of a trace) and no data */
    SCHEDULED, /* on its way: wait for `event` */
    READY,     /* has data */
};

struct buffer;
struct node;
struct event;

struct mx_array {
    atomic_int refs;
    _Atomic uint8_t status;
    uint8_t dtype;
    bool row; /* READY: elements lie row-major without gaps */
    uint8_t ndim : 7;
    uint8_t several : 1;     /* one of several results of a node, which may be found through that (mx_try_retain) */
    _Atomic uint32_t tracer; /* the trace whose arguments it depends on (core/node.h), unless it was computed outside of
                              * that since; 0: none */
    int out;                 /* which output of `node` this is; of a placeholder, whether its trace is over */
    uint32_t mark;           /* visited by the walk of this number; under the graph lock */
    int slot;                /* what that walk noted */
    uint32_t depth;          /* LAZY: of how many nodes the longest chain behind it is */
    int64_t size;
    int *shape;       /* ndim, behind the struct */
    int64_t *strides; /* in elements; defined once READY */
    struct node *node;
    struct buffer *buf;
    int64_t offset; /* in elements */
    struct event *event;
};

extern struct mx_array mx_nil_array;
#define MX_NIL (&mx_nil_array)
static inline bool is_nil(mx x) { return x == MX_NIL; }

/* What an output will be, before it exists. */
struct spec {
    enum dtype dtype;
    int ndim;
    int shape[MX_MAX_NDIM];
};

/* References.  mx_keep takes the new one before it lets the old one go. */
static inline void mx_retain(mx x) { atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed); }
void mx_release(mx x);
bool mx_try_retain(mx x); /* false if x is already on its way out */
void mx_keep(mx_own *slot, mx x);
void mx_drop(mx_own *slot);

/* A growing list of owned arrays. */
struct mx_list {
    int n, cap;
    mx_own *v;
};
int list_push(struct mx_list *l, mx x); /* non-zero after mx_fail */
int list_push_all(struct mx_list *l, int n, const mx x[]);
void list_clear(struct mx_list *l);

/* New arrays, lent to the current scope.  Shapes are checked: negative sizes and products past
 * 2^63 bytes fail.  `array_new` is LAZY without a node: the caller fills it in. */
mx array_new(enum dtype t, int ndim, const int *shape);
mx array_like(enum dtype t, mx x); /* of the shape of x */
/* Row-major view of a whole buffer; takes over the caller's reference to it. */
mx array_of_buffer(enum dtype t, int ndim, const int *shape, struct buffer *buf);
/* Row-major copy of host memory. */
mx array_of_data(enum dtype t, int ndim, const int *shape, const void *data);
/* 0-d arrays; the value is converted to `t` (rounded, wrapped). */
mx array_of_int(int64_t v, enum dtype t);
mx array_of_double(double v, enum dtype t);
mx array_of_complex(double re, double im, enum dtype t);
/* Another array on the same data (READY x only). */
mx array_alias(mx x);

/* The size of axis i, which may be negative; 1 for any axis of MX_NIL. */
int dim(mx x, int i);
static inline size_t itemsize(mx x) { return dtype_size(x->dtype); }
static inline int64_t nbytes(mx x) { return x->size * (int64_t)itemsize(x); }

/* Host address of the first element of a READY array whose buffer the host owns. */
void *array_host(mx x);
/* Can its elements be read at once, without waiting for them or bringing them? */
bool array_readable(mx x);
/* The number of a real floating point type that is kept there; NaN for another type. */
double float_at(enum dtype t, const void *at);
/* Recomputes `row` from shape and strides. */
void array_note_layout(mx x);

/* Live arrays of this process, for leak tests. */
long array_live_count(void);

#endif
