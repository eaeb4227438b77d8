#include "cuda/kernels/lookup.cu"
