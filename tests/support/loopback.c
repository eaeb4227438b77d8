/* loopback.c: see loopback.h.
 *
 * A stream has a queue of batches, as every backend's, whose runner only notes what is to be done: tasks, which
 * another thread does one after the other, later.  A mark is a task that says how far it is. */
#define _GNU_SOURCE
#include "support/loopback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/pool.h"
#include "core/scope.h"
#include "cpu/run.h"
#include "ops/plugin.h"
#include "plan/result.h"
#include "run/eval.h"
#include "run/queue.h"

enum { DEVICES = 2, POISON = 0xa5 };

static atomic_uint delay;
static size_t memory;
static atomic_size_t in_use;
static atomic_long copies, recordings, replays;
static const char *failing, *forgotten;
static const char *failing_late;
static int opens_left = -1;
static struct stream *held;                       /* under the lock */
static void (*before_queueing)(struct stream *s); /* by the thread that queues */

void loopback_set_delay(unsigned us) { atomic_store(&delay, us); }
void loopback_set_memory(size_t bytes) { memory = bytes; }
void loopback_fail_op(const char *name) { failing = name; }
void loopback_forget_op(const char *name) { forgotten = name; }
void loopback_fail_late(const char *name) { failing_late = name; }
void loopback_fail_open(int after) { opens_left = after; }
void loopback_before_queueing(void (*f)(struct stream *s)) { before_queueing = f; }
size_t loopback_in_use(void) { return atomic_load(&in_use); }
long loopback_copies(void) { return atomic_load(&copies); }

static atomic_size_t bytes_read;

size_t loopback_read(void) { return atomic_load(&bytes_read); }
long loopback_recordings(void) { return atomic_load(&recordings); }
long loopback_replays(void) { return atomic_load(&replays); }

static bool (*run_kernel)(const char *kernel, const int blocks[3], const int threads[3], const void *const *args);
void loopback_set_kernels(bool (*run)(const char *kernel, const int blocks[3], const int threads[3],
                                      const void *const *args))
{
    run_kernel = run;
}

/* ---- the device's memory: pages that nobody can touch unless the device works on them */

static size_t pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return ((bytes ? bytes : 1) + page - 1) / page * page;
}

/* Several threads may have the device open: pages are counted open, not per block. */
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool open_here; /* this thread has it open, and writes at once */

static void protect(const void *p, size_t bytes, int how)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p / page * page;
    mprotect((void *)from, pages((uintptr_t)p - from + bytes), how);
}
static void open_pages(const void *p, size_t bytes) { protect(p, bytes, PROT_READ | PROT_WRITE); }
static void close_pages(const void *p, size_t bytes) { protect(p, bytes, PROT_NONE); }

static void move(void *to, bool to_device, const void *from, bool from_device, size_t bytes)
{
    pthread_mutex_lock(&door);
    if (to_device)
        open_pages(to, bytes);
    if (from_device)
        open_pages(from, bytes);
    memcpy(to, from, bytes);
    if (to_device)
        close_pages(to, bytes);
    if (from_device)
        close_pages(from, bytes);
    pthread_mutex_unlock(&door);
}

static void spoil(void *p, size_t bytes)
{
    pthread_mutex_lock(&door);
    open_pages(p, bytes);
    memset(p, POISON, bytes);
    close_pages(p, bytes);
    pthread_mutex_unlock(&door);
}

/* ---- tasks */

enum what { RUN, COPY, MARK, FOLLOW, SPOIL, FREE };
struct shadow {
    struct mx_array array;
    struct buffer buffer;
    int64_t numbers[2 * MX_MAX_NDIM];
};
struct task {
    struct task *next;
    enum what what;
    void *to, *from;
    bool from_device;
    size_t bytes;
    struct loop *other;
    uint64_t mark;
    struct node node;  /* RUN: what has been copied of an entry's */
    struct node *args; /* who holds its arguments */
    struct shadow *x, *y;
    struct event *fails; /* instead; NULL: it does not */
};

struct tasks {
    struct task *first, *last;
    int n;
};

/* What a batch came to, kept as a driver keeps a graph: the same again is started with other addresses alone. */
struct program {
    struct program *next;
    struct tasks tasks;
};

