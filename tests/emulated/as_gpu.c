/* as_gpu.c: the CUDA backend on the emulated driver, as the GPU of a program that knows nothing of it. */
#include "run/backend.h"

__attribute__((constructor)) static void add_gpu(void) { devices_register(&cuda_backend.devices); }
