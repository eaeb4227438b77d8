/* unpack.h: kernels as the library keeps them: LZMA (of half the size that zlib makes). */
#ifndef MX_CUDA_UNPACK_H
#define MX_CUDA_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

/* What bits are expected by: of text lc = 3, lp = 0, pb = 2; of machine code, in which an instruction has 16 bytes,
 * lc = 0, lp = 4, pb = 4. */
enum unpack_form { UNPACK_TEXT, UNPACK_CODE };
/* n bytes from an LZMA stream without a header; false where it is damaged. */
bool unpack(enum unpack_form form, unsigned char *to, size_t n, const unsigned char *packed, size_t packed_size);

#endif
