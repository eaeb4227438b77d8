/* computed.h: what elements of S are computed in: T, float32 for half types.
 *
 * IN(x) is an element as T, OUT(x) a T as an element; F(name) is the variant of a function for T.  Include
 * cuda/kernels/gpu.h before, with S and SUFFIX defined, and HALF for half types. */
#ifndef MX_CUDA_KERNELS_COMPUTED_H
#define MX_CUDA_KERNELS_COMPUTED_H

#ifdef HALF
typedef float T;
#define IN(x) PASTE(f32_from, SUFFIX)(x)
#define OUT(x) PASTE(SUFFIX, from_f32)(x)
#define F(name) name##_f32
#else
typedef S T;
#define IN(x) (x)
#define OUT(x) (x)
#define F(name) PASTE(name, SUFFIX)
#endif

#endif
