#include "cuda/kernels/conv.cu"
