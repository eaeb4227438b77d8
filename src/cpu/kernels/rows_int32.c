/* rows_int32.c: element-wise kernels of the 32-bit integers. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define UNARY_ROWS
#define BINARY_ROWS
#define INTEGER_ROWS

#define T uint32_t
#define U uint32_t
#define WIDE uint64_t
#define SUFFIX u32
#define KIND i
#include "cpu/kernels/pass.inc"

#define T int32_t
#define U uint32_t
#define WIDE uint64_t
#define SUFFIX i32
#define KIND i
#include "cpu/kernels/pass.inc"
