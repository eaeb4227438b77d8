#include "cuda/kernels/panels.cu"
