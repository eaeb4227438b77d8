/* table.c: the one thing a level exports.
 *
 * Kernels are compiled in several files, so that none takes long; here they meet by name. */
#include "cpu/kernels/level.h"

#define DECLARE(name, set, type, suffix, kind) ROW_##set##_##kind(ROW_FN LEVEL(run_##name##_##suffix);)
#define ROW_FN unary_fn
#define UNARY(name, label, set, ...) EACH_TYPE(DECLARE, name, set)
#include "ops/ops.def"
#undef ROW_FN
#define ROW_FN binary_fn
#define BINARY(name, label, set, ...) EACH_TYPE(DECLARE, name, set)
#include "ops/ops.def"

/* X(to, suffix of from) for each type to cast to. */
/* clang-format off */
#define EACH_CAST(X, from)                                                           \
    X(bool_, b8, from) X(uint8, u8, from) X(uint16, u16, from) X(uint32, u32, from)  \
    X(uint64, u64, from) X(int8, i8, from) X(int16, i16, from) X(int32, i32, from)   \
    X(int64, i64, from) X(float16, f16, from) X(float32, f32, from)                  \
    X(float64, f64, from) X(bfloat16, bf16, from) X(complex64, c64, from)
/* clang-format on */

#define DECLARE_CAST(type, to, from) cast_fn LEVEL(to##_from_##from);
#define X(name, suffix, type, size, kind) EACH_CAST(DECLARE_CAST, suffix)
MX_DTYPES(X)
#undef X

move_fn LEVEL(move_1), LEVEL(move_2), LEVEL(move_4), LEVEL(move_8);
transpose_fn LEVEL(transpose_1), LEVEL(transpose_2), LEVEL(transpose_4), LEVEL(transpose_8);
select_fn LEVEL(select_1), LEVEL(select_2), LEVEL(select_4), LEVEL(select_8);

#define X(name) extern const struct name##_kernels LEVEL(name##_kernels);
CPU_TABLES(X)
#undef X

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define ENTRY(name, set, type, suffix, kind) ROW_##set##_##kind([DT_##type] = LEVEL(run_##name##_##suffix), )
#define CAST_ENTRY(type, to, from) [DT_##type] = LEVEL(to##_from_##from),

extern const struct cpu_kernels LEVEL(cpu_kernels);
const struct cpu_kernels LEVEL(cpu_kernels) = {
    .isa = TEXT(ISA),
    .unary = {
#define UNARY(name, label, set, ...) [UNARY_##name] = { EACH_TYPE(ENTRY, name, set) },
#include "ops/ops.def"
    },
    .binary = {
#define BINARY(name, label, set, ...) [BINARY_##name] = { EACH_TYPE(ENTRY, name, set) },
#include "ops/ops.def"
    },
    .cast = {
#define X(name, suffix, type, size, kind) [DT_##name] = { EACH_CAST(CAST_ENTRY, suffix) },
        MX_DTYPES(X)
#undef X
    },
    .move = { LEVEL(move_1), LEVEL(move_2), LEVEL(move_4), LEVEL(move_8) },
    .transpose = { LEVEL(transpose_1), LEVEL(transpose_2), LEVEL(transpose_4), LEVEL(transpose_8) },
    .select = { LEVEL(select_1), LEVEL(select_2), LEVEL(select_4), LEVEL(select_8) },
#define X(name) .name = &LEVEL(name##_kernels),
    CPU_TABLES(X)
#undef X
};
