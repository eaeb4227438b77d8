/* quantize_groups.cu: products of half types with packed weights by products of matrices that four warps make together:
 * cu_qmm_groups_64_u4_bf16.  Devices of 9.0 alone; others have the kernels of quantize.cu, whose rules for pieces and
 * merging this keeps. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/quantize_at.h"
#include "cuda/kernels/signal.h"
#include "cuda/kernels/warpgroup.h"

/* Places of a step are full, and have been read. */
struct step_signals {
    signal_t full[QMM_MOST_STAGES], read[QMM_MOST_STAGES];
};

/* Rows of codes that a thread fetches a part of: as many as let it have a whole number of 16 bytes of each. */
FN int rows_at_once(const int bits) { return bits & -bits; }

#define TALL 64
#define N(name) name##_groups_64
#include "cuda/kernels/quantize_groups.inc"
#define TALL 128
#define N(name) name##_groups_128
#include "cuda/kernels/quantize_groups.inc"
