/* crew.c: threads that need room to work in. */
#include "cpu/crew.h"

#include <stdatomic.h>

#include "core/pool.h"

struct crew {
    int64_t n;
    atomic_int_fast64_t next;
    size_t bytes;
    char *space;
    void (*fn)(void *ctx, int64_t i, char *space);
    void *ctx;
};

static void take_turns(void *ctx, int64_t begin, int64_t end)
{
    struct crew *c = ctx;
    for (int64_t w = begin; w < end; w++)
        for (int64_t i; (i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < c->n;)
            c->fn(c->ctx, i, c->space + (size_t)w * c->bytes);
}

void crew_for(int64_t n, int threads, char *space, size_t bytes, void (*fn)(void *ctx, int64_t i, char *space),
              void *ctx)
{
    struct crew c = { .n = n, .bytes = bytes, .space = space, .fn = fn, .ctx = ctx };
    pool_for(threads, 1, take_turns, &c);
}
