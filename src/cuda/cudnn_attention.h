/* cudnn_attention.h: attention of half types by cuDNN, and its derivative. */
#ifndef MX_CUDA_CUDNN_ATTENTION_H
#define MX_CUDA_CUDNN_ATTENTION_H

#include "cuda/gpu.h"

struct attention_plan;
struct attention_call;
struct attention_vjp_call;

/* Queues what a call makes, whose operands and results are there; the second needs no delta.  False: cuDNN is not
 * there, or not for such operands, or failed; what may be queued then is overwritten by who does it instead.  Where
 * `wild` is not NULL afterwards, who called releases it when our kernels have been queued too, which are to do it again
 * if its first word is not 0: there is something not finite that is left out for some queries. */
bool gpu_cudnn_attention(const struct run *r, const struct attention_plan *p, const struct attention_call *c,
                         struct buffer **wild);
bool gpu_cudnn_attention_vjp(const struct run *r, const struct attention_plan *p, const struct attention_vjp_call *a,
                             struct buffer **wild);

#endif
