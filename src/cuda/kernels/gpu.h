/* gpu.h: the language of the kernels, which is both CUDA C as NVRTC takes it, without any header, and
 * C17 under the emulator of the tests (tests/support/emulator.h), where a grid runs on the host.
 *
 * A kernel is KERNEL(name, struct its_arguments) { ... a.field ... }, where the struct, which the runner fills, is
 * of a header that both include, BOUNDED_KERNEL where a multiprocessor should have registers for so many blocks of so
 * many threads, or GPU_KERNEL name(arguments) { AFTER_LAUNCH_BEFORE(); ... }: from compute capability 9.0 on a kernel
 * is put on the device while the one ahead of it in its stream still runs, and waits there for its end, before it
 * reads or writes any memory (gpu_launch_shared).  An EARLY_KERNEL, or EARLY_BOUNDED_KERNEL, says
 * AFTER_LAUNCH_BEFORE() itself, or its halves: AFTER_LAUNCH(), which waits, and LAUNCH_NEXT(), from which on blocks of
 * the next kernel take what place there is, which may be too early; a launch of few blocks leaves it places from the
 * beginning on (LAUNCH_NEXT_OF_FEW).  Ahead of the wait it may read what the launch is told was there before
 * (gpu_was_there).  FETCH_AHEAD(p) has the cache fetch the 128 bytes around p, which may be written meanwhile,
 * FETCH_PIECE_AHEAD(p, bytes) as many sixteens of bytes.
 *
 * Inside are threadIdx, blockIdx, blockDim and gridDim; functions are FN (shared/scalar.h).  SHARED memory is one for
 * all threads of a block; more than 48 KiB of it are one SHARED_BYTES of a kernel, of as many bytes as it is launched
 * with (gpu_launch_shared); BARRIER() has them wait for each other.  SHUFFLE_XOR(x, bits) is the x of the thread of the
 * warp, all of whose threads take part, whose lane differs in these bits, SHUFFLE(x, lane) that of this lane,
 * WARP_MAX(x) the largest int32_t of the warp, and VOTE(x) has a bit for each lane whose x is not 0; WARP_BARRIER() has
 * the threads of a warp see what they wrote; SAME_IN_WARP(x, n) has the bits of those threads of the warp, all taking
 * part, whose x, of n bits, is this one's, and POPCOUNT(x) counts bits.  FENCE() has others see what this thread wrote
 * before what it writes later, READ_ANEW(p) reads what others of the launch wrote.  ATOMIC_MIN(p, v) makes *p, a
 * uint64_t, the lesser of itself and v, ATOMIC_MAX(p, v) an uint32_t the greater; ATOMIC_ADD(p, v) adds to an uint32_t,
 * and returns what it was, ATOMIC_SUM(p, v) to a float, in whatever order threads come: see MLX_DETERMINISTIC. */
#ifndef MX_CUDA_KERNELS_GPU_H
#define MX_CUDA_KERNELS_GPU_H

#include "shared/scalar.h"

#include "shared/rows.h"

#ifdef __CUDACC__
#define GPU_KERNEL extern "C" __global__ void
#define BY_VALUE const __grid_constant__ /* a struct that stays in constant memory */
#if __CUDA_ARCH__ >= 900
#define AFTER_LAUNCH() asm volatile("griddepcontrol.wait;" ::: "memory")
#define LAUNCH_NEXT() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define FETCH_AHEAD(p) asm volatile("prefetch.global.L2 [%0];" ::"l"(p))
#define FETCH_PIECE_AHEAD(p, bytes) \
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(bytes))
#else
#define AFTER_LAUNCH()
#define LAUNCH_NEXT()
#define FETCH_AHEAD(p) ((void)(p))
#define FETCH_PIECE_AHEAD(p, bytes) ((void)(p), (void)(bytes))
#endif
#define AFTER_LAUNCH_BEFORE() \
    do {                      \
        AFTER_LAUNCH();       \
        LAUNCH_NEXT();        \
    } while (0)
