/* unary_f64.c: unary kernels of float64. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define FLOAT_ROWS
#define UNARY_ROWS

#define T double
#define SUFFIX f64
#define KIND f
#include "cpu/kernels/pass.inc"
