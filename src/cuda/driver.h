/* driver.h: NVIDIA's driver, libcuda.so.1, opened when a GPU is first asked for.  Nothing of CUDA is needed
 * to build or to run: without the driver there are no devices. */
#ifndef MX_CUDA_DRIVER_H
#define MX_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cuda_driver {
#define CU(name, symbol, args) int(*name) args;
#include "cuda/driver.def"
};
extern struct cuda_driver cu;

/* Opens the driver, once; how many devices it has, 0 where there is none. */
int cuda_devices(void);
/* "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered" */
const char *cuda_error_text(int error);
/* mx_fail as [op] for an error of the driver; returns non-zero. */
int cuda_fail(const char *op, int error);

/* Numbers of the driver's interface. */
enum {
    CUDA_SUCCESS = 0,
    CUDA_NOT_READY = 600,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_OTHER_ERROR = 999,
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_EVENT_BLOCKING = 1,
    CUDA_EVENT_NO_TIMING = 2,
    CUDA_FUNCTION_SHARED_BYTES = 8,
    CUDA_POINTER_DEVICE = 9,
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
};

#endif
