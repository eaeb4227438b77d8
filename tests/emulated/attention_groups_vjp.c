#include "cuda/kernels/attention_groups_vjp.cu"
