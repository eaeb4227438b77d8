/* binary_f64.c: binary kernels of float64. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define FLOAT_ROWS
#define BINARY_ROWS

#define T double
#define SUFFIX f64
#define KIND f
#include "cpu/kernels/pass.inc"
