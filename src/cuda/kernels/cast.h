/* cast.h: the arguments of cast.cu, and the types as its kernels know them. */
#ifndef MX_CUDA_KERNELS_CAST_H
#define MX_CUDA_KERNELS_CAST_H

#include "core/dtype.h"
#include "plan/walk.h"

enum { CAST_THREADS = 256, CAST_EACH = 4 };

/* y[i] = x[i], made a `to`. */
struct cast_args {
    void *y;
    const void *x;
    int32_t to; /* enum dtype */
    struct walk w;
};

#endif