struct loop {
    struct batch_queue queue;
    struct stream *stream;
    pthread_t worker;
    struct tasks tasks;
    bool collecting; /* within a batch: tasks wait in `later` */
    struct tasks later;
    struct program *programs; /* those started so far */
    int n_programs;
    uint64_t now, passed; /* the mark of what is queued; how many have passed */
    uint64_t lost, back;  /* what was between these at a fork() is the parent's */
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static struct loop *loop_of(const struct stream *s) { return s->queue; }

static struct task *task_new(enum what what)
{
    struct task *t = calloc(1, sizeof *t);
    t->what = what;
    return t;
}

/* As with real devices, who queues more than that waits. */
enum { MOST_QUEUED = 1000 };
static _Thread_local bool is_device;

static void append(struct tasks *l, struct tasks more)
{
    if (!more.first)
        return;
    if (l->first)
        l->last->next = more.first;
    else
        l->first = more.first;
    l->last = more.last;
    l->n += more.n;
}

/* Under the lock, before anything is taken in hand: who waits lets others in. */
static void make_room(struct loop *q)
{
    while (q->tasks.n >= MOST_QUEUED && !is_device && !open_here) pthread_cond_wait(&changed, &lock);
}

static void start(struct loop *q, struct tasks more)
{
    append(&q->tasks, more);
    pthread_cond_broadcast(&changed);
}

/* What a batch has queued so far, where somebody waits for it before the batch ends. */
static void start_early(struct loop *q)
{
    struct tasks some = q->later;
    q->later = (struct tasks){ 0 };
    start(q, some);
}

static void queue_task(struct loop *q, struct task *t)
{
    struct tasks one = { t, t, 1 };
    pthread_mutex_lock(&lock);
    make_room(q);
    if (q->collecting)
        append(&q->later, one);
    else
        start(q, one);
    pthread_mutex_unlock(&lock);
}

static void task_free(struct task *t)
{
    if (t->fails)
        event_release(t->fails);
    free(t->node.specs);
    if (t->args)
        node_release(t->args);
    free(t->x);
    free(t->y);
}

/* The CPU's kernel, on the memory of the device. */
static void run_late(struct task *t)
{
    struct node node = t->node;
    mx x[64], y[16];
    pthread_mutex_lock(&door);
    for (int i = 0; i < node.nin; i++) {
        x[i] = &t->x[i].array;
        open_pages(t->x[i].buffer.host, t->x[i].buffer.bytes);
    }
    for (int k = 0; k < node.nout; k++) y[k] = &t->y[k].array;
    node.in = x;
    struct entry e = { .node = &node, .one = y[0], .several = node.nout > 1 ? y : NULL, .keep = true };
    struct stream *cpu = default_stream((struct device){ DEVICE_CPU, 0 });
    if (backend_of(cpu)->run(cpu, &e))
        abort(); /* what can fail is asked when it is queued */
    for (int i = 0; i < node.nin; i++) close_pages(t->x[i].buffer.host, t->x[i].buffer.bytes);
    pthread_mutex_unlock(&door);
    for (int k = 0; k < node.nout; k++) {
        struct buffer *made = y[k]->buf;
        move(t->y[k].buffer.host, true, made->host, false, t->y[k].buffer.bytes);
        buffer_release(made);
    }
    task_free(t);
}

static void fail_late(struct task *t)
{
    char words[100];
    snprintf(words, sizeof words, "[%s] the device failed late", t->node.op->name);
    event_set(t->fails, failure_new(MX_RUNTIME, words));
    task_free(t);
}

static void *work(void *arg)
{
    struct loop *q = arg;
    is_device = true;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!q->tasks.first || held == q->stream) pthread_cond_wait(&changed, &lock);
        struct task *t = q->tasks.first;
        if (t->what == FOLLOW)
            while (t->other->passed <= t->mark) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        switch (t->what) {
        case RUN:
            usleep(atomic_load(&delay));
            if (t->fails)
                fail_late(t);
            else
                run_late(t);
            break;
        case COPY: move(t->to, true, t->from, t->from_device, t->bytes); break;
        case SPOIL: spoil(t->to, t->bytes); break;
        case FREE:
            munmap(t->to, pages(t->bytes));
            atomic_fetch_sub(&in_use, pages(t->bytes));
            break;
        default: break;
        }
        if (t->what == COPY && !t->from_device)
            free(t->from);
        pthread_mutex_lock(&lock);
        q->tasks.first = t->next;
        q->tasks.n--;
        if (t->what == MARK)
            q->passed = t->mark + 1;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        free(t);
    }
    return NULL;
}

