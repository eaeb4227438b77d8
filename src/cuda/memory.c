/* memory.c: a GPU's memory, which core/memory caches.
 *
 * Blocks of less than a megabyte are cut from slabs, of all sizes one after the other, since the driver takes long for
 * each and waits for the device.  A slab goes when everything that was cut from it is in the cache, and memory is asked
 * back. */
#include <string.h>

#include "core/sizes.h"
#include "cuda/gpu.h"

static const size_t SLAB = 8u << 20, CUT = 1u << 20;
/* Where blocks begin, as the driver's do: by how operands are aligned libraries choose algorithms, and so the order of
 * sums, which should not depend on what else a program has allocated. */
static const size_t ALIGNMENT = 256;

static void *from_driver(size_t bytes)
{
    uint64_t p = 0;
    return cu.memory_alloc(&p, bytes) ? NULL : (void *)p;
}

/* How much of it has been cut, and of that is in the cache. */
struct gpu_slab {
    char *p;
    size_t cut, idle;
};

static size_t size_of_piece(size_t bytes) { return (size_t)ceil_div((int64_t)bytes, ALIGNMENT) * ALIGNMENT; }

/* How many slabs begin at p or below. */
static int slabs_up_to(const struct gpu *g, const char *p)
{
    int low = 0, high = g->n_slabs;
    while (low < high) {
        int middle = (low + high) / 2;
        if (g->slabs[middle].p <= p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: of one that was not noted. */
static struct gpu_slab *slab_of(const struct gpu *g, const char *p)
{
    int n = slabs_up_to(g, p);
    return n && p < g->slabs[n - 1].p + SLAB ? &g->slabs[n - 1] : NULL;
}

/* One for which there is no room stays. */
static void note_slab(struct gpu *g, char *p)
{
    if (g->n_slabs == g->slabs_cap) {
        int cap = g->slabs_cap ? 2 * g->slabs_cap : 64;
        struct gpu_slab *more = mx_try_realloc(g->slabs, (size_t)cap * sizeof *more);
        if (!more)
            return;
        g->slabs = more;
        g->slabs_cap = cap;
    }
    int at = slabs_up_to(g, p);
    memmove(g->slabs + at + 1, g->slabs + at, (size_t)(g->n_slabs++ - at) * sizeof *g->slabs);
    g->slabs[at] = (struct gpu_slab){ .p = p };
}

static void *fresh_memory(struct memory *m, size_t bytes, struct stream *s)
{
    (void)s;
    if (bytes >= CUT)
        return from_driver(bytes);
    struct gpu *g = (struct gpu *)m;
    bytes = size_of_piece(bytes);
    lock_take(&g->cutting);
    if (g->slab_left < bytes) {
        g->slab = from_driver(SLAB);
        g->slab_left = g->slab ? SLAB : 0;
        if (g->slab)
            note_slab(g, g->slab);
    }
    char *p = g->slab;
    if (p) {
        struct gpu_slab *of = slab_of(g, p);
        if (of)
            of->cut += bytes;
        g->slab += bytes;
        g->slab_left -= bytes;
    }
    lock_give(&g->cutting);
    return p;
}

static void weighing_begins(struct memory *m)
{
    struct gpu *g = (struct gpu *)m;
    lock_take(&g->cutting);
    for (int i = 0; i < g->n_slabs; i++) g->slabs[i].idle = 0;
}
static void weigh(struct memory *m, const struct memory_block *b)
{
    struct gpu_slab *of = slab_of((struct gpu *)m, b->p);
    if (of)
        of->idle += size_of_piece(b->bytes);
}
static bool is_idle(struct memory *m, const struct memory_block *b)
{
    const struct gpu_slab *of = slab_of((struct gpu *)m, b->p);
    return of && of->idle == of->cut;
}
/* Nothing more is cut from one that goes. */
static void weighing_ends(struct memory *m)
{
    struct gpu *g = (struct gpu *)m;
    const struct gpu_slab *of = g->slab_left ? slab_of(g, g->slab) : NULL;
    if (of && of->idle == of->cut)
        g->slab_left = 0;
    lock_give(&g->cutting);
}
static const struct memory_pieces pieces = { weighing_begins, weigh, is_idle, weighing_ends };

/* A piece has gone; its slab where that was the last, else NULL. */
static char *leave_slab(struct gpu *g, const struct memory_block *b)
{
    char *whole = NULL;
    lock_take(&g->cutting);
    struct gpu_slab *of = slab_of(g, b->p);
    if (of && !(of->cut -= size_of_piece(b->bytes))) {
        whole = of->p;
        memmove(of, of + 1, (size_t)(g->slabs + g->n_slabs-- - (of + 1)) * sizeof *of);
    }
    lock_give(&g->cutting);
    return whole;
}

/* Memory of any GPU goes while a thread queues work on another, which stays the one in use. */
static void await_last_stream(struct memory *m, const struct memory_block *b)
{
    struct gpu *g = (struct gpu *)m, *before = gpu_used();
    bool failed = !gpu_use(g->number);
    if (!failed) {
        cu.stream_wait(gpu_direct(gpu_stream(b->last)));
        char *p = b->bytes < CUT ? leave_slab(g, b) : b->p;
        if (p)
            cu.memory_free((uint64_t)p);
    }
    if (before && !gpu_use(before->number))
        failed = true;
    if (failed)
        mx_error_clear();
}

void gpu_memory_open(struct gpu *g)
{
    size_t all = 0;
    cu.device_memory(&all, g->device);
    g->memory = (struct memory){
        .fresh = fresh_memory, .discard = await_last_stream, .least = CUT, .most = all, .pieces = &pieces
    };
    lock_open(&g->cutting, LOCK_DEVICE);
    memory_open(&g->memory);
}

void *gpu_alloc(struct stream *s, size_t bytes)
{
    enum { COUNTED_BYTES = 32 << 20 }; /* to fill as much takes longer than a small launch */
    struct gpu *g = gpu_use_stream(s);
    if (!g || gpu_check(g, "memory", 0))
        return NULL;
    size_t size, available = 0, total = 0;
    char largest[MEMORY_LARGEST];
    struct stream *last;
    void *p = memory_take(&g->memory, bytes, s, &size, &last);
    if (!p) {
        cu.memory_info(&available, &total);
        memory_largest(&g->memory, largest);
        mx_fail_as(MX_MEMORY,
                   "[memory] could not allocate %zu bytes on GPU %d: %zu of %zu bytes are free, %zu are used here, the "
                   "memory limit is %zu bytes%s",
                   bytes, g->number, available, total, atomic_load(&g->memory.active), memory_limit_of(&g->memory),
                   largest);
        return NULL;
    }
    if (last != s && s->on->follow(s, last, s->on->mark(last))) {
        memory_give(&g->memory, p, size, last);
        return NULL;
    }
    if (bytes >= COUNTED_BYTES) {
        lock_take(&gpu_stream(s)->lock);
        gpu_count_work(gpu_stream(s), (int)least((int64_t)(bytes / COUNTED_BYTES), INT16_MAX));
        lock_give(&gpu_stream(s)->lock);
    }
    return p;
}

void gpu_free(struct stream *s, void *p, size_t bytes) { memory_give(&gpu_stream(s)->gpu->memory, p, bytes, s); }
