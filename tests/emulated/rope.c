#include "cuda/kernels/rope.cu"
