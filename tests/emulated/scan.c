#include "cuda/kernels/scan.cu"
