#include "cuda/kernels/order.cu"
