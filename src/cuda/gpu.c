/* gpu.c: NVIDIA GPUs as a backend.
 *
 * The thread that evaluates queues kernels on the driver's stream and goes on.  A mark of a stream is the number of
 * some batches; the event behind it is recorded when the last of them ends, or when somebody asks for it earlier, and
 * kept in a ring: for a mark that has left it a later event serves as well.
 *
 * An event keeps the kernel behind it from coming on the device while the one ahead of it ends, which costs 3 us.  So
 * small batches in a row have one together, and what is waited for has then some others behind it, as small. */
#include "cuda/gpu.h"
#include "cuda/producer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/pool.h"
#include "core/settings.h"
#include "core/shape.h"
#include "cuda/kernels/move.h"
#include "cuda/libraries.h"
#include "cuda/modules.h"
#include "cuda/nvtx.h"
#include "cuda/specialize.h"

static struct gpu gpus[MAX_GPUS];

static atomic_bool ending;

/* Runs before the driver's own, which was first. */
static void end_process(void)
{
    atomic_store(&ending, true);
    for (int i = 0; i < MAX_GPUS; i++)
        if (atomic_load(&gpus[i].opened))
            gpu_end_rings(&gpus[i]);
}

bool gpu_process_ends(void) { return atomic_load_explicit(&ending, memory_order_relaxed); }

/* A device may be opened by a thread that works on while the process ends: too late to ask for being told. */
static void notice_end(void)
{
    if (cuda_devices() > 0)
        (void)atexit(end_process);
}

static int gpu_count(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, notice_end);
    int n = cuda_devices();
    return n < MAX_GPUS ? n : MAX_GPUS;
}

/* ---- opening */

static int attribute(int device, int which)
{
    int v = 0;
    cu.device_attribute(&v, which, device);
    return v;
}

static int open_gpu(struct gpu *g, int number)
{
    int e = cu.device_get(&g->device, number);
    sigset_t before = signals_block();
    if (!e)
        e = cu.context_retain(&g->context, g->device);
    signals_restore(before);
    if (!e)
        e = cu.context_use(g->context);
    if (!e)
        e = cu.stream_create(&g->copies, CUDA_STREAM_NON_BLOCKING);
    if (e)
        return e;
    g->number = number;
    cu.device_name(g->name, sizeof g->name, g->device);
    gpu_memory_open(g);
    lock_open(&g->in.lock, LOCK_DEVICE);
    lock_open(&g->out.lock, LOCK_DEVICE);
    g->major = attribute(g->device, CUDA_ATTRIBUTE_MAJOR);
    g->minor = attribute(g->device, CUDA_ATTRIBUTE_MINOR);
    g->multiprocessors = attribute(g->device, CUDA_ATTRIBUTE_MULTIPROCESSORS);
    g->overlaps = cu.launch_with && g->major >= 9 && modules_overlap(g);
    atomic_store(&g->opened, true);
    if (atexit(end_process) || atomic_load(&ending)) /* what the context registered comes after it */
        gpu_end_rings(g);
    return 0;
}

LOCK(opening, LOCK_DEVICE);
static _Thread_local struct gpu *current;

/* Is this a child of a process that had the driver?  Where a device was in use nothing works; else the driver is asked,
 * and says that nobody has initialized it where it does not work either. */
static _Atomic enum { NO_CHILD, CHILD, CHILD_AFTER_USE } forked;

static void note_fork(void)
{
    bool used = atomic_load(&forked) == CHILD_AFTER_USE;
    for (int i = 0; i < MAX_GPUS; i++) used |= atomic_load(&gpus[i].opened);
    atomic_store(&forked, used ? CHILD_AFTER_USE : CHILD);
    current = NULL;
}
__attribute__((constructor)) static void survive_fork(void) { pthread_atfork(NULL, NULL, note_fork); }

static struct gpu *fail_in_child(void)
{
    mx_fail_as(MX_RUNTIME,
               "[cuda] expected the process that first used the GPU, got a child of it made by fork(), where "
               "the driver does not work; start processes by spawn, or fork earlier");
    return NULL;
}

