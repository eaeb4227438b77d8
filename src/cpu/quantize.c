/* quantize.c: packed weights on the CPU: making them, reading them, multiplying with them.
 *
 * A product falls into groups of rows of x that meet the same matrix.  Few rows are multiplied with
 * codes as they are read (kernels/quantize.h), so that memory is read at the packed size; for many,
 * parts of the matrix that fit a cache are made numbers and go through the tiles of kernels/gemm.h.
 * The few rows of x are first laid out as the kernels read the codes, which spares them any shuffling. */
#include "cpu/kernels/quantize.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "cpu/bf16.h"
#include "cpu/crew.h"
#include "cpu/kernels/gemm.h"
#include "cpu/pairs.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "ops/quantize.h"

enum {
    STRIP = 128, /* columns of a product that a thread unpacks at once */
    TILE = 1024,
};

static enum quant_format cpu_format_of(const struct quant_args *a)
{
    switch (a->mode) {
    case MODE_MXFP4:
    case MODE_NVFP4: return QUANT_FP4;
    case MODE_MXFP8: return QUANT_FP8;
    default: return a->bits == 8 ? QUANT_8 : (enum quant_format)(a->bits - 1);
    }
}

static enum quant_scale scale_kind_of(const struct quant_args *a, mx scales)
{
    switch (a->mode) {
    case MODE_MXFP4:
    case MODE_MXFP8: return SCALE_e8m0;
    case MODE_NVFP4: return SCALE_e4m3;
    default: return scales->dtype == DT_float16 ? SCALE_f16 : scales->dtype == DT_bfloat16 ? SCALE_bf16 : SCALE_f32;
    }
}

/* The factor of the scales that a global scale stands for; 1 where there is none. */
static float factor_of(mx global) { return global ? *(float *)host(global) / NVFP4_LARGEST : 1; }

/* ---- quantize */

struct packing {
    const struct quant_args *a;
    enum dtype in, out; /* of the numbers, and of affine scales or of what comes back */
    const char *x;
    char *w, *scales, *biases; /* round trips: y in w */
    float factor;
    bool back;
};

enum { GROUPS = TILE / 16 };

static void make_numbers(const struct packing *p, float *y, const uint32_t *w, const float *s, const float *b,
                         const uint8_t *e, int64_t groups)
{
    const struct quant_args *a = p->a;
    const struct quant_kernel *k = &cpu->quant->format[cpu_format_of(a)];
    struct quant_matrix m = { .w = w,
                              .scales = a->mode ? (const void *)e : s,
                              .biases = b,
                              .scale = scale_kind_of(a, NULL),
                              .group = a->group_size,
                              .columns = groups * a->group_size };
    int lanes = cpu->quant->lanes, block = lanes * k->elements;
    float spread[512];
    for (int64_t i = 0; i < m.columns; i += block) {
        float rest[512];
        bool whole = i + block <= m.columns;
        k->unpack(&m, 0, i / block, 1, spread);
        cpu->transpose[2](whole ? y + i : rest, k->elements, spread, lanes, (size_t)lanes, (size_t)k->elements);
        if (!whole)
            memcpy(y + i, rest, (size_t)(m.columns - i) * sizeof *y);
    }
}

static void pack_groups(void *ctx, int64_t begin, int64_t end)
{
    const struct packing *p = ctx;
    const struct quant_args *a = p->a;
    int64_t size = (int64_t)dtype_size(p->in), out = (int64_t)dtype_size(p->out), some;
    int64_t most = TILE / a->group_size, words = (int64_t)a->group_size * a->bits / 32;
    for (int64_t g = begin; g < end; g += some) {
        float tile[TILE], s[GROUPS], b[GROUPS];
        uint32_t room[TILE / 4];
        uint8_t e[GROUPS];
        some = least(end - g, most);
        cpu->cast[p->in][DT_float32](tile, p->x + g * a->group_size * size, (size_t)(some * a->group_size));
        uint32_t *w = p->back ? room : (uint32_t *)p->w + g * words;
        if (a->mode == MODE_AFFINE)
            cpu->quant->affine(w, s, b, tile, some, a->group_size, a->bits);
        else
            cpu->quant->floating(w, p->back ? e : (uint8_t *)p->scales + g, tile, some, a->group_size, a->bits,
                                 a->mode == MODE_NVFP4, p->factor);
        if (p->back) {
            make_numbers(p, tile, w, s, b, e, some);
            for (int64_t i = 0; p->factor != 1 && i < some * a->group_size; i++) tile[i] *= p->factor;
            cpu->cast[DT_float32][p->in](p->w + g * a->group_size * size, tile, (size_t)(some * a->group_size));
        } else if (a->mode == MODE_AFFINE) {
            cpu->cast[DT_float32][p->out](p->scales + g * out, s, (size_t)some);
            cpu->cast[DT_float32][p->out](p->biases + g * out, b, (size_t)some);
        }
    }
}

