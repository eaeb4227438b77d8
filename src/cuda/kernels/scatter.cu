/* scatter.cu: updates of one type folded into where they go: cu_scatter_f32.  The build compiles it as it does
 * rows.cu.  Each place gets its updates one after the other in their order, as on the CPU: half types are
 * rounded after each.  Elements of 4 bytes at most, IN_WORD, may come as words.  Kernels for many that are added take
 * them in another order, and round half types once: cu_scatter_sum_f32, cu_scatter_tables_f32. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/update_at.h"

#define T(op) PASTE(op, SUFFIX)
#ifdef HALF
#define FOLD(op) PASTE(SUFFIX, from_f32)(PASTE(op, f32)(T(f32_from)(y), T(f32_from)(u)))
#else
#define FOLD(op) T(op)(y, u)
#endif

FN S folded(S y, S u, int fold)
{
    switch (fold) {
    case UPDATE_ADD: return FOLD(add);
    case UPDATE_PROD: return FOLD(multiply);
    case UPDATE_MAX: return FOLD(maximum);
    case UPDATE_MIN: return FOLD(minimum);
    default: return u;
    }
}

/* Where update number i begins in `near`. */
FN int64_t near_at(const struct fold_call *a, int64_t i)
{
    int64_t element = 0;
    if (a->elements) {
        int64_t lookup = i / a->lookup.slice;
        element = i - lookup * a->lookup.slice;
        i = lookup;
    }
    const struct lookup_call *l = &a->lookup;
    int64_t at = places_of(i, l->count, l->ndim, l->shape, 1, l->stride[LOOKUP_NEAR], LOOKUP_DIMS).at[0];
    return a->elements ? at + lookup_in_slice(l, element).near : at;
}

/* All updates of one place from number i on, eight of which are on their way at once. */
FN_APART S fold_on(const struct fold_call *a, int64_t i, uint32_t key, S v)
{
    enum { AHEAD = 8 };
    for (int n = AHEAD; n == AHEAD; i += AHEAD) {
        S some[AHEAD];
        n = 0;
        for (int k = 0; k < AHEAD; k++) {
            bool here = i + k < a->n && a->key[i + k] == key;
            some[k] = here ? ((const S *)a->lookup.near)[near_at(a, a->number[i + k])] : v;
            n += here;
        }
        for (int k = 0; k < n; k++) v = folded(v, some[k], a->fold);
    }
    return v;
}

/* Single elements: a block reads its updates at once; then the first of each place folds those that follow. */
KERNEL(PASTE(cu_scatter_singles, SUFFIX), struct fold_call)
{
    enum { N = LOOKUP_THREADS * LOOKUP_EACH };
    SHARED uint32_t key[N + 1]; /* behind the one before */
    SHARED S value[N];
    int64_t first = (int64_t)blockIdx.x * N;
    for (int k = (int)threadIdx.x; k < N; k += LOOKUP_THREADS) {
        uint32_t mine = first + k < a.n ? a.key[first + k] : ORDER_NONE;
        key[k + 1] = mine;
        if (mine != ORDER_NONE)
            value[k] = ((const S *)a.lookup.near)[near_at(&a, a.number[first + k])];
    }
    if (threadIdx.x == 0)
        key[0] = first ? a.key[first - 1] : ORDER_NONE;
    BARRIER();
    for (int k = (int)threadIdx.x; k < N; k += LOOKUP_THREADS) {
        uint32_t mine = key[k + 1];
        S *y = (S *)a.lookup.far + ((int64_t)mine << a.shift);
        if (mine == ORDER_NONE)
            continue;
        if (a.fold == UPDATE_SET) { /* the last one is */
            uint32_t next = k + 1 < N ? key[k + 2] : first + N < a.n ? a.key[first + N] : ORDER_NONE;
            if (next != mine)
                *y = value[k];
        } else if (key[k] != mine) {
            S v = *y;
            int e = k;
            for (; e < N && key[e + 1] == mine; e++) v = folded(v, value[e], a.fold);
            *y = e < N ? v : fold_on(&a, first + N, mine, v);
        }
    }
}

