/* fused.h: element-wise operations run as one: a short program, and what it works on. */
#ifndef MX_CUDA_KERNELS_FUSED_H
#define MX_CUDA_KERNELS_FUSED_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

#include "core/dtype.h"
#include "shared/rows.h"

/* A value is 32 bits: a float (half types too, rounded after each operation), an integer, 0 or 1 or what byte a bool
 * is. */
enum fused_class { CLASS_F, CLASS_I, CLASS_U, CLASS_B, CLASSES };

/* Operations whose second operand may be one value for all elements. */
#define FUSED_WITH_ONE(X) \
    X(add)                \
    X(subtract)           \
    X(multiply)           \
    X(divide)             \
    X(maximum)            \
    X(minimum)            \
    X(equal)              \
    X(not_equal)          \
    X(less)               \
    X(less_equal)         \
    X(greater)            \
    X(greater_equal)

/* Those of two halves at once. */
#define FUSED_ON_PAIRS(X) \
    X(add)                \
    X(subtract)           \
    X(multiply)

/* Those that half types have formulas of their own for (halves.h), of one operand and of two. */
#define FUSED_OF_HALF(X) \
    X(exp)               \
    X(expm1)             \
    X(log)               \
    X(log2)              \
    X(log10)             \
    X(log1p)             \
    X(tanh)              \
    X(erf)               \
    X(sigmoid)           \
    X(sigmoid_slope)     \
    X(silu)              \
    X(silu_slope)        \
    X(sqrt)              \
    X(rsqrt)
#define FUSED_OF_HALVES(X) \
    X(divide)              \
    X(logaddexp)           \
    X(power)

/* Conversions that are more than a copy; ODD: to be rounded to a half type as if it were not between
 * (shared/scalar_cast.h). */
#define FUSED_CASTS(X) \
    X(I_OF_F)          \
    X(U_OF_F)          \
    X(B_OF_F)          \
    X(B_OF_I)          \
    X(F_OF_I)          \
    X(F_OF_U)          \
    X(F_OF_B)          \
    X(ODD_OF_I)        \
    X(ODD_OF_U)

/* What steps do, numbered nearly without gaps so that a kernel finds each quickly: first what has one operand beside
 * single values, then what has more; rows of ops.def by the class of their operands. */
enum fused_op {
#define X(name) FUSED_##name##_ONE,
    FUSED_WITH_ONE(X)
#undef X
#define X(name) FUSED_##name##_BF16, FUSED_##name##_F16, FUSED_##name##_BF16_ONE, FUSED_##name##_F16_ONE,
        FUSED_ON_PAIRS(X)
#undef X
            FUSED_BEFORE_UNARY,
#define KIND f
#define UNARY(name, label, set, ...) ROW(set, FUSED_##name##_F, )
#include "ops/ops.def"
#undef KIND
#define KIND i
#define UNARY(name, label, set, ...) ROW(set, FUSED_##name##_I, FUSED_##name##_U, )
#include "ops/ops.def"
#undef KIND
#define KIND b
#define UNARY(name, label, set, ...) ROW(set, FUSED_##name##_B, )
#include "ops/ops.def"
#undef KIND
#define X(name) FUSED_##name##_H,
    FUSED_OF_HALF(X)
#undef X
        FUSED_COPY,
#define X(name) FUSED_##name,
    FUSED_CASTS(X)
#undef X
        FUSED_READ, /* an operand is on its way to a slot */
    FUSED_BEFORE_BINARY,
#define KIND f
#define BINARY(name, label, set, ...) ROW(set, FUSED_##name##_F, )
#include "ops/ops.def"
#undef KIND
#define KIND i
#define BINARY(name, label, set, ...) ROW(set, FUSED_##name##_I, FUSED_##name##_U, )
#include "ops/ops.def"
#undef KIND
#define KIND b
#define BINARY(name, label, set, ...) ROW(set, FUSED_##name##_B, )
#include "ops/ops.def"
#undef KIND
#define X(name) FUSED_##name##_H,
    FUSED_OF_HALVES(X)
#undef X
        FUSED_SELECT,
    FUSED_OPS,
    /* The first with one operand, and the first with more that are not single values. */
    FUSED_UNARY = FUSED_BEFORE_UNARY + 1,
    FUSED_BINARY = FUSED_BEFORE_BINARY + 1,
};

