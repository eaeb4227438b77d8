/* modules.h: the kernels as the build compiled them (tools/cuda_kernels.py writes the list). */
#ifndef MX_CUDA_MODULES_H
#define MX_CUDA_MODULES_H

#include <stdbool.h>
#include <stddef.h>

/* One module for one target, compressed (unpack.h): machine code of sm_<target>, or PTX for that and later.  It begins
 * `at` bytes behind the first of a stream, which may have others. */
struct gpu;
struct gpu_image {
    const char *module;
    int target, ptx;
    const unsigned char *packed;
    size_t packed_size, size, at;
};
extern const struct gpu_image gpu_images[];
extern const int gpu_n_images;
/* Are there any for devices of this compute capability, 75 for 7.5? */
bool modules_fit(int capability);
/* Do all kernels for such a device wait by themselves for those ahead of them?  Machine code and texts for 9.0 and
 * later do. */
bool modules_overlap(const struct gpu *g);

/* The headers of programs that are compiled at run time (kernels/specialized.h), compressed as text: n names, each
 * followed by what is in it, with a 0 behind each.  The digest says what is in all of them. */
struct gpu_headers {
    const unsigned char *packed;
    size_t packed_size, size;
    int n;
    const char *digest;
};
extern const struct gpu_headers gpu_headers;

#endif
