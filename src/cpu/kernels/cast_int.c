/* cast_int.c: from bool and the integers to other types.
 *
 * Integers keep their low bits, floats get the nearest value, bool is "not zero". */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define INT32(x) VALUE(x)
#define UINT32(x) VALUE(x)
#define INT64(x) VALUE(x)
#define UINT64(x) VALUE(x)
#define COMPLEX(x) ((complex64){ (float)VALUE(x), 0 })
#define BOOL(x) ((x) != 0)

/* A bool made by reinterpreting bytes may hold any of them. */
#define VALUE(x) ((x) != 0)
#define T uint8_t
#define SUFFIX b8
#include "cpu/kernels/cast.inc"
#undef VALUE

#define VALUE(x) (x)
#define T uint8_t
#define SUFFIX u8
#include "cpu/kernels/cast.inc"

#define T uint16_t
#define SUFFIX u16
#include "cpu/kernels/cast.inc"

#define T uint32_t
#define SUFFIX u32
#include "cpu/kernels/cast.inc"

#define T uint64_t
#define SUFFIX u64
#include "cpu/kernels/cast.inc"

#define T int8_t
#define SUFFIX i8
#include "cpu/kernels/cast.inc"

#define T int16_t
#define SUFFIX i16
#include "cpu/kernels/cast.inc"

#define T int32_t
#define SUFFIX i32
#include "cpu/kernels/cast.inc"

#define T int64_t
#define SUFFIX i64
#include "cpu/kernels/cast.inc"
