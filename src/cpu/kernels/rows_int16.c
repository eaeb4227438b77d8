/* rows_int16.c: element-wise kernels of the 16-bit integers. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define UNARY_ROWS
#define BINARY_ROWS
#define INTEGER_ROWS

#define T uint16_t
#define U uint16_t
#define WIDE uint32_t
#define SUFFIX u16
#define KIND i
#include "cpu/kernels/pass.inc"

#define T int16_t
#define U uint16_t
#define WIDE uint32_t
#define SUFFIX i16
#define KIND i
#include "cpu/kernels/pass.inc"
