/* conv_split_groups.cu: large convolutions of float32 by products of matrices that four warps make together:
 * cu_conv_split_groups_64_f32, cu_conv_split_groups_128_f32.  Devices of 9.0 alone; others have those of conv.cu. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/conv.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/product.h"
#include "cuda/kernels/signal.h"
#include "cuda/kernels/warpgroup.h"

#include "cuda/kernels/conv_at.h"

#define COLUMNS 64
#define N(name) name##_64
#include "cuda/kernels/conv_split_groups.inc"
#define COLUMNS 128
#define N(name) name##_128
#include "cuda/kernels/conv_split_groups.inc"
