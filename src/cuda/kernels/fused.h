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

/* What steps do, numbered without gaps so that a kernel finds each quickly: rows of ops.def on values of a class come
 * behind the others. */
enum fused_op {
    FUSED_READ, /* an operand, of which only this reads */
    FUSED_COPY,
    FUSED_SELECT,
    FUSED_I_OF_F,
    FUSED_U_OF_F,
    FUSED_B_OF_F,
    FUSED_B_OF_I,
    FUSED_F_OF_I,
    FUSED_F_OF_U,
    FUSED_F_OF_B,
    FUSED_ODD_OF_I, /* to be rounded to a half type as if it were not between (shared/scalar_cast.h) */
    FUSED_ODD_OF_U,
#define KIND f
#define UNARY(name, label, set, ...) ROW(set, FUSED_##name##_F, )
#define BINARY(name, label, set, ...) ROW(set, FUSED_##name##_F, )
#include "ops/ops.def"
#undef KIND
#define KIND i
#define UNARY(name, label, set, ...) ROW(set, FUSED_##name##_I, FUSED_##name##_U, )
#define BINARY(name, label, set, ...) ROW(set, FUSED_##name##_I, FUSED_##name##_U, )
#include "ops/ops.def"
#undef KIND
#define KIND b
#define UNARY(name, label, set, ...) ROW(set, FUSED_##name##_B, )
#define BINARY(name, label, set, ...) ROW(set, FUSED_##name##_B, )
#include "ops/ops.def"
#undef KIND
};

enum {
    FUSED_THREADS = 256,
    FUSED_LANES = 4, /* neighbours of a thread */
    FUSED_EACH = 8,  /* all elements of a thread, in stretches of lanes */
    FUSED_DIMS = 8,
    FUSED_MEMBERS = 32,
    FUSED_OPERANDS = 24,
    FUSED_STEPS = FUSED_MEMBERS + FUSED_OPERANDS,
    FUSED_OUTPUTS = 16,
    FUSED_SLOTS = 24,
    /* What a step reads: a slot, what the last one made that was no FUSED_READ, or nothing. */
    FUSED_LAST = 254,
    FUSED_NOTHING = 255,
};

/* FUSED_ROW: contiguous and aligned to 16 bytes. */
enum fused_lies { FUSED_ONE, FUSED_ROW, FUSED_STRIDED };

struct fused_operand {
    const void *x;
    int32_t type, lies; /* enum dtype, enum fused_lies */
    int64_t stride[FUSED_DIMS];
};

/* Makes a value of three, kept as an element of type `as`, in a slot or in an output or for the next step alone; or
 * puts operand x[0] into a slot. */
struct fused_step {
    uint16_t op;
    uint8_t x[3], to, out, as;
};

struct fused_args {
    int64_t n;
    int32_t steps, ndim;
    int32_t whole; /* lanes lie in one row of the innermost dimension */
    uint32_t shape[FUSED_DIMS];
    void *y[FUSED_OUTPUTS];
    struct fused_step step[FUSED_STEPS];
    struct fused_operand x[FUSED_OPERANDS];
};

#endif