struct gpu *gpu_use(int number)
{
    struct gpu *g = &gpus[number];
    if (current == g && (gpu_count() == 1 || !cu.context_use(g->context))) /* other libraries choose devices too */
        return g;
    if (atomic_load(&forked) == CHILD_AFTER_USE)
        return fail_in_child();
    int e = 0;
    lock_take(&opening);
    if (!atomic_load(&g->opened))
        e = open_gpu(g, number);
    lock_give(&opening);
    if (!e)
        e = cu.context_use(g->context);
    if (e == CUDA_NOT_INITIALIZED && atomic_load(&forked))
        return fail_in_child();
    if (e) {
        cuda_fail("cuda", e);
        return NULL;
    }
    return current = g;
}

struct gpu *gpu_used(void) { return current; }

/* Does nothing work any more after it?  Others are of the call that they came from, a launch that is refused say. */
static bool loses_device(int error)
{
    static const int all[] = {
        3,   4,                            /* the driver is not, or no longer, there */
        46,                                /* the device is not available */
        201, 709,                          /* the context is none, or is destroyed */
        214,                               /* memory gave bits that cannot be corrected */
        220, 226,                          /* NVLink, or a part of the device that was cut off */
        700,                               /* an illegal address */
        702,                               /* a kernel took longer than the system allows */
        710,                               /* an assertion of a kernel */
        714, 715, 716, 717, 718, 719, 721, /* traps: stack, instruction, alignment, address space, counter, others */
        806, 810,                          /* the server that shares the device among processes */
        999,                               /* unknown to the driver */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] == error)
            return true;
    return false;
}

int gpu_check(struct gpu *g, const char *op, int error)
{
    int lost = atomic_load_explicit(&g->lost, memory_order_relaxed);
    if (!error && !lost)
        return 0;
    if (lost) {
        mx_fail_as(MX_RUNTIME, "[%s] GPU %d is lost after %s; the CPU still works", op, g->number,
                   cuda_error_text(lost));
        return 1;
    }
    if (loses_device(error))
        atomic_store(&g->lost, error);
    return cuda_fail(op, error);
}

/* ---- streams */

static void *open_stream(struct stream *s)
{
    struct gpu_stream *q = mx_malloc(sizeof *q);
    if (!q)
        return NULL;
    memset(q, 0, sizeof *q);
    q->gpu = &gpus[s->device.index];
    queue_init(&q->queue);
    lock_open(&q->lock, LOCK_DEVICE);
    return q;
}

/* Under the lock. */
static int open_queue(struct gpu_stream *q)
{
    int e = cu.stream_create(&q->stream, CUDA_STREAM_NON_BLOCKING);
    for (int i = 0; i < RING && !e; i++) e = cu.event_create(&q->event[i], CUDA_EVENT_NO_TIMING | CUDA_EVENT_BLOCKING);
    if (!e) {
        atomic_store(&q->opened, true);
        return 0;
    }
    for (int i = 0; i < RING; i++) {
        if (q->event[i])
            cu.event_destroy(q->event[i]);
        q->event[i] = NULL;
    }
    if (q->stream)
        cu.stream_destroy(q->stream);
    q->stream = NULL;
    return e;
}

struct gpu *gpu_use_stream(const struct stream *s)
{
    struct gpu_stream *q = gpu_stream(s);
    struct gpu *g = gpu_use(s->device.index);
    if (!g || atomic_load_explicit(&q->opened, memory_order_acquire))
        return g;
    lock_take(&q->lock);
    int e = atomic_load(&q->opened) ? 0 : open_queue(q);
    lock_give(&q->lock);
    if (e)
        cuda_fail("cuda", e);
    return e ? NULL : g;
}

static uint64_t mark(struct stream *s)
{
    struct gpu_stream *q = gpu_stream(s);
    lock_take(&q->lock);
    uint64_t now = q->now;
    lock_give(&q->lock);
    return now;
}

/* Under the lock: what is queued so far gets an event. */
static int gpu_record_event(struct gpu_stream *q)
{
    int flushed = gpu_flush(q), e = cu.event_record(q->event[q->now % RING], q->stream);
    q->now++;
    q->queued = q->ended = 0;
    return flushed ? flushed : e;
}

enum { SHARED_WORK = 8 }; /* launches that share an event */

