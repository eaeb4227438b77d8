/* gpu.h: one GPU, its streams, and how runners launch kernels on them. */
#ifndef MX_CUDA_GPU_H
#define MX_CUDA_GPU_H

#include <stdatomic.h>

#include "core/buffer.h"
#include "core/lock.h"
#include "core/outside.h"
#include "core/sizes.h"
#include "cuda/driver.h"
#include "cuda/held.h"
#include "cuda/tape.h"
#include "ops/op.h"
#include "plan/box.h"
#include "plan/result.h"
#include "run/queue.h"

enum {
    MAX_GPUS = 16,
    MODULES = 1024,
    RING = 64,          /* marks of a stream that have events of their own */
    GPU_TABLES = 32,    /* what runners keep on the device from call to call */
    GPU_PIECES = 4,     /* of pinned memory, for each direction */
    GPU_ARRIVED = 1024, /* counts of a stream's */
};

/* Memory of the host for copies in one direction (staging.c), in pieces; event[i]: piece i has been copied. */
struct gpu_ring {
    struct lock lock;
    char *memory; /* NULL: not yet there */
    void *event[GPU_PIECES];
    int next;
    bool pinned, ended; /* ended: the process is, and pinned memory goes with the driver */
};

struct gpu {
    struct memory memory; /* the first member */
    struct lock cutting;
    char *slab; /* what is left of the newest one that small blocks are cut from */
    size_t slab_left;
    struct gpu_slab *slabs; /* by address */
    int n_slabs, slabs_cap;
    int number, device;
    void *context;
    char name[128];
    int major, minor, multiprocessors;
    bool overlaps;                 /* launches: all kernels for it wait for those ahead of them by themselves */
    void *_Atomic module[MODULES]; /* loaded, by number in the library's list */
    void *copies;                  /* the driver's stream for copies to the host */
    struct gpu_ring in, out;
    _Atomic int lost; /* the driver's error after which nothing works any more */
    atomic_bool opened;
};

/* Notes of indices out of range (note.c): one that is looked at when work ends, one that is looked at at once. */
enum gpu_note { NOTE_LATER, NOTE_NOW };
struct gpu_notes {
    uint64_t on_device; /* 0: not yet there */
    uint64_t *heard;    /* of each, which kernels write to as well: not 0 where there is one */
    uint64_t launches;
};

/* Numbers that kernels of a stream read, kept for the next ones (fourier.c). */
struct gpu_table {
    int64_t key[4];
    struct buffer *of; /* NULL: none */
    uint64_t used;     /* when it was last */
};

/* A chain of so many kernels that has been launched (record.c). */
struct recorded_graph {
    void *exec; /* NULL: none is kept */
    bool seen;
    uint8_t refused; /* how often it could not be made or updated */
};

/* A stream's queue: batches, and the driver's stream that their kernels are put on, which is there from the first that
 * runs on: building graphs does not use the device. */
struct gpu_stream {
    struct batch_queue queue;
    struct gpu *gpu;
    atomic_bool opened;
    void *stream;
    struct lock lock;
    uint64_t now; /* the mark of what is being queued; marks below are in event[mark % RING] */
    void *event[RING];
    _Atomic uint64_t passed; /* marks below are known to have passed */
    int queued, ended;       /* since the last event: what is queued, and by batches that have ended (gpu_count_work) */
    int launches;            /* of this batch, since anything else was queued */
    struct tape tape;        /* those of them that are not yet on the stream */
    void *recorder;
    struct recorded_graph graph[TAPE_MOST];
    struct kept_tapes *tapes;   /* that have been launched (record.c) */
    struct gpu_vectors vectors; /* what is held (held.h), and behind those */
    struct gpu_held_norm norm;
    struct gpu_notes notes;
    uint64_t arrived; /* GPU_ARRIVED zeros on the device; 0: not yet there */
    struct gpu_table table[GPU_TABLES];
    uint64_t tables_used;
};

