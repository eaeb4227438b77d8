/* signal.h: counters in shared memory by which some threads of a block tell others that something is done, and wait for
 * that, while the rest goes its own way; on devices of 9.0 and the emulator.
 *
 * A signal comes when as many warps have arrived as it was made for, again and again: its phases, which have parities 0
 * and 1 in turn, end so.  Threads of a warp arrive together.  What they wrote before is seen by who waited.
 *
 * Include cuda/kernels/gpu.h and lanes.h before. */
#ifndef MX_CUDA_KERNELS_SIGNAL_H
#define MX_CUDA_KERNELS_SIGNAL_H

#include "cuda/kernels/warp.h"

#ifdef __CUDACC__
typedef uint64_t signal_t;
/* By one thread, before a barrier of the block. */
FN void signal_new(signal_t *s, int warps)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place_in_shared(s)), "r"(warps) : "memory");
}
FN void signal_arrive(signal_t *s)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(place_in_shared(s)) : "memory");
}
/* One that comes when so many threads have arrived, each by itself: at once, behind what it wrote, or when what it has
 * begun to copy (copy_later) is there, which products have to be shown by who waits (show_to_products). */
FN void signal_new_of(signal_t *s, int threads)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place_in_shared(s)), "r"(threads) : "memory");
}
FN void signal_arrive_alone(signal_t *s)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(place_in_shared(s)) : "memory");
}
FN void signal_arrive_copied(signal_t *s)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(place_in_shared(s)) : "memory");
}
/* One thread arrives, and bytes, a multiple of 16 as both places are, are copied to shared memory by themselves: the
 * phase does not end before they are there, where products see them. */
FN void signal_arrive_fetching(signal_t *s, shared_at to, const void *from, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place_in_shared(s)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(place_in_shared(s))
                 : "memory");
}
/* Until the phase of that parity has ended; the one before the first has parity 1. */
FN void signal_wait(signal_t *s, uint32_t parity)
{
    asm volatile(
        "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra COME;\nbra AGAIN;\n"
        "COME:\n}" ::"r"(place_in_shared(s)),
        "r"(parity)
        : "memory");
}
/* Registers that each thread of these four warps may have from here on; together no more than there are. */
#define FEWER_REGISTERS(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 " #n ";")
#define MORE_REGISTERS(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 " #n ";")
#else
typedef struct emulated_signal signal_t;
FN void signal_new(signal_t *s, int warps) { *s = (signal_t){ (uint16_t)(32 * warps), 0, 0 }; }
FN void signal_arrive(signal_t *s) { emulated_arrive(s); }
FN void signal_new_of(signal_t *s, int threads) { *s = (signal_t){ (uint16_t)threads, 0, 0 }; }
FN void signal_arrive_alone(signal_t *s) { emulated_arrive(s); }
FN void signal_arrive_copied(signal_t *s) { emulated_arrive(s); }
FN void signal_arrive_fetching(signal_t *s, shared_at to, const void *from, uint32_t bytes)
{
    for (uint32_t b = 0; b < bytes; b += 16) copy_later_at(to + b, (const char *)from + b, 1);
    emulated_arrive(s);
}
#define signal_wait(s, parity) emulated_wait(s, parity, __FILE__, __LINE__)
#define FEWER_REGISTERS(n) ((void)(n))
#define MORE_REGISTERS(n) ((void)(n))
#endif

#endif
