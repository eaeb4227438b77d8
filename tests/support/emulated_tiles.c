#define ISA emulated
#define EMULATED_TILES
#include "cpu/kernels/gemm.c"