static uint64_t mark(struct stream *s)
{
    pthread_mutex_lock(&lock);
    uint64_t now = loop_of(s)->now;
    pthread_mutex_unlock(&lock);
    return now;
}

/* The mark of what is queued so far becomes a task, if it is not one. */
static void reach(struct loop *q, uint64_t m)
{
    pthread_mutex_lock(&lock);
    make_room(q);
    if (m >= q->now) {
        struct task *t = task_new(MARK);
        t->mark = q->now++;
        append(&q->later, (struct tasks){ t, t, 1 });
        start_early(q);
    }
    pthread_mutex_unlock(&lock);
}

static int follow(struct stream *s, struct stream *other, uint64_t m)
{
    reach(loop_of(other), m);
    struct task *t = task_new(FOLLOW);
    t->other = loop_of(other);
    t->mark = m;
    queue_task(loop_of(s), t);
    return 0;
}

static int wait_for(struct stream *s, uint64_t m)
{
    struct loop *q = loop_of(s);
    if (m >= q->lost && m < q->back) {
        mx_fail_as(MX_RUNTIME, "[loopback] this was being computed when the process forked");
        return 1;
    }
    reach(q, m);
    pthread_mutex_lock(&lock);
    while (q->passed <= m) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}

static bool passed(struct stream *s, uint64_t m)
{
    struct loop *q = loop_of(s);
    reach(q, m);
    pthread_mutex_lock(&lock);
    bool is = q->passed > m;
    pthread_mutex_unlock(&lock);
    return is;
}

