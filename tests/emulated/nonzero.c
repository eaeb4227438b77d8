#include "cuda/kernels/nonzero.cu"
