/* gpu.h: the language of the kernels, which is both CUDA C as NVRTC takes it, without any header, and
 * C17 under the emulator of the tests (tests/support/emulator.h), where a grid runs on the host.
 *
 * A kernel is GPU_KERNEL name(arguments) { ... }.  Inside are threadIdx, blockIdx, blockDim and gridDim;
 * functions are FN (shared/scalar.h). */
#ifndef MX_CUDA_KERNELS_GPU_H
#define MX_CUDA_KERNELS_GPU_H

#include "shared/scalar.h"

#include "shared/rows.h"

#ifdef __CUDACC__
#define GPU_KERNEL extern "C" __global__ void
#define BY_VALUE const __grid_constant__ /* a struct that stays in constant memory */
#define ALIGNED(n) __align__(n)
#define ROLLED _Pragma("unroll 1")
#define FN_APART static __device__ __noinline__
#define TYPE_OF(x) decltype(x)
#else
#include "support/emulator.h"
#define GPU_KERNEL static void
#define BY_VALUE const
#define ALIGNED(n) __attribute__((aligned(n)))
#define ROLLED
#define FN_APART static
#define TYPE_OF(x) __typeof__(x)
#endif

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

#endif
