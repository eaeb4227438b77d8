/* order.cu: where updates go, by which they are put in order (sort.cu), or which one of them goes there last. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/update_at.h"

KERNEL(cu_keys, struct keys_call)
{
    int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= a.n)
        return;
    struct lookup_at at = update_at(&a, n);
    if (a.key)
        a.key[n] = at.outside ? ORDER_NONE : (uint32_t)(at.far >> a.shift);
    if (a.value)
        a.value[n] = a.size == 4   ? ((const uint32_t *)a.lookup.near)[at.near]
                     : a.size == 2 ? ((const uint16_t *)a.lookup.near)[at.near]
                                   : ((const uint8_t *)a.lookup.near)[at.near];
}

KERNEL(cu_last, struct keys_call)
{
    int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= a.n)
        return;
    struct lookup_at at = update_at(&a, n);
    if (!at.outside)
        ATOMIC_MAX(&a.last[at.far >> a.shift], (uint32_t)n + 1);
}

/* Sets places of a row to the last of its updates that goes there, where one does. */
#define SET_ROW(UNIT)                                                                 \
    ROLLED                                                                            \
    for (uint32_t p = threadIdx.x; p < places; p += step) {                           \
        uint32_t from[AHEAD];                                                         \
        UNIT v[AHEAD];                                                                \
        UNROLLED                                                                      \
        for (int k = 0; k < AHEAD; k++) {                                             \
            uint32_t at = p + k * blockDim.x;                                         \
            from[k] = at < places ? last[at] : 0;                                     \
            if (from[k])                                                              \
                v[k] = ((const UNIT *)l->near)[u + (from[k] - 1) * near];             \
        }                                                                             \
        UNROLLED                                                                      \
        for (int k = 0; k < AHEAD; k++)                                               \
            if (from[k])                                                              \
                ((UNIT *)l->far)[y + (p + k * blockDim.x) * l->index[0].step] = v[k]; \
    }

/* Where a row of updates goes to a row of places: a block has one, and finds the last of each place, counted from 1, in
 * its own memory. */
KERNEL(cu_last_of_rows, struct keys_call)
{
    enum { AHEAD = 4 };
    SHARED_BYTES(bytes, ORDER_ROW * sizeof(uint32_t));
    uint32_t *last = (uint32_t *)bytes;
    const struct lookup_call *l = &a.lookup;
    int64_t row = blockIdx.x;
    uint32_t n = l->shape[1], places = (uint32_t)l->index[0].room + 1, step = blockDim.x * AHEAD;
    const void *index = l->index[0].data;
    int32_t type = l->index[0].type;
    bool words = type == DT_int32 || type == DT_uint32; /* several of which are on their way at once */
    int64_t first = row * l->stride[LOOKUP_INDEX][0], next = l->stride[LOOKUP_INDEX][1];
    for (uint32_t p = threadIdx.x; p < places; p += blockDim.x) last[p] = 0;
    BARRIER();
    ROLLED
    for (uint32_t i = threadIdx.x; i < n; i += step) {
        uint32_t v[AHEAD];
        UNROLLED
        for (int k = 0; k < AHEAD; k++) {
            uint32_t at = i + k * blockDim.x;
            v[k] = words && at < n ? ((const uint32_t *)index)[first + at * next] : 0;
        }
        ROLLED
        for (int k = 0; k < AHEAD; k++) {
            uint32_t at = i + k * blockDim.x, word = v[0];
            UNROLLED
            for (int c = 0; c < AHEAD - 1; c++) v[c] = v[c + 1];
            if (at >= n)
                break;
            bool outside = false;
            int64_t value = !words             ? index_value(index, type, first + at * next)
                            : type == DT_int32 ? (int64_t)(int32_t)word
                                               : word;
            int64_t place = lookup_place(l, 0, row * n + at, value, &outside);
            if (!outside || !a.drops)
                ATOMIC_MAX(&last[place], at + 1);
        }
    }
    BARRIER();
    int64_t y = row * l->stride[LOOKUP_FAR][0], u = row * l->stride[LOOKUP_NEAR][0], near = l->stride[LOOKUP_NEAR][1];
    switch (a.size) {
    case 1: SET_ROW(uint8_t) break;
    case 2: SET_ROW(uint16_t) break;
    case 4: SET_ROW(uint32_t) break;
    default: SET_ROW(uint64_t) break;
    }
}
