/* memory.c: a GPU's memory, cached by size class.
 *
 * Freed memory is handed out again on the stream that used it last without waiting: what comes later there
 * is done later.  Another stream gets it when the driver has no more, and follows the last use.  Blocks of less
 * than a megabyte are cut from larger ones, since the driver takes long for each and waits for the device. */
#include <stdlib.h>

#include "cuda/gpu.h"

static const size_t SLAB = 8u << 20, CUT = 1u << 20;

/* From the driver; 0: it has none. */
static uint64_t fresh(size_t bytes)
{
    uint64_t p = 0;
    int e = cu.memory_alloc(&p, bytes);
    return e ? 0 : p;
}

static int put(struct gpu *g, int bin, size_t bytes, struct gpu_block block)
{
    struct gpu_bin *b = &g->bin[bin];
    if (b->n == b->cap) {
        int cap = b->cap ? 2 * b->cap : 16;
        struct gpu_block *more = realloc(b->block, (size_t)cap * sizeof *more);
        if (!more)
            return 1;
        b->block = more;
        b->cap = cap;
    }
    b->bytes = bytes;
    b->block[b->n++] = block;
    g->cached += bytes;
    return 0;
}

/* The newest block that this stream used last; else the newest of any, with `any`. */
static struct gpu_block take(struct gpu *g, int bin, size_t bytes, const struct stream *s, bool any)
{
    struct gpu_bin *b = &g->bin[bin];
    for (int i = b->n; i-- > 0;) {
        if (!any && b->block[i].stream != s)
            continue;
        struct gpu_block found = b->block[i];
        b->block[i] = b->block[--b->n];
        g->cached -= bytes;
        return found;
    }
    return (struct gpu_block){ 0 };
}

/* Cuts a slab into blocks of this class. */
static uint64_t cut(struct gpu *g, int bin, size_t bytes, struct stream *s)
{
    uint64_t p = fresh(SLAB);
    if (!p)
        return 0;
    for (size_t at = bytes; at + bytes <= SLAB; at += bytes)
        if (put(g, bin, bytes, (struct gpu_block){ p + at, s }))
            break;
    return p;
}

void gpu_trim(struct gpu *g)
{
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < (int)(sizeof g->bin / sizeof *g->bin); i++) {
        struct gpu_bin *b = &g->bin[i];
        if (b->bytes < CUT)
            continue;
        while (b->n) {
            struct gpu_block block = b->block[--b->n];
            cu.stream_wait(gpu_stream(block.stream)->stream);
            cu.memory_free(block.address);
            g->cached -= b->bytes;
        }
    }
    pthread_mutex_unlock(&g->lock);
}

void *gpu_alloc(struct stream *s, size_t bytes)
{
    struct gpu *g = gpu_use(s->device.index);
    if (!g || gpu_check(g, "memory", 0))
        return NULL;
    int bin;
    size_t size = memory_class(bytes, &bin);
    pthread_mutex_lock(&g->lock);
    struct gpu_block block = take(g, bin, size, s, false);
    if (!block.address)
        block = (struct gpu_block){ size < CUT ? cut(g, bin, size, s) : fresh(size), s };
    if (!block.address)
        block = take(g, bin, size, s, true);
    pthread_mutex_unlock(&g->lock);
    if (!block.address) {
        gpu_trim(g);
        block = (struct gpu_block){ fresh(size), s };
    }
    if (!block.address) {
        size_t available = 0, total = 0;
        cu.memory_info(&available, &total);
        mx_fail_as(MX_MEMORY, "[memory] could not allocate %zu bytes on GPU %d: %zu of %zu bytes are free, and nothing "
                              "is cached any more", bytes, g->number, available, total);
        return NULL;
    }
    if (block.stream != s && s->on->follow(s, block.stream, block.stream->on->mark(block.stream)))
        return NULL;
    memory_count((int64_t)size);
    return (void *)block.address;
}

void gpu_free(struct stream *s, void *p, size_t bytes)
{
    struct gpu *g = gpu_stream(s)->gpu;
    int bin;
    size_t size = memory_class(bytes, &bin);
    memory_count(-(int64_t)size);
    pthread_mutex_lock(&g->lock);
    bool kept = !put(g, bin, size, (struct gpu_block){ (uint64_t)p, s });
    pthread_mutex_unlock(&g->lock);
    if (!kept && size >= CUT && gpu_use(g->number)) {
        cu.stream_wait(gpu_stream(s)->stream);
        cu.memory_free((uint64_t)p);
    }
}
