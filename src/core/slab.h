/* slab.h: small objects, kept per thread by size, so that making a graph costs no call to malloc.
 *
 * Taking one from a list and putting it back are a few instructions, so they are here; what is behind an empty list, a
 * full one, and a thread's first and last is in slab.c. */
#ifndef MX_CORE_SLAB_H
#define MX_CORE_SLAB_H

#include <stddef.h>

#include "core/thread.h"

void *slab_fresh(size_t bytes);
void slab_return(void *p, size_t bytes);
/* This thread's spares. */
void slab_clear(void);

static inline size_t slab_bin(size_t bytes) { return (bytes + SLAB_STEP - 1) / SLAB_STEP; }

/* 64-byte aligned for sizes up to SLAB_MAX, uninitialized; NULL without a failure being kept. */
static inline void *slab_new(size_t bytes)
{
    struct slab_bin *b = bytes <= SLAB_MAX ? &this_thread()->slab.bins[slab_bin(bytes)] : NULL;
    struct slab_spare *s = b ? b->first : NULL;
    if (__builtin_expect(!s, 0))
        return slab_fresh(bytes);
    b->first = s->next;
    b->n--;
    return s;
}

/* p is not NULL; bytes as given to slab_new. */
static inline void slab_free(void *p, size_t bytes)
{
    struct slab_bin *b = bytes <= SLAB_MAX ? &this_thread()->slab.bins[slab_bin(bytes)] : NULL;
    if (__builtin_expect(!b || b->n >= this_thread()->slab.depth, 0)) {
        slab_return(p, bytes);
        return;
    }
    struct slab_spare *s = p;
    s->next = b->first;
    b->first = s;
    b->n++;
}

#endif
