#include "cuda/kernels/orthogonal.cu"
