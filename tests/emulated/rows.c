#include "cuda/kernels/rows.cu"
