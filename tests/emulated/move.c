#include "cuda/kernels/move.cu"
