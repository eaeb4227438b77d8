#include "cuda/kernels/delta.cu"