static inline struct gpu_stream *gpu_stream(const struct stream *s) { return s->queue; }
static inline struct gpu *gpu_of(const struct run *r) { return gpu_stream(r->stream)->gpu; }

/* Opened, with its context current on this thread; NULL after mx_fail. */
struct gpu *gpu_use(int number);
/* The one that this thread used last; NULL: none. */
struct gpu *gpu_used(void);
/* The same of the device of a stream, which is opened too. */
struct gpu *gpu_use_stream(const struct stream *s);
/* 0, or after mx_fail non-zero; an error that the driver does not recover from loses the device. */
int gpu_check(struct gpu *g, const char *op, int error);

void gpu_memory_open(struct gpu *g);
void *gpu_alloc(struct stream *s, size_t bytes);
void gpu_free(struct stream *s, void *p, size_t bytes);

/* Queues a copy to the device; `from` has been read when it returns.  Non-zero after mx_fail. */
int gpu_send(struct gpu_stream *q, uint64_t to, const void *from, size_t bytes);
/* The same of bytes that `fill` makes: n of them from `at` on, pieces in order, at multiples of 4 MiB.  It may use
 * the pool; non-zero after mx_fail, and the rest is not copied.  Another thread may wait for it. */
typedef int gpu_fill_fn(void *ctx, void *piece, size_t at, size_t n);
int gpu_send_filled(struct gpu_stream *q, uint64_t to, size_t bytes, gpu_fill_fn *fill, void *ctx);
/* Copies to the host behind what the stream for copies has been told to wait for, and waits for that; the driver's
 * error. */
int gpu_fetch(struct gpu *g, void *to, uint64_t from, size_t bytes);
/* When the process ends: nobody writes to pinned memory any more. */
void gpu_end_rings(struct gpu *g);
/* Does it, so that what the driver gave of the host's memory may be gone? */
bool gpu_process_ends(void);
/* Waits until the event has passed; the driver's error. */
int gpu_await_event(void *event);

/* A kernel of a module by name: "elementwise_f32", "cu_add_f32".  NULL after mx_fail. */
void *gpu_kernel(struct gpu *g, const char *module, const char *kernel);
/* The same, found once on each device: cu_<kernel>_<suffix> of <module>_<suffix> for a type, with the suffixes of
 * core/dtype.h; cu_<kernel> of <module> where t is DT_COUNT.  A slot belongs to one kernel. */
struct gpu_found {
    void *_Atomic on[MAX_GPUS];
};
void *gpu_find(struct gpu *g, struct gpu_found *slot, const char *module, const char *kernel, enum dtype t);
/* By the size of an element: cu_<kernel>_<size> of <module>_<size>.  The slots are one for each of 1, 2, 4, 8, 16. */
void *gpu_find_sized(struct gpu *g, struct gpu_found slots[5], const char *module, const char *kernel, size_t size);
/* How many neighbouring elements a thread reads at once (kernels/lanes.h). */
static inline int gpu_lanes(enum dtype t) { return dtype_size(t) <= 2 ? 8 : 4; }
/* What a partial sum of products takes, by the type of the numbers. */
static inline size_t gpu_sum_size(enum dtype t) { return dtype_size(t) <= 4 ? 4 : 8; }
/* How many blocks have as much to do of so many turns, `at_once` of which a multiprocessor has. */
static inline int64_t gpu_even_blocks(const struct gpu *g, int64_t turns, int at_once)
{
    return ceil_div(turns, ceil_div(turns, (int64_t)g->multiprocessors * at_once));
}
/* How often a block goes on to its next piece of so many: while there remain some blocks a multiprocessor. */
static inline int32_t gpu_rounds(const struct gpu *g, int64_t pieces)
{
    enum { ROUNDS = 4, BLOCKS = 16 };
    int64_t rounds = pieces / (g->multiprocessors * BLOCKS);
    return (int32_t)(rounds < 1 ? 1 : rounds < ROUNDS ? rounds : ROUNDS);
}
/* The least power of two that is not below n, `most`, itself one, at most. */
static inline int32_t gpu_power_of_two(int64_t n, int32_t most)
{
    int32_t p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}
