/* attention_groups_vjp.cu: the derivative of attention of half types by products of matrices that four warps make
 * together: cu_attention_groups_to_keys_128_bf16.  Devices of 9.0 alone; others have the kernels of attention_vjp.cu,
 * whose formulas and rounding these keep.
 *
 * Two groups of four warps have 64 rows each of a block's 128, and all of their sums; a third fetches what the rows
 * are multiplied with, step by step, into two places.  While one group makes slopes the unit is the other's. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/attention_at.h"
#include "cuda/kernels/attention_slopes.h"
#include "cuda/kernels/signal.h"
#include "cuda/kernels/warp.h"
#include "cuda/kernels/warpgroup.h"

/* A place is full, and has been read; both groups have multiplied a step, and have left out of it what is not finite;
 * results have been written. */
struct group_signals {
    signal_t step[2], step_read[2], multiplied, finite, written;
};
FN void new_signals(struct group_signals *g)
{
    for (int i = 0; i < 2; i++) {
        signal_new(&g->step[i], 4);
        signal_new(&g->step_read[i], 8);
    }
    signal_new(&g->multiplied, 8);
    signal_new(&g->finite, 8);
    signal_new(&g->written, 8);
}
/* Until all threads of both groups have come here. */
FN void meet(signal_t *s, uint32_t parity)
{
    signal_arrive(s);
    signal_wait(s, parity);
}

/* The weight that a product with a key is, where all is seen: top and sum are one offset in the exponent. */
FN float plain_weight(float product, float scale, float off)
{
    return near_exp2(m_fma_f32(product, scale * LOG2_E, -off));
}
FN float offset_of(float top, float sum) { return top * LOG2_E + m_log2_f32(sum); }

#define ROWS ATTENTION_GROUP_ROWS
#define WIDTH 64
#define STEP 128
#define N(name) name##_to_queries_64
#include "cuda/kernels/attention_groups_queries.inc"
#define WIDTH 128
#define STEP 128
#define N(name) name##_to_queries_128
#include "cuda/kernels/attention_groups_queries.inc"
#define WIDTH 64
#define STEP 128
#define N(name) name##_to_keys_64
#include "cuda/kernels/attention_groups_keys.inc"
#define WIDTH 128
#define STEP 64
#define N(name) name##_to_keys_128
#include "cuda/kernels/attention_groups_keys.inc"
