#include "cuda/kernels/linalg.cu"
