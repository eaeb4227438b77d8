/* hadamard.c: the Walsh-Hadamard transform at one instruction-set level. */
#include "cpu/kernels/hadamard.h"

#include "cpu/kernels/level.h"

#define T float
#define S f32
#include "cpu/kernels/hadamard.inc"
#define T double
#define S f64
#include "cpu/kernels/hadamard.inc"

extern const struct hadamard_kernels LEVEL(hadamard_kernels);
const struct hadamard_kernels LEVEL(hadamard_kernels) = { transform_f32, transform_f64, add_f32, add_f64 };
