/* memory.c: a GPU's memory, which core/memory caches.
 *
 * Blocks of less than a megabyte are cut from larger ones, of all sizes one after the other, since the driver takes
 * long for each and waits for the device. */
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

static void *fresh_memory(struct memory *m, size_t bytes, struct stream *s)
{
    (void)s;
    if (bytes >= CUT)
        return from_driver(bytes);
    struct gpu *g = (struct gpu *)m;
    bytes = ceil_div((int64_t)bytes, ALIGNMENT) * ALIGNMENT;
    lock_take(&g->cutting);
    if (g->slab_left < bytes) {
        g->slab = from_driver(SLAB);
        g->slab_left = g->slab ? SLAB : 0;
    }
    char *p = g->slab;
    if (p) {
        g->slab += bytes;
        g->slab_left -= bytes;
    }
    lock_give(&g->cutting);
    return p;
}

/* Memory of any GPU goes while a thread queues work on another, which stays the one in use. */
static void await_last_stream(struct memory *m, const struct memory_block *b)
{
    struct gpu *before = gpu_used();
    bool failed = !gpu_use(((struct gpu *)m)->number);
    if (!failed) {
        cu.stream_wait(gpu_direct(gpu_stream(b->last)));
        cu.memory_free((uint64_t)b->p);
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
    g->memory = (struct memory){ .fresh = fresh_memory, .discard = await_last_stream, .least = CUT, .most = all };
    lock_open(&g->cutting, LOCK_DEVICE);
    memory_open(&g->memory);
}

void *gpu_alloc(struct stream *s, size_t bytes)
{
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
    return p;
}

void gpu_free(struct stream *s, void *p, size_t bytes) { memory_give(&gpu_stream(s)->gpu->memory, p, bytes, s); }