static int pack_or_unpack(const struct run *r, bool back)
{
    const struct quant_args *a = r->args;
    mx_own hold = { NULL };
    for (int k = 0; k < r->nout; k++)
        if (out_new(r, k))
            return 1;
    MX_SCOPE(NULL);
    mx x = row_major(r->x[0], &hold);
    if (is_nil(x))
        return 1;
    struct packing p = { .a = a,
                         .in = x->dtype,
                         .out = x->dtype,
                         .x = host(x),
                         .back = back,
                         .w = host(r->y[0]),
                         .factor = factor_of(r->nin > 1 ? r->x[1] : NULL) };
    if (!back)
        p.scales = host(r->y[1]), p.biases = r->nout > 2 ? host(r->y[2]) : NULL;
    pool_for(x->size / a->group_size, WORTH_MULTIPLIED / 4 / a->group_size, pack_groups, &p);
    mx_drop(&hold);
    return 0;
}

int run_quantize(const struct run *r) { return pack_or_unpack(r, false); }
int run_round_trip(const struct run *r) { return pack_or_unpack(r, true); }

/* ---- dequantize */

struct numbering {
    struct quant_matrix m;
    const struct quant_kernel *k;
    int64_t parts, blocks; /* of a row, and of a part of it */
    enum dtype out;
    char *y;
    float factor;
};

static void number_parts(void *ctx, int64_t begin, int64_t end)
{
    const struct numbering *n = ctx;
    int lanes = cpu->quant->lanes, block = lanes * n->k->elements;
    int64_t size = (int64_t)dtype_size(n->out);
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / n->parts, first = i % n->parts * n->blocks;
        for (int64_t b = first; b < first + n->blocks && b * block < n->m.columns; b++) {
            float spread[512], tile[512];
            int64_t some = least(block, n->m.columns - b * block);
            n->k->unpack(&n->m, row, b, 1, spread);
            cpu->transpose[2](tile, n->k->elements, spread, lanes, (size_t)lanes, (size_t)n->k->elements);
            for (int64_t j = 0; n->factor != 1 && j < some; j++) tile[j] *= n->factor;
            cpu->cast[DT_float32][n->out](n->y + (row * n->m.columns + b * block) * size, tile, (size_t)some);
        }
    }
}

static struct quant_matrix packed_matrix(const struct quant_args *a, mx w, mx scales, mx biases)
{
    return (struct quant_matrix){ .w = host(w),
                                  .scales = host(scales),
                                  .biases = biases ? host(biases) : NULL,
                                  .scale = scale_kind_of(a, scales),
                                  .group = a->group_size,
                                  .columns = (int64_t)dim(w, -1) * 32 / a->bits };
}

/* Row-major versions of n operands, NULL where there is none; false after a failure. */
static bool pack_row_major(int n, mx x[], mx_own hold[])
{
    for (int i = 0; i < n; i++)
        if (x[i] && is_nil(x[i] = row_major(x[i], &hold[i])))
            return false;
    return true;
}

static void drop_unpacked(int n, mx_own hold[])
{
    for (int i = 0; i < n; i++) mx_drop(&hold[i]);
}

