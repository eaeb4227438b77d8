#include "cuda/kernels/recurrent.cu"
