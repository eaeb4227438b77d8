#include "cuda/kernels/pick.cu"
