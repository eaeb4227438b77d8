/* bf16.h: which instructions products of bfloat16 are made of. */
#ifndef MX_CPU_BF16_H
#define MX_CPU_BF16_H

#include <stdbool.h>

#include "cpu/kernels/gemm.h"

/* Widened to float32; AVX512_BF16; AMX. */
enum bf16_products { BF16_WIDENED, BF16_PAIRS, BF16_TILES };

/* Says what is allowed, and whether there are pairs where tiles turn out not to work; called when the library is
 * loaded, before the others. */
void bf16_begin(enum bf16_products most, bool pairs);
/* The kernels to use.  The first call that could use tiles tries them, in a process of its own. */
enum gemm_type bf16_gemm(void);
/* Tests: tiles are used untried. */
void bf16_trust_tiles(void);

#endif
