/* rows_int8.c: element-wise kernels of bool and the 8-bit integers. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define UNARY_ROWS
#define BINARY_ROWS

#define T uint8_t
#define SUFFIX b8
#define KIND b
#include "cpu/kernels/pass.inc"

#define INTEGER_ROWS
#define T uint8_t
#define U uint8_t
#define WIDE uint16_t
#define SUFFIX u8
#define KIND i
#include "cpu/kernels/pass.inc"

#define T int8_t
#define U uint8_t
#define WIDE uint16_t
#define SUFFIX i8
#define KIND i
#include "cpu/kernels/pass.inc"