void gpu_count_work(struct gpu_stream *q, int n)
{
    if (q->ended && q->queued + n - q->ended >= SHARED_WORK) {
        int e = gpu_record_event(q);
        if (e)
            atomic_store(&q->gpu->lost, e);
    }
    q->queued += n;
}

/* An event that comes no earlier than the mark. */
static int event_at(struct gpu_stream *q, uint64_t m, void **event)
{
    lock_take(&q->lock);
    int e = m >= q->now ? gpu_record_event(q) : 0;
    *event = q->event[(m + RING < q->now ? q->now : m) % RING];
    lock_give(&q->lock);
    return e;
}

static int end_batch(struct stream *s)
{
    struct gpu_stream *q = gpu_stream(s);
    if (!gpu_use_stream(s))
        return 1;
    lock_take(&q->lock);
    int e = q->queued >= SHARED_WORK ? gpu_record_event(q) : gpu_flush(q);
    q->ended = q->queued;
    q->launches = 0;
    lock_give(&q->lock);
    gpu_drop_held(q);
    return gpu_check(q->gpu, "eval", e);
}

static int gpu_follow(struct stream *s, struct stream *other, uint64_t m)
{
    struct gpu_stream *q = gpu_stream(s), *o = gpu_stream(other);
    void *event;
    if (!gpu_use_stream(other))
        return 1;
    int e = event_at(o, m, &event);
    if (!gpu_use_stream(s))
        return 1;
    if (!e)
        e = cu.stream_wait_event(gpu_direct(q), event, 0);
    return gpu_check(q->gpu, "eval", e);
}

/* Marks up to m have passed. */
static void note_passed(struct gpu_stream *q, uint64_t m)
{
    uint64_t known = atomic_load(&q->passed);
    while (known <= m && !atomic_compare_exchange_weak(&q->passed, &known, m + 1)) {}
}

bool gpu_was_there(const struct run *r, const void *p)
{
    for (int i = 0; i < r->nin; i++) {
        const struct side *d = buffer_side_on(r->x[i]->buf, r->stream);
        if (d && gpu_pointer(r, r->x[i]) == p)
            return !d->foreign && !atomic_load(&r->x[i]->buf->lent_on) &&
                   d->mark < atomic_load(&gpu_stream(d->stream)->passed);
    }
    return false;
}

