#include "cuda/kernels/attention_groups.cu"