enum {
    FUSED_THREADS = 128,
    FUSED_LANES = 4, /* neighbours that a thread has at least */
    FUSED_EACH = 16, /* all elements of a thread */
    FUSED_FEW = 4,   /* the same of small groups */
    FUSED_DIMS = 8,
    FUSED_MEMBERS = 32,
    FUSED_OPERANDS = 24,
    FUSED_STEPS = FUSED_MEMBERS + FUSED_OPERANDS + 1, /* one more is looked at, and not done */
    FUSED_OUTPUTS = 16,
    /* Slots are in shared memory, in units of 16 bytes of a thread: two hold a half type, packed, four what else there
     * is, as words.  A slot's name is half the number of its first unit, and how it is kept.  Where threads have few
     * elements units have half as many bytes, of which not all are used. */
    FUSED_UNITS = 48,
    FUSED_SLOT_BYTES = 32, /* of a thread, for two units */
    FUSED_FEW_SLOT_BYTES = 16,
    FUSED_BEFORE = 128, /* bytes before them, of single values */
    FUSED_SLOT = 31,
    FUSED_KEPT_BF16 = 32,
    FUSED_KEPT_F16 = 64,
    /* What else a step reads: one value, the operand added; what the last one made; nothing. */
    FUSED_ONES = 128,
    FUSED_LAST = 254,
    FUSED_NOTHING = 255,
    /* What there is to be done besides, as bits. */
    FUSED_OPERAND = 1,
    FUSED_END = 2,
    FUSED_PAIRS = 4,    /* what is read and made are halves, packed */
    FUSED_AS_PAIRS = 8, /* what is made stays so */
    FUSED_AWAIT = 16,   /* before, beside FUSED_OPERAND: operands on their way, and single values */
};

/* Rows are contiguous, or all that is along the last dimension is, and lanes are aligned to their size; SAME: lanes are
 * one element, which programs that are compiled alone know. */
enum fused_lies { FUSED_ONE, FUSED_ROW, FUSED_ROWS, FUSED_STRIDED, FUSED_SAME };

/* How rows are copied: words, or halves where 4 or 8 of them are neighbours; not at all what has another size. */
enum fused_copies { FUSED_UNCOPIED, FUSED_WORDS, FUSED_FOURS, FUSED_EIGHTS };

struct fused_operand {
    const void *x;
    int32_t type, lies; /* enum dtype, enum fused_lies */
    int64_t stride[FUSED_DIMS];
};

/* Makes a value of three, kept as an element of type `as`, in a slot or in an output or for the next step alone; or
 * puts operand x[1], which is copied as x[2] says, into a slot.  The third is never what the last step made. */
struct fused_step {
    uint8_t op;
    uint8_t needs; /* FUSED_OPERAND: reads more than what the last step made; FUSED_END: more to do than to be
                    * read by the next as a float32 */
    uint8_t x[3], to, out, as;
};

struct fused_args {
    int64_t n;
    int32_t steps, operands;
    int32_t lanes; /* neighbours that a thread has: 8 where only smaller types are read and written, else 4 */
    int32_t ndim;
    int32_t whole; /* lanes lie in one row of the innermost dimension */
    int32_t near;  /* numbers of elements and places are less than 2^31: shapes divide by factors */
    uint32_t shape[FUSED_DIMS], factor[FUSED_DIMS], shift[FUSED_DIMS];
    void *y[FUSED_OUTPUTS];
    struct fused_step step[FUSED_STEPS];
    struct fused_operand x[FUSED_OPERANDS];
};

#endif
