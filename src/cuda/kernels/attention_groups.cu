/* attention_groups.cu: attention of half types by products of matrices that four warps make together, which go on while
 * weights are made of scores: cu_attention_groups_128_bf16.  Devices of 9.0 alone; others have the kernels of
 * attention.cu, whose rule for pieces and merging this keeps. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/attention_at.h"
#include "cuda/kernels/attention_results.h"
#include "cuda/kernels/warp.h"
#include "cuda/kernels/warpgroup.h"

#define TALL 1
#define KEYS ATTENTION_GROUP_KEYS
#define WIDTH 64
#define N(name) name##_groups_64
#include "cuda/kernels/attention_groups.inc"
#define WIDTH 128
#define N(name) name##_groups_128
#include "cuda/kernels/attention_groups.inc"
