/* nvtx.h: the names of operations on the time lines of NVIDIA's tools.
 *
 * With MLX_NVTX=1 in the environment, what the host does to queue an entry lies between the beginning and the end of a
 * range, which a tool such as Nsight Systems shows above the kernels that it started. */
#ifndef MX_CUDA_NVTX_H
#define MX_CUDA_NVTX_H

#include "run/backend.h"

/* A range of n entries that run as one, named after their operations; ranges of a thread are nested.  1 if there is a
 * tool, and nvtx_end is to be called. */
int nvtx_begin(int n, struct entry *const m[]);
void nvtx_end(void);

#endif
