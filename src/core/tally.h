/* tally.h: numbers that every operation changes and hardly anybody reads.
 *
 * Each thread counts by itself, where no other writes; who reads adds up.  A sum is exact of what happened before, and
 * what happens meanwhile on other threads is in it or not. */
#ifndef MX_CORE_TALLY_H
#define MX_CORE_TALLY_H

#include <stdatomic.h>

#include "core/thread.h"

enum {
    TALLY_ARRAYS,  /* live ones */
    TALLY_HANDLES, /* live ones of the first kind, and so on (capi/handles.h) */
    TALLIES = 40
};

struct tally {
    struct tally *next, **link;
    atomic_long n[TALLIES];
};

/* The same by a thread that has no tally: it gets one, if it can, and is not at its end. */
void tally_first(int which, long by);

static inline void tally_add(int which, long by)
{
    struct tally *t = this_thread()->tally;
    if (__builtin_expect(!t, 0)) {
        tally_first(which, by);
        return;
    }
    long n = atomic_load_explicit(&t->n[which], memory_order_relaxed);
    atomic_store_explicit(&t->n[which], n + by, memory_order_relaxed);
}

long tally_sum(int which);

#endif
