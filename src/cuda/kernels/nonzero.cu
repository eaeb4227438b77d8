/* nonzero.cu: where elements are not 0: counted in tiles, then written. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/places.h"
#include "cuda/kernels/search.h"

/* Which of a thread's elements are not 0, as bits. */
FN uint32_t set_of(const struct nonzero_call *a)
{
    int64_t first = (int64_t)blockIdx.x * NONZERO_TILE + (int64_t)threadIdx.x * NONZERO_EACH;
    uint32_t set = 0;
    for (int k = 0; k < NONZERO_EACH; k++) set |= (uint32_t)(first + k < a->n && a->x[first + k] != 0) << k;
    return set;
}

FN uint32_t count_of(uint32_t set)
{
    uint32_t n = 0;
    for (; set; set &= set - 1) n++;
    return n;
}

/* The sum of what the threads up to this one have; sums[SEARCH_THREADS - 1] is that of all. */
FN uint32_t sum_to_here(uint32_t *sums, uint32_t mine)
{
    int me = (int)threadIdx.x;
    sums[me] = mine;
    for (int apart = 1; apart < SEARCH_THREADS; apart *= 2) {
        BARRIER();
        uint32_t more = me >= apart ? sums[me - apart] : 0;
        BARRIER();
        sums[me] += more;
    }
    BARRIER();
    return sums[me];
}

KERNEL(cu_nonzero_count, struct nonzero_call)
{
    SHARED uint32_t sums[SEARCH_THREADS];
    uint32_t all = sum_to_here(sums, count_of(set_of(&a)));
    if (threadIdx.x == SEARCH_THREADS - 1)
        a.before[blockIdx.x] = all;
}

/* One block. */
KERNEL(cu_nonzero_scan, struct nonzero_call)
{
    SHARED uint32_t sums[SEARCH_THREADS];
    int64_t each = (a.tiles + SEARCH_THREADS - 1) / SEARCH_THREADS, first = threadIdx.x * each;
    int64_t end = first + each < a.tiles ? first + each : a.tiles;
    uint32_t mine = 0;
    for (int64_t t = first; t < end; t++) mine += a.before[t];
    uint32_t at = sum_to_here(sums, mine) - mine;
    for (int64_t t = first; t < end; t++) {
        uint32_t n = a.before[t];
        a.before[t] = at;
        at += n;
    }
    if (threadIdx.x == SEARCH_THREADS - 1)
        a.before[a.tiles] = at;
}

/* Memory that others share may have other elements than were counted: what is too much is left out, what is missing is
 * place 0. */
KERNEL(cu_nonzero_write, struct nonzero_call)
{
    SHARED uint32_t sums[SEARCH_THREADS];
    uint32_t set = set_of(&a), n = count_of(set);
    int64_t at = a.before[blockIdx.x] + (int64_t)(sum_to_here(sums, n) - n);
    int64_t first = (int64_t)blockIdx.x * NONZERO_TILE + (int64_t)threadIdx.x * NONZERO_EACH;
    for (int k = 0; k < NONZERO_EACH && at < a.count; k++) {
        if (!(set >> k & 1))
            continue;
        int64_t place = first + k;
        ROLLED
        for (int d = a.ndim; d-- > 0;) a.y[d * a.count + at] = (int32_t)place_along(&place, a.shape[d], a.n);
        at++;
    }
    if (blockIdx.x + 1 < a.tiles)
        return;
    for (int64_t i = (int64_t)a.before[a.tiles] + threadIdx.x; i < a.count; i += SEARCH_THREADS)
        for (int d = 0; d < a.ndim; d++) a.y[d * a.count + i] = 0;
}
