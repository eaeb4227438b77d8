/* loopback.c: see loopback.h. */
#define _GNU_SOURCE
#include "support/loopback.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/buffer.h"
#include "core/stream.h"
#include "cpu/run.h"
#include "ops/plugin.h"
#include "run/eval.h"

static unsigned delay;
static size_t memory;
static atomic_size_t in_use;
static atomic_long copies;
static const char *failing, *forgotten;

void loopback_set_delay(unsigned us) { delay = us; }
void loopback_set_memory(size_t bytes) { memory = bytes; }
void loopback_fail_op(const char *name) { failing = name; }
void loopback_forget_op(const char *name) { forgotten = name; }

static bool (*run_kernel)(const char *kernel, const int blocks[3], const int threads[3], const void *const *args);
void loopback_set_kernels(bool (*run)(const char *kernel, const int blocks[3], const int threads[3],
                                      const void *const *args))
{
    run_kernel = run;
}

/* Within run(), while the device's memory is open. */
static int launch(struct stream *s, const struct launch *l)
{
    if (run_kernel && run_kernel(l->kernel, l->blocks, l->threads, l->args))
        return 0;
    mx_fail_as(MX_RUNTIME, "[launch] expected one of the kernels of %s, got %s on %s", l->library, l->kernel,
               device_text(s->device));
    return 1;
}
size_t loopback_in_use(void) { return atomic_load(&in_use); }
long loopback_copies(void) { return atomic_load(&copies); }

/* ---- memory */

static size_t pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static void *dev_alloc(int device, size_t bytes)
{
    (void)device;
    size_t n = pages(bytes);
    if (memory && atomic_load(&in_use) + n > memory) {
        mx_fail_as(MX_MEMORY, "[loopback] could not allocate %zu bytes of device memory", bytes);
        return NULL;
    }
    void *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    atomic_fetch_add(&in_use, n);
    return p;
}

static void dev_free(int device, void *p, size_t bytes)
{
    (void)device;
    munmap(p, pages(bytes ? bytes : 1));
    atomic_fetch_sub(&in_use, pages(bytes ? bytes : 1));
}

/* Several threads may have the device open: pages are counted open, not per block. */
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;

static int to_device(struct stream *s, void *device, const void *host, size_t bytes)
{
    (void)s;
    pthread_mutex_lock(&door);
    mprotect(device, pages(bytes ? bytes : 1), PROT_READ | PROT_WRITE);
    memcpy(device, host, bytes);
    mprotect(device, pages(bytes ? bytes : 1), PROT_NONE);
    pthread_mutex_unlock(&door);
    atomic_fetch_add(&copies, 1);
    return 0;
}

static int to_host(struct stream *s, void *host, const void *device, size_t bytes)
{
    (void)s;
    pthread_mutex_lock(&door);
    mprotect((void *)device, pages(bytes ? bytes : 1), PROT_READ);
    memcpy(host, device, bytes);
    mprotect((void *)device, pages(bytes ? bytes : 1), PROT_NONE);
    pthread_mutex_unlock(&door);
    atomic_fetch_add(&copies, 1);
    return 0;
}

/* ---- running: the CPU's kernel on stand-ins whose host side is the device's memory */

static bool supports(const struct node *n)
{
    const struct plugin *p = plugin_of(n->op);
    return !(forgotten && !strcmp(n->op->name, forgotten)) &&
           (p ? p->supports(p, DEVICE_GPU) : cpu_backend.supports(n));
}

struct stand_in { struct mx_array array; struct buffer buffer; };