int run_dequantize(const struct run *r)
{
    const struct quant_args *a = r->args;
    int plain = a->mode == MODE_AFFINE ? 3 : 2;
    mx x[3] = { r->x[0], r->x[1], plain == 3 ? r->x[2] : NULL };
    mx_own hold[3] = { { NULL } };
    if (out_new(r, 0))
        return 1;
    if (r->y[0]->size == 0)
        return 0;
    MX_SCOPE(NULL);
    bool fine = pack_row_major(3, x, hold);
    if (fine) {
        struct numbering n = { .m = packed_matrix(a, x[0], x[1], x[2]),
                               .k = &cpu->quant->format[cpu_format_of(a)],
                               .out = r->y[0]->dtype,
                               .y = host(r->y[0]),
                               .factor = factor_of(r->nin > plain ? r->x[plain] : NULL) };
        int block = cpu->quant->lanes * n.k->elements;
        n.blocks = WORTH_MULTIPLIED / 2 / block;
        n.parts = ceil_div(n.m.columns, n.blocks * block);
        int64_t grain = WORTH_MULTIPLIED / 2 / n.m.columns;
        pool_for(r->y[0]->size / n.m.columns * n.parts, grain ? grain : 1, number_parts, &n);
    }
    drop_unpacked(3, hold);
    return !fine;
}

/* ---- products */

struct qmm {
    struct quant_matrix m; /* the first of the packed matrices */
    const struct quant_kernel *k;
    const struct gemm_kernel *g;
    bool transpose;
    int lanes, block;
    int64_t rows, columns, depth; /* of a matrix of x, of one of y, and what is summed over */
    int64_t wide;                 /* columns of y, in whole blocks where they come spread */
    int64_t deep, summed;         /* numbers of a row of x as laid out, and of its sums */
    int64_t words, groups;        /* of a packed matrix */
    const struct pairs *pairs;
    enum dtype t; /* of x and y */
    const char *x;
    char *y;
    float *spread, *sums;  /* rows of x, in the order of the groups, and sums for scales */
    float *panels;         /* of the same, or pairs of bfloat16, for groups of many rows: these are as they come */
    float *out;            /* rows of y in that order */
    bool direct;           /* y is out */
    bool unpacked;         /* codes are made numbers for few rows too */
    atomic_bool beyond;    /* few rows have numbers whose sums over codes and for biases may both be infinite */
    int64_t strips, strip; /* of a group, and columns of one */
    int64_t stretch, pieces;
    size_t space; /* floats, of each thread */
    float *room;
};

static bool few(const struct qmm *q, int64_t rows)
{
    return !q->unpacked && rows <= (q->transpose ? FEW_UNPACKED : FEW_ACROSS);
}

static struct quant_matrix packed_matrix_at(const struct qmm *q, int64_t i)
{
    struct quant_matrix m = q->m;
    int size = quant_scale_size(m.scale);
    m.w += i * q->words;
    m.scales = (const char *)m.scales + i * q->groups * size;
    if (m.biases)
        m.biases = (const char *)m.biases + i * q->groups * size;
    return m;
}

/* Row i of all groups' rows: where it is in x, or in y. */
static int64_t row_in(const struct qmm *q, int64_t i, bool y)
{
    int64_t pair = q->pairs->order[i / q->rows];
    return (y ? pair : q->pairs->a[pair]) * q->rows + i % q->rows;
}

/* Whether row i of all is multiplied with codes as they are read. */
static bool row_of_few(const struct qmm *q, int64_t i)
{
    int64_t g = 0, end = q->pairs->groups;
    while (g + 1 < end) {
        int64_t middle = (g + end) / 2;
        if (q->pairs->group[middle].first * q->rows <= i)
            g = middle;
        else
            end = middle;
    }
    return few(q, q->pairs->group[g].n * q->rows);
}

/* A block of a row of x, turned; its chunks' sums; then the factors of quant_kernel's shift. */
static void turn_block(const struct qmm *q, float *to, float *chunk, const float *x)
{
    int n = q->k->elements, lanes = q->lanes;
    cpu->transpose[2](to, lanes, x, n, (size_t)n, (size_t)lanes);
    memcpy(chunk, to, (size_t)lanes * sizeof *chunk);
    float factor = 1;
    for (int j = 1; j < n; j++) {
        factor *= j == n - 1 ? 1 / factor : 1 / (float)(1 << q->k->shift);
        for (int l = 0; l < lanes; l++) {
            chunk[l] += to[j * lanes + l];
            to[j * lanes + l] *= q->k->shift ? factor : 1;
        }
    }
}

