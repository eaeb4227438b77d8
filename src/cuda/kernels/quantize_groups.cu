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

/* x in the order in which products take it: of each tile of a.height rows one step after the other, as two panels; in
 * each row of these the first two elements of the four chunks of x's step are together, then the second two, ...  Rows
 * and chunks that are not there are zeros.  A thread has one of the four eights of each chunk of a row. */
KERNEL(K(cu_qmm_arrange), struct qmm_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, steps = (a.k + QMM_STEP - 1) / QMM_STEP;
    int eight = (int)(i % 4), row;
    int64_t step = i / 4 % steps, lines = i / 4 / steps, tile = lines / a.height, place = tile / a.tall;
    const struct words4 zeros = { { 0 } };
    struct words4 v[4];
    if (place >= a.batch)
        return;
    row = (int)(lines % a.height);
    int64_t of_matrix = tile % a.tall * a.height + row, k = step * QMM_STEP + eight * 8;
    const S *from = matrices_of(&a, place).x + of_matrix * a.k + k;
    UNROLLED
    for (int c = 0; c < 4; c++)
        v[c] = of_matrix < a.m && k + c * QMM_CHUNK < a.k ? *(const struct words4 *)(from + c * QMM_CHUNK) : zeros;
    unsigned char *to = a.arranged + ((tile * steps + step) * 2 + eight / 2) * a.height * PANEL_ROW;
    UNROLLED
    for (int w = 0; w < 4; w++) {
        struct words4 pairs = { { v[0].w[w], v[1].w[w], v[2].w[w], v[3].w[w] } };
        *(struct words4 *)(to + in_panel(row, eight % 2 * 4 + w)) = pairs;
    }
}

/* Rows of codes that a thread fetches a part of: as many as let it have a whole number of 16 bytes of each. */
FN int rows_at_once(const int bits) { return bits & -bits; }

#define TALL 64
#define N(name) name##_groups_64
#include "cuda/kernels/quantize_groups.inc"
#define TALL 128
#define N(name) name##_groups_128
#include "cuda/kernels/quantize_groups.inc"
#define TALL 256
#define N(name) name##_groups_256
#include "cuda/kernels/quantize_groups.inc"
