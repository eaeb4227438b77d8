/* factor.h: factors of small real matrices, as many at a time as a register has lanes, each in a lane of its own. */
#ifndef MX_CPU_KERNELS_FACTOR_H
#define MX_CPU_KERNELS_FACTOR_H

#include <stdint.h>

enum {
    FACTOR_MOST = 16,  /* rows and columns, of right sides too */
    FACTOR_LANES = 16, /* as many as a register has of any type at most */
};

/* `count` matrices of n rows lie behind each other, no more than a register has lanes; part is a matrix_part, and what
 * is not it becomes zeros.  What comes back has a bit for each matrix that is singular, or not positive definite: its
 * results are anything. */
/* clang-format off */
#define FACTOR_KERNELS(T)                                                                        \
    {                                                                                            \
        uint32_t (*inverse)(T *y, const T *a, int n, int count, unsigned part);                  \
        /* b and y have k columns */                                                             \
        uint32_t (*solve)(T *y, const T *a, const T *b, int n, int k, int count, unsigned part); \
        uint32_t (*cholesky)(T *y, const T *a, int n, int count, unsigned part);                 \
        /* pivots[r] is the number, from 1 on, of the row that row r was exchanged with */       \
        uint32_t (*lu)(T *y, int *pivots, const T *a, int n, int count);                         \
    }
/* clang-format on */
struct factor_kernels {
    int bytes; /* of a register */
    struct factor_f32 FACTOR_KERNELS(float) f32;
    struct factor_f64 FACTOR_KERNELS(double) f64;
};

#endif
