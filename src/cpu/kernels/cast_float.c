/* cast_float.c: from float32, float64 and complex64 to other types.
 *
 * shared/scalar_cast.h says what integers become of numbers they cannot hold.  Complex numbers lose
 * their imaginary part, except that bool asks whether either part is non-zero. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#define VALUE(x) (x)
#define COMPLEX(x) ((complex64){ (float)(x), 0 })
#define BOOL(x) ((x) != 0)

#define INT32(x) i32_from_f32(x)
#define UINT32(x) u32_from_f32(x)
#define INT64(x) i64_from_f32(x)
#define UINT64(x) u64_from_f32(x)
#define T float
#define SUFFIX f32
#include "cpu/kernels/cast.inc"

#undef INT32
#undef UINT32
#undef INT64
#undef UINT64
#define INT32(x) i32_from_f64(x)
#define UINT32(x) u32_from_f64(x)
#define INT64(x) i64_from_f64(x)
#define UINT64(x) u64_from_f64(x)
#define T double
#define SUFFIX f64
#include "cpu/kernels/cast.inc"

#undef VALUE
#undef COMPLEX
#undef BOOL
#undef INT32
#undef UINT32
#undef INT64
#undef UINT64
#define VALUE(x) ((x).re)
#define COMPLEX(x) (x)
#define BOOL(x) (((x).re != 0) | ((x).im != 0))
#define INT32(x) i32_from_f32((x).re)
#define UINT32(x) u32_from_f32((x).re)
#define INT64(x) i64_from_f32((x).re)
#define UINT64(x) u64_from_f32((x).re)
#define T complex64
#define SUFFIX c64
#include "cpu/kernels/cast.inc"
