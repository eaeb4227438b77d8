/* unpack.h: kernels as the library keeps them: LZMA (of half the size that zlib makes). */
#ifndef MX_CUDA_UNPACK_H
#define MX_CUDA_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

/* n bytes from an LZMA stream without a header, lc = 3, lp = 0, pb = 2; false where it is damaged. */
bool unpack(unsigned char *to, size_t n, const unsigned char *packed, size_t packed_size);

#endif