KERNEL(PASTE(cu_scatter, SUFFIX), struct fold_call)
{
    union lanes v, u;
    const struct lookup_call *l = &a.lookup;
    int64_t group = blockIdx.x;
    int64_t piece = l->pieces > 1 ? place_along(&group, (uint32_t)l->pieces, gridDim.x) : 0;
    int64_t i = group * l->block_lookups + threadIdx.x / (unsigned)l->team;
    int64_t element = piece * l->block_elements + (threadIdx.x & (unsigned)(l->team - 1));
    int64_t slice = a.elements ? 1 : l->slice;
    ROLLED
    for (int k = 0; k < LOOKUP_EACH; k++, i += l->next_lookup, element += l->next_element) {
        if (i >= a.n || element >= slice)
            continue;
        uint32_t key = a.key ? a.key[i] : 0;
        if (key == ORDER_NONE)
            continue;
        int64_t end = i + 1;
        if (a.fold == UPDATE_SET ? end < a.n && a.key[end] == key : i > 0 && a.key[i - 1] == key)
            continue; /* the last one is set, the first one folds all */
        struct lookup_at here = { 0, 0, false };
        if (!a.elements)
            here = lookup_in_slice(l, element);
        S *y = (S *)l->far + ((int64_t)key << a.shift) + here.far * a.lanes;
        const S *from = (const S *)l->near + here.near * a.lanes;
        if (a.lanes == 1)
            v.v[0] = *y;
        else
            COPY_LANES(v.v, y, 16);
        for (int64_t j = i; j < end; j++) {
            const S *one = from + near_at(&a, a.number ? a.number[j] : j) * a.lanes;
            if (a.lanes == 1) {
                v.v[0] = folded(v.v[0], *one, a.fold);
            } else {
                COPY_LANES(u.v, one, 16);
                for (int c = 0; c < (int)(16 / sizeof(S)); c++) v.v[c] = folded(v.v[c], u.v[c], a.fold);
            }
            end += a.fold != UPDATE_SET && end < a.n && a.key[end] == key;
        }
        if (a.lanes == 1)
            *y = v.v[0];
        else
            COPY_LANES(y, v.v, 16);
    }
}

#ifdef IN_WORD /* elements of 4 bytes at most */

FN S value_in(uint32_t word)
{
    union {
        uint32_t word;
        S value;
    } u;
    u.word = word;
    return u.value;
}

/* Of the threads of a warp, which all take part, how many have a bit that is set: those below all others. */
FN int count_in_warp(uint32_t bit)
{
    uint32_t same = SAME_IN_WARP(bit, 1);
    return (int)POPCOUNT(bit ? same : ~same);
}

/* The first update of a bucket, or of one behind it: by a warp, which looks at 32 of those that are left at a time. */
FN int64_t bucket_begin(const struct bucket_call *a, uint32_t bucket, int lane)
{
    int64_t low = 0, high = a->n;
    while (low < high) {
        int64_t step = (high - low + 31) / 32, at = low + lane * step;
        int before = count_in_warp(at < high && (a->key[at] >> a->low & a->mask) < bucket);
        if (before < 32 && low + before * step < high)
            high = low + before * step;
        if (before)
            low += (before - 1) * step + 1;
    }
    return low;
}

#define EACH_UPDATE(op)                                          \
    for (int e = 0; e < CHUNK; e += 4) {                         \
        struct words4 k4 = *(const struct words4 *)(keys + e);   \
        struct words4 v4 = *(const struct words4 *)(values + e); \
        UNROLLED                                                 \
        for (int c = 0; c < 4; c++) {                            \
            S u = value_in(v4.w[c]), z = op;                     \
            y = k4.w[c] == place ? z : y;                        \
        }                                                        \
    }

