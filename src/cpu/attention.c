/* attention.c: attention by blocks of keys, and its derivative.
 *
 * Scores are computed in panels of `width` queries (kernels/attention.h).  What the panels are
 * multiplied with, K and V and in the derivative their transposes, Q and its cotangent, is packed
 * once for a head and shared by all of them; half types become float32 on the way.  A few queries,
 * as when a text is being written, read K and V as they are instead.
 *
 * Work is cut by shape alone, and sums are taken in the order of keys. */
#include "plan/attention.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/sizes.h"
#include "cpu/bf16.h"
#include "cpu/crew.h"
#include "cpu/kernels/attention.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/reduce.h"
#include "cpu/run.h"
#include "cpu/worth.h"

enum {
    BLOCK = 240,   /* keys (or queries, in the derivative) at a time: a multiple of every panel */
    LONGEST = 256, /* a block of bfloat16, of whichever panels */
    PIECE = 512,   /* keys at a time where queries are few */
    AHEAD = 64,    /* of which so many are asked for ahead */
    TOGETHER = 4,  /* panels of keys, in the derivative */
};
static const int64_t ROOM = 256 << 20; /* bytes of packed operands at a time, if one head fits */

/* The operands are those of the node, with rows without gaps. */
struct attention_job {
    struct attention_plan p;
    const struct gemm_kernel *g;
    const struct gemm_kernel *halves; /* of bfloat16, if it multiplies keys and values as they are; else NULL */
    enum dtype t, work;
    size_t size, wsize;
    mx ct;
    char *y, *top, *sum;  /* row-major */
    char *delta;          /* of the derivative: of each row the sum of y times its cotangent */
    char *dq, *dk, *dv;   /* likewise */
    int64_t width;        /* of panels */
    int64_t fold;         /* heads whose queries make one list of rows */
    int64_t first, units; /* heads of keys that are packed now, of batch * kv */
    char *packed;
    int64_t unit_bytes;
    int64_t chunks, each; /* of keys, so many panels to one, whose parts of dq are apart; none where dq is made alone */
    char *space;
    size_t bytes; /* of the space of one thread */
};
typedef void job_fn(void *job, int64_t i, char *space);

/* ---- operands */

/* Row 0 of head h of batch b. */
static const char *head_of(mx x, int axes, int64_t b, int64_t h)
{
    int n = x->ndim - axes;
    int64_t at = h * x->strides[n];
    for (int i = n; i-- > 0; b /= x->shape[i]) at += b % x->shape[i] * x->strides[i];
    return (const char *)host(x) + at * (int64_t)itemsize(x);
}

static int64_t row_stride(mx x) { return x->strides[x->ndim - 2]; }

/* Rows of x in the type computed in, without gaps. */
static void load_straight(const struct attention_job *j, char *to, const char *x, int64_t stride, int64_t rows,
                          int64_t width)
{
    size_t row = (size_t)width * j->wsize;
    for (int64_t i = 0; i < rows; i++, to += row, x += stride * (int64_t)j->size)
        if (j->work == j->t)
            memcpy(to, x, row);
        else
            cpu->cast[j->t][j->work](to, x, (size_t)width);
}

/* Elements of the panels of `rows` vectors of length `width`; as one, or by blocks of rows whose
 * columns are the vectors. */
static int64_t panels(const struct attention_job *j, int64_t rows, int64_t width)
{
    return ceil_div(rows, j->g->mr) * j->g->mr * width;
}
static int64_t turned_panels(const struct attention_job *j, int64_t rows, int64_t width)
{
    return ceil_div(width, j->g->mr) * j->g->mr * rows;
}

/* Block b of the rows of x as panels of rows and, if asked for, as panels of columns. */
static void pack_block(const struct attention_job *j, char *straight, char *turned, const char *x, int64_t stride,
                       int64_t rows, int64_t width, int64_t b, char *space)
{
    const struct gemm_kernel *g = j->g;
    int64_t n = least(BLOCK, rows - b * BLOCK);
    x += b * BLOCK * stride * (int64_t)j->size;
    if (j->work != j->t) {
        load_straight(j, space, x, stride, n, width);
        x = space;
        stride = width;
    }
    if (straight)
        g->pack(straight + (size_t)(b * BLOCK * width) * j->wsize, g->mr * width, g->mr, x, stride, 1, n, width);
    if (turned)
        g->pack(turned + (size_t)turned_panels(j, b * BLOCK, width) * j->wsize, g->mr * n, g->mr, x, 1, stride, width,
                n);
}

/* Row r of a list: those of head h, then of the ones behind it. */
static const char *listed_row(const struct attention_job *j, mx x, int axes, int64_t b, int64_t h, int64_t r)
{
    int64_t length = x->shape[x->ndim - 2];
    return head_of(x, axes, b, h + r / length) + r % length * row_stride(x) * (int64_t)j->size;
}

/* A panel of up to `width` rows as the operand B of products of depth `depth`, times s. */
static void pack_panel(const struct attention_job *j, char *panel, mx x, int axes, int64_t b, int64_t h, int64_t r,
                       int64_t n, int64_t depth, double s, char *space)
{
    for (int64_t i = 0; i < n; i++)
        load_straight(j, space + (size_t)(i * depth) * j->wsize, listed_row(j, x, axes, b, h, r + i), 0, 1, depth);
    if (s != 1)
        j->g->axpby(space, space, s, NULL, 0, n * depth);
    j->g->pack(panel, j->width * depth, (int)j->width, space, depth, 1, n, depth);
}

static void fill_lanes(const struct attention_job *j, void *to, double v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (j->work == DT_float64)
            ((double *)to)[i] = v;
        else
            ((float *)to)[i] = (float)v;
}

