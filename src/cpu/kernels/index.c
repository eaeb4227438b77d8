/* index.c: the index kernels of this level. */
#include "cpu/kernels/index.h"
#include "cpu/kernels/level.h"

enum { BLOCK = 1024 /* indices at a time, which stay in L1 */ };

TEMPLATE int64_t from_start(int64_t v, int64_t size) { return v + (v < 0 ? size : 0); }

#define T uint8_t
#define K(name) name##_u8
#define SIGNED 0
#include "cpu/kernels/index.inc"

#define T uint16_t
#define K(name) name##_u16
#define SIGNED 0
#include "cpu/kernels/index.inc"

#define T uint32_t
#define K(name) name##_u32
#define SIGNED 0
#define TAKES uint32_t
#include "cpu/kernels/index.inc"

#define T uint64_t
#define K(name) name##_u64
#define SIGNED 0
#include "cpu/kernels/index.inc"

#define T int8_t
#define K(name) name##_i8
#define SIGNED 1
#include "cpu/kernels/index.inc"

#define T int16_t
#define K(name) name##_i16
#define SIGNED 1
#include "cpu/kernels/index.inc"

#define T int32_t
#define K(name) name##_i32
#define SIGNED 1
#define TAKES uint32_t
#include "cpu/kernels/index.inc"

#define T int64_t
#define K(name) name##_i64
#define SIGNED 1
#define TAKES uint64_t
#include "cpu/kernels/index.inc"

/* ---- elements by their offsets */

#define PICK(E)                                                                               \
    static void pick_##E(void *y, int64_t sy, const void *x, const int64_t *far, int64_t n)   \
    {                                                                                         \
        IVDEP                                                                                 \
        for (int64_t i = 0; i < n; i++)                                                       \
            ((E *)y)[i * sy] = ((const E *)x)[far[i]];                                        \
    }
PICK(uint8_t)
PICK(uint16_t)
PICK(uint32_t)
PICK(uint64_t)

#define BY_TYPE(f)                                                                            \
    {                                                                                         \
        [DT_uint8] = f##_u8, [DT_uint16] = f##_u16, [DT_uint32] = f##_u32,                    \
        [DT_uint64] = f##_u64, [DT_int8] = f##_i8, [DT_int16] = f##_i16,                      \
        [DT_int32] = f##_i32, [DT_int64] = f##_i64                                            \
    }
#define BY_WIDTH(f) { f##_uint8_t, f##_uint16_t, f##_uint32_t, f##_uint64_t }

extern const struct index_kernels LEVEL(index_kernels);
const struct index_kernels LEVEL(index_kernels) = {
    .offsets = BY_TYPE(offsets),
    .check = BY_TYPE(check),
    .pick = BY_WIDTH(pick),
    .take = {
        [DT_int32] = BY_WIDTH(take_i32),
        [DT_int64] = BY_WIDTH(take_i64),
        [DT_uint32] = BY_WIDTH(take_u32),
    },
};
