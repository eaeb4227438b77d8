/* cusolver.h: what is called of cuSOLVER, as versions 11 and 12 have it. */
#ifndef MX_CUDA_CUSOLVER_H
#define MX_CUDA_CUSOLVER_H

#include <stddef.h>
#include <stdint.h>

struct cusolver {
#define SOLVER(name, symbol, args) int(*name) args;
#define SOLVER_LATER(name, symbol, args) int(*name) args;
#define SOLVER_TYPES(name, of_float32, of_float64, of_complex64, args) int(*name[3]) args;
#include "cuda/cusolver.def"
};

/* Numbers of its interface. */
enum {
    CUSOLVER_R_32F = 0, /* types */
    CUSOLVER_R_64F = 1,
    CUSOLVER_C_32F = 4,
    CUSOLVER_C_64F = 5,
    CUSOLVER_LOWER = 0, /* triangles */
    CUSOLVER_UPPER = 1,
    CUSOLVER_AS_IT_IS = 0,   /* operations */
    CUSOLVER_REPEATABLE = 1, /* a mode: the same bits each time */
};

/* Status: its name and number. */
#define CUSOLVER_STATUSES(X)        \
    X(SUCCESS, 0)                   \
    X(NOT_INITIALIZED, 1)           \
    X(ALLOC_FAILED, 2)              \
    X(INVALID_VALUE, 3)             \
    X(ARCH_MISMATCH, 4)             \
    X(MAPPING_ERROR, 5)             \
    X(EXECUTION_FAILED, 6)          \
    X(INTERNAL_ERROR, 7)            \
    X(MATRIX_TYPE_NOT_SUPPORTED, 8) \
    X(NOT_SUPPORTED, 9)
#define X(name, number) CUSOLVER_STATUS_##name = number,
enum { CUSOLVER_STATUSES(X) };
#undef X

#endif
