#include "cuda/kernels/product_split_groups.cu"
