#include "cuda/kernels/product.cu"
