/* unary_f32.c: unary kernels of float32. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define FLOAT_ROWS
#define UNARY_ROWS

#define T float
#define SUFFIX f32
#define KIND f
#include "cpu/kernels/pass.inc"
