/* rows_int64.c: element-wise kernels of the 64-bit integers. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define UNARY_ROWS
#define BINARY_ROWS
#define INTEGER_ROWS

#define T uint64_t
#define U uint64_t
#define WIDE unsigned __int128
#define SUFFIX u64
#define KIND i
#include "cpu/kernels/pass.inc"

#define T int64_t
#define U uint64_t
#define WIDE unsigned __int128
#define SUFFIX i64
#define KIND i
#include "cpu/kernels/pass.inc"
