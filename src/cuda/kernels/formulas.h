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

/* Where NEAR_TEST(name) holds for all operands of a thread, NEAR_TWIN(name) gives the same as the formula without a
 * branch or a call, which all of them take at once; of most there is none. */
#define NEAR_ROW(name) PASTE(NEAR, PASTE(SUFFIX, name))
#define NEAR_TEST(name) SECOND(NEAR_ROW(name), IS_NEVER, )
#define NEAR_TWIN(name) THIRD(NEAR_ROW(name), , K(one_##name), )
#define IS_NEVER(...) 0
#define IS_ALWAYS(...) 1
#define NEAR_f32_tanh ~, IS_ALWAYS, m_tanh_f32
#if FAST_FMA
#define NEAR_f32_power ~, m_pow_is_near_f32, m_pow_near_f32
#endif

#endif
