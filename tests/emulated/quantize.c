#include "cuda/kernels/quantize.cu"
