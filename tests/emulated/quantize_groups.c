#include "cuda/kernels/quantize_groups.cu"
