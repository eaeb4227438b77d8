/* cudnn.h: cuDNN, where it is found and works; what is called of it, as version 9 has it. */
#ifndef MX_CUDA_CUDNN_H
#define MX_CUDA_CUDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is it used on a GPU?  It is tried when that is first asked. */
bool cudnn_works(int gpu);
/* Its handle for a GPU, where it works; plans and handles are this thread's alone until it gives them back. */
void *cudnn_take(int gpu);
void cudnn_give(void);

extern struct cudnn {
#define DNN(returned, name, symbol, args) returned(*name) args;
#include "cuda/cudnn.def"
} dnn;

/* Numbers of its interface. */
enum {
    CUDNN_FLOAT = 0, /* types of elements */
    CUDNN_HALF = 2,
    CUDNN_BFLOAT16 = 9,
    CUDNN_CROSS_CORRELATION = 1,
    CUDNN_HEURISTIC_FALLBACK = 2,
    CUDNN_HEURISTIC_A = 3,
    CUDNN_NOTE_TENSOR_CORE = 0, /* what an engine's numbers are like */
    CUDNN_NOTE_DOWN_CONVERTED = 1,
    CUDNN_NOTE_REDUCED_SUMS = 2,
    CUDNN_NOTE_FFT = 3,
    CUDNN_NOTE_NONDETERMINISTIC = 4,
    CUDNN_NOTE_WINOGRAD = 5, /* and, of tiles of some sizes, 6 to 8 */
    CUDNN_NOTES_OF_TRANSFORMS = 1 << CUDNN_NOTE_FFT | 15 << CUDNN_NOTE_WINOGRAD,
    CUDNN_NOTES = 32, /* more than there are */
};

/* Types of attributes. */
enum {
    CUDNN_IS_HANDLE = 0,
    CUDNN_IS_TYPE = 1,
    CUDNN_IS_INT64 = 3,
    CUDNN_IS_FLOAT = 4,
    CUDNN_IS_POINTER = 6,
    CUDNN_IS_CONV_MODE = 7,
    CUDNN_IS_HEURISTIC = 8,
    CUDNN_IS_NOTE = 11,
    CUDNN_IS_DESCRIPTOR = 15,
};

/* Descriptors. */
enum {
    CUDNN_CONV = 1,
    CUDNN_ENGINE = 2,
    CUDNN_CONFIG = 3,
    CUDNN_HEURISTIC = 4,
    CUDNN_PLAN = 5,
    CUDNN_FORWARD = 10,
    CUDNN_BY_WEIGHTS = 11,
    CUDNN_BY_INPUT = 12,
    CUDNN_GRAPH = 15,
    CUDNN_PACK = 16,
    CUDNN_TENSOR = 17,
};

/* Attributes. */
enum {
    CUDNN_CONV_TYPE = 100,
    CUDNN_CONV_MODE = 101,
    CUDNN_CONV_DILATIONS = 102,
    CUDNN_CONV_STRIDES = 103,
    CUDNN_CONV_BEHIND = 104,
    CUDNN_CONV_BEFORE = 105,
    CUDNN_CONV_AXES = 106,
    CUDNN_HEURISTIC_MODE = 200,
    CUDNN_HEURISTIC_GRAPH = 201,
    CUDNN_HEURISTIC_RESULTS = 202,
    CUDNN_CONFIG_ENGINE = 300,
    CUDNN_PLAN_HANDLE = 400,
    CUDNN_PLAN_CONFIG = 401,
    CUDNN_PLAN_WORKSPACE = 402,
    CUDNN_OF_FORWARD = 700, /* what follows, of each operation */
    CUDNN_OF_BY_INPUT = 706,
    CUDNN_OF_BY_WEIGHTS = 712,
    CUDNN_ALPHA = 0, /* behind the first one of the operation */
    CUDNN_BETA = 1,
    CUDNN_GEOMETRY = 2,
    CUDNN_W = 3,
    CUDNN_X = 4,
    CUDNN_Y = 5,
    CUDNN_GRAPH_HANDLE = 800,
    CUDNN_GRAPH_OPERATIONS = 801,
    CUDNN_TENSOR_ALIGNMENT = 900,
    CUDNN_TENSOR_TYPE = 901,
    CUDNN_TENSOR_SIZES = 902,
    CUDNN_TENSOR_STRIDES = 903,
    CUDNN_TENSOR_ID = 906,
    CUDNN_PACK_IDS = 1000,
    CUDNN_PACK_POINTERS = 1001,
    CUDNN_PACK_WORKSPACE = 1003,
    CUDNN_ENGINE_NUMBER = 1301,
    CUDNN_ENGINE_NOTES = 1303,
};

#endif
