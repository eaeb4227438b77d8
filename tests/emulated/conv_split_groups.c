#include "cuda/kernels/conv_split_groups.cu"
