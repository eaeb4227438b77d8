#include "cuda/kernels/search.cu"
