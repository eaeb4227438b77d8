#include "cuda/kernels/attention.cu"
