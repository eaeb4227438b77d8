/* recurrent.cu: one step of recurrent layers, or one back: cu_recurrent_f32.  The build compiles it for each type.
 *
 * A block has all gates of some units, for up to 32 sequences: rows of weights and states before the step lie in shared
 * memory, some columns of them at once, of which each warp takes every eighth four.  The warps' sums are added in their
 * order, and the functions of the gates follow. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/computed.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/recurrent.h"
#include "cuda/kernels/warp.h"

#define K(name) PASTE(name, SUFFIX)

enum {
    WARPS = RECURRENT_WARPS,
    SEQUENCES = RECURRENT_SEQUENCES,
    DOWN = RECURRENT_ROWS / 4, /* a thread has every fourth row and every eighth sequence */
    ACROSS = SEQUENCES / 8,
    WIDTH = 16 / sizeof(S), /* of a vector that is copied */
    SPOTS = RECURRENT_ROWS / WARPS,
};

struct ALIGNED(sizeof(S) > 2 ? 16 : 8) four {
    S v[4];
};

/* Row r of shared memory begins so many elements behind the one before. */
FN int stride_of(const struct recurrent_call *a) { return a->piece + WIDTH; }

/* Where row r of a block's weights is, or of its states; NULL: there is none. */
FN const S *row_of(const struct recurrent_call *a, int r, int unit, int64_t sequence)
{
    if (r >= RECURRENT_ROWS) {
        int64_t b = sequence + r - RECURRENT_ROWS;
        return b < a->sequences ? (const S *)a->before + b * a->apart : (const S *)0;
    }
    int group = r / a->units, u = unit + r % a->units;
    return group < a->groups && u < a->width ? (const S *)a->w + ((int64_t)group * a->width + u) * a->inputs
                                             : (const S *)0;
}

/* n columns from k on, zeros behind up to a multiple of four. */
FN void fetch(const struct recurrent_call *a, S *room, int unit, int64_t sequence, int k, int n)
{
    int each = a->whole ? n / WIDTH : (n + 3) / 4 * 4, stride = stride_of(a);
    for (int i = (int)threadIdx.x; i < (RECURRENT_ROWS + SEQUENCES) * each; i += RECURRENT_THREADS) {
        int r = i / each, c = i % each;
        const S *from = row_of(a, r, unit, sequence);
        if (a->whole)
            copy_later_at(place_in_shared(room + r * stride + c * WIDTH), from ? from + k + c * WIDTH : (const S *)a->w,
                          from != (const S *)0);
        else
            room[r * stride + c] = from && c < n ? from[k + c] : (S)0;
    }
    close_group();
    WAIT_GROUPS(0);
}

FN void multiply(const struct recurrent_call *a, T sum[DOWN][ACROSS], const S *room, int n)
{
    int lane = (int)threadIdx.x % 32, stride = stride_of(a);
    const S *w = room + lane / 8 * stride, *h = room + (RECURRENT_ROWS + lane % 8) * stride;
    ROLLED for (int k = (int)threadIdx.x / 32 * 4; k < n; k += 4 * WARPS)
    {
        struct four u[DOWN], v[ACROSS];
        UNROLLED for (int i = 0; i < DOWN; i++) u[i] = *(const struct four *)(w + 4 * i * stride + k);
        UNROLLED for (int i = 0; i < ACROSS; i++) v[i] = *(const struct four *)(h + 8 * i * stride + k);
        UNROLLED for (int c = 0; c < 4; c++)
        {
            UNROLLED for (int i = 0; i < DOWN; i++)
            {
                UNROLLED for (int j = 0; j < ACROSS; j++) sum[i][j] = F(m_fma)(IN(u[i].v[c]), IN(v[j].v[c]), sum[i][j]);
            }
        }
    }
}

/* ---- a unit of a sequence */

struct spot {
    int64_t b, at; /* at: in arrays of (sequences, steps, width) */
    int unit, there;
    T x[4], before; /* read while the product is on its way; before: the state that is kept in part, or ct */
};

FN T element(const void *x, int64_t at) { return IN(((const S *)x)[at]); }
FN T state(const void *x, int64_t apart, const struct spot *p) { return x ? element(x, p->b * apart + p->unit) : (T)0; }

FN struct spot spot_of(const struct recurrent_call *a, int64_t b, int unit, int last)
{
    struct spot p;
    p.b = b;
    p.unit = unit;
    p.there = b < a->sequences && unit < a->width && unit < last;
    p.at = (b * a->steps + a->t) * a->width + unit;
    p.before = 0;
    for (int i = 0; i < 4; i++)
        p.x[i] =
            p.there && i < a->gates ? element(a->x, ((b * a->steps + a->t) * a->gates + i) * a->width + unit) : (T)0;
    if (p.there && a->kind == RECURRENT_STEP_BACK)
        p.before = element(a->ct, p.at);
    else if (p.there && a->kind == RECURRENT_STEP_LSTM)
        p.before = state(a->cell, a->cell_apart, &p);
    else if (p.there && a->kind == RECURRENT_STEP_GRU)
        p.before = state(a->before, a->apart, &p);
    return p;
}

