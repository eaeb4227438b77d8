/* slab.h: small objects, kept per thread by size, so that making a graph costs no call to malloc. */
#ifndef MX_CORE_SLAB_H
#define MX_CORE_SLAB_H

#include <stddef.h>

enum { SLAB_MAX = 1152 }; /* larger requests go to malloc */

/* 64-byte aligned for sizes up to SLAB_MAX, uninitialized; NULL without a failure being kept. */
void *slab_new(size_t bytes);
void slab_free(void *p, size_t bytes); /* bytes as given to slab_new */
void slab_clear(void);                 /* this thread's spares */

#endif
