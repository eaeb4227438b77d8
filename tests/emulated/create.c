#include "cuda/kernels/create.cu"