FN void finish_step(const struct recurrent_call *a, const struct spot *p, const T s[4])
{
    S *y = (S *)a->y[0] + p->at;
    T *pre = a->pre ? (T *)a->pre + (p->b * a->steps + a->t) * a->gates * a->width + p->unit : (T *)0;
    UNROLLED for (int i = 0; i < 4; i++)
    {
        int seen = a->kind == RECURRENT_STEP_GRU && i == 2;
        if (pre && i < a->gates)
            pre[(int64_t)i * a->width] = s[i] + (!seen ? p->x[i] : a->bias ? element(a->bias, p->unit) : (T)0);
    }
    if (a->kind == RECURRENT_STEP_TANH) {
        *y = OUT(F(tanh)(p->x[0] + s[0]));
    } else if (a->kind == RECURRENT_STEP_GRU) {
        T r = F(sigmoid)(p->x[0] + s[0]), z = F(sigmoid)(p->x[1] + s[1]);
        T n = F(tanh)(p->x[2] + r * (a->bias ? s[2] + element(a->bias, p->unit) : s[2]));
        *y = OUT((1 - z) * n + z * p->before);
    } else {
        T i = F(sigmoid)(p->x[0] + s[0]), f = F(sigmoid)(p->x[1] + s[1]);
        T g = F(tanh)(p->x[2] + s[2]), o = F(sigmoid)(p->x[3] + s[3]);
        S c = OUT(f * p->before + i * g);
        ((S *)a->y[1])[p->at] = c;
        *y = OUT(o * F(tanh)(IN(c)));
    }
}

/* x: slopes of the gates. */
FN void finish_back(const struct recurrent_call *a, const struct spot *p, T s)
{
    T u = p->before + s, v = u;
    if (a->ct_cell)
        v = u * element(a->seen, p->at) + element(a->ct_cell, p->at);
    if (a->keep && a->t < a->steps - 1)
        v += element(a->keep, p->at + a->width) * element(a->y[1], p->at + a->width);
    if (a->y[1])
        ((S *)a->y[1])[p->at] = OUT(v);
    S *d = (S *)a->y[0] + (p->b * a->steps + a->t) * a->gates * a->width + p->unit;
    UNROLLED for (int i = 0; i < 4; i++) if (i < a->gates) d[(int64_t)i * a->width] = OUT((i == 3 ? u : v) * p->x[i]);
}

KERNEL(K(cu_recurrent), struct recurrent_call)
{
    SHARED_BYTES(memory, RECURRENT_COLUMN_BYTES(RECURRENT_PIECE));
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int unit = (int)(blockIdx.x % a.unit_blocks) * a.units;
    int64_t sequence = (int64_t)(blockIdx.x / a.unit_blocks) * SEQUENCES;
    T sum[DOWN][ACROSS];
    T *part = (T *)memory; /* [warp][row][sequence] */
    struct spot spots[SPOTS];
    UNROLLED for (int i = 0; i < SPOTS; i++) spots[i] =
        spot_of(&a, sequence + lane, unit + warp + i * WARPS, unit + a.units);
    UNROLLED for (int i = 0; i < DOWN; i++) { UNROLLED for (int j = 0; j < ACROSS; j++) sum[i][j] = 0; }
    ROLLED for (int k = 0; k < a.inputs && a.before; k += a.piece)
    {
        int n = a.inputs - k < a.piece ? a.inputs - k : a.piece;
        fetch(&a, (S *)memory, unit, sequence, k, n);
        BARRIER();
        multiply(&a, sum, (const S *)memory, n);
        BARRIER();
    }
    UNROLLED for (int i = 0; i < DOWN; i++)
    {
        UNROLLED for (int j = 0; j < ACROSS; j++)
            part[(warp * RECURRENT_ROWS + lane / 8 + 4 * i) * (SEQUENCES + 1) + lane % 8 + 8 * j] = sum[i][j];
    }
    BARRIER();
    UNROLLED for (int n = 0; n < SPOTS; n++)
    {
        T s[4];
        int row = warp + n * WARPS;
        UNROLLED for (int i = 0; i < 4; i++)
        {
            s[i] = 0;
            for (int w = 0; w < WARPS && i < a.groups && row < a.units; w++)
                s[i] += part[(w * RECURRENT_ROWS + i * a.units + row) * (SEQUENCES + 1) + lane];
        }
        if (spots[n].there && a.kind == RECURRENT_STEP_BACK)
            finish_back(&a, &spots[n], s[0]);
        else if (spots[n].there)
            finish_step(&a, &spots[n], s);
    }
}