static double number_at(const struct attention_job *j, const char *p, int64_t i)
{
    return j->work == DT_float64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static double lowest(const struct attention_job *j) { return j->work == DT_float64 ? -DBL_MAX : (double)-FLT_MAX; }

/* ---- masks */

/* Element (i, c) of a panel from x[i * si + c * sc]. */
static void mask_tile(char *to, int64_t width, const char *x, int64_t si, int64_t sc, int64_t rows, int64_t n,
                      size_t size)
{
    static const uint8_t log2[] = { [1] = 0, [2] = 1, [4] = 2, [8] = 3 };
    if (si == 1) {
        cpu->transpose[log2[size]](to, width, x, sc, (size_t)rows, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        cpu->move[log2[size]](to + (size_t)(i * width) * size, 1, x + i * si * (int64_t)size, sc, (size_t)n);
}

/* Keys past the last that query t sees, in one panel.  Rows are keys, from `key` on. */
static void mask_causal(const struct attention_job *j, char *s, int64_t rows, int64_t key, int64_t r, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        int64_t seen = (r + c) % j->p.length + j->p.keys - j->p.length + 1 - key;
        for (int64_t i = seen < 0 ? 0 : seen; i < rows; i++)
            fill_lanes(j, s + (size_t)(i * j->width + c) * j->wsize, lowest(j), 1);
    }
}
/* The same where rows are queries and columns keys. */
static void mask_causal_rows(const struct attention_job *j, char *s, int64_t rows, int64_t t, int64_t key, int64_t n)
{
    for (int64_t i = 0; i < rows; i++) {
        int64_t seen = t + i + j->p.keys - j->p.length + 1 - key;
        seen = seen < 0 ? 0 : seen;
        if (seen < n)
            fill_lanes(j, s + (size_t)(i * j->width + seen) * j->wsize, lowest(j), n - seen);
    }
}

/* Scores with what `tile` has of the mask. */
static void apply_mask(const struct attention_job *j, char *s, char *tile, int64_t n)
{
    enum dtype t = j->p.mask->dtype;
    if (t == DT_bool_) {
        double low = lowest(j);
        float low_f32 = (float)low;
        const void *p = j->work == DT_float64 ? (void *)&low : (void *)&low_f32;
        cpu->select[j->work == DT_float64 ? 3 : 2](s, tile, 1, s, 1, p, 0, (size_t)n);
        return;
    }
    if (t != j->work) {
        char *wide = tile + (size_t)n * 8;
        cpu->cast[t][j->work](wide, tile, (size_t)n);
        tile = wide;
    }
    cpu->binary[BINARY_add][j->work](s, s, 1, tile, 1, (size_t)n);
}

/* Rows are keys from `key` on, columns queries from row r of heads h on. */
static void mask_panel(const struct attention_job *j, char *s, char *tile, int64_t rows, int64_t key, int64_t b,
                       int64_t h, int64_t r, int64_t n)
{
    if (j->p.a->causal)
        mask_causal(j, s, rows, key, r, n);
    if (!j->p.mask)
        return;
    size_t size = itemsize(j->p.mask);
    int64_t sk = j->p.mask->strides[j->p.mask->ndim - 1], st = row_stride(j->p.mask);
    memset(tile, 0, (size_t)(rows * j->width) * size);
    for (int64_t c = 0, some; c < n; c += some) {
        int64_t t = (r + c) % j->p.length;
        some = least(n - c, j->p.length - t);
        const char *p = head_of(j->p.mask, 3, b, h + (r + c) / j->p.length);
        mask_tile(tile + (size_t)c * size, j->width, p + (t * st + key * sk) * (int64_t)size, sk, st, rows, some, size);
    }
    apply_mask(j, s, tile, rows * j->width);
}

/* Rows are queries from t on of head h, columns keys from `key` on. */
static void mask_rows(const struct attention_job *j, char *s, char *tile, int64_t rows, int64_t t, int64_t b, int64_t h,
                      int64_t key, int64_t n)
{
    if (j->p.a->causal)
        mask_causal_rows(j, s, rows, t, key, n);
    if (!j->p.mask)
        return;
    size_t size = itemsize(j->p.mask);
    int64_t sk = j->p.mask->strides[j->p.mask->ndim - 1], st = row_stride(j->p.mask);
    const char *p = head_of(j->p.mask, 3, b, h) + (t * st + key * sk) * (int64_t)size;
    memset(tile, 0, (size_t)(rows * j->width) * size);
    mask_tile(tile, j->width, p, st, sk, rows, n, size);
    apply_mask(j, s, tile, rows * j->width);
}

/* How many keys the queries t0 to t1 need: all, where one of them sees none. */
static int64_t seen_by(const struct attention_job *j, int64_t t0, int64_t t1)
{
    int64_t off = j->p.keys - j->p.length;
    return !j->p.a->causal || t0 + off < 0 ? j->p.keys : least(j->p.keys, t1 + off + 1);
}

/* A panel of so many rows of the type computed in. */
static size_t attention_panel_bytes(const struct attention_job *j, int64_t rows)
{
    return (size_t)(ceil_div(rows, 16) * 16 * j->width) * j->wsize;
}

/* ---- values that are not finite
 *
 * A query's weight of a key that it does not see is 0, which times infinity is no number: where keys that some queries
 * see and others do not have such values, each query is multiplied with the keys it sees alone. */

/* The exponent of what is not finite is all ones: one more is a carry into the sign. */
static bool is_finite(enum dtype t, const char *x, int64_t n)
{
#define LOOK(T, exponent, one)                                                                      \
    {                                                                                               \
        T any = 0;                                                                                  \
        for (int64_t i = 0; i < n; i++) any |= (T)((((const T *)x)[i] & (T)(exponent)) + (T)(one)); \
        return !(any & ((T)1 << (sizeof(T) * 8 - 1)));                                              \
    }
    switch (t) {
    case DT_float16: LOOK(uint16_t, 0x7c00, 0x0400)
    case DT_bfloat16: LOOK(uint16_t, 0x7f80, 0x0080)
    case DT_float32: LOOK(uint32_t, 0x7f800000, 0x00800000)
    default: LOOK(uint64_t, (uint64_t)0x7ff << 52, (uint64_t)1 << 52)
    }
#undef LOOK
}

/* The first key that is not seen by all queries from t on that see any. */
static int64_t first_unseen(const struct attention_job *j, int64_t t)
{
    int64_t seen = t + j->p.keys - j->p.length + 1;
    return !j->p.a->causal ? j->p.keys : seen < 1 ? 1 : seen;
}

/* Are there such values among keys `from` to `end`, in rows of `width` elements? */
static bool has_wild(const struct attention_job *j, mx x, int64_t b, int64_t h, int64_t from, int64_t end,
                     int64_t width)
{
    const char *p = head_of(x, 3, b, h);
    bool finite = true;
    for (int64_t i = from; i < end && finite; i++)
        finite = is_finite(j->t, p + i * row_stride(x) * (int64_t)j->size, width);
    return !finite;
}

/* How many of m keys from `key` on query t is multiplied with: all, where it sees none at all. */
static int64_t seen_of(const struct attention_job *j, int64_t t, int64_t key, int64_t m)
{
    int64_t seen = t + j->p.keys - j->p.length + 1;
    return seen < 1 ? m : least(seen > key ? seen - key : 0, m);
}

/* y += A times a panel of the weights of queries from r on, each query with what it sees of m keys; `spare`: space for
 * two panels like y. */
static void add_seen(const struct attention_job *j, char *y, int64_t rows, const char *a, int64_t step,
                     const char *weights, int64_t r, int64_t n, int64_t key, int64_t m, char *spare)
{
    size_t bytes = attention_panel_bytes(j, rows), w = j->wsize;
    char *before = spare + bytes;
    memcpy(before, y, bytes);
    for (int64_t c = 0; c < n; c++) {
        int64_t depth = seen_of(j, (r + c) % j->p.length, key, m);
        memcpy(spare, before, bytes);
        if (depth)
            j->g->tile(spare, j->width, a, step, weights, 0, rows, j->width, depth, true);
        for (int64_t i = 0; i < rows; i++)
            memcpy(y + (size_t)(i * j->width + c) * w, spare + (size_t)(i * j->width + c) * w, w);
    }
}

/* ---- space of one thread */

static int64_t widest(const struct attention_job *j) { return j->p.d > j->p.e ? j->p.d : j->p.e; }
static size_t mask_bytes(const struct attention_job *j) { return (size_t)(LONGEST * j->width) * 16; }
static size_t loaded_bytes(const struct attention_job *j)
{
    int64_t rows = LONGEST > j->width ? LONGEST : j->width;
    return (size_t)(rows * greatest(widest(j), j->width)) * j->wsize; /* or the weights of a block */
}
static size_t to_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }
static char *take_space(char **space, size_t bytes)
{
    char *p = *space;
    *space += to_lines(bytes);
    return p;
}

/* A panel (columns of it are rows of y) to n rows of y, in y's type. */
static void put_panel(const struct attention_job *j, char *y, const char *panel, int64_t n, int64_t width, char *space)
{
    char *to = j->work == j->t ? y : space;
    cpu->transpose[j->wsize == 8 ? 3 : 2](to, width, panel, j->width, (size_t)n, (size_t)width);
    if (to != y)
        cpu->cast[j->work][j->t](y, to, (size_t)(n * width));
}

/* ---- forward, many queries */

static char *packed_of(const struct attention_job *j, int64_t unit)
{
    return j->packed + (size_t)(unit - j->first) * (size_t)j->unit_bytes;
}

static int64_t blocks(int64_t n) { return ceil_div(n, BLOCK); }

/* Of panels of halves, in pairs: keys of a block, and of a unit the values behind all keys, block by block. */
static int64_t block_of_halves(const struct attention_job *j)
{
    int64_t mr = j->halves->mr;
    return ceil_div(BLOCK, mr) * mr;
}
static int64_t blocks_of_halves(const struct attention_job *j) { return ceil_div(j->p.keys, block_of_halves(j)); }
static int64_t key_pairs(const struct attention_job *j) { return block_of_halves(j) * gemm_steps(j->halves, j->p.d); }
static int64_t value_pairs(const struct attention_job *j)
{
    int64_t mr = j->halves->mr;
    return ceil_div(j->p.e, mr) * mr * gemm_steps(j->halves, block_of_halves(j));
}
static uint32_t *packed_halves(const struct attention_job *j, char *unit, int64_t block, bool values)
{
    uint32_t *p = (uint32_t *)unit;
    return values ? p + blocks_of_halves(j) * key_pairs(j) + block * value_pairs(j) : p + block * key_pairs(j);
}

static void pack_halves(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    const struct gemm_kernel *g = j->halves;
    int64_t unit = j->first + i / blocks_of_halves(j), block = i % blocks_of_halves(j), at = block * block_of_halves(j);
    int64_t b = unit / j->p.kv, h = unit % j->p.kv, n = least(block_of_halves(j), j->p.keys - at);
    int64_t sk = row_stride(j->p.k), sv = row_stride(j->p.v);
    const char *k = head_of(j->p.k, 3, b, h) + at * sk * (int64_t)j->size;
    const char *v = head_of(j->p.v, 3, b, h) + at * sv * (int64_t)j->size;
    (void)space;
    gemm_pack(g, true, packed_halves(j, packed_of(j, unit), block, false), g->mr * gemm_steps(g, j->p.d), k, sk, 1, n,
              j->p.d);
    gemm_pack(g, true, packed_halves(j, packed_of(j, unit), block, true), g->mr * gemm_steps(g, n), v, 1, sv, j->p.e,
              n);
}

static void pack_keys(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    int64_t unit = j->first + i / blocks(j->p.keys), block = i % blocks(j->p.keys);
    char *k = packed_of(j, unit), *v = k + (size_t)panels(j, j->p.keys, j->p.d) * j->wsize;
    int64_t b = unit / j->p.kv, h = unit % j->p.kv;
    pack_block(j, k, NULL, head_of(j->p.k, 3, b, h), row_stride(j->p.k), j->p.keys, j->p.d, block, space);
    pack_block(j, NULL, v, head_of(j->p.v, 3, b, h), row_stride(j->p.v), j->p.keys, j->p.e, block, space);
}

/* What the derivative is told of n rows from `at` on.  Comparing passes over what is no number, adding does not. */
static void keep_rows(struct attention_job *j, int64_t at, const char *top, const char *sum, int64_t n)
{
    char *tops = j->top + (size_t)at * j->wsize;
    memcpy(tops, top, (size_t)n * j->wsize);
    memcpy(j->sum + (size_t)at * j->wsize, sum, (size_t)n * j->wsize);
    for (int64_t i = 0; i < n; i++)
        if (isnan(number_at(j, sum, i)))
            fill_lanes(j, tops + (size_t)i * j->wsize, NAN, 1);
}

/* Sinks begin a row's sum. */
static void begin_rows(const struct attention_job *j, char *top, char *sum, int64_t b, int64_t h, int64_t r, int64_t n)
{
    fill_lanes(j, top, lowest(j), j->width);
    fill_lanes(j, sum, 0, j->width);
    for (int64_t c = 0; j->p.sinks && c < n; c++) {
        const char *p = head_of(j->p.sinks, 1, b, h + (r + c) / j->p.length);
        double s, m;
        cpu->cast[j->t][DT_float64](&s, p, 1);
        m = s > lowest(j) ? s : lowest(j);
        fill_lanes(j, top + (size_t)c * j->wsize, m, 1);
        fill_lanes(j, sum + (size_t)c * j->wsize, exp(s - m), 1);
    }
}

static int64_t rows_of(const struct attention_job *j) { return j->fold * j->p.length; }
static int64_t panels_of(const struct attention_job *j) { return ceil_div(rows_of(j), j->width); }

/* Of queries: numbers, or pairs up to a whole chunk of them. */
static size_t query_bytes(const struct attention_job *j) { return attention_panel_bytes(j, j->p.d + 64); }

static size_t forward_bytes(const struct attention_job *j)
{
    return 4096 + loaded_bytes(j) + mask_bytes(j) + query_bytes(j) + attention_panel_bytes(j, LONGEST) +
           3 * attention_panel_bytes(j, j->p.e) + 3 * attention_panel_bytes(j, 1);
}

/* Scores of m keys of a block, and what they add to the outputs, whose weights are rounded. */
static void score_halves(const struct attention_job *j, char *s, const uint32_t *k, const char *q, int64_t m)
{
    const struct gemm_kernel *g = j->halves;
    int64_t steps = gemm_steps(g, j->p.d);
    g->tile(s, j->width, k, g->mr * steps, q, 0, m, j->width, steps, false);
    if (j->p.a->scale != 1)
        j->g->axpby(s, s, j->p.a->scale, NULL, 0, m * j->width);
}
static void add_halves(const struct attention_job *j, char *o, const uint32_t *v, const char *s, int64_t m,
                       int64_t whole, char *space)
{
    const struct gemm_kernel *g = j->halves;
    int64_t steps = gemm_steps(g, m);
    cpu->attention->pairs((uint32_t *)space, (const float *)s, (size_t)m, (size_t)steps);
    g->tile(o, j->width, v, g->mr * gemm_steps(g, whole), space, 0, j->p.e, j->width, steps, true);
}

/* A panel of queries for these, as they are. */
static void pack_queries(const struct attention_job *j, char *panel, int64_t b, int64_t h, int64_t r, int64_t n,
                         char *space)
{
    const struct gemm_kernel *g = j->halves;
    size_t row = (size_t)j->p.d * j->size;
    for (int64_t i = 0; i < n; i++) memcpy(space + (size_t)i * row, listed_row(j, j->p.q, 3, b, h, r + i), row);
    gemm_pack(g, false, panel, 0, space, j->p.d, 1, n, j->p.d);
}

/* One panel of queries, of the heads that one list of rows is made of. */
static void forward_panel(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    const struct gemm_kernel *g = j->g;
    int64_t lists = j->p.heads / j->fold / j->p.kv, list = i / panels_of(j);
    int64_t unit = j->first + list / lists, b = unit / j->p.kv;
    int64_t h = unit % j->p.kv * j->p.group + list % lists * j->fold;
    int64_t r = i % panels_of(j) * j->width, n = least(j->width, rows_of(j) - r);
    char *rows = take_space(&space, loaded_bytes(j)), *tile = take_space(&space, mask_bytes(j));
    char *q = take_space(&space, query_bytes(j)), *s = take_space(&space, attention_panel_bytes(j, LONGEST));
    char *o = take_space(&space, attention_panel_bytes(j, j->p.e)),
         *top = take_space(&space, attention_panel_bytes(j, 1));
    char *sum = take_space(&space, attention_panel_bytes(j, 1)),
         *fade = take_space(&space, attention_panel_bytes(j, 1));
    char *spare = take_space(&space, 2 * attention_panel_bytes(j, j->p.e));
    const char *k = packed_of(j, unit), *v = k + (size_t)panels(j, j->p.keys, j->p.d) * j->wsize;
    int64_t t0 = r % j->p.length, t1 = t0 + n - 1, off = j->p.keys - j->p.length;
    if (t1 >= j->p.length) {
        t0 = 0;
        t1 = j->p.length - 1;
    }
    int64_t limit = seen_by(j, t0, t1), unseen = first_unseen(j, t0), step = j->halves ? block_of_halves(j) : BLOCK;
    bool wild = !j->halves && has_wild(j, j->p.v, b, unit % j->p.kv, unseen, limit, j->p.e);
    if (j->halves)
        pack_queries(j, q, b, h, r, n, rows);
    else
        pack_panel(j, q, j->p.q, 3, b, h, r, n, j->p.d, j->p.a->scale, rows);
    begin_rows(j, top, sum, b, h, r, n);
    memset(o, 0, attention_panel_bytes(j, j->p.e));
    for (int64_t key = 0; key < limit; key += step) {
        int64_t m = least(step, limit - key), whole = least(step, j->p.keys - key);
        if (j->halves)
            score_halves(j, s, packed_halves(j, packed_of(j, unit), key / step, false), q, m);
        else
            g->tile(s, j->width, k + (size_t)(key * j->p.d) * j->wsize, g->mr * j->p.d, q, 0, m, j->width, j->p.d,
                    false);
        if (j->p.mask || (j->p.a->causal && key + m > t0 + off + 1))
            mask_panel(j, s, tile, m, key, b, h, r, n);
        cpu->attention->attend[j->work](s, (size_t)m, top, sum, fade);
        if (key)
            cpu->attention->scale[j->work](o, (size_t)j->p.e, fade);
        const char *values = v + (size_t)turned_panels(j, key, j->p.e) * j->wsize;
        if (j->halves)
            add_halves(j, o, packed_halves(j, packed_of(j, unit), key / step, true), s, m, whole, rows);
        else if (wild && key + m > unseen)
            add_seen(j, o, j->p.e, values, g->mr * whole, s, r, n, key, m, spare);
        else
            g->tile(o, j->width, values, g->mr * whole, s, 0, j->p.e, j->width, m, true);
    }
    for (int64_t c = 0; c < j->width; c++) /* the reciprocals */
        if (j->work == DT_float64)
            ((double *)fade)[c] = 1 / ((double *)sum)[c];
        else
            ((float *)fade)[c] = 1 / ((float *)sum)[c];
    cpu->attention->scale[j->work](o, (size_t)j->p.e, fade);
    int64_t at = (b * j->p.heads + h) * j->p.length + r;
    put_panel(j, j->y + (size_t)(at * j->p.e) * j->size, o, n, j->p.e, rows);
    keep_rows(j, at, top, sum, n);
}

/* Packs heads of keys, as many as there is room for, and works on them, until all are done. */
static int over_units(struct attention_job *j, int64_t pack_jobs, job_fn *packing, int64_t jobs[2], job_fn *working[2])
{
    int64_t all = j->p.batch * j->p.kv, some = ROOM / j->unit_bytes;
    some = some < 1 ? 1 : least(some, all);
    size_t packed = to_lines((size_t)(some * j->unit_bytes));
    j->bytes = to_lines(j->bytes);
    struct buffer *room = buffer_new(packed + (size_t)pool_threads() * j->bytes);
    if (!room)
        return 1;
    j->packed = room->host;
    j->space = j->packed + packed;
    for (j->first = 0; j->first < all; j->first += some) {
        j->units = least(some, all - j->first);
        crew_for(j->units * pack_jobs, pool_threads(), j->space, j->bytes, packing, j);
        for (int i = 0; i < 2 && working[i]; i++)
            crew_for(j->units * jobs[i], pool_threads(), j->space, j->bytes, working[i], j);
    }
    buffer_release(room);
    return 0;
}

/* Are values of which one may have to be left out all finite? */
static bool is_tame(const struct attention_job *j)
{
    bool tame = true;
    for (int64_t unit = 0; unit < j->p.batch * j->p.kv && tame; unit++)
        tame = !has_wild(j, j->p.v, unit / j->p.kv, unit % j->p.kv, first_unseen(j, 0), j->p.keys, j->p.e);
    return tame;
}

static int forward(struct attention_job *j)
{
    int64_t lists = j->p.heads / j->fold / j->p.kv;
    enum gemm_type type = j->t == DT_bfloat16 ? bf16_gemm() : GEMM_f32;
    if (type != GEMM_f32 && cpu->gemm->type[type].nr == j->width && is_tame(j)) {
        j->halves = &cpu->gemm->type[type];
        j->unit_bytes = blocks_of_halves(j) * (key_pairs(j) + value_pairs(j)) * (int64_t)sizeof(uint32_t);
        j->bytes = forward_bytes(j);
        return over_units(j, blocks_of_halves(j), pack_halves, (int64_t[]){ lists * panels_of(j), 0 },
                          (job_fn *[]){ forward_panel, NULL });
    }
    j->unit_bytes = (panels(j, j->p.keys, j->p.d) + turned_panels(j, j->p.keys, j->p.e) + 32) * (int64_t)j->wsize;
    j->bytes = forward_bytes(j);
    return over_units(j, blocks(j->p.keys), pack_keys, (int64_t[]){ lists * panels_of(j), 0 },
                      (job_fn *[]){ forward_panel, NULL });
}

/* ---- forward, few queries: K and V in place, by pieces whose results are merged */

/* Of a piece: FEW_QUERIES rows of outputs, then maxima, then sums. */
static int64_t piece_size(const struct attention_job *j) { return FEW_QUERIES * (j->p.e + 2); }
static int64_t pieces(const struct attention_job *j) { return ceil_div(j->p.keys, PIECE); }

static void ask_for(const char *x, int64_t stride, int64_t rows, int64_t width, size_t size)
{
    for (int64_t i = 0; i < rows; i++, x += stride * (int64_t)size)
        for (int64_t at = 0; at < width * (int64_t)size; at += 64) __builtin_prefetch(x + at);
}

static void forward_piece(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    int64_t unit = i / pieces(j), key = i % pieces(j) * PIECE, m = least(PIECE, j->p.keys - key);
    int64_t b = unit / j->p.kv, group = j->p.group, h = unit % j->p.kv * group;
    int64_t n = rows_of(j);
    size_t w = j->wsize;
    char *q = take_space(&space, (size_t)(FEW_QUERIES * j->p.d) * w), *s = take_space(&space, FEW_QUERIES * PIECE * w);
    char *tile = take_space(&space, FEW_QUERIES * PIECE * 8);
    char *o = j->packed + (size_t)(i * piece_size(j)) * w, *top = o + (size_t)(FEW_QUERIES * j->p.e) * w,
         *sum = top + FEW_QUERIES * w;
    gemv_fn *gemv = cpu->gemm->gemv[j->t];
    for (int64_t r = 0; r < n; r++)
        load_straight(j, q + (size_t)(r * j->p.d) * w, listed_row(j, j->p.q, 3, b, h, r), 0, 1, j->p.d);
    j->g->axpby(q, q, j->p.a->scale, NULL, 0, n * j->p.d);
    const char *k = head_of(j->p.k, 3, b, unit % j->p.kv) + key * row_stride(j->p.k) * (int64_t)j->size;
    const char *v = head_of(j->p.v, 3, b, unit % j->p.kv) + key * row_stride(j->p.v) * (int64_t)j->size;
    /* Short rows with gaps between them some processors do not foresee: K is then asked for a little ahead.  Not V
     * too: that takes as long as reading it in its turn, and K waits for it. */
    bool gaps = row_stride(j->p.k) != j->p.d;
    if (gaps)
        ask_for(k, row_stride(j->p.k), least(AHEAD, m), j->p.d, j->size);
    for (int64_t i0 = 0; i0 < m; i0 += AHEAD) {
        int64_t some = least(AHEAD, m - i0), next = i0 + AHEAD;
        if (gaps && next < m)
            ask_for(k + next * row_stride(j->p.k) * (int64_t)j->size, row_stride(j->p.k), least(AHEAD, m - next),
                    j->p.d, j->size);
        for (int64_t r = 0; r < n; r += GEMV_VECTORS)
            gemv(s + (size_t)(r * PIECE + i0) * w, 1, PIECE, k + i0 * row_stride(j->p.k) * (int64_t)j->size,
                 row_stride(j->p.k), 1, q + (size_t)(r * j->p.d) * w, j->p.d, (int)least(GEMV_VECTORS, n - r), some,
                 j->p.d, false);
    }
    for (int64_t r = 0; r < n; r++) {
        char *row = s + (size_t)(r * PIECE) * w;
        int64_t t = r % j->p.length, seen = t + j->p.keys - j->p.length + 1 - key;
        seen = seen < 0 ? 0 : seen;
        if (j->p.a->causal && seen < m)
            fill_lanes(j, row + (size_t)seen * w, lowest(j), m - seen);
        if (j->p.mask) {
            size_t size = itemsize(j->p.mask);
            int64_t sk = j->p.mask->strides[j->p.mask->ndim - 1];
            const char *p =
                head_of(j->p.mask, 3, b, h + r / j->p.length) + (t * row_stride(j->p.mask) + key * sk) * (int64_t)size;
            mask_tile(tile, m, p, 1, sk, 1, m, size);
            apply_mask(j, row, tile, m);
        }
        union fold_acc most = { .f = lowest(j) }, total = { .f = 0 };
        cpu->reduce->row[REDUCE_MAX][j->work](&most, row, (size_t)m);
        fill_lanes(j, top + (size_t)r * w, most.f, 1);
        cpu->binary[BINARY_subtract][j->work](row, row, 1, top + (size_t)r * w, 0, (size_t)m);
        cpu->unary[UNARY_exp][j->work](row, row, (size_t)m);
        cpu->reduce->row[REDUCE_SUM][j->work](&total, row, (size_t)m);
        fill_lanes(j, sum + (size_t)r * w, total.f, 1);
    }
    int64_t unseen = first_unseen(j, 0);
    bool wild = has_wild(j, j->p.v, b, unit % j->p.kv, greatest(unseen, key), key + m, j->p.e);
    for (int64_t r = 0, some; r < n; r += some) {
        some = wild ? 1 : least(GEMV_VECTORS, n - r);
        int64_t seen = wild ? seen_of(j, r % j->p.length, key, m) : m;
        if (seen)
            gemv(o + (size_t)(r * j->p.e) * w, 1, j->p.e, v, 1, row_stride(j->p.v), s + (size_t)(r * PIECE) * w, PIECE,
                 (int)some, j->p.e, seen, false);
        else
            memset(o + (size_t)(r * j->p.e) * w, 0, (size_t)j->p.e * w);
    }
}

static void add_faded(const struct attention_job *j, double *y, const char *first, int64_t at, double fade)
{
    const double *d = (const double *)first + at;
    const float *f = (const float *)first + at;
    if (j->work == DT_float64)
        for (int64_t c = 0; c < j->p.e; c++) y[c] += fade * d[c];
    else
        for (int64_t c = 0; c < j->p.e; c++) y[c] += fade * (double)f[c];
}

/* A row of a unit from its pieces, in double; i counts the rows of all units. */
static void merge_row(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    const int64_t unit = i / rows_of(j), r = i % rows_of(j);
    double *y = (double *)(void *)space;
    int64_t b = unit / j->p.kv, group = j->p.group, h = unit % j->p.kv * group + r / j->p.length;
    int64_t count = pieces(j), at = (b * j->p.heads + h) * j->p.length + r % j->p.length;
    const char *first = j->packed + (size_t)(unit * count * piece_size(j)) * j->wsize;
    double top = lowest(j), sum = 0, sink = 0;
    for (int64_t p = 0; p < count; p++) {
        double m = number_at(j, first, p * piece_size(j) + FEW_QUERIES * j->p.e + r);
        top = m > top || m != m ? m : top;
    }
    if (j->p.sinks) {
        cpu->cast[j->t][DT_float64](&sink, head_of(j->p.sinks, 1, b, h), 1);
        top = sink > top ? sink : top;
        sum = exp(sink - top);
    }
    for (int64_t c = 0; c < j->p.e; c++) y[c] = 0;
    for (int64_t p = 0; p < count; p++) {
        int64_t o = p * piece_size(j);
        double fade = exp(number_at(j, first, o + FEW_QUERIES * j->p.e + r) - top);
        sum += fade * number_at(j, first, o + FEW_QUERIES * j->p.e + FEW_QUERIES + r);
        add_faded(j, y, first, o + r * j->p.e, fade);
    }
    for (int64_t c = 0; c < j->p.e; c++) y[c] /= sum;
    cpu->cast[DT_float64][j->t](j->y + (size_t)(at * j->p.e) * j->size, y, (size_t)j->p.e);
    fill_lanes(j, j->top + (size_t)at * j->wsize, top, 1);
    fill_lanes(j, j->sum + (size_t)at * j->wsize, sum, 1);
}

static int forward_few(struct attention_job *j)
{
    int64_t units = j->p.batch * j->p.kv, count = units * pieces(j), rows = units * rows_of(j);
    int64_t merging = least(ceil_div(rows * pieces(j) * j->p.e, WORTH_MOVED), pool_threads());
    j->bytes = (size_t)(FEW_QUERIES * (j->p.d + j->p.e)) * 8 + FEW_QUERIES * PIECE * 16 + 16 * PIECE * 8 + 4096;
    j->packed = mx_malloc((size_t)(count * piece_size(j)) * j->wsize + 64);
    j->space = j->packed ? mx_malloc((size_t)pool_threads() * j->bytes) : NULL;
    bool failed = !j->space;
    if (!failed) {
        crew_for(count, pool_threads(), j->space, j->bytes, forward_piece, j);
        crew_for(rows, (int)greatest(merging, 1), j->space, j->bytes, merge_row, j);
    }
    free(j->space);
    free(j->packed);
    return failed;
}

/* ---- backward
 *
 * With S the scores, P the weights and dP = dY V^T:  dS = P (dP - delta),  dQ = scale dS K,
 * dK = scale dS^T Q,  dV = P^T dY.  One pass over panels of keys makes all three: dK and dV of a panel, and for a
 * chunk of panels its part of dQ; the parts are added in their order.  Where there are few scores, or no room for such
 * parts, one over panels of queries makes dQ, one over panels of keys dK and dV, each from scores of its own. */

/* Packed for a unit: K, V and K turned; then Q, dY and both turned for each head of the group; then parts of dQ. */
struct packed_unit {
    char *k, *v, *turned_k;
    char *q, *ct, *turned_q, *turned_ct; /* of head 0 of the group */
    size_t head;                         /* from head to head */
    char *parts;
};
static struct packed_unit unit_at(const struct attention_job *j, int64_t unit)
{
    struct packed_unit p;
    size_t w = j->wsize;
    p.k = packed_of(j, unit);
    p.v = p.k + (size_t)panels(j, j->p.keys, j->p.d) * w;
    p.turned_k = p.v + (size_t)panels(j, j->p.keys, j->p.e) * w;
    p.q = p.turned_k + (size_t)turned_panels(j, j->p.keys, j->p.d) * w;
    p.ct = p.q + (size_t)panels(j, j->p.length, j->p.d) * w;
    p.turned_q = p.ct + (size_t)panels(j, j->p.length, j->p.e) * w;
    p.turned_ct = p.turned_q + (size_t)turned_panels(j, j->p.length, j->p.d) * w;
    char *end = p.turned_ct + (size_t)turned_panels(j, j->p.length, j->p.e) * w;
    p.head = (size_t)(end - p.q);
    p.parts = p.q + (size_t)j->p.group * p.head;
    return p;
}

/* Elements of a row of a part of dQ: whole vectors; the part that a chunk has of a head. */
static int64_t part_row(const struct attention_job *j) { return ceil_div(j->p.d, 16) * 16; }
static int64_t part_size(const struct attention_job *j) { return j->p.length * part_row(j); }
static char *part_of(const struct attention_job *j, int64_t unit, int64_t chunk, int64_t head)
{
    return unit_at(j, unit).parts + (size_t)((chunk * j->p.group + head) * part_size(j)) * j->wsize;
}

static void pack_all(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    int64_t group = j->p.group, nk = blocks(j->p.keys), nq = blocks(j->p.length);
    int64_t each = nk + group * nq, unit = j->first + i / each, block = i % each;
    int64_t b = unit / j->p.kv, h = unit % j->p.kv;
    struct packed_unit p = unit_at(j, unit);
    if (block < nk) {
        pack_block(j, p.k, p.turned_k, head_of(j->p.k, 3, b, h), row_stride(j->p.k), j->p.keys, j->p.d, block, space);
        pack_block(j, p.v, NULL, head_of(j->p.v, 3, b, h), row_stride(j->p.v), j->p.keys, j->p.e, block, space);
        return;
    }
    int64_t head = (block - nk) / nq;
    size_t at = (size_t)head * p.head;
    block = (block - nk) % nq;
    h = h * group + head;
    pack_block(j, p.q + at, p.turned_q + at, head_of(j->p.q, 3, b, h), row_stride(j->p.q), j->p.length, j->p.d, block,
               space);
    pack_block(j, p.ct + at, p.turned_ct + at, head_of(j->ct, 3, b, h), row_stride(j->ct), j->p.length, j->p.e, block,
               space);
}

/* Of a panel of keys as what dS is multiplied with. */
static size_t turned_keys_bytes(const struct attention_job *j)
{
    return (size_t)(ceil_div(j->p.d, j->width) * j->width * j->width) * j->wsize;
}

static size_t backward_bytes(const struct attention_job *j)
{
    size_t of_d = attention_panel_bytes(j, j->p.d), of_e = attention_panel_bytes(j, j->p.e);
    return 8192 + loaded_bytes(j) + mask_bytes(j) + 2 * of_d + of_e + (2 + TOGETHER) * attention_panel_bytes(j, BLOCK) +
           3 * attention_panel_bytes(j, 1) + 3 * of_d + TOGETHER * (2 * of_d + 2 * of_e + turned_keys_bytes(j));
}

/* BLOCK rows of queries. */
static void delta_block(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    size_t w = j->wsize;
    char *y = take_space(&space, (size_t)j->p.e * w), *ct = take_space(&space, (size_t)j->p.e * w);
    int64_t end = least((i + 1) * BLOCK, j->p.batch * j->p.heads * j->p.length);
    for (int64_t row = i * BLOCK; row < end; row++) {
        int64_t h = row / j->p.length, t = row % j->p.length;
        const char *from = head_of(j->ct, 3, h / j->p.heads, h % j->p.heads);
        union fold_acc total = { .f = 0 };
        load_straight(j, y, j->y + (size_t)(row * j->p.e) * j->size, 0, 1, j->p.e);
        load_straight(j, ct, from + t * row_stride(j->ct) * (int64_t)j->size, 0, 1, j->p.e);
        cpu->binary[BINARY_multiply][j->work](y, y, 1, ct, 1, (size_t)j->p.e);
        cpu->reduce->row[REDUCE_SUM][j->work](&total, y, (size_t)j->p.e);
        fill_lanes(j, j->delta + (size_t)row * w, total.f, 1);
    }
}

/* Of all rows; `room`: for so many numbers, then for threads. */
static void make_deltas(struct attention_job *j, char *room, size_t numbers, size_t each)
{
    int64_t rows = j->p.batch * j->p.heads * j->p.length;
    j->delta = room;
    crew_for(ceil_div(rows, BLOCK), pool_threads(), room + numbers, each, delta_block, j);
}

static void query_panel(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    const struct gemm_kernel *g = j->g;
    int64_t group = j->p.group, count = ceil_div(j->p.length, j->width);
    int64_t unit = j->first + i / count / group, b = unit / j->p.kv;
    int64_t h = unit % j->p.kv * group + i / count % group;
    int64_t r = i % count * j->width, n = least(j->width, j->p.length - r);
    struct packed_unit p = unit_at(j, unit);
    char *rows = take_space(&space, loaded_bytes(j)), *tile = take_space(&space, mask_bytes(j));
    char *q = take_space(&space, attention_panel_bytes(j, j->p.d)),
         *ct = take_space(&space, attention_panel_bytes(j, j->p.e));
    char *s = take_space(&space, attention_panel_bytes(j, BLOCK)),
         *ds = take_space(&space, attention_panel_bytes(j, BLOCK));
    char *dq = take_space(&space, attention_panel_bytes(j, j->p.d)),
         *top = take_space(&space, attention_panel_bytes(j, 1));
    char *sum = take_space(&space, attention_panel_bytes(j, 1)),
         *delta = take_space(&space, attention_panel_bytes(j, 1));
    char *spare = take_space(&space, 2 * attention_panel_bytes(j, j->p.d));
    size_t at = (size_t)((b * j->p.heads + h) * j->p.length + r), w = j->wsize;
    fill_lanes(j, top, 0, j->width);
    fill_lanes(j, sum, 1, j->width);
    fill_lanes(j, delta, 0, j->width);
    memcpy(top, j->top + at * w, (size_t)n * w);
    memcpy(sum, j->sum + at * w, (size_t)n * w);
    memcpy(delta, j->delta + at * w, (size_t)n * w);
    pack_panel(j, q, j->p.q, 3, b, h, r, n, j->p.d, j->p.a->scale, rows);
    pack_panel(j, ct, j->ct, 3, b, h, r, n, j->p.e, 1, rows);
    memset(dq, 0, attention_panel_bytes(j, j->p.d));
    int64_t limit = seen_by(j, r, r + n - 1), off = j->p.keys - j->p.length, unseen = first_unseen(j, r);
    bool wild = has_wild(j, j->p.k, b, unit % j->p.kv, unseen, limit, j->p.d);
    for (int64_t key = 0; key < limit; key += BLOCK) {
        int64_t m = least(BLOCK, limit - key), whole = least(BLOCK, j->p.keys - key);
        g->tile(s, j->width, p.k + (size_t)(key * j->p.d) * w, g->mr * j->p.d, q, 0, m, j->width, j->p.d, false);
        if (j->p.mask || (j->p.a->causal && key + m > r + off + 1))
            mask_panel(j, s, tile, m, key, b, h, r, n);
        g->tile(ds, j->width, p.v + (size_t)(key * j->p.e) * w, g->mr * j->p.e, ct, 0, m, j->width, j->p.e, false);
        cpu->attention->slope[j->work](s, ds, (size_t)m, top, sum, delta, false);
        const char *turned = p.turned_k + (size_t)turned_panels(j, key, j->p.d) * w;
        if (wild && key + m > unseen)
            add_seen(j, dq, j->p.d, turned, g->mr * whole, ds, r, n, key, m, spare);
        else
            g->tile(dq, j->width, turned, g->mr * whole, ds, 0, j->p.d, j->width, m, true);
    }
    g->axpby(dq, dq, j->p.a->scale, NULL, 0, j->p.d * j->width);
    put_panel(j, j->dq + at * (size_t)j->p.d * j->size, dq, n, j->p.d, rows);
}

/* How many of n queries from t on are left out for keys from `key` on, which they do not see: whole panels of them, and
 * none where some see no key at all and have to do with all. */
static int64_t without(const struct attention_job *j, int64_t t, int64_t n, int64_t key)
{
    int64_t off = j->p.keys - j->p.length, first = key - off - t;
    if (!j->p.a->causal || t + off < 0 || first <= 0)
        return 0;
    return first >= n ? n : first / j->g->mr * j->g->mr;
}

/* y += A, panels `step` apart, times a panel of the weights, of keys from `key` on, of m queries from t on whose tops
 * these are, each for the keys that it sees; `spare`: space for a panel like y. */
static void add_by_queries(const struct attention_job *j, char *y, int64_t rows, const char *a, int64_t step,
                           const char *weights, const char *top, int64_t t, int64_t m, int64_t key, char *spare)
{
    size_t w = j->wsize;
    for (int64_t i = 0; i < m; i++) {
        int64_t seen = t + i + j->p.keys - j->p.length + 1;
        bool all = seen < 1 || number_at(j, top, i) <= lowest(j); /* none, and then all have one weight */
        int64_t n = all ? j->width : least(seen > key ? seen - key : 0, j->width);
        if (!n)
            continue;
        memcpy(spare, y, attention_panel_bytes(j, rows));
        j->g->tile(spare, j->width, a + (size_t)(i * j->g->mr) * w, step, weights + (size_t)(i * j->width) * w, 0, rows,
                   j->width, 1, true);
        for (int64_t r = 0; r < rows; r++)
            memcpy(y + (size_t)(r * j->width) * w, spare + (size_t)(r * j->width) * w, (size_t)n * w);
    }
}

/* dS of a panel of n keys, m rows from `from` on, becomes columns from `at` on of panels of rows, as a product takes
 * them; rows before, which it does not have, are zeros there. */
static void turn_slopes(const struct attention_job *j, char *turned, int64_t step, const char *ds, int64_t from,
                        int64_t m, int64_t at, int64_t n)
{
    const struct gemm_kernel *g = j->g;
    turned += (size_t)(at * g->mr) * j->wsize;
    for (int64_t i = 0; i < from; i += g->mr, turned += (size_t)step * j->wsize)
        memset(turned, 0, (size_t)(g->mr * n) * j->wsize);
    g->pack(turned, step, g->mr, ds, j->width, 1, m, n);
}

/* A part of dQ, of m queries from t on, += dS K, of n keys from `key` on, from panels; each query with what it sees if
 * some of the keys are wild. */
static void add_to_queries(const struct attention_job *j, char *dq, const char *turned, const char *keys, int64_t t,
                           int64_t m, int64_t key, int64_t n, bool wild)
{
    const struct gemm_kernel *g = j->g;
    int64_t row = part_row(j), columns = least(row, ceil_div(j->p.d, j->width) * j->width);
    if (!wild) {
        g->tile(dq, row, turned, g->mr * n, keys, j->width * n, m, columns, n, true);
        return;
    }
    for (int64_t i = 0; i < m; i++) {
        int64_t depth = seen_of(j, t + i, key, n);
        if (depth)
            g->tile(dq + (size_t)(i * row) * j->wsize, row,
                    turned + (size_t)(i / g->mr * g->mr * n + i % g->mr) * j->wsize, 0, keys, j->width * n, 1, columns,
                    depth, true);
    }
}

/* A panel of n keys from `key` on, with its part of dK and dV, and dS of some queries. */
struct panel_of_keys {
    int64_t key, n;
    char *k, *v, *dk, *dv, *ds;
};

/* What a panel has from m queries of head h from t on, which is row `skip` of a block: to dK and dV, and dS. */
static void panel_back(const struct attention_job *j, const struct panel_of_keys *y, const struct packed_unit *p,
                       int64_t b, int64_t h, int64_t block, int64_t skip, int64_t m, char *s, char *tile, char *spare)
{
    const struct gemm_kernel *g = j->g;
    int64_t off = j->p.keys - j->p.length, t = block + skip, step = g->mr * least(BLOCK, j->p.length - block);
    size_t w = j->wsize, in = (size_t)(h % j->p.group) * p->head,
           first = (size_t)((b * j->p.heads + h) * j->p.length + t) * w;
    bool some_unseen = j->p.a->causal && y->key + y->n > t + off + 1;
    g->tile(s, j->width, p->q + in + (size_t)(t * j->p.d) * w, g->mr * j->p.d, y->k, 0, m, j->width, j->p.d, false);
    if (j->p.mask || some_unseen)
        mask_rows(j, s, tile, m, t, b, h, y->key, y->n);
    g->tile(y->ds, j->width, p->ct + in + (size_t)(t * j->p.e) * w, g->mr * j->p.e, y->v, 0, m, j->width, j->p.e,
            false);
    cpu->attention->slope[j->work](s, y->ds, (size_t)m, j->top + first, j->sum + first, j->delta + first, true);
    const char *cts = p->turned_ct + in + (size_t)(turned_panels(j, block, j->p.e) + skip * g->mr) * w;
    const char *qs = p->turned_q + in + (size_t)(turned_panels(j, block, j->p.d) + skip * g->mr) * w;
    if (some_unseen && (has_wild(j, j->p.q, b, h, t, t + m, j->p.d) || has_wild(j, j->ct, b, h, t, t + m, j->p.e))) {
        add_by_queries(j, y->dv, j->p.e, cts, step, s, j->top + first, t, m, y->key, spare);
        add_by_queries(j, y->dk, j->p.d, qs, step, y->ds, j->top + first, t, m, y->key, spare);
        return;
    }
    g->tile(y->dv, j->width, cts, step, s, 0, j->p.e, j->width, m, true);
    g->tile(y->dk, j->width, qs, step, y->ds, 0, j->p.d, j->width, m, true);
}

/* dK and dV of n keys from `key` on, at most TOGETHER panels; to dq, if that is not NULL, is added what they give to
 * the queries. */
static void keys_back(struct attention_job *j, int64_t unit, int64_t key, int64_t n, char *dq, char *space)
{
    const struct gemm_kernel *g = j->g;
    int64_t group = j->p.group, b = unit / j->p.kv, kv = unit % j->p.kv, count = ceil_div(n, j->width);
    struct packed_unit p = unit_at(j, unit);
    struct panel_of_keys panel[TOGETHER];
    size_t w = j->wsize, of_d = attention_panel_bytes(j, j->p.d), of_e = attention_panel_bytes(j, j->p.e);
    char *rows = take_space(&space, loaded_bytes(j)), *tile = take_space(&space, mask_bytes(j));
    char *s = take_space(&space, attention_panel_bytes(j, BLOCK)),
         *ds = take_space(&space, attention_panel_bytes(j, BLOCK));
    char *spare = take_space(&space, of_d > of_e ? of_d : of_e);
    char *turned = take_space(&space, TOGETHER * attention_panel_bytes(j, BLOCK) + 64);
    char *keys = take_space(&space, TOGETHER * turned_keys_bytes(j));
    for (int64_t i = 0; i < count; i++) {
        struct panel_of_keys *y = &panel[i];
        *y = (struct panel_of_keys){ key + i * j->width, least(j->width, n - i * j->width), .ds = ds };
        y->k = take_space(&space, of_d);
        y->v = take_space(&space, of_e);
        y->dk = take_space(&space, of_d);
        y->dv = take_space(&space, of_e);
        pack_panel(j, y->k, j->p.k, 3, b, kv, y->key, y->n, j->p.d, j->p.a->scale, rows);
        if (dq)
            g->pack(keys + (size_t)(i * j->width * j->width) * w, j->width * n, (int)j->width, rows, 1, j->p.d, j->p.d,
                    y->n);
        pack_panel(j, y->v, j->p.v, 3, b, kv, y->key, y->n, j->p.e, 1, rows);
        memset(y->dk, 0, of_d);
        memset(y->dv, 0, of_e);
    }
    for (int64_t head = 0; head < group; head++)
        for (int64_t block = 0; block < j->p.length; block += BLOCK) {
            int64_t whole = least(BLOCK, j->p.length - block), first = without(j, block, whole, key);
            int64_t t = block + first, m = whole - first, step = g->mr * n;
            for (int64_t i = 0; i < count && m; i++) {
                const struct panel_of_keys *y = &panel[i];
                int64_t skip = without(j, block, whole, y->key);
                if (skip < whole)
                    panel_back(j, y, &p, b, kv * group + head, block, skip, whole - skip, s, tile, spare);
                if (dq)
                    turn_slopes(j, turned, step, ds, least(skip, whole) - first, whole - skip, i * j->width, y->n);
            }
            if (dq && m)
                add_to_queries(j, dq + (size_t)(head * part_size(j) + t * part_row(j)) * w, turned, keys, t, m, key, n,
                               first_unseen(j, t) < key + n && has_wild(j, j->p.k, b, kv, key, key + n, j->p.d));
        }
    for (int64_t i = 0; i < count; i++) {
        const struct panel_of_keys *y = &panel[i];
        size_t at = (size_t)((b * j->p.kv + kv) * j->p.keys + y->key);
        g->axpby(y->dk, y->dk, j->p.a->scale, NULL, 0, j->p.d * j->width);
        put_panel(j, j->dk + at * (size_t)j->p.d * j->size, y->dk, y->n, j->p.d, rows);
        put_panel(j, j->dv + at * (size_t)j->p.e * j->size, y->dv, y->n, j->p.e, rows);
    }
}

static void key_panel(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    int64_t count = ceil_div(j->p.keys, j->width);
    int64_t key = i % count * j->width;
    keys_back(j, j->first + i / count, key, least(j->width, j->p.keys - key), NULL, space);
}

static void key_chunk(void *job, int64_t i, char *space)
{
    struct attention_job *j = job;
    int64_t unit = j->first + i / j->chunks, chunk = i % j->chunks, step = j->each * j->width;
    char *dq = part_of(j, unit, chunk, 0);
    memset(dq, 0, (size_t)(j->p.group * part_size(j)) * j->wsize);
    int64_t end = least((chunk + 1) * step, j->p.keys);
    for (int64_t key = chunk * step, n; key < end; key += n) {
        n = least(TOGETHER * j->width, end - key);
        keys_back(j, unit, key, n, dq, space);
    }
}

/* The parts of a block of queries of a head are added to the first, which goes to dq. */
static void add_parts(void *job, int64_t i, char *space)
{
    (void)space;
    struct attention_job *j = job;
    int64_t n = blocks(j->p.length), unit = j->first + i / n / j->p.group, head = i / n % j->p.group;
    int64_t t = i % n * BLOCK, m = least(BLOCK, j->p.length - t), row = part_row(j);
    size_t at = (size_t)(t * row) * j->wsize;
    char *sum = part_of(j, unit, 0, head) + at;
    for (int64_t c = 1; c < j->chunks; c++) j->g->add(sum, part_of(j, unit, c, head) + at, m * row);
    char *to = j->dq + (size_t)(((unit * j->p.group + head) * j->p.length + t) * j->p.d) * j->size;
    for (int64_t r = 0; r < m; r++, to += (size_t)j->p.d * j->size, sum += (size_t)row * j->wsize)
        if (j->work == j->t)
            memcpy(to, sum, (size_t)j->p.d * j->size);
        else
            cpu->cast[j->work][j->t](to, sum, (size_t)j->p.d);
}

/* Chunks of keys, by the shape alone: enough of those that are under way together for many threads, and none where
 * their parts of dQ need much room or there are few scores. */
static void cut_keys(struct attention_job *j)
{
    enum { ENOUGH = 64, LEAST = TOGETHER /* panels */, FEW_SCORES = 1 << 12 };
    int64_t panels = ceil_div(j->p.keys, j->width), all = j->p.batch * j->p.kv, some = ROOM / j->unit_bytes;
    some = some < 1 ? 1 : least(some, all);
    int64_t bytes = j->p.group * part_size(j) * (int64_t)j->wsize;
    j->each = greatest(LEAST, panels / ceil_div(ENOUGH, some));
    j->chunks = ceil_div(panels, j->each);
    if (!j->p.d || j->p.length * j->p.keys <= FEW_SCORES || j->chunks > ROOM / (bytes + 1))
        j->chunks = 0;
    j->unit_bytes += j->chunks * bytes;
}

/* A sink's weight is exp(sink - top) / sum, and nothing is behind it; without keys results are 0 whatever it is. */
static void sink_slopes(const struct attention_job *j, char *dsinks)
{
    for (int64_t i = 0; i < j->p.batch * j->p.heads; i++) {
        double s, total = 0;
        cpu->cast[j->t][DT_float64](&s, head_of(j->p.sinks, 1, i / j->p.heads, i % j->p.heads), 1);
        for (int64_t t = i * j->p.length; t < (i + 1) * j->p.length && j->p.keys; t++)
            total -= exp(s - number_at(j, j->top, t)) / number_at(j, j->sum, t) * number_at(j, j->delta, t);
        cpu->cast[DT_float64][j->t](dsinks + (size_t)i * j->size, &total, 1);
    }
}

static int backward(struct attention_job *j)
{
    int64_t group = j->p.group, w = (int64_t)j->wsize;
    j->unit_bytes = w * (2 * panels(j, j->p.keys, j->p.d) + panels(j, j->p.keys, j->p.e) + 64 +
                         turned_panels(j, j->p.keys, j->p.d) +
                         group * (panels(j, j->p.length, j->p.d) + panels(j, j->p.length, j->p.e) +
                                  turned_panels(j, j->p.length, j->p.d) + turned_panels(j, j->p.length, j->p.e)));
    j->bytes = backward_bytes(j);
    cut_keys(j);
    if (j->chunks)
        return over_units(j, blocks(j->p.keys) + group * blocks(j->p.length), pack_all,
                          (int64_t[]){ j->chunks, group * blocks(j->p.length) }, (job_fn *[]){ key_chunk, add_parts });
    int64_t jobs[] = { group * ceil_div(j->p.length, j->width), ceil_div(j->p.keys, j->width) };
    return over_units(j, blocks(j->p.keys) + group * blocks(j->p.length), pack_all, jobs,
                      (job_fn *[]){ query_panel, key_panel });
}

/* ---- nodes */

/* x where its rows have no gaps, else a copy. */
static mx gapless(mx x, mx_own *hold) { return attention_gapless(x) ? x : row_major(x, hold); }

static int prepare(struct attention_job *j, const struct run *r, mx_own hold[3])
{
    *j = (struct attention_job){ 0 };
    attention_plan_of(&j->p, r->args, r->x);
    j->t = j->p.q->dtype;
    j->work = j->t == DT_float64 ? DT_float64 : DT_float32;
    j->size = itemsize(j->p.q);
    j->wsize = dtype_size(j->work);
    j->g = &cpu->gemm->type[j->work == DT_float64 ? GEMM_f64 : GEMM_f32];
    j->width = cpu->attention->width[j->work];
    j->p.q = gapless(j->p.q, &hold[0]);
    j->p.k = gapless(j->p.k, &hold[1]);
    j->p.v = gapless(j->p.v, &hold[2]);
    if (j->width != j->g->nr) {
        mx_fail_as(MX_RUNTIME, "[attention] panels of %d and %d elements do not meet", (int)j->width, j->g->nr);
        return 1;
    }
    return is_nil(j->p.q) || is_nil(j->p.k) || is_nil(j->p.v);
}

static void drop_all(mx_own *hold, int n)
{
    for (int i = 0; i < n; i++) mx_drop(&hold[i]);
}

/* Without keys there is nothing but sinks to look at: zeros, as the sum over none. */
static void no_keys(const struct attention_job *j, mx y)
{
    memset(host(y), 0, (size_t)nbytes(y));
    fill_lanes(j, j->top, lowest(j), j->p.batch * j->p.heads * j->p.length);
    fill_lanes(j, j->sum, 1, j->p.batch * j->p.heads * j->p.length);
}

int run_attention(const struct run *r)
{
    MX_SCOPE(NULL);
    mx_own hold[3] = { { NULL } };
    struct attention_job j;
    bool failed = prepare(&j, r, hold) || out_new(r, 0) || out_new(r, 1) || out_new(r, 2);
    if (!failed) {
        j.y = host(r->y[0]);
        j.top = host(r->y[1]);
        j.sum = host(r->y[2]);
        int64_t group = j.p.group;
        bool few =
            group * j.p.length <= FEW_QUERIES && j.p.d && cpu->gemm->gemv[j.t]; /* no sum of nothing is written */
        j.fold = j.p.length < j.width ? group : 1;
        j.fold = few ? group : j.fold;
        if (!j.p.keys)
            no_keys(&j, r->y[0]);
        else if (r->y[1]->size)
            failed = few ? forward_few(&j) : forward(&j);
    }
    drop_all(hold, 3);
    return failed;
}

int run_attention_vjp(const struct run *r)
{
    MX_SCOPE(NULL);
    mx_own hold[7] = { { NULL } };
    struct attention_job j;
    bool failed = prepare(&j, r, hold);
    int n = 3 + j.p.a->mask + j.p.a->sinks;
    mx kept[3]; /* the result, and two numbers of each row */
    struct buffer *room = NULL;
    if (!failed) {
        j.ct = gapless(r->x[n], &hold[3]);
        failed = is_nil(j.ct);
    }
    for (int i = 0; i < 3 && !failed; i++) failed = is_nil(kept[i] = row_major(r->x[n + 1 + i], &hold[4 + i]));
    for (int i = 0; i < r->nout && !failed; i++) failed = out_new(r, i);
    if (!failed) {
        size_t numbers = to_lines((size_t)kept[1]->size * j.wsize), each = 2 * to_lines((size_t)j.p.e * j.wsize);
        room = buffer_new(numbers + (size_t)pool_threads() * each + 64);
        failed = !room;
        j.y = host(kept[0]);
        if (!failed)
            make_deltas(&j, room->host, numbers, each);
    }
    if (!failed) {
        j.top = host(kept[1]);
        j.sum = host(kept[2]);
        j.dq = host(r->y[0]);
        j.dk = host(r->y[1]);
        j.dv = host(r->y[2]);
        if (j.p.keys && kept[1]->size)
            failed = backward(&j);
        else
            for (int i = 0; i < 3; i++) memset(host(r->y[i]), 0, (size_t)nbytes(r->y[i]));
        if (j.p.sinks && !failed)
            sink_slopes(&j, host(r->y[3]));
    }
    if (room)
        buffer_release(room);
    drop_all(hold, 7);
    return failed;
}