void loopback_hold(struct stream *s)
{
    pthread_mutex_lock(&lock);
    held = s;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* ---- batches, started as one */

static void begin_batch(struct stream *s)
{
    pthread_mutex_lock(&lock);
    loop_of(s)->collecting = true;
    pthread_mutex_unlock(&lock);
}

static bool same_array(const struct shadow *a, const struct shadow *b)
{
    const struct mx_array *x = &a->array, *y = &b->array;
    return x->dtype == y->dtype && x->row == y->row && x->ndim == y->ndim && x->size == y->size &&
           x->offset == y->offset && !memcmp(a->numbers, b->numbers, sizeof a->numbers) &&
           a->buffer.bytes == b->buffer.bytes;
}

static bool same_task(const struct task *a, const struct task *b)
{
    if (a->what != b->what || a->bytes != b->bytes || a->from_device != b->from_device || a->other != b->other)
        return false;
    if (a->what != RUN)
        return true;
    bool same = a->node.nin == b->node.nin && a->node.nout == b->node.nout && node_equivalent(a->args, b->args) &&
                !a->fails == !b->fails;
    for (int i = 0; i < a->node.nin && same; i++) same = same_array(&a->x[i], &b->x[i]);
    for (int k = 0; k < a->node.nout && same; k++) same = same_array(&a->y[k], &b->y[k]);
    return same;
}

static bool same_tasks(const struct tasks *a, const struct tasks *b)
{
    const struct task *x = a->first, *y = b->first;
    bool same = a->n == b->n;
    for (; x && same; x = x->next, y = y->next) same = same_task(x, y);
    return same;
}

static struct shadow *shadows(int n, const struct shadow *of)
{
    struct shadow *copy = calloc((size_t)n + 1, sizeof *copy);
    for (int i = 0; i < n; i++) {
        copy[i] = of[i];
        copy[i].array.shape = memcpy(copy[i].numbers, of[i].numbers, sizeof of[i].numbers);
        copy[i].array.strides = copy[i].numbers + MX_MAX_NDIM;
        copy[i].array.buf = of[i].array.buf ? &copy[i].buffer : NULL;
    }
    return copy;
}

/* What there is to know of a task, without the addresses it works on. */
static struct task *task_like(const struct task *t)
{
    struct task *copy = task_new(t->what);
    copy->bytes = t->bytes;
    copy->from_device = t->from_device;
    copy->other = t->other;
    if (t->what != RUN)
        return copy;
    copy->node = t->node;
    node_retain(copy->args = t->args);
    copy->x = shadows(t->node.nin, t->x);
    copy->y = shadows(t->node.nout, t->y);
    if (t->node.specs)
        copy->node.specs = memcpy(malloc((size_t)t->node.nout * sizeof *t->node.specs), t->node.specs,
                                  (size_t)t->node.nout * sizeof *t->node.specs);
    for (int i = 0; i < t->node.nin; i++) copy->x[i].buffer.host = NULL;
    for (int k = 0; k < t->node.nout; k++) copy->y[k].buffer.host = NULL;
    return copy;
}

/* The program's, with these addresses. */
static struct task *task_again(const struct task *of, struct task *t)
{
    struct task *again = task_like(of);
    again->to = t->to;
    again->from = t->from;
    again->mark = t->mark;
    again->fails = t->fails;
    t->fails = NULL;
    for (int i = 0; i < t->node.nin; i++) again->x[i].buffer.host = t->x[i].buffer.host;
    for (int k = 0; k < t->node.nout; k++) again->y[k].buffer.host = t->y[k].buffer.host;
    task_free(t);
    free(t);
    return again;
}

static struct tasks like_program(const struct program *p, struct tasks given)
{
    struct tasks made = { 0 };
    const struct task *of = p->tasks.first;
    for (struct task *t = given.first, *next; t; t = next, of = of->next) {
        next = t->next;
        t = task_again(of, t);
        append(&made, (struct tasks){ t, t, 1 });
    }
    return made;
}

static void forget_programs(struct loop *q)
{
    for (struct program *p = q->programs, *next; p; p = next) {
        next = p->next;
        for (struct task *t = p->tasks.first, *after; t; t = after) {
            after = t->next;
            task_free(t);
            free(t);
        }
        free(p);
    }
    q->programs = NULL;
    q->n_programs = 0;
}

static void keep_program(struct loop *q, struct tasks given)
{
    enum { MOST = 64 };
    if (q->n_programs++ == MOST)
        forget_programs(q);
    struct program *p = calloc(1, sizeof *p);
    for (const struct task *t = given.first; t; t = t->next) {
        struct task *copy = task_like(t);
        append(&p->tasks, (struct tasks){ copy, copy, 1 });
    }
    p->next = q->programs;
    q->programs = p;
}

static int end_batch(struct stream *s)
{
    struct loop *q = loop_of(s);
    pthread_mutex_lock(&lock);
    make_room(q);
    struct tasks all = q->later;
    struct program *p = q->programs;
    q->later = (struct tasks){ 0 };
    q->collecting = false;
    while (p && !same_tasks(&p->tasks, &all)) p = p->next;
    if (p) {
        all = like_program(p, all);
        atomic_fetch_add(&replays, 1);
    } else if (all.n) {
        keep_program(q, all);
        atomic_fetch_add(&recordings, 1);
    }
    start(q, all);
    pthread_mutex_unlock(&lock);
    reach(q, mark(s));
    return 0;
}

static void *loop_open(struct stream *s)
{
    if (opens_left >= 0 && opens_left-- == 0) {
        mx_fail_as(MX_RUNTIME, "[loopback] expected another stream, got none");
        return NULL;
    }
    struct loop *q = calloc(1, sizeof *q);
    queue_init(&q->queue);
    q->stream = s;
    thread_start(&q->worker, work, q);
    return q;
}

/* What all streams share is begun anew once: the worker of the first waits on it already when the next one comes. */
static void share_anew(void)
{
    static pid_t begun;
    if (begun == getpid())
        return;
    begun = getpid();
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&door, NULL);
    pthread_cond_init(&changed, NULL);
}

static void loop_forked(struct stream *s)
{
    queue_forked(s);
    share_anew();
    struct loop *q = loop_of(s);
    q->tasks = q->later = (struct tasks){ 0 };
    q->collecting = false;
    q->lost = q->passed;
    q->back = q->passed = ++q->now;
    thread_start(&q->worker, work, q);
}

static int synchronize(struct stream *s) { return queue_synchronize(s) || wait_for(s, mark(s)); }

/* ---- memory and copies */

static void *dev_fresh(struct memory *m, size_t bytes, struct stream *s)
{
    (void)m;
    size_t n = pages(bytes);
    if (memory && atomic_load(&in_use) + n > memory)
        wait_for(s, mark(s)); /* what is freed late */
    if (memory && atomic_load(&in_use) + n > memory)
        return NULL;
    void *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    atomic_fetch_add(&in_use, n);
    return p;
}

