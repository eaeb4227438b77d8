/* vector_results.h: what becomes of a vector's products with lines of matrices.
 *
 * Include cuda/kernels/gpu.h before, with S, IN and OUT, and HALF for half types; sums are float32. */
#ifndef MX_CUDA_KERNELS_VECTOR_RESULTS_H
#define MX_CUDA_KERNELS_VECTOR_RESULTS_H

#include "cuda/kernels/halves.h"

/* As it is, or with what c points at added to it when it is rounded. */
FN S added_result(float sum, const S *c) { return c ? OUT(IN(OUT(sum)) + IN(*c)) : OUT(sum); }

/* silu of one, rounded before and after, times the other. */
FN S gated_result(float gate, float sum)
{
#ifdef HALF
    return OUT(IN(OUT(silu_half(IN(OUT(gate))))) * IN(OUT(sum)));
#else
    return OUT(silu_f32(gate) * sum);
#endif
}

#endif