static void lay_out_rows(void *ctx, int64_t begin, int64_t end)
{
    static const float large = 0x1p100f;
    struct qmm *q = ctx;
    int n = q->k->elements;
    int64_t size = (int64_t)dtype_size(q->t);
    for (int64_t i = begin; i < end; i++) {
        const char *x = q->x + row_in(q, i, false) * q->depth * size;
        float *to = q->spread + i * q->deep;
        bool of_few = row_of_few(q, i);
        if (!of_few && q->g->pace > 1) {
            memcpy(to, x, (size_t)(q->depth * size));
            continue;
        }
        if (!of_few || !q->transpose) {
            cpu->cast[q->t][DT_float32](to, x, (size_t)q->depth);
            continue;
        }
        float *sums = q->sums + i * q->summed;
        memset(sums, 0, (size_t)q->summed * sizeof *sums);
        for (int64_t k = 0; k < q->depth; k += q->block, to += q->block) {
            float tile[512], chunk[64];
            int64_t some = least(q->block, q->depth - k);
            cpu->cast[q->t][DT_float32](tile, x + k * size, (size_t)some);
            memset(tile + some, 0, (size_t)(q->block - some) * sizeof *tile);
            turn_block(q, to, chunk, tile);
            for (int64_t l = 0; l < some / n; l++) sums[(k + l * n) / q->m.group] += chunk[l];
        }
        for (int64_t l = 0; l < q->summed; l++)
            if (!(fabsf(sums[l]) < large))
                atomic_store_explicit(&q->beyond, true, memory_order_relaxed);
    }
}

static void hand_out_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct qmm *q = ctx;
    int n = q->k->elements;
    int64_t size = (int64_t)dtype_size(q->t);
    for (int64_t i = begin; i < end; i++) {
        char *y = q->y + row_in(q, i, true) * q->columns * size;
        const float *from = q->out + i * q->wide;
        if (q->transpose) {
            cpu->cast[DT_float32][q->t](y, from, (size_t)q->columns);
            continue;
        }
        for (int64_t k = 0; k < q->columns; k += q->block, from += q->block) {
            float tile[512];
            cpu->transpose[2](tile, n, from, q->lanes, (size_t)q->lanes, (size_t)n);
            cpu->cast[DT_float32][q->t](y + k * size, tile, (size_t)least(q->block, q->columns - k));
        }
    }
}

/* Columns at .. at + n of the rows of group g, as codes are read. */
static void multiply_few(const struct qmm *q, int64_t g, int64_t at, int64_t n)
{
    enum { TOGETHER = 8 }; /* packed rows that stay in L1 for all of x */
    struct quant_matrix m = packed_matrix_at(q, q->pairs->group[g].b);
    int64_t first = q->pairs->group[g].first * q->rows, rows = q->pairs->group[g].n * q->rows, some;
    const float *x = q->spread + first * q->deep;
    float *y = q->out + first * q->wide + at;
    if (!q->transpose)
        for (int64_t i = 0; i < rows; i++) memset(y + i * q->wide, 0, (size_t)n * sizeof *y);
    for (int64_t j = 0; j < n; j += some) {
        some = q->transpose && rows > QUANT_VECTORS ? least(TOGETHER, n - j) : n;
        for (int64_t i = 0; i < rows; i += QUANT_VECTORS) {
            int nv = (int)least(QUANT_VECTORS, rows - i);
            if (q->transpose)
                q->k->dot(&m, at + j, some, x + i * q->deep, q->deep, q->sums + (first + i) * q->summed, q->summed, nv,
                          y + i * q->wide + j, q->wide);
            else
                q->k->add_rows(&m, 0, q->depth, x + i * q->deep, q->deep, nv, at / q->block, n / q->block,
                               y + i * q->wide, q->wide);
        }
    }
}

/* Numbers as panels are made of them, in their place: float32, or half as many bytes. */
static void to_packed(const struct qmm *q, float *x, int64_t n)
{
    enum { RUN = 256 };
    uint16_t part[RUN];
    for (int64_t i = 0; i < n && q->g->pace > 1; i += RUN) {
        int64_t some = least(RUN, n - i);
        cpu->cast[DT_float32][DT_bfloat16](part, x + i, (size_t)some);
        memcpy((uint16_t *)x + i, part, (size_t)some * sizeof *part);
    }
}

/* From number to number that to_packed left: rows `n` floats apart. */
static int64_t apart(const struct qmm *q, int64_t n) { return q->g->pace > 1 ? 2 * n : n; }