static int run(struct stream *s, struct entry *e)
{
    struct node node = *e->node;
    if (failing && !strcmp(node.op->name, failing)) {
        mx_fail_as(MX_RUNTIME, "[%s] the device failed", node.op->name);
        return 1;
    }
    struct stand_in *in = calloc((size_t)node.nin + 1, sizeof *in);
    mx *x = calloc((size_t)node.nin + 1, sizeof *x);
    pthread_mutex_lock(&door);
    for (int i = 0; i < node.nin; i++) {
        struct buffer *b = node.in[i]->buf;
        mprotect(b->device, pages(b->bytes ? b->bytes : 1), PROT_READ);
        in[i].array = *node.in[i];
        in[i].array.refs = 1000;
        in[i].buffer = *b;
        in[i].buffer.refs = 1000;
        in[i].buffer.host = b->device;
        in[i].array.buf = &in[i].buffer;
        x[i] = &in[i].array;
    }
    node.in = x;
    struct entry shadow = *e;
    shadow.node = &node;
    shadow.keep = true;
    struct run plugin = { .node = &node, .args = node.args, .nin = node.nin, .nout = node.nout, .x = x,
                          .y = entry_out(e), .keep = true };
    int failed = plugin_of(node.op) ? run_plugin(&plugin, s, DEVICE_GPU) : cpu_backend.run(s, &shadow);
    for (int i = 0; i < node.nin; i++)
        mprotect(node.in[i]->buf->host, pages(in[i].buffer.bytes ? in[i].buffer.bytes : 1), PROT_NONE);
    pthread_mutex_unlock(&door);
    for (int k = 0; k < node.nout && !failed; k++) {
        mx y = entry_out(e)[k];
        struct buffer *host = y->buf, *b = buffer_new_device(s->backend, s->device.index, host->bytes);
        failed = !b;
        if (b) {
            to_device(s, b->device, host->host, host->bytes);
            atomic_fetch_sub(&copies, 1); /* the device's own doing */
            y->buf = b;
            buffer_release(host);
        }
    }
    free(in);
    free(x);
    return failed;
}

/* ---- the queue */

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct batch *first, *last;
    bool busy;
    pthread_t worker;
    enum mx_error error;
    char *message;
};

static void *work(void *arg)
{
    struct queue *q = arg;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        struct batch *b = q->first;
        if (!b) {
            pthread_cond_wait(&q->changed, &q->lock);
            continue;
        }
        q->first = b->next;
        q->busy = true;
        pthread_mutex_unlock(&q->lock);
        struct event *done = b->done;
        bool now = b->now;
        event_retain(done);
        usleep(delay);
        run_batch(b);
        pthread_mutex_lock(&q->lock);
        if (!now && done->error != MX_OK && q->error == MX_OK) {
            q->error = done->error;
            q->message = strdup(done->message);
        }
        event_release(done);
        q->busy = false;
        pthread_cond_broadcast(&q->changed);
    }
    return NULL;
}

static void *queue_open(struct stream *s)
{
    (void)s;
    struct queue *q = calloc(1, sizeof *q);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    pthread_create(&q->worker, NULL, work, q);
    return q;
}

static int submit(struct stream *s, struct batch *b)
{
    struct queue *q = s->queue;
    pthread_mutex_lock(&q->lock);
    b->next = NULL;
    if (q->first)
        q->last->next = b;
    else
        q->first = b;
    q->last = b;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return 0;
}

static int synchronize(struct stream *s)
{
    struct queue *q = s->queue;
    pthread_mutex_lock(&q->lock);
    while (q->first || q->busy)
        pthread_cond_wait(&q->changed, &q->lock);
    enum mx_error error = q->error;
    q->error = MX_OK;
    if (error != MX_OK)
        mx_fail_as(error, "%s", q->message);
    free(q->message);
    q->message = NULL;
    pthread_mutex_unlock(&q->lock);
    return error != MX_OK;
}

/* The worker stays. */
static void rest(struct stream *s)
{
    if (synchronize(s))
        mx_error_clear();
}

static int count(void) { return 1; }

static void info(int device, void (*add)(void *, const char *, const char *, size_t), void *ctx)
{
    (void)device;
    add(ctx, "device_name", "loopback", 0);
}

static const struct backend loopback = {
    .name = "loopback", .type = DEVICE_GPU, .device_count = count, .open = queue_open, .rest = rest,
    .submit = submit, .supports = supports, .run = run, .synchronize = synchronize, .launch = launch,
    .alloc = dev_alloc, .free = dev_free, .to_device = to_device, .to_host = to_host, .info = info,
};

void loopback_register(void) { backend_register(&loopback); }
