/* cudnn.h: cuDNN, where it is found and works; what is called of it, as version 9 has it. */
#ifndef MX_CUDA_CUDNN_H
#define MX_CUDA_CUDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"

/* Is it used on a GPU?  It is tried when that is first asked. */
bool cudnn_works(int gpu);
/* Its handle for a GPU, where it works; plans and handles are this thread's alone until it gives them back. */
void *cudnn_take(int gpu);
void cudnn_give(void);
/* A type in its numbers, -1: none that is left to it.  Of float64 version 9.19 gave other numbers where the padding
 * before and behind an axis differ. */
int cudnn_type_of(enum dtype t);
const char *cudnn_type_name(int type);

extern struct cudnn {
#define DNN(returned, name, symbol, args) returned(*name) args;
#include "cuda/cudnn.def"
} dnn;

/* Numbers of its interface. */
enum {
    CUDNN_FLOAT = 0, /* types of elements */
    CUDNN_HALF = 2,
    CUDNN_INT32 = 4,
    CUDNN_BFLOAT16 = 9,
    CUDNN_BOOLEAN = 11,
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

/* What is done with elements, and how several become one. */
enum {
    CUDNN_ADD = 0,
    CUDNN_MULTIPLY = 1,
    CUDNN_DIVIDE = 6,
    CUDNN_SUBTRACT = 9,
    CUDNN_EXP = 13,
    CUDNN_LOG = 15,
    CUDNN_IDENTITY = 21,
    CUDNN_NOT_BELOW = 303,
    CUDNN_PLACE = 501, /* along an axis */
    CUDNN_SELECT = 601,
    CUDNN_SUM = 0,
    CUDNN_LARGEST = 3,
};

/* Types of attributes. */
enum {
    CUDNN_IS_HANDLE = 0,
    CUDNN_IS_TYPE = 1,
    CUDNN_IS_BOOL = 2,
    CUDNN_IS_INT64 = 3,
    CUDNN_IS_FLOAT = 4,
    CUDNN_IS_POINTER = 6,
    CUDNN_IS_CONV_MODE = 7,
    CUDNN_IS_HEURISTIC = 8,
    CUDNN_IS_NOTE = 11,
    CUDNN_IS_ELEMENTWISE = 14,
    CUDNN_IS_DESCRIPTOR = 15,
    CUDNN_IS_REDUCTION = 18,
};

/* Descriptors. */
enum {
    CUDNN_ELEMENTWISE = 0,
    CUDNN_CONV = 1,
    CUDNN_ENGINE = 2,
    CUDNN_CONFIG = 3,
    CUDNN_HEURISTIC = 4,
    CUDNN_PLAN = 5,
    CUDNN_FORWARD = 10,
    CUDNN_BY_WEIGHTS = 11,
    CUDNN_BY_INPUT = 12,
    CUDNN_DO_ELEMENTWISE = 13,
    CUDNN_GRAPH = 15,
    CUDNN_PACK = 16,
    CUDNN_TENSOR = 17,
    CUDNN_PRODUCT = 18,
    CUDNN_DO_PRODUCT = 19,
    CUDNN_REDUCTION = 21,
    CUDNN_DO_REDUCTION = 22,
    CUDNN_DO_RESHAPE = 31,
};

/* Attributes. */
enum {
    CUDNN_ELEMENTWISE_MODE = 0,
    CUDNN_ELEMENTWISE_TYPE = 1,
    CUDNN_ELEMENTWISE_AXIS = 9,
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
    CUDNN_ELEMENTWISE_HOW = 750,
    CUDNN_ELEMENTWISE_X = 751,
    CUDNN_ELEMENTWISE_B = 752, /* the second operand */
    CUDNN_ELEMENTWISE_Y = 753,
    CUDNN_ELEMENTWISE_T = 758, /* what selects */
    CUDNN_GRAPH_HANDLE = 800,
    CUDNN_GRAPH_OPERATIONS = 801,
    CUDNN_TENSOR_ALIGNMENT = 900,
    CUDNN_TENSOR_TYPE = 901,
    CUDNN_TENSOR_SIZES = 902,
    CUDNN_TENSOR_STRIDES = 903,
    CUDNN_TENSOR_ID = 906,
    CUDNN_TENSOR_VIRTUAL = 907,
    CUDNN_TENSOR_BY_VALUE = 908,
    CUDNN_PACK_IDS = 1000,
    CUDNN_PACK_POINTERS = 1001,
    CUDNN_PACK_WORKSPACE = 1003,
    CUDNN_ENGINE_NUMBER = 1301,
    CUDNN_ENGINE_NOTES = 1303,
    CUDNN_PRODUCT_TYPE = 1500,
    CUDNN_PRODUCT_A = 1520,
    CUDNN_PRODUCT_B = 1521,
    CUDNN_PRODUCT_Y = 1522,
    CUDNN_PRODUCT_HOW = 1523,
    CUDNN_REDUCTION_MODE = 1600,
    CUDNN_REDUCTION_TYPE = 1601,
    CUDNN_REDUCTION_X = 1610,
    CUDNN_REDUCTION_Y = 1611,
    CUDNN_REDUCTION_HOW = 1612,
    CUDNN_RESHAPE_X = 2200,
    CUDNN_RESHAPE_Y = 2201,
};

#endif