struct gpu_known {
    _Atomic signed char on[MAX_GPUS]; /* 1: yes, -1: no, 0: it was not asked yet */
};
/* Is there such a kernel among those of a type?  What needs instructions that came later is not in text for earlier
 * devices, which is what a later one may have to run.
 * Asked once on each device. */
bool gpu_has(struct gpu *g, struct gpu_known *slot, const char *module, const char *kernel, enum dtype t);
/* Does a warp multiply matrices of TF32 so much faster than numbers of float32 that three products of those are worth
 * one of these (kernels/tile_split.inc)?  It does on 8.0, 9.0 and 10.0, and not on the smaller devices of these. */
bool gpu_splits(const struct gpu *g);
/* May products of float32 leave out bits (MLX_ENABLE_TF32=1)? */
bool gpu_tf32(void);
/* Are sums to be the same bits each time where another order is faster (MLX_DETERMINISTIC=1)? */
bool gpu_deterministic(void);
/* The driver's stream with what has been recorded of it queued on it: for anything but launches, after which a row of
 * launches begins anew.  Where that fails the device is lost, which gpu_check tells.  The second is under the stream's
 * lock; the driver's error. */
void *gpu_direct(struct gpu_stream *q);
int gpu_flush(struct gpu_stream *q);
/* Under the stream's lock, before something is queued that is as much as n small launches. */
void gpu_count_work(struct gpu_stream *q, int n);
/* Queues a launch of a kernel of ours; y: as of gpu_launch_with_norm, or NULL.  The driver's error, after which it is
 * not queued. */
int gpu_queue_launch(struct gpu_stream *q, void *kernel, unsigned blocks, unsigned threads, unsigned shared,
                     void *args[], void **y);
/* Queues what a library has done before in the same way, later; false: it is not, and is to be done now.  The bytes at
 * `what` say all there is to know, with the same ones each time. */
bool gpu_queue_library(struct gpu_stream *q, gpu_library_fn *f, const void *what, size_t bytes);
/* The stream, for what a library puts on it now; until the end no lock of a stream is taken. */
void *gpu_library_begin(struct gpu_stream *q);
void gpu_library_end(struct gpu_stream *q);
/* Queues blocks x threads of it; args points at the arguments. */
int gpu_launch(struct stream *s, const char *op, void *kernel, int64_t blocks, int threads, void *args[]);
/* The same for a kernel that has SHARED_BYTES. */
int gpu_launch_shared(struct stream *s, const char *op, void *kernel, int64_t blocks, int threads, size_t bytes,
                      void *args[]);
/* A launch that makes the norm whose result is *y too, if that is held still: else *y becomes NULL before the kernel
 * gets it.  The norm stays held if the launch fails.  Where y is NULL no norm is made. */
int gpu_launch_with_norm(struct stream *s, const char *op, void *kernel, int64_t blocks, int threads, void *args[],
                         void **y);
/* The same of products, which are held (gpu_hold_vectors). */
int gpu_launch_vectors(struct stream *s, const char *op, const struct gpu_vectors *v, const void *args, void **y);
/* Puts a launch of a kernel of ours on the driver's stream, which it may begin on before what is ahead of it has ended;
 * the driver's error. */
int gpu_put_launch(struct gpu *g, void *kernel, unsigned blocks, unsigned threads, unsigned bytes, void *stream,
                   void *args[]);

/* Operations from outside (extension.c): whether one has a rule for GPUs, how it runs, and how it launches kernels of
 * the libraries that it came with. */
struct plugin;
struct launch;
bool gpu_takes_plugin(const struct plugin *p);
run_fn gpu_run_plugin;
int gpu_launch_library(struct stream *s, const struct launch *l);

/* Says whether a runner takes the node's operands, whose shapes and dtypes are known and nothing more. */
typedef bool gpu_takes_fn(const struct node *n);
#define RUNNER(op, run, takes) \
    run_fn run;                \
    gpu_takes_fn takes;
