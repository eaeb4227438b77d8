/* modules.h: the kernels as the build compiled them (cmake/MLXCuda.cmake writes the list). */
#ifndef MX_CUDA_MODULES_H
#define MX_CUDA_MODULES_H

#include <stddef.h>

/* One module for one target, compressed (unpack.h): machine code of sm_<target>, or PTX for that and later.  It begins
 * `at` bytes behind the first of a stream, which may have others. */
struct gpu_image {
    const char *module;
    int target, ptx;
    const unsigned char *packed;
    size_t packed_size, size, at;
};
extern const struct gpu_image gpu_images[];
extern const int gpu_n_images;

#endif
