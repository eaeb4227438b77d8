/* dtype.h: the fourteen element types, in the order of the public enum, and how they mix. */
#ifndef MX_CORE_DTYPE_H
#define MX_CORE_DTYPE_H

#ifndef __CUDACC__
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

/* X(name, suffix, C type, size in bytes, DLPack-style kind): 'b'ool 'u'nsigned 'i'nteger 'f'loat 'c'omplex */
#define MX_DTYPES(X)                    \
    X(bool_, b8, uint8_t, 1, 'b')       \
    X(uint8, u8, uint8_t, 1, 'u')       \
    X(uint16, u16, uint16_t, 2, 'u')    \
    X(uint32, u32, uint32_t, 4, 'u')    \
    X(uint64, u64, uint64_t, 8, 'u')    \
    X(int8, i8, int8_t, 1, 'i')         \
    X(int16, i16, int16_t, 2, 'i')      \
    X(int32, i32, int32_t, 4, 'i')      \
    X(int64, i64, int64_t, 8, 'i')      \
    X(float16, f16, uint16_t, 2, 'f')   \
    X(float32, f32, float, 4, 'f')      \
    X(float64, f64, double, 8, 'f')     \
    X(bfloat16, bf16, uint16_t, 2, 'f') \
    X(complex64, c64, float _Complex, 8, 'c')

#define X(name, suffix, type, size, kind) DT_##name,
enum dtype { MX_DTYPES(X) DT_COUNT };
#undef X

/* The sets of types that an operation computes in; `op_compute_dtype` moves others into them. */
enum dtype_set {
    ANY,     /* every type as it is */
    NUMERIC, /* every type but bool, which becomes int32 */
    REAL,    /* no complex */
    INEXACT, /* floats and complex; integers and bool become float32 */
    FLOAT,   /* floats; integers and bool become float32; no complex */
    INTEGER, /* integers and bool */
    SHIFTED, /* integers; bool becomes uint8 */
    BOOL,    /* everything is converted to bool first */
};

/* The sizes, four bits each, are one constant. */
static inline size_t dtype_size(enum dtype t)
{
#define X(name, suffix, type, size, kind) | (uint64_t)(size) << 4 * DT_##name
    return ((uint64_t)0 MX_DTYPES(X)) >> 4 * t & 15;
#undef X
}
char dtype_kind(enum dtype t);
/* The largest finite number of a floating type. */
double dtype_largest(enum dtype t);
const char *dtype_name(enum dtype t); /* "float32"; bool is "bool" */
enum dtype promote(enum dtype a, enum dtype b);
/* Does a cast lose more than digits: imaginary parts, fractions, or which number it was that is not 0? */
bool dtype_loses(enum dtype from, enum dtype to);
bool dtype_loses_back(enum dtype from, enum dtype to); /* of a derivative by such: integers take none */
/* The type an array of type `array` and a Python-like scalar of kind 'b', 'i', 'f' or 'c' meet in. */
enum dtype promote_weak(enum dtype array, char scalar_kind);

static inline bool dtype_is_float(enum dtype t) { return dtype_kind(t) == 'f'; }
static inline bool dtype_is_complex(enum dtype t) { return t == DT_complex64; }
static inline bool dtype_is_inexact(enum dtype t) { return dtype_is_float(t) || dtype_is_complex(t); }
static inline bool dtype_is_half(enum dtype t) { return t == DT_float16 || t == DT_bfloat16; }
static inline bool dtype_is_integer(enum dtype t) { return dtype_kind(t) == 'u' || dtype_kind(t) == 'i'; }

#endif