#include "cuda/runners.def"
bool gpu_reads_host(const struct node *n, int k);
/* Element-wise entries as one (fused.c). */
int gpu_run_fused(struct stream *s, int n, struct entry *const m[], const bool wanted[]);
/* Does the node draw random bits?  Is it a product of matrices that a library is likely to do, or of a vector? */
bool gpu_draws(const struct node *n);
bool gpu_multiplies(const struct node *n);
/* Do both multiply the same vector, each with a matrix? */
bool gpu_share_a_vector(const struct node *n, const struct node *first);
/* Are both rotations by the same angles?  Do both set parts of arrays that are not one?  How n such run (rope.c,
 * move.c), which read none of each other's results. */
bool gpu_ropes_are_alike(const struct node *n, const struct node *first);
bool gpu_updates_are_alike(const struct node *n, const struct node *first);
int gpu_run_ropes(struct stream *s, int n, struct entry *const m[]);
int gpu_run_updates(struct stream *s, int n, struct entry *const m[]);
/* Is it a Fourier transform of one axis that cuFFT may make with the next one, and is `n`, whose operand `first` makes,
 * that next one? */
bool gpu_begins_fft2(const struct node *first);
bool gpu_ends_fft2(const struct node *n, const struct node *first);
/* NULL: the operation has no kernel for these operands (dispatch.c). */
run_fn *gpu_runner(const struct node *n);

/* Row-major memory for y[k]. */
static inline int gpu_out_new(const struct run *r, int k) { return result_new(r->stream, r->y[k]); }
/* y[k] gets the memory of x, which it fits into, unless another device or stream has some of that. */
bool gpu_out_at(const struct run *r, int k, mx x);
/* y[k] gets operand i's memory, if nobody else looks at that. */
bool gpu_out_in(const struct run *r, int k, int i);
/* y[k], whose elements are made of those at the same places, gets any operand's memory, or else new. */
int gpu_out_over(const struct run *r, int k);
/* y[k] becomes operand i with room to be changed: in its memory where nobody else looks at it, else a copy. */
int gpu_out_from(const struct run *r, int k, int i);
/* Does nobody look at operand i after this, whose memory is this stream's alone? */
bool gpu_reads_last(const struct run *r, int i);
/* Are both, which have data, the same elements in the same order? */
static inline bool gpu_same_elements(mx x, mx y)
{
    return x == y || (x->buf == y->buf && x->offset == y->offset && x->size == y->size && x->dtype == y->dtype &&
                      x->row && y->row);
}
/* The address of an array's first element. */
uint64_t gpu_address(const struct run *r, mx x);
static inline void *gpu_pointer(const struct run *r, mx x) { return (void *)gpu_address(r, x); }
/* Is p where an operand begins whose bytes were there, as is known, before anything was queued that has not ended?
 * Those of weights are.  A kernel may read them ahead of AFTER_LAUNCH. */
bool gpu_was_there(const struct run *r, const void *p);

/* Indices out of range: what a kernel is told before its launch, beside `about`.  One that is noted NOTE_LATER, if it
 * would be reported at all, is found by gpu_notes_look, after a wait for the stream's work; one that is noted NOTE_NOW
 * by gpu_noted, which says whether there was one.  Both report it, gpu_noted if asked to, and are 1 where it is a
 * failure, or where the device failed. */
struct noting;
struct note_about;
struct lookup_index;
int gpu_noting(const struct run *r, struct noting *t, enum gpu_note when);
int gpu_noted(const struct run *r, bool *any, bool reported);
int gpu_notes_look(struct gpu_stream *q);
/* What is said of n index arrays of `count` places, but for their shape; kind: an enum note_kind. */
void gpu_note_about(struct note_about *a, const char *op, int kind, enum outside_use use, int64_t count, int n,
                    const struct lookup_index *index);

/* n zeros, which kernels of the stream count with and leave as zeros; NULL: there are not so many. */
uint32_t *gpu_arrived(struct gpu_stream *q, int64_t n);

