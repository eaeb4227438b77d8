#include "cuda/kernels/hadamard.cu"
