/* hash.h: FNV-1a of bytes, http://www.isthe.com/chongo/tech/comp/fnv. */
#ifndef MX_CORE_HASH_H
#define MX_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325u

/* Of what has the hash h, HASH_START for nothing, and these after it. */
static inline uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
    for (const uint8_t *p = data; n--; p++) h = (h ^ *p) * 0x100000001b3u;
    return h;
}

#endif
