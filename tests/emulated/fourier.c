#include "cuda/kernels/fourier.cu"
