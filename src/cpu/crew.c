/* crew.c: threads that need room to work in. */
#include "cpu/crew.h"

#include <stdatomic.h>

#include "core/pool.h"

/* A worker's part of the work, on a cache line of its own: the next that works on the same arrays finds its part in its
 * cache.  Who is done helps the others. */
struct turn {
    _Alignas(64) atomic_int_fast64_t next;
    int64_t end;
};

struct crew {
    int workers;
    size_t bytes;
    char *space;
    void (*fn)(void *ctx, int64_t i, char *space);
    void *ctx;
    struct turn *turn;
};

static void take_turns(void *ctx, int64_t begin, int64_t end)
{
    struct crew *c = ctx;
    for (int64_t w = begin; w < end; w++)
        for (int k = 0; k < c->workers; k++) {
            struct turn *t = &c->turn[(w + k) % c->workers];
            for (int64_t i; (i = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed)) < t->end;)
                c->fn(c->ctx, i, c->space + (size_t)w * c->bytes);
        }
}

void crew_for(int64_t n, int threads, char *space, size_t bytes, void (*fn)(void *ctx, int64_t i, char *space),
              void *ctx)
{
    struct turn turn[POOL_MOST];
    struct crew c = { threads < POOL_MOST ? threads : POOL_MOST, bytes, space, fn, ctx, turn };
    for (int64_t w = 0; w < c.workers; w++) {
        atomic_store_explicit(&turn[w].next, n * w / c.workers, memory_order_relaxed);
        turn[w].end = n * (w + 1) / c.workers;
    }
    pool_for(c.workers, 1, take_turns, &c);
}
