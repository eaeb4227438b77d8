/* crew.h: threads that need room to work in. */
#ifndef MX_CPU_CREW_H
#define MX_CPU_CREW_H

#include <stddef.h>
#include <stdint.h>

/* fn(ctx, i, space) for i in 0..n, by `threads` threads of which each has `bytes` of the space. */
void crew_for(int64_t n, int threads, char *space, size_t bytes, void (*fn)(void *ctx, int64_t i, char *space),
              void *ctx);

#endif
