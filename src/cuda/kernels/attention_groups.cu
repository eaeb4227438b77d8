/* attention_groups.cu: attention of half types by products of matrices that four warps make together, which go on while
 * weights are made of scores: cu_attention_groups_128_bf16.  Devices of 9.0 alone; others have the kernels of
 * attention.cu, whose rule for pieces and merging this keeps. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/attention_at.h"
#include "cuda/kernels/attention_results.h"
#include "cuda/kernels/signal.h"
#include "cuda/kernels/warp.h"
#include "cuda/kernels/warpgroup.h"

/* Places of K and of V are full, and have been read; a group may begin products; results have been written. */
struct group_signals {
    signal_t keys[2], keys_read[2], values[2], values_read[2], turn[2], written;
};
FN void new_signals(struct group_signals *g)
{
    for (int i = 0; i < 2; i++) {
        signal_new_of(&g->keys[i], GROUP_THREADS);
        signal_new_of(&g->values[i], GROUP_THREADS);
        signal_new(&g->keys_read[i], 8);
        signal_new(&g->values_read[i], 8);
        signal_new(&g->turn[i], 4);
    }
    signal_new(&g->written, 8);
}

#define TALL 1
#define WIDTH 64
#define KEYS 128
#define N(name) name##_groups_64
#include "cuda/kernels/attention_groups.inc"
#define WIDTH 128
#define KEYS 128
#define N(name) name##_groups_128
#include "cuda/kernels/attention_groups.inc"
#define WIDTH 256
#define KEYS 64
#define N(name) name##_groups_256
#include "cuda/kernels/attention_groups.inc"
