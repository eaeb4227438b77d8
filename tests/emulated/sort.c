#include "cuda/kernels/sort.cu"
