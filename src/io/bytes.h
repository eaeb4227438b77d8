/* bytes.h: bytes of a file that are put together in memory, numbers with the lowest byte first. */
#ifndef MX_IO_BYTES_H
#define MX_IO_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins as zeros; v is to be freed.  What cannot be put fails it, and then nothing is put any more. */
struct bytes {
    uint8_t *v;
    size_t n, cap;
    bool failed;
};
void put_bytes(struct bytes *b, const void *data, size_t n); /* NULL: what there was no memory for, as has been said */
void put_le(struct bytes *b, uint64_t v, int n);             /* n bytes of it */
static inline void put_u8(struct bytes *b, unsigned v) { put_le(b, v, 1); }
static inline void put_u32(struct bytes *b, uint32_t v) { put_le(b, v, 4); }
static inline void put_u64(struct bytes *b, uint64_t v) { put_le(b, v, 8); }
void put_text(struct bytes *b, const char *s, size_t n); /* after its length, of 64 bits */

#endif
