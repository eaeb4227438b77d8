/* attention.cu: attention by tiles of queries and keys: cu_attention_tile_128_f32.  The build compiles it for each
 * line of modules.def, with SUFFIX and S, the type as stored, defined, and HALF for half types.
 *
 * Scores are never in the device's memory.  A row keeps the largest so far and the sum of exp(score - largest), and
 * what is added up of V fades when the largest changes.  Sums run along the keys in order, in pieces that follow from
 * the sizes alone and are merged by another launch or, of few queries, by the last block that has one. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/arrived.h"
#include "cuda/kernels/attention_at.h"
#include "cuda/kernels/attention_results.h"
#include "cuda/kernels/warp.h"

/* The pieces as one, of element i of the result, if it is there: a team of threads has it, `each` from one to the next,
 * and each of them every merge_team-th piece.  What they have goes through shared memory, of each thread three. */
FN void merge_pieces(const struct attention_call *a, int64_t i, int there, int each, T *tops_of, T *sums_of, T *ys_of)
{
    enum { AT_ONCE = ATTENTION_MERGED_AT_ONCE };
    int part = (int)threadIdx.x / each;
    int64_t n = rows_of_all(a), wide = a->e ? a->e : 1;
    int64_t row = there ? i : 0, column = place_along(&row, (uint32_t)wide, n * wide);
    const T *from = (const T *)a->partial + row * a->e + column;
    const T *tops = (const T *)a->partial + a->pieces * n * a->e + row, *sums = tops + a->pieces * n;
    T top = LOWEST, sum = 0, y = 0;
    ROLLED
    for (int64_t p = part; p < a->pieces; p += AT_ONCE * a->merge_team) {
        T more_tops[AT_ONCE], more_sums[AT_ONCE], more_ys[AT_ONCE], most = top, fade;
        UNROLLED
        for (int j = 0; j < AT_ONCE; j++) { /* all on their way before the first is looked at */
            int64_t at = (p + j * a->merge_team) * n;
            int more = p + j * a->merge_team < a->pieces;
            more_tops[j] = more ? READ_ANEW(tops + at) : LOWEST;
            more_sums[j] = more ? READ_ANEW(sums + at) : (T)0;
            more_ys[j] = more && a->e ? READ_ANEW(from + at * a->e) : (T)0;
        }
        UNROLLED
        for (int j = 0; j < AT_ONCE; j++) most = more_tops[j] > most ? more_tops[j] : most;
        fade = F(exp)(top - most);
        top = most;
        sum *= fade;
        y *= fade;
        UNROLLED
        for (int j = 0; j < AT_ONCE; j++) {
            T by = F(exp)(more_tops[j] - most);
            sum += by * more_sums[j];
            y += by * more_ys[j];
        }
    }
    tops_of[threadIdx.x] = top;
    sums_of[threadIdx.x] = sum;
    ys_of[threadIdx.x] = y;
    BARRIER();
    if (!there || part)
        return;
    for (int k = 1; k < a->merge_team; k++)
        top = tops_of[(int)threadIdx.x + k * each] > top ? tops_of[(int)threadIdx.x + k * each] : top;
    T sink = LOWEST;
    if (a->sinks.p) {
        int64_t unit = over(row, a->rows);
        int64_t head = rest_of(unit, a->kv) * a->group + over(rest_of(row, a->rows), a->length);
        sink = IN(((const S *)a->sinks.p)[batch_place(a, a->sinks.batch, over(unit, a->kv)) + head * a->sinks.head]);
        top = sink > top ? sink : top;
    }
    sum = a->sinks.p ? F(exp)(sink - top) : (T)0;
    y = 0;
    for (int k = 0; k < a->merge_team; k++) {
        int at = (int)threadIdx.x + k * each;
        T by = F(exp)(tops_of[at] - top);
        sum += by * sums_of[at];
        y += by * ys_of[at];
    }
    if (a->e)
        ((S *)a->y)[i] = OUT(y / sum);
    if (column == 0) {
        ((T *)a->top)[row] = kept_top(top, sum);
        ((T *)a->sum)[row] = sum;
    }
}

KERNEL(K(cu_attention_merge), struct attention_call)
{
    SHARED T room[3][ATTENTION_MERGE_THREADS];
    if (called_off(&a))
        return;
    int each = ATTENTION_MERGE_THREADS / a.merge_team;
    int64_t i = (int64_t)blockIdx.x * each + (int)threadIdx.x % each;
    merge_pieces(&a, i, i < rows_of_all(&a) * (a.e ? a.e : 1), each, room[0], room[1], room[2]);
}

/* The last block of a unit to come here merges its pieces, of which all is in memory by then. */
FN void merge_as_last(const struct attention_call *a, int64_t unit, T *room)
{
    if (!came_last(&a->arrived[unit], a->pieces))
        return;
    const int threads = (int)blockDim.x, each = threads / a->merge_team;
    const int64_t n = a->rows * (a->e ? a->e : 1);
    ROLLED
    for (int64_t first = 0; first < n; first += each) {
        int64_t i = first + (int)threadIdx.x % each;
        merge_pieces(a, unit * n + i, i < n, each, room, room + threads, room + 2 * threads);
        BARRIER();
    }
}

