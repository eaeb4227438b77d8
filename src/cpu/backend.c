/* backend.c: the CPU as a backend: a queue with a worker for each stream, and the table of runners.
 *
 * A batch that somebody waits for runs on that thread when the queue is idle: handing it to the
 * worker would cost more than most small graphs do.  Invariant: one batch of a queue runs at a
 * time, in the order of submission. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "cpu/made.h"
#include "cpu/run.h"
#include "run/eval.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct batch *first, *last;
    uint64_t given, done; /* how many batches came, how many have run */
    bool busy;    /* a batch runs, here or on a waiting thread */
    bool started; /* there is a worker */
    pthread_t worker;
    enum mx_error error; /* of work nobody waited for, until somebody synchronizes */
    char *message;
};

static void finish(struct queue *q, struct event *done, bool now)
{
    pthread_mutex_lock(&q->lock);
    /* Who gave up knows. */
    if (!now && done->error != MX_OK && done->error != MX_INTERRUPTED && q->error == MX_OK) {
        q->error = done->error;
        q->message = done->message ? strdup(done->message) : NULL;
    }
    q->busy = false;
    q->done++;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static void run_one(struct queue *q, struct batch *b)
{
    struct event *done = b->done;
    bool now = b->now;
    event_retain(done);
    run_batch(b);
    finish(q, done, now);
    event_release(done);
}

/* A worker that was sent away finds another in its place, or none. */
static bool employed(const struct queue *q) { return q->started && pthread_equal(q->worker, pthread_self()); }

static void *work(void *arg)
{
    struct queue *q = arg;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (employed(q) && (q->busy || !q->first))
            pthread_cond_wait(&q->changed, &q->lock);
        if (!employed(q))
            break;
        struct batch *b = q->first;
        q->first = b->next;
        q->busy = true;
        pthread_mutex_unlock(&q->lock);
        run_one(q, b);
        pthread_mutex_lock(&q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

static void *cpu_open(struct stream *s)
{
    (void)s;
    struct queue *q = mx_malloc(sizeof *q);
    if (!q)
        return NULL;
    memset(q, 0, sizeof *q);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    return q;
}

/* The child has the queue but not its worker, and the lock may have been held. */
static void cpu_forked(struct stream *s)
{
    struct queue *q = s->queue;
    memset(q, 0, sizeof *q);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
}

/* Waits for what came before this call, however much comes meanwhile. */
static void wait_for_given(struct queue *q)
{
    for (uint64_t given = q->given; q->done < given;)
        pthread_cond_wait(&q->changed, &q->lock);
}

/* A worker that more work has come for is needed, and stays. */
static void cpu_rest(struct stream *s)
{
    struct queue *q = s->queue;
    pthread_mutex_lock(&q->lock);
    wait_for_given(q);
    free(q->message);
    q->error = MX_OK;
    q->message = NULL;
    bool idle = q->started && !q->busy && !q->first;
    pthread_t worker = q->worker;
    if (idle) {
        q->started = false;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    if (idle)
        pthread_join(worker, NULL);
}

static int cpu_submit(struct stream *s, struct batch *b)
{
    struct queue *q = s->queue;
    b->next = NULL;
    pthread_mutex_lock(&q->lock);
    q->given++;
    bool idle = !q->busy && !q->first;
    if (!q->started && !(b->now && idle))
        q->started = !pthread_create(&q->worker, NULL, work, q);
    bool here = idle && (b->now || !q->started); /* also where no thread is to be had */
    if (here) {
        q->busy = true;
    } else {
        if (q->first)
            q->last->next = b;
        else
            q->first = b;
        q->last = b;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return here;
}

/* The next batch of a queue that has no worker, which is then busy. */
static struct batch *left_over(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    struct batch *b = q->started || q->busy ? NULL : q->first;
    if (b) {
        q->first = b->next;
        q->busy = true;
    }
    pthread_mutex_unlock(&q->lock);
    return b;
}

static void cpu_run_now(struct stream *s, struct batch *b)
{
    for (struct queue *q = s->queue; b; b = left_over(q))
        run_one(q, b);
}

static int cpu_synchronize(struct stream *s)
{
    struct queue *q = s->queue;
    pthread_mutex_lock(&q->lock);
    wait_for_given(q);
    enum mx_error error = q->error;
    char *message = q->message;
    q->error = MX_OK;
    q->message = NULL;
    pthread_mutex_unlock(&q->lock);
    if (error != MX_OK)
        mx_fail_computing(error, message ? message : "");
    free(message);
    return error != MX_OK;
}

/* ---- running one operation */

static run_fn *const runners[OP_COUNT] = {
#define UNARY(name, ...) [OP_##name] = run_unary,
#define BINARY(name, ...) [OP_##name] = run_binary,
#define OTHER(name, ...) [OP_##name] = run_##name,
#include "ops/ops.def"
};

static bool cpu_supports(const struct node *n)
{
    const struct plugin *p = plugin_of(n->op);
    return p ? p->supports(p, DEVICE_CPU) : runners[n->op->id] != NULL;
}

static int cpu_run(struct stream *s, struct entry *e)
{
    const struct node *n = e->node;
    struct run r = { .node = n, .args = n->args, .nin = n->nin, .nout = n->nout, .x = n->in, .y = entry_out(e),
                     .keep = e->keep };
    return plugin_of(n->op) ? run_plugin(&r, s, DEVICE_CPU) : runners[n->op->id](&r);
}

static int cpu_run_fused(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    (void)s;
    return run_tape(n, m, wanted);
}

void out_in(mx y, struct buffer *b)
{
    int64_t s = 1;
    for (int i = y->ndim; i-- > 0;) {
        y->strides[i] = s;
        s *= y->shape[i];
    }
    y->row = true;
    y->offset = 0;
    y->buf = b;
}

int out_new(const struct run *r, int k)
{
    mx y = r->y[k];
    struct buffer *b = buffer_new((size_t)nbytes(y));
    if (!b)
        return 1;
    out_in(y, b);
    return 0;
}

/* This entry is the only one who will ever look at x again: all its references are this node's. */
static bool dead_after(const struct run *r, mx x)
{
    int mine = 0;
    for (int i = 0; i < r->nin; i++)
        mine += r->x[i] == x;
    return !r->keep && atomic_load_explicit(&r->node->refs, memory_order_relaxed) == 1 &&
           atomic_load_explicit(&x->refs, memory_order_acquire) == mine &&
           atomic_load_explicit(&x->buf->refs, memory_order_acquire) == 1 && x->buf->writable && !x->buf->mapped;
}

static bool reusable(const struct run *r, mx y, mx x)
{
    return x->row && x->size == y->size && itemsize(x) == itemsize(y) && x->offset == 0 &&
           x->buf->bytes == (size_t)nbytes(y) && dead_after(r, x);
}

void out_take(mx y, mx x)
{
    buffer_retain(x->buf);
    atomic_store(&x->buf->state, ON_HOST);
    out_in(y, x->buf);
}

int out_over(const struct run *r, int k, int i)
{
    if (!reusable(r, r->y[k], r->x[i]))
        return out_new(r, k);
    out_take(r->y[k], r->x[i]);
    return 0;
}

int out_over_any(const struct run *r, int k)
{
    for (int i = 0; i < r->nin; i++)
        if (reusable(r, r->y[k], r->x[i])) {
            out_take(r->y[k], r->x[i]);
            return 0;
        }
    return out_new(r, k);
}

/* ---- facts */

static int cpu_count(void) { return 1; }

static void cpu_info(int device, void (*add)(void *, const char *, const char *, size_t), void *ctx)
{
    (void)device;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    add(ctx, "architecture",
#if defined(__x86_64__)
        "x86_64",
#elif defined(__aarch64__)
        "arm64",
#else
        "unknown",
#endif
        0);
    add(ctx, "device_name", cpu->isa, 0);
    add(ctx, "memory_size", NULL, (size_t)sysconf(_SC_PHYS_PAGES) * page);
    add(ctx, "max_recommended_working_set_size", NULL, (size_t)sysconf(_SC_PHYS_PAGES) * page / 4 * 3);
    add(ctx, "threads", NULL, (size_t)pool_threads());
}

const struct backend cpu_backend = {
    .name = "cpu",
    .type = DEVICE_CPU,
    .device_count = cpu_count,
    .open = cpu_open,
    .rest = cpu_rest,
    .forked = cpu_forked,
    .submit = cpu_submit,
    .run_now = cpu_run_now,
    .supports = cpu_supports,
    .run = cpu_run,
    .run_fused = cpu_run_fused,
    .ends = reduces_made,
    .synchronize = cpu_synchronize,
    .info = cpu_info,
};
