/* rows_c64.c: element-wise kernels of complex64. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define COMPLEX_ROWS
#define UNARY_ROWS
#define BINARY_ROWS

#define T complex64
#define SUFFIX c64
#define KIND c
#include "cpu/kernels/pass.inc"
