/* cudnn_conv.h: convolutions by cuDNN. */
#ifndef MX_CUDA_CUDNN_CONV_H
#define MX_CUDA_CUDNN_CONV_H

#include "cuda/gpu.h"

/* Queues what conv, or conv_weight, makes, in the memory that the result has: y of x and w, or w of x and y.  Of the
 * operands w may lie in any way, the others are row-major.  False: cuDNN is not there, or not for such types, sizes or
 * geometry, or failed; what may be queued then is overwritten by who does it instead. */
bool gpu_cudnn_conv(const struct run *r, mx x, mx w, mx y, bool of_weights);

#endif
