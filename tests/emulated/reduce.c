#include "cuda/kernels/reduce.cu"
