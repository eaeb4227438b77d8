/* binary_f32.c: binary kernels of float32. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define FLOAT_ROWS
#define BINARY_ROWS

#define T float
#define SUFFIX f32
#define KIND f
#include "cpu/kernels/pass.inc"