/* Copies elements from one address to another as the box says (move.c); overlapping memory is not expected. */
int gpu_copy_box(const struct run *r, const struct box *b, uint64_t to, uint64_t from);
/* x into row-major memory. */
int gpu_copy_to(const struct run *r, uint64_t to, mx x);
/* Folds updates into the box of y, its strides in elements, that begins `offset` elements behind y's first (lookup.c);
 * kind: an enum scatter_fold. */
int gpu_fold_box(const struct run *r, unsigned kind, mx y, int64_t offset, const int64_t *strides, mx updates);
/* y[i] = x[index[i]], of the indices that there are: y has the shape of the index, 1, and that of x but for its first
 * axis. */
int gpu_take(const struct run *r, mx y, mx x, mx index);
/* n keys, which are put in order with their numbers, or what else there is of each; those of one value keep theirs
 * (sort.c). */
struct gpu_keys {
    uint32_t *key[2], *number[2];
    int64_t n;
    int low;                 /* bits of a key that do not count */
    const uint32_t *instead; /* of numbers, which are 0, 1, ...; NULL: nothing; for more than GPU_KEYS_FEW keys */
};
enum { GPU_KEYS_FEW = 8192 };
size_t gpu_keys_room(int64_t n); /* in words of 32 bits, as they lie at `room` */
struct gpu_keys gpu_keys_at(uint32_t *room, int64_t n);
/* Those of key[0], of values up to `most`, or of all bits set: in one of the pairs of arrays, whose number is returned.
 * Negative after mx_fail. */
int gpu_keys_sort(const struct run *r, const struct gpu_keys *k, uint64_t most);
/* By how many bits, above the lowest that do not count, those are put in order. */
int gpu_keys_bits(int low, uint64_t most);

/* The products that a plan says of its first operands, n of them, into y (product.c); what else there is to be said is
 * in `a`. */
struct product_args;
struct product_plan;
int gpu_multiply(const struct run *r, const struct product_plan *p, int n, const mx x[], mx y, struct product_args *a);
/* Does that read rows of x[0] where they are, those of a->number[0], in a->order?  y has elements. */
bool gpu_multiplies_in_order(const struct run *r, const struct product_plan *p, const mx x[2], mx y,
                             const struct product_args *a);
/* One of them that is y[0] of the call, which has memory and elements; by a library where there is one that does it. */
int gpu_product(const struct run *r, const struct product_plan *p, const mx x[2]);
/* The last axis of x, row-major and of a float type of 32 bits or fewer, in y, where it is longer by less than a
 * vector; zeros behind. */
int gpu_lengthen(const struct run *r, mx x, mx y);
/* Parts of matrices, which may overlap nothing that is written: from row to row, column to column, matrix to matrix. */
struct gpu_matrices {
    void *p;
    int64_t row, column, matrix;
};
/* y = alpha a b + beta y, each of so many of m by k times k by n; the columns of y are neighbours.  float32 keeps all
 * bits. */
struct gpu_product_at {
    struct gpu_matrices y, a, b;
    int64_t m, n, k, count;
    double alpha, beta;
};
int gpu_multiply_at(const struct run *r, enum dtype t, const struct gpu_product_at *p);
/* gather_mm of these operands (pick.c). */
int gpu_gather_products(const struct run *r, const char *op, const mx x[4]);
/* Which matrices n index arrays of one shape, row-major, pick: what each is of, and where the numbers go. */
int gpu_pick(const struct run *r, const char *op, int n, const struct lookup_index *what, uint32_t *const to[]);

/* x itself where it is row-major, else a copy in `hold`, to be dropped once what reads it is queued; MX_NIL after
 * mx_fail. */
mx gpu_row_major(const struct run *r, mx x, mx_own *hold);
/* Each of n operands so; false after mx_fail.  In either case gpu_drop drops them. */
bool gpu_all_row_major(const struct run *r, int n, mx x[], mx_own hold[]);
static inline void gpu_drop(int n, mx_own hold[])
{
    for (int i = 0; i < n; i++) mx_drop(&hold[i]);
}

#endif
