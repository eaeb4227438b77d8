#include "cuda/kernels/scatter.cu"
