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

enum { DEPTH = 4096 };

static _Thread_local bool ended;
static pthread_key_t key;

void slab_clear(void)
{
    for (size_t i = 0; i < SLAB_BINS; i++) {
        struct slab_bin *b = &this_thread()->slab.bins[i];
        while (b->first) {
            struct slab_spare *s = b->first;
            b->first = s->next;
            free(s);
        }
        b->n = 0;
    }
}

static void thread_ends(void *unused)
{
    (void)unused;
    slab_clear();
    this_thread()->slab.depth = 0;
    ended = true;
}

__attribute__((constructor)) static void make_key(void) { pthread_key_create(&key, thread_ends); }

void *slab_fresh(size_t bytes)
{
    if (bytes > SLAB_MAX)
        return malloc(bytes);
    return aligned_alloc(SLAB_STEP, (HARD ? bytes / SLAB_STEP + 1 : bytes ? slab_bin(bytes) : 1) * SLAB_STEP);
}

void slab_return(void *p, size_t bytes)
{
    struct slab *slab = &this_thread()->slab;
    if (HARD || bytes > SLAB_MAX || slab->depth || ended) {
        free(p);
        return;
    }
    slab->depth = DEPTH; /* the thread's first */
    pthread_setspecific(key, slab);
    slab_free(p, bytes);
}
