/* lookup.cu: elements read and written where arrays of indices say, by their size: cu_lookup_4.  The build compiles it
 * as it does move.cu.  Neighbouring threads move what lies side by side in a slice. */
#include "cuda/kernels/gpu.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/lookup_at.h"

typedef struct words4 words;
#define K(name) PASTE(name, SIZE)

KERNEL(K(cu_lookup), struct lookup_call)
{
    UNIT *y = (UNIT *)(a.writes ? a.far : a.near), v[LOOKUP_EACH];
    const UNIT *x = (const UNIT *)(a.writes ? a.near : a.far), zero = { 0 };
    bool moves[LOOKUP_EACH];
    int64_t to[LOOKUP_EACH], group = blockIdx.x;
    int64_t piece = a.pieces > 1 ? place_along(&group, (uint32_t)a.pieces, gridDim.x) : 0;
    int64_t i = group * a.block_lookups + threadIdx.x / (unsigned)a.team;
    int64_t element = piece * a.block_elements + (threadIdx.x & (unsigned)(a.team - 1));
    struct lookup_at at;
    for (int k = 0; k < LOOKUP_EACH; k++) {
        moves[k] = i < a.count && element < a.slice;
        if (moves[k]) {
            if (k == 0 || a.next_lookup)
                at = lookup_at(&a, i);
            struct lookup_at here = lookup_in_slice(&a, element);
            bool nothing = at.outside && a.nothing;
            int64_t far = at.far + here.far, near = at.near + here.near;
            moves[k] = !(nothing && a.writes);
            to[k] = a.writes ? far : near;
            v[k] = zero;
            if (!nothing)
                v[k] = x[a.writes ? near : far];
        }
        i += a.next_lookup;
        element += a.next_element;
    }
    for (int k = 0; k < LOOKUP_EACH; k++)
        if (moves[k])
            y[to[k]] = v[k];
}

/* Rows by one index, from rows that are neighbours inside: all indices of a thread are on their way at once, and then
 * all that it moves. */
#define INDICES(T) \
    UNROLLED       \
    for (int k = 0; k < LOOKUP_EACH; k++) v[k] = is[k] ? ((const T *)index)[(i + k * a.next_lookup) * step] : 0;

KERNEL(K(cu_rows), struct lookup_call)
{
    int64_t group = blockIdx.x;
    int64_t piece = a.pieces > 1 ? place_along(&group, (uint32_t)a.pieces, gridDim.x) : 0;
    int64_t i = group * a.block_lookups + threadIdx.x / (unsigned)a.team, v[LOOKUP_EACH];
    int64_t element = piece * a.block_elements + (threadIdx.x & (unsigned)(a.team - 1));
    int64_t step = a.stride[LOOKUP_INDEX][0];
    const void *index = a.index[0].data;
    UNIT u[LOOKUP_EACH], zero = { 0 };
    bool is[LOOKUP_EACH];
    UNROLLED
    for (int k = 0; k < LOOKUP_EACH; k++)
        is[k] = i + k * a.next_lookup < a.count && element + k * a.next_element < a.slice;
    switch (a.index[0].type) {
    case DT_int32: INDICES(int32_t) break;
    case DT_uint32: INDICES(uint32_t) break;
    default: INDICES(int64_t)
    }
    UNROLLED
    for (int k = 0; k < LOOKUP_EACH; k++) {
        bool outside = false;
        if (!is[k])
            continue;
        int64_t place = lookup_place(&a, 0, i + k * a.next_lookup, v[k], &outside);
        u[k] = zero;
        if (!(outside && a.nothing))
            u[k] = ((const UNIT *)a.far)[place * a.index[0].step + (element + k * a.next_element)];
    }
    UNROLLED
    for (int k = 0; k < LOOKUP_EACH; k++)
        if (is[k])
            ((UNIT *)a.near)[(i + k * a.next_lookup) * a.slice + element + k * a.next_element] = u[k];
}
#undef INDICES

#define INDICES(T)                          \
    for (int k = 0; k < LOOKUP_EACH; k++)   \
        if (first + k * LOOKUP_THREADS < n) \
            v[k] = ((const T *)index)[at + k * LOOKUP_THREADS];

/* Single elements by one index along rows without gaps, whose numbers need no taking apart. */
KERNEL(K(cu_take), struct lookup_call)
{
    UNIT *y = (UNIT *)a.near, u[LOOKUP_EACH];
    const UNIT *x = (const UNIT *)a.far, zero = { 0 };
    const void *index = a.index[0].data;
    int64_t row = blockIdx.x, piece = place_along(&row, (uint32_t)a.pieces, gridDim.x), v[LOOKUP_EACH] = { 0 };
    int last = a.ndim - 1;
    int64_t n = a.shape[last], step = a.index[0].step, along = a.stride[LOOKUP_FAR][last];
    int64_t first = piece * (LOOKUP_THREADS * LOOKUP_EACH) + threadIdx.x;
    int64_t at = row * a.stride[LOOKUP_INDEX][0] + first;
    switch (a.index[0].type) {
    case DT_int32: INDICES(int32_t) break;
    case DT_uint32: INDICES(uint32_t) break;
    case DT_int64:
    case DT_uint64: INDICES(int64_t) break;
    default:
        for (int k = 0; k < LOOKUP_EACH && first + k * LOOKUP_THREADS < n; k++)
            v[k] = index_value(index, a.index[0].type, at + k * LOOKUP_THREADS);
    }
    x += row * a.stride[LOOKUP_FAR][0] + first * along;
    for (int k = 0; k < LOOKUP_EACH; k++)
        if (first + k * LOOKUP_THREADS < n) {
            bool outside = false;
            int64_t place = lookup_place(&a, 0, row * n + first + k * LOOKUP_THREADS, v[k], &outside);
            u[k] = zero;
            if (!(outside && a.nothing))
                u[k] = x[place * step + k * LOOKUP_THREADS * along];
        }
    y += row * a.stride[LOOKUP_NEAR][0] + first;
    for (int k = 0; k < LOOKUP_EACH; k++)
        if (first + k * LOOKUP_THREADS < n)
            y[k * LOOKUP_THREADS] = u[k];
}
