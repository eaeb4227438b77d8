#include "cuda/kernels/product_groups.cu"
