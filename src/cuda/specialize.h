/* specialize.h: element-wise programs that run often get kernels of their own.
 *
 * fused.c asks for one at each launch of the interpreter; specialize.c counts, and has programs compiled by a thread of
 * its own; specialized_text.c writes them; nvrtc.c compiles them, or finds what was compiled before. */
#ifndef MX_CUDA_SPECIALIZE_H
#define MX_CUDA_SPECIALIZE_H

#include "cuda/gpu.h"
#include "cuda/kernels/fused.h"

/* All that a kernel depends on; `few` says how much work there is for each thread. */
struct specialized {
    uint8_t gpu, few, steps, operands, lanes, ndim, whole, near;
    uint8_t type[FUSED_OPERANDS], lies[FUSED_OPERANDS];
    struct fused_step step[FUSED_STEPS];
};

/* The kernel for what `a` asks of this GPU, and how many elements its blocks of FUSED_THREADS take; NULL: there is
 * none, or not yet. */
void *gpu_specialized(struct gpu *g, const struct fused_args *a, bool few, int64_t *each);
/* How many there are, and how many are to be compiled. */
void gpu_count_specialized(size_t *ready, size_t *waiting);

/* The program as text, to be freed, and how many elements a block takes; NULL where there is no memory. */
char *specialized_text(const struct specialized *p, int64_t *each);

/* Is NVRTC found? */
bool specialized_compiler(void);
/* Found where it was compiled before, or compiled for this device after a call of `before`; NULL after mx_fail.  Free
 * it. */
char *specialized_image(struct gpu *g, const char *text, void (*before)(struct gpu *), size_t *size);
/* Has the compiler do once what it does when it is first used. */
void specialized_warm_up(const struct gpu *g);

#endif
