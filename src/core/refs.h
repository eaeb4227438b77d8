/* refs.h: counts of references. */
#ifndef MX_CORE_REFS_H
#define MX_CORE_REFS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Gives a reference back: was it the last?  Whoever has the only one to a thing that is found through references alone
 * is the only one who could make it two, so it is not counted down: an addition that other processors must see takes
 * longer than all else that happens to most things at their end. */
static inline bool last_goes(atomic_int *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

#endif