/* Waking a thread takes longer than small work does: it is asked for a while, then slept for. */
int gpu_await_event(void *event)
{
    enum { A_WHILE = 30000 };
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    int e;
    do {
        e = cu.event_query(event);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (e == CUDA_NOT_READY && (now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < A_WHILE);
    return e == CUDA_NOT_READY ? cu.event_wait(event) : e;
}

static int gpu_wait_for(struct stream *s, uint64_t m)
{
    struct gpu_stream *q = gpu_stream(s);
    void *event;
    if (!gpu_use_stream(s))
        return 1;
    int e = event_at(q, m, &event);
    if (!e)
        e = gpu_await_event(event);
    if (!e)
        note_passed(q, m);
    return gpu_check(q->gpu, "eval", e) || gpu_notes_look(q);
}

static bool gpu_passed(struct stream *s, uint64_t m)
{
    struct gpu_stream *q = gpu_stream(s);
    void *event;
    bool is = gpu_use_stream(s) && !event_at(q, m, &event) && cu.event_query(event) == CUDA_SUCCESS;
    if (is)
        note_passed(q, m);
    mx_error_clear();
    return is;
}

static int gpu_synchronize(struct stream *s)
{
    struct gpu_stream *q = gpu_stream(s);
    if (queue_synchronize(s))
        return 1;
    if (!atomic_load(&q->opened))
        return 0;
    if (!gpu_use_stream(s))
        return 1;
    return gpu_check(q->gpu, "synchronize", cu.stream_wait(gpu_direct(q))) || gpu_notes_look(q);
}

static int rest(struct stream *s)
{
    struct gpu_stream *q = gpu_stream(s);
    if (queue_rest(s))
        return 1;
    if (atomic_load(&q->opened) && gpu_use_stream(s))
        cu.stream_wait(gpu_direct(q));
    mx_error_clear();
    return 0;
}

/* ---- copies */

/* Numbers, mostly: with a launch, which can be captured with those before and after it, where a copy cannot. */
static int send_few(struct stream *s, void *device, const void *host, size_t bytes)
{
    static struct gpu_found found[5];
    struct sent_args a = { device, (int64_t)bytes, { 0 } };
    memcpy(a.bytes, host, bytes);
    void *kernel = gpu_find_sized(gpu_stream(s)->gpu, found, "move", "send", 1);
    return !kernel || gpu_launch(s, "copy", kernel, 1, SENT_BYTES, (void *[]){ &a });
}

static int to_device(struct stream *s, void *device, const void *host, size_t bytes)
{
    struct gpu_stream *q = gpu_stream(s);
    if (!gpu_use_stream(s))
        return 1;
    if (bytes && bytes <= SENT_BYTES)
        return send_few(s, device, host, bytes);
    return gpu_send(q, (uint64_t)device, host, bytes);
}

/* Beside what the stream computes meanwhile. */
static int to_host(struct stream *s, uint64_t m, void *host, const void *device, size_t bytes)
{
    struct gpu_stream *q = gpu_stream(s);
    void *event;
    if (!gpu_use_stream(s))
        return 1;
    int e = event_at(q, m, &event);
    if (!e)
        e = cu.stream_wait_event(q->gpu->copies, event, 0);
    if (!e)
        e = gpu_fetch(q->gpu, host, (uint64_t)device, bytes);
    return gpu_check(q->gpu, "copy", e) || gpu_notes_look(q);
}

static int from_peer(struct stream *s, void *to, const struct stream *other, const void *from, size_t bytes)
{
    struct gpu_stream *q = gpu_stream(s);
    if (!gpu_use_stream(s))
        return 1;
    int e = bytes ? cu.copy_from_peer((uint64_t)to, q->gpu->context, (uint64_t)from, gpu_stream(other)->gpu->context,
                                      bytes, gpu_direct(q))
                  : 0;
    return gpu_check(q->gpu, "copy", e);
}

/* ---- work of others */

/* The streams that programs have without asking for one, as the driver numbers them: the one that waits for all others,
 * and each thread's own. */
static void *const legacy = (void *)1;

static void *native(struct stream *s) { return gpu_use_stream(s) ? gpu_direct(gpu_stream(s)) : NULL; }

static int owner(const void *p)
{
    int number = -1;
    bool known = gpu_use(0) && !cu.pointer_attribute(&number, CUDA_POINTER_DEVICE, (uint64_t)p);
    mx_error_clear();
    return known ? number : -1;
}

static int lead(struct stream *s, uint64_t m, void *theirs)
{
    struct gpu_stream *q = gpu_stream(s);
    void *event;
    if (theirs == (void *)-1) /* they see to it themselves */
        return 0;
    if (!gpu_use_stream(s))
        return 1;
    int e = event_at(q, m, &event);
    if (!e)
        e = cu.stream_wait_event(theirs ? theirs : legacy, event, 0);
    return gpu_check(q->gpu, "dlpack", e);
}

static int trail(struct stream *s, void *theirs)
{
    struct gpu_stream *q = gpu_stream(s);
    void *event = NULL;
    if (!gpu_use_stream(s))
        return 1;
    int e = cu.event_create(&event, CUDA_EVENT_NO_TIMING);
    if (!e)
        e = cu.event_record(event, theirs ? theirs : legacy);
    if (!e)
        e = cu.stream_wait_event(gpu_direct(q), event, 0);
    if (event)
        cu.event_destroy(event);
    return gpu_check(q->gpu, "dlpack", e);
}

/* ---- running */

static bool supports(const struct node *n) { return gpu_runner(n) != NULL; }

static int gpu_run_entry(struct stream *s, struct entry *e)
{
    if (!gpu_use_stream(s))
        return 1;
    struct run r = run_of(s, e);
    int named = nvtx_begin(1, &e), failed = gpu_runner(e->node)(&r);
    gpu_drop_held(gpu_stream(s));
    if (named)
        nvtx_end();
    return failed;
}

/* Operations that may be one launch though they are not element-wise. */
static bool are_alike(const struct node *n, const struct node *first)
{
    switch (n->op->id) {
    case OP_matmul:
    case OP_quantized_matmul: return gpu_share_a_vector(n, first);
    case OP_rope: return gpu_ropes_are_alike(n, first);
    case OP_slice_update: return gpu_updates_are_alike(n, first);
    default: return false;
    }
}

static int run_fused(struct stream *s, int n, struct entry *const m[], const bool wanted[])
{
    if (!gpu_use_stream(s))
        return 1;
    int named = nvtx_begin(n, m), op = (int)m[0]->node->op->id;
    int failed = op == OP_rope           ? gpu_run_ropes(s, n, m)
                 : op == OP_slice_update ? gpu_run_updates(s, n, m)
                                         : gpu_run_fused(s, n, m, wanted);
    gpu_drop_held(gpu_stream(s));
    if (named)
        nvtx_end();
    return failed;
}

uint64_t gpu_address(const struct run *r, mx x)
{
    return (uint64_t)buffer_on(x->buf, r->stream) + (uint64_t)x->offset * itemsize(x);
}

LOCK(allowing, LOCK_LEAF);

/* Launches that are recorded need what they were recorded with until they are queued: it only grows. */
static int allow_shared(void *kernel, size_t bytes)
{
    int allowed = 0;
    lock_take(&allowing);
    int e = cu.function_get(&allowed, CUDA_FUNCTION_SHARED_BYTES, kernel);
    if (!e && allowed < (int)bytes)
        e = cu.function_set(kernel, CUDA_FUNCTION_SHARED_BYTES, (int)bytes);
    lock_give(&allowing);
    return e;
}

uint32_t *gpu_arrived(struct gpu_stream *q, int64_t n)
{
    uint64_t p = 0;
    if (n > GPU_ARRIVED)
        return NULL;
    lock_take(&q->lock);
    if (!q->arrived && !cu.memory_alloc(&p, GPU_ARRIVED * sizeof(uint32_t))) {
        if (gpu_flush(q) || cu.words_set(p, 0, GPU_ARRIVED, q->stream))
            cu.memory_free(p);
        else
            q->arrived = p;
    }
    lock_give(&q->lock);
    return (uint32_t *)q->arrived;
}

/* As the driver has them. */
struct launch_attribute {
    int id, unused;
    union {
        int allowed;
        char all[64];
    } value;
};
struct launch_config {
    unsigned grid[3], block[3], shared;
    void *stream;
    struct launch_attribute *attributes;
    unsigned n_attributes;
};

/* A kernel of ours waits by itself for what is ahead of it (AFTER_LAUNCH_BEFORE), so that its blocks may be on their
 * way to the device meanwhile: CUDA's programmatic dependent launch. */
static bool may_overlap(struct gpu *g)
{
    static atomic_int kept;
    return g->overlaps && setting_switch_kept(&kept, "MLX_CUDA_OVERLAP", true);
}

int gpu_put_launch(struct gpu *g, void *kernel, unsigned blocks, unsigned threads, unsigned bytes, void *stream,
                   void *args[])
{
    enum { PROGRAMMATIC_SERIALIZATION = 6 };
    if (!may_overlap(g))
        return cu.launch(kernel, blocks, 1, 1, threads, 1, 1, bytes, stream, args, NULL);
    struct launch_attribute overlap = { .id = PROGRAMMATIC_SERIALIZATION, .value.allowed = 1 };
    struct launch_config c = { { blocks, 1, 1 }, { threads, 1, 1 }, bytes, stream, &overlap, 1 };
    return cu.launch_with(&c, kernel, args, NULL);
}

/* y: of gpu_launch_with_norm, or NULL. */
static int launch(struct stream *s, const char *op, void *kernel, int64_t blocks, int threads, size_t bytes,
                  void *args[], void **y)
{
    enum { WITHOUT_ASKING = 32 << 10 }; /* 48 KiB less what a kernel has besides */
    struct gpu_stream *q = gpu_stream(s);
    if (blocks <= 0)
        return 0;
    if (blocks > INT32_MAX) {
        mx_fail_as(MX_RUNTIME, "[%s] expected fewer than 2^31 blocks of %d threads, got %lld", op, threads,
                   (long long)blocks);
        return 1;
    }
    int e = bytes > WITHOUT_ASKING ? allow_shared(kernel, bytes) : 0;
    if (!e)
        e = gpu_queue_launch(q, kernel, (unsigned)blocks, (unsigned)threads, (unsigned)bytes, args, y);
    return gpu_check(q->gpu, op, e);
}

int gpu_launch(struct stream *s, const char *op, void *kernel, int64_t blocks, int threads, void *args[])
{
    return launch(s, op, kernel, blocks, threads, 0, args, NULL);
}

int gpu_launch_shared(struct stream *s, const char *op, void *kernel, int64_t blocks, int threads, size_t bytes,
                      void *args[])
{
    return launch(s, op, kernel, blocks, threads, bytes, args, NULL);
}

int gpu_launch_with_norm(struct stream *s, const char *op, void *kernel, int64_t blocks, int threads, void *args[],
                         void **y)
{
    return launch(s, op, kernel, blocks, threads, 0, args, y);
}

int gpu_launch_vectors(struct stream *s, const char *op, const struct gpu_vectors *v, const void *args, void **y)
{
    struct gpu_stream *q = gpu_stream(s);
    return gpu_check(q->gpu, op, gpu_hold_vectors(q, v, args, y));
}

bool gpu_splits(const struct gpu *g) { return g->major >= 8 && g->major <= 10 && g->minor == 0; }

/* ---- what the environment asks for */

bool gpu_tf32(void)
{
    static atomic_int kept;
    return setting_switch_kept(&kept, "MLX_ENABLE_TF32", false);
}

bool gpu_deterministic(void)
{
    static atomic_int kept;
    return setting_switch_kept(&kept, "MLX_DETERMINISTIC", false);
}

/* ---- facts */

static void info(int device, void (*add)(void *, const char *, const char *, size_t), void *ctx)
{
    struct gpu *g = gpu_use(device);
    size_t available = 0, total = 0, specialized, to_specialize;
    if (!g)
        return;
    char text[32];
    snprintf(text, sizeof text, "sm_%d%d", g->major, g->minor);
    cu.memory_info(&available, &total);
    add(ctx, "device_name", g->name, 0);
    add(ctx, "architecture", text, 0);
    add(ctx, "memory_size", NULL, g->memory.most);
    add(ctx, "free_memory", NULL, available);
    add(ctx, "total_memory", NULL, total);
    add(ctx, "active_memory", NULL, atomic_load(&g->memory.active));
    add(ctx, "cache_memory", NULL, atomic_load(&g->memory.cached));
    add(ctx, "max_recommended_working_set_size", NULL, g->memory.most / 20 * 19);
    add(ctx, "compute_capability_major", NULL, (size_t)g->major);
    add(ctx, "compute_capability_minor", NULL, (size_t)g->minor);
    add(ctx, "multiprocessors", NULL, (size_t)g->multiprocessors);
    gpu_count_specialized(&specialized, &to_specialize);
    add(ctx, "specialized_kernels", NULL, specialized);
    add(ctx, "kernels_to_specialize", NULL, to_specialize);
}

const struct backend cuda_backend = {
    .devices = { .name = "cuda",
                 .type = DEVICE_GPU,
                 .count = gpu_count,
                 .open = open_stream,
                 .rest = rest,
                 .forked = queue_forked,
                 .synchronize = gpu_synchronize,
                 .info = info,
                 .libraries = cuda_tell_libraries,
                 .alloc = gpu_alloc,
                 .free = gpu_free,
                 .mark = mark,
                 .follow = gpu_follow,
                 .wait = gpu_wait_for,
                 .passed = gpu_passed,
                 .to_device = to_device,
                 .to_host = to_host,
                 .from_peer = from_peer,
                 .native = native,
                 .owner = owner,
                 .lead = lead,
                 .trail = trail },
    .submit = queue_submit_launches,
    .run_now = queue_run_now,
    .supports = supports,
    .run = gpu_run_entry,
    .run_fused = run_fused,
    .fuses_small = true,
    .ends = gpu_ends_fft2,
    .is_producer = gpu_is_producer,
    .alike = are_alike,
    .reads_host = gpu_reads_host,
    .end = end_batch,
    .launch = gpu_launch_library,
};
