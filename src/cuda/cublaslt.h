/* cublaslt.h: what is called of cuBLASLt, as versions 12 and 13 have it. */
#ifndef MX_CUDA_CUBLASLT_H
#define MX_CUDA_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

struct cublaslt_algorithm {
    uint64_t data[8];
};
struct cublaslt_choice {
    struct cublaslt_algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};

struct cublaslt {
#define LT(name, symbol, args) int(*name) args;
#include "cuda/cublaslt.def"
};

/* Numbers of its interface. */
enum {
    CUDA_R_32F = 0,
    CUDA_R_16F = 2,
    CUDA_R_16BF = 14,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    CUBLASLT_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_LAYOUT_BATCH_STEP = 6,
    CUBLASLT_PRODUCT_TURN_A = 3,
    CUBLASLT_PRODUCT_TURN_B = 4,
    CUBLASLT_PRODUCT_EPILOGUE = 7,
    CUBLASLT_PRODUCT_BIAS = 8,
    CUBLASLT_EPILOGUE_NONE = 1,
    CUBLASLT_EPILOGUE_RELU = 2, /* the larger of the result and 0; NaN stays */
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS,
    CUBLASLT_PREFER_WORKSPACE = 1,
    CUBLASLT_PREFER_REDUCTIONS = 3,
    CUBLASLT_PREFER_ALIGNMENT = 5, /* of a; those of b, c and d follow */
    CUBLASLT_REDUCE_IN_COMPUTE_TYPE = 2,
};

/* Status: its name and number. */
#define CUBLAS_STATUSES(X)  \
    X(SUCCESS, 0)           \
    X(NOT_INITIALIZED, 1)   \
    X(ALLOC_FAILED, 3)      \
    X(INVALID_VALUE, 7)     \
    X(ARCH_MISMATCH, 8)     \
    X(MAPPING_ERROR, 11)    \
    X(EXECUTION_FAILED, 13) \
    X(INTERNAL_ERROR, 14)   \
    X(NOT_SUPPORTED, 15)    \
    X(LICENSE_ERROR, 16)
#define X(name, number) CUBLAS_STATUS_##name = number,
enum { CUBLAS_STATUSES(X) };
#undef X

#endif