/* Each place gets its updates in their order.  The next ones are on their way while these are looked at. */
KERNEL(PASTE(cu_scatter_buckets, SUFFIX), struct bucket_call)
{
    enum { CHUNK = 32 * BUCKET_EACH, WARPS = BUCKET_THREADS / 32 };
    SHARED ALIGNED(16) uint32_t all_keys[WARPS][CHUNK];
    SHARED ALIGNED(16) uint32_t all_values[WARPS][CHUNK];
    int lane = (int)threadIdx.x % 32;
    int64_t first = ((int64_t)blockIdx.x * WARPS + threadIdx.x / 32) * BUCKET_LANES;
    if (first >= a.places)
        return;
    uint32_t *keys = all_keys[threadIdx.x / 32], *values = all_values[threadIdx.x / 32];
    uint32_t place = (uint32_t)first + (uint32_t)lane, bucket = (uint32_t)first >> a.low & a.mask;
    bool mine = first + lane < a.places;
    S *to = (S *)a.far + ((int64_t)place << a.shift);
    S y = mine ? *to : value_in(0);
    uint32_t key[BUCKET_EACH], value[BUCKET_EACH];
    int64_t i = bucket_begin(&a, bucket, lane);
    UNROLLED
    for (int k = 0; k < BUCKET_EACH; k++) {
        int64_t at = i + 32 * k + lane;
        key[k] = at < a.n ? a.key[at] : ORDER_NONE;
        value[k] = at < a.n ? a.value[at] : 0;
    }
    for (; i < a.n; i += CHUNK) {
        UNROLLED
        for (int k = 0; k < BUCKET_EACH; k++) {
            keys[32 * k + lane] = key[k];
            values[32 * k + lane] = value[k];
        }
        WARP_BARRIER();
        bool on = (keys[CHUNK - 1] >> a.low & a.mask) == bucket;
        UNROLLED
        for (int k = 0; k < BUCKET_EACH; k++) {
            int64_t at = i + CHUNK + 32 * k + lane;
            key[k] = on && at < a.n ? a.key[at] : ORDER_NONE;
            value[k] = on && at < a.n ? a.value[at] : 0;
        }
        switch (a.fold) {
        case UPDATE_ADD: EACH_UPDATE(FOLD(add)) break;
        case UPDATE_PROD: EACH_UPDATE(FOLD(multiply)) break;
        case UPDATE_MAX: EACH_UPDATE(FOLD(maximum)) break;
        case UPDATE_MIN: EACH_UPDATE(FOLD(minimum)) break;
        default: EACH_UPDATE(u) break;
        }
        if (!on)
            break;
        WARP_BARRIER();
    }
    if (mine)
        *to = y;
}
#endif

/* ---- single elements that are not put in order */

#ifdef PLAIN
/* Those that go last to where they do (cu_last). */
KERNEL(PASTE(cu_scatter_last, SUFFIX), struct keys_call)
{
    int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= a.n)
        return;
    struct lookup_at at = update_at(&a, n);
    if (!at.outside && a.last[at.far >> a.shift] == (uint32_t)n + 1)
        ((S *)a.lookup.far)[at.far] = ((const S *)a.lookup.near)[at.near];
}
#endif

#ifdef SUM
/* The sums of floats are those of some order.  Half types are rounded once all are added up. */
KERNEL(PASTE(cu_scatter_sum, SUFFIX), struct keys_call)
{
    int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= a.n)
        return;
    struct lookup_at at = update_at(&a, n);
    S u = ((const S *)a.lookup.near)[at.near];
    if (at.outside)
        return;
#ifdef HALF
    ATOMIC_SUM(&a.sums[at.far >> a.shift], T(f32_from)(u));
#else
    SUM((S *)a.lookup.far + at.far, u);
#endif
}

#ifdef HALF
KERNEL(PASTE(cu_scatter_sums, SUFFIX), struct sums_call)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    S *y = (S *)a.far + (i << a.shift);
    if (i < a.places && a.sums[i] != 0)
        *y = PASTE(SUFFIX, from_f32)(T(f32_from)(*y) + a.sums[i]);
}
#endif

#include "cuda/kernels/scatter_tables.inc"
#endif
