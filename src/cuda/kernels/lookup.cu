/* lookup.cu: elements read and written where arrays of indices say, by their size: cu_gather_4.  The build compiles it
 * as it does move.cu.  Neighbouring threads move what lies side by side in a slice. */
#include "cuda/kernels/gpu.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/lookup_at.h"

typedef struct words4 words;
#define K(name) PASTE(name, SIZE)

KERNEL(K(cu_gather), struct lookup_call)
{
    UNIT *y = (UNIT *)a.near, v[LOOKUP_EACH];
    const UNIT *x = (const UNIT *)a.far, zero = { 0 };
    int64_t to[LOOKUP_EACH], group = blockIdx.x;
    int64_t piece = a.pieces > 1 ? place_along(&group, (uint32_t)a.pieces, gridDim.x) : 0;
    int64_t i = group * a.block_lookups + threadIdx.x / (unsigned)a.team;
    int64_t element = piece * a.block_elements + (threadIdx.x & (unsigned)(a.team - 1));
    struct lookup_at at;
    for (int k = 0; k < LOOKUP_EACH; k++) {
        to[k] = -1;
        if (i < a.count && element < a.slice) {
            if (k == 0 || a.next_lookup)
                at = lookup_at(&a, i);
            struct lookup_at here = lookup_in_slice(&a, element);
            v[k] = zero;
            if (!(at.outside && a.nothing))
                v[k] = x[at.far + here.far];
            to[k] = at.near + here.near;
        }
        i += a.next_lookup;
        element += a.next_element;
    }
    for (int k = 0; k < LOOKUP_EACH; k++)
        if (to[k] >= 0)
            y[to[k]] = v[k];
}