static void dev_discard(struct memory *m, const struct memory_block *b)
{
    (void)m; /* a device's own thread may be here, and does not wait for itself */
    struct task *t = task_new(FREE);
    t->to = b->p;
    t->bytes = b->bytes;
    queue_task(loop_of(b->last), t);
}

static struct memory room[DEVICES];

static void *dev_alloc(struct stream *s, size_t bytes)
{
    size_t size;
    char largest[MEMORY_LARGEST];
    struct stream *last;
    void *p = memory_take(&room[s->device.index], bytes, s, &size, &last);
    if (!p) {
        memory_largest(&room[s->device.index], largest);
        mx_fail_as(MX_MEMORY, "[loopback] could not allocate %zu bytes of device memory%s", bytes, largest);
        return NULL;
    }
    if (last != s)
        follow(s, last, mark(last));
    if (!open_here) {
        struct task *t = task_new(SPOIL); /* what used it last is done by then */
        t->to = p;
        t->bytes = size;
        queue_task(loop_of(s), t);
    }
    return p;
}

static void dev_free(struct stream *s, void *p, size_t bytes) { memory_give(&room[s->device.index], p, bytes, s); }

static void queue_copy(struct stream *s, void *to, void *from, bool from_device, size_t bytes)
{
    struct task *t = task_new(COPY);
    t->to = to;
    t->from = from;
    t->from_device = from_device;
    t->bytes = bytes;
    queue_task(loop_of(s), t);
    atomic_fetch_add(&copies, 1);
}

static int to_device(struct stream *s, void *device, const void *host, size_t bytes)
{
    void *staged = malloc(bytes ? bytes : 1);
    memcpy(staged, host, bytes);
    queue_copy(s, device, staged, false, bytes);
    return 0;
}

static int from_peer(struct stream *s, void *to, const struct stream *other, const void *from, size_t bytes)
{
    (void)other;
    queue_copy(s, to, (void *)from, true, bytes);
    return 0;
}

static int to_host(struct stream *s, uint64_t m, void *host, const void *device, size_t bytes)
{
    wait_for(s, m);
    move(host, false, device, true, bytes);
    atomic_fetch_add(&copies, 1);
    atomic_fetch_add(&bytes_read, bytes);
    return 0;
}

/* ---- running */

/* What fails with operands that are all right, or asks others for more, runs where it is queued. */
static bool supports(const struct node *n)
{
    const struct plugin *p = plugin_of(n->op);
    if (p)
        return p->supports(p, DEVICE_GPU);
    return !(forgotten && !strcmp(n->op->name, forgotten)) && n->nin <= 64 && n->nout <= 16 &&
           ((n->op->traits & FUSE) || n->op == &op_reduce || n->op == &op_matmul || n->op == &op_softmax ||
            n->op == &op_full || n->op == &op_contiguous || n->op == &op_reshape || n->op == &op_concatenate);
}

static void shadow_of(struct shadow *d, mx x, const void *data)
{
    /* Not *x as a whole: others retain and release it meanwhile. */
    d->array = (struct mx_array){ .refs = 1000,
                                  .status = atomic_load(&x->status),
                                  .dtype = x->dtype,
                                  .row = x->row,
                                  .ndim = x->ndim,
                                  .size = x->size,
                                  .offset = x->offset };
    d->array.shape = memcpy(d->numbers, x->shape, (size_t)x->ndim * sizeof *x->shape);
    d->array.strides = memcpy(d->numbers + MX_MAX_NDIM, x->strides, (size_t)x->ndim * sizeof *x->strides);
    d->buffer = (struct buffer){ .refs = 1000, .state = ON_HOST, .bytes = x->buf->bytes, .host = (void *)data };
    d->array.buf = &d->buffer;
}

