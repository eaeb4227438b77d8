/* factor.h: factors of small real matrices, as many at a time as a register has lanes, each in a lane of its own; and
 * passes over a large one. */
#ifndef MX_CPU_KERNELS_FACTOR_H
#define MX_CPU_KERNELS_FACTOR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FACTOR_MOST = 16,  /* rows and columns, of right sides too */
    FACTOR_LANES = 16, /* as many as a register has of any type at most */

    BAND_PANEL = 16,         /* reflections after which a large matrix is brought up to date */
    BAND_COLUMNS = 16,       /* of it in a pass at a time; a multiple of FACTOR_LANES */
    BAND_Q = BAND_PANEL + 1, /* where the sums of a pass are: first P's, then Q's with the new column, and of squares */
    BAND_SQUARE = 2 * BAND_Q,
    BAND_SUMS = 48, /* with what fills up registers */
};
/* clang-format off */

/* One step of a reduction, in rows of columns that begin at row 0, at a multiple of a register:
 *
 *   z = tau (inverse * the sum of the parts + first + P f1 + Q f2),  the next column of Q,
 *   x = first + P g1 + Q g2 - z,
 *
 * and what is below row `top` of x.  Before, a column may be scaled. */
#define BAND_STEP(T)                                                                             \
    {                                                                                            \
        const T *first, *part;                                                                   \
        int64_t next_part;                                                                       \
        int parts;                                                                               \
        int np, nq; /* columns of P and Q */                                                     \
        T *p, *q;                                                                                \
        int64_t ldp, ldq;                                                                        \
        const T *of_old, *of_new; /* f1 and f2, g1 and g2 of BAND_Q numbers each behind them */  \
        T inverse, tau;                                                                          \
        T *to_scale, scale; /* a column, or NULL */                                              \
        T *x, *below;       /* below has zeros in other rows */                                  \
        int top;                                                                                 \
    }
struct band_step_f32 BAND_STEP(float);
struct band_step_f64 BAND_STEP(double);
/* clang-format on */

/* `count` matrices of n rows lie behind each other, no more than a register has lanes; part is a matrix_part, and what
 * is not it becomes zeros.  What comes back has a bit for each matrix that is singular, or not positive definite: its
 * results are anything. */
/* clang-format off */
#define FACTOR_KERNELS(T, STEP)                                                                      \
    {                                                                                                \
        uint32_t (*inverse)(T *y, const T *a, int n, int count, unsigned part);                      \
        /* b and y have k columns */                                                                 \
        uint32_t (*solve)(T *y, const T *a, const T *b, int n, int k, int count, unsigned part);     \
        uint32_t (*cholesky)(T *y, const T *a, int n, int count, unsigned part);                     \
        /* pivots[r] is the number, from 1 on, of the row that row r was exchanged with */           \
        uint32_t (*lu)(T *y, int *pivots, const T *a, int n, int count);                             \
        /* of BAND_COLUMNS columns of a, in whole registers of rows: y[i] = column i times x */      \
        void (*dots)(T *y, const T *a, int64_t lda, const T *x, int64_t rows);                       \
        /* of those: y = or += the sum of column i times x[i] */                                     \
        void (*combine)(T *y, const T *a, int64_t lda, const T *x, int64_t rows, bool add);          \
        /* rows begin to end; BAND_SUMS registers of sums over what is below `top`, or added to them */\
        void (*step)(const STEP *s, int begin, int end, T *lanes, bool add);                         \
        /* y = BAND_SUMS sums over the lanes, and over several of those */                           \
        void (*fold)(T *y, const T *lanes, int parts);                                               \
    }
/* clang-format on */
struct factor_kernels {
    int bytes; /* of a register */
    struct factor_f32 FACTOR_KERNELS(float, struct band_step_f32) f32;
    struct factor_f64 FACTOR_KERNELS(double, struct band_step_f64) f64;
};

#endif
