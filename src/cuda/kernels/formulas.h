/* formulas.h: what the functions of ops.def's rows are in kernels, by the types that a row computes in.
 *
 * A formula of some length is a function of its own, called for each element; the others are part of the kernel.
 * Include cuda/kernels/gpu.h before. */
#ifndef MX_CUDA_KERNELS_FORMULAS_H
#define MX_CUDA_KERNELS_FORMULAS_H

#define FN_ANY FN
#define FN_NUMERIC FN
#define FN_REAL FN
#define FN_INTEGER FN
#define FN_SHIFTED FN
#define FN_BOOL FN
#define FN_INEXACT FN_APART
#define FN_FLOAT FN_APART

#endif