#define KERNEL_OF(kernel, name, type, first)                               \
    static __device__ __forceinline__ void PASTE(name, of)(const type &a); \
    kernel name(BY_VALUE type a)                                           \
    {                                                                      \
        first;                                                             \
        PASTE(name, of)(a);                                                \
    }                                                                      \
    static __device__ __forceinline__ void PASTE(name, of)(const type &a)
#define BOUNDED(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define KERNEL(name, type) KERNEL_OF(GPU_KERNEL, name, type, AFTER_LAUNCH_BEFORE())
#define BOUNDED_KERNEL(name, type, threads, blocks) \
    KERNEL_OF(BOUNDED(threads, blocks), name, type, AFTER_LAUNCH_BEFORE())
#define EARLY_KERNEL(name, type) KERNEL_OF(GPU_KERNEL, name, type, )
#define EARLY_BOUNDED_KERNEL(name, type, threads, blocks) KERNEL_OF(BOUNDED(threads, blocks), name, type, )
#define ALIGNED(n) __align__(n)
#define ROLLED _Pragma("unroll 1")
#define FOURS _Pragma("unroll 4")
#define EIGHTS _Pragma("unroll 8")
#define UNROLLED _Pragma("unroll")
#define FN_APART static __device__ __noinline__
#define TYPE_OF(x) decltype(x)
#define SHARED __shared__
#define SHARED_BYTES(name, bytes) extern __shared__ __align__(16) unsigned char name[]
#define BARRIER() __syncthreads()
#define SHUFFLE_XOR(x, bits) __shfl_xor_sync(0xffffffffu, x, bits)
#define SHUFFLE(x, lane) __shfl_sync(0xffffffffu, x, lane)
#define VOTE(x) __ballot_sync(0xffffffffu, x)
#define ATOMIC_MIN(p, v) atomicMin(p, v)
#define WARP_BARRIER() __syncwarp()
#define POPCOUNT(x) ((uint32_t)__popc(x))
#define ATOMIC_MAX(p, v) atomicMax(p, v)
#define FENCE() __threadfence()
#define READ_ANEW(p) __ldcg(p)
FN uint32_t ATOMIC_ADD(uint32_t *p, uint32_t v) { return atomicAdd(p, v); }
FN void ATOMIC_SUM(float *p, float v) { atomicAdd(p, v); }
FN int32_t WARP_MAX(int32_t x)
{
#if __CUDA_ARCH__ >= 800 /* that have an instruction for it */
    return __reduce_max_sync(0xffffffffu, x);
#else
    for (int bits = 1; bits < 32; bits *= 2) {
        int32_t other = SHUFFLE_XOR(x, bits);
        x = other > x ? other : x;
    }
    return x;
#endif
}
FN uint32_t SAME_IN_WARP(uint32_t x, const int n)
{
    uint32_t same = 0xffffffffu;
    UNROLLED
    for (int i = 0; i < n; i++) {
        uint32_t like; /* the threads whose bit i is this one's */
        asm volatile("{.reg .pred p; .reg .b32 m; and.b32 m, %1, %2; setp.ne.u32 p, m, 0; "
                     "vote.sync.ballot.b32 %0, p, 0xffffffff; @!p not.b32 %0, %0;}"
                     : "=r"(like)
                     : "r"(x), "r"(1u << i));
        same &= like;
    }
    return same;
}
#else
#include "support/emulator.h"
#define GPU_KERNEL static void
#define BY_VALUE const
#define AFTER_LAUNCH_BEFORE()
#define AFTER_LAUNCH()
#define LAUNCH_NEXT()
#define FETCH_AHEAD(p) ((void)(p))
#define FETCH_PIECE_AHEAD(p, bytes) ((void)(p), (void)(bytes))
#define KERNEL(name, type) EMULATED_KERNEL(name, type)
#define BOUNDED_KERNEL(name, type, threads, blocks) EMULATED_KERNEL(name, type)
#define EARLY_KERNEL(name, type) EMULATED_KERNEL(name, type)
#define EARLY_BOUNDED_KERNEL(name, type, threads, blocks) EMULATED_KERNEL(name, type)
#define ALIGNED(n) __attribute__((aligned(n)))
#define ROLLED
#define FOURS
#define EIGHTS
#define UNROLLED
#define FN_APART static
#define TYPE_OF(x) __typeof__(x)
#define SHARED static
#define SHARED_BYTES(name, bytes) static ALIGNED(16) unsigned char name[bytes]
#define BARRIER() emulated_barrier(__FILE__, __LINE__)
#define ATOMIC_MIN(p, v) (*(p) = (v) < *(p) ? (v) : *(p)) /* threads go on by turns */
#define ATOMIC_MAX(p, v) (*(p) = (v) > *(p) ? (v) : *(p))
#define POPCOUNT(x) ((uint32_t)__builtin_popcount(x))
#define FENCE()
#define READ_ANEW(p) (*(p))
#define WARP_BARRIER() ((void)emulated_same(0, __FILE__, __LINE__))
#define SAME_IN_WARP(x, n) emulated_same(x, __FILE__, __LINE__)
FN uint32_t ATOMIC_ADD(uint32_t *p, uint32_t v)
{
    *p += v;
    return *p - v;
}
FN void ATOMIC_SUM(float *p, float v) { *p += v; }
FN uint32_t emulated_same(uint32_t x, const char *file, int line)
{
    const uint32_t *all = emulated_gather(&x, sizeof x, file, line);
    uint32_t same = 0;
    for (uint32_t i = 0; i < 32; i++) same |= (uint32_t)(all[i] == x) << i;
    return same;
}
#define VOTE(x) emulated_vote((x) != 0, __FILE__, __LINE__)
FN uint32_t emulated_vote(uint32_t x, const char *file, int line)
{
    uint32_t same = emulated_same(x, file, line);
    return x ? same : ~same;
}
#define WARP_MAX(x) emulated_most(x, __FILE__, __LINE__)
FN int32_t emulated_most(int32_t x, const char *file, int line)
{
    const int32_t *all = emulated_gather(&x, sizeof x, file, line);
    for (int i = 0; i < 32; i++) x = all[i] > x ? all[i] : x;
    return x;
}
#define SHUFFLE(x, lane)                                                                         \
    __extension__({                                                                              \
        __typeof__(x) v_ = (x);                                                                  \
        ((const __typeof__(x) *)emulated_gather(&v_, sizeof v_, __FILE__, __LINE__))[(lane)&31]; \
    })