/* A panel of `n` packed rows from `row` on, of their numbers at k .. k + depth. */
static void unpack_rows(const struct qmm *q, const struct quant_matrix *m, float *panel, float *tile, int64_t row,
                        int64_t n, int64_t k, int64_t depth)
{
    int nr = q->g->nr, lanes = q->lanes, each = q->k->elements;
    int64_t words = depth / each * q->k->words, row_words = m->columns / each * q->k->words;
    int64_t done = depth / q->g->pace, steps = gemm_steps(q->g, depth);
    uint32_t *turned = (uint32_t *)(tile + nr * depth), *as_pairs = (uint32_t *)panel;
    bool as_numbers = q->g->pace > 1 && !q->k->across_pairs;
    for (int64_t i = 0; i < nr; i += lanes) {
        int some = (int)least(lanes, n > i ? n - i : 0);
        if (some < lanes)
            memset(turned, 0, (size_t)(words * lanes) * sizeof *turned);
        cpu->transpose[2](turned, lanes, m->w + (row + i) * row_words + k / each * q->k->words, row_words,
                          (size_t)words, (size_t)some);
        if (as_numbers || q->g->pace == 1)
            q->k->across(m, row + i, some, k, depth, turned, (as_numbers ? tile : panel) + i, nr);
        else
            q->k->across_pairs(m, row + i, some, k, depth, turned, as_pairs + i, nr);
    }
    if (as_numbers) {
        for (int64_t i = 0; i < depth; i++) to_packed(q, tile + i * nr, nr);
        gemm_pack(q->g, false, panel, 0, tile, 1, apart(q, nr), nr, depth);
    } else {
        memset(panel + done * nr, 0, (size_t)((steps - done) * nr) * sizeof *panel);
    }
}

/* Panels of the columns at .. at + n for the stretch of `depth` from k on. */
static void unpack_panels(const struct qmm *q, const struct quant_matrix *m, float *panels, float *tile, int64_t at,
                          int64_t n, int64_t k, int64_t depth)
{
    int nr = q->g->nr;
    int64_t stride = nr * gemm_steps(q->g, depth);
    for (int64_t j = 0; j < n && q->transpose; j += nr, panels += stride)
        unpack_rows(q, m, panels, tile, at + j, least(nr, n - j), k, depth);
    if (q->transpose)
        return;
    for (int64_t i = 0; i < depth; i++) {
        q->k->unpack(m, k + i, at / q->block, n / q->block, tile + i * n);
        to_packed(q, tile + i * n, n);
    }
    gemm_pack(q->g, false, panels, stride, tile, 1, apart(q, n), n, depth);
}

static void multiply_many(const struct qmm *q, int64_t g, int64_t at, int64_t n, float *room)
{
    struct quant_matrix m = packed_matrix_at(q, q->pairs->group[g].b);
    int64_t first = q->pairs->group[g].first * q->rows, rows = q->pairs->group[g].n * q->rows;
    int64_t mr = q->g->mr, padded = ceil_div(rows, mr) * mr, depth;
    const float *a = q->panels + (first + g * mr) * gemm_steps(q->g, q->deep);
    float *panels = room, *tile = room + ceil_div(q->strip, q->g->nr) * q->g->nr * gemm_steps(q->g, q->stretch);
    for (int64_t k = 0; k < q->depth; k += depth) {
        depth = least(q->stretch, q->depth - k);
        int64_t steps = gemm_steps(q->g, depth);
        unpack_panels(q, &m, panels, tile, at, n, k, depth);
        q->g->tile(q->out + first * q->wide + at, q->wide, a + padded * gemm_steps(q->g, k), mr * steps, panels,
                   q->g->nr * steps, rows, n, steps, k > 0);
    }
}

/* Rows of groups in panels, PACKED of them, of one stretch, at a time.  There are `pieces` of what a group has, which
 * are dealt out apart where groups are few. */
enum { PACKED = 4 };
static int64_t packs(const struct qmm *q, int64_t rows)
{
    return ceil_div(rows, PACKED * q->g->mr) * ceil_div(q->depth, q->stretch);
}

