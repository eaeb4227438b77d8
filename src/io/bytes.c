/* bytes.c: see bytes.h. */
#include "io/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

void put_bytes(struct bytes *b, const void *data, size_t n)
{
    if (b->failed || n == 0)
        return;
    if (!data) {
        b->failed = true;
        return;
    }
    if (n > b->cap - b->n) {
        size_t cap = b->cap ? b->cap : 4096;
        while (cap - b->n < n) cap *= 2;
        uint8_t *more = mx_try_realloc(b->v, cap);
        if (!more) {
            mx_fail_memory(cap);
            b->failed = true;
            return;
        }
        b->v = more;
        b->cap = cap;
    }
    memcpy(b->v + b->n, data, n);
    b->n += n;
}

void put_le(struct bytes *b, uint64_t v, int n)
{
    uint8_t le[8];
    for (int i = 0; i < n; i++) le[i] = (uint8_t)(v >> 8 * i);
    put_bytes(b, le, (size_t)n);
}

void put_text(struct bytes *b, const char *s, size_t n)
{
    put_u64(b, n);
    put_bytes(b, s, n);
}
