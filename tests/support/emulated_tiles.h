/* emulated_tiles.h: the products of x86-64-v2, with AMX's tiles in C. */
#ifndef MX_TESTS_EMULATED_TILES_H
#define MX_TESTS_EMULATED_TILES_H

#include "cpu/bf16.h"
#include "cpu/kernels.h"

extern const struct gemm_kernels gemm_kernels_emulated;

/* The lowest level with these products, which bfloat16 takes from here on. */
static inline const struct cpu_kernels *use_emulated_tiles(void)
{
    static struct cpu_kernels kernels;
    kernels = *cpu_kernels_named("base");
    kernels.gemm = &gemm_kernels_emulated;
    bf16_trust_tiles();
    return cpu = &kernels;
}

#endif