static void pack_rows(const struct qmm *q, int64_t group, int64_t pack)
{
    const struct pair_group *g = &q->pairs->group[group];
    int64_t mr = q->g->mr, stretches = ceil_div(q->depth, q->stretch), first = g->first * q->rows,
            rows = g->n * q->rows;
    int64_t k = pack % stretches * q->stretch, depth = least(q->stretch, q->depth - k);
    int64_t row = pack / stretches * PACKED * mr, stride = mr * gemm_steps(q->g, depth);
    float *to = q->panels + (first + group * mr) * gemm_steps(q->g, q->deep) +
                ceil_div(rows, mr) * mr * gemm_steps(q->g, k) + row / mr * stride;
    const float *from = q->spread + (first + row) * q->deep;
    const void *x = q->g->pace > 1 ? (const void *)((const uint16_t *)from + k) : from + k;
    gemm_pack(q->g, true, to, stride, x, apart(q, q->deep), 1, least(rows - row, PACKED * mr), depth);
}

static void pack_quantized(void *ctx, int64_t begin, int64_t end)
{
    const struct qmm *q = ctx;
    for (int64_t i = begin; i < end; i++) {
        int64_t group = i / q->pieces, rows = q->pairs->group[group].n * q->rows;
        for (int64_t k = i % q->pieces; k < packs(q, rows) && !few(q, rows); k += q->pieces) pack_rows(q, group, k);
    }
}

static void multiply_strip(void *ctx, int64_t i, char *space)
{
    struct qmm *q = ctx;
    int64_t g = i / q->strips, at = i % q->strips * q->strip;
    int64_t n = least(q->strip, q->wide - at);
    if (few(q, q->pairs->group[g].n * q->rows))
        multiply_few(q, g, at, n);
    else
        multiply_many(q, g, at, n, (float *)space);
}

static int multiply_packed(struct qmm *q)
{
    const struct pairs *p = q->pairs;
    int64_t total = p->n * q->rows, most = 0;
    for (int64_t g = 0; g < p->groups; g++) most = p->group[g].n > most ? p->group[g].n : most;
    most *= q->rows;
    bool many = !few(q, most);
    int threads = total * q->columns * q->depth < 2 * WORTH_MULTIPLIED ? 1 : pool_threads();
    int64_t unit = q->transpose ? 8 : q->block;
    const bool scarce = ceil_div(q->wide, STRIP) * p->groups < 6 * threads; /* a late thread would hold others up */
    q->strip = ceil_div(scarce ? STRIP / 2 : STRIP, unit) * unit;
    if (!many) { /* as few as give every thread some, each worth a thread */
        int64_t worth = ceil_div(WORTH_MULTIPLIED, q->depth * (most ? most : 1)),
                share = ceil_div(q->wide, 4 * threads);
        q->strip = ceil_div(worth > share ? worth : share, unit) * unit;
    }
    q->strips = ceil_div(q->wide, q->strip);
    q->stretch = least(q->g->kc, q->depth);
    q->space =
        many ? (size_t)(ceil_div(q->strip, q->g->nr) * q->g->nr * (q->stretch + gemm_steps(q->g, q->stretch))) : 0;
    size_t spread = (size_t)(total * q->deep), sums = q->transpose ? (size_t)(total * q->summed) : 0,
           panels = many ? (size_t)((total + p->groups * q->g->mr) * gemm_steps(q->g, q->deep)) : 0,
           out = q->direct ? 0 : (size_t)(total * q->wide);
    struct buffer *b = buffer_new(sizeof(float) * (spread + sums + panels + out + (size_t)threads * q->space + 16));
    if (!b)
        return 1;
    q->spread = b->host;
    q->sums = q->spread + spread;
    q->panels = q->sums + sums;
    q->room = q->panels + panels;
    q->out = q->direct ? (float *)q->y : q->room + (size_t)threads * q->space;
    pool_for(total, 1 + WORTH_MULTIPLIED / 2 / q->deep, lay_out_rows, q);
    if (atomic_load_explicit(&q->beyond, memory_order_relaxed) && !q->unpacked) {
        buffer_release(b);
        q->unpacked = true;
        return multiply_packed(q);
    }
    q->pieces = p->groups < 4 * threads ? packs(q, most) : 1;
    int64_t n = p->groups * q->pieces;
    if (many)
        pool_for(n, 1 + WORTH_MOVED / (1 + total * q->depth / n), pack_quantized, q);
    crew_for(q->strips * p->groups, threads, (char *)q->room, q->space * sizeof *q->room, multiply_strip, q);
    if (!q->direct)
        pool_for(total, 1 + WORTH_MULTIPLIED / 2 / q->wide, hand_out_rows, q);
    buffer_release(b);
    return 0;
}

