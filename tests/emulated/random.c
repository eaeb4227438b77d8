#include "cuda/kernels/random.cu"