/* Copies what the work needs: the entry, its node and its arrays may be gone before the work is done. */
static int queue_run(struct stream *s, struct entry *e)
{
    MX_SCOPE(NULL);
    const struct node *n = e->node;
    struct task *t = task_new(RUN);
    t->node = (struct node){ .nin = n->nin, .nout = n->nout, .op = n->op, .stream = n->stream };
    t->x = calloc((size_t)n->nin + 1, sizeof *t->x);
    t->y = calloc((size_t)n->nout + 1, sizeof *t->y);
    mx twin = mx_node(n->op, n->args, 0, NULL, 0, NULL, DT_bool_);
    bool failed = is_nil(twin);
    for (int i = 0; i < n->nin; i++) shadow_of(&t->x[i], n->in[i], buffer_on(n->in[i]->buf, s));
    for (int k = 0; k < n->nout && !failed; k++) {
        mx y = entry_out(e)[k];
        failed = result_new(s, y);
        if (!failed) {
            shadow_of(&t->y[k], y, buffer_on(y->buf, s));
            t->y[k].array.buf = NULL;
        }
    }
    if (!failed && failing_late && !strcmp(failing_late, n->op->name)) {
        t->fails = event_new(s);
        for (int k = 0; k < n->nout && t->fails && !failed; k++)
            failed = buffer_may_fail(entry_out(e)[k]->buf, t->fails);
    }
    if (failed) {
        task_free(t);
        free(t);
        return 1;
    }
    node_retain(t->args = twin->node);
    t->node.args = twin->node->args;
    if (n->specs)
        t->node.specs =
            memcpy(malloc((size_t)n->nout * sizeof *n->specs), n->specs, (size_t)n->nout * sizeof *n->specs);
    if (before_queueing)
        before_queueing(s);
    queue_task(loop_of(s), t);
    return 0;
}

/* ---- operations registered at run time: their rules run at once, with the device's memory open */

static int fresh(const struct run *r, int k)
{
    if (result_new(r->stream, r->y[k]))
        return 1;
    open_pages(buffer_on(r->y[k]->buf, r->stream), r->y[k]->buf->bytes);
    return 0;
}
static int over(const struct run *r, int k, int i) { return (void)i, fresh(r, k); }

static int run_plugin_here(struct stream *s, struct entry *e)
{
    const struct run r = run_of(s, e);
    wait_for(s, mark(s));
    pthread_mutex_lock(&door);
    for (int i = 0; i < r.nin; i++) open_pages(buffer_on(r.x[i]->buf, s), r.x[i]->buf->bytes);
    open_here = true;
    int failed = run_plugin(&r, DEVICE_GPU, fresh, over);
    open_here = false;
    for (int i = 0; i < r.nin; i++) close_pages(buffer_on(r.x[i]->buf, s), r.x[i]->buf->bytes);
    for (int k = 0; k < r.nout; k++)
        if (r.y[k]->buf)
            close_pages(buffer_on(r.y[k]->buf, s), r.y[k]->buf->bytes);
    pthread_mutex_unlock(&door);
    return failed;
}

/* Within a plugin's rule, while the device's memory is open. */
static int launch(struct stream *s, const struct launch *l)
{
    if (run_kernel && run_kernel(l->kernel, l->blocks, l->threads, l->args))
        return 0;
    mx_fail_as(MX_RUNTIME, "[launch] expected one of the kernels of %s, got %s on %s", l->library, l->kernel,
               device_text(s->device));
    return 1;
}

static int run(struct stream *s, struct entry *e)
{
    if (failing && !strcmp(e->node->op->name, failing)) {
        mx_fail_as(MX_RUNTIME, "[%s] the device failed", e->node->op->name);
        return 1;
    }
    return plugin_of(e->node->op) ? run_plugin_here(s, e) : queue_run(s, e);
}

static int count(void) { return DEVICES; }

static void info(int device, void (*add)(void *, const char *, const char *, size_t), void *ctx)
{
    add(ctx, "device_name", "loopback", 0);
    add(ctx, "memory_size", NULL, room[device].most);
}

static const struct backend loopback = {
    .devices = { .name = "loopback",
                 .type = DEVICE_GPU,
                 .count = count,
                 .open = loop_open,
                 .rest = queue_rest,
                 .forked = loop_forked,
                 .synchronize = synchronize,
                 .info = info,
                 .alloc = dev_alloc,
                 .free = dev_free,
                 .mark = mark,
                 .follow = follow,
                 .wait = wait_for,
                 .passed = passed,
                 .to_device = to_device,
                 .to_host = to_host,
                 .from_peer = from_peer },
    .submit = queue_submit_launches,
    .run_now = queue_run_now,
    .supports = supports,
    .run = run,
    .begin = begin_batch,
    .end = end_batch,
    .launch = launch,
};

void loopback_register(void)
{
    /* Of the machine: it may be too early to ask the library. */
    size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < DEVICES; i++) {
        room[i] = (struct memory){ .fresh = dev_fresh, .discard = dev_discard, .most = all };
        memory_open(&room[i]);
    }
    devices_register(&loopback.devices);
}