static int run_qmm(const struct run *r, bool gather)
{
    const struct quant_args *a = r->args;
    bool affine = a->mode == MODE_AFFINE;
    mx x[4] = { r->x[0], r->x[1], r->x[2], affine ? r->x[3] : NULL };
    mx_own hold[4] = { { NULL } };
    struct pairs pairs;
    const char *name = a->both ? "gather_qqmm" : "gather_qmm";
    if (gather ? pairs_of_indices(&pairs, name, x[0], x[1], r->x[3 + affine], r->x[4 + affine])
               : pairs_of_batch(&pairs, x[0], x[1]))
        return 1;
    int failed = out_new(r, 0);
    mx y = r->y[0];
    MX_SCOPE(NULL);
    if (!failed && y->size > 0 && dim(x[0], -1) == 0) {
        memset(host(y), 0, (size_t)nbytes(y));
    } else if (!failed && y->size > 0) {
        failed = !pack_row_major(4, x, hold);
        if (!failed) {
            struct qmm q = { .m = packed_matrix(a, x[1], x[2], x[3]),
                             .k = &cpu->quant->format[cpu_format_of(a)],
                             .g = &cpu->gemm->type[x[0]->dtype == DT_bfloat16 ? bf16_gemm() : GEMM_f32],
                             .transpose = a->transpose,
                             .lanes = cpu->quant->lanes,
                             .rows = dim(x[0], -2),
                             .columns = dim(y, -1),
                             .depth = dim(x[0], -1),
                             .pairs = &pairs,
                             .t = x[0]->dtype,
                             .x = host(x[0]),
                             .y = host(y) };
            q.block = q.lanes * q.k->elements;
            q.wide = q.transpose ? q.columns : ceil_div(q.columns, q.block) * q.block;
            q.deep = q.transpose ? ceil_div(q.depth, q.block) * q.block : q.depth;
            q.summed = ceil_div(q.depth / q.m.group, q.lanes) * q.lanes;
            q.words = (int64_t)dim(x[1], -2) * dim(x[1], -1);
            q.groups = (int64_t)dim(x[2], -2) * dim(x[2], -1);
            q.direct = q.t == DT_float32 && q.transpose && pairs.in_order;
            failed = multiply_packed(&q);
        }
        drop_unpacked(4, hold);
    }
    pairs_free(&pairs);
    return failed;
}

int run_quantized_matmul(const struct run *r) { return run_qmm(r, false); }
int run_gather_qmm(const struct run *r) { return run_qmm(r, true); }

/* ---- e4m3 by itself */

struct e4m3 {
    enum dtype t;
    const char *x;
    char *y;
};

static void some_to_fp8(void *ctx, int64_t begin, int64_t end)
{
    const struct e4m3 *e = ctx;
    for (int64_t i = begin, some; i < end; i += some) {
        float tile[TILE];
        some = least(TILE, end - i);
        cpu->cast[e->t][DT_float32](tile, e->x + i * (int64_t)dtype_size(e->t), (size_t)some);
        cpu->quant->to_e4m3((uint8_t *)e->y + i, tile, some);
    }
}

static void some_from_fp8(void *ctx, int64_t begin, int64_t end)
{
    const struct e4m3 *e = ctx;
    for (int64_t i = begin, some; i < end; i += some) {
        float tile[TILE];
        some = least(TILE, end - i);
        cpu->quant->from_e4m3(tile, (const uint8_t *)e->x + i, some);
        cpu->cast[DT_float32][e->t](e->y + i * (int64_t)dtype_size(e->t), tile, (size_t)some);
    }
}

static int run_e4m3(const struct run *r, enum dtype t, void (*fn)(void *, int64_t, int64_t))
{
    mx_own hold = { NULL };
    if (out_new(r, 0))
        return 1;
    MX_SCOPE(NULL);
    mx x = row_major(r->x[0], &hold);
    if (is_nil(x))
        return 1;
    struct e4m3 e = { .t = t, .x = host(x), .y = host(r->y[0]) };
    pool_for(x->size, WORTH_MULTIPLIED, fn, &e);
    mx_drop(&hold);
    return 0;
}

int run_to_fp8(const struct run *r) { return run_e4m3(r, r->x[0]->dtype, some_to_fp8); }
int run_from_fp8(const struct run *r) { return run_e4m3(r, r->y[0]->dtype, some_from_fp8); }
