#include "cuda/kernels/attention_vjp.cu"