#define SHUFFLE_XOR(x, bits)                                            \
    __extension__({                                                     \
        __typeof__(x) v_ = (x);                                         \
        emulated_shuffle_xor(&v_, sizeof v_, bits, __FILE__, __LINE__); \
        v_;                                                             \
    })
#endif

/* p, which is a multiple of so many bytes, as wide reads and writes need: the emulator traps where it is not. */
#ifdef __CUDACC__
#define WIDE_AT(p, bytes) (p)
#else
#define WIDE_AT(p, bytes) emulated_placed(p, bytes)
FN void *emulated_placed(const void *p, int bytes)
{
    if ((uintptr_t)p % (unsigned)bytes)
        __builtin_trap();
    return (void *)(uintptr_t)p;
}
#endif

#define LOG2_E 1.442695041f /* log2 e */

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
/* Of what a row of a table is, or of what is given behind that where there is none and its name is all. */
#define SECOND_(x, second, ...) second
#define THIRD_(x, y, third, ...) third
#define SECOND(...) SECOND_(__VA_ARGS__)
#define THIRD(...) THIRD_(__VA_ARGS__)

#define LAUNCH_NEXT_OF_FEW()    \
    do {                        \
        if (gridDim.x <= 256) { \
            LAUNCH_NEXT();      \
        }                       \
    } while (0)

#endif
