#include "cuda/kernels/cast.cu"
