/* slab.c: per-thread lists of freed small objects.
 *
 * A block freed by another thread than its maker's simply changes lists; each list is bounded. */
#include "core/slab.h"

/* Under a sanitizer every object is a malloc of its own, so that using one after its scope has closed
 * is seen. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HARD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HARD 1
#endif
#endif
#ifndef HARD
#define HARD 0
#endif

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { STEP = 64, BINS = SLAB_MAX / STEP, DEPTH = 4096 };

struct spare {
    struct spare *next;
};
struct bin {
    struct spare *first;
    int n;
};

static _Thread_local struct bin bins[BINS];
static _Thread_local enum { UNUSED, OPEN, CLOSED } state;
static pthread_key_t key;

void slab_clear(void)
{
    for (int i = 0; i < BINS; i++) {
        while (bins[i].first) {
            struct spare *s = bins[i].first;
            bins[i].first = s->next;
            free(s);
        }
        bins[i].n = 0;
    }
}

static void thread_ends(void *unused)
{
    (void)unused;
    slab_clear();
    state = CLOSED;
}

__attribute__((constructor)) static void make_key(void) { pthread_key_create(&key, thread_ends); }

void *slab_new(size_t bytes)
{
    if (bytes > SLAB_MAX)
        return malloc(bytes);
    if (HARD)
        return aligned_alloc(STEP, (bytes / STEP + 1) * STEP);
    size_t i = bytes ? (bytes - 1) / STEP : 0;
    struct spare *s = bins[i].first;
    if (!s)
        return aligned_alloc(STEP, (i + 1) * STEP);
    bins[i].first = s->next;
    bins[i].n--;
    return s;
}

void slab_free(void *p, size_t bytes)
{
    if (!p)
        return;
    if (bytes > SLAB_MAX || HARD) {
        free(p);
        return;
    }
    if (__builtin_expect(state != OPEN, 0)) {
        if (state == CLOSED) {
            free(p);
            return;
        }
        state = OPEN;
        pthread_setspecific(key, bins);
    }
    struct bin *b = &bins[bytes ? (bytes - 1) / STEP : 0];
    if (b->n >= DEPTH) {
        free(p);
        return;
    }
    ((struct spare *)p)->next = b->first;
    b->first = p;
    b->n++;
}
