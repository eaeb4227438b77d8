#include "cuda/kernels/fused.cu"
