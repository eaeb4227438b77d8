#include "cuda/tape.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/memory.h"
#include "core/sizes.h"
#include "cuda/gpu.h"

enum { ALIGNED = 16, ROOM = 16 << 10 };

/* What a kernel gets, as the driver knows it; n: 0 if it does not, or where that is more than we launch with. */
struct layout {
    void *kernel;
    int n;
    uint16_t size[TAPE_ARGUMENTS];
};

static struct layout ask_layout(void *kernel)
{
    struct layout l = { .kernel = kernel };
    size_t offset, bytes;
    int n = 0;
    while (n <= TAPE_ARGUMENTS && !cu.parameter(kernel, (size_t)n, &offset, &bytes)) {
        if (n < TAPE_ARGUMENTS)
            l.size[n] = (uint16_t)bytes; /* of all together there may be 32,764 */
        n++;
    }
    l.n = n <= TAPE_ARGUMENTS ? n : 0;
    return l;
}

/* Kernels stay where they are until the process ends. */
static const struct layout *layout_of(void *kernel)
{
    enum { KNOWN = 256 };
    static _Thread_local struct layout known[KNOWN];
    struct layout *l = &known[(hash_bytes(HASH_START, &kernel, sizeof kernel) >> 32) % KNOWN];
    if (l->kernel != kernel)
        *l = ask_layout(kernel);
    return l;
}

static size_t padded(size_t bytes) { return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED; }

static bool make_room(struct tape *t, size_t bytes)
{
    if (!t->entry && !(t->entry = mx_try_malloc(TAPE_MOST * sizeof *t->entry)))
        return false;
    if (bytes <= t->cap - t->used)
        return t->n < TAPE_MOST;
    size_t cap = t->cap ? t->cap : ROOM;
    while (cap - t->used < bytes) cap *= 2;
    char *more = mx_try_realloc(t->bytes, cap);
    if (!more)
        return false;
    t->bytes = more;
    t->cap = cap;
    return t->n < TAPE_MOST;
}

/* Room for an entry's arguments, each of them at a multiple of ALIGNED; NULL: there is none. */
static char *add(struct tape *t, struct tape_entry e)
{
    if (!make_room(t, e.bytes))
        return NULL;
    e.at = t->used;
    t->entry[t->n++] = e;
    t->used += e.bytes;
    return memset(t->bytes + e.at, 0, e.bytes);
}

bool tape_add_kernel(struct tape *t, void *kernel, unsigned blocks, unsigned threads, unsigned shared, void *args[])
{
    const struct layout *l = layout_of(kernel);
    struct tape_entry e = { kernel, .blocks = blocks, .threads = threads, .shared = shared, .n = l->n };
    memcpy(e.size, l->size, sizeof e.size);
    for (int k = 0; k < l->n; k++) e.bytes += padded(l->size[k]);
    char *to = l->n ? add(t, e) : NULL;
    for (int k = 0; k < l->n && to; to += padded(l->size[k]), k++) memcpy(to, args[k], l->size[k]);
    return to;
}

bool tape_add_library(struct tape *t, gpu_library_fn *f, const void *what, size_t bytes)
{
    char *to = add(t, (struct tape_entry){ .library = f, .bytes = padded(bytes) });
    if (!to)
        return false;
    memcpy(to, what, bytes);
    t->libraries++;
    return true;
}

void tape_arguments(const struct tape *t, int i, void *args[TAPE_ARGUMENTS])
{
    const struct tape_entry *e = &t->entry[i];
    char *at = t->bytes + e->at;
    for (int k = 0; k < e->n; at += padded(e->size[k]), k++) args[k] = at;
}

void tape_clear(struct tape *t)
{
    t->n = t->libraries = 0;
    t->used = 0;
}

void tape_close(struct tape *t)
{
    free(t->entry);
    free(t->bytes);
    *t = (struct tape){ 0 };
}

bool tape_copy(struct tape *to, const struct tape *from)
{
    *to = (struct tape){
        from->n,    from->libraries, mx_try_malloc((size_t)from->n * sizeof *from->entry), mx_try_malloc(from->used),
        from->used, from->used
    };
    if (!to->entry || !to->bytes) {
        tape_close(to);
        return false;
    }
    memcpy(to->entry, from->entry, (size_t)from->n * sizeof *from->entry);
    memcpy(to->bytes, from->bytes, from->used);
    return true;
}

uint64_t tape_key(const struct tape *t)
{
    uint64_t h = HASH_START;
    for (int i = 0; i < t->n; i++) {
        const struct tape_entry *e = &t->entry[i];
        h = e->kernel ? hash_bytes(h, &e->kernel, sizeof e->kernel) : hash_bytes(h, t->bytes + e->at, e->bytes);
    }
    return h;
}

static bool same_arguments(const struct tape *a, const struct tape *b, int i)
{
    return a->entry[i].bytes == b->entry[i].bytes &&
           !memcmp(a->bytes + a->entry[i].at, b->bytes + b->entry[i].at, a->entry[i].bytes);
}

bool tape_alike(const struct tape *a, const struct tape *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++) {
        const struct tape_entry *x = &a->entry[i], *y = &b->entry[i];
        if (x->kernel != y->kernel || x->library != y->library || (!x->kernel && !same_arguments(a, b, i)))
            return false;
    }
    return true;
}

bool tape_same(const struct tape *a, const struct tape *b, int i)
{
    const struct tape_entry *x = &a->entry[i], *y = &b->entry[i];
    return x->blocks == y->blocks && x->threads == y->threads && x->shared == y->shared && same_arguments(a, b, i);
}

void tape_update(struct tape *to, const struct tape *from, int i)
{
    size_t at = to->entry[i].at;
    memcpy(to->bytes + at, from->bytes + from->entry[i].at, from->entry[i].bytes);
    to->entry[i] = from->entry[i];
    to->entry[i].at = at;
}

int tape_put(struct gpu *g, const struct tape *t, int i, void *stream)
{
    const struct tape_entry *e = &t->entry[i];
    void *args[TAPE_ARGUMENTS];
    if (!e->kernel)
        return e->library(g, t->bytes + e->at, stream);
    tape_arguments(t, i, args);
    return gpu_put_launch(g, e->kernel, e->blocks, e->threads, e->shared, stream, args);
}