#ifdef HALF
/* Is anything not finite in n rows? */
FN int has_wild_rows(const S *x, int64_t step, uint32_t n, uint32_t vectors)
{
    uint32_t any = 0;
    for (uint32_t i = threadIdx.x; i < n * vectors; i += ATTENTION_LOOK_THREADS) {
        uint32_t w[4];
        COPY_LANES(w, x + i / vectors * step + i % vectors * LANES, sizeof w);
        for (int k = 0; k < 4; k++) any |= (w[k] & K(EXPONENTS)) + K(ONES);
    }
    return (any & 0x80008000u) != 0;
}

KERNEL(K(cu_attention_look), struct attention_look_call)
{
    SHARED uint32_t any;
    ROLLED
    for (int64_t i = (int64_t)blockIdx.x * ATTENTION_LOOK_THREADS + threadIdx.x; i < a.queries;
         i += (int64_t)gridDim.x * ATTENTION_LOOK_THREADS)
        if (a.weight)
            a.weight[i] = a.top[i] + m_log_f32(a.sum[i]);
        else
            a.sum[i] = 1;
    if (blockIdx.x || !a.wild)
        return;
    if (threadIdx.x == 0)
        any = 0;
    BARRIER();
    ROLLED
    for (int k = 0; k < ATTENTION_LOOKS; k++)
        if (has_wild_rows((const S *)a.x[k], a.step[k], a.rows[k], a.vectors))
            any = 1;
    BARRIER();
    if (threadIdx.x == 0)
        *a.wild = any;
}
#endif

/* ---- few queries */

/* The first n of LANES elements, zeros behind. */
FN_APART union lanes some_lanes(const S *x, int n)
{
    union lanes u;
    for (int k = 0; k < LANES; k++) u.v[k] = k < n ? x[k] : zero_element();
    return u;
}

#define ROWS 1
#define N(name) name##_few_1
#include "cuda/kernels/attention_few.inc"
#define ROWS 2
#define N(name) name##_few_2
#include "cuda/kernels/attention_few.inc"
#define ROWS 4
#define N(name) name##_few_4
#include "cuda/kernels/attention_few.inc"
#define ROWS 8
#define N(name) name##_few_8
#include "cuda/kernels/attention_few.inc"

/* ---- tiles */

#if !defined HALF && !defined WIDE && HAS_WARP_PRODUCTS
#include "cuda/kernels/attention_parts.h"

/* Rows of a block that have been added up, of `width` columns and with so much behind each, go where they belong: it is
 * found once more, for it not to stay in registers until then. */
FN_APART void put_rows(const struct attention_call *a, int rows, int width, const float *y, float *tops, float *sums)
{
    struct spot s = spot_of(a, rows, width);
    int i = (int)threadIdx.x, there = i < rows && s.row + i < a->rows;
    if (there) {
        float top = tops[i], sum = sums[i], by = finish_row(a, &s, s.row + i, &top, &sum);
        if (s.column == 0)
            put_row(a, s.piece, s.first + i, top, sum);
        tops[i] = top;
        sums[i] = by;
    }
    BARRIER();
    ROLLED
    for (; i < rows * width / 4; i += (int)blockDim.x) {
        int row = i / (width / 4), column = i % (width / 4) * 4;
        float four[4];
        for (int k = 0; k < 4; k++) four[k] = y[row * (width + 8) + column + k] * sums[row];
        if (s.row + row < a->rows)
            put_four(a, s.piece, s.first + row, s.column + column, four);
    }
}

#define WIDTH 64
#define SLICED 0
#define WARPS 4
#define TALL 1
#define KEYS 32
#define N(name) name##_parts_64
#include "cuda/kernels/attention_parts_tile.inc"
#define WIDTH 128
#define SLICED 1
#define WARPS 4
#define TALL 1
#define KEYS 32
#define N(name) name##_parts_128
#include "cuda/kernels/attention_parts_tile.inc"
#if HAS_LARGE_PARTS
#define WIDTH 256
#define SLICED 0
#define WARPS 8
#define TALL 1
#define KEYS 32
#define N(name) name##_parts_256
#include "cuda/kernels/attention_parts_tile.inc"
#endif
#else
#ifdef WIDE
#define EACH 2
#else
#define EACH 4
#define WIDTH 128
#define N(name) name##_tile_128
#include "cuda/kernels/attention_tile.inc"
#endif
#define WIDTH 64
#define N(name) name##_tile_64
#include "cuda/kernels/attention_tile.inc"
#endif

#if defined HALF && HAS_WARP_PRODUCTS
#define TALL 1
#define STEP ATTENTION_SPLIT_KEYS
#define KEYS (STEP / 4)
#define WIDTH 64
#define N(name) name##_split_64
#include "cuda/kernels/attention_split.inc"
#define WIDTH 128
#define N(name) name##_split_128
#include "cuda/kernels/attention_split.inc"
#undef TALL
#undef STEP
#undef KEYS

#define WIDTH 64
#define TALL 2
#define KEYS 64
#define N(name) name##_warps_64
#include "cuda/kernels/attention_warps.inc"
#define WIDTH 96
#define TALL 2
#define KEYS 64
#define N(name) name##_warps_96
#include "cuda/kernels/attention_warps.inc"
#define WIDTH 128
#define TALL 2
#define KEYS 64
#define N(name) name##_warps_128
#include "cuda/kernels/attention_warps.inc"
#define WIDTH 256
#define TALL 1
#define KEYS 32
#define N(name) name##_warps_256
#include "cuda/kernels/attention_warps.inc"
#endif
